package gateway

import (
	"context"
	"errors"
	"time"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/route"
)

// Sender takes batches to ranges, and to all replicas of some ranges, and knows which range has a key; route.Sender does.
type Sender interface {
	Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error)
	All(ctx context.Context, f *route.Fan) error
	Range(ctx context.Context, k keys.Key, fresh bool) (kv.RangeInfo, error)
}

// ClientOptions are what a Client is made of.
type ClientOptions struct {
	Sender Sender
	Clock  *clock.Clock
	Host   *host.Host
	// NodeID is asked for when the first write is made.
	NodeID func() kv.NodeID
	// Columns are needed by the masters of records that have commuting updates; without them these are rejected.
	Columns core.Columns
	// Peers, if not nil, reaches the gateways of other nodes.
	Peers Peers
	// Policy, if not nil, is the policy of the record at a key, as far as this node knows; nil is FastBallots for all. It may be called from any goroutine, and neither
	// waits nor allocates.
	Policy func(k keys.Key) core.Policy
}

// Peers takes what a gateway asks another one to that, and brings the answer: Client.Serve of the node.
type Peers interface {
	Ask(ctx context.Context, to kv.NodeID, msg []byte) ([]byte, error)
}

// Pacer knows how long nodes take to answer; route.Sender does.
type Pacer interface {
	// Answers is how long a node's answer may take, and whether the node is silent: it has not answered for longer than that.
	Answers(n kv.NodeID) (within time.Duration, silent bool)
}

// Regions knows where nodes are; route.Sender does.
type Regions interface {
	// Region is empty if it is not known.
	Region(n kv.NodeID) string
}

// Leaders knows which node has the lease of a range; route.Sender does.
type Leaders interface {
	// Leaseholder asks the range if it does not know, or if fresh is set.
	Leaseholder(ctx context.Context, k keys.Key, fresh bool) (kv.NodeID, error)
}

type noColumns struct{}

func (noColumns) Column([]byte, uint32) (int64, bool) { return 0, false }

func (noColumns) Add([]byte, []core.Delta) ([]byte, error) {
	return nil, errors.New("fastpaxos: this gateway does not know columns")
}
