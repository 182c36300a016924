package exec

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"meridian/host"
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
	// Writes are the keys that it wrote.
	Writes int64
	// Time spent in it and its inputs; KVTime of that was spent waiting for ranges.
	Time, KVTime time.Duration
	// Served names the ranges and nodes that answered.
	Served []kv.Served
}

// NewTrace measures with a clock.
func NewTrace(c host.Clock) *Trace { return &Trace{Now: c.Monotonic} }

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

// Describe is what EXPLAIN ANALYZE prints for an operator; region names a node's region and may be nil.
func (t *Trace) Describe(n opt.Node, region func(kv.NodeID) string) string {
	s := t.Nodes[n]
	if s == nil || s.Loops == 0 {
		return "(never executed)"
	}
	ms := func(d time.Duration) string {
		return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 3, 64)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "(actual time=%s rows=%d loops=%d)", ms(s.Time), s.Rows/s.Loops, s.Loops)
	if s.KVBatches > 0 {
		fmt.Fprintf(&b, " (read time=%s rows=%d bytes=%d requests=%d", ms(s.KVTime), s.KVRows, s.KVBytes, s.KVBatches)
		for i, a := range s.Served {
			if i == maxServed {
				fmt.Fprintf(&b, " and %d more", len(s.Served)-i)
				break
			}
			fmt.Fprintf(&b, " r%d@n%d", a.Range, a.Node)
			if region != nil {
				if name := region(a.Node); name != "" {
					b.WriteByte('/')
					b.WriteString(name)
				}
			}
		}
		b.WriteByte(')')
	}
	if s.Writes > 0 {
		fmt.Fprintf(&b, " (write time=%s keys=%d)", ms(s.KVTime), s.Writes)
	}
	return b.String()
}

// maxServed is how many ranges a line of EXPLAIN ANALYZE names.
const maxServed = 8

// traced measures an operator.
type traced struct {
	iter
	r     *run
	stats *NodeStats
}

func (t *traced) hint(rows int64) { hint(t.iter, rows) }

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
