package core

import (
	"testing"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// TestVersionInBaseIsAnOutcome: a replica that was not told of an outcome, and finds the option's version in its base, knows the outcome by that. A recovery by such a replica and another one
// that was not told would decide against an option that has committed, and the transaction's other options would be rejected. TestExhausted has found it.
func TestVersionInBaseIsAnOutcome(t *testing.T) {
	q := QuorumsOf(3)
	k := keys.Key("k")
	o := physical(10)
	o.Keys = []keys.Key{k, keys.Key("m")}
	var all []*Acceptor
	ask := func(i int, r *Request) *Reply {
		all[i].Step(clock.Timestamp{}, Message{Request: r})
		fx := all[i].Effects()
		all[i].Durable(fx.Ticket)
		for _, m := range append(append(fx.Send, fx.After...), all[i].Effects().Send...) {
			return m.Reply
		}
		t.Fatal("no reply")
		return nil
	}
	for i := range 3 {
		a := NewAcceptor(q, plain{}, nil, 0)
		a.Load(k, &Record{Base: Value{At: clock.Timestamp{Wall: 1}, Data: []byte("3")}})
		all = append(all, a)
		if r := ask(i, &Request{Kind: Propose, Key: k, Option: o}); r.Verdict != Accepted {
			t.Fatalf("replica %d: %v", i, r.Verdict)
		}
	}
	// The gateway has told the first replica, and is gone. The version gets into the base, and to the second replica.
	ask(0, &Request{Kind: End, Key: k, Option: o, Committed: true})
	all[1].records[string(k)].Learn(&Record{Base: all[0].records[string(k)].Base})
	m := NewMaster(k, 1, q, plain{}, 0)
	m.Want(Option{Name: o.Name, Keys: o.Keys}, true)
	for range 2 {
		r := m.Request()
		for _, i := range []int{1, 2} {
			m.Answer(kv.ReplicaID(i+1), r, ask(i, r))
		}
	}
	if ls := m.Learned(); len(ls) != 1 || ls[0].Name != o.Name || ls[0].Verdict != Accepted {
		t.Errorf("the master says %+v", ls)
	}
}
