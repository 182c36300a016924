package opttest

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/bits"
	"math/rand"
	"slices"
	"sort"
	"strings"
	"testing"

	"meridian/sql/opt"
)

var (
	seedFlag  = flag.Int64("seed", 1, "first seed of TestRandomQueries")
	countFlag = flag.Int("queries", 2400, "random queries to try")
)

// TestRandomQueries compares optimized plans with naive ones: the same query, the same data, the same rows.
func TestRandomQueries(t *testing.T) {
	const perData = 100
	found := 0
	for n := 0; n < *countFlag; n += perData {
		seed := *seedFlag + int64(n/perData)
		rng := rand.New(rand.NewSource(seed))
		d := randomDB(t, rng)
		for i := range perData {
			g := &generator{rng: rng}
			sql, ordered := g.query()
			d.perturb, d.joins, d.off = nil, []int{0, 0, 1, 4, 12}[rng.Intn(5)], 0
			if i%4 == 1 { // without some of the rules, one of them, or any
				d.off = opt.Rules(rng.Uint64()) & opt.AllRules
				if rng.Intn(2) == 0 {
					d.off = opt.Of(opt.Rule(rng.Intn(bits.OnesCount64(uint64(opt.AllRules)))))
				}
			}
			if i%3 > 0 { // with a random plan
				d.perturb = func(c float64) float64 { return c * rng.ExpFloat64() * 10 }
			}
			got := compare(d, sql, ordered)
			if strings.HasPrefix(got, "DIFFERENT") || strings.HasPrefix(got, "error: XX000") || strings.Contains(got, "internal error") || strings.Contains(got, "exec: ") {
				t.Fatalf("seed %d, without the rules %q:\n%s\n%s", seed, d.off, sql, got)
			}
		}
		found += d.found
	}
	if t.Logf("%d rows found by keys of several regions", found); found == 0 && *countFlag >= 2400 {
		t.Error("no key was looked for in several regions")
	}
}

// randomDB has three small tables with a few indexes, and sometimes statistics that lie.
func randomDB(t testing.TB, rng *rand.Rand) *db {
	d := newDB(t)
	regions := []string{"ap", "eu", "us"}
	d.gateway = append(regions, "")[rng.Intn(4)]
	d.must("CREATE TABLE t (a INT8 PRIMARY KEY, b INT8, c INT8 NOT NULL, s TEXT)")
	d.must("CREATE TABLE u (a INT8, b INT8, c INT8, s TEXT, PRIMARY KEY (a, b))")
	d.must("CREATE TABLE v (a INT8, b INT8 NOT NULL, c INT8, s TEXT)")
	indexes := []string{"t (b)", "t (c, b)", "t (b DESC, c)", "t (s)", "u (b)", "u (c DESC)", "u (s, c)", "v (a)", "v (b, a)", "v (c) STORING (a)", "t (c) STORING (s)"}
	for i, at := range rng.Perm(len(indexes)) {
		if i > 4 {
			break
		}
		d.must("CREATE INDEX i" + fmt.Sprint(i) + " ON " + indexes[at])
	}
	if rng.Intn(2) == 0 {
		d.must("CREATE UNIQUE INDEX uq ON v (c, a)")
	}
	// Some are REGIONAL BY ROW. Their rows are homed anywhere.
	homed := map[string]bool{}
	for _, name := range []string{"t", "u", "v"} {
		if homed[name] = rng.Intn(2) == 0; homed[name] {
			d.byRow(name)
		}
	}
	move := func(name string) {
		if homed[name] {
			d.home(name, regions[rng.Intn(3)])
		}
	}
	val := func(n int, null bool) string {
		if null && rng.Intn(6) == 0 {
			return "NULL"
		}
		return fmt.Sprint(rng.Intn(n))
	}
	str := func() string {
		if rng.Intn(6) == 0 {
			return "NULL"
		}
		return "'" + []string{"a", "ab", "b", "ba", "", "abc"}[rng.Intn(6)] + "'"
	}
	for i := range 4 + rng.Intn(12) {
		move("t")
		d.must(fmt.Sprintf("INSERT INTO t VALUES (%d, %s, %s, %s)", i, val(6, true), val(5, false), str()))
	}
	for a := range 5 {
		for b := range 4 {
			if rng.Intn(3) > 0 {
				move("u")
				d.must(fmt.Sprintf("INSERT INTO u VALUES (%d, %d, %s, %s)", a, b, val(6, true), str()))
			}
		}
	}
	for range rng.Intn(14) {
		// A unique index may refuse a row.
		move("v")
		d.run(fmt.Sprintf("INSERT INTO v VALUES (%s, %s, %s, %s)", val(6, true), val(5, false), val(8, true), str()))
	}
	for _, name := range []string{"t", "u", "v"} {
		if rng.Intn(2) == 0 {
			d.setStats(name, []int64{1, 20, 1000, 1000000}[rng.Intn(4)], map[string]int64{"a": 10, "b": int64(1 + rng.Intn(1000))})
		}
	}
	return d
}

