package schemachange

import (
	"fmt"
	"slices"
	"strings"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// giveRegions gives a new database its regions, with their enum.
func (c *change) giveRegions(db *catalog.Database, r *bind.DatabaseRegions) error {
	if r == nil {
		return nil
	}
	for _, region := range r.Regions {
		if err := c.mustBeRegion(region); err != nil {
			return err
		}
	}
	if err := c.mayUseRegions(len(r.Super) > 0, r.Placed); err != nil {
		return err
	}
	db.PrimaryRegion, db.SecondaryRegion, db.Regions, db.SuperRegions = r.Primary, r.Secondary, r.Regions, r.Super
	db.Survival, db.Restricted = r.Survival, r.Restricted
	if r.Witness != "" {
		if err := c.setWitness(db, r.Witness); err != nil {
			return err
		}
	}
	if err := validRegions(db); err != nil {
		return err
	}
	return c.makeRegionEnum(db)
}

// mayUseRegions refuses clauses that the session has switched off.
func (c *change) mayUseRegions(super, placement bool) error {
	off := ""
	switch {
	case super && c.NoSuperRegions:
		off = "enable_super_regions"
	case placement && c.NoPlacement:
		off = "enable_multiregion_placement_policy"
	default:
		return nil
	}
	return sqlstate.New(sqlstate.FeatureNotSupported, "the session has switched this off: %s", off).WithHint("SET %s = on", off)
}

// makeRegionEnum makes the enum of a database's regions.
func (c *change) makeRegionEnum(db *catalog.Database) error {
	o := &oids{c: c}
	array, id := o.next(), o.next()
	t := &catalog.Type{ID: id, Database: db.ID, SchemaID: db.Schemas["public"], Owner: db.Owner,
		Enum: types.Enum{ID: uint32(id), Array: uint32(array), Schema: "public", Name: catalog.RegionEnumName}}
	for i, region := range db.Regions {
		t.Enum.Values = append(t.Enum.Values, types.EnumValue{Label: region, Place: int64(i+1) * types.EnumGap, OID: uint32(o.next())})
	}
	if o.err != nil {
		return o.err
	}
	db.RegionEnum = id
	c.Catalog.New(lease.Descriptor{Type: t})
	return nil
}

// mustBeRegion refuses a region in which the cluster has no node.
func (c *change) mustBeRegion(region string) error {
	if c.o.Regions == nil {
		return nil
	}
	known := c.o.Regions()
	if slices.Contains(known, region) {
		return nil
	}
	e := sqlstate.New(sqlstate.InvalidName, "region \"%s\" does not exist", region)
	if len(known) == 0 {
		return e.WithHint("No node has a region: start the nodes with --locality region=<region>,zone=<zone>.")
	}
	return e.WithHint("valid regions: %s", strings.Join(known, ", "))
}

// validRegions refuses combinations of a database's regions, goal and placement.
func validRegions(db *catalog.Database) error {
	goal, of := db.Survival, len(db.Regions)
	if err := validWitness(db); err != nil {
		return err
	}
	if goal != catalog.SurviveZone && of < goal.Regions() && !db.Witnessed() {
		return sqlstate.New(sqlstate.InvalidName, "at least %d regions are required for surviving %s", goal.Regions(), failure(goal)).
			WithHint("Add regions to the database by ALTER DATABASE %s ADD REGION <region>, or use SURVIVE ZONE FAILURE%s.", quoteIdent(db.Name), orWitness(goal))
	}
	if db.Restricted && goal != catalog.SurviveZone {
		return sqlstate.New(sqlstate.InvalidDatabaseDefinition, "PLACEMENT RESTRICTED can't be combined with SURVIVE REGION FAILURE").
			WithHint("Replicas that stay in their home region do not survive its failure: use SURVIVE ZONE FAILURE.")
	}
	if db.SecondaryRegion != "" {
		switch {
		case db.SecondaryRegion == db.PrimaryRegion:
			return sqlstate.New(sqlstate.InvalidDatabaseDefinition, "region \"%s\" can't be both the primary and the secondary region", db.PrimaryRegion).
				WithHint("Leases go to the secondary region while the primary one is away: choose another region of the database.")
		case !db.HasRegion(db.SecondaryRegion):
			return sqlstate.New(sqlstate.InvalidDatabaseDefinition, "region \"%s\" has not been added to the database", db.SecondaryRegion).
				WithHint("The secondary region is one of the database's: %s.", strings.Join(db.Regions, ", "))
		}
	}
	in, names := map[string]string{}, map[string]bool{}
	for _, s := range db.SuperRegions {
		if names[s.Name] {
			return sqlstate.New(sqlstate.DuplicateObject, "super region \"%s\" already exists", s.Name).
				WithHint("ALTER DATABASE %s ALTER SUPER REGION %s VALUES <regions> gives it other regions.", quoteIdent(db.Name), quoteIdent(s.Name))
		}
		names[s.Name] = true
		for _, r := range s.Regions {
			if !db.HasRegion(r) {
				return sqlstate.New(sqlstate.UndefinedObject, "region \"%s\" not part of database \"%s\"", r, db.Name).
					WithHint("Add it first: ALTER DATABASE %s ADD REGION %s.", quoteIdent(db.Name), quoteIdent(r))
			}
			if other, ok := in[r]; ok {
				return sqlstate.New(sqlstate.DuplicateObject, "region \"%s\" is already part of super region \"%s\"", r, other).
					WithHint("A region is part of one super region at most: take it out by ALTER SUPER REGION %s VALUES <regions>, or DROP SUPER REGION %s.", quoteIdent(other), quoteIdent(other))
			}
			in[r] = s.Name
		}
		own := db.Survival
		if s.Own {
			own = s.Survival
		}
		if own != catalog.SurviveZone && len(s.Regions) < own.Regions() {
			return sqlstate.New(sqlstate.InvalidName, "at least %d regions of super region \"%s\" are required for surviving %s", own.Regions(), s.Name, failure(own)).
				WithHint("Add regions by ALTER DATABASE %s ALTER SUPER REGION %s VALUES ..., or let it SURVIVE ZONE FAILURE.", quoteIdent(db.Name), quoteIdent(s.Name))
		}
		if db.Restricted && own != catalog.SurviveZone {
			return sqlstate.New(sqlstate.InvalidDatabaseDefinition, "PLACEMENT RESTRICTED can't be combined with SURVIVE REGION FAILURE of super region \"%s\"", s.Name)
		}
	}
	return nil
}

// failure names the failure that a goal is about.
func failure(goal catalog.Survival) string {
	switch goal {
	case catalog.SurviveZone:
		return "a zone failure"
	case catalog.SurviveRegion:
		return "a region failure"
	}
	return fmt.Sprintf("the failure of %d regions", int(goal))
}
