package route_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/route"
	"meridian/wire"
)

func key(i int) keys.Key { return append(keys.TableKey(uint32(9)), fmt.Sprintf("%03d", i)...) }

func scan(ctx context.Context, s *route.Sender, from, to int, reverse bool, limit int64) ([]string, error) {
	var out []string
	rest := &keys.Span{Start: key(from), End: key(to)}
	for rest != nil {
		r, err := s.Send(ctx, &kv.Batch{
			Header:   kv.Header{MaxKeys: limit},
			Requests: []kv.Request{&kv.ScanRequest{Start: rest.Start, End: rest.End, Reverse: reverse}},
		})
		if err != nil {
			return nil, err
		}
		resp := r.Responses[0].(*kv.ScanResponse)
		if limit > 0 && int64(len(resp.Rows)) > limit {
			return nil, fmt.Errorf("%d rows with a limit of %d", len(resp.Rows), limit)
		}
		for _, row := range resp.Rows {
			out = append(out, string(row.Value))
		}
		rest = resp.Resume
		if rest != nil && rest.Start.Compare(rest.End) >= 0 {
			return nil, fmt.Errorf("resume span %v", rest)
		}
	}
	return out, nil
}

// TestShaken: whatever ranges and nodes do, batches arrive, once each, and scans see every key in order.
func TestShaken(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { shaken(t, seed) })
		})
	}
}

func shaken(t *testing.T, seed uint64) {
	h := newHost(t, seed)
	defer h.Group.Stop()
	c := newCluster(h, 5)
	d := rand.New(rand.NewPCG(seed, 1))
	self := kv.NodeID(d.IntN(3))
	s := c.gateway(self)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	model := make([]string, 100)
	anyKey := func() keys.Key { return key(d.IntN(100)) }
	for step := range 400 {
		for range d.IntN(3) {
			c.shake(d, anyKey)
		}
		c.change(func() { delete(c.down, self) })
		switch d.IntN(5) {
		case 0: // one write
			i := d.IntN(100)
			model[i] = fmt.Sprint(step)
			if _, err := s.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.PutRequest{Key: key(i), Value: []byte(model[i])}}}); err != nil {
				t.Fatal(err)
			}
		case 1: // writes and reads all over the place
			b := &kv.Batch{}
			var want []int
			for i, used := 0, map[int]bool{}; i < 1+d.IntN(12); i++ {
				k := d.IntN(100)
				if used[k] {
					continue
				}
				used[k] = true
				if d.IntN(2) == 0 {
					model[k] = fmt.Sprint(step)
					b.Requests = append(b.Requests, &kv.PutRequest{Key: key(k), Value: []byte(model[k])})
					want = append(want, -1)
				} else {
					b.Requests = append(b.Requests, &kv.GetRequest{Key: key(k)})
					want = append(want, k)
				}
			}
			r, err := s.Send(ctx, b)
			if err != nil {
				t.Fatal(err)
			}
			for i, k := range want {
				if k < 0 {
					continue
				}
				if got := string(r.Responses[i].(*kv.GetResponse).Value); got != model[k] {
					t.Fatalf("step %d: key %d: %q, want %q", step, k, got, model[k])
				}
			}
		case 2: // a deletion of a span
			if d.IntN(5) == 0 {
				from, to := d.IntN(90), d.IntN(10)+1
				n := int64(0)
				for i := from; i < from+to; i++ {
					if model[i] != "" {
						n++
					}
					model[i] = ""
				}
				r, err := s.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.DeleteRangeRequest{Start: key(from), End: key(from + to)}}})
				if err != nil {
					t.Fatal(err)
				}
				if got := r.Responses[0].(*kv.DeleteRangeResponse).Deleted; got != n {
					t.Fatalf("deleted %d, want %d", got, n)
				}
			}
		default:
			from, reverse := d.IntN(100), d.IntN(2) == 0
			to := from + 1 + d.IntN(100-from)
			got, err := scan(ctx, s, from, to, reverse, int64(d.IntN(3)*d.IntN(10)))
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, v := range model[from:min(to, 100)] {
				if v != "" {
					want = append(want, v)
				}
			}
			if reverse {
				slices.Reverse(want)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("step %d: scan [%d,%d) reverse=%v: %q, want %q", step, from, to, reverse, got, want)
			}
		}
	}
	for i, r := range s.Cached() {
		if i > 0 && r.Desc.Start.Less(s.Cached()[i-1].Desc.End) {
			t.Fatalf("ranges overlap in the cache: %v", s.Cached())
		}
	}
}

