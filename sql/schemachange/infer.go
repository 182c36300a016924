package schemachange

import (
	"slices"

	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
)

// inferRegion sets the foreign key by which the regions of a table's rows are found (infer_rbr_region_col_using_constraint).
func inferRegion(t *catalog.Table, constraint string) error {
	at := slices.IndexFunc(t.Foreign, func(k catalog.ForeignKey) bool { return k.Name == constraint })
	switch {
	case !t.ByRow():
		return sqlstate.New(sqlstate.InvalidParameterValue, "%s is for tables that are REGIONAL BY ROW", catalog.InferRegion)
	case at < 0 && constraintNamed(t, constraint):
		return sqlstate.New(sqlstate.InvalidTableDefinition, "constraint \"%s\" of table \"%s\" is not a foreign key", constraint, t.Name)
	case at < 0:
		return sqlstate.New(sqlstate.UndefinedObject, "constraint \"%s\" of relation \"%s\" does not exist", constraint, t.Name)
	}
	t.InferRegion = t.Foreign[at].ID
	return mayInfer(t)
}

// mayInfer refuses a table whose rows' regions can't be found by the foreign key that the parameter names: because the key does not say them, or because they have another
// source.
func mayInfer(t *catalog.Table) error {
	k := t.Inferred()
	if k == nil {
		return nil
	}
	region := t.Column(t.RegionColumn)
	refuse := func(format string, args ...any) *sqlstate.Error {
		return sqlstate.New(sqlstate.InvalidTableDefinition, format, args...)
	}
	switch {
	case !slices.Contains(k.Columns, region.ID):
		return refuse("foreign key \"%s\" does not have the region column \"%s\", so rows' regions can't be found by it", k.Name, region.Name).
			WithHint("FOREIGN KEY (%s, ...) REFERENCES ... (crdb_region, ...).", quoteIdent(region.Name))
	case len(k.Columns) == 1:
		return refuse("foreign key \"%s\" has no column but the region, so rows' regions can't be found by it", k.Name)
	case region.Generated != "":
		return refuse("the region column \"%s\" is computed, so it can't be found by a foreign key", region.Name)
	case region.OnUpdate != "":
		return refuse("the region column \"%s\" has an ON UPDATE expression, so it can't be found by a foreign key", region.Name).
			WithHint("ALTER TABLE %s ALTER COLUMN %s DROP ON UPDATE; or RESET (%s).", quoteIdent(t.Name), quoteIdent(region.Name), catalog.InferRegion)
	}
	for i := range t.Columns {
		if g := &t.Columns[i]; g.Generated != "" && usesColumn(g.Generated, region.Name) {
			return refuse("column \"%s\" is computed from the region column \"%s\", which is found by foreign key \"%s\"", g.Name, region.Name, k.Name)
		}
	}
	return nil
}

// releaseInferred refuses to drop the foreign key by which the regions of a table's rows are found, unless with CASCADE, by which the parameter is gone.
func releaseInferred(t *catalog.Table, k *catalog.ForeignKey, what string, cascade bool) error {
	if t.InferRegion != k.ID || cascade {
		return nil
	}
	return sqlstate.New(sqlstate.DependentObjectsExist, "cannot drop %s because other objects depend on it", what).
		WithDetail("The regions of the rows of table \"%s\" are found by constraint \"%s\".", t.Name, k.Name).
		WithHint("ALTER TABLE %s RESET (%s) first, or use CASCADE, which does it.", quoteIdent(t.Name), catalog.InferRegion)
}
