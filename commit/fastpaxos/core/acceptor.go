package core

import (
	"iter"
	"maps"
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
	overdue []Overdue
	// lagging are the records that this replica knows to be behind (lags), as of when Tend came to each.
	lagging map[string]bool
	// listener hears of all steps, nil if nobody does.
	listener Listener
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

// Listener hears what an acceptor was told.
type Listener interface {
	// Stepped comes after a step: r is the record as it is now, base is when its version was from, and votes are its votes before a Dictate. had says whether an option that has ended had a vote.
	Stepped(kind Kind, q *Request, r *Record, base clock.Timestamp, votes []Vote, had bool)
}

// Beginning is what an acceptor is told of its generation, before it is restored.
type Beginning struct {
	Generation uint64
	// Floor is at or above all that was read, written or rejected in earlier generations, and StartedAt is after all that earlier processes of the node have promised.
	Floor, StartedAt clock.Timestamp
	// Reads gives at or below which timestamps transactions read, nil if that is not known.
	Reads func(now clock.Timestamp) clock.Timestamp
	// Marks are the promises of the node's replicas.
	Marks *Marks
	// Listener hears of all steps; it may be nil.
	Listener Listener
}

// NewAcceptor makes an acceptor that has the given records of its generation. last is the latest ticket of what may not be durable yet of them.
func NewAcceptor(q Quorums, cols Columns, records []Write, last core.Ticket) *Acceptor {
	a := &Acceptor{quorums: q, cols: cols, records: map[string]*Record{}, stored: map[string]*Record{}, fresh: map[string]bool{}, lagging: map[string]bool{}, marks: &Marks{},
		order: btree.NewOrderedG[string](32), last: last}
	for _, w := range records {
		a.keep(w.Key, w.Record, &kept{})
	}
	return a
}

// Begin tells the acceptor of its generation.
func (a *Acceptor) Begin(b Beginning) {
	a.generation, a.floor, a.settled = b.Generation, b.Floor, b.Floor
	a.low, a.from = b.StartedAt, b.StartedAt.Forward(b.Floor)
	a.reads, a.marks, a.listener = b.Reads, b.Marks, b.Listener
}

// Columns is what the acceptor knows of the form of rows.
func (a *Acceptor) Columns() Columns { return a.cols }

// Record is a record that was loaded, nil if it was not.
func (a *Acceptor) Record(k keys.Key) *Record { return a.records[string(k)] }

// Records are those that are loaded, in no order.
func (a *Acceptor) Records() iter.Seq2[string, *Record] { return maps.All(a.records) }

// Terms are the latest ballot that was promised for all records, and the one before.
func (a *Acceptor) Terms() (term, before Ballot) { return a.term, a.before }

// Floor is at or above all that was read, written or rejected in earlier generations, and what was forgotten in this one.
func (a *Acceptor) Floor() clock.Timestamp { return a.floor }

// Has reports whether the acceptor, or its delta, has something of a record.
func (a *Acceptor) Has(k keys.Key) bool {
	return a.records[string(k)] != nil || a.stored[string(k)] != nil
}

// Stores reports whether the delta has parts of a record that was not loaded.
func (a *Acceptor) Stores(k keys.Key) bool { return a.stored[string(k)] != nil }

// Each gives all records of the acceptor and its delta, in the order of keys, each with the version that the base is known to have.
func (a *Acceptor) Each(f func(k keys.Key, r *Record, base clock.Timestamp)) {
	a.order.Ascend(func(k string) bool {
		if r := a.records[k]; r != nil {
			f(keys.Key(k), r, r.kept.base)
		} else if r = a.stored[k]; r != nil {
			f(keys.Key(k), r, clock.Timestamp{})
		}
		return true
	})
}

// Overlay puts the records of a span that the acceptor has into out. base gives the row of one that was not loaded.
func (a *Acceptor) Overlay(span keys.Span, base func(k keys.Key) (*Record, error), out map[string]*Record) (err error) {
	a.order.AscendRange(string(span.Start), string(span.End), func(k string) bool {
		if out[k] = a.records[k]; out[k] != nil {
			return true
		}
		var r *Record
		if r, err = base(keys.Key(k)); err == nil { // the delta's parts take the place of what is next to the row
			out[k] = a.Over(keys.Key(k), r)
		}
		return err == nil
	})
	return err
}

// Expect has Tend look at a record that nobody has asked for.
func (a *Acceptor) Expect(k keys.Key) { a.order.ReplaceOrInsert(string(k)) }

// Size is about how many bytes the delta has.
func (a *Acceptor) Size() int64 { return a.size }

// Crowded reports whether the range needs a new generation (fastpaxos.FP95).
func (a *Acceptor) Crowded() bool { return a.crowded }

// CaughtUp notes that the base has become as new as other replicas have told (fastpaxos.FP86).
func (a *Acceptor) CaughtUp() { a.caught++ }

// Unsure reports whether a record was loaded before the base was found to be as new as that.
func (a *Acceptor) Unsure(r *Record) bool { return r.kept != nil && r.kept.caught != a.caught }

// Renew has a record take over the base's version, if it lacks that.
func (a *Acceptor) Renew(k keys.Key, r *Record, base Value) {
	if r.kept.caught = a.caught; r.kept.base.Less(base.At) {
		r.kept.base = base.At
		r.noteHead()
		r.Learn(&Record{Base: base})
		a.persist(k, r, false)
	}
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
		a.Take(k, own)
	}
}

