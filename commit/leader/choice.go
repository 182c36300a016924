package leader

import (
	"meridian/keys"
	"meridian/kv"
)

// choice narrows a batch that locks the first free ones of many keys (kv.SkipLocked): the workers of a queue all ask for the same two dozen rows, of which most are
// locked. A key that another transaction has locked when the batch comes is left out without a latch, since the batch could have asked for it at that
// moment; and of the free ones no more are latched than are wanted, with a few to spare for those that have changed since the snapshot. So workers meet at few latches.
type choice struct {
	of    []fate // of each request; empty: the batch is none such
	spare int64
	again bool // the free ones that were tried are not enough
}

// fate is what becomes of a key.
type fate uint8

const (
	tried fate = iota
	// lockedOut has no rows.
	lockedOut
	// untried is a rest.
	untried
)

const firstSpare = 2

// choose decides, before latches are declared.
func (q *request) choose() {
	c, b := &q.choice, q.b
	c.of, c.again = c.of[:0], false
	if b.WaitPolicy != kv.SkipLocked || b.MaxKeys <= 0 || len(b.Requests) < 2 || q.writes > 0 || q.txn == nil || q.end != nil || q.record {
		return
	}
	c.spare = max(2*c.spare, firstSpare)
	room := b.MaxKeys + c.spare
	for _, r := range b.Requests {
		scan, ok := r.(*kv.ScanRequest)
		if !ok || scan.Lock == kv.NoLock || !scan.End.Equal(scan.Start.Next()) {
			c.of = c.of[:0]
			return
		}
		switch {
		case room == 0:
			c.of = append(c.of, untried)
		case q.locking.lockedByOthers(scan.Lock)(scan.Start):
			c.of = append(c.of, lockedOut)
		default:
			room--
			c.of = append(c.of, tried)
		}
	}
}

// leavesOut reports whether the i-th request is answered without a look at its key.
func (c *choice) leavesOut(i int) bool { return len(c.of) > 0 && c.of[i] != tried }

// answer is that answer.
func (c *choice) answer(i int, r kv.Request) *kv.ScanResponse {
	a := &kv.ScanResponse{}
	if c.of[i] == untried {
		s := r.Span()
		a.Resume = &keys.Span{Start: s.Start, End: s.End}
	}
	return a
}

// short reports whether an evaluation that has left room for rows should be repeated with more keys.
func (c *choice) short(room int64) bool {
	c.again = room > 0 && len(c.of) > 0 && c.of[len(c.of)-1] == untried
	return c.again
}
