package core

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"meridian/clock"
	"meridian/core"
	"meridian/keys"
	"meridian/kv"
)

var _ core.Core[Message, Write, struct{}] = (*Acceptor)(nil)

// TestAcceptorIsACore: the same requests give the same effects (core.K1), and replies wait for what they build on (fastpaxos.FP1).
func TestAcceptorIsACore(t *testing.T) {
	dice := rand.New(rand.NewPCG(3, 4))
	fresh := func() *Acceptor {
		return NewAcceptor(QuorumsOf(3), plain{}, []Write{{Key: keys.Key("a"), Record: numbered()}, {Key: keys.Key("b"), Record: numbered()}}, 0)
	}
	var events []core.Event[Message]
	var tickets core.Ticket
	probe := fresh()
	for i := range uint64(500) {
		if dice.IntN(3) == 0 && tickets > 0 {
			events = append(events, core.Event[Message]{Durable: tickets})
			probe.Durable(tickets)
		} else {
			q := &Request{Kind: Kind(1 + dice.IntN(5)), Key: keys.Key{"ab"[dice.IntN(2)]}, Option: physical(10 + dice.Int64N(4)), Committed: dice.IntN(2) == 0}
			if dice.IntN(2) == 0 {
				q.Option = less(20+dice.Int64N(4), 1)
			}
			q.Ballot = Ballot{Round: uint64(dice.IntN(3)), Master: 1, Fast: dice.IntN(2) == 0}
			if q.Kind == Dictate {
				q.State, q.Sequence = numbered(), uint64(dice.IntN(3))
			}
			m := Message{ID: i, Request: q}
			events = append(events, core.Event[Message]{Message: &m})
			probe.Step(clock.Timestamp{}, m)
		}
		fx := probe.Effects()
		if fx.Ticket != 0 {
			tickets = fx.Ticket
		}
		if probe.durable < tickets && len(fx.Send) > 0 {
			t.Fatalf("event %d: a reply leaves before ticket %d is durable", i, tickets)
		}
	}
	if err := core.CheckDeterminism(func() core.Core[Message, Write, struct{}] { return fresh() }, events); err != nil {
		t.Fatal(err)
	}
	// One that was stopped before its delta was durable.
	a := NewAcceptor(QuorumsOf(3), plain{}, []Write{{Key: keys.Key("a"), Record: numbered()}}, 1)
	a.Step(clock.Timestamp{}, Message{Request: &Request{Kind: Query, Key: keys.Key("a")}})
	if fx := a.Effects(); len(fx.Send) > 0 {
		t.Error("a reply reports what may not be durable")
	}
}

// TestBlocker: who is rejected because of another transaction learns of which.
func TestBlocker(t *testing.T) {
	k := keys.Key("a")
	first, second, sub := physical(10), physical(11), less(12, 1)
	first.Keys, first.Anchor = []keys.Key{k, keys.Key("b")}, keys.Key("record")
	a := NewAcceptor(QuorumsOf(3), plain{}, nil, 0)
	a.Load(k, numbered())
	ask(a, &Request{Kind: Propose, Key: k, Option: first})
	for _, o := range []Option{second, sub, second} { // the second time it is known
		r := ask(a, &Request{Kind: Propose, Key: k, Option: o})
		if r.Verdict != Rejected || r.Blocker == nil || r.Blocker.Name != first.Name || len(r.Blocker.Keys) != 2 || r.Blocker.Anchor == nil || r.Blocker.Value != nil {
			t.Errorf("%d: %v, %+v", o.At.Wall, r.Verdict, r.Blocker)
		}
	}
	ask(a, &Request{Kind: End, Key: k, Option: first, Committed: true})
	// Now it is the version that is another one.
	third := physical(13)
	if r := ask(a, &Request{Kind: Propose, Key: k, Option: third}); r.Verdict != Rejected || r.Blocker != nil {
		t.Errorf("%v, %+v", r.Verdict, r.Blocker)
	}
}

// TestRemembers: an acceptor knows how a transaction has ended for as long as somebody may ask, and no longer (fastpaxos.FP6).
func TestRemembers(t *testing.T) {
	k := keys.Key("a")
	a := NewAcceptor(QuorumsOf(3), plain{}, nil, 0)
	a.Load(k, old())
	one, two := physical(10), physical(11)
	one.Keys, two.Keys = []keys.Key{k}, []keys.Key{k, keys.Key("b")}
	end := func(o Option) { ask(a, &Request{Kind: End, Key: k, Option: o}) }
	end(one)
	end(two)
	later := physical(int64(Remembered) / 2)
	end(later)
	outcomes := func() string {
		r := a.records[string(k)]
		return fmt.Sprint(r.Outcome(one.Name), r.Outcome(two.Name), r.Outcome(later.Name))
	}
	if got := outcomes(); got != "rejected rejected rejected" {
		t.Errorf("at once: %s", got)
	}
	end(physical(int64(Remembered) + 12))
	if got := outcomes(); got != "past rejected rejected" {
		t.Errorf("after a minute: %s", got)
	}
	// All options of the second one have ended.
	two.Keys = nil
	end(two)
	end(physical(int64(Remembered) + 13))
	if got := outcomes(); got != "past past rejected" {
		t.Errorf("after all have heard: %s", got)
	}
	if r := ask(a, &Request{Kind: Propose, Key: k, Option: two}); r.Outcome != Past || r.Verdict != Undecided {
		t.Errorf("a late copy: %+v", r)
	}
}

