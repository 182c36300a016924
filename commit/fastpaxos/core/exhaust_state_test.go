package core

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"meridian/clock"
	"meridian/keys"
)

// The exhaustive check: its states, which are tuples of numbers, and the table of those that have been visited.

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
	wants    []Want
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

func same(a, b []checkedColumn, m int) bool {
	for i := range a {
		if a[i].heard[m] != b[i].heard[m] || a[i].refused[m] != b[i].refused[m] || a[i].acks[m] != b[i].acks[m] {
			return false
		}
	}
	return true
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
