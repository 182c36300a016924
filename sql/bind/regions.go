package bind

import (
	"slices"
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
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
		b.fail(sqlstate.FeatureNotSupported, nil, "REGIONAL BY ROW is not supported yet")
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
