package session

import (
	"context"
	"maps"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/exec"
	"meridian/sql/memory"
	"meridian/sql/sqlstate"
	"meridian/txn"
)

// Deferrable constraints. A statement defers checks of constraints (exec.Deferrals); they are carried out before the
// transaction commits, or by SET CONSTRAINTS IMMEDIATE, over the rows as they are then. A check keeps values and not rows,
// so it finds whether the violation is still there.

// deferrals are the deferred checks of the open transaction.
type deferrals struct {
	memory func() *memory.Account // of the open transaction
	deferralState
}

// deferralState is their state at a moment, which a savepoint keeps. Its values are replaced and never changed; only queue is appended to.
type deferralState struct {
	// all and named are the choices of SET CONSTRAINTS: named has precedence over all, and all over the constraint's definition.
	all   *bool
	named map[exec.Constraint]bool
	queue []exec.DeferredCheck
}

func (d *deferrals) mark() deferralState {
	m := d.deferralState
	m.queue = m.queue[:len(m.queue):len(m.queue)]
	return m
}

func (d *deferrals) reset() { d.deferralState = deferralState{} }

// Deferred implements exec.Deferrals.
func (d *deferrals) Deferred(c exec.Constraint, initially bool) bool {
	if on, ok := d.named[c]; ok {
		return on
	}
	if d.all != nil {
		return *d.all
	}
	return initially
}

// deferredSize is roughly the memory of a check besides its values.
const deferredSize = 96

// Defer implements exec.Deferrals.
func (d *deferrals) Defer(c exec.DeferredCheck) error {
	n := int64(deferredSize)
	for _, v := range c.Values {
		n += v.Bytes()
	}
	if err := d.memory().Grow(n); err != nil {
		return err
	}
	d.queue = append(d.queue, c)
	return nil
}

// due divides the waiting checks into those of the constraints that f selects, and the others; nil selects all.
func (d *deferrals) due(f func(exec.Constraint) bool) (now, later []exec.DeferredCheck) {
	if f == nil {
		return d.queue, nil
	}
	for _, c := range d.queue {
		if f(c.Constraint) {
			now = append(now, c)
		} else {
			later = append(later, c)
		}
	}
	return now, later
}

// setAll is SET CONSTRAINTS ALL, and set is SET CONSTRAINTS with names.
func (d *deferrals) setAll(deferred bool) { d.all, d.named = &deferred, nil }

func (d *deferrals) set(meant map[exec.Constraint]bool, deferred bool) {
	named := maps.Clone(d.named)
	if named == nil {
		named = map[exec.Constraint]bool{}
	}
	for k := range meant {
		named[k] = deferred
	}
	d.named = named
}

// checkDeferred carries out the waiting checks of the constraints that f selects; nil selects all.
func (s *Session) checkDeferred(ctx context.Context, f func(exec.Constraint) bool) error {
	now, later := s.deferred.due(f)
	if len(now) == 0 {
		return nil
	}
	env := *s.environmentFor(nil, false)
	if err := exec.CheckDeferred(ctx, &env, exec.Options{View: s.view()}, now); err != nil {
		return s.located(err)
	}
	s.deferred.queue = later
	return nil
}

// setConstraints is SET CONSTRAINTS.
func (s *Session) setConstraints(ctx context.Context, c *bind.SetConstraints) error {
	if !s.state.InBlock() {
		s.out.Notice(&sqlstate.Error{Code: sqlstate.NoActiveTransaction, Message: "SET CONSTRAINTS can only be used in transaction blocks"})
	}
	s.ensureTxn()
	if len(c.Names) == 0 {
		if !c.Deferred {
			if err := s.checkDeferred(ctx, nil); err != nil {
				return err
			}
		}
		s.deferred.setAll(c.Deferred)
		return nil
	}
	meant := map[exec.Constraint]bool{}
	for _, n := range c.Names {
		if n.Database != "" && n.Database != s.client.Database {
			return sqlstate.New(sqlstate.FeatureNotSupported, "cross-database references are not implemented: \"%s.%s.%s\"", n.Database, n.Schema, n.Name)
		}
		schemas := []string{n.Schema}
		if n.Schema == "" {
			schemas = s.env.SearchPath(false)
		}
		if own := s.temp.local.Schema(); own != nil && (n.Schema == "" || n.Schema == own.Name || n.Schema == catalog.TemporarySchema) {
			var tables []*catalog.Table
			s.temp.local.Each(func(t *catalog.Table) { tables = append(tables, t) })
			found, known, err := deferrableIn(tables, n.Name, c.Deferred)
			if err != nil {
				return err
			}
			for _, k := range found {
				meant[k] = true
			}
			if known {
				continue
			}
		}
		found, err := deferrableNamed(ctx, s.view(), schemas, n.Schema != "", n.Name, c.Deferred)
		if err != nil {
			return err
		}
		for _, k := range found {
			meant[k] = true
		}
	}
	if !c.Deferred {
		if err := s.checkDeferred(ctx, func(k exec.Constraint) bool { return meant[k] }); err != nil {
			return err
		}
	}
	s.deferred.set(meant, c.Deferred)
	return nil
}

