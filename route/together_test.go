package route_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"meridian/commit"
	"meridian/keys"
	"meridian/kv"
	"meridian/route"
)

// starting is a store that can begin batches. It notes what happens to them.
type starting struct {
	store
	events []string
	busy   keys.Key // batches that write here can't be begun
	fail   error    // what a batch in flight that writes below 050 lands with, once
	nosync bool     // the last one's sync is not seen
}

type stubFlight struct {
	s       *starting
	b       *kv.Batch
	lazy    bool
	covered bool
	err     error
}

func (s *starting) Start(ctx context.Context, b *kv.Batch, lazy bool) (commit.Flight, bool) {
	k := b.Requests[0].Span().Start
	if k.Equal(s.busy) {
		return nil, false
	}
	f := &stubFlight{s: s, b: b, lazy: lazy}
	if k.Less(key(50)) {
		f.err, s.fail = s.fail, nil
	}
	s.events = append(s.events, fmt.Sprintf("start r%d lazy=%v", b.RangeID, lazy))
	return f, true
}

func (f *stubFlight) Wait(ctx context.Context) (*kv.BatchResponse, error) {
	f.s.events = append(f.s.events, fmt.Sprintf("wait r%d covered=%v", f.b.RangeID, f.covered))
	if f.err != nil {
		return nil, f.err
	}
	return f.s.store.Send(ctx, f.b)
}

func (f *stubFlight) Synced() bool { return !f.s.nosync || f.lazy }
func (f *stubFlight) Cover()       { f.covered = true }

// TestTogether: writes to ranges that are all here are begun one after the other, and waited for with one sync.
func TestTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 1)
		defer h.Group.Stop()
		c := newCluster(h, 1)
		c.place(c.ranges[0], 1)
		c.split(key(0))
		c.split(key(50))
		local := &starting{store: store{c, 1}}
		s := route.New(route.Options{Host: h, Clock: c.clock, NodeID: func() kv.NodeID { return 1 }, Local: local})
		id := byte(0)
		send := func(reqs ...kv.Request) error {
			id++
			_, err := s.Send(context.Background(), &kv.Batch{Header: kv.Header{Txn: &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{id}}}}, Requests: reqs})
			return err
		}
		put := func(n int) kv.Request { return &kv.PutRequest{Key: key(n), Value: []byte("v")} }
		if err := send(put(1)); err != nil { // the router learns of the ranges
			t.Fatal(err)
		}
		if err := send(put(60)); err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			name string
			busy keys.Key
			fail error
			lost bool
			want []string // begins with these events, of which the ranges' numbers are cut
		}{
			{"one sync", nil, nil, false, []string{"start lazy=true", "start lazy=false", "wait covered=false", "wait covered=true"}},
			{"a sync that failed covers nothing", nil, nil, true, []string{"start lazy=true", "start lazy=false", "wait covered=false", "wait covered=false"}},
			{"the second is in somebody's way", key(60), nil, false, []string{"start lazy=true", "wait covered=false"}},
			{"the first is in somebody's way", key(1), nil, false, nil},
			{"not executed: sent again", nil, &kv.NotLeaseholderError{}, false, []string{"start lazy=true", "start lazy=false", "wait covered=false", "wait covered=true"}},
			{"lost: sent again", nil, &kv.AmbiguousError{}, false, []string{"start lazy=true", "start lazy=false", "wait covered=false", "wait covered=true"}},
		} {
			local.events, local.busy, local.fail, local.nosync = nil, tc.busy, tc.fail, tc.lost
			if err := send(put(1), put(60)); err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
			var got []string
			for _, e := range local.events {
				f := strings.Fields(e)
				got = append(got, f[0]+" "+f[2])
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%s: %q", tc.name, got)
			}
		}
		local.fail = &kv.TxnAbortedError{}
		var aborted *kv.TxnAbortedError
		if err := send(put(1), put(60)); !errors.As(err, &aborted) {
			t.Errorf("a part that failed for good: %v", err)
		}
		local.events = nil
		if err := send(&kv.GetRequest{Key: key(1)}, &kv.GetRequest{Key: key(60)}); err != nil || local.events != nil {
			t.Errorf("reads are not begun: %v, %q", err, local.events)
		}
	})
}
