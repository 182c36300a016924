//go:build nextversion

package route

import (
	"meridian/kv"
	"meridian/version"
)

// address says in a batch which node is to serve it. Here the feature is asked for, and nowhere else.
func (s *Sender) address(b *kv.Batch, to kv.NodeID) {
	b.For, b.Acting = 0, 0 // a batch that arrived may have gone on from here
	if v := s.o.Version; v.Active(version.NextField) {
		b.For, b.Acting = to, v.Acting().Uint64()
		v.Wrote(version.NextField)
	}
}

// misled says why a batch that arrived is not to be served here: it was meant for another node. It does not ask whether the feature is
// active, because the sender may have heard so first.
func (o *Options) misled(b *kv.Batch) error {
	switch {
	case b.For == 0:
	case !o.Version.Knows(version.NextField):
		return &kv.InternalError{Message: "route: a batch came from a node of a later version"}
	case o.NodeID == nil || b.For == o.NodeID():
		o.Version.Read(version.NextField)
	default:
		return &kv.RangeNotFoundError{Range: b.RangeID}
	}
	return nil
}
