package lock

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// waiting is one request of the model, as its owner knows it.
type waiting struct {
	name string
	g    *Guard
	// last is what the last look told, if waits; until then nobody has to tell it anything.
	last  Wait
	waits bool
}

// signalled reports whether the owner is about to check again; the signal stays.
func (r *waiting) signalled() bool { return len(r.g.signal) > 0 }

func (r *waiting) String() string {
	return fmt.Sprintf("%s of %s, which waits for %s at %q", r.name, txnName(r.g.id()), txnName(r.last.Holder.ID), string(r.last.Key))
}

// TestEveryoneIsTold does to a table whatever may be done to one, in any order, and looks after every single step whether a
// request waits in vain: one that may go on, or whose push goes to a transaction that is not in its way any more, or whose
// transaction has been given up, has been signalled (lock.K3). It also looks whether of those who wait for a transaction at a key
// one is told to push it (lock.K5), and whether requests outside of transactions claim one key at most (lock.K4).
func TestEveryoneIsTold(t *testing.T) {
	for range 30 {
		rapid.Check(t, everyoneIsTold)
	}
}

func everyoneIsTold(t *rapid.T) {
	tbl := NewTable(rapid.SampledFrom([]int{0, 0, 0, 3}).Draw(t, "max"))
	other := NewTable(0)
	var reqs []*waiting
	txns := make([]*kv.TxnMeta, 4)
	for i := range txns {
		txns[i] = &kv.TxnMeta{ID: kv.TxnID{byte(i + 1)}, Anchor: keys.Key("anchor")}
	}
	key := func() keys.Key { return keys.Key{rapid.SampledFrom([]byte("aaaabbc")).Draw(t, "key")} }
	at := func() clock.Timestamp { return clock.Timestamp{Wall: rapid.Int64Range(1, 5).Draw(t, "at")} }
	txn := func() *kv.TxnMeta { return rapid.SampledFrom(txns).Draw(t, "txn") }
	span := func() keys.Span {
		a, b := key(), key()
		if b.Less(a) {
			a, b = b, a
		}
		return keys.Span{Start: a, End: b.Next()}
	}
	req := func() *waiting {
		if len(reqs) == 0 {
			t.Skip("nobody")
		}
		return rapid.SampledFrom(reqs).Draw(t, "req")
	}
	looks := func(r *waiting, w Wait, waits bool) {
		r.last, r.waits = w, waits
	}
	finish := func(r *waiting) {
		tbl.Finish(r.g)
		reqs = slices.DeleteFunc(reqs, func(o *waiting) bool { return o == r })
	}
	n := 0
	check := func(t *rapid.T) {
		for _, r := range reqs {
			if !r.waits || r.signalled() {
				continue
			}
			if r.g.doomed {
				t.Fatalf("%v is not told that its transaction was given up", r)
			}
			if r.g.at == nil || r.g.at.e == nil {
				t.Fatalf("%v has lost its place, and is not told", r)
			}
			w, blocked := tbl.conflict(r.g, r.g.at.e, r.g.at.strength, r.g.at)
			if !blocked {
				t.Fatalf("%v may go on, and is not told", r)
			}
			if p := r.g.pushing; !p.IsZero() && w.Holder.ID != p {
				t.Fatalf("%v pushes %s, and is not told that it waits for %s", r, txnName(p), txnName(w.Holder.ID))
			}
		}
		type edge struct {
			key string
			to  kv.TxnID
		}
		behind, pushed := map[edge]*waiting{}, map[edge]bool{}
		for _, r := range reqs {
			if !r.waits || r.g.Txn == nil || r.g.at == nil || r.g.at.e == nil || r.g.at.strength == kv.NoLock {
				continue
			}
			w, blocked := tbl.conflict(r.g, r.g.at.e, r.g.at.strength, r.g.at)
			if !blocked || w.Holder.ID.IsZero() {
				continue
			}
			e := edge{string(w.Key), w.Holder.ID}
			behind[e] = r
			if r.signalled() || r.last.Front && w.Front {
				pushed[e] = true
			}
		}
		for e, r := range behind {
			if !pushed[e] {
				t.Fatalf("nobody is told to push %s at %q, for which %v waits", txnName(e.to), e.key, r)
			}
		}
		for _, r := range reqs {
			if r.g.Txn == nil && len(r.g.waiters) > 1 {
				t.Fatalf("%v has places in %d queues", r, len(r.g.waiters))
			}
		}
	}
	strengths := []kv.LockStrength{kv.NoLock, kv.KeyShared, kv.Shared, kv.NoKeyExclusive, kv.Exclusive, Write}
	t.Repeat(map[string]func(*rapid.T){
		"": check,
		"begin": func(t *rapid.T) {
			if len(reqs) >= 8 {
				t.Skip("enough")
			}
			n++
			r := &waiting{name: fmt.Sprintf("r%d", n), g: &Guard{ReadAt: at()}}
			if rapid.IntRange(0, 4).Draw(t, "whose") > 0 {
				r.g.Txn = txn()
			}
			for range rapid.IntRange(1, 3).Draw(t, "spans") {
				s := Span{Strength: rapid.SampledFrom(strengths).Draw(t, "strength")}
				if s.Span = span(); rapid.Bool().Draw(t, "point") {
					s.End = nil
				}
				r.g.Spans = append(r.g.Spans, s)
			}
			w, waits := tbl.Scan(r.g)
			looks(r, w, waits)
			reqs = append(reqs, r)
		},
		"look": func(t *rapid.T) { // as one does that was signalled
			r := req()
			if !r.signalled() {
				t.Skip("not told")
			}
			<-r.g.signal
			w, waits := tbl.State(r.g)
			looks(r, w, waits)
			if w.Holder.ID != r.g.pushing {
				tbl.Pushing(r.g, kv.TxnID{})
			}
			if tbl.Doomed(r.g) {
				finish(r)
			} else if !waits {
				r.g.pushing = kv.TxnID{}
				w, waits = tbl.Scan(r.g)
				looks(r, w, waits)
			}
		},
		"push": func(t *rapid.T) {
			r := req()
			if !r.waits || r.signalled() {
				t.Skip("does not wait")
			}
			w, waits := tbl.State(r.g)
			if looks(r, w, waits); waits {
				tbl.Pushing(r.g, w.Holder.ID)
			}
		},
		"called off": func(t *rapid.T) { tbl.Pushing(req().g, kv.TxnID{}) },
		"acquire": func(t *rapid.T) {
			r := req()
			if r.waits || r.g.Txn == nil {
				t.Skip("can't")
			}
			if _, waits := tbl.Probe(r.g, r.g.Spans); waits {
				t.Skip("was overtaken while it held no latches")
			}
			for _, s := range r.g.Spans {
				if s.Strength != kv.NoLock {
					tbl.Acquire(r.g, s.Start, r.g.Txn, min(s.Strength, kv.Exclusive))
				}
			}
		},
		"finish": func(t *rapid.T) {
			finish(req())
		},
		"reads at": func(t *rapid.T) {
			if r := req(); !r.waits {
				tbl.ReadsAt(r.g, r.g.ReadAt.Forward(at()))
			}
		},
		"discover": func(t *rapid.T) {
			x := *txn()
			x.Attempt = uint32(rapid.IntRange(0, 2).Draw(t, "attempt"))
			tbl.Discover(key(), &x, at(), tbl.Releases())
		},
		"lock": func(t *rapid.T) {
			tbl.Acquire(nil, key(), txn(), rapid.SampledFrom(strengths[1:5]).Draw(t, "strength"))
		},
		"release":      func(t *rapid.T) { tbl.Release(key(), txn().ID) },
		"release span": func(t *rapid.T) { tbl.ReleaseSpan(span(), txn().ID) },
		"moved":        func(t *rapid.T) { tbl.Moved(key(), txn().ID, at()) },
		"moved span":   func(t *rapid.T) { tbl.MovedSpan(span(), txn().ID, at()) },
		"finalized": func(t *rapid.T) {
			i := rapid.IntRange(0, len(txns)-1).Draw(t, "txn")
			tbl.Finalized(txns[i].ID, rapid.SampledFrom([]kv.Status{kv.Aborted, kv.Committed}).Draw(t, "status"))
			n++
			txns[i] = &kv.TxnMeta{ID: kv.TxnID{byte(n), byte(n >> 8), 1}, Anchor: keys.Key("anchor")}
		},
		"split": func(t *rapid.T) { other.Join(tbl.Split(key())) },
		"merge": func(t *rapid.T) { tbl.Join(other.Split(nil)) },
		"hand over": func(t *rapid.T) {
			b := tbl.Export(1 << 20)
			tbl.Clear()
			if b != nil {
				if err := tbl.Import(b); err != nil {
					t.Fatal(err)
				}
			}
		},
		"clear": func(t *rapid.T) {
			if rapid.IntRange(0, 9).Draw(t, "rarely") == 0 {
				tbl.Clear()
			}
		},
	})
}
