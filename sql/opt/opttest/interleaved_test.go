package opttest

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"meridian/sql/opt"
)

// hierarchy are tables of four levels, and siblings: x in w in v in u, s in u, and t in v. Keys are columns a, b, c, d; the others are n and s.
var hierarchy = []struct {
	name, create string
	keys         int
}{
	{"u", "CREATE TABLE u (a INT8, n INT8, s TEXT, PRIMARY KEY (a))", 1},
	{"v", "CREATE TABLE v (a INT8, b TEXT, n INT8, s TEXT, PRIMARY KEY (a, b DESC)) INTERLEAVE IN PARENT u (a)", 2},
	{"s", "CREATE TABLE s (a INT8, b TEXT, n INT8, s TEXT, PRIMARY KEY (a, b)) INTERLEAVE IN PARENT u (a)", 2},
	{"w", "CREATE TABLE w (n INT8, c INT8, a INT8, b TEXT, s TEXT, PRIMARY KEY (a, b DESC, c)) INTERLEAVE IN PARENT v (a, b)", 3},
	{"t", "CREATE TABLE t (a INT8, b TEXT, c INT8, n INT8, s TEXT, PRIMARY KEY (a, b DESC, c)) INTERLEAVE IN PARENT v (a, b)", 3},
	{"x", "CREATE TABLE x (a INT8, b TEXT, c INT8, d INT8, n INT8, s TEXT, PRIMARY KEY (a, b DESC, c, d)) INTERLEAVE IN PARENT w (a, b, c)", 4},
}

// parents has the tables above each.
var parents = map[string][]string{"v": {"u"}, "s": {"u"}, "w": {"v", "u"}, "t": {"v", "u"}, "x": {"w", "v", "u"}}

