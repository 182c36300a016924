package core

import "slices"

// endShown reports whether a transaction's outcome was shown only, and has it written, or written again.
func (r *Record) endShown(n Name) bool {
	i := slices.Index(r.kept.shown, n)
	if i < 0 {
		return false
	}
	if r.kept.shown = slices.Delete(r.kept.shown, i, i+1); len(r.kept.shown) == 0 {
		r.kept.shown = nil
	}
	if !slices.ContainsFunc(r.kept.changes, func(c change) bool { return c.part == partEnded && c.name == n }) {
		r.note(partEnded, n, 0)
	}
	return true
}

// propose votes about an option, if anyone may add options in the present ballot (algorithm 3, Phase2bFast).
func (r *Record) propose(o *Option, cols Columns, q Quorums, m Mark, promised Ballot) (v, outcome Verdict) {
	if outcome = r.Outcome(o.Name); outcome != Undecided {
		return Undecided, outcome
	}
	if known := r.Vote(o.Name); known != nil {
		return known.Verdict, Undecided
	}
	if promised != r.Accepted || !r.Accepted.Open() {
		return Undecided, Undecided // a master has it, or is about to
	}
	if v = r.judge(o, cols, q, false); m.bars(o) {
		v = Rejected // fastpaxos.FP60
	}
	r.Votes = append(r.Votes, Vote{Option: *o, Verdict: v})
	r.note(partVote, o.Name, r.Votes[len(r.Votes)-1].size())
	return v, Undecided
}

// blocker is an accepted option because of which o is rejected, nil if there is none.
func (r *Record) blocker(o *Option) *Option {
	for i := range r.Votes {
		if v := &r.Votes[i]; v.Verdict == Accepted && v.Name != o.Name && !(v.Commutes() && o.Commutes()) {
			return &Option{Name: v.Name, Keys: v.Keys, Anchor: v.Anchor}
		}
	}
	return nil
}

// dictated takes over the state that a master proposes (algorithm 3, Phase2bClassic). It keeps all that this acceptor knows of outcomes.
func (r *Record) dictated(q *Request, promised Ballot) {
	if q.Ballot.Less(promised) || q.Ballot == r.Accepted && q.Sequence <= r.Sequence {
		return
	}
	mine := *r
	*r = *q.State.Clone()
	r.Promised, r.Accepted, r.Sequence = q.Ballot, q.Ballot, q.Sequence
	r.Learn(&mine)
	r.Mark = r.Mark.join(mine.Mark)
	if r.kept = mine.kept; mine.Base.At.Less(r.Base.At) && r.kept != nil {
		now := r.Base.At
		mine.keepEra(now, !mine.accepted(func(o *Vote) bool { return o.At.Less(now) }))
	}
	r.noteAll(&mine)
}

// Learn takes over what another state of the same record has that is final: versions and outcomes.
func (r *Record) Learn(o *Record) {
	r.raise(o.Floor)
	if r.Base.At.Less(o.Base.At) {
		r.Rebase(o.Base, false)
	}
	for _, a := range o.Added {
		if r.Vote(a.Name) != nil {
			r.End(&a.Option, true)
		} else {
			r.Execute(Addition{Option: a.Option, Fixed: a.Fixed})
		}
	}
	for _, e := range o.Recent {
		r.Remember(e)
	}
	r.sweep()
}

// sweep takes options whose outcome is known out of the votes.
func (r *Record) sweep() {
	for i := 0; i < len(r.Votes); {
		v := r.Votes[i]
		switch out := r.Outcome(v.Name); {
		case out == Accepted || out == Rejected:
			r.End(&v.Option, out == Accepted)
		case v.Verdict == Accepted && v.At == r.Base.At && v.Anchor == nil:
			// It is the version, which was found in the base. A recovery by those that have heard no more must not decide against it.
			r.End(&v.Option, true)
		case v.At.LessEq(r.Base.At):
			// All options of its transaction have ended, or a quorum that has accepted the version knows its outcome, or its record does.
			r.dropVote(i)
		default:
			i++
		}
	}
}
