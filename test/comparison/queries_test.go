package comparison

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// kind is a family of types whose values may be compared with each other.
type kind int

const (
	number kind = iota
	words
	day
	truth
	kinds
)

// types of the columns of each kind.
var columnTypes = [kinds][]string{
	number: {"int", "int", "int", "bigint", "smallint", "numeric", "numeric(6,2)", "float8"},
	words:  {"text", "text", "varchar(6)", "char(3)"},
	day:    {"date", "timestamp", "timestamptz"},
	truth:  {"bool"},
}

// column is a column that an expression may name: its text and its type.
type column struct {
	text string
	kind kind
	// exact: sums of it do not depend on the order of the rows.
	exact bool
}

// table is a table that was made.
type table struct {
	name    string
	columns []column
	key     int // how many of the first columns are its primary key
}

// queries makes a schema, and queries over it that have one right answer: sums of floating numbers and divisions are left out, and
// LIMIT comes after an order by all columns.
type queries struct {
	r      *rand.Rand
	tables []table
	names  int
	depth  int
}

func (q *queries) pick(s ...string) string   { return s[q.r.IntN(len(s))] }
func (q *queries) chance(percent int) bool   { return q.r.IntN(100) < percent }
func (q *queries) name(prefix string) string { q.names++; return fmt.Sprintf("%s%d", prefix, q.names) }
func (q *queries) deeper(by int, f func() string) string {
	q.depth += by
	defer func() { q.depth -= by }()
	return f()
}

// literal is a constant of a kind. bare ones have no type of their own.
func (q *queries) literal(k kind, bare bool) string {
	if q.chance(4) {
		return "NULL"
	}
	s := ""
	switch k {
	case number:
		s = fmt.Sprint(q.r.IntN(9) - 1)
		switch n := q.r.IntN(10); {
		case n == 0:
			s += ".5"
		case n == 1 && !bare:
			s += "::bigint"
		case n == 2 && !bare:
			s = "'" + s + "'::numeric"
		case n == 3 && !bare:
			s += ".0::float8"
		}
		return s
	case words:
		s = "'" + q.pick("", "a", "ab", "abc", "b", "ba", "B", "a ", "a%", "c") + "'"
		if !bare && q.chance(25) {
			s += q.pick("::text", "::varchar(2)", "::char(3)", "::char(2)")
		}
	case day:
		s = fmt.Sprintf("'2024-0%d-%02d", 1+q.r.IntN(3), 1+q.r.IntN(4))
		if bare {
			return s + "'"
		}
		switch q.r.IntN(4) {
		case 0:
			s += " 12:00:00'::timestamp"
		case 1:
			s += " 12:00:00+02'::timestamptz"
		case 2:
			s += "'::timestamp"
		default:
			s += "'::date"
		}
	case truth:
		s = q.pick("true", "false")
	}
	return s
}

// schema is the statements that make tables, indexes and rows.
func (q *queries) schema() (out []string) {
	out = append(out, "SET statement_timeout = '3s'") // for PostgreSQL: Meridian's computations take no virtual time
	for i := range 3 + q.r.IntN(2) {
		t := table{name: fmt.Sprintf("t%d", i+1)}
		var defs, types []string
		for j := range 3 + q.r.IntN(4) {
			k := []kind{number, number, number, words, words, day, truth}[q.r.IntN(7)]
			if j == 0 {
				k = kind(q.r.IntN(3))
			}
			typ := columnTypes[k][q.r.IntN(len(columnTypes[k]))]
			name := fmt.Sprintf("%c%d", "nwdb"[k], j)
			t.columns = append(t.columns, column{name, k, typ != "float8"})
			types = append(types, typ)
			def := name + " " + typ
			if q.chance(15) {
				def += " NOT NULL"
			}
			defs = append(defs, def)
		}
		switch n := q.r.IntN(10); {
		case n < 5:
			t.key = 1
		case n < 8:
			t.key = 2
		}
		if t.key > 0 {
			names := make([]string, t.key)
			for j := range names {
				names[j] = t.columns[j].text
			}
			defs = append(defs, "PRIMARY KEY ("+strings.Join(names, ", ")+")")
		}
		out = append(out, fmt.Sprintf("CREATE TABLE %s (%s)", t.name, strings.Join(defs, ", ")))
		for j := range q.r.IntN(4) {
			var on []string
			for _, c := range q.r.Perm(len(t.columns))[:1+q.r.IntN(min(3, len(t.columns)))] {
				on = append(on, t.columns[c].text+q.pick("", "", " DESC"))
			}
			out = append(out, fmt.Sprintf("CREATE INDEX i%d_%d ON %s (%s)", i, j, t.name, strings.Join(on, ", ")))
		}
		var rows []string
		for range q.r.IntN(14) {
			row := make([]string, len(t.columns))
			for j, c := range t.columns {
				row[j] = q.literal(c.kind, true)
				if types[j] == "varchar(6)" || types[j] == "char(3)" || types[j] == "smallint" {
					row[j] += "::" + types[j]
				}
				if row[j] == "NULL" && strings.Contains(defs[j], "NOT NULL") {
					row[j] = "DEFAULT"
				}
			}
			if !strings.Contains(strings.Join(row, " "), "DEFAULT") {
				rows = append(rows, "("+strings.Join(row, ", ")+")")
			}
		}
		if len(rows) > 0 {
			// Rows with an existing key, or without one, are refused one by one.
			for _, row := range rows {
				skip := false
				for j := range t.key {
					skip = skip || strings.Split(strings.Trim(row, "()"), ", ")[j] == "NULL"
				}
				if !skip {
					out = append(out, fmt.Sprintf("INSERT INTO %s VALUES %s ON CONFLICT DO NOTHING", t.name, row))
				}
			}
		}
		if q.chance(60) {
			out = append(out, "ANALYZE "+t.name)
		}
		q.tables = append(q.tables, t)
	}
	return out
}

