package route

import (
	"context"
	"slices"
	"sync"
	"time"

	"meridian/kv"
)

// Trace records the batches of a statement that went to other regions, for EXPLAIN ANALYZE: those of its transaction that are to name who
// served them (kv.Header.Trace). All methods may be called concurrently.
//
// The wide-area rounds of a statement are the greatest number of round trips to other regions of which each began when the one before had
// ended: of batches that are sent at the same time, one counts. A write that replicas in another region have to agree to is a round trip from its
// leaseholder to them, after that to the leaseholder.
type Trace struct {
	mu      sync.Mutex // guards the fields below; nothing is taken after it
	calls   []traced
	regions []string
}

// traced is a batch with so many rounds, from its start to its answer.
type traced struct {
	start, end time.Duration // monotonic
	rounds     int
}

type traceKey struct{}

// WithTrace records the batches that are sent within the context.
func WithTrace(ctx context.Context, t *Trace) context.Context {
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf is the Trace of a context; nil: there is none.
func TraceOf(ctx context.Context) *Trace {
	t, _ := ctx.Value(traceKey{}).(*Trace)
	return t
}

// traced notes a batch that a node has answered. Nobody has waited for one that was given up because the rows were found elsewhere.
func (s *Sender) traced(ctx context.Context, b *kv.Batch, e *entry, node kv.NodeID, start time.Duration) {
	t := TraceOf(ctx)
	if t == nil || context.Cause(ctx) == errEnough {
		return
	}
	rounds, region := 0, ""
	if s.trip(node) > WideArea {
		rounds, region = 1, s.Region(node)
	}
	if proposes(b) {
		if _, wide := s.quorum(e.desc, node); wide {
			rounds++
		}
	}
	if rounds == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls = append(t.calls, traced{start, s.o.Host.Clock.Monotonic(), rounds})
	if region != "" && !slices.Contains(t.regions, region) {
		t.regions = append(t.regions, region)
	}
}

// proposes reports whether a batch has writes, to which replicas have to agree.
func proposes(b *kv.Batch) bool {
	return slices.ContainsFunc(b.Requests, func(r kv.Request) bool {
		switch r := r.(type) {
		case *kv.PutRequest, *kv.CPutRequest, *kv.DeleteRequest, *kv.DeleteRangeRequest, *kv.LoadRequest:
			return true
		case *kv.EndTxnRequest:
			return r.Commit
		}
		return false
	})
}

// Rounds is the number of wide-area rounds so far: the heaviest chain of batches each of which began when the one before had ended.
func (t *Trace) Rounds() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.SortFunc(t.calls, func(a, b traced) int { return int(a.end - b.end) })
	best := make([]int, len(t.calls)+1) // by the number of calls that ended first
	for i, c := range t.calls {
		before := 0
		for j := range i {
			if t.calls[j].end <= c.start {
				before = max(before, best[j+1])
			}
		}
		best[i+1] = before + c.rounds
	}
	return slices.Max(best)
}

// Regions are the regions that were asked, in the order of their first answers.
func (t *Trace) Regions() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.regions)
}
