package core

import (
	"fmt"
	"slices"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// The exhaustive check: steps of the core, each made once by the code and remembered under the numbers of a record or master and a request.

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
	f := recordFacts{seen: r.Seen(), behind: r.Behind(), promised: r.Promised.Later(term), accepted: r.Accepted, sequence: r.Sequence}
	if !f.behind {
		row, err := r.Row(nil, plain{})
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
	all := NewReigning(Place{1, 1}, keys.Span{Start: k.key(0), End: keys.Key("z")}, termOf(i), k.q)
	for j := range columns {
		if n := columns[j].heard[i]; n != 0 {
			reply := ask(k.acceptor(k.key(g), n), &Request{Kind: Reign, Key: k.key(g), Ballot: termOf(i), Beside: &Beside{}})
			if !all.Answer(kv.ReplicaID(j+1), reply) {
				continue
			}
			for j := range columns {
				columns[j].heard[i] = 0
			}
			if all.Term.Covers(k.key(g)) {
				base := Value{At: clock.Timestamp{Wall: 1}, Data: []byte(modelBase)}
				ruler, _ := k.drain(all.Term.Master(k.key(g), base, plain{}, k.c.gamma), g, i, 0, columns)
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
		ask = k.request(&Request{Kind: Reign, Key: k.key(g), Ballot: termOf(m), Beside: &Beside{}}, m)
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
	m.phase, m.ballot, m.sequence, m.Highest, m.left, m.Wants, m.Hold = r.phase, r.ballot, r.sequence, r.highest, r.left, slices.Clone(r.wants), r.hold
	if r.state != 0 {
		m.State = k.records[r.state].Clone()
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
	r := checkedRuler{phase: m.phase, ballot: m.ballot, sequence: m.sequence, highest: m.Highest, wants: slices.Clone(m.Wants), hold: m.Hold, next: next}
	if m.phase == ruling {
		r.left = m.left
	} else {
		r.sequence = 0
	}
	if m.State != nil {
		r.state = k.record(m.State)
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
	if len(m.Wants) > 0 && m.phase == resting {
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
	promised := r.Promised.Later(k.terms[record])
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
	m.Hold = r.next+1 < len(of.wants)
	m.Want(o, w.prevent)
	m.Open()
	var learned []Learned
	gr.masters[i], learned = k.drain(m, g, i, r.next+1, gr.columns[:k.c.n])
	k.says(s, g, i, learned)
}
