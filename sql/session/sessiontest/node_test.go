package sessiontest

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"meridian/keys"
	"meridian/kv"
)

// A statement sees the rows that another node has written before it began, also if no time has passed meanwhile.
func TestNodesSeeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t, 2)
		defer c.Stop()
		a, b := c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root")
		defer a.Close()
		defer b.Close()
		a.Must("create table t (id int primary key)")
		for i := range 50 {
			a, b = b, a
			a.Must(fmt.Sprintf("insert into t values (%d)", i))
			if got, want := b.Must("select count(*) from t"), fmt.Sprintf("count\n%d\nSELECT 1", i+1); got != want {
				t.Fatalf("%q, expected %q", got, want)
			}
		}
	})
}

// A replay that is stopped by another conflict, after a statement that the client knows has written a part of its output once
// more, says nothing about that statement: the next replay is compared with what the client has seen.
func TestReplayStopsAndBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(t, 1)
		defer c.Stop()
		a := c.Nodes[0].Open(t, "root")
		defer a.Close()
		a.Must("create table t (id int primary key, v int); create table u (id int primary key)")
		a.Must("insert into t values (1, 1), (2, 2), (3, 3)")
		a.Must("select * from t; select * from u")
		span := func(name string) keys.Span {
			var id uint32
			if _, err := fmt.Sscan(strings.Split(a.Must("select '"+name+"'::regclass::oid"), "\n")[1], &id); err != nil {
				t.Fatal(err)
			}
			return keys.TableSpan(id)
		}
		reads := map[string]int{}
		st, su := span("t"), span("u")
		c.KV.Intercept(func(b *kv.Batch) error {
			scan, ok := b.Requests[0].(*kv.ScanRequest)
			switch {
			case !ok || b.Txn == nil:
			case st.Contains(scan.Start):
				if reads["t"]++; reads["t"] == 2 || reads["t"] == 4 {
					return &kv.TxnAbortedError{ID: b.Txn.ID}
				}
			case su.Contains(scan.Start):
				if reads["u"]++; reads["u"] < 3 {
					return &kv.TxnAbortedError{ID: b.Txn.ID}
				}
			}
			return nil
		}, nil)
		a.Must("begin; select * from t")
		if got := a.Must("select * from u"); got != "id\nSELECT 0" {
			t.Error(got)
		}
		if reads["t"] < 5 || reads["u"] != 3 {
			t.Errorf("the transaction was not replayed as planned: %v", reads)
		}
		a.Must("commit")
	})
}
