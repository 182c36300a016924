package lease

import (
	"context"
	"maps"
	"slices"
	"strings"

	"meridian/sql/catalog"
)

// View implements catalog.View for one session within one transaction. The transaction relies on relations that it
// finds by name or identity, but not on lists of them, which are for display.
type View struct {
	t    *Txn
	info Info
}

// View is what a statement of the transaction sees, the transaction's own changes included.
func (t *Txn) View(info Info) catalog.View { return &View{t, info} }

var _ catalog.View = (*View)(nil)

// Txn is the transaction that the view belongs to.
func (v *View) Txn() *Txn { return v.t }

// CurrentDatabase implements catalog.View.
func (v *View) CurrentDatabase() string { return v.info.Database }

// SearchPath implements catalog.View.
func (v *View) SearchPath() []string { return v.info.SearchPath }

// CurrentUser implements catalog.View.
func (v *View) CurrentUser() string { return v.info.User }

// named finds a descriptor by name, first among the transaction's changes.
func (v *View) named(n nameKey, take func(func(*Snapshot) *Descriptor) (*Descriptor, error)) (*Descriptor, error) {
	t := v.t
	for _, id := range t.order {
		if e := t.edits[id]; slices.Contains(e.now.names(), n) {
			return e.now, nil
		}
	}
	return take(func(s *Snapshot) *Descriptor {
		d := s.named(n)
		if d == nil {
			return nil
		}
		if _, edited := t.edits[d.ID()]; edited {
			return nil // renamed or dropped by this transaction
		}
		return d
	})
}

// find is named, at the time at which the transaction reads.
//
// A transaction that is not historical relies on what it finds, also when it reads before the time of a registered version, of whichever object (lease.L15): changes of that object, or of its data,
// wait for it. Only what has changed since its time is read from the store.
func (v *View) find(ctx context.Context, n nameKey) (*Descriptor, error) {
	t, s := v.t, v.t.m.snap.Load()
	now := s.named(n)
	switch {
	case !t.pastOnly(s), !t.tx.Historical() && (now != nil && !t.changedSince(s, now.ID()) || t.named(n)):
		return v.named(n, func(f func(*Snapshot) *Descriptor) (*Descriptor, error) { return t.take(ctx, f) })
	}
	d, err := t.namedThen(ctx, s, n)
	if d != nil && t.edits[d.ID()] != nil {
		return nil, nil // renamed or dropped by this transaction
	}
	return d, err
}

// named reports whether an object that the transaction has made or changed has a name.
func (t *Txn) named(n nameKey) bool {
	return slices.ContainsFunc(t.order, func(id catalog.ID) bool { return slices.Contains(t.edits[id].now.names(), n) })
}

// Database implements catalog.View.
func (v *View) Database(ctx context.Context, name string) (*catalog.Database, error) {
	n := nameKey{name: name}
	d, err := v.find(ctx, n)
	if err != nil {
		return nil, err
	}
	if d == nil && !v.t.Changed() {
		if again, err := v.lookAgain(ctx, n); err != nil {
			return nil, err
		} else if again {
			if d, err = v.find(ctx, n); err != nil {
				return nil, err
			}
		}
	}
	if d == nil {
		return catalog.Template(name), nil
	}
	return d.Database, nil
}

// Databases implements catalog.View.
func (v *View) Databases(context.Context) ([]*catalog.Database, error) {
	return merged(v, v.t.m.snap.Load().list().databases, func(d *catalog.Database) catalog.ID { return d.ID },
		func(d *Descriptor) *catalog.Database { return d.Database }), nil
}

// Users implements catalog.View.
func (v *View) Users(context.Context) ([]*catalog.User, error) {
	return merged(v, v.t.m.snap.Load().list().users, func(u *catalog.User) catalog.ID { return u.ID },
		func(d *Descriptor) *catalog.User { return d.User }), nil
}

// User finds a role by name; nil if there is none. The transaction does not rely on it (lease.L7).
func (v *View) User(name string) *catalog.User { return v.Access().Role(name) }

// computedSchema is a schema of computed relations.
func (v *View) computedSchema(database catalog.ID, name string) *catalog.Schema {
	if v.t.m.o.Relations == nil {
		return nil
	}
	if id, ok := v.t.m.o.Relations.Schemas()[name]; ok {
		return &catalog.Schema{ID: id, Version: 1, Name: name, Database: database, Owner: "root"}
	}
	return nil
}

