package mvcc

import (
	"meridian/clock"
	"meridian/keys"
)

// DeadRuns knows runs of keys without a value, which a scan passes in one step. The oldest end of a queue is such a run: its jobs are done, and their entries are
// tombstones until garbage collection forbids the reads that see what was there.
//
//	mvcc.M10 (I4): a scan passes a run only if it reads at the time of the run's last deletion or later, and if no key of the run has been written
//	    since the scan that found it. So it sees what it would see key by key. Locks are met as ever: they are in another keyspace.
type DeadRuns interface {
	// Past returns the end of the run that contains a key, and the time of its last deletion, for a read at a timestamp. If there is none, next is the beginning of the
	// first run after the key, nil if there is none either. The keys are not to be changed.
	Past(k keys.Key, at clock.Timestamp) (end keys.Key, deleted clock.Timestamp, next keys.Key)
	// Found tells of a run that a scan at a timestamp has read key by key. since is what Since returned before the state was made that the scan has read.
	Found(run keys.Span, deleted, at clock.Timestamp, since uint64)
	// Since numbers the states of the store: a run is refused if one of its keys may have been written since.
	Since() uint64
}

// DeadRunMin is how many deleted keys in succession are a run: to step over fewer costs no more than to look for one.
const DeadRunMin = 16

// deadRun is the run that a scan is in.
type deadRun struct {
	start   keys.Key
	stepped int             // deleted keys since start
	deleted clock.Timestamp // the newest
	in      bool            // the last key was a deleted one
	bridge  bool            // a known run ends at start
	next    keys.Key        // where the next known run begins, if looked
	looked  bool
}

// passDead takes a deleted key into account. Where a known run begins, it returns that run's end.
func (s *scan) passDead(k keys.Key, deleted clock.Timestamp) (end keys.Key) {
	d := &s.dead
	if !d.in {
		d.in, d.stepped, d.deleted = true, 0, clock.Timestamp{}
		d.start = append(d.start[:0], k...)
	}
	if !d.looked || d.next != nil && d.next.Compare(k) <= 0 {
		d.looked = true
		var at clock.Timestamp
		if end, at, d.next = s.r.dead.Past(k, s.rd.ts); end != nil {
			s.endRun(k, d.bridge)
			s.r.Seen = s.r.Seen.Forward(at)
			d.looked, d.bridge = false, true
			return end
		}
	}
	d.stepped++
	d.deleted = d.deleted.Forward(deleted)
	return nil
}

// endDead ends a run before k.
func (s *scan) endDead(k keys.Key) {
	s.endRun(k, false)
	s.dead.bridge = false
}

// endRun ends a run before k. One that lies between two known runs makes one of them, so it counts however short it is.
func (s *scan) endRun(k keys.Key, bridge bool) {
	d := &s.dead
	if !d.in {
		return
	}
	d.in = false
	if d.stepped < DeadRunMin && !(bridge && d.stepped > 0) {
		return
	}
	s.r.dead.Found(keys.Span{Start: clone(d.start), End: clone(k)}, d.deleted, s.rd.ts, s.r.deadSince)
}

// ReadDead has scans pass the runs that are known to d, and tell it of others. It is called before the first operation since Reset.
func (r *Reader) ReadDead(d DeadRuns) { r.dead, r.deadSince = d, d.Since() }
