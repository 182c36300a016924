package txn

import (
	"context"

	"meridian/clock"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
)

// Records is the gateway's part of the protocol whose ranges keep transactions' records, the leader's. Each transaction has its Coordinator from the
// beginning, since it may need a record though it never reads or writes a row there.
type Records interface {
	// Begin makes the Coordinator of a transaction that begins.
	Begin(Owner) Keeper
}

// Keeper is the Coordinator of the protocol whose ranges keep records. Above a Coordinator it has what a transaction may rely on where a range has one
// leaseholder (reads of many spans at once, locks that last, statements with a snapshot of their own, writes that leave before the commit), and the commit with a record.
type Keeper interface {
	Coordinator

	// Point is Get of one key.
	Point(ctx context.Context, k keys.Key, o ReadOptions) ([]byte, error)
	// First is Get for the first n of the keys that have a value and are free (Txn.LockFirst).
	First(ctx context.Context, ks []keys.Key, n int, o ReadOptions) (values [][]byte, changed []bool, err error)
	// ScanAll scans several spans, in parallel over their ranges: completely, or with a bound of rows or bytes for each range their beginnings.
	ScanAll(ctx context.Context, spans []keys.Span, o ScanOptions) (rows [][]kv.KeyValue, rests []*keys.Span, err error)

	// BeginStatement gives a statement at READ COMMITTED its own snapshot, after the Core has begun it; RestartStatement has the running one begin again with a later one
	// (transaction.Core.MayRestartStatement).
	BeginStatement(now clock.Reading)
	RestartStatement(now clock.Reading)
	// Unread reports whether the transaction may still read at another timestamp: it has read nothing in ranges of this protocol.
	Unread() bool
	// LookAnew moves a transaction that is Unread to the present.
	LookAnew(now clock.Reading)
	// ReadNear has replicas near the gateway serve plain reads of the present, if its snapshot has no uncertainty.
	ReadNear()
	// Uncertain takes an error of another protocol's read that asks for a later timestamp. nil: what was read before holds there, and the read is to be made again.
	Uncertain(ctx context.Context, err error) error

	// SeenAt is when the transaction saw what a new write to k replaces; zero is at its read timestamp.
	SeenAt(k keys.Key) clock.Timestamp
	// Check has what was read of a span hold when the transaction commits, apart from its own writes. With exists it is a key of which only matters that it has a value.
	Check(s keys.Span, exists bool)
	// HasHeld reports whether the transaction was given locks that the client asked for, and CheckHeld fails if it has not had them all the time.
	HasHeld() bool
	CheckHeld(ctx context.Context) error

	// Flush sends batches of intents, and returns when they are in flight (txn.PW1 to txn.PW5); Lay, when they are durable.
	Flush(ctx context.Context, batches []*kv.Batch) error
	Lay(ctx context.Context, batches []*kv.Batch) error
	// Flying reports whether a batch may be in flight. Recall abandons all of them, and returns a function that waits for them, to be called before their intents are cleaned up
	// (txn.PW5); nil if there are none.
	Flying() bool
	Recall() func(context.Context)

	// Commit commits the writes in the Core's buffer, in one phase or with a record, and has the Owner make the writes of other protocols durable meanwhile.
	// It reports whether that took one phase.
	Commit(ctx context.Context) (one bool, err error)
	// Pending are the writes of a commit that is under way, in leaders' ranges; ok is false if some of them were sent apart from the others. Restage stages it again with other
	// writes, later than it was and than a timestamp. elsewhere: there are writes of other protocols.
	Pending() (writes []kv.Request, ok bool)
	Restage(writes []kv.Request, elsewhere bool, to clock.Timestamp) error
}