// Schema implements catalog.View.
func (v *View) Schema(ctx context.Context, database, name string) (*catalog.Schema, error) {
	db, err := v.Database(ctx, database)
	if db == nil {
		return nil, err
	}
	if s := v.computedSchema(db.ID, name); s != nil {
		return s, nil
	}
	if l := v.t.local; l != nil && l.isName(name) {
		return l.schema, nil
	}
	d, err := v.find(ctx, nameKey{database: db.ID, name: name})
	if d == nil {
		return nil, err
	}
	return d.Schema, err
}

// Schemas implements catalog.View.
func (v *View) Schemas(ctx context.Context, database string) ([]*catalog.Schema, error) {
	db, err := v.Database(ctx, database)
	if db == nil {
		return nil, err
	}
	var out []*catalog.Schema
	if r := v.t.m.o.Relations; r != nil {
		for _, name := range slices.Sorted(maps.Keys(r.Schemas())) {
			out = append(out, v.computedSchema(db.ID, name))
		}
	}
	out = append(out, merged(v, v.t.m.snap.Load().list().schemas[db.ID], func(s *catalog.Schema) catalog.ID { return s.ID },
		func(d *Descriptor) *catalog.Schema {
			if d.Schema == nil || d.Schema.Database != db.ID {
				return nil
			}
			return d.Schema
		})...)
	if s := v.t.local.Schema(); s != nil && s.Database == db.ID {
		out = append(out, s)
	}
	return out, nil
}

// Table implements catalog.View.
func (v *View) Table(ctx context.Context, database, schema, name string) (*catalog.Table, error) {
	if database == "" {
		database = v.info.Database
	}
	l := v.t.local
	if schema != "" {
		if l != nil && l.isName(schema) {
			return l.tableNamed(name), nil
		}
		if r := v.t.m.o.Relations; r != nil {
			if t := r.Lookup(schema, name); t != nil {
				return t, nil
			}
		}
		return v.table(ctx, database, schema, name)
	}
	if !l.Empty() && !slices.Contains(v.info.SearchPath, catalog.TemporarySchema) {
		if t := l.tableNamed(name); t != nil {
			return t, nil
		}
	}
	if r := v.t.m.o.Relations; r != nil && !slices.Contains(v.info.SearchPath, "pg_catalog") {
		if t := r.Lookup("pg_catalog", name); t != nil {
			return t, nil
		}
	}
	// A table that the node knows in one schema of the path is not asked for in those before it: most of the time there is no schema of the user's name, and asking
	// may be a round trip to another region each time that a statement is planned.
	was := v.t.familiar
	v.t.familiar = true
	t, err := v.inPath(ctx, database, name)
	if v.t.familiar = was; t != nil || err != nil || was {
		return t, err
	}
	return v.inPath(ctx, database, name)
}

// inPath finds a table in the first schema of the search path that has it.
func (v *View) inPath(ctx context.Context, database, name string) (*catalog.Table, error) {
	access, l := v.Access(), v.t.local
	for _, s := range v.info.SearchPath {
		if l != nil && l.isName(s) {
			if t := l.tableNamed(name); t != nil {
				return t, nil
			}
			continue
		}
		if !access.Superuser(v.info.User) {
			// Schemas that the role may not use are passed over.
			if sc, err := v.Schema(ctx, database, s); err != nil {
				return nil, err
			} else if sc != nil && !access.May(v.info.User, sc.ID, catalog.Usage) {
				continue
			}
		}
		if r := v.t.m.o.Relations; r != nil {
			if t := r.Lookup(s, name); t != nil {
				return t, nil
			}
		}
		t, err := v.table(ctx, database, s, name)
		if t != nil || err != nil {
			return t, err
		}
	}
	return nil, nil
}

