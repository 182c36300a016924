package core

import "fmt"

// The exhaustive check: what a gateway would say in a state, and what has to hold in each.

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
		if committed := Finished(all); out[name] == Undecided || committed != (out[name] == Accepted) {
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
