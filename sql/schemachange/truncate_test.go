package schemachange_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sql/session/sessiontest"
	"meridian/sql/sqlstate"
)

// start runs statements on a goroutine of their own.
func start(c *sessiontest.Conn, text string) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := c.Exec(text)
		done <- err
	}()
	return done
}

// within fails the test if the statements do not end soon.
func within(t *testing.T, d time.Duration, what string, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(d):
		t.Fatalf("%s goes on", what)
		return nil
	}
}

// Of transactions that empty a table at the same moment at several nodes one is first, and the others do not wait for each
// other until one gives up: a transaction that finds the table frozen by another releases the earlier version.
func TestTruncateTogether(t *testing.T) {
	online(t, 3, func(t *testing.T, c *sessiontest.Cluster) {
		var conns []*sessiontest.Conn
		for _, n := range c.Nodes {
			x := n.Open(t, "root")
			defer x.Close()
			conns = append(conns, x)
		}
		conns[0].Must("create table t (id int primary key)")
		dice := rand.New(rand.NewPCG(1, 1))
		for round := range 30 {
			var done []<-chan error
			for i, x := range conns {
				time.Sleep(time.Duration(dice.IntN(5000)) * time.Microsecond)
				done = append(done, start(x, fmt.Sprintf("begin; truncate t; insert into t select g from generate_series(1, %d) g; commit", 300+i)))
			}
			for i := range done {
				if err := within(t, 5*time.Second, "a transaction", done[i]); err != nil && !sessiontest.ErrIs(err, sqlstate.SerializationFailure) {
					t.Fatalf("round %d: %s", round, sessiontest.Describe(err))
				} else if err != nil {
					conns[i].Exec("rollback")
				}
			}
		}
		verify(t, c.Nodes[0], "t")
	})
}

// A transaction that has begun to use a table comes before TRUNCATE and DROP: they wait for it, and transactions that
// begin to use the table later wait for them (lease.L6).
func TestTruncateComesLast(t *testing.T) {
	for _, change := range []string{"truncate t", "drop table t", "begin; update e set n = n + 1; truncate t; insert into t values (100); commit"} {
		synctest.Test(t, func(t *testing.T) {
			c := sessiontest.New(t, 3)
			defer c.Stop()
			a, b, d := c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root"), c.Nodes[2].Open(t, "root")
			a.Must("create table t (id int primary key); create table e (n int); create table u (id int, n int); insert into e values (1)")
			a.Must("insert into t values (1)")
			b.Must("select count(*) from t")
			b.Must("begin; insert into t values (2)")
			if !strings.HasPrefix(change, "begin") {
				change = "update e set n = n + 1; " + change
			}
			done := start(a, change)
			time.Sleep(100 * time.Millisecond)
			// A transaction that begins now must not both see the change and end before the writer.
			var seen string
			late := make(chan error, 1)
			go func() {
				var err error
				seen, err = d.Exec("select count(*) from t")
				late <- err
			}()
			time.Sleep(100 * time.Millisecond)
			select {
			case <-late:
				t.Errorf("%s: %q was read before the writer ended", change, seen)
				late <- nil
			default:
			}
			// The writer uses the table once more, and reads what the change has written elsewhere.
			b.Must("insert into t values (3)")
			b.Must("insert into u select 2, n from e")
			b.Must("commit")
			before := time.Now()
			if err := within(t, time.Minute, change, done); err != nil {
				t.Fatal(sessiontest.Describe(err))
			}
			err := within(t, time.Minute, "the query", late)
			if took := time.Since(before); took > time.Second {
				t.Errorf("%s: took %v after the writer had ended", change, took)
			}
			if strings.Contains(change, "drop") {
				if !sessiontest.ErrIs(err, sqlstate.UndefinedTable) {
					t.Errorf("the dropped table was read: %s, %v", seen, err)
				}
			} else if err != nil {
				t.Error(sessiontest.Describe(err))
			}
			if got := b.Must("select n from u"); strings.Contains(change, "begin") && !strings.Contains(got, "\n1\n") {
				t.Errorf("%s: the writer has seen it, and what it wrote is gone:\n%s", change, got)
			}
			if strings.Contains(change, "truncate") {
				want := 0
				if strings.Contains(change, "100") {
					want = 1
				}
				for _, x := range []*sessiontest.Conn{a, b, d} {
					if got := x.Must("select count(*) from t"); got != fmt.Sprintf("count\n%d\nSELECT 1", want) {
						t.Errorf("%s: %s", change, got)
					}
				}
			}
			a.Close()
			b.Close()
			d.Close()
		})
	}
}

