package leaderkv

import (
	"context"
	"fmt"
	"sync"

	"meridian/clock"
	"meridian/commit"
	"meridian/commit/protocol"
	"meridian/commit/register"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/replica"
	"meridian/replica/lease"
	"meridian/route"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
	"meridian/txn"
)

// The second protocol: ranges whose rows are registers (commit/register), with the real acceptors and the real gateways. The writes of an
// acceptor are durable immediately. The range's own keys are served by its leader participant, as ever.

// place is a replica.
type place struct {
	rng  kv.RangeID
	node kv.NodeID
}

// acceptor is a replica's part.
type acceptor struct {
	c  *Cluster
	mu sync.Mutex // guards the fields below; nothing is taken after it
	a  *register.Acceptor
	// desc is the range as the replica knows it, which has not heard of a later generation yet.
	desc   *kv.RangeDescriptor
	sealed bool
	floor  clock.Timestamp
}

// RegisterNodes is the number of the first of the two further nodes of ranges that are, or may become, ranges of registers.
const RegisterNodes = 50

// registers gives a range the replicas that registers need.
func (c *Cluster) registers(d *kv.RangeDescriptor) {
	for i := range kv.NodeID(2) {
		n := RegisterNodes + i
		d.Replicas = append(d.Replicas, kv.ReplicaDescriptor{Node: n, Store: kv.StoreID(n), Replica: d.NextReplica})
		d.NextReplica++
	}
	for _, r := range d.Replicas {
		c.acceptors[place{d.ID, r.Node}] = &acceptor{c: c, desc: d, a: register.NewAcceptor(d.Generation, clock.Timestamp{}, nil, 0)}
	}
}

// client is the register protocol of a gateway, or of a node.
func (c *Cluster) client(router *route.Sender, h *host.Host, ck *clock.Clock, node kv.NodeID) txn.Protocol {
	return register.NewClient(register.ClientOptions{Sender: router, Clock: ck, Host: h, NodeID: func() kv.NodeID { return node }})
}

// serve does what a store does: it gives rows to the participant of the range's protocol, and refuses those of another.
func (c *Cluster) serve(ctx context.Context, at *rng, node kv.NodeID, b *kv.Batch) (*kv.BatchResponse, error) {
	d := at.Desc()
	for _, r := range b.Requests {
		if kv.OfRows(r) && d.Protocol != b.Protocol {
			return nil, &kv.ProtocolError{Range: d.ID, Protocol: d.Protocol, Desc: d.Clone()}
		}
	}
	if !protocol.Leased(b.Protocol) {
		return c.acceptors[place{d.ID, node}].serve(b)
	}
	if home := d.Replicas[0]; node != home.Node {
		return nil, &kv.NotLeaseholderError{Range: d.ID, Leaseholder: home, Desc: d.Clone()}
	}
	return at.p.Send(ctx, b)
}

func (x *acceptor) serve(b *kv.Batch) (*kv.BatchResponse, error) {
	q, err := register.DecodeRequest(b.Requests[0].(*kv.ProtocolRequest).Body)
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.sealed || x.desc.Generation != b.Generation {
		return nil, &kv.GenerationError{Range: x.desc.ID, Desc: x.desc.Clone(), Sealed: x.sealed}
	}
	if !x.a.Knows(q.Key) {
		g, err := register.Base(x.c.engine, q.Key)
		if err != nil {
			return nil, err
		}
		x.a.Load(q.Key, g)
	}
	x.a.Step(clock.Timestamp{}, register.Message{Request: &q})
	fx := x.a.Effects()
	if len(fx.Persist) > 0 {
		x.a.Durable(fx.Ticket)
	}
	for _, m := range append(fx.Send, fx.After...) {
		m.Reply.Floor = x.floor
		return &kv.BatchResponse{Responses: []kv.Response{&kv.ProtocolResponse{Body: m.Reply.Append(nil)}}}, nil
	}
	return nil, &kv.InternalError{Message: "leaderkv: an acceptor did not answer"}
}

