package lease

import (
	"cmp"
	"slices"
	"sync"

	"meridian/sql/catalog"
)

// listing is a snapshot's descriptors, without those that are dropped, by kind and by the keys by which introspection
// looks them up. A dropped descriptor stays in the snapshot until its data is gone, a day for example; passing over
// thousands of them for each list made the time of a query on information_schema proportional to the number of all
// tables that had ever existed.
//
// It is made when it is first asked for, once for each snapshot. A change of the schema makes a snapshot, so statements
// that only run never make one. Slices are shared and must not be changed.
type listing struct {
	once      sync.Once
	databases []*catalog.Database
	users     []*catalog.User
	schemas   map[catalog.ID][]*catalog.Schema // by database
	tables    map[catalog.ID][]*catalog.Table  // by database
	types     map[catalog.ID][]*catalog.Type   // by database
	// schema has the schemas by identity; parts the relation that an index or a constraint belongs to, by its OID.
	schema map[catalog.ID]*catalog.Schema
	parts  map[catalog.ID]*catalog.Table
	// visited counts the descriptors that were looked at to make it.
	visited int
}

// list is the snapshot's listing.
func (s *Snapshot) list() *listing {
	l := s.lists
	l.once.Do(func() {
		l.schemas, l.tables = map[catalog.ID][]*catalog.Schema{}, map[catalog.ID][]*catalog.Table{}
		l.types = map[catalog.ID][]*catalog.Type{}
		l.schema, l.parts = map[catalog.ID]*catalog.Schema{}, map[catalog.ID]*catalog.Table{}
		live := make([]*Descriptor, 0, len(s.byID))
		for _, e := range s.byID {
			l.visited++
			if !e.d.dropped() {
				live = append(live, e.d)
			}
		}
		slices.SortFunc(live, func(a, b *Descriptor) int { return cmp.Compare(a.ID(), b.ID()) })
		for _, d := range live {
			switch {
			case d.Database != nil:
				l.databases = append(l.databases, d.Database)
			case d.User != nil:
				l.users = append(l.users, d.User)
			case d.Schema != nil:
				l.schemas[d.Schema.Database] = append(l.schemas[d.Schema.Database], d.Schema)
				l.schema[d.Schema.ID] = d.Schema
			case d.Type != nil:
				l.types[d.Type.Database] = append(l.types[d.Type.Database], d.Type)
			case d.Table != nil:
				l.tables[d.Table.Database] = append(l.tables[d.Table.Database], d.Table)
				eachPart(d.Table, func(oid catalog.ID) { l.parts[oid] = d.Table })
			}
		}
	})
	return l
}

// eachPart calls f for the OIDs of a relation's indexes and constraints.
func eachPart(t *catalog.Table, f func(oid catalog.ID)) {
	for i := range t.Indexes {
		f(t.Indexes[i].OID)
	}
	for i := range t.Checks {
		f(t.Checks[i].OID)
	}
	for i := range t.Foreign {
		f(t.Foreign[i].OID)
	}
}

// merged is a list of the snapshot's with the transaction's own changes: kind picks what belongs into the list.
func merged[T any](v *View, list []*T, id func(*T) catalog.ID, kind func(*Descriptor) *T) []*T {
	t := v.t
	if len(t.edits) == 0 {
		return slices.Clone(list)
	}
	out := make([]*T, 0, len(list)+len(t.edits))
	for _, x := range list {
		if _, edited := t.edits[id(x)]; !edited {
			out = append(out, x)
		}
	}
	for _, e := range t.edits {
		if !e.now.dropped() {
			if x := kind(e.now); x != nil {
				out = append(out, x)
			}
		}
	}
	slices.SortFunc(out, func(a, b *T) int { return cmp.Compare(id(a), id(b)) })
	return out
}

// PeekSchema is a schema by identity, for display: the transaction does not rely on it.
func (v *View) PeekSchema(id catalog.ID) *catalog.Schema {
	if s := v.t.local.Schema(); s != nil && s.ID == id {
		return s
	}
	if e, ok := v.t.edits[id]; ok {
		if e.now.dropped() {
			return nil
		}
		return e.now.Schema
	}
	return v.t.m.snap.Load().list().schema[id]
}

// PeekPart is the relation of the current database that the index or constraint of an OID belongs to, for display; nil if there is none.
func (v *View) PeekPart(oid catalog.ID) (found *catalog.Table) {
	of := func(t *catalog.Table) {
		eachPart(t, func(o catalog.ID) {
			if o == oid {
				found = t
			}
		})
	}
	v.t.local.Each(of)
	for _, e := range v.t.edits {
		if t := e.now.Table; t != nil && !t.Dropped {
			of(t)
		}
	}
	if found == nil {
		if t := v.t.m.snap.Load().list().parts[oid]; t != nil {
			if _, edited := v.t.edits[t.ID]; !edited {
				found = t
			}
		}
	}
	if found == nil {
		return nil
	}
	if d := v.t.Descriptor(found.Database); d == nil || d.Database == nil || d.Database.Name != v.info.Database {
		return nil
	}
	return found
}

// peekNamed is the descriptor of a name, without relying on it.
func (v *View) peekNamed(n nameKey) *Descriptor {
	for _, id := range v.t.order {
		if e := v.t.edits[id]; slices.Contains(e.now.names(), n) {
			return e.now
		}
	}
	d := v.t.m.snap.Load().named(n)
	if d == nil {
		return nil
	}
	if _, edited := v.t.edits[d.ID()]; edited {
		return nil
	}
	return d
}

// PeekName is the relation that a name stands for in a schema, or that an index of that name belongs to, for display;
// nil if there is none.
func (v *View) PeekName(schema catalog.ID, name string) *catalog.Table {
	if s := v.t.local.Schema(); s != nil && s.ID == schema {
		if d := v.t.local.named(name); d != nil {
			return d.Table
		}
		return nil
	}
	s := v.PeekSchema(schema)
	if s == nil {
		return nil
	}
	if d := v.peekNamed(nameKey{s.Database, schema, name}); d != nil {
		return d.Table
	}
	return nil
}

// PeekBare is the relation that a name without a schema finds by the search path: Table, for display. It does not wait,
// does not make the transaction rely on the relation, and does not ask the store for one that another node has made a
// moment ago.
func (v *View) PeekBare(name string) *catalog.Table {
	l, r := v.t.local, v.t.m.o.Relations
	if !l.Empty() && !slices.Contains(v.info.SearchPath, catalog.TemporarySchema) {
		if t := l.tableNamed(name); t != nil {
			return t
		}
	}
	if r != nil && !slices.Contains(v.info.SearchPath, "pg_catalog") {
		if t := r.Lookup("pg_catalog", name); t != nil {
			return t
		}
	}
	db := v.peekNamed(nameKey{name: v.info.Database})
	if db == nil || db.Database == nil {
		return nil
	}
	access := v.Access()
	for _, path := range v.info.SearchPath {
		if l != nil && l.isName(path) {
			if t := l.tableNamed(name); t != nil {
				return t
			}
			continue
		}
		if r != nil {
			if t := r.Lookup(path, name); t != nil {
				return t
			}
		}
		s := v.peekNamed(nameKey{database: db.Database.ID, name: path})
		if s == nil || s.Schema == nil || !access.May(v.info.User, s.Schema.ID, catalog.Usage) {
			continue
		}
		if d := v.peekNamed(nameKey{db.Database.ID, s.Schema.ID, name}); d != nil && d.Table != nil && d.Table.Name == name {
			return d.Table
		}
	}
	return nil
}