// Every acknowledged row was written either before the TRUNCATE, and is gone, or after it, and exists: e has the number
// of truncations, and u the number that each writer has seen.
func TestTruncateLosesNothing(t *testing.T) {
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			c := sessiontest.New(t, 3)
			defer c.Stop()
			c.KV.Latency.Store(int64(time.Millisecond))
			c.NewsDelay.Store(int64(20 * time.Millisecond))
			a := c.Nodes[0].Open(t, "root")
			defer a.Close()
			a.Must("create table t (id int primary key, v int); create index on t (v); create table e (n int); create table u (id int, n int); insert into e values (0)")
			stop := make(chan struct{})
			var wg sync.WaitGroup
			acked := make([]int, 9)
			for w := range acked {
				x := c.Nodes[w%3].Open(t, "root")
				wg.Go(func() {
					defer x.Close()
					dice := rand.New(rand.NewPCG(seed, uint64(w)))
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						default:
						}
						id := w*100000 + i
						texts := []string{fmt.Sprintf("begin; insert into t values (%d, 1)", id), fmt.Sprintf("insert into u select %d, n from e", id), "commit"}
						if dice.IntN(2) == 0 {
							texts = []string{fmt.Sprintf("begin; insert into u select %d, n from e", id), fmt.Sprintf("insert into t values (%d, 1)", id), "commit"}
						}
						var err error
						for _, q := range texts {
							if _, err = x.Exec(q); err != nil {
								x.Exec("rollback")
								break
							}
							time.Sleep(time.Duration(dice.IntN(5)) * time.Millisecond)
						}
						if err == nil {
							acked[w]++
						} else if !sessiontest.ErrIs(err, sqlstate.SerializationFailure) && !sessiontest.ErrIs(err, sqlstate.DeadlockDetected) {
							t.Errorf("%s", sessiontest.Describe(err))
						}
					}
				})
			}
			done := 0
			for range 8 {
				time.Sleep(30 * time.Millisecond)
				if out, err := a.Exec("begin; update e set n = n + 1; truncate t; commit"); err == nil {
					done++
				} else {
					t.Log(out, sessiontest.Describe(err))
					a.Exec("rollback")
				}
			}
			time.Sleep(30 * time.Millisecond)
			close(stop)
			wg.Wait()
			if done < 4 {
				t.Errorf("only %d truncations", done)
			}
			total := 0
			for _, n := range acked {
				total += n
			}
			if total < 50 {
				t.Errorf("only %d rows", total)
			}
			for _, n := range c.Nodes {
				x := n.Open(t, "root")
				if got := x.Must("select (select count(*) from u), (select count(*) from t) > 0, count(*) from u full join t using (id) where (u.n = (select n from e)) <> (t.id is not null)"); got !=
					fmt.Sprintf("count | ?column? | count\n%d | t | 0\nSELECT 1", total) {
					t.Errorf("%d acknowledged, %d truncations: %s", total, done, got)
				}
				x.Close()
				verify(t, n, "t")
			}
		})
	}
}

