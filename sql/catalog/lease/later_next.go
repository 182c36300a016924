//go:build nextversion

package lease

import (
	"meridian/invariant"
	"meridian/version"
)

// publish says in the descriptor of a new table by which version it is made. Only this function checks whether the feature is
// active.
func (d *Descriptor) publish(m *Manager) {
	if v := m.o.Version; d.Table != nil && d.Table.Version == 1 && v.Active(version.NextDescriptor) {
		d.Table.MadeBy = v.Acting().String()
		v.Wrote(version.NextDescriptor)
	}
}

// take notes that a descriptor with MadeBy is used from now on.
func (d *Descriptor) take(m *Manager) {
	if d != nil && d.Table != nil && d.Table.MadeBy != "" {
		invariant.Check(m.o.Version.Knows(version.NextDescriptor), "version.CV3: table %q was made by %s, and the binary here has %s", d.Table.Name, d.Table.MadeBy,
			m.o.Version.Binary().Own)
		m.o.Version.Read(version.NextDescriptor)
	}
}
