package kv

import (
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/wire"
)

// LockStrength is how a read locks what it reads.
type LockStrength uint8

// The strengths are PostgreSQL's row locks, from weak to strong. Plain reads pass all of them.
const (
	NoLock LockStrength = iota
	// KeyShared (FOR KEY SHARE) keeps a row's key what it is: only Exclusive conflicts with it.
	KeyShared
	// Shared (FOR SHARE) lets others share, not write.
	Shared
	// NoKeyExclusive (FOR NO KEY UPDATE) is for changing a row but not its key: it lets others hold KeyShared.
	NoKeyExclusive
	// Exclusive (FOR UPDATE) keeps out all other lockers and writers.
	Exclusive
)

// LockState is a lock that a transaction has, or its wait for one, as a lock table shows them.
type LockState struct {
	Key      keys.Key
	Txn      TxnID // zero: a request outside of transactions
	Gateway  NodeID
	Strength LockStrength // NoLock: a plain read that waits
	Granted  bool
	// Of a wait: the transactions in the way, and since when it is in the key's queue.
	For   []LockHolder
	Since time.Time
}

// LockHolder is a transaction in another's way.
type LockHolder struct {
	Txn     TxnID
	Gateway NodeID
}

// Compatible reports whether two transactions may hold locks of these strengths on one key.
func (s LockStrength) Compatible(o LockStrength) bool {
	if s > o {
		s, o = o, s
	}
	return s == NoLock || s == KeyShared && o < Exclusive || s == Shared && o == Shared
}

func (s LockStrength) String() string {
	return [...]string{"none", "key share", "share", "no key update", "update"}[s]
}

// WaitPolicy says what a request does when another transaction's lock is in its way.
type WaitPolicy uint8

const (
	// Block waits for the lock.
	Block WaitPolicy = iota
	// NoWait answers LockNotAvailableError at once.
	NoWait
	// SkipLocked leaves locked keys out of the result. A batch of several scans of one key each, with MaxKeys, at READ COMMITTED, leaves keys that have changed
	// since the snapshot unread: their answers have a Resume.
	SkipLocked
	// Peek is for one scan of a single key, which passes by intents: the answer's only row is the newest version that is
	// none, with its timestamp and without a value if it removes the key; Provisional are the intents above. It is what
	// the leaseholder has, and nothing keeps others from writing there later.
	Peek
)

// Consistency says which reads a batch wants; batches that write are always Consistent.
type Consistency uint8

const (
	// Consistent reads are served by the leaseholder.
	Consistent Consistency = iota
	// Inconsistent reads see the latest committed values of whichever replica serves them; for range lookups.
	Inconsistent
	// Stale reads are at a timestamp that the client chose, with no uncertainty: any replica that has closed it may
	// serve them (I6); one that has not answers NotClosedError. At the leaseholder they are Consistent. A batch without a
	// Target goes to the leaseholder then; one with ToNearest fails.
	Stale
	// Present reads are Consistent ones of a transaction that any replica may serve which has closed the whole uncertainty interval (CRDB'22
	// §6.2); one that has not, or meets an intent, answers NotClosedError. At the leaseholder they are Consistent.
	Present
)

// Header is what a batch says once for all of its requests.
type Header struct {
	laterHeader
	// RangeID and Replica address the batch; route fills them in.
	RangeID RangeID
	// Generation is that of the descriptor by which the batch was routed; if the range has a later one, the answer
	// brings it along (RangeInfos). Zero: the sender does not want to know.
	//
	// For a batch of another protocol than the leader's it is the generation in which the sender acts, and a replica that is
	// in another one, or has sealed it, answers GenerationError.
	Generation uint64
	// Protocol is the one that the batch is for: its rows have to be in ranges of that protocol (ProtocolError).
	Protocol Protocol
	// Target says which replica the batch goes to.
	Target Target
	// Timestamp of a batch without a transaction; zero means the range's own clock.
	Timestamp clock.Timestamp
	Txn       *Txn
	// ReadSeq is the sequence number at which a transactional read sees its own writes (zero: Txn.Seq).
	ReadSeq Seq
	// MaxKeys bounds the keys that all scans of the batch return together; zero is no bound.
	MaxKeys int64
	// TargetBytes bounds the bytes that all scans of the batch return together, by at least one row; zero is no bound.
	TargetBytes int64
	WaitPolicy  WaitPolicy
	// LockTimeout bounds each wait for a lock; zero waits for ever.
	LockTimeout time.Duration
	Consistency Consistency
	// MayWait is for how long a replica without the lease may wait until it can serve a Present batch, or a Stale one, for which it asks the leaseholder for a promise
	// (CloseRequest).
	MayWait time.Duration
	// CanForwardRead says that the transaction has read nothing before this batch, so the range may move its
	// read timestamp forward instead of answering with a retry error.
	CanForwardRead bool
	// Hold says that the locks which the batch takes were asked for: the transaction does not commit if they were lost
	// meanwhile (CheckLocksRequest).
	Hold bool
	// Trace asks the answer to name who served it (EXPLAIN ANALYZE).
	Trace bool
	// Follow, if not empty, says how the values that plain Gets of the batch find lead to the keys of further rows, in words of the layer above (package
	// rowcode). A node that serves the batch for another one reads these rows too, if they are near it, and they come with the answer
	// (BatchResponse.Followed). It is a favour: an answer without them is as good, and the sender reads them itself.
	Follow []byte
	// FollowLock is the lock with which these rows are read; Hold is about it, too.
	FollowLock LockStrength
	Gateway    NodeID
	// Now is the sender's clock when the batch left; the receiver's clock moves past it.
	Now clock.Timestamp
}

