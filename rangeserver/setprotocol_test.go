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
	"meridian/route"
	"meridian/txn"
)

// TestSetProtocol: a range goes to the toy protocol and back while transactions are at work in it. A transaction that does not end by
// itself is aborted, what was acknowledged under one protocol is there under the next, and neither goes below what the other has served.
func TestSetProtocol(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := stackNetwork(t, 3)
		for i, n := range ns {
			n.protocols = rangeserver.Registry{toyProtocol: {Name: "toy", Fold: foldToys,
				New: func(g *rangeserver.Range) rangeserver.Participant { return &toy{g: g} }}}
			n.start(i == 0)
			defer func() { n.stop() }()
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		db, store := ns[0].db, ns[0].store.Load()
		for id := range kv.RangeID(2) {
			check(t, store.ChangeReplicas(ctx, id+1, targets(1, 2, 3)))
		}
		check(t, db.Put(ctx, tkey("a"), []byte("leader")))

		// One transaction commits when it is asked to, another one would never.
		lasting := db.Begin(txn.TxnOptions{})
		check(t, putIn(ctx, lasting, "b", "never"))
		_, err := lasting.Lay(ctx)
		check(t, err)
		old := db.Begin(txn.TxnOptions{})
		_, err = old.Get(ctx, tkey("z"), kv.NoLock, kv.Block)
		check(t, err)
		served := ns[0].clock.Now()
		// A node without the lease asks, twice: the second time there is nothing to do.
		before := store.Replica(2).Desc().Generation
		for range 2 {
			d, err := setProtocol(ctx, ns[2], tkey("a"), toyProtocol)
			check(t, err)
			if d.ID != 2 || d.Protocol != toyProtocol || d.Generation != before+1 || store.Replica(2).Desc().Generation != before+1 {
				t.Errorf("the answer has %v", d)
			}
		}
		r := store.Replica(2)
		if r.Desc().Protocol != toyProtocol || r.Stats().IntentCount != 0 {
			t.Fatalf("%v with %d intents", r.Desc(), r.Stats().IntentCount)
		}
		if f := r.Generation().Floor; f.Less(served) {
			t.Errorf("the floor is %s, and %s was served", f, served)
		}
		if err := lasting.Commit(ctx); err == nil {
			t.Error("a transaction committed whose writes are nowhere")
		}
		ask := func(k string, body []byte) (at clock.Timestamp, v []byte) {
			t.Helper()
			for range 100 {
				heard := map[kv.ReplicaID]bool{}
				var desc *kv.RangeDescriptor
				b := &kv.Batch{Header: kv.Header{Protocol: toyProtocol}, Requests: []kv.Request{&kv.ProtocolRequest{Key: tkey(k), Body: body}}}
				err := ns[1].router.Each(ctx, b, func(a route.Answer) bool {
					if desc = a.Desc; a.Err == nil {
						heard[a.From.Replica] = true
						if x := a.Resp.Responses[0].(*kv.ProtocolResponse).Body; x != nil {
							if ts, value := splitToy(x); at.Less(ts) {
								at, v = ts, value
							}
						}
					}
					return true
				})
				if err == nil && desc.Quorum(func(r *kv.ReplicaDescriptor) bool { return heard[r.Replica] }) {
					return at, v
				}
				time.Sleep(50 * time.Millisecond)
			}
			t.Fatal("no quorum")
			return
		}
		if _, v := ask("a", []byte("r")); string(v) != "leader" {
			t.Errorf("a is %q", v)
		}
		if _, v := ask("b", []byte("r")); v != nil {
			t.Errorf("b is %q", v)
		}
		var other *kv.ProtocolError
		if _, err := ns[0].router.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.GetRequest{Key: tkey("a")}}}); !errors.As(err, &other) {
			t.Errorf("a read of the leader protocol: %v", err)
		}
		at := ns[2].clock.Now().Add(100 * time.Millisecond) // ahead of the others
		ask("a", append([]byte("w"), toyValue(at, []byte("toy"))...))

		_, err = setProtocol(ctx, ns[1], tkey("z"), kv.Leader)
		check(t, err)
		if v, err := db.Get(ctx, tkey("a")); string(v) != "toy" || err != nil {
			t.Errorf("a is %q, %v", v, err)
		}
		check(t, db.Put(ctx, tkey("a"), []byte("again")))
		if v, err := db.Get(ctx, tkey("a")); string(v) != "again" || err != nil {
			t.Errorf("a is %q, %v", v, err)
		}
		// A transaction from before does not write below what was served meanwhile.
		check(t, putIn(ctx, old, "z", "late"))
		meta, err := old.Lay(ctx)
		if f := r.Generation().Floor; err == nil && meta.WriteTimestamp.LessEq(f) {
			t.Errorf("a write at %s, and the toy protocol has served up to %s", meta.WriteTimestamp, f)
		}
		_ = old.Rollback(ctx)
		if n := store.Metrics.Seals.Load(); n == 0 {
			t.Error("nothing was sealed")
		}
	})
}

