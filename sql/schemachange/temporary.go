package schemachange

import (
	"slices"

	"meridian/keys"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
	"meridian/txn"
)

// placeNew finds the schema in which a relation is made, and checks the right to do so.
func (c *change) placeNew(n bind.Name, temporary bool) (*catalog.Database, *catalog.Schema, error) {
	if !temporary {
		db, sc, err := c.place(n)
		if err == nil {
			err = c.must(sc.ID, catalog.Create)
		}
		return db, sc, err
	}
	db, err := c.view.Database(c.ctx, c.Info.Database)
	if err != nil {
		return nil, nil, err
	}
	l := c.Catalog.Local()
	if db == nil || l == nil {
		return nil, nil, sqlstate.New(sqlstate.FeatureNotSupported, "temporary relations belong to a session")
	}
	return db, l.Open(c.Session, db.ID, c.Info.Session), nil
}

// newID hands out the identity of a new object.
func (c *change) newID(temporary bool) (catalog.ID, error) {
	if temporary {
		return c.Catalog.Local().NewID()
	}
	return c.Catalog.NewID(c.ctx)
}

// clear removes all rows of a temporary table.
func (c *change) clear(t *catalog.Table) error {
	var b txn.WriteBatch
	b.DeleteRange(keys.TableSpan(t.ID))
	if err := c.kv.Write(c.ctx, &b); err != nil {
		return err
	}
	c.kv.StepStatement()
	return nil
}

// settleLocal carries out at once what a statement would leave to a job if others could see the table (schemachange.SC3).
func (c *change) settleLocal() error {
	l := c.Catalog.Local()
	if !l.Changed() {
		return nil
	}
	var ids []catalog.ID
	l.Each(func(t *catalog.Table) {
		if len(t.Mutations) > 0 {
			ids = append(ids, t.ID)
		}
	})
	for _, id := range ids {
		if err := c.settle(c.Catalog.Table(id)); err != nil {
			return err
		}
	}
	l.Step()
	return nil
}

func (c *change) settle(t *catalog.Table) error {
	var adds []catalog.Mutation
	for _, m := range slices.Clone(t.Mutations) {
		if m.Drop {
			continue
		}
		adds = append(adds, m)
		switch m.Kind {
		case catalog.MutateIndex:
			if x := t.Index(catalog.IndexID(m.ID)); x != nil {
				x.State = catalog.WriteOnly
				if err := c.fillHere(t, x); err != nil {
					return err
				}
			}
		case catalog.MutateCheck, catalog.MutateNotNull, catalog.MutateForeignKey:
			if err := c.o.validateMutation(c.ctx, c.kv, c.view, t, m); err != nil {
				return err
			}
		}
	}
	publish(t, adds)
	for len(t.Mutations) > 0 {
		n := len(t.Mutations)
		advanceDrops(t, slices.Clone(t.Mutations))
		if len(t.Mutations) == n && !slices.ContainsFunc(t.Indexes, func(x catalog.Index) bool { return x.State == catalog.DeleteOnly }) {
			return sqlstate.New(sqlstate.InternalError, "schemachange: a change of the temporary table \"%s\" does not end", t.Name)
		}
	}
	return nil
}

// usedBy are the views that read a relation, the session's own included, which its descriptor does not list.
func (c *change) usedBy(t *catalog.Table) []catalog.ID {
	l := c.Catalog.Local()
	if t.Temporary() || l.Empty() {
		return t.UsedBy
	}
	ids := slices.Clone(t.UsedBy)
	l.Each(func(v *catalog.Table) {
		if v.Kind == catalog.KindView && slices.Contains(v.DependsOn, t.ID) {
			ids = append(ids, v.ID)
		}
	})
	return ids
}