// TestLostAnswers: an Add whose answer may have been lost is never sent twice (route.RO2), and an error other than the
// ambiguous one means that it was not done.
func TestLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 1)
		defer h.Group.Stop()
		c := newCluster(h, 3)
		s := c.gateway(0)
		ctx := context.Background()
		d := rand.New(rand.NewPCG(1, 1))
		c.change(func() { c.lose = func(bool) bool { return d.IntN(6) == 0 } })
		sure, unsure := 0, 0
		for range 300 {
			_, err := s.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AddRequest{Key: key(1), Delta: 1}}})
			var ambiguous *kv.AmbiguousError
			switch {
			case err == nil:
				sure++
			case errors.As(err, &ambiguous):
				unsure++
			default:
				t.Fatal(err)
			}
		}
		if n := len(c.data[string(key(1))]); n < sure || n > sure+unsure || unsure == 0 || n == sure {
			t.Errorf("%d sure, %d unsure, %d done", sure, unsure, n)
		}
		// Reads are repeated until they succeed.
		for range 100 {
			if _, err := s.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.GetRequest{Key: key(1)}}}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestCommits: a one-phase commit is not divided, a staging one is, any other is refused; an error after a lost
// answer says nothing about the commit.
func TestCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 1)
		defer h.Group.Stop()
		c := newCluster(h, 3)
		s := c.gateway(0)
		ctx := context.Background()
		now := c.clock.Now()
		tx := &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{1}, Anchor: key(1), WriteTimestamp: now}, ReadTimestamp: now}
		send := func(e *kv.EndTxnRequest, ks ...int) (*kv.BatchResponse, error) {
			e.Anchor, e.Commit = key(1), true
			b := &kv.Batch{Header: kv.Header{Txn: tx, CanForwardRead: true}}
			for _, k := range ks {
				b.Requests = append(b.Requests, &kv.PutRequest{Key: key(k), Value: []byte("v"), Seq: 1})
			}
			b.Requests = append(b.Requests, e)
			return s.Send(ctx, b)
		}
		if _, err := send(&kv.EndTxnRequest{OnePhase: true}, 1, 50); err != nil {
			t.Fatal(err)
		}
		if !s.OneRange(key(1), key(50)) {
			t.Error("the range is not remembered")
		}
		c.change(func() { c.split(key(30)) })
		var phase *kv.OnePhaseError
		if _, err := send(&kv.EndTxnRequest{OnePhase: true}, 1, 50); !errors.As(err, &phase) {
			t.Errorf("one phase over two ranges: %v", err)
		}
		if s.OneRange(key(1), key(50)) {
			t.Error("the split is not remembered")
		}
		r, err := send(&kv.EndTxnRequest{InFlight: []kv.InFlightWrite{{Key: key(1)}, {Key: key(50)}}}, 1, 50)
		if err != nil || !r.Responses[2].(*kv.EndTxnResponse).Staged {
			t.Errorf("staging over two ranges: %v", err)
		}
		var internal *kv.InternalError
		if _, err := send(&kv.EndTxnRequest{}, 1, 50); !errors.As(err, &internal) {
			t.Errorf("plain commit with writes elsewhere: %v", err)
		}
		// The answer is lost, then the range splits: what became of the first attempt is not known.
		calls := 0
		synctest.Wait() // the first range is looked up in the background
		c.change(func() {
			c.lose = func(answer bool) bool {
				if calls++; answer && calls == 2 {
					c.split(key(10))
					return true
				}
				return false
			}
		})
		var ambiguous *kv.AmbiguousError
		if _, err := send(&kv.EndTxnRequest{OnePhase: true}, 1, 20); !errors.As(err, &ambiguous) {
			t.Errorf("one phase, lost: %v", err)
		}
		// A lost answer alone is no reason to give up.
		c.change(func() { calls = 0 })
		if _, err := send(&kv.EndTxnRequest{OnePhase: true}, 1, 2); err != nil {
			t.Errorf("one phase, sent again: %v", err)
		}
	})
}

