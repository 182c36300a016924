package txn

import (
	"context"
	"errors"
	"fmt"

	"meridian/clock"
	"meridian/commit"
	"meridian/commit/protocol"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
)

// The commit of a transaction that writes in ranges of other protocols than the leader's. Its writes stay in the buffer until then. All
// protocols' writes leave at the same moment as the STAGING record, which lists them:
//
//	gateway             anchor's range        leader's range       other's range
//	   |--- STAGING {a leader, x other} --->|        |                   |
//	   |--- Put a ---------------------------------->|                   |
//	   |--- Coordinator.Write x ---------------------------------------->|
//	   |<-- staged, intent a, x is durable ----------|-------------------|
//	   |    all at the record's timestamp: committed, the client is answered
//	   |--- EndTxn ------------------------>|        |                   |    after the answer
//	   |--- resolve a; Finisher.Resolve x ---------->|------------------>|
//
// If the record's timestamp has moved, the other protocols' writes are made again there before the transaction is committed: they are
// provisional at one timestamp exactly.

// maxElsewhere bounds the writes of one transaction in ranges of other protocols. Each option of a record names the keys of all others, and so does a staging record, so the bytes grow with
// the square of the number.
const maxElsewhere = 1024

// foreign says which keys that are written are in ranges of other protocols; nil: none are known. The caller asks stays afterwards.
func (t *Txn) foreign() func(keys.Key) bool {
	if (t.others == nil || len(t.others.regions)+len(t.others.coordinators) == 0) && !t.db.meetsOthers() {
		return nil
	}
	return func(k keys.Key) bool {
		t.expect(k)
		p := t.protocol(k)
		if t.others != nil {
			t.others.stays(k, p)
		}
		return !protocol.Leased(p)
	}
}

// stays takes in that a key is about to be written under a protocol.
func (o *others) stays(k keys.Key, p kv.Protocol) {
	for i := range o.coordinators {
		c := &o.coordinators[i]
		if c.protocol == p {
			continue
		}
		if c.HasRead(k) {
			o.moved = true
		}
	}
}

// stays fails the attempt if a row that is written was read under another protocol than it has now (txn.MP6).
func (t *Txn) stays() error {
	if t.others != nil && t.others.moved {
		return t.core.Fail(transaction.ProtocolChanged, nil, true)
	}
	return nil
}

// overlapping returns the protocol of a region that a span overlaps.
func (o *others) overlapping(s keys.Span) (kv.Protocol, bool) {
	for i := range o.regions {
		if o.regions[i].Overlaps(s) {
			return o.regions[i].protocol, true
		}
	}
	return 0, false
}

// divisible returns the reason why the buffered writes can't be divided between the protocols.
func (t *Txn) divisible() error {
	if t.others == nil && !t.db.meetsOthers() {
		return nil
	}
	var err error
	t.core.DeletesWithin(func(s keys.Span) bool {
		if t.expect(s.Start); t.others == nil {
			return false
		}
		p, found := t.others.overlapping(s)
		if found {
			err = &UnsupportedError{Protocol: p, What: "the deletion of a span of keys"}
		}
		return found
	})
	return err
}

// takeElsewhere takes the writes in ranges of other protocols out of the buffer, when the commit begins.
func (t *Txn) takeElsewhere() error {
	f := t.foreign()
	if f == nil {
		return nil
	}
	if err := t.divisible(); err != nil {
		return err
	}
	writes := t.core.TakeElsewhere(f)
	if err := t.stays(); err != nil {
		return err
	}
	guards := t.core.Guards(writes)
	for i := range guards {
		if protocol.Leased(t.protocol(guards[i].Key)) {
			return t.core.Fail(transaction.ProtocolChanged, nil, true) // no check of the leader's has it (txn.MP7)
		}
	}
	if writes = append(writes, guards...); t.others != nil {
		t.others.writes, t.others.durable = writes, clock.Timestamp{}
		return t.others.fewEnough()
	}
	return nil
}

// fewEnough refuses more writes than one transaction may have in ranges of other protocols, before any of them is sent.
func (o *others) fewEnough() error {
	if n := len(o.writes); n > maxElsewhere {
		return &TooManyWritesError{Protocol: o.protocol(o.writes[0].Key), Writes: n, Most: maxElsewhere}
	}
	return nil
}

// noteElsewhere makes the writes in ranges of other protocols known to cleanup, if they are not too many.
func (t *Txn) noteElsewhere() error {
	if !t.elsewhere() {
		return nil
	}
	if err := t.others.fewEnough(); err != nil {
		return err
	}
	for _, g := range t.others.grouped() {
		t.core.NoteElsewhere(g.protocol, g.writes)
	}
	return nil
}

// elsewhere reports whether the commit has writes in ranges of other protocols.
func (t *Txn) elsewhere() bool { return t.others != nil && len(t.others.writes) > 0 }

