package route_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"meridian/kv"
	"meridian/route"
	"meridian/transport"
)

// present is a network of nodes whose range closes the future. Node 2 has the lease; other replicas close the present after lag.
type present struct {
	c     *fakeCluster
	lag   time.Duration
	down  bool // the replica of node 1 is not reached
	asked []kv.NodeID
}

func (p *present) CallClass(ctx context.Context, class transport.Class, to kv.NodeID, method string, req []byte) ([]byte, error) {
	if p.down && to == 1 {
		return nil, &transport.UnreachableError{Node: to, Err: errLost}
	}
	return route.Serve(route.Options{Local: presentStore{p, to}, Clock: p.c.clock})(ctx, 0, req)
}

type presentStore struct {
	p  *present
	id kv.NodeID
}

func (s presentStore) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	if _, ok := b.Requests[0].(*kv.GetRequest); !ok {
		return store{s.p.c, s.id}.Send(ctx, b)
	}
	s.p.asked = append(s.p.asked, s.id)
	if s.id != 2 && b.MayWait == 0 { // a read for the leaseholder
		desc := s.p.c.ranges[0].desc
		e := &kv.NotLeaseholderError{Range: b.RangeID, Desc: desc.Clone()}
		e.Leaseholder, _ = desc.Replica(2)
		return nil, e
	}
	if s.id != 2 && s.p.lag > b.MayWait {
		return nil, &kv.NotClosedError{Range: b.RangeID}
	}
	return &kv.BatchResponse{Now: s.p.c.clock.Now(), Leads: s.id == 2, Responses: []kv.Response{&kv.GetResponse{}}}, nil
}

// away is members of which the leaseholder is 100 ms away.
type away struct{ members }

func (m away) Latency(n kv.NodeID) (time.Duration, bool) {
	if n == 2 {
		return 100 * time.Millisecond, true
	}
	return time.Duration(n) * time.Millisecond, true
}

// TestPresent: the nearest replica serves a read of the present, and may let it wait for as long as the leaseholder is farther; the leaseholder serves it otherwise (route.RO6).
func TestPresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 1)
		defer h.Group.Stop()
		c := newCluster(h, 3)
		c.ranges[0].lease = 2
		p := &present{c: c}
		s := route.New(route.Options{Host: h, Clock: c.clock, NodeID: func() kv.NodeID { return 0 }, Remote: p, Members: away{members{c}}})
		read := func(what string, want ...kv.NodeID) {
			t.Helper()
			p.asked = nil
			b := &kv.Batch{Requests: []kv.Request{&kv.GetRequest{Key: key(1)}}}
			b.Consistency, b.Txn = kv.Present, &kv.Txn{ReadTimestamp: c.clock.Now()}
			if _, err := s.Send(context.Background(), b); err != nil || !slices.Equal(p.asked, want) {
				t.Errorf("%s: asked %v, not %v: %v", what, p.asked, want, err)
			}
		}
		if _, err := s.Send(context.Background(), &kv.Batch{Requests: []kv.Request{&kv.GetRequest{Key: key(1)}}}); err != nil {
			t.Fatal(err)
		}
		// The first answer of the leaseholder told that the range closes the future.
		read("a replica that has closed the present", 1)
		p.lag = 99 * time.Millisecond
		read("a wait that is shorter than the way", 1)
		p.lag = 100 * time.Millisecond
		read("a wait that is longer than the way", 1, 2)
		p.lag = 0
		read("soon after", 2)
		time.Sleep(100 * time.Millisecond)
		read("after a pause", 1)
		p.down = true
		read("a replica that is not reached", 2)
	})
}