// TestRepeated: a condition that fails after a lost answer may have met the transaction's own value, and the error says so (route.RO2).
func TestRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 1)
		defer h.Group.Stop()
		c := newCluster(h, 3)
		s := c.gateway(0)
		now := c.clock.Now()
		tx := &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{1}, Anchor: key(1), WriteTimestamp: now}, ReadTimestamp: now}
		put := func(k int) error {
			_, err := s.Send(context.Background(), &kv.Batch{Header: kv.Header{Txn: tx},
				Requests: []kv.Request{&kv.CPutRequest{Key: key(k), Value: []byte("v"), Seq: 1}}})
			return err
		}
		if err := put(1); err != nil {
			t.Fatal(err)
		}
		var failed *kv.ConditionFailedError
		var repeated *kv.RepeatedError
		if err := put(1); !errors.As(err, &failed) || errors.As(err, &repeated) {
			t.Errorf("nothing was lost: %v", err)
		}
		lost := false
		c.change(func() {
			c.lose = func(answer bool) bool {
				now := answer && !lost
				lost = lost || now
				return now
			}
		})
		if err := put(2); !errors.As(err, &failed) || !errors.As(err, &repeated) {
			t.Errorf("the answer was lost: %v", err)
		}
	})
}

// TestDividedAgain: a part of a staging commit finds its range split, so it is divided again; from then on no answer comes.
// The writes may be there, and with them the commit: giving up must not look like a failure (route.RO2).
func TestDividedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 1)
		defer h.Group.Stop()
		c := newCluster(h, 3)
		s := c.gateway(0)
		c.split(key(30))
		for _, k := range []int{1, 50} {
			if _, err := s.Send(context.Background(), &kv.Batch{Requests: []kv.Request{&kv.GetRequest{Key: key(k)}}}); err != nil {
				t.Fatal(err)
			}
		}
		c.change(func() { c.split(key(55)) }) // the gateway has not heard of it
		c.change(func() {
			c.lose = func(answer bool) bool { return answer && c.seen["put"] > 1 } // the first put is that of the record's range
		})
		now := c.clock.Now()
		tx := &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{1}, Anchor: key(1), WriteTimestamp: now}, ReadTimestamp: now}
		b := &kv.Batch{Header: kv.Header{Txn: tx}}
		end := &kv.EndTxnRequest{Anchor: key(1), Commit: true}
		for _, k := range []int{1, 50, 60} {
			b.Requests = append(b.Requests, &kv.PutRequest{Key: key(k), Value: []byte("v"), Seq: 1})
			end.InFlight = append(end.InFlight, kv.InFlightWrite{Key: key(k), Seq: 1})
		}
		b.Requests = append(b.Requests, end)
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		var ambiguous *kv.AmbiguousError
		if _, err := s.Send(ctx, b); !errors.As(err, &ambiguous) {
			t.Errorf("the commit said: %v", err)
		}
		if s.Metrics().Mismatches.Load() == 0 || c.data[string(key(60))] == nil {
			t.Error("the part was not divided again, or never served")
		}
	})
}

