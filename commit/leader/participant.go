package leader

import (
	"context"

	"meridian/clock"
	"meridian/commit/leader/tscache"
	"meridian/host"
	"meridian/kv"
	"meridian/replica"
	"meridian/replica/lease"
)

// Replica is what a participant needs of its range's replica; *replica.Replica has it.
type Replica interface {
	RangeID() kv.RangeID
	NodeID() kv.NodeID
	Desc() *kv.RangeDescriptor
	CheckLease(at clock.Timestamp) (sequence uint64, ok bool)
	EnsureLease(ctx context.Context, at clock.Timestamp) (sequence uint64, err error)
	Propose(ctx context.Context, c *replica.Command) error
	Stats() replica.Stats
	GCThreshold() clock.Timestamp
}

// Sender sends a batch to wherever its keys are: pushes go to the ranges of transaction records. *route.Sender
// has it.
type Sender interface {
	Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error)
}

// Options are what all participants of a store share. They do not change after the first participant is made.
type Options struct {
	Host    *host.Host
	Clock   *clock.Clock
	Sender  Sender
	Cache   *tscache.Cache
	Metrics *Metrics
}

// Metrics count what requests ran into.
type Metrics struct{}

// Participant serves one range under the leader protocol.
type Participant struct {
	o *Options
	r Replica
}

// New makes the participant of a replica; handoff is what the left side's SplitOff returned, or nil.
func New(o *Options, r Replica, handoff any) *Participant { return &Participant{o: o, r: r} }

// Send evaluates a batch on the caller's goroutine.
func (p *Participant) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	return nil, &kv.UnavailableError{Reason: "not built yet"}
}

// LeaseChanged is rangeserver.Participant's.
func (p *Participant) LeaseChanged(l lease.Lease, held bool) {}

// DescriptorChanged is rangeserver.Participant's.
func (p *Participant) DescriptorChanged(desc *kv.RangeDescriptor) {}

// SplitOff is rangeserver.Participant's.
func (p *Participant) SplitOff(left, right *kv.RangeDescriptor) (handoff any) { return nil }

// Absorb is rangeserver.Participant's.
func (p *Participant) Absorb(desc *kv.RangeDescriptor, handoff any) {}

// Subsume is rangeserver.Participant's.
func (p *Participant) Subsume() (handoff any) { return nil }

// SnapshotApplied is rangeserver.Participant's.
func (p *Participant) SnapshotApplied() {}

// Drain is rangeserver.Participant's.
func (p *Participant) Drain(ctx context.Context) error { return nil }

// Close is rangeserver.Participant's.
func (p *Participant) Close(err error) {}
