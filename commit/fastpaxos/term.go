package fastpaxos

import (
	"hash/fnv"
	"slices"
	"sync"
	"sync/atomic"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// # Terms
//
// A master needs two rounds for a record that it has not decided about before: Prepare and Dictate. A gateway that decides about all writes of a range asks for the first of them once, for all
// records of the range (Reign). Its ballot is a term; with classic ballots the gateway at the range's leaseholder takes one (policy.go). It is Multi-Paxos over records, with a promise that is not stored per record:
//
//	gateway    --- Reign T --------------> all voters          one round, once in a generation
//	           <-- apart, applied, floor --                    from a classic quorum
//	           --- Read (base) ----------> the nearest one     within the region
//	           --- Dictate T, 1: state --> all voters          one round: the first option of a record is decided
//
// The rules, and why they keep what a Prepare of each record keeps. T is a term, Q the classic quorum that has answered its Reign, and k a record.
//
//	fastpaxos.FP90 (I1): An acceptor that has promised T has promised it for each record of its range, whether it knows the record or not: what it has promised about k is the later one of T and k's own
//	    ballot. The term is durable before the answer leaves, under a name of its own in the delta, and ends with the generation, whose last state does not depend on promises (fastpaxos.FP9). A record that has
//	    promised a later ballot keeps it.
//	fastpaxos.FP91 (I1): The answer names each record that is not just as the replica's base has it (Record.apart): with votes, updates, outcomes, a ballot of its own, a floor above that of all
//	    records, a version that the base lacks, or a protocol key next to its row. It is about the moment of the answer, and later ones of the same term are as good: until Q has answered, T's master has sent nothing. A record
//	    that no answer of Q names may be dictated in T. All others have a master by Prepare, with a later ballot, as without terms.
//	    For such a k all of Q would have answered to a Prepare in T: no ballot, no votes, no outcomes, and a version. So no option about k was learned in an earlier ballot that is not part of that version, or past by a
//	    floor (Q has an acceptor in common with each quorum that could have learned it, fastpaxos.FP2), none can be learned in one later, and what ProvedSafe gives is the latest of these versions, without any vote.
//	fastpaxos.FP92 (I1, I4): The state in which T begins for k has the version that the base of some replica has, once that has applied the range's log up to the largest index of Q's answers (Reigned.Applied, which is read after the
//	    records, and before the row). Each version in an answer of Q was in a base, so it is in the log up to there (fastpaxos.FP42). A later version in that base is final too. The state's floor is the highest of the answers, since what is at or
//	    below an acceptor's floor is past there (fastpaxos.FP41), and its Mark is at or above all that the answering nodes have promised to readers (fastpaxos.FP60).
//	fastpaxos.FP93 (I1): A gateway begins with k in T at most once, and no two gateways have the same T. So there is one sequence of states of k in T. A gateway remembers the names of the
//	    records with which it has begun, for as long as it uses T; when these are too many, or if it has forgotten them with all else, as after a restart, it takes another term. A name is a hash: two records with the same one are
//	    treated as if each was the other, which costs a round.
//	fastpaxos.FP94 (I3): A scan at a timestamp t has to know that nothing at or below t comes to be in its span afterwards, also in records that it does
//	    not find. Marks of acceptors bar what comes by fast ballots, and what comes by later ballots and terms: their masters hear of the marks with
//	    Prepare and Reign. Marks do not bar T's master, which has asked before. So that master promises t for the span itself (AskKind MarkSpan).
//	    The promise is in memory: a master that forgets it has forgotten T as well. From then on it decides against what is at or below t.
//	    A state of T may have been dictated before the promise and not be known to be at a quorum (term.open). It is made to have the mark in the
//	    ordinary way (fastpaxos.FP61), and a quorum knows it then. All other states of T are at a quorum. The reader asks the acceptors after that, so
//	    it hears of their options from one of them. Its answers count if their acceptors have promised no term later than T.
//	    An earlier term's master could spoil that: a state of it which one acceptor has taken over late is what a later master finds there. If one of
//	    Q had promised an earlier term (term.alone is false), or T's gateway is gone, scans wait for the next generation, which has none
//	    (fastpaxos.FP95). If none of Q had, an acceptor elsewhere with an earlier term does no harm: no quorum can promise that term any more. Nor does
//	    a record's own earlier master: the record is apart, and busy until a quorum has a state of a later ballot.
//	    Rows that are read by their keys are asked for in the same way. Where that is not to be had, each record's master promises (fastpaxos.FP61).
//	fastpaxos.FP95 (liveness): If there are too many records apart, or a reader can't have T's promise, the replicas are told that the range needs a new generation, and its leaseholder begins one. There no record is apart,
//	    but for those with something outstanding. Nothing relies on when that happens.

const (
	// apartMost is how many records may be apart for a term to be promised, and with how many a term begins. Chosen by us: a name has eight bytes, so an answer has half a megabyte at most.
	apartMost = 64 << 10
	// restedMost is about how many bytes the masters have that a term keeps for later, and restedSize what one has besides its record.
	restedMost, restedSize = 8 << 20, 512
)

// Reigned answers Reign (fastpaxos.FP91, fastpaxos.FP92).
type Reigned struct {
	// Apart are the names of the records that are not just as the base has them, in order.
	Apart []uint64
	// Many says that there are too many, and that the term is not promised.
	Many bool
	// Applied is up to which index the base has the range's log, or more.
	Applied uint64
	// Floor is the one of all records, and Mark is at or above all that the replica has promised to readers.
	Floor, Mark clock.Timestamp
	// Earlier says that the acceptor had promised another term in the generation.
	Earlier bool
}

// nameOf is a record's name in terms. It is not zero.
func nameOf[K ~string | ~[]byte](k K) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(k))
	return h.Sum64() | 1
}