// hierarchyDB has the tables with a few rows each, some without a parent, and sometimes statistics that lie.
func hierarchyDB(t testing.TB, dice *rand.Rand) *db {
	d := newDB(t)
	for _, h := range hierarchy {
		d.must(h.create)
		if dice.Intn(4) == 0 {
			d.must(fmt.Sprintf("CREATE INDEX ON %s (n)", h.name))
		}
	}
	full := 1 + dice.Intn(4)
	for _, h := range hierarchy {
		for range dice.Intn(8 * full) {
			cols, vals := []string{"n", "s"}, []string{fmt.Sprint(dice.Intn(5)), fmt.Sprintf("'%c'", 'a'+dice.Intn(3))}
			for i := range vals {
				if dice.Intn(5) == 0 {
					vals[i] = "NULL"
				}
			}
			for i := range h.keys {
				cols = append(cols, string(rune('a'+i)))
				v := fmt.Sprint(dice.Intn(4))
				if i == 1 {
					v = "'" + v + "'"
				}
				vals = append(vals, v)
			}
			d.run(fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", h.name, strings.Join(cols, ", "), strings.Join(vals, ", "))) // or the key is there
		}
	}
	for _, h := range hierarchy {
		switch dice.Intn(4) {
		case 0:
			d.setStats(h.name, []int64{1, 20, 1000, 1000000}[dice.Intn(4)], map[string]int64{"a": 10})
		case 1:
			d.analyze(h.name)
		}
	}
	if dice.Intn(2) == 0 {
		d.page = int64(1 + dice.Intn(6))
	}
	return d
}

// related makes queries that join tables of the hierarchy, mostly by the keys of the upper ones.
type related struct {
	*generator
	aliases []string
	tables  map[string]string // by alias
}

func (g *related) add(table string) string {
	n := g.name()
	g.aliases = append(g.aliases, n)
	g.tables[n] = table
	return n
}

func keysOf(table string) (n int) {
	for _, h := range hierarchy {
		if h.name == table {
			n = h.keys
		}
	}
	return n
}

// cond is a condition over some aliases.
func (g *related) cond(as ...string) string {
	x := g.pick(as...)
	col := x + "." + g.pick("a", "a", "n", "n", "s")
	if k := keysOf(g.tables[x]); k > 1 && g.chance(30) {
		col = x + "." + string(rune('a'+1+g.rng.Intn(k-1)))
	}
	val := fmt.Sprint(g.rng.Intn(5))
	if strings.HasSuffix(col, ".s") || strings.HasSuffix(col, ".b") {
		if val = "'" + val + "'"; strings.HasSuffix(col, ".s") {
			val = g.pick("'a'", "'b'", "'c'")
		}
	}
	switch g.rng.Intn(12) {
	case 0, 1, 2:
		return col + " = " + val
	case 3, 4:
		return fmt.Sprintf("%s %s %s", col, g.pick("<", "<=", ">", ">=", "<>"), val)
	case 5:
		return fmt.Sprintf("%s.a IN (%d, %d, %d)", x, g.rng.Intn(4), g.rng.Intn(4), g.rng.Intn(4))
	case 6:
		return fmt.Sprintf("%s.a BETWEEN %d AND %d", x, g.rng.Intn(4), g.rng.Intn(5))
	case 7:
		return fmt.Sprintf("%s.%s IS %sNULL", x, g.pick("n", "s", "a"), g.pick("", "NOT "))
	case 8:
		return fmt.Sprintf("%s.n %s %s.n", x, g.pick("=", "<", "<>"), g.pick(as...))
	case 9:
		return "(" + g.cond(as...) + " OR " + g.cond(as...) + ")"
	case 10:
		return fmt.Sprintf("%s.a = ANY (ARRAY[%d, NULL, %d])", x, g.rng.Intn(4), g.rng.Intn(4))
	}
	return fmt.Sprintf("%s.a = %d", x, g.rng.Intn(4))
}

// on equates the key of the upper of two tables, or sometimes less.
func (g *related) on(upper, lower string) string {
	var parts []string
	for i := range keysOf(g.tables[upper]) {
		if g.chance(4) {
			continue
		}
		c := string(rune('a' + i))
		from := upper
		for _, x := range g.aliases { // an equality may be with another table that has the column
			if g.chance(15) && x != lower && keysOf(g.tables[x]) > i {
				from = x
			}
		}
		parts = append(parts, fmt.Sprintf("%s.%s = %s.%s", from, c, lower, c))
	}
	for g.chance(30) {
		parts = append(parts, g.cond(g.aliases...))
	}
	if len(parts) == 0 {
		return "true"
	}
	g.rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return strings.Join(parts, " AND ")
}

// query is a statement; ordered says that the order of its rows is determined.
func (g *related) query() (sql string, ordered bool) {
	low := g.pick("v", "w", "t", "x", "x", "s")
	list := []string{low}
	for _, p := range parents[low] {
		if len(list) < 3 && g.chance(80) {
			list = append(list, p)
		}
	}
	if len(list) == 1 {
		list = append(list, g.pick(parents[low]...))
	}
	if g.chance(20) { // a sibling, or the same table again
		list = append([]string{g.pick("s", "t", "v")}, list...)
	}
	// From the uppermost down, mostly.
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
	if g.chance(20) {
		g.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	from := list[0] + " AS " + g.add(list[0])
	var where []string
	visible := g.aliases
	for _, table := range list[1:] {
		upper := g.aliases[len(g.aliases)-1]
		if g.chance(20) {
			upper = g.pick(g.aliases...)
		}
		n := g.add(table)
		a, b := upper, n
		if keysOf(g.tables[a]) > keysOf(table) {
			a, b = b, a
		}
		switch k := g.rng.Intn(12); {
		case k < 5:
			from += fmt.Sprintf(" JOIN %s AS %s ON %s", table, n, g.on(a, b))
		case k < 8:
			from += fmt.Sprintf(" LEFT JOIN %s AS %s ON %s", table, n, g.on(a, b))
		case k < 9:
			from += fmt.Sprintf(" RIGHT JOIN %s AS %s ON %s", table, n, g.on(a, b))
		default:
			where = append(where, fmt.Sprintf("%sEXISTS (SELECT FROM %s AS %s WHERE %s)", g.pick("", "NOT "), table, n, g.on(a, b)))
			g.aliases = g.aliases[:len(g.aliases)-1]
			continue
		}
		visible = g.aliases
	}
	for g.chance(50) {
		where = append(where, g.cond(visible...))
	}
	var cols []string
	if low := g.pick(visible...); g.chance(20) { // in the order of its key, or another one
		var by []string
		for i := range keysOf(g.tables[low]) {
			from := low
			if x := g.pick(visible...); g.chance(50) && keysOf(g.tables[x]) > i {
				from = x
			}
			desc := ""
			if i == 1 != g.chance(10) {
				desc = " DESC"
			}
			cols = append(cols, from+"."+string(rune('a'+i)))
			by = append(by, fmt.Sprint(i+1, desc))
		}
		sql = "SELECT " + strings.Join(cols, ", ") + " FROM " + from
		if len(where) > 0 {
			sql += " WHERE " + strings.Join(where, " AND ")
		}
		sql += " ORDER BY " + strings.Join(by, ", ")
		if g.chance(60) {
			sql += fmt.Sprintf(" LIMIT %d", 1+g.rng.Intn(8))
		}
		return sql, true
	}
	for range 1 + g.rng.Intn(4) {
		cols = append(cols, g.pick(visible...)+"."+g.pick("a", "n", "s"))
	}
	sql = "SELECT " + strings.Join(cols, ", ") + " FROM " + from
	if g.chance(15) {
		sql = "SELECT count(*), sum(" + g.pick(visible...) + ".n) FROM " + from
		cols = nil
	}
	if len(where) > 0 {
		sql += " WHERE " + strings.Join(where, " AND ")
	}
	if cols != nil && g.chance(30) {
		sql += " ORDER BY 1"
		for i := range cols[1:] {
			sql += fmt.Sprintf(", %d", i+2)
		}
		if g.chance(50) {
			sql += fmt.Sprintf(" LIMIT %d", 1+g.rng.Intn(5))
		}
		return sql, true
	}
	return sql, false
}

// TestRandomInterleaved compares plans that read a hierarchy by one scan with naive ones, which read each table by itself.
func TestRandomInterleaved(t *testing.T) {
	plans := map[string]int{}
	for n := range 60 {
		seed := *seedFlag + int64(n)
		dice := rand.New(rand.NewSource(seed))
		d := hierarchyDB(t, dice)
		for i := range 50 {
			g := &related{generator: &generator{rng: dice}, tables: map[string]string{}}
			sql, ordered := g.query()
			if d.perturb = nil; i%2 > 0 {
				d.perturb = func(c float64) float64 { return c * dice.ExpFloat64() * 10 }
			}
			got := compare(d, sql, ordered)
			if strings.HasPrefix(got, "DIFFERENT") || strings.HasPrefix(got, "error") {
				t.Fatalf("seed %d:\n%s\n%s", seed, sql, got)
			}
			p, err := d.plan(sql)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range opt.Explain(p, opt.ExplainOptions{}) {
				if _, of, ok := strings.Cut(line, "interleaved join "); ok {
					shape := fmt.Sprint(strings.Count(of, ",")+1, " tables")
					for _, k := range []string{"left", "semi", "anti"} {
						if strings.Contains(of, k) {
							shape += " " + k
						}
					}
					plans[shape]++
				}
			}
		}
	}
	t.Log(plans)
	for _, shape := range []string{"2 tables", "2 tables left", "2 tables semi", "2 tables anti", "3 tables", "3 tables left", "3 tables semi", "3 tables left anti"} {
		if plans[shape] < 5 {
			t.Errorf("%d plans of %s", plans[shape], shape)
		}
	}
}
