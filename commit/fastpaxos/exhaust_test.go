package fastpaxos

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// The exhaustive check: all states that the acceptors and masters of this package can get into, as they are, with a few options and a bound on the ballots. TestExhausted has what is searched to
// the end in seconds; with MERIDIAN_EXHAUST=1 it goes on for as long as it takes (docs/testing.md has the figures).
//
// A state is small because the core is pure. Each different record is kept once and has a number, as have a master's state and a request; each step of the core is made once, by the code, and its
// result remembered under these numbers. So the search is over tuples of numbers, and its states over a table of 64-bit fingerprints.
//
// The network is the set of all requests that were ever sent: each of them may reach each acceptor at any time, many times, or never. So requests are lost, doubled, late and in any order, without a
// bound. A master may miss any reply. It need not be late: a master that takes in the same replies sooner can only have sent its next request sooner, which need not arrive sooner.
//
// Gateways are left out, but for what they send: the options, at any time; and the outcome of a transaction, from the moment at which it is one, by the votes that were given. TestCommitCounts shows that a gateway
// says no more than these votes do, whatever it hears, and in whichever order.
//
// States that differ in nothing but which acceptor is in which state, or in the order of votes in a record, are one. A request that can have no effect any more is forgotten, and so are votes of which there can't be a quorum
// any more.
//
//	fastpaxos.M4: The outcome that a record says a transaction has is the one that all of its options make, in all records.
//	fastpaxos.M5: A record that is told all outcomes has, in whichever order, the sum of what has committed: no update is lost, or made twice.
//	fastpaxos.M6: Two records with one name (Seen) have one value.
//	fastpaxos.M7: A gateway that finishes a transaction from its options comes to its outcome.

// checked is a configuration.
type checked struct {
	name    string
	n       int
	options []checkedOption
	masters []checkedMaster
	// rounds is how many ballots there may be before the last: a master that has lost the record tries again below.
	rounds uint64
	gamma  int
	// crashes: an acceptor may lose what it has not synced. forgets: it may forget a transaction as soon as it has ended everywhere. absorbs: any executed version may be added to the
	// base, and be found there by others.
	crashes, forgets, absorbs bool
	// deaf: nobody is told an outcome.
	deaf bool
	// long: the ordinary tests search some of the states only, limit or few.
	long     bool
	limit    int
	min, max int64 // of the value, which begins at 3
}

// checkedOption is an option about the record of a group. Its transaction is all that have its number.
type checkedOption struct {
	group, txn int
	amount     int64
	// physical: it replaces the value with one that is so much more, of the state in which made have been executed, and none else.
	physical bool
	made     []int // indexes
	folded   int64 // if the state has a version of those: its timestamp
}

type checkedMaster struct {
	group int
	// term: its first ballot is a term, whose promise it asks the acceptors for, if the record is apart at none of a quorum.
	term  bool
	wants []checkedWant
	// finisher: it is one of those by which somebody finishes a transaction.
	finisher bool
}

type checkedWant struct {
	option  int
	prevent bool
}

const (
	mostAcceptors, mostMasters, mostOptions, mostGroups, mostSent, mostChain = 5, 2, 4, 2, 12, 4
)

type checkedColumn struct {
	// chain is the record as it is on disk, and then with each further change that is not synced.
	chain [mostChain]uint16
	// casts are the votes that it has given.
	casts uint64
	// heard is what each master has heard of it in its ballot, plus one; refused what it has heard since it lost; acks: it has accepted the present sequence.
	heard, refused [mostMasters]uint16
	acks           [mostMasters]bool
}

func (c *checkedColumn) record() uint16 {
	for i := mostChain - 1; i > 0; i-- {
		if c.chain[i] != 0 {
			return c.chain[i]
		}
	}
	return c.chain[0]
}

func (c *checkedColumn) compare(o *checkedColumn) int {
	if d := slices.Compare(c.chain[:], o.chain[:]); d != 0 {
		return d
	}
	if c.casts != o.casts {
		if c.casts < o.casts {
			return -1
		}
		return 1
	}
	if d := slices.Compare(c.heard[:], o.heard[:]); d != 0 {
		return d
	}
	if d := slices.Compare(c.refused[:], o.refused[:]); d != 0 {
		return d
	}
	for i := range c.acks {
		if c.acks[i] != o.acks[i] {
			if o.acks[i] {
				return -1
			}
			return 1
		}
	}
	return 0
}

type checkedGroup struct {
	columns [mostAcceptors]checkedColumn
	masters [mostMasters]uint16
	results [mostMasters]uint8 // of finishers
	sent    [mostSent]uint16
	done    uint64 // events that have been counted
}

// checkedState is all of it. It has no pointers, so that it is its own key.
type checkedState struct {
	groups  [mostGroups]checkedGroup
	learned [mostOptions]Verdict
	enabled [mostOptions]bool // somebody may have read what it is made for
	ended   [mostOptions]bool // a quorum has known the outcome
}

type checkedStep struct {
	to     uint16
	synced bool
}

// checkedRuler is a master but for what it knows of single acceptors.
type checkedRuler struct {
	phase    masterPhase
	ballot   Ballot
	sequence uint64
	highest  Ballot
	left     int
	state    uint16 // zero: none
	wants    []want
	hold     bool
	next     int
}

type checkedAnswer struct {
	ruler   uint16
	columns []checkedColumn // what it knows of them
	learned []Learned
}

type checkedEvent struct {
	option int // -1: a state of a master
	ballot Ballot
	v      Verdict
	seq    uint64
}

type checker struct {
	c       *checked
	q       Quorums
	groups  int
	options []Option
	names   map[string]uint16
	records []*Record
	terms   []Ballot // that an acceptor has promised besides
	facts   []recordFacts
	reqs    []*Request
	reqNum  map[string]uint16
	rulers  []checkedRuler
	ruleNum map[string]uint16
	asks    []uint16        // the request of a ruler
	owner   []int           // of a request, the master
	steps   [][]checkedStep // of a record, and a request
	answers map[string]checkedAnswer
	events  []checkedEvent
	mask    [mostGroups]uint64 // the events that are about a group's record
	vetted  map[uint64]string
	// per option: its requests
	propose, endYes, endNo, closeYes, closeNo []uint16
	outcome                                   map[[mostOptions]Verdict][]Verdict

	seen   *fingerprints
	seed   maphash.Seed
	states int
	trace  []string
	broken string
	most   int
	pool   []*checkedState // for each depth
	buffer []byte
}

// recordFacts are what is often asked of a record.
type recordFacts struct {
	casts    uint64
	seen     Seen
	value    string
	behind   bool
	outcomes [mostOptions]Verdict
	promised Ballot
	accepted Ballot
	sequence uint64
	forgets  bool
}

// fingerprints is a set.
type fingerprints struct {
	slots []uint64
	n     int
}