// TestSetProtocolRefused: a protocol that the leaseholder's binary does not have, and another protocol for a range of the system, are refused
// once and for all, by a typed error. The ranges are served on.
func TestSetProtocolRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := stackNetwork(t, 2)
		for i, n := range ns {
			if i == 1 { // the first node has the leases
				n.protocols = rangeserver.Registry{toyProtocol: {Name: "toy", Fold: foldToys,
					New: func(g *rangeserver.Range) rangeserver.Participant { return &toy{g: g} }}}
			}
			n.start(i == 0)
			defer func() { n.stop() }()
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		check(t, ns[0].db.Put(ctx, tkey("a"), []byte("v")))
		first := ns[0].store.Load().Replica(1).Desc()
		for _, c := range []struct {
			at      keys.Key
			p       kv.Protocol
			refused kv.ProtocolRefusedError
		}{
			{tkey("a"), toyProtocol, kv.ProtocolRefusedError{Range: 2, Protocol: toyProtocol, Node: 1}},
			{tkey("a"), kv.FastPaxos, kv.ProtocolRefusedError{Range: 2, Protocol: kv.FastPaxos, Node: 1}},
			{tkey("a"), kv.MaxProtocol, kv.ProtocolRefusedError{Range: 2, Protocol: kv.MaxProtocol, Node: 1}},
			{first.Start, toyProtocol, kv.ProtocolRefusedError{Range: 1, Protocol: toyProtocol}},
		} {
			began := time.Now()
			_, err := setProtocol(ctx, ns[1], c.at, c.p)
			var refused *kv.ProtocolRefusedError
			if !errors.As(err, &refused) || *refused != c.refused || time.Since(began) > time.Second {
				t.Errorf("%s, %s: after %s: %v", c.at, c.p, time.Since(began), err)
			}
		}
		// The system's have the leader's already.
		if d, err := setProtocol(ctx, ns[1], first.Start, kv.Leader); err != nil || d.Generation != first.Generation {
			t.Errorf("%v, %v", d, err)
		}
		if v, err := ns[1].leaderGet(ctx, "a"); v != "v" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	})
}

// leaderGet reads a key of a range that has the leader protocol now. A replica that has not applied the change answers that the range has the
// protocol of before, whose coordinator would ask the others and learn better. This DB has none, so the read is repeated.
func (s *stack) leaderGet(ctx context.Context, k string) (string, error) {
	for try := 0; ; try++ {
		v, err := s.db.Get(ctx, tkey(k))
		if before := (*kv.ProtocolError)(nil); !errors.As(err, &before) || try == 100 {
			return string(v), err
		}
		time.Sleep(10 * time.Millisecond)
		if _, err := s.router.Range(ctx, tkey(k), true); err != nil {
			return "", err
		}
	}
}

// TestSetProtocolWithin: a range that has been merged with its neighbours since its protocol was to be changed is split from them first.
// They keep their protocol, and all that they have; and the three are not made one again before they differ.
func TestSetProtocolWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := toyStacks(t)
		defer stopAll(ns)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		for i := range 6 {
			check(t, ns[1].toyPut(fmt.Sprintf("k%d", i), "v"))
		}
		_, err := setProtocol(ctx, ns[0], tkey("k0"), kv.Leader)
		check(t, err)
		within := func(at string, p kv.Protocol, start, end string) (*kv.RangeDescriptor, error) {
			r, err := ns[1].router.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSetProtocolRequest{
				Key: tkey(at), Protocol: p, Within: keys.Span{Start: tkey(start), End: tkey(end)}}}})
			if err != nil {
				return nil, err
			}
			return &r.Responses[0].(*kv.AdminSetProtocolResponse).Desc, nil
		}
		if d, err := within("k1", toyProtocol, "k2", "k4"); err == nil {
			t.Errorf("%v was changed for a key that is not in the span", d)
		}
		for range 2 { // the second request finds nothing to do
			d, err := within("k3", toyProtocol, "k2", "k4")
			check(t, err)
			if !d.Start.Equal(tkey("k2")) || !d.End.Equal(tkey("k4")) || d.Protocol != toyProtocol {
				t.Fatalf("changed %v", d)
			}
		}
		for i := range 6 {
			k := fmt.Sprintf("k%d", i)
			if i == 2 || i == 3 {
				ns[2].wantToy(t, k, "v")
			} else if v, err := ns[2].leaderGet(ctx, k); v != "v" || err != nil {
				t.Errorf("%s is %q, %v", k, v, err)
			}
		}
		// A range without a log is divided likewise, and its parts that lie within the span are left as they are.
		for _, at := range []string{"k2", "k5"} {
			d, err := within(at, kv.Leader, "k3", "k9")
			if at == "k2" && err == nil || at == "k5" && (err != nil || d.Protocol != kv.Leader) {
				t.Errorf("%s: %v, %v", at, d, err)
			}
		}
		d, err := within("k3", kv.Leader, "k3", "k9")
		check(t, err)
		if !d.Start.Equal(tkey("k3")) || !d.End.Equal(tkey("k4")) || d.Protocol != kv.Leader {
			t.Errorf("changed %v", d)
		}
		ns[2].wantToy(t, "k2", "v")
		if v, err := ns[2].leaderGet(ctx, "k3"); v != "v" || err != nil {
			t.Errorf("k3 is %q, %v", v, err)
		}
	})
}

