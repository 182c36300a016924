package bind

import (
	"slices"
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// databaseRegions binds the clauses of regions of CREATE DATABASE; nil if there are none.
func (b *builder) databaseRegions(n *tree.CreateDatabase) *DatabaseRegions {
	r := &DatabaseRegions{Primary: string(n.PrimaryRegion), Secondary: string(n.SecondaryRegion), Restricted: n.Placement == tree.DataPlacementRestricted,
		Placed: n.Placement != tree.DataPlacementUnspecified, Witness: b.stmt.WitnessRegion}
	r.Survival = b.survival(n.SurvivalGoal)
	if n.SuperRegion.Name != "" {
		r.Super = append(r.Super, b.superRegion(n.SuperRegion.Name, n.SuperRegion.Regions))
	}
	for _, m := range n.Regions {
		if slices.Contains(r.Regions, string(m)) {
			raise(sqlstate.New(sqlstate.InvalidName, "region \"%s\" defined multiple times", m).WithHint("Name each region once."))
		}
		r.Regions = append(r.Regions, string(m))
	}
	if r.Primary == "" {
		if len(r.Regions) > 0 || r.Secondary != "" || len(r.Super) > 0 || n.SurvivalGoal != tree.SurvivalGoalDefault || n.Placement != tree.DataPlacementUnspecified || r.Witness != "" {
			raise(sqlstate.New(sqlstate.InvalidDatabaseDefinition, "PRIMARY REGION must be specified if REGIONS, SURVIVE, PLACEMENT, SECONDARY REGION, WITNESS REGION or SUPER REGION is").
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
	if region != "" && !db.Settled(region) {
		raise(UnsettledRegion(region, db))
	}
	return catalog.Locality{Region: region}
}

// setLocality binds ALTER TABLE ... SET LOCALITY.
func (b *builder) setLocality(n *tree.AlterTableLocality) Statement {
	t := b.alterTarget(n.Name, n.IfExists)
	a := b.alter(t, n.Name)
	if t == nil {
		return a
	}
	if t.Kind != catalog.KindTable || t.Materialized {
		b.fail(sqlstate.WrongObjectType, nil, "\"%s\" is not a table", t.Name)
	}
	database := b.View.CurrentDatabase()
	if n.Name.NumParts == 3 {
		database = n.Name.Parts[2]
	}
	s := &SetLocality{Locality: b.locality(database, n.Locality)}
	if s.Locality.Kind != catalog.RegionalByRow {
		return b.act(a, s)
	}
	enum := b.regionEnum(database)
	if s.Column = string(n.Locality.RegionalByRowColumn); s.Column == "" {
		s.Column = catalog.RegionColumn
	}
	switch c := t.ColumnByName(s.Column); {
	case c != nil:
		mustHaveHomes(c.Name, c.Type, enum)
	case n.Locality.RegionalByRowColumn != "":
		raise(noRegionColumn(s.Column))
	default:
		home := b.homeColumn(enum)
		s.Add = &home
	}
	return b.act(a, s)
}

// UnsettledRegion refuses a region that is being added or dropped.
func UnsettledRegion(region string, db *catalog.Database) error {
	return sqlstate.New(sqlstate.ObjectNotInPrerequisite, "region \"%s\" of database \"%s\" is being added or dropped", region, db.Name).
		WithHint("Wait until SHOW JOBS has no running change of the database's regions.")
}

// survival is a survival goal as it was written: parse has taken a number of regions out of the text.
func (b *builder) survival(goal tree.SurvivalGoal) catalog.Survival {
	switch {
	case goal != tree.SurvivalGoalRegionFailure:
		return catalog.SurviveZone
	case b.stmt.SurviveRegions == 0:
		return catalog.SurviveRegion
	case b.stmt.SurviveRegions > catalog.MaxSurvival:
		b.fail(sqlstate.FeatureNotSupported, nil, "a database survives the failure of at most %d regions", catalog.MaxSurvival)
	}
	return catalog.Survival(b.stmt.SurviveRegions)
}

// superRegion is a super region as it was written.
func (b *builder) superRegion(name tree.Name, regions []tree.Name) catalog.SuperRegion {
	super := catalog.SuperRegion{Name: string(name)}
	for _, m := range regions {
		if slices.Contains(super.Regions, string(m)) {
			raise(sqlstate.New(sqlstate.InvalidName, "region \"%s\" defined multiple times", m).WithHint("Name each region once."))
		}
		super.Regions = append(super.Regions, string(m))
	}
	slices.Sort(super.Regions)
	return super
}

// SetLocality is ALTER TABLE ... SET LOCALITY.
type SetLocality struct {
	Locality catalog.Locality
	// Column has the home of each row, if it is REGIONAL BY ROW; Add is its definition if the table does not have it.
	Column string
	Add    *ColumnDef
}

// RegionAction is what ALTER DATABASE does to the regions of a database: one of the types below.
type RegionAction interface {
	// Tag is the command tag after ALTER DATABASE.
	Tag() string
}

// SetPrimaryRegion makes a region the home of the tables that name none; the first one makes the database multi-region.
type SetPrimaryRegion struct{ Region string }

// AddRegion adds a region.
type AddRegion struct {
	Region      string
	IfNotExists bool
}

// DropRegion removes a region that nothing is homed in; with the last one the database has no regions any more.
type DropRegion struct {
	Region   string
	IfExists bool
}

// SetSurvival changes the survival goal.
type SetSurvival struct{ Goal catalog.Survival }

// SetPlacement is PLACEMENT.
type SetPlacement struct{ Restricted bool }

// SetSecondaryRegion names the region to which leaseholders go while the primary one is gone.
type SetSecondaryRegion struct{ Region string }

// DropSecondaryRegion removes the secondary region's role; the region remains.
type DropSecondaryRegion struct{ IfExists bool }

// SetWitnessRegion gives the database a witness region; unless Replace, it has none yet.
type SetWitnessRegion struct {
	Region      string
	Replace     bool
	IfNotExists bool
}

// DropWitnessRegion takes the witness region away. Region is its name, or empty.
type DropWitnessRegion struct {
	Region   string
	IfExists bool
}

// AddSuperRegion makes a super region.
type AddSuperRegion struct{ Super catalog.SuperRegion }

// AlterSuperRegion gives a super region other members.
type AlterSuperRegion struct{ Super catalog.SuperRegion }

// DropSuperRegion removes a super region; its members remain.
type DropSuperRegion struct{ Name string }

// SetSuperSurvival gives a super region a survival goal of its own, or, if Inherit, the database's again.
type SetSuperSurvival struct {
	Name    string
	Goal    catalog.Survival
	Inherit bool
}

// Tag implements RegionAction.
func (*SetPrimaryRegion) Tag() string { return "PRIMARY REGION" }

// Tag implements RegionAction.
func (*AddRegion) Tag() string { return "ADD REGION" }

// Tag implements RegionAction.
func (*DropRegion) Tag() string { return "DROP REGION" }

// Tag implements RegionAction.
func (*SetSurvival) Tag() string { return "SURVIVE" }

// Tag implements RegionAction.
func (*SetPlacement) Tag() string { return "PLACEMENT" }

// Tag implements RegionAction.
func (*SetSecondaryRegion) Tag() string { return "SET SECONDARY REGION" }

// Tag implements RegionAction.
func (*DropSecondaryRegion) Tag() string { return "DROP SECONDARY REGION" }

// Tag implements RegionAction.
func (a *SetWitnessRegion) Tag() string {
	if a.Replace {
		return "SET WITNESS REGION"
	}
	return "ADD WITNESS REGION"
}

// Tag implements RegionAction.
func (*DropWitnessRegion) Tag() string { return "DROP WITNESS REGION" }

// Tag implements RegionAction.
func (*AddSuperRegion) Tag() string { return "ADD SUPER REGION" }

// Tag implements RegionAction.
func (*AlterSuperRegion) Tag() string { return "ALTER SUPER REGION" }

// Tag implements RegionAction.
func (*DropSuperRegion) Tag() string { return "DROP SUPER REGION" }

// Tag implements RegionAction.
func (*SetSuperSurvival) Tag() string { return "ALTER SUPER REGION" }

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
	enum := b.regionEnum(d.name.Database)
	name := string(n.RegionalByRowColumn)
	if name == "" {
		name = catalog.RegionColumn
	}
	ct.RegionColumn, d.region = name, name
	c := d.column(name)
	if c == nil {
		if n.RegionalByRowColumn != "" {
			raise(noRegionColumn(name))
		}
		home := b.homeColumn(enum)
		if b.Rehome {
			home.OnUpdate = b.homeText(rehome, enum)
		}
		d.add(home)
		d.draft.Columns[len(d.draft.Columns)-1].OnUpdate = home.OnUpdate
		return
	}
	mustHaveHomes(name, c.Type, enum)
	c.NotNull = true
}

// homeColumn is the hidden region column that a table gets if it has none.
func (b *builder) homeColumn(enum *types.T) ColumnDef {
	return ColumnDef{Name: catalog.RegionColumn, Type: enum, NotNull: true, Hidden: true, Default: b.homeText(regionDefault, enum)}
}

// rehome is the value on update of the region column of a table whose rows move to the gateway that changes them (enable_auto_rehoming).
const rehome = "rehome_row()"

// homeText is the text to store of an expression for a region column.
func (b *builder) homeText(text string, enum *types.T) string {
	e, _, err := parse.ParseExpr(text)
	check(err)
	x := b.expr(&exprContext{scope: &scope{level: &level{}}, clause: "DEFAULT expressions", noSubquery: true, noColumns: true}, e)
	return scalar.FormatStored(&scalar.Cast{Arg: x, To: enum, Explicit: true})
}

// rehomes reports whether the rows of a table move by themselves, by the value on update of a column.
func rehomes(c *catalog.Column) bool { return c != nil && strings.Contains(c.OnUpdate, rehome) }

// errRehomed refuses a foreign key on a column that changes whenever a row does.
func errRehomed(column string) error {
	return sqlstate.New(sqlstate.InvalidTableDefinition, "column \"%s\" of a table whose rows are rehomed automatically cannot be part of a foreign key", column).
		WithHint("Leave the region column out of the foreign key, or drop rehoming by ALTER TABLE ... ALTER COLUMN \"%s\" DROP ON UPDATE.", column)
}

// mustHaveHomes refuses a region column of another type than the enum of the regions.
func mustHaveHomes(name string, t, enum *types.T) {
	if t.Enum == nil || t.Enum.ID != enum.Enum.ID {
		raise(sqlstate.New(sqlstate.InvalidTableDefinition, "cannot use column \"%s\" of type %s for REGIONAL BY ROW", name, t.Name()).
			WithDetail("The region column must be of type %s.", catalog.RegionEnumName).
			WithHint("Give the column this type, or use another one by REGIONAL BY ROW AS."))
	}
}

func noRegionColumn(name string) error {
	return sqlstate.New(sqlstate.UndefinedColumn, "column \"%s\" in REGIONAL BY ROW AS does not exist", name).
		WithHint("Declare it as %s NOT NULL, or leave AS out: the table then gets a hidden column %s.", catalog.RegionEnumName, catalog.RegionColumn)
}

// regionEnum is the type of the region columns of a database.
func (b *builder) regionEnum(database string) *types.T {
	db, err := b.View.Database(b.ctx, database)
	check(err)
	enum := b.typeByID(uint32(db.RegionEnum))
	if enum == nil {
		b.fail(sqlstate.InternalError, nil, "database \"%s\" has no enum of regions", db.Name)
	}
	return enum
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

// computedRegion binds the expression of a region column that is computed, over the columns of a scan; nil if there is none.
func (b *builder) computedRegion(t *catalog.Table, ids []opt.ColumnID) scalar.Expr {
	if !t.ByRow() {
		return nil
	}
	c := t.Column(t.RegionColumn)
	if c == nil || c.Generated == "" {
		return nil
	}
	row, sc := b.newRow(t, t.Name)
	known := true
	e := scalar.ReplaceColumns(b.assign(b.stored(t, c.Generated, sc), c, nil), func(x *scalar.Column) scalar.Expr {
		n := *x
		if i := slices.Index(row, x.ID); i >= 0 {
			n.ID = ids[i]
		}
		known = known && n.ID != 0
		return &n
	})
	if !known {
		return nil
	}
	return e
}

// inferredBy is the constraint that the storage parameter infer_rbr_region_col_using_constraint names.
func (b *builder) inferredBy(p tree.StorageParam) string {
	switch v := p.Value.(type) {
	case *tree.StrVal, *tree.UnresolvedName:
		if name := constText(v); name != "" {
			return name
		}
	}
	raise(sqlstate.New(sqlstate.InvalidParameterValue, "%s has to be the name of a foreign key", catalog.InferRegion).
		WithHint("ALTER TABLE ... RESET (%s) removes it.", catalog.InferRegion))
	return ""
}
