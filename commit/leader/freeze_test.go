package leader

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/commit"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica/lease"
)

// frozen is a range that is to be merged away: r2, [m,t), whose entry in the index is in r1, as is the merge's record.
type frozen struct {
	*cluster
	t       *testing.T
	desc    *kv.RangeDescriptor
	own     keys.Key // of its descriptor
	entry   keys.Key // in the index
	lastSeq uint64
}

func newFrozen(t *testing.T) (f *frozen, stop func()) {
	c, stop := newCluster(t, 1, 0, "m", "t")
	d := c.reps[1].Desc().Clone()
	d.Generation = 5
	c.reps[1].SetDesc(d)
	return &frozen{cluster: c, t: t, desc: d, own: keys.RangeDescriptorKey(d.Start), entry: keys.RangeMetaKey(d.End), lastSeq: 1}, stop
}

func (f *frozen) must(_ any, err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *frozen) send(h kv.Header, r ...kv.Request) {
	f.t.Helper()
	resp, err := f.Send(context.Background(), &kv.Batch{Header: h, Requests: r})
	f.must(resp, err)
}

// change writes the intents of a transaction that changes the range; nil removes a key.
func (f *frozen) change(anchor keys.Key, own, entry *kv.RangeDescriptor) *testTxn {
	f.t.Helper()
	x := f.begin()
	f.must(nil, f.lay(x, anchor, own, entry))
	return x
}

// lay is change with a transaction that has begun.
func (f *frozen) lay(x *testTxn, anchor keys.Key, own, entry *kv.RangeDescriptor) error {
	x.anchor(anchor)
	for _, w := range []struct {
		k keys.Key
		d *kv.RangeDescriptor
	}{{f.own, own}, {f.entry, entry}} {
		x.put(string(w.k), nil)
		last := len(x.writes) - 1
		if w.d != nil {
			x.writes[last].(*kv.PutRequest).Value = w.d.Append(nil)
		} else {
			x.writes[last] = &kv.DeleteRequest{Key: w.k, Seq: x.txn.Seq}
		}
	}
	return x.lay(context.Background())
}

// end ends a transaction, and leaves its intents and its record where they are.
func (f *frozen) end(x *testTxn, commits bool) {
	f.t.Helper()
	f.send(x.header(), &kv.EndTxnRequest{Anchor: x.txn.Anchor, Commit: commits, LockSpans: x.locks})
	if commits {
		f.must(nil, x.tell(context.Background()))
	}
}

func (f *frozen) resolve(x *testTxn, s kv.Status, k keys.Key) {
	f.t.Helper()
	f.send(kv.Header{}, &kv.ResolveIntentRequest{Key: k, Txn: x.txn.TxnMeta, Status: s})
}

// absorbed is what the range is then: the descriptor that the merge makes of it is that of another range.
func (f *frozen) absorbed() *kv.RangeDescriptor {
	d := f.desc.Clone()
	d.ID, d.Start, d.Generation = 1, keys.Min, f.desc.Generation+1
	return d
}

// takeLease has the range's next leaseholder look, which knows of nobody's outcome.
func (f *frozen) takeLease() {
	f.forget()
	f.lastSeq++
	f.reps[1].Lease.Store(f.lastSeq)
	f.ps[1].LeaseChanged(lease.Lease{Sequence: f.lastSeq + 1, Start: f.clock.Now()}, true)
}

func (f *frozen) isFrozen() bool {
	_, ok := f.ps[1].closedErr().(*frozenError)
	return ok
}

