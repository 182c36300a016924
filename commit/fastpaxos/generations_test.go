package fastpaxos

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

// TestReadersOverGenerations: while generations of a range end every few seconds, and it is split, transactions that read at one timestamp read the same again and again, next to those of TestSerializableAtRandom.
func TestReadersOverGenerations(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() {
		seeds = 2
	}
	reads, forgotten, over := 0, 0, 0
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				histories(t, 4*seed, func(w *lab, gs []*gateway) {
					end := time.Now().Add(38 * time.Second)
					dice := rand.New(rand.NewPCG(seed, 5))
					go func() {
						for time.Now().Before(end) {
							time.Sleep(time.Duration(1000+dice.IntN(3000)) * time.Millisecond)
							w.change(dice.IntN(3) == 0)
						}
					}()
					for i := range gs {
						mine := rand.New(rand.NewPCG(seed, uint64(100+i)))
						go func() {
							for time.Now().Before(end) {
								n, f, o := w.readAgain(t, gs[i], mine, end)
								w.mu.Lock()
								reads, forgotten, over = reads+n, forgotten+f, over+o
								w.mu.Unlock()
							}
						}()
					}
				})
			})
		})
	}
	t.Logf("%d reads, %d of them after another generation had begun; %d found that too few replicas know", reads, over, forgotten)
	if over < 20*int(seeds) || forgotten > over/50 {
		t.Errorf("%d of %d reads after another generation had begun found that too few replicas know", forgotten, over)
	}
}

// readAgain is a transaction that reads the same for up to ten seconds.
func (w *lab) readAgain(t *testing.T, g *gateway, dice *rand.Rand, end time.Time) (reads, forgotten, over int) {
	generations := func() (out []uint64) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, d := range w.descs {
			out = append(out, d.Generation)
		}
		return out
	}
	x, tx := g.at(kv.RepeatableRead)
	var ks []keys.Key
	for k := range 6 {
		ks = append(ks, keys.Key(fmt.Sprint("k", k)))
	}
	var first [][]byte
	began := generations()
	for last := time.Now().Add(10 * time.Second); time.Now().Before(last) && time.Now().Before(end); time.Sleep(time.Duration(dice.IntN(700)) * time.Millisecond) {
		var vs [][]byte
		var err error
		if dice.IntN(2) == 0 {
			vs, err = x.Get(t.Context(), tx, ks, txn.ReadOptions{})
		} else {
			vs = make([][]byte, len(ks))
			for left := (&keys.Span{Start: keys.Key("a"), End: keys.Key("z")}); left != nil && err == nil; {
				var rows []kv.KeyValue
				rows, left, err = x.Scan(t.Context(), tx, txn.ScanOptions{Span: *left})
				for _, r := range rows {
					if i := slices.IndexFunc(ks, r.Key.Equal); i >= 0 {
						vs[i] = r.Value
					}
				}
			}
		}
		var uncertain *kv.UncertaintyError
		var read *txn.ReadError
		var retry *kv.TxnRetryError
		reads++
		now := generations()
		if !slices.Equal(now, began) {
			over++
		}
		switch {
		case errors.As(err, &uncertain) && first == nil:
			tx.ReadTimestamp, tx.WriteTimestamp = uncertain.RetryAt, uncertain.RetryAt
			continue
		case errors.As(err, &read) && errors.As(read.Cause, &retry):
			forgotten++
			return reads, forgotten, over
		case err != nil:
			if g.ctx.Err() == nil && t.Context().Err() == nil {
				t.Errorf("read %d: %v", reads, err)
			}
			return reads, forgotten, over
		}
		if first == nil {
			first = vs
		}
		for i := range ks {
			if string(vs[i]) != string(first[i]) {
				t.Errorf("%s was %q, and is %q; %v at first, %v now", ks[i], first[i], vs[i], began, now)
			}
		}
	}
	return reads, forgotten, over
}

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
	r.learn(&Record{Base: s.versions[len(s.versions)-1]})
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

// TestRetainedNeedsAQuorum: a row that was replaced twice while the replicas next to a reader were away is read as it was in between, in the next generation.
func TestRetainedNeedsAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLab(1)
		near, far := w.gateway(1, 1), w.gateway(1, 4)
		add := func(word string) {
			t.Helper()
			if err := far.add(t.Context(), word, "k"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		add("1")
		w.lose(1, true)
		w.lose(2, true)
		add("2")
		x, tx := near.at(kv.RepeatableRead)
		time.Sleep(time.Second)
		add("3")
		w.change(false)
		time.Sleep(time.Second)
		w.lose(1, false)
		w.lose(2, false)
		w.mu.Lock()
		for r, a := range w.acceptors(w.desc(keys.Key("k"))) {
			l, err := a.LookBack(&labSource{w, a, w.desc(keys.Key("k")), r}, &Look{Keys: []keys.Key{keys.Key("k")}, At: tx.ReadTimestamp}, w.desc(keys.Key("k")).Span())
			if err != nil || len(l.Past) != 1 {
				t.Fatalf("replica %d: %v, %v", r, l, err)
			}
			if want := map[bool]string{true: " 1", false: " 1 2"}[r <= 2]; string(l.Past[0].Record.Base.Data) != want || !l.Settled {
				t.Errorf("replica %d answers %q, want %q", r, l.Past[0].Record.Base.Data, want)
			}
		}
		w.mu.Unlock()
		vs, err := x.Get(t.Context(), tx, []keys.Key{keys.Key("k")}, txn.ReadOptions{})
		if err != nil || string(vs[0]) != " 1 2" {
			t.Errorf("read %q, %v", vs, err)
		}
		stop(near, far)
	})
}
