package gateway

import (
	"sync"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/kv"
)

// How a transaction that reads at one timestamp knows what had committed before it began, without the difference that clocks may have.
//
//	begins    first read, by replicas on N                 later reads
//	   |-----------|------------------------------------------|------------> time
//	               F: the latest option that N have heard of
//
//	fastpaxos.FP87 (I4): A transaction whose client had its answer before a reader began had each option accepted by a replica of each classic quorum of the record, and the store of that replica knows the latest
//	    timestamp of all options that it has heard of, also of those before it was started, which were not after its clock at the start: a gateway's clock is not before what it proposes, and messages carry
//	    clock readings. So if the nodes N that have answered a reader's first read have a classic quorum of a range among them, and F is the latest of their timestamps, each option of the range that is later than F is of a
//	    transaction that was answered after the reader began. The interval in which versions of such a range are uncertain ends at F. A transaction in a block that reads before F moves its
//	    timestamp there before its client sees anything, so that no later read is uncertain.
//	fastpaxos.FP88 (I4): A span that was read at the transaction's timestamp, and in which no version was uncertain then, has none later: options that have come since are of transactions that were answered since.

// frontier is F, and N. It is that of a transaction, whichever of its attempts has read first: all attempts began after the client has begun it.
type frontier struct {
	mu    sync.Mutex // guards the fields below; nothing is taken after it
	at    clock.Timestamp
	nodes map[kv.NodeID]bool
}

// note takes in the answers to the first read.
func (f *frontier) note(m *reading) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.nodes == nil && len(m.nodes) > 0 {
		f.at, f.nodes = m.last, m.nodes
	}
}

// latest is F, zero before the first read.
func (f *frontier) latest() clock.Timestamp {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at
}

// limit is where the uncertainty of versions in a range ends that would end at t.
func (f *frontier) limit(d *kv.RangeDescriptor, t clock.Timestamp) clock.Timestamp {
	if f == nil {
		return t
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.nodes == nil || t.LessEq(f.at) {
		return t
	}
	n := 0
	for _, r := range d.Replicas {
		if r.Type.Votes() && f.nodes[r.Node] {
			n++
		}
	}
	if n < core.QuorumsIn(d).Classic {
		return t
	}
	return f.at
}
