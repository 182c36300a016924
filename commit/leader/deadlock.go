package leader

import (
	"bytes"
	"context"
	"encoding/binary"
	"time"

	"meridian/commit"
	"meridian/kv"
)

// Deadlocks. A transaction waits for another one by a push at the record of the latter; so the record's range knows the waits that end
// there. A push asks the range of its own pusher's record for them, and is notified of changes; it attaches the answer to itself, so that
// the next in the chain learns of it. The dependencies thus travel along the chain against its direction, and finally around the cycle:
//
//	  A --waits for--> B --waits for--> C --waits for--> A
//	  '<-- "C waits for A, B for C" ---'
//
// Requests behind the first in a queue do not push (lock.K5). Each asks the range of its own record whether any transaction waits for its
// own, gets an answer when one does, and pushes from then on. In a cycle every member is waited for, at a key where some request is first:
// so the member learns of it and pushes, and the chain is complete. A thousand requests that wait for one row, and for which no transaction
// waits, cost one push.
//
// leader.P6: of a cycle of waits exactly one member gives up, the one that is less than all others (lower priority, then younger), because
// a push gives up only if it finds a path back to its pusher on which all others are greater. Every member learns of the whole cycle, so
// one does.

const (
	// lookPause is the least time between two queries of one push.
	lookPause = 2 * time.Millisecond
	// lostPause follows a query that had no answer: the record's range can't be reached now.
	lostPause = 100 * time.Millisecond
	// watchTime is how long a query waits for changes before it is answered anyway: a lease may have moved.
	watchTime = time.Second
	// noWaits identifies the empty set of waits.
	noWaits = 1
	// maxWaits bounds the waits in an answer. A cycle with more members is found from those that are in it.
	maxWaits = 1000
)

// waits are those that end at a transaction, directly or not, as far as this range knows, with an identifier of the set.
func (w *pushQueue) waits(id kv.TxnID) ([]kv.TxnWait, uint64) {
	if w.n.Load() == 0 {
		return nil, noWaits
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	type edge struct{ from, to kv.TxnID }
	var out []kv.TxnWait
	seen := map[edge]bool{}
	version := uint64(0)
	add := func(x *kv.TxnWait) {
		if e := (edge{x.ID, x.For}); !x.ID.IsZero() && !seen[e] && len(out) < maxWaits {
			seen[e] = true
			out = append(out, *x)
			// Identities are random, so that their sums distinguish sets.
			version += binary.BigEndian.Uint64(x.ID[:]) * (binary.BigEndian.Uint64(x.For[8:]) | 1)
		}
	}
	for _, x := range w.waiting[id] {
		add(&x.pusher)
		for i := range x.dependents {
			add(&x.dependents[i])
		}
	}
	return out, version | noWaits
}

func (w *pushQueue) setDependents(x *pushWait, all []kv.TxnWait) {
	w.mu.Lock()
	x.dependents = all
	w.tell(x.pushee)
	w.mu.Unlock()
}

// tell is called with mu held when the waits that end at id may have changed.
func (w *pushQueue) tell(id kv.TxnID) {
	for _, c := range w.watching[id] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

func (w *pushQueue) watch(id kv.TxnID) (news chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	w.watching[id] = append(w.watching[id], c)
	w.mu.Unlock()
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		all := w.watching[id]
		for i := range all {
			if all[i] == c {
				all[i] = all[len(all)-1]
				all = all[:len(all)-1]
				break
			}
		}
		if len(all) == 0 {
			delete(w.watching, id)
		} else {
			w.watching[id] = all
		}
	}
}

// awaitNews returns when the waits that end at a transaction may have changed.
func (p *Participant) awaitNews(ctx context.Context, r *kv.QueryTxnRequest) error {
	news, stop := p.waits.watch(r.Txn.ID)
	defer stop()
	t := p.o.Host.Clock.NewTimer(watchTime)
	defer t.Stop()
	for {
		if _, v := p.waits.waits(r.Txn.ID); v != r.Known {
			return nil
		}
		select {
		case <-news:
		case <-t.C():
			return nil
		case <-p.ended:
			return p.closedErr()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// askWaits queries in the background which transactions wait for one; the result is nil if there was no answer.
func (p *Participant) askWaits(ctx context.Context, t kv.TxnMeta, known uint64) <-chan *kv.QueryTxnResponse {
	out := make(chan *kv.QueryTxnResponse, 1)
	b := &kv.Batch{Header: kv.Header{Gateway: p.r.NodeID(), Now: p.o.Clock.Now()},
		Requests: []kv.Request{&kv.QueryTxnRequest{Txn: t, Known: known}}}
	started := p.o.Host.Group.Go(func(group context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(group, cancel)()
		var answer *kv.QueryTxnResponse
		if resp, err := p.o.Sender.Send(ctx, b); err == nil {
			answer, _ = resp.Responses[0].(*kv.QueryTxnResponse)
		}
		out <- answer
	})
	if !started {
		out <- nil
	}
	return out
}

// cycle takes an answer about the waits that end at the pusher. It returns an error if there is a cycle in which the pusher has to give up
// (leader.P6).
func (q *request) cycle(wait *pushWait, a *kv.QueryTxnResponse) error {
	p, r := q.p, q.push
	if a.Exists && a.Txn.Status == kv.Aborted {
		return &kv.TxnAbortedError{ID: r.Pusher.ID, Reason: commit.WhyAborted(&r.Pusher.TxnMeta, "aborted while it waited for a lock")}
	}
	p.waits.setDependents(wait, a.Waits)
	back := wayBack(&wait.pusher, a.Waits)
	if back == nil {
		return nil
	}
	p.o.Metrics.Deadlocks.Add(1)
	e := &kv.DeadlockError{Waits: append([]kv.TxnWait{wait.pusher}, back...)}
	for i := range e.Waits {
		e.Cycle = append(e.Cycle, e.Waits[i].ID)
	}
	return e
}

// wayBack finds the shortest chain of waits from what from waits for back to from, of transactions that are all greater
// than it; nil if there is none.
func wayBack(from *kv.TxnWait, all []kv.TxnWait) []kv.TxnWait {
	byID := map[kv.TxnID][]int{}
	for i := range all {
		if less(from, &all[i]) {
			byID[all[i].ID] = append(byID[all[i].ID], i)
		}
	}
	// before is the wait by which another one was reached, -1 at the beginning.
	before := map[int]int{}
	queue := []int{}
	reach := func(id kv.TxnID, by int) {
		for _, i := range byID[id] {
			if _, seen := before[i]; !seen {
				before[i] = by
				queue = append(queue, i)
			}
		}
	}
	reach(from.For, -1)
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		if all[i].For != from.ID {
			reach(all[i].For, i)
			continue
		}
		var back []kv.TxnWait
		for ; i >= 0; i = before[i] {
			back = append(back, all[i])
		}
		for l, r := 0, len(back)-1; l < r; l, r = l+1, r-1 {
			back[l], back[r] = back[r], back[l]
		}
		return back
	}
	return nil
}

// less orders transactions: the least of a cycle is its victim.
func less(a, b *kv.TxnWait) bool {
	if a.Priority != b.Priority {
		return a.Priority < b.Priority
	}
	if a.MinTimestamp != b.MinTimestamp {
		return b.MinTimestamp.Less(a.MinTimestamp)
	}
	return bytes.Compare(a.ID[:], b.ID[:]) > 0
}
