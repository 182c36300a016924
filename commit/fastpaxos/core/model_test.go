package core

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// The model check: the acceptors, masters and commits of this package as they are, and every order in which their messages may arrive, be lost or
// be doubled. Learned is what the votes of acceptors make it, not from what anyone has heard of it.
//
//	fastpaxos.M1: nothing is learned as both accepted and rejected.
//	fastpaxos.M2: of two updates that replace one state at most one is learned as accepted.
//	fastpaxos.M3: a bound holds whatever becomes of the options that were learned as accepted.
//
// Generations end at any moment, by the reports of any classic quorum: what a fold decides is learned (fastpaxos.FP9).

// plain has rows of one column, an int64 in text.
type plain struct{}

func (plain) Column(row []byte, _ uint32) (int64, bool) {
	var n int64
	_, err := fmt.Sscan(string(row), &n)
	return n, err == nil
}

func (p plain) Add(row []byte, ds []Delta) ([]byte, error) {
	n, _ := p.Column(row, 0)
	for _, d := range ds {
		n += d.Amount
	}
	return fmt.Append(nil, n), nil
}

const theKey = "k"

type model struct {
	q         Quorums
	base      string
	acceptors []*Acceptor
	parts     []*part
	// sent are messages on their way; cast is every vote that was ever given, dictated every proposal of a master that was accepted.
	sent     []envelope
	cast     map[castVote]uint32
	dictated map[string]uint32
	learned  map[Name]Verdict
	options  map[Name]*Option
	apart    bool // replies take their own time
	broken   string
}

type castVote struct {
	n Name
	b Ballot
	v Verdict
}

// part is a gateway with its commit and a master of its own.
type part struct {
	commit  *Commit
	master  *Master
	option  Option
	asked   bool
	ended   bool
	prevent bool
	ballots int
}

type envelope struct {
	to    int // acceptor
	from  int // part
	q     *Request
	reply *Reply
}

func newModel(n int, base string, options []Option, finishers int) *model {
	m := &model{q: QuorumsOf(n), base: base, cast: map[castVote]uint32{}, dictated: map[string]uint32{}, learned: map[Name]Verdict{}, options: map[Name]*Option{}}
	for range n {
		a := NewAcceptor(m.q, plain{}, nil, 0)
		a.Load(keys.Key(theKey), &Record{Base: Value{At: clock.Timestamp{Wall: 1}, Data: []byte(base)}})
		m.acceptors = append(m.acceptors, a)
	}
	for i := range options {
		o := options[i]
		o.Keys = []keys.Key{keys.Key(theKey)}
		m.options[o.Name] = &o
		p := &part{commit: NewCommit([]Option{o}, m.q), option: o, master: NewMaster(keys.Key(theKey), uint64(i+1), m.q, plain{}, 0)}
		m.parts = append(m.parts, p)
		m.toAll(i, p.commit.Request(0))
	}
	for i := range finishers {
		m.parts = append(m.parts, &part{option: Option{Name: options[i].Name}, prevent: true, master: NewMaster(keys.Key(theKey), uint64(100+i), m.q, plain{}, 0)})
	}
	return m
}

func (m *model) toAll(from int, q *Request) {
	for a := range m.acceptors {
		m.sent = append(m.sent, envelope{to: a, from: from, q: q})
	}
}

func (m *model) clone() *model {
	c := *m
	c.acceptors = make([]*Acceptor, len(m.acceptors))
	for i, a := range m.acceptors {
		b := *a
		r, by := a.records[theKey].Clone(), *a.records[theKey].kept
		by.sums, r.kept = nil, &by
		b.records = map[string]*Record{theKey: r}
		c.acceptors[i] = &b
	}
	c.parts = make([]*part, len(m.parts))
	for i, p := range m.parts {
		q := *p
		if p.commit != nil {
			k := *p.commit
			k.Polls = slices.Clone(k.Polls)
			for j := range k.Polls {
				k.Polls[j].Votes = slices.Clone(k.Polls[j].Votes)
			}
			q.commit = &k
		}
		x := *p.master
		x.heard, x.reports, x.acks, x.Wants = slices.Clone(x.heard), slices.Clone(x.reports), slices.Clone(x.acks), slices.Clone(x.Wants)
		q.master = &x
		c.parts[i] = &q
	}
	c.sent = slices.Clone(m.sent)
	c.cast, c.dictated, c.learned = clone(m.cast), clone(m.dictated), clone(m.learned)
	return &c
}

