package leader

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// dead is the leaseholder's knowledge of runs of deleted keys, mvcc.DeadRuns. A queue's readers look for its oldest job, past the entries of all that are done; with a
// run that is known they look at the newest of these only.
//
//	leader.P32 (I4): a run is cut at each key that is written: after the command was applied, and before the latches on the key are released. A
//	    reader that has to see the write waits for its latches (leader.P1), so it finds the run cut; for any other reader a key without a value is the
//	    right answer. A run is added only if no command on one of its keys has been noted since its reader began: what was noted before is in
//	    the state that was read, and what is noted later cuts the run.
//
// So commands are noted whether or not they meet a run, from the moment when a scan has met deleted keys until no run has been of use for a while. All runs go when the
// data may change in another way (leader.P11). After a command whose outcome stays unknown none is added until the next lease.
type dead struct {
	metrics *Metrics
	active  atomic.Bool // commands are noted
	now     atomic.Uint64

	mu     sync.Mutex  // guards the fields below; nothing is taken after it
	runs   []run       // in the order of their keys; no two overlap
	noted  []keys.Span // the last deadNoted, each at the remainder of its number; nil: none
	since  uint64      // states before it are unknown: runs that were found in them are refused
	unused int         // commands that were noted since a run was of use
	lost   bool        // a command of this lease may be applied and never noted
}

// run is a run of keys without a value, at the time of the last deletion or later.
type run struct {
	keys.Span
	deleted clock.Timestamp
}

const (
	// deadRuns bounds the runs of a range, deadNoted the commands that are remembered for the readers in progress.
	deadRuns  = 128
	deadNoted = 256
	// deadKeys is how many keys of a command are noted one by one.
	deadKeys = 64
	// deadUnused is after how many commands the runs are forgotten if no reader has had a use for one.
	deadUnused = 1 << 14
	// deadSettled is the age of deletions from which neighbouring runs become one. A reader whose timestamp lies before the last deletion of a run reads it key by
	// key; so the newest runs are short.
	deadSettled = 100 * time.Millisecond
)

// Since satisfies mvcc.DeadRuns.
func (d *dead) Since() uint64 { return d.now.Load() }

