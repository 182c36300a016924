package rangeserver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/commit"
	fastpaxos "meridian/commit/fastpaxos/core"
	fastreplica "meridian/commit/fastpaxos/replica"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/replica"
	"meridian/route"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// The acceptors of commit/fastpaxos at real replicas. The gateway is played by the test.

// noColumns are rows that have none.
type noColumns struct{}

func (noColumns) Column([]byte, uint32) (int64, bool) { return 0, false }
func (noColumns) Add([]byte, []fastpaxos.Delta) ([]byte, error) {
	return nil, errors.New("the rows of this test have no columns")
}

// committing says of each transaction that it has committed elsewhere.
type committing struct {
	commit.Finisher
	asked []fastpaxos.Name
}

func (c *committing) Finish(_ context.Context, o *fastpaxos.Option, _ map[string]fastpaxos.Verdict) (bool, error) {
	c.asked = append(c.asked, o.Name)
	return true, nil
}

// fast asks acceptors about rows of one range.
type fast struct {
	t   *testing.T
	ctx context.Context
	ns  []*stack
	n   byte
}

// option is one of another transaction each time, which replaces the version of a row.
func (f *fast) option(k, v string, seen clock.Timestamp, others ...string) fastpaxos.Option {
	f.n++
	o := fastpaxos.Option{Name: fastpaxos.Name{Txn: kv.TxnID{f.n}, At: f.ns[0].clock.Now()}, Update: fastpaxos.Update{Seen: fastpaxos.Seen{Base: seen}, Value: []byte(v)}}
	for _, k := range append([]string{k}, others...) {
		o.Keys = append(o.Keys, tkey(k))
	}
	return o
}

// send sends requests as one batch to all voters, or to one, and gives the replies by replica, as soon as as many as are wanted have answered
// in one generation.
func (f *fast) send(to kv.ReplicaID, want int, qs ...*fastpaxos.Request) map[kv.ReplicaID][]*fastpaxos.Reply {
	f.t.Helper()
	b := &kv.Batch{Header: kv.Header{Protocol: kv.FastPaxos}}
	for _, q := range qs {
		b.Requests = append(b.Requests, &kv.ProtocolRequest{Key: q.Key, Body: q.Append(nil)})
	}
	var last error
	for range 200 {
		out := map[kv.ReplicaID][]*fastpaxos.Reply{}
		one := func(from kv.ReplicaID, resp *kv.BatchResponse) {
			for _, r := range resp.Responses {
				p, err := fastpaxos.DecodeReply(r.(*kv.ProtocolResponse).Body)
				check(f.t, err)
				out[from] = append(out[from], p)
			}
		}
		if to != 0 {
			b.Target = kv.ToReplica(to)
			resp, err := f.ns[0].router.Send(f.ctx, b)
			if last = err; err == nil {
				one(to, resp)
			}
		} else {
			ctx, cancel := context.WithTimeout(f.ctx, time.Second)
			last = f.ns[0].router.Each(ctx, b, func(a route.Answer) bool {
				if a.Err == nil {
					one(a.From.Replica, a.Resp)
				} else {
					last = a.Err
				}
				return true
			})
			cancel()
		}
		if len(out) >= want {
			return out
		}
		time.Sleep(50 * time.Millisecond)
	}
	f.t.Fatalf("no quorum: %v", last)
	return nil
}

// propose has a number of replicas vote about options, and expects what they say.
func (f *fast) propose(to kv.ReplicaID, n int, verdict, outcome fastpaxos.Verdict, os ...fastpaxos.Option) {
	f.t.Helper()
	var qs []*fastpaxos.Request
	for _, o := range os {
		qs = append(qs, &fastpaxos.Request{Kind: fastpaxos.Propose, Key: o.Keys[0], Option: o})
	}
	for id, rs := range f.send(to, n, qs...) {
		for i, r := range rs {
			if r.Verdict != verdict || r.Outcome != outcome {
				f.t.Errorf("replica %d about %s: %s, %s; want %s, %s", id, os[i].Value, r.Verdict, r.Outcome, verdict, outcome)
			}
		}
	}
}

func (f *fast) end(n int, committed bool, o fastpaxos.Option) {
	f.t.Helper()
	f.send(0, n, &fastpaxos.Request{Kind: fastpaxos.End, Key: o.Keys[0], Option: o, Committed: committed})
}

