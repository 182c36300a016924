package core

import (
	"math/bits"

	"meridian/kv"
)

// Columns does the arithmetic of commuting updates on rows, whose form this package does not know.
type Columns interface {
	// Column is a column's value; false: it is NULL, or not a number.
	Column(row []byte, column uint32) (int64, bool)
	// Add gives the row with the deltas added.
	Add(row []byte, deltas []Delta) ([]byte, error)
}

// Quorums are the sizes of a range's quorums. Any two of them have a replica in common, and so do any two fast ones with any classic one (§3.3.1).
type Quorums struct {
	Replicas, Classic, Fast int
	// Least is how many replicas end a generation (kv.RangeDescriptor.Quorum): fewer than Classic while two configurations are joint.
	Least int
}

// QuorumsOf gives the sizes for a number of replicas: a majority, and the smallest fast one. 3: 2 and 3; 5: 3 and 4; 7: 4 and 6.
func QuorumsOf(n int) Quorums {
	classic := n/2 + 1
	return Quorums{Replicas: n, Classic: classic, Fast: n - (classic-1)/2, Least: classic}
}

// QuorumsIn gives the sizes for a range. While two configurations are joint, so many replicas of any of both are a quorum of each of them.
func QuorumsIn(d *kv.RangeDescriptor) (q Quorums) {
	var earlier, later int
	for _, r := range d.Replicas {
		if !r.Type.Votes() {
			continue
		}
		q.Replicas++
		if r.Type != kv.VoterIncoming {
			earlier++
		}
		if r.Type == kv.Voter || r.Type == kv.VoterIncoming {
			later++
		}
	}
	for _, n := range []int{earlier, later} {
		one := QuorumsOf(n)
		q.Classic = max(q.Classic, q.Replicas-n+one.Classic)
		q.Fast = max(q.Fast, q.Replicas-n+one.Fast)
		q.Least = max(q.Least, one.Classic)
	}
	return q
}

// common is how many replicas a fast quorum has at least in common with heard others.
func (q Quorums) common(heard int) int { return q.Fast + heard - q.Replicas }

// Reading is how many replicas promise something to a reader: with each option that a master may have to keep, because a fast quorum may have accepted it, one of them has accepted it (fastpaxos.FP60).
func (q Quorums) Reading() int { return max(q.Classic, q.Replicas-q.common(q.Least)+1) }

// budget is how much of a distance one acceptor may give away in a fast ballot (fastpaxos.FP5).
func (q Quorums) budget(distance uint64) uint64 {
	hi, lo := bits.Mul64(distance, uint64(q.common(q.Least)))
	if uint64(q.Least) <= hi {
		return distance
	}
	n, _ := bits.Div64(hi, lo, uint64(q.Least))
	return n
}

// judge decides about a new option in the acceptor's, or the master's, state (§3.2, §3.4; algorithm 3, SetCompatible). master says that it is the
// master, whose decision is the ballot's: it may give away all that there is. The option may prove that others have been executed elsewhere.
func (r *Record) judge(o *Option, cols Columns, q Quorums, master bool) Verdict {
	r.prove(o)
	if r.Mark.bars(o) || o.At.LessEq(r.Floor) || o.At.LessEq(r.Closed) || o.At.LessEq(r.Base.At) || o.Seen.Base != r.Base.At {
		return Rejected
	}
	if !o.Commutes() {
		if r.accepted(func(*Vote) bool { return true }) || r.Seen() != o.Seen ||
			len(r.Added) > 0 && o.At.LessEq(r.Added[len(r.Added)-1].At) {
			return Rejected
		}
		return Accepted
	}
	if r.Base.Data == nil || r.accepted(func(v *Vote) bool { return !v.Commutes() }) {
		return Rejected
	}
	for _, d := range o.Deltas {
		if !r.affords(d, cols, q, master) {
			return Rejected
		}
	}
	return Accepted
}