// generator makes queries over integer columns a, b, c and a text column s.
type generator struct {
	rng   *rand.Rand
	alias int
	depth int
}

func (g *generator) pick(xs ...string) string { return xs[g.rng.Intn(len(xs))] }

func (g *generator) chance(percent int) bool { return g.rng.Intn(100) < percent }

func (g *generator) name() string {
	g.alias++
	return fmt.Sprintf("r%d", g.alias)
}

// relation is something in FROM: its text and the aliases that may be used for columns a, b, c, s.
func (g *generator) relation(outer []string) (string, []string) {
	if g.depth < 3 && g.alias < 5 && g.chance(30) {
		g.depth++
		defer func() { g.depth-- }()
		l, ls := g.relation(outer)
		r, rs := g.relation(outer)
		kind := g.pick("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN")
		both := append(append([]string(nil), ls...), rs...)
		if kind == "CROSS JOIN" {
			return "(" + l + " CROSS JOIN " + r + ")", both
		}
		on := fmt.Sprintf("%s.%s = %s.%s", g.pick(ls...), g.intCol(), g.pick(rs...), g.intCol())
		if g.chance(30) {
			on += " AND " + g.predicate(both, outer)
		}
		if g.chance(8) {
			on = g.predicate(both, nil)
			if kind == "FULL JOIN" {
				kind = "LEFT JOIN"
			}
		}
		return "(" + l + " " + kind + " " + r + " ON " + on + ")", both
	}
	n := g.name()
	if g.depth < 2 && g.chance(20) {
		g.depth++
		defer func() { g.depth-- }()
		return "(" + g.derived(outer) + ") AS " + n, []string{n}
	}
	return g.pick("t", "u", "v") + " AS " + n, []string{n}
}

