package core

import (
	"fmt"
	"slices"

	"meridian/clock"
)

// The exhaustive check: the moves from a state to the next ones.

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
				if v := k.reqs[q].State.Vote(k.options[j].Name); v != nil && k.c.options[j].group == g {
					k.learn(s, j, v.Verdict)
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

// visit goes on from a state, with each move that there is.
func (k *checker) visit(s *checkedState, depth int) {
	k.most = max(k.most, depth)
	if k.c.limit > 0 && k.states >= k.c.limit {
		return
	}
	if depth+1 == len(k.pool) {
		k.pool = append(k.pool, new(checkedState))
	}
	out := k.outcomes(s)
	for g := range k.groups {
		var qs [32]uint16
		reqs := k.underWay(s, g, out, qs[:0])
		columns := s.groups[g].columns[:k.c.n]
		for i := range columns {
			if i > 0 && columns[i] == columns[i-1] {
				continue
			}
			for _, q := range reqs {
				if !k.arrives(s, depth, g, i, q) {
					return
				}
			}
			if !k.mishaps(s, depth, g, i) {
				return
			}
		}
		if !k.masterMoves(s, depth, g) {
			return
		}
	}
}

// underWay adds the requests that may arrive at the acceptors of a group.
func (k *checker) underWay(s *checkedState, g int, out []Verdict, reqs []uint16) []uint16 {
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
	gr := &s.groups[g]
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
	return reqs
}

// arrives has a request arrive at an acceptor, whose answer is lost, or heard by the master that waits for it. false: the search is over, here and below.
func (k *checker) arrives(s *checkedState, depth, g, i int, q uint16) bool {
	n, gr, x := k.c.n, &s.groups[g], k.pool[depth+1]
	was := gr.columns[i].record()
	to := k.step(was, q)
	if to.to != was {
		*x = *s
		k.changed(x, g, i, q, to)
		if !k.next(x, depth, checkedWhat{"%d.%d gets %s", g, i, q}) {
			return false
		}
	}
	m := k.owner[q]
	if m < 0 || k.asks[gr.masters[m]] != q {
		return true
	}
	a := k.answer(gr.masters[m], g, m, gr.columns[:n], i, q, to.to)
	if a.ruler == gr.masters[m] && same(a.columns, gr.columns[:n], m) && len(a.learned) == 0 {
		return true
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
	return k.next(x, depth, checkedWhat{"%d.%d gets %s, and its master the reply", g, i, q})
}

// mishaps are what happens to an acceptor without a request: a crash, outcomes that it forgets, a version that it finds in its base.
func (k *checker) mishaps(s *checkedState, depth, g, i int) bool {
	n, gr, x := k.c.n, &s.groups[g], k.pool[depth+1]
	was := gr.columns[i].record()
	if k.c.crashes {
		for j := 1; j < mostChain && gr.columns[i].chain[j] != 0; j++ {
			*x = *s
			for l := j; l < mostChain; l++ {
				x.groups[g].columns[i].chain[l] = 0
			}
			if !k.next(x, depth, checkedWhat{"%d.%d crashes", g, i, 0}) {
				return false
			}
		}
	}
	if k.c.forgets && k.facts[was].forgets {
		to := k.other(was, func(r *Record) { r.Forget(clock.Timestamp{Wall: 1000}) })
		*x = *s
		k.changed(x, g, i, 0, checkedStep{to: to})
		if !k.next(x, depth, checkedWhat{"%d.%d forgets", g, i, 0}) {
			return false
		}
	}
	if !k.c.absorbs || n == 1 {
		return true
	}
	for j := range n {
		v := k.records[gr.columns[j].record()].Base
		if !k.records[was].Base.At.Less(v.At) {
			continue
		}
		to := k.other(was, func(r *Record) { r.Learn(&Record{Base: v}) })
		*x = *s
		k.changed(x, g, i, 0, checkedStep{to: to})
		if !k.next(x, depth, checkedWhat{"%d.%d finds a version in its base", g, i, 0}) {
			return false
		}
	}
	return true
}

// masterMoves are what the masters of a group may do by themselves: try again below the last ballot, or take up an option.
func (k *checker) masterMoves(s *checkedState, depth, g int) bool {
	n, gr, x := k.c.n, &s.groups[g], k.pool[depth+1]
	at := 0
	for j := range k.c.masters {
		of := &k.c.masters[j]
		if of.group != g {
			continue
		}
		m := at
		at++
		r := &k.rulers[gr.masters[m]]
		more := max(r.highest.Round, r.ballot.Round) < k.c.rounds
		if r.phase == resting && len(r.wants) > 0 && more {
			*x = *s
			y := k.master(r, g, m, gr.columns[:n])
			y.Resume()
			var learned []Learned
			x.groups[g].masters[m], learned = k.drain(y, g, m, r.next, x.groups[g].columns[:n])
			k.says(x, g, m, learned)
			if !k.next(x, depth, checkedWhat{"%d: master %d tries again", g, m, 0}) {
				return false
			}
		}
		r = &k.rulers[gr.masters[m]]
		if r.phase != checkedReigning && r.next < len(of.wants) && s.enabled[of.wants[r.next].option] && !(r.phase == ruling && r.ballot.Fast) && (r.phase != resting || more) {
			*x = *s
			q := k.asks[gr.masters[m]]
			k.want(x, g, m, of)
			if q != 0 && k.asks[x.groups[g].masters[m]] != q {
				k.keep(&x.groups[g], q)
			}
			if !k.next(x, depth, checkedWhat{"%d: master %d is asked", g, m, 0}) {
				return false
			}
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
