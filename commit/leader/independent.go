package leader

import (
	"bytes"

	"meridian/keys"
	"meridian/kv"
)

// independent reports whether no request of the batch uses keys that an earlier one wrote.
func (c *call) independent(onePhase bool) bool {
	if c.end != nil && (c.end.Trigger != nil || c.writes > 0 && !onePhase && len(c.elsewhere(c.end)) == 0) {
		return false // else it stages: no intent of the batch is resolved in it
	}
	if c.writes+len(c.b.Requests) <= 2 && !c.record {
		return true // one write at most
	}
	reqs := c.b.Requests[c.refreshes():]
	others := len(reqs) - c.writes
	if c.end != nil {
		others--
	}
	if c.writes > 0 && (c.locks || c.record || c.plain && others > 0) {
		return false
	}
	if c.record {
		return len(c.b.Requests) == 1 || c.apart()
	}
	var last keys.Key
	for _, r := range reqs {
		if r == kv.Request(c.end) {
			continue
		}
		if r.Method() == kv.MethodDeleteRange && c.writes > 1 {
			return false
		}
		k := r.Span().Start
		if last != nil && bytes.Compare(last, k) >= 0 {
			return c.distinct()
		}
		last = k
	}
	return true
}

// maxApart bounds the requests that are compared with each other; fewApart of them are compared one by one.
const maxApart, fewApart = 1024, 32

// apart reports whether a batch has only resolutions and record operations, of which no two use the same lock or record. Cleanups of many
// transactions arrive together.
func (c *call) apart() bool {
	reqs := c.b.Requests
	if len(reqs) > maxApart || c.end != nil || c.writes > 0 || c.plain || c.locks {
		return false
	}
	type touched struct {
		key keys.Key // of a lock; nil: the record
		id  kv.TxnID
	}
	var inline [fewApart]touched
	seen := inline[:0]
	var last map[kv.TxnID]int // of a transaction's touches the last, and of each the one before
	var before []int
	if len(reqs) > fewApart {
		last, before = make(map[kv.TxnID]int, len(reqs)), make([]int, 0, len(reqs))
	}
	for _, r := range reqs {
		var t touched
		switch r := r.(type) {
		case *kv.ResolveIntentRequest:
			t = touched{r.Key, r.Txn.ID}
		case *kv.RecoverTxnRequest:
			t = touched{nil, r.Txn.ID}
		case *kv.GCRequest:
			if len(r.Keys) > 0 || len(r.Records) != 1 {
				return false
			}
			_, id, err := keys.DecodeTxnKey(r.Records[0])
			if err != nil {
				return false
			}
			t = touched{nil, id}
		default:
			return false
		}
		same := func(o *touched) bool {
			return o.id == t.id && (o.key == nil) == (t.key == nil) && bytes.Equal(o.key, t.key)
		}
		if last == nil {
			for i := range seen {
				if same(&seen[i]) {
					return false
				}
			}
		} else {
			i, ok := last[t.id]
			if !ok {
				i = -1
			}
			before = append(before, i)
			for last[t.id] = len(seen); i >= 0; i = before[i] {
				if same(&seen[i]) {
					return false
				}
			}
		}
		seen = append(seen, t)
	}
	return true
}

// smallBatch is the size up to which comparing all pairs of keys is cheaper than a map.
const smallBatch = 16

// refreshes is the number of refreshes in front of the other requests. They write nothing, and are done when the others begin (coordinator.CO12).
func (c *call) refreshes() (n int) {
	for _, r := range c.b.Requests {
		if r.Method() != kv.MethodRefresh && r.Method() != kv.MethodRefreshRange {
			break
		}
		n++
	}
	return n
}

// distinct reports whether no two requests of the batch share a key, but for the refreshes in front of the others.
func (c *call) distinct() bool {
	reqs := c.b.Requests[c.refreshes():]
	if c.end != nil {
		reqs = reqs[:len(reqs)-1]
	}
	for i, a := range reqs {
		if s := a.Span(); !s.Point() {
			for j, b := range reqs {
				if i != j && s.Overlaps(b.Span()) {
					return false
				}
			}
		}
	}
	sorted := true
	for i := 1; i < len(reqs) && sorted; i++ {
		sorted = bytes.Compare(reqs[i-1].Span().Start, reqs[i].Span().Start) < 0
	}
	if sorted {
		return true
	}
	if len(reqs) <= smallBatch {
		for i, a := range reqs {
			for _, b := range reqs[:i] {
				if bytes.Equal(a.Span().Start, b.Span().Start) {
					return false
				}
			}
		}
		return true
	}
	seen := make(map[string]bool, len(reqs))
	for _, r := range reqs {
		if k := string(r.Span().Start); seen[k] {
			return false
		} else {
			seen[k] = true
		}
	}
	return true
}
