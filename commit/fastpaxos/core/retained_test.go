package core

import (
	"fmt"
	"testing"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// oneRow is the base of a range with one row.
type oneRow struct {
	begun    *Record // with which the generation has begun, nil if it is just a row
	versions []Value
}

func (s *oneRow) Record(keys.Key) (*Record, error) {
	if s.begun == nil {
		return nil, nil
	}
	r := s.begun.Clone()
	r.Learn(&Record{Base: s.versions[len(s.versions)-1]})
	return r, nil
}

func (s *oneRow) First(keys.Key) (*Record, error) { return s.begun, nil }

func (s *oneRow) At(keys.Key, clock.Timestamp) (v Value, ok bool, err error) { return v, false, nil }

func (s *oneRow) Seen(_ keys.Key, t clock.Timestamp) (v Value, err error) {
	for _, one := range s.versions {
		if one.At.LessEq(t) {
			v = one
		}
	}
	return v, nil
}

func (s *oneRow) Scan(span keys.Span, q *Look) (rows []kv.KeyValue, _ *keys.Span, err error) {
	if v, _ := s.Seen(nil, q.At); v.Data != nil && span.Contains(keys.Key("k")) {
		rows = append(rows, kv.KeyValue{Key: keys.Key("k"), Value: v.Data, Timestamp: v.At})
	}
	return rows, nil, nil
}

func (s *oneRow) Apart(span keys.Span) (map[string]*Record, error) {
	r, _ := s.Record(nil)
	if r == nil || !span.Contains(keys.Key("k")) {
		return nil, nil
	}
	return map[string]*Record{"k": r}, nil
}

// TestRetained: what a replica answers at a timestamp of an earlier generation, by what it knew then, and by what the base has.
func TestRetained(t *testing.T) {
	at := func(n int64) clock.Timestamp { return clock.Timestamp{Wall: n * int64(time.Second)} }
	k := keys.Key("k")
	option := func(n, seen int64) Option {
		return Option{Name: Name{Txn: kv.TxnID{byte(n)}, At: at(n)}, Update: Update{Seen: Seen{Base: at(seen)}, Value: []byte(fmt.Sprint(n))}, Keys: []keys.Key{k}}
	}
	value := func(n int64) Value { return Value{At: at(n), Data: []byte(fmt.Sprint(n))} }
	voters := func(n int, generation uint64) *kv.RangeDescriptor {
		d := &kv.RangeDescriptor{ID: 7, Start: keys.Key("a"), End: keys.Key("z"), Generation: generation, Protocol: kv.FastPaxos}
		for r := range n {
			d.Replicas = append(d.Replicas, kv.ReplicaDescriptor{Node: kv.NodeID(r + 1), Replica: kv.ReplicaID(r + 1), Type: kv.Voter})
		}
		return d
	}
	step := func(a *Acceptor, kind Kind, o Option) {
		a.Step(clock.Timestamp{}, Message{Request: &Request{Kind: kind, Key: k, Option: o, Committed: true}})
		a.Durable(a.Effects().Ticket)
		a.Effects()
	}
	read := func(a *Acceptor, src Source, n int64, scan bool) string {
		q := &Look{Keys: []keys.Key{k}, At: at(n), Limit: at(n + 1000), By: kv.TxnID{9, 9}}
		if scan {
			q.Keys, q.Span = nil, keys.Span{Start: keys.Key("a"), End: keys.Key("z")}
		}
		l, err := a.LookBack(src, q, keys.Span{Start: keys.Key("a"), End: keys.Key("z")})
		switch {
		case err != nil:
			t.Fatal(err)
		case l.Old:
			return "too old"
		case !l.Settled:
			return "not settled"
		case len(l.Past) == 0:
			return "nothing"
		case l.Past[0].Old:
			return "old"
		}
		out := string(l.Past[0].Record.Base.Data)
		for _, v := range l.Past[0].Record.Votes {
			out += " and perhaps " + string(v.Value)
		}
		if !l.Newer.IsZero() {
			out += fmt.Sprint(", then ", l.Newer.Wall/int64(time.Second))
		}
		return out
	}
	me := kv.ReplicaDescriptor{Node: 1, Replica: 1, Type: kv.Voter}
	for _, c := range []struct {
		name string
		// acts is what the replica does in the generation before, of which at 10 is the version that the base has.
		acts func(*Acceptor)
		src  *oneRow
		// want are the answers by times; the floor is at 50.
		want map[int64]string
	}{
		{"it knows all", func(a *Acceptor) {
			for n := int64(20); n <= 40; n += 10 {
				step(a, Propose, option(n, n-10))
				step(a, End, option(n, n-10))
			}
		}, &oneRow{versions: []Value{value(10), value(40)}}, map[int64]string{5: "nothing", 15: "10, then 40", 25: "20, then 40", 35: "30, then 40", 45: "40"}},
		{"it has heard of nothing", func(*Acceptor) {}, &oneRow{versions: []Value{value(10), value(20), value(40)}}, map[int64]string{15: "10", 25: "20", 35: "20", 45: "40"}},
		{"it lacks an outcome, which came after another one", func(a *Acceptor) {
			step(a, Propose, option(20, 10))
			step(a, End, option(40, 30))
		}, &oneRow{versions: []Value{value(10), value(40)}}, map[int64]string{15: "old", 25: "old", 45: "40"}},
		{"it lacks an outcome when the generation ends", func(a *Acceptor) { step(a, Propose, option(20, 10)) }, &oneRow{versions: []Value{value(10), value(40)}}, map[int64]string{15: "10, then 20", 25: "old", 45: "40"}},
		{"the generation begins with an option", func(a *Acceptor) { step(a, Propose, option(20, 10)) },
			&oneRow{begun: &Record{Base: value(10), Votes: []Vote{{Option: option(20, 10), Verdict: Accepted}}}, versions: []Value{value(10)}}, map[int64]string{15: "10, then 20", 25: "10 and perhaps 20"}},
		{"the generation begins with an option, and the base has gone on", func(a *Acceptor) { step(a, Propose, option(20, 10)) },
			&oneRow{begun: &Record{Base: value(10), Votes: []Vote{{Option: option(20, 10), Verdict: Accepted}}}, versions: []Value{value(10), value(60)}}, map[int64]string{15: "10, then 60", 25: "10 and perhaps 20, then 60"}},
	} {
		for _, scan := range []bool{false, true} {
			ends := &Generations{}
			a := NewAcceptor(QuorumsOf(3), plain{}, nil, 0)
			a.Load(k, &Record{Base: value(10)})
			c.acts(a)
			ends.Keep(voters(3, 4), 0, 4, a)
			b := NewAcceptor(QuorumsOf(3), plain{}, nil, 0)
			b.floor, b.settled, b.from = at(50), at(50), at(50)
			ends.Resume(voters(3, 5), me, 5, b)
			for n, want := range c.want {
				if got := read(b, c.src, n, scan); got != want {
					t.Errorf("%s: at %d, scan %v: %q, want %q", c.name, n, scan, got, want)
				}
			}
			if got := read(b, c.src, 55, scan); got != "not settled" && got != "too old" {
				t.Errorf("%s: after the floor: %q", c.name, got)
			}
		}
	}
	for _, c := range []struct {
		name       string
		voters     int
		generation uint64
		self       kv.ReplicaType
		want       string
	}{
		{"the next one", 3, 5, kv.Voter, "10, then 20"},
		{"a generation is missing", 3, 6, kv.Voter, "too old"},
		{"the replica has no vote", 3, 5, kv.NonVoter, "too old"},
		{"more voters", 5, 5, kv.Voter, "10, then 20"},
		{"fewer voters: one could answer for three", 1, 5, kv.Voter, "too old"},
	} {
		ends := &Generations{}
		a := NewAcceptor(QuorumsOf(3), plain{}, nil, 0)
		a.Load(k, &Record{Base: value(10)})
		step(a, Propose, option(20, 10))
		step(a, End, option(20, 10))
		ends.Keep(voters(3, 4), 0, 4, a)
		for again, want := range []string{c.want, "too old"} { // the second acceptor of a generation has lost what the first one knew
			b := NewAcceptor(QuorumsOf(c.voters), plain{}, nil, 0)
			b.floor, b.settled, b.from = at(50), at(50), at(50)
			self := me
			self.Type = c.self
			ends.Resume(voters(c.voters, c.generation), self, c.generation, b)
			if got := read(b, &oneRow{versions: []Value{value(10), value(20)}}, 15, false); got != want {
				t.Errorf("%s, acceptor %d: %q, want %q", c.name, again, got, want)
			}
		}
	}
}
