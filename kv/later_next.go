//go:build nextversion

package kv

import "meridian/wire"

// laterHeader is what the next version adds to Header (version.NextField).
type laterHeader struct {
	// For is the node that is to serve the batch; another one answers RangeNotFoundError. Zero: any. A node that did not look at it would serve what
	// was not meant for it, so the number is odd.
	For NodeID
	// Acting is the version by which the sender acts, as a number. It is for statistics only, so the number is even.
	Acting uint64
}

// The numbers of features of releases begin elsewhere.
const (
	headerFor    = 1001
	headerActing = 1002
)

func (h *laterHeader) append(b []byte) []byte {
	return wire.Uint(wire.Uint(b, headerFor, uint64(h.For)), headerActing, h.Acting)
}

// read reads the present field if it is one of these.
func (h *laterHeader) read(r *wire.Reader) bool {
	switch r.Field() {
	case headerFor:
		h.For = NodeID(r.Uint32())
	case headerActing:
		h.Acting = r.Uint()
	default:
		return false
	}
	return true
}