// TestLookups: many that want the same unknown range ask the index once; what is remembered needs no lookup, and one
// lookup brings the neighbours.
func TestLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 1)
		defer h.Group.Stop()
		c := newCluster(h, 3)
		for i := 10; i < 80; i += 10 {
			c.split(key(i))
		}
		s := c.gateway(0)
		c.delay(time.Millisecond)
		ctx := context.Background()
		done := make(chan error)
		for i := range 50 {
			go func() {
				_, err := s.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.GetRequest{Key: key(i / 50)}}})
				done <- err
			}()
		}
		for range 50 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		if n := s.Metrics().Lookups.Load(); n > 3 { // the first range, and the one wanted
			t.Errorf("%d lookups", n)
		}
		before := s.Metrics().Lookups.Load()
		if _, err := s.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.GetRequest{Key: key(55)}}}); err != nil {
			t.Fatal(err)
		}
		if s.Metrics().Lookups.Load() != before {
			t.Error("the neighbours were not remembered")
		}
		// A batch over several ranges takes as long as the slowest, not the sum.
		b := &kv.Batch{}
		for i := range 80 {
			b.Requests = append(b.Requests, &kv.GetRequest{Key: key(i)})
		}
		if _, err := s.Send(ctx, b); err != nil { // finds the leaseholders
			t.Fatal(err)
		}
		start := h.Clock.Monotonic()
		if _, err := s.Send(ctx, b); err != nil {
			t.Fatal(err)
		}
		if took := h.Clock.Monotonic() - start; took != time.Millisecond {
			t.Errorf("eight ranges took %v", took)
		}
	})
}

// TestIndexBehind: the node that split a range died before the index showed it. A gateway that knows one side, and has forgotten
// the other, still finds it.
func TestIndexBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 1)
		defer h.Group.Stop()
		c := newCluster(h, 3)
		old := maps.Clone(c.data)
		c.split(key(50))
		maps.Copy(c.data, old)
		s := c.gateway(1)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for _, k := range []int{10, 60, 10} {
			if _, err := s.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.GetRequest{Key: key(k)}}}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Range(ctx, key(60), true); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.GetRequest{Key: key(60)}}}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Send(ctx, &kv.Batch{Header: kv.Header{MaxKeys: 100}, Requests: []kv.Request{
				&kv.ScanRequest{Start: key(40), End: key(70), Reverse: true}}}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestIndexHasGap: the only descriptor of a range is an intent that lookups do not tell of. So the index is settled.
func TestIndexHasGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 1)
		defer h.Group.Stop()
		c := newCluster(h, 3)
		c.split(key(30))
		c.split(key(50))
		k := string(keys.RangeMetaKey(key(50)))
		c.hidden = map[string][]byte{k: c.data[k]}
		delete(c.data, k)
		s := c.gateway(1)
		start := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := s.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.GetRequest{Key: key(40)}}}); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d > 2*time.Second || c.settled != 1 {
			t.Errorf("found after %s, and %d consistent reads of the index", d, c.settled)
		}
	})
}

// TestIndexHasIntents: who changed a range died, and left intents in the index: a split of which the right half was
// resolved, and a range that has moved away from all of its nodes. Both are found, and the intents resolved.
func TestIndexHasIntents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 1)
		defer h.Group.Stop()
		c := newCluster(h, 6)
		c.split(key(30))
		c.split(key(70))
		old := maps.Clone(c.data)
		c.split(key(50))
		c.provisional = map[string][]byte{}
		back := func(k keys.Key) {
			c.provisional[string(k)] = c.data[string(k)]
			if v, ok := old[string(k)]; ok {
				c.data[string(k)] = v
			} else {
				delete(c.data, string(k))
			}
		}
		back(keys.RangeMetaKey(key(50)))
		c.place(c.ranges[3], 4, 5, 6)
		back(keys.RangeMetaKey(keys.Max))
		s := c.gateway(1)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for _, k := range []int{40, 60, 80, 40, 80} {
			if _, err := s.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.GetRequest{Key: key(k)}}}); err != nil {
				t.Fatalf("%d: %v", k, err)
			}
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		lookups := s.Metrics().Lookups.Load()
		if c.settled == 0 || len(c.provisional) > 0 {
			t.Errorf("%d intents are left in the index", len(c.provisional))
		}
		for range 5 {
			for _, k := range []int{40, 60, 80} {
				if _, err := s.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.GetRequest{Key: key(k)}}}); err != nil {
					t.Fatalf("%d: %v", k, err)
				}
			}
		}
		if n := s.Metrics().Lookups.Load() - lookups; n > 4 {
			t.Errorf("%d lookups although the index is in order again", n)
		}
	})
}

