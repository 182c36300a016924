package leader

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica/lease"
)

// TestLocksAheadOfTheClock: an externally consistent transaction is told at once that its locks are held until a time ahead of the clock (leader.P30), by the check and by the commit of one
// range. The next one to lock the key reads above that time, or gets the lock when the clock has passed it; so it is at the next leaseholder, which knows nothing but a time up to which the one before has served. Nobody writes
// the key at or below it.
func TestLocksAheadOfTheClock(t *testing.T) {
	for _, onePhase := range []bool{false, true} {
		for _, moved := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				c, stop := newCluster(t, 1, 0)
				defer stop()
				ctx := context.Background()
				const wait = 300 * time.Millisecond
				begin := func() *testTxn {
					x := c.begin()
					x.txn.Born = x.txn.MinTimestamp
					return x
				}
				lock := func(x *testTxn, forward bool, policy kv.WaitPolicy) (clock.Timestamp, clock.Timestamp, error) {
					h := x.header()
					h.Hold, h.CanForwardRead, h.WaitPolicy = true, forward, policy
					r, err := c.Send(ctx, &kv.Batch{Header: h, Requests: []kv.Request{&kv.GetRequest{Key: keys.Key("a"), Lock: kv.Exclusive}}})
					if err != nil {
						return clock.Timestamp{}, clock.Timestamp{}, err
					}
					c.ps[0].locks.Release(keys.Key("a"), x.txn.ID)
					return r.LockedAt, r.Txn.ReadTimestamp, nil
				}
				x := begin()
				at, _, err := lock(x, true, kv.Block)
				if err != nil {
					t.Fatal(err)
				}
				begun := time.Now()
				ahead := c.clock.Now().Add(wait)
				x.txn.ReadTimestamp, x.txn.WriteTimestamp, x.txn.UncertaintyLimit = ahead, ahead, ahead
				b := &kv.Batch{Header: x.header(), Requests: []kv.Request{&kv.CheckLocksRequest{Start: keys.Key("a"), From: at},
					&kv.CheckLocksRequest{Start: keys.Key("c"), From: at}}}
				if onePhase {
					b.Requests = []kv.Request{&kv.PutRequest{Key: keys.Key("b"), Value: []byte("1"), Seq: 1},
						&kv.EndTxnRequest{Anchor: keys.Key("b"), Commit: true, OnePhase: true,
							Held: []kv.HeldLocks{{Span: keys.Span{Start: keys.Key("a")}, From: at}, {Span: keys.Span{Start: keys.Key("c")}, From: at}}}}
				}
				r, err := c.Send(ctx, b)
				if err != nil {
					t.Fatal(err)
				}
				if onePhase {
					ahead = r.Txn.WriteTimestamp
				}
				if d := time.Since(begun); d > 0 {
					t.Errorf("answered after %v", d)
				}
				if moved { // transferred, without its locks
					handed := c.ps[0].HandOver()
					c.o.vouched.latest.Store(0)
					c.ps[0].LeaseChanged(lease.Lease{Sequence: c.reps[0].Lease.Add(2), Start: c.clock.Now()}, true)
					c.ps[0].TakeOver(handed)
				}

				w := begin()
				w.txn.WriteTimestamp = at
				w.txn.ReadTimestamp = at
				put, err := c.Send(ctx, &kv.Batch{Header: w.header(), Requests: []kv.Request{&kv.PutRequest{Key: keys.Key("c"), Value: []byte("2"), Seq: 1}}})
				if err != nil || put.Txn.WriteTimestamp.LessEq(ahead) {
					t.Errorf("%v was promised, and then there was a write: %v %v", ahead, put, err)
				}
				if _, read, err := lock(begin(), true, kv.Block); err != nil || read.LessEq(ahead) || time.Since(begun) > 0 {
					t.Errorf("a transaction that may be moved reads at %v, after %v: %v; the other one's time is %v", read, time.Since(begun), err, ahead)
				}
				if _, _, err := lock(begin(), false, kv.NoWait); !errors.As(err, new(*kv.LockNotAvailableError)) {
					t.Errorf("NOWAIT: %v", err)
				}
				y := begin()
				if locked, _, err := lock(y, false, kv.Block); err != nil || locked.LessEq(ahead) || time.Since(begun) < wait {
					t.Errorf("a transaction that may not be moved is given the lock at %v, after %v: %v", locked, time.Since(begun), err)
				}

				// A check of locks that were lost is refused, whichever time it is for.
				c.ps[0].locks.Lose(c.clock.Now())
				if _, err := c.Send(ctx, &kv.Batch{Header: x.header(), Requests: []kv.Request{&kv.CheckLocksRequest{Start: keys.Key("a"), From: at}}}); !errors.As(err, new(*kv.LocksLostError)) {
					t.Errorf("after they were lost: %v", err)
				}
			})
		}
	}
}

// TestVouchedModel compares with a list of all that was noted: no time that lies ahead is forgotten, also if there are more than are remembered exactly, and as long as there are not, none is invented.
func TestVouchedModel(t *testing.T) {
	for _, n := range []int{40, 3 * vouchedPoints} {
		dice := rand.New(rand.NewPCG(1, uint64(n)))
		var v vouched
		type note struct {
			span keys.Span
			at   clock.Timestamp
		}
		var notes []note
		key := func() keys.Key { return binary.BigEndian.AppendUint32(nil, uint32(dice.IntN(2*n))) }
		now := clock.Timestamp{Wall: 1}
		until := func(k keys.Key) (at clock.Timestamp) {
			for _, x := range notes {
				if (x.span.Point() && x.span.Start.Equal(k) || !x.span.Point() && x.span.Contains(k)) && !x.at.Less(now) {
					at = at.Forward(x.at)
				}
			}
			return at
		}
		for i := range n {
			s := keys.Span{Start: key()}
			if dice.IntN(4) == 0 {
				s.End = append(keys.Key(nil), s.Start...)
				s.End[3] |= 0xff
				s.End = s.End.Next()
			}
			at := now.Add(time.Duration(dice.IntN(2 * n)))
			v.note(s, at, now)
			notes = append(notes, note{s, at})
			if n < vouchedSpans || dice.IntN(4) == 0 && n < 1000 {
				now.Wall++
			}
			if i%(1+n/200) != 0 {
				continue
			}
			k := key()
			if dice.IntN(2) == 0 {
				k = notes[dice.IntN(len(notes))].span.Start
			}
			if got, want := v.Until(k, now), until(k); got.Less(want) || n < vouchedSpans && got != want {
				t.Fatalf("of %d: %v, want %v", len(notes), got, want)
			}
		}
		if got := v.Until(key(), now.Add(time.Hour)); !got.IsZero() {
			t.Errorf("%v, an hour later", got)
		}
	}
}