// hold has a change of a range stop at a step, once: begun is closed when it is there, and it goes on when the test closes asked.
func (s *stack) hold(at string) (begun, asked chan struct{}) {
	begun, asked = make(chan struct{}), make(chan struct{})
	hold := func(step string) error {
		if step == at {
			s.step.Store(nil)
			close(begun)
			<-asked
		}
		return nil
	}
	s.step.Store(&hold)
	return begun, asked
}

// TestSetProtocolOfSplit: a request that waits while its range is split changes the part that has its key, and no other.
func TestSetProtocolOfSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := toyStacks(t)
		defer stopAll(ns)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		check(t, ns[1].toyPut("k4", "v"))
		begun, asked := ns[0].hold("r2 reported")
		split := make(chan error, 1)
		go func() {
			_, err := ns[1].router.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: tkey("k3")}}})
			split <- err
		}()
		<-begun
		go func() {
			time.Sleep(time.Second)
			close(asked)
		}()
		d, err := setProtocol(ctx, ns[2], tkey("k4"), kv.Leader)
		check(t, err)
		check(t, <-split)
		if !d.Start.Equal(tkey("k3")) || d.Protocol != kv.Leader {
			t.Errorf("changed %v", d)
		}
		if left := ns[0].store.Load().Replica(2).Desc(); left.Protocol != toyProtocol {
			t.Errorf("the left side is %v, %s", left, left.Protocol)
		}
		if v, err := ns[2].leaderGet(ctx, "k4"); v != "v" || err != nil {
			t.Errorf("k4 is %q, %v", v, err)
		}
	})
}

// TestUnpreparedChange: a change of protocol that nobody has prepared, or whose lease has moved since, is refused at once and for good:
// the range is served on.
func TestUnpreparedChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := stackNetwork(t, 1)[0]
		n.start(true)
		defer func() { n.stop() }()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		check(t, n.db.Put(ctx, tkey("a"), []byte("v")))
		d := n.store.Load().Replica(2).Desc().Clone()
		d.Protocol = toyProtocol
		d.Generation++
		began := time.Now()
		err := stackDB{n.db, n}.RunInternal(ctx, "unprepared", func(ctx context.Context, tx rangeserver.Tx) error {
			if err := tx.Put(ctx, keys.RangeDescriptorKey(d.Start), d.Append(nil)); err != nil {
				return err
			}
			return tx.CommitWithTrigger(ctx, &kv.CommitTrigger{Replicas: &kv.ReplicasTrigger{Desc: *d}})
		})
		if err == nil || time.Since(began) > time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		if v, err := n.db.Get(ctx, tkey("a")); string(v) != "v" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	})
}