// accepted reports whether an accepted option has not ended.
func (r *Record) accepted(which func(*Vote) bool) bool {
	for i := range r.Votes {
		if r.Votes[i].Verdict == Accepted && which(&r.Votes[i]) {
			return true
		}
	}
	return false
}

// prove executes what the proposer of an option has seen executed: who names a version has read it, and only committed ones are read (fastpaxos.FP3).
func (r *Record) prove(o *Option) {
	for i := range r.Votes {
		// Timestamps of transactions with a record are not unique.
		if v := &r.Votes[i]; v.Verdict == Accepted && !v.Commutes() && v.At == o.Seen.Base && v.Anchor == nil {
			won := v.Option
			r.End(&won, true)
			return
		}
	}
	if o.Commutes() || o.Seen.Base != r.Base.At {
		return
	}
	all, sum := []Option(nil), r.Seen().Sum
	for i := range r.Votes {
		if v := &r.Votes[i]; v.Verdict == Accepted && v.Commutes() {
			all, sum = append(all, v.Option), sum^v.hash()
		}
	}
	if len(all) > 0 && sum == o.Seen.Sum {
		for i := range all {
			r.End(&all[i], true)
		}
	}
}

// affords reports whether a column keeps within its bounds with a further delta, whatever becomes of the options that have not ended (§3.4.2).
func (r *Record) affords(d Delta, cols Columns, q Quorums, master bool) bool {
	v, ok := cols.Column(r.Base.Data, d.Column)
	if !ok {
		return false
	}
	// start is the value that the ballot began with; taken and spent are what goes the same way as d since then, by the master's decisions
	// and by others.
	start := wide(v)
	var taken, spent uint64
	if c := r.totals().column(d.Column); c != nil {
		start = start.add(c.started)
		way := &c.up
		if d.Amount < 0 {
			way = &c.down
		}
		taken, spent = way.fixed, way.others
	}
	for i := range r.Votes {
		x := &r.Votes[i]
		if x.Verdict != Accepted {
			continue
		}
		for _, e := range x.Deltas {
			switch {
			case e.Column != d.Column || (e.Amount < 0) != (d.Amount < 0):
			case x.Fixed:
				taken = saturated(taken, size(e.Amount))
			default:
				spent = saturated(spent, size(e.Amount))
			}
		}
	}
	distance, ok := start.below(d.Max)
	if d.Amount < 0 {
		distance, ok = start.above(d.Min)
	}
	if !ok || distance < taken {
		return d.Amount == 0
	}
	room := distance - taken
	if !master {
		room = q.budget(room)
	}
	return saturated(spent, size(d.Amount)) <= room
}

// size is an amount's distance from zero.
func size(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

func saturated(a, b uint64) uint64 {
	if s, carry := bits.Add64(a, b, 0); carry == 0 {
		return s
	}
	return 1<<64 - 1
}

// sum is an integer of more than 64 bits: what committed updates come to is within the column's bounds, but not on the way there.
type sum struct{ hi, lo uint64 }

func wide(n int64) sum { return sum{uint64(n >> 63), uint64(n)} }

func (s sum) plus(n int64) sum { return s.add(wide(n)) }

func (s sum) add(w sum) sum {
	lo, carry := bits.Add64(s.lo, w.lo, 0)
	hi, _ := bits.Add64(s.hi, w.hi, carry)
	return sum{hi, lo}
}

func (s sum) minus(o sum) sum {
	lo, borrow := bits.Sub64(s.lo, o.lo, 0)
	hi, _ := bits.Sub64(s.hi, o.hi, borrow)
	return sum{hi, lo}
}

// above is the distance from a lower bound, below that from an upper one; false: s is beyond it.
func (s sum) above(min int64) (uint64, bool) { return s.minus(wide(min)).natural() }

func (s sum) below(max int64) (uint64, bool) { return wide(max).minus(s).natural() }

func (s sum) natural() (uint64, bool) { return s.lo, s.hi == 0 }
