package rangeserver_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
)

// TestChangesOfOtherRanges: a change of a range that waits for a split of it goes to the part that has its key, and is not made if its sender
// says which range it means, since that is none of the two.
func TestChangesOfOtherRanges(t *testing.T) {
	for _, x := range []struct {
		name string
		ask  func(of keys.Span) kv.Request
	}{
		{"lease", func(of keys.Span) kv.Request {
			return &kv.AdminTransferLeaseRequest{Key: tkey("k4"), Target: 2, Of: of}
		}},
		{"replicas", func(of keys.Span) kv.Request {
			return &kv.AdminChangeReplicasRequest{Key: tkey("k4"), Targets: targets(1, 2, 3), Of: of}
		}},
		{"merge", func(of keys.Span) kv.Request { return &kv.AdminMergeRequest{Key: tkey("k4"), Of: of} }},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ns := toyStacks(t)
				defer stopAll(ns)
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
				defer cancel()
				store := ns[0].store.Load()
				send := func(q kv.Request) error {
					_, err := ns[2].router.Send(ctx, &kv.Batch{Requests: []kv.Request{q}})
					return err
				}
				check(t, send(&kv.AdminSplitRequest{Key: tkey("k9")}))
				check(t, ns[1].toyPut("k4", "v"))
				whole := store.Replica(2).Desc().Span()
				begun, asked := ns[0].hold("r2 reported")
				split, meant, other := make(chan error, 1), make(chan error, 1), make(chan error, 1)
				go func() { split <- send(&kv.AdminSplitRequest{Key: tkey("k3")}) }()
				<-begun
				go func() { meant <- send(x.ask(whole)) }()
				go func() { time.Sleep(time.Second); other <- send(x.ask(keys.Span{})) }()
				time.Sleep(2 * time.Second)
				close(asked)
				check(t, <-split)
				if err := <-meant; err == nil || !strings.Contains(err.Error(), "by now") {
					t.Errorf("a range was changed that nobody has meant: %v", err)
				}
				check(t, <-other)
				left := store.Replica(2)
				if d := left.Desc(); !d.End.Equal(tkey("k3")) {
					t.Errorf("the left side is %v", d)
				}
				if l, _ := left.Lease(); l.Holder.Node != 1 {
					t.Errorf("the left side's lease: %v", l)
				}
				ns[2].wantToy(t, "k4", "v")
			})
		})
	}
}

// TestMergedAlready: a merge that is asked for again, because its answer was lost, takes in no other neighbour.
func TestMergedAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := toyStacks(t)
		defer stopAll(ns)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		send := func(q kv.Request) error {
			_, err := ns[2].router.Send(ctx, &kv.Batch{Requests: []kv.Request{q}})
			return err
		}
		for _, k := range []string{"k3", "k5"} {
			check(t, send(&kv.AdminSplitRequest{Key: tkey(k)}))
		}
		left := ns[0].store.Load().Replica(2)
		of := left.Desc().Span()
		for range 2 {
			check(t, send(&kv.AdminMergeRequest{Key: tkey("k1"), Of: of}))
			if d := left.Desc(); !d.End.Equal(tkey("k5")) {
				t.Fatalf("merged to %v", d)
			}
		}
		if err := send(&kv.AdminMergeRequest{Key: tkey("k1"), Of: keys.Span{Start: of.Start, End: tkey("k7")}}); err == nil {
			t.Errorf("a range was merged that nobody has meant: %v", left.Desc())
		}
	})
}
