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
	// Past returns the run that contains a key, and the time of its last deletion, for a read at a timestamp. If there is none, next is where the next run begins, in the
	// order of the scan, nil if there is none either: the first key of one after k, or the end of one before k. The keys are not to be changed.
	Past(k keys.Key, at clock.Timestamp, reverse bool) (run keys.Span, deleted clock.Timestamp, next keys.Key)
	// Found tells of a run that a scan at a timestamp has read key by key. since is what Since returned before the state was made that the scan has read.
	Found(run keys.Span, deleted, at clock.Timestamp, since uint64)
	// Since numbers the states of the store: a run is refused if one of its keys may have been written since.
	Since() uint64
}

// DeadRunMin is how many deleted keys in succession are a run: to step over fewer costs no more than to look for one.
const DeadRunMin = 16

// deadRun is the run that a scan is in.
type deadRun struct {
	first   keys.Key        // in the order of the scan
	stepped int             // deleted keys since first
	deleted clock.Timestamp // the newest
	in      bool            // the last key was a deleted one
	bridge  bool            // a known run ends at first
	next    keys.Key        // where the next known run begins, if looked
	looked  bool
}

// passDead takes a deleted key into account. In a known run, it returns the run's end in the order of the scan.
func (s *scan) passDead(k keys.Key, deleted clock.Timestamp) (end keys.Key) {
	d := &s.dead
	if !d.in {
		d.in, d.stepped, d.deleted = true, 0, clock.Timestamp{}
		d.first = append(d.first[:0], k...)
	}
	if !d.looked || d.next != nil && (s.o.Reverse && k.Less(d.next) || !s.o.Reverse && !k.Less(d.next)) {
		d.looked = true
		run, at, next := s.r.dead.Past(k, s.rd.ts, s.o.Reverse)
		if d.next = next; run.Start != nil {
			s.endRun(k, d.bridge)
			s.r.Seen = s.r.Seen.Forward(at)
			d.looked, d.bridge = false, true
			if s.o.Reverse {
				return run.Start
			}
			return run.End
		}
	}
	d.stepped++
	d.deleted = d.deleted.Forward(deleted)
	return nil
}

// endDead ends a run before k, in the order of the scan.
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
	run := keys.Span{Start: clone(d.first), End: clone(k)}
	if s.o.Reverse { // what lies between k and the last deleted key belongs to it
		run = keys.Span{Start: run.End.Next(), End: run.Start.Next()}
	}
	s.r.dead.Found(run, d.deleted, s.rd.ts, s.r.deadSince)
}

// endScan ends the run that reaches to the end of the scan's span.
func (s *scan) endScan() {
	if s.o.Reverse && s.dead.in && s.dead.stepped >= DeadRunMin {
		s.dead.in = false
		s.r.dead.Found(keys.Span{Start: clone(s.span.Start), End: s.dead.first.Next()}, s.dead.deleted, s.rd.ts, s.r.deadSince)
	} else if !s.o.Reverse {
		s.endDead(s.span.End)
	}
}

// ReadDead has scans pass the runs that are known to d, and tell it of others. It is called before the first operation since Reset.
func (r *Reader) ReadDead(d DeadRuns) { r.dead, r.deadSince = d, d.Since() }
