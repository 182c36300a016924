package server

import (
	"context"
	"errors"

	fastpaxos "meridian/commit/fastpaxos/core"
	"meridian/commit/fastpaxos/gateway"
	"meridian/commit/fastpaxos/replica"
	"meridian/keys"
	"meridian/kv"
	"meridian/route"
	"meridian/sql/catalog"
	"meridian/sql/rowcode"
	"meridian/transport"
)

// FastPaxos makes a node's instance of the protocol without a master (MDCC).
func FastPaxos(l Lent) Protocol {
	client := gateway.NewClient(gateway.ClientOptions{Sender: l.Router, Clock: l.Clock, Host: l.Host, NodeID: l.NodeID, Columns: rowColumns{}, Peers: fastPaxosGateways{l},
		Policy: func(k keys.Key) fastpaxos.Policy { return policyOf(l.Table(k)) }})
	news := replica.NewNews(replica.NewsOptions{Host: l.Host, NodeID: l.NodeID, Check: client.Check, Ask: func(ctx context.Context, to kv.NodeID, msg []byte) ([]byte, error) {
		b, err := l.Call(ctx, to, methodFastPaxosNews, msg)
		if status := (*transport.StatusError)(nil); errors.As(err, &status) && status.Code == transport.CodeNoMethod {
			err = replica.ErrNoNews
		}
		return b, err
	}})
	l.Handle(methodFastPaxos, client.Serve)
	l.Handle(methodFastPaxosNews, news.Serve)
	return Protocol{
		Ranges:  replica.New(replica.ProtocolOptions{Columns: rowColumns{}, Finishers: l.Finishers, News: news}),
		Gateway: client,
		Quorums: func(d *kv.RangeDescriptor) route.Quorums {
			q := fastpaxos.QuorumsIn(d)
			return route.Quorums{Replicas: q.Replicas, Fast: q.Fast, Classic: q.Classic, Reading: q.Reading()}
		},
		Measure: func(gauge func(name, help string, value float64)) {
			gauge("fastpaxos_age_seconds", "How long ago the replicas here of ranges of the protocol fast_paxos have heard from quorums, of the range where that is longest; 0 without such ranges.", news.Age().Seconds())
			gauge("fastpaxos_rows_lacking", "Rows of which replicas here have not heard something that others have.", float64(news.Lacking()))
		},
	}
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

// Ballots is the policy of the record at a key, as the node knows it.
func (n *Node) Ballots(k keys.Key) fastpaxos.Policy { return policyOf(n.tableOf(k)) }

// policyOf is the policy of a table's records; that of a table that says none if the node does not know the table.
func policyOf(t *catalog.Table) fastpaxos.Policy {
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