func clone[K comparable, V any](m map[K]V) map[K]V {
	c := make(map[K]V, len(m))
	for k, v := range m {
		c[k] = v
	}
	return c
}

// hash is of all that can make a difference.
func (m *model) hash(seed maphash.Seed) uint64 {
	var b strings.Builder
	for _, a := range m.acceptors {
		b.WriteString(show(a.records[theKey]))
		b.WriteByte('\n')
	}
	for _, p := range m.parts {
		fmt.Fprintf(&b, "p %v %v %d", p.asked, p.ended, p.ballots)
		if p.commit != nil {
			fmt.Fprintf(&b, "%v %v", p.commit.Polls[0].Learned, p.commit.Polls[0].Master)
			for _, v := range p.commit.Polls[0].Votes {
				fmt.Fprintf(&b, "%d:%v:%v,", v.from, v.ballot, v.v)
			}
		}
		x := p.master
		fmt.Fprintf(&b, "m %d %v %d %v %v %v %d", x.phase, x.ballot, x.sequence, x.Highest, x.heard, x.acks, x.left)
		for _, r := range x.reports {
			b.WriteString(show(r))
		}
		if x.State != nil {
			b.WriteString(show(x.State))
		}
		for _, w := range x.Wants {
			fmt.Fprintf(&b, "w%v%d", w.Name.At.Wall, w.at)
		}
		b.WriteByte('\n')
	}
	var es []string
	for _, e := range m.sent {
		s := fmt.Sprintf("%d>%d %v %v %d", e.from, e.to, e.q.Kind, e.q.Ballot, e.q.Sequence)
		if e.q.Kind == End {
			s += fmt.Sprint(e.q.Option.At.Wall, e.q.Committed)
		}
		if e.q.State != nil {
			s += show(e.q.State)
		}
		if e.reply != nil {
			s += fmt.Sprintf("%v %v %d %v %v", e.reply.Promised, e.reply.Ballot, e.reply.Sequence, e.reply.Verdict, e.reply.Outcome)
			if e.reply.Record != nil {
				s += show(e.reply.Record)
			}
		}
		es = append(es, s)
	}
	slices.Sort(es)
	b.WriteString(strings.Join(es, "\n"))
	return maphash.String(seed, b.String())
}

func show(r *Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v%v%d|%d=%s", r.Promised, r.Accepted, r.Sequence, r.Base.At.Wall, r.Base.Data)
	for _, a := range r.Added {
		fmt.Fprintf(&b, "+%d%v%v", a.At.Wall, a.Started, a.Fixed)
	}
	for _, v := range r.Votes {
		fmt.Fprintf(&b, " %d%v%v", v.At.Wall, v.Verdict, v.Fixed)
	}
	for _, e := range r.Recent {
		fmt.Fprintf(&b, " e%d%v", e.At.Wall, e.Committed)
	}
	return b.String()
}

// deliver makes the i-th message arrive.
func (m *model) deliver(i int) {
	e := m.sent[i]
	m.sent = slices.Delete(m.sent, i, i+1)
	if e.reply != nil {
		m.reply(e)
		return
	}
	a := m.acceptors[e.to]
	a.Step(clock.Timestamp{}, Message{Request: e.q})
	fx := a.Effects()
	if fx.Ticket != 0 {
		a.Durable(fx.Ticket)
		fx.Send = append(fx.Send, a.Effects().Send...)
	}
	m.look(e)
	for _, r := range append(fx.Send, fx.After...) {
		e.reply = r.Reply
		if m.apart {
			m.sent = append(m.sent, e)
		} else {
			m.reply(e)
		}
	}
}

// look keeps what an acceptor has voted.
func (m *model) look(e envelope) {
	r := m.acceptors[e.to].records[theKey]
	bit := uint32(1) << e.to
	for i := range r.Votes {
		v := &r.Votes[i]
		if !v.Fixed {
			c := castVote{v.Name, r.Accepted, v.Verdict}
			m.cast[c] |= bit
			if ones(m.cast[c]) >= m.q.Fast {
				m.learn(v.Name, v.Verdict)
			}
		}
	}
	if e.q.Kind == Dictate && r.Accepted == e.q.Ballot && r.Sequence == e.q.Sequence {
		k := fmt.Sprint(e.q.Ballot, e.q.Sequence)
		m.dictated[k] |= bit
		if ones(m.dictated[k]) >= m.q.Classic {
			for i := range e.q.State.Votes {
				m.learn(e.q.State.Votes[i].Name, e.q.State.Votes[i].Verdict)
			}
		}
	}
}