// Target says to which replica of a range a batch goes. The zero Target is the leaseholder.
type Target struct {
	Kind TargetKind
	// Replica is the one that is meant, if Kind is TargetReplica.
	Replica ReplicaID
}

// TargetKind is how a Target names a replica.
type TargetKind uint8

const (
	// TargetLeaseholder is the replica that has the range's lease.
	TargetLeaseholder TargetKind = iota
	// TargetNearest is the nearest replica that answers.
	TargetNearest
	// TargetReplica is one replica, and no other.
	TargetReplica
)

// ToNearest is a Target.
var ToNearest = Target{Kind: TargetNearest}

// ToReplica is the Target that names one replica.
func ToReplica(id ReplicaID) Target { return Target{Kind: TargetReplica, Replica: id} }

// Batch is an ordered list of requests, evaluated as one on each range.
type Batch struct {
	Header
	Requests []Request
	// Enough, if not zero, is how many values and rows the sender waits for: it knows that the batch's reads find no more of them together. When
	// they are found, the requests that were not answered are given up, and their responses are nil. It is the gateway's, and is not sent.
	Enough int
	// Apart says that MaxKeys and TargetBytes hold for each range: the batch's scans, all in one direction, are sent at the same time, each to the first range of its span, and its
	// response names the rest of the span. It is the gateway's, and is not sent.
	Apart bool
}

// Request is one operation. The concrete types are the *…Request of this file.
type Request interface {
	// Span is the keys that the operation touches.
	Span() keys.Span
	Method() Method
	// fields declares the request's message.
	fields(c *wire.Coder)
}

// Method identifies a request's type on the wire.
type Method uint8

const (
	MethodGet Method = iota + 1
	MethodScan
	MethodPut
	MethodCPut
	MethodDelete
	MethodDeleteRange
	MethodAdd
	MethodEndTxn
	MethodHeartbeatTxn
	MethodPushTxn
	MethodQueryTxn
	MethodQueryIntent
	MethodResolveIntent
	MethodResolveRange
	MethodRefresh
	MethodRefreshRange
	MethodGC
	MethodAdminSplit
	MethodAdminMerge
	MethodAdminChangeReplicas
	MethodAdminTransferLease
	MethodRangeInfo
	MethodRecoverTxn
	MethodLoad
	MethodClear
	MethodSubsume
	MethodRelease
	MethodCheckLocks
	MethodProtocol
	MethodAdminSetProtocol
	MethodNegotiate
	MethodAdminRecall
	MethodClose
)

// GetRequest reads one key, and locks it if Lock says so, also when there is no value.
type GetRequest struct {
	Key  keys.Key
	Lock LockStrength
}

// GetResponse has the value, nil if there is none; an empty value is not nil.
type GetResponse struct {
	Value     []byte
	Timestamp clock.Timestamp
}

// ScanRequest reads a span in key order, or against it.
type ScanRequest struct {
	Start, End keys.Key
	Reverse    bool
	Lock       LockStrength
}

// ScanResponse has the pairs found, and what is left of the span if a bound ended the scan early.
type ScanResponse struct {
	Rows   []KeyValue
	Resume *keys.Span
	// Provisional are values of intents, which an inconsistent read of the range index tells besides the committed
	// ones: if their transaction has committed, they are where the range is now.
	Provisional []KeyValue
}

// KeyValue is a pair.
type KeyValue struct {
	Key       keys.Key
	Value     []byte
	Timestamp clock.Timestamp
}

