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

func (h *laterHeader) fields(c *wire.Coder) {
	wire.Uint32(c, headerFor, &h.For)
	wire.Uint64(c, headerActing, &h.Acting)
}
