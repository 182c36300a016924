package core

import (
	"meridian/clock"
	"meridian/core"
	"meridian/keys"
)

// Kind of a request to an acceptor.
type Kind uint8

const (
	// Query asks for the record.
	Query Kind = iota + 1
	// Propose asks for a vote about an option, in whichever fast ballot the acceptor is (Phase2bFast).
	Propose
	// Prepare asks to accept nothing in an earlier ballot (Phase1a).
	Prepare
	// Dictate brings the state that a ballot's master proposes (Phase2a).
	Dictate
	// End brings the outcome of an option's transaction (Visibility). One without keys, of an option that has ended, says that all options of
	// its transaction have, at quorums: nobody will ask for it (fastpaxos.FP6).
	End
	// Read asks for rows as this replica has them (Look). The key of a span's is its start.
	Read
	// Forget says that all options of a transaction have ended, at all replicas: its outcome need not be remembered (fastpaxos.FP71). The option is its name.
	Forget
	// Show is End for one replica, which answers without promising anything (fastpaxos.FP72).
	Show
	// Reign asks to accept nothing in an earlier ballot for any record of the range (fastpaxos.FP90). The key is one of them.
	Reign
)

func (k Kind) String() string {
	return [...]string{"", "query", "propose", "prepare", "dictate", "end", "read", "forget", "show", "reign"}[k]
}

// Request is what an acceptor is asked about one record.
type Request struct {
	Kind Kind
	Key  keys.Key
	// Option is that of Propose and End.
	Option Option
	// Committed is the outcome that End brings.
	Committed bool
	// Ballot is that of Prepare, Dictate and Reign.
	Ballot Ballot
	// State is what Dictate proposes, Sequence its number in the ballot.
	State    *Record
	Sequence uint64
	// Look is what Read asks for.
	Look *Look
	// Generation is that of the range in which Prepare, Dictate and Reign were made, and the one that Look.Base and Look.Term are about. Another one has nothing to do with their master
	// (fastpaxos.FP68).
	Generation uint64
	// Renew, with Reign, promises nothing: it says that the range needs a new generation (fastpaxos.FP95).
	Renew bool

	// Beside is what the replica's base has, for Reign: the replica fills it in.
	Beside *Beside `wire:"-"`
}

// Reply is what an acceptor answers.
type Reply struct {
	// Promised is the latest ballot that it has promised. If it is later than that of a Prepare or a Dictate, these are refused.
	Promised Ballot
	// Ballot and Sequence are what it has accepted last.
	Ballot   Ballot
	Sequence uint64
	// Verdict is its own about a proposed option, in Ballot; undecided if that is not open: then its master is to be asked.
	Verdict Verdict
	// Outcome is that of the option's transaction if it has ended, as far as the acceptor knows: Accepted if it has committed.
	Outcome Verdict
	// Record answers Query and Prepare, and a Dictate that is refused.
	Record *Record
	// Blocker, if the verdict is Rejected, is an option of another transaction that stands in the way, because its transaction has not ended here:
	// its name, keys and anchor.
	Blocker *Option
	// Looked answers Read.
	Looked *Looked
	// Mark is a timestamp at or below which nothing is accepted any more, if an option was rejected for that: a later one of the same transaction may be accepted.
	Mark clock.Timestamp
	// Reigned answers Reign, if the term is promised.
	Reigned *Reigned
	// Term says that Promised is a promise for all records of the range.
	Term bool
}

// Message is a request or its reply.
type Message = core.Call[Request, Reply]

// Write is a record of which parts have to become durable (delta.go).
type Write struct {
	Key keys.Key
	// Record is valid until the acceptor's next step, as is the Write.
	Record  *Record
	changes []change
}

// Effects are an acceptor's.
type Effects = core.Effects[Message, Write, struct{}]