// derived is a subquery with columns a, b, c, s.
func (g *generator) derived(outer []string) string {
	from, as := g.relation(nil)
	where := ""
	if g.chance(60) {
		where = " WHERE " + g.predicate(as, nil)
	}
	x := g.pick(as...)
	switch g.rng.Intn(7) {
	case 0:
		return fmt.Sprintf("SELECT %s.a, count(*) AS b, max(%s.c) AS c, min(%s.s) AS s FROM %s%s GROUP BY %s.a", x, x, x, from, where, x)
	case 1:
		return fmt.Sprintf("SELECT DISTINCT %s.a, %s.b, %s.c, %s.s FROM %s%s", x, x, x, x, from, where)
	case 2:
		return fmt.Sprintf("SELECT %s.a, %s.b + 1 AS b, %s.c * %s.a AS c, %s.s FROM %s%s", x, x, x, x, x, from, where)
	case 3:
		y := g.name()
		return fmt.Sprintf("SELECT %s.a, %s.b, %s.c, %s.s FROM %s%s %s SELECT %s.c, %s.b, %s.a, %s.s FROM t AS %s", x, x, x, x, from, where,
			g.pick("UNION", "UNION ALL", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL"), y, y, y, y, y)
	case 4:
		return fmt.Sprintf("SELECT %s.a, %s.b, sum(%s.c) OVER (PARTITION BY %s.b) AS c, %s.s FROM %s%s", x, x, x, x, x, from, where)
	case 5:
		return fmt.Sprintf("SELECT sum(%s.a) AS a, count(%s.b) AS b, min(%s.c) AS c, max(%s.s) AS s FROM %s%s", x, x, x, x, from, where)
	}
	return fmt.Sprintf("SELECT %s.a, %s.b, %s.c, %s.s FROM %s%s", x, x, x, x, from, where)
}

func (g *generator) intCol() string { return g.pick("a", "b", "c") }

// number is an integer expression.
func (g *generator) number(as, outer []string) string {
	switch n := g.rng.Intn(10); {
	case n < 5:
		return g.pick(as...) + "." + g.intCol()
	case n < 6 && len(outer) > 0:
		return g.pick(outer...) + "." + g.intCol()
	case n < 7:
		return g.pick(as...) + "." + g.intCol() + " + 1"
	case n < 8 && g.depth < 2:
		g.depth++
		defer func() { g.depth-- }()
		from, in := g.relation(nil)
		all := append(append([]string(nil), as...), outer...)
		return fmt.Sprintf("(SELECT %s(%s.%s) FROM %s WHERE %s)", g.pick("max", "min", "count"), g.pick(in...), g.intCol(), from, g.predicate(in, all))
	}
	return fmt.Sprint(g.rng.Intn(6))
}

// predicate is a condition over some aliases, which may also use those of enclosing queries.
func (g *generator) predicate(as, outer []string) string {
	x := g.pick(as...)
	switch n := g.rng.Intn(24); {
	case n > 21 && g.depth < 2: // equalities with the row, which become joins
		y := g.name()
		sub := fmt.Sprintf("FROM %s AS %s WHERE %s.%s = %s.%s", g.pick("t", "u", "v"), y, y, g.intCol(), x, g.intCol())
		if g.chance(30) {
			sub += " AND " + g.predicate([]string{y}, nil)
		}
		switch g.rng.Intn(5) {
		case 3:
			return fmt.Sprintf("(%s.%s, %s.%s) %s (SELECT %s.%s, %s.%s %s)", x, g.intCol(), g.pick(as...), g.intCol(), g.pick("IN", "IN", "NOT IN"),
				y, g.intCol(), y, g.intCol(), sub)
		case 4:
			return fmt.Sprintf("(%s.%s, %s.%s) %s (SELECT p, q FROM unnest(ARRAY[1, 2, NULL, 3], ARRAY[2, %d, 1, 3]) AS %s (p, q))", x, g.intCol(), x, g.intCol(),
				g.pick("IN", "IN", "NOT IN"), g.rng.Intn(6), y)
		case 0:
			return fmt.Sprintf("%sEXISTS (SELECT 1 %s)", g.pick("", "NOT "), sub)
		case 1:
			return fmt.Sprintf("(SELECT %s(%s.%s) %s) %s %s", g.pick("max", "count", "sum"), y, g.intCol(), sub, g.pick("=", "<", ">="), g.number(as, nil))
		}
		return fmt.Sprintf("%s.%s %s (SELECT %s.%s %s)", g.pick(as...), g.intCol(), g.pick("IN", "NOT IN", "= ANY", "< ANY", "<> ALL", "> ALL"), y, g.intCol(), sub)
	case n < 5:
		return fmt.Sprintf("%s.%s %s %s", x, g.intCol(), g.pick("=", "=", "<", ">=", "<>"), g.number(as, outer))
	case n < 7 && len(outer) > 0:
		return fmt.Sprintf("%s.%s = %s.%s", x, g.intCol(), g.pick(outer...), g.intCol())
	case n < 8:
		return fmt.Sprintf("%s.%s IN (%d, %d, %d)", x, g.intCol(), g.rng.Intn(6), g.rng.Intn(6), g.rng.Intn(6))
	case n < 9:
		return fmt.Sprintf("%s.%s IS %sNULL", x, g.pick("a", "b", "c", "s"), g.pick("", "NOT "))
	case n < 10:
		return fmt.Sprintf("%s.s LIKE '%s'", x, g.pick("a%", "ab%", "%b", "a", "_b%"))
	case n < 12:
		return "(" + g.predicate(as, outer) + " AND " + g.predicate(as, outer) + ")"
	case n < 13:
		return "(" + g.predicate(as, outer) + " OR " + g.predicate(as, outer) + ")"
	case n < 14:
		return "NOT (" + g.predicate(as, outer) + ")"
	case n < 15:
		c := g.intCol()
		return fmt.Sprintf("%s.%s BETWEEN %d AND %d", x, c, g.rng.Intn(4), 1+g.rng.Intn(5))
	case n < 19 && g.depth < 2:
		g.depth++
		defer func() { g.depth-- }()
		from, in := g.relation(nil)
		all := append(append([]string(nil), as...), outer...)
		where := " WHERE " + g.predicate(in, all)
		if g.chance(40) {
			where += " AND " + g.predicate(in, all)
		}
		switch g.rng.Intn(4) {
		case 0:
			return fmt.Sprintf("%s.%s %s (SELECT %s.%s FROM %s%s)", x, g.intCol(), g.pick("IN", "NOT IN", "= ANY", "< ALL"), g.pick(in...), g.intCol(), from, where)
		case 1:
			y := g.pick(in...)
			return fmt.Sprintf("%s.%s = (SELECT max(%s.%s) FROM %s%s)", x, g.intCol(), y, g.intCol(), from, where)
		}
		return fmt.Sprintf("%sEXISTS (SELECT 1 FROM %s%s)", g.pick("", "NOT "), from, where)
	}
	return fmt.Sprintf("%s.%s = %d", x, g.intCol(), g.rng.Intn(6))
}

// item is an expression of a select list.
func (g *generator) item(as []string) string {
	switch g.rng.Intn(4) {
	case 0:
		return "(" + g.predicate(as, nil) + g.pick("", "", " OR "+g.predicate(as, nil), " AND "+g.predicate(as, nil)) + ")"
	case 1:
		return fmt.Sprintf("CASE WHEN %s THEN %s ELSE %s END", g.predicate(as, nil), g.number(as, nil), g.number(as, nil))
	}
	return g.number(as, nil)
}

// query is a whole statement; ordered says that the order of its rows is determined.
func (g *generator) query() (string, bool) {
	from, as := g.relation(nil)
	for g.alias < 4 && g.chance(25) {
		f, more := g.relation(nil)
		from += ", " + f
		as = append(as, more...)
	}
	if g.chance(12) {
		n := g.name()
		x := g.name()
		from += fmt.Sprintf(", LATERAL (SELECT %s.a, %s.b, %s.c, %s.s FROM %s AS %s WHERE %s) AS %s", x, x, x, x, g.pick("t", "u", "v"), x,
			g.predicate([]string{x}, as), n)
		as = append(as, n)
	}
	var where string
	if g.chance(75) {
		parts := []string{g.predicate(as, nil)}
		for g.chance(45) {
			parts = append(parts, g.predicate(as, nil))
		}
		where = " WHERE " + strings.Join(parts, " AND ")
	}
	x := g.pick(as...)
	if g.chance(25) {
		y := g.pick(as...)
		having := ""
		if g.chance(30) {
			having = g.pick(" HAVING count(*) > 1", " HAVING max("+y+".a) < 4", fmt.Sprintf(" HAVING %s.a = 2", x))
		}
		sum := y + ".c"
		if g.chance(30) {
			sum = g.pick("", "1 + ") + g.number(as, nil)
		}
		if g.chance(20) {
			sum = "CASE WHEN " + g.predicate(as, nil) + " THEN 1 ELSE 2 END"
		}
		sql := fmt.Sprintf("SELECT %s.a, %s.b, count(*), sum(%s), count(DISTINCT %s.b) FROM %s%s GROUP BY %s.a, %s.b%s", x, x, sum, y, from, where, x, x, having)
		if g.chance(40) {
			// Groups are determined by their columns.
			return sql + fmt.Sprintf(" ORDER BY %s.b%s, %s.a%s LIMIT %d", x, g.pick("", " DESC", " NULLS FIRST"), x, g.pick("", " DESC"), 1+g.rng.Intn(5)), true
		}
		return sql, false
	}
	var cols []string
	for i := range 2 + g.rng.Intn(3) {
		if i > 0 && g.chance(30) {
			cols = append(cols, g.item(as)+fmt.Sprintf(" AS e%d", i))
			continue
		}
		cols = append(cols, fmt.Sprintf("%s.%s AS e%d", g.pick(as...), g.pick("a", "b", "c", "s"), i))
	}
	distinct := ""
	if g.chance(20) {
		distinct = "DISTINCT "
	}
	sql := "SELECT " + distinct + strings.Join(cols, ", ") + " FROM " + from + where
	if g.chance(40) {
		// Ordering by every output column leaves only the order of equal rows open.
		order := g.rng.Perm(len(cols))
		var by []string
		for _, i := range order {
			by = append(by, fmt.Sprintf("%d%s", i+1, g.pick("", "", " DESC", " NULLS FIRST", " DESC NULLS LAST")))
		}
		sql += " ORDER BY " + strings.Join(by, ", ")
		if g.chance(60) {
			sql += fmt.Sprintf(" LIMIT %d", 1+g.rng.Intn(8))
			if g.chance(30) {
				sql += fmt.Sprintf(" OFFSET %d", g.rng.Intn(4))
			}
		}
		return sql, true
	}
	return sql, false
}

// mutation is a statement that changes rows, and returns them.
func (g *generator) mutation() string {
	table := g.pick("t", "u", "v")
	n := g.name()
	where := ""
	if g.chance(85) {
		where = " WHERE " + g.predicate([]string{n}, nil)
	}
	set := "c = " + fmt.Sprintf("%s.c + %d", n, 1+g.rng.Intn(3))
	if table != "u" && g.chance(40) {
		set += ", b = " + fmt.Sprint(g.rng.Intn(6))
	}
	if g.chance(20) {
		set += ", s = 'new'"
	}
	switch g.rng.Intn(6) {
	case 0:
		return fmt.Sprintf("DELETE FROM %s AS %s%s RETURNING %s.a, %s.s", table, n, where, n, n)
	case 1:
		m := g.name()
		return fmt.Sprintf("DELETE FROM %s AS %s USING %s AS %s WHERE %s.%s = %s.%s AND %s", table, n, g.pick("t", "u", "v"), m,
			n, g.intCol(), m, g.intCol(), g.predicate([]string{n, m}, nil))
	case 2:
		m := g.name()
		return fmt.Sprintf("UPDATE %s AS %s SET %s FROM %s AS %s WHERE %s.%s = %s.%s AND %s", table, n, set, g.pick("t", "u", "v"), m,
			n, g.intCol(), m, g.intCol(), g.predicate([]string{n, m}, nil))
	case 3:
		return fmt.Sprintf("INSERT INTO t SELECT 1000 + %s.a * 10 + %s.b, %s.c, 3, %s.s FROM u AS %s WHERE %s", n, n, n, n, n, g.predicate([]string{n}, nil))
	case 4:
		return fmt.Sprintf("INSERT INTO t VALUES (%d, 1, 2, 'in'), (%d, 4, 4, 'in') ON CONFLICT (a) DO %s", g.rng.Intn(20), 20+g.rng.Intn(20),
			g.pick("NOTHING", "UPDATE SET b = excluded.b + t.c, s = 'up' WHERE t.c < 4"))
	}
	return fmt.Sprintf("UPDATE %s AS %s SET %s%s RETURNING *", table, n, set, where)
}

// TestRandomMutations compares the stores after optimized and naive mutations.
func TestRandomMutations(t *testing.T) {
	for n := range 12 {
		rng := rand.New(rand.NewSource(*seedFlag + int64(n)))
		d := randomDB(t, rng)
		for range 40 {
			g := &generator{rng: rng}
			sql := g.mutation()
			if d.perturb = nil; g.chance(50) {
				d.perturb = func(c float64) float64 { return c * rng.ExpFloat64() * 10 }
			}
			before, id := maps.Clone(d.data), rowID
			fast, p, err := results(d, sql, false)
			after := d.data
			d.data, d.stale, rowID = maps.Clone(before), true, id
			slow, np, nerr := results(d, sql, true)
			sort.Strings(fast)
			sort.Strings(slow)
			if (err == nil) != (nerr == nil) || err == nil && (!maps.EqualFunc(after, d.data, bytes.Equal) || !slices.Equal(fast, slow)) {
				t.Fatalf("seed %d: %s\nerrors %v, %v\nreturned %v\nand %v\n%s\n%s", *seedFlag+int64(n), sql, err, nerr, fast, slow,
					strings.Join(opt.Explain(p, opt.ExplainOptions{}), "\n"), strings.Join(opt.Explain(np, opt.ExplainOptions{}), "\n"))
			}
			if err != nil {
				d.data, d.stale = before, true
				if strings.Contains(err.Error(), "internal") || strings.Contains(err.Error(), "exec:") {
					t.Fatalf("%s: %v", sql, err)
				}
			}
		}
	}
}

// TestRandomOrders is about orders that indexes provide: every prefix of an index, both ways, with equalities.
func TestRandomOrders(t *testing.T) {
	rng := rand.New(rand.NewSource(*seedFlag))
	for range 10 {
		d := randomDB(t, rng)
		for range 60 {
			g := &generator{rng: rng}
			cols := []string{"a", "b", "c", "s"}
			rng.Shuffle(len(cols), func(i, j int) { cols[i], cols[j] = cols[j], cols[i] })
			by := make([]string, 0, 4)
			for _, c := range cols {
				by = append(by, c+g.pick("", " DESC", " NULLS FIRST", " DESC NULLS LAST"))
			}
			where := ""
			if g.chance(60) {
				where = " WHERE " + g.predicate([]string{"x"}, nil)
			}
			if d.perturb = nil; g.chance(50) {
				d.perturb = func(c float64) float64 { return c * rng.ExpFloat64() * 10 }
			}
			sql := fmt.Sprintf("SELECT a, b, c, s FROM %s AS x%s ORDER BY %s LIMIT %d", g.pick("t", "u", "v"), where, strings.Join(by, ", "), 1+rng.Intn(10))
			if got := compare(d, sql, true); strings.HasPrefix(got, "DIFFERENT") {
				t.Fatalf("%s\n%s", sql, got)
			}
		}
	}
}
