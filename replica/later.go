//go:build !nextversion

package replica

import "meridian/wire"

// laterCommand is what the next version adds to Command, and laterState what it adds to appliedState.
type (
	laterCommand struct{}
	laterState   struct{}
)

func (*laterCommand) append(b []byte) []byte { return b }
func (*laterState) append(b []byte) []byte   { return b }

// read reads the present field if it is one of these.
func (*laterCommand) read(*wire.Reader) bool { return false }
func (*laterState) read(*wire.Reader) bool   { return false }

// propose adds what a later version says with a command, and carry does what a command says that is applied.
func (*laterCommand) propose(*Replica)     {}
func (*laterCommand) carry(*Replica) error { return nil }
