package leader

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
)

// hotRow updates one row again and again as transactions on several ranges do: a locking read, an intent, the news of the commit, and later the resolution. Plain reads of others meet
// the intents in each of their states.
type hotRow struct {
	t       *testing.T
	c       *cluster
	k       keys.Key
	pending []kv.TxnMeta // committed; to be resolved
	scan    bool         // the other reads are scans
}

func (h *hotRow) send(txn *kv.Txn, reqs ...kv.Request) *kv.BatchResponse {
	h.t.Helper()
	r, err := h.c.ps[0].Send(context.Background(), &kv.Batch{Header: kv.Header{Txn: txn, CanForwardRead: txn != nil}, Requests: reqs})
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// read is a plain read of another transaction.
func (h *hotRow) read(want string) {
	h.t.Helper()
	x := h.c.begin()
	var got []byte
	if h.scan {
		if r := h.send(x.txn, &kv.ScanRequest{Start: h.k, End: append(h.k[:len(h.k):len(h.k)], 0xff)}).Responses[0].(*kv.ScanResponse); len(r.Rows) > 0 {
			got = r.Rows[0].Value
		}
	} else {
		got = h.send(x.txn, &kv.GetRequest{Key: h.k}).Responses[0].(*kv.GetResponse).Value
	}
	if string(got) != want {
		h.t.Fatalf("read %q, want %q", got, want)
	}
}

func (h *hotRow) resolve() {
	h.t.Helper()
	var reqs []kv.Request
	for i := range h.pending {
		reqs = append(reqs, &kv.ResolveIntentRequest{Key: h.k, Txn: h.pending[i], Status: kv.Committed})
	}
	h.pending = h.pending[:0]
	h.send(nil, reqs...)
}

// update is the i-th update.
func (h *hotRow) update(i int) {
	h.t.Helper()
	before, value := fmt.Sprint(i-1), fmt.Sprint(i)
	var old *testTxn // begins before the intent, and reads while its transaction is pending
	if i%4 == 3 {
		old = h.c.begin()
		time.Sleep(300 * time.Millisecond) // more than clocks differ
	}
	x := h.c.begin()
	x.txn.Anchor = keys.Key("elsewhere")
	x.txn = h.send(x.txn, &kv.GetRequest{Key: h.k, Lock: kv.Exclusive}).Txn
	x.txn = h.send(x.txn, &kv.PutRequest{Key: h.k, Value: []byte(value), Seq: 1}).Txn
	if i%4 == 1 { // its own intent is in its way
		x.txn = h.send(x.txn, &kv.PutRequest{Key: h.k, Value: []byte(value), Seq: 2}).Txn
	}
	if old != nil {
		if r := h.send(old.txn, &kv.GetRequest{Key: h.k}).Responses[0].(*kv.GetResponse); string(r.Value) != before {
			h.t.Fatalf("read %q below the intent, want %q", r.Value, before)
		}
	}
	meta := x.txn.TxnMeta
	h.send(nil, &kv.ReleaseRequest{Start: h.k, Txn: meta})
	h.pending = append(h.pending, meta)
	h.read(value)
	if i%8 == 7 {
		h.resolve()
		h.read(value)
	}
}

// steps updates the row from..to, and returns the entries that the engine stepped over for each update.
func (h *hotRow) steps(from, to int) float64 {
	h.t.Helper()
	before := h.c.engine.Steps()
	for i := from; i < to; i++ {
		h.update(i)
	}
	return float64(h.c.engine.Steps()-before) / float64(to-from)
}

// TestHotRow: the cost of an update does not grow with the number of updates that a row has had, however many entries they have left in the lock table (leader.P11): counted in entries that the
// engine steps over. The same is true of a leaseholder that begins while there are entries (leader.P31).
func TestHotRow(t *testing.T) {
	for _, x := range []struct {
		name    string
		updates int
		scan    bool // instead of point reads
		leases  bool // begin while an entry is there
	}{
		{"points", 100_000, false, false},
		{"scans", 20_000, true, false},
		{"leases", 20_000, false, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, stop := newCluster(t, 1, 0)
				defer stop()
				h := &hotRow{t: t, c: c, k: keys.Key("hot"), scan: x.scan}
				h.send(nil, &kv.GetRequest{Key: h.k})
				n := x.updates / 10
				if testing.Short() {
					n /= 10
				}
				first := h.steps(0, n)
				for i := 1; i < 10; i++ {
					time.Sleep(time.Second)
					from := i * n
					if x.leases {
						h.update(from) // leaves an intent
						from++
						c.ps[0].held.reset()
						for until := from + 4; from < until; from++ {
							h.update(from)
							synctest.Wait()
						}
						if !c.ps[0].held.complete.Load() || c.reps[0].Replica.Stats().IntentCount == 0 {
							t.Fatal("the leaseholder did not count the entries")
						}
					}
					if now := h.steps(from, (i+1)*n); now > first+0.1 {
						t.Fatalf("after %d updates, one steps over %.2f entries; %.2f in the beginning", i*n, now, first)
					}
				}
				t.Logf("%.2f entries for an update", first)
			})
		})
	}
}
