package route_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"meridian/clock"
	"meridian/cluster"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/route"
	"meridian/sim"
	"meridian/transport"
)

// fakeCluster is nodes that hold ranges which split, merge and move under the gateway's feet. All ranges keep their
// data in one map, so that what a batch reads does not depend on where it was served, only that it was.
type fakeCluster struct {
	h     *host.Host
	clock *clock.Clock
	n     int // nodes

	mu   sync.Mutex
	data map[string][]byte // includes the range index
	// provisional are intents in the index, which inconsistent reads tell and consistent ones resolve.
	provisional map[string][]byte
	// hidden are more of them, which inconsistent reads do not tell, because they tell only a few.
	hidden  map[string][]byte
	settled int          // consistent reads of the index
	ranges  []*fakeRange // in key order
	nextID  kv.RangeID
	down    map[kv.NodeID]bool
	slow    time.Duration
	// lose is asked before and after a remote call; true loses request or answer.
	lose   func(answer bool) bool
	served int // batches served
	// messages are those to other nodes, by method.
	messages map[string]int
	seen     map[string]int
}

type fakeRange struct {
	desc  kv.RangeDescriptor
	lease kv.NodeID
}

func newCluster(h *host.Host, nodes int) *fakeCluster {
	c := &fakeCluster{
		h: h, clock: clock.New(h.Clock, clock.DefaultMaxOffset), n: nodes,
		data: map[string][]byte{}, down: map[kv.NodeID]bool{}, seen: map[string]int{}, messages: map[string]int{}, nextID: 2,
	}
	r := &fakeRange{desc: kv.RangeDescriptor{ID: 1, Start: keys.Min, End: keys.Max}, lease: 1}
	c.ranges = []*fakeRange{r}
	c.place(r, 1, 2, 3)
	return c
}

// delay makes remote calls take d from now on. Calls of earlier batches may still run: see Sender.Each.
func (c *fakeCluster) delay(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slow = d
}

// change changes the cluster while lookups may go on in the background.
func (c *fakeCluster) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// lost reports whether a request, or its answer, is lost on the way.
func (c *fakeCluster) lost(answer bool) (lost bool) {
	c.change(func() { lost = c.lose != nil && c.lose(answer) })
	return lost
}

// place gives a range replicas on nodes, and updates the index.
func (c *fakeCluster) place(r *fakeRange, nodes ...kv.NodeID) {
	r.desc.Replicas = nil
	for _, n := range nodes {
		r.desc.NextReplica++
		r.desc.Replicas = append(r.desc.Replicas, kv.ReplicaDescriptor{Node: n, Store: kv.StoreID(n), Replica: r.desc.NextReplica})
	}
	r.desc.Generation++
	if !slices.Contains(nodes, r.lease) {
		r.lease = nodes[0]
	}
	c.index(r)
}

func (c *fakeCluster) index(r *fakeRange) {
	for _, k := range keys.MetaKeys(r.desc.Start, r.desc.End) {
		c.data[string(k)] = r.desc.Append(nil)
	}
}

func (c *fakeCluster) at(k keys.Key) int {
	return slices.IndexFunc(c.ranges, func(r *fakeRange) bool { return r.desc.Contains(k) })
}

func (c *fakeCluster) split(at keys.Key) {
	i := c.at(at)
	left := c.ranges[i]
	if left.desc.Start.Equal(at) || at.Less(keys.TablePrefix) {
		return
	}
	right := &fakeRange{desc: *left.desc.Clone(), lease: left.lease}
	right.desc.ID, right.desc.Start = c.nextID, at
	c.nextID++
	left.desc.End = at
	left.desc.Generation++
	right.desc.Generation++
	c.ranges = slices.Insert(c.ranges, i+1, right)
	c.index(left)
	c.index(right)
}

// merge makes range i absorb its right neighbour, wherever the latter's replicas were.
func (c *fakeCluster) merge(i int) {
	if i+1 >= len(c.ranges) {
		return
	}
	left, right := c.ranges[i], c.ranges[i+1]
	for _, k := range keys.MetaKeys(left.desc.Start, left.desc.End) {
		if len(k) > 0 && k[0] == keys.Meta2Prefix[0] {
			delete(c.data, string(k))
		}
	}
	left.desc.End = right.desc.End
	left.desc.Generation = max(left.desc.Generation, right.desc.Generation) + 1
	c.ranges = slices.Delete(c.ranges, i+1, i+2)
	c.index(left)
}

