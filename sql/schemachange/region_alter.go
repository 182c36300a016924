package schemachange

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"meridian/placement"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/catalog/region"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// A statement of regions is one transaction on the catalogue: what it changes of the database, of its enum and of its tables, commits together, or not at
// all. A region that is added or dropped takes two such transactions, with a job between them:
//
//	schemachange.SC9 (I7): while a region is added its value is readable, while it is dropped leaving: in neither state does any node write it
//	    (types.ValueState), and no table gets its home there (catalog.Database.Changing). The value becomes public when every node knows it and the region's
//	    partitions have their replicas; it goes when no row, no table and no stored text has it. So no row ever has a region that its reader does not know.

// alterRegions is ALTER DATABASE for regions.
func (c *change) alterRegions(id catalog.ID, action bind.RegionAction) error {
	db := c.Catalog.Database(id)
	if db.RegionEnum != 0 && !c.Catalog.IsNew(db.RegionEnum) {
		// One change of a database's regions at a time: the job of the other one ends soon.
		if d := c.Catalog.Descriptor(db.RegionEnum); d != nil && d.Type != nil && d.Type.Job != 0 {
			return c.Catalog.JobFirst(db.RegionEnum)
		}
	}
	switch a := action.(type) {
	case *bind.SetPrimaryRegion:
		return c.setPrimaryRegion(db, a.Region)
	case *bind.AddRegion:
		return c.addRegion(db, a)
	case *bind.DropRegion:
		return c.dropRegion(db, a)
	case *bind.SetSurvival:
		if !db.MultiRegion() {
			return c.needsPrimary(db, "a survival goal")
		}
		had := db.Witnessed()
		if db.Survival = a.Goal; db.Witnessed() && !had {
			c.awaitPlacement(db.ID, 0)
		}
	case *bind.SetWitnessRegion:
		return c.addWitness(db, a)
	case *bind.DropWitnessRegion:
		return c.dropWitness(db, a)
	case *bind.SetPlacement:
		if err := c.mayUseRegions(false, true); err != nil {
			return err
		}
		if !db.MultiRegion() {
			return c.needsPrimary(db, "PLACEMENT")
		}
		if db.Restricted = a.Restricted; db.Restricted {
			c.awaitPlacement(db.ID, 0)
		}
	case *bind.SetSecondaryRegion:
		return c.setSecondaryRegion(db, a.Region)
	case *bind.DropSecondaryRegion:
		if db.SecondaryRegion == "" {
			if a.IfExists {
				c.noticef(sqlstate.SuccessfulCompletion, "database \"%s\" has no secondary region, skipping", db.Name)
				return nil
			}
			return sqlstate.New(sqlstate.UndefinedObject, "database \"%s\" has no secondary region", db.Name).
				WithHint("DROP SECONDARY REGION IF EXISTS drops one if there is one.")
		}
		db.SecondaryRegion = ""
	default:
		if err := c.alterSuperRegions(db, action); err != nil {
			return err
		}
	}
	return validRegions(db)
}

// needsPrimary refuses a clause for a database without regions.
func (c *change) needsPrimary(db *catalog.Database, what string) error {
	return sqlstate.New(sqlstate.InvalidDatabaseDefinition, "database \"%s\" must have a primary region before it can have %s", db.Name, what).
		WithHint("ALTER DATABASE %s SET PRIMARY REGION <region>", quoteIdent(db.Name))
}

