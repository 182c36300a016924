package server

import (
	"context"

	"meridian/kv"
	"meridian/sql/notify"
	"meridian/transport"
)

// methodNotify carries notifications to the sessions of another node.
const methodNotify = "sql.notify"

// newHub makes the node's part of LISTEN and NOTIFY.
func (n *Node) newHub() *notify.Hub {
	hub := notify.New(notify.Options{
		Host: n.host,
		Peers: func() (live []kv.NodeID) {
			for _, e := range n.cluster.Nodes() {
				if e.Node != n.NodeID() && n.cluster.Live(e.Node) {
					live = append(live, e.Node)
				}
			}
			return live
		},
		Send: func(ctx context.Context, to kv.NodeID, message []byte) error {
			_, err := n.transport.CallClass(ctx, transport.ClassDefault, to, methodNotify, message)
			return err
		},
	})
	n.transport.Handle(methodNotify, func(_ context.Context, from kv.NodeID, message []byte) ([]byte, error) {
		return nil, hub.Receive(from, message)
	})
	return hub
}