// PutRequest writes a key whatever was there. Seq numbers it within its transaction. Seen, if not zero, is the
// timestamp at which the transaction saw what it replaces: a later version makes the write too old. Without it that is
// the transaction's read timestamp; under READ COMMITTED each statement has another one.
type PutRequest struct {
	Key   keys.Key
	Value []byte
	Seq   Seq
	Seen  clock.Timestamp
}

// CPutRequest writes a key if its present value is Expected (nil: no value); else ConditionFailedError.
type CPutRequest struct {
	Key      keys.Key
	Value    []byte
	Expected []byte
	Seq      Seq
}

// DeleteRequest removes a key. Seen is PutRequest's.
type DeleteRequest struct {
	Key  keys.Key
	Seq  Seq
	Seen clock.Timestamp
}

// DeleteRangeRequest removes all keys of a span, at most Header.MaxKeys of them.
type DeleteRangeRequest struct {
	Start, End keys.Key
	Seq        Seq
}

// DeleteRangeResponse counts the keys removed.
type DeleteRangeResponse struct {
	Deleted int64
	Resume  *keys.Span
}

// AddRequest adds to a key that holds an eight-byte big-endian integer; no value counts as zero.
type AddRequest struct {
	Key   keys.Key
	Delta int64
	Seq   Seq
	// Draw, of a request that is alone and outside of transactions: what is stored may be ahead of what was given out,
	// by as much as Reserve, which has the sign of Delta. The sum is of what was given out; with a Delta of zero it is
	// only looked at.
	Draw    bool
	Reserve int64
	// Back gives numbers back that were drawn, with the opposite Delta: if the draw whose answer had Turn still is the
	// last one, the next draw gives them out again. Otherwise nothing happens, and nothing is ever written.
	Back bool
	Turn uint64
}

// AddResponse has the sum; overflow is an AddOverflowError.
type AddResponse struct {
	Value int64
	// Turn tells a draw from all others of the counter, for giving numbers back.
	Turn uint64
}

// EndTxnRequest decides a transaction. It is addressed to the anchor. In a batch whose writes are all here and
// precede it, with no lock or intent of the transaction's writes elsewhere (OnePhase), the range commits in one
// phase: no intents and no record.
type EndTxnRequest struct {
	Anchor    keys.Key
	Commit    bool
	LockSpans []keys.Span
	// InFlight, if not empty, stages the transaction instead of committing it (CRDB'20 §3.1).
	InFlight []InFlightWrite
	// OnePhase says that the batch holds all of the transaction's writes.
	OnePhase bool
	// Trigger is carried out atomically with the commit; only ranges' own transactions use it.
	Trigger *CommitTrigger
	// Deadline, if not zero, is the latest timestamp at which the transaction may commit; TxnRetryError beyond it.
	Deadline clock.Timestamp
	// Upto is the latest timestamp at which the transaction may commit though it is later than its read timestamp:
	// nothing that it read has to hold there, or what has to does. It is zero at SERIALIZABLE.
	Upto clock.Timestamp
	// Held are locks in the range of the record of which none may have been lost (CheckLocksRequest).
	Held []HeldLocks
}

// HeldLocks are locks that a transaction took in a span, all of them at From or later.
type HeldLocks struct {
	Span keys.Span
	From clock.Timestamp
}

// EndTxnResponse tells how it ended.
type EndTxnResponse struct {
	OnePhase        bool
	CommitTimestamp clock.Timestamp
	Staged          bool
	// Unresolved are the request's LockSpans, or parts of them, that lie outside of the range, or have more intents
	// than the range wants to resolve at once. The coordinator resolves them and then removes the record
	// (GCRequest.Records); the range has released all others itself.
	// If none is left, the range keeps no record.
	Unresolved []keys.Span
}

// CommitTrigger is what a range does to itself as its transaction commits; exactly one field is set.
type CommitTrigger struct {
	Split    *SplitTrigger
	Merge    *MergeTrigger
	Replicas *ReplicasTrigger
	Seal     *SealTrigger
}

// SealTrigger is of the range's own commands, not of a transaction: a generation is sealed, or folded.
type SealTrigger struct {
	Generation uint64
	Folded     bool
}

// SplitTrigger divides a range; the left side keeps its identity.
type SplitTrigger struct{ Left, Right RangeDescriptor }

// MergeTrigger makes Left absorb its right neighbour, whose last state SubsumeResponse tells: every replica of it has
// applied its log up to Applied, and it has served nothing after Freeze.
type MergeTrigger struct {
	Left, Right RangeDescriptor
	Freeze      clock.Timestamp
	Applied     uint64
}

// ReplicasTrigger sets the replicas of a range, by joint consensus when Desc is in a joint state, and its protocol.
type ReplicasTrigger struct{ Desc RangeDescriptor }

