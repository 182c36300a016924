package route

import (
	"context"
	"errors"
	"sync"
	"time"

	"meridian/kv"
)

// How long nodes take to answer the batches of Each, so that a caller who waits for a quorum does not wait for a node that is lost.

// Chosen by us, as TCP chooses its time-outs (RFC 6298): the smoothed time of an answer and four times its deviation, but no less than leastSlack, or a fourth of the time, more. A node
// that has not been measured has unpaced more than its round trip.
const (
	leastSlack = 25 * time.Millisecond
	unpaced    = 150 * time.Millisecond
)

// ErrLate is the error of an Answer that has not come in time, and may come still.
var ErrLate error = &kv.UnavailableError{Reason: "the replica has not answered in time"}

// pace is that of one node. The zero value says that nothing is known.
type pace struct {
	mean, deviation time.Duration
	// since is when the first batch was sent that nothing was heard after, by monotonic time; zero: there is none.
	since time.Duration
}

// most is how long an answer of a node with a round trip may take.
func (p *pace) most(trip time.Duration) time.Duration {
	if p.mean == 0 {
		return trip + unpaced
	}
	return p.mean + max(4*p.deviation, p.mean/4, leastSlack)
}

// heard takes in the time of an answer.
func (p *pace) heard(took time.Duration) {
	p.since = 0
	took = max(took, 1)
	if p.mean == 0 {
		p.mean, p.deviation = took, took/2
		return
	}
	p.deviation += ((took - p.mean).Abs() - p.deviation) / 4
	p.mean += (took - p.mean) / 8
}

// paces are those of all nodes.
type paces struct {
	mu sync.Mutex // guards of; nothing is taken after it
	of map[kv.NodeID]*pace
}

// neverLate is from when on an answer of this node itself is late.
const neverLate = time.Hour

// sent notes that a batch goes to a node, and returns when its answer is late. That of a node which has not answered an earlier one for long is late at once. This node is not lost: its
// replicas' promises may wait for another node, which is (package fence).
func (s *Sender) sent(node kv.NodeID, now time.Duration) (late time.Duration) {
	if node == s.o.NodeID() {
		return now + neverLate
	}
	trip := s.trip(node)
	s.paces.mu.Lock()
	defer s.paces.mu.Unlock()
	if s.paces.of == nil {
		s.paces.of = make(map[kv.NodeID]*pace)
	}
	p := s.paces.of[node]
	if p == nil {
		p = &pace{}
		s.paces.of[node] = p
	}
	if p.since == 0 {
		p.since = max(now, 1)
	}
	if most := p.most(trip); now-p.since < most {
		return now + most
	}
	return now
}

// Answers is how long a node's answer to a batch of Each may take, and whether the node is silent: it was asked, and has not answered anything for longer than that.
func (s *Sender) Answers(node kv.NodeID) (within time.Duration, silent bool) {
	trip, now := s.trip(node), s.o.Host.Clock.Monotonic()
	s.paces.mu.Lock()
	defer s.paces.mu.Unlock()
	p := s.paces.of[node]
	if p == nil {
		return trip + unpaced, false
	}
	within = p.most(trip)
	return within, p.since != 0 && now-p.since > within
}

// answeredAfter notes an answer.
func (s *Sender) answeredAfter(node kv.NodeID, took time.Duration, err error) {
	var unavailable *kv.UnavailableError
	if err != nil && (errors.As(err, &unavailable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return // nothing was heard of the node
	}
	s.paces.mu.Lock()
	defer s.paces.mu.Unlock()
	if p := s.paces.of[node]; p != nil {
		p.heard(took)
	}
}
