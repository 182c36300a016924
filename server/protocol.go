package server

import (
	"context"
	"maps"
	"slices"

	"meridian/clock"
	"meridian/commit"
	"meridian/commit/protocol"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/route"
	"meridian/sql/catalog"
	"meridian/txn"
)

// Lent has the parts of a node that the commit protocols of its registry use.
type Lent struct {
	Host   *host.Host
	Clock  *clock.Clock
	Router *route.Sender
	// NodeID is zero until the node has one.
	NodeID func() kv.NodeID
	// Table is the table of a key, in the node's snapshot of the catalogue; nil if the node has none. A node hears of a change as of any other of a descriptor: at
	// once, or when it asks, each second (lease.DefaultPollInterval). Nothing but memory is looked at.
	Table func(k keys.Key) *catalog.Table
	// Call asks a protocol's gateway at another node, Handle answers what that one is asked. The name is one of a method.
	Call   func(ctx context.Context, to kv.NodeID, name string, msg []byte) ([]byte, error)
	Handle func(name string, f func(ctx context.Context, from kv.NodeID, msg []byte) ([]byte, error))
	// Finishers are those of all of the node's protocols, for recoveries; they are set when requests are served.
	Finishers func() commit.Finishers
}

// Protocol is one node's instance of a commit protocol other than the leader's: its part at replicas and its part at gateways.
type Protocol struct {
	Ranges  rangeserver.Protocol
	Gateway txn.Protocol
	// Quorums, if not nil, is how many replicas of a range have to answer.
	Quorums func(*kv.RangeDescriptor) route.Quorums
	// Measure, if not nil, gives the instance's metrics.
	Measure func(gauge func(name, help string, value float64))
}

// instances are the protocols of the product, each with the function that makes a node's instance: with commit/protocol, all that a protocol is registered in. The default
// protocol is in every range (rangeserver), whatever protocol its rows have.
func instances() Registry { return Registry{kv.FastPaxos: FastPaxos} }

// Registry has the protocols other than the leader's, each with the function that makes a node's instance.
type Registry map[kv.Protocol]func(Lent) Protocol

// protocols are the commit protocols of a node.
type protocols struct {
	ranges    rangeserver.Registry
	gateways  map[kv.Protocol]txn.Protocol
	finishers commit.Finishers
	quorums   map[kv.Protocol]func(*kv.RangeDescriptor) route.Quorums
	measures  []func(gauge func(name, help string, value float64))
}

func (n *Node) makeProtocols() {
	n.protocols = protocols{ranges: rangeserver.Registry{}, gateways: map[kv.Protocol]txn.Protocol{}, finishers: commit.Finishers{protocol.Default: commit.Intents(n.router)},
		quorums: map[kv.Protocol]func(*kv.RangeDescriptor) route.Quorums{}}
	lent := Lent{Host: n.host, Clock: n.clock, Router: n.router, NodeID: n.NodeID, Table: n.tableOf, Call: n.transport.Call,
		Handle: func(name string, f func(context.Context, kv.NodeID, []byte) ([]byte, error)) {
			n.transport.Handle(name, f)
		},
		Finishers: func() commit.Finishers { return n.protocols.finishers }}
	all := instances()
	maps.Copy(all, n.o.Protocols)
	for _, p := range slices.Sorted(maps.Keys(all)) {
		made := all[p](lent)
		if made.Quorums != nil {
			n.protocols.quorums[p] = made.Quorums
		}
		if made.Measure != nil {
			n.protocols.measures = append(n.protocols.measures, made.Measure)
		}
		n.protocols.ranges[p], n.protocols.gateways[p], n.protocols.finishers[p] = made.Ranges, made.Gateway, made.Gateway
	}
}

// tableOf is Lent.Table.
func (n *Node) tableOf(k keys.Key) *catalog.Table {
	l := n.zones.leases.Load()
	if l == nil {
		return nil
	}
	id, _, err := keys.DecodeTableKey(k)
	if err != nil {
		return nil
	}
	if d := l.Snapshot().Descriptor(catalog.ID(id)); d != nil {
		return d.Table
	}
	return nil
}

// quorums are those of a range whose protocol needs the answers of several replicas; false: it needs none.
func (n *Node) quorums(d *kv.RangeDescriptor) (route.Quorums, bool) {
	if of := n.protocols.quorums[d.Protocol]; of != nil {
		return of(d), true
	}
	return route.Quorums{}, false
}