// HeartbeatTxnRequest extends the life of a transaction, and makes its record if there is none.
type HeartbeatTxnRequest struct{ Anchor keys.Key }

// HeartbeatTxnResponse has the record after the heartbeat.
type HeartbeatTxnResponse struct{ Txn Txn }

// PushKind says what a pusher wants of the other transaction.
type PushKind uint8

const (
	// PushTimestamp wants the pushee to commit after PushTo.
	PushTimestamp PushKind = iota
	// PushAbort wants the pushee out of the way.
	PushAbort
	// PushTouch only asks whether the pushee is done or dead.
	PushTouch
)

// PushTxnRequest asks the pushee's record for its state and tries to change it. It waits at the record while the
// pushee is alive and the pusher may not win.
type PushTxnRequest struct {
	Pusher *Txn // nil: not in a transaction
	Pushee TxnMeta
	PushTo clock.Timestamp
	Kind   PushKind
	// Force wins whatever the priorities; for deadlock victims. With PushTouch it aborts a pending transaction, and answers a staging one as it
	// is: the pusher recovers it.
	Force bool
	// Key is where the pusher met the pushee; for those who read about a deadlock.
	Key keys.Key
}

// PushTxnResponse has the pushee after the push.
type PushTxnResponse struct{ Pushee Txn }

// QueryTxnRequest reads a record, and who waits for the transaction, for deadlock detection.
type QueryTxnRequest struct {
	Txn TxnMeta
	// Known is the Version of an earlier answer; the next one may wait until there is another. Zero: it does not wait.
	Known uint64
	// List asks for the writes in flight of a staging record too, for recovery by others than the record's leaseholder.
	List bool
}

// QueryTxnResponse answers it.
type QueryTxnResponse struct {
	Txn    Txn
	Exists bool
	// InFlight are those of the record, if they were asked for.
	InFlight []InFlightWrite
	// Waits are those that end at the transaction, directly or not, as far as is known; Version identifies their set.
	Waits   []TxnWait
	Version uint64
	// Committed is the timestamp of a commit that left no record, if the range remembers it. Both are told if List was asked for.
	Committed clock.Timestamp
	// Remembers says that Committed would be there, had the transaction committed by the time of the record above.
	Remembers bool
}

// TxnWait says that a transaction waits for another one.
type TxnWait struct {
	ID           TxnID
	Gateway      NodeID
	Priority     int32
	MinTimestamp clock.Timestamp
	For          TxnID
	Key          keys.Key // what it wants; may be unknown
}

// QueryIntentRequest asks whether a write of a transaction is there, and if not, prevents it.
type QueryIntentRequest struct {
	Key keys.Key
	Txn TxnMeta
}

// QueryIntentResponse answers it.
type QueryIntentResponse struct{ Found bool }

// ResolveIntentRequest gives an intent, and any lock held in memory, its transaction's outcome.
type ResolveIntentRequest struct {
	Key         keys.Key
	Txn         TxnMeta
	Status      Status
	IgnoredSeqs []SeqRange
}

// ResolveRangeRequest does so for a span, or for the beginning of it that has at most Max intents (zero: all of it);
// the answer is a DeleteRangeResponse.
type ResolveRangeRequest struct {
	Start, End  keys.Key
	Txn         TxnMeta
	Status      Status
	IgnoredSeqs []SeqRange
	Max         int64
}

// ReleaseRequest tells the leaseholder of [Start, End), or of the key Start if End is empty, that a transaction has
// committed at its write timestamp, with all that its last attempt wrote: what it locked in memory there is free, and its
// intents are as good as versions before they are resolved. Nothing is replicated, and nothing is lost if it never comes.
type ReleaseRequest struct {
	Start, End keys.Key
	Txn        TxnMeta
}

// CheckLocksRequest asks the leaseholder of [Start, End), or of the key Start if End is empty, whether it still has all locks
// that the transaction has taken there since From, up to Txn.ReadTimestamp; LocksLostError if it may not. Where the anchor is, it
// also asks whether somebody has aborted the transaction. With a From of zero that is all.
type CheckLocksRequest struct {
	Start, End keys.Key
	From       clock.Timestamp
}

// RefreshRequest checks that nobody else wrote a key in (From, Txn.ReadTimestamp], and keeps it so.
type RefreshRequest struct {
	Key  keys.Key
	From clock.Timestamp
}

// RefreshRangeRequest does so for a span.
type RefreshRangeRequest struct {
	Start, End keys.Key
	From       clock.Timestamp
}

