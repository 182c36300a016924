package rangeserver

import (
	"context"

	"meridian/clock"
	"meridian/kv"
	"meridian/replica"
	"meridian/replica/lease"
	"meridian/storage/engine"
)

// Leader is the leader protocol's part at one range of one store. Every range has one: it serves the transaction records and other
// range-local keys of the range, whatever the range's protocol, and the rows if the range is of the leader protocol. It alone has the
// methods that concern leases. *commit/leader.Participant has it.
//
// All methods but Send, Advance, Leave and Drain are called while the replica applies its log, in log order; they must not wait,
// and must not call Propose or EnsureLease. When a call happens, the replica's Desc, Stats and CheckLease already
// show the state after the change.
type Leader interface {
	// Send evaluates a batch whose keys are all in the range, on the caller's goroutine. Both results may be set:
	// an error may come with a response that carries the transaction.
	Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error)

	// Advance makes a step of the range's generation (replica.EvaluateStep), under the lease and with nothing else in flight.
	Advance(ctx context.Context, step *replica.Step) error

	// Leave decides all transactions that have written rows here, and has the rows served no more until back is called: the range is
	// about to have another protocol.
	Leave(ctx context.Context) (back func(), err error)

	// LeaseChanged says that a lease with a new sequence number took effect. If held, CheckLease shows it only after the
	// call, so that nothing is served before; this replica has it, and the
	// timestamp cache's low water must be at least l.Start; else in-memory locks and caches are void, and waiters
	// have to be sent away with NotLeaseholderError.
	LeaseChanged(l lease.Lease, held bool)

	// Unled says that the range has no raft leader, and has had none for seconds: requests that wait for others, or for
	// locks, have to be sent away with UnavailableError.
	Unled()

	// HandOver gives what the next leaseholder should have, nil for nothing: locks that are in memory only. It comes after
	// Drain. TakeOver hands it to the next one, after LeaseChanged and before CheckLease shows the lease.
	HandOver() []byte
	TakeOver(handed []byte)

	// DescriptorChanged says that replicas, protocol or generation of the range changed, not its span; after Absorb, that the
	// descriptor shows the wider span.
	DescriptorChanged(desc *kv.RangeDescriptor)

	// SplitOff says that the range now ends at left.End. The result is passed to the constructor of the right side's participant (locks and
	// waiters of its keys); it may be nil. The request that carried the trigger holds latches on all of the range, so nothing else is being
	// evaluated.
	SplitOff(left, right *kv.RangeDescriptor) (handoff any)

	// Absorb says that the range is about to end at desc.End: it has swallowed its right neighbour, which served nothing
	// after freeze, and whose participant returned handoff from Subsume. The replica's descriptor does not show it yet,
	// so no request for the neighbour's keys comes before the call is over.
	Absorb(desc *kv.RangeDescriptor, handoff any, freeze clock.Timestamp)

	// Subsume says that the left neighbour swallows this range.
	Subsume() (handoff any)

	// SnapshotApplied says that a raft snapshot replaced the range's data: caches of it are void.
	SnapshotApplied()

	// Drain returns when no request is being evaluated that passed its lease check before the call. It precedes a
	// lease transfer: CheckLease fails from before the call on.
	Drain(ctx context.Context) error

	// Close says that the replica is gone; err is what waiting requests are answered with.
	Close(err error)
}

// NewLeader makes the leader protocol's participant of a replica. handoff is what SplitOff returned, nil at start.
type NewLeader func(r *replica.Replica, handoff any) Leader

// Participant is the part of another protocol at one replica of a range: it serves the range's rows. docs/ranges.md has the
// contract. The replica's state under the protocol is a base, which is the range's replicated data, and a delta, which
// is what this replica has promised since the range's generation began (Range.Write).
//
// Sealed and Opened are called while the replica applies its log, in log order; they must not wait, and must not write. Receive must
// not wait either.
type Participant interface {
	// Send serves a batch of the protocol (kv.ProtocolRequest) on the caller's goroutine. All of its keys are in the range, and the
	// sender acts in the replica's generation, which is open. An answer that comes after the generation was sealed is not given:
	// the sender gets a GenerationError instead.
	Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error)

	// Receive takes a message of another replica's participant (Range.Send), which acts in the same generation.
	Receive(from kv.ReplicaDescriptor, body []byte)

	// Sealed says that the generation is over. Nothing may be promised in it any more; Range.Write does not.
	Sealed(generation uint64)

	// Report gives all that this replica has promised in a generation that is sealed, in pieces of at most a MiB. It may be asked
	// for several times, and after a restart.
	//
	// Served is at or above every timestamp ahead of this replica's clock at which it has read, written or prevented something, zero if
	// there is none: the next generation's timestamps will be above. State that must survive a restart is a promise, so it is in the delta
	// before it is acted on (Range.Write).
	Report(ctx context.Context, generation uint64, send func(piece []byte) error) (served clock.Timestamp, err error)

	// Opened says that a generation begins, that of the descriptor: the span, the replicas or the base may be others, and this
	// replica has promised nothing yet. It also comes with the present generation, when a raft snapshot has replaced the base.
	Opened(desc *kv.RangeDescriptor)

	// Close says that the replica is gone, or has another protocol; err is what waiting requests are answered with.
	Close(err error)
}

