package bind

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/placement"
	"meridian/sql/catalog"
	"meridian/sql/catalog/region"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
)

// ConfigureZone is ALTER ... CONFIGURE ZONE.
type ConfigureZone struct {
	// Range is set for ALTER RANGE; else Database is, with Table, Index and Partition as far as the statement names them.
	Range    string
	Database *catalog.Database
	Table    *catalog.Table
	// Indexes is the index, or with a partition each index that it is of; nil: the table itself.
	Indexes   []*catalog.Index
	Partition string
	// Extension is ALTER LOCALITY; else it is nil.
	Extension *ZoneLocality
	// Discard takes away all fields; else Set has the new ones, and FromParent names those that take what the object inherits now.
	Discard    bool
	Set        *catalog.ZoneConfig
	FromParent []string
}

// ZoneLocality is the locality of ALTER LOCALITY: GLOBAL, REGIONAL, or REGIONAL IN a region.
type ZoneLocality struct {
	Global bool
	Region string
}

// Tag is the command tag of the statement.
func (z *ConfigureZone) Tag() string {
	switch {
	case z.Range != "":
		return "CONFIGURE ZONE"
	case z.Extension != nil:
		return "ALTER DATABASE"
	}
	return "CONFIGURE ZONE"
}

// zoneTarget resolves the object of CONFIGURE ZONE and of SHOW ZONE CONFIGURATION.
func (b *builder) zoneTarget(n *tree.ZoneSpecifier) *ConfigureZone {
	z := &ConfigureZone{}
	switch {
	case n.NamedZone != "":
		z.Range = string(n.NamedZone)
		known := []string{catalog.DefaultRange, catalog.LivenessRange, catalog.MetaRange, catalog.SystemRange}
		if !slices.Contains(known, z.Range) {
			raise(sqlstate.New(sqlstate.UndefinedObject, "there is no range named \"%s\"", z.Range).WithHint("Ranges with names are: %s.", strings.Join(known, ", ")))
		}
		return z
	case n.Database != "":
		z.Database = b.changedDatabase(string(n.Database))
		return z
	}
	in := &n.TableOrIndex
	if in.Index != "" && in.Table.ObjectName == "" {
		ref := b.indexRef(in)
		if ref == nil {
			b.fail(sqlstate.UndefinedObject, nil, "index \"%s\" does not exist", in.Index)
		}
		z.Table, z.Indexes = ref.Table, []*catalog.Index{ref.Index}
	} else {
		z.Table = b.table(&in.Table)
		if in.Index != "" {
			z.Indexes = []*catalog.Index{b.indexByName(z.Table, string(in.Index))}
		}
	}
	b.uses(z.Table)
	if z.Table.Kind == catalog.KindView || z.Table.Kind == catalog.KindVirtual {
		b.fail(sqlstate.WrongObjectType, nil, "\"%s\" has no rows in ranges", z.Table.Name)
	}
	if z.Table.Temporary() {
		b.fail(sqlstate.WrongObjectType, nil, "\"%s\" is a temporary table", z.Table.Name)
	}
	dbs, err := b.View.Databases(b.ctx)
	check(err)
	for _, d := range dbs {
		if d.ID == z.Table.Database {
			z.Database = d
		}
	}
	if n.Partition == "" {
		return z
	}
	z.Partition = string(n.Partition)
	all := z.Indexes
	if all == nil || n.StarIndex {
		all = nil
		for i := range z.Table.Indexes {
			all = append(all, &z.Table.Indexes[i])
		}
	}
	z.Indexes = nil
	for _, x := range all {
		if x.Partitioning.Find(z.Partition) != nil || x.Partitioning == nil && z.Table.Locality.Kind == catalog.RegionalByRow && z.Database.HasRegion(z.Partition) {
			z.Indexes = append(z.Indexes, x)
		}
	}
	switch {
	case len(z.Indexes) == 0:
		b.fail(sqlstate.UndefinedObject, nil, "partition \"%s\" does not exist on table \"%s\"", z.Partition, z.Table.Name)
	case len(z.Indexes) > 1 && !n.StarIndex && !n.TargetsIndex() && z.Indexes[0].Partitioning != nil:
		raise(sqlstate.New(sqlstate.InvalidParameterValue, "partition \"%s\" is of more than one index of table \"%s\"", z.Partition, z.Table.Name).
			WithHint("Name the index, as in ALTER PARTITION %s OF INDEX %s@%s, or all of them: %s@*.", parse.QuoteIdent(z.Partition), parse.QuoteIdent(z.Table.Name),
				parse.QuoteIdent(z.Indexes[0].Name), parse.QuoteIdent(z.Table.Name)))
	}
	return z
}

