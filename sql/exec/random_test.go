package exec

import (
	"fmt"
	"math/rand"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"meridian/sql/catalog"
	"meridian/sql/opt"
)

// querygen draws queries over the tables of TestPlansAgree.
type querygen struct {
	rng   *rand.Rand
	alias int
	depth int
}

func (g *querygen) pick(list ...string) string { return list[g.rng.Intn(len(list))] }
func (g *querygen) chance(percent int) bool    { return g.rng.Intn(100) < percent }

// relation is a name in scope, with columns a, b, c (numbers, with NULLs) and d (text).
type relation struct{ name string }

var numbers = []string{"a", "b", "c"}

func (g *querygen) column(scope []relation) string {
	return scope[g.rng.Intn(len(scope))].name + "." + g.pick(numbers...)
}

func (g *querygen) number(scope []relation) string {
	switch g.rng.Intn(10) {
	case 0, 1, 2:
		return fmt.Sprint(g.rng.Intn(8))
	case 3:
		return "(" + g.column(scope) + " + " + fmt.Sprint(g.rng.Intn(3)) + ")"
	case 4:
		return "coalesce(" + g.column(scope) + ", " + fmt.Sprint(g.rng.Intn(5)) + ")"
	case 5:
		if g.depth < 2 {
			return g.scalarSubquery(scope)
		}
	}
	return g.column(scope)
}

func (g *querygen) condition(scope []relation) string {
	switch g.rng.Intn(15) {
	case 0, 1, 2, 3:
		return g.column(scope) + " " + g.pick("=", "=", "=", "<", ">", "<=", ">=", "<>") + " " + g.number(scope)
	case 4:
		return g.column(scope) + g.pick(" IS NULL", " IS NOT NULL")
	case 5:
		return g.column(scope) + " " + g.pick("IN", "NOT IN") + " (1, 3, " + g.number(scope) + ")"
	case 6:
		return g.column(scope) + " BETWEEN " + g.number(scope) + " AND " + g.number(scope)
	case 7:
		return "(" + g.condition(scope) + " OR " + g.condition(scope) + ")"
	case 8:
		return "(" + g.condition(scope) + " AND " + g.condition(scope) + ")"
	case 9:
		return "NOT (" + g.condition(scope) + ")"
	case 10:
		return scope[g.rng.Intn(len(scope))].name + ".d " + g.pick("= 'x'", "LIKE 'x%'", "> 'y'", "IS NULL")
	case 11, 12:
		if g.depth < 2 {
			return g.pick("EXISTS ", "NOT EXISTS ") + g.subquery(scope, "1")
		}
	case 13:
		if g.depth < 2 {
			return g.column(scope) + g.pick(" IN ", " NOT IN ", " = ANY ", " > ALL ") + g.subquery(scope, "")
		}
	}
	return g.column(scope) + " = " + g.column(scope)
}

// subquery selects one number, or the given list, from tables of its own, with conditions that may look outside.
func (g *querygen) subquery(scope []relation, list string) string {
	g.depth++
	defer func() { g.depth-- }()
	from, inner := g.from(1 + g.rng.Intn(2))
	both := append(append([]relation(nil), scope...), inner...)
	if list == "" {
		list = g.column(inner)
	}
	q := "(SELECT " + list + " FROM " + from
	if g.chance(80) {
		q += " WHERE " + g.condition(both)
	}
	return q + ")"
}

func (g *querygen) scalarSubquery(scope []relation) string {
	g.depth++
	defer func() { g.depth-- }()
	from, inner := g.from(1)
	both := append(append([]relation(nil), scope...), inner...)
	return "(SELECT " + g.pick("max", "min", "count", "sum") + "(" + g.column(inner) + ") FROM " + from + " WHERE " + g.condition(both) + ")"
}

