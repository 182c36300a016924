package coordinator

import (
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
)

// A transaction that writes to a range which closes the future commits later than it has read, each time (CRDB'22 §6.2.1). So does one that has taken
// long, if its rows are hot: others have read them by then. To be refused, to refresh what it has read, and to come again would take two round trips more, with its
// locks held, and from far away there are further reads by then, or the range has closed more.
//
//	coordinator.CO12 (I3): A commit whose writes lie in one range carries the refresh of all that the transaction has read, if that lies in the same range. The
//	    range may then move the read timestamp by itself: it refreshes and writes in one evaluation, under latches for both. This holds for a commit in one
//	    phase, and for one that also ends a record, which a transaction has after a second. If the router has to divide the batch, no part is
//	    moved, so the refresh is that of an empty interval, which can't fail: where one has failed, nothing of the batch was done.

// maxCarried bounds the spans of a refresh that a commit carries.
const maxCarried = 64

// Ahead reports whether the commit is likely to have to move.
func (c *Coordinator) Ahead() bool { return c.ahead }

// ReadBounds extends the first and the last address of the writes by those of the reads. ok is false if there are too many of them, or the commit need
// not refresh.
func (c *Coordinator) ReadBounds(first, last keys.Key) (_, _ keys.Key, ok bool) {
	if c.reads.Empty() || c.core.Level() != kv.Serializable || c.core.Historical() {
		return nil, nil, false
	}
	reads := c.reads.All()
	if len(reads) > maxCarried {
		return nil, nil, false
	}
	for _, s := range reads {
		if s.Start.Less(first) {
			first = s.Start
		}
		// The end of a span may be the beginning of another range; asking for it is on the safe side.
		if end := s.End; end != nil && last.Less(end) {
			last = end
		} else if last.Less(s.Start) {
			last = s.Start
		}
	}
	return first, last, true
}

// MustRefresh reports whether the transaction commits only if what it has read in ranges of this protocol has not changed.
func (c *Coordinator) MustRefresh() bool {
	return c.iso.hasChecks() || !c.reads.Empty() && c.core.Level() != kv.ReadCommitted && !c.core.Historical()
}

// Carry says that the reads lie in the range of a commit in one phase, as far as the router knows.
func (c *Coordinator) Carry(on bool) { c.commit.carries = on }

// carried puts the refresh before the writes of a commit in one phase.
func (c *Coordinator) carried(writes []kv.Request) []kv.Request {
	if !c.commit.carries {
		return writes
	}
	from := c.core.Txn().ReadTimestamp
	reads := c.reads.All()
	out := make([]kv.Request, 0, len(reads)+len(writes)+1)
	for _, s := range reads {
		if s.Point() {
			out = append(out, &kv.RefreshRequest{Key: s.Start, From: from})
		} else {
			out = append(out, &kv.RefreshRangeRequest{Start: s.Start, End: s.End, From: from})
		}
	}
	return append(out, writes...)
}

// carriedFails takes an error of a commit that carried its refresh.
func (c *Coordinator) carriedFails(err error) (error, bool) {
	s := &c.commit
	if !s.carries || s.stage != stageOnePhase && s.stage != stageParallel {
		return nil, false
	}
	if _, changed := unwrap(err).(*kv.RefreshFailedError); changed {
		return c.core.Fail(transaction.ReadChanged, err, false), true
	}
	return nil, false
}