// GCRequest removes versions that no read at or after Threshold can see, and the named old records.
type GCRequest struct {
	Start     keys.Key
	Threshold clock.Timestamp
	Keys      []GCKey
	Records   []keys.Key
}

// GCKey names the newest version of a key that may go.
type GCKey struct {
	Key       keys.Key
	Timestamp clock.Timestamp
}

// AdminSplitRequest splits the range that contains Key at Key; an empty Key lets the range choose.
type AdminSplitRequest struct {
	Key keys.Key
	// Keep is until when the two sides are not merged again by themselves; zero is for ever. Splitting where a range
	// begins already changes that.
	Keep clock.Timestamp
	// Undo splits nothing: it ends an earlier Keep of the range that begins at Key.
	Undo bool
}

// AdminMergeRequest merges the range that contains Key with its right neighbour.
//
// Of, if it is not empty, is the span of the range that is meant, as the sender knows it: requests wait for earlier changes of a range, which
// may be another one by then. The leaseholder compares it when it begins, and refuses the request if the range has been split or merged since. A merge
// that has been made already is no error.
type AdminMergeRequest struct {
	Key keys.Key
	Of  keys.Span
}

// AdminChangeReplicasRequest gives the range that contains Key the stated replicas. Of is AdminMergeRequest's.
type AdminChangeReplicasRequest struct {
	Key     keys.Key
	Targets []ReplicaTarget
	Of      keys.Span
}

// ReplicaTarget is one wanted replica.
type ReplicaTarget struct {
	Node  NodeID
	Store StoreID
	Type  ReplicaType
	// Witness is ReplicaDescriptor's.
	Witness bool
}

// AdminTransferLeaseRequest moves the lease of the range that contains Key. Of is AdminMergeRequest's.
type AdminTransferLeaseRequest struct {
	Key    keys.Key
	Target NodeID
	Of     keys.Span
}

// AdminSetProtocolRequest gives the range that contains Key another commit protocol, while the range is served. Any node may send it, and
// again: a range that has the protocol already is left as it is. A change that is never possible is refused with ProtocolRefusedError.
//
// A span of several ranges is changed one range after the other, each time with the end of the last answer's descriptor as Key. The
// parts of a range that is split later have its protocol, and ranges of different protocols are not merged.
//
// Within, if it is not empty, bounds what is changed: a range that reaches beyond it is split there first, because the ranges at hand
// when the request was made may have been merged with their neighbours since.
type AdminSetProtocolRequest struct {
	Key      keys.Key
	Protocol Protocol
	Within   keys.Span
}

// AdminSetProtocolResponse has the range as it is now, with the protocol that was asked for.
type AdminSetProtocolResponse struct{ Desc RangeDescriptor }

// AdminRecallRequest asks the range that contains Key, which had Protocol earlier and has another one now, what it keeps of that time: the outcome
// of a transaction whose gateway was not told before the change (rangeserver.Protocol.Recall). It is answered by the leaseholder with a ProtocolResponse, whose body the protocol
// knows. ProtocolError: the range has that protocol now.
type AdminRecallRequest struct {
	Key      keys.Key
	Protocol Protocol
	Body     []byte
}

// RangeInfoRequest asks the range that contains Key about itself.
type RangeInfoRequest struct{ Key keys.Key }

// RangeInfoResponse answers it.
type RangeInfoResponse struct {
	Desc          RangeDescriptor
	Leaseholder   NodeID
	LeaseSequence uint64
	LiveBytes     int64
	KeyCount      int64
	TotalBytes    int64
	// RequestsPerSecond is how many requests the range had lately.
	RequestsPerSecond uint64
}

// SubsumeRequest freezes the range that begins at Key, so that its left neighbour can absorb it. Txn is the merge's
// transaction, whose removal of the range's descriptor is there as an intent. The range serves nothing more until that
// transaction has ended without a commit; it finds that out by itself.
type SubsumeRequest struct {
	Key keys.Key
	Txn TxnMeta
}

// SubsumeResponse is the last state of a frozen range.
type SubsumeResponse struct {
	Desc RangeDescriptor
	// Applied is the log index of its last change.
	Applied uint64
	// Freeze is at or above every timestamp at which anything was served or closed.
	Freeze clock.Timestamp
}

// RecoverTxnRequest finishes a staging transaction whose writes were all found, or one was prevented.
type RecoverTxnRequest struct {
	Txn               TxnMeta
	ImplicitlyCommits bool
}

// RecoverTxnResponse has the record afterwards.
type RecoverTxnResponse struct{ Txn Txn }

