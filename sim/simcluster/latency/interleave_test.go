package latency_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// answerTo is a statement's rows as text, or its SQLSTATE.
func answerTo(t *testing.T, conn *pgx.Conn, sql string) string {
	t.Helper()
	rows, err := conn.Query(context.Background(), sql)
	if err == nil {
		var list []string
		list, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (string, error) {
			v, err := r.Values()
			return fmt.Sprint(v...), err
		})
		if err == nil {
			return strings.Join(list, "\n")
		}
	}
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) {
		return e.Code
	}
	t.Fatalf("%s: %v", sql, err)
	return ""
}

// TestInterleavedRanges: rows are stored with those of their parents, in one range, which a query for a parent with its children is served by; ALTER TABLE ... SPLIT AT divides where it
// says.
func TestInterleavedRanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{})
		simtest.Replicated(t, c, 3)
		conn := simtest.Connect(t, c, 0)
		simtest.Exec(t, conn, `CREATE TABLE users (uid INT8 PRIMARY KEY, name TEXT)`)
		simtest.Exec(t, conn, `CREATE TABLE albums (uid INT8, aid INT8, name TEXT, PRIMARY KEY (uid, aid)) INTERLEAVE IN PARENT users (uid) ON DELETE CASCADE`)
		simtest.Exec(t, conn, `CREATE TABLE photos (uid INT8, aid INT8, pid INT8, PRIMARY KEY (uid, aid, pid)) INTERLEAVE IN PARENT albums ON DELETE CASCADE`)
		simtest.Exec(t, conn, `INSERT INTO users SELECT g, 'u' || g FROM generate_series(1, 9) g`)
		simtest.Exec(t, conn, `INSERT INTO albums SELECT g, h, 'a' FROM generate_series(1, 9) g, generate_series(1, 3) h`)
		simtest.Exec(t, conn, `INSERT INTO photos SELECT g, h, i FROM generate_series(1, 9) g, generate_series(1, 3) h, generate_series(1, 2) i`)
		simtest.Exec(t, conn, `ALTER TABLE users SPLIT AT VALUES (3), (4), (7)`)
		shown := func(table string) []string {
			rows, err := conn.Query(context.Background(), "SHOW RANGES FROM TABLE "+table)
			if err != nil {
				t.Fatal(err)
			}
			list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (string, error) {
				v, err := r.Values()
				if err != nil {
					return "", err
				}
				return fmt.Sprint(v[0], " ", v[1]), nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for i := range list {
				list[i] = regexp.MustCompile(`/Table/\d+/1`).ReplaceAllString(list[i], "/users")
			}
			return list
		}
		users := shown("users")
		if !slices.Contains(users, "/users/3 /users/4") || !slices.Contains(users, "/users/4 /users/7") {
			t.Errorf("%q", users)
		}
		for _, table := range []string{"albums", "photos"} {
			list := shown(table)
			if !slices.Contains(list, "/users/3 /users/4") || !slices.Contains(list, "/users/4 /users/7") {
				t.Errorf("%s: %q", table, list)
			}
		}
		// The ranges that serve a user with all that belongs to it.
		plan := answerTo(t, conn, `EXPLAIN ANALYZE SELECT * FROM users u JOIN albums a ON a.uid = u.uid JOIN photos p ON p.uid = a.uid AND p.aid = a.aid WHERE u.uid = 3`)
		served := map[string]bool{}
		for _, m := range regexp.MustCompile(`r(\d+)`).FindAllStringSubmatch(plan, -1) {
			served[m[1]] = true
		}
		if len(served) != 1 || !strings.Contains(plan, "interleaved join users, albums, photos") || strings.Count(plan, "requests=") != 1 || !strings.Contains(plan, "requests=1 ") {
			t.Errorf("served by %v:\n%s", served, plan)
		}
		simtest.Exec(t, conn, `ALTER TABLE photos SPLIT AT VALUES (4, 2, 2)`)
		if list := shown("photos"); !slices.ContainsFunc(list, func(s string) bool {
			return regexp.MustCompile(`^/users/4 /users/4/Interleaved/\d+/1/2/Interleaved/\d+/1/2$`).MatchString(s)
		}) {
			t.Errorf("%q", list)
		}
		if got := answerTo(t, conn, `SELECT count(*) FROM photos WHERE uid = 4`); got != "6" {
			t.Error(got)
		}
	})
}