// TestRemembersFew: a record that many transactions write does not grow with them.
func TestRemembersFew(t *testing.T) {
	k := keys.Key("a")
	a := NewAcceptor(QuorumsOf(3), plain{}, nil, 0)
	a.Load(k, old())
	for i := range int64(1000) {
		o := physical(1 + (i+1)*int64(time.Second))
		o.Keys, o.Seen = []keys.Key{k}, a.records[string(k)].Seen()
		if r := ask(a, &Request{Kind: Propose, Key: k, Option: o}); r.Verdict != Accepted {
			t.Fatalf("%d: %+v", i, r)
		}
		ask(a, &Request{Kind: End, Key: k, Option: o, Committed: true})
	}
	if n := len(a.records[string(k)].Recent); n > 62 {
		t.Errorf("%d transactions are remembered", n)
	}
}

// TestQuorums: any two quorums have a replica in common, and any two fast ones with any classic one, also while two configurations are joint.
func TestQuorums(t *testing.T) {
	configuration := func(types ...kv.ReplicaType) *kv.RangeDescriptor {
		d := &kv.RangeDescriptor{}
		for i, typ := range types {
			d.Replicas = append(d.Replicas, kv.ReplicaDescriptor{Replica: kv.ReplicaID(i + 1), Type: typ})
		}
		return d
	}
	V, I, O, D := kv.Voter, kv.VoterIncoming, kv.VoterOutgoing, kv.VoterDemoting
	for _, c := range []struct {
		d    *kv.RangeDescriptor
		want Quorums
	}{
		{configuration(V, V, V), Quorums{3, 2, 3, 2}},
		{configuration(V, V, V, V, V, kv.NonVoter, kv.Learner), Quorums{5, 3, 4, 3}},
		{configuration(V, V, V, V, V, V, V), Quorums{7, 4, 6, 4}},
		{configuration(V, V, O, I), Quorums{4, 3, 4, 2}},
		{configuration(V, V, V, V, D, I), Quorums{6, 4, 5, 3}},
		{configuration(V, V, V, I, I), Quorums{5, 4, 5, 3}},
	} {
		if q := QuorumsIn(c.d); q != c.want {
			t.Errorf("%v: %+v, want %+v", c.d.Replicas, q, c.want)
		}
	}
	// All configurations, and changes of one into another, with up to seven voters of which at least one stays.
	for both := 1; both <= 7; both++ {
		for out := range 8 - both {
			for in := range 8 - both {
				if both+max(out, in) < 3 || both+out+in > 10 {
					continue
				}
				types := slices.Repeat([]kv.ReplicaType{V}, both)
				types = append(types, slices.Repeat([]kv.ReplicaType{O}, out)...)
				checkQuorums(t, configuration(append(types, slices.Repeat([]kv.ReplicaType{I}, in)...)...))
			}
		}
	}
	checkQuorums(t, configuration(V, V, V, V, D, I, kv.NonVoter, kv.Learner))
}

// checkQuorums compares the sizes of quorums with what the range takes for one, a majority of each half of a configuration that is being changed.
func checkQuorums(t *testing.T, d *kv.RangeDescriptor) {
	q := QuorumsIn(d)
	if 2*q.Classic <= q.Replicas || 2*q.Fast+q.Classic <= 2*q.Replicas {
		t.Errorf("%v: %+v", d.Replicas, q)
	}
	// By their sizes, and by what the range takes for a quorum.
	n := len(d.Replicas)
	for set := range 1 << n {
		size, least := 0, 0
		quorum := d.Quorum(func(r *kv.ReplicaDescriptor) bool { return set>>(r.Replica-1)&1 == 1 })
		for i := range n {
			if set>>i&1 == 1 && d.Replicas[i].Type.Votes() {
				size++
			}
		}
		if least = size; quorum && least < q.Least {
			t.Errorf("%v: a seal by %d", d.Replicas, size)
		}
		if size >= q.Classic && !quorum {
			t.Errorf("%v: %d are no quorum", d.Replicas, size)
		}
		// Two fast quorums leave at most so many of them out each.
		if quorum && size <= 2*(q.Replicas-q.Fast) {
			t.Errorf("%v: two fast quorums have none in common with %b", d.Replicas, set)
		}
	}
}

// String has the effects of a core compared by what they say.
func (r *Record) String() string { return show(r) }

func (o *Option) String() string { return fmt.Sprintf("option %d of %v", o.At.Wall, o.Keys) }
