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
		// A node that is not live may be cut off for a moment only, so it counts as long as the hub would wait for it (notify.NT3).
		Peers: func() (peers []kv.NodeID) {
			since := n.clock.Now().Add(-notify.RetainFor)
			for _, e := range n.cluster.Nodes() {
				if l, ok := n.cluster.Record(e.Node); ok && e.Node != n.NodeID() && !l.Decommissioned && l.Live(since) {
					peers = append(peers, e.Node)
				}
			}
			return peers
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