func (v *View) table(ctx context.Context, database, schema, name string) (*catalog.Table, error) {
	for asked := (nameKey{}); ; {
		db, err := v.Database(ctx, database)
		if db == nil || err != nil {
			return nil, err
		}
		s, err := v.find(ctx, nameKey{database: db.ID, name: schema})
		if err != nil {
			return nil, err
		}
		n := nameKey{database: db.ID, name: schema}
		if s != nil && s.Schema != nil {
			n = nameKey{db.ID, s.Schema.ID, name}
			d, err := v.find(ctx, n)
			if err != nil {
				return nil, err
			}
			if d != nil && d.Table != nil {
				if d.Table.Name == name {
					return d.Table, nil
				}
				return nil, nil // an index
			}
		}
		if n == asked || v.t.Changed() {
			return nil, nil
		}
		// Another node may have made it a moment ago, or the schema that it is in.
		if there, err := v.lookAgain(ctx, n); !there || err != nil {
			return nil, err
		}
		asked = n
	}
}

// TableByID implements catalog.View.
func (v *View) TableByID(ctx context.Context, id catalog.ID) (*catalog.Table, error) {
	if catalog.IsLocal(id) {
		if d := v.t.local.descriptor(id); d != nil && !d.dropped() {
			return d.Table, nil
		}
		return nil, nil
	}
	if e, ok := v.t.edits[id]; ok {
		return e.now.Table, nil
	}
	if r := v.t.m.o.Relations; r != nil {
		if t := r.ByID(id); t != nil {
			return t, nil
		}
	}
	var d *Descriptor
	var err error
	if s := v.t.m.snap.Load(); v.t.changedSince(s, id) {
		d, err = v.t.atThen(ctx, s, id)
	} else {
		d, err = v.t.take(ctx, func(s *Snapshot) *Descriptor { return s.descriptor(id) })
	}
	if d == nil {
		return nil, err
	}
	return d.Table, err
}

// Peek is TableByID for display: the transaction does not rely on the relation.
func (v *View) Peek(id catalog.ID) *catalog.Table {
	if r := v.t.m.o.Relations; r != nil {
		if t := r.ByID(id); t != nil {
			return t
		}
	}
	if d := v.t.Descriptor(id); d != nil {
		return d.Table
	}
	return nil
}

// Tables implements catalog.View: relations of the database that are stored.
func (v *View) Tables(ctx context.Context, database string) ([]*catalog.Table, error) {
	db, err := v.Database(ctx, database)
	if db == nil {
		return nil, err
	}
	return v.tablesOf(db.ID), nil
}

func (v *View) tablesOf(database catalog.ID) []*catalog.Table {
	out := merged(v, v.t.m.snap.Load().list().tables[database], func(t *catalog.Table) catalog.ID { return t.ID },
		func(d *Descriptor) *catalog.Table {
			if d.Table == nil || d.Table.Database != database {
				return nil
			}
			return d.Table
		})
	v.t.local.Each(func(t *catalog.Table) {
		if t.Database == database {
			out = append(out, t)
		}
	})
	return out
}

// NameTaken finds the relation of a schema that has a name, or has an index of that name.
func (v *View) NameTaken(database, schema catalog.ID, name string) (*catalog.Table, error) {
	if catalog.IsLocal(schema) {
		if d := v.t.local.named(name); d != nil {
			return d.Table, nil
		}
		return nil, nil
	}
	d, err := v.named(nameKey{database, schema, name}, v.t.takeAsIs)
	if d == nil {
		return nil, err
	}
	return d.Table, err
}

// Statistics implements catalog.View.
func (v *View) Statistics(_ context.Context, id catalog.ID) (*catalog.Statistics, error) {
	if catalog.IsLocal(id) {
		return v.t.local.statistics(id), nil
	}
	return v.t.m.snap.Load().stats[id], nil
}

// Settings are the cluster settings.
func (v *View) Settings() map[string]string {
	if d := v.t.Descriptor(catalog.SettingsTableID); d != nil && d.Settings != nil {
		return d.Settings.Values
	}
	return nil
}

// Zones are the configurations that have names.
func (v *View) Zones() (z catalog.NamedZones) {
	if d := v.t.Descriptor(catalog.SettingsTableID); d != nil && d.Settings != nil {
		z.Ranges, z.Placements = d.Settings.Zones, d.Settings.Placements
	}
	return z
}

// IsSystem reports whether a schema name is reserved.
func IsSystem(schema string) bool { return strings.HasPrefix(schema, "pg_") }
