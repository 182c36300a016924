package coordinator

import (
	"meridian/clock"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
)

// Locks that the client asked for (SELECT FOR UPDATE and its like) guard its actions as long as it believes to have them, inside the
// database or outside:
//
//	coordinator.CO10: A transaction with such locks commits only at a timestamp up to which their leaseholders have confirmed that it has
//	    had them all the time (leader.P16). It asks after all other steps, also if it has written nothing; a commit of one range asks in its
//	    own batch. An attempt with another identity does not have the locks of the earlier one, so the client must not take it for the same
//	    transaction (LosesLocks).
//
// The locks of UPDATE and DELETE need no such check: their rows are checked when they are written (coordinator.CO6).

// maxHeld bounds the remembered spans; beyond it neighbours are merged.
const maxHeld = 1024

// held has the spans in which a transaction has locks.
type held struct {
	spans []kv.HeldLocks
	// here says that all of them are in the range of a one-phase commit.
	here bool
	// until is the timestamp up to which they are known to be held.
	until clock.Timestamp
}

// deadline is the latest timestamp of a commit.
func (h *held) deadline(d clock.Timestamp) clock.Timestamp {
	if len(h.spans) == 0 || h.here || !d.IsZero() && d.Less(h.until) {
		return d
	}
	return h.until
}

// NoteHeld remembers that locks which the client asked for were given in a span, at a moment or later.
func (c *Coordinator) NoteHeld(s keys.Span, at clock.Timestamp) {
	h := &c.held
	h.until = clock.Timestamp{}
	for i := len(h.spans) - 1; i >= 0 && i >= len(h.spans)-8; i-- {
		if x := &h.spans[i]; x.Span.ContainsSpan(s) || x.Span.Start.Equal(s.Start) && x.Span.End.Equal(s.End) {
			if x.From.LessEq(at) {
				return // it has been held since then, or the check will say that it has not
			}
		}
	}
	if len(h.spans) >= maxHeld {
		// They lie mostly in order. Asking of what lies between costs a retry without need, at worst.
		out := h.spans[:0]
		for i := 0; i < len(h.spans); i += 2 {
			x := h.spans[i]
			if i+1 < len(h.spans) {
				y := h.spans[i+1]
				x = kv.HeldLocks{Span: cover(x.Span, y.Span), From: x.From.Backward(y.From)}
			}
			out = append(out, x)
		}
		h.spans = out
	}
	h.spans = append(h.spans, kv.HeldLocks{Span: s, From: at})
}

// cover is the span from the first to the last key of two.
func cover(a, b keys.Span) keys.Span {
	s := keys.Span{Start: a.Start, End: a.Stop()}
	if b.Start.Less(s.Start) {
		s.Start = b.Start
	}
	if s.End.Less(b.Stop()) {
		s.End = b.Stop()
	}
	return s
}

// HasHeld reports whether the transaction was given locks that the client asked for.
func (c *Coordinator) HasHeld() bool { return len(c.held.spans) > 0 }

// LosesLocks reports whether another attempt would not have the locks that the client asked for and was given (coordinator.CO10).
func (c *Coordinator) LosesLocks() bool { return c.HasHeld() && c.core.NeedsIdentity() }

// HeldBounds are the first and the last address of the locks that the client asked for.
func (c *Coordinator) HeldBounds(first, last keys.Key) (keys.Key, keys.Key) {
	for i := range c.held.spans {
		s := &c.held.spans[i].Span
		if first == nil || s.Start.Less(first) {
			first = s.Start
		}
		// The end of a span is not in it, and may be the beginning of another range; asking for it is on the safe side.
		if end := s.End; end != nil && last.Less(end) {
			last = end
		} else if last.Less(s.Start) {
			last = s.Start
		}
	}
	return first, last
}

// HeldInRange says that all of them lie in the range of a one-phase commit, as far as the router knows.
func (c *Coordinator) HeldInRange(here bool) { c.held.here = here }

// checkHeld asks whether the locks are held up to the commit's timestamp; nil if that is known.
func (c *Coordinator) checkHeld() *kv.Batch {
	h := &c.held
	if len(h.spans) == 0 || h.here && c.commit.stage == stageOnePhase || c.core.Txn().WriteTimestamp.LessEq(h.until) && !h.until.IsZero() {
		return nil
	}
	return c.CheckHeld(c.commit.now)
}

// CheckHeld asks whether the locks are held up to a clock's reading at least; its answer goes to HeldChecked. It is nil if
// there are none.
func (c *Coordinator) CheckHeld(now clock.Timestamp) *kv.Batch {
	h := &c.held
	if len(h.spans) == 0 {
		return nil
	}
	t := *c.core.Snapshot()
	t.ReadTimestamp = t.ReadTimestamp.Forward(t.WriteTimestamp).Forward(now)
	t.WriteTimestamp, t.UncertaintyLimit = t.ReadTimestamp, t.ReadTimestamp
	b := &kv.Batch{Header: kv.Header{Txn: &t}, Requests: make([]kv.Request, 0, len(h.spans)+1)}
	if len(t.Anchor) > 0 {
		b.Requests = append(b.Requests, &kv.CheckLocksRequest{Start: t.Anchor}) // has somebody aborted it?
	}
	for i := range h.spans {
		x := &h.spans[i]
		b.Requests = append(b.Requests, &kv.CheckLocksRequest{Start: x.Span.Start, End: x.Span.End, From: x.From})
	}
	return b
}

// HeldChecked takes the answer to CheckHeld.
func (c *Coordinator) HeldChecked(b *kv.Batch, err error) error {
	switch e := unwrap(err).(type) {
	case nil:
		c.held.until = b.Txn.ReadTimestamp
		return nil
	case *kv.LocksLostError:
		return c.core.Fail(transaction.LocksLost, e, true)
	case *kv.TxnAbortedError:
		return c.core.Fail(transaction.AbortedByOther, e, true)
	}
	return err
}
