package core

import (
	"slices"
	"sync"
	"time"

	"github.com/google/btree"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// Reads at a timestamp of an earlier generation: what an acceptor knew of the past when its generation ended stays at the node, and the acceptor that takes its place answers from there.
//
//	generation     3            |  4               |  5
//	             -----x---------|------------------|-------------> time
//	                  t      floor of 4         floor of 5
//	a reader at t, now:  the acceptor of 5, then what that of 4 has left, then that of 3, then the base
//
//	fastpaxos.FP96 (I3): At or below the floor of its generation an acceptor accepts nothing, whatever anybody promised, and nor does any other of the generation (fastpaxos.FP9). So a read there needs no promise, and no master is
//	    asked for one: it needs a classic quorum, and the outcomes of the options that the generation has begun with.
//	fastpaxos.FP97 (I3): Of a row that was replaced since, an acceptor answers with what it knew in the last generation in which it knew something of it, and with what the base has of that time. A quorum of such answers has the version of the
//	    timestamp: the next one was made for it, and a quorum has accepted that in some generation, each of them in the state with that version (Record.judge), which it has kept since (era), or says that it has not. The answers are
//	    of replicas that had a vote, without interruption, since the generation of the timestamp (Generations.Resume), and of so many that they are a classic quorum of each generation since (Acceptor.need). Of a replica that has heard of nothing, the answer is as
//	    that of one that was not asked.

// retained is what an acceptor knew of the past when its generation ended. Nobody changes it any more.
type retained struct {
	records map[string]*Record
	order   *btree.BTreeG[string]
	// until is the floor of the next generation: reads at or above it need nothing of this.
	until clock.Timestamp
	// eras counts the states that it keeps.
	eras int64
}

// Generations are those of a node's replicas: the ends of some, each until the next one has begun. They are in memory: after a restart readers of the past ask other replicas.
type Generations struct {
	mu sync.Mutex // guards all; nothing is taken after it
	of map[kv.RangeID]*generationEnd
	// made are the latest generations for which an acceptor was made in this process.
	made map[kv.RangeID]uint64
}

// generationEnd is the end of a range's generation at one replica.
type generationEnd struct {
	span       keys.Span
	generation uint64
	from       clock.Timestamp
	need       int
	// last is of the generation that has ended; earlier are of generations before.
	last    retained
	earlier []*retained
	// at is when it was kept, on the monotonic clock.
	at time.Duration
	// taken are the ranges whose acceptor has gone on from here, or could not: an acceptor that is made a second time has lost what the first one knew.
	taken map[kv.RangeID]bool
}

// endFor bounds how long the end of a generation is kept for the next one. Chosen by us: longer than a change of a range takes.
const endFor = time.Minute

// Keep keeps what an acceptor knows when its generation has ended.
func (e *Generations) Keep(d *kv.RangeDescriptor, now time.Duration, generation uint64, a *Acceptor) {
	if d.Generation != generation || len(a.stored) > 0 {
		return // what it had before the node was started was not looked at yet
	}
	e.Expire(now)
	e.mu.Lock()
	defer e.mu.Unlock()
	if x := e.of[d.ID]; x != nil && x.generation == generation {
		return // a core that was made after the end knows less
	}
	if e.of == nil {
		e.of = map[kv.RangeID]*generationEnd{}
	}
	e.of[d.ID] = &generationEnd{span: d.Span(), generation: generation, from: a.from, need: max(a.need, a.quorums.Least),
		last: retained{records: a.records, order: a.order, eras: a.eras}, earlier: a.retained, at: now, taken: map[kv.RangeID]bool{}}
}

// Expire drops the ends that no generation came after here.
func (e *Generations) Expire(now time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, x := range e.of {
		if x.at+endFor < now {
			delete(e.of, id)
		}
	}
}

// Empty reports whether no generation has ended here lately.
func (e *Generations) Empty() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.of) == 0
}

// Forget is told that a replica is gone.
func (e *Generations) Forget(id kv.RangeID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.made, id)
}

