package leader

import (
	"slices"

	"meridian/commit/leader/latch"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/mvcc"
)

// choice narrows a batch that locks the first free ones of many keys (kv.SkipLocked): the workers of a queue all ask for the same dozens of rows, of which most others have
// locked, or have done since the snapshot. A key that another transaction has locked when the batch comes is left out without a latch, since the batch could have asked for
// it at that moment. One with a version above the snapshot is left out too: it stays so. And so is one that another request is at work on, as long as there are enough that are not. Of
// the others no more are latched than are wanted. So workers pass each other without a wait.
type choice struct {
	of []fate // of each request; empty: the batch is none such
	// spare is how many keys are looked at beyond those that are wanted, and extra how many are latched beyond them.
	spare   int
	extra   int
	waits   bool // the keys at which others are at work are needed
	again   bool // those that were tried are not enough
	latches []latch.Latch
	at      []int // the requests of the latches
	rests   []rest
}

// fate is what becomes of a key.
type fate uint8

const (
	tried fate = iota
	// lockedOut has no rows.
	lockedOut
	// changed is a rest, since the transaction would have to move to lock it.
	changed
	// busy is a rest: others are at work on it.
	busy
	// untried is a rest.
	untried
)

const firstSpare = 6

// choose decides. It takes the latches, unless it has to wait for them.
func (q *request) choose() (err error) {
	c, b := &q.choice, q.b
	c.of, c.again = c.of[:0], false
	if b.WaitPolicy != kv.SkipLocked || b.MaxKeys <= 0 || len(b.Requests) < 2 || q.writes > 0 || q.txn == nil || q.end != nil || q.record {
		return nil
	}
	for _, r := range b.Requests {
		scan, ok := r.(*kv.ScanRequest)
		if !ok || scan.Lock == kv.NoLock || !scan.Span().Single() {
			return nil
		}
	}
	rd := q.p.o.reader(q.p.o.Engine)
	defer func() {
		if cerr := q.p.o.putReader(rd); err == nil {
			err = cerr
		}
	}()
	c.spare = max(c.spare, firstSpare)
	n := int(b.MaxKeys) + c.extra
	for {
		if err := q.look(rd); err != nil || c.waits {
			return err
		}
		var places []int
		q.latching.held, places = q.p.latches.First(c.latches, n)
		for _, i := range c.at {
			c.of[i] = busy
		}
		for _, i := range places {
			c.of[c.at[i]] = tried
		}
		if len(places) == n || !c.more() {
			return nil
		}
		if q.latching.held != nil {
			q.p.latches.Release(q.latching.held)
			q.latching.held = nil
		}
	}
}

// look decides without latches: the keys that may be free are tried.
func (q *request) look(rd *mvcc.Reader) error {
	c, b := &q.choice, q.b
	c.of, c.latches, c.at = c.of[:0], c.latches[:0], c.at[:0]
	room := int(b.MaxKeys) + c.spare + c.extra
	owner := latchOwner(q.txn.ID)
	var locked func(keys.Key) bool
	for i, r := range b.Requests {
		scan := r.(*kv.ScanRequest)
		if locked == nil {
			locked = q.locking.lockedByOthers(scan.Lock)
		}
		f := tried
		switch {
		case len(c.latches) == room:
			f = untried
		case locked(scan.Start):
			f = lockedOut
		case q.evaluation.passesOver(scan):
			at, err := rd.LatestAt(scan.Start)
			if err != nil {
				return err
			}
			if q.readAt().Less(at) {
				f = changed
			}
		}
		if c.of = append(c.of, f); f == tried {
			c.latches, c.at = append(c.latches, lockingLatch(point(scan.Start), scan.Lock, q.readAt(), owner)), append(c.at, i)
		}
	}
	return nil
}

// more has the next attempt look at more keys, or wait for those that are busy. It reports false if there are none.
func (c *choice) more() bool {
	switch {
	case c.of[len(c.of)-1] == untried:
		c.spare *= 4
	case slices.Contains(c.of, busy):
		c.waits = true
	default:
		return false
	}
	return true
}

// leavesOut reports whether the i-th request is answered without a look at its key.
func (c *choice) leavesOut(i int) bool { return len(c.of) > 0 && c.of[i] != tried }

// answer is that answer.
func (c *choice) answer(i int, r kv.Request) *kv.ScanResponse {
	if c.of[i] == lockedOut {
		return &kv.ScanResponse{}
	}
	if len(c.rests) == 0 { // they outlive the batch, so they are made anew, many at a time
		c.rests = make([]rest, len(c.of)-i)
	}
	a := &c.rests[0]
	c.rests = c.rests[1:]
	a.span = r.Span()
	a.Resume = &a.span
	return &a.ScanResponse
}

// rest is an answer that leaves all of a request.
type rest struct {
	kv.ScanResponse
	span keys.Span
}

// short reports whether an evaluation that has left room for rows should be repeated with more keys: some were locked or changed just before they were latched, or have no value.
func (c *choice) short(room int64) bool {
	if c.again = room > 0 && len(c.of) > 0 && (slices.Contains(c.of, busy) || c.of[len(c.of)-1] == untried); c.again {
		c.waits = c.waits || c.extra >= len(c.of)
		c.extra = max(2*c.extra, firstSpare)
	}
	return c.again
}
