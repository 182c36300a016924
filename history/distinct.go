package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
)

// cluster is a write and the reads that returned its value. An order of the operations keeps a cluster together: the write
// first, its reads after it, no other write between them.
//
// The register holds the value from some moment at or before first to some moment at or after last. If first is before last,
// it holds it at every moment between them: a forward zone. Otherwise one moment between last and first suffices: a backward
// zone.
type cluster struct {
	write       *Op // nil: the initial value
	first, last int64
	// ends is the operation that returned at first, starts the one that was called at last.
	ends, starts *Op
}

func (c *cluster) forward() bool { return c.first < c.last }

func (c *cluster) value(initial int64) int64 {
	if c.write == nil {
		return initial
	}
	return c.write.Value
}

// CheckDistinct looks, as Check does, for an order of each key's operations that explains their answers. It takes reads and
// writes only, and each value is written once to a key at most, and never the initial one; then a few comparisons of intervals
// decide (Gibbons and Korach, Testing shared memories, SIAM J. Computing 26(4), 1997, §4), in time n log n however many outcomes are
// unknown, where the search of Check may need exponential time.
func (r *Registers) CheckDistinct() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	byKey := map[int][]*Op{}
	for _, o := range r.ops {
		if o.Kind != Read && o.Kind != Write {
			return fmt.Errorf("history: %s: not a read or a write", o)
		}
		if o.Outcome == Failed || o.Outcome == Unknown && o.Kind == Read {
			continue
		}
		byKey[o.Key] = append(byKey[o.Key], o)
	}
	ks := make([]int, 0, len(byKey))
	for k := range byKey {
		ks = append(ks, k)
	}
	slices.Sort(ks)
	for _, k := range ks {
		if err := checkDistinct(k, byKey[k], r.Initial); err != nil {
			return err
		}
	}
	return nil
}

func checkDistinct(key int, ops []*Op, initial int64) error {
	bad := func(why string, culprits ...*Op) error {
		culprits = slices.DeleteFunc(culprits, func(o *Op) bool { return o == nil })
		slices.SortFunc(culprits, func(a, b *Op) int { return cmp.Compare(a.Call, b.Call) })
		return &LinearizabilityError{Key: key, Ops: slices.Compact(culprits), Why: why}
	}
	all := make([]cluster, 1, len(ops)+1)
	// The initial value was written before everything else was called.
	all[0] = cluster{first: 0, last: -1}
	of := map[int64]int{initial: 0}
	for _, o := range ops {
		if o.Kind != Write {
			continue
		}
		if _, twice := of[o.Value]; twice {
			return fmt.Errorf("history: key %d: the value %d is written twice, or the initial one", key, o.Value)
		}
		of[o.Value] = len(all)
		c := cluster{write: o, first: math.MaxInt64, last: o.Call, starts: o}
		if o.Outcome == OK {
			c.first, c.ends = o.Return, o
		}
		all = append(all, c)
	}
	for _, o := range ops {
		if o.Kind != Read {
			continue
		}
		i, known := of[o.Result]
		if !known {
			return bad(fmt.Sprintf("nobody wrote %d", o.Result), o)
		}
		c := &all[i]
		if c.write != nil && o.Return < c.write.Call {
			return bad(fmt.Sprintf("%d is read before it is written", o.Result), o, c.write)
		}
		if o.Return < c.first {
			c.first, c.ends = o.Return, o
		}
		if o.Call > c.last {
			c.last, c.starts = o.Call, o
		}
	}
	clash := func(a, b *cluster) error {
		return bad(fmt.Sprintf("the register would have to hold %d and %d at one time", a.value(initial), b.value(initial)),
			a.write, a.ends, a.starts, b.write, b.ends, b.starts)
	}
	var forward []*cluster
	for i := range all {
		if all[i].forward() {
			forward = append(forward, &all[i])
		}
	}
	slices.SortFunc(forward, func(a, b *cluster) int { return cmp.Compare(a.first, b.first) })
	for i := 1; i < len(forward); i++ {
		if forward[i].first < forward[i-1].last {
			return clash(forward[i-1], forward[i])
		}
	}
	for i := range all {
		c := &all[i]
		if c.forward() {
			continue
		}
		at := sort.Search(len(forward), func(j int) bool { return forward[j].first >= c.last })
		if at > 0 && c.first < forward[at-1].last {
			return clash(forward[at-1], c)
		}
	}
	return nil
}