// Begin is Resume for a replica. An acceptor that is made for a generation a second time has lost what the first one knew of the past.
func (e *Generations) Begin(d *kv.RangeDescriptor, self kv.ReplicaDescriptor, generation uint64, now func() clock.Timestamp, a *Acceptor) {
	e.mu.Lock()
	again := e.made[d.ID] == generation
	if e.made == nil {
		e.made = map[kv.RangeID]uint64{}
	}
	e.made[d.ID] = generation
	e.mu.Unlock()
	if again {
		a.from = a.from.Forward(now())
		return
	}
	e.Resume(d, self, generation, a)
}

// Resume has the acceptor of a new generation go on with what the one of the generation before has known, of the same range, or of that which it was split from, if the replica has a vote in it, and its quorums are large enough (fastpaxos.FP97).
func (e *Generations) Resume(d *kv.RangeDescriptor, self kv.ReplicaDescriptor, generation uint64, a *Acceptor) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.of[d.ID]
	if x == nil || x.generation+1 != generation {
		x = nil
		for _, other := range e.of {
			if other.generation+1 == generation && other.span.ContainsSpan(d.Span()) {
				x = other
			}
		}
	}
	if x == nil || x.taken[d.ID] {
		return
	}
	x.taken[d.ID] = true
	if d.Generation != generation || !x.span.ContainsSpan(d.Span()) || !self.Type.Votes() || a.quorums.Classic < x.need {
		return
	}
	last := x.last
	last.until = a.settled
	a.from, a.need = x.from, x.need
	for _, l := range x.earlier {
		if a.from.Less(l.until) {
			a.retained = append(a.retained, l)
		}
	}
	a.retained = append(a.retained, &last)
}

// dropRetained drops what no reader needs any more.
func (a *Acceptor) dropRetained() {
	n := 0
	for n < len(a.retained) && a.retained[n].until.LessEq(a.from) {
		n++
	}
	if a.retained = a.retained[n:]; len(a.retained) == 0 {
		a.retained, a.need = nil, 0
	}
}

// retainedStates is how many states of earlier generations are kept.
func (a *Acceptor) retainedStates() (n int64) {
	for _, l := range a.retained {
		n += l.eras
	}
	return n
}

// isSettled reports whether nothing is accepted at or below a timestamp in this generation, because it has begun later (fastpaxos.FP96).
func (a *Acceptor) isSettled(t clock.Timestamp) bool { return t.LessEq(a.settled) }

// settledPast is a row at such a timestamp (fastpaxos.FP97). r is the record, nil if there is none besides the row.
func (a *Acceptor) settledPast(src Source, k keys.Key, r *Record, q *Look) (out PastRow, newer clock.Timestamp, err error) {
	// look has an answer of a state, if that goes back so far, or says that it does not know, though it should.
	look := func(r *Record) (done bool) {
		p, n := r.past(k, q, Ballot{})
		newer = newer.Forward(n)
		switch {
		case !p.Old:
			p.Busy = false
			out = p
			return true
		case r.kept != nil && q.At.Less(r.kept.lost):
			out = PastRow{Key: k, Old: true}
			return true
		}
		return false
	}
	if r != nil && look(r) {
		return out, newer, nil
	}
	first, err := src.First(k)
	if err != nil || first != nil && look(first) {
		return out, newer, err
	}
	out = PastRow{Key: k}
	for i := len(a.retained) - 1; i >= 0 && q.At.Less(a.retained[i].until); i-- {
		if r := a.retained[i].records[string(k)]; r != nil && look(r) {
			break
		}
	}
	if out.Old {
		return out, newer, nil
	}
	v, err := src.Seen(k, q.At)
	if err == nil && out.Record.Base.At.Less(v.At) {
		out.Record.Rebase(v, false)
	}
	if slices.ContainsFunc(out.Record.Votes, func(v Vote) bool { return out.Record.Base.At.Less(v.At) }) {
		// A fold has decided about these, and nobody need remember how.
		out = PastRow{Key: k, Old: true}
	}
	out.Record.Votes = nil
	return out, newer, err
}

// retainedIn adds the keys of a span of which an earlier generation has left something that a read at a timestamp may need.
func (a *Acceptor) retainedIn(span keys.Span, t clock.Timestamp, add func(k string)) {
	for i := len(a.retained) - 1; i >= 0 && t.Less(a.retained[i].until); i-- {
		a.retained[i].order.AscendRange(string(span.Start), string(span.End), func(k string) bool {
			add(k)
			return true
		})
	}
}
