package rangeserver_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/commit"
	fastpaxos "meridian/commit/fastpaxos/core"
	"meridian/commit/fastpaxos/replica"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
)

// TestFastPaxosTerm: the replicas of a range promise a term for all of its records, and keep it over a crash; what a master begins with is in the base of those that have applied so much of the
// log; and a new generation, which a reader may ask for, has no term.
func TestFastPaxosTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := stackNetwork(t, 3)
		for i, n := range ns {
			n.protocols = rangeserver.Registry{kv.FastPaxos: replica.New(replica.ProtocolOptions{Columns: noColumns{},
				Finishers: func() commit.Finishers { return nil }})}
			n.start(i == 0)
			defer func() { n.stop() }()
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
		defer cancel()
		for id := range kv.RangeID(2) {
			check(t, ns[0].store.Load().ChangeReplicas(ctx, id+1, targets(1, 2, 3)))
		}
		_, err := setProtocol(ctx, ns[0], tkey("a"), kv.FastPaxos)
		check(t, err)
		f := &fast{t: t, ctx: ctx, ns: ns}
		generation := func() uint64 { return ns[0].store.Load().Replica(2).Generation().Number }
		write := func(k string, seen clock.Timestamp) fastpaxos.Option {
			t.Helper()
			o := f.option(k, k+"1", seen)
			f.propose(0, 3, fastpaxos.Accepted, fastpaxos.Undecided, o)
			f.end(3, true, o)
			return o
		}
		cold := write("c", clock.Timestamp{})
		time.Sleep(5 * time.Minute)
		write("h", clock.Timestamp{})
		term := fastpaxos.Ballot{Round: 1, Master: 7}
		reign := func(b fastpaxos.Ballot) map[kv.ReplicaID][]*fastpaxos.Reply {
			return f.send(0, 3, &fastpaxos.Request{Kind: fastpaxos.Reign, Key: tkey("a"), Ballot: b, Generation: generation()})
		}
		applied := uint64(0)
		for id, r := range reign(term) {
			p := r[0].Reigned
			if p == nil || len(p.Apart) != 1 || p.Applied == 0 || p.Earlier || p.Many || r[0].Promised != term || p.Floor.Less(cold.At) || p.Mark.IsZero() {
				t.Fatalf("replica %d: %+v, %+v", id, r[0], p)
			}
			applied = max(applied, p.Applied)
		}
		for id, r := range reign(fastpaxos.Ballot{Round: 1, Master: 6}) {
			if r[0].Reigned != nil || r[0].Promised != term {
				t.Errorf("replica %d promises an earlier term: %+v", id, r[0])
			}
		}
		ns[2].crash()
		ns[2].start(false)
		undecided := func(want bool) {
			t.Helper()
			o := f.option("n", "n1", clock.Timestamp{})
			for id, r := range f.send(0, 3, &fastpaxos.Request{Kind: fastpaxos.Propose, Key: tkey("n"), Option: o}) {
				if got := r[0].Verdict == fastpaxos.Undecided && r[0].Term && r[0].Promised == term; got != want {
					t.Errorf("replica %d about a proposal: %+v", id, r[0])
				}
			}
		}
		undecided(true)
		base := func(g uint64) map[kv.ReplicaID][]*fastpaxos.Reply {
			return f.send(0, 3, &fastpaxos.Request{Kind: fastpaxos.Read, Key: tkey("c"), Generation: g, Look: &fastpaxos.Look{Keys: []keys.Key{tkey("c")}, Base: true}})
		}
		for id, r := range base(generation()) {
			if l := r[0].Looked; l.Applied < applied || len(l.Rows) != 1 || l.Rows[0].Seen.Base != cold.At || string(l.Rows[0].Value) != "c1" {
				t.Errorf("the base of replica %d: %+v", id, l)
			}
		}
		for id, r := range base(generation() - 1) {
			if l := r[0].Looked; l.Applied != 0 || len(l.Rows) != 0 {
				t.Errorf("the base of replica %d in another generation: %+v", id, l)
			}
		}
		// The master of the term decides about the cold row at once.
		next := f.option("c", "c2", cold.At)
		state := &fastpaxos.Record{Promised: term, Accepted: term, Sequence: 1, Base: fastpaxos.Value{At: cold.At, Data: []byte("c1")},
			Votes: []fastpaxos.Vote{{Option: next, Verdict: fastpaxos.Accepted, Fixed: true}}}
		for id, r := range f.send(0, 3, &fastpaxos.Request{Kind: fastpaxos.Dictate, Key: tkey("c"), Ballot: term, Sequence: 1, State: state, Generation: generation()}) {
			if r[0].Ballot != term || r[0].Sequence != 1 {
				t.Errorf("replica %d refuses the term's master: %+v", id, r[0])
			}
		}
		// A reader wants a new generation. One that asks for that late asks in vain.
		before := generation()
		f.send(0, 3, &fastpaxos.Request{Kind: fastpaxos.Reign, Key: tkey("a"), Generation: before - 1, Renew: true})
		time.Sleep(30 * time.Second)
		if now := generation(); now != before {
			t.Errorf("generation %d became %d", before, now)
		}
		f.send(0, 3, &fastpaxos.Request{Kind: fastpaxos.Reign, Key: tkey("a"), Generation: before, Renew: true})
		for n := 0; generation() == before; n++ {
			if n == 60 {
				t.Fatal("there is no new generation")
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Second)
		undecided(false)
		f.propose(0, 3, fastpaxos.Accepted, fastpaxos.Undecided, next)
		if now := generation(); now != before+1 {
			t.Errorf("generation %d became %d", before, now)
		}
	})
}
