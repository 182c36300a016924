package comparison

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func query(t *testing.T, pg *pgconn.PgConn, sql string) (out [][]string) {
	t.Helper()
	res, err := pg.Exec(t.Context(), sql).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range res[0].Rows {
		var vs []string
		for _, v := range row {
			vs = append(vs, string(v))
		}
		out = append(out, vs)
	}
	return out
}

// routine is a function, or an operator with its operands.
type routine struct {
	name string
	args []string
	set  bool // returns a set
}

func (f routine) signature() string { return f.name + "(" + strings.Join(f.args, ", ") + ")" }

// foreign are functions that need something of the server (files, replication, large objects, statistics), or are the
// subject of other tests (names and privileges), or have types that Meridian does not have.
var foreign = regexp.MustCompile(`^(pg_|lo_|lo|binary_upgrade|has_|txid|ts_|to_ts|tsvector|tsquery|.*tsquery|.*tsvector|phraseto|websearch|query_|array_to_ts|xml|.*_to_xml|` +
	`inet_|cidr|host|mac|net|broadcast|family|abbrev|hash|.*_ops|.*hash|.*hashextended|current_|set_config|session|row_security|shobj|col_desc|obj_desc|` +
	`nextval|currval|setval|lastval|random|setseed|gen_random|clock_|statement_t|transaction_t|timeofday|now$|version|query_to|table_to|cursor_to|database_to|schema_to|` +
	`brin_|gin_|gist|spg|.*stats|format_type|.*sel$|cash_|money|acl|makeacl|ascii_to|.*cmp$|.*sortsupport|.*larger|.*smaller|.*_accum.*|.*_avg$|.*_sum$|.*combine|.*_serialize|in_range|` +
	`getdatabaseencoding|nameconcatoid|amvalidate|any_|unique_key|suppress|tsm_|.*_support|window_|percent|cume|dense|rank|ntile|lag|lead|first_v|last_v|nth_v|row_number|mode|` +
	`.*transfn|.*finalfn|.*final_.*|ordered_set|hypothetical|json_.*agg_|jsonb_.*agg_|.*multirange.*|range_.*|lower_inc|upper_inc|lower_inf|upper_inf|isempty|elem_contained|` +
	`to_regc|to_reg|.*typmodin|.*typmodout|.*_in$|.*_out$|.*_recv|.*_send|inter_|box|circle|point|poly|path|line|lseg|ishorizontal|isparallel|isperp|isvertical|slope|area|center|diameter|radius|diagonal|npoints|pclose|popen|isclosed|isopen|` +
	`convert|bttext|btname|btint|bool_.*_agg|.*statefunc|int8_avg_.*|booland|boolor|.*_trans|.*_deserialize|.*_inv|.*eq$|.*ne$|.*pattern.*|.*skip.*|pt_|.*_tid|tid|unknown|domain_|getpg|RI_|plpgsql|fmgr|language|heap_|enum|index_am|oidvector.*|int2vector.*|bpchar_|text_s|text_l|text_g|text_p|text_sta|.*like$|scalar.*|int8range|int4range|numrange|daterange|ts.range|tstzrange|mxid|current|icu|system|like_escape|.*_accum|be_lo|array_unnest_|array_agg_|string_agg_|.*_eq|.*_le|.*_ge|.*_lt|.*_gt|sha|crc|parse_ident|jsonb_path_.*_tz|inv_.*)`)

// functions calls every function that PostgreSQL 15 documents for the types that both have, and the aggregates.
var functions = Generator{Name: "functions", Prepare: func(t *testing.T, pg *pgconn.PgConn) func(r *rand.Rand) Case {
	rows := query(t, pg, `select p.proname, array_to_string(array(select typname from unnest(proargtypes) with ordinality u(o, n) join pg_type on pg_type.oid = u.o order by n), ','), prokind, proretset
		from pg_proc p where pronamespace = 'pg_catalog'::regnamespace and prokind in ('f', 'a') and provolatile <> 'v'
		and not exists (select 1 from pg_operator where oprcode = p.oid and p.proname not in ('starts_with')) and not exists (select 1 from pg_cast where castfunc = p.oid)
		and not exists (select 1 from pg_type where p.oid in (typinput, typoutput, typsend, typreceive, typmodin, typmodout, typsubscript))
		and not exists (select 1 from pg_amproc where amproc = p.oid) and not exists (select 1 from pg_aggregate where p.oid in (aggtransfn, aggfinalfn, aggcombinefn, aggserialfn, aggdeserialfn, aggmtransfn, aggminvtransfn))
		order by 1, 2`)
	var fs []routine
	for _, row := range rows {
		f := routine{name: row[0], set: row[3] == "t"}
		if foreign.MatchString(f.name) {
			continue
		}
		if row[1] != "" {
			f.args = strings.Split(row[1], ",")
		}
		ok := true
		for _, a := range f.args {
			if len(edges[a]) == 0 && a != "any" && a != "anyelement" && a != "anyarray" && a != "anycompatible" && a != "anycompatiblearray" && a != "anynonarray" {
				ok = false
			}
		}
		if ok {
			fs = append(fs, f)
		}
	}
	return func(r *rand.Rand) Case {
		f := pick(r, fs)
		s := call(r, f)
		if f.set {
			s += " limit 20" // generate_series has no other bound
		}
		return Case{Group: f.signature(), Statements: []string{"select " + s}}
	}
}}