// deferrableNamed finds the constraints of a name in the first of the given schemas that has any. A schema that the statement names must exist. If
// the constraints are to be deferred, all of them must be deferrable.
func deferrableNamed(ctx context.Context, v catalog.View, schemas []string, given bool, name string, deferred bool) ([]exec.Constraint, error) {
	tables, err := v.Tables(ctx, v.CurrentDatabase())
	if err != nil {
		return nil, err
	}
	for _, sn := range schemas {
		sc, err := v.Schema(ctx, v.CurrentDatabase(), sn)
		if err != nil {
			return nil, err
		}
		if sc == nil {
			if given {
				return nil, sqlstate.New(sqlstate.InvalidSchemaName, "schema \"%s\" does not exist", sn)
			}
			continue
		}
		var there []*catalog.Table
		for _, t := range tables {
			if t.Schema == sc.ID {
				there = append(there, t)
			}
		}
		if found, known, err := deferrableIn(there, name, deferred); known || err != nil {
			return found, err
		}
	}
	return nil, sqlstate.New(sqlstate.UndefinedObject, "constraint \"%s\" does not exist", name)
}

// deferrableIn finds the constraints of a name among some tables; known reports whether there is any.
func deferrableIn(tables []*catalog.Table, name string, deferred bool) (found []exec.Constraint, known bool, err error) {
	fixed := false
	for _, t := range tables {
		for i := range t.Foreign {
			if k := &t.Foreign[i]; k.Name == name {
				if known = true; k.Deferrable {
					found = append(found, exec.Constraint{Table: t.ID, Foreign: k.ID})
				} else {
					fixed = true
				}
			}
		}
		for i := range t.Indexes {
			if x := &t.Indexes[i]; x.Name == name && (x.Constraint || x.Primary) {
				if known = true; x.Deferrable {
					found = append(found, exec.Constraint{Table: t.ID, Index: x.ID})
				} else {
					fixed = true
				}
			}
		}
		for i := range t.Checks {
			if t.Checks[i].Name == name {
				known, fixed = true, true
			}
		}
	}
	if fixed && deferred {
		return nil, known, sqlstate.New(sqlstate.WrongObjectType, "constraint \"%s\" is not deferrable", name)
	}
	return found, known, nil
}

// mayChange refuses data definition on a table for which checks wait, as PostgreSQL does.
func (d *deferrals) mayChange(stmt bind.Statement) error {
	if len(d.queue) == 0 {
		return nil
	}
	refuse := func(what string, t *catalog.Table) error {
		if t == nil {
			return nil
		}
		for _, c := range d.queue {
			if c.Table == t.ID {
				return sqlstate.New(sqlstate.ObjectInUse, "cannot %s \"%s\" because it has pending trigger events", what, t.Name)
			}
		}
		return nil
	}
	var tables []*catalog.Table
	what := "TRUNCATE"
	switch c := stmt.(type) {
	case *bind.AlterTable:
		what, tables = "ALTER TABLE", []*catalog.Table{c.Table}
	case *bind.Truncate:
		tables = c.Tables
	case *bind.DropRelation:
		what, tables = "DROP TABLE", c.Tables
	}
	for _, t := range tables {
		if err := refuse(what, t); err != nil {
			return err
		}
	}
	return nil
}

// looker implements exec.Looker. The transaction that has failed may have left intents in some of its ranges, and its record may be alive: it is rolled
// back first, because it would be waited for otherwise, by a statement that it waits for.
type looker Session

func (l *looker) Look(ctx context.Context, ks []keys.Key) ([][]byte, error) {
	if l.tx != nil {
		if err := l.tx.Rollback(ctx); err != nil {
			return nil, err
		}
	}
	tx := l.srv.DB.Begin(txn.TxnOptions{ReadOnly: true})
	vs, err := tx.GetMany(ctx, ks, kv.NoLock, kv.Block)
	if e := tx.Rollback(ctx); err == nil {
		err = e
	}
	return vs, err
}
