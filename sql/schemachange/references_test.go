package schemachange_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/session/sessiontest"
)

// A statement that deletes a row of a table was planned before another table refers to it, and does not check the reference: no
// transaction may have referred to the row by the time the statement deletes it. Transactions that only read the table do not wait
// meanwhile.
func TestReferencedRowsStay(t *testing.T) {
	for _, create := range []string{"create table c (id int references p)", "begin; create table c (id int references p); commit"} {
		synctest.Test(t, func(t *testing.T) {
			cl := sessiontest.New(t, 3)
			defer cl.Stop()
			a, w, b := cl.Nodes[0].Open(t, "root"), cl.Nodes[1].Open(t, "root"), cl.Nodes[2].Open(t, "root")
			defer a.Close()
			defer w.Close()
			defer b.Close()
			a.Must("create table p (id int primary key, v int); insert into p values (1), (2)")
			b.Must("select * from p")
			id := table(t, cl.Nodes[0], "p").ID
			var done <-chan error
			var met atomic.Bool
			cl.Meet(func(batch *kv.Batch) {
				// The statement has been planned, and begins to read. There may be no table yet to refer from.
				if g, ok := batch.Requests[0].(*kv.GetRequest); !ok || !keys.TableSpan(id).Contains(g.Key) || g.Lock == kv.NoLock || !met.CompareAndSwap(false, true) {
					return
				}
				done = start(a, create)
				time.Sleep(2 * time.Second)
				begun := time.Now()
				b.Must("select v from p where id = 2")
				if took := time.Since(begun); took > 100*time.Millisecond {
					t.Errorf("%s: a reader waited %v", create, took)
				}
				b.Exec("insert into c values (1)")
			})
			w.Exec("delete from p where id = 1")
			if !met.Load() {
				t.Fatal("the statement has not read the row")
			}
			if err := within(t, time.Minute, create, done); err != nil {
				t.Fatal(sessiontest.Describe(err))
			}
			if got := a.Must("select count(*) from c where not exists (select 1 from p where p.id = c.id)"); !strings.Contains(got, "\n0\n") {
				t.Errorf("%s: rows refer to what is gone: %s", create, got)
			}
			if _, err := b.Exec("insert into c values (1)"); err == nil {
				t.Errorf("%s: the reference is not looked at", create)
			}
		})
	}
}
