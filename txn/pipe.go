package txn

import (
	"bytes"
	"context"
	"slices"

	"meridian/clock"
	"meridian/commit/leader/coordinator"
	"meridian/commit/protocol"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
	"meridian/route"
)

// Writes that leave before the commit, because the buffer has grown too large, are pipelined (CRDB'20 §3.1): the statement returns while
// they are replicated. A flight is one batch of such in-flight writes.
//
//	txn.PW1 (txn.TX1): An operation on a key of an in-flight batch, a read or another write, waits for the batch first: a pipeline stall. So
//	    a range sees one key's writes in the order of their numbers, and a read finds its own.
//	txn.PW2 (coordinator.CO1): An in-flight batch does not let its range move the read timestamp, because the transaction keeps reading at
//	    the present one. If the answer requires a later timestamp, the reads up to then are refreshed when it is received.
//	txn.PW3 (I2): A commit lists each write that has not been acknowledged: the record is staged while batches are in flight, and the
//	    transaction has committed when the record and all of them have been acknowledged at or below its timestamp (coordinator.CO11).
//	txn.PW4: An error of an in-flight batch is returned by the next operation, at the latest by the commit; the transaction can't continue,
//	    because the buffered writes are gone.
//	txn.PW5: Cleanup of an attempt waits for its in-flight batches, which might otherwise write intents after it.

// flightsOut bounds the batches in flight for one transaction, each of a megabyte: enough for 40 MB/s over rounds of 200 ms, and 8 MB of
// the gateway's memory. 32 MiB over such rounds take 4.0 s with 2 batches, 2.1 with 4, 1.1 with 8, 0.8 with 16 and 0.6 with 32, COMMIT
// included; with 32 the list of unacknowledged writes is longer than a record may have, and COMMIT takes a second round (coordinator.CO11).
const flightsOut = 8

// flushing is one batch of intents in flight.
type flushing struct {
	b *kv.Batch
	// ks are the keys that it writes, sorted; nil if there are spans among them: it then covers every key.
	ks     []keys.Key
	bytes  int // of ks
	cancel context.CancelFunc
	done   chan struct{}
	// r and err are the answer, once done is closed.
	r   *kv.BatchResponse
	err error
}

func (f *flushing) landed() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// touches reports whether the batch writes within a span.
func (f *flushing) touches(s keys.Span) bool {
	if f.ks == nil {
		return true
	}
	i, found := slices.BinarySearchFunc(f.ks, s.Start, keys.Key.Compare)
	if s.Point() {
		return found
	}
	return i < len(f.ks) && f.ks[i].Less(s.End)
}

