package history

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// place is where an operation on one key is in a history. Reads change nothing: without an answer they say nothing.
type place struct {
	client, key int
	outcome     Outcome
	reads       bool
	call, ret   int64
}

// unexplained is the history of a key for which there is no order, in order of calls and without operations that say nothing. stuck is how many of them can be put in order.
type unexplained[T any] struct {
	key, stuck int
	ops        []T
	timedOut   bool
}

// order looks, key by key, for an order of the operations that explains their answers by a model, and returns the first key without one, nil if there is none.
func order[T any](ops []T, at func(T) place, model porcupine.Model, limit time.Duration) *unexplained[T] {
	byKey := map[int][]T{}
	var ks []int
	for _, o := range ops {
		p := at(o)
		if p.outcome == Failed || p.outcome == Unknown && p.reads {
			continue
		}
		if byKey[p.key] == nil {
			ks = append(ks, p.key)
		}
		byKey[p.key] = append(byKey[p.key], o)
	}
	slices.Sort(ks)
	for _, k := range ks {
		ops := byKey[k]
		slices.SortFunc(ops, func(a, b T) int { return cmp.Compare(at(a).call, at(b).call) })
		h := make([]porcupine.Operation, len(ops))
		for i, o := range ops {
			p := at(o)
			if p.outcome == Unknown {
				p.ret = math.MaxInt64
			}
			h[i] = porcupine.Operation{ClientId: p.client, Input: o, Call: p.call, Output: o, Return: p.ret}
		}
		res, info := porcupine.CheckOperationsVerbose(model, h, limit)
		if res == porcupine.Ok {
			continue
		}
		u := &unexplained[T]{key: k, ops: ops, timedOut: res == porcupine.Unknown}
		for _, part := range info.PartialLinearizations() {
			for _, l := range part {
				u.stuck = max(u.stuck, len(l))
			}
		}
		return u
	}
	return nil
}