// TestInterleavedSplits: a hierarchy whose rows are interleaved answers as one with foreign keys alone, whatever keys its ranges are divided at.
func TestInterleavedSplits(t *testing.T) {
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			c := simcluster.Start(t, simcluster.Options{})
			simtest.Replicated(t, c, 3)
			conn := simtest.Connect(t, c, 0)
			for _, kind := range []struct{ prefix, a, b, l string }{
				{"i", "INTERLEAVE IN PARENT iu ON DELETE CASCADE", "INTERLEAVE IN PARENT ia ON DELETE CASCADE", "INTERLEAVE IN PARENT iu"}, {prefix: "f"},
			} {
				p := kind.prefix
				simtest.Exec(t, conn, fmt.Sprintf("CREATE TABLE %su (u INT8 PRIMARY KEY, v INT8)", p))
				simtest.Exec(t, conn, fmt.Sprintf("CREATE TABLE %sa (u INT8, a INT8, v INT8, PRIMARY KEY (u, a)) %s", p, kind.a))
				simtest.Exec(t, conn, fmt.Sprintf("CREATE TABLE %sb (u INT8, a INT8, b INT8, v INT8, PRIMARY KEY (u, a, b)) %s", p, kind.b))
				simtest.Exec(t, conn, fmt.Sprintf("CREATE TABLE %sl (u INT8, l INT8, v INT8, PRIMARY KEY (u, l)) %s", p, kind.l))
			}
			simtest.Exec(t, conn, "ALTER TABLE fa ADD FOREIGN KEY (u) REFERENCES fu ON DELETE CASCADE")
			simtest.Exec(t, conn, "ALTER TABLE fb ADD FOREIGN KEY (u, a) REFERENCES fa ON DELETE CASCADE")
			simtest.Exec(t, conn, "ALTER TABLE fl ADD FOREIGN KEY (u) REFERENCES fu")
			dice := rand.New(rand.NewPCG(seed, 3))
			order := map[string]string{"u": "u", "a": "u, a", "b": "u, a, b", "l": "u, l"}
			for range 250 {
				u, a, b, v := dice.IntN(8), dice.IntN(5), dice.IntN(5), dice.IntN(100)
				name := []string{"u", "a", "b", "l"}[dice.IntN(4)]
				desc := []string{"", " DESC"}[dice.IntN(2)]
				text := [...]string{
					fmt.Sprintf("INSERT INTO $u VALUES (%d, %d)", u, v), fmt.Sprintf("INSERT INTO $a VALUES (%d, %d, %d)", u, a, v), fmt.Sprintf("UPSERT INTO $u VALUES (%d, %d)", u, v),
					fmt.Sprintf("INSERT INTO $a SELECT u, %d, %d FROM $u WHERE u > %d ON CONFLICT DO NOTHING", a, v, u),
					fmt.Sprintf("INSERT INTO $b SELECT u, a, %d, v FROM $a WHERE a <= %d ON CONFLICT (u, a, b) DO UPDATE SET v = excluded.v + 1", b, a),
					fmt.Sprintf("INSERT INTO $b VALUES (%d, %d, %d, %d)", u, a, b, v), fmt.Sprintf("INSERT INTO $l VALUES (%d, %d, %d)", u, a, v),
					fmt.Sprintf("DELETE FROM $u WHERE u = %d", u), fmt.Sprintf("DELETE FROM $l WHERE u > %d", u), fmt.Sprintf("DELETE FROM $a WHERE a = %d", a),
					fmt.Sprintf("DELETE FROM $b WHERE v < %d", v/4), fmt.Sprintf("UPDATE $%s SET v = v + 1 WHERE u <> %d", name, u),
					fmt.Sprintf("SELECT count(*), sum(v), min(u), max(u) FROM $%s WHERE u BETWEEN %d AND %d", name, min(u, a), max(u, a)),
					fmt.Sprintf("SELECT * FROM $u JOIN $a USING (u) JOIN $b USING (u, a) WHERE u = %d ORDER BY u, a, b", u),
					fmt.Sprintf("SELECT * FROM $%s WHERE u >= %d ORDER BY %s", name, u, order[name]),
					fmt.Sprintf("SELECT * FROM $%s ORDER BY %s LIMIT %d", name, strings.ReplaceAll(order[name], ",", desc+",")+desc, 1+b),
					"split", "split",
				}[dice.IntN(18)]
				if text == "split" {
					key := fmt.Sprint([]any{u, fmt.Sprintf("%d, %d", u, a), fmt.Sprintf("%d, %d, %d", u, a, b), fmt.Sprintf("%d, %d", u, a)}[slices.Index([]string{"u", "a", "b", "l"}, name)])
					simtest.Exec(t, conn, fmt.Sprintf("ALTER TABLE i%s SPLIT AT VALUES (%s)", name, key))
					continue
				}
				is, fs := strings.ReplaceAll(text, "$", "i"), strings.ReplaceAll(text, "$", "f")
				if got, want := answerTo(t, conn, is), answerTo(t, conn, fs); got != want {
					t.Fatalf("seed %d: %s:\n%s\nwant\n%s", seed, is, got, want)
				}
			}
			time.Sleep(time.Second)
			for name, by := range order {
				for _, desc := range []string{"", " DESC"} {
					q := " ORDER BY " + strings.ReplaceAll(by, ",", desc+",") + desc
					if got, want := answerTo(t, conn, "SELECT * FROM i"+name+q), answerTo(t, conn, "SELECT * FROM f"+name+q); got != want {
						t.Errorf("seed %d: %s:\n%s\nwant\n%s", seed, name, got, want)
					}
				}
			}
		})
	}
}

