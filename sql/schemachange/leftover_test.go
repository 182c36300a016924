package schemachange_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/encoding"
	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/session/sessiontest"
)

// entriesOf counts the stored entries of each index of a table.
func entriesOf(t *testing.T, n *sessiontest.Node, id catalog.ID) map[uint32]int {
	t.Helper()
	rows, err := n.DB.Scan(t.Context(), keys.TableSpan(id))
	if err != nil {
		t.Fatal(err)
	}
	out := map[uint32]int{}
	for _, r := range rows {
		_, index, _, err := keys.DecodeIndexKey(r.Key)
		if err != nil {
			t.Fatal(err)
		}
		out[uint32(index)]++
	}
	return out
}

// A transaction has loaded the entries of an index, and its node dies, or it lasts for longer than the data of dropped indexes is
// kept. A job that was recorded before clears the entries in the first case, and leaves them in the second.
func TestEntriesOfDeadTransactions(t *testing.T) {
	const rows = 400
	for _, change := range []string{"create index i on t (v)", "alter table t add unique (v)", "alter table t alter column v type text"} {
		for _, how := range []string{"dies", "lasts", "savepoint"} {
			t.Run(change+"/"+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := sessiontest.New(t, 3)
					defer c.Stop()
					a, b := c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root")
					defer a.Close()
					a.Must(fmt.Sprintf("create table t (id int primary key, v int); insert into t select g, g from generate_series(1, %d) g", rows))
					if strings.Contains(change, "type") {
						a.Must("create index i on t (v)")
					}
					x := table(t, c.Nodes[0], "t")
					before := len(entriesOf(t, c.Nodes[0], x.ID))
					b.Must("begin")
					if how == "savepoint" { // then nothing is loaded
						b.Must("savepoint s")
					}
					b.Must(change)
					time.Sleep(time.Second)
					if got := len(entriesOf(t, c.Nodes[0], x.ID)); got == before && how != "savepoint" {
						t.Fatal("nothing was loaded")
					}
					switch how {
					case "dies":
						c.Nodes[1].Kill()
						time.Sleep(time.Minute)
						a.Must("insert into t values (0, 0)") // no transaction has locked it
						time.Sleep(20 * time.Minute)
					case "lasts":
						time.Sleep(20 * time.Minute)
						b.Must("commit")
						time.Sleep(20 * time.Minute)
						b.Close()
					case "savepoint":
						b.Must("rollback to s; insert into t values (0, 0); commit")
						time.Sleep(20 * time.Minute)
						b.Close()
					}
					x = table(t, c.Nodes[0], "t")
					for id, n := range entriesOf(t, c.Nodes[0], x.ID) {
						if x.Index(catalog.IndexID(id)) == nil {
							t.Errorf("%d entries of index %d are left", n, id)
						}
					}
					verify(t, c.Nodes[0], "t")
				})
			})
		}
	}
}

// The job looks at the table the moment before the transaction commits, and at the row of its freeze the moment after.
func TestEntriesOfTransactionsThatCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 2)
		defer c.Stop()
		a, b := c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root")
		defer a.Close()
		defer b.Close()
		a.Must("create table t (id int primary key, v int); insert into t select g, g from generate_series(1, 400) g")
		b.Must("begin; create index i on t (v)")
		id := table(t, c.Nodes[0], "t").ID
		row := encoding.AppendUint(keys.IndexPrefix(catalog.LeaseTableID, catalog.IndexID(3)), uint64(id), encoding.Ascending)
		time.Sleep(14 * time.Minute)
		committed := false
		c.Meet(func(batch *kv.Batch) {
			if g, ok := batch.Requests[0].(*kv.GetRequest); ok && batch.Txn == nil && bytes.HasPrefix(g.Key, row) && !committed {
				committed = true
				b.Must("commit")
			}
		})
		time.Sleep(20 * time.Minute)
		if !committed {
			t.Fatal("no job has looked")
		}
		verify(t, c.Nodes[0], "t")
	})
}