func ones(n uint32) (c int) {
	for ; n > 0; n &= n - 1 {
		c++
	}
	return c
}

func (m *model) learn(n Name, v Verdict) {
	if old := m.learned[n]; old == v {
		return
	} else if old != Undecided {
		m.broken = fmt.Sprintf("M1: %d was learned as %v and as %v", n.At.Wall, old, v)
		return
	}
	m.learned[n] = v
	if v != Accepted {
		return
	}
	o := m.options[n]
	var total int64
	var bounds Delta
	for x, w := range m.learned {
		p := m.options[x]
		if w != Accepted {
			continue
		}
		if x != n && !o.Commutes() && !p.Commutes() && o.Seen == p.Seen {
			m.broken = fmt.Sprintf("M2: %d and %d replace one state", n.At.Wall, x.At.Wall)
		}
		if o.Commutes() != p.Commutes() && o.Seen.Base == p.Seen.Base && p.Seen.Sum == 0 && o.Seen.Sum == 0 {
			m.broken = fmt.Sprintf("M2: %d and %d exclude each other", n.At.Wall, x.At.Wall)
		}
		for _, d := range p.Deltas {
			total, bounds = total+d.Amount, d
		}
	}
	if o.Commutes() {
		if v, _ := (plain{}).Column([]byte(m.base), 0); v+total < bounds.Min {
			m.broken = fmt.Sprintf("M3: %d and the others come to %d", n.At.Wall, v+total)
		}
	}
}

const modelBase = "3"

func (m *model) reply(e envelope) {
	p := m.parts[e.from]
	switch e.q.Kind {
	case Propose:
		if p.commit.Answer(0, kv.ReplicaID(e.to+1), e.reply) {
			m.ask(e.from)
		}
	case Prepare, Dictate:
		p.master.Answer(kv.ReplicaID(e.to+1), e.q, e.reply)
		m.drive(e.from)
	}
	m.finish(e.from)
}

func (m *model) ask(i int) {
	p := m.parts[i]
	if p.asked {
		return
	}
	p.asked = true
	p.master.Want(p.option, p.prevent)
	m.drive(i)
}

// drive sends what a master asks now, if it is new.
func (m *model) drive(i int) {
	p := m.parts[i]
	for _, l := range p.master.Learned() {
		if w := m.learned[l.Name]; l.Verdict != Past && w != l.Verdict {
			m.broken = fmt.Sprintf("M1: a master says that %d is %v, but it is %v", l.At.Wall, l.Verdict, w)
		}
		if p.commit != nil && l.Name == p.option.Name {
			p.commit.Learn(0, l.Verdict)
		}
	}
	q := p.master.Request()
	if q == nil {
		return
	}
	k := func(e envelope) bool {
		return e.from == i && e.q.Kind == q.Kind && e.q.Ballot == q.Ballot && e.q.Sequence == q.Sequence
	}
	now := int(q.Ballot.Round)*100 + int(q.Sequence)*2 + int(q.Kind&1)
	if q.Ballot.Fast {
		now++
	}
	if p.ballots == now || slices.ContainsFunc(m.sent, k) {
		return
	}
	p.ballots = now
	m.toAll(i, q)
}

func (m *model) finish(i int) {
	p := m.parts[i]
	if p.ended || p.commit == nil {
		return
	}
	if out := p.commit.Outcome(); out != Undecided {
		if w := m.learned[p.option.Name]; w != out {
			m.broken = fmt.Sprintf("M1: a gateway says that %d is %v, but it is %v", p.option.At.Wall, out, w)
		}
		p.ended = true
		m.toAll(i, &Request{Kind: End, Key: keys.Key(theKey), Option: p.option, Committed: out == Accepted})
	}
}

// steps are what may happen: a message arrives or is lost, somebody takes the gateway for dead, or a master tries again.
func (m *model) steps() (out []func(*model) string) {
	for i := range m.sent {
		out = append(out, func(x *model) string {
			e := x.sent[i]
			x.deliver(i)
			return fmt.Sprintf("%d>%d %v %v.%d reply %v", e.from, e.to, e.q.Kind, e.q.Ballot, e.q.Sequence, e.reply != nil)
		})
	}
	for i, p := range m.parts {
		if !p.asked {
			out = append(out, func(x *model) string { x.ask(i); return fmt.Sprintf("%d asks its master", i) })
		} else if p.master.phase == resting && len(p.master.Wants) > 0 && p.master.ballot.Round < 3 {
			out = append(out, func(x *model) string { x.parts[i].master.Resume(); x.drive(i); return fmt.Sprintf("%d tries again", i) })
		}
	}
	return out
}

