package server

import (
	"context"
	"errors"

	"meridian/commit/fastpaxos"
	"meridian/keys"
	"meridian/kv"
	"meridian/route"
	"meridian/sql/catalog"
	"meridian/sql/rowcode"
	"meridian/transport"
)

// FastPaxos makes a node's instance of the protocol without a master (MDCC).
func FastPaxos(l Lent) Protocol {
	gateway := fastpaxos.NewClient(fastpaxos.ClientOptions{Sender: l.Router, Clock: l.Clock, Host: l.Host, NodeID: l.NodeID, Columns: rowColumns{}, Peers: fastPaxosGateways{l},
		Policy: func(k keys.Key) fastpaxos.Policy { return policyOf(l.Table(k)) }})
	news := fastpaxos.NewNews(fastpaxos.NewsOptions{Host: l.Host, NodeID: l.NodeID, Check: gateway.Check, Ask: func(ctx context.Context, to kv.NodeID, msg []byte) ([]byte, error) {
		b, err := l.Call(ctx, to, methodFastPaxosNews, msg)
		if status := (*transport.StatusError)(nil); errors.As(err, &status) && status.Code == transport.CodeNoMethod {
			err = fastpaxos.ErrNoNews
		}
		return b, err
	}})
	l.Handle(methodFastPaxos, gateway.Serve)
	l.Handle(methodFastPaxosNews, news.Serve)
	return Protocol{
		Ranges:  fastpaxos.New(fastpaxos.ProtocolOptions{Columns: rowColumns{}, Finishers: l.Finishers, News: news}),
		Gateway: gateway,
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

// methodFastPaxos carries what gateways of the protocol ask each other, methodFastPaxosNews what stores do.
const (
	methodFastPaxos     = "fastpaxos.ask"
	methodFastPaxosNews = "fastpaxos.news"
)

type fastPaxosGateways struct{ l Lent }

// Ask implements fastpaxos.Peers.
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