// Owner is a transaction as its Keeper sees it.
type Owner interface {
	// Core is the part of the transaction that is common to all protocols; Options and Metrics are the DB's.
	Core() *transaction.Core
	Options() *Options
	Metrics() *Metrics

	// Prepare makes a batch one of the transaction, and has others learn that it lives if it has something to protect. Dispatch sends it.
	Prepare(b *kv.Batch)
	Dispatch(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error)
	// Served takes the answer to a batch that was sent in another way.
	Served(r *kv.BatchResponse)
	// Protect says that there may be locks or intents, so that heartbeats are needed. Refused takes the error of a batch that was to take some.
	Protect()
	Refused(b *kv.Batch, err error)
	// Unrecorded reports whether there is no record, and has none made from here on.
	Unrecorded() bool

	// Lost ends the attempt because of the error of a batch in flight, and returns the transaction's; Broken does because a part of the buffer was not sent.
	Lost(err error) error
	Broken(err error)

	// Elsewhere reports whether the commit has writes in ranges of other protocols, and ListElsewhere adds them to those that a record lists.
	Elsewhere() bool
	ListElsewhere(list []kv.InFlightWrite) []kv.InFlightWrite
	// Bound brings the Core's deadline up to date.
	Bound(ctx context.Context)
	// Along is called with each batch of the commit before it leaves. While one that stages the record is under way the other protocols' writes are, too, and wait, if not nil, returns their outcome;
	// before one that decides they are durable. again: the batch must not be sent, as the commit continues in another way.
	Along(ctx context.Context, b *kv.Batch) (wait func() error, again bool, err error)
	// Land returns when the other protocols' writes are durable at the record's timestamp (txn.MP2), or again, if the commit continues in another way.
	Land(ctx context.Context, at clock.Timestamp) (again bool, err error)
	// HandedOver takes the error of a batch of the commit. If a range has refused it because it has another protocol, the commit is divided anew.
	HandedOver(b *kv.Batch, err error) (handed bool, _ error)
	// RefusedElsewhere takes the reason why the other protocols' writes are not durable. nil: the commit continues.
	RefusedElsewhere(err error) error
	// Concluded finds out what has become of a commit that ended with an error, from the record at an anchor (txn.TX17). nil: it has committed.
	Concluded(ctx context.Context, anchor keys.Key, err error) error
}

// owner is the transaction's Owner.
type owner Txn

var _ Owner = (*owner)(nil)

func (o *owner) txn() *Txn               { return (*Txn)(o) }
func (o *owner) Core() *transaction.Core { return &o.core }
func (o *owner) Options() *Options       { return &o.db.o }
func (o *owner) Metrics() *Metrics       { return &o.db.metrics }
func (o *owner) Protect()                { o.beat.want = true }

func (o *owner) Prepare(b *kv.Batch) {
	b.Trace, b.LockTimeout = o.trace, o.o.LockTimeout
	o.txn().heartbeat()
}

func (o *owner) Dispatch(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	if o.holder != nil {
		defer o.txn().linked(ctx)()
	}
	r, err := o.db.o.Sender.Send(ctx, b)
	o.Served(r)
	return r, err
}

func (o *owner) Served(r *kv.BatchResponse) {
	if r != nil && o.trace {
		o.txn().note(r.Served)
	}
}

func (o *owner) Refused(b *kv.Batch, err error) { o.txn().unlock(b, err) }

func (o *owner) Unrecorded() bool {
	// A record at the present anchor would be left behind. No heartbeat makes one from here on.
	o.db.beats.remove(&o.beat)
	return !o.beat.record()
}

func (o *owner) Lost(err error) error {
	if o.core.Broken() == nil {
		if o.txn().handOver(err) {
			err = o.core.Fail(transaction.ProtocolChanged, err, true) // the next attempt knows the protocol
		} else {
			o.txn().fail(err)
		}
	}
	o.core.Spoil()
	return err
}

func (o *owner) Broken(err error) {
	if o.core.Broken() == nil {
		o.txn().fail(err)
	}
}

func (o *owner) Elsewhere() bool { return o.txn().elsewhere() }

func (o *owner) ListElsewhere(list []kv.InFlightWrite) []kv.InFlightWrite {
	return o.txn().listElsewhere(list)
}

func (o *owner) Bound(ctx context.Context) {
	if o.deadline != nil || o.holder != nil {
		// A long commit outlives the lease's term, which is renewed meanwhile.
		t := o.txn()
		o.core.SetDeadline(t.boundElsewhere(t.latest(ctx)))
	}
}

func (o *owner) Along(ctx context.Context, b *kv.Batch) (wait func() error, again bool, err error) {
	t := o.txn()
	if wait, again, err = t.beginElsewhere(ctx, b); err != nil {
		return nil, false, t.undecided(err)
	}
	return wait, again, nil
}

func (o *owner) Land(ctx context.Context, at clock.Timestamp) (again bool, err error) {
	return o.txn().landElsewhere(ctx, at)
}

func (o *owner) HandedOver(b *kv.Batch, err error) (handed bool, _ error) {
	t := o.txn()
	if !t.handOver(err) {
		return false, nil
	}
	return true, t.undecided(t.handedOver(b, err))
}

func (o *owner) RefusedElsewhere(err error) error {
	t := o.txn()
	return t.undecided(t.refusedElsewhere(err))
}

func (o *owner) Concluded(ctx context.Context, anchor keys.Key, err error) error {
	return o.txn().concluded(ctx, anchor, err)
}
