package fastpaxos_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/sim/simcluster/simtest"
)

// TestFastPaxosDecides: a statement that changes rows decides what a table of the leader protocol would have it decide, from each region, right after another region's commit was acknowledged: which rows
// it finds, which match, what a constraint says. The same statements run on tables of both protocols, one after the other at random gateways, and the answers are compared: tags, rows and errors.
func TestFastPaxosDecides(t *testing.T) {
	for _, seed := range simtest.Seeds(t, 1, 1) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, _ := simtest.FiveAcceptors(t)
				simtest.Exec(t, simtest.Connect(t, c, 0), "CREATE DATABASE d")
				simtest.Exec(t, simtest.Connect(t, c, 0), "ALTER DATABASE d CONFIGURE ZONE USING num_replicas = 5")
				admin := simtest.ConnectTo(t, c, 0, "d")
				for prefix, with := range map[string]string{"f": " WITH (commit_protocol = 'fast_paxos')", "l": ""} {
					simtest.Exec(t, admin, "CREATE TABLE "+prefix+"p (id int PRIMARY KEY, s text)"+with)
					simtest.Exec(t, admin, "CREATE TABLE "+prefix+"t (id int PRIMARY KEY, n int CHECK (n >= 0), s text UNIQUE, p int REFERENCES "+prefix+"p, m int, INDEX (m))"+with)
					simtest.Exec(t, admin, "INSERT INTO "+prefix+"p SELECT i, 'p' FROM generate_series(1, 3) AS g (i)")
				}
				time.Sleep(10 * time.Second)
				conns := make([]*pgx.Conn, c.Len())
				for i := range conns {
					conns[i] = simtest.ConnectTo(t, c, i, "d")
					simtest.Exec(t, conns[i], "SELECT * FROM ft")
					simtest.Exec(t, conns[i], "SELECT * FROM lt")
				}
				var qs []string
				var nodes []int
				dice := rand.New(rand.NewPCG(uint64(seed), 1))
				for range 150 {
					qs, nodes = append(qs, decision(dice)), append(nodes, dice.IntN(len(conns)))
				}
				// Each statement follows at once on the answer to the one before.
				answers := func(prefix string) (out []string) {
					for i, q := range qs {
						var b strings.Builder
						runScript(conns[nodes[i]].PgConn(), strings.ReplaceAll(q, "@", prefix), &b)
						out = append(out, strings.NewReplacer("\""+prefix+"t", "\"@t", "\""+prefix+"p", "\"@p").Replace(b.String()))
					}
					return out
				}
				want := answers("l")
				for i, got := range answers("f") {
					if got != want[i] {
						t.Fatalf("statement %d, node %d: %s\nfast_paxos: %sleader:     %s", i, nodes[i], qs[i], got, want[i])
					}
				}
				time.Sleep(5 * time.Second)
				var f, l strings.Builder
				runScript(conns[0].PgConn(), "SELECT * FROM ft ORDER BY id", &f)
				runScript(conns[0].PgConn(), "SELECT * FROM lt ORDER BY id", &l)
				if f.String() != l.String() {
					t.Errorf("in the end:\n%s\n%s", &f, &l)
				}
			})
		})
	}
}

// decision is a random statement that changes rows of the tables @t and @p, of which each depends on others.
func decision(dice *rand.Rand) string {
	id, n, p := 1+dice.IntN(6), dice.IntN(3), 1+dice.IntN(4)
	s := fmt.Sprintf("'s%d'", dice.IntN(4))
	returning := ""
	if dice.IntN(2) == 0 {
		returning = " RETURNING id"
	}
	many := func(q string) string { // rows come in the order in which they were found
		if returning == "" {
			return q
		}
		return "WITH w AS (" + q + returning + ") SELECT * FROM w ORDER BY 1"
	}
	switch dice.IntN(18) {
	case 0, 1, 2:
		return fmt.Sprintf("INSERT INTO @t VALUES (%d, %d, %s, %d, %d)", id, n, s, p, n) + returning
	case 3:
		return fmt.Sprintf("INSERT INTO @t VALUES (%d, %d, NULL, NULL, %d) ON CONFLICT (id) DO NOTHING", id, n, n) + returning
	case 4:
		return fmt.Sprintf("INSERT INTO @t VALUES (%d, %d, %s, NULL, %d) ON CONFLICT (id) DO UPDATE SET n = @t.n + 1", id, n, s, n) + returning
	case 5:
		return fmt.Sprintf("UPDATE @t SET n = n + 1 WHERE id = %d", id) + returning
	case 6:
		return fmt.Sprintf("UPDATE @t SET n = n - 1 WHERE id = %d", id) + returning
	case 7:
		return fmt.Sprintf("UPDATE @t SET m = %d, n = n * 2 WHERE id = %d AND n = %d", n, id, n) + returning
	case 8:
		return many(fmt.Sprintf("UPDATE @t SET n = n + 1 WHERE id BETWEEN %d AND %d", id, id+2))
	case 9:
		return many(fmt.Sprintf("UPDATE @t SET m = m + 1 WHERE m = %d", n))
	case 10:
		return fmt.Sprintf("UPDATE @t SET n = %d WHERE s = %s", n, s) + returning
	case 11:
		return fmt.Sprintf("DELETE FROM @t WHERE id = %d", id) + returning
	case 12:
		return many(fmt.Sprintf("DELETE FROM @t WHERE n = %d", n))
	case 13:
		return many(fmt.Sprintf("INSERT INTO @t SELECT id + 1, n, NULL, p, m FROM @t WHERE id = %d AND n > 0 ON CONFLICT (id) DO NOTHING", id))
	case 14:
		return many(fmt.Sprintf("UPDATE @t SET n = n + 10 FROM @p WHERE @p.id = @t.p AND @p.s = 'p%d'", n))
	case 15:
		return fmt.Sprintf("UPDATE @p SET s = 'p%d' WHERE id = %d", n, p)
	case 16:
		if dice.IntN(2) == 0 {
			return fmt.Sprintf("DELETE FROM @p WHERE id = %d", p)
		}
		return fmt.Sprintf("INSERT INTO @p VALUES (%d, 'p')", p)
	default:
		return fmt.Sprintf("WITH gone AS (DELETE FROM @t WHERE id = %d RETURNING id, n) INSERT INTO @t SELECT id + 3, n, NULL, NULL, 0 FROM gone WHERE NOT EXISTS (SELECT FROM @t AS x WHERE x.id = gone.id + 3)", id)
	}
}
