//go:build !nextversion

package kv

import "meridian/wire"

// laterHeader is what the next version adds to Header.
type laterHeader struct{}

func (*laterHeader) fields(*wire.Coder) {}