// LoadRequest adds a version at Header.Timestamp to each of its keys, outside of any transaction. A version with the same
// timestamp and value is this very request, delivered before. It fills indexes that nobody reads yet (docs/decisions,
// bulk writes), and is a batch of its own; the answer is a LoadResponse.
type LoadRequest struct {
	// Rows are in key order, each key once; their timestamps are not used. There is at least one.
	Rows []KeyValue
	Mode LoadMode
}

// LoadMode says who else may use the keys of a load.
type LoadMode byte

const (
	// LoadAlone: nobody. A key with a value (ConditionFailedError), a later version (WriteTooOldError) or an intent fails
	// the request.
	LoadAlone LoadMode = iota
	// LoadShared: others write the keys, and look whether they are taken. Locks are waited for. A key with another value, a
	// later version, or a read at or above the timestamp is refused.
	LoadShared
	// LoadUnread: others write the keys, but nobody reads them. Locks are waited for. A later version stays, and the key needs
	// no other: whoever wrote it knew what the load does not. A key with another value is refused.
	LoadUnread
)

// LoadResponse lists the keys that were not loaded because they are in use; the others were.
type LoadResponse struct{ Refused []keys.Key }

// ClearRequest removes all versions of a span for good, at most Max keys (zero: all); the answer is a
// DeleteRangeResponse. Nobody may want to read the span, at any timestamp. Transactions that have intents in it are waited for. It
// is a batch of its own.
type ClearRequest struct {
	Start, End keys.Key
	Max        int64
	// Threshold, if not zero: no read at or below it is served by the range any more, so that none finds the span empty
	// that may have wanted it.
	Threshold clock.Timestamp
}

// ProtocolRequest is a request of a protocol's own, to the protocol's participant at a range: the keys by which it is routed,
// and bytes that the protocol alone reads. An empty End: it is about the one key.
type ProtocolRequest struct {
	Key, End keys.Key
	Body     []byte
	// Reads says that the answer promises nothing: it counts without another node hearing of it (fence.FE5).
	Reads bool
}

// ProtocolResponse answers it.
type ProtocolResponse struct {
	Body []byte
	// Store is how far the store of the replica that answers had come, of the first response of a batch to another node. The sender counts an
	// answer only when its node has taken that in (fence.FE5). Stores fill it in, not protocols.
	Store StorePosition
}

// StorePosition is how far the store of a node has come, and under which start of the node (package fence).
type StorePosition struct {
	Start, Token, Position uint64
}

// NegotiateRequest asks a replica for the latest timestamp at which it can serve stale reads of [Start, End), or of the key Start if End is
// empty, without waiting for anything (CRDB'22 §5.3.2). The batch is sent to the nearest replicas (ToNearest); it reads no values, and leaves
// nothing behind. An answer below Least is of no use to the sender, so the replica may stop when it knows that it is.
type NegotiateRequest struct {
	Start, End keys.Key
	Least      clock.Timestamp
}

// NegotiateResponse answers it: all stale reads of the span at Timestamp or earlier, above the range's threshold of garbage collection, are
// served by this replica. That stays so while the replica has the span, because nothing is ever written at or below a closed timestamp (I6). If
// Intent, the timestamp is just below an intent; else it is Closed, the replica's closed timestamp. Of several parts of the span, Timestamp is the
// earliest and Closed the latest.
type NegotiateResponse struct {
	Timestamp clock.Timestamp
	Intent    bool
	Closed    clock.Timestamp
}

// CloseRequest asks the leaseholder of a key's range to promise now that it writes nothing at or below At any more, in the whole range (I6; Spanner §4.2.4, MinNextTS on
// demand). At may be ahead of its clock as far as one of true time is. The batch is one of a node that has another replica of the range.
type CloseRequest struct {
	Key keys.Key
	At  clock.Timestamp
}

// CloseResponse answers it: a replica of the range that has applied the log up to Index has everything at or below At. Range is the one that has promised: after a split it may be another one
// than that of which the asking node has a replica. An earlier binary does not name it.
type CloseResponse struct {
	Index uint64
	Range RangeID
}

// EmptyResponse answers requests that have nothing to say.
type EmptyResponse struct{}

// Response is one request's result: a pointer to one of the types above.
type Response interface{}