// Past satisfies mvcc.DeadRuns.
func (d *dead) Past(k keys.Key, at clock.Timestamp, reverse bool) (in keys.Span, deleted clock.Timestamp, next keys.Key) {
	if !d.active.Load() {
		return in, deleted, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.find(k)
	if i < len(d.runs) && d.runs[i].Contains(k) && !at.Less(d.runs[i].deleted) {
		d.unused = 0
		d.metrics.DeadRuns.Add(1)
		in, deleted = d.around(i, at, reverse)
		return in, deleted, nil
	}
	if reverse {
		for i--; i >= 0; i-- {
			if !at.Less(d.runs[i].deleted) {
				return in, deleted, d.runs[i].End
			}
		}
		return in, deleted, nil
	}
	for ; i < len(d.runs); i++ {
		if r := &d.runs[i]; !at.Less(r.deleted) && k.Less(r.Start) {
			return in, deleted, r.Start
		}
	}
	return in, deleted, nil
}

// around is the i-th run with those that follow it without a gap, in the order of a scan that may pass them too.
func (d *dead) around(i int, at clock.Timestamp, reverse bool) (in keys.Span, deleted clock.Timestamp) {
	in, deleted = d.runs[i].Span, d.runs[i].deleted
	if reverse {
		for i--; i >= 0 && d.runs[i].End.Equal(in.Start) && !at.Less(d.runs[i].deleted); i-- {
			in.Start, deleted = d.runs[i].Start, deleted.Forward(d.runs[i].deleted)
		}
		return in, deleted
	}
	for i++; i < len(d.runs) && d.runs[i].Start.Equal(in.End) && !at.Less(d.runs[i].deleted); i++ {
		in.End, deleted = d.runs[i].End, deleted.Forward(d.runs[i].deleted)
	}
	return in, deleted
}

// find is the index of the first run that ends after a key.
func (d *dead) find(k keys.Key) int {
	i, _ := slices.BinarySearchFunc(d.runs, k, func(r run, k keys.Key) int {
		if r.End.Compare(k) <= 0 {
			return -1
		}
		return 1
	})
	return i
}

// Found satisfies mvcc.DeadRuns.
func (d *dead) Found(span keys.Span, deleted, at clock.Timestamp, since uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.active.Load() {
		if !d.lost {
			d.activate()
		}
		return
	}
	if since < d.since {
		return
	}
	now := d.now.Load()
	if now-since > deadNoted {
		return
	}
	for s := since; s < now; s++ {
		if d.noted[s%deadNoted].Overlaps(span) {
			return
		}
	}
	// Of what is known, nothing gets a later time: the new run is what lies between known ones.
	i := d.find(span.Start)
	if i < len(d.runs) && !span.Start.Less(d.runs[i].Start) {
		span.Start = d.runs[i].End
		i++
	}
	if i < len(d.runs) && d.runs[i].Start.Less(span.End) {
		span.End = d.runs[i].Start
	}
	if !span.Start.Less(span.End) {
		return
	}
	d.runs = slices.Insert(d.runs, i, run{span, deleted})
	d.unused = 0
	d.join(at.Add(-deadSettled))
}

// activate has commands noted from now on.
func (d *dead) activate() {
	d.since = d.now.Add(1)
	d.unused, d.noted = 0, make([]keys.Span, deadNoted)
	d.active.Store(true)
}

// join makes one run of neighbours whose deletions are settled. If there are too many runs even so, the one whose deletions are oldest goes.
func (d *dead) join(settled clock.Timestamp) {
	kept := d.runs[:0]
	for _, r := range d.runs {
		if n := len(kept); n > 0 && kept[n-1].End.Equal(r.Start) && kept[n-1].deleted.Less(settled) && r.deleted.Less(settled) {
			kept[n-1].End, kept[n-1].deleted = r.End, kept[n-1].deleted.Forward(r.deleted)
			continue
		}
		kept = append(kept, r)
	}
	clear(d.runs[len(kept):])
	if d.runs = kept; len(kept) <= deadRuns {
		return
	}
	oldest := 0
	for i := range kept {
		if kept[i].deleted.Less(kept[oldest].deleted) {
			oldest = i
		}
	}
	d.runs = slices.Delete(kept, oldest, oldest+1)
}

// reset forgets the runs, because the data may change in another way. Under a new lease, no command of an earlier one is applied any more (leader.P7).
func (d *dead) reset(newLease bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if newLease {
		d.lost = false
	}
	d.forget()
}

func (d *dead) forget() {
	d.active.Store(false)
	d.runs, d.noted = nil, nil
	d.since = d.now.Add(1)
}

// applied notes a batch whose command was applied. Its latches are still held.
func (d *dead) applied(b *kv.Batch) {
	if !d.active.Load() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.active.Load() {
		return
	}
	for _, r := range b.Requests {
		switch r := r.(type) {
		case *kv.PutRequest, *kv.CPutRequest, *kv.DeleteRequest, *kv.AddRequest, *kv.DeleteRangeRequest:
			d.note(r.Span())
		case *kv.LoadRequest:
			if len(r.Rows) <= deadKeys {
				for i := range r.Rows {
					d.note(point(r.Rows[i].Key))
				}
			} else {
				d.note(keys.Span{Start: r.Rows[0].Key, End: r.Rows[len(r.Rows)-1].Key.Next()})
			}
		case *kv.EndTxnRequest:
			if r.Trigger != nil {
				d.forget()
				return
			}
		}
	}
	if d.unused++; d.unused > deadUnused {
		d.forget()
	}
}

// unknown follows a command that may be applied later, after its latches were released.
func (d *dead) unknown() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost = true
	d.forget()
}

// note notes a span that a command has written, and cuts the runs there.
func (d *dead) note(s keys.Span) {
	s = keys.Span{Start: slices.Clone(s.Start), End: slices.Clone(s.Stop())}
	at := d.now.Add(1) - 1
	d.noted[at%deadNoted] = s
	for i := d.find(s.Start); i < len(d.runs) && d.runs[i].Start.Less(s.End); i++ {
		left, right := d.runs[i], d.runs[i]
		left.End, right.Start = s.Start, s.End
		var rest []run
		for _, r := range []run{left, right} {
			if r.Start.Less(r.End) {
				rest = append(rest, r)
			}
		}
		d.runs = slices.Replace(d.runs, i, i+1, rest...)
		i += len(rest) - 1
	}
}
