package fastpaxos

import (
	"slices"

	"github.com/google/btree"

	"meridian/clock"
	"meridian/core"
	"meridian/keys"
)

// Acceptor is one replica's part of all records of a range, in one generation. It is a core (package core): requests come in, and replies
// come out once what they promise is durable (fastpaxos.FP1). Rejections are promises too: a recovery that did not find one could accept what
// was reported as aborted.
type Acceptor struct {
	quorums Quorums
	cols    Columns
	records map[string]*Record
	// stored are records as the delta had them when the acceptor was made, which were not asked for yet.
	stored map[string]*Record
	order  *btree.BTreeG[string] // the keys of records, and of stored
	// looked are rows of the base that were read here a moment ago, of records that are not loaded.
	looked map[string]Value
	// gap is a part of the range in which the base had no row a moment ago.
	gap gap
	// floor is at or above all that was read, written or rejected in earlier generations, under whichever protocol; or a record that was the base's
	// again, and was dropped, had it.
	floor clock.Timestamp
	// generation is that of the range; zero: it is not compared.
	generation uint64
	// term is the latest ballot that was promised for all records in this generation (fastpaxos.FP90). A record is not written because of it. crowded says that the range needs a
	// new generation, because terms are not of use any more in this one (fastpaxos.FP95).
	term    Ballot
	before  Ballot // the term before that
	crowded bool
	// bare says that the base has nothing next to any row; left is where Tend has yet to look for records that it has, and sides are those that it has found, by names, nil if there are too many.
	bare  bool
	sides map[uint64]struct{}
	left  keys.Span
	// size is about how many bytes the delta has.
	size int64
	// low is at or above all promises that earlier processes of the node have made to readers, marks has those of this one. from is from when on earlier states are known, of records that are dropped too
	// (fastpaxos.FP62), and eras counts these.
	// reads gives at or below which timestamps transactions read, nil if that is not known.
	reads     func(now clock.Timestamp) clock.Timestamp
	low, from clock.Timestamp
	marks     *Marks
	eras      int64
	// settled is the floor with which the generation has begun: nothing is accepted at or below it. retained is what this replica knew of the past in earlier generations, oldest first, and need is how many answers about them are
	// a classic quorum of each (generations.go).
	settled  clock.Timestamp
	retained []*retained
	need     int
	// fresh are records whose version the base may lack; tended is where Tend goes on.
	fresh  map[string]bool
	tended string
	// leads says that the replica is the leaseholder; overdue is what the last Tend has found.
	leads   bool
	overdue []overdueItem
	// lagging are the records that this replica knows to be behind (lags), as of when Tend came to each.
	lagging map[string]bool
	// news is where others are told of what is heard here, nil if they are not.
	news *rangeNews
	// caught counts how often the base was found to be as new as other replicas have told (fastpaxos.FP86).
	caught uint64
	fx     Effects
	// writes are the last that were given as effects, whose changes are spare with the next ones.
	writes  []Write
	spare   [][]change
	last    core.Ticket // of the latest Persist
	durable core.Ticket
	// held are replies that wait for Persists of earlier effects.
	held []heldReply
}

type heldReply struct {
	after core.Ticket
	m     Message
}

// NewAcceptor makes an acceptor that has the given records of its generation. last is the latest ticket of what may not be durable yet of them.
func NewAcceptor(q Quorums, cols Columns, records []Write, last core.Ticket) *Acceptor {
	a := &Acceptor{quorums: q, cols: cols, records: map[string]*Record{}, stored: map[string]*Record{}, fresh: map[string]bool{}, looked: map[string]Value{}, lagging: map[string]bool{}, marks: &Marks{},
		order: btree.NewOrderedG[string](32), last: last}
	for _, w := range records {
		a.keep(w.Key, w.Record, &kept{})
	}
	return a
}

func (a *Acceptor) keep(k keys.Key, r *Record, by *kept) {
	by.spare, by.total = &a.spare, &a.eras
	r.kept = by
	name := string(k)
	a.records[name] = r
	a.order.ReplaceOrInsert(name)
	a.freshen(k, r)
}

func (a *Acceptor) freshen(k keys.Key, r *Record) {
	if r.kept.base.Less(r.Base.At) && !a.fresh[string(k)] {
		a.fresh[string(k)] = true
	}
}

// Restore tells what the delta has: what the acceptor wrote before it was stopped. It comes before the first request.
func (a *Acceptor) Restore(delta []Write) {
	for _, w := range delta {
		if w.Key == nil {
			if a.floor = a.floor.Forward(w.Record.Floor); a.term.Less(w.Record.Promised) {
				a.term, a.before = w.Record.Promised, w.Record.Accepted
			}
			continue
		}
		a.stored[string(w.Key)] = w.Record
		a.order.ReplaceOrInsert(string(w.Key))
		a.size += w.Record.size()
	}
}

// Knows reports whether the acceptor knows the record. If not, Load comes before its first request.
func (a *Acceptor) Knows(k keys.Key) bool { return a.records[string(k)] != nil }

// Load tells what the base of the range has of a record. Options of earlier generations that it does not know are past (fastpaxos.FP9).
func (a *Acceptor) Load(k keys.Key, base *Record) {
	if !a.Knows(k) {
		own := base.Clone()
		own.kept = base.kept
		a.load(k, own)
	}
}

// load is Load of a record that is not known, for callers that don't keep base.
func (a *Acceptor) load(k keys.Key, base *Record) {
	r, by := a.onBase(k, base)
	delete(a.stored, string(k))
	a.keep(k, r, by)
}

