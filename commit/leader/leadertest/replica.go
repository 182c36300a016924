// Package leadertest has a range's replica without raft, for tests of what stands on one.
package leadertest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"meridian/clock"
	"meridian/kv"
	"meridian/replica"
	"meridian/replica/closedts"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// Replica applies commands itself, after a time that stands for consensus. It satisfies leader.Replica; whoever embeds it may
// change a part.
type Replica struct {
	Node   kv.NodeID
	Engine *engine.Engine
	// Delay is how long a command takes from its proposal to its application; nil is no time.
	Delay func() time.Duration
	// Go runs what a proposer leaves behind who has given up; nil is a goroutine.
	Go func(func())

	// Applying is held while a command is applied: who holds it sees none half applied, and may change the lease.
	Applying sync.Mutex
	// Commits are remembered; they know of what came after a Begin.
	Commits replica.Commits
	// Lease is the sequence number of the lease under which commands are applied.
	Lease atomic.Uint64

	desc   atomic.Pointer[kv.RangeDescriptor]
	stats  atomic.Pointer[mvcc.Stats]
	gc     atomic.Pointer[clock.Timestamp]
	closer closedts.Tracker
}

// Init makes it the replica of a range, with a first lease.
func (r *Replica) Init(e *engine.Engine, d *kv.RangeDescriptor, s mvcc.Stats) {
	r.Engine = e
	r.SetDesc(d)
	r.SetStats(s)
	r.gc.Store(&clock.Timestamp{})
	r.Lease.Store(1)
	if r.Node == 0 {
		r.Node = 1
	}
}

// SetDesc changes the descriptor.
func (r *Replica) SetDesc(d *kv.RangeDescriptor) { r.desc.Store(d) }

// SetStats changes the statistics.
func (r *Replica) SetStats(s mvcc.Stats) { r.stats.Store(&s) }

// RangeID is the range's.
func (r *Replica) RangeID() kv.RangeID { return r.Desc().ID }

// NodeID is Node.
func (r *Replica) NodeID() kv.NodeID { return r.Node }

// Desc is the descriptor.
func (r *Replica) Desc() *kv.RangeDescriptor { return r.desc.Load() }

// Stats are those of what was applied.
func (r *Replica) Stats() mvcc.Stats { return *r.stats.Load() }

// GCThreshold is the last command's.
func (r *Replica) GCThreshold() clock.Timestamp { return *r.gc.Load() }

// AppliedIndex is nothing that anybody asks for.
func (r *Replica) AppliedIndex() uint64 { return 0 }

// Closer has the writes in flight.
func (r *Replica) Closer() *closedts.Tracker { return &r.closer }

// Follow allows reads of what is closed.
func (r *Replica) Follow(at clock.Timestamp) (f replica.Following, closed clock.Timestamp, ok bool) {
	closed = r.closer.Closed()
	return f, closed, at.LessEq(closed)
}

// CloseIdle closes what no write in flight prevents.
func (r *Replica) CloseIdle(to clock.Timestamp) (index uint64, desc *kv.RangeDescriptor, ok bool) {
	return 0, nil, !r.closer.Close(to).Less(to)
}

// HeardClosed has no effect: the only replica has the lease.
func (r *Replica) HeardClosed(closedts.Promise) {}

// CommitOf is what Commits has.
func (r *Replica) CommitOf(id kv.TxnID, first clock.Timestamp) (at clock.Timestamp, remembers bool) {
	return r.Commits.Of(id, first)
}

// Still is true: nothing is replaced.
func (r *Replica) Still(replica.Following) bool { return true }

// CheckLease finds the lease good.
func (r *Replica) CheckLease(clock.Timestamp) (sequence uint64, ok bool) { return r.Lease.Load(), true }

// EnsureLease finds it good too.
func (r *Replica) EnsureLease(context.Context, clock.Timestamp) (uint64, error) {
	return r.Lease.Load(), nil
}

// EvaluateTrigger does nothing.
func (r *Replica) EvaluateTrigger(engine.Reader, *engine.Batch, *kv.CommitTrigger) (delta mvcc.Stats, err error) {
	return delta, nil
}

// Propose applies the command, after the delay, if the lease is still the one it was evaluated under.
func (r *Replica) Propose(ctx context.Context, c *replica.Command) error {
	cmd := *c
	cmd.Batch, cmd.Commits = slices.Clone(c.Batch), slices.Clone(c.Commits)
	if r.Delay == nil {
		return r.apply(&cmd)
	}
	d := r.Delay()
	if d <= 0 {
		return r.apply(&cmd)
	}
	t := time.NewTimer(d)
	select {
	case <-t.C:
		return r.apply(&cmd)
	case <-ctx.Done():
	}
	late := func() {
		<-t.C
		_ = r.apply(&cmd)
		if cmd.Settled != nil {
			cmd.Settled()
		}
	}
	if r.Go != nil {
		r.Go(late)
	} else {
		go late()
	}
	return &kv.AmbiguousError{Reason: ctx.Err().Error()}
}

func (r *Replica) apply(c *replica.Command) error {
	r.Applying.Lock()
	defer r.Applying.Unlock()
	if c.LeaseSequence != r.Lease.Load() {
		err := &kv.NotLeaseholderError{Range: r.RangeID()}
		if at := r.Desc().Replicas; len(at) > 0 {
			err.Leaseholder = at[0]
		}
		return err
	}
	b := r.Engine.NewBatch()
	defer b.Close()
	if err := b.ApplyRepr(c.Batch); err != nil {
		return err
	}
	r.Commits.Add(c.Commits)
	if err := b.Commit(false); err != nil {
		return err
	}
	s := r.Stats()
	s.Add(c.Delta)
	r.SetStats(s)
	if !c.GCThreshold.IsZero() {
		r.gc.Store(&c.GCThreshold)
	}
	return nil
}
