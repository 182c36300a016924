//go:build !nextversion

package server

import "meridian/upgrade"

// migrations are what follows the ends of upgrades, in the order of their versions. The first release with versions has none.
func (n *Node) migrations() []upgrade.Migration { return nil }

// later emits what the next version adds.
func (e *emitter) later(*Node) {}