// Starter is a Participant that can begin a batch, which Send serves: several of them then share a sync of the store.
type Starter interface {
	// Start does what need not wait. wait gives the answer.
	Start(b *kv.Batch) (wait func(context.Context) (*kv.BatchResponse, error), err error)
}

// Absorber is a Participant whose delta shrinks while its generation lasts: what is final goes into the base, without a seal. Its methods
// are called one at a time, on a goroutine that may wait.
type Absorber interface {
	// Tend drops from the delta what this replica's base has, and what need not be remembered. Every replica does so from time to time.
	Tend(generation uint64) error
	// Final gives rows of which the base will have to have these versions, whatever happens: about as many as have so many bytes, none if there are none. The
	// leaseholder adds them to the base through the log. It may be told of the same again: versions that the base has stay as they are.
	Final(generation uint64, bytes int) ([]replica.Row, error)
	// Absorbed says that the base of this replica has rows now.
	Absorbed(generation uint64, rows []replica.Row) error
}

// Protocol is a commit protocol as stores need it.
type Protocol struct {
	Name string
	// New makes the participant of a replica. The generation may be sealed already.
	New func(g *Range) Participant
	// Fold adds to the base what it lacks of a sealed generation. If it fails, or its node dies, it is called again, with other
	// reports, and by another leaseholder maybe.
	Fold func(ctx context.Context, f *Folding) error
	// Settle comes after Fold when the range is about to have another protocol (Folding.Next), and before the change: it leaves
	// nothing provisional in the base, and gives each transaction that has something there its outcome. It may be called again.
	// Nil: there is never anything.
	Settle func(ctx context.Context, f *Folding) error
	// Recall answers a question about the time in which a range had this protocol, or about a generation that is folded, from its replicated data (kv.AdminRecallRequest). In the second case
	// the answer is given when the floor of the generation is at or above upTo. Nil: nobody asks.
	Recall func(base engine.Reader, body []byte) (answer []byte, upTo clock.Timestamp, err error)
}

// Registry is the protocols, besides the leader's, that a node can serve.
type Registry map[kv.Protocol]Protocol

// Report is what one sealed replica has promised.
type Report struct {
	From   kv.ReplicaDescriptor
	Pieces [][]byte
	// Now is the replica's clock when it reported, or what it has served ahead of it (Participant.Report): all timestamps that it gave in the
	// generation are at or below.
	Now clock.Timestamp
}

// Folding is the argument of a protocol's Fold, and of the Settle after it, on the range's leaseholder: the generation is sealed on a quorum, and
// nothing is promised in it any more.
type Folding struct {
	Desc       *kv.RangeDescriptor
	Generation uint64
	// Next is the protocol of the next generation, of a Settle.
	Next kv.Protocol
	// Base reads the range's replicated data, with what was given to Write.
	Base engine.Reader
	// Reports are of a quorum of the voters (kv.RangeDescriptor.Quorum) at least. A Settle has none: the base has all.
	Reports []Report
	// Sender reaches transaction records and other ranges; nil if the store has none.
	Sender Sender
	// Now is the leaseholder's clock, past all timestamps that were given in the generation.
	Now clock.Timestamp
	// Write adds rows to the base, through the log. Rows that it has already, from an earlier fold of this generation, do not hurt. It takes several
	// commands if they are many; a protocol key that comes right after the row that it is next to is written with that, or not at all.
	Write func(rows []replica.Row) error
	// Durable returns when the log has all that was given to Write: before that, a fold that is made again with other reports may come to something else, so nobody is to
	// be told. Rows that are given to Write after the last time are in one command with the end of the fold, if they fit.
	Durable func() error
}
