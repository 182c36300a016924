package server

import (
	"context"
	"errors"

	fastpaxos "meridian/commit/fastpaxos/core"
	"meridian/commit/fastpaxos/gateway"
	"meridian/commit/fastpaxos/replica"
	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/rowcode"
	"meridian/transport"
)

// FastPaxos makes a node's instance of the protocol without a master (MDCC).
func FastPaxos(l Lent) Protocol {
	client := gateway.NewClient(gateway.ClientOptions{Sender: l.Router, Clock: l.Clock, Host: l.Host, NodeID: l.NodeID, Columns: rowColumns{}, Peers: fastPaxosGateways{l},
		Policy: l.Ballots})
	news := replica.NewNews(replica.NewsOptions{Host: l.Host, NodeID: l.NodeID, Check: client.Check, Ask: func(ctx context.Context, to kv.NodeID, msg []byte) ([]byte, error) {
		b, err := l.Call(ctx, to, methodFastPaxosNews, msg)
		if status := (*transport.StatusError)(nil); errors.As(err, &status) && status.Code == transport.CodeNoMethod {
			err = replica.ErrNoNews
		}
		return b, err
	}})
	l.Handle(methodFastPaxos, client.Serve)
	l.Handle(methodFastPaxosNews, news.Serve)
	return Protocol{Ranges: replica.New(replica.ProtocolOptions{Columns: rowColumns{}, Finishers: l.Finishers, News: news}), Gateway: client, News: news}
}

// A replica finds the gateway of its node among the node's Finishers.
var (
	_ replica.Ender  = (*gateway.Client)(nil)
	_ replica.Mender = (*gateway.Client)(nil)
)

// methodFastPaxos carries what gateways of the protocol ask each other, methodFastPaxosNews what stores do.
const (
	methodFastPaxos     = "fastpaxos.ask"
	methodFastPaxosNews = "fastpaxos.news"
)

type fastPaxosGateways struct{ l Lent }

// Ask implements gateway.Peers.
func (p fastPaxosGateways) Ask(ctx context.Context, to kv.NodeID, msg []byte) ([]byte, error) {
	return p.l.Call(ctx, to, methodFastPaxos, msg)
}

// Ballots is the policy of the record at a key, by the descriptor of its table in the node's snapshot of the catalogue; what a table does without if the node has no
// such descriptor. A node hears of a change as of any other of a descriptor: at once, or when it asks, each second (lease.DefaultPollInterval). It looks at nothing but memory.
func (n *Node) Ballots(k keys.Key) fastpaxos.Policy {
	var t *catalog.Table
	if l := n.zones.leases.Load(); l != nil {
		if id, _, err := keys.DecodeTableKey(k); err == nil {
			if d := l.Snapshot().Descriptor(catalog.ID(id)); d != nil {
				t = d.Table
			}
		}
	}
	b, gamma := t.BallotPolicy()
	return fastpaxos.Policy{Ballots: ballots[b], Gamma: gamma}
}

// ballots has the protocol's words for a table's.
var ballots = [...]fastpaxos.Ballots{catalog.FastBallots: fastpaxos.FastBallots, catalog.ClassicBallots: fastpaxos.ClassicBallots,
	catalog.GammaBallots: fastpaxos.GammaBallots, catalog.LearnedBallots: fastpaxos.LearnedBallots}

// rowColumns does the arithmetic of commuting updates on the values of tables' entries.
type rowColumns struct{}

// Column implements fastpaxos.Columns.
func (rowColumns) Column(row []byte, column uint32) (int64, bool) {
	return rowcode.Int(row, catalog.ColumnID(column))
}

// Add implements fastpaxos.Columns.
func (rowColumns) Add(row []byte, deltas []fastpaxos.Delta) ([]byte, error) {
	addends := make([]rowcode.Addend, len(deltas))
	for i, d := range deltas {
		addends[i] = rowcode.Addend{Column: catalog.ColumnID(d.Column), Amount: d.Amount}
	}
	return rowcode.AddInts(row, addends)
}
