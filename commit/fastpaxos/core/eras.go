package core

import (
	"slices"

	"meridian/clock"
	"meridian/keys"
)

// era is an earlier state of a record: a version, and what was added to it, until the next version.
type era struct {
	base  Value
	added []Addition
	until clock.Timestamp
}

// eraMost bounds the earlier states that are kept of a record. Chosen by us.
const eraMost = 1 << 13

// keepEra remembers the state that a later version takes the place of, in memory: after a restart readers of the past ask other replicas. complete says that
// no option that was accepted here is missing in it.
func (r *Record) keepEra(until clock.Timestamp, complete bool) {
	by := r.kept
	switch {
	case by == nil:
		return
	case !complete:
		by.loseEras(len(by.eras))
		by.lost = by.lost.Forward(until)
		return
	}
	by.eras = append(by.eras, era{r.Base, slices.Clone(r.Added), until})
	if by.total != nil {
		*by.total++
	}
	if len(by.eras) > eraMost {
		by.loseEras(eraMost / 2)
	}
}

// loseEras forgets the first of the states.
func (by *kept) loseEras(n int) {
	if n == 0 {
		return
	}
	by.lost = by.lost.Forward(by.eras[n-1].until)
	if by.total != nil {
		*by.total -= int64(n)
	}
	by.eras = slices.Delete(by.eras, 0, n)
}

// Lose says that states of a record that is not an acceptor's yet, which ended up to a version, are not known.
func (r *Record) Lose(upTo clock.Timestamp) { r.kept = &kept{lost: upTo} }

// dropEras forgets states that ended up to a timestamp.
func (r *Record) dropEras(upTo clock.Timestamp) {
	n := 0
	for n < len(r.kept.eras) && r.kept.eras[n].until.LessEq(upTo) {
		n++
	}
	r.kept.loseEras(n)
}

// PastRow is what a replica knows of a row at a timestamp.
type PastRow struct {
	Key keys.Key
	// Record has the version and the updates up to the timestamp, and as Votes the accepted options up to it whose transactions have not ended here.
	Record Record
	// Old says that the version of that time is not known here any more.
	Old bool
	// Busy says that a master has the record: the promise does not bind it.
	Busy bool
}

// busy reports whether a master has the record that does not know of a promise to a reader. term is what the acceptor has promised for all records.
func (r *Record) busy(q *Look, term Ballot) bool {
	promised := r.Promised
	if q.termed(term) {
		promised = promised.Later(term)
	}
	return promised != r.Accepted || !r.Accepted.Open() && r.Accepted != q.Term
}

// termed reports whether an acceptor has promised a term whose master has not made the reader's promise (fastpaxos.FP94).
func (q *Look) termed(term Ballot) bool { return q.Term.Less(term) }

// LookIn is what a replica is asked in a generation. A term of another one is none.
func (q *Request) LookIn(generation uint64) *Look {
	if q.Look.Term.Default() || q.Generation == generation {
		return q.Look
	}
	l := *q.Look
	l.Term = Ballot{}
	return &l
}

// past is the record at a timestamp. newer is the latest that was written, or may have been, in (at, limit].
func (r *Record) past(k keys.Key, q *Look, term Ballot) (out PastRow, newer clock.Timestamp) {
	out = PastRow{Key: k, Busy: r.busy(q, term)}
	note := func(t clock.Timestamp) bool {
		if q.At.Less(t) && t.LessEq(q.Limit) {
			newer = newer.Forward(t)
		}
		return t.LessEq(q.At)
	}
	base, added := r.Base, r.Added
	if !note(r.Base.At) {
		out.Old = true
		if r.kept != nil {
			for _, e := range slices.Backward(r.kept.eras) {
				if note(e.base.At) && q.At.Less(e.until) {
					base, added, out.Old = e.base, e.added, false
					break
				}
			}
		}
	}
	if !out.Old {
		out.Record.Base = base
	}
	for i := range added {
		if note(added[i].At) {
			out.Record.Added = append(out.Record.Added, added[i])
		}
	}
	for i := range r.Votes {
		if v := &r.Votes[i]; v.Verdict == Accepted && v.Txn != q.By && note(v.At) {
			out.Record.Votes = append(out.Record.Votes, *v)
		}
	}
	return out, newer
}
