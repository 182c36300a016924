package lease

import (
	"context"
	"slices"

	"meridian/sql/catalog"
)

var _ catalog.TypeView = (*View)(nil)

// Type implements catalog.TypeView.
func (v *View) Type(ctx context.Context, schema, name string) (*catalog.Type, error) {
	path, l := v.info.SearchPath, v.t.local
	if schema != "" {
		path = []string{schema}
	} else if !l.Empty() && !slices.Contains(path, catalog.TemporarySchema) {
		if t := l.typeNamed(name); t != nil {
			return t, nil
		}
	}
	db, err := v.Database(ctx, v.info.Database)
	if db == nil || err != nil {
		return nil, err
	}
	for _, s := range path {
		if l != nil && l.isName(s) {
			if t := l.typeNamed(name); t != nil {
				return t, nil
			}
			continue
		}
		sc, err := v.Schema(ctx, v.info.Database, s)
		if err != nil {
			return nil, err
		}
		if sc == nil || schema == "" && !v.Access().Superuser(v.info.User) && !v.Access().May(v.info.User, sc.ID, catalog.Usage) {
			continue
		}
		n := typeName(db.ID, sc.ID, name)
		d, err := v.find(ctx, n)
		if d == nil && err == nil && !v.t.Changed() {
			// Another node may have made it a moment ago.
			if again, err := v.lookAgain(ctx, n); err != nil {
				return nil, err
			} else if again {
				if d, err = v.find(ctx, n); err != nil {
					return nil, err
				}
			}
		}
		if err != nil {
			return nil, err
		}
		if d != nil && d.Type != nil {
			return d.Type, nil
		}
	}
	return nil, nil
}

// TypeByID implements catalog.TypeView. The identity of its arrays finds a type too.
func (v *View) TypeByID(ctx context.Context, id catalog.ID) (*catalog.Type, error) {
	if d, err := v.typeByID(ctx, id); d != nil || err != nil {
		return d, err
	}
	all, err := v.Types(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if t.Enum.Array == uint32(id) {
			return v.typeByID(ctx, t.ID)
		}
	}
	return nil, nil
}

func (v *View) typeByID(ctx context.Context, id catalog.ID) (t *catalog.Type, err error) {
	var d *Descriptor
	if e, ok := v.t.edits[id]; ok {
		d = e.now
	} else if catalog.IsLocal(id) {
		d = v.t.local.descriptor(id)
	} else if s := v.t.m.snap.Load(); v.t.changedSince(s, id) {
		d, err = v.t.atThen(ctx, s, id)
	} else {
		d, err = v.t.take(ctx, func(s *Snapshot) *Descriptor { return s.descriptor(id) })
	}
	if d == nil || d.dropped() {
		return nil, err
	}
	return d.Type, err
}

// Types implements catalog.TypeView: those of the current database. The transaction does not rely on them.
func (v *View) Types(ctx context.Context) ([]*catalog.Type, error) {
	db, err := v.Database(ctx, v.info.Database)
	if db == nil || err != nil {
		return nil, err
	}
	out := merged(v, v.t.m.snap.Load().list().types[db.ID], func(t *catalog.Type) catalog.ID { return t.ID },
		func(d *Descriptor) *catalog.Type {
			if d.Type == nil || d.Type.Database != db.ID {
				return nil
			}
			return d.Type
		})
	return append(slices.Clip(out), v.t.local.types()...), nil
}

// Type is a type to be changed in place; nil if there is none.
func (t *Txn) Type(id catalog.ID) *catalog.Type {
	if d := t.mutable(id); d != nil {
		return d.Type
	}
	return nil
}

// EachType calls f for each type that the transaction has made or changed; base is nil if it is new.
func (t *Txn) EachType(f func(base, now *catalog.Type) error) error {
	for _, id := range slices.Clone(t.order) {
		e := t.edits[id]
		if e.now.Type == nil {
			continue
		}
		var base *catalog.Type
		if e.base != nil {
			base = e.base.Type
		}
		if err := f(base, e.now.Type); err != nil {
			return err
		}
	}
	return nil
}

// EachRelation calls f for each relation of a database, the session's own included, as the transaction sees it.
func (t *Txn) EachRelation(database catalog.ID, f func(*catalog.Table) error) error {
	for _, x := range (&View{t: t}).tablesOf(database) {
		if err := f(x); err != nil {
			return err
		}
	}
	return nil
}

// EachTypeOf calls f for each stored type of a database, as the transaction sees it.
func (t *Txn) EachTypeOf(database catalog.ID, f func(*catalog.Type)) error {
	for _, x := range merged(&View{t: t}, t.m.snap.Load().list().types[database], func(t *catalog.Type) catalog.ID { return t.ID },
		func(d *Descriptor) *catalog.Type {
			if d.Type == nil || d.Type.Database != database {
				return nil
			}
			return d.Type
		}) {
		f(x)
	}
	return nil
}
