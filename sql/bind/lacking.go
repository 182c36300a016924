package bind

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// postgresFunctions are the names of PostgreSQL 15's functions that a statement can call, one a line. Those that this server does not have are refused
// as features (0A000), and not as names that nobody defined (42883).
//
//go:embed functions.txt
var postgresFunctions string

// Alternatives to features of PostgreSQL that are missing.
const (
	noGeometry   = "Keep coordinates in columns of their own."
	noTextSearch = "There is no text search. Use LIKE or regular expressions."
	noRanges     = "Keep the two bounds in columns of their own."
	noXML        = "Keep documents as text, or as jsonb."
	noBits       = "Use boolean columns, an integer or bytea."
	noJSONPath   = "Use operators such as -> and @>, and functions such as jsonb_array_elements()."
	noObjects    = "Keep bytes in a column of type bytea."
	noServer     = "The tables of meridian_internal show the state of the cluster."
	noSnapshots  = "A transaction reads at a timestamp, and has no list of other transactions."
	noPlaces     = "Name rows by their primary key."
)

// lackingType is the name of a type of PostgreSQL that this server does not have, and an alternative to it; empty: it is no such type.
func lackingType(name string) (shown, hint string) {
	switch shown = strings.TrimPrefix(name, "_"); shown {
	case "point", "line", "lseg", "box", "path", "polygon", "circle":
		return shown, noGeometry
	case "money":
		return shown, "Use numeric."
	case "xml":
		return shown, noXML
	case "bit":
		return shown, noBits
	case "varbit":
		return "bit varying", noBits
	case "tsvector", "tsquery", "gtsvector":
		return shown, noTextSearch
	case "int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange",
		"int4multirange", "int8multirange", "nummultirange", "tsmultirange", "tstzmultirange", "datemultirange":
		return shown, noRanges
	case "jsonpath":
		return shown, noJSONPath
	case "pg_lsn":
		return shown, noServer
	case "pg_snapshot", "txid_snapshot":
		return shown, noSnapshots
	case "tid":
		return shown, noPlaces
	case "refcursor":
		return shown, "There are no procedural languages. Name a cursor in DECLARE and FETCH."
	case "any", "anyarray", "anycompatible", "anycompatiblearray", "anycompatiblemultirange", "anycompatiblenonarray", "anycompatiblerange", "anyelement", "anyenum",
		"anymultirange", "anynonarray", "anyrange", "event_trigger", "fdw_handler", "index_am_handler", "internal", "language_handler", "pg_ddl_command",
		"table_am_handler", "trigger", "tsm_handler":
		return shown, "It is the type of an argument or a result of functions, and there are no functions of users."
	case "pg_brin_bloom_summary", "pg_brin_minmax_multi_summary", "pg_dependencies", "pg_mcv_list", "pg_ndistinct":
		return shown, noServer
	}
	return "", ""
}

// lackType refuses a type of PostgreSQL that this server does not have.
func (b *builder) lackType(name string, at any) {
	if shown, hint := lackingType(name); shown != "" {
		raise(b.at(sqlstate.New(sqlstate.FeatureNotSupported, "type %s is not supported", shown).WithHint("%s", hint), at))
	}
}

// lackFunction refuses a function of PostgreSQL of whose name this server has none.
func (b *builder) lackFunction(n *tree.FuncExpr, name string) {
	if s := functionSchema(n); s != "" && s != "pg_catalog" {
		return
	}
	if n.AggType == tree.OrderedSetAgg && n.Type != tree.DistinctFuncType { // with DISTINCT, package parse wrote ORDER BY in this form
		raise(b.at(sqlstate.New(sqlstate.FeatureNotSupported, "ordered-set aggregates are not supported").
			WithHint("Number the rows with row_number() OVER (ORDER BY ...), and choose by the number."), n))
	}
	if b.Registry.IsFunction(name) || b.Registry.IsAggregate(name) || b.Registry.IsSet(name) {
		return
	}
	if _, window := windowFunction(name); window {
		return
	}
	if _, ok := types.FromName(name); ok && len(n.Exprs) == 1 { // text(x), a cast
		return
	}
	switch name {
	case "xmlconcat", "xmlelement", "xmlforest", "xmlparse", "xmlpi", "xmlroot", "xmlserialize", "grouping":
	default:
		if !strings.Contains("\n"+postgresFunctions, "\n"+name+"\n") {
			return
		}
	}
	raise(b.at(sqlstate.New(sqlstate.FeatureNotSupported, "function %s() is not supported", name).WithHint("%s", functionHint(name)), n))
}

