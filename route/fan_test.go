package route_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/kv"
	"meridian/route"
)

// TestAll: the batches for two ranges reach all voters of both, those for one node in one message.
func TestAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := divided(t)
		c.turn(key(22), foreign)
		ctx := context.Background()
		two := func() []*kv.Batch {
			return []*kv.Batch{ask(foreign, kv.Target{}, key(12)), ask(foreign, kv.Target{}, key(22))}
		}
		for _, b := range two() { // so that the ranges are known
			check(t, s.Each(ctx, b, func(route.Answer) bool { return true }))
		}
		clear(c.messages)
		var heard [2]int
		ended := false
		check(t, s.All(ctx, &route.Fan{Batches: two(), Answer: func(i int, a route.Answer) bool {
			if a.Err != nil || by(a.Resp) != byte(a.From.Node) || !a.Desc.Contains(key(12+10*i)) {
				t.Errorf("%d: %+v", i, a)
			}
			heard[i]++
			return true
		}, Ended: func() { ended = true }}))
		if heard != [2]int{3, 3} || !ended {
			t.Errorf("heard %v, ended %v", heard, ended)
		}
		if n := c.messages[route.MethodAll]; n != 2 || c.messages[route.Method] != 0 {
			t.Errorf("messages to the two other nodes: %v", c.messages)
		}

		// A node that is down answers for none of its ranges, and a range that is none is not asked.
		c.down[3] = true
		clear(heard[:])
		failed := 0
		across := &kv.Batch{Header: kv.Header{Protocol: foreign}, Requests: []kv.Request{&kv.ProtocolRequest{Key: key(12)}, &kv.ProtocolRequest{Key: key(22)}}}
		var mismatch *kv.RangeMismatchError
		check(t, s.All(ctx, &route.Fan{Batches: append(two(), across), Answer: func(i int, a route.Answer) bool {
			switch {
			case i == 2:
				if a.Desc != nil || !errors.As(a.Err, &mismatch) {
					t.Errorf("%+v", a)
				}
			case a.Err != nil:
				failed++
			default:
				heard[i]++
			}
			return true
		}}))
		if heard != [2]int{2, 2} || failed != 2 || mismatch == nil {
			t.Errorf("heard %v, failed %d, mismatch %v", heard, failed, mismatch)
		}
	})
}

// TestAllLate: who has enough does not wait, and hears the rest later; another reason to stop is asked about at a wake.
func TestAllLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := divided(t)
		ctx := context.Background()
		check(t, s.Each(ctx, ask(foreign, kv.Target{}, key(12)), func(route.Answer) bool { return true }))
		c.delay(time.Second)
		began := time.Now()
		var early, late, ended atomic.Int64
		f := &route.Fan{Batches: []*kv.Batch{ask(foreign, kv.Target{}, key(12))}, Answer: func(int, route.Answer) bool { early.Add(1); return false },
			Late: func(int, route.Answer) { late.Add(1) }, Ended: func() { ended.Store(int64(time.Since(began))) }}
		check(t, s.All(ctx, f))
		if early.Load() != 1 || late.Load() != 0 || time.Since(began) > 0 {
			t.Errorf("%d early, %d late, after %s", early.Load(), late.Load(), time.Since(began))
		}
		time.Sleep(5 * time.Second)
		if early.Load() != 1 || late.Load() != 2 || ended.Load() != int64(time.Second) {
			t.Errorf("%d early, %d late, ended after %s", early.Load(), late.Load(), time.Duration(ended.Load()))
		}

		wake, more := make(chan struct{}, 1), true
		time.AfterFunc(100*time.Millisecond, func() { more = false; wake <- struct{}{} })
		began = time.Now()
		check(t, s.All(ctx, &route.Fan{Batches: []*kv.Batch{ask(foreign, kv.Target{}, key(12))}, Answer: func(int, route.Answer) bool { return true },
			Wake: wake, More: func() bool { return more }}))
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("woken after %s", took)
		}
		time.Sleep(5 * time.Second)
	})
}

// TestAllTogether: batches of several callers for a node that leave at the same moment are in one message, and each caller has its own answers. One that gives up does
// not end the others' call.
func TestAllTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := divided(t)
		ctx := context.Background()
		check(t, s.Each(ctx, ask(foreign, kv.Target{}, key(12)), func(route.Answer) bool { return true }))
		c.delay(3 * time.Second) // longer than those who have given up are waited for
		clear(c.messages)
		const callers = 20
		heard := make(chan int, callers)
		for i := range callers {
			go func() {
				ctx, cancel := ctx, context.CancelFunc(func() {})
				if i%2 == 1 {
					ctx, cancel = context.WithTimeout(ctx, time.Millisecond)
				}
				defer cancel()
				n := 0
				_ = s.Each(ctx, ask(foreign, kv.Target{}, key(12)), func(a route.Answer) bool {
					switch a.Err {
					case nil:
						n++
					case route.ErrLate:
					default:
						t.Error(a.Err)
					}
					return true
				})
				heard <- n
			}()
		}
		all := 0
		for range callers {
			if <-heard == 3 {
				all++
			}
		}
		if all != callers/2 {
			t.Errorf("%d of the %d that wait have heard all", all, callers/2)
		}
		n := 0
		for _, m := range c.messages {
			n += m
		}
		t.Logf("%d messages for %d batches to others", n, 2*callers)
		if n >= 2*callers {
			t.Error("none of them travelled together")
		}
		time.Sleep(5 * time.Second)
	})
}