// beside is what a replica's base has to do with a Reign: the names of records with protocol keys, and up to which index it has the range's log.
type beside struct {
	apart   []uint64
	applied uint64
}

// term is one that a gateway has.
type term struct {
	in     place
	span   keys.Span
	ballot Ballot
	quorum Quorums
	// applied, floor and mark are the highest of the answers.
	applied     uint64
	floor, mark clock.Timestamp
	// alone says that there was no other term in the generation before.
	alone bool
	// over says that there is a later one, or another generation, or that it has begun with too many records.
	over atomic.Bool
	// marks are promises to readers of spans (fastpaxos.FP94).
	marks Marks

	mu sync.Mutex // guards the fields below; marks' may be taken after it
	// spent are the names of records with which the term does not begin: those that were apart, and those with which it has begun.
	spent map[uint64]bool
	begun int
	// open are records of which a state of the term may have been dictated that no quorum is known to have; the number changes with each.
	open map[string]uint64
	n    uint64
	// rested are masters that have begun in the term, and that nobody needs at the moment; resting is about how many bytes they have.
	rested  map[string]restedMaster
	resting int
}

type restedMaster struct {
	*Master
	size int
}

// reigning collects the answers to a Reign. It is a value as Commit is.
type reigning struct {
	t       *term
	heard   []kv.ReplicaID
	highest Ballot
	many    bool
}

func newReigning(in place, span keys.Span, ballot Ballot, q Quorums) *reigning {
	return &reigning{t: &term{in: in, span: span, ballot: ballot, quorum: q, alone: true, spent: map[uint64]bool{}, open: map[string]uint64{}, rested: map[string]restedMaster{}}}
}

// Request is what all voters are to be asked.
func (r *reigning) Request(k keys.Key) *Request {
	return &Request{Kind: Reign, Key: k, Ballot: r.t.ballot, Generation: r.t.in.generation}
}

// Answer takes in a reply. It reports whether the answers of a quorum are there.
func (r *reigning) Answer(from kv.ReplicaID, p *Reply) bool {
	switch g := p.Reigned; {
	case r.t.ballot.Less(p.Promised):
		r.highest = r.highest.later(p.Promised)
	case g == nil || p.Promised != r.t.ballot && !g.Many || slices.Contains(r.heard, from):
	case g.Many:
		r.many = true
	default:
		t := r.t
		r.heard = append(r.heard, from)
		for _, n := range g.Apart {
			t.spent[n] = true
		}
		t.applied, t.floor, t.mark = max(t.applied, g.Applied), t.floor.Forward(g.Floor), t.mark.Forward(g.Mark)
		t.alone = t.alone && !g.Earlier
	}
	return len(r.heard) >= r.t.quorum.Classic
}

