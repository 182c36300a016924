package replica

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	shape "meridian/core"
	"meridian/encoding"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
)

// TestDelta: a replica is stopped between any two writes, and loses some of those that it did not have to sync. Its delta has then the state that it had
// after the last one that is left, and has all promises that have left it (fastpaxos.FP1, fastpaxos.FP40); meanwhile versions go into the base (fastpaxos.FP42).
func TestDelta(t *testing.T) {
	s := newStore(t)
	c := &deltaCount{}
	for seed := range uint64(300) {
		w := &deltaWorld{t: t, s: s, c: c, dice: rand.New(rand.NewPCG(seed, 5)), seed: seed, clock: now}
		prefix := fmt.Sprintf("d%05d", seed)
		s.desc.Start, s.desc.End = rowKey(prefix), rowKey(prefix+"\xff")
		for i := range 4 {
			w.keys = append(w.keys, rowKey(fmt.Sprintf("%s/%d", prefix, i)))
		}
		// The first is a number, the second has an option that has not ended next to it, the third was never there.
		for _, i := range []int{0, 1, 3} {
			if err := s.write([]replica.Row{{Key: w.keys[i], Value: []byte("500"), Timestamp: wall(1)}}); err != nil {
				t.Fatal(err)
			}
		}
		x := w.option(1, core.Seen{Base: wall(1)})
		all := reports{string(w.keys[1][len(rowKey("")):]): with(&core.Record{Base: core.Value{At: wall(1), Data: []byte("500")}}, votes(core.Accepted, x))}
		s.fold(all, all)
		w.known = append(w.known, x)
		w.a = w.restored(nil, wall(2))
		for range 150 {
			w.step()
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("%+v", *c)
	if c.crashes < 1000 || c.lost < 500 || c.kept < 1000 || c.absorbed < 500 || c.dropped < 100 || c.floors < 30 || c.terms < 300 || c.termsKept < 300 {
		t.Error("that is too few")
	}
}

type deltaCount struct{ crashes, lost, kept, absorbed, dropped, floors, terms, termsKept int }

// deltaWorld is one acceptor with its delta.
type deltaWorld struct {
	t     *testing.T
	s     *store
	c     *deltaCount
	dice  *rand.Rand
	seed  uint64
	keys  []keys.Key
	clock int64
	known []core.Option

	a       *Voter
	disk    deltaMap
	written []deltaBatch // since disk, of which the first synced ones are on it
	synced  int
	waiting []waitingReply
	given   []promise
}

type deltaMap map[string]string

func (d deltaMap) Put(name, value []byte) { d[string(name)] = string(value) }

func (d deltaMap) Delete(name []byte) { delete(d, string(name)) }

type deltaBatch struct {
	ops    []func(deltaMap)
	ticket shape.Ticket
	states map[string]*core.Record // after it
	term   [2]core.Ballot
}

// Put and Delete keep a change.
func (b *deltaBatch) Put(name, value []byte) {
	n, v := string(name), string(value)
	b.ops = append(b.ops, func(d deltaMap) { d[n] = v })
}

func (b *deltaBatch) Delete(name []byte) {
	n := string(name)
	b.ops = append(b.ops, func(d deltaMap) { delete(d, n) })
}

type waitingReply struct {
	ticket shape.Ticket
	promise
}

type promise struct {
	key      keys.Key
	name     core.Name
	verdict  core.Verdict
	ballot   core.Ballot
	promised core.Ballot
}

func (w *deltaWorld) option(i int, seen core.Seen) core.Option {
	w.clock += w.dice.Int64N(int64(3 * time.Second))
	o := core.Option{Name: core.Name{At: wall(w.clock)}, Update: core.Update{Seen: seen, Value: fmt.Append(nil, 500+w.clock%1000)}, Keys: []keys.Key{w.keys[i]}}
	o.Txn[0] = byte(len(w.known))
	if w.dice.IntN(2) == 0 && seen.Base != (clock.Timestamp{}) {
		o.Update = core.Update{Seen: seen, Deltas: []core.Delta{{Amount: w.dice.Int64N(5) - 2, Min: 0, Max: 1 << 40}}}
	}
	if w.dice.IntN(4) == 0 {
		o.Keys = append(o.Keys, rowKey("z"))
	}
	return o
}

// termsOf are the terms that an acceptor has promised, the latest first.
func termsOf(a *Voter) [2]core.Ballot {
	term, before := a.Terms()
	return [2]core.Ballot{term, before}
}

func loaded(a *Voter) (n int) {
	for range a.Records() {
		n++
	}
	return n
}

// restored is an acceptor that begins with a delta.
func (w *deltaWorld) restored(delta deltaMap, floor clock.Timestamp) *Voter {
	stored, err := core.RestoreDelta(func(yield func(name, value []byte) bool) {
		// As an iterator of the engine's, whose next entry takes the place of the one before.
		var name, value []byte
		for _, n := range slices.Sorted(maps.Keys(delta)) {
			if name, value = append(name[:0], n...), append(value[:0], delta[n]...); !yield(name, value) {
				return
			}
		}
		for i := range name {
			name[i] = 0xff
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	a := NewVoter(core.QuorumsOf(3), plain{}, 0)
	a.Begin(core.Beginning{Floor: floor, Marks: &core.Marks{}}, nil)
	a.Restore(stored)
	return a
}

func (w *deltaWorld) load(a *Voter, k keys.Key) *core.Record {
	if !a.Knows(k) {
		base, err := Base(w.s.e, k)
		if err != nil {
			w.t.Fatal(err)
		}
		a.Load(k, base)
	}
	return a.Record(k)
}

// effects carries out what the acceptor wants; q is the request that it has stepped, if it has.
func (w *deltaWorld) effects(q *core.Request) {
	fx := w.a.Effects()
	if len(fx.Persist) > 0 {
		b := deltaBatch{ticket: fx.Ticket, states: map[string]*core.Record{}, term: termsOf(w.a)}
		for i := range fx.Persist {
			fx.Persist[i].Store(&b)
			switch {
			case fx.Persist[i].Key != nil:
			case fx.Persist[i].Record.Promised.Default():
				w.c.floors++
			default:
				w.c.terms++
			}
		}
		for k, r := range w.a.Records() {
			// An outcome that was found in the base when the record was loaded is written with the record's next change, before anybody can have been promised anything by it.
			if !r.Unwritten() {
				b.states[k] = r.Clone()
			}
		}
		w.written = append(w.written, b)
	}
	give := func(m core.Message, ticket shape.Ticket) {
		p := promise{promised: m.Reply.Promised}
		if q != nil {
			p.key, p.name, p.verdict, p.ballot = q.Key, q.Option.Name, m.Reply.Verdict, m.Reply.Ballot
		}
		w.waiting = append(w.waiting, waitingReply{ticket, p})
	}
	for _, m := range fx.Send {
		if q != nil {
			give(m, 0)
		}
	}
	for _, m := range fx.After {
		give(m, fx.Ticket)
	}
	w.deliver(0)
}

func (w *deltaWorld) deliver(upTo shape.Ticket) {
	w.waiting = slices.DeleteFunc(w.waiting, func(r waitingReply) bool {
		if r.ticket <= upTo {
			w.given = append(w.given, r.promise)
			return true
		}
		return false
	})
}

func (w *deltaWorld) step() {
	i := w.dice.IntN(len(w.keys))
	k := w.keys[i]
	switch w.dice.IntN(12) {
	case 0, 1, 2, 3:
		r := w.load(w.a, k)
		o := w.option(i, r.Seen())
		if w.dice.IntN(5) == 0 && len(w.known) > 0 {
			o = w.known[w.dice.IntN(len(w.known))]
			k = o.Keys[0]
			w.load(w.a, k)
		} else {
			w.known = append(w.known, o)
		}
		w.ask(&core.Request{Kind: core.Propose, Key: k, Option: o})
	case 4, 5, 6, 7:
		if len(w.known) == 0 {
			return
		}
		o := w.known[max(0, len(w.known)-1-w.dice.IntN(6))]
		r := w.load(w.a, o.Keys[0])
		q := &core.Request{Kind: core.End, Key: o.Keys[0], Option: o}
		v := r.Vote(o.Name)
		q.Committed = v != nil && v.Verdict == core.Accepted && w.dice.IntN(4) > 0
		if w.dice.IntN(5) == 0 {
			q.Option.Keys = nil
		}
		w.ask(q)
	case 8:
		r := w.load(w.a, k)
		b := core.Ballot{Round: max(r.Promised.Round, termsOf(w.a)[0].Round) + 1, Master: 1}
		switch w.dice.IntN(8) {
		case 0, 1:
		case 2:
			w.ask(&core.Request{Kind: core.Reign, Key: k, Ballot: b, Beside: &core.Beside{}})
			return
		default:
			return
		}
		w.ask(&core.Request{Kind: core.Prepare, Key: k, Ballot: b})
		state := r.Clone()
		core.Started(state)
		for j := range state.Votes {
			if w.dice.IntN(2) == 0 {
				state.Votes[j].Verdict = core.Rejected
			}
		}
		if len(state.Votes) > 0 && w.dice.IntN(2) == 0 {
			state.Votes = state.Votes[1:]
		}
		b.Fast = true
		state.Promised, state.Accepted = b, b
		w.ask(&core.Request{Kind: core.Dictate, Key: k, Ballot: b, State: state, Sequence: 1})
	case 9:
		at := clock.Timestamp{Wall: w.clock}
		if w.dice.IntN(3) == 0 {
			w.clock += int64(time.Minute)
		}
		n := loaded(w.a)
		if err := w.a.Tend(w.s.e, at); err != nil {
			w.t.Fatal(err)
		}
		w.c.dropped += max(0, n-loaded(w.a))
		w.effects(nil)
	case 10:
		rows := w.a.Final(1 << 20)
		for _, v := range rows {
			if err := w.s.write([]replica.Row{{Key: v.Key, Value: v.Data, Timestamp: v.At}}); err != nil {
				w.t.Fatal(err)
			}
			w.c.absorbed++
			if w.dice.IntN(2) == 0 {
				w.a.Absorbed(v.Key, v.At)
			}
		}
		w.effects(nil)
	case 11:
		if w.dice.IntN(2) == 0 {
			w.crash()
			return
		}
		if len(w.written) > w.synced {
			w.synced += 1 + w.dice.IntN(len(w.written)-w.synced)
			var last shape.Ticket
			for _, b := range w.written[:w.synced] {
				last = max(last, b.ticket)
			}
			w.a.Durable(last)
			w.deliver(last)
			w.effects(nil)
		}
	}
}

func (w *deltaWorld) ask(q *core.Request) {
	w.a.Step(clock.Timestamp{}, core.Message{Request: q})
	w.effects(q)
}

// crash loses some of what was not synced.
func (w *deltaWorld) crash() {
	cut := w.synced + w.dice.IntN(len(w.written)-w.synced+1)
	w.c.crashes++
	if w.disk == nil {
		w.disk = deltaMap{}
	}
	for _, b := range w.written[:cut] {
		for _, op := range b.ops {
			op(w.disk)
		}
	}
	now := w.restored(w.disk, wall(2))
	if cut < len(w.written) {
		w.c.lost++
	}
	if cut > 0 {
		if was, is := w.written[cut-1].term, termsOf(now); is != was {
			w.t.Errorf("seed %d: the term is %v after %v, and was %v", w.seed, is[0], is[1], was)
		}
		for k, was := range w.written[cut-1].states {
			r := w.load(now, keys.Key(k))
			if got, want := w.state(r, was), w.state(was, was); got != want {
				w.t.Errorf("seed %d: %s is\n%s, and was\n%s", w.seed, keys.Key(k), got, want)
			}
			if r.Floor.Less(was.Floor) {
				w.t.Errorf("seed %d: the floor of %s is %s, and was %s", w.seed, keys.Key(k), r.Floor, was.Floor)
			}
		}
	}
	for _, p := range w.given {
		if p.key == nil {
			continue
		}
		r := w.load(now, p.key)
		v := r.Vote(p.name)
		switch {
		case r.Promised.Later(termsOf(now)[0]).Less(p.promised):
			w.t.Errorf("seed %d: %s has promised %v, and now %v", w.seed, p.key, p.promised, r.Promised.Later(termsOf(now)[0]))
		case p.promised == termsOf(now)[0] && !p.promised.Default():
			w.c.termsKept++
		case p.verdict == core.Undecided || r.Accepted != p.ballot || r.Outcome(p.name) != core.Undecided || p.name.At.LessEq(r.Base.At):
		case v == nil || v.Verdict != p.verdict:
			w.t.Errorf("seed %d: the vote about %s at %s was given, and is lost: %s", w.seed, p.name.At, p.key, show(r))
		default:
			w.c.kept++
		}
	}
	w.a, w.written, w.synced, w.waiting, w.given = now, nil, 0, nil, nil
}

// state is all of a record but its floor, with the version that the base has if that is later.
func (w *deltaWorld) state(r, was *core.Record) string {
	base, err := Base(w.s.e, keys.Key(w.keyOf(was)))
	if err != nil {
		w.t.Fatal(err)
	}
	c := r.Clone()
	c.Learn(&core.Record{Base: base.Base})
	slices.SortFunc(c.Votes, func(a, b core.Vote) int { return a.Compare(b.Name) })
	c.Floor = clock.Timestamp{}
	for i := range c.Added {
		if len(c.Added[i].Keys) == 1 { // an End without keys does not say them
			c.Added[i].Keys = nil
		}
	}
	return fmt.Sprintf("%s %x", show(c), c.Append(nil))
}

// keyOf is the key of a record that was kept.
func (w *deltaWorld) keyOf(was *core.Record) keys.Key {
	for _, b := range w.written {
		for k, r := range b.states {
			if r == was {
				return keys.Key(k)
			}
		}
	}
	return nil
}

// TestSideIsReplaced: once the delta has changed a record that has something next to its row, that does not come back, even when nothing is left of the record.
func TestSideIsReplaced(t *testing.T) {
	s := newStore(t)
	s.row("a", "v", 1)
	x := recent(physical(10), 5)
	x.Keys = []keys.Key{rowKey("a")}
	all := reports{"a": with(old(), votes(core.Accepted, x))}
	s.fold(all, all)
	w := &deltaWorld{t: t, s: s, keys: []keys.Key{rowKey("a")}, c: &deltaCount{}}
	w.a = w.restored(nil, wall(2))
	w.load(w.a, x.Keys[0])
	w.ask(&core.Request{Kind: core.End, Key: x.Keys[0], Option: x})
	for range 3 {
		if err := w.a.Tend(s.e, wall(now+int64(time.Hour))); err != nil {
			t.Fatal(err)
		}
		w.effects(nil)
	}
	disk := deltaMap{}
	for _, b := range w.written {
		for _, op := range b.ops {
			op(disk)
		}
	}
	r := w.load(w.restored(disk, wall(2)), x.Keys[0])
	if got := show(r); got != "{0 0 false}{0 0 false}0|1=v" || r.Outcome(x.Name) != core.Past {
		t.Errorf("%s; %s", got, r.Outcome(x.Name))
	}
}

// TestTend: what the base has is dropped from the delta after a while, and all else stays. A replica that missed an outcome finds it in the base.
func TestTend(t *testing.T) {
	s := newStore(t)
	for _, k := range []string{"a", "b", "c", "d"} {
		s.row(k, "3", 1)
	}
	w := &deltaWorld{t: t, s: s, c: &deltaCount{}}
	w.a = w.restored(nil, wall(2))
	ask := func(kind core.Kind, k string, o core.Option, committed bool) {
		w.load(w.a, rowKey(k))
		if o.Keys = nil; k == "d" {
			o.Keys = []keys.Key{rowKey("d"), rowKey("z")}
		}
		w.ask(&core.Request{Kind: kind, Key: rowKey(k), Option: o, Committed: committed})
	}
	// A version; one whose outcome does not come here; an update that commutes; and a version of a transaction that others may ask about.
	x, y := recent(physical(10), 9), recent(less(11, 1), 8)
	ask(core.Propose, "a", x, false)
	ask(core.End, "a", x, true)
	ask(core.Propose, "b", x, false)
	ask(core.Propose, "c", y, false)
	ask(core.End, "c", y, true)
	ask(core.Propose, "d", x, false)
	ask(core.End, "d", x, true)
	tend := func(after time.Duration, want string) {
		t.Helper()
		if err := w.a.Tend(s.e, wall(now+int64(after))); err != nil {
			t.Fatal(err)
		}
		w.effects(nil)
		got := ""
		for _, k := range []string{"a", "b", "c", "d"} {
			if r := w.a.Record(rowKey(k)); r != nil {
				got += fmt.Sprintf("%s:%d,%d,%d,%d ", k, now-r.Base.At.Wall, len(r.Votes), len(r.Added), len(r.Recent))
			}
		}
		if got != want {
			t.Errorf("after %v: %s, want %s", after, got, want)
		}
	}
	const first = now - 1
	tend(0, fmt.Sprintf("a:9,0,0,1 b:%d,1,0,0 c:%d,0,1,1 d:9,0,0,1 ", first, first))
	var rows []replica.Row
	for _, v := range w.a.Final(1 << 20) {
		rows = append(rows, replica.Row{Key: v.Key, Value: v.Data, Timestamp: v.At})
	}
	if len(rows) != 2 || !rows[0].Key.Equal(rowKey("a")) || !rows[1].Key.Equal(rowKey("d")) {
		t.Errorf("final: %v", rows)
	}
	if err := s.write(append(rows, replica.Row{Key: rowKey("b"), Value: []byte("10"), Timestamp: x.At})); err != nil {
		t.Fatal(err)
	}
	tend(10*time.Second, fmt.Sprintf("a:9,0,0,1 b:9,0,0,1 c:%d,0,1,1 d:9,0,0,1 ", first))
	if left := w.a.Final(1 << 20); len(left) != 0 {
		t.Errorf("final: %v", left)
	}
	tend(90*time.Second, fmt.Sprintf("a:9,0,0,0 b:9,0,0,0 c:%d,0,1,0 d:9,0,0,1 ", first))
	tend(150*time.Second, fmt.Sprintf("c:%d,0,1,0 d:9,0,0,1 ", first))
	w.ask(&core.Request{Kind: core.End, Key: rowKey("d"), Option: core.Option{Name: x.Name}})
	tend(150*time.Second, fmt.Sprintf("c:%d,0,1,0 ", first))
	// A late copy is past, where the record was dropped as where it is.
	for _, k := range []string{"a", "b"} {
		if v := w.load(w.a, rowKey(k)).Outcome(x.Name); v != core.Past {
			t.Errorf("%s: %s", k, v)
		}
	}
}

// TestTendInherited: options that were outstanding when the generation began are looked after, though nobody asks for their rows in it, however many other rows have something next to them.
func TestTendInherited(t *testing.T) {
	s := newStore(t)
	x := recent(physical(10), 9)
	all := reports{}
	for i := range lookedAt {
		o := recent(physical(10), 9)
		all[fmt.Sprintf("b%05d", i)] = with(numbered(), func(r *core.Record) { r.End(&o, true) })
	}
	for _, k := range []string{"a", "c"} {
		x.Keys = []keys.Key{rowKey(k), rowKey("z")}
		all[k] = with(old(), votes(core.Accepted, x))
	}
	s.fold(all, all)
	w := &deltaWorld{t: t, s: s, c: &deltaCount{}}
	w.a = w.restored(nil, wall(2))
	w.a.begin(s.e, s.desc.Span())
	var got []string
	for range 3 {
		w.a.Lead(false)
		if err := w.a.Tend(s.e, wall(now+int64(14*time.Second)+int64(time.Minute))); err != nil {
			t.Fatal(err)
		}
		w.effects(nil)
		got = got[:0]
		for _, i := range w.a.Overdue() {
			got = append(got, fmt.Sprint(i.Key, i.Option != nil))
		}
	}
	if n := w.a.Lagging(); n != 2 {
		t.Errorf("%d rows lag, want 2", n)
	}
	want := []string{fmt.Sprint(rowKey("a"), true), fmt.Sprint(rowKey("c"), true)}
	if !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	if n := loaded(w.a); n > 8 {
		t.Errorf("%d records are kept", n)
	}
	for _, k := range []string{"a", "c"} {
		w.ask(&core.Request{Kind: core.End, Key: rowKey(k), Option: core.Option{Name: x.Name}})
	}
	if err := w.a.Tend(s.e, wall(now+int64(time.Minute))); err != nil || w.a.Lagging() != 0 {
		t.Errorf("%d rows lag though their outcomes have come (%v)", w.a.Lagging(), err)
	}
}

// TestVersionWithOutcome: a version that is written with its outcome is there after a restart, whatever becomes of the outcome before the base has the version.
func TestVersionWithOutcome(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		s := newStore(t)
		s.desc.Start, s.desc.End = rowKey("a"), rowKey("z")
		w := &deltaWorld{t: t, s: s, c: &deltaCount{}}
		w.a = w.restored(nil, wall(2))
		k := rowKey("k")
		disk := deltaMap{}
		ask := func(q *core.Request) {
			t.Helper()
			q.Key = k
			w.load(w.a, k)
			w.a.Step(clock.Timestamp{}, core.Message{Request: q})
			fx := w.a.Effects()
			b := deltaBatch{}
			for i := range fx.Persist {
				fx.Persist[i].Store(&b)
			}
			for _, op := range b.ops {
				op(disk)
			}
			if w.a.Durable(fx.Ticket); restarts {
				w.a = w.restored(disk, wall(2))
			}
			if r := w.load(w.restored(disk, wall(2)), k); string(r.Base.Data) != "new" && q.Kind != core.Propose {
				t.Fatalf("restarts %v: after %s the row is %q", restarts, q.Kind, r.Base.Data)
			}
		}
		o := core.Option{Name: core.Name{Txn: kv.TxnID{1}, At: wall(now)}, Update: core.Update{Value: []byte("new")}, Keys: []keys.Key{k, rowKey("x")}}
		ask(&core.Request{Kind: core.Propose, Option: o})
		ask(&core.Request{Kind: core.End, Option: o, Committed: true})
		if _, ok := disk[string(append(encoding.AppendBytes(nil, k, encoding.Ascending), 'h'))]; ok {
			t.Error("the version is in the head too")
		}
		// Others were rejected meanwhile, so that the record has many outcomes when it hears that the first need not be remembered.
		for i := range byte(5) {
			x := core.Option{Name: core.Name{Txn: kv.TxnID{2 + i}, At: wall(now + int64(i) + 1)}, Update: core.Update{Value: []byte("other")}, Keys: []keys.Key{k}}
			ask(&core.Request{Kind: core.End, Option: x})
		}
		ask(&core.Request{Kind: core.Forget, Option: core.Option{Name: o.Name}})
		if err := w.a.Tend(s.e, wall(now+2*int64(core.Remembered))); err != nil {
			t.Fatal(err)
		}
		ask(&core.Request{Kind: core.Query})
		if err := s.write([]replica.Row{{Key: k, Value: []byte("new"), Timestamp: o.At}}); err != nil {
			t.Fatal(err)
		}
		w.load(w.a, k)
		w.a.Absorbed(k, o.At)
		ask(&core.Request{Kind: core.Query})
	}
}

// TestWritesOfATransaction pins how many keys of the delta a transaction of two rows writes at a replica, which is most of what it costs there: one for each vote, outcome, and message that the outcome need
// not be remembered; none when it is shown, and when the base has the version.
func TestWritesOfATransaction(t *testing.T) {
	s := newStore(t)
	s.desc.Start, s.desc.End = rowKey("a"), rowKey("z")
	s.row("n", "500", 1)
	w := &deltaWorld{t: t, s: s, c: &deltaCount{}}
	w.a = w.restored(nil, wall(2))
	wrote := func(do func()) int {
		do()
		fx, b := w.a.Effects(), deltaBatch{}
		for i := range fx.Persist {
			fx.Persist[i].Store(&b)
		}
		w.a.Durable(fx.Ticket)
		return len(b.ops)
	}
	ks := []keys.Key{rowKey("k"), rowKey("n")}
	name := core.Name{Txn: kv.TxnID{1}, At: wall(now)}
	for i, u := range []core.Update{{Value: []byte("new")}, {Seen: core.Seen{Base: wall(1)}, Deltas: []core.Delta{{Amount: -1, Max: 1000}}}} {
		o := core.Option{Name: name, Update: u, Keys: ks}
		w.load(w.a, ks[i])
		for _, x := range []struct {
			kind core.Kind
			keys int
		}{{core.Propose, 1}, {core.Show, 0}, {core.End, 1}, {core.Show, 0}, {core.Forget, 1}} {
			if x.kind == core.Show && len(u.Deltas) == 0 {
				continue // versions are not shown
			}
			if n := wrote(func() {
				w.a.Step(clock.Timestamp{}, core.Message{Request: &core.Request{Kind: x.kind, Key: ks[i], Option: o, Committed: true}})
			}); n != x.keys {
				t.Errorf("row %d: %s writes %d keys, want %d", i, x.kind, n, x.keys)
			}
		}
	}
	if err := s.write([]replica.Row{{Key: ks[0], Value: []byte("new"), Timestamp: name.At}}); err != nil {
		t.Fatal(err)
	}
	if n := wrote(func() { w.a.Absorbed(ks[0], name.At) }); n != 0 {
		t.Errorf("that the base has the version writes %d keys", n)
	}
}
