package core

import (
	"fmt"
	"slices"
	"testing"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// TestTermPromise: an acceptor promises a term for all records, also those that it does not know, and remembers it after a restart (fastpaxos.FP90).
func TestTermPromise(t *testing.T) {
	k, other, opened := keys.Key("k"), keys.Key("l"), keys.Key("o")
	term, later := Ballot{Round: 2, Master: 7}, Ballot{Round: 3, Master: 1}
	a := NewAcceptor(QuorumsOf(3), plain{}, nil, 0)
	a.generation = 4
	delta := deltaMap{}
	step := func(q *Request) *Reply {
		t.Helper()
		q.Generation, q.Beside = 4, &Beside{}
		if !a.Knows(q.Key) {
			a.Load(q.Key, old())
		}
		a.Step(clock.Timestamp{}, Message{Request: q})
		fx := a.Effects()
		for i := range fx.Persist {
			fx.Persist[i].Store(delta)
		}
		if (q.Kind == Reign || q.Kind == Prepare || q.Kind == Dictate) && len(fx.Persist) > 0 && fx.Ticket == 0 {
			t.Errorf("%v is not synced", q.Kind)
		}
		if fx.Ticket != 0 {
			a.Durable(fx.Ticket)
		}
		return append(append(fx.Send, fx.After...), a.Effects().Send...)[0].Reply
	}
	check := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	// One record has been opened in a later ballot.
	state := with(old(), func(r *Record) { r.Promised = Ballot{Round: 5, Master: 3, Fast: true} })
	step(&Request{Kind: Dictate, Key: opened, Ballot: state.Promised, Sequence: 1, State: state})
	r := step(&Request{Kind: Reign, Key: k, Ballot: term})
	if r.Reigned == nil || r.Promised != term || !slices.Equal(r.Reigned.Apart, []uint64{NameOf(opened)}) || r.Reigned.Earlier {
		t.Fatalf("%+v, %+v", r, r.Reigned)
	}
	for range 2 {
		r = step(&Request{Kind: Propose, Key: other, Option: physical(10)})
		check("a proposal", fmt.Sprint(r.Verdict, r.Promised, r.Term), fmt.Sprint(Undecided, term, true))
		r = step(&Request{Kind: Propose, Key: opened, Option: physical(10)})
		check("a proposal to a record in a later ballot", fmt.Sprint(r.Verdict, r.Promised, r.Term), fmt.Sprint(Accepted, state.Promised, false))
		r = step(&Request{Kind: Prepare, Key: other, Ballot: Ballot{Round: 1, Master: 9}})
		check("an earlier ballot", r.Promised, term)
		r = step(&Request{Kind: Dictate, Key: other, Ballot: Ballot{Round: 1, Master: 9}, Sequence: 1, State: old()})
		check("a state of an earlier ballot", fmt.Sprint(r.Ballot, r.Record != nil), fmt.Sprint(Ballot{}, true))
		r = step(&Request{Kind: Reign, Key: k, Ballot: Ballot{Round: 1, Master: 9}})
		check("an earlier term", fmt.Sprint(r.Reigned, r.Promised), fmt.Sprint((*Reigned)(nil), term))
		r = step(&Request{Kind: Reign, Key: k, Ballot: term})
		check("the same again", fmt.Sprint(r.Reigned.Earlier, r.Promised), fmt.Sprint(false, term))
		// A restart.
		b := NewAcceptor(QuorumsOf(3), plain{}, nil, 0)
		b.generation = 4
		stored, err := RestoreDelta(delta.all())
		if err != nil {
			t.Fatal(err)
		}
		b.Restore(stored)
		a = b
	}
	for k, r := range a.records {
		if r.Promised == term {
			t.Errorf("%s has the term's ballot", k)
		}
	}
	r = step(&Request{Kind: Prepare, Key: k, Ballot: later})
	check("a later ballot", fmt.Sprint(r.Promised, r.Term), fmt.Sprint(later, false))
	r = step(&Request{Kind: Dictate, Key: other, Ballot: term, Sequence: 1, State: with(old(), func(r *Record) { r.Promised, r.Accepted = term, term })})
	check("a state of the term", fmt.Sprint(r.Ballot, r.Sequence), fmt.Sprint(term, 1))
	r = step(&Request{Kind: Reign, Key: k, Ballot: later})
	want := []uint64{NameOf(k), NameOf(other), NameOf(opened)}
	slices.Sort(want)
	check("a later term", fmt.Sprint(r.Reigned.Earlier, r.Promised, r.Reigned.Apart), fmt.Sprint(true, later, want))
	r = step(&Request{Kind: Dictate, Key: other, Ballot: term, Sequence: 2, State: old()})
	check("the first term's master", fmt.Sprint(r.Promised, r.Term, r.Sequence), fmt.Sprint(later, true, 1))
	a.Step(clock.Timestamp{}, Message{Request: &Request{Kind: Reign, Key: k, Ballot: Ballot{Round: 9}, Generation: 3, Beside: &Beside{}}})
	if fx := a.Effects(); a.term != later || len(fx.Persist) > 0 || fx.Send[0].Reply.Reigned != nil {
		t.Error("a term of another generation counts")
	}
}

// TestApart: an acceptor names each record of which a master has to know more than its base has (fastpaxos.FP91).
func TestApart(t *testing.T) {
	k := keys.Key("k")
	o := physical(10)
	o.Keys = []keys.Key{k, keys.Key("m")}
	at := clock.Timestamp{Wall: 10}
	load := func(a *Acceptor) { a.Load(k, numbered()) }
	for _, c := range []struct {
		name  string
		make  func(*Acceptor)
		apart bool
	}{
		{"it is not known", func(*Acceptor) {}, false},
		{"it was asked for", func(a *Acceptor) { load(a); ask(a, &Request{Kind: Query, Key: k}) }, false},
		{"a vote", func(a *Acceptor) { load(a); ask(a, &Request{Kind: Propose, Key: k, Option: o}) }, true},
		{"a rejection", func(a *Acceptor) {
			load(a)
			x := o
			x.Seen.Base = wall(7)
			ask(a, &Request{Kind: Propose, Key: k, Option: x})
		}, true},
		{"a version that the base lacks", func(a *Acceptor) { load(a); a.records["k"].Base.At = at }, true},
		{"an update", func(a *Acceptor) {
			load(a)
			a.records["k"].Added = []Addition{{Option: less(10, 1)}}
		}, true},
		{"an outcome", func(a *Acceptor) { load(a); ask(a, &Request{Kind: End, Key: k, Option: o}) }, true},
		{"a floor", func(a *Acceptor) { load(a); a.records["k"].Floor = at }, true},
		{"the floor of all", func(a *Acceptor) { a.floor = at; load(a) }, false},
		{"a ballot", func(a *Acceptor) {
			load(a)
			ask(a, &Request{Kind: Prepare, Key: k, Ballot: Ballot{Round: 1, Master: 1}})
		}, true},
		{"a protocol key next to the row", func(a *Acceptor) {
			a.Load(k, with(numbered(), func(r *Record) { r.Recent = []Ended{{Name: o.Name}} }))
			a.records["k"].Recent = nil
		}, true},
		{"what the delta had before a restart", func(a *Acceptor) {
			a.Restore([]Write{{Key: k, Record: with(&Record{}, votes(Accepted, o))}})
		}, true},
	} {
		a := NewAcceptor(QuorumsOf(3), plain{}, nil, 0)
		c.make(a)
		r := ask2(a, &Request{Kind: Reign, Key: keys.Key("j"), Ballot: Ballot{Round: 9, Master: 2}, Beside: &Beside{}})
		if got := slices.Contains(r.Reigned.Apart, NameOf(k)); got != c.apart {
			t.Errorf("%s: apart: %v", c.name, got)
		}
		if r.Reigned.Floor != a.floor {
			t.Errorf("%s: the floor is %s", c.name, r.Reigned.Floor)
		}
	}
	a := NewAcceptor(QuorumsOf(3), plain{}, nil, 0)
	many := &Beside{}
	for i := range ApartMost + 1 {
		many.Apart = append(many.Apart, uint64(i))
	}
	if r := ask2(a, &Request{Kind: Reign, Key: k, Ballot: Ballot{Round: 9, Master: 2}, Beside: many}); !r.Reigned.Many || !a.term.Default() || !a.Crowded() {
		t.Errorf("too many: %+v; term %v, %d bytes", r.Reigned, a.term, a.Size())
	}
}

// ask2 loads the record before.
func ask2(a *Acceptor, q *Request) *Reply {
	if !a.Knows(q.Key) {
		a.Load(q.Key, numbered())
	}
	a.Step(clock.Timestamp{}, Message{Request: q})
	fx := a.Effects()
	if fx.Ticket != 0 {
		a.Durable(fx.Ticket)
	}
	return append(append(fx.Send, fx.After...), a.Effects().Send...)[0].Reply
}

// TestMasterOfTerm: a master begins once in a term, its states are in one sequence, and it goes on when it is needed again (fastpaxos.FP93).
func TestMasterOfTerm(t *testing.T) {
	k := keys.Key("k")
	r := NewReigning(Place{1, 4}, keys.Span{Start: keys.Key("a"), End: keys.Key("z")}, Ballot{Round: 1, Master: 5}, QuorumsOf(3))
	for i := range kv.ReplicaID(2) {
		if r.Answer(i+1, &Reply{Promised: r.Term.Ballot, Reigned: &Reigned{Applied: 10 + uint64(i), Floor: wall(int64(i)), Mark: wall(7 - int64(i))}}) != (i == 1) {
			t.Fatal("answers are counted otherwise")
		}
	}
	tm := r.Term
	if tm.Applied != 11 || tm.Floor != wall(1) || tm.mark != wall(7) || !tm.Alone {
		t.Errorf("%+v", tm)
	}
	if !tm.Take(k) || tm.Take(k) || tm.Covers(k) {
		t.Error("a record is taken twice, or not")
	}
	m := tm.Master(k, Value{At: wall(1), Data: []byte("3")}, plain{}, 100)
	if m.Request() != nil {
		t.Error("it asks, and nothing is wanted")
	}
	if m.State.Floor != tm.Floor || m.State.Mark.At != tm.mark || m.ballot != tm.Ballot || m.Generation != 4 {
		t.Errorf("it begins with %+v", m.State)
	}
	answer := func(m *Master) {
		q := m.Request()
		for i := range kv.ReplicaID(2) {
			m.Answer(i+1, q, &Reply{Promised: q.Ballot, Ballot: q.Ballot, Sequence: q.Sequence})
		}
	}
	want := func(m *Master, n int64, sequence uint64, v Verdict) {
		t.Helper()
		o := physical(n)
		o.Seen = m.State.Seen()
		m.Want(o, false)
		if q := m.Request(); q.Kind != Dictate || q.Sequence != sequence || q.Ballot != tm.Ballot || q.Generation != 4 {
			t.Errorf("it asks %v %v.%d", q.Kind, q.Ballot, q.Sequence)
		}
		if n := len(tm.Opened(&Look{Span: tm.Span})); n != 1 {
			t.Errorf("%d states are open", n)
		}
		answer(m)
		if l := m.Learned(); len(l) != 1 || l[0].Verdict != v {
			t.Errorf("%+v", l)
		}
		if n := len(tm.Opened(&Look{Span: tm.Span})); n != 0 {
			t.Errorf("%d states are open", n)
		}
	}
	want(m, 6, 1, Rejected) // a reader has been promised that
	want(m, 10, 2, Accepted)
	tm.GiveBack(m)
	if !tm.Covers(k) || tm.GoesOn(k) != m || tm.Covers(k) || tm.GoesOn(k) != nil {
		t.Error("the master is not kept, or twice")
	}
	known := m.State.Clone()
	known.End(&Option{Name: at(10), Update: Update{Value: []byte("10")}}, true)
	m.Refresh(known, false)
	tm.Marks.Add(&Look{At: wall(20)}, tm.Span)
	want(m, 15, 3, Rejected)
	want(m, 25, 4, Accepted)
	// A later term.
	m.Answer(3, &Request{Kind: Dictate, Ballot: tm.Ballot, Sequence: 1}, &Reply{Promised: Ballot{Round: 2}, Term: true})
	if !tm.Over.Load() || tm.Covers(keys.Key("l")) || tm.Take(keys.Key("l")) {
		t.Error("it goes on with a term that another gateway has replaced")
	}
	tm.GiveBack(m)
	if tm.GoesOn(k) != nil {
		t.Error("a master is kept that has lost its term")
	}
}

// all gives the entries in order.
func (d deltaMap) all() func(func(name, value []byte) bool) {
	return func(yield func(name, value []byte) bool) {
		var names []string
		for n := range d {
			names = append(names, n)
		}
		slices.Sort(names)
		for _, n := range names {
			if !yield([]byte(n), []byte(d[n])) {
				return
			}
		}
	}
}

// TestLookOfTerm: an acceptor says that it has promised a term, unless the term's master, or that of a later one, has made the reader's promise in the same generation.
func TestLookOfTerm(t *testing.T) {
	a := NewAcceptor(QuorumsOf(3), plain{}, nil, 0)
	a.term = Ballot{Round: 2, Master: 1}
	span := keys.Span{Start: keys.Key("a"), End: keys.Key("z")}
	for _, c := range []struct {
		round, generation uint64
		termed            bool
	}{{0, 4, true}, {1, 4, true}, {2, 4, false}, {3, 4, false}, {3, 3, true}} {
		q := &Request{Kind: Read, Key: span.Start, Generation: c.generation, Look: &Look{Span: span, At: wall(9)}}
		if c.round > 0 {
			q.Look.Term = Ballot{Round: c.round, Master: 1}
		}
		l, err := a.LookBack(&oneRow{}, q.LookIn(4), span)
		if err != nil || (l.Term == a.term) != c.termed {
			t.Errorf("%+v: %+v, %v", c, l, err)
		}
	}
}
