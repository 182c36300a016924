package gateway

import (
	"context"
	"slices"

	"meridian/clock"
	"meridian/keys"
)

// Turns of a transaction (turns.go).

// await takes turns at rows that are hot, one after the other, in order: a transaction that has some takes further ones only behind them.
func (x *coordinator) await(ctx context.Context, has func(keys.Key) bool) error {
	if x.c.o.Peers == nil {
		return nil
	}
	for _, k := range x.c.hot(has, len(x.turns) > 0) {
		if n := len(x.turns); n >= atOnce || n > 0 && k.Compare(x.turns[n-1].key) <= 0 {
			continue
		}
		done := x.works() // it needs those that it has
		t, err := x.c.take(ctx, k, x.rival)
		done()
		if err != nil {
			return err
		}
		x.turns = append(x.turns, t)
	}
	return nil
}

// afresh gives turns back with which the next attempt would not get those that it needs: those at rows that it did not want any more, or that others need not wait for any more,
// and all of them if it was refused at a row before one of them.
func (x *coordinator) afresh(refused []keys.Key) {
	now := x.c.o.Host.Clock.Monotonic()
	x.turns = slices.DeleteFunc(x.turns, func(t *turn) bool {
		_, wanted := x.seen[string(t.key)]
		x.c.turns.mu.Lock()
		over := !wanted || t.over(now)
		x.c.turns.mu.Unlock()
		if over {
			x.c.pass(t)
		}
		return over
	})
	if n := len(x.turns); n > 0 && slices.ContainsFunc(refused, func(k keys.Key) bool { return !x.hasTurn(k) && k.Less(x.turns[n-1].key) }) {
		x.Ended()
	}
}

func (x *coordinator) hasTurn(k keys.Key) bool {
	return slices.ContainsFunc(x.turns, func(t *turn) bool { return t.key.Equal(k) })
}

// works says that the transaction does something until the returned function is called: that its turns are in use.
func (x *coordinator) works() (done func()) {
	if len(x.turns) == 0 {
		return func() {}
	}
	x.c.work(x.turns, 1)
	return func() { x.c.work(x.turns, -1) }
}

// wrote notes a version that the transaction has committed.
func (x *coordinator) wrote(k keys.Key, at clock.Timestamp) {
	for _, t := range x.turns {
		if t.key.Equal(k) {
			t.wrote = t.wrote.Forward(at)
		}
	}
}

// Ended implements txn.Coordinator.
func (x *coordinator) Ended() {
	for _, t := range x.turns {
		x.c.pass(t)
	}
	x.turns = nil
}
