package rangeserver

import (
	"time"

	"meridian/clock"
	"meridian/commit/protocol"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica/closedts"
)

// Leads: how far ahead of the clock the ranges of GLOBAL tables close (CRDB'22 §6.2.1). A reader anywhere wants its whole uncertainty interval closed at
// its own replica:
//
//	leaseholder   closes T --- the next tick ---+
//	slowest replica      \------ delivery -------\---> T is known until the next one is
//	                                              |<- the readers' interval ->|T
//
// So a lead is the sum of these three, which are measured, rounded up to a policy. A write waits for its lead, so it must not be longer
// than that. The round of consensus of a write is no part of it, since a write in flight is above what the range closes (closedts.CT5), and its entry reaches
// the replicas with the tick that names it.
//
//	rangeserver.RS5: A lead is no promise. One that is too short sends readers to the leaseholder, one that is too long lets writers wait; the closed
//	    timestamps are right with any.

const (
	// leadStepsUp bounds by how many steps a lead grows at once: one slow disk is no reason to let all writers wait for a second.
	leadStepsUp = 10
	// leadStepsDown is which part of the steps that are too many a lead loses at once: an agreement about the clocks may make half a second superfluous.
	leadStepsDown = 4
	// leadCalm is for how many looks in succession a lead has to be longer than what is measured before it shrinks: it must not swing.
	leadCalm = 4
	// leadSlack is what is added to what was measured, and the least by which a lead shrinks.
	leadSlack = 2 * time.Millisecond
	// unmeasured stands for the round trip to a node that has not been measured.
	unmeasured = 200 * time.Millisecond
)

// leading is what the side loop knows of one range's lead.
type leading struct {
	// global is Zone.GlobalReads as of these generations of zones and range.
	global           bool
	zone, generation uint64
	known            bool

	policy closedts.Policy
	calm   int // looks
}

// tune decides how a range closes, and tells the replica.
func (s *Store) tune(e *entry, zone uint64) {
	l, d := &e.closing.leading, e.r.Desc()
	if d == nil {
		return
	}
	if !l.known || l.zone != zone || l.generation != d.Generation {
		l.global = !d.Start.Less(keys.TablePrefix) && s.zone(d.Start).GlobalReads
		l.known, l.zone, l.generation = true, zone, d.Generation
	}
	_, mine := e.r.CheckLease(clock.Timestamp{})
	if !l.global || !mine || !protocol.Of(d.Protocol).Ahead.Can() {
		l.policy, l.calm = closedts.Lag, 0
		e.r.Lead(0)
		return
	}
	need := s.lead(d)
	l.policy, l.calm = retuned(l.policy, l.calm, need)
	e.r.Lead(l.policy.Lead())
}

// retuned is the policy after one look at what is needed: a longer lead soon, a shorter one late.
func retuned(p closedts.Policy, calm int, need time.Duration) (closedts.Policy, int) {
	want := closedts.Ahead(need)
	switch {
	case p == closedts.Lag:
		return want, 0
	case want > p:
		return min(want, p+leadStepsUp), 0
	case want < p && closedts.Ahead(need+leadSlack) < p:
		if calm++; calm < leadCalm {
			return p, calm
		}
		return p - max(1, (p-want)/leadStepsDown), 0
	}
	return p, 0
}

// lead is how far ahead a range should close, by what is measured now. Replicas on nodes that are not live do not count: they serve nobody.
func (s *Store) lead(d *kv.RangeDescriptor) time.Duration {
	latency, _ := s.o.Cluster.(interface {
		Latency(kv.NodeID) (time.Duration, bool)
	})
	now := s.o.Clock.Now()
	var farthest time.Duration
	for _, r := range d.Replicas {
		rtt := time.Duration(0)
		if r.Node != s.o.NodeID {
			if incarnation, _ := s.o.Liveness.Incarnation(r.Node); incarnation != 0 && !s.o.Liveness.IsLive(r.Node, incarnation, now) {
				continue
			}
			rtt = unmeasured
			if latency != nil {
				if m, ok := latency.Latency(r.Node); ok {
					rtt = m
				}
			}
		}
		if r.Full() { // a witness is read by nobody
			farthest = max(farthest, rtt)
		}
	}
	return farthest/2 + s.o.Clock.Lead() + closedts.LeadInterval + leadSlack
}
