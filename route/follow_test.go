package route_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/route"
	"meridian/transport"
)

// following is the network of a gateway to nodes each of which has a sender of its own.
type following struct {
	c      *fakeCluster
	follow func(recipe, key, value []byte) (keys.Key, bool)
	// between is asked for calls from one of the nodes to another.
	between func(ctx context.Context) error
	asked   int // such calls
	// lock is that of the rows, and badly is set by a request for a row that is not locked so, would wait, or has no anchor.
	lock   kv.LockStrength
	badly  bool
	anchor keys.Key
}

func (f *following) CallClass(ctx context.Context, c transport.Class, to kv.NodeID, method string, req []byte) ([]byte, error) {
	s := route.New(route.Options{Host: f.c.h, Clock: f.c.clock, NodeID: func() kv.NodeID { return to }, Local: store{f.c, to}, Remote: among{f},
		Members: members{f.c}, Follow: f.follow})
	return s.Serve()(ctx, 9, bytes.Clone(req))
}

// among is the network between the nodes.
type among struct{ f *following }

func (a among) CallClass(ctx context.Context, c transport.Class, to kv.NodeID, method string, req []byte) ([]byte, error) {
	if b, err := kv.DecodeBatch(req); err == nil {
		if get, ok := b.Requests[0].(*kv.GetRequest); ok {
			a.f.asked++
			if get.Lock != a.f.lock || get.Lock != kv.NoLock && (b.WaitPolicy != kv.NoWait || len(b.Txn.Anchor) == 0) {
				a.f.badly = true
			}
			if a.f.between != nil {
				if err := a.f.between(ctx); err != nil {
					return nil, err
				}
			}
		}
	}
	return remote{a.f.c}.CallClass(ctx, c, to, method, req)
}

// TestFollow: rows come with the entries that lead to them, from other ranges and other nodes too. If they can't be read at once, the answer comes without them
// (route.RO7).
func TestFollow(t *testing.T) {
	ctx := context.Background()
	lead := func(recipe, k, value []byte) (keys.Key, bool) { // an entry's value is the row's number
		return append(keys.Key(recipe), value...), string(value) != "none"
	}
	for _, x := range []struct {
		name    string
		change  func(f *following)
		txn     bool
		rows    int
		between bool // whether the node of the entries asks that of the rows
	}{
		{"as usual", func(*following) {}, true, 2, true},
		{"without a transaction", func(*following) {}, false, 0, false},
		{"a node that can't follow", func(f *following) { f.follow = nil }, true, 0, false},
		{"the rows' node is down", func(f *following) {
			f.between = func(context.Context) error { return &transport.UnreachableError{Err: errors.New("down")} }
		}, true, 0, true},
		{"the rows' node is slow", func(f *following) {
			f.between = func(ctx context.Context) error { return f.c.h.Clock.Sleep(ctx, time.Minute) }
		}, true, 0, true},
		{"there are no rows", func(f *following) { delete(f.c.data, string(key(70))); delete(f.c.data, string(key(75))) }, true, 0, true},
		{"rows to be locked, with an anchor", func(f *following) { f.lock, f.anchor = kv.Exclusive, key(4) }, true, 2, true},
		{"rows to be locked, without an anchor", func(f *following) { f.lock = kv.Exclusive }, true, 0, false},
		{"a row to be locked, without an anchor", func(f *following) { f.lock = kv.Shared; delete(f.c.data, string(key(2))) }, true, 1, true},
		{"the rows are too large", func(f *following) { f.c.data[string(key(70))] = make([]byte, kv.AnswerBytes) }, true, 0, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, 1)
				defer h.Group.Stop()
				c := newCluster(h, 5)
				c.split(key(50))
				c.ranges[1].lease = 2
				for _, i := range []int{1, 2, 3, 70, 75} {
					c.data[string(key(i))] = []byte("row")
				}
				c.data[string(key(1))], c.data[string(key(2))], c.data[string(key(3))] = []byte("070"), []byte("075"), []byte("none")
				f := &following{c: c, follow: lead}
				s := route.New(route.Options{Host: h, Clock: c.clock, NodeID: func() kv.NodeID { return 9 }, Remote: f, Members: members{c}})
				x.change(f)
				b := &kv.Batch{Header: kv.Header{Follow: keys.TableKey(uint32(9)), FollowLock: f.lock}}
				for i := range 5 {
					b.Requests = append(b.Requests, &kv.GetRequest{Key: key(i)})
				}
				if x.txn {
					b.Txn = &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{1}, Anchor: f.anchor}}
				}
				begun := time.Now()
				r, err := s.Send(ctx, b)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begun); took > 2*time.Second {
					t.Errorf("the answer took %s", took)
				}
				if v := r.Responses[2].(*kv.GetResponse).Value; v != nil && string(v) != "075" {
					t.Errorf("an entry is %q", v)
				}
				n := 0
				if r.Followed != nil {
					n = len(r.Followed.Rows)
					if r.Followed.Lock != f.lock {
						t.Errorf("the rows are locked for %v", r.Followed.Lock)
					}
					for _, row := range r.Followed.Rows {
						if string(row.Value) != "row" || !row.Key.Equal(key(70)) && !row.Key.Equal(key(75)) {
							t.Errorf("%q came", row.Key)
						}
					}
				}
				if f.badly {
					t.Error("a row was asked for in another way")
				}
				if n != x.rows || (f.asked > 0) != x.between {
					t.Errorf("%d rows came, after %d calls between the nodes", n, f.asked)
				}
			})
		})
	}
}
