//go:build !nextversion

package server

import "meridian/upgrade"

// migrations run after upgrades are finalized, in the order of their versions. The first release with versions has none.
func (n *Node) migrations() []upgrade.Migration { return nil }

// later emits the metrics that the next version adds.
func (e *emitter) later(*Node) {}
