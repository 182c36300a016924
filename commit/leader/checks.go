package leader

import (
	"context"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// enter checks the lease, and acquires it if need be. The gate is entered when it returns nil.
func (p *Participant) enter(ctx context.Context, at clock.Timestamp) (gen uint32, seq uint64, err error) {
	for {
		gen = p.gate.enter()
		if seq, ok := p.r.CheckLease(at); ok {
			return gen, seq, nil
		}
		p.gate.leave(gen)
		if err := p.closedErr(); err != nil {
			return 0, 0, err
		}
		if _, err := p.r.EnsureLease(ctx, at); err != nil {
			return 0, 0, err
		}
	}
}

func (p *Participant) closedErr() error {
	if c := p.closed.Load(); c != nil {
		return c.err
	}
	return nil
}

// closedTo is closedErr for reads: the merge's own transaction may still refresh what it has read here.
func (p *Participant) closedTo(b *kv.Batch) error {
	c := p.closed.Load()
	if c == nil || c.thawed != nil && b.Txn != nil && b.Txn.ID == c.txn {
		return nil
	}
	return c.err
}

// checkSpans checks that all of the batch's keys are in the range.
func (p *Participant) checkSpans(b *kv.Batch) error {
	d := p.r.Desc()
	if d == nil {
		return &kv.RangeNotFoundError{Range: p.r.RangeID()}
	}
	for _, r := range b.Requests {
		if err := p.checkSpan(d, r.Span()); err != nil {
			return err
		}
	}
	if d.Protocol != kv.Leader || p.leaving.Load() != nil {
		return p.rowsRefused(d, b)
	}
	return nil
}

func (p *Participant) checkSpan(d *kv.RangeDescriptor, s keys.Span) error {
	if keys.IsLocal(s.Start) {
		// Range-local keys are addressed by the key that they belong to, one by one.
		if d.Contains(keys.Addr(s.Start)) {
			return nil
		}
	} else if s.Point() {
		if d.Contains(s.Start) {
			return nil
		}
	} else if d.Span().ContainsSpan(s) {
		return nil
	}
	return &kv.RangeMismatchError{Span: s, Infos: []kv.RangeInfo{{Desc: *d}}}
}

// checkServed checks that the data just read could be served: versions were not garbage collected during the read, and the data was not
// removed. The threshold and the descriptor are published before their effects can be seen, so a check afterwards covers all of the read.
func (p *Participant) checkServed(b *kv.Batch, at clock.Timestamp) error {
	if threshold := p.r.GCThreshold(); at.LessEq(threshold) && !threshold.IsZero() {
		return &kv.BelowGCError{Threshold: threshold}
	}
	if err := p.closedTo(b); err != nil {
		return err
	}
	return p.checkSpans(b)
}
