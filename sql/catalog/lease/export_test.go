package lease

import (
	"meridian/keys"
	"meridian/sql/catalog"
)

// PendingSpan has the rows of registrations.
func PendingSpan() keys.Span { return pendingSpan() }

// HasRegistered reports whether the node has registered a version of a descriptor whose time has not come.
func (m *Manager) HasRegistered(id catalog.ID) bool {
	_, ok := m.snap.Load().registered[id]
	return ok
}