// BatchResponse answers a batch: one response for each request.
type BatchResponse struct {
	// Txn is the transaction with its timestamps as the range left them.
	Txn *Txn
	// Timestamp at which a batch without a transaction was evaluated.
	Timestamp clock.Timestamp
	// LockedAt is at or before the moment at which the batch's locks were taken, by the clocks of their leaseholders, if it took any.
	LockedAt clock.Timestamp
	// Now is the server's clock when the answer left.
	Now clock.Timestamp
	// Waited is for how long the batch waited for locks, at leaseholders that are not its gateway.
	Waited    time.Duration
	Responses []Response
	// RangeInfos correct the sender's range cache, when the batch came with an old idea of the range.
	RangeInfos []RangeInfo
	// Served names who answered, if Header.Trace asked.
	Served []Served
	// Leads says that the range, or one of them, closes timestamps ahead of the clock, so that every replica can serve Present reads. It is
	// what the leaseholder knows; a sender that is not told the truth asks the wrong replica first.
	Leads bool
	// Followed are rows to which the values that were found lead, if Header.Follow asked for them and they were at hand.
	Followed *Followed
}

// Sole is the response of a batch of one request; ok is false if it is of another kind.
func Sole[T Response](r *BatchResponse) (x T, ok bool) {
	if r == nil || len(r.Responses) != 1 {
		return x, false
	}
	x, ok = r.Responses[0].(T)
	return x, ok
}

// Followed are rows that came with the entries that lead to them, read as the batch's own keys were: by its transaction, at its timestamp.
type Followed struct {
	Rows []KeyValue
	// Lock is the lock that the transaction has on all of them (Header.FollowLock), and LockedAt as for the batch's own locks. The lock of a transaction without an anchor, of
	// which there is one, has made its key the anchor.
	Lock     LockStrength
	LockedAt clock.Timestamp
}

// RangeInfo is what a node knows of a range.
type RangeInfo struct {
	Desc        RangeDescriptor
	Leaseholder ReplicaDescriptor
}

// Served names the range and node that answered part of a batch.
type Served struct {
	Range RangeID
	Node  NodeID
}

func point(k keys.Key) keys.Span { return keys.Span{Start: k} }

// Span is the keys that each request is about, by which it is routed and latched.
func (r *GetRequest) Span() keys.Span                 { return point(r.Key) }
func (r *ScanRequest) Span() keys.Span                { return keys.Span{Start: r.Start, End: r.End} }
func (r *PutRequest) Span() keys.Span                 { return point(r.Key) }
func (r *CPutRequest) Span() keys.Span                { return point(r.Key) }
func (r *DeleteRequest) Span() keys.Span              { return point(r.Key) }
func (r *DeleteRangeRequest) Span() keys.Span         { return keys.Span{Start: r.Start, End: r.End} }
func (r *AddRequest) Span() keys.Span                 { return point(r.Key) }
func (r *EndTxnRequest) Span() keys.Span              { return point(r.Anchor) }
func (r *HeartbeatTxnRequest) Span() keys.Span        { return point(r.Anchor) }
func (r *PushTxnRequest) Span() keys.Span             { return point(r.Pushee.Anchor) }
func (r *QueryTxnRequest) Span() keys.Span            { return point(r.Txn.Anchor) }
func (r *QueryIntentRequest) Span() keys.Span         { return point(r.Key) }
func (r *ResolveIntentRequest) Span() keys.Span       { return point(r.Key) }
func (r *ResolveRangeRequest) Span() keys.Span        { return keys.Span{Start: r.Start, End: r.End} }
func (r *RefreshRequest) Span() keys.Span             { return point(r.Key) }
func (r *CheckLocksRequest) Span() keys.Span          { return keys.Span{Start: r.Start, End: r.End} }
func (r *RefreshRangeRequest) Span() keys.Span        { return keys.Span{Start: r.Start, End: r.End} }
func (r *GCRequest) Span() keys.Span                  { return point(r.Start) }
func (r *AdminSplitRequest) Span() keys.Span          { return point(r.Key) }
func (r *AdminMergeRequest) Span() keys.Span          { return point(r.Key) }
func (r *AdminChangeReplicasRequest) Span() keys.Span { return point(r.Key) }
func (r *AdminTransferLeaseRequest) Span() keys.Span  { return point(r.Key) }
func (r *AdminSetProtocolRequest) Span() keys.Span    { return point(r.Key) }
func (r *AdminRecallRequest) Span() keys.Span         { return point(r.Key) }
func (r *RangeInfoRequest) Span() keys.Span           { return point(r.Key) }
func (r *RecoverTxnRequest) Span() keys.Span          { return point(r.Txn.Anchor) }
func (r *SubsumeRequest) Span() keys.Span             { return point(r.Key) }

func (r *ProtocolRequest) Span() keys.Span { return keys.Span{Start: r.Key, End: r.End} }

func (r *CloseRequest) Span() keys.Span { return point(r.Key) }

func (r *NegotiateRequest) Span() keys.Span { return keys.Span{Start: r.Start, End: r.End} }

func (r *ReleaseRequest) Span() keys.Span { return keys.Span{Start: r.Start, End: r.End} }

