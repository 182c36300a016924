package rangeserver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/replica"
	"meridian/route"
	"meridian/txn"
)

// toyStacks starts three nodes with the toy protocol, and gives it to range 2, which is on all of them.
func toyStacks(t *testing.T) []*stack {
	t.Helper()
	ns := stackNetwork(t, 3)
	for i, n := range ns {
		n.protocols = rangeserver.Registry{toyProtocol: {
			Name: "toy",
			New:  func(g *rangeserver.Range) rangeserver.Participant { return &toy{g: g} },
			Fold: steps(foldToys, func(ctx context.Context, f *rangeserver.Folding, step string) error {
				if err := n.at(fmt.Sprintf("r%d %s", f.Desc.ID, step)); err != nil {
					return err
				}
				return ctx.Err()
			}),
		}}
		n.start(i == 0)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for id := range kv.RangeID(2) {
		check(t, ns[0].store.Load().ChangeReplicas(ctx, id+1, targets(1, 2, 3)))
	}
	_, err := setProtocol(ctx, ns[0], tkey("a"), toyProtocol)
	check(t, err)
	return ns
}

// toyQuorum sends a request of the toy protocol to all voters of a key's range, and returns the latest value that a quorum has answered.
func (s *stack) toyQuorum(ctx context.Context, k string, body []byte) (at clock.Timestamp, v []byte, err error) {
	last := error(errNobody)
	for ; ; time.Sleep(50 * time.Millisecond) {
		if ctx.Err() != nil {
			return at, v, fmt.Errorf("%v (last: %w)", ctx.Err(), last)
		}
		heard, desc := map[kv.ReplicaID]bool{}, (*kv.RangeDescriptor)(nil)
		enough := func() bool { return desc.Quorum(func(r *kv.ReplicaDescriptor) bool { return heard[r.Replica] }) }
		at, v = clock.Timestamp{}, nil
		b := &kv.Batch{Header: kv.Header{Protocol: toyProtocol}, Requests: []kv.Request{&kv.ProtocolRequest{Key: tkey(k), Body: body}}}
		err = s.router.Each(ctx, b, func(a route.Answer) bool {
			if desc = a.Desc; a.Err == nil {
				heard[a.From.Replica] = true
				if x := a.Resp.Responses[0].(*kv.ProtocolResponse).Body; x != nil {
					if ts, value := splitToy(x); at.Less(ts) {
						at, v = ts, value
					}
				}
			} else {
				last = a.Err
			}
			return !enough()
		})
		if err != nil {
			last = err
		}
		if err == nil && enough() {
			return at, v, nil
		}
	}
}

func (s *stack) toyPut(k, v string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	at, _, err := s.toyQuorum(ctx, k, []byte("r"))
	if err != nil {
		return err
	}
	_, _, err = s.toyQuorum(ctx, k, append([]byte("w"), toyValue(at.Forward(s.clock.Now()).Next(), []byte(v))...))
	return err
}

func (s *stack) wantToy(t *testing.T, k, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	at, v, err := s.toyQuorum(ctx, k, []byte("r"))
	if err == nil {
		_, _, err = s.toyQuorum(ctx, k, append([]byte("w"), toyValue(at, v)...))
	}
	if err != nil || string(v) != want {
		t.Errorf("%s is %q, %v; want %q", k, v, err, want)
	}
}

// halves splits range 2 at k3 and gives each key of k0 to k5 a value, as a promise of the halves' generation. It returns the right half.
func halves(t *testing.T, ns []*stack) *kv.RangeDescriptor {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	check(t, ns[1].toyPut("k0", "in the base"))
	_, err := ns[1].router.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: tkey("k3")}}})
	check(t, err)
	for i := range 6 {
		check(t, ns[1].toyPut(fmt.Sprintf("k%d", i), "v"))
	}
	info, ok := ns[0].store.Load().Lookup(tkey("k3"))
	if !ok || info.Desc.ID == 2 || info.Desc.Protocol != toyProtocol {
		t.Fatalf("not split: %v", &info.Desc)
	}
	return &info.Desc
}

func (s *stack) merge(k string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err := s.router.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminMergeRequest{Key: tkey(k)}}})
	return err
}

// TestMergeSeals: two ranges without a log become one, which has all that was acknowledged in either, and nothing is left of their
// generations but in the base. The right one's lease is elsewhere before.
func TestMergeSeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := toyStacks(t)
		defer stopAll(ns)
		right := halves(t, ns)
		left := ns[0].store.Load().Replica(2)
		check(t, ns[0].store.Load().TransferLease(context.Background(), right.ID, 2))
		check(t, ns[1].toyPut("k4", "w"))
		was, served := left.Desc(), ns[2].clock.Now()
		check(t, ns[1].merge("k1"))
		d := left.Desc()
		if !d.End.Equal(right.End) || d.Generation <= max(was.Generation, right.Generation) || d.Protocol != toyProtocol {
			t.Fatalf("%v and %v have become %v", was, right, d)
		}
		if f := left.Generation().Floor; f.Less(served) {
			t.Errorf("the floor is %s, and %s was served", f, served)
		}
		for i := range 6 {
			ns[1].wantToy(t, fmt.Sprintf("k%d", i), map[bool]string{true: "w", false: "v"}[i == 4])
		}
		check(t, ns[2].toyPut("k5", "after"))
		ns[0].wantToy(t, "k5", "after")
		for _, n := range ns {
			for _, id := range []kv.RangeID{2, right.ID} {
				if left := deltas(t, n.engine, id, d.Generation); left != 0 {
					t.Errorf("n%d has %d promises of earlier generations of r%d", n.id, left, id)
				}
			}
		}
	})
}

