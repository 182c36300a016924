package core

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// Ballot orders the proposals about one record (MDCC §3.1, §3.3). The zero Ballot is the fast one that every record begins with: nothing is
// stored for it.
type Ballot struct {
	Round uint64
	// Master is who began the ballot; no other does so with this number. Its lower half is the master's node, if that can be asked (Node).
	Master uint64
	// Fast says that any gateway may add options, once the master has opened the ballot; until then only the master does. The open part is
	// the later one, and who has promised the ballot has promised both.
	Fast bool
}

// Node is where the ballot's master is.
func (b Ballot) Node() kv.NodeID { return kv.NodeID(uint32(b.Master)) }

// Default is the ballot of a record that never had a master.
func (b Ballot) Default() bool { return b.Round == 0 }

// Open reports whether any gateway may add options in the ballot.
func (b Ballot) Open() bool { return b.Fast || b.Default() }

// Compare orders ballots.
func (b Ballot) Compare(o Ballot) int {
	if c := cmp.Or(cmp.Compare(b.Round, o.Round), cmp.Compare(b.Master, o.Master)); c != 0 {
		return c
	}
	switch {
	case b.Fast == o.Fast:
		return 0
	case o.Fast:
		return -1
	}
	return 1
}

// Less reports whether b is an earlier ballot than o.
func (b Ballot) Less(o Ballot) bool { return b.Compare(o) < 0 }

// Later is the later one of two ballots.
func (b Ballot) Later(o Ballot) Ballot {
	if b.Less(o) {
		return o
	}
	return b
}

// Name tells an option from all others of its record: the transaction, and its commit timestamp, which is another one in each of its attempts.
type Name struct {
	Txn kv.TxnID
	At  clock.Timestamp
}

// Compare orders names, by timestamp first.
func (n Name) Compare(o Name) int {
	if c := n.At.Compare(o.At); c != 0 {
		return c
	}
	return bytes.Compare(n.Txn[:], o.Txn[:])
}

// Seen names a state of a record: what a transaction has read, and its option replaces.
type Seen struct {
	// Base is the timestamp of the newest physical version; zero: the record was never there.
	Base clock.Timestamp
	// Sum is of the deltas that were executed on it (Name.hash), zero for none. Their order does not show.
	Sum uint64
}

func (n Name) hash() uint64 {
	// FNV-1a, so that all nodes agree.
	h := uint64(14695981039346656037)
	add := func(b byte) { h = (h ^ uint64(b)) * 1099511628211 }
	for _, b := range n.Txn {
		add(b)
	}
	for s := 0; s < 64; s += 8 {
		add(byte(uint64(n.At.Wall) >> s))
	}
	for s := 0; s < 32; s += 8 {
		add(byte(n.At.Logical >> s))
	}
	return h | 1
}

// Delta is what a commuting update adds to a column of the record, and between which bounds the column has to stay: those of its type, and of
// the table's CHECK constraints.
type Delta struct {
	Column   uint32
	Amount   int64
	Min, Max int64
}

// Update is what an option does to its record. With Deltas it adds them; as a guard it does nothing; otherwise it replaces the value.
type Update struct {
	// Seen is the state that it was made for: a physical update replaces exactly that one, and a commuting one adds to its Base.
	Seen   Seen
	Deltas []Delta
	// Guard says that the transaction needs the record to be there, and changes nothing: it commutes as if it added nothing (fastpaxos.FP80).
	Guard bool
	// Value is nil if the record is deleted.
	Value []byte
}

// Commutes reports whether the update may be executed in any order with others that do.
func (u *Update) Commutes() bool { return len(u.Deltas) > 0 || u.Guard }

// Option is the right to execute an update, which a transaction asks the replicas of the record for (§3.2).
type Option struct {
	Name
	Update
	// Keys are those of all options of the transaction, so that anyone can finish it (§3.2.3).
	Keys []keys.Key
	// Anchor, if it is not nil, is the key of the transaction's record, which decides the transaction: it writes in ranges of other protocols too. Keys is
	// then the option's own.
	Anchor keys.Key
}

// Verdict of an acceptor, or of a quorum of them, about an option.
type Verdict uint8

const (
	// Undecided: nothing was said.
	Undecided Verdict = iota
	// Accepted: the update can be executed, whatever becomes of the other options.
	Accepted
	// Rejected: it never will be.
	Rejected
	// Past: it was decided so long ago that all options of its transaction have ended, at quorums, and nobody need know how; or it never came,
	// and comes too late now.
	Past
)

func (v Verdict) String() string { return [...]string{"undecided", "accepted", "rejected", "past"}[v] }

// Vote is an option with what an acceptor says of it in its ballot.
type Vote struct {
	Option
	Verdict Verdict
	// Fixed says that the ballot's master has proposed it. All acceptors of the ballot that have the master's proposal have it.
	Fixed bool
}

// Ended is what an acceptor knows of a transaction that has ended.
type Ended struct {
	Name
	Committed bool
	// Keys are those of its options while some of these may not have heard of the outcome, and somebody may ask for it (fastpaxos.FP6).
	Keys []keys.Key
}