// TestFreeze: the next leaseholder of a range that is being merged away finds that out, whatever earlier changes of the
// range have left, and then what became of the merge, without waiting for transactions whose records it keeps itself.
func TestFreeze(t *testing.T) {
	merge := func(f *frozen) *testTxn { return f.change(keys.Key("a"), nil, f.absorbed()) }
	for _, tc := range []struct {
		name string
		// left prepares what is left of earlier transactions, and of the merge.
		left   func(f *frozen, made *testTxn)
		frozen bool
		merged bool
	}{
		{"nothing", func(f *frozen, made *testTxn) {}, false, false},
		{"abandoned", func(f *frozen, made *testTxn) { merge(f) }, true, false},
		{"aborted", func(f *frozen, made *testTxn) { f.end(merge(f), false) }, true, false},
		{"aborted, index resolved", func(f *frozen, made *testTxn) {
			m := merge(f)
			f.end(m, false)
			f.resolve(m, kv.Aborted, f.entry)
		}, true, false},
		{"aborted, and another change has begun", func(f *frozen, made *testTxn) {
			m := merge(f)
			f.end(m, false)
			f.resolve(m, kv.Aborted, f.entry)
			d := f.desc.Clone()
			d.ID, d.Generation = 7, d.Generation+1
			x := f.begin()
			x.anchor(f.own)
			x.put(string(f.entry), d.Append(nil))
			f.must(nil, x.lay(context.Background()))
		}, true, false},
		{"committed", func(f *frozen, made *testTxn) { f.end(merge(f), true) }, true, true},
		{"committed, record gone", func(f *frozen, made *testTxn) {
			m := merge(f)
			f.end(m, true)
			f.resolve(m, kv.Committed, f.entry)
			f.send(kv.Header{}, &kv.GCRequest{Start: m.txn.Anchor, Records: []keys.Key{keys.TxnKey(m.txn.Anchor, m.txn.ID)}})
		}, true, true},
		{"committed, record gone, and merged again", func(f *frozen, made *testTxn) {
			m := merge(f)
			f.end(m, true)
			f.resolve(m, kv.Committed, f.entry)
			f.send(kv.Header{}, &kv.GCRequest{Start: m.txn.Anchor, Records: []keys.Key{keys.TxnKey(m.txn.Anchor, m.txn.ID)}})
			f.send(kv.Header{}, &kv.DeleteRequest{Key: f.entry, Seq: 1})
		}, true, true},
		{"an earlier merge's", func(f *frozen, made *testTxn) {
			m := merge(f)
			f.end(m, true)
			d := f.desc.Clone()
			d.Generation += 2
			f.end(f.change(f.own, d, d), true)
			f.reps[1].SetDesc(d)
			if _, err := f.Send(context.Background(), &kv.Batch{Requests: []kv.Request{
				&kv.SubsumeRequest{Key: f.desc.Start, Txn: m.txn.TxnMeta}}}); err == nil {
				f.t.Error("frozen for a merge that is over")
			}
		}, false, false},
		{"an earlier merge's and another one", func(f *frozen, made *testTxn) {
			f.end(merge(f), true)
			d := f.desc.Clone()
			d.Generation += 2
			f.end(f.change(f.own, d, d), true)
			f.reps[1].SetDesc(d)
			merge(f)
		}, true, false},
	} {
		for _, resolved := range []bool{false, true} {
			name := tc.name
			if resolved {
				name += ", change resolved"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f, stop := newFrozen(t)
					defer stop()
					made := f.change(f.own, f.desc, f.desc)
					f.end(made, true)
					if resolved {
						f.resolve(made, kv.Committed, f.own)
						f.resolve(made, kv.Committed, f.entry)
					}
					time.Sleep(time.Millisecond)
					tc.left(f, made)
					f.takeLease()
					// Of a merge that has ended the range may have heard already.
					if got := f.isFrozen(); got != tc.frozen && (got || !tc.merged && !strings.HasPrefix(tc.name, "aborted")) {
						t.Fatalf("frozen %t, not %t", got, tc.frozen)
					}
					ctx, cancel := context.WithTimeout(context.Background(), 3*commit.Expiry)
					defer cancel()
					_, err := f.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.GetRequest{Key: keys.Key("n")}}})
					if _, gone := err.(*kv.RangeNotFoundError); gone != tc.merged || err != nil && !gone {
						t.Errorf("merged %t, but %v", tc.merged, err)
					}
				})
			})
		}
	}
}