// functionHint is an alternative to a function that is missing.
func functionHint(name string) string {
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(name, p) })
	}
	begins := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.HasPrefix(name, p) })
	}
	if _, hint := lackingType(name); hint != "" {
		return hint
	}
	switch {
	case name == "grouping":
		return "There is one grouping. Join several with UNION ALL."
	case begins("percentile_", "mode"):
		return "Number the rows with row_number() OVER (ORDER BY ...), and choose by the number."
	case begins("xml", "xpath") || has("_to_xml"):
		return noXML
	case begins("jsonb_path_", "jsonpath"):
		return noJSONPath
	case begins("ts_", "tsq", "tsv", "websearch_", "phraseto_", "plainto_", "array_to_tsv", "setweight", "strip", "numnode", "querytree", "get_current_ts") || has("tsvector", "tsquery"):
		return noTextSearch
	case has("range") && !begins("pg_") || begins("isempty", "lower_", "upper_"):
		return noRanges
	case begins("lo_", "loread", "lowrite"):
		return noObjects
	case begins("box_", "circle_", "line_", "lseg_", "path_", "point_", "poly_", "dist_", "on_", "inter_", "close_", "area", "center", "diagonal", "diameter", "height",
		"width", "isclosed", "ishorizontal", "isopen", "isparallel", "isperp", "isvertical", "npoints", "pclose", "popen", "radius", "slope"):
		return noGeometry
	case begins("cash_", "money"):
		return "Use numeric."
	case begins("bit", "varbit"):
		return noBits
	case begins("pg_snapshot", "txid_", "pg_current_snapshot", "pg_visible_in_snapshot"):
		return noSnapshots
	case begins("pg_", "gin_", "brin_", "gist_", "spg_"):
		return noServer
	}
	return "Write it with operators, casts or other functions."
}

// lackOperator refuses an operator that PostgreSQL has for such operands.
func (b *builder) lackOperator(name string, at any, args []scalar.Expr) {
	all := func(ok func(t *types.T) bool) bool {
		return !slices.ContainsFunc(args, func(a scalar.Expr) bool { return a.Type().Kind != types.KindUnknown && !ok(a.Type()) })
	}
	text := all(func(t *types.T) bool { return t.IsString() })
	document := len(args) == 2 && args[0].Type().Kind == types.KindJSONB && args[1].Type().Kind == types.KindUnknown
	hint := ""
	switch name {
	case "@":
		if all(func(t *types.T) bool { return t.IsNumeric() }) {
			hint = "Use abs()."
		}
	case "@?":
		if document {
			hint = noJSONPath
		}
	case "@@", "@@@":
		switch {
		case document:
			hint = noJSONPath
		case text:
			hint = noTextSearch
		}
	case "!!":
		if text {
			hint = noTextSearch
		}
	case "~<~", "~<=~", "~>~", "~>=~":
		if text {
			hint = "All text is ordered by its bytes: write " + strings.Trim(name, "~") + "."
		}
	case "*=", "*<>", "*<", "*<=", "*>", "*>=":
		if all(func(t *types.T) bool { return t.Kind == types.KindTuple }) {
			hint = "Write " + name[1:] + "."
		}
	case "<->", "~=", "##", "@-@", "?#", "?||", "?-|", "&<|", "<<|", "|>>", "|&>", "?-", "#", "-|-", "&<", "&>", "<^", ">^":
		if all(func(*types.T) bool { return false }) && (name != "#" || len(args) == 1) { // untyped constants; integers have a # b
			hint = noGeometry
		}
		if name == "-|-" && hint != "" {
			hint = noRanges
		}
	}
	if hint == "" {
		return
	}
	e := sqlstate.New(sqlstate.FeatureNotSupported, "operator %s is not supported", name).WithHint("%s", hint)
	if len(args) == 2 {
		raise(b.locateOp(e, at))
	}
	e.Position = b.stmt.FindText(name, 0)
	raise(e)
}

// systemColumn reports whether PostgreSQL gives each table a column of this name.
func systemColumn(name string) bool {
	switch name {
	case "ctid", "xmin", "xmax", "cmin", "cmax":
		return true
	}
	return false
}