func (b *builder) configureZone(n *tree.SetZoneConfig) Statement {
	if n.TargetsPartition() && !n.TargetsIndex() && n.TableOrIndex.Table.ObjectName == "" {
		b.fail(sqlstate.SyntaxError, nil, "a table or index is needed")
	}
	z := b.zoneTarget(&n.ZoneSpecifier)
	b.zoneSettings(z, &n.ZoneConfigSettings)
	return z
}

// zoneExtension binds ALTER DATABASE ... ALTER LOCALITY ... CONFIGURE ZONE.
func (b *builder) zoneExtension(n *tree.AlterDatabaseSetZoneConfigExtension) Statement {
	z := &ConfigureZone{Database: b.changedDatabase(string(n.DatabaseName)), Extension: &ZoneLocality{Region: string(n.RegionName)}}
	z.Extension.Global = n.LocalityLevel == tree.LocalityLevelGlobal
	if !z.Database.MultiRegion() {
		raise(sqlstate.New(sqlstate.InvalidDatabaseDefinition, "database \"%s\" is not multi-region enabled", z.Database.Name).
			WithHint("ALTER DATABASE %s SET PRIMARY REGION <region>", parse.QuoteIdent(z.Database.Name)))
	}
	if r := z.Extension.Region; r != "" && !z.Database.HasRegion(r) {
		raise(unknownRegion(r, z.Database))
	}
	b.zoneSettings(z, &n.ZoneConfigSettings)
	return z
}

// zoneSettings binds USING and DISCARD.
func (b *builder) zoneSettings(z *ConfigureZone, n *tree.ZoneConfigSettings) {
	const names = "num_replicas, num_voters, constraints, voter_constraints, lease_preferences, gc.ttlseconds, range_min_bytes, range_max_bytes and global_reads"
	switch {
	case n.Discard || n.YAMLConfig == tree.DNull:
		z.Discard = true
		return
	case n.YAMLConfig != nil:
		raise(sqlstate.New(sqlstate.FeatureNotSupported, "CONFIGURE ZONE = with a YAML document is not supported").WithHint("Write CONFIGURE ZONE USING variable = value, ..."))
	case n.SetDefault:
		raise(sqlstate.New(sqlstate.FeatureNotSupported, "CONFIGURE ZONE USING DEFAULT is not supported").
			WithHint("CONFIGURE ZONE DISCARD makes the object inherit all of its configuration."))
	}
	z.Set = &catalog.ZoneConfig{}
	seen := map[string]bool{}
	for _, o := range n.Options {
		name := strings.ToLower(string(o.Key))
		if seen[name] {
			b.fail(sqlstate.SyntaxError, nil, "variable \"%s\" is given twice", name)
		}
		seen[name] = true
		if !slices.Contains(region.Variables, name) {
			raise(sqlstate.New(sqlstate.InvalidParameterValue, "unknown variable of a zone configuration: \"%s\"", name).WithHint("The variables are %s.", names))
		}
		if o.Value == nil {
			z.FromParent = append(z.FromParent, name)
			continue
		}
		b.zoneVariable(z.Set, name, b.zoneValue(name, o.Value))
	}
}

// zoneValue is the text of a constant.
func (b *builder) zoneValue(name string, e tree.Expr) string {
	switch v := unparen(e).(type) {
	case *tree.StrVal:
		return v.RawString()
	case *tree.NumVal:
		return v.String()
	case *tree.DBool:
		return strconv.FormatBool(bool(*v))
	case *tree.UnaryExpr:
		if n, ok := v.Expr.(*tree.NumVal); ok {
			return "-" + n.String()
		}
	case *tree.UnresolvedName:
		if v.NumParts == 1 {
			return v.Parts[0]
		}
	}
	raise(sqlstate.New(sqlstate.InvalidParameterValue, "the value of variable \"%s\" is not a constant", name))
	return ""
}