// Value is a version of a record.
type Value struct {
	At clock.Timestamp
	// Data is nil if there is no record.
	Data []byte
}

// Addition is a commuting update that was executed.
type Addition struct {
	Option
	// Started says that it had been executed when the ballot's master proposed the state that the ballot began with; Fixed, that the master
	// has proposed it (Vote.Fixed).
	Started, Fixed bool
}

// Record is the state of one record at one acceptor.
type Record struct {
	// Promised is the latest ballot that the acceptor has promised, Accepted the one that Votes are of.
	Promised, Accepted Ballot
	// Sequence counts the proposals of the ballot's master.
	Sequence uint64
	// Base is the newest physical version that is known, and Added the committed commuting updates after it, in order of names. The record's
	// value is the sum of both.
	Base  Value
	Added []Addition
	// Closed is a timestamp at or below which the ballot's master accepts nothing any more. Once a classic quorum has a state with it, what
	// was executed up to there is a version of its own (fastpaxos.FP7).
	Closed clock.Timestamp
	// Mark is what the ballot's masters have promised to readers (fastpaxos.FP61).
	Mark Mark
	// Votes are the options that have not ended, in the order in which they came. If one that is physical is accepted, no other is.
	Votes []Vote
	// Recent are transactions that ended not long ago, in order of names. Every other option at or below Floor is Past, so that a late copy
	// of one that has ended is not taken for a new one.
	Recent []Ended
	Floor  clock.Timestamp

	// kept is the acceptor's part of a record that it has; copies, and the states of masters, have none.
	kept *kept `wire:"-"`
}

// Seen names the state.
func (r *Record) Seen() (s Seen) {
	s.Base = r.Base.At
	if len(r.Added) > fewAdded {
		s.Sum = r.totals().hash
		return s
	}
	for i := range r.Added {
		s.Sum ^= r.Added[i].hash()
	}
	return s
}

// Default reports whether the record is as its base has it: nothing need be stored.
func (r *Record) Default() bool {
	return r.Promised.Default() && len(r.Votes) == 0 && len(r.Added) == 0 && len(r.Recent) == 0 && r.Floor.IsZero()
}

// Clone gives a copy whose lists are its own. Options are never changed in place.
func (r *Record) Clone() *Record {
	c := *r
	c.Added, c.Votes, c.Recent, c.kept = slices.Clone(r.Added), slices.Clone(r.Votes), slices.Clone(r.Recent), nil
	return &c
}

// recent finds a transaction among those that ended not long ago, or where it would be.
func (r *Record) recent(n Name) (int, bool) {
	return slices.BinarySearchFunc(r.Recent, n, func(e Ended, n Name) int { return e.Compare(n) })
}

// Addition finds an executed update, or where it would be.
func (r *Record) Addition(n Name) (int, bool) {
	return slices.BinarySearchFunc(r.Added, n, func(a Addition, n Name) int { return a.Compare(n) })
}

// Vote is the vote about an option, nil if there is none.
func (r *Record) Vote(n Name) *Vote {
	for i := range r.Votes {
		if r.Votes[i].Name == n {
			return &r.Votes[i]
		}
	}
	return nil
}

// Outcome is what the record knows of a transaction that has ended. Verdict is Accepted of a committed one.
func (r *Record) Outcome(n Name) Verdict {
	if i, found := r.recent(n); found {
		if r.Recent[i].Committed {
			return Accepted
		}
		return Rejected
	}
	if _, found := r.Addition(n); found {
		return Accepted
	}
	if n.At.LessEq(r.Floor) && r.Vote(n) == nil {
		return Past
	}
	return Undecided
}

// Remembered is for how long an acceptor knows the outcome of a transaction all of whose options have ended. A gateway that has not heard
// by then does not learn it: it is told that this is past. Chosen by us: longer than a statement waits for an answer.
const Remembered = time.Minute

// fewEnded is how many outcomes a record may have for it to look at all of them with each further one.
const fewEnded = 64

// Forget drops what is known of transactions all of whose options have ended, up to a timestamp.
func (r *Record) Forget(upTo clock.Timestamp) {
	floor := r.Floor
	r.Recent = slices.DeleteFunc(r.Recent, func(e Ended) bool {
		if e.Keys == nil && e.At.LessEq(upTo) {
			r.note(partEnded, e.Name, -e.size())
			floor = floor.Forward(e.At)
			return true
		}
		return false
	})
	r.raise(floor)
	if r.kept != nil && len(r.kept.shown) > 0 {
		r.kept.shown = slices.DeleteFunc(r.kept.shown, func(n Name) bool { return n.At.LessEq(upTo) })
	}
}

// raise raises the floor.
func (r *Record) raise(floor clock.Timestamp) {
	if r.Floor.Less(floor) {
		r.Floor = floor
		r.noteHead()
	}
}

