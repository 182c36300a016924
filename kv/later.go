//go:build !nextversion

package kv

import "meridian/wire"

// laterHeader is what the next version adds to Header.
type laterHeader struct{}

func (*laterHeader) append(b []byte) []byte { return b }

// read reads the present field if it is one of these.
func (*laterHeader) read(*wire.Reader) bool { return false }
