package txn

import (
	"bytes"
	"context"
	"slices"

	"meridian/commit/leader/coordinator"
	"meridian/keys"
	"meridian/kv"
	"meridian/route"
)

// Writes that leave before the commit, because the buffer has grown too large, are pipelined (CRDB'20 §3.1): the
// statement returns while they are on their way to their quorums.
//
//	PW1 (TX1) Whoever touches a key of a flight, to read it or to write it again, waits for the flight first: a
//	    pipeline stall. So a range sees one key's writes in the order of their numbers, and a read finds its own.
//	PW2 (CO1) A flight does not let its range move the read timestamp, because the transaction reads on at the one it
//	    has. What a flight asks for is done when it is settled: the reads up to then are refreshed.
//	PW3 (I2) A commit begins after all flights were settled, so that it lists or has already all writes.
//	PW4 What goes wrong with a flight comes out at the next operation after it, at the latest at the commit; the
//	    transaction can't go on, because what it had buffered is gone.
//	PW5 Cleanup of an attempt waits for its flights, lest they lay intents behind it.

// flightsOut bounds the batches under way for one transaction, each of a megabyte: enough for 80 MB/s over 100 ms.
const flightsOut = 8

// flushing is one batch of intents under way.
type flushing struct {
	b *kv.Batch
	// ks are the keys that it writes, sorted; nil if there are spans among them: it then touches everything.
	ks     []keys.Key
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

// touches reports whether the flight writes within a span.
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

// overlaps reports whether two flights write the same key.
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

// flightKeys are the keys of a batch of intents.
func flightKeys(b *kv.Batch) []keys.Key {
	ks := make([]keys.Key, 0, len(b.Requests))
	for _, r := range b.Requests {
		s := r.Span()
		if !s.Point() {
			return nil
		}
		if n := len(ks); n == 0 || !bytes.Equal(ks[n-1], s.Start) {
			ks = append(ks, s.Start)
		}
	}
	if !slices.IsSortedFunc(ks, keys.Key.Compare) {
		slices.SortFunc(ks, keys.Key.Compare)
	}
	return ks
}

// launch sends intents, and returns when they are on their way.
func (t *Txn) launch(ctx context.Context, b *kv.Batch) error {
	f := &flushing{b: b, ks: flightKeys(b), done: make(chan struct{})}
	for i := 0; i < len(t.flights); {
		if g := t.flights[i]; g.landed() || g.overlaps(f) || len(t.flights) >= flightsOut {
			if err := t.settle(ctx, i); err != nil {
				return err
			}
			continue
		}
		i++
	}
	t.beat.want = true
	t.c.PrepareFlush(b)
	b.Trace, b.LockTimeout = t.trace, t.o.LockTimeout
	t.heartbeat()
	// The statement's end is not the flight's.
	out, cancel := context.WithCancel(route.PatienceOf(ctx).With(t.db.o.Host.Group.Context()))
	f.cancel = cancel
	sender := t.db.o.Sender
	if !t.db.o.Host.Group.Go(func(context.Context) {
		defer close(f.done)
		f.r, f.err = sender.Send(out, b)
	}) {
		cancel()
		return &kv.UnavailableError{Reason: "node stopped"}
	}
	t.flights = append(t.flights, f)
	return nil
}

// settle waits for flight i and does what its answer asks for.
func (t *Txn) settle(ctx context.Context, i int) error {
	f := t.flights[i]
	if !f.landed() {
		t.db.o.Probes.Reached("txn: pipeline stall")
		t.db.metrics.PipelineStalls.Add(1)
		select {
		case <-f.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	f.cancel()
	t.flights = slices.Delete(t.flights, i, i+1)
	if f.r != nil && t.trace {
		t.note(f.r.Served)
	}
	err := f.err
	if a := t.c.Answered(f.b, f.r, f.err); a.Verdict != coordinator.Done {
		err = a.Err
		if a.Verdict == coordinator.Again {
			t.db.o.Probes.Reached("txn: flight sent again")
			err = t.again(ctx, f.b, a.Refresh)
		}
	}
	if err != nil {
		if t.c.Broken() == nil {
			t.c.Fail(err) // PW4
		}
		t.c.Spoil()
	}
	return err
}

// again moves the timestamp and sends a flight once more.
func (t *Txn) again(ctx context.Context, b *kv.Batch, refresh *kv.Batch) error {
	if refresh != nil {
		if err := t.refresh(ctx, refresh); err != nil {
			return err
		}
	}
	// What was rolled back since is not wanted any more.
	b.Requests = t.c.Wanted(b.Requests)
	if len(b.Requests) == 0 {
		return nil
	}
	_, err := t.send(ctx, b, t.c.PrepareFlush)
	return err
}

// stall settles the flights that write within a span (PW1), and those that have landed (PW4).
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

// settleAll settles all flights.
func (t *Txn) settleAll(ctx context.Context) error {
	for len(t.flights) > 0 {
		if err := t.settle(ctx, 0); err != nil {
			return err
		}
	}
	return nil
}

// recall gives up all flights, and returns what to wait for before their intents are cleaned up (PW5); nil is nothing.
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
