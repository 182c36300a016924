package gateway

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

// flightsOut bounds the batches in flight for one transaction, each of a megabyte: enough for 40 MB/s over rounds of 200 ms, and 8 MB of
// the gateway's memory. 32 MiB over such rounds take 4.0 s with 2 batches, 2.1 with 4, 1.1 with 8, 0.8 with 16 and 0.6 with 32, COMMIT
// included; with 32 the list of unacknowledged writes is longer than a record may have, and COMMIT takes a second round (coordinator.CO11).
const flightsOut = 8

// flight is one batch of intents in flight (txn.PW1 to txn.PW5).
type flight struct {
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

func (f *flight) landed() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// touches reports whether the batch writes within a span.
func (f *flight) touches(s keys.Span) bool {
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
func (f *flight) overlaps(g *flight) bool {
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
func (c *Coordinator) launch(ctx context.Context, b *kv.Batch, out int) error {
	f := &flight{b: b, done: make(chan struct{})}
	f.ks, f.bytes = flightKeys(b)
	for i := 0; i < len(c.flights); {
		if g := c.flights[i]; g.landed() || g.overlaps(f) || len(c.flights) >= out {
			if err := c.settle(ctx, i); err != nil {
				return err
			}
			continue
		}
		i++
	}
	c.owner.Protect()
	c.state.PrepareFlush(b)
	c.owner.Prepare(b)
	o := c.owner.Options()
	// The batch may outlive the statement.
	outer := route.PatienceOf(ctx).With(o.Host.Group.Context())
	if trace := route.TraceOf(ctx); trace != nil {
		outer = route.WithTrace(outer, trace)
	}
	fly, cancel := context.WithCancel(outer)
	f.cancel = cancel
	sender := o.Sender
	if !o.Host.Group.Go(func(context.Context) {
		defer close(f.done)
		defer cancel()
		f.r, f.err = sender.Send(fly, b)
	}) {
		cancel()
		return &kv.UnavailableError{Reason: "node stopped"}
	}
	c.flights = append(c.flights, f)
	return nil
}

// Flush implements txn.Keeper.
func (c *Coordinator) Flush(ctx context.Context, batches []*kv.Batch) error {
	return c.launchAll(ctx, batches, flightsOut)
}

// launchAll launches batches in order, with at most out of them under way at once.
func (c *Coordinator) launchAll(ctx context.Context, batches []*kv.Batch, out int) error {
	for _, b := range batches {
		if err := c.launch(ctx, b, out); err != nil {
			// The buffer is gone, and only part of it was sent.
			c.owner.Broken(err)
			return err
		}
	}
	return nil
}

// Lay implements txn.Keeper.
func (c *Coordinator) Lay(ctx context.Context, batches []*kv.Batch) error {
	c.owner.Protect()
	for _, b := range batches {
		if _, err := c.send(ctx, b, c.state.PrepareFlush); err != nil {
			// The buffer is empty, and only a part of it was sent.
			c.owner.Broken(err)
			return err
		}
	}
	return nil
}

// Flying implements txn.Keeper.
func (c *Coordinator) Flying() bool { return len(c.flights) > 0 }

// settle waits for batch i and carries out the consequences of its answer.
func (c *Coordinator) settle(ctx context.Context, i int) error {
	f := c.flights[i]
	if !f.landed() {
		c.owner.Options().Probes.Reached("txn: pipeline stall")
		c.owner.Metrics().PipelineStalls.Add(1)
		select {
		case <-f.done:
		case <-ctx.Done():
			return c.state.Doubt(ctx.Err(), clock.Timestamp{})
		}
	}
	c.flights = slices.Delete(c.flights, i, i+1)
	c.owner.Served(f.r)
	err := c.state.Doubt(f.err, c.failedAt(f.err))
	if a := c.state.Answered(f.b, f.r, f.err); a.Verdict != coordinator.Done && !isAmbiguous(err) {
		err = a.Err
		if a.Verdict == coordinator.Again {
			c.owner.Options().Probes.Reached("txn: flight sent again")
			err = c.again(ctx, f.b, a.Refresh)
			err = c.state.Doubt(err, c.failedAt(err))
		}
	}
	if err != nil {
		err = c.owner.Lost(err) // txn.PW4
	}
	return err
}

// again moves the timestamp and sends a batch once more.
func (c *Coordinator) again(ctx context.Context, b *kv.Batch, refresh *kv.Batch) error {
	if refresh != nil {
		if err := c.refresh(ctx, refresh); err != nil {
			return err
		}
	}
	// Writes that were rolled back since are left out.
	b.Requests = c.core.Wanted(b.Requests)
	if len(b.Requests) == 0 {
		return nil
	}
	_, err := c.send(ctx, b, c.state.PrepareFlush)
	return err
}

// stall waits for the batches that write within a span (txn.PW1), and takes the answers of those that have ended (txn.PW4).
func (c *Coordinator) stall(ctx context.Context, s keys.Span) error {
	for i := 0; i < len(c.flights); {
		if f := c.flights[i]; f.landed() || f.touches(s) {
			if err := c.settle(ctx, i); err != nil {
				return err
			}
			continue
		}
		i++
	}
	return nil
}

// stallKeys is stall for several keys.
func (c *Coordinator) stallKeys(ctx context.Context, ks []keys.Key) error {
	for _, k := range ks {
		if len(c.flights) == 0 {
			return nil
		}
		if err := c.stall(ctx, keys.Span{Start: k}); err != nil {
			return err
		}
	}
	return nil
}

// settleAll waits for all batches in flight.
func (c *Coordinator) settleAll(ctx context.Context) error {
	for len(c.flights) > 0 {
		if err := c.settle(ctx, 0); err != nil {
			return err
		}
	}
	return nil
}

// beside tells the coordinator which writes are in flight while the record is staged. It waits for those that the record can't list,
// because there are spans among them or its list is full, and for those whose keys are written again (txn.PW1).
func (c *Coordinator) beside(ctx context.Context) error {
	for _, r := range c.state.Together() {
		if len(c.flights) == 0 {
			break
		}
		if err := c.stall(ctx, r.Span()); err != nil {
			return err
		}
	}
	for i := 0; i < len(c.flights); {
		if f := c.flights[i]; f.landed() || f.ks == nil {
			if err := c.settle(ctx, i); err != nil {
				return err
			}
			continue
		}
		i++
	}
	for {
		n, size := 0, 0
		for _, f := range c.flights {
			n, size = n+len(f.ks), size+f.bytes
		}
		if n <= transaction.MaxInFlight && size <= transaction.MaxInFlightBytes {
			break
		}
		c.owner.Options().Probes.Reached("txn: too many writes in flight for a record")
		if err := c.settle(ctx, 0); err != nil {
			return err
		}
	}
	var list []kv.InFlightWrite
	for _, f := range c.flights {
		list = c.core.InFlight(list, protocol.Default, f.b.Requests)
	}
	c.state.Beside(c.owner.ListElsewhere(list))
	return nil
}

// Recall implements txn.Keeper.
func (c *Coordinator) Recall() func(context.Context) {
	flights := c.flights
	c.flights = nil
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
