package statements

// Schema are the statements that make the tables which the grammar's statements name.
func Schema() []string {
	return []string{
		"CREATE TABLE t (a int PRIMARY KEY, b text NOT NULL DEFAULT 'x', c numeric(10,2) CHECK (c > 0), d timestamptz DEFAULT now())",
		"CREATE TABLE u (id int PRIMARY KEY, a int REFERENCES t, v varchar(10) UNIQUE, j jsonb, arr int[])",
		"CREATE VIEW vw AS SELECT a, count(*) AS n FROM t GROUP BY a",
	}
}

// grammar has the forms of each rule; {x} is a text of rule x. The first form is the shortest.
func grammar() map[string][]string {
	return map[string][]string{
		"statement": {"{select}", "{select}", "{select}", "{select}", "{insert}", "{update}", "{update}", "{delete}", "{create}", "{create}", "{alter}", "{cursor}", "{other}"},

		"query":    {"select {expr}", "select {exprs} from {from}{where}{group}{order}", "values ({exprs})", "(table {table}){order}", "{select}"},
		"select":   {"select {exprs} from {from}{where}{group}{order}", "select {exprs} from {from}{where}{order}", "with {cte} {query}", "{query} {setop} {query}", "select {distinct}{exprs} from {from}{where}{order}{lock}", "({query}){order}", "values ({exprs}), ({exprs}){order}", "select {agg}, {expr} from {from}{where}{group}{order}", "select {expr}"},
		"cte":      {"w as ({query})", "w(a, b) as materialized ({query})", "recursive w(a) as (values (1) union all select a + 1 from w where a < 3)", "w as ({update} returning {exprs})", "w as (delete from u returning *), x as ({query})"},
		"setop":    {"union", "union all", "intersect", "except"},
		"distinct": {"distinct ", "all ", "distinct on ({expr}) "},
		"exprs":    {"{expr}", "{expr}, {expr}", "{expr} as {name}", "{expr} json, {expr} cidr", "*", "{table}.*, {expr}"},
		"from":     {"t", "t", "u", "vw", "t join u on {bool}", "t left join u using (a)", "t q, lateral ({query}) x", "({query}) q", "t natural full join u", "u q cross join t", "unnest({array}) with ordinality as x(a, b)", "json_to_recordset({text}::json) as x(a int, b text[3], c json)", "generate_series(1, 3) as x(a)", "t as q(a, b)", "only t"},
		"where":    {"", "", " where {bool}"},
		"group":    {"", " group by {expr}", " group by {expr}, {expr}{having}", " group by {col}{having}", " group by 1"},
		"having":   {"", " having {bool}", " having {agg} > {expr}"},
		"order":    {"", "", " order by {expr}", " order by 1 desc nulls last limit 3", " order by {col} limit {int} offset 1", " order by primary key {table}", " limit {expr}", " order by {expr} collate \"C\", {col}"},
		"lock":     {"", " for update", " for share of t nowait", " for update skip locked"},

		"table": {"t", "u", "vw", "x"},
		"col":   {"a", "b", "c", "d", "id", "v", "j", "arr", "t.a", "u.arr", "q.a", "q.b", "x.a", "n", "w.a"},
		"name":  {"x", "json", "\"json\"", "tablespace", "\"Q\"", "match", "owned", "type", "cidr", "add", "numeric"},
		"int":   {"1", "0", "-1", "2147483647", "3"},
		"text":  {"'a'", "'{1,2}'", "''", "'{\"a\": 1}'", "e'\\n'", "'x' || {text}", "$$b$$", "'2020-01-01'"},

		"expr": {"{col}", "{col}", "{col}", "{col}", "a", "a", "{int}", "{int}", "{int}", "{int}", "{text}", "{text}", "null", "{int} + {int}", "a + {int}",
			"{int}", "{text}", "null", "{bool}", "{array}", "{expr} {op} {expr}", "({expr})", "{expr}::{type}", "cast({expr} as {type})",
			"{func}", "{agg}", "{window}", "({query})", "array({query})", "{col}[{expr}]", "({array})[{expr}]", "({expr})[{expr}:{expr}]", "case when {bool} then {expr} else {expr} end",
			"row({expr}, {expr})", "({expr}, {expr})", "- {expr}", "### {expr}", "{expr} at time zone {text}", "{expr} collate \"C\"", "json {text}", "interval '1 day' * {expr}",
			"date '2020-01-01' - {expr}", "{name}", "$1", "(row({expr})).f1", "({table}).a", "{table}", "{expr} operator(pg_catalog.+) {expr}"},
		"bool": {"true", "a = {int}", "a > {int}", "{col} is null", "false", "{expr} = {expr}", "{expr} is null", "{bool} and {bool}", "not {bool}", "{expr} in ({expr}, {expr})", "{expr} in ({query})", "exists ({query})",
			"{expr} = any ({array})", "{expr} > all ({query})", "{expr} between {expr} and {expr}", "{expr} like {text} escape '\\'", "{expr} is distinct from {expr}",
			"({expr}, {expr}) = ({expr}, {expr})", "{expr} ~~ {text}", "{expr} similar to {text}", "{expr} is not true", "{expr} ^@ {text}"},
		"array": {"array[{int}]", "array[{expr}]", "array[{expr}, {expr}]", "array[[{expr}], [{expr}]]", "array[]::{type}[]", "{text}::int[3]", "{text}::int[][]", "arr", "{text}::int array[2]", "array[{expr}]::{type}[]"},
		"op":    {"+", "-", "*", "/", "%", "||", "=", "<", "<>", "->", "->>", "@>", "?", "&&", "#>", "~", "!~*", "<<", "^", "#", "|", "is distinct from", "###"},
		"type":  {"int", "text", "\"json\"", "json", "int[]", "int[3]", "\"varchar\"(3)", "bpchar(4)", "numeric(5,-1)", "pg_catalog.numeric(3)", "cidr", "timestamp(3) with time zone", "double precision", "interval day to second(2)", "character varying(2)[]", "\"char\"", "bool", "int array", "date", "jsonb", "t", "regclass", "name"},
		"func": {"now()", "lower({expr})", "coalesce({expr}, {expr})", "nullif({expr}, {expr})", "greatest({expr}, {expr})", "substring({expr} from 1 for {int})", "substring({expr} similar {text} escape '#')",
			"make_interval(days => {expr})", "extract(year from {expr})", "trim(both 'x' from {expr})", "position({expr} in {expr})", "overlay({expr} placing {expr} from 1)", "generate_series(1, {expr})", "unnest({array})",
			"jsonb_build_object({text}, {expr})", "to_jsonb({expr})", "array_length({array}, 1)", "concat({expr}, {expr})", "pg_typeof({expr})", "abs({expr})", "length({expr})", "round({expr}, {int})", "format({text}, {expr})", "nope({expr})", "jsonb_each({expr})", "row_to_json({table})"},
		"agg": {"count(*)", "count({expr})", "sum({expr})", "max({expr}) filter (where {bool})", "string_agg(distinct {expr}, ',' order by {expr})", "array_agg({expr} order by {expr})", "jsonb_agg({expr})", "bool_or({bool})",
			"array_agg({expr} order by primary key t)", "percentile_cont(0.5) within group (order by {expr})", "avg(distinct {expr})"},
		"window": {"row_number() over ()", "count(*) over (partition by {expr} order by {expr})", "lag({expr}) over (order by {expr})", "sum({expr}) over (order by {expr} rows between 1 preceding and current row)", "first_value({expr}) over (partition by {col})"},

		"insert":    {"insert into {table} values ({exprs})", "insert into t (a, b) {query}", "insert into u (id, arr, j) values ({expr}, {array}, {expr}){conflict}{returning}", "insert into t default values", "with {cte} insert into t {query}{conflict}", "insert into u (id, arr[1]) values ({int}, {expr})"},
		"conflict":  {"", " on conflict do nothing", " on conflict (id) do update set {sets}{where}", " on conflict (a) do update set {sets}", " on conflict on constraint t_pkey do nothing"},
		"returning": {"", " returning *", " returning {exprs}"},
		"update":    {"update u set {sets}{where}", "update t set {sets} from u{where}{returning}", "update u set {sets}", "update only u as q set {sets}{where}{returning}"},
		"sets":      {"a = {expr}", "j[{text}] = {expr}", "arr[{expr}] = {expr}", "arr[1:{int}] = {array}, a = {expr}", "a = default", "(a, v) = ({expr}, {expr})", "(a, v) = ({query})", "arr[1][2] = {expr}", "j[{text}][{int}] = null", "arr[1] ="},
		"delete":    {"delete from u{where}{returning}", "delete from t using u{where}"},

		"create": {"create table x ({defs})", "create view x as {query}", "create view x as {select}", "create table x as {query}", "create temp table x ({defs}) on commit drop", "create materialized view x as {query}", "create index on u ({col})", "create index on u (a) where {bool}", "create unique index on u (lower({expr}))",
			"create table x ({defs}) tablespace pg_default", "create type x as enum ('a', 'b')", "create sequence x as int", "create or replace view vw as {query}"},
		"defs":       {"a int", "{name} {type} {constraint}", "{name} {type} {constraint}, {defs}", "{name} {type}, check ({bool})", "a int, primary key (a)", "like t including all", "a int array[2] default {array}", "{name} {type} default {array}"},
		"constraint": {"", "default {expr}", "check ({bool})", "not null", "generated always as ({expr}) stored", "references t on delete set null", "primary key", "unique", "collate \"C\"", "generated by default as identity (start 3)"},
		"alter":      {"alter table u add {name} {type}", "alter table u add column if not exists {name} {type} {constraint}", "alter table u alter a type {type} using {expr}", "alter table u alter a set default {expr}", "alter table t add check ({bool}), add column {name} {type}", "alter table t drop column {name}", "alter table u alter column arr set data type {type}", "alter table u rename a to {name}"},
		"cursor":     {"declare cu cursor for {query}", "declare cu scroll cursor with hold for {query}", "fetch 2 from cu", "move forward all in cu", "fetch relative -1 from cu", "close cu", "move absolute 2 in cu", "fetch backward 1 from cu"},
		"other":      {"explain {statement}", "prepare p ({type}) as {query}", "execute p ({expr})", "deallocate all", "begin", "rollback", "savepoint s", "set a.b = {text}", "show search_path", "truncate u", "explain (costs off) {query}", "drop table x", "drop view x", "analyze t"},

		"word": {"select", "from", "(", ")", ",", "[", "]", "array", "as", "set", "where", "order by", "group by", "=", "::", ".", "*", "not", "null", ";", "on", "in", "with", "'a'", "1", "t", "a", "returning", "collate", "only", "tablespace", "default", "json", "over", "distinct"},
	}
}