// reads expects rows of the span from a to z at each of so many replicas.
func (f *fast) reads(n int, want string) {
	f.t.Helper()
	span := keys.Span{Start: tkey("a"), End: tkey("z")}
	for id, r := range f.send(0, n, &fastpaxos.Request{Kind: fastpaxos.Read, Key: span.Start, Look: &fastpaxos.Look{Span: span}}) {
		got := ""
		for _, row := range r[0].Looked.Rows {
			got += fmt.Sprintf("%s=%s ", string(row.Key[len(tkey("")):]), row.Value)
		}
		if got != want {
			f.t.Errorf("replica %d reads %q, want %q", id, got, want)
		}
	}
}

// TestFastPaxos: what the replicas of a range vote is there after a crash, and after the range has been split, moved, and has got another protocol:
// learned options have been executed, or are outstanding, and all others were rejected.
func TestFastPaxos(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := stackNetwork(t, 4)
		elsewhere := &committing{}
		for i, n := range ns {
			n.protocols = rangeserver.Registry{kv.FastPaxos: fastreplica.New(fastreplica.ProtocolOptions{Columns: noColumns{},
				Finishers: func() commit.Finishers { return commit.Finishers{kv.FastPaxos: elsewhere} }})}
			n.start(i == 0)
			defer func() { n.stop() }()
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		for id := range kv.RangeID(2) {
			check(t, ns[0].store.Load().ChangeReplicas(ctx, id+1, targets(1, 2, 3)))
		}
		check(t, ns[0].db.Put(ctx, tkey("a"), []byte("leader")))
		_, err := setProtocol(ctx, ns[0], tkey("a"), kv.FastPaxos)
		check(t, err)
		f := &fast{t: t, ctx: ctx, ns: ns}
		f.reads(3, "a=leader ")
		seen := func(k string) clock.Timestamp {
			t.Helper()
			for _, r := range f.send(0, 1, &fastpaxos.Request{Kind: fastpaxos.Query, Key: tkey(k)}) {
				return r[0].Record.Base.At
			}
			return clock.Timestamp{}
		}

		// One transaction with two rows, in one batch, and its end.
		a, b := f.option("a", "a1", seen("a"), "b"), f.option("b", "b1", clock.Timestamp{}, "a")
		b.Name = a.Name
		f.propose(0, 3, fastpaxos.Accepted, fastpaxos.Undecided, a, b)
		f.reads(3, "a=leader ")
		f.end(3, true, a)
		f.end(3, true, b)
		f.reads(3, "a=a1 b=b1 ")
		// Another one that all have accepted; one that a single replica has; and one that has ended without success.
		c, d, e := f.option("c", "c1", clock.Timestamp{}, "zz"), f.option("d", "d1", clock.Timestamp{}), f.option("e", "e1", clock.Timestamp{}, "zz")
		f.propose(0, 3, fastpaxos.Accepted, fastpaxos.Undecided, c)
		f.propose(2, 1, fastpaxos.Accepted, fastpaxos.Undecided, d)
		f.propose(0, 3, fastpaxos.Accepted, fastpaxos.Undecided, e)
		f.end(3, false, e)

		ns[2].crash()
		ns[2].start(false)
		f.propose(0, 3, fastpaxos.Accepted, fastpaxos.Undecided, c)
		f.propose(0, 3, fastpaxos.Undecided, fastpaxos.Accepted, b)
		f.propose(0, 3, fastpaxos.Undecided, fastpaxos.Rejected, e)

		before := ns[0].store.Load().Replica(2).Desc().Generation
		_, err = ns[0].router.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: tkey("m")}}})
		check(t, err)
		if g := ns[0].store.Load().Replica(2).Desc().Generation; g == before {
			t.Fatalf("the range is in generation %d still", g)
		}
		f.propose(0, 3, fastpaxos.Accepted, fastpaxos.Undecided, c)
		f.propose(0, 3, fastpaxos.Undecided, fastpaxos.Accepted, a, b)
		f.propose(0, 3, fastpaxos.Undecided, fastpaxos.Rejected, e)
		// A quorum's reports may have had it or not; now all say the same.
		outcome := fastpaxos.Undecided
		for id, r := range f.send(0, 3, &fastpaxos.Request{Kind: fastpaxos.Propose, Key: d.Keys[0], Option: d}) {
			if r[0].Verdict != fastpaxos.Undecided || r[0].Outcome == fastpaxos.Undecided || outcome != fastpaxos.Undecided && r[0].Outcome != outcome {
				t.Errorf("replica %d about d: %s, %s; another one: %s", id, r[0].Verdict, r[0].Outcome, outcome)
			}
			outcome = r[0].Outcome
		}
		if outcome == fastpaxos.Accepted {
			t.Errorf("d is %s", outcome)
		}

		// A replica moves to a node that had none, through a joint configuration. The one that stays without a vote is not told outcomes, and not read.
		moved := targets(1, 2, 3, 4)
		moved[2].Type = kv.NonVoter
		check(t, ns[0].store.Load().ChangeReplicas(ctx, 2, moved))
		f.propose(0, 3, fastpaxos.Accepted, fastpaxos.Undecided, c)
		f.propose(0, 3, fastpaxos.Undecided, fastpaxos.Accepted, a, b)
		f.propose(0, 3, fastpaxos.Undecided, outcome, d)
		f.reads(3, "a=a1 b=b1 ")
		a2 := f.option("a", "a2", a.At)
		f.propose(0, 3, fastpaxos.Accepted, fastpaxos.Undecided, a2)
		f.end(3, true, a2)
		look := &fastpaxos.Request{Kind: fastpaxos.Read, Key: tkey("a"), Look: &fastpaxos.Look{Keys: []keys.Key{tkey("a")}}}
		var resp *kv.BatchResponse
		for range 10 { // the node's router learns in which generation the range is
			if resp, err = ns[2].router.Send(ctx, &kv.Batch{Header: kv.Header{Protocol: kv.FastPaxos, Target: kv.ToNearest},
				Requests: []kv.Request{&kv.ProtocolRequest{Key: look.Key, Body: look.Append(nil)}}}); err == nil {
				break
			}
		}
		check(t, err)
		if r, err := fastpaxos.DecodeReply(resp.Responses[0].(*kv.ProtocolResponse).Body); err != nil || string(r.Looked.Rows[0].Value) != "a2" {
			t.Errorf("where no voter is, a is %+v, %v", r, err)
		}

		for _, k := range []string{"a", "m"} {
			_, err = setProtocol(ctx, ns[1], tkey(k), kv.Leader)
			check(t, err)
		}
		for k, want := range map[string]string{"a": "a2", "b": "b1", "c": "c1", "d": "", "e": ""} {
			if v, err := ns[0].leaderGet(ctx, k); v != want || err != nil {
				t.Errorf("%s is %q, %v; want %q", k, v, err, want)
			}
		}
		// A gateway that was not told before the change is told now.
		for _, o := range []struct {
			option fastpaxos.Option
			want   fastpaxos.Verdict
		}{{a2, fastpaxos.Accepted}, {b, fastpaxos.Accepted}, {e, fastpaxos.Rejected}, {f.option("a", "a3", a.At), fastpaxos.Undecided}} {
			q := &fastpaxos.Request{Kind: fastpaxos.Query, Key: o.option.Keys[0], Option: fastpaxos.Option{Name: o.option.Name}}
			resp, err := ns[1].router.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminRecallRequest{Key: q.Key, Protocol: kv.FastPaxos, Body: q.Append(nil)}}})
			check(t, err)
			if r, err := fastpaxos.DecodeReply(resp.Responses[0].(*kv.ProtocolResponse).Body); err != nil || r.Outcome != o.want {
				t.Errorf("the outcome of %s at %s: %v, %v; want %s", o.option.Value, o.option.At, r, err, o.want)
			}
		}
		if len(elsewhere.asked) != 1 || elsewhere.asked[0] != c.Name {
			t.Errorf("asked elsewhere about %v", elsewhere.asked)
		}
	})
}

