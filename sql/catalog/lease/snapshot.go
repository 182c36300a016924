package lease

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"meridian/clock"
	"meridian/sql/catalog"
)

// Snapshot is the catalogue as a node knows it. It and all that it leads to never change.
type Snapshot struct {
	generation uint64
	// modified is the latest commit timestamp of any change since the tenure began; byID has it per descriptor.
	modified clock.Timestamp
	byID     map[catalog.ID]entry
	names    map[nameKey]catalog.ID
	stats    map[catalog.ID]*catalog.Statistics
	// roles are the roles in byID; accessGeneration grows with every change on which rights may depend.
	roles            *catalog.Roles
	accessGeneration uint64
	// lists has the descriptors of byID by kind.
	lists  *listing
	frozen int // the number of frozen versions
	// registered are versions that become valid at a time which is not certainly past; bounded is the latest time of any that was, or is, registered.
	registered map[catalog.ID]registration
	bounded    clock.Timestamp
}

// isFrozen is 1 if a version is frozen, else 0.
func isFrozen(d *Descriptor) int {
	if d != nil && d.Table != nil && d.Table.Frozen != catalog.ExcludeNone {
		return 1
	}
	return 0
}

type entry struct {
	d        *Descriptor
	modified clock.Timestamp // at the latest
	ends     []end           // of the versions before the registered ones, oldest first
}

func newSnapshot() *Snapshot {
	return &Snapshot{byID: map[catalog.ID]entry{}, names: map[nameKey]catalog.ID{}, stats: map[catalog.ID]*catalog.Statistics{}, roles: catalog.NewRoles(nil),
		lists: &listing{}}
}

// change is one descriptor's new version.
type change struct {
	id       catalog.ID
	version  uint64
	d        *Descriptor // nil: removed altogether
	modified clock.Timestamp
	used     uint64 // the version of which other nodes are asked, if it is not d's
	// from is the time of a registered version, exact its kind; a change without d is the registration itself.
	from  clock.Timestamp
	exact bool
}

// with applies the changes that are news.
func (s *Snapshot) with(changes []change) *Snapshot {
	var n *Snapshot
	roles, access := false, false
	for _, c := range changes {
		old, known := s.byID[c.id]
		if n != nil {
			old, known = n.byID[c.id]
		}
		if known && old.d.Version() >= c.version && c.d != nil || !known && c.d == nil {
			continue
		}
		if n == nil {
			n = &Snapshot{generation: s.generation + 1, modified: s.modified, byID: maps.Clone(s.byID), names: maps.Clone(s.names), stats: s.stats,
				roles: s.roles, accessGeneration: s.accessGeneration, lists: &listing{}, frozen: s.frozen, registered: s.registered, bounded: s.bounded}
		}
		n.frozen += isFrozen(c.d) - isFrozen(old.d)
		access = access || accessDiffers(old.d, c.d)
		roles = roles || c.d != nil && c.d.User != nil || known && old.d.User != nil
		if known {
			for _, name := range old.d.names() {
				if n.names[name] == c.id {
					delete(n.names, name)
				}
			}
		}
		if c.d == nil {
			delete(n.byID, c.id)
			continue
		}
		e := entry{d: c.d, modified: c.modified, ends: old.ends}
		if r, ok := n.registered[c.id]; ok && c.version >= r.version {
			if c.version == r.version {
				e.modified = r.at
			}
			e.ends = append(slices.Clone(e.ends[max(0, len(e.ends)+1-maxEnds):]), end{r.version, r.at})
			n.registered = maps.Clone(n.registered)
			delete(n.registered, c.id)
		}
		n.byID[c.id] = e
		n.modified = n.modified.Forward(e.modified)
		for _, name := range c.d.names() {
			n.names[name] = c.id
		}
	}
	if n == nil {
		return s
	}
	if roles {
		n.roles = n.rolesOf()
	}
	if access {
		n.accessGeneration++
	}
	return n
}