func at(n int64) (o Name) {
	o.Txn[0], o.At.Wall = byte(n), n
	return o
}

func physical(n int64) Option {
	return Option{Name: at(n), Update: Update{Seen: Seen{Base: clock.Timestamp{Wall: 1}}, Value: fmt.Append(nil, n)}}
}

func less(n, by int64) Option {
	return Option{Name: at(n), Update: Update{Seen: Seen{Base: clock.Timestamp{Wall: 1}}, Deltas: []Delta{{Amount: -by, Min: 0, Max: 1 << 40}}}}
}

// guarding is an option that needs the record, removal one that removes it.
func guarding(n int64) Option {
	return Option{Name: at(n), Update: Update{Seen: Seen{Base: clock.Timestamp{Wall: 1}}, Guard: true}}
}

func removal(n int64) Option {
	o := physical(n)
	o.Value = nil
	return o
}

func anyOption(dice *rand.Rand, n int64) Option {
	switch dice.IntN(6) {
	case 0:
		return physical(n)
	case 1:
		return removal(n)
	case 2:
		return guarding(n)
	}
	return less(n, 1+dice.Int64N(2))
}

type search struct {
	seed   maphash.Seed
	seen   map[uint64]bool
	states int
	limit  int
	trace  []string
	deep   int
}

func (s *search) run(m *model) string {
	if m.broken != "" {
		return m.broken
	}
	h := m.hash(s.seed)
	if s.seen[h] || s.states >= s.limit || len(s.trace) > s.deep {
		return ""
	}
	s.seen[h] = true
	s.states++
	for _, step := range m.steps() {
		x := m.clone()
		s.trace = append(s.trace, step(x))
		if b := s.run(x); b != "" {
			return b
		}
		s.trace = s.trace[:len(s.trace)-1]
	}
	return ""
}

func TestEveryOrder(t *testing.T) {
	for _, c := range []struct {
		name      string
		n         int
		options   []Option
		finishers int
		apart     bool
		limit     int
	}{
		{"two writers, three replicas", 3, []Option{physical(10), physical(11)}, 0, false, 5_000},
		{"two writers, five replicas", 5, []Option{physical(10), physical(11)}, 0, false, 5_000},
		{"a writer and one that takes it for dead", 3, []Option{physical(10)}, 1, true, 5_000},
		{"two that take from three", 3, []Option{less(10, 2), less(11, 2)}, 0, false, 5_000},
		{"one that takes and one that writes", 3, []Option{less(10, 2), physical(11)}, 0, false, 5_000},
		{"one that refers and one that removes", 3, []Option{guarding(10), removal(11)}, 0, false, 5_000},
		{"one that removes and one that refers", 5, []Option{removal(10), guarding(11)}, 0, false, 5_000},
		{"one that refers, and is taken for dead", 3, []Option{guarding(10)}, 1, true, 5_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newModel(c.n, modelBase, c.options, c.finishers)
			m.apart = c.apart
			s := &search{seed: maphash.MakeSeed(), seen: map[uint64]bool{}, limit: c.limit, deep: 200}
			if b := s.run(m); b != "" {
				t.Fatalf("%s\n%s", b, strings.Join(s.trace, "\n"))
			}
			t.Logf("%d states", s.states)
		})
	}
}

const walkTrace = false

// TestRandomOrders goes further than TestEveryOrder: to the end, with more options, along orders drawn by dice.
func TestRandomOrders(t *testing.T) {
	for seed := range uint64(4000) {
		dice := rand.New(rand.NewPCG(seed, 1))
		n := []int{3, 3, 5, 5, 7}[dice.IntN(5)]
		var options []Option
		for i := range int64(2 + dice.IntN(4)) {
			options = append(options, anyOption(dice, 10+i))
		}
		m := newModel(n, modelBase, options, dice.IntN(2))
		m.apart = dice.IntN(2) == 0
		var trace []string
		for range 400 {
			steps := m.steps()
			if len(steps) == 0 || m.broken != "" {
				break
			}
			if len(m.sent) > 0 && dice.IntN(20) == 0 { // one is lost
				i := dice.IntN(len(m.sent))
				m.sent = slices.Delete(m.sent, i, i+1)
				continue
			}
			if len(m.sent) > 0 && dice.IntN(20) == 0 { // one comes twice
				m.sent = append(m.sent, m.sent[dice.IntN(len(m.sent))])
				continue
			}
			i := dice.IntN(len(steps))
			if i >= len(m.sent) && dice.IntN(4) > 0 && len(m.sent) > 0 {
				i = dice.IntN(len(m.sent))
			}
			trace = append(trace, steps[i](m))
			if walkTrace {
				for j, a := range m.acceptors {
					trace = append(trace, fmt.Sprintf("        r%d %s", j, show(a.records[theKey])))
				}
			}
		}
		if m.broken != "" {
			t.Fatalf("seed %d, %d replicas: %s\n%s", seed, n, m.broken, strings.Join(trace, "\n"))
		}
	}
}

