package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// TestEras: a replica tells what a row was at a time for as long as it knows all that it has accepted up to then.
func TestEras(t *testing.T) {
	at := func(n int64) clock.Timestamp { return clock.Timestamp{Wall: n * int64(time.Second)} }
	k := keys.Key("k")
	name := func(n int64) Name { return Name{Txn: kv.TxnID{byte(n)}, At: at(n)} }
	option := func(n, seen int64) Option {
		o := Option{Name: name(n), Update: Update{Value: []byte(fmt.Sprint(n))}, Keys: []keys.Key{k}}
		if seen > 0 {
			o.Seen.Base = at(seen)
		}
		return o
	}
	begin := func() *Acceptor {
		a := NewAcceptor(QuorumsOf(5), plain{}, nil, 0)
		a.Load(k, &Record{})
		return a
	}
	step := func(a *Acceptor, q Request) *Reply {
		q.Key = k
		a.Step(clock.Timestamp{}, Message{Request: &q})
		fx := a.Effects()
		a.Durable(fx.Ticket)
		all := append(append(fx.Send, fx.After...), a.Effects().Send...)
		return all[0].Reply
	}
	read := func(a *Acceptor, n int64) string {
		l, err := a.LookBack(&oneRow{}, &Look{Keys: []keys.Key{k}, At: at(n), Limit: at(n + 1000), By: kv.TxnID{9, 9}}, keys.Span{Start: k, End: k.Next()})
		if err != nil {
			t.Fatal(err)
		}
		if l.Old {
			return "too old"
		}
		if len(l.Past) == 0 {
			return "nothing"
		}
		p := &l.Past[0]
		out := string(p.Record.Base.Data)
		for _, v := range p.Record.Votes {
			out += " and perhaps " + string(v.Value)
		}
		if p.Old {
			out += " old"
		}
		return out
	}
	want := func(what, got, want string) {
		if t.Helper(); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	a := begin()
	for n := int64(10); n <= 30; n += 10 {
		step(a, Request{Kind: Propose, Option: option(n, n-10)})
		step(a, Request{Kind: End, Option: option(n, n-10), Committed: true})
	}
	want("before all", read(a, 5), "nothing")
	want("the first", read(a, 15), "10")
	want("the second, at its time", read(a, 20), "20")
	want("the last", read(a, 35), "30")
	step(a, Request{Kind: Propose, Option: option(34, 30)})
	if r := step(a, Request{Kind: Propose, Option: option(34, 30)}); r.Verdict != Rejected {
		t.Errorf("below a promise: %v", r.Verdict)
	}
	if r := step(a, Request{Kind: Propose, Option: option(35, 30)}); r.Verdict != Rejected || r.Mark != at(35) {
		t.Errorf("at a promise: %v, %v", r.Verdict, r.Mark)
	}
	mine := option(35, 30)
	mine.Txn = kv.TxnID{9, 9}
	if r := step(a, Request{Kind: Propose, Option: mine}); r.Verdict != Accepted {
		t.Errorf("the reader's own, at its promise: %v", r.Verdict)
	}
	want("the reader's own", read(a, 40), "30")

	// An option that was accepted, of which nothing was heard: whether it has committed before the version of another one is not known here.
	a = begin()
	step(a, Request{Kind: Propose, Option: option(10, 0)})
	want("an outstanding one", read(a, 15), " and perhaps 10")
	step(a, Request{Kind: End, Option: option(30, 20), Committed: true})
	if got := read(a, 25); !strings.HasSuffix(got, "old") {
		t.Errorf("a version may be missing: %q", got)
	}
	want("after it", read(a, 30), "30 and perhaps 10") // which does not matter then

	// One that was missed altogether leaves no doubt: others tell of it.
	a = begin()
	step(a, Request{Kind: End, Option: option(10, 0), Committed: true})
	step(a, Request{Kind: End, Option: option(30, 20), Committed: true})
	want("as far as is known here", read(a, 25), "10")

	// Minutes later.
	for n := int64(100); n < 110; n++ {
		step(a, Request{Kind: End, Option: option(n, n-1), Committed: true})
	}
	a.keepFrom(at(109))
	for _, r := range a.records {
		r.dropEras(a.from)
	}
	if got := read(a, 15); !strings.HasSuffix(got, "old") {
		t.Errorf("long ago: %q", got)
	}
	want("not long ago", read(a, 105), "105")
}

// TestMasterPromises: once a master's promise to a reader is learned, neither that master nor a later one, which another quorum tells of it, accepts an option at or below it; but one of the reader's.
func TestMasterPromises(t *testing.T) {
	k, reader := keys.Key("k"), kv.TxnID{5}
	var acceptors []*Acceptor
	for range 3 {
		a := NewAcceptor(QuorumsOf(3), plain{}, nil, 0)
		a.Load(k, &Record{})
		acceptors = append(acceptors, a)
	}
	drive := func(m *Master, which ...int) (out []Learned) {
		for range 10 {
			q := m.Request()
			if q == nil || len(out) > 0 {
				break
			}
			for _, i := range which {
				a := acceptors[i]
				a.Step(clock.Timestamp{}, Message{Request: q})
				fx := a.Effects()
				a.Durable(fx.Ticket)
				for _, r := range append(append(fx.Send, fx.After...), a.Effects().Send...) {
					m.Answer(kv.ReplicaID(i+1), q, r.Reply)
				}
			}
			out = append(out, m.Learned()...)
		}
		return out
	}
	option := func(id byte, at int64) Option {
		return Option{Name: Name{Txn: kv.TxnID{id}, At: clock.Timestamp{Wall: at}}, Update: Update{Value: []byte("x")}, Keys: []keys.Key{k}}
	}
	m := NewMaster(k, 1, QuorumsOf(3), plain{}, 100)
	mark := Mark{At: clock.Timestamp{Wall: 50}, By: reader}
	m.WantMark(mark.Name())
	if l := drive(m, 0, 1); len(l) != 1 || l[0].Name != mark.Name() || l[0].Verdict != Past {
		t.Fatalf("the promise: %v", l)
	}
	m.Want(option(1, 50), false)
	if l := drive(m, 0, 1); len(l) != 1 || l[0].Verdict != Rejected || l[0].Mark != mark.At {
		t.Errorf("an option at it: %+v", l)
	}
	next := NewMaster(k, 2, QuorumsOf(3), plain{}, 100)
	next.Highest = Ballot{Round: 9}
	next.Want(option(2, 49), false)
	if l := drive(next, 1, 2); len(l) != 1 || l[0].Verdict != Rejected {
		t.Errorf("an option below it, at the next master: %+v", l)
	}
	mine := option(5, 50)
	next.Want(mine, false)
	if l := drive(next, 1, 2); len(l) != 1 || l[0].Verdict != Accepted {
		t.Errorf("the reader's own: %+v", l)
	}
}
