package bind

import (
	"slices"
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
)

// databaseRegions binds the clauses of regions of CREATE DATABASE; nil if there are none.
func (b *builder) databaseRegions(n *tree.CreateDatabase) *DatabaseRegions {
	r := &DatabaseRegions{Primary: string(n.PrimaryRegion), Secondary: string(n.SecondaryRegion), Restricted: n.Placement == tree.DataPlacementRestricted}
	if n.SurvivalGoal == tree.SurvivalGoalRegionFailure {
		r.Survival = catalog.SurviveRegion
	}
	if n.SuperRegion.Name != "" {
		super := catalog.SuperRegion{Name: string(n.SuperRegion.Name)}
		for _, m := range n.SuperRegion.Regions {
			super.Regions = append(super.Regions, string(m))
		}
		slices.Sort(super.Regions)
		r.Super = append(r.Super, super)
	}
	for _, m := range n.Regions {
		if slices.Contains(r.Regions, string(m)) {
			b.fail(sqlstate.InvalidName, nil, "region \"%s\" defined multiple times", m)
		}
		r.Regions = append(r.Regions, string(m))
	}
	if r.Primary == "" {
		if len(r.Regions) > 0 || r.Secondary != "" || len(r.Super) > 0 || n.SurvivalGoal != tree.SurvivalGoalDefault || n.Placement != tree.DataPlacementUnspecified {
			raise(sqlstate.New(sqlstate.InvalidDatabaseDefinition, "PRIMARY REGION must be specified if REGIONS, SURVIVE, PLACEMENT, SECONDARY REGION or SUPER REGION is").
				WithHint("Add PRIMARY REGION."))
		}
		return nil
	}
	if !slices.Contains(r.Regions, r.Primary) {
		r.Regions = append(r.Regions, r.Primary)
	}
	slices.Sort(r.Regions)
	return r
}

// locality binds the clause LOCALITY of a table of a database; nil is no clause.
func (b *builder) locality(database string, n *tree.Locality) catalog.Locality {
	if n == nil {
		return catalog.Locality{}
	}
	db, err := b.View.Database(b.ctx, database)
	check(err)
	if db == nil || !db.MultiRegion() {
		raise(sqlstate.New(sqlstate.InvalidTableDefinition, "cannot set LOCALITY on a table in a database that is not multi-region enabled").
			WithHint("ALTER DATABASE %s SET PRIMARY REGION <region>", scalar.QuoteIdent(database)))
	}
	b.dependsOn(db.ID, db.Version)
	switch n.LocalityLevel {
	case tree.LocalityLevelGlobal:
		return catalog.Locality{Kind: catalog.Global}
	case tree.LocalityLevelRow:
		return catalog.Locality{Kind: catalog.RegionalByRow}
	}
	region := string(n.TableRegion)
	if region != "" && !db.HasRegion(region) {
		raise(unknownRegion(region, db))
	}
	return catalog.Locality{Region: region}
}

// unknownRegion refuses a region that a database does not have.
func unknownRegion(region string, db *catalog.Database) error {
	return sqlstate.New(sqlstate.UndefinedObject, "region \"%s\" has not been added to database \"%s\"", region, db.Name).
		WithDetail("available regions: %s", strings.Join(db.Regions, ", ")).
		WithHint("Use one of these regions, or add it by ALTER DATABASE %s ADD REGION %s.", scalar.QuoteIdent(db.Name), scalar.QuoteIdent(region))
}

// regionDefault is the default of the region column: the gateway's region, if the database has it.
const regionDefault = "default_to_database_primary_region(gateway_region())"

// byRow gives a table its region column: the one that the clause or the name crdb_region says, which has to be of the region enum, or a hidden one.
func (d *tableDef) byRow(ct *CreateTable, n *tree.Locality) {
	b := d.b
	db, err := b.View.Database(b.ctx, d.name.Database)
	check(err)
	enum := b.typeByID(uint32(db.RegionEnum))
	if enum == nil {
		b.fail(sqlstate.InternalError, nil, "database \"%s\" has no enum of regions", db.Name)
	}
	name := string(n.RegionalByRowColumn)
	if name == "" {
		name = catalog.RegionColumn
	}
	ct.RegionColumn = name
	c := d.column(name)
	if c == nil {
		if n.RegionalByRowColumn != "" {
			b.fail(sqlstate.UndefinedColumn, nil, "column \"%s\" in REGIONAL BY ROW AS does not exist", name)
		}
		d.add(ColumnDef{Name: name, Type: enum, NotNull: true, Hidden: true})
		e, _, err := parse.ParseExpr(regionDefault)
		check(err)
		x := b.expr(&exprContext{scope: &scope{level: &level{}}, clause: "DEFAULT expressions", noSubquery: true, noColumns: true}, e)
		d.columns[len(d.columns)-1].Default = scalar.FormatStored(&scalar.Cast{Arg: x, To: enum, Explicit: true})
		return
	}
	if c.Type.Enum == nil || c.Type.Enum.ID != enum.Enum.ID {
		raise(sqlstate.New(sqlstate.InvalidTableDefinition, "cannot use column \"%s\" of type %s for REGIONAL BY ROW", name, c.Type.Name()).
			WithDetail("The region column must be of type %s.", catalog.RegionEnumName))
	}
	c.NotNull = true
}

// skipUniqueChecks binds the storage parameter of that name, which tables that are REGIONAL BY ROW have.
func (b *builder) skipUniqueChecks(ct *CreateTable, value string) {
	if ct.Locality.Kind != catalog.RegionalByRow {
		raise(sqlstate.New(sqlstate.InvalidParameterValue, "%s is for tables that are REGIONAL BY ROW", catalog.SkipUniqueChecks))
	}
	switch strings.ToLower(value) {
	case "true", "on", "yes", "1":
		ct.Options[catalog.SkipUniqueChecks] = "true"
	case "false", "off", "no", "0":
	default:
		raise(sqlstate.New(sqlstate.InvalidParameterValue, "invalid value for boolean option \"%s\": %s", catalog.SkipUniqueChecks, value))
	}
}