// after makes a snapshot that was read at a timestamp the successor of another, to which changes may have been applied
// since. A descriptor that differs counts as changed at that timestamp, although it may have been changed earlier.
func (s *Snapshot) after(old *Snapshot, at clock.Timestamp) *Snapshot {
	s.generation, s.modified = old.generation+1, old.modified
	s.roles, s.accessGeneration = s.rolesOf(), old.accessGeneration+1
	s.bounded = old.bounded
	for id, e := range s.byID {
		if o, ok := old.byID[id]; ok && o.d.Version() == e.d.Version() {
			e.modified = o.modified
		} else {
			e.modified = at
			s.modified = s.modified.Forward(at)
		}
		e.ends = old.byID[id].ends
		s.byID[id] = e
	}
	for id, r := range old.registered {
		if s.version(id) < r.version {
			s = s.withRegistered(func(all map[catalog.ID]registration) { all[id] = r })
		} else if e := s.byID[id]; true {
			e.ends = append(slices.Clone(e.ends[max(0, len(e.ends)+1-maxEnds):]), end{r.version, r.at})
			s.byID[id] = e
		}
	}
	var newer []change
	for id, o := range old.byID {
		if v := s.version(id); v < o.d.Version() && (v > 0 || at.Less(o.modified)) {
			newer = append(newer, change{id: id, version: o.d.Version(), d: o.d, modified: o.modified})
		} else if v == 0 {
			s.modified = s.modified.Forward(at)
		}
	}
	return s.with(newer)
}

// Version is the version of a descriptor; zero if there is none.
func (s *Snapshot) Version(id catalog.ID) uint64 { return s.version(id) }

func (s *Snapshot) version(id catalog.ID) uint64 {
	if e, ok := s.byID[id]; ok {
		return e.d.Version()
	}
	return 0
}

// Descriptor is a descriptor, which must not be changed; nil if there is none.
func (s *Snapshot) Descriptor(id catalog.ID) *Descriptor { return s.byID[id].d }

func (s *Snapshot) descriptor(id catalog.ID) *Descriptor { return s.byID[id].d }

func (s *Snapshot) named(n nameKey) *Descriptor {
	id, ok := s.names[n]
	if !ok {
		return nil
	}
	return s.byID[id].d
}

func (s *Snapshot) database(name string) *catalog.Database {
	if d := s.named(nameKey{name: name}); d != nil {
		return d.Database
	}
	return nil
}

func (s *Snapshot) user(name string) *catalog.User {
	if d := s.named(nameKey{schema: roleNames, name: name}); d != nil && d.later == nil {
		return d.User
	}
	return nil
}

// each calls f for every descriptor that is not dropped, in the order of identities.
func (s *Snapshot) each(f func(*Descriptor)) {
	for _, id := range slices.Sorted(maps.Keys(s.byID)) {
		if d := s.byID[id].d; !d.dropped() {
			f(d)
		}
	}
}

// Setting is a cluster setting's value.
func (s *Snapshot) Setting(name string) (string, bool) {
	d := s.descriptor(catalog.SettingsTableID)
	if d == nil || d.Settings == nil {
		return "", false
	}
	v, ok := d.Settings.Values[strings.ToLower(name)]
	return v, ok
}

// Zones are the configurations that have names.
func (s *Snapshot) Zones() (z catalog.NamedZones) {
	if d := s.descriptor(catalog.SettingsTableID); d != nil && d.Settings != nil {
		z.Ranges, z.Placements = d.Settings.Zones, d.Settings.Placements
	}
	return z
}

// EachTable calls f for every relation that is not dropped.
func (s *Snapshot) EachTable(f func(*catalog.Table)) {
	s.each(func(d *Descriptor) {
		if d.Table != nil {
			f(d.Table)
		}
	})
}

// DatabaseByID is a database, dropped or not; nil if there is none.
func (s *Snapshot) DatabaseByID(id catalog.ID) *catalog.Database {
	if d := s.byID[id].d; d != nil {
		return d.Database
	}
	return nil
}

// Databases are all databases that are not dropped, in no order.
func (s *Snapshot) Databases() iter.Seq[*catalog.Database] {
	return func(yield func(*catalog.Database) bool) {
		for _, e := range s.byID {
			if e.d.Database != nil && !e.d.dropped() && !yield(e.d.Database) {
				return
			}
		}
	}
}

// StoredTables are the relations that have rows, also those that are dropped and whose rows may still be there, in no order.
func (s *Snapshot) StoredTables() iter.Seq[*catalog.Table] {
	return func(yield func(*catalog.Table) bool) {
		for _, e := range s.byID {
			if t := e.d.Table; t != nil && t.Kind != catalog.KindView && !yield(t) {
				return
			}
		}
	}
}

// Generation grows with every change that the node learns of.
func (s *Snapshot) Generation() uint64 { return s.generation }
