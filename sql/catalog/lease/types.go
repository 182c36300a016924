package lease

import (
	"context"

	"meridian/sql/catalog"
)

var _ catalog.TypeView = (*View)(nil)

// Type implements catalog.TypeView.
func (v *View) Type(ctx context.Context, schema, name string) (*catalog.Type, error) {
	path := v.info.SearchPath
	if schema != "" {
		path = []string{schema}
	}
	db, err := v.Database(ctx, v.info.Database)
	if db == nil || err != nil {
		return nil, err
	}
	for _, s := range path {
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
			if again, err := v.t.m.lookAgain(ctx, n); err != nil {
				return nil, err
			} else if again {
				d, err = v.find(ctx, n)
				if err != nil {
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
	all, err := v.Types(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if t.ID == id || t.Enum.Array == uint32(id) {
			return t, nil
		}
	}
	return nil, nil
}

// Types implements catalog.TypeView: those of the current database. The transaction does not rely on them.
func (v *View) Types(ctx context.Context) ([]*catalog.Type, error) {
	db, err := v.Database(ctx, v.info.Database)
	if db == nil || err != nil {
		return nil, err
	}
	return merged(v, v.t.m.snap.Load().list().types[db.ID], func(t *catalog.Type) catalog.ID { return t.ID },
		func(d *Descriptor) *catalog.Type {
			if d.Type == nil || d.Type.Database != db.ID {
				return nil
			}
			return d.Type
		}), nil
}

// Fresh implements catalog.TypeView.
func (v *View) Fresh(id catalog.ID, place int64) bool {
	e, ok := v.t.edits[id]
	if !ok || e.base == nil || e.base.Type == nil {
		return false
	}
	_, known := e.base.Type.Enum.Label(place)
	return !known
}

// Type is a type to be changed in place; nil if there is none.
func (t *Txn) Type(id catalog.ID) *catalog.Type {
	if d := t.mutable(id); d != nil {
		return d.Type
	}
	return nil
}
