package opttest

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"meridian/sql/bind"
	"meridian/sql/opt"
)

// manyTables are like those of SQLite's logic tests: ten rows each, joined by keys in a random order.
func manyTables(t testing.TB, n int) *db {
	d := newDB(t)
	for i := 1; i <= n; i++ {
		d.must(fmt.Sprintf("CREATE TABLE t%d (a%d INT8 PRIMARY KEY, b%d INT8, x%d TEXT)", i, i, i, i))
		var rows []string
		for r := 1; r <= 10; r++ {
			rows = append(rows, fmt.Sprintf("(%d, %d, 'table t%d row %d')", r, (r*7+i)%10+1, i, r))
		}
		d.must(fmt.Sprintf("INSERT INTO t%d VALUES %s", i, strings.Join(rows, ", ")))
	}
	return d
}

// manyJoin joins n of the tables by their keys, with or without a constant; shape is the shape of the join graph.
func manyJoin(rng *rand.Rand, tables, n int, shape string, constant bool) string {
	at := rng.Perm(tables)[:n]
	var from, cols, where []string
	for i, x := range at {
		from = append(from, fmt.Sprintf("t%d", x+1))
		cols = append(cols, fmt.Sprintf("x%d", x+1))
		if i > 0 {
			y := at[i-1]
			switch shape {
			case "star":
				y = at[0]
			case "clique": // all are equal to one another
				where = append(where, fmt.Sprintf("a%d = a%d", x+1, y+1))
				continue
			}
			where = append(where, fmt.Sprintf("a%d = b%d", x+1, y+1))
		}
	}
	if constant {
		where = append(where, fmt.Sprintf("a%d = %d", at[rng.Intn(n)]+1, 1+rng.Intn(10)))
	}
	rng.Shuffle(n, func(i, j int) { from[i], from[j] = from[j], from[i] })
	rng.Shuffle(len(where), func(i, j int) { where[i], where[j] = where[j], where[i] })
	return "SELECT " + strings.Join(cols, ", ") + " FROM " + strings.Join(from, ", ") + " WHERE " + strings.Join(where, " AND ")
}

// TestManyJoins holds planning to bounds, counted in steps (about a microsecond each) so that they mean the same on any machine: a
// tenth of a second for ten relations and a second for 45, whatever their shape. The rows are those that follow from the keys.
func TestManyJoins(t *testing.T) {
	const tables = 58
	d := manyTables(t, tables)
	rng := rand.New(rand.NewSource(1))
	for _, n := range []int{3, 5, 8, 9, 10, 12, 20, 30, 45, tables} {
		for _, shape := range []string{"chain", "star", "clique"} {
			constant := rng.Intn(2) == 0
			sql := manyJoin(rng, tables, n, shape, constant)
			if n == 9 || n == 10 {
				if slow, fast := joined(t, d, sql, 1<<20), joined(t, d, sql, 0); fast.cost > 3*slow.cost {
					t.Errorf("%s of %d: cost %.0f, could be %.0f", shape, n, fast.cost, slow.cost)
				}
			}
			j := joined(t, d, sql, 0)
			if want := map[bool]int{true: 1, false: 10}[constant]; j.rows != want {
				t.Errorf("%s of %d: %d rows\n%s", shape, n, j.rows, sql)
			}
			t.Logf("%s of %d: %d steps", shape, n, j.steps)
			if bound := 100_000; n <= 10 && j.steps > bound || j.steps > 10*bound {
				t.Errorf("%s of %d: planning took %d steps", shape, n, j.steps)
			}
		}
	}
}

type joinedRows struct {
	rows, steps int
	cost        float64
}

// joined plans and runs a join.
func joined(t *testing.T, d *db, sql string, pairs int) joinedRows {
	t.Helper()
	s, err := d.bind(sql)
	if err != nil {
		t.Fatal(err)
	}
	var j joinedRows
	env := d.env()
	env.JoinPairs = pairs
	env.Room = func(int64) error { j.steps += 256; return nil }
	p, err := opt.Optimize(s.(*bind.Query).Query, env)
	if err != nil {
		t.Fatal(err)
	}
	j.cost = p.Root.Estimate().Cost
	rows, err := d.execute(p)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	j.rows = len(rows)
	return j
}
