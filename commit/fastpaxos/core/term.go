package core

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
	// ApartMost is how many records may be apart for a term to be promised, and with how many a term begins. Chosen by us: a name has eight bytes, so an answer has half a megabyte at most.
	ApartMost = 64 << 10
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

// NameOf is a record's name in terms. It is not zero.
func NameOf[K ~string | ~[]byte](k K) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(k))
	return h.Sum64() | 1
}

// Beside is what a replica's base has to do with a Reign: the names of records with protocol keys, and up to which index it has the range's log.
type Beside struct {
	Apart   []uint64
	Applied uint64
}

// Term is one that a gateway has.
type Term struct {
	In     Place
	Span   keys.Span
	Ballot Ballot
	quorum Quorums
	// Applied, floor and mark are the highest of the answers.
	Applied     uint64
	Floor, mark clock.Timestamp
	// Alone says that there was no other term in the generation before.
	Alone bool
	// Over says that there is a later one, or another generation, or that it has begun with too many records.
	Over atomic.Bool
	// Marks are promises to readers of spans (fastpaxos.FP94).
	Marks Marks

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

// Reigning collects the answers to a Reign. It is a value as Commit is.
type Reigning struct {
	Term    *Term
	heard   []kv.ReplicaID
	Highest Ballot
	Many    bool
}

// NewReigning begins to ask for a term.
func NewReigning(in Place, span keys.Span, ballot Ballot, q Quorums) *Reigning {
	return &Reigning{Term: &Term{In: in, Span: span, Ballot: ballot, quorum: q, Alone: true, spent: map[uint64]bool{}, open: map[string]uint64{}, rested: map[string]restedMaster{}}}
}

// Request is what all voters are to be asked.
func (r *Reigning) Request(k keys.Key) *Request {
	return &Request{Kind: Reign, Key: k, Ballot: r.Term.Ballot, Generation: r.Term.In.Generation}
}

// Answer takes in a reply. It reports whether the answers of a quorum are there.
func (r *Reigning) Answer(from kv.ReplicaID, p *Reply) bool {
	switch g := p.Reigned; {
	case r.Term.Ballot.Less(p.Promised):
		r.Highest = r.Highest.Later(p.Promised)
	case g == nil || p.Promised != r.Term.Ballot && !g.Many || slices.Contains(r.heard, from):
	case g.Many:
		r.Many = true
	default:
		t := r.Term
		r.heard = append(r.heard, from)
		for _, n := range g.Apart {
			t.spent[n] = true
		}
		t.Applied, t.Floor, t.mark = max(t.Applied, g.Applied), t.Floor.Forward(g.Floor), t.mark.Forward(g.Mark)
		t.Alone = t.Alone && !g.Earlier
	}
	return len(r.heard) >= r.Term.quorum.Classic
}

// Covers reports whether the term may begin with a record.
func (t *Term) Covers(k keys.Key) bool {
	if t == nil || t.Over.Load() || !t.Span.Contains(k) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.spent[NameOf(k)] || t.rested[string(k)].Master != nil
}

// Take reports whether the term may begin with a record, once (fastpaxos.FP93).
func (t *Term) Take(k keys.Key) bool {
	if t == nil || t.Over.Load() || !t.Span.Contains(k) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := NameOf(k)
	if t.spent[n] {
		return false
	}
	if t.begun++; t.begun > ApartMost {
		t.Over.Store(true)
		return false
	}
	t.spent[n] = true
	return true
}

// opens notes that a state of a record is about to be dictated. The promises that readers had before are those that marks has afterwards.
func (t *Term) opens(k keys.Key) Mark {
	t.mu.Lock()
	t.n++
	t.open[string(k)] = t.n
	t.mu.Unlock()
	return t.Marks.of(k)
}

// settled notes that a quorum has the latest state of a record.
func (t *Term) settled(k keys.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, string(k))
}

// Master is the master of a record in the term, from the version that a base has, once take has allowed it.
func (t *Term) Master(k keys.Key, base Value, cols Columns, gamma int) *Master {
	m := NewMaster(k, t.Ballot.Master, t.quorum, cols, gamma)
	m.Generation, m.ballot, m.phase, m.left, m.Term = t.In.Generation, t.Ballot, ruling, gamma, t
	m.State = &Record{Promised: t.Ballot, Accepted: t.Ballot, Base: base, Floor: t.Floor, Mark: Mark{At: t.mark}}
	return m
}

// GiveBack takes back a master that is not needed any more. One that a quorum has followed goes on in its term when the record is written again.
func (t *Term) GiveBack(m *Master) {
	if t == nil || m.Term != t || m.phase != ruling || m.ballot != t.Ballot || m.sequence == 0 || len(m.Wants) > 0 || len(m.acks) < m.Quorums.Classic || t.Over.Load() {
		return
	}
	n := int(m.State.size()) + len(m.key) + len(m.State.Base.Data) + restedSize
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
func (t *Term) forget(k string, o restedMaster) {
	delete(t.rested, k)
	t.resting -= o.size
}

// GoesOn gives the master of a record that the term has kept.
func (t *Term) GoesOn(k keys.Key) *Master {
	t.mu.Lock()
	defer t.mu.Unlock()
	o, ok := t.rested[string(k)]
	if !ok {
		return nil
	}
	t.forget(string(k), o)
	return o.Master
}

// OpenState is a record of term.open.
type OpenState struct {
	Key keys.Key
	n   uint64
}

// Opened are the records that a reader asks for of which a state may have been dictated that no quorum is known to have.
func (t *Term) Opened(q *Look) (out []OpenState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range q.Keys {
		if n, ok := t.open[string(k)]; ok {
			out = append(out, OpenState{k, n})
		}
	}
	if q.Keys != nil {
		return out
	}
	for k, n := range t.open {
		if q.Span.Contains(keys.Key(k)) {
			out = append(out, OpenState{keys.Key(k), n})
		}
	}
	slices.SortFunc(out, func(a, b OpenState) int { return a.Key.Compare(b.Key) })
	return out
}

// Overtaken notes that a quorum has a later state of a record, in whichever ballot.
func (t *Term) Overtaken(o OpenState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[string(o.Key)] == o.n {
		delete(t.open, string(o.Key))
	}
}

// Place is a range in one of its generations: what acceptors say counts within it.
type Place struct {
	ID         kv.RangeID
	Generation uint64
}

// PlaceOf is the present place of a range.
func PlaceOf(d *kv.RangeDescriptor) Place { return Place{d.ID, d.Generation} }