func (r *ClearRequest) Span() keys.Span { return keys.Span{Start: r.Start, End: r.End} }

// Span reaches from the first to the last row.
func (r *LoadRequest) Span() keys.Span {
	if len(r.Rows) == 0 {
		return keys.Span{}
	}
	return keys.Span{Start: r.Rows[0].Key, End: r.Rows[len(r.Rows)-1].Key.Next()}
}

func (*NegotiateRequest) Method() Method           { return MethodNegotiate }
func (*CloseRequest) Method() Method               { return MethodClose }
func (*ProtocolRequest) Method() Method            { return MethodProtocol }
func (*LoadRequest) Method() Method                { return MethodLoad }
func (*ClearRequest) Method() Method               { return MethodClear }
func (*SubsumeRequest) Method() Method             { return MethodSubsume }
func (*CheckLocksRequest) Method() Method          { return MethodCheckLocks }
func (*ReleaseRequest) Method() Method             { return MethodRelease }
func (*GetRequest) Method() Method                 { return MethodGet }
func (*ScanRequest) Method() Method                { return MethodScan }
func (*PutRequest) Method() Method                 { return MethodPut }
func (*CPutRequest) Method() Method                { return MethodCPut }
func (*DeleteRequest) Method() Method              { return MethodDelete }
func (*DeleteRangeRequest) Method() Method         { return MethodDeleteRange }
func (*AddRequest) Method() Method                 { return MethodAdd }
func (*EndTxnRequest) Method() Method              { return MethodEndTxn }
func (*HeartbeatTxnRequest) Method() Method        { return MethodHeartbeatTxn }
func (*PushTxnRequest) Method() Method             { return MethodPushTxn }
func (*QueryTxnRequest) Method() Method            { return MethodQueryTxn }
func (*QueryIntentRequest) Method() Method         { return MethodQueryIntent }
func (*ResolveIntentRequest) Method() Method       { return MethodResolveIntent }
func (*ResolveRangeRequest) Method() Method        { return MethodResolveRange }
func (*RefreshRequest) Method() Method             { return MethodRefresh }
func (*RefreshRangeRequest) Method() Method        { return MethodRefreshRange }
func (*GCRequest) Method() Method                  { return MethodGC }
func (*AdminSplitRequest) Method() Method          { return MethodAdminSplit }
func (*AdminMergeRequest) Method() Method          { return MethodAdminMerge }
func (*AdminChangeReplicasRequest) Method() Method { return MethodAdminChangeReplicas }
func (*AdminTransferLeaseRequest) Method() Method  { return MethodAdminTransferLease }
func (*AdminSetProtocolRequest) Method() Method    { return MethodAdminSetProtocol }
func (*AdminRecallRequest) Method() Method         { return MethodAdminRecall }
func (*RangeInfoRequest) Method() Method           { return MethodRangeInfo }
func (*RecoverTxnRequest) Method() Method          { return MethodRecoverTxn }

// OfRows reports whether a request reads or writes rows, or is a protocol's own: it is for the participant of the range's
// protocol. All others are about transaction records, descriptors and other range-local keys, or about the range itself; these
// are the leader protocol's in every range.
func OfRows(r Request) bool {
	switch r := r.(type) {
	case *ProtocolRequest:
		return true
	case *GetRequest, *ScanRequest, *PutRequest, *CPutRequest, *DeleteRequest, *DeleteRangeRequest, *AddRequest,
		*QueryIntentRequest, *ResolveIntentRequest, *ResolveRangeRequest, *RefreshRequest, *RefreshRangeRequest, *LoadRequest,
		*ClearRequest, *ReleaseRequest, *CheckLocksRequest, *NegotiateRequest, *CloseRequest:
		return !keys.IsLocal(r.Span().Start)
	}
	return false
}

// IsWrite reports whether a method changes replicated state, so that it must go through raft.
func (m Method) IsWrite() bool {
	switch m {
	case MethodPut, MethodCPut, MethodDelete, MethodDeleteRange, MethodAdd, MethodEndTxn, MethodHeartbeatTxn,
		MethodPushTxn, MethodQueryIntent, MethodResolveIntent, MethodResolveRange, MethodGC, MethodRecoverTxn,
		MethodLoad, MethodClear:
		return true
	}
	return false
}

// IsAdmin reports whether a method is carried out by the range itself, outside evaluation.
func (m Method) IsAdmin() bool {
	switch m {
	case MethodAdminSplit, MethodAdminMerge, MethodAdminChangeReplicas, MethodAdminTransferLease, MethodAdminSetProtocol, MethodAdminRecall:
		return true
	}
	return false
}
