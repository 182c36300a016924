package rangeserver_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/replica"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// The smallest protocol without a log: each key is a register of a value with a timestamp, and of two the later one counts. A
// client writes to a quorum, and reads from one. There are no leaseholder and no transactions.

const toyProtocol = kv.FirstForeign

type toy struct {
	g *rangeserver.Range

	mu       sync.Mutex
	sealed   []uint64
	opened   []uint64
	received []string
	closed   error
}

func (c *cluster) useToy() {
	c.protocols = rangeserver.Registry{toyProtocol: {Name: "toy", Fold: foldToys}}
}

// toyRegistry is the cluster's as one node has it.
func (n *node) registry() rangeserver.Registry {
	if n.c.protocols == nil || n.ignorant {
		return nil
	}
	p := n.c.protocols[toyProtocol]
	p.New = func(g *rangeserver.Range) rangeserver.Participant {
		x := &toy{g: g}
		n.toys.Store(g.Desc().ID, x)
		return x
	}
	p.Fold = steps(p.Fold, func(ctx context.Context, _ *rangeserver.Folding, step string) error {
		if f := n.c.folding.Load(); f != nil {
			if err := (*f)(step); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	return rangeserver.Registry{toyProtocol: p, kv.FastPaxos: p}
}

// steps has a fold call at on its way.
func steps(fold func(context.Context, *rangeserver.Folding) error, at func(context.Context, *rangeserver.Folding, string) error) func(context.Context, *rangeserver.Folding) error {
	return func(ctx context.Context, f *rangeserver.Folding) error {
		if err := at(ctx, f, "reported"); err != nil {
			return err
		}
		write := f.Write
		f.Write = func(rows []replica.Row) error {
			if err := write(rows); err != nil {
				return err
			}
			return at(ctx, f, "folding")
		}
		if err := fold(ctx, f); err != nil {
			return err
		}
		return at(ctx, f, "all folded")
	}
}

func toyValue(at clock.Timestamp, v []byte) []byte { return append(at.Append(nil), v...) }

func splitToy(b []byte) (at clock.Timestamp, v []byte) {
	at, v, err := clock.Decode(b)
	if err != nil {
		panic(err)
	}
	return at, v
}

// toySeen is the name of up to when a replica has served ahead of its clock.
const toySeen = "seen"

// serves promises that nothing will be written at or below a timestamp.
func (x *toy) serves(generation uint64, at clock.Timestamp) error {
	return x.g.Write(generation, func(d *rangeserver.Delta) { d.Put([]byte(toySeen), at.Append(nil)) })
}

// Send serves "f" with a timestamp, which is "r" at that time, "r", which gives the key's value and timestamp here, and "w" with what is to be kept unless something later is.
func (x *toy) Send(_ context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	q := b.Requests[0].(*kv.ProtocolRequest)
	if q.Body[0] == 'f' {
		at, _ := splitToy(q.Body[1:])
		if err := x.serves(b.Generation, at); err != nil {
			return nil, err
		}
	}
	have, err := x.get(b.Generation, q.Key)
	if err != nil {
		return nil, err
	}
	if q.Body[0] == 'w' {
		mine, _ := splitToy(have)
		if at, _ := splitToy(q.Body[1:]); mine.Less(at) {
			if err := x.g.Write(b.Generation, func(d *rangeserver.Delta) { d.Put(q.Key, q.Body[1:]) }); err != nil {
				return nil, err
			}
		}
		have = nil
	}
	return &kv.BatchResponse{Responses: []kv.Response{&kv.ProtocolResponse{Body: have}}}, nil
}

func (x *toy) get(generation uint64, k keys.Key) ([]byte, error) {
	have, err := engineGet(x.g.Engine(), x.g.DeltaKey(generation, k))
	if err != nil {
		return nil, err
	}
	r := mvcc.NewReader(x.g.Engine())
	defer r.Close()
	v, err := r.Get(k, &mvcc.ReadOptions{Timestamp: clock.MaxTimestamp})
	if err != nil {
		return nil, err
	}
	if have != nil {
		if at, _ := splitToy(have); v.Timestamp.Less(at) {
			return bytes.Clone(have), nil
		}
	}
	return toyValue(v.Timestamp, v.Bytes), nil
}

func engineGet(rd engine.Reader, k keys.Key) (v []byte, err error) {
	it, err := rd.NewIter(engine.IterOptions{Lower: k, Upper: k.Next()})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	if it.First() {
		if v, err = it.Value(); v == nil {
			v = []byte{}
		}
		v = append([]byte{}, v...)
	}
	return v, err
}

func (x *toy) Receive(from kv.ReplicaDescriptor, body []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.received = append(x.received, fmt.Sprintf("%d:%s", from.Replica, body))
}

func (x *toy) Sealed(generation uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sealed = append(x.sealed, generation)
}

func (x *toy) Opened(d *kv.RangeDescriptor) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.opened = append(x.opened, d.Generation)
}

func (x *toy) Close(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = err
}

func (x *toy) Report(_ context.Context, generation uint64, send func([]byte) error) (served clock.Timestamp, err error) {
	span := x.g.DeltaSpan(generation)
	it, err := x.g.Engine().NewIter(engine.IterOptions{Lower: span.Start, Upper: span.End})
	if err != nil {
		return served, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		k, _ := it.Key()
		v, err := it.Value()
		if err != nil {
			return served, err
		}
		name := k[len(span.Start):]
		if string(name) == toySeen {
			served, _ = splitToy(v)
			continue
		}
		piece := append(binary.AppendUvarint(nil, uint64(len(name))), name...)
		if err := send(append(piece, v...)); err != nil {
			return served, err
		}
	}
	return served, it.Error()
}

// foldToys makes a version of the latest value of each key.
func foldToys(_ context.Context, f *rangeserver.Folding) error {
	latest := map[string][]byte{}
	for _, r := range f.Reports {
		for _, p := range r.Pieces {
			n, w := binary.Uvarint(p)
			name, v := string(p[w:w+int(n)]), p[w+int(n):]
			at, _ := splitToy(v)
			if old := latest[name]; old != nil {
				if was, _ := splitToy(old); at.LessEq(was) {
					continue
				}
			}
			latest[name] = v
		}
	}
	for k, v := range latest { // one by one, so that a fold takes several commands
		at, value := splitToy(v)
		if err := f.Write([]replica.Row{{Key: keys.Key(k), Value: value, Timestamp: at}}); err != nil {
			return err
		}
	}
	return nil
}

// toyAt is a node's participant of a range.
func (n *node) toyAt(id kv.RangeID) *toy {
	v, ok := n.toys.Load(id)
	if !ok {
		return nil
	}
	return v.(*toy)
}

// toyQuorum sends a request to all voters of the range of a key and returns the latest of the values that a quorum answers with. It
// tries again in each generation that begins meanwhile.
func (c *cluster) toyQuorum(ctx context.Context, k keys.Key, body []byte) (at clock.Timestamp, v []byte, err error) {
	err = errNobody
	for ; ; time.Sleep(20 * time.Millisecond) {
		if ctx.Err() != nil {
			return at, nil, fmt.Errorf("%v (last: %w)", ctx.Err(), err)
		}
		var desc *kv.RangeDescriptor
		for _, n := range c.nodes {
			if n.isUp() {
				if info, ok := n.store.Lookup(k); ok && (desc == nil || desc.Generation < info.Desc.Generation) {
					desc = info.Desc.Clone()
				}
			}
		}
		if desc == nil {
			continue
		}
		at, v = clock.Timestamp{}, nil
		protocol := toyProtocol
		if desc.Protocol == kv.FastPaxos { // which is the toy's other number (registry)
			protocol = desc.Protocol
		}
		heard := map[kv.ReplicaID]bool{}
		for _, r := range desc.Replicas {
			n := c.nodes[r.Node-1]
			if !n.isUp() || !r.Type.Votes() {
				continue
			}
			n.inside.Add(1)
			var resp *kv.BatchResponse
			one := error(errNobody)
			if n.isUp() {
				resp, one = n.store.Send(ctx, &kv.Batch{Header: kv.Header{RangeID: desc.ID, Protocol: protocol, Generation: desc.Generation},
					Requests: []kv.Request{&kv.ProtocolRequest{Key: k, Body: body}}})
			}
			n.inside.Add(-1)
			if one != nil {
				err = one
				var other *kv.ProtocolError
				if errors.As(err, &other) {
					return at, nil, err
				}
				continue
			}
			heard[r.Replica] = true
			if b := resp.Responses[0].(*kv.ProtocolResponse).Body; b != nil {
				if t, x := splitToy(b); at.Less(t) {
					at, v = t, x
				}
			}
		}
		if desc.Quorum(func(r *kv.ReplicaDescriptor) bool { return heard[r.Replica] }) {
			return at, v, nil
		}
	}
}

// toyPut and toyGet are a client's.
func (c *cluster) toyPut(k, v string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	at, _, err := c.toyQuorum(ctx, tkey(k), []byte("r"))
	if err != nil {
		return err
	}
	at = at.Forward(clock.Timestamp{Wall: time.Now().UnixNano()}).Next()
	_, _, err = c.toyQuorum(ctx, tkey(k), append([]byte("w"), toyValue(at, []byte(v))...))
	return err
}

func (c *cluster) toyGet(k string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	at, v, err := c.toyQuorum(ctx, tkey(k), []byte("r"))
	if err != nil {
		return "", err
	}
	_, _, err = c.toyQuorum(ctx, tkey(k), append([]byte("w"), toyValue(at, v)...))
	return string(v), err
}

// wantToy expects a value.
func (c *cluster) wantToy(t *testing.T, k, want string) {
	t.Helper()
	if got, err := c.toyGet(k); err != nil || got != want {
		t.Errorf("%s is %q, %v; want %q", k, got, err, want)
	}
}
