package rangeserver_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/replica"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// TestSettleRaisesTheFloor: the versions that Settle leaves may be later than all that the fold has seen. The leader protocol serves nothing below them,
// and finds them (leader.P22).
func TestSettleRaisesTheFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := stackNetwork(t, 3)
		var decided clock.Timestamp
		settle := func(_ context.Context, f *rangeserver.Folding) error {
			decided = f.Now.Add(100 * time.Millisecond)
			return f.Write([]replica.Row{{Key: tkey("s"), Value: []byte("decided"), Timestamp: decided}})
		}
		for i, n := range ns {
			n.protocols = rangeserver.Registry{toyProtocol: {Name: "toy", Fold: foldToys, Settle: settle,
				New: func(g *rangeserver.Range) rangeserver.Participant { return &toy{g: g} }}}
			n.start(i == 0)
			defer func() { n.stop() }()
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		for id := range kv.RangeID(2) {
			check(t, ns[0].store.Load().ChangeReplicas(ctx, id+1, targets(1, 2, 3)))
		}
		for _, p := range []kv.Protocol{toyProtocol, kv.Leader} {
			_, err := setProtocol(ctx, ns[0], tkey("a"), p)
			check(t, err)
		}
		if f := ns[0].store.Load().Replica(2).Generation().Floor; decided.IsZero() || f.Less(decided) {
			t.Errorf("the floor is %s, and Settle has left a version at %s", f, decided)
		}
		if v, err := ns[0].db.Get(ctx, tkey("s")); string(v) != "decided" || err != nil {
			t.Errorf("s is %q, %v", v, err)
		}
	})
}

// TestSettleInOneCommand: Settle reads the rows of the fold before the log has them, and they are in one command with those of Settle and the end of the generation. Durable
// puts them into the log earlier, for a protocol that tells others.
func TestSettleInOneCommand(t *testing.T) {
	for _, durable := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ns := stackNetwork(t, 3)
			settled := false
			settle := func(_ context.Context, f *rangeserver.Folding) error {
				settled = true
				r := ns[0].store.Load().Replica(2)
				before := r.Generation().Stage
				if durable {
					check(t, f.Durable())
				}
				if got := r.Generation().Stage; before != replica.Sealed || (got == replica.Folded) != durable {
					t.Errorf("durable: %v: the generation is %s, and was %s", durable, got, before)
				}
				for what, rd := range map[string]engine.Reader{"Base": f.Base, "the log": ns[0].engine} {
					m := mvcc.NewReader(rd)
					defer m.Close()
					v, err := m.Get(tkey("s"), &mvcc.ReadOptions{Timestamp: clock.Timestamp{Wall: math.MaxInt64}})
					check(t, err)
					if there := v.Bytes != nil; there != (durable || what == "Base") {
						t.Errorf("durable: %v: the fold's row is in %s: %v", durable, what, there)
					}
				}
				return nil
			}
			fold := func(ctx context.Context, f *rangeserver.Folding) error {
				return f.Write([]replica.Row{{Key: tkey("s"), Value: []byte("folded"), Timestamp: f.Now}})
			}
			for i, n := range ns {
				n.protocols = rangeserver.Registry{toyProtocol: {Name: "toy", Fold: fold, Settle: settle,
					New: func(g *rangeserver.Range) rangeserver.Participant { return &toy{g: g} }}}
				n.start(i == 0)
				defer func() { n.stop() }()
			}
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			for id := range kv.RangeID(2) {
				check(t, ns[0].store.Load().ChangeReplicas(ctx, id+1, targets(1, 2, 3)))
			}
			for _, p := range []kv.Protocol{toyProtocol, kv.Leader} {
				_, err := setProtocol(ctx, ns[0], tkey("a"), p)
				check(t, err)
			}
			if v, err := ns[0].db.Get(ctx, tkey("s")); string(v) != "folded" || err != nil || !settled {
				t.Errorf("s is %q, %v", v, err)
			}
		})
	}
}

// TestSettleGivesUp: a range is sealed while its protocol decides provisional writes, and serves nothing. When that waits for a range that waits for this
// one, the change is given up, and the range is there again after seconds.
func TestSettleGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := stackNetwork(t, 3)
		settle := func(ctx context.Context, f *rangeserver.Folding) error {
			<-ctx.Done() // the other range's answer does not come
			return ctx.Err()
		}
		for i, n := range ns {
			n.protocols = rangeserver.Registry{toyProtocol: {Name: "toy", Fold: foldToys, Settle: settle,
				New: func(g *rangeserver.Range) rangeserver.Participant { return &toy{g: g} }}}
			n.start(i == 0)
			defer func() { n.stop() }()
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		for id := range kv.RangeID(2) {
			check(t, ns[0].store.Load().ChangeReplicas(ctx, id+1, targets(1, 2, 3)))
		}
		_, err := setProtocol(ctx, ns[0], tkey("a"), toyProtocol)
		check(t, err)
		begun := time.Now()
		_, err = ns[0].store.Load().SetProtocol(ctx, 2, &kv.AdminSetProtocolRequest{Key: tkey("a"), Protocol: kv.Leader})
		if took := time.Since(begun); !errors.As(err, new(*kv.UnavailableError)) || took > 5*time.Second {
			t.Errorf("%v after %s", err, took)
		}
		r := ns[0].store.Load().Replica(2)
		if g := r.Generation(); g.Stage != replica.Open || r.Desc().Protocol != toyProtocol {
			t.Errorf("%v, generation %+v", r.Desc(), g)
		}
	})
}