func call(r *rand.Rand, f routine) string {
	elem := pick(r, []string{"int4", "text", "numeric", "timestamp", "jsonb"})
	var args []string
	for i, a := range f.args {
		switch a {
		case "any":
			a = pick(r, scalarTypes)
		case "anyelement", "anycompatible", "anynonarray":
			a = elem
		case "anyarray", "anycompatiblearray":
			a = "_" + elem
		}
		args = append(args, argument(r, f.name, i, a))
	}
	return f.name + "(" + strings.Join(args, ", ") + ")"
}

func argument(r *rand.Rand, name string, i int, t string) string {
	if t == "text" || t == "_text" && false {
		h := hints[name]
		switch {
		case strings.HasPrefix(name, "regexp_") && i == 1, name == "substring" && i == 1:
			h = hints["regexp"]
		case strings.HasPrefix(name, "regexp_") && i >= 2 && r.IntN(2) == 0:
			h = hints["flags"]
		case (name == "to_date" || name == "to_timestamp" || name == "to_number") && i == 0:
			h = []string{"2024-02-29", "20240229", "05 Dec 2000", "12,454.8-", "-12.3", "1,234", "2024-02-29 13:14:15", "11:30 PM", "2451545", "x"}
		case name == "decode" && i == 0:
			h = []string{"00ff", "YWJj", "a\\\\b", "zz", "0"}
		case name == "similar_to_escape":
			h = hints["similar"]
		}
		if len(h) > 0 && r.IntN(8) > 0 {
			if r.IntN(2) == 0 {
				return quote(pick(r, h))
			}
			return quote(pick(r, h)) + "::text"
		}
	}
	if r.IntN(6) == 0 && len(edges[t]) > 0 {
		return quote(pick(r, edges[t])) // a literal without a type
	}
	return value(r, t)
}

// operators applies every operator to the types that both have.
var operators = Generator{Name: "operators", Prepare: func(t *testing.T, pg *pgconn.PgConn) func(r *rand.Rand) Case {
	rows := query(t, pg, `select oprname, coalesce(l.typname, ''), r.typname from pg_operator o left join pg_type l on l.oid = oprleft join pg_type r on r.oid = oprright order by 1, 2, 3`)
	var fs []routine
	known := map[string]bool{"": true, "anyelement": true, "anyarray": true, "anycompatible": true, "anycompatiblearray": true, "anynonarray": true}
	names := map[string]bool{}
	for _, t := range scalarTypes {
		known[t] = true
	}
	for _, row := range rows {
		if !known[row[1]] || !known[row[2]] || strings.HasPrefix(row[0], "~<") || strings.HasPrefix(row[0], "~>") || strings.HasPrefix(row[0], "*") && row[0] != "*" {
			continue
		}
		names[row[0]] = true
		fs = append(fs, routine{name: row[0], args: row[1:]})
	}
	return func(r *rand.Rand) Case {
		f := pick(r, fs)
		args := []string{f.args[0], f.args[1]}
		if r.IntN(4) == 0 && args[0] != "" { // any two types, mostly an error
			args = []string{pick(r, scalarTypes), pick(r, scalarTypes)}
		}
		elem := pick(r, []string{"int4", "text"})
		for i, a := range args {
			switch a {
			case "anyelement", "anycompatible", "anynonarray":
				args[i] = elem
			case "anyarray", "anycompatiblearray":
				args[i] = "_" + elem
			}
		}
		right := argument(r, f.name, 1, args[1])
		if strings.Contains(f.name, "~") && r.IntN(2) == 0 {
			right = quote(pick(r, hints["regexp"]))
		}
		if f.args[0] == "" {
			return Case{Group: f.name + " " + args[1], Statements: []string{"select " + f.name + " " + right}}
		}
		left := argument(r, f.name, 0, args[0])
		return Case{Group: args[0] + " " + f.name + " " + args[1], Statements: []string{"select " + left + " " + f.name + " " + right}}
	}
}}

// casts casts every value to every type.
var casts = Generator{Name: "casts", Generate: func(r *rand.Rand) Case {
	to := pick(r, []string{"numeric(5,2)", "numeric(10)", "numeric(3,-1)", "varchar(2)", "char(4)", "char", "timestamp(0)", "timestamptz(3)", "time(1)", "interval(2)", "interval day to hour",
		"interval year", "interval second(1)", "bit(3)", "varbit(4)", "float(20)", "name", `"char"`, "int4[]", "text[]", "varchar(1)[]", "oid", "regtype"})
	if r.IntN(3) > 0 {
		to = typeName(pick(r, scalarTypes))
	}
	from := pick(r, scalarTypes)
	v := value(r, from)
	if r.IntN(4) == 0 {
		v = quote(pick(r, edges[from]))
	}
	return Case{Group: from + " to " + to, Statements: []string{"select (" + v + ")::" + to}}
}}

var (
	jsonForms   = Generator{Name: "json", Fixed: File("json")}
	timeForms   = Generator{Name: "times", Fixed: File("times")}
	numberForms = Generator{Name: "numbers", Fixed: File("numbers")}
	charForms   = Generator{Name: "char", Fixed: File("char")}
	arrayForms  = Generator{Name: "arrays", Fixed: File("arrays")}
)

// literals are untyped ones, in every place where a type is found for them.
var literals = Generator{Name: "literals", Fixed: File("literals")}