// from joins n tables.
func (g *querygen) from(n int) (string, []relation) {
	var scope []relation
	var text string
	for i := range n {
		g.alias++
		name := fmt.Sprintf("q%d", g.alias)
		item := g.pick("r", "s", "u") + " " + name
		if g.depth < 2 && g.chance(10) {
			g.depth++
			f, inner := g.from(1 + g.rng.Intn(2))
			in := inner[0].name
			item = "(SELECT " + in + ".a, " + in + ".b, " + g.column(inner) + " AS c, " + in + ".d FROM " + f
			if g.chance(50) {
				item += " WHERE " + g.condition(inner)
			}
			item += ") " + name
			g.depth--
		}
		if i == 0 {
			text = item
			scope = append(scope, relation{name: name})
			continue
		}
		join := g.pick("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN")
		text += " " + join + " " + item
		prev := scope[g.rng.Intn(len(scope))].name
		scope = append(scope, relation{name: name})
		if join != "CROSS JOIN" {
			// FULL JOIN is only supported on conditions that can be merged or hashed, in PostgreSQL.
			text += " ON " + prev + "." + g.pick(numbers...) + " = " + name + "." + g.pick(numbers...)
			if join != "FULL JOIN" && g.chance(30) {
				text += " AND " + g.condition(scope)
			}
		}
	}
	return text, scope
}