func stopAll(ns []*stack) {
	for _, n := range ns {
		n.stop()
	}
}

// TestMergeInterrupted kills the leaseholder of both sides at each step of their merge. Afterwards there are two ranges, or one, which
// serve, and have all that was acknowledged; and they can be merged.
func TestMergeInterrupted(t *testing.T) {
	for _, step := range []string{"r3 reported", "r3 folding", "r3 all folded", "r2 reported", "r2 folding", "r2 all folded",
		"range merge", "laid", "before commit", "committed"} {
		t.Run(step, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ns := toyStacks(t)
				defer func() { stopAll(ns) }()
				right := halves(t, ns)
				if right.ID != 3 {
					t.Fatalf("the right half is r%d", right.ID)
				}
				dead := false
				f := func(at string) error {
					if at == step && !dead {
						dead = true
						ns[0].crash()
						return errNobody
					}
					return nil
				}
				ns[0].step.Store(&f)
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				err := ns[0].store.Load().Merge(ctx, 2)
				cancel()
				if !dead {
					t.Fatalf("the step was not reached: %v", err)
				}
				for i := range 6 {
					ns[1].wantToy(t, fmt.Sprintf("k%d", i), "v")
				}
				check(t, ns[2].toyPut("k1", "left"))
				check(t, ns[2].toyPut("k4", "right"))
				info, _ := ns[1].store.Load().Lookup(tkey("k1"))
				if merged := info.Desc.Contains(tkey("k4")); merged != (step == "committed") {
					t.Errorf("%v, and the leaseholder died at: %s", &info.Desc, step)
				}
				ns[0].start(false)
				time.Sleep(10 * time.Second)
				if info, _ = ns[1].store.Load().Lookup(tkey("k1")); !info.Desc.Contains(tkey("k4")) {
					check(t, ns[1].merge("k1"))
				}
				for i, v := range []string{"v", "left", "v", "v", "right", "v"} {
					ns[1].wantToy(t, fmt.Sprintf("k%d", i), v)
				}
				for _, n := range ns {
					check(t, n.store.Load().Failed())
				}
			})
		})
	}
}

// TestMergeGivenUp: a merge that fails leaves two ranges that serve at once, without the queue's help.
func TestMergeGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := toyStacks(t)
		defer func() { stopAll(ns) }()
		right := halves(t, ns)
		failed := false
		f := func(at string) error {
			if at == "before commit" && !failed {
				failed = true
				return errNobody
			}
			return nil
		}
		ns[0].step.Store(&f)
		before := ns[0].store.Load().Replica(2).Desc().Generation
		if err := ns[0].store.Load().Merge(context.Background(), 2); !errors.Is(err, errNobody) {
			t.Fatalf("merged: %v", err)
		}
		for _, id := range []kv.RangeID{2, right.ID} {
			if g := ns[0].store.Load().Replica(id).Generation(); g.Stage != replica.Open || g.Number <= before {
				t.Errorf("r%d: %+v after generation %d", id, g, before)
			}
		}
		from := time.Now()
		for i := range 6 {
			ns[1].wantToy(t, fmt.Sprintf("k%d", i), "v")
		}
		if took := time.Since(from); took > time.Second {
			t.Errorf("the ranges served after %s", took)
		}
	})
}

// TestMergeOfProtocols: ranges of different protocols are not merged, whichever is on the left, and nothing is sealed for it. The queue does
// not try. When one has been given the other's protocol, they are.
func TestMergeOfProtocols(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := toyStacks(t)
		defer stopAll(ns)
		right := halves(t, ns)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		var at keys.Key
		for _, at = range []keys.Key{tkey("k1"), tkey("k4")} {
			_, err := setProtocol(ctx, ns[0], at, kv.Leader)
			check(t, err)
			seals := ns[0].store.Load().Metrics.Seals.Load()
			left, before := ns[0].store.Load().Replica(2).Desc(), time.Now()
			if err := ns[1].merge("k1"); err == nil || time.Since(before) > time.Second {
				t.Errorf("merged %v with another protocol's range: %v", left, err)
			}
			// They are small, and somebody might undo the split: placement would merge them.
			_, err = ns[1].router.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: right.Start, Undo: true}}})
			check(t, err)
			kept := ns[0].store.Load().Metrics.Seals.Load()
			time.Sleep(3 * time.Minute)
			if d := ns[0].store.Load().Replica(2).Desc(); d != left {
				t.Errorf("%v has become %v", left, d)
			}
			if n := ns[0].store.Load().Metrics.Seals.Load(); n != kept || kept > seals+1 {
				t.Errorf("%d seals, then %d, then %d", seals, kept, n)
			}
			if at.Equal(tkey("k1")) {
				_, err = setProtocol(ctx, ns[0], at, toyProtocol)
				check(t, err)
				_, err = ns[1].router.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: right.Start}}})
				check(t, err)
			}
		}
		_, err := setProtocol(ctx, ns[0], at, toyProtocol)
		check(t, err)
		check(t, ns[1].merge("k1"))
		for i := range 6 {
			ns[1].wantToy(t, fmt.Sprintf("k%d", i), "v")
		}
	})
}

