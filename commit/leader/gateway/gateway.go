// Package gateway is the part of the leader protocol that transactions drive: reads and locks in leaders' ranges, the refresh of what was read, writes
// that leave before the commit, and the commit itself with its record. It sends what package coordinator, which is pure, prepares, and gives the answers back to it.
package gateway

import (
	"context"
	"time"

	"meridian/admission"
	"meridian/clock"
	"meridian/commit/leader/coordinator"
	"meridian/commit/protocol"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

// Protocol begins Coordinators.
type Protocol struct{}

// Begin implements txn.Records.
func (Protocol) Begin(o txn.Owner) txn.Keeper {
	c := &Coordinator{owner: o, core: o.Core()}
	c.state.Init(c.core)
	return c
}

// Coordinator is the leader protocol's half of one transaction. It implements txn.Keeper.
type Coordinator struct {
	owner txn.Owner
	core  *transaction.Core
	state coordinator.Coordinator
	// flights are the batches of intents in flight, oldest first (txn.PW1).
	flights []*flight

	// The batch of a point read, so that it costs no allocation.
	get struct {
		batch kv.Batch
		req   kv.GetRequest
		reqs  [1]kv.Request
	}
}

var _ txn.Keeper = (*Coordinator)(nil)

// Restarted implements txn.Coordinator.
func (c *Coordinator) Restarted(fresh bool) { c.state.Restarted(fresh) }

// Reads implements txn.Coordinator.
func (c *Coordinator) Reads() bool { return c.state.MustRefresh() }

// Hold implements txn.Coordinator: what was read is refreshed, unless it holds by then already.
func (c *Coordinator) Hold(ctx context.Context, _ *kv.Txn, at clock.Timestamp) error {
	return c.moved(ctx, c.state.MoveTo(at))
}

// Uncertain implements txn.Keeper.
func (c *Coordinator) Uncertain(ctx context.Context, err error) error {
	return c.moved(ctx, c.state.Answered(&kv.Batch{}, nil, err))
}

// moved carries out an answer that moves the timestamp.
func (c *Coordinator) moved(ctx context.Context, a coordinator.Answer) error {
	if a.Verdict == coordinator.Fail {
		return a.Err
	}
	if a.Refresh == nil {
		return nil
	}
	return c.refresh(ctx, a.Refresh)
}

// Decide implements txn.Coordinator. It is not called: a transaction with writes in leaders' ranges has a record.
func (c *Coordinator) Decide(context.Context, *kv.Txn, []transaction.Write, clock.Timestamp) (clock.Timestamp, error) {
	return clock.Timestamp{}, &txn.UnsupportedError{Protocol: protocol.Default, What: "commits without a record"}
}

// HasRead implements txn.Coordinator: a write is not compared with what was read. Reads are refreshed instead.
func (c *Coordinator) HasRead(keys.Key) bool { return false }

// Confirm implements txn.Coordinator: a leaseholder has what has committed.
func (c *Coordinator) Confirm(context.Context, *kv.Txn, func(keys.Key) bool) error { return nil }

// Committed implements txn.Coordinator: a leaseholder has the writes.
func (c *Coordinator) Committed(clock.Timestamp) {}

// Ended implements txn.Coordinator. The work at the end of a transaction is the transaction's own.
func (c *Coordinator) Ended() {}

// BeginStatement implements txn.Keeper.
func (c *Coordinator) BeginStatement(now clock.Reading) { c.state.BeginStatement(now) }

// RestartStatement implements txn.Keeper.
func (c *Coordinator) RestartStatement(now clock.Reading) { c.state.RestartStatement(now) }

// LookAnew implements txn.Keeper.
func (c *Coordinator) LookAnew(now clock.Reading) { c.state.LookAnew(now) }

// Unread implements txn.Keeper.
func (c *Coordinator) Unread() bool { return c.state.MayReadPast() }

// ReadNear implements txn.Keeper.
func (c *Coordinator) ReadNear() { c.state.ReadNear() }

// SeenAt implements txn.Keeper.
func (c *Coordinator) SeenAt(k keys.Key) clock.Timestamp { return c.state.SeenAt(k) }

// Check implements txn.Keeper.
func (c *Coordinator) Check(s keys.Span, exists bool) { c.state.NoteCheck(s, exists) }

// HasHeld implements txn.Keeper.
func (c *Coordinator) HasHeld() bool { return c.state.HasHeld() }

// CheckHeld implements txn.Keeper.
func (c *Coordinator) CheckHeld(ctx context.Context) error {
	if !c.state.HasHeld() {
		return nil
	}
	o := c.owner.Options()
	b := c.state.CheckHeld(o.Clock.Now())
	_, err := o.Sender.Send(ctx, b)
	return c.state.HeldChecked(b, err)
}

// send sends one batch to its ranges, and moves the timestamp and repeats it for as long as that helps. prepare
// puts the transaction into the batch.
func (c *Coordinator) send(ctx context.Context, b *kv.Batch, prepare func(*kv.Batch)) (*kv.BatchResponse, error) {
	for {
		prepare(b)
		c.owner.Prepare(b)
		r, err := c.owner.Dispatch(ctx, b)
		if r != nil && r.Waited > 0 {
			admission.Waited(ctx, r.Waited)
		}
		a := c.state.Answered(b, r, err)
		switch a.Verdict {
		case coordinator.Done:
			return r, nil
		case coordinator.Fail:
			c.owner.Refused(b, a.Err)
			return nil, a.Err
		}
		if a.Refresh != nil {
			if err := c.refresh(ctx, a.Refresh); err != nil {
				return nil, err
			}
		}
	}
}

func (c *Coordinator) refresh(ctx context.Context, b *kv.Batch) error {
	o, m := c.owner.Options(), c.owner.Metrics()
	m.Refreshes.Add(1)
	_, err := o.Sender.Send(ctx, b)
	if err = c.state.Refreshed(err); err != nil {
		o.Probes.Reached("txn: refresh failed")
		m.RefreshesFailed.Add(1)
	}
	return err
}

// noteHeld remembers the locks of an answer.
func (c *Coordinator) noteHeld(s keys.Span, hold bool, lock kv.LockStrength, r *kv.BatchResponse) {
	if hold && lock != kv.NoLock && !r.LockedAt.IsZero() {
		c.state.NoteHeld(s, r.LockedAt)
	}
}

// noteLocked remembers rows that a locking read has returned.
func (c *Coordinator) noteLocked(lock kv.LockStrength, rows []kv.KeyValue) {
	if lock < kv.Shared || c.core.Level() != kv.ReadCommitted {
		return
	}
	for i := range rows {
		c.state.NoteLocked(rows[i].Key)
	}
}

// locking prepares for locks in a span: cleanup and heartbeats must know.
func (c *Coordinator) locking(s keys.Span) {
	c.core.NoteLock(s)
	c.owner.Protect()
}

// failedAt is the latest that a node's clock may show, if there is an error; zero: others may have taken this gateway for dead whatever the time (commit.CR2).
func (c *Coordinator) failedAt(err error) (latest clock.Timestamp) {
	if err == nil {
		return latest
	}
	o := c.owner.Options()
	if i := c.core.Txn().Incarnation; i != 0 && !o.Support.Unbroken(i) {
		return latest
	}
	return o.Clock.Read().Latest
}

// carryAfter is the age at which a transaction's commit carries its refresh: others are likely to have read by then what it writes, or the range to have closed
// it. A transaction that waits for no other region and no lock is younger.
const carryAfter = 20 * time.Millisecond