// Become gives a range that may be one of registers another protocol, as rangeserver does it, with the register protocol's own
// Fold and Settle. The range's last replica hears of a generation of registers, but not of its end. A range whose change fails begins
// another generation.
func (c *Cluster) Become(ctx context.Context, i int, to kv.Protocol) error {
	r := c.ranges[i]
	d := r.Desc()
	next := d.Clone()
	next.Protocol, next.Generation = to, d.Generation+1
	switch {
	case d.Protocol == to:
		return nil
	case protocol.Leased(to):
		f := &rangeserver.Folding{Desc: d, Generation: d.Generation, Base: c.engine, Sender: r.router, Now: r.clock.Now(), Write: func(rows []replica.Row) error { return c.fold(r, rows) }, Durable: func() error { return nil }}
		for _, at := range d.Replicas[:2] {
			x := c.acceptors[place{d.ID, at.Node}]
			x.mu.Lock()
			x.sealed = true
			report := rangeserver.Report{From: at, Now: f.Now}
			for _, e := range x.a.Report() {
				report.Pieces = append(report.Pieces, e.Append(nil))
			}
			x.mu.Unlock()
			f.Reports = append(f.Reports, report)
		}
		proto := register.New(register.ProtocolOptions{Finishers: func() commit.Finishers { return r.finishers }})
		if err := proto.Fold(ctx, f); err != nil {
			return err
		}
		f.Reports, f.Next = nil, to
		if err := proto.Settle(ctx, f); err != nil {
			next.Protocol = d.Protocol
			c.open(r, next) // it serves again, as it was
			return err
		}
		r.floor.Store(new(f.Now.Forward(r.clock.Now())))
		r.SetDesc(next)
		r.p.LeaseChanged(lease.Lease{Sequence: r.Lease.Add(1), Start: r.clock.Now()}, true)
	default:
		back, err := r.p.Leave(ctx)
		if err != nil {
			return err
		}
		defer back()
		c.open(r, next)
	}
	return nil
}

// open begins a generation of a range of registers.
func (c *Cluster) open(r *rng, d *kv.RangeDescriptor) {
	floor := r.clock.Now()
	r.SetDesc(d)
	r.p.DescriptorChanged(d)
	for _, at := range d.Replicas {
		x := c.acceptors[place{d.ID, at.Node}]
		x.mu.Lock()
		x.a, x.desc, x.sealed, x.floor = register.NewAcceptor(d.Generation, floor, nil, 0), d, false, floor
		x.mu.Unlock()
	}
}

// fold writes rows into a range's base.
func (c *Cluster) fold(r *rng, rows []replica.Row) error {
	r.Applying.Lock()
	defer r.Applying.Unlock()
	b := c.engine.NewIndexedBatch()
	defer b.Close()
	w := mvcc.NewWriter(b, b)
	defer w.Close()
	for i := range rows {
		var err error
		switch row := &rows[i]; {
		case !row.Timestamp.IsZero():
			err = w.Fold(row.Key, row.Value, row.Timestamp)
		case row.Value == nil:
			b.Delete(row.Key)
		default:
			b.Put(row.Key, row.Value)
		}
		if err != nil {
			return err
		}
	}
	s := r.Stats()
	s.Add(w.Stats)
	r.SetStats(s)
	return b.Commit(false)
}

// Generation has the floor that registers have left (leader.P22).
func (r *rng) Generation() (g replica.Generation) {
	if f := r.floor.Load(); f != nil {
		g.Floor = *f
	}
	return g
}

// Clean reports provisional writes that a majority of replicas still have, and transaction records that are still there.
func (c *Cluster) Clean() error {
	left := map[string]int{}
	for at, x := range c.acceptors {
		if protocol.Leased(c.ranges[at.rng-1].Desc().Protocol) {
			continue
		}
		x.mu.Lock()
		for _, e := range x.a.Report() {
			for _, d := range e.Decrees {
				if d.Outcome == register.Written {
					left[fmt.Sprintf("%s of transaction %s at %s", e.Key, d.Txn, d.At)]++
				}
			}
		}
		x.mu.Unlock()
	}
	for what, n := range left {
		if n > 1 { // one may have heard of the write after it was resolved
			return fmt.Errorf("%d replicas have a provisional write of %s", n, what)
		}
	}
	for _, r := range c.ranges {
		d := r.Desc()
		span := keys.RangeLocalSpan(d.Start, d.End)
		it, err := c.engine.NewIter(engine.IterOptions{Lower: span.Start, Upper: span.End})
		if err != nil {
			return err
		}
		for ok := it.First(); ok; ok = it.Next() {
			k, _ := it.Key()
			if _, id, err := keys.DecodeTxnKey(k); err == nil {
				it.Close()
				return fmt.Errorf("range %d has the record of transaction %s", d.ID, id)
			}
		}
		if err := it.Close(); err != nil {
			return err
		}
	}
	return nil
}