// mayMakeMultiRegion refuses the first region of a database whose zone configuration says by hand where replicas are.
func mayMakeMultiRegion(db *catalog.Database) error {
	z := db.Zone
	if z == nil {
		return nil
	}
	var fields []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"constraints", z.Constraints != nil}, {"global_reads", z.GlobalReads != nil}, {"lease_preferences", z.LeasePreferences != nil},
		{"num_replicas", z.NumReplicas != nil}, {"num_voters", z.NumVoters != nil}, {"voter_constraints", z.VoterConstraints != nil},
	} {
		if f.set {
			fields = append(fields, f.name)
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return sqlstate.New(sqlstate.InvalidObjectDefinition, "the zone configuration of database \"%s\" sets by hand what regions decide: %s", db.Name, strings.Join(fields, ", ")).
		WithHint("Discard it first: ALTER DATABASE %s CONFIGURE ZONE DISCARD.", quoteIdent(db.Name))
}

// notPartitioned refuses the first region of a database with partitioned tables: regions partition them.
func (c *change) notPartitioned(db *catalog.Database) error {
	return c.Catalog.EachRelation(db.ID, func(t *catalog.Table) error {
		for i := range t.Indexes {
			x := &t.Indexes[i]
			if t.Dropped || x.Partitioning == nil {
				continue
			}
			e := sqlstate.New(sqlstate.ObjectNotInPrerequisite, "cannot set the primary region of database \"%s\": it has tables with PARTITION BY", db.Name)
			if x.Primary {
				return e.WithDetail("Table \"%s\" is partitioned.", t.Name).WithHint("ALTER TABLE %s PARTITION BY NOTHING", quoteIdent(t.Name))
			}
			return e.WithDetail("Index \"%s\" of table \"%s\" is partitioned.", x.Name, t.Name).WithHint("ALTER INDEX %s PARTITION BY NOTHING", quoteIdent(x.Name))
		}
		return nil
	})
}

func (c *change) setPrimaryRegion(db *catalog.Database, region string) error {
	if err := c.mustBeRegion(region); err != nil {
		return err
	}
	if !db.MultiRegion() {
		if err := mayMakeMultiRegion(db); err != nil {
			return err
		}
		if t, err := c.view.Type(c.ctx, "public", catalog.RegionEnumName); err != nil {
			return err
		} else if t != nil && t.Database == db.ID {
			return sqlstate.New(sqlstate.DuplicateObject, "type \"%s\" already exists", catalog.RegionEnumName).
				WithHint("The enum of the regions needs its name: rename the type.")
		}
		if err := c.notPartitioned(db); err != nil {
			return err
		}
		if err := c.untagged(db); err != nil {
			return err
		}
		db.PrimaryRegion, db.Regions = region, []string{region}
		if err := c.makeRegionEnum(db); err != nil {
			return err
		}
		return c.Catalog.EachRelation(db.ID, func(t *catalog.Table) error {
			if t.Materialized && !t.Temporary() {
				c.Catalog.Table(t.ID).Locality = catalog.Locality{Kind: catalog.Global}
			}
			return nil
		})
	}
	switch {
	case !db.HasRegion(region):
		return sqlstate.New(sqlstate.InvalidName, "region \"%s\" has not been added to the database", region).
			WithHint("Add it first: ALTER DATABASE %s ADD REGION %s.", quoteIdent(db.Name), quoteIdent(region))
	case !db.Settled(region):
		return bind.UnsettledRegion(region, db)
	case region == db.SecondaryRegion:
		return sqlstate.New(sqlstate.InvalidDatabaseDefinition, "region \"%s\" is the secondary region", region).
			WithHint("A database's primary and secondary regions differ: ALTER DATABASE %s DROP SECONDARY REGION.", quoteIdent(db.Name))
	}
	db.PrimaryRegion = region
	if forbids(db) {
		c.awaitPlacement(db.ID, 0)
	}
	return validRegions(db)
}

func (c *change) setSecondaryRegion(db *catalog.Database, region string) error {
	switch {
	case !db.MultiRegion():
		return c.needsPrimary(db, "a secondary region")
	case db.HasRegion(region) && !db.Settled(region):
		return bind.UnsettledRegion(region, db)
	}
	db.SecondaryRegion = region
	return validRegions(db)
}

// alterSuperRegions makes, changes or removes a super region.
func (c *change) alterSuperRegions(db *catalog.Database, action bind.RegionAction) error {
	if err := c.mayUseRegions(true, false); err != nil {
		return err
	}
	if !db.MultiRegion() {
		return c.needsPrimary(db, "super regions")
	}
	find := func(name string) (int, error) {
		i := slices.IndexFunc(db.SuperRegions, func(s catalog.SuperRegion) bool { return s.Name == name })
		if i < 0 {
			return 0, sqlstate.New(sqlstate.UndefinedObject, "super region \"%s\" of database \"%s\" does not exist", name, db.Name).
				WithHint("SHOW SUPER REGIONS FROM DATABASE %s lists them.", quoteIdent(db.Name))
		}
		return i, nil
	}
	members := func(s catalog.SuperRegion) error {
		for _, r := range s.Regions {
			if db.HasRegion(r) && !db.Settled(r) {
				return bind.UnsettledRegion(r, db)
			}
		}
		return nil
	}
	switch a := action.(type) {
	case *bind.AddSuperRegion:
		db.SuperRegions = append(db.SuperRegions, a.Super)
		slices.SortStableFunc(db.SuperRegions, func(x, y catalog.SuperRegion) int { return strings.Compare(x.Name, y.Name) })
		c.awaitPlacement(db.ID, 0)
		return members(a.Super)
	case *bind.AlterSuperRegion:
		i, err := find(a.Super.Name)
		if err != nil {
			return err
		}
		db.SuperRegions[i].Regions = a.Super.Regions
		c.awaitPlacement(db.ID, 0)
		return members(a.Super)
	case *bind.DropSuperRegion:
		i, err := find(a.Name)
		if err != nil {
			return err
		}
		db.SuperRegions = slices.Delete(db.SuperRegions, i, i+1)
	case *bind.SetSuperSurvival:
		i, err := find(a.Name)
		if err != nil {
			return err
		}
		db.SuperRegions[i].Survival, db.SuperRegions[i].Own = a.Goal, !a.Inherit
	}
	return nil
}

func (c *change) addRegion(db *catalog.Database, a *bind.AddRegion) error {
	if !db.MultiRegion() {
		return sqlstate.New(sqlstate.InvalidDatabaseDefinition, "cannot add region \"%s\" to database \"%s\": it has no primary region", a.Region, db.Name).
			WithHint("Set the primary region first: ALTER DATABASE %s SET PRIMARY REGION %s.", quoteIdent(db.Name), quoteIdent(a.Region))
	}
	if db.HasRegion(a.Region) {
		if a.IfNotExists {
			c.noticef(sqlstate.DuplicateObject, "region \"%s\" already added to database \"%s\", skipping", a.Region, db.Name)
			return nil
		}
		return sqlstate.New(sqlstate.DuplicateObject, "region \"%s\" already added to database \"%s\"", a.Region, db.Name)
	}
	if err := c.mustBeRegion(a.Region); err != nil {
		return err
	}
	if err := c.indexesFirst(db); err != nil {
		return err
	}
	db.Regions = append(db.Regions, a.Region)
	slices.Sort(db.Regions)
	if err := validRegions(db); err != nil {
		return err
	}
	t := c.Catalog.Type(db.RegionEnum)
	e := t.Enum
	e.Values = slices.Clone(e.Values)
	// The values are in the order of their names.
	add := &bind.AlterType{Type: t, Adds: true, Add: a.Region}
	if i := slices.IndexFunc(e.Values, func(v types.EnumValue) bool { return v.Label > a.Region }); i >= 0 {
		add.Before, add.Beside = true, e.Values[i].Label
	}
	if err := c.addValue(&e, add); err != nil {
		return err
	}
	if !c.Catalog.IsNew(db.RegionEnum) {
		db.Changing = append(db.Changing, a.Region)
	}
	return c.replaceType(db.RegionEnum, &e)
}

func (c *change) dropRegion(db *catalog.Database, a *bind.DropRegion) error {
	region := a.Region
	switch {
	case !db.MultiRegion():
		if a.IfExists {
			c.noticef(sqlstate.SuccessfulCompletion, "database \"%s\" has no regions, skipping", db.Name)
			return nil
		}
		return sqlstate.New(sqlstate.InvalidDatabaseDefinition, "database \"%s\" has no regions to drop", db.Name).
			WithHint("ALTER DATABASE %s SET PRIMARY REGION <region> gives it the first one.", quoteIdent(db.Name))
	case !db.HasRegion(region):
		if a.IfExists {
			c.noticef(sqlstate.SuccessfulCompletion, "region \"%s\" has not been added to database \"%s\", skipping", region, db.Name)
			return nil
		}
		return sqlstate.New(sqlstate.UndefinedObject, "region \"%s\" has not been added to database \"%s\"", region, db.Name).
			WithHint("Its regions are %s.", strings.Join(db.Regions, ", "))
	case !db.Settled(region):
		return bind.UnsettledRegion(region, db)
	case region == db.PrimaryRegion && len(db.Regions) > 1:
		return sqlstate.New(sqlstate.InvalidDatabaseDefinition, "cannot drop region \"%s\": it is the primary region of database \"%s\"", region, db.Name).
			WithHint("Choose another primary region by ALTER DATABASE %s SET PRIMARY REGION <region>, or drop the other regions first.", quoteIdent(db.Name))
	case region == db.SecondaryRegion:
		return sqlstate.New(sqlstate.InvalidDatabaseDefinition, "cannot drop region \"%s\": it is the secondary region of database \"%s\"", region, db.Name).
			WithHint("ALTER DATABASE %s DROP SECONDARY REGION", quoteIdent(db.Name))
	}
	if s := db.SuperRegionOf(region); s != nil {
		return sqlstate.New(sqlstate.DependentObjectsExist, "region \"%s\" is part of super region \"%s\"", region, s.Name).
			WithHint("Drop the super region first: ALTER DATABASE %s DROP SUPER REGION %s.", quoteIdent(db.Name), quoteIdent(s.Name))
	}
	if err := c.extensionsWithout(db, region); err != nil {
		return err
	}
	if region == db.PrimaryRegion {
		return c.dropLastRegion(db)
	}
	rest := *db
	rest.Regions = slices.DeleteFunc(slices.Clone(db.Regions), func(r string) bool { return r == region })
	if err := validRegions(&rest); err != nil {
		return err
	}
	if err := c.indexesFirst(db); err != nil {
		return err
	}
	enum := c.Catalog.Type(db.RegionEnum).Enum
	if err := noHome(c.Catalog, db, region, &enum); err != nil {
		return err
	}
	if !c.Alone || c.Catalog.IsNew(db.RegionEnum) {
		return c.dropRegionHere(db, region, &enum)
	}
	enum.Values = slices.Clone(enum.Values)
	for i := range enum.Values {
		if v := &enum.Values[i]; v.Label == region {
			v.State = types.ValueLeaving
		}
	}
	db.Changing = append(db.Changing, region)
	return c.replaceType(db.RegionEnum, &enum)
}

// extensionsWithout refuses to drop a region that an extension of ALTER LOCALITY is for or asks for, and one without which an extension can't be satisfied.
func (c *change) extensionsWithout(db *catalog.Database, without string) error {
	e := db.Extensions
	if e.Empty() {
		return nil
	}
	refuse := func(locality string, format string, args ...any) error {
		return sqlstate.New(sqlstate.DependentObjectsExist, "cannot drop region \"%s\": the configuration of locality %s %s", without, locality, fmt.Sprintf(format, args...)).
			WithHint("Change it first, or discard it by ALTER DATABASE %s ALTER LOCALITY %s CONFIGURE ZONE DISCARD.", quoteIdent(db.Name), locality)
	}
	rest := *db
	rest.Regions = slices.DeleteFunc(slices.Clone(db.Regions), func(r string) bool { return r == without })
	check := func(locality string, z *catalog.ZoneConfig, home string, global bool) error {
		if z == nil {
			return nil
		}
		if home == without {
			return refuse(locality, "is for it")
		}
		for _, l := range []*[]placement.Conjunction{z.Constraints, z.VoterConstraints, z.LeasePreferences} {
			if l == nil {
				continue
			}
			for _, k := range *l {
				if slices.Contains(k.Constraints, placement.Constraint{Key: "region", Value: without}) {
					return refuse(locality, "asks for it")
				}
			}
		}
		if len(rest.Regions) == 0 {
			return nil
		}
		own := region.Partition(&rest, home)
		if global {
			own = region.Table(&rest, &catalog.Table{Locality: catalog.Locality{Kind: catalog.Global}})
		}
		around, _ := region.Effective(region.Object{Database: &rest}.Layers(c.view.Zones(), c.cluster(), catalog.SurviveZone))
		if err := validZone(own.Over(around)); err != nil {
			return refuse(locality, "can't be satisfied without it: %v", err)
		}
		return nil
	}
	if err := check("GLOBAL", e.Global, db.PrimaryRegion, true); err != nil {
		return err
	}
	for _, r := range slices.Sorted(maps.Keys(e.In)) {
		if err := check("REGIONAL IN "+scalar.QuoteIdent(r), e.In[r], r, false); err != nil {
			return err
		}
	}
	for _, r := range rest.Regions {
		if err := check("REGIONAL", e.Regional, r, false); err != nil {
			return err
		}
	}
	return nil
}

// dropRegionHere drops a region within a transaction, which locks the tables that may have rows of the region (schemachange.SC5).
func (c *change) dropRegionHere(db *catalog.Database, region string, enum *types.Enum) error {
	var ids []catalog.ID
	if err := c.Catalog.EachRelation(db.ID, func(t *catalog.Table) error {
		if t.UsesEnum(enum) && t.Kind == catalog.KindTable && !t.Temporary() && !c.Catalog.IsNew(t.ID) {
			ids = append(ids, t.ID)
		}
		return nil
	}); err != nil {
		return err
	}
	if len(ids) > 0 {
		if err := c.lock(ids...); err != nil {
			return err
		}
	}
	if err := c.o.noRows(c.ctx, c.kv, c.view, db, region, enum); err != nil {
		return err
	}
	return forgetRegion(c.ctx, c.Catalog, db, region)
}

// dropLastRegion makes a database one without regions: its tables are placed as the cluster's are, and the enum goes.
func (c *change) dropLastRegion(db *catalog.Database) error {
	enum := c.Catalog.Type(db.RegionEnum).Enum
	if err := c.Catalog.EachRelation(db.ID, func(t *catalog.Table) error {
		what := ""
		switch {
		case t.Locality.Kind == catalog.RegionalByRow:
			what = "it is REGIONAL BY ROW"
		case t.UsesEnum(&enum) || tableMentions(t, &enum):
			what = "it uses the type " + catalog.RegionEnumName
		default:
			return nil
		}
		return sqlstate.New(sqlstate.DependentObjectsExist, "cannot drop the last region \"%s\" because of table \"%s\": %s", db.PrimaryRegion, t.Name, what).
			WithHint("Change the table first, or drop it.")
	}); err != nil {
		return err
	}
	if err := c.Catalog.EachRelation(db.ID, func(t *catalog.Table) error {
		if t.Locality != (catalog.Locality{}) {
			c.Catalog.Table(t.ID).Locality = catalog.Locality{}
		}
		return nil
	}); err != nil {
		return err
	}
	c.dropType(db.RegionEnum)
	db.PrimaryRegion, db.SecondaryRegion, db.WitnessRegion, db.Regions, db.Changing, db.SuperRegions = "", "", "", nil, nil, nil
	db.RegionEnum, db.Survival, db.Restricted, db.Extensions = 0, catalog.SurviveZone, false, nil
	return nil
}

// indexesFirst lets jobs that build or remove indexes end before the partitions of their table change.
func (c *change) indexesFirst(db *catalog.Database) error {
	return c.Catalog.EachRelation(db.ID, func(t *catalog.Table) error {
		if t.RegionColumn != 0 && slices.ContainsFunc(t.Mutations, func(m catalog.Mutation) bool { return m.Kind == catalog.MutateIndex && m.Job != 0 && !m.Drop }) {
			return c.Catalog.JobFirst(t.ID)
		}
		return nil
	})
}

// regionsFirst lets a change of the regions of a table's rows end before the table gets another index.
func (c *change) regionsFirst(t *catalog.Table) error {
	if t.RegionColumn == 0 {
		return nil
	}
	d := c.Catalog.Descriptor(t.Database)
	if d == nil || d.Database == nil || d.Database.RegionEnum == 0 {
		return nil
	}
	if e := c.Catalog.Descriptor(d.Database.RegionEnum); e != nil && e.Type != nil && e.Type.Job != 0 {
		return c.Catalog.JobFirst(e.Type.ID)
	}
	return nil
}

// noHome refuses to drop a region that is the home of a table, or that a stored text names.
func noHome(cat *lease.Txn, db *catalog.Database, region string, enum *types.Enum) error {
	return cat.EachRelation(db.ID, func(t *catalog.Table) error {
		if t.Dropped {
			return nil
		}
		if t.Locality.Kind == catalog.RegionalByTable && t.Locality.Region == region {
			return sqlstate.New(sqlstate.DependentObjectsExist, "cannot drop region \"%s\": it is the home region of table \"%s\"", region, t.Name).
				WithHint("Give the table another home: ALTER TABLE %s SET LOCALITY REGIONAL BY TABLE IN PRIMARY REGION.", quoteIdent(t.Name))
		}
		named := false
		t.EachText(func(s string) string {
			named = named || namesValue(s, enum, region)
			return s
		})
		if named {
			return sqlstate.New(sqlstate.DependentObjectsExist, "cannot drop region \"%s\": an expression of %s \"%s\" names it", region, described(t), t.Name)
		}
		return nil
	})
}

// namesValue reports whether a stored text has a constant of an enum with a value.
func namesValue(text string, e *types.Enum, label string) (found bool) {
	parse.TypeReferences(text, func(r parse.TypeReference) (string, string) {
		if r.HasLiteral && (r.OID == e.ID || r.OID == e.Array) {
			t := types.EnumOf(e)
			if r.Array || r.OID == e.Array {
				t = types.ArrayOf(t)
			}
			if d, err := types.ParseStored(t, r.Literal); err == nil {
				found = found || hasValue(d, t, e, label)
			}
		}
		return r.Literal, ""
	})
	return found
}

// hasValue reports whether a value of an enum, or of arrays of it, is or has the one with a label.
func hasValue(d types.Datum, t *types.T, e *types.Enum, label string) bool {
	if d.IsNull() {
		return false
	}
	if t.Kind == types.KindArray {
		return slices.ContainsFunc(d.Array().Elems, func(x types.Datum) bool { return hasValue(x, t.Elem, e, label) })
	}
	l, ok := e.Label(d.Int())
	return ok && l == label
}

// refuseRegionEnum refuses to change or drop the enum of a database's regions as a type.
func (c *change) refuseRegionEnum(t *catalog.Type, verb string) error {
	d := c.Catalog.Descriptor(t.Database)
	if d == nil || d.Database == nil || d.Database.RegionEnum != t.ID {
		return nil
	}
	return sqlstate.New(sqlstate.WrongObjectType, "\"%s\" is a multi-region enum and can't be %s directly", t.Enum.Name, verb).
		WithHint("Its values are the regions of the database: ALTER DATABASE %s ADD REGION, or DROP REGION.", quoteIdent(d.Database.Name))
}
