package schemachange_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"meridian/sql/session/sessiontest"
	"meridian/sql/sqlstate"
)

// Types of columns change while three nodes write. Every row has two columns with equal values, and each worker keeps a
// model of its rows: afterwards the rows are those of the models, whichever statements were refused meanwhile, and every
// index is exact (schemachange.SC2, schemachange.SC6).
func TestRetypeOnline(t *testing.T) {
	changes := []struct {
		sql   string
		fails sqlstate.Code
	}{
		{"alter table t alter v type numeric(12,2)", ""},
		{"alter table t alter v type varchar(1) using trunc(v)::int::text", sqlstate.StringTruncation},
		{"alter table t alter v type varchar(20) using trunc(v)::int::text", ""},
		{"alter table t alter w type varchar(8), alter v type bigint using v::bigint", ""},
		{"alter table t alter id type int using id / 1000", sqlstate.UniqueViolation},
		{"alter table t alter v type int", ""},
		{"alter table t alter id type numeric(10)", ""},
		{"alter table t alter v type smallint using v - 100000", sqlstate.NumericOutOfRange},
		{"alter table t alter v type int using nullif(v, v)", sqlstate.NotNullViolation},
		{"alter table t alter w type text using w || ''", ""},
	}
	for seed := range uint64(4) {
		online(t, 3, func(t *testing.T, c *sessiontest.Cluster) {
			ddl := c.Nodes[0].Open(t, "root")
			defer ddl.Close()
			ddl.Must("create table t (id int primary key, v int not null, w text); create index tv on t (v); create index tw on t (w) include (v); insert into t select g, g, 'r' || g from generate_series(1, 300) g")
			stop := make(chan struct{})
			var wg sync.WaitGroup
			models := make([]map[int]int, len(c.Nodes))
			wrote := make([]atomic.Int64, len(c.Nodes))
			for i, n := range c.Nodes {
				models[i] = map[int]int{}
				for id := i + 1; id <= 300; id += len(c.Nodes) {
					models[i][id] = id
				}
				wg.Go(func() {
					s := n.Open(t, "root")
					defer s.Close()
					dice, model := rand.New(rand.NewPCG(seed, uint64(i))), models[i]
					for {
						select {
						case <-stop:
							return
						default:
						}
						id, v := dice.IntN(110)*len(c.Nodes)+i+1, dice.IntN(20000)
						_, there := model[id]
						q, after := fmt.Sprintf("delete from t where id = %d", id), func() { delete(model, id) }
						if dice.IntN(3) > 0 {
							after = func() { model[id] = v }
							if q = fmt.Sprintf("insert into t values (%d, '%d', 'r%d')", id, v, v); there {
								q = fmt.Sprintf("update t set v = '%d', w = 'r%d' where id = %d", v, v, id)
							} else if dice.IntN(3) == 0 {
								q += " on conflict (id) do update set v = excluded.v, w = excluded.w"
							}
						}
						_, err := s.Exec(q)
						switch {
						case err == nil:
							after()
							wrote[i].Add(1)
						case sessiontest.ErrIs(err, sqlstate.SerializationFailure), sessiontest.ErrIs(err, sqlstate.StringTruncation),
							sessiontest.ErrIs(err, sqlstate.UniqueViolation), sessiontest.ErrIs(err, sqlstate.NumericOutOfRange), sessiontest.ErrIs(err, sqlstate.NotNullViolation):
							// A change that will fail makes statements fail that write rows like those on which it fails.
						default:
							t.Errorf("%s: %s", q, sessiontest.Describe(err))
							return
						}
						time.Sleep(time.Duration(1+dice.IntN(4)) * time.Millisecond)
					}
				})
			}
			for _, k := range changes {
				time.Sleep(20 * time.Millisecond)
				before := wrote[1].Load()
				_, err := ddl.Exec(k.sql)
				if k.fails == "" && err != nil || k.fails != "" && !sessiontest.ErrIs(err, k.fails) {
					t.Errorf("%s: %v", k.sql, sessiontest.Describe(err))
				}
				if k.fails == "" && wrote[1].Load() == before {
					t.Errorf("%s: nobody could write meanwhile", k.sql)
				}
			}
			close(stop)
			wg.Wait()
			verify(t, c.Nodes[1], "t")
			rows := 0
			for _, m := range models {
				rows += len(m)
				for id, v := range m {
					if got, want := ddl.Must(fmt.Sprintf("select v, w from t where id = %d", id)), fmt.Sprintf("v | w\n%d | r%d\nSELECT 1", v, v); got != want {
						t.Fatalf("row %d: %s, want %s", id, got, want)
					}
				}
			}
			if got := count(ddl, "t"); got != fmt.Sprint(rows) {
				t.Errorf("%s rows, want %d", got, rows)
			}
		})
	}
}

// Two nodes take turns at one row while its columns change their types, and one of them learns of every version 50 ms late:
// whichever two versions meet, each sees what the other has written (schemachange.SC6).
func TestRetypeStatesMeet(t *testing.T) {
	online(t, 2, func(t *testing.T, c *sessiontest.Cluster) {
		ddl, early, late := c.Nodes[0].Open(t, "root"), c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root")
		defer ddl.Close()
		defer early.Close()
		defer late.Close()
		ddl.Must("create table t (id int primary key, v int); create unique index tv on t (v)")
		c.NewsDelay.Store(int64(50 * time.Millisecond))
		exec := func(s *sessiontest.Conn, format string, args ...any) string {
			return persist(t, s, fmt.Sprintf(format, args...))
		}
		k := 0
		turn := func() {
			k++
			exec(early, "insert into t values ('%d', '%d')", k, k)
			if got, want := exec(late, "select id from t where v = '%d'", k), fmt.Sprintf("id\n%d\nSELECT 1", k); got != want {
				t.Errorf("the row is not found: %s", got)
			}
			exec(late, "delete from t where id = '%d'", k)
			exec(late, "insert into t values ('%d', '%d')", k, k)
			exec(early, "delete from t where v = '%d'", k)
			exec(late, "insert into t values ('%d', '%d')", -k, k)
			exec(early, "update t set v = '%d' where id = '%d'", -k, -k)
			if exec(early, "insert into t values ('%d', '%d')", k, k); k%2 == 0 {
				exec(late, "delete from t where id = '%d'", k)
			}
			time.Sleep(time.Millisecond)
		}
		for _, change := range []string{"alter table t alter v type text", "alter table t alter v type int using v::int, alter id type text", "alter table t alter id type bigint using id::bigint"} {
			done := make(chan error, 1)
			go func() {
				_, err := ddl.Exec(change)
				done <- err
			}()
			for finished := false; !finished && !t.Failed(); {
				select {
				case err := <-done:
					if finished = true; err != nil {
						t.Error(change, sessiontest.Describe(err))
					}
				default:
					turn()
				}
			}
			if t.Failed() {
				time.Sleep(time.Minute)
				return
			}
			verify(t, c.Nodes[1], "t")
		}
	})
}