// TestGivesUp: when nobody serves a range, the context decides how long to try, and the error says why.
func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 1)
		defer h.Group.Stop()
		c := newCluster(h, 3)
		s := c.gateway(0)
		for n := range kv.NodeID(4) {
			c.down[n] = true
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_, err := s.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.GetRequest{Key: key(1)}}})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		t.Log(err)
		clear(c.down)
		if _, err := s.Send(context.Background(), &kv.Batch{Requests: []kv.Request{&kv.GetRequest{Key: key(1)}}}); err != nil {
			t.Error(err)
		}
	})
}

// TestObserved: the first answer of a node brings a reading of its clock into the transaction.
func TestObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 1)
		defer h.Group.Stop()
		c := newCluster(h, 3)
		s := c.gateway(0)
		now := c.clock.Now()
		tx := &kv.Txn{ReadTimestamp: now, UncertaintyLimit: now.Add(time.Second)}
		r, err := s.Send(context.Background(), &kv.Batch{Header: kv.Header{Txn: tx}, Requests: []kv.Request{&kv.GetRequest{Key: key(1)}}})
		if err != nil {
			t.Fatal(err)
		}
		if at, ok := r.Txn.ObservedAt(1); !ok || at.Less(now) {
			t.Errorf("observed %v", r.Txn.Observed)
		}
		if len(tx.Observed) != 0 {
			t.Error("the request's transaction was changed")
		}
	})
}

// BenchmarkLocalGet is the way of a point read to a range on this node.
func BenchmarkLocalGet(b *testing.B) {
	h := newHost(b, 1)
	local := constant{&kv.BatchResponse{Responses: []kv.Response{&kv.GetResponse{Value: []byte("v")}}}}
	c := newCluster(h, 1)
	c.place(c.ranges[0], 1)
	for i := range 100 {
		c.split(key(i))
	}
	warm := c.gateway(1)
	if _, err := warm.Send(context.Background(), &kv.Batch{Requests: []kv.Request{&kv.ScanRequest{Start: key(0), End: key(99)}}}); err != nil {
		b.Fatal(err)
	}
	s := route.New(route.Options{Host: h, Clock: clock.New(h.Clock, 0), NodeID: func() kv.NodeID { return 1 }, Local: &switched{store{c, 1}, local, warm}})
	batch := &kv.Batch{Requests: []kv.Request{&kv.GetRequest{Key: key(50)}}}
	if _, err := s.Send(context.Background(), batch); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Send(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
	}
}

type constant struct{ r *kv.BatchResponse }

// switched serves lookups from the fake store, and reads with a constant.
type switched struct {
	store
	constant
	_ *route.Sender
}

func (s *switched) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	if b.Requests[0].Method() == kv.MethodGet && b.RangeID != route.FirstRange {
		return s.r, nil
	}
	return s.store.Send(ctx, b)
}

// picky answers batches of its own, without the fake store.
type picky struct {
	store
	f func(context.Context, *kv.Batch) error
}

func (p picky) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	if b.Txn != nil {
		if err := p.f(ctx, b); err != nil {
			return nil, err
		}
	}
	return p.store.Send(ctx, b)
}

