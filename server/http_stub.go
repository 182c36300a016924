package server
import "context"
import "meridian/kv"
type httpLayer struct{}
func (h *httpLayer) addr() string { return "" }
func (h *httpLayer) close() {}
func (n *Node) listenHTTP() error { return nil }
func (n *Node) replicasOn(ctx context.Context, node kv.NodeID) (int, error) { return 0, nil }
