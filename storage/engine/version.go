package engine

import (
	"errors"

	"meridian/version"
)

var errNoMarker = errors.New("the store is closed, and its version can't be written")

// Version is the version that the store's node acts by, and the one below which it has promised not to go back; both are zero
// until the node belongs to a cluster.
func (e *Engine) Version() (acting, promised version.Version) {
	e.marker.mu.Lock()
	defer e.marker.mu.Unlock()
	return e.marker.said.Acting, e.marker.said.Promised
}

// RaiseVersion changes both durably; earlier ones than the store has change nothing (engine.EN6). A promise is at least what is acted by.
func (e *Engine) RaiseVersion(acting, promised version.Version) error {
	promised = promised.Max(acting)
	if a, p := e.Version(); !a.Less(acting) && !p.Less(promised) {
		return nil
	}
	// Both slots, so that damage to one of them does not bring an earlier promise back.
	for range 2 {
		err := e.mark(true, func(m *marked) {
			m.Acting, m.Promised = m.Acting.Max(acting), m.Promised.Max(promised)
		})
		if err != nil {
			return e.fail(err)
		}
	}
	if a, p := e.Version(); a.Less(acting) || p.Less(promised) {
		return errNoMarker
	}
	return nil
}