// Take is Load of a record that is not known, for callers that don't keep base.
func (a *Acceptor) Take(k keys.Key, base *Record) {
	r, by := a.onBase(k, base)
	delete(a.stored, string(k))
	a.keep(k, r, by)
}

// Over is a record that was not loaded: what the delta has of it, on the base, which becomes a part of it.
func (a *Acceptor) Over(k keys.Key, base *Record) *Record {
	r, _ := a.onBase(k, base)
	return r
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
		r.Learn(&Record{Base: base.Base})
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
	promised := r.Promised.Later(a.term)
	base, had := r.Base.At, a.listener != nil && (kind == End || kind == Show) && r.Vote(q.Option.Name) != nil
	var votes []Vote
	if a.listener != nil && kind == Dictate {
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
			r.End(&q.Option, q.Committed)
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
			r.End(&q.Option, q.Committed)
			r.kept.shown = append(r.kept.shown, q.Option.Name)
		}
		promise, quiet = false, true
	case Forget:
		r.heard(q.Option.Name)
		promise = false
	}
	if a.listener != nil {
		a.listener.Stepped(kind, q, r, base, votes, had)
	}
	if !quiet {
		a.persist(q.Key, r, promise)
	}
	reply.Promised, reply.Ballot, reply.Sequence = r.Promised.Later(a.term), r.Accepted, r.Sequence
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

// reign promises a term (fastpaxos.FP90), and says what its master has to know.
func (a *Acceptor) reign(q *Request) *Reigned {
	if q.Renew {
		a.crowded = true
		return nil
	}
	if q.Ballot.Less(a.term) || q.Beside == nil {
		return nil
	}
	names := slices.Clone(q.Beside.Apart)
	for k, r := range a.records {
		if r.apart(a.floor) {
			names = append(names, NameOf(k))
		}
	}
	for k := range a.stored {
		names = append(names, NameOf(k))
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > ApartMost {
		a.crowded = true
		return &Reigned{Many: true}
	}
	if a.term.Less(q.Ballot) {
		a.before, a.term = a.term, q.Ballot
		if a.fx.Ticket == 0 {
			a.last++
			a.fx.Ticket = a.last
		}
		a.fx.Persist = append(a.fx.Persist, Write{Record: &Record{Promised: a.term, Accepted: a.before}})
	}
	return &Reigned{Apart: names, Applied: q.Beside.Applied, Floor: a.floor, Mark: a.low.Forward(a.marks.latest()), Earlier: !a.before.Default()}
}
