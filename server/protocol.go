package server

import (
	"context"
	"maps"

	"meridian/clock"
	"meridian/commit"
	fastpaxos "meridian/commit/fastpaxos/core"
	"meridian/commit/fastpaxos/replica"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/route"
	"meridian/txn"
)

// Lent has the parts of a node that the commit protocols of its registry use.
type Lent struct {
	Host   *host.Host
	Clock  *clock.Clock
	Router *route.Sender
	// NodeID is zero until the node has one.
	NodeID func() kv.NodeID
	// Ballots is the policy of the record at a key, as the node knows it (Node.Ballots).
	Ballots func(k keys.Key) fastpaxos.Policy
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
	// News, if not nil, is what tells how old the rows are that the node's replicas read.
	News *replica.News
}

// Registry has the protocols other than the leader's, each with the function that makes a node's instance.
type Registry map[kv.Protocol]func(Lent) Protocol

// protocols are the commit protocols of a node.
type protocols struct {
	ranges    rangeserver.Registry
	gateways  map[kv.Protocol]txn.Protocol
	finishers commit.Finishers
	news      *replica.News // nil: there is none
}

func (n *Node) makeProtocols() {
	n.protocols = protocols{ranges: rangeserver.Registry{}, gateways: map[kv.Protocol]txn.Protocol{}, finishers: commit.Finishers{kv.Leader: commit.Intents(n.router)}}
	lent := Lent{Host: n.host, Clock: n.clock, Router: n.router, NodeID: n.NodeID, Ballots: n.Ballots, Call: n.transport.Call,
		Handle: func(name string, f func(context.Context, kv.NodeID, []byte) ([]byte, error)) {
			n.transport.Handle(name, f)
		},
		Finishers: func() commit.Finishers { return n.protocols.finishers }}
	all := maps.Clone(n.o.Protocols)
	if all == nil {
		all = Registry{}
	}
	if all[kv.FastPaxos] == nil {
		all[kv.FastPaxos] = FastPaxos
	}
	for p, protocol := range all {
		made := protocol(lent)
		if made.News != nil {
			n.protocols.news = made.News
		}
		n.protocols.ranges[p], n.protocols.gateways[p], n.protocols.finishers[p] = made.Ranges, made.Gateway, made.Gateway
	}
}