// Rebase makes a later physical version the base. next says that it was made for the present state.
func (r *Record) Rebase(v Value, next bool) {
	r.keepEra(v.At, next || !r.accepted(func(o *Vote) bool { return o.At.Less(v.At) }))
	r.Base = v
	r.Added = slices.DeleteFunc(r.Added, func(a Addition) bool {
		if r.Base.At.Less(a.At) {
			return false
		}
		r.note(partAdded, a.Name, -a.size())
		return true
	})
	r.noteHead()
	r.changedTotals()
}

// Behind reports whether the record lacks a version that others of its options were made for: it is not to be read.
func (r *Record) Behind() bool {
	return slices.ContainsFunc(r.Added, func(a Addition) bool { return r.Base.At.Less(a.Seen.Base) }) ||
		slices.ContainsFunc(r.Votes, func(v Vote) bool { return v.Verdict == Accepted && r.Base.At.Less(v.Seen.Base) })
}

// dropVote takes an option out of the votes.
func (r *Record) dropVote(i int) {
	r.note(partVote, r.Votes[i].Name, -r.Votes[i].size())
	if r.Votes = slices.Delete(r.Votes, i, i+1); len(r.Votes) == 0 {
		r.Votes = nil // most records are not voted about again soon
	}
}

// End takes in the outcome of an option's transaction, and executes the option if that is committed. The record need not have heard of it before.
func (r *Record) End(o *Option, committed bool) {
	fixed := false
	if i := slices.IndexFunc(r.Votes, func(v Vote) bool { return v.Name == o.Name }); i >= 0 {
		fixed = r.Votes[i].Fixed
		same := *o // it may be of the list
		o = &same
		r.dropVote(i)
	}
	e := Ended{Name: o.Name, Committed: committed}
	if len(o.Keys) > 1 {
		e.Keys = o.Keys
	}
	r.Remember(e)
	if longAgo := (clock.Timestamp{Wall: o.At.Wall - int64(Remembered)}); len(r.Recent) > 1 && r.Recent[0].At.Less(longAgo) && r.mayForget(o.At) {
		r.Forget(longAgo)
	}
	if committed {
		r.Execute(Addition{Option: *o, Fixed: fixed})
	}
}

// heard takes in that all options of a transaction have ended.
func (r *Record) heard(n Name) bool {
	i, found := r.recent(n)
	if !found || r.Recent[i].Keys == nil {
		return false
	}
	before := r.Recent[i].size()
	r.Recent[i].Keys = nil
	r.note(partEnded, n, r.Recent[i].size()-before)
	return true
}

// Remember adds an outcome to those that the record remembers.
func (r *Record) Remember(e Ended) {
	at, found := r.recent(e.Name)
	switch {
	case !found:
		r.Recent = slices.Insert(r.Recent, at, e)
		r.note(partEnded, e.Name, e.size())
	case e.Keys == nil:
		r.heard(e.Name) // by somebody else
	}
}

// Execute makes a committed update visible. The order does not show: the newest physical version counts, with all commuting updates after it
// (fastpaxos.FP4).
func (r *Record) Execute(a Addition) {
	if !r.Base.At.Less(a.At) {
		return // what came after it was made with it
	}
	if !a.Commutes() {
		r.Rebase(Value{At: a.At, Data: a.Value}, a.Seen == r.Seen())
		return
	}
	if at, found := r.Addition(a.Name); !found {
		r.Added = slices.Insert(r.Added, at, a)
		r.note(partAdded, a.Name, a.size())
		r.addTotals(&a)
	}
}

// Join adds what another replica knows of the record: versions, updates, options and outcomes.
func (r *Record) Join(o *Record) {
	if r.Base.At.Less(o.Base.At) {
		r.Rebase(o.Base, false)
	}
	for _, a := range o.Added {
		r.Execute(a)
	}
	for _, v := range o.Votes {
		if v.Verdict == Accepted && r.Vote(v.Name) == nil {
			r.Votes = append(r.Votes, v)
		}
	}
	for _, e := range o.Recent {
		r.Remember(e)
	}
}

// Covers reports whether a record has an option, or a later version, or knows what became of it. A rejected option it has not.
func (r *Record) Covers(n Name) bool {
	if v := r.Vote(n); n.At.LessEq(r.Base.At) || v != nil && v.Verdict == Accepted {
		return true
	}
	out := r.Outcome(n)
	return out == Accepted || out == Rejected
}

// Last is the latest timestamp in a record.
func (r *Record) Last() clock.Timestamp {
	t := r.Base.At.Forward(r.Floor).Forward(r.Closed)
	for i := range r.Added {
		t = t.Forward(r.Added[i].At)
	}
	for i := range r.Votes {
		t = t.Forward(r.Votes[i].At)
	}
	for i := range r.Recent {
		t = t.Forward(r.Recent[i].At)
	}
	return t
}

// apart reports whether an acceptor's record is more than what the base has.
func (r *Record) apart(floor clock.Timestamp) bool {
	return len(r.Votes)+len(r.Added)+len(r.Recent) > 0 || !r.Promised.Default() || !r.Accepted.Default() || r.Sequence != 0 || r.Mark != Mark{} ||
		!r.Closed.IsZero() || floor.Less(r.Floor) || r.kept.side || r.kept.base.Less(r.Base.At)
}