// of is a column of a kind among those in scope, or else a literal.
func (q *queries) of(k kind, in []column) string {
	var fit []string
	for _, c := range in {
		if c.kind == k {
			fit = append(fit, c.text)
		}
	}
	if len(fit) == 0 {
		return q.literal(k, false)
	}
	return fit[q.r.IntN(len(fit))]
}

// expr is an expression of a kind over the columns in scope.
func (q *queries) expr(k kind, in []column) string {
	if k == truth && q.chance(60) {
		return "(" + q.condition(in) + ")"
	}
	if q.depth > 3 || q.chance(55) {
		if q.chance(15) {
			return q.literal(k, false)
		}
		return q.of(k, in)
	}
	return q.deeper(1, func() string {
		switch n := q.r.IntN(10); {
		case n < 2:
			return fmt.Sprintf("CASE WHEN %s THEN %s ELSE %s END", q.condition(in), q.of(k, in), q.of(k, in))
		case n < 3:
			return fmt.Sprintf("coalesce(%s, %s)", q.of(k, in), q.of(k, in))
		case n < 4 && k != day:
			return fmt.Sprintf("nullif(%s, %s)", q.of(k, in), q.of(k, in))
		case n < 6 && q.depth < 3:
			return q.scalar(k, in)
		}
		switch k {
		case number:
			return fmt.Sprintf("(%s %s %s)", q.of(number, in), q.pick("+", "-", "*"), q.of(number, in))
		case words:
			return q.pick(fmt.Sprintf("(%s || %s)", q.of(words, in), q.of(words, in)), "upper("+q.of(words, in)+")",
				fmt.Sprintf("substr(%s, 1, 2)", q.of(words, in)))
		case day:
			return q.pick("("+q.of(day, in)+" + interval '1 day')", "date_trunc('month', "+q.of(day, in)+"::timestamp)")
		}
		return "(" + q.condition(in) + ")"
	})
}

// scalar is a subquery with one row at most.
func (q *queries) scalar(k kind, outer []column) string {
	from, in := q.from(outer)
	all := append(append([]column(nil), in...), outer...)
	where := q.where(in, all)
	if k == number && q.chance(50) {
		return fmt.Sprintf("(SELECT %s FROM %s%s)", q.aggregate(in), from, where)
	}
	if k == truth {
		return fmt.Sprintf("(SELECT %s(%s) FROM %s%s)", q.pick("bool_or", "bool_and"), q.condition(in), from, where)
	}
	if q.chance(30) {
		return fmt.Sprintf("(SELECT %s FROM %s%s ORDER BY 1 LIMIT 1)", q.of(k, in), from, where)
	}
	return fmt.Sprintf("(SELECT %s(%s) FROM %s%s)", q.pick("min", "max"), q.of(k, in), from, where)
}

// aggregate is an aggregate whose value is a number that depends on no order.
func (q *queries) aggregate(in []column) string {
	var exact []column
	for _, c := range in {
		if c.kind == number && c.exact {
			exact = append(exact, c)
		}
	}
	arg := q.of(number, exact)
	if q.chance(25) {
		arg = q.deeper(2, func() string { return "CASE WHEN " + q.condition(in) + " THEN " + arg + " END" })
	}
	distinct := q.pick("", "", "", "DISTINCT ")
	s := q.pick("count(*)", "count("+distinct+q.of(kind(q.r.IntN(int(kinds))), in)+")", "sum("+distinct+arg+"::numeric)", "min("+arg+")", "max("+arg+")",
		"sum("+arg+"::int)")
	if q.chance(15) {
		s += " FILTER (WHERE " + q.condition(in) + ")"
	}
	return s
}

