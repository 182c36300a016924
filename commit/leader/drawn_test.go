package leader

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
)

// TestDraw draws numbers at random from one of two leaseholders that remember what they have set aside, and compares with
// a counter: without gaps until the lease moves, never twice, and from what others wrote on (leader.D1, leader.D2).
func TestDraw(t *testing.T) {
	ctx := context.Background()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			c, stop := newCluster(t, 1, 0)
			defer stop()
			dice := rand.New(rand.NewPCG(seed, 0))
			ps := []*Participant{c.ps[0], New(c.o, c.reps[0], nil)}
			defer ps[1].Close(nil)
			k := keys.Key("counter")
			step := int64(1 + dice.IntN(3))
			if dice.IntN(3) == 0 {
				step = -step
			}
			const ahead = 8
			at, last, moved := 0, int64(0), false
			turn, drawn := uint64(0), int64(0) // of the last draw
			send := func(r *kv.AddRequest) *kv.AddResponse {
				t.Helper()
				resp, err := ps[at].Send(ctx, &kv.Batch{Requests: []kv.Request{r}})
				if err != nil {
					t.Fatal(err)
				}
				return resp.Responses[0].(*kv.AddResponse)
			}
			draw := func(delta int64) int64 {
				t.Helper()
				r := send(&kv.AddRequest{Key: k, Delta: delta, Draw: true, Reserve: ahead * step})
				if delta != 0 {
					turn, drawn = r.Turn, delta
				}
				return r.Value
			}
			var back *kv.AddRequest // was answered before
			for i := range 200 {
				switch dice.IntN(12) {
				case 0:
					at, moved, turn = 1-at, true, 0
				case 1:
					last, moved, turn = int64(dice.IntN(1000)), false, 0
					if _, err := ps[at].Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.PutRequest{Key: k, Value: binary.BigEndian.AppendUint64(nil, uint64(last))}}}); err != nil {
						t.Fatal(err)
					}
				case 2:
					x := c.begin()
					last, moved, turn = int64(dice.IntN(1000)), false, 0
					if _, err := x.send(ctx, &kv.PutRequest{Key: k, Value: binary.BigEndian.AppendUint64(nil, uint64(last)), Seq: 1},
						&kv.EndTxnRequest{Anchor: k, Commit: true, OnePhase: true}); err != nil {
						t.Fatal(err)
					}
				case 4, 5:
					// Some of the last draw is given back: once, and only if it still is the last one.
					if back == nil || dice.IntN(2) == 0 {
						back = &kv.AddRequest{Key: k, Delta: -step * int64(dice.IntN(int(drawn/step)+1)), Draw: true, Back: true, Turn: turn}
					}
					if back.Turn == turn && turn != 0 && !moved {
						last += back.Delta
					}
					if got := send(back).Value; !moved && got != last {
						t.Fatalf("step %d: %d after numbers were given back, want %d", i, got, last)
					}
					turn, drawn = 0, 0
				case 3:
					if got := draw(0); !moved && got != last {
						t.Fatalf("step %d: %d was drawn last, not %d", i, last, got)
					}
				default:
					n := int64(1+dice.IntN(4)) * step
					got := draw(n)
					lost := (got - last - n) / step
					if lost < 0 || lost > 2*ahead || !moved && lost != 0 {
						t.Fatalf("step %d: after %d, %d steps of %d, came %d", i, last, n/step, step, got)
					}
					last, moved = got, false
				}
			}
		})
	}
}

// TestDrawAhead counts the rounds of consensus, has many draw at once, and looks at the ends of the integers.
func TestDrawAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := newCluster(t, 1, time.Millisecond)
		defer stop()
		ctx := context.Background()
		k := keys.Key("counter")
		draw := func(r kv.AddRequest) (int64, error) {
			r.Key, r.Draw = k, true
			resp, err := c.Send(ctx, &kv.Batch{Requests: []kv.Request{&r}})
			if err != nil {
				return 0, err
			}
			return resp.Responses[0].(*kv.AddResponse).Value, nil
		}
		before := c.proposals.Load()
		var mu sync.Mutex
		var all []int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				last := int64(0)
				for range 40 {
					v, err := draw(kv.AddRequest{Delta: 1, Reserve: 32})
					if err != nil || v <= last {
						t.Errorf("%d after %d, %v", v, last, err)
					}
					last = v
					mu.Lock()
					all = append(all, v)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		slices.Sort(all)
		for i, v := range all {
			if v != int64(i+1) {
				t.Fatalf("number %d is %d", i+1, v)
			}
		}
		if n := c.proposals.Load() - before; n > 10 {
			t.Errorf("%d rounds of consensus for 320 numbers", n)
		}
		for _, end := range []int64{math.MaxInt64, math.MinInt64} {
			one := int64(1)
			if end < 0 {
				one = -1
			}
			if _, err := c.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.PutRequest{Key: k, Value: binary.BigEndian.AppendUint64(nil, uint64(end-3*one))}}}); err != nil {
				t.Fatal(err)
			}
			for i := range int64(3) {
				if v, err := draw(kv.AddRequest{Delta: one, Reserve: 32 * one}); err != nil || v != end-(2-i)*one {
					t.Fatal(v, err)
				}
			}
			var over *kv.AddOverflowError
			if v, err := draw(kv.AddRequest{Delta: one, Reserve: 32 * one}); !errors.As(err, &over) {
				t.Fatal(v, err)
			}
		}
	})
}
