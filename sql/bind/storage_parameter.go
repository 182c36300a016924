package bind

import (
	"slices"
	"strconv"
	"strings"

	"meridian/sql/sqlstate"
)

// PostgreSQL's storage parameters are about the pages of a heap and VACUUM. There are no such pages here, so they have no effect: they are checked,
// kept and shown in pg_class.reloptions, with a notice that they are ignored. Unknown parameters are refused.

// parameter is a storage parameter: a number between two bounds, or one of some words.
type parameter struct {
	name     string
	real     bool
	min, max float64
	// words are the values of an enumeration; empty: the parameter is a number, or a boolean if the bounds are equal.
	words []string
}

const maxInt = 1<<31 - 1

// tableParameters are PostgreSQL 15's parameters of tables, indexParameters those of B-trees, columnParameters those of columns.
var (
	tableParameters = []parameter{
		{name: "autovacuum_enabled"}, {name: "user_catalog_table"}, {name: "vacuum_truncate"},
		{name: "fillfactor", min: 10, max: 100},
		{name: "toast_tuple_target", min: 128, max: 8160},
		{name: "parallel_workers", max: 1024},
		{name: "autovacuum_vacuum_threshold", max: maxInt},
		{name: "autovacuum_vacuum_insert_threshold", min: -1, max: maxInt},
		{name: "autovacuum_analyze_threshold", max: maxInt},
		{name: "autovacuum_vacuum_cost_limit", min: 1, max: 10000},
		{name: "autovacuum_freeze_min_age", max: 1e9},
		{name: "autovacuum_multixact_freeze_min_age", max: 1e9},
		{name: "autovacuum_freeze_max_age", min: 100000, max: 2e9},
		{name: "autovacuum_multixact_freeze_max_age", min: 10000, max: 2e9},
		{name: "autovacuum_freeze_table_age", max: 2e9},
		{name: "autovacuum_multixact_freeze_table_age", max: 2e9},
		{name: "log_autovacuum_min_duration", min: -1, max: maxInt},
		{name: "autovacuum_vacuum_cost_delay", real: true, max: 100},
		{name: "autovacuum_vacuum_scale_factor", real: true, max: 100},
		{name: "autovacuum_vacuum_insert_scale_factor", real: true, max: 100},
		{name: "autovacuum_analyze_scale_factor", real: true, max: 100},
		{name: "vacuum_index_cleanup", words: []string{"auto", "on", "off", "true", "false", "yes", "no", "1", "0"}},
	}
	indexParameters  = []parameter{{name: "fillfactor", min: 10, max: 100}, {name: "deduplicate_items"}}
	columnParameters = []parameter{{name: "n_distinct", real: true, min: -1, max: 1e308}, {name: "n_distinct_inherited", real: true, min: -1, max: 1e308}}
)

// checkParameter refuses an unknown parameter, and an invalid value.
func checkParameter(known []parameter, name, value string) error {
	at := slices.IndexFunc(known, func(p parameter) bool { return p.name == name })
	if at < 0 {
		return sqlstate.New(sqlstate.InvalidParameterValue, "unrecognized parameter \"%s\"", name)
	}
	p := known[at]
	kind := "integer"
	switch {
	case p.words != nil:
		if !slices.Contains(p.words, strings.ToLower(value)) {
			return sqlstate.New(sqlstate.InvalidParameterValue, "invalid value for enum option \"%s\": %s", name, value).
				WithDetail("Valid values are \"on\", \"off\", and \"auto\".")
		}
		return nil
	case p.min == p.max:
		switch strings.ToLower(value) {
		case "true", "on", "yes", "1", "false", "off", "no", "0":
			return nil
		}
		return sqlstate.New(sqlstate.InvalidParameterValue, "invalid value for boolean option \"%s\": %s", name, value)
	case p.real:
		kind = "floating point"
	}
	v, err := strconv.ParseFloat(value, 64)
	if err != nil || !p.real && v != float64(int64(v)) {
		return sqlstate.New(sqlstate.InvalidParameterValue, "invalid value for %s option \"%s\": %s", kind, name, value)
	}
	if v < p.min || v > p.max {
		low, high := strconv.FormatInt(int64(p.min), 10), strconv.FormatInt(int64(p.max), 10)
		if p.real {
			low, high = strconv.FormatFloat(p.min, 'f', 6, 64), strconv.FormatFloat(p.max, 'f', 6, 64)
		}
		return sqlstate.New(sqlstate.InvalidParameterValue, "value %s out of bounds for option \"%s\"", value, name).
			WithDetail("Valid values are between \"%s\" and \"%s\".", low, high)
	}
	return nil
}

func ignored(name string) Notice {
	return Notice{Severity: "NOTICE", Code: "00000", Message: "storage parameter \"" + name + "\" is ignored"}
}