// covers reports whether the term may begin with a record.
func (t *term) covers(k keys.Key) bool {
	if t == nil || t.over.Load() || !t.span.Contains(k) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.spent[nameOf(k)] || t.rested[string(k)].Master != nil
}

// take reports whether the term may begin with a record, once (fastpaxos.FP93).
func (t *term) take(k keys.Key) bool {
	if t == nil || t.over.Load() || !t.span.Contains(k) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := nameOf(k)
	if t.spent[n] {
		return false
	}
	if t.begun++; t.begun > apartMost {
		t.over.Store(true)
		return false
	}
	t.spent[n] = true
	return true
}

// opens notes that a state of a record is about to be dictated. The promises that readers had before are those that marks has afterwards.
func (t *term) opens(k keys.Key) Mark {
	t.mu.Lock()
	t.n++
	t.open[string(k)] = t.n
	t.mu.Unlock()
	return t.marks.of(k)
}

// settled notes that a quorum has the latest state of a record.
func (t *term) settled(k keys.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, string(k))
}

// master is the master of a record in the term, from the version that a base has, once take has allowed it.
func (t *term) master(k keys.Key, base Value, cols Columns, gamma int) *Master {
	m := NewMaster(k, t.ballot.Master, t.quorum, cols, gamma)
	m.generation, m.ballot, m.phase, m.left, m.term = t.in.generation, t.ballot, ruling, gamma, t
	m.state = &Record{Promised: t.ballot, Accepted: t.ballot, Base: base, Floor: t.floor, Mark: Mark{At: t.mark}}
	return m
}

// giveBack takes back a master that is not needed any more. One that a quorum has followed goes on in its term when the record is written again.
func (t *term) giveBack(m *Master) {
	if t == nil || m.term != t || m.phase != ruling || m.ballot != t.ballot || m.sequence == 0 || len(m.wants) > 0 || len(m.acks) < m.q.Classic || t.over.Load() {
		return
	}
	n := int(m.state.size()) + len(m.key) + len(m.state.Base.Data) + restedSize
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, o := range t.rested {
		if t.resting+n <= restedMost {
			break
		}
		t.forget(k, o)
	}
	t.rested[string(m.key)] = restedMaster{m, n}
	t.resting += n
}

// forget forgets a master. mu is held.
func (t *term) forget(k string, o restedMaster) {
	delete(t.rested, k)
	t.resting -= o.size
}

// goesOn gives the master of a record that the term has kept.
func (t *term) goesOn(k keys.Key) *Master {
	t.mu.Lock()
	defer t.mu.Unlock()
	o, ok := t.rested[string(k)]
	if !ok {
		return nil
	}
	t.forget(string(k), o)
	return o.Master
}

// openState is a record of term.open.
type openState struct {
	key keys.Key
	n   uint64
}

// opened are the records that a reader asks for of which a state may have been dictated that no quorum is known to have.
func (t *term) opened(q *Look) (out []openState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range q.Keys {
		if n, ok := t.open[string(k)]; ok {
			out = append(out, openState{k, n})
		}
	}
	if q.Keys != nil {
		return out
	}
	for k, n := range t.open {
		if q.Span.Contains(keys.Key(k)) {
			out = append(out, openState{keys.Key(k), n})
		}
	}
	slices.SortFunc(out, func(a, b openState) int { return a.key.Compare(b.key) })
	return out
}

// overtaken notes that a quorum has a later state of a record, in whichever ballot.
func (t *term) overtaken(o openState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[string(o.key)] == o.n {
		delete(t.open, string(o.key))
	}
}

// place is a range in one of its generations: what acceptors say counts within it.
type place struct {
	id         kv.RangeID
	generation uint64
}

func placeOf(d *kv.RangeDescriptor) place { return place{d.ID, d.Generation} }