// listElsewhere adds the writes in ranges of other protocols to the list of a staging record (txn.MP1).
func (t *Txn) listElsewhere(list []kv.InFlightWrite) []kv.InFlightWrite {
	if !t.elsewhere() {
		return list
	}
	for _, g := range t.others.grouped() {
		for i := range g.writes {
			list = append(list, kv.InFlightWrite{Key: g.writes[i].Key, Seq: g.writes[i].Seq, Protocol: g.protocol})
		}
	}
	return list
}

// group is the writes of one protocol.
type group struct {
	protocol kv.Protocol
	writes   []transaction.Write
}

func (o *others) grouped() (out []group) {
next:
	for _, w := range o.writes {
		p := o.protocol(w.Key)
		for i := range out {
			if out[i].protocol == p {
				out[i].writes = append(out[i].writes, w)
				continue next
			}
		}
		out = append(out, group{p, []transaction.Write{w}})
	}
	return out
}

// startElsewhere begins to make the writes in ranges of other protocols durable at the timestamp of a transaction as it stands. wait
// returns when that is done, or with the first reason why it is not; it must be called.
func (t *Txn) startElsewhere(ctx context.Context, at *kv.Txn) (wait func() error) {
	if !t.elsewhere() || t.others.durable == at.WriteTimestamp {
		return func() error { return nil }
	}
	groups, at := t.others.grouped(), t.asksAs(at)
	t.others.sent = groups
	errs := make(chan error, len(groups))
	for _, g := range groups {
		c := t.coordinator(g.protocol)
		if !t.db.o.Host.Group.Go(func(context.Context) { errs <- t.db.writeElsewhere(ctx, c, g, at) }) {
			errs <- &kv.UnavailableError{Reason: "node stopped"}
		}
	}
	return func() error {
		var first error
		for range groups {
			if err := <-errs; err != nil && (first == nil || isAmbiguous(err)) {
				first = err
			}
		}
		if first == nil {
			t.others.durable = at.WriteTimestamp
		}
		return first
	}
}

// writeElsewhere makes the writes of one protocol durable. Its error says that they are not, and never will be at this timestamp, or is
// *kv.AmbiguousError (txn.MP3).
func (db *DB) writeElsewhere(ctx context.Context, c Coordinator, g group, at *kv.Txn) error {
	err := c.Write(ctx, at, g.writes)
	var all bool
	var unsure error
	switch {
	case err == nil || refuses(err) && !replayed(err):
		return err
	case !refuses(err):
		db.o.Probes.Reached("txn: asked whether a write is durable")
		list := make([]kv.InFlightWrite, len(g.writes))
		for i := range g.writes {
			list[i] = kv.InFlightWrite{Key: g.writes[i].Key, Seq: g.writes[i].Seq, Protocol: g.protocol}
		}
		all, unsure = db.finishers.Witness(ctx, commit.NewRecord(at, kv.Staging), list)
	}
	if unsure == nil && !all {
		all, unsure = db.committedAt(ctx, at)
	}
	switch {
	case unsure != nil:
		return &kv.AmbiguousError{Reason: fmt.Sprintf("%v; and %v", err, unsure)}
	case all:
		return nil
	case isAmbiguous(err):
		// It is known now.
		return &kv.TxnRetryError{Reason: kv.RetryPossibleReplay, WriteTimestamp: at.WriteTimestamp.Next()}
	}
	return err
}

// replayed reports whether an error says that a write was prevented by a transaction that took the gateway for dead. The other
// transaction may have found the write before, and ended this one; the write that is prevented then is a late copy.
func replayed(err error) bool {
	var retry *kv.TxnRetryError
	return errors.As(err, &retry) && retry.Reason == kv.RetryPossibleReplay
}

// committedAt reports whether a transaction has committed where its gateway wants it to (txn.MP4).
//
// A record that is not there says no only while nobody can have swept it (commit.SweepAge).
func (db *DB) committedAt(ctx context.Context, at *kv.Txn) (bool, error) {
	r, err := db.o.Sender.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.QueryTxnRequest{Txn: at.TxnMeta}}})
	if err != nil {
		return false, err
	}
	q, ok := kv.Sole[*kv.QueryTxnResponse](r)
	if !ok {
		return false, ErrMalformed
	}
	if !q.Exists && at.MinTimestamp.Add(commit.SweepAge).Less(db.o.Clock.Read().Latest) {
		return false, &kv.AmbiguousError{Reason: "the transaction's record is gone"}
	}
	return q.Exists && q.Txn.Status == kv.Committed && q.Txn.WriteTimestamp == at.WriteTimestamp, nil
}

// refuses reports whether an error says that a write is not durable, and never will be at its timestamp.
func refuses(err error) bool {
	var (
		tooOld    *kv.WriteTooOldError
		retry     *kv.TxnRetryError
		aborted   *kv.TxnAbortedError
		condition *kv.ConditionFailedError
		lock      *kv.LockNotAvailableError
		protocol  *kv.ProtocolError
		none      *UnsupportedError
	)
	return errors.As(err, &tooOld) || errors.As(err, &retry) || errors.As(err, &aborted) || errors.As(err, &condition) ||
		errors.As(err, &lock) || errors.As(err, &protocol) || errors.As(err, &none)
}

