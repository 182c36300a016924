package leader

import (
	"context"

	"meridian/clock"
	"meridian/commit/leader/latch"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
	"meridian/storage/engine"
)

// A range whose rows are another protocol's has this participant for its range-local keys, and for the steps from one generation
// to the next: they need the lease, and no other request in progress.

// stepper is an optional interface of a replica; *replica.Replica implements it.
type stepper interface {
	EvaluateStep(src engine.Reader, b *engine.Batch, c *replica.Command, step *replica.Step) (done bool, err error)
}

// Advance makes a step of the range's generation. It waits while the range is frozen, and returns when the step is applied on this replica
// and durable on a quorum.
func (p *Participant) Advance(ctx context.Context, step *replica.Step) error {
	for {
		err := p.advance(ctx, step)
		f, frozen := err.(*frozenError)
		switch {
		case err == errAgain:
		case frozen:
			if err := p.awaitThaw(ctx, f.c); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

func (p *Participant) advance(ctx context.Context, step *replica.Step) error {
	st, ok := p.r.(stepper)
	if !ok {
		return &kv.InternalError{Message: "leader: the replica has no generations"}
	}
	gen, _, err := p.enter(ctx, p.o.Clock.Now())
	if err != nil {
		return err
	}
	defer p.gate.leave(gen)
	d := p.r.Desc()
	latches := []latch.Latch{{Span: d.Span(), Mode: latch.Write}, {Span: keys.RangeLocalSpan(d.Start, d.End), Mode: latch.Write}}
	if step.To == replica.Open && len(step.Rows) > 0 { // versions of rows, in order, and nothing else (replica.EvaluateStep)
		latches = []latch.Latch{{Span: keys.Span{Start: step.Rows[0].Key, End: step.Rows[len(step.Rows)-1].Key.Next()}, Mode: latch.Write}}
	}
	held, err := p.latches.Acquire(ctx, latches)
	if err != nil {
		return err
	}
	keep := false // a proposal whose outcome is unknown keeps the latches until it is known (leader.P7)
	release := func() { p.latches.Release(held) }
	defer func() {
		if !keep {
			release()
		}
	}()
	lease, ok := p.r.CheckLease(p.o.Clock.Now())
	if !ok || p.r.Desc() != d {
		return errAgain
	}
	if err := p.closedErr(); err != nil {
		return err
	}
	b := p.o.Engine.NewIndexedBatch()
	defer b.Close()
	c := &replica.Command{LeaseSequence: lease, Use: replica.Settles, Settled: release}
	if done, err := st.EvaluateStep(b, b, c, step); err != nil || done {
		return err
	}
	c.Batch = b.Repr()
	err = p.r.Propose(ctx, c)
	p.held.reset() // a fold may write intents
	p.dead.reset(false)
	if _, keep = err.(*kv.AmbiguousError); keep {
		p.dead.unknown()
	}
	return err
}

// floor is the timestamp up to which another protocol has read and written in the range, before it changed to the leader protocol
// (leader.P22).
func (p *Participant) floor() clock.Timestamp {
	if r, ok := p.r.(interface{ Generation() replica.Generation }); ok {
		return r.Generation().Floor
	}
	return clock.Timestamp{}
}