func (f *fingerprints) add(h uint64) bool {
	if h == 0 {
		h = 1
	}
	if f.n*10 >= len(f.slots)*7 {
		old := f.slots
		f.slots, f.n = make([]uint64, max(1<<16, 2*len(old))), 0
		for _, x := range old {
			if x != 0 {
				f.add(x)
			}
		}
	}
	mask := uint64(len(f.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		switch f.slots[i] {
		case h:
			return false
		case 0:
			f.slots[i] = h
			f.n++
			return true
		}
	}
}

func newChecker(c *checked) *checker {
	k := &checker{c: c, q: QuorumsOf(c.n), names: map[string]uint16{}, reqNum: map[string]uint16{}, ruleNum: map[string]uint16{}, answers: map[string]checkedAnswer{}, vetted: map[uint64]string{}, outcome: map[[mostOptions]Verdict][]Verdict{}, seen: &fingerprints{}, seed: maphash.MakeSeed()}
	k.records, k.terms, k.facts = append(k.records, nil), append(k.terms, Ballot{}), append(k.facts, recordFacts{})
	k.reqs, k.owner = append(k.reqs, nil), append(k.owner, -1)
	k.rulers, k.asks = append(k.rulers, checkedRuler{}), append(k.asks, 0)
	for _, o := range c.options {
		k.groups = max(k.groups, o.group+1)
	}
	for _, o := range c.options {
		x := Option{Name: at(int64(10 + o.txn)), Update: Update{Seen: Seen{Base: clock.Timestamp{Wall: 1}}}}
		for _, p := range c.options {
			if p.txn == o.txn {
				x.Keys = append(x.Keys, k.key(p.group))
			}
		}
		value := int64(3)
		for _, j := range o.made {
			p := &k.options[j]
			value += c.options[j].amount
			switch {
			case !p.Commutes():
				x.Seen = Seen{Base: p.At}
			case o.folded > 0:
				x.Seen = Seen{Base: clock.Timestamp{Wall: o.folded}}
			default:
				x.Seen.Sum ^= p.hash()
			}
		}
		if o.physical {
			x.Value = fmt.Append(nil, value+o.amount)
		} else {
			x.Deltas = []Delta{{Amount: o.amount, Min: c.min, Max: c.max}}
		}
		k.options = append(k.options, x)
	}
	for i := range k.options {
		o, g := &k.options[i], c.options[i].group
		k.propose = append(k.propose, k.request(&Request{Kind: Propose, Key: k.key(g), Option: *o}, -1))
		k.endYes = append(k.endYes, k.request(&Request{Kind: End, Key: k.key(g), Option: *o, Committed: true}, -1))
		k.endNo = append(k.endNo, k.request(&Request{Kind: End, Key: k.key(g), Option: *o}, -1))
		alone := *o
		alone.Keys = nil
		k.closeYes = append(k.closeYes, k.request(&Request{Kind: End, Key: k.key(g), Option: alone, Committed: true}, -1))
		k.closeNo = append(k.closeNo, k.request(&Request{Kind: End, Key: k.key(g), Option: alone}, -1))
	}
	return k
}

func (k *checker) key(g int) keys.Key { return keys.Key{'k', byte('0' + g)} }

func showAll(r *Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %v %d|%d=%s %d %d", r.Promised, r.Accepted, r.Sequence, r.Base.At.Wall, r.Base.Data, r.Closed.Wall, r.Floor.Wall)
	for _, a := range r.Added {
		fmt.Fprintf(&b, " +%d%v%v", a.At.Wall, a.Started, a.Fixed)
	}
	for _, v := range r.Votes {
		fmt.Fprintf(&b, " %d%v%v", v.At.Wall, v.Verdict, v.Fixed)
	}
	for _, e := range r.Recent {
		fmt.Fprintf(&b, " e%d%v%d", e.At.Wall, e.Committed, len(e.Keys))
	}
	return b.String()
}

// record gives the number of a record.
func (k *checker) record(r *Record) uint16 { return k.recordIn(r, Ballot{}) }

// recordIn is that of a record at an acceptor that has promised a term.
func (k *checker) recordIn(r *Record, term Ballot) uint16 {
	r = r.Clone()
	slices.SortStableFunc(r.Votes, func(a, b Vote) int { return a.Compare(b.Name) })
	s := showAll(r)
	if !term.Default() {
		s += fmt.Sprint(" in ", term)
	}
	if n, ok := k.names[s]; ok {
		return n
	}
	n := uint16(len(k.records))
	if n == 0 {
		panic("more records than numbers")
	}
	k.names[s] = n
	k.records, k.terms = append(k.records, r), append(k.terms, term)
	f := recordFacts{seen: r.Seen(), behind: r.Behind(), promised: r.Promised.later(term), accepted: r.Accepted, sequence: r.Sequence}
	if !f.behind {
		row, err := r.row(nil, plain{})
		if err != nil {
			panic(err)
		}
		f.value = string(row.Value)
	}
	for i := range k.options {
		f.outcomes[i] = r.Outcome(k.options[i].Name)
	}
	for i := range r.Votes {
		if v := &r.Votes[i]; !v.Fixed {
			for j := range k.options {
				if k.options[j].Name == v.Name {
					f.casts |= k.event(checkedEvent{option: j, ballot: r.Accepted, v: v.Verdict})
				}
			}
		}
	}
	if !r.Accepted.Default() {
		f.casts |= k.event(checkedEvent{option: -1, ballot: r.Accepted, seq: r.Sequence})
	}
	for _, e := range r.Recent {
		f.forgets = f.forgets || e.Keys == nil
	}
	k.facts = append(k.facts, f)
	return n
}

func (k *checker) event(e checkedEvent) uint64 {
	i := slices.Index(k.events, e)
	if i < 0 {
		i = len(k.events)
		k.events = append(k.events, e)
		if i >= 64 {
			panic("more events than bits")
		}
		for g := range k.mask {
			if e.option < 0 || k.c.options[e.option].group == g {
				k.mask[g] |= 1 << i
			}
		}
	}
	return 1 << i
}

func (k *checker) request(q *Request, owner int) uint16 {
	s := fmt.Sprintf("%d %s %v %d %v %v", q.Kind, q.Key, q.Ballot, q.Sequence, q.Option, q.Committed)
	state := uint16(0)
	if q.State != nil {
		state = k.record(q.State)
		s += fmt.Sprint(" ", state)
	}
	if n, ok := k.reqNum[s]; ok {
		return n
	}
	n := uint16(len(k.reqs))
	k.reqNum[s] = n
	c := *q
	if c.State != nil {
		c.State = k.records[state]
	}
	k.reqs, k.owner = append(k.reqs, &c), append(k.owner, owner)
	return n
}

// step is a request at an acceptor with a record.
func (k *checker) step(record, request uint16) checkedStep {
	for int(record) >= len(k.steps) {
		k.steps = append(k.steps, nil)
	}
	for int(request) >= len(k.steps[record]) {
		k.steps[record] = append(k.steps[record], checkedStep{})
	}
	if s := k.steps[record][request]; s.to != 0 {
		return s
	}
	q := k.reqs[request]
	a := k.acceptor(q.Key, record)
	a.Step(clock.Timestamp{}, Message{Request: q})
	fx := a.Effects()
	s := checkedStep{to: k.recordIn(a.records[string(q.Key)], a.term), synced: fx.Ticket != 0}
	k.steps[record][request] = s
	return s
}

// acceptor makes an acceptor that has a record.
func (k *checker) acceptor(key keys.Key, record uint16) *Acceptor {
	a := NewAcceptor(k.q, plain{}, nil, 0)
	a.keep(key, k.records[record].Clone(), &kept{base: clock.Timestamp{Wall: 1}})
	a.term = k.terms[record]
	return a
}

// reigning is the phase of a master that asks for a term.
const checkedReigning masterPhase = 9

// termOf is the term of a group's i-th master.
func termOf(i int) Ballot { return Ballot{Round: 1, Master: uint64(i + 1)} }

// reigns has a master take in the answer of an acceptor to a Reign. With those of a quorum it begins with the record, if that is apart at none of them. Otherwise its next ballot is a later one.
func (k *checker) reigns(r checkedRuler, g, i int, columns []checkedColumn, from int, record uint16) uint16 {
	if columns[from].heard[i] != 0 || k.terms[record] != termOf(i) {
		return k.ruler(r, g, i)
	}
	columns[from].heard[i] = record
	all := newReigning(place{1, 1}, keys.Span{Start: k.key(0), End: keys.Key("z")}, termOf(i), k.q)
	for j := range columns {
		if n := columns[j].heard[i]; n != 0 {
			reply := ask(k.acceptor(k.key(g), n), &Request{Kind: Reign, Key: k.key(g), Ballot: termOf(i), beside: &beside{}})
			if !all.Answer(kv.ReplicaID(j+1), reply) {
				continue
			}
			for j := range columns {
				columns[j].heard[i] = 0
			}
			if all.t.covers(k.key(g)) {
				base := Value{At: clock.Timestamp{Wall: 1}, Data: []byte(modelBase)}
				ruler, _ := k.drain(all.t.master(k.key(g), base, plain{}, k.c.gamma), g, i, 0, columns)
				return ruler
			}
			return k.ruler(checkedRuler{ballot: termOf(i)}, g, i)
		}
	}
	return k.ruler(r, g, i)
}

// other is a change of a record without a request.
func (k *checker) other(record uint16, change func(*Record)) uint16 {
	r := k.records[record].Clone()
	change(r)
	return k.recordIn(r, k.terms[record])
}

func (k *checker) ruler(r checkedRuler, g, m int) uint16 {
	s := fmt.Sprintf("%d %d %d %v %d %v %d %d %v %d", g, m, r.phase, r.ballot, r.sequence, r.highest, r.left, r.state, r.hold, r.next)
	for _, w := range r.wants {
		s += fmt.Sprintf(" %d %v %d", w.At.Wall, w.prevent, w.at)
	}
	if n, ok := k.ruleNum[s]; ok {
		return n
	}
	n := uint16(len(k.rulers))
	k.ruleNum[s] = n
	k.rulers = append(k.rulers, r)
	ask := uint16(0)
	if r.phase == checkedReigning {
		ask = k.request(&Request{Kind: Reign, Key: k.key(g), Ballot: termOf(m), beside: &beside{}}, m)
	} else if r.phase != resting {
		if q := k.master(&r, g, m, nil).Request(); q != nil {
			ask = k.request(q, m)
		}
	}
	k.asks = append(k.asks, ask)
	return n
}

// master makes the master that a ruler and what it knows of acceptors are.
func (k *checker) master(r *checkedRuler, g, i int, columns []checkedColumn) *Master {
	m := NewMaster(k.key(g), uint64(i+1), k.q, plain{}, k.c.gamma)
	m.phase, m.ballot, m.sequence, m.highest, m.left, m.wants, m.hold = r.phase, r.ballot, r.sequence, r.highest, r.left, slices.Clone(r.wants), r.hold
	if r.state != 0 {
		m.state = k.records[r.state].Clone()
	}
	for j := range columns {
		id := kv.ReplicaID(j + 1)
		if n := columns[j].heard[i]; n != 0 {
			m.heard, m.reports = append(m.heard, id), append(m.reports, k.records[n])
		}
		if n := columns[j].refused[i]; n != 0 {
			m.others = append(m.others, report{id, k.records[n]})
		}
		if columns[j].acks[i] {
			m.acks = append(m.acks, id)
		}
	}
	return m
}

// drain takes a master apart again.
func (k *checker) drain(m *Master, g, i, next int, columns []checkedColumn) (uint16, []Learned) {
	r := checkedRuler{phase: m.phase, ballot: m.ballot, sequence: m.sequence, highest: m.highest, wants: slices.Clone(m.wants), hold: m.hold, next: next}
	if m.phase == ruling {
		r.left = m.left
	} else {
		r.sequence = 0
	}
	if m.state != nil {
		r.state = k.record(m.state)
	}
	for j := range columns {
		columns[j].heard[i], columns[j].refused[i], columns[j].acks[i] = 0, 0, false
	}
	if m.phase == preparing {
		for j, id := range m.heard {
			columns[id-1].heard[i] = k.record(m.reports[j])
		}
	}
	if m.phase == ruling {
		for _, id := range m.acks {
			columns[id-1].acks[i] = true
		}
	}
	if len(m.wants) > 0 && m.phase == resting {
		for _, o := range m.others {
			columns[o.from-1].refused[i] = k.record(o.Record)
		}
	}
	return k.ruler(r, g, i), m.Learned()
}

// answer has a master take in the reply of an acceptor that has a record now.
func (k *checker) answer(ruler uint16, g, i int, columns []checkedColumn, from int, request, record uint16) checkedAnswer {
	b := make([]byte, 0, 64)
	b = append(b, byte(ruler), byte(ruler>>8), byte(g), byte(i), byte(from), byte(request), byte(request>>8), byte(record), byte(record>>8))
	for j := range columns {
		c := &columns[j]
		ack := byte(0)
		if c.acks[i] {
			ack = 1
		}
		b = append(b, byte(c.heard[i]), byte(c.heard[i]>>8), byte(c.refused[i]), byte(c.refused[i]>>8), ack)
	}
	if a, ok := k.answers[string(b)]; ok {
		return a
	}
	r, q := k.records[record], k.reqs[request]
	if q.Kind == Reign {
		a := checkedAnswer{columns: slices.Clone(columns)}
		a.ruler = k.reigns(k.rulers[ruler], g, i, a.columns, from, record)
		k.answers[string(b)] = a
		return a
	}
	promised := r.Promised.later(k.terms[record])
	reply := &Reply{Promised: promised, Ballot: r.Accepted, Sequence: r.Sequence}
	if q.Kind == Prepare || q.Ballot.Less(promised) {
		reply.Record = r
	}
	m := k.master(&k.rulers[ruler], g, i, columns)
	m.Answer(kv.ReplicaID(from+1), q, reply)
	a := checkedAnswer{columns: slices.Clone(columns)}
	a.ruler, a.learned = k.drain(m, g, i, k.rulers[ruler].next, a.columns)
	k.answers[string(b)] = a
	return a
}

// want asks a master for the next of what is wanted of it.
func (k *checker) want(s *checkedState, g, i int, of *checkedMaster) {
	gr := &s.groups[g]
	r := k.rulers[gr.masters[i]]
	m := k.master(&r, g, i, gr.columns[:k.c.n])
	w := of.wants[r.next]
	o := k.options[w.option]
	if w.prevent {
		o = Option{Name: o.Name, Keys: o.Keys}
	}
	m.hold = r.next+1 < len(of.wants)
	m.Want(o, w.prevent)
	m.Open()
	var learned []Learned
	gr.masters[i], learned = k.drain(m, g, i, r.next+1, gr.columns[:k.c.n])
	k.says(s, g, i, learned)
}

func (k *checker) start() (s checkedState) {
	for g := range k.groups {
		base := k.record(&Record{Base: Value{At: clock.Timestamp{Wall: 1}, Data: []byte(modelBase)}})
		for i := range k.c.n {
			s.groups[g].columns[i].chain[0] = base
		}
		n := 0
		for j := range k.c.masters {
			if m := &k.c.masters[j]; m.group == g {
				s.groups[g].masters[n] = k.ruler(checkedRuler{}, g, n)
				if m.term {
					s.groups[g].masters[n] = k.ruler(checkedRuler{phase: checkedReigning}, g, n)
				} else if o := m.wants[0]; len(k.c.options[o.option].made) == 0 {
					k.want(&s, g, n, m)
				}
				n++
			}
		}
	}
	k.normal(&s)
	return s
}

func (k *checker) fail(format string, args ...any) {
	if k.broken == "" {
		k.broken = fmt.Sprintf(format, args...)
	}
}

// outcomes are those of the options' transactions.
func (k *checker) outcomes(s *checkedState) []Verdict {
	if out, ok := k.outcome[s.learned]; ok {
		return out
	}
	out := make([]Verdict, len(k.options))
	for i := range out {
		out[i] = Accepted
		for j := range k.options {
			if k.options[j].Name == k.options[i].Name {
				switch {
				case s.learned[j] == Rejected:
					out[i] = Rejected
				case s.learned[j] == Undecided && out[i] == Accepted:
					out[i] = Undecided
				}
			}
		}
	}
	k.outcome[s.learned] = out
	return out
}

func (k *checker) learn(s *checkedState, i int, v Verdict) {
	switch old := s.learned[i]; {
	case old == v:
		return
	case old != Undecided:
		k.fail("fastpaxos.M1: option %d was learned as %v and as %v", i, old, v)
		return
	}
	s.learned[i] = v
	if v != Accepted {
		return
	}
	o, g := &k.options[i], k.c.options[i].group
	for j := range k.options {
		p := &k.options[j]
		if j == i || s.learned[j] != Accepted || k.c.options[j].group != g {
			continue
		}
		if !o.Commutes() && !p.Commutes() && o.Seen == p.Seen {
			k.fail("fastpaxos.M2: %d and %d replace one state", i, j)
		}
		if o.Commutes() != p.Commutes() {
			phys, comm := o, p
			if o.Commutes() {
				phys, comm = p, o
			}
			if phys.Seen.Base == comm.Seen.Base && phys.Seen.Sum == 0 {
				k.fail("fastpaxos.M2: %d and %d exclude each other", i, j)
			}
		}
	}
	out := k.outcomes(s)
	low, high := int64(3), int64(3)
	for j, c := range k.c.options {
		switch {
		case c.group != g || s.learned[j] != Accepted || out[j] == Rejected:
		case out[j] == Accepted:
			low, high = low+c.amount, high+c.amount
		default:
			low, high = low+min(0, c.amount), high+max(0, c.amount)
		}
	}
	if o.Commutes() && (low < k.c.min || high > k.c.max) {
		k.fail("fastpaxos.M3: option %d and the others come to %d to %d", i, low, high)
	}
}

// says is what a master has learned.
func (k *checker) says(s *checkedState, g, i int, ls []Learned) {
	out := k.outcomes(s)
	for _, l := range ls {
		for j := range k.options {
			if k.options[j].Name != l.Name || k.c.options[j].group != g {
				continue
			}
			switch {
			case l.Verdict == Past:
			case l.Ended && out[j] != l.Verdict:
				k.fail("fastpaxos.M1: a master says that the transaction of %d has ended as %v, but it is %v", j, l.Verdict, out[j])
			case !l.Ended && s.learned[j] != l.Verdict:
				k.fail("fastpaxos.M1: a master says that %d is %v, but it is %v", j, l.Verdict, s.learned[j])
			}
			s.groups[g].results[i] = 1 + uint8(l.Verdict)
			if l.Ended {
				s.groups[g].results[i] |= 16
			}
			if l.Option != nil {
				s.groups[g].results[i] |= 32
			}
		}
	}
	if s.groups[g].results[i]&15 == 1+uint8(Past) && s.groups[g].results[i]&16 == 0 {
		k.again(s, g)
	}
	// fastpaxos.M7
	var all []Learned
	tells, name := false, -1
	at := [mostGroups]int{}
	for j := range k.c.masters {
		m := &k.c.masters[j]
		n := at[m.group]
		at[m.group]++
		if !m.finisher {
			continue
		}
		r := s.groups[m.group].results[n]
		if r == 0 {
			return
		}
		name = m.wants[0].option
		all = append(all, Learned{Verdict: Verdict(r&15 - 1), Ended: r&16 != 0})
		tells = tells || r&32 != 0
	}
	if tells {
		if committed := finished(all); out[name] == Undecided || committed != (out[name] == Accepted) {
			k.fail("fastpaxos.M7: who finishes the transaction of %d says committed: %v, but it is %v", name, committed, out[name])
		}
	}
}

// again has the finishers of other groups learn again what had not ended, as Finish does.
func (k *checker) again(s *checkedState, g int) {
	at := [mostGroups]int{}
	for j := range k.c.masters {
		of := &k.c.masters[j]
		i := at[of.group]
		at[of.group]++
		gr := &s.groups[of.group]
		if v := gr.results[i]; !of.finisher || of.group == g || v&15 != 1+uint8(Accepted) || v&16 != 0 || v&32 == 0 {
			continue
		}
		gr.results[i] = 0
		r := k.rulers[gr.masters[i]]
		r.next = 0
		q := k.asks[gr.masters[i]]
		gr.masters[i] = k.ruler(r, of.group, i)
		k.want(s, of.group, i, of)
		if q != 0 && k.asks[gr.masters[i]] != q {
			k.keep(gr, q)
		}
	}
}

// changed takes in that an acceptor has another record.
func (k *checker) changed(s *checkedState, g, i int, q uint16, to checkedStep) {
	gr := &s.groups[g]
	c := &gr.columns[i]
	was := c.record()
	if to.to == was {
		return
	}
	fresh := k.facts[to.to].casts &^ k.facts[was].casts &^ gr.done & k.mask[g]
	switch {
	case to.synced || !k.c.crashes:
		c.chain = [mostChain]uint16{to.to}
	default:
		n := slices.Index(c.chain[:], 0)
		if n < 0 {
			panic("more changes that are not synced than there is room for")
		}
		c.chain[n] = to.to
	}
	c.casts |= fresh
	for e := range k.events {
		bit := uint64(1) << e
		if fresh&bit == 0 {
			continue
		}
		n := 0
		for j := range k.c.n {
			if gr.columns[j].casts&bit != 0 {
				n++
			}
		}
		ev := &k.events[e]
		if ev.option >= 0 && n >= k.q.Fast {
			k.learn(s, ev.option, ev.v)
		} else if ev.option < 0 && n >= k.q.Classic {
			gr.done |= bit
			for j := range k.options {
				// The acceptor itself drops options that its own version has overtaken.
				if v := k.reqs[q].State.vote(k.options[j].Name); v != nil && k.c.options[j].group == g {
					k.learn(s, j, v.Verdict)
				}
			}
		}
	}
}

// normal brings a state into the form that all states have which are the same for what may follow.
func (k *checker) normal(s *checkedState) {
	n := k.c.n
	for g := range k.groups {
		gr := &s.groups[g]
		cs := gr.columns[:n]
		// Somebody may read what an option is made for.
		for i := range k.options {
			if k.c.options[i].group == g && !s.enabled[i] {
				for j := range cs {
					f := &k.facts[cs[j].record()]
					if !f.behind && f.seen.Base == k.options[i].Seen.Base && (k.options[i].Commutes() || f.seen == k.options[i].Seen) {
						s.enabled[i] = true
					}
				}
			}
		}
		var all uint64
		for i := range cs {
			all |= cs[i].casts
		}
		for e := 0; all != 0 && e < len(k.events); e++ {
			bit, ev := uint64(1)<<e, &k.events[e]
			if all&bit == 0 {
				continue
			}
			drop := gr.done&bit != 0 || ev.option >= 0 && s.learned[ev.option] == ev.v
			if !drop {
				may, enough := 0, k.q.Fast
				if ev.option < 0 {
					enough = k.q.Classic
				}
				for i := range cs {
					if cs[i].casts&bit != 0 || !ev.ballot.Less(k.facts[cs[i].record()].promised) {
						may++
					}
				}
				drop = may < enough
			}
			if drop {
				for i := range cs {
					cs[i].casts &^= bit
				}
			}
		}
		for e := 0; gr.done>>e != 0; e++ {
			if bit := uint64(1) << e; gr.done&bit != 0 {
				may := false
				for i := range cs {
					may = may || !k.events[e].ballot.Less(k.facts[cs[i].record()].promised)
				}
				if !may {
					gr.done &^= bit
				}
			}
		}
		for i := 1; i < n; i++ {
			for j := i; j > 0 && cs[j].compare(&cs[j-1]) < 0; j-- {
				cs[j], cs[j-1] = cs[j-1], cs[j]
			}
		}
		// Requests of masters that have gone on.
		kept := gr.sent[:0]
		for _, q := range gr.sent {
			if q == 0 {
				continue
			}
			useful := false
			for i := range cs {
				for _, r := range cs[i].chain {
					useful = useful || r != 0 && k.step(r, q).to != r
				}
			}
			for m := range gr.masters {
				useful = useful && k.asks[gr.masters[m]] != q
			}
			if useful {
				kept = append(kept, q)
			}
		}
		for i := len(kept); i < mostSent; i++ {
			gr.sent[i] = 0
		}
		slices.Sort(kept)
	}
	out := k.outcomes(s)
	for i := range k.options {
		if out[i] != Undecided && !s.ended[i] && len(k.options[i].Keys) > 1 {
			ok := true
			for j := range k.options {
				if k.options[j].Name == k.options[i].Name {
					heard := 0
					for x := range k.c.n {
						if f := &k.facts[s.groups[k.c.options[j].group].columns[x].record()]; f.outcomes[j] != Undecided { // it has answered that it knows
							heard++
						}
					}
					ok = ok && heard >= k.q.Classic
				}
			}
			s.ended[i] = ok
		}
	}
}

// vet checks a record in a state.
func (k *checker) vet(s *checkedState, g int, record uint16, out []Verdict) {
	id := uint64(record)<<1 | uint64(g)
	for i := range out {
		id = id<<2 | uint64(out[i])
	}
	why, ok := k.vetted[id]
	if !ok {
		why = k.vetRecord(g, record, out)
		k.vetted[id] = why
	}
	if why != "" {
		k.fail("%s", why)
	}
}

func (k *checker) vetRecord(g int, record uint16, out []Verdict) string {
	r, f := k.records[record], &k.facts[record]
	want, ends := int64(3), []uint16(nil)
	for i := range k.options {
		if k.c.options[i].group != g {
			continue
		}
		if v := f.outcomes[i]; (v == Accepted || v == Rejected) && v != out[i] {
			return fmt.Sprintf("fastpaxos.M4: a record has %d as %v, but it is %v: %s", i, v, out[i], showAll(r))
		}
		if r.Base.At == k.options[i].At && out[i] != Accepted {
			return fmt.Sprintf("fastpaxos.M4: a record has the version of %d, which is %v: %s", i, out[i], showAll(r))
		}
		switch out[i] {
		case Accepted:
			want += k.c.options[i].amount
			ends = append(ends, k.endYes[i])
		case Rejected:
			ends = append(ends, k.endNo[i])
		}
	}
	// fastpaxos.M5
	result := ""
	permute(ends, func(order []uint16) {
		at := record
		for _, e := range order {
			at = k.step(at, e).to
		}
		if g := &k.facts[at]; g.behind {
			result = fmt.Sprintf("fastpaxos.M5: behind after all outcomes: %s", showAll(k.records[at]))
		} else if g.value != fmt.Sprint(want) {
			result = fmt.Sprintf("fastpaxos.M5: %s, and what has committed comes to %d: %s, then %s", g.value, want, showAll(r), showAll(k.records[at]))
		}
	})
	return result
}

func permute(xs []uint16, each func([]uint16)) {
	if len(xs) == 0 {
		each(nil)
		return
	}
	var rec func(int)
	rec = func(i int) {
		if i == len(xs) {
			each(xs)
			return
		}
		for j := i; j < len(xs); j++ {
			xs[i], xs[j] = xs[j], xs[i]
			rec(i + 1)
			xs[i], xs[j] = xs[j], xs[i]
		}
	}
	rec(0)
}

func (k *checker) check(s *checkedState) {
	out := k.outcomes(s)
	for g := range k.groups {
		cs := s.groups[g].columns[:k.c.n]
		for i := range cs {
			r := cs[i].record()
			k.vet(s, g, r, out)
			for j := range i {
				a, b := &k.facts[r], &k.facts[cs[j].record()]
				if !a.behind && !b.behind && a.seen == b.seen && a.value != b.value {
					k.fail("fastpaxos.M6: one name, and the values %s and %s", a.value, b.value)
				}
			}
		}
	}
}

// checkedWhat is a step, for a trace.
type checkedWhat struct {
	format string
	g, i   int
	q      uint16
}

// next goes on from a state that one of visit's has led to.
func (k *checker) next(x *checkedState, depth int, what checkedWhat) bool {
	k.normal(x)
	if k.broken == "" {
		if !k.seen.add(k.hash(x)) {
			return true
		}
		k.states++
		k.check(x)
	}
	if k.broken == "" {
		k.visit(x, depth+1)
	}
	if k.broken != "" {
		if what.q != 0 {
			k.trace = append(k.trace, fmt.Sprintf(what.format, what.g, what.i, k.describe(what.q)))
		} else {
			k.trace = append(k.trace, fmt.Sprintf(what.format, what.g, what.i))
		}
		return false
	}
	return true
}

// hash is of all that can make a difference.
func (k *checker) hash(s *checkedState) uint64 {
	b := k.buffer[:0]
	two := func(n uint16) { b = append(b, byte(n), byte(n>>8)) }
	for g := range k.groups {
		gr := &s.groups[g]
		for i := range k.c.n {
			c := &gr.columns[i]
			for _, r := range c.chain {
				two(r)
				if r == 0 {
					break
				}
			}
			for m := range mostMasters {
				two(c.heard[m])
				two(c.refused[m])
				if c.acks[m] {
					b = append(b, 1)
				} else {
					b = append(b, 0)
				}
			}
			b = binary.LittleEndian.AppendUint64(b, c.casts)
		}
		for m := range mostMasters {
			two(gr.masters[m])
			b = append(b, gr.results[m])
		}
		for _, q := range gr.sent {
			two(q)
			if q == 0 {
				break
			}
		}
		b = binary.LittleEndian.AppendUint64(b, gr.done)
	}
	for i := range k.options {
		x := byte(s.learned[i])
		if s.enabled[i] {
			x |= 16
		}
		if s.ended[i] {
			x |= 32
		}
		b = append(b, x)
	}
	k.buffer = b
	return maphash.Bytes(k.seed, b)
}

// visit goes on from a state.
func (k *checker) visit(s *checkedState, depth int) {
	k.most = max(k.most, depth)
	if k.c.limit > 0 && k.states >= k.c.limit {
		return
	}
	n := k.c.n
	out := k.outcomes(s)
	if depth+1 == len(k.pool) {
		k.pool = append(k.pool, new(checkedState))
	}
	x := k.pool[depth+1]
	for g := range k.groups {
		gr := &s.groups[g]
		var qs [32]uint16
		reqs := qs[:0]
		for i := range k.options {
			if k.c.options[i].group != g {
				continue
			}
			if s.enabled[i] {
				reqs = append(reqs, k.propose[i])
			}
			if k.c.deaf {
				continue
			}
			if out[i] == Accepted {
				reqs = append(reqs, k.endYes[i])
			} else if out[i] == Rejected {
				reqs = append(reqs, k.endNo[i])
			}
			if s.ended[i] && out[i] == Accepted {
				reqs = append(reqs, k.closeYes[i])
			} else if s.ended[i] {
				reqs = append(reqs, k.closeNo[i])
			}
		}
		for _, q := range gr.sent {
			if q != 0 {
				reqs = append(reqs, q)
			}
		}
		for _, m := range gr.masters {
			if q := k.asks[m]; q != 0 {
				reqs = append(reqs, q)
			}
		}
		for i := range n {
			if i > 0 && gr.columns[i] == gr.columns[i-1] {
				continue
			}
			was := gr.columns[i].record()
			for _, q := range reqs {
				to := k.step(was, q)
				if to.to != was {
					*x = *s
					k.changed(x, g, i, q, to)
					if !k.next(x, depth, checkedWhat{"%d.%d gets %s", g, i, q}) {
						return
					}
				}
				m := k.owner[q]
				if m < 0 || k.asks[gr.masters[m]] != q {
					continue
				}
				a := k.answer(gr.masters[m], g, m, gr.columns[:n], i, q, to.to)
				if a.ruler == gr.masters[m] && same(a.columns, gr.columns[:n], m) && len(a.learned) == 0 {
					continue
				}
				*x = *s
				k.changed(x, g, i, q, to)
				y := &x.groups[g]
				for j := range n {
					y.columns[j].heard[m], y.columns[j].refused[m], y.columns[j].acks[m] = a.columns[j].heard[m], a.columns[j].refused[m], a.columns[j].acks[m]
				}
				if k.asks[a.ruler] != q {
					k.keep(y, q)
				}
				y.masters[m] = a.ruler
				k.says(x, g, m, a.learned)
				if !k.next(x, depth, checkedWhat{"%d.%d gets %s, and its master the reply", g, i, q}) {
					return
				}
			}
			if k.c.crashes {
				for j := 1; j < mostChain && gr.columns[i].chain[j] != 0; j++ {
					*x = *s
					for l := j; l < mostChain; l++ {
						x.groups[g].columns[i].chain[l] = 0
					}
					if !k.next(x, depth, checkedWhat{"%d.%d crashes", g, i, 0}) {
						return
					}
				}
			}
			if k.c.forgets && k.facts[was].forgets {
				to := k.other(was, func(r *Record) { r.Forget(clock.Timestamp{Wall: 1000}) })
				*x = *s
				k.changed(x, g, i, 0, checkedStep{to: to})
				if !k.next(x, depth, checkedWhat{"%d.%d forgets", g, i, 0}) {
					return
				}
			}
			if k.c.absorbs && n > 1 {
				for j := range n {
					v := k.records[gr.columns[j].record()].Base
					if k.records[was].Base.At.Less(v.At) {
						to := k.other(was, func(r *Record) { r.learn(&Record{Base: v}) })
						*x = *s
						k.changed(x, g, i, 0, checkedStep{to: to})
						if !k.next(x, depth, checkedWhat{"%d.%d finds a version in its base", g, i, 0}) {
							return
						}
					}
				}
			}
		}
		at := 0
		for j := range k.c.masters {
			of := &k.c.masters[j]
			if of.group != g {
				continue
			}
			m := at
			at++
			r := &k.rulers[gr.masters[m]]
			if r.phase == resting && len(r.wants) > 0 && max(r.highest.Round, r.ballot.Round) < k.c.rounds {
				*x = *s
				y := k.master(r, g, m, gr.columns[:n])
				y.Resume()
				var learned []Learned
				x.groups[g].masters[m], learned = k.drain(y, g, m, r.next, x.groups[g].columns[:n])
				k.says(x, g, m, learned)
				if !k.next(x, depth, checkedWhat{"%d: master %d tries again", g, m, 0}) {
					return
				}
			}
			if r.phase != checkedReigning && r.next < len(of.wants) && s.enabled[of.wants[r.next].option] && !(r.phase == ruling && r.ballot.Fast) && (r.phase != resting || max(r.highest.Round, r.ballot.Round) < k.c.rounds) {
				*x = *s
				q := k.asks[gr.masters[m]]
				k.want(x, g, m, of)
				if q != 0 && k.asks[x.groups[g].masters[m]] != q {
					k.keep(&x.groups[g], q)
				}
				if !k.next(x, depth, checkedWhat{"%d: master %d is asked", g, m, 0}) {
					return
				}
			}
		}
	}
}

func same(a, b []checkedColumn, m int) bool {
	for i := range a {
		if a[i].heard[m] != b[i].heard[m] || a[i].refused[m] != b[i].refused[m] || a[i].acks[m] != b[i].acks[m] {
			return false
		}
	}
	return true
}

func (k *checker) keep(g *checkedGroup, q uint16) {
	for i := range g.sent {
		if g.sent[i] == q {
			return
		}
		if g.sent[i] == 0 {
			g.sent[i] = q
			return
		}
	}
	panic("more requests than there is room for")
}

func (k *checker) describe(q uint16) string {
	r := k.reqs[q]
	s := r.Kind.String()
	switch r.Kind {
	case Propose:
		s += fmt.Sprintf(" %d", r.Option.At.Wall)
	case End:
		s += fmt.Sprintf(" %d %v of %d", r.Option.At.Wall, r.Committed, len(r.Option.Keys))
	case Prepare:
		s += fmt.Sprintf(" %v", r.Ballot)
	case Dictate:
		s += fmt.Sprintf(" %v.%d: %s", r.Ballot, r.Sequence, showAll(r.State))
	}
	return s
}

func (k *checker) run() {
	s := k.start()
	k.seen.add(k.hash(&s))
	k.states = 1
	k.pool = append(k.pool, &s)
	k.visit(&s, 0)
	slices.Reverse(k.trace)
}

func TestExhausted(t *testing.T) {
	whole := os.Getenv("MERIDIAN_EXHAUST") != ""
	writers := []checkedOption{{physical: true, amount: 2}, {txn: 1, physical: true, amount: 5}}
	one := writers[:1]
	takers := []checkedOption{{amount: -2}, {txn: 1, amount: -2}}
	plenty := []checkedOption{{amount: -1}, {txn: 1, amount: -1}}
	mixed := []checkedOption{{amount: -2}, {txn: 1, physical: true, amount: 5}}
	chain := []checkedOption{{physical: true, amount: 2}, {txn: 1, physical: true, amount: 5, made: []int{0}}}
	folded := []checkedOption{{amount: -1}, {txn: 1, physical: true, amount: 5, made: []int{0}, folded: 10}}
	three := []checkedOption{{amount: -1}, {txn: 1, amount: -1}, {txn: 2, amount: -1}}
	both := []checkedOption{{physical: true, amount: 2}, {group: 1, physical: true, amount: 2}}
	rival := append(slices.Clone(both), checkedOption{txn: 1, physical: true, amount: 5})
	want := func(option int, prevent bool) checkedMaster {
		return checkedMaster{wants: []checkedWant{{option, prevent}}}
	}
	recovery := []checkedMaster{want(0, true)}
	recoveries := []checkedMaster{want(0, true), want(0, true)}
	rivals := []checkedMaster{want(0, false), want(1, true)}
	finishers := []checkedMaster{{finisher: true, wants: []checkedWant{{0, true}}}, {finisher: true, group: 1, wants: []checkedWant{{1, true}}}}
	for _, c := range []checked{
		{name: "a writer", n: 3, options: one, masters: recovery, rounds: 1},
		{name: "a writer", n: 5, options: one, masters: recovery, rounds: 1},
		{name: "a writer, and two recoveries", n: 3, options: one, masters: recoveries, rounds: 1},
		{name: "a writer, and two recoveries that try again", n: 3, options: one, masters: recoveries, rounds: 2, long: true},
		{name: "two writers", n: 3, options: writers, masters: recovery, rounds: 1},
		{name: "two writers, with a classic ballot that lasts", n: 3, options: writers, masters: recovery, rounds: 1, gamma: 1},
		{name: "two writers, with crashes", n: 3, options: writers, masters: recovery, rounds: 1, crashes: true},
		{name: "two writers, with versions in the base", n: 3, options: writers, masters: recovery, rounds: 1, absorbs: true},
		{name: "two writers, and outcomes are forgotten", n: 3, options: writers, masters: recovery, rounds: 1, forgets: true, long: true},
		{name: "two writers, and a term", n: 3, options: writers, masters: []checkedMaster{{term: true, wants: []checkedWant{{option: 0}}}}, rounds: 1},
		{name: "two writers, and a term whose master goes on by itself", n: 3, options: writers, masters: []checkedMaster{{term: true, wants: []checkedWant{{option: 0}, {1, true}}}}, rounds: 2, gamma: 2},
		{name: "two writers, and a term, with crashes", n: 3, options: writers, masters: []checkedMaster{{term: true, wants: []checkedWant{{option: 0}}}}, rounds: 1, crashes: true},
		{name: "two writers, a term and a later recovery", n: 3, options: writers, masters: []checkedMaster{{term: true, wants: []checkedWant{{option: 0}}}, want(1, true)}, rounds: 1, long: true},
		{name: "two writers, an earlier recovery and a term", n: 3, options: writers, masters: []checkedMaster{want(1, true), {term: true, wants: []checkedWant{{option: 0}}}}, rounds: 1, long: true},
		{name: "two writers, and two terms", n: 3, options: writers, masters: []checkedMaster{{term: true, wants: []checkedWant{{option: 0}}}, {term: true, wants: []checkedWant{{option: 1}}}}, rounds: 1, long: true},
		{name: "two takers of plenty, and a term", n: 3, options: plenty, masters: []checkedMaster{{term: true, wants: []checkedWant{{option: 0}, {option: 1}}}}, rounds: 1, gamma: 1},
		{name: "two writers, and a term", n: 5, options: writers, masters: []checkedMaster{{term: true, wants: []checkedWant{{option: 0}}}}, rounds: 1, long: true},
		{name: "two writers", n: 5, options: writers, masters: recovery, rounds: 1, long: true},
		{name: "two writers, with versions in the base", n: 5, options: writers, masters: recovery, rounds: 1, absorbs: true, long: true},
		{name: "two writers, a master and a recovery", n: 3, options: writers, masters: rivals, rounds: 1, long: true},
		{name: "a writer, and one who has seen it", n: 3, options: chain, masters: recovery, rounds: 1},
		{name: "a writer, and one who has seen it, a recovery and a master", n: 3, options: chain, masters: []checkedMaster{want(0, true), want(1, false)}, rounds: 1, long: true},
		{name: "a writer, and one who has seen it, with versions in the base", n: 3, options: chain, masters: []checkedMaster{want(0, true), want(1, true)}, rounds: 1, absorbs: true, long: true},
		{name: "two takers of plenty", n: 3, options: plenty, masters: recovery, rounds: 1},
		{name: "two takers of plenty, with versions in the base", n: 3, options: plenty, masters: recovery, rounds: 1, absorbs: true},
		{name: "two takers", n: 3, options: takers, masters: recovery, rounds: 1},
		{name: "two takers, with crashes", n: 3, options: takers, masters: recovery, rounds: 1, crashes: true, long: true},
		{name: "two takers", n: 5, options: takers, masters: recovery, rounds: 1, long: true},
		{name: "two takers, a master and a recovery", n: 3, options: takers, masters: rivals, rounds: 1, long: true},
		{name: "three takers", n: 3, options: three, masters: recovery, rounds: 1, min: 1, long: true},
		{name: "three takers, before any outcome is told", n: 5, options: three, masters: recovery, rounds: 1, min: 1, deaf: true, long: true, limit: 100_000},
		{name: "two writers, before any outcome is told", n: 5, options: writers, masters: recovery, rounds: 1, deaf: true},
		{name: "a taker and a writer", n: 3, options: mixed, masters: recovery, rounds: 1},
		{name: "a taker and a writer", n: 5, options: mixed, masters: recovery, rounds: 1, long: true},
		{name: "a taker and a writer, a master and a recovery", n: 3, options: mixed, masters: rivals, rounds: 1, long: true},
		{name: "a taker, and a writer who has seen a new base value", n: 3, options: folded, masters: []checkedMaster{want(0, false), want(1, true)}, rounds: 1},
		{name: "two records", n: 3, options: both, masters: finishers, rounds: 1, long: true},
		{name: "two records, with versions in the base", n: 3, options: both, masters: finishers, rounds: 1, absorbs: true, long: true},
		{name: "two records, with crashes", n: 3, options: both, masters: finishers, rounds: 1, crashes: true, long: true},
		{name: "two records, and outcomes are forgotten", n: 3, options: both, masters: finishers, rounds: 2, forgets: true, long: true},
		{name: "two records, and a writer of one", n: 3, options: rival, masters: finishers, rounds: 1, long: true},
	} {
		t.Run(fmt.Sprintf("%d replicas: %s", c.n, c.name), func(t *testing.T) {
			c.max = 1 << 40
			switch {
			case whole || !c.long:
				c.limit = 0
			case c.limit == 0:
				c.limit = 10_000
			}
			k := newChecker(&c)
			begun := time.Now()
			k.run()
			if k.broken != "" {
				t.Fatalf("%s, after %d states\n%s", k.broken, k.states, strings.Join(k.trace, "\n"))
			}
			end := "all"
			if c.limit > 0 {
				end = "not all"
			}
			t.Logf("%d states, %s; the longest way has %d steps; %d different records, %d requests, %d states of masters; %v", k.states, end, k.most, len(k.records)-1, len(k.reqs)-1, len(k.rulers)-1, time.Since(begun).Round(time.Millisecond))
		})
	}
}

// TestCommitCounts: a gateway learns what a fast quorum has said in one ballot, and nothing else, whichever of the acceptors' replies reach it, in whichever order.
func TestCommitCounts(t *testing.T) {
	ballots := []Ballot{{}, {Round: 1, Master: 1, Fast: true}}
	verdicts := []Verdict{Undecided, Accepted, Rejected}
	states, learned := 0, 0
	for _, n := range []int{3, 5} {
		q := QuorumsOf(n)
		o := physical(10)
		o.Keys = []keys.Key{keys.Key(theKey)}
		// votes has an acceptor's verdicts in both ballots. Those of acceptors do not decrease: any other world is one of these with other names.
		votes := make([]int, n)
		holds := func(v Verdict) bool {
			for b := range ballots {
				has := 0
				for _, x := range votes {
					if verdicts[[]int{x / 3, x % 3}[b]] == v {
						has++
					}
				}
				if has >= q.Fast {
					return true
				}
			}
			return false
		}
		world := func() {
			seen := map[[mostAcceptors]byte]bool{}
			var visit func(*Commit, [mostAcceptors]byte)
			visit = func(c *Commit, at [mostAcceptors]byte) {
				if seen[at] || t.Failed() {
					return
				}
				seen[at] = true
				states++
				if out := c.Outcome(); out != Undecided {
					if learned++; !holds(out) {
						t.Errorf("%d replicas have voted %v, and a gateway learns that it is %v", n, votes, out)
					}
					return
				}
				for i, x := range votes {
					for b, v := range []int{x / 3, x % 3} {
						if verdicts[v] == Undecided || int(at[i]) > b+1 {
							continue
						}
						k := *c
						k.polls = []poll{c.polls[0]}
						k.polls[0].votes = slices.Clone(c.polls[0].votes)
						k.Answer(0, kv.ReplicaID(i+1), &Reply{Promised: ballots[b], Ballot: ballots[b], Verdict: verdicts[v]})
						y := at
						y[i] = byte(b + 1)
						visit(&k, y)
					}
				}
				for _, v := range verdicts[1:] {
					same := 0
					for i, x := range votes {
						if at[i] == 1 && verdicts[x/3] == v {
							same++
						}
					}
					if same >= q.Fast {
						t.Errorf("%d replicas have voted %v, and a gateway that has heard %v does not know", n, votes, at)
					}
				}
			}
			visit(NewCommit([]Option{o}, q), [mostAcceptors]byte{})
		}
		var each func(i, from int)
		each = func(i, from int) {
			if i == n {
				world()
				return
			}
			for x := from; x < 9; x++ {
				votes[i] = x
				each(i+1, x)
			}
		}
		each(0, 0)
	}
	t.Logf("%d states, and the outcome is known in %d", states, learned)
}
