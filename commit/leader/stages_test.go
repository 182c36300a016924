package leader

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"meridian/commit"
	"meridian/keys"
	"meridian/kv"
)

// TestCommandsSayWhereTheyWrite: a command's WriteAt is above what was closed when its batch was tracked, as the batch's versions are,
// and not above them (I6). A replica that applies a command below what is closed stops.
func TestCommandsSayWhereTheyWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := newCluster(t, 1, 0)
		defer stop()
		x := c.begin()
		time.Sleep(time.Second)
		closed := c.reps[0].Closer().Close(c.clock.Now())
		if closed.Less(x.txn.WriteTimestamp) {
			t.Fatalf("closed up to %s only", closed)
		}
		r, err := c.ps[0].Send(context.Background(), &kv.Batch{Header: x.header(), Requests: []kv.Request{&kv.PutRequest{Key: keys.Key("k"), Value: []byte("v"), Seq: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		at := c.reps[0].wrote.Load()
		if at == nil || at.LessEq(closed) || r.Txn.WriteTimestamp.Less(*at) {
			t.Errorf("the command says %v; the intent is at %s, and closed is %s", at, r.Txn.WriteTimestamp, closed)
		}
	})
}

// TestHeldForgetsTheRefused: the intents of a command that was refused are not there, and nobody looks for them (leader.P11).
func TestHeldForgetsTheRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := newCluster(t, 1, 0)
		defer stop()
		ctx, p, k := context.Background(), c.ps[0], keys.Key("k")
		if _, err := c.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.GetRequest{Key: k}}}); err != nil {
			t.Fatal(err)
		}
		if p.held.Has(k) {
			t.Fatal("it does not know that there is nothing")
		}
		lost := func() { c.reps[0].Lease.Store(2) }
		c.reps[0].meanwhile.Store(&lost) // after the lease was checked
		x := c.begin()
		_, err := p.Send(ctx, &kv.Batch{Header: x.header(), Requests: []kv.Request{&kv.PutRequest{Key: k, Value: []byte("v"), Seq: 1}}})
		if !errors.As(err, new(*kv.NotLeaseholderError)) {
			t.Fatal(err)
		}
		if p.held.Has(k) {
			t.Error("the entry of a command that never applied is looked for")
		}
	})
}

// TestNotInPlace: an intent that is not where its transaction has committed is not resolved in place, also where the leaseholder takes it for
// one that is (leader.P12): the batch comes again once, and keeps others out.
func TestNotInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := newCluster(t, 1, 0)
		defer stop()
		ctx, p, k := context.Background(), c.ps[0], keys.Key("k")
		x := c.begin()
		if _, err := x.send(ctx, &kv.PutRequest{Key: k, Value: []byte("v"), Seq: 1}); err != nil {
			t.Fatal(err)
		}
		p.held.reset() // it does not know any more where the intent is
		committed := x.txn.TxnMeta
		committed.WriteTimestamp = committed.WriteTimestamp.Add(time.Millisecond)
		c.o.finished.add(&committed)
		evaluations := 0
		var count func()
		count = func() {
			if evaluations++; evaluations > 10 {
				panic("the batch comes again for ever")
			}
			c.reps[0].meanwhile.Store(&count)
		}
		c.reps[0].meanwhile.Store(&count)
		if _, err := p.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.ResolveIntentRequest{Key: k, Txn: committed, Status: kv.Committed}}}); err != nil {
			t.Fatal(err)
		}
		c.reps[0].meanwhile.Store(nil)
		if evaluations < 2 {
			t.Errorf("resolved by %d evaluation, so not in place at first", evaluations)
		}
		if left := c.entries(c.reps[0].Desc()); len(left) > 0 {
			t.Errorf("still there: %v", left)
		}
	})
}

// TestEvaluationsStartAnew: an evaluation lists its own effects only, and none of those before it.
func TestEvaluationsStartAnew(t *testing.T) {
	fx := &effects{call: &call{}}
	v := reflect.ValueOf(fx).Elem()
	kept := map[string]bool{"call": true, "lockedAt": true} // lockedAt is what apply answers
	fx.acquired, fx.records, fx.released, fx.marks = make([]acquired, 1), make([]*commit.Record, 1), make([]released, 1), make([]kv.TxnID, 1)
	fx.finalized, fx.drawing = &commit.Record{}, &drawing{}
	fx.reset()
	for i := range v.NumField() {
		f := v.Field(i)
		if name := v.Type().Field(i).Name; kept[name] {
			continue
		} else if f.Kind() == reflect.Slice && f.Len() > 0 || f.Kind() != reflect.Slice && !f.IsZero() {
			t.Errorf("%s is that of an earlier evaluation", name)
		}
	}
}