// A freeze whose statement fails ends at once; one whose node is dead ends after a while.
func TestFrozenInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 3)
		defer c.Stop()
		a, b, d := c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root"), c.Nodes[2].Open(t, "root")
		defer b.Close()
		defer d.Close()
		a.Must("create table t (id int primary key); insert into t values (1)")
		b.Must("begin; select * from t")
		// A reader that does not end: TRUNCATE is cancelled, and others go on.
		a.Must("set statement_timeout = '3s'")
		if err := within(t, 4*time.Second, "TRUNCATE", start(a, "truncate t")); !sessiontest.ErrIs(err, sqlstate.QueryCanceled) {
			t.Fatal(err)
		}
		a.Must("reset statement_timeout; set lock_timeout = '2s'")
		if err := within(t, 2*time.Second, "INSERT", start(d, "insert into t values (2)")); err != nil {
			t.Fatal(sessiontest.Describe(err))
		}
		if err := within(t, 4*time.Second, "TRUNCATE", start(a, "truncate t")); !sessiontest.ErrIs(err, sqlstate.LockNotAvailable) {
			t.Fatal(err)
		}
		if err := within(t, time.Minute, "the block", start(a, "begin; insert into t values (7); truncate t; commit")); !sessiontest.ErrIs(err, sqlstate.LockNotAvailable) {
			t.Fatal(err)
		}
		a.Must("rollback; reset lock_timeout")
		// While an older freeze's version is not in use everywhere, there is no new one: others are not held up.
		waits := start(a, "truncate t")
		time.Sleep(time.Second)
		if err := within(t, 2*time.Second, "INSERT", start(d, "insert into t values (8)")); err != nil {
			t.Fatal(sessiontest.Describe(err))
		}
		b.Must("commit")
		if err := within(t, time.Minute, "TRUNCATE", waits); err != nil {
			t.Fatal(sessiontest.Describe(err))
		}
		b.Must("begin; select * from t")
		// Without an older freeze it freezes the table, and lets others through from time to time.
		waits = start(a, "truncate t")
		time.Sleep(time.Second)
		d.Must("set lock_timeout = '1s'")
		if err := within(t, 2*time.Second, "INSERT", start(d, "insert into t values (3)")); !sessiontest.ErrIs(err, sqlstate.LockNotAvailable) {
			t.Fatal(err)
		}
		d.Must("reset lock_timeout")
		if err := within(t, 20*time.Second, "INSERT", start(d, "insert into t values (3)")); err != nil {
			t.Fatal(sessiontest.Describe(err))
		}
		b.Must("commit")
		if err := within(t, time.Minute, "TRUNCATE", waits); err != nil {
			t.Fatal(sessiontest.Describe(err))
		}
		if got := d.Must("select * from t"); got != "id\nSELECT 0" {
			t.Error(got)
		}
		b.Must("begin; select * from t")
		// A transaction that has written may be in the way of those for which it waits: it begins anew, and holds no locks
		// meanwhile.
		block := start(a, "begin; insert into t values (7); truncate t; insert into t values (9); commit")
		time.Sleep(time.Minute)
		if err := within(t, 2*time.Second, "INSERT", start(d, "insert into t values (10)")); err != nil {
			t.Fatal(sessiontest.Describe(err))
		}
		b.Must("commit")
		if err := within(t, time.Minute, "the block", block); err != nil {
			t.Fatal(sessiontest.Describe(err))
		}
		if got := d.Must("select * from t"); got != "id\n9\nSELECT 1" {
			t.Error(got)
		}
		d.Must("delete from t")
		// The node that has frozen it dies.
		b.Must("begin; insert into t values (4)")
		go a.ExecContext(c.Nodes[0].Host.Group.Context(), "truncate t")
		time.Sleep(time.Second)
		c.Nodes[0].Kill()
		if err := within(t, 30*time.Second, "INSERT", start(d, "insert into t values (5)")); err != nil {
			t.Fatal(sessiontest.Describe(err))
		}
		b.Must("commit")
		if got := d.Must("select * from t"); got != "id\n4\n5\nSELECT 2" {
			t.Error(got)
		}
		if err := within(t, time.Minute, "TRUNCATE", start(d, "truncate t; drop table t")); err != nil {
			t.Fatal(sessiontest.Describe(err))
		}
	})
}

// Transactions wait for each other through a frozen table: one has the lock of a row for which another waits, and that
// one used the table before. TRUNCATE steps back.
func TestFrozenDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 3)
		defer c.Stop()
		a, b, d := c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root"), c.Nodes[2].Open(t, "root")
		defer a.Close()
		defer b.Close()
		defer d.Close()
		a.Must("create table t (id int primary key); create table u (id int primary key, v int); insert into u values (1, 1)")
		b.Must("begin; insert into t values (1)")
		d.Must("begin; update u set v = 2")
		last := start(a, "truncate t")
		time.Sleep(time.Second)
		second := start(d, "insert into t values (2); commit")
		time.Sleep(time.Second)
		first := start(b, "update u set v = v + 1; commit")
		for what, done := range map[string]<-chan error{"the writer of u": second, "the writer of t": first, "TRUNCATE": last} {
			if err := within(t, time.Minute, what, done); err != nil {
				t.Error(what, sessiontest.Describe(err))
			}
		}
	})
}
