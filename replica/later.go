//go:build !nextversion

package replica

import "meridian/wire"

// laterCommand is what the next version adds to Command, and laterState what it adds to appliedState.
type (
	laterCommand struct{}
	laterState   struct{}
)

func (*laterCommand) fields(*wire.Coder) {}
func (*laterState) fields(*wire.Coder)   {}

// propose adds what a later version says with a command, and carry does what a command says that is applied.
func (*laterCommand) propose(*Replica)     {}
func (*laterCommand) carry(*Replica) error { return nil }