// query draws a whole statement whose rows are determined up to their order.
func (g *querygen) query() string {
	from, scope := g.from(1 + g.rng.Intn(3))
	var list, groups []string
	tail := ""
	n := 1 + g.rng.Intn(3)
	switch g.rng.Intn(6) {
	case 0: // grouped
		for range g.rng.Intn(3) {
			groups = append(groups, g.column(scope))
		}
		list = append(list, groups...)
		for range n {
			list = append(list, g.pick("count", "sum", "min", "max", "count(DISTINCT", "sum(DISTINCT")+"("+g.number(scope)+")")
		}
		for i := range list {
			list[i] = strings.Replace(list[i], "DISTINCT(", "DISTINCT ", 1)
		}
		if len(groups) > 0 {
			tail = " GROUP BY " + strings.Join(groups, ", ")
		}
		if g.chance(30) {
			tail += " HAVING count(*) > 1"
		}
	case 1:
		for range n {
			list = append(list, g.number(scope))
		}
		list[0] = "DISTINCT " + list[0]
	default:
		for range n {
			list = append(list, g.number(scope))
		}
	}
	q := "SELECT " + strings.Join(list, ", ") + " FROM " + from
	if g.chance(75) {
		q += " WHERE " + g.condition(scope)
		for g.chance(40) {
			q += " AND " + g.condition(scope)
		}
	}
	q += tail
	if g.chance(15) {
		q += " " + g.pick("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "EXCEPT ALL") + " SELECT " + strings.TrimSuffix(strings.Repeat("1, ", len(list)), ", ")
	} else if g.chance(30) {
		// Ordered by every output column: a limit is determined.
		q += " ORDER BY "
		for i := range list {
			if i > 0 {
				q += ", "
			}
			q += fmt.Sprint(i+1) + g.pick("", " DESC", " NULLS FIRST")
		}
		if g.chance(60) {
			q += fmt.Sprintf(" LIMIT %d", g.rng.Intn(6))
		}
		if g.chance(30) {
			q += fmt.Sprintf(" OFFSET %d", g.rng.Intn(4))
		}
	}
	return q
}

// change draws a statement that changes r, s or u, with keys that often collide. Its effects do not depend on the
// order in which rows are found.
func (g *querygen) change() string {
	val := func() string {
		if g.chance(15) {
			return "NULL"
		}
		return fmt.Sprint(g.rng.Intn(15))
	}
	text := func() string { return g.pick("'x'", "'xy'", "'y'", "'z'", "NULL") }
	rows := func(n int) string {
		var out []string
		for range n {
			out = append(out, fmt.Sprintf("(%d, %d, %s, %s)", g.rng.Intn(30), g.rng.Intn(6), val(), text()))
		}
		return strings.Join(out, ", ")
	}
	table := g.pick("r", "s", "u", "p", "ch")
	scope := []relation{{name: table}}
	returning := ""
	if g.chance(40) {
		returning = " RETURNING " + g.pick("*", "a, b", "a + 1, d")
	}
	switch g.rng.Intn(8) {
	case 0, 1:
		return "INSERT INTO " + table + " VALUES " + rows(1+g.rng.Intn(3)) + returning
	case 2:
		q := "INSERT INTO " + table + " VALUES " + rows(1) + " ON CONFLICT "
		target := map[string]string{"r": "(a)", "s": "(b, a)", "p": "(a)", "ch": "(a)"}[table]
		if target == "" || g.chance(30) {
			return q + "DO NOTHING" + returning
		}
		q += target + " DO "
		if g.chance(30) {
			return q + "NOTHING"
		}
		q += "UPDATE SET c = excluded.c, d = excluded.d"
		if g.chance(50) {
			q += " WHERE " + table + ".c < 8"
		}
		return q + returning
	case 3:
		return "INSERT INTO " + table + " SELECT a + " + fmt.Sprint(g.rng.Intn(30)) + ", b, c, d FROM " + g.pick("r", "s", "u") + " q WHERE " + g.condition([]relation{{name: "q"}}) + returning
	case 4, 5:
		set := g.pick("c = "+val(), "d = "+text(), "c = c + 1, d = "+text(), "b = "+val(), "c = (SELECT max(a) FROM u)", "(c, d) = (b, 'q')")
		if g.chance(25) {
			// A key that another row of the statement frees may be taken, which PostgreSQL refuses or not.
			return "UPDATE " + table + " SET a = a + 1000 WHERE " + table + ".a < 1000 AND " + g.condition(scope) + returning
		}
		return "UPDATE " + table + " SET " + set + " WHERE " + g.condition(scope) + returning
	case 6:
		return "UPDATE " + table + " SET c = 3 FROM u q WHERE q.a = " + table + ".b AND " + g.condition([]relation{{name: "q"}})
	}
	if g.chance(30) {
		return "DELETE FROM " + table + " USING u q WHERE q.a = " + table + ".b AND " + g.condition(scope)
	}
	return "DELETE FROM " + table + " WHERE " + g.condition(scope) + " AND " + g.condition(scope) + returning
}

const contentsQuery = "SELECT a, b, c, d FROM %s ORDER BY a, b, c, d"

// changeTables adds a parent and a child to the tables of queries.
func changeTables(run func(string)) {
	run("CREATE TABLE p (a int PRIMARY KEY, b int, c int CHECK (c < 14), d text)")
	run("CREATE TABLE ch (a int PRIMARY KEY, b int REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE, c int REFERENCES p ON DELETE SET NULL, d text NOT NULL)")
	run("CREATE INDEX ch_b ON ch (b)")
	run("INSERT INTO p VALUES (0, 0, 0, 'x'), (1, 1, 1, 'x'), (2, 1, 1, 'x'), (3, 1, 1, 'x'), (4, 1, 1, 'x')")
	run("INSERT INTO ch VALUES (0, 0, 1, 'x'), (1, 1, 1, 'x'), (2, 1, NULL, 'x'), (3, NULL, 3, 'x'), (4, 4, 4, 'x')")
}

// checkIndexes compares every index of a database with its primary index.
func (db *miniDB) checkIndexes(t *testing.T) {
	f := &fixture{t: t, kv: db.kv, meta: &opt.Metadata{}, tables: map[catalog.ID]*catalog.Table{}}
	for _, tab := range db.tables {
		f.contents(tab)
	}
}

// Random changes do the same as written and as optimized, and as PostgreSQL does where one is at hand; indexes stay
// complete.
func TestChangesAgree(t *testing.T) {
	changes := 150
	if testing.Short() {
		changes = 50
	}
	var c *pgconn.PgConn
	if url := os.Getenv("MERIDIAN_TEST_POSTGRES"); url != "" {
		var err error
		if c, err = pgconn.Connect(t.Context(), url); err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
	}
	for seed := range int64(6) {
		rng := rand.New(rand.NewSource(seed + 1000))
		naive, optimized := newMiniDB(t, true), newMiniDB(t, false)
		if c != nil {
			askPostgres(t, c, "DROP SCHEMA public CASCADE; CREATE SCHEMA public", false)
		}
		all := func(sql string) {
			a, b := naive.run(sql, true), optimized.run(sql, true)
			if strings.Contains(a, "XX000") {
				t.Fatalf("seed %d: %s\n%s", seed, sql, a)
			}
			// Which row is named by a violation depends on the order.
			same := func(a, b string) bool {
				return a == b || strings.HasPrefix(a, "ERROR 23") && strings.HasPrefix(b, "ERROR 23")
			}
			if !same(a, b) {
				t.Fatalf("seed %d: %s\nas written:\n%soptimized:\n%s", seed, sql, a, b)
			}
			if c != nil {
				p, got := askPostgres(t, c, sql, true), a
				if !same(p, got) {
					t.Fatalf("seed %d: %s\nPostgreSQL:\n%sgot:\n%s", seed, sql, p, got)
				}
			}
		}
		randomTables(rng, all)
		changeTables(all)
		g := &querygen{rng: rng}
		for i := range changes {
			g.alias = 0
			all(g.change())
			if i%10 == 0 {
				for _, table := range []string{"r", "s", "u", "p", "ch"} {
					all(fmt.Sprintf(contentsQuery, table))
				}
				naive.checkIndexes(t)
				optimized.checkIndexes(t)
			}
			if t.Failed() {
				return
			}
		}
	}
}

func randomTables(rng *rand.Rand, run func(string)) {
	run("CREATE TABLE r (a int PRIMARY KEY, b int, c int, d text)")
	run("CREATE INDEX r_b ON r (b)")
	run("CREATE INDEX r_cb ON r (c DESC, b)")
	run("CREATE TABLE s (a int, b int, c int, d text, PRIMARY KEY (b, a))")
	run("CREATE UNIQUE INDEX s_a ON s (a)")
	run("CREATE TABLE u (a int, b int, c int, d text)")
	val := func(n int) string {
		if rng.Intn(6) == 0 {
			return "NULL"
		}
		return fmt.Sprint(rng.Intn(n))
	}
	text := func() string {
		return []string{"'x'", "'xy'", "'y'", "'z'", "NULL"}[rng.Intn(5)]
	}
	for i := range 12 {
		run(fmt.Sprintf("INSERT INTO r VALUES (%d, %s, %s, %s)", i, val(6), val(4), text()))
	}
	for i := range 8 {
		run(fmt.Sprintf("INSERT INTO s VALUES (%d, %d, %s, %s)", i, rng.Intn(4), val(5), text()))
	}
	for range 6 {
		run(fmt.Sprintf("INSERT INTO u VALUES (%s, %s, %s, %s)", val(5), val(5), val(5), text()))
	}
}

// Random queries give the same rows as written and as optimized.
func TestPlansAgree(t *testing.T) {
	queries := 200
	if testing.Short() {
		queries = 50
	}
	for seed := range int64(5) {
		rng := rand.New(rand.NewSource(seed))
		naive, optimized := newMiniDB(t, true), newMiniDB(t, false)
		randomTables(rng, func(sql string) {
			for _, db := range []*miniDB{naive, optimized} {
				if got := db.run(sql, false); strings.Contains(got, "ERROR") {
					t.Fatal(sql, got)
				}
			}
		})
		g := &querygen{rng: rng}
		for range queries {
			g.alias = 0
			q := g.query()
			sorted := !strings.Contains(q, "ORDER BY")
			a, b := naive.run(q, sorted), optimized.run(q, sorted)
			if strings.Contains(a, "ERROR") && strings.Contains(b, "ERROR") {
				if strings.Contains(a, "XX000") {
					t.Errorf("seed %d: %s\n%s", seed, q, a)
				}
				continue
			}
			if a != b {
				t.Errorf("seed %d: %s\nas written:\n%soptimized:\n%s", seed, q, a, b)
			}
		}
	}
}

// Random queries give the same rows as PostgreSQL, where one is at hand.
func TestAgainstPostgres(t *testing.T) {
	url := os.Getenv("MERIDIAN_TEST_POSTGRES")
	if url == "" {
		t.Skip("MERIDIAN_TEST_POSTGRES is not set")
	}
	c, err := pgconn.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	for seed := range int64(10) {
		rng := rand.New(rand.NewSource(seed + 100))
		db := newMiniDB(t, false)
		if _, err := c.Exec(t.Context(), "DROP SCHEMA public CASCADE; CREATE SCHEMA public").ReadAll(); err != nil {
			t.Fatal(err)
		}
		randomTables(rng, func(sql string) {
			if got := db.run(sql, false); strings.Contains(got, "ERROR") {
				t.Fatal(sql, got)
			}
			if _, err := c.Exec(t.Context(), sql).ReadAll(); err != nil {
				t.Fatal(err)
			}
		})
		g := &querygen{rng: rng}
		for range 300 {
			g.alias = 0
			q := g.query()
			sorted := !strings.Contains(q, "ORDER BY")
			want, got := askPostgres(t, c, q, sorted), db.run(q, sorted)
			if want != got && !(strings.HasPrefix(want, "ERROR") && strings.HasPrefix(got, "ERROR")) {
				t.Errorf("seed %d: %s\nPostgreSQL:\n%sgot:\n%s", seed, q, want, got)
			}
		}
	}
}