// TestParts: no part of a divided batch may move the read timestamp by itself (route.RO4), and a part that fails ends those
// that wait: a deadlock's victim holds what they wait for.
func TestParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 1)
		defer h.Group.Stop()
		c := newCluster(h, 1)
		c.place(c.ranges[0], 1)
		c.split(key(0))
		c.split(key(50))
		forward := 0
		local := picky{store{c, 1}, func(ctx context.Context, b *kv.Batch) error {
			if b.CanForwardRead {
				forward++
			}
			g, ok := b.Requests[0].(*kv.GetRequest)
			switch {
			case !ok || g.Lock == kv.NoLock:
				return nil
			case g.Key.Less(key(50)):
				return &kv.DeadlockError{Cycle: []kv.TxnID{{1}, {2}}}
			}
			<-ctx.Done() // waits for a lock
			return ctx.Err()
		}}
		s := route.New(route.Options{Host: h, Clock: c.clock, NodeID: func() kv.NodeID { return 1 }, Local: local})
		now := c.clock.Now()
		batch := func(lock kv.LockStrength, ks ...int) *kv.Batch {
			b := &kv.Batch{Header: kv.Header{Txn: &kv.Txn{ReadTimestamp: now}, CanForwardRead: true}}
			for _, k := range ks {
				b.Requests = append(b.Requests, &kv.GetRequest{Key: key(k), Lock: lock})
			}
			return b
		}
		if _, err := s.Send(context.Background(), batch(kv.NoLock, 1, 60)); err != nil || forward != 0 {
			t.Errorf("two ranges: %v, %d may move", err, forward)
		}
		if _, err := s.Send(context.Background(), batch(kv.NoLock, 1, 2)); err != nil || forward != 1 {
			t.Errorf("one range: %v, %d may move", err, forward)
		}
		var deadlock *kv.DeadlockError
		if _, err := s.Send(context.Background(), batch(kv.Exclusive, 60, 1)); !errors.As(err, &deadlock) {
			t.Errorf("deadlock in one part: %v", err)
		}
	})
}

// TestEnough: a batch that has found enough waits for no other range, whatever happens there, and gives up what it has asked of them.
func TestEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 1)
		defer h.Group.Stop()
		c := newCluster(h, 1)
		c.place(c.ranges[0], 1)
		for _, k := range []int{0, 30, 60} {
			c.split(key(k))
		}
		var given []string
		fail := error(nil)
		local := picky{store{c, 1}, func(ctx context.Context, b *kv.Batch) error {
			k := b.Requests[0].Span().Start
			if b.Enough != 0 {
				t.Error("a part has a bound of its own")
			}
			if k.Less(key(60)) {
				return nil
			}
			if fail != nil {
				return fail
			}
			<-ctx.Done() // a region that does not answer
			given = append(given, context.Cause(ctx).Error())
			return ctx.Err()
		}}
		s := route.New(route.Options{Host: h, Clock: c.clock, NodeID: func() kv.NodeID { return 1 }, Local: local})
		now := c.clock.Now()
		get := func(ctx context.Context, enough int, ks ...int) ([]kv.Response, error) {
			b := &kv.Batch{Header: kv.Header{Txn: &kv.Txn{ReadTimestamp: now}}, Enough: enough}
			for _, k := range ks {
				b.Requests = append(b.Requests, &kv.GetRequest{Key: key(k)})
			}
			r, err := s.Send(ctx, b)
			if err != nil {
				return nil, err
			}
			return r.Responses, nil
		}
		c.data[string(key(2))] = []byte("two")
		c.data[string(key(33))] = []byte("three")
		value := func(r kv.Response) string {
			if r == nil {
				return "not read"
			}
			return string(r.(*kv.GetResponse).Value)
		}
		for _, x := range []struct {
			enough int
			ks     []int
			want   string
		}{
			{1, []int{2, 32, 62}, "[two  not read]"},
			{1, []int{62, 33, 3}, "[not read three ]"},
			{2, []int{2, 33, 62, 63}, "[two three not read not read]"},
		} {
			given = nil
			rs, err := get(context.Background(), x.enough, x.ks...)
			var got []string
			for _, r := range rs {
				got = append(got, value(r))
			}
			if fmt.Sprint(got) != x.want || err != nil || len(given) != 1 || !strings.Contains(given[0], "found elsewhere") {
				t.Errorf("%d of %v: %q %v, given up: %q", x.enough, x.ks, got, err, given)
			}
		}
		// With less than enough, the range that does not answer is waited for, and its errors count.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := get(ctx, 2, 2, 32, 62); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one of two values: %v", err)
		}
		fail = &kv.UncertaintyError{}
		var uncertain *kv.UncertaintyError
		if _, err := get(context.Background(), 1, 3, 32, 62); !errors.As(err, &uncertain) {
			t.Errorf("nothing found: %v", err)
		}
		if rs, err := get(context.Background(), 1, 2, 62); err != nil || value(rs[0]) != "two" {
			t.Errorf("found, and a range that can't tell: %v %v", rs, err)
		}
	})
}