// overlaps reports whether two batches write the same key.
func (f *flushing) overlaps(g *flushing) bool {
	if f.ks == nil || g.ks == nil {
		return true
	}
	for a, b := f.ks, g.ks; len(a) > 0 && len(b) > 0; {
		switch c := bytes.Compare(a[0], b[0]); {
		case c == 0:
			return true
		case c < 0:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return false
}

// flightKeys are the keys of a batch of intents, and their size.
func flightKeys(b *kv.Batch) (ks []keys.Key, size int) {
	ks = make([]keys.Key, 0, len(b.Requests))
	for _, r := range b.Requests {
		s := r.Span()
		if !s.Point() {
			return nil, 0
		}
		if n := len(ks); n == 0 || !bytes.Equal(ks[n-1], s.Start) {
			ks = append(ks, s.Start)
			size += len(s.Start)
		}
	}
	if !slices.IsSortedFunc(ks, keys.Key.Compare) {
		slices.SortFunc(ks, keys.Key.Compare)
	}
	return ks, size
}

// launch sends intents, and returns when they are in flight, with at most out batches.
func (t *Txn) launch(ctx context.Context, b *kv.Batch, out int) error {
	f := &flushing{b: b, done: make(chan struct{})}
	f.ks, f.bytes = flightKeys(b)
	for i := 0; i < len(t.flights); {
		if g := t.flights[i]; g.landed() || g.overlaps(f) || len(t.flights) >= out {
			if err := t.settle(ctx, i); err != nil {
				return err
			}
			continue
		}
		i++
	}
	t.beat.want = true
	t.leader.PrepareFlush(b)
	b.Trace, b.LockTimeout = t.trace, t.o.LockTimeout
	t.heartbeat()
	// The batch may outlive the statement.
	outer := route.PatienceOf(ctx).With(t.db.o.Host.Group.Context())
	if trace := route.TraceOf(ctx); trace != nil {
		outer = route.WithTrace(outer, trace)
	}
	fly, cancel := context.WithCancel(outer)
	f.cancel = cancel
	sender := t.db.o.Sender
	if !t.db.o.Host.Group.Go(func(context.Context) {
		defer close(f.done)
		defer cancel()
		f.r, f.err = sender.Send(fly, b)
	}) {
		cancel()
		return &kv.UnavailableError{Reason: "node stopped"}
	}
	t.flights = append(t.flights, f)
	return nil
}

// failedAt is the latest that a node's clock may show, if there is an error; zero: others may have taken this gateway for dead whatever the time (commit.CR2).
func (t *Txn) failedAt(err error) (latest clock.Timestamp) {
	if err == nil {
		return latest
	}
	if i := t.core.Txn().Incarnation; i != 0 && !t.db.o.Support.Unbroken(i) {
		return latest
	}
	return t.db.o.Clock.Read().Latest
}

// settle waits for batch i and carries out the consequences of its answer.
func (t *Txn) settle(ctx context.Context, i int) error {
	f := t.flights[i]
	if !f.landed() {
		t.db.o.Probes.Reached("txn: pipeline stall")
		t.db.metrics.PipelineStalls.Add(1)
		select {
		case <-f.done:
		case <-ctx.Done():
			return t.leader.Doubt(ctx.Err(), clock.Timestamp{})
		}
	}
	t.flights = slices.Delete(t.flights, i, i+1)
	if f.r != nil && t.trace {
		t.note(f.r.Served)
	}
	err := t.leader.Doubt(f.err, t.failedAt(f.err))
	if a := t.leader.Answered(f.b, f.r, f.err); a.Verdict != coordinator.Done && !isAmbiguous(err) {
		err = a.Err
		if a.Verdict == coordinator.Again {
			t.db.o.Probes.Reached("txn: flight sent again")
			err = t.again(ctx, f.b, a.Refresh)
			err = t.leader.Doubt(err, t.failedAt(err))
		}
	}
	if err != nil {
		if t.core.Broken() == nil {
			if t.handOver(err) {
				err = t.core.Fail(transaction.ProtocolChanged, err, true) // the next attempt knows the protocol
			} else {
				t.fail(err) // txn.PW4
			}
		}
		t.core.Spoil()
	}
	return err
}

// again moves the timestamp and sends a batch once more.
func (t *Txn) again(ctx context.Context, b *kv.Batch, refresh *kv.Batch) error {
	if refresh != nil {
		if err := t.refresh(ctx, refresh); err != nil {
			return err
		}
	}
	// Writes that were rolled back since are left out.
	b.Requests = t.core.Wanted(b.Requests)
	if len(b.Requests) == 0 {
		return nil
	}
	_, err := t.send(ctx, b, t.leader.PrepareFlush)
	return err
}

// stall waits for the batches that write within a span (txn.PW1), and takes the answers of those that have ended (txn.PW4).
func (t *Txn) stall(ctx context.Context, s keys.Span) error {
	for i := 0; i < len(t.flights); {
		if f := t.flights[i]; f.landed() || f.touches(s) {
			if err := t.settle(ctx, i); err != nil {
				return err
			}
			continue
		}
		i++
	}
	return nil
}

// stallKeys is stall for several keys.
func (t *Txn) stallKeys(ctx context.Context, ks []keys.Key) error {
	for _, k := range ks {
		if len(t.flights) == 0 {
			return nil
		}
		if err := t.stall(ctx, keys.Span{Start: k}); err != nil {
			return err
		}
	}
	return nil
}

// settleAll waits for all batches in flight.
func (t *Txn) settleAll(ctx context.Context) error {
	for len(t.flights) > 0 {
		if err := t.settle(ctx, 0); err != nil {
			return err
		}
	}
	return nil
}

// beside tells the coordinator which writes are in flight while the record is staged. It waits for those that the record can't list,
// because there are spans among them or its list is full, and for those whose keys are written again (txn.PW1).
func (t *Txn) beside(ctx context.Context) error {
	for _, r := range t.leader.Together() {
		if len(t.flights) == 0 {
			break
		}
		if err := t.stall(ctx, r.Span()); err != nil {
			return err
		}
	}
	for i := 0; i < len(t.flights); {
		if f := t.flights[i]; f.landed() || f.ks == nil {
			if err := t.settle(ctx, i); err != nil {
				return err
			}
			continue
		}
		i++
	}
	for {
		n, size := 0, 0
		for _, f := range t.flights {
			n, size = n+len(f.ks), size+f.bytes
		}
		if n <= transaction.MaxInFlight && size <= transaction.MaxInFlightBytes {
			break
		}
		t.db.o.Probes.Reached("txn: too many writes in flight for a record")
		if err := t.settle(ctx, 0); err != nil {
			return err
		}
	}
	var list []kv.InFlightWrite
	for _, f := range t.flights {
		list = t.core.InFlight(list, protocol.Default, f.b.Requests)
	}
	t.leader.Beside(t.listElsewhere(list))
	return nil
}

// recall abandons all batches in flight, and returns a function that waits for them, to be called before their intents are cleaned up
// (txn.PW5); nil if there are none.
func (t *Txn) recall() func(context.Context) {
	flights := t.flights
	t.flights = nil
	if len(flights) == 0 {
		return nil
	}
	for _, f := range flights {
		f.cancel()
	}
	return func(ctx context.Context) {
		for _, f := range flights {
			select {
			case <-f.done:
			case <-ctx.Done():
				return
			}
		}
	}
}