// directories makes users with albums and photos, interleaved with a prefix of i, and as separate tables with a prefix of f.
func directories(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	for _, p := range []string{"i", "f"} {
		a, b, l := "", "", ""
		if p == "i" {
			a, b, l = "INTERLEAVE IN PARENT iu ON DELETE CASCADE", "INTERLEAVE IN PARENT ia ON DELETE CASCADE", "INTERLEAVE IN PARENT iu"
		}
		simtest.Exec(t, conn, "CREATE TABLE "+p+"u (u INT8 PRIMARY KEY, v INT8)")
		simtest.Exec(t, conn, "CREATE TABLE "+p+"a (u INT8, a INT8, v INT8, PRIMARY KEY (u, a)) "+a)
		simtest.Exec(t, conn, "CREATE TABLE "+p+"b (u INT8, a INT8, b INT8, v INT8, PRIMARY KEY (u, a, b)) "+b)
		simtest.Exec(t, conn, "CREATE TABLE "+p+"l (u INT8, l INT8, v INT8, PRIMARY KEY (u, l)) "+l)
		simtest.Exec(t, conn, "INSERT INTO "+p+"u SELECT g, g FROM generate_series(1, 200) g")
		simtest.Exec(t, conn, "INSERT INTO "+p+"a SELECT g, h, g FROM generate_series(1, 200) g, generate_series(1, 5) h")
		simtest.Exec(t, conn, "INSERT INTO "+p+"b SELECT g, h, i, g FROM generate_series(1, 200) g, generate_series(1, 5) h, generate_series(1, 2) i")
		simtest.Exec(t, conn, "INSERT INTO "+p+"l SELECT g, 1, g FROM generate_series(1, 200) g")
		for _, table := range []string{"u", "a", "b", "l"} {
			simtest.Exec(t, conn, "ANALYZE "+p+table)
		}
	}
}