// TestRecallFolded: a range that is at the end of a generation answers questions about it, for ranges that are so, too, and wait for its answer: not before all that it was promised is in
// the base, for good, and no later generation accepts what the base does not know. One that serves is not asked.
func TestRecallFolded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := stackNetwork(t, 3)
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		var upTo clock.Timestamp
		recall := func() error {
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			q := &kv.AdminRecallRequest{Key: tkey("s"), Protocol: toyProtocol}
			resp, err := ns[0].store.Load().Send(short, &kv.Batch{Header: kv.Header{RangeID: 2}, Requests: []kv.Request{q}})
			if err == nil && string(resp.Responses[0].(*kv.ProtocolResponse).Body) != "recalled" {
				t.Errorf("the answer is %v", resp.Responses[0])
			}
			return err
		}
		settle := func(_ context.Context, f *rangeserver.Folding) error {
			if err := recall(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("before the generation is folded: %v", err)
			}
			check(t, f.Durable())
			upTo = f.Now.Add(300 * time.Millisecond)
			check(t, recall())
			if f := ns[0].store.Load().Replica(2).Generation().Floor; f.Less(upTo) {
				t.Errorf("the floor is %s, and what was asked about has %s", f, upTo)
			}
			return nil
		}
		for i, n := range ns {
			n.protocols = rangeserver.Registry{toyProtocol: {Name: "toy", Fold: foldToys, Settle: settle,
				New:    func(g *rangeserver.Range) rangeserver.Participant { return &toy{g: g} },
				Recall: func(engine.Reader, []byte) ([]byte, clock.Timestamp, error) { return []byte("recalled"), upTo, nil }}}
			n.start(i == 0)
			defer func() { n.stop() }()
		}
		for id := range kv.RangeID(2) {
			check(t, ns[0].store.Load().ChangeReplicas(ctx, id+1, targets(1, 2, 3)))
		}
		_, err := setProtocol(ctx, ns[0], tkey("a"), toyProtocol)
		check(t, err)
		if err := recall(); !errors.As(err, new(*kv.ProtocolError)) {
			t.Errorf("a range that serves: %v", err)
		}
		_, err = setProtocol(ctx, ns[0], tkey("a"), kv.Leader)
		check(t, err)
		check(t, recall())
		if upTo.IsZero() {
			t.Error("nothing was settled")
		}
	})
}

// TestRequestsWaitWhileSealed: a request for a range whose generation is at its end is answered when the next one has begun, so that its sender, which is told of that, need not ask again
// and again. It does not wait longer than a change takes.
func TestRequestsWaitWhileSealed(t *testing.T) {
	for _, long := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ns := stackNetwork(t, 3)
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			type answer struct {
				err error
				at  time.Time
			}
			answers := make(chan answer, 1)
			var begun time.Time
			settle := func(_ context.Context, f *rangeserver.Folding) error {
				begun = time.Now()
				go func() {
					_, err := ns[0].store.Load().Send(ctx, &kv.Batch{Header: kv.Header{RangeID: 2, Protocol: toyProtocol, Generation: f.Generation},
						Requests: []kv.Request{&kv.ProtocolRequest{Key: tkey("a"), Body: []byte("r")}}})
					answers <- answer{err, time.Now()}
				}()
				if time.Sleep(200 * time.Millisecond); long {
					time.Sleep(time.Second)
				}
				return nil
			}
			for i, n := range ns {
				n.protocols = rangeserver.Registry{toyProtocol: {Name: "toy", Fold: foldToys, Settle: settle,
					New: func(g *rangeserver.Range) rangeserver.Participant { return &toy{g: g} }}}
				n.start(i == 0)
				defer func() { n.stop() }()
			}
			for id := range kv.RangeID(2) {
				check(t, ns[0].store.Load().ChangeReplicas(ctx, id+1, targets(1, 2, 3)))
			}
			for _, p := range []kv.Protocol{toyProtocol, kv.Leader} {
				_, err := setProtocol(ctx, ns[0], tkey("a"), p)
				check(t, err)
			}
			got := <-answers
			took, changed := got.at.Sub(begun), errors.As(got.err, new(*kv.ProtocolError))
			if changed == long || !long && took < 200*time.Millisecond || took > 800*time.Millisecond {
				t.Errorf("long: %v: %v after %v", long, got.err, took)
			}
		})
	}
}