// shake changes something.
func (c *fakeCluster) shake(d *rand.Rand, key func() keys.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.ranges[d.IntN(len(c.ranges))]
	switch d.IntN(5) {
	case 0:
		c.split(key())
	case 1:
		c.merge(d.IntN(len(c.ranges)))
	case 2:
		r.lease = r.desc.Replicas[d.IntN(len(r.desc.Replicas))].Node
	case 3:
		if r.desc.ID != 1 {
			nodes := d.Perm(c.n)[:3]
			c.place(r, kv.NodeID(nodes[0]+1), kv.NodeID(nodes[1]+1), kv.NodeID(nodes[2]+1))
		}
	case 4:
		// A node goes away, or comes back.
		clear(c.down)
		if d.IntN(2) == 0 {
			n := kv.NodeID(d.IntN(c.n) + 1)
			c.down[n] = true
		}
	}
	// Nodes that are down lose their leases.
	for _, r := range c.ranges {
		for _, x := range r.desc.Replicas {
			if c.down[r.lease] && !c.down[x.Node] {
				r.lease = x.Node
			}
		}
	}
}

// store is one node's ranges.
type store struct {
	c  *fakeCluster
	id kv.NodeID
}

func (s store) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.ranges, func(r *fakeRange) bool { return r.desc.ID == b.RangeID })
	if i < 0 {
		return nil, &kv.RangeNotFoundError{Range: b.RangeID}
	}
	r := c.ranges[i]
	self, ok := r.desc.Replica(s.id)
	if !ok {
		return nil, &kv.RangeNotFoundError{Range: b.RangeID}
	}
	if b.Protocol != r.desc.Protocol && slices.ContainsFunc(b.Requests, kv.OfRows) {
		return nil, &kv.ProtocolError{Range: r.desc.ID, Protocol: r.desc.Protocol, Desc: r.desc.Clone()}
	}
	if b.Protocol != kv.Leader && b.Generation != r.desc.Generation {
		return nil, &kv.GenerationError{Range: r.desc.ID, Desc: r.desc.Clone()}
	}
	if b.Protocol == kv.Leader && r.lease != s.id && b.Consistency == kv.Consistent {
		e := &kv.NotLeaseholderError{Range: b.RangeID, Desc: r.desc.Clone()}
		if c.h.Dice.Int64N(3) > 0 {
			e.Leaseholder, _ = r.desc.Replica(r.lease)
		}
		return nil, e
	}
	for _, q := range b.Requests {
		sp := q.Span()
		if !r.desc.Contains(keys.Addr(sp.Start)) || !sp.Point() && r.desc.End.Less(sp.End) {
			e := &kv.RangeMismatchError{Span: sp}
			if c.h.Dice.Int64N(3) > 0 {
				e.Infos = append(e.Infos, kv.RangeInfo{Desc: *r.desc.Clone(), Leaseholder: self})
				if i+1 < len(c.ranges) {
					e.Infos = append(e.Infos, kv.RangeInfo{Desc: *c.ranges[i+1].desc.Clone()})
				}
			}
			return nil, e
		}
	}
	c.served++
	out := &kv.BatchResponse{Now: c.clock.Now()}
	left := b.MaxKeys
	for _, q := range b.Requests {
		c.seen[methodName(q)]++
		switch q := q.(type) {
		case *kv.GetRequest:
			out.Responses = append(out.Responses, &kv.GetResponse{Value: bytes.Clone(c.data[string(q.Key)])})
		case *kv.ProtocolRequest:
			out.Responses = append(out.Responses, &kv.ProtocolResponse{Body: []byte{byte(s.id)}})
		case *kv.PutRequest:
			c.data[string(q.Key)] = bytes.Clone(q.Value)
			out.Responses = append(out.Responses, &kv.EmptyResponse{})
		case *kv.CPutRequest:
			if len(c.data[string(q.Key)]) > 0 {
				return nil, &kv.ConditionFailedError{Key: q.Key}
			}
			c.data[string(q.Key)] = bytes.Clone(q.Value)
			out.Responses = append(out.Responses, &kv.EmptyResponse{})
		case *kv.AddRequest:
			old := c.data[string(q.Key)]
			c.data[string(q.Key)] = append(old[:len(old):len(old)], 'x')
			out.Responses = append(out.Responses, &kv.AddResponse{Value: int64(len(old)) + 1})
		case *kv.DeleteRangeRequest:
			n := int64(0)
			maps.DeleteFunc(c.data, func(k string, _ []byte) bool {
				in := q.Span().Contains(keys.Key(k))
				if in {
					n++
				}
				return in
			})
			out.Responses = append(out.Responses, &kv.DeleteRangeResponse{Deleted: n})
		case *kv.ScanRequest:
			resp := &kv.ScanResponse{}
			if keys.IsMeta(q.Start) && b.Consistency == kv.Consistent {
				c.settled++
				maps.Copy(c.data, c.provisional)
				maps.Copy(c.data, c.hidden)
				c.provisional, c.hidden = nil, nil
			}
			for _, k := range slices.Sorted(maps.Keys(c.provisional)) {
				if q.Span().Contains(keys.Key(k)) {
					resp.Provisional = append(resp.Provisional, kv.KeyValue{Key: keys.Key(k), Value: c.provisional[k]})
				}
			}
			ks := slices.Sorted(maps.Keys(c.data))
			if q.Reverse {
				slices.Reverse(ks)
			}
			for _, k := range ks {
				if !q.Span().Contains(keys.Key(k)) {
					continue
				}
				if b.MaxKeys > 0 && left == 0 {
					resp.Resume = &keys.Span{Start: keys.Key(k), End: q.End}
					if q.Reverse {
						resp.Resume = &keys.Span{Start: q.Start, End: keys.Key(k).Next()}
					}
					break
				}
				left--
				resp.Rows = append(resp.Rows, kv.KeyValue{Key: keys.Key(k), Value: bytes.Clone(c.data[k])})
			}
			out.Responses = append(out.Responses, resp)
		case *kv.RangeInfoRequest:
			out.Responses = append(out.Responses, &kv.RangeInfoResponse{Desc: *r.desc.Clone(), Leaseholder: r.lease})
		case *kv.EndTxnRequest:
			out.Responses = append(out.Responses, &kv.EndTxnResponse{OnePhase: q.OnePhase, Staged: len(q.InFlight) > 0})
		default:
			return nil, &kv.InternalError{Message: "fake: " + methodName(q)}
		}
	}
	return out, nil
}