// TestInterleavedJoinRounds: a gateway far from the leaseholder reads a user with the albums and photos in one round trip, and in one for each table if they are not interleaved. A follower
// near it answers at a time of the past.
func TestInterleavedJoinRounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := startFiveRegions(t)
		f.place(0, 3, 4)
		directories(t, f.conn)
		time.Sleep(10 * time.Second)
		far := simtest.Connect(t, f.c, 4)
		simtest.Exec(t, far, "SET search_path = public") // see TestPredictedRounds
		round := sim.FiveRegions().RTT(f.c.Machines[0].Region, f.c.Machines[4].Region)
		for _, x := range []struct {
			sql            string
			apart, joined  int
			interleavedSQL string
		}{
			{"SELECT * FROM $u JOIN $a USING (u) WHERE u = 7", 2, 1, "interleaved join iu, ia"},
			{"SELECT * FROM $u JOIN $a USING (u) JOIN $b USING (u, a) WHERE u = 7", 3, 1, "interleaved join iu, ia, ib"},
			{"SELECT * FROM $u u LEFT JOIN $a a ON a.u = u.u AND a.v > 9 WHERE u.u IN (7, 70)", 2, 1, "interleaved join iu, (left) ia"},
			{"SELECT * FROM $u JOIN $a USING (u) WHERE u BETWEEN 10 AND 14", 2, 1, "interleaved join iu, ia"},
		} {
			var answers []string
			for i, p := range []string{"f", "i"} {
				sql, want := strings.ReplaceAll(x.sql, "$", p), []int{x.apart, x.joined}[i]
				for range 3 {
					simtest.Exec(t, far, sql) // learns where the ranges are
				}
				d := simtest.Took(t, func() { simtest.Exec(t, far, sql) })
				lines := simtest.Plain(t, far, "EXPLAIN ANALYZE "+sql)
				t.Logf("%s: %v", sql, d)
				if least := time.Duration(want) * round; d < least || d > least+10*time.Millisecond {
					t.Errorf("%s: %v, want %d rounds of %v\n%s", sql, d, want, round, strings.Join(lines, "\n"))
				}
				if got := simtest.Footer(t, lines, "wide-area rounds that took place"); got != fmt.Sprint(want) || simtest.Footer(t, lines, "wide-area rounds") != got {
					t.Errorf("%s: %s rounds, want %d\n%s", sql, got, want, strings.Join(lines, "\n"))
				}
				if p == "i" && !strings.Contains(lines[0], x.interleavedSQL) {
					t.Errorf("%s:\n%s", sql, strings.Join(lines, "\n"))
				}
				rows := strings.Split(answerTo(t, far, sql), "\n")
				slices.Sort(rows)
				answers = append(answers, strings.Join(rows, "\n"))
			}
			if answers[0] != answers[1] {
				t.Errorf("%s:\n%s\nwant\n%s", x.sql, answers[1], answers[0])
			}
		}
		// At a time of the past the follower in the gateway's region answers, and does not see what has changed since.
		simtest.Exec(t, f.conn, "UPDATE ia SET v = -1 WHERE u = 7")
		for _, as := range []string{"follower_read_timestamp()", "with_max_staleness('10s')"} {
			sql := "SELECT ia.v FROM iu JOIN ia USING (u) AS OF SYSTEM TIME " + as + " WHERE u = 7"
			if plan := answerTo(t, far, "EXPLAIN "+sql); !strings.Contains(plan, "interleaved join iu, ia") {
				t.Error(plan)
			}
			at := time.Now()
			if got, d := answerTo(t, far, sql), time.Since(at); got != "7\n7\n7\n7\n7" || d > 10*time.Millisecond {
				t.Errorf("%s: %q after %v", sql, got, d)
			}
		}
	})
}

// TestInterleavedJoinLocks: in an externally consistent database the reads of a transaction that writes lock the rows of the tables that it joins (txn.TX14), whether they are interleaved or
// not, and no row of other tables between them.
func TestInterleavedJoinLocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{})
		simtest.Replicated(t, c, 3)
		simtest.Exec(t, simtest.Connect(t, c, 0), "CREATE DATABASE d")
		simtest.Exec(t, simtest.Connect(t, c, 0), "ALTER DATABASE d SET external_consistency = on")
		reader, writer := simtest.ConnectTo(t, c, 0, "d"), simtest.ConnectTo(t, c, 1, "d")
		directories(t, reader)
		time.Sleep(10 * time.Second)
		simtest.Exec(t, writer, "SET lock_timeout = '50ms'")
		for _, p := range []string{"i", "f"} {
			for _, clause := range []string{"", " FOR UPDATE", " FOR SHARE OF y"} {
				sql := fmt.Sprintf("SELECT * FROM %su x JOIN %sa y ON x.u = y.u WHERE x.u = 7 AND y.v > 0%s", p, p, clause)
				if plan := answerTo(t, reader, "EXPLAIN "+sql); strings.Contains(plan, "interleaved join") != (p == "i") || strings.Contains(plan, "lock rows") != (clause != "") {
					t.Errorf("%s:\n%s", sql, plan)
				}
				simtest.Exec(t, reader, "BEGIN")
				simtest.Exec(t, reader, "UPDATE "+p+"u SET v = v WHERE u = 199")
				simtest.Exec(t, reader, sql)
				for _, w := range []struct {
					sql    string
					locked bool
				}{
					{"UPDATE $u SET v = 1 WHERE u = 7", clause != " FOR SHARE OF y"}, {"UPDATE $a SET v = 7 WHERE u = 7 AND a = 3", true}, {"UPDATE $b SET v = 1 WHERE u = 7 AND a = 3", false},
					{"UPDATE $l SET v = 1 WHERE u = 7", false}, {"UPDATE $u SET v = 1 WHERE u = 8", false}, {"UPDATE $a SET v = 1 WHERE u = 6", false},
				} {
					text, want := strings.ReplaceAll(w.sql, "$", p), ""
					if w.locked {
						want = "55P03"
					}
					simtest.Exec(t, writer, "BEGIN")
					if got := answerTo(t, writer, text); got != want {
						t.Errorf("%s while another has read by %s: %q, want %q", text, sql, got, want)
					}
					simtest.Exec(t, writer, "ROLLBACK")
				}
				simtest.Exec(t, reader, "COMMIT")
			}
		}
	})
}