// zoneVariable sets one field by the text of its value.
func (b *builder) zoneVariable(c *catalog.ZoneConfig, name, text string) {
	number := func(least, most int64) int64 {
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			b.fail(sqlstate.InvalidParameterValue, nil, "the value of variable \"%s\" is not an integer: %s", name, text)
		}
		if v < least || v > most {
			b.fail(sqlstate.CheckViolation, nil, "the value of variable \"%s\" is out of range: %d is not between %d and %d", name, v, least, most)
		}
		return v
	}
	count := func() *int {
		v := int(number(1, maxReplicas))
		if name == "num_replicas" && v == 2 {
			raise(sqlstate.New(sqlstate.CheckViolation, "2 replicas are no better than 1: both are needed for every write").WithHint("Use 3 replicas at least."))
		}
		return &v
	}
	bytes := func() *int64 {
		v := number(0, math.MaxInt64)
		return &v
	}
	list := func(parsed []placement.Conjunction, err error) *[]placement.Conjunction {
		if err != nil {
			raise(sqlstate.New(sqlstate.InvalidParameterValue, "invalid value of variable \"%s\": %s", name, err).
				WithHint("Examples: constraints = '[+region=us-east1, -zone=b]', '{\"+region=us-east1\": 2}'; lease_preferences = '[[+region=us-east1], [+region=us-west1]]'."))
		}
		return &parsed
	}
	switch name {
	case "num_replicas":
		c.NumReplicas = count()
	case "num_voters":
		c.NumVoters = count()
	case "constraints":
		c.Constraints = list(region.ParseConstraints(text))
	case "voter_constraints":
		c.VoterConstraints = list(region.ParseConstraints(text))
	case "lease_preferences":
		c.LeasePreferences = list(region.ParsePreferences(text))
	case "gc.ttlseconds":
		v := int32(number(1, math.MaxInt32))
		c.GCSeconds = &v
	case "range_min_bytes":
		c.RangeMinBytes = bytes()
	case "range_max_bytes":
		c.RangeMaxBytes = bytes()
	case "global_reads":
		v, err := strconv.ParseBool(strings.ToLower(text))
		if err != nil {
			b.fail(sqlstate.InvalidParameterValue, nil, "the value of variable \"global_reads\" is not a boolean: %s", text)
		}
		c.GlobalReads = &v
	}
}

// maxReplicas bounds the replicas of a range; larger groups commit no faster, and every reader of a descriptor pays for them.
const maxReplicas = 99

// showZone binds SHOW ZONE CONFIGURATION and SHOW ZONE CONFIGURATIONS.
func (b *builder) showZone(n *tree.ShowZoneConfig) Statement {
	if n.ZoneSpecifier == (tree.ZoneSpecifier{}) {
		return b.sub("SELECT target, raw_config_sql FROM meridian_internal.zones WHERE raw_config_sql IS NOT NULL ORDER BY kind, target", nil)
	}
	z := b.zoneTarget(&n.ZoneSpecifier)
	cond := "table_id IS NULL AND database_id IS NULL AND range_name = " + parse.QuoteLiteral(z.Range)
	switch {
	case z.Table != nil:
		cond = "table_id = " + itoa(int(z.Table.ID))
		switch {
		case z.Partition != "":
			cond += " AND index_id = " + itoa(int(z.Indexes[0].ID)) + " AND partition_name = " + parse.QuoteLiteral(z.Partition)
		case z.Indexes != nil:
			cond += " AND index_id = " + itoa(int(z.Indexes[0].ID)) + " AND partition_name IS NULL"
		default:
			cond += " AND index_id IS NULL"
		}
	case z.Database != nil:
		cond = "table_id IS NULL AND database_id = " + itoa(int(z.Database.ID))
	}
	return b.sub("SELECT source AS target, full_config_sql AS raw_config_sql FROM meridian_internal.zones WHERE "+cond, nil)
}
