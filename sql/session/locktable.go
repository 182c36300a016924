package session

import (
	"context"
	"strings"

	"meridian/sql/session/plan"

	"meridian/kv"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
)

// lockTables is LOCK TABLE. The three weak modes lock nothing: from then on the transaction uses the table's version, as any statement on the
// table does. The other modes are locks of whole tables (lease.L6). The conflicts are PostgreSQL's with one exception: SHARE conflicts with SHARE.
func (s *Session) lockTables(ctx context.Context, c *bind.LockTable) error {
	s.ensureTxn()
	wait := kv.Block
	if c.NoWait {
		wait = kv.NoWait
	}
	s.cat.LockAhead(false, wait)
	defer s.cat.LockAhead(false, kv.Block)
	for _, t := range c.Tables {
		if err := s.lockTable(ctx, t, strings.ToUpper(c.Mode), wait, map[catalog.ID]bool{}); err != nil {
			return err
		}
	}
	s.viewCache = nil
	return nil
}

func (s *Session) lockTable(ctx context.Context, t *catalog.Table, mode string, wait kv.WaitPolicy, seen map[catalog.ID]bool) error {
	if seen[t.ID] {
		return nil
	}
	seen[t.ID] = true
	switch t.Kind {
	case catalog.KindSequence:
		return sqlstate.New(sqlstate.WrongObjectType, "cannot lock relation \"%s\"", t.Name).
			WithDetail("This operation is not supported for sequences.")
	case catalog.KindVirtual:
		return nil // it never changes
	case catalog.KindView:
		for _, id := range t.DependsOn {
			u, err := s.view().TableByID(ctx, id)
			if err != nil {
				return err
			}
			if u != nil && u.Kind != catalog.KindSequence {
				if err := s.lockTable(ctx, u, mode, wait, seen); err != nil {
					return err
				}
			}
		}
		return nil
	}
	out := catalog.ExcludeAll
	switch mode {
	case "ACCESS SHARE":
		return nil
	case "ROW SHARE":
		return s.mayWrite(ctx, t.ID, catalog.ExcludeLockers)
	case "ROW EXCLUSIVE":
		return s.mayWrite(ctx, t.ID, catalog.ExcludeWriters)
	case "SHARE UPDATE EXCLUSIVE":
		out = catalog.ExcludeNone
	case "SHARE", "SHARE ROW EXCLUSIVE":
		out = catalog.ExcludeWriters
	case "EXCLUSIVE":
		out = catalog.ExcludeLockers
	}
	return s.cat.LockTable(ctx, t.ID, out, wait)
}

func (s *Session) mayWrite(ctx context.Context, id catalog.ID, out catalog.Exclusion) error {
	for {
		if ok, err := s.cat.MayWrite(ctx, id, out); ok || err != nil {
			return err
		}
	}
}

// awaitTables waits until no lock keeps the statement from changing its tables, and returns the plan that is good then.
func (s *Session) awaitTables(ctx context.Context, p *plan.Plan) (*plan.Plan, error) {
	for {
		waited := false
		meet := func(id catalog.ID, out catalog.Exclusion) error {
			ok, err := s.cat.MayWrite(ctx, id, out)
			waited = waited || !ok
			return err
		}
		for i := range p.Query.Access {
			a := &p.Query.Access[i]
			if a.Privileges&(catalog.Insert|catalog.Update|catalog.Delete) == 0 {
				continue
			}
			if !p.Query.Writes {
				if err := meet(a.Table.ID, catalog.ExcludeLockers); err != nil {
					return nil, err
				}
				continue
			}
			if err := meet(a.Table.ID, catalog.ExcludeWriters); err != nil {
				return nil, err
			}
			for j := range a.Table.Foreign { // the rows that it refers to are locked
				if err := meet(a.Table.Foreign[j].RefTable, catalog.ExcludeLockers); err != nil {
					return nil, err
				}
			}
			for _, r := range a.Table.ReferencedBy { // actions of foreign keys may change them
				if err := meet(r.Table, catalog.ExcludeWriters); err != nil {
					return nil, err
				}
			}
		}
		if !waited {
			return p, nil
		}
		if p.Stmt == nil || p.Private {
			return nil, sqlstate.New(sqlstate.SerializationFailure, "the schema was changed by another transaction")
		}
		if good, err := s.reuse(p); err != nil {
			return nil, err
		} else if good != nil {
			p = good
			continue
		}
		now, err := s.planFor(ctx, p.Stmt, p.Params)
		if err != nil {
			return nil, err
		}
		if now.Query == nil || !plan.SameColumns(p.Columns, now.Columns) || len(now.Params) != len(p.Params) {
			return nil, sqlstate.New(sqlstate.FeatureNotSupported, "cached plan must not change result type")
		}
		p = now
	}
}
