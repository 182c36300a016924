package server

import (
	"context"

	"meridian/commit/fastpaxos"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/rowcode"
)

// fastPaxos makes a node's instance of the protocol without a master (MDCC).
func fastPaxos(l Lent) Protocol {
	gateway := fastpaxos.NewClient(fastpaxos.ClientOptions{Sender: l.Router, Clock: l.Clock, Host: l.Host, NodeID: l.NodeID, Columns: rowColumns{}, Peers: fastPaxosGateways{l}})
	l.Handle(methodFastPaxos, gateway.Serve)
	return Protocol{Ranges: fastpaxos.New(fastpaxos.ProtocolOptions{Columns: rowColumns{}, Finishers: l.Finishers}), Gateway: gateway}
}

// methodFastPaxos carries what gateways of the protocol ask each other.
const methodFastPaxos = "fastpaxos.ask"

type fastPaxosGateways struct{ l Lent }

// Ask implements fastpaxos.Peers.
func (p fastPaxosGateways) Ask(ctx context.Context, to kv.NodeID, msg []byte) ([]byte, error) {
	return p.l.Call(ctx, to, methodFastPaxos, msg)
}

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
