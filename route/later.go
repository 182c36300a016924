//go:build !nextversion

package route

import "meridian/kv"

// address adds what a later version says of a batch that leaves for another node.
func (s *Sender) address(*kv.Batch, kv.NodeID) {}

// misled says why a batch that arrived is not to be served here.
func (o *Options) misled(*kv.Batch) error { return nil }