// where is a WHERE clause, or empty. Its conditions may use all columns, mostly those of in.
func (q *queries) where(in, all []column) string {
	if q.chance(20) {
		return ""
	}
	s := " WHERE " + q.condition(all)
	for q.chance(35) {
		s += q.pick(" AND ", " AND ", " OR ") + q.condition(in)
	}
	return s
}

// condition is a truth value over the columns in scope.
func (q *queries) condition(in []column) string {
	k := kind(q.r.IntN(3))
	compare := q.pick("=", "=", "=", "<", ">=", "<>", "<=", ">", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
	n := q.r.IntN(24)
	if q.depth > 3 {
		n = q.r.IntN(8)
	}
	return q.deeper(1, func() string {
		switch n {
		case 0, 1, 2:
			return fmt.Sprintf("%s %s %s", q.of(k, in), compare, q.literal(k, q.chance(50)))
		case 3, 4:
			return fmt.Sprintf("%s %s %s", q.of(k, in), compare, q.of(k, in))
		case 5:
			return fmt.Sprintf("%s IS %sNULL", q.of(kind(q.r.IntN(int(kinds))), in), q.pick("", "NOT "))
		case 6:
			return fmt.Sprintf("%s %s(%s, %s, %s)", q.of(k, in), q.pick("IN ", "NOT IN "), q.literal(k, false), q.literal(k, false), q.of(k, in))
		case 7:
			return fmt.Sprintf("%s::text %s '%s'", q.of(words, in), q.pick("LIKE", "NOT LIKE", "~"), q.pick("a%", "ab%", "_b%", "^a", "b$"))
		case 8:
			return "(" + q.condition(in) + " OR " + q.condition(in) + ")"
		case 9:
			return "(" + q.condition(in) + " AND " + q.condition(in) + ")"
		case 10:
			return "NOT (" + q.condition(in) + ")"
		case 11:
			return fmt.Sprintf("%s %s %s AND %s", q.of(k, in), q.pick("BETWEEN", "NOT BETWEEN", "BETWEEN SYMMETRIC"), q.literal(k, false), q.of(k, in))
		case 12:
			k2 := kind(q.r.IntN(3))
			return fmt.Sprintf("(%s, %s) %s (%s, %s)", q.of(k, in), q.of(k2, in), q.pick("=", "<", ">", ">=", "<>", "IS DISTINCT FROM"), q.literal(k, false), q.of(k2, in))
		case 13:
			k2 := kind(q.r.IntN(3))
			return fmt.Sprintf("(%s, %s) %s ((%s, %s), (%s, %s))", q.of(k, in), q.of(k2, in), q.pick("IN", "NOT IN"), q.literal(k, false), q.literal(k2, false), q.of(k, in), q.literal(k2, false))
		case 14, 15, 16:
			from, ours := q.from(nil)
			all := append(append([]column(nil), ours...), in...)
			return fmt.Sprintf("%sEXISTS (SELECT %s FROM %s%s)", q.pick("", "NOT "), q.pick("1", "*"), from, q.where(ours, all))
		case 17, 18, 19:
			from, ours := q.from(nil)
			all := append(append([]column(nil), ours...), in...)
			op := q.pick("IN", "NOT IN", "= ANY", "<> ALL", "< ANY", ">= ALL", "= ALL")
			return fmt.Sprintf("%s %s (SELECT %s FROM %s%s)", q.of(k, in), op, q.of(k, ours), from, q.where(ours, all))
		case 20:
			k2 := kind(q.r.IntN(3))
			from, ours := q.from(nil)
			all := append(append([]column(nil), ours...), in...)
			return fmt.Sprintf("(%s, %s) %s (SELECT %s, %s FROM %s%s)", q.of(k, in), q.of(k2, in), q.pick("IN", "NOT IN"), q.of(k, ours), q.of(k2, ours), from, q.where(ours, all))
		case 21:
			return fmt.Sprintf("%s %s %s", q.of(k, in), compare, q.scalar(k, in))
		case 22:
			return fmt.Sprintf("(%s) IS %s%s", q.condition(in), q.pick("", "NOT "), q.pick("TRUE", "FALSE", "UNKNOWN"))
		}
		return fmt.Sprintf("%s %s %s", q.expr(k, in), compare, q.expr(k, in))
	})
}

// from is an item of FROM and the columns that it has. The columns of outer may be used by what is LATERAL.
func (q *queries) from(outer []column) (string, []column) {
	if q.depth < 3 && q.names < 4 && q.chance(35) {
		q.depth++
		defer func() { q.depth-- }()
		l, ls := q.from(outer)
		r, rs := q.from(outer)
		both := append(append([]column(nil), ls...), rs...)
		join := q.pick("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", "LEFT JOIN LATERAL", "JOIN LATERAL", "CROSS JOIN LATERAL")
		switch join {
		case "CROSS JOIN":
			return "(" + l + " CROSS JOIN " + r + ")", both
		case "LEFT JOIN LATERAL", "JOIN LATERAL", "CROSS JOIN LATERAL":
			r, rs = q.derived(ls)
			both = append(append([]column(nil), ls...), rs...)
			if join == "CROSS JOIN LATERAL" {
				return "(" + l + " " + join + " " + r + ")", both
			}
			return "(" + l + " " + join + " " + r + " ON " + q.pick("true", q.condition(both)) + ")", both
		}
		k := kind(q.r.IntN(3))
		on := fmt.Sprintf("%s = %s", q.of(k, ls), q.of(k, rs))
		if join == "FULL JOIN" {
			// PostgreSQL wants conditions that can be merged or hashed.
			k = number
			var a, b string
			for _, c := range ls {
				if c.kind == k {
					a = c.text
				}
			}
			for _, c := range rs {
				if c.kind == k {
					b = c.text
				}
			}
			if a == "" || b == "" {
				join = "LEFT JOIN"
			} else {
				on = a + " = " + b
			}
		}
		if join != "FULL JOIN" && q.chance(40) {
			on += q.pick(" AND ", " AND ", " OR ") + q.condition(both)
		}
		return "(" + l + " " + join + " " + r + " ON " + on + ")", both
	}
	if q.depth < 3 && q.chance(20) {
		return q.derived(nil)
	}
	if q.chance(6) {
		n := q.name("v")
		rows := make([]string, 1+q.r.IntN(4))
		for i := range rows {
			rows[i] = fmt.Sprintf("(%s::int, %s::text)", q.literal(number, true), q.literal(words, true))
		}
		return fmt.Sprintf("(VALUES %s) AS %s (x, y)", strings.Join(rows, ", "), n), []column{{n + ".x", number, true}, {n + ".y", words, true}}
	}
	if q.chance(4) {
		n := q.name("g")
		return fmt.Sprintf("generate_series(%d, %d) AS %s (x)", q.r.IntN(3), q.r.IntN(6), n), []column{{n + ".x", number, true}}
	}
	t := &q.tables[q.r.IntN(len(q.tables))]
	n := q.name("r")
	var cs []column
	for _, c := range t.columns {
		cs = append(cs, column{n + "." + c.text, c.kind, c.exact})
	}
	return t.name + " AS " + n, cs
}

// derived is a subquery in FROM.
func (q *queries) derived(outer []column) (string, []column) {
	q.depth++
	defer func() { q.depth-- }()
	n := q.name("s")
	sql, cs := q.selects(outer)
	for i := range cs {
		cs[i].text = n + "." + cs[i].text
	}
	return "(" + sql + ") AS " + n, cs
}

// selects is a SELECT whose columns have names. The columns of outer may be used in its WHERE clause and its list.
func (q *queries) selects(outer []column) (string, []column) {
	from, in := q.from(nil)
	for q.depth < 3 && q.names < 4 && q.chance(15) {
		f, more := q.from(nil)
		from, in = from+", "+f, append(in, more...)
	}
	all := append(append([]column(nil), in...), outer...)
	where := q.where(in, all)
	cs := []column{}
	var list []string
	add := func(text string, k kind, exact bool) {
		n := fmt.Sprintf("%c%d", "nwdb"[k], len(list)+1)
		list, cs = append(list, text+" AS "+n), append(cs, column{n, k, exact})
	}
	inexact := func(text string) bool { return strings.Contains(text, "float8") || !q.allExact(in) }
	plain := func(scope []column, count int) {
		for range count {
			k := kind(q.r.IntN(int(kinds)))
			e := q.expr(k, scope)
			if _, err := fmt.Sscan(e, new(int)); err == nil || strings.HasPrefix(e, "'") || e == "NULL" {
				e = fmt.Sprintf("(%s)::%s", e, []string{"int", "text", "timestamp", "bool"}[k])
			}
			add(e, k, !inexact(e))
		}
	}
	tail := ""
	switch n := q.r.IntN(12); {
	case n < 3: // groups
		var by []string
		for range 1 + q.r.IntN(2) {
			k := kind(q.r.IntN(int(kinds)))
			var fit []column
			for _, c := range in {
				if c.kind == k {
					fit = append(fit, c)
				}
			}
			if len(fit) > 0 {
				c := fit[q.r.IntN(len(fit))]
				by = append(by, c.text)
				add(c.text, k, c.exact)
			}
		}
		for range 1 + q.r.IntN(2) {
			add(q.aggregate(in), number, true)
		}
		if len(by) > 0 {
			tail = " GROUP BY " + strings.Join(by, ", ")
		}
		if q.chance(25) {
			tail += " HAVING " + q.aggregate(in) + q.pick(" > 1", " IS NOT NULL", " <= 3")
		}
	case n < 4: // windows, whose functions treat rows that are equal in their order alike
		plain(in, 1)
		over := fmt.Sprintf("(PARTITION BY %s ORDER BY %s%s)", q.of(kind(q.r.IntN(int(kinds))), in), q.of(kind(q.r.IntN(3)), in), q.pick("", " DESC", " NULLS FIRST"))
		add(q.pick("rank()", "dense_rank()", q.aggregateOver(in), q.aggregateOver(in))+" OVER "+over, number, true)
		add("count(*) OVER ()", number, true)
	case n < 5:
		plain(in, 1+q.r.IntN(3))
		return q.setOperation("SELECT "+strings.Join(list, ", ")+" FROM "+from+where, cs), cs
	case n < 6:
		plain(all, 1+q.r.IntN(3))
		return "SELECT DISTINCT " + strings.Join(list, ", ") + " FROM " + from + where, cs
	default:
		plain(all, 1+q.r.IntN(4))
	}
	sql := "SELECT " + strings.Join(list, ", ") + " FROM " + from + where + tail
	if q.chance(12) {
		sql += " " + q.total(len(cs)) + fmt.Sprintf(" LIMIT %d", q.r.IntN(5)) + q.pick("", "", " OFFSET 1")
	}
	return sql, cs
}

func (q *queries) allExact(in []column) bool {
	for _, c := range in {
		if !c.exact {
			return false
		}
	}
	return true
}

func (q *queries) aggregateOver(in []column) string {
	s := q.aggregate(in)
	return strings.ReplaceAll(s, "DISTINCT ", "")
}

// total is an order by all of n columns.
func (q *queries) total(n int) string {
	by := make([]string, n)
	for i, c := range q.r.Perm(n) {
		by[i] = fmt.Sprintf("%d%s", c+1, q.pick("", "", " DESC", " NULLS FIRST", " DESC NULLS LAST"))
	}
	return "ORDER BY " + strings.Join(by, ", ")
}

// setOperation combines a query with another one of the same columns.
func (q *queries) setOperation(left string, cs []column) string {
	from, in := q.from(nil)
	var list []string
	for _, c := range cs {
		list = append(list, q.of(c.kind, in))
	}
	return left + " " + q.pick("UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL") + " SELECT " + strings.Join(list, ", ") + " FROM " + from + q.where(in, in)
}

// query is a statement; ordered says that the order of its rows is determined.
func (q *queries) query() (sql string, ordered bool) {
	q.names, q.depth = 0, 0
	sql, cs := q.selects(nil)
	if q.chance(10) {
		n := q.name("c")
		list := make([]string, len(cs))
		for i := range cs {
			list[i] = n + "." + cs[i].text
			cs[i].text = list[i]
		}
		other, in := q.from(nil)
		return fmt.Sprintf("WITH %s AS %s(%s) SELECT %s FROM %s JOIN %s ON %s", n, q.pick("", "MATERIALIZED ", "NOT MATERIALIZED "), sql, strings.Join(list, ", "),
			n, other, q.condition(append(in, cs...))), false
	}
	if q.chance(10) {
		order := make([]string, len(cs))
		for i := range cs {
			order[i] = cs[i].text
		}
		on := 1 + q.r.IntN(len(cs))
		return fmt.Sprintf("SELECT DISTINCT ON (%s) * FROM (%s) AS z ORDER BY %s", strings.Join(order[:on], ", "), sql, strings.Join(order, ", ")), true
	}
	if q.chance(40) && !strings.Contains(sql, " LIMIT ") {
		sql += " " + q.total(len(cs))
		if q.chance(60) {
			sql += fmt.Sprintf(" LIMIT %d", q.r.IntN(8))
		}
		return sql, true
	}
	return sql, false
}