// TestAbsorb: what has committed goes into the base while the range is served, without a seal, and replicas drop it from their deltas; one that was
// not told learns it from there. Nothing is lost in a crash meanwhile.
func TestAbsorb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := stackNetwork(t, 3)
		for i, n := range ns {
			n.protocols = rangeserver.Registry{kv.FastPaxos: fastreplica.New(fastreplica.ProtocolOptions{Columns: noColumns{},
				Finishers: func() commit.Finishers { return nil }})}
			n.start(i == 0)
			defer func() { n.stop() }()
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		for id := range kv.RangeID(2) {
			check(t, ns[0].store.Load().ChangeReplicas(ctx, id+1, targets(1, 2, 3)))
		}
		_, err := setProtocol(ctx, ns[0], tkey("a"), kv.FastPaxos)
		check(t, err)
		f := &fast{t: t, ctx: ctx, ns: ns}
		begun := ns[0].store.Load().Replica(2).Generation().Number
		delta := func(n *stack) (names int) {
			prefix := keys.DeltaPrefix(kv.RangeID(2), n.store.Load().Replica(2).Generation().Number)
			it, err := n.engine.NewIter(engine.IterOptions{Lower: prefix, Upper: prefix.PrefixEnd()})
			check(t, err)
			defer it.Close()
			for ok := it.First(); ok; ok = it.Next() {
				names++
			}
			return names
		}
		want := ""
		for i := range 20 {
			k := fmt.Sprintf("k%02d", i)
			o := f.option(k, k, clock.Timestamp{})
			f.propose(0, 3, fastpaxos.Accepted, fastpaxos.Undecided, o)
			if i%2 == 0 {
				f.end(3, true, o)
			} else { // the third replica is not told
				for to := range kv.ReplicaID(2) {
					f.send(to+1, 1, &fastpaxos.Request{Kind: fastpaxos.End, Key: o.Keys[0], Option: o, Committed: true})
				}
			}
			want += k + "=" + k + " "
			if i == 10 {
				ns[1].crash()
				ns[1].start(false)
				time.Sleep(time.Second) // it accepts nothing from before its start, by its own clock (fastpaxos.FP60)
			}
		}
		time.Sleep(10 * time.Second)
		f.reads(3, want)
		for _, n := range ns {
			for i := range 20 {
				m := mvcc.NewReader(n.engine)
				v, _, err := m.Newest(tkey(fmt.Sprintf("k%02d", i)))
				m.Close()
				if err != nil || v == nil {
					t.Errorf("n%d: the base has no k%02d, %v", n.id, i, err)
				}
			}
			if left := delta(n); left < 10 { // outcomes are remembered
				t.Errorf("n%d: %d names in the delta", n.id, left)
			}
		}
		time.Sleep(4 * time.Minute)
		f.reads(3, want)
		for _, n := range ns {
			if left := delta(n); left != 1 { // the floor
				t.Errorf("n%d: %d names are left in the delta", n.id, left)
			}
		}
		ns[2].crash()
		ns[2].start(false)
		f.reads(3, want)
		if now := ns[0].store.Load().Replica(2).Generation().Number; now != begun {
			t.Errorf("generation %d became %d", begun, now)
		}
		_, err = setProtocol(ctx, ns[1], tkey("a"), kv.Leader)
		check(t, err)
		if v, err := ns[0].leaderGet(ctx, "k07"); v != "k07" || err != nil {
			t.Errorf("%q, %v", v, err)
		}
	})
}

// TestFoldCommands: a row and the protocol key next to it are in one command of a fold, however large they are.
func TestFoldCommands(t *testing.T) {
	large, small := make([]byte, 2<<20), make([]byte, 10)
	row := func(k string, v []byte) replica.Row {
		return replica.Row{Key: tkey(k), Value: v, Timestamp: clock.Timestamp{Wall: 1}}
	}
	side := func(k string, v []byte) replica.Row {
		return replica.Row{Key: keys.ProtocolKey(tkey(k), []byte("x")), Value: v}
	}
	for _, c := range []struct {
		rows []replica.Row
		want int
	}{
		{[]replica.Row{row("a", small), side("a", small), row("b", small), side("b", small)}, 4},
		{[]replica.Row{row("a", large), side("a", large), row("b", small), side("b", small)}, 2},
		{[]replica.Row{row("a", small), row("b", large), side("b", nil), row("c", small)}, 3},
		{[]replica.Row{row("a", large), side("b", small)}, 1},
		{[]replica.Row{side("a", large), row("a", small)}, 1},
	} {
		if n := rangeserver.InCommand(c.rows); n != c.want {
			t.Errorf("%d rows in a command, want %d", n, c.want)
		}
	}
}
