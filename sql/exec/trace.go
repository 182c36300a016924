package exec

import (
	"time"

	"meridian/kv"
	"meridian/sql/opt"
	"meridian/sql/types"
)

// Trace collects what EXPLAIN ANALYZE prints. Set it in Env to have every operator measured.
type Trace struct {
	// Now reads a monotonic clock; host.Clock's Monotonic.
	Now func() time.Duration
	// Nodes has the measurements of every operator that was opened.
	Nodes map[opt.Node]*NodeStats
}

// NodeStats are the measurements of one operator in one execution.
type NodeStats struct {
	// Loops counts how often the operator was started.
	Loops int64
	// Rows that left it, and KVRows that it read from ranges.
	Rows, KVRows int64
	// KVBatches are the requests that it sent, KVBytes the bytes that came back.
	KVBatches, KVBytes int64
	// Time spent in it and its inputs; KVTime of that was spent waiting for ranges.
	Time, KVTime time.Duration
	// Served names the ranges and nodes that answered.
	Served []kv.Served
}

func (t *Trace) stats(n opt.Node) *NodeStats {
	if t.Nodes == nil {
		t.Nodes = make(map[opt.Node]*NodeStats)
	}
	s := t.Nodes[n]
	if s == nil {
		s = new(NodeStats)
		t.Nodes[n] = s
	}
	return s
}

// served adds what answered a read, each range and node once.
func (s *NodeStats) served(list []kv.Served) {
next:
	for _, a := range list {
		for _, b := range s.Served {
			if a == b {
				continue next
			}
		}
		s.Served = append(s.Served, a)
	}
}

// traced measures an operator.
type traced struct {
	iter
	r     *run
	stats *NodeStats
}

func (t *traced) open() error {
	start := t.r.env.Trace.Now()
	err := t.iter.open()
	t.stats.Time += t.r.env.Trace.Now() - start
	t.stats.Loops++
	return err
}

func (t *traced) next() (types.Row, error) {
	start := t.r.env.Trace.Now()
	row, err := t.iter.next()
	t.stats.Time += t.r.env.Trace.Now() - start
	if row != nil {
		t.stats.Rows++
	}
	return row, err
}