// onBase is a record that was not loaded: what the delta has of it, on the base, which becomes a part of it.
func (a *Acceptor) onBase(k keys.Key, base *Record) (*Record, *kept) {
	by := &kept{base: base.Base.At, side: !base.Default(), caught: a.caught}
	if base.kept != nil {
		by.lost = base.kept.lost
	}
	r := base
	if was := a.stored[string(k)]; was != nil {
		r = was.Clone()
		by.whole, by.floor = true, a.floor
		by.head = was.headSize(by)
		if was.kept != nil {
			by.within = was.kept.within
		}
		r.learn(&Record{Base: base.Base})
		r.kept = by
		r.noteAll(was)
	}
	by.floor = a.floor
	r.Floor = r.Floor.Forward(a.floor)
	return r, by
}

// Step takes in a request. A record that leaves the acceptor in a reply is a copy.
func (a *Acceptor) Step(_ clock.Timestamp, m Message) {
	q := m.Request
	r := a.records[string(q.Key)]
	reply := &Reply{}
	// A promise has to be durable; what has been learned may be learned again.
	promise := true
	quiet := false // what was learned is written with the next change of the record (fastpaxos.FP72)
	kind := q.Kind
	if (kind == Prepare || kind == Dictate || kind == Reign) && q.Generation != a.generation && a.generation != 0 {
		kind = Query
	}
	promised := r.Promised.later(a.term)
	base, had := r.Base.At, a.news != nil && (kind == End || kind == Show) && r.vote(q.Option.Name) != nil
	var votes []Vote
	if a.news != nil && kind == Dictate {
		votes = slices.Clone(r.Votes)
	}
	switch kind {
	case Query:
		promise = false
	case Propose:
		m := a.mark(q.Key, r)
		reply.Verdict, reply.Outcome = r.propose(&q.Option, a.cols, a.quorums, m, promised)
		if reply.Verdict == Rejected {
			reply.Blocker = r.blocker(&q.Option)
			if m.bars(&q.Option) {
				reply.Mark = m.At
			}
		}
	case Prepare:
		if promised.Less(q.Ballot) {
			r.Promised = q.Ballot
			r.noteHead()
		}
	case Dictate:
		r.dictated(q, promised)
	case Reign:
		reply.Reigned = a.reign(q)
	case End:
		if out := r.Outcome(q.Option.Name); out == Undecided || out == Past && q.Committed {
			r.end(&q.Option, q.Committed)
			// Somebody who asks will be told; and a transaction's record may go when a quorum has answered.
			promise = len(q.Option.Keys) > 1 || q.Option.Anchor != nil
		} else {
			promise = r.endShown(q.Option.Name) && (len(q.Option.Keys) > 1 || q.Option.Anchor != nil)
			if len(q.Option.Keys) == 0 {
				r.heard(q.Option.Name)
			}
		}
	case Show:
		if out := r.Outcome(q.Option.Name); out == Undecided {
			r.end(&q.Option, q.Committed)
			r.kept.shown = append(r.kept.shown, q.Option.Name)
		}
		promise, quiet = false, true
	case Forget:
		r.heard(q.Option.Name)
		promise = false
	}
	if a.news != nil {
		a.news.stepped(kind, q, r, base, votes, had)
	}
	if !quiet {
		a.persist(q.Key, r, promise)
	}
	reply.Promised, reply.Ballot, reply.Sequence = r.Promised.later(a.term), r.Accepted, r.Sequence
	if q.Kind == Reign {
		reply.Promised = a.term
	}
	reply.Term = reply.Promised == a.term && !a.term.Default()
	if q.Kind == Query || q.Kind == Prepare || q.Kind == Dictate && q.Ballot.Less(reply.Promised) {
		reply.Record = r.Clone()
		reply.Record.Mark = a.mark(q.Key, r)
	}
	// Others may rely on the reply, so the promises that it reports are durable, whichever request made them.
	out := Message{ID: m.ID, Reply: reply}
	switch {
	case a.fx.Ticket != 0:
		a.fx.After = append(a.fx.After, out)
	case a.durable < a.last:
		a.held = append(a.held, heldReply{a.last, out})
	default:
		a.fx.Send = append(a.fx.Send, out)
	}
}

// spareMost bounds what is kept of lists of changes.
const spareMost = 64

// persist has what was changed in a record written. Without a promise it may be lost if the replica crashes; then all that was written later is, too.
func (a *Acceptor) persist(k keys.Key, r *Record, promise bool) {
	changes := r.kept.take(r)
	if len(changes) == 0 {
		return
	}
	for i := range changes {
		a.size += int64(changes[i].grows)
	}
	a.freshen(k, r)
	if promise && a.fx.Ticket == 0 {
		a.last++
		a.fx.Ticket = a.last
	}
	if len(a.fx.Persist) == 0 {
		for i := range a.writes {
			if c := a.writes[i].changes; c != nil && len(a.spare) < spareMost {
				a.spare = append(a.spare, c[:0])
			}
		}
		clear(a.writes)
		a.fx.Persist = a.writes[:0]
	}
	a.fx.Persist = append(a.fx.Persist, Write{k, r, changes})
	a.writes = a.fx.Persist
}

// Tick does nothing: an acceptor does not know time.
func (a *Acceptor) Tick(clock.Timestamp) {}

// Durable says that every Persist up to a ticket is on disk.
func (a *Acceptor) Durable(upTo core.Ticket) {
	a.durable = upTo
	n := 0
	for ; n < len(a.held) && a.held[n].after <= upTo; n++ {
		a.fx.Send = append(a.fx.Send, a.held[n].m)
	}
	a.held = slices.Delete(a.held, 0, n)
}

// Effects drains what must happen now.
func (a *Acceptor) Effects() Effects {
	fx := a.fx
	a.fx = Effects{}
	return fx
}