// TestFirstOfKeys: single keys are read in the batch's order, whatever ranges they are in, until there are enough.
func TestFirstOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 1)
		defer h.Group.Stop()
		c := newCluster(h, 1)
		c.place(c.ranges[0], 1)
		for _, k := range []int{0, 30, 60} {
			c.split(key(k))
		}
		for _, k := range []int{1, 2, 31, 32, 61} {
			c.data[string(key(k))] = []byte{'v'}
		}
		s := c.gateway(1)
		for _, x := range []struct {
			most int64
			ks   []int
			want string
		}{
			{1, []int{61, 1, 31}, "61 left left"},
			{2, []int{61, 3, 2, 1, 31}, "61 none 2 left left"},
			{3, []int{33, 63, 31, 3, 1}, "none none 31 none 1"},
			{2, []int{1, 31, 2, 61}, "1 31 left left"},
		} {
			b := &kv.Batch{Header: kv.Header{MaxKeys: x.most}}
			for _, k := range x.ks {
				b.Requests = append(b.Requests, &kv.ScanRequest{Start: key(k), End: key(k).Next()})
			}
			r, err := s.Send(context.Background(), b)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i, r := range r.Responses {
				switch scan := r.(*kv.ScanResponse); {
				case scan.Resume != nil:
					got = append(got, "left")
				case len(scan.Rows) == 0:
					got = append(got, "none")
				case scan.Rows[0].Key.Equal(key(x.ks[i])):
					got = append(got, fmt.Sprint(x.ks[i]))
				}
			}
			if strings.Join(got, " ") != x.want {
				t.Errorf("%d of %v: %v, not %s", x.most, x.ks, got, x.want)
			}
		}
	})
}

// TestLaterBatchIsRefused: a batch with something that this version does not know, and may not ignore, is refused by name, and its sender knows that nothing of
// it was evaluated.
func TestLaterBatchIsRefused(t *testing.T) {
	serve := route.Serve(route.Options{Host: newHost(t, 1)}) // it has no store to ask
	b := kv.AppendBatch(nil, &kv.Batch{Requests: []kv.Request{&kv.PutRequest{Key: []byte("k"), Value: []byte("v")}}})
	reply, err := serve(t.Context(), 2, wire.Uint(b, 1<<20+1, 1))
	if err != nil {
		t.Fatal(err)
	}
	_, answer, malformed := kv.DecodeReply(reply)
	var refused *kv.InternalError
	if malformed != nil || !errors.As(answer, &refused) || !strings.Contains(refused.Message, "kv.Batch: this version of Meridian does not know field 1048577") {
		t.Errorf("%v, %v", answer, malformed)
	}
}