func methodName(r kv.Request) string {
	return map[kv.Method]string{kv.MethodGet: "get", kv.MethodScan: "scan", kv.MethodPut: "put", kv.MethodAdd: "add",
		kv.MethodDeleteRange: "delete-range", kv.MethodRangeInfo: "range-info", kv.MethodEndTxn: "end-txn"}[r.Method()]
}

// remote is the network of one gateway.
type remote struct{ c *fakeCluster }

var errLost = errors.New("connection reset")

func (r remote) CallClass(ctx context.Context, _ transport.Class, to kv.NodeID, method string, req []byte) ([]byte, error) {
	c := r.c
	c.mu.Lock()
	down, slow := c.down[to], c.slow
	c.messages[method]++
	c.mu.Unlock()
	if down || method != route.Method && method != route.MethodAll {
		return nil, &transport.UnreachableError{Node: to, Err: errLost}
	}
	if slow > 0 {
		if err := c.h.Clock.Sleep(ctx, slow); err != nil {
			return nil, err
		}
	}
	if c.lost(false) {
		return nil, &transport.UnreachableError{Node: to, Sent: true, Err: errLost}
	}
	serve := route.Serve
	if method == route.MethodAll {
		serve = route.ServeAll
	}
	reply, err := serve(route.Options{Local: store{c, to}, Clock: c.clock})(ctx, 0, bytes.Clone(req))
	if c.lost(true) {
		return nil, &transport.UnreachableError{Node: to, Sent: true, Err: errLost}
	}
	return reply, err
}

type members struct{ c *fakeCluster }

func (m members) Nodes() (out []cluster.Entry) {
	for i := range m.c.n {
		out = append(out, cluster.Entry{Node: kv.NodeID(i + 1)})
	}
	return out
}

func (m members) Latency(n kv.NodeID) (time.Duration, bool) {
	return time.Duration(n) * time.Millisecond, n != 3
}

// gateway makes a Sender on node self; zero holds no ranges.
func (c *fakeCluster) gateway(self kv.NodeID) *route.Sender {
	o := route.Options{Host: c.h, Clock: c.clock, NodeID: func() kv.NodeID { return self }, Remote: remote{c}, Members: members{c}}
	if self != 0 {
		o.Local = store{c, self}
	}
	return route.New(o)
}

func newHost(t testing.TB, seed uint64) *host.Host {
	h := sim.NewHost(context.Background(), sim.MachineOptions{Name: "a", Network: sim.NewNetwork(sim.NetworkOptions{Seed: seed}), Seed: seed})
	t.Cleanup(h.Group.Stop)
	return h
}
