package schemachange

import (
	"meridian/cluster"
	"meridian/placement"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/catalog/region"
	"meridian/sql/sqlstate"
	"meridian/version"
)

// addWitness gives a database a witness region, or another one.
func (c *change) addWitness(db *catalog.Database, a *bind.SetWitnessRegion) error {
	switch {
	case !db.MultiRegion():
		return c.needsPrimary(db, "a witness region")
	case db.WitnessRegion == a.Region && (a.Replace || a.IfNotExists):
		c.noticef(sqlstate.DuplicateObject, "region \"%s\" is already the witness region of database \"%s\", skipping", a.Region, db.Name)
		return nil
	case db.WitnessRegion != "" && !a.Replace:
		return sqlstate.New(sqlstate.DuplicateObject, "database \"%s\" already has a witness region, \"%s\"", db.Name, db.WitnessRegion).
			WithHint("A database has one at most: replace it by ALTER DATABASE %s SET WITNESS REGION %s.", quoteIdent(db.Name), quoteIdent(a.Region))
	}
	if err := c.setWitness(db, a.Region); err != nil {
		return err
	}
	if err := validRegions(db); err != nil {
		return err
	}
	if db.Witnessed() {
		c.awaitPlacement(db.ID, 0)
	} else if db.Survival == catalog.SurviveZone {
		c.noticef(sqlstate.SuccessfulCompletion, "ranges get a witness when database \"%s\" survives the failure of a region: ALTER DATABASE %s SURVIVE REGION FAILURE", db.Name, quoteIdent(db.Name))
	}
	return nil
}

// setWitness checks all that is about the witness region alone.
func (c *change) setWitness(db *catalog.Database, witness string) error {
	if !c.o.Leases.Active(version.Witnesses) {
		return sqlstate.New(sqlstate.FeatureNotSupported, "there is no witness region before the upgrade of the cluster is finalized").
			WithHint("Finalize it by meridian upgrade finalize, when all nodes have the later binary.")
	}
	if err := c.mustBeRegion(witness); err != nil {
		return err
	}
	if len(db.Regions) > 2 {
		return sqlstate.New(sqlstate.InvalidDatabaseDefinition, "database \"%s\" has %d regions, and needs no witness region", db.Name, len(db.Regions)).
			WithDetail("A witness makes two regions survive the failure of either; three and more do by themselves.").
			WithHint("Use SURVIVE REGION FAILURE without a witness region, or leave the database two regions.")
	}
	// Its log has users' bytes for a moment (I8).
	effective, _ := region.Effective(region.Object{Database: db}.Layers(c.view.Zones(), c.cluster(), catalog.SurviveZone))
	z := region.Zone(effective, c.cluster())
	there := placement.Node{Locality: cluster.Locality{{Key: "region", Value: witness}}}
	for _, l := range [][]placement.Conjunction{z.Constraints, z.VoterConstraints} {
		for i := range l {
			if db.Zone != nil && l[i].Replicas == 0 && l[i].ForbidsRegion(&there) {
				return sqlstate.New(sqlstate.InvalidDatabaseDefinition, "the zone configuration of database \"%s\" forbids replicas in region \"%s\"", db.Name, witness).
					WithDetail("A witness keeps no rows, but its log has their bytes until the other replicas have them.").
					WithHint("Choose another region, or change the configuration by ALTER DATABASE %s CONFIGURE ZONE.", quoteIdent(db.Name))
			}
		}
	}
	db.WitnessRegion = witness
	return nil
}

func (c *change) dropWitness(db *catalog.Database, a *bind.DropWitnessRegion) error {
	if db.WitnessRegion == "" || a.Region != "" && a.Region != db.WitnessRegion {
		what := "a witness region"
		if a.Region != "" {
			what = "witness region \"" + a.Region + "\""
		}
		if a.IfExists {
			c.noticef(sqlstate.SuccessfulCompletion, "database \"%s\" does not have %s, skipping", db.Name, what)
			return nil
		}
		err := sqlstate.New(sqlstate.UndefinedObject, "database \"%s\" does not have %s", db.Name, what)
		if db.WitnessRegion == "" {
			return err.WithHint("SHOW REGIONS FROM DATABASE %s lists its regions; DROP WITNESS REGION IF EXISTS drops one if there is one.", quoteIdent(db.Name))
		}
		return err.WithDetail("Its witness region is \"%s\".", db.WitnessRegion).
			WithHint("ALTER DATABASE %s DROP WITNESS REGION, without a name, drops it.", quoteIdent(db.Name))
	}
	if db.Witnessed() {
		return sqlstate.New(sqlstate.InvalidDatabaseDefinition, "cannot drop witness region \"%s\": without it database \"%s\" does not survive the failure of a region", db.WitnessRegion, db.Name).
			WithHint("Add a third region by ALTER DATABASE %s ADD REGION <region>, use SURVIVE ZONE FAILURE, or replace the witness region by SET WITNESS REGION.", quoteIdent(db.Name))
	}
	db.WitnessRegion = ""
	return validRegions(db)
}

// validWitness refuses combinations of a witness region with other clauses.
func validWitness(db *catalog.Database) error {
	w := db.WitnessRegion
	switch {
	case w == "":
		return nil
	case db.HasRegion(w):
		return sqlstate.New(sqlstate.InvalidDatabaseDefinition, "region \"%s\" can't be both a region of the database and its witness region", w).
			WithHint("Rows may be in the regions of a database and not in its witness region: name another one, or drop the witness region first.")
	case len(db.Regions) < 2:
		return sqlstate.New(sqlstate.InvalidDatabaseDefinition, "at least 2 regions are required for a witness region").
			WithHint("The witness decides between two regions: add one by ALTER DATABASE %s ADD REGION <region>, or drop the witness region.", quoteIdent(db.Name))
	case db.Restricted:
		return sqlstate.New(sqlstate.InvalidDatabaseDefinition, "PLACEMENT RESTRICTED can't be combined with a witness region").
			WithDetail("The log of a witness has the bytes of rows until the other replicas have them.").
			WithHint("Drop the witness region, or use PLACEMENT DEFAULT.")
	case len(db.SuperRegions) > 0:
		return sqlstate.New(sqlstate.InvalidDatabaseDefinition, "super regions can't be combined with a witness region").
			WithDetail("The log of a witness has the bytes of rows until the other replicas have them, and rows of a super region may not leave it.").
			WithHint("Drop the witness region, or the super regions.")
	}
	return nil
}

// orWitness is the third way to survive the failure of a region, for a hint.
func orWitness(goal catalog.Survival) string {
	if goal != catalog.SurviveRegion {
		return ""
	}
	return "; two regions and a witness region will do, too (ADD WITNESS REGION)"
}
