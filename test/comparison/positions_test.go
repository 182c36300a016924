package comparison

import (
	"math/rand/v2"
	"strings"
)

// positions: errors of statements in which several parts have the same text, so that only one occurrence is the wrong one.
var positions = Generator{Name: "positions", Fixed: Positioned("positions"), Generate: positionCase, Always: 150, PerRound: 1000}

// positionCase is a query with one part that is wrong, among others that look like it and are right.
func positionCase(r *rand.Rand) Case {
	spelling := func(s string) string {
		switch r.IntN(6) {
		case 0:
			return strings.ToUpper(s)
		case 1:
			return `"` + s + `"`
		case 2:
			return strings.ToUpper(s[:1]) + s[1:]
		}
		return s
	}
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	number := func() string {
		return pick("1", "2", "007", "1.5", "a", "t.a", "abs(a)", "(a)", "length(b)", "coalesce(a, 1)", "case when true then a end", "(a + 1)", "array_length(c, 1)", "'7'::int", "-a",
			"cast(b as int)", "c[1]", "(select 1)", spelling("a"), "t."+spelling("a"))
	}
	wordy := func() string {
		return pick("'x'::text", "b", "t.b", "lower(b)", "upper('x')", "(b)", "concat(a, b)", "b || 'x'", "case a when 1 then b else 'x' end", spelling("b"), "t."+spelling("b"))
	}
	truth := func() string {
		return pick(number()+" "+pick("<", "=", ">=", "<>", "!=")+" "+number(), wordy()+" "+pick("like", "not like", "~", "=", "<", "in", "not in")+" ("+wordy()+")", "true", "a is null", "b is not null",
			"a between 1 and "+number(), "exists (select 1)", "a = any (c)")
	}
	wrong := func() string {
		return pick("zz", "t.zz", "zz.a", spelling("zz"), "t."+spelling("zz"), number()+" + "+wordy(), wordy()+" - "+number(), number()+" = "+wordy(), "'x' + "+number(), number()+" * 'x'",
			"nofunc("+number()+")", "lower("+number()+")", "sum("+wordy()+")", "coalesce("+number()+", "+wordy()+")", "case when "+truth()+" then "+number()+" else "+wordy()+" end",
			"case when "+number()+" then 1 end", "array["+number()+", "+wordy()+"]", "greatest("+number()+", "+wordy()+")", "nullif("+wordy()+", "+number()+")", "int 'x'", "'x'::int",
			"cast('x' as int)", number()+"::date", "cast("+number()+" as date)", number()+" between 1 and "+wordy(), number()+" in (1, 2, "+wordy()+")", number()+" like 'x'",
			wordy()+" and true", "not "+number(), "true or "+number(), "-"+wordy(), "(select a, b from t)", number()+" = any ("+wordy()+")", number()+" = any ("+number()+")", "b[1]", "(a).x",
			"row(1, "+number()+") = row(1, "+wordy()+")", "(1, 2) = (1, 2, 3)", "a::nosuch", "sum(sum(a))", "rank()", "a @@@ b", wordy()+" = any (select a from t)", "(select zz from t)",
			"exists (select zz)", "date '2020-13-01'", "interval 'x'", "'{1'::int[]", "row_number() over (order by zz)", "a is true", "a in (select b from t)", "extract(year from a)",
			"substring(a from 1)", "position(a in b)", "trim(a)")
	}
	right := func() string { return pick(number(), wordy(), truth(), "'x'", "'1'", "null", "count(a) over ()") }
	list := func(bad bool) string {
		parts := []string{}
		for range 1 + r.IntN(3) {
			parts = append(parts, right())
		}
		if bad {
			parts[r.IntN(len(parts))] = wrong()
		}
		return strings.Join(parts, ", ")
	}
	and := func(bad bool) string {
		parts := []string{truth(), truth(), truth()}
		if bad {
			parts[r.IntN(len(parts))] = pick(wrong(), truth()+" and "+number(), "not "+wordy(), number()+" = "+wordy(), "zz = 1")
		}
		return strings.Join(parts, pick(" and ", " or "))
	}
	where := r.IntN(7)
	s := ""
	switch where {
	case 0, 1:
		s = "select " + list(true) + " from t where " + and(false)
	case 2:
		s = "select " + list(false) + " from t where " + and(true)
	case 3:
		s = "select " + list(false) + " from t join u on " + pick("zz = 1", "t.zz = u.id", "b = id", "t.b = u.id", "u.d", "t.a = u.zz") + " where " + pick("true", "1 = 1")
	case 4:
		s = "update t set " + pick("zz = 1", "a = 'x'", "a = b", "a = zz", "a = 1, zz = 1", "b = 'x', a = 'x'", "c = 1, b = zz", "a = a + b", "a = lower(a)", "d = 'x'", "d = a") + " where " + and(false)
	case 5:
		s = "insert into t (" + pick("a", "a, zz", "a, a", "a, b", "d, a") + ") " + pick("values ("+right()+", "+wrong()+")", "values (1, 'x', 2)", "values (1), (1, 2)", "select 1, 'x', zz from t", "select b, b from t",
			"values ('x', 'x')", "select 'x', 'x'")
	case 6:
		s = "select " + list(false) + " from t order by " + pick("zz", "a, zz", "a, lower(a)", "3000", "b, t.zz", "'x'", "a + b", "sum(a)")
	}
	return Case{Schema: true, Positions: true, Group: "", Statements: []string{
		"create table t (a int, b text, c int[], d date)", "create table u (id int primary key, d text)", s,
	}}
}

// qualified: columns whose qualifier has a schema.
var qualified = Generator{Name: "qualified", Fixed: Positioned("qualified")}

// clauses: columns with clauses of which some exclude each other, and errors of definitions.
var clauses = Generator{Name: "clauses", Fixed: Positioned("clauses"), Generate: clauseCase, Always: 100, PerRound: 500}

func clauseCase(r *rand.Rand) Case {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	column := pick("a", "A", `"a b"`) + " " + pick("int", "int", "int", "bigint", "serial", "text")
	for range 1 + r.IntN(3) {
		column += " " + pick("null", "not null", "default 1", "default null", "default (1)", "generated always as identity", "generated by default as identity (start 5)", "generated always as (1) stored", "check (1 > 0)",
			"unique", "constraint n not null", "constraint d default 2", "default '1'", "primary key", "DEFAULT 1", "Not Null")
	}
	s := "create table x (" + column + ")"
	if r.IntN(3) == 0 {
		s = "create table x (z int default 7 not null, " + column + ", y int)"
	}
	out := []string{"create table t (k int)", s, "select column_default, is_nullable, is_identity, identity_generation, is_generated from information_schema.columns where table_schema = 'scratch' and table_name = 'x' order by ordinal_position"}
	if r.IntN(4) == 0 {
		out[1] = "alter table t add column " + column
	}
	return Case{Schema: true, Positions: true, Group: column, Statements: out}
}

// sessionStates: what statements of a session leave for later ones.
var sessionStates = Generator{Name: "sessions", Fixed: Positioned("sessions")}

// rights: functions about rights and visibility.
var rights = Generator{Name: "rights", Fixed: Positioned("rights")}