// seal ends the generation by the reports of some quorum, and begins the next one: messages on their way do not arrive any more, and gateways and
// masters begin again. late says that the generation's floor is above all options.
func (m *model) seal(dice *rand.Rand, late bool) (trace string) {
	var reports []*Record
	heard := m.q.Classic + dice.IntN(m.q.Replicas-m.q.Classic+1)
	for _, i := range dice.Perm(m.q.Replicas)[:heard] {
		trace += fmt.Sprintf(" r%d", i)
		reports = append(reports, m.acceptors[i].records[theKey])
	}
	r := Next(reports, m.q, plain{})
	if r.Behind() {
		m.broken = "the fold lacks a version"
	}
	for i := range m.acceptors {
		a := NewAcceptor(m.q, plain{}, nil, 0)
		if late {
			a.floor = clock.Timestamp{Wall: 1000}
		}
		a.Load(keys.Key(theKey), r)
		m.acceptors[i] = a
	}
	m.sent, m.cast, m.dictated = nil, map[castVote]uint32{}, map[string]uint32{}
	for n, o := range m.options {
		v := r.Outcome(n)
		switch {
		case r.Vote(n) != nil:
			v = r.Vote(n).Verdict
		case v == Undecided && late || v == Past:
			v = Rejected // it never came
		}
		if m.learned[n] == Accepted && v != Accepted {
			m.broken = fmt.Sprintf("M1: %d was learned as accepted and is %v after the fold", n.At.Wall, v)
		}
		if v != Undecided {
			m.learn(o.Name, v)
		}
	}
	for i, p := range m.parts {
		p.asked, p.ballots = false, 0
		p.master = NewMaster(keys.Key(theKey), uint64(i+1), m.q, plain{}, 0)
		if p.commit != nil && p.commit.Outcome() == Undecided {
			p.commit = NewCommit([]Option{p.option}, m.q)
			m.toAll(i, p.commit.Request(0))
		} else if p.commit != nil {
			p.ended = false
			m.finish(i)
		}
	}
	return "sealed, with the reports of" + trace + ": " + show(r)
}

// TestFoldAtAnyMoment: nothing that was learned changes when generations end in the middle of everything, one after the other.
func TestFoldAtAnyMoment(t *testing.T) {
	outstanding, folded := 0, 0
	for seed := range uint64(6000) {
		dice := rand.New(rand.NewPCG(seed, 2))
		n := []int{3, 3, 4, 5, 5, 7}[dice.IntN(6)]
		var options []Option
		for i := range int64(2 + dice.IntN(4)) {
			options = append(options, anyOption(dice, 10+i))
		}
		m := newModel(n, modelBase, options, dice.IntN(2))
		m.apart = dice.IntN(2) == 0
		var trace []string
		for range 1 + dice.IntN(3) {
			for range dice.IntN(60) {
				steps := m.steps()
				if len(steps) == 0 || m.broken != "" {
					break
				}
				i := dice.IntN(len(steps))
				if len(m.sent) > 0 && dice.IntN(12) == 0 { // one is lost
					i = dice.IntN(len(m.sent))
					m.sent = slices.Delete(m.sent, i, i+1)
					continue
				}
				trace = append(trace, steps[i](m))
			}
			if m.broken == "" {
				trace = append(trace, m.seal(dice, dice.IntN(3) == 0))
				r := m.acceptors[0].records[theKey]
				outstanding += len(r.Votes)
				if len(r.Base.Data) > 0 && r.Base.At.Wall > 1 {
					folded++
				}
			}
		}
		if m.broken != "" {
			t.Fatalf("seed %d, %d replicas: %s\n%s", seed, n, m.broken, strings.Join(trace, "\n"))
		}
	}
	t.Logf("%d options were outstanding after a fold; %d folds had a new base", outstanding, folded)
	if outstanding < 1000 || folded < 1000 {
		t.Error("that is too few")
	}
}
