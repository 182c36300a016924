package simcluster_test

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

	"meridian/sim/simcluster"
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
		replicated(t, c, 3)
		conn := connect(t, c, 0)
		exec(t, conn, `CREATE TABLE users (uid INT8 PRIMARY KEY, name TEXT)`)
		exec(t, conn, `CREATE TABLE albums (uid INT8, aid INT8, name TEXT, PRIMARY KEY (uid, aid)) INTERLEAVE IN PARENT users (uid) ON DELETE CASCADE`)
		exec(t, conn, `CREATE TABLE photos (uid INT8, aid INT8, pid INT8, PRIMARY KEY (uid, aid, pid)) INTERLEAVE IN PARENT albums ON DELETE CASCADE`)
		exec(t, conn, `INSERT INTO users SELECT g, 'u' || g FROM generate_series(1, 9) g`)
		exec(t, conn, `INSERT INTO albums SELECT g, h, 'a' FROM generate_series(1, 9) g, generate_series(1, 3) h`)
		exec(t, conn, `INSERT INTO photos SELECT g, h, i FROM generate_series(1, 9) g, generate_series(1, 3) h, generate_series(1, 2) i`)
		exec(t, conn, `ALTER TABLE users SPLIT AT VALUES (3), (4), (7)`)
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
		if len(served) != 1 {
			t.Errorf("served by %v:\n%s", served, plan)
		}
		exec(t, conn, `ALTER TABLE photos SPLIT AT VALUES (4, 2, 2)`)
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
			replicated(t, c, 3)
			conn := connect(t, c, 0)
			for _, kind := range []struct{ prefix, a, b, l string }{
				{"i", "INTERLEAVE IN PARENT iu ON DELETE CASCADE", "INTERLEAVE IN PARENT ia ON DELETE CASCADE", "INTERLEAVE IN PARENT iu"}, {prefix: "f"},
			} {
				p := kind.prefix
				exec(t, conn, fmt.Sprintf("CREATE TABLE %su (u INT8 PRIMARY KEY, v INT8)", p))
				exec(t, conn, fmt.Sprintf("CREATE TABLE %sa (u INT8, a INT8, v INT8, PRIMARY KEY (u, a)) %s", p, kind.a))
				exec(t, conn, fmt.Sprintf("CREATE TABLE %sb (u INT8, a INT8, b INT8, v INT8, PRIMARY KEY (u, a, b)) %s", p, kind.b))
				exec(t, conn, fmt.Sprintf("CREATE TABLE %sl (u INT8, l INT8, v INT8, PRIMARY KEY (u, l)) %s", p, kind.l))
			}
			exec(t, conn, "ALTER TABLE fa ADD FOREIGN KEY (u) REFERENCES fu ON DELETE CASCADE")
			exec(t, conn, "ALTER TABLE fb ADD FOREIGN KEY (u, a) REFERENCES fa ON DELETE CASCADE")
			exec(t, conn, "ALTER TABLE fl ADD FOREIGN KEY (u) REFERENCES fu")
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
					exec(t, conn, fmt.Sprintf("ALTER TABLE i%s SPLIT AT VALUES (%s)", name, key))
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