// beginElsewhere is called with each batch of the commit before it leaves. During one that stages the record the other protocols' writes
// are in flight, and wait, if not nil, returns their outcome; before one that decides they are durable. again: the batch must not be sent,
// as the commit continues in another way.
func (t *Txn) beginElsewhere(ctx context.Context, b *kv.Batch) (wait func() error, again bool, err error) {
	if !t.elsewhere() {
		return nil, false, nil
	}
	e, ok := b.Requests[len(b.Requests)-1].(*kv.EndTxnRequest)
	if !ok {
		return nil, false, nil
	}
	if t.others.again && len(e.InFlight) > 0 {
		return nil, false, nil // landElsewhere (txn.MP1)
	}
	wait = t.startElsewhere(ctx, b.Txn)
	if len(e.InFlight) > 0 {
		return wait, false, nil
	}
	if err := wait(); err != nil {
		return nil, true, t.refusedElsewhere(err)
	}
	return nil, false, nil
}

// landElsewhere is called when the leader's writes of a staged record have been acknowledged. It returns when the other protocols' writes
// are durable at the record's timestamp (txn.MP2), or again, if the commit continues in another way.
func (t *Txn) landElsewhere(ctx context.Context, at clock.Timestamp) (again bool, err error) {
	if !t.elsewhere() || t.others.durable == at {
		return false, nil
	}
	t.db.o.Probes.Reached("txn: the record was staged later than other protocols' writes")
	x := *t.core.Snapshot()
	x.WriteTimestamp = at
	if err := t.startElsewhere(ctx, &x)(); err != nil {
		return true, t.refusedElsewhere(err)
	}
	return false, nil
}

// handedOver divides the commit anew after a batch was refused by a range of another protocol.
func (t *Txn) handedOver(b *kv.Batch, cause error) error {
	if _, ok := b.Requests[len(b.Requests)-1].(*kv.EndTxnRequest); !ok && !b.Requests[0].Method().IsWrite() {
		// The earlier reads can't be refreshed under the other protocol.
		return t.core.Fail(transaction.ProtocolChanged, cause, false)
	}
	return t.redivide()
}

// refusedElsewhere takes the reason why writes in ranges of other protocols are not durable. nil: the commit continues.
func (t *Txn) refusedElsewhere(err error) error {
	var (
		tooOld  *kv.WriteTooOldError
		retry   *kv.TxnRetryError
		aborted *kv.TxnAbortedError
	)
	if t.handOver(err) {
		return t.redivide()
	}
	switch {
	case errors.As(err, &tooOld):
		return t.restage(tooOld.Actual)
	case errors.As(err, &retry) && retry.Reason == kv.RetrySerializable:
		// A row that the transaction has read was written since: no later timestamp helps.
		return t.core.Fail(transaction.ReadChanged, err, true)
	case errors.As(err, &retry):
		return t.restage(retry.WriteTimestamp)
	case errors.As(err, &aborted):
		return t.fail(err)
	}
	return err
}

// restage stages the commit at a later timestamp.
func (t *Txn) restage(to clock.Timestamp) error {
	own, ok := t.keeper.Pending()
	if !ok {
		return t.core.Fail(transaction.MovedTooOften, nil, true)
	}
	t.others.again = true
	return t.keeper.Restage(own, t.elsewhere(), to)
}

// redivide gives writes of the leader's to the protocols that their ranges have, after a range has answered that it has another one than expected,
// and stages the record at a later timestamp (txn.MP1).
func (t *Txn) redivide() error {
	for _, g := range t.others.sent {
		for i := range g.writes {
			if t.protocol(g.writes[i].Key) != g.protocol {
				return t.core.Fail(transaction.ProtocolChanged, nil, true) // txn.MP6
			}
		}
	}
	own, ok := t.keeper.Pending()
	if !ok {
		// Other writes than the refused ones have been sent already.
		return t.core.Fail(transaction.ProtocolChanged, nil, true)
	}
	t.db.o.Probes.Reached("txn: a write goes to another protocol")
	var mine []kv.Request
	var theirs []transaction.Write
	for _, r := range own {
		w, point := transaction.WriteOf(r)
		switch {
		case !point:
			if p, found := t.others.overlapping(r.Span()); found {
				return &UnsupportedError{Protocol: p, What: "the deletion of a span of keys"}
			}
			mine = append(mine, r)
		case protocol.Leased(t.protocol(w.Key)):
			mine = append(mine, r)
		default:
			theirs = append(theirs, w)
		}
	}
	t.others.writes, t.others.durable, t.others.again = append(theirs, t.others.writes...), clock.Timestamp{}, true
	if err := t.noteElsewhere(); err != nil {
		return err
	}
	return t.keeper.Restage(mine, t.elsewhere(), clock.Timestamp{})
}

// committed tells the Coordinators.
func (o *others) committed(at clock.Timestamp) {
	for i := range o.coordinators {
		o.coordinators[i].Committed(at)
	}
}

// ended tells the coordinators that the transaction has ended at this gateway.
func (o *others) ended() {
	if o == nil {
		return
	}
	for i := range o.coordinators {
		o.coordinators[i].Ended()
	}
}