// future is a timestamp ahead of all clocks.
func (s *stack) future() clock.Timestamp { return s.clock.Now().Add(time.Second) }

// wantFloor expects the floor of a node's range, and what a transaction writes there then, to be above what was served.
func (s *stack) wantFloor(t *testing.T, id kv.RangeID, what string, served clock.Timestamp) {
	t.Helper()
	if f := s.store.Load().Replica(id).Generation().Floor; f.Less(served) {
		t.Errorf("%s: the floor of r%d is %s, and %s was served", what, id, f, served)
	}
}

// TestFloorOfTheFuture: what a protocol without a log has served, or written, ahead of all clocks is below what the next protocol writes, and
// below what the range's next generations do: after a split, after a merge in which only the right side has served it, and if the replica
// that has served it has crashed since.
func TestFloorOfTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := toyStacks(t)
		defer func() { stopAll(ns) }()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		halves(t, ns)
		read := func(k string) clock.Timestamp {
			at := ns[0].future()
			_, _, err := ns[1].toyQuorum(ctx, k, append([]byte("f"), at.Append(nil)...))
			check(t, err)
			return at
		}
		split := func(k string) {
			_, err := ns[1].router.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: tkey(k)}}})
			check(t, err)
		}
		at := read("k1")
		split("k2")
		ns[0].wantFloor(t, 2, "split", at)
		right, _ := ns[0].store.Load().Lookup(tkey("k2"))
		ns[0].wantFloor(t, right.Desc.ID, "split, right side", at)

		at = read("k4")
		check(t, ns[1].merge("k2"))
		ns[0].wantFloor(t, right.Desc.ID, "merge", at)

		at = read("k4")
		ns[1].crash()
		ns[2].crash()
		ns[1].start(false)
		ns[2].start(false)
		at = at.Forward(read("k3"))
		d, err := setProtocol(ctx, ns[0], tkey("k4"), kv.Leader)
		check(t, err)
		ns[0].wantFloor(t, d.ID, "another protocol", at)
		x := ns[0].db.Begin(txn.TxnOptions{})
		check(t, putIn(ctx, x, "k4", "leader"))
		meta, err := x.Lay(ctx)
		if err != nil || meta.WriteTimestamp.LessEq(at) {
			t.Errorf("written at %s, %v, and the toy protocol has read at %s", meta.WriteTimestamp, err, at)
		}
		check(t, x.Commit(ctx))
	})
}

// TestLeaveTheFuture: what the leader protocol has read, or written, ahead of all clocks is at or below the floor that it leaves.
func TestLeaveTheFuture(t *testing.T) {
	for _, what := range []string{"read", "written", "resolved"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ns := toyStacks(t)
				defer stopAll(ns)
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				_, err := setProtocol(ctx, ns[0], tkey("k1"), kv.Leader)
				check(t, err)
				at := ns[0].future()
				x := &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{9}, Anchor: tkey("k1"), WriteTimestamp: at, MinTimestamp: at, Seq: 1},
					ReadTimestamp: at}
				send := func(reqs ...kv.Request) *kv.BatchResponse {
					t.Helper()
					r, err := ns[1].router.Send(ctx, &kv.Batch{Header: kv.Header{Txn: x}, Requests: reqs})
					check(t, err)
					return r
				}
				put := &kv.PutRequest{Key: tkey("k1"), Value: []byte("v"), Seq: 1}
				switch what {
				case "read":
					send(&kv.GetRequest{Key: tkey("k1")})
				case "written":
					send(put, &kv.EndTxnRequest{Anchor: tkey("k1"), Commit: true, OnePhase: true, LockSpans: []keys.Span{{Start: tkey("k1")}}})
				case "resolved":
					send(put)
					send(&kv.EndTxnRequest{Anchor: tkey("k1"), Commit: true, LockSpans: []keys.Span{{Start: tkey("k1")}}})
				}
				_, err = setProtocol(ctx, ns[0], tkey("k1"), toyProtocol)
				check(t, err)
				if now := ns[0].clock.Now(); at.Less(now) {
					t.Fatalf("the change took until %s", now)
				}
				ns[0].wantFloor(t, 2, what, at)
			})
		})
	}
}