// TestSetProtocolUnderLoad goes to and fro while a bank is at work. Its transactions fail while the range is the toy's, and no money is lost.
func TestSetProtocolUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := stackNetwork(t, 3)
		for i, n := range ns {
			n.protocols = rangeserver.Registry{toyProtocol: {Name: "toy", Fold: foldToys,
				New: func(g *rangeserver.Range) rangeserver.Participant { return &toy{g: g} }}}
			n.start(i == 0)
			defer func() { n.stop() }()
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		store := ns[0].store.Load()
		for id := range kv.RangeID(2) {
			check(t, store.ChangeReplicas(ctx, id+1, targets(1, 2, 3)))
		}
		const accounts = 6
		key := func(i int) string { return fmt.Sprintf("a%d", i) }
		for i := range accounts {
			check(t, ns[0].db.Put(ctx, tkey(key(i)), []byte{100}))
		}
		stop, done := make(chan bool), make(chan int)
		for w := range 4 {
			go func() {
				n := 0
				for i := w; ; i += 7 {
					select {
					case <-stop:
						done <- n
						return
					default:
					}
					short, cancel := context.WithTimeout(ctx, 2*time.Second)
					err := ns[w%3].db.Run(short, txn.TxnOptions{}, func(ctx context.Context, x *txn.Txn) error {
						from, to := key(i%accounts), key((i+1+i/accounts)%accounts)
						if from == to {
							return nil
						}
						a, err := x.Get(ctx, tkey(from), kv.Exclusive, kv.Block)
						if err != nil {
							return err
						}
						b, err := x.Get(ctx, tkey(to), kv.NoLock, kv.Block)
						if err != nil || a[0] == 0 || b[0] == 255 {
							return err
						}
						if err := putIn(ctx, x, from, string([]byte{a[0] - 1})); err != nil {
							return err
						}
						return putIn(ctx, x, to, string([]byte{b[0] + 1}))
					})
					cancel()
					if err == nil {
						n++
					}
					time.Sleep(10 * time.Millisecond)
				}
			}()
		}
		for range 5 {
			for _, p := range []kv.Protocol{toyProtocol, kv.Leader} {
				time.Sleep(2 * time.Second)
				_, err := setProtocol(ctx, ns[2], tkey("a0"), p)
				check(t, err)
			}
		}
		time.Sleep(time.Second)
		close(stop)
		n := 0
		for range 4 {
			n += <-done
		}
		total := 0
		check(t, ns[0].db.Run(ctx, txn.TxnOptions{}, func(ctx context.Context, x *txn.Txn) error {
			total = 0
			for i := range accounts {
				v, err := x.Get(ctx, tkey(key(i)), kv.NoLock, kv.Block)
				if err != nil {
					return err
				}
				total += int(v[0])
			}
			return nil
		}))
		if total != 100*accounts || n < 50 {
			t.Errorf("%d in all after %d transfers", total, n)
		}
	})
}

// setProtocol asks from a node, as any client does.
func setProtocol(ctx context.Context, n *stack, at keys.Key, p kv.Protocol) (*kv.RangeDescriptor, error) {
	r, err := n.router.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSetProtocolRequest{Key: at, Protocol: p}}})
	if err != nil {
		return nil, err
	}
	return &r.Responses[0].(*kv.AdminSetProtocolResponse).Desc, nil
}

func putIn(ctx context.Context, x *txn.Txn, k, v string) error {
	var b txn.WriteBatch
	b.Put(tkey(k), []byte(v))
	return x.Write(ctx, &b)
}

// TestWritesWaitForChange: transactions that are open when their range gets another protocol do not hold it up, and a write that comes meanwhile waits, instead of being sent back
// to a client that would try again later and later.
func TestWritesWaitForChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := stackNetwork(t, 3)
		for i, n := range ns {
			n.protocols = rangeserver.Registry{toyProtocol: {Name: "toy", Fold: foldToys,
				New: func(g *rangeserver.Range) rangeserver.Participant { return &toy{g: g} }}}
			n.start(i == 0)
			defer func() { n.stop() }()
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		store := ns[0].store.Load()
		for id := range kv.RangeID(2) {
			check(t, store.ChangeReplicas(ctx, id+1, targets(1, 2, 3)))
		}
		for i := range 100 {
			open := ns[0].db.Begin(txn.TxnOptions{})
			check(t, putIn(ctx, open, fmt.Sprint("open", i), "v"))
			_, err := open.Lay(ctx)
			check(t, err)
		}
		begun, written := time.Now(), make(chan error)
		go func() {
			time.Sleep(10 * time.Millisecond)
			_, err := store.Send(ctx, &kv.Batch{Header: kv.Header{RangeID: 2, Now: ns[0].clock.Now()}, Requests: []kv.Request{&kv.PutRequest{Key: tkey("a"), Value: []byte("v")}}})
			written <- err
		}()
		_, err := setProtocol(ctx, ns[0], tkey("a"), toyProtocol)
		check(t, err)
		if took := time.Since(begun); took > 200*time.Millisecond {
			t.Errorf("the change took %v", took)
		}
		if err := <-written; !errors.As(err, new(*kv.ProtocolError)) {
			t.Errorf("the write: %v", err)
		}
	})
}
