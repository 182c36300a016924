package virtual

import "meridian/sql/catalog"

// by tells how a column's value leads to the relations from which a computed relation's rows are made.
type by uint8

const (
	// byNothing: the column does not lead to relations; the rows (types, functions) are few.
	byNothing by = iota
	// byIdentity: the value is the OID of a relation, of one of its indexes or constraints, or is derived from it.
	byIdentity
	// byName: the value is the name of a relation or of an index.
	byName
	// byType: the value is the OID of a type; that of a relation's rows or of arrays of them leads to the relation. byTypeName: the value is its name.
	byType
	byTypeName
)

// lookups are the columns of computed relations by which the optimizer looks up rows: by a constant, a parameter, a list,
// an array, or each row of another relation that it joins. The first column of a relation is its identity.
//
// A column belongs here if each row with a value in it is made from the relation to which the value leads. The name of
// a referenced table, for example, leads to another one.
var lookups = map[string]map[string]by{
	"pg_class":            {"oid": byIdentity, "relname": byName},
	"pg_attribute":        {"attrelid": byIdentity},
	"pg_index":            {"indrelid": byIdentity, "indexrelid": byIdentity},
	"pg_constraint":       {"conrelid": byIdentity, "oid": byIdentity},
	"pg_attrdef":          {"adrelid": byIdentity, "oid": byIdentity},
	"pg_sequence":         {"seqrelid": byIdentity},
	"pg_rewrite":          {"ev_class": byIdentity, "oid": byIdentity},
	"pg_type":             {"oid": byType, "typname": byTypeName},
	"pg_proc":             {"oid": byNothing},
	"pg_namespace":        {"oid": byNothing},
	"pg_tables":           {"tablename": byName},
	"pg_matviews":         {"matviewname": byName},
	"pg_views":            {"viewname": byName},
	"pg_sequences":        {"sequencename": byName},
	"pg_indexes":          {"tablename": byName, "indexname": byName},
	"pg_description":      {"objoid": byIdentity},
	"pg_depend":           {"objid": byIdentity},
	"pg_stat_user_tables": {"relid": byIdentity, "relname": byName},
	"pg_stat_all_tables":  {"relid": byIdentity, "relname": byName},

	"meridian_internal.tables":        {"table_id": byIdentity},
	"meridian_internal.index_columns": {"table_id": byIdentity},
	"meridian_internal.zones":         {"table_id": byIdentity},
	"meridian_internal.partitions":    {"table_id": byIdentity},

	"information_schema.tables":            {"table_name": byName},
	"information_schema.columns":           {"table_name": byName},
	"information_schema.views":             {"table_name": byName},
	"information_schema.sequences":         {"sequence_name": byName},
	"information_schema.table_constraints": {"table_name": byName},
	"information_schema.key_column_usage":  {"table_name": byName},
	"information_schema.table_privileges":  {"table_name": byName},
	"information_schema.role_table_grants": {"table_name": byName},
}

// identityColumn is the lookup column by which generators skip.
var identityColumn = map[string]string{
	"pg_class": "oid", "pg_attribute": "attrelid", "pg_index": "indrelid", "pg_constraint": "conrelid", "pg_attrdef": "adrelid",
	"meridian_internal.tables": "table_id", "meridian_internal.index_columns": "table_id", "meridian_internal.zones": "table_id", "meridian_internal.partitions": "table_id",
	"pg_type": "oid", "pg_proc": "oid", "pg_namespace": "oid",
}

// setLookups writes the lookups into a descriptor.
func setLookups(schema string, t *catalog.Table) {
	key := t.Name
	if schema != "pg_catalog" {
		key = schema + "." + t.Name
	}
	for i := range t.Columns {
		c := &t.Columns[i]
		if _, ok := lookups[key][c.Name]; !ok {
			continue
		}
		if c.Name == identityColumn[key] {
			t.Lookups = append([]catalog.ColumnID{c.ID}, t.Lookups...)
		} else {
			t.Lookups = append(t.Lookups, c.ID)
		}
	}
}
