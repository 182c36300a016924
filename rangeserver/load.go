package rangeserver

import (
	"math"
	"sync/atomic"
	"time"

	"meridian/cluster"
	"meridian/keys"
	"meridian/kv"
	"meridian/placement"
)

// originSlots is how many gateways a range counts separately; the requests of others are counted together. Nodes whose
// numbers differ by less have slots of their own.
const originSlots = 8

// origins counts a range's requests by the node whose gateway sent them, so that the lease can follow them (package
// placement). A request costs one addition; the queue loop reads them.
type origins struct {
	slots  [originSlots]struct{ node, n atomic.Uint64 }
	others atomic.Uint64
	// forget has the next sample begin anew: another range has a part of the keys.
	forget atomic.Bool

	// Of the queue loop alone: decayed counts, since when (monotonic clock) under which lease.
	sequence uint64
	since    time.Duration
	at       time.Duration
	from     map[kv.NodeID]float64
	// load is their sum, for placement; it is immutable.
	load atomic.Pointer[placement.Load]
}

// count counts a batch of requests.
func (l *loadCounter) count(b *kv.Batch) {
	l.hit(b.Gateway)
	if p := l.sampler.Load(); p != nil {
		p.note(b)
	}
}

// hit counts a request.
func (o *origins) hit(from kv.NodeID) {
	if from == 0 {
		return // it did not come through a gateway
	}
	s := &o.slots[from%originSlots]
	if have := s.node.Load(); have != uint64(from) && (have != 0 || !s.node.CompareAndSwap(0, uint64(from))) {
		o.others.Add(1)
		return
	}
	s.n.Add(1)
}

// sample is called once in a pass while this replica has the lease, under a sequence number of leases.
func (o *origins) sample(now time.Duration, sequence uint64) {
	if o.sequence != sequence || o.from == nil || o.forget.Swap(false) {
		o.sequence, o.since, o.from = sequence, now, make(map[kv.NodeID]float64)
		o.load.Store(&placement.Load{})
		o.collect() // the requests so far
		clear(o.from)
	}
	fade := math.Exp(-float64(now-o.at) / float64(placement.FollowMemory))
	o.at = now
	for n, v := range o.from {
		if v *= fade; v < 0.5 {
			delete(o.from, n)
		} else {
			o.from[n] = v
		}
	}
	o.collect()
	l := &placement.Load{Known: now-o.since >= placement.FollowAfter}
	if was := o.load.Load(); len(o.from) == 0 && len(was.From) == 0 && was.Known == l.Known {
		return
	}
	if len(o.from) > 0 {
		l.From = make(map[kv.NodeID]float64, len(o.from))
		for n, v := range o.from {
			l.From[n] = v
		}
	}
	o.load.Store(l)
}

// collect takes the counts since the last time.
func (o *origins) collect() {
	for i := range o.slots {
		s := &o.slots[i]
		if n := s.n.Swap(0); n > 0 {
			o.from[kv.NodeID(s.node.Load())] += float64(n)
		} else if node := s.node.Load(); node != 0 && o.from[kv.NodeID(node)] == 0 {
			s.node.Store(0) // for another one; a request that comes just now may be counted as that one's
		}
	}
	if n := o.others.Swap(0); n > 0 {
		o.from[0] += float64(n)
	}
}

// writeMeter measures the commands that a replica applies, whoever is the leaseholder: each costs its store a write. The queue loop samples it.
type writeMeter struct {
	applied uint64        // the log index as of the last sample; zero: there was none
	at      time.Duration // of the last sample, on the monotonic clock
	bits    atomic.Uint64 // of the commands per second
}

// sample returns the commands per second; a command counts for placement.FollowMemory on average.
func (m *writeMeter) sample(now time.Duration, applied uint64) float64 {
	per := m.rate()
	if m.applied > 0 && now > m.at && applied >= m.applied {
		passed := (now - m.at).Seconds()
		last := float64(applied-m.applied) / passed
		per += (last - per) * (1 - math.Exp(-passed/placement.FollowMemory.Seconds()))
		if per < 0.01 {
			per = 0
		}
	}
	m.applied, m.at = applied, now
	m.bits.Store(math.Float64bits(per))
	return per
}

// rate is the commands per second as of the last sample.
func (m *writeMeter) rate() float64 { return math.Float64frombits(m.bits.Load()) }

// away reports whether most requests come from other nodes, so that placement should be asked.
func (o *origins) away(self kv.NodeID) bool {
	l := o.load.Load()
	if l == nil || !l.Known {
		return false
	}
	total := 0.0
	for _, n := range l.From {
		total += n
	}
	return total >= placement.FollowMin && l.From[self] < total/2
}

// follows reports whether the lease of a range follows its requests. Every node reads the index of ranges and the system's own records.
func follows(d *kv.RangeDescriptor) bool { return !d.Start.Less(keys.TablePrefix) }

// slowFor is how long others hear of a disk that delayed writes.
const slowFor = time.Minute

// noteSlow tells the cluster whether writes have waited long for the disk lately. It is called once in a pass.
func (s *Store) noteSlow(clk time.Duration) {
	if n := s.Metrics.Stuck.Load(); n != s.queues.stuck {
		s.queues.stuck, s.queues.slowUntil = n, clk+slowFor
	}
	slow := clk < s.queues.slowUntil
	if slow == s.queues.slow {
		return
	}
	s.queues.slow = slow
	if slow {
		s.log.Info("writes have waited long for this store's disk; leases are not moved here for balance, or to be near", "for", slowFor)
	} else {
		s.log.Info("writes have not waited long for this store's disk lately")
	}
	s.o.Cluster.Update(func(e *cluster.Entry) { e.Slow = slow })
}
