package session

import (
	"meridian/keys"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/exec"
	"meridian/sql/memory"
	"meridian/sql/session/plan"
	"meridian/sql/temporary"
	"meridian/txn"
)

// temporaries are the session's temporary relations: their descriptors, and the rows of tables. Both follow the transaction, and what
// is undone when it is run again (session.S2).
type temporaries struct {
	local *lease.Local
	rows  *temporary.Store // nil before the first relation
	kv    temporary.KV
	// account is what the rows hold.
	account memory.Account
	// plans are those that were made while there were temporary relations: names may mean something else to other sessions.
	plans *plan.Cache
}

// tempMark is a state of the temporaries.
type tempMark struct {
	local lease.LocalMark
	rows  temporary.Mark
	has   bool
}

// maxOwnPlans bounds the plans that a session with temporary relations keeps for itself.
const maxOwnPlans = 64

// beginCatalog begins the catalogue's part of the open transaction.
func (s *Session) beginCatalog() {
	s.cat, s.viewCache = s.srv.Catalog.Begin(s.tx), nil
	s.cat.SetLocal(s.temp.local)
}

// kv is what statements read and write rows through.
func (s *Session) kv() exec.KV {
	if s.temp.local.Empty() {
		return s.tx
	}
	return s.definitionKV()
}

// definitionKV is kv for data definition, which may make the first temporary table.
func (s *Session) definitionKV() exec.KV {
	t := &s.temp
	if t.rows == nil {
		t.account.Begin(s.memory, int64(s.limit(temporary.Setting)))
		t.rows = temporary.New(&t.account)
		t.local.Rows = func(x *catalog.Table) int64 { return t.rows.Count(keys.IndexSpan(x.ID, x.Primary().ID)) }
	}
	t.kv = temporary.KV{Txn: s.tx, Store: t.rows}
	t.rows.Step()
	return &t.kv
}

// plans is the cache for plans of the session's statements.
func (s *Session) plans() *plan.Cache {
	if s.temp.local.Empty() {
		return s.srv.plans
	}
	if s.temp.plans == nil {
		s.temp.plans = plan.NewCache(maxOwnPlans)
	}
	return s.temp.plans
}

// commit is called when the transaction has committed: it can't fail.
func (t *temporaries) commit() {
	if t.local.Empty() {
		return
	}
	t.atCommit()
	t.local.Commit()
	if t.rows != nil {
		t.rows.Commit()
	}
	if t.local.Empty() {
		t.plans = nil
	}
}

// atCommit does what ON COMMIT says.
func (t *temporaries) atCommit() {
	var b txn.WriteBatch
	t.local.Each(func(x *catalog.Table) {
		if x.OnCommit != catalog.PreserveRows {
			b.DeleteRange(keys.TableSpan(x.ID))
		}
	})
	if b.Len() == 0 {
		return
	}
	if t.rows != nil {
		t.rows.Write(&b) // deleting does not fail
	}
	t.local.DropAtCommit()
}

func (t *temporaries) rollback() {
	if t.local.Empty() {
		return
	}
	t.local.Rollback()
	if t.rows != nil {
		t.rows.Rollback()
	}
}

func (t *temporaries) mark() tempMark {
	if t.local.Empty() {
		return tempMark{}
	}
	m := tempMark{local: t.local.Mark(), has: t.rows != nil}
	if m.has {
		m.rows = t.rows.Mark()
	}
	return m
}

func (t *temporaries) rollbackTo(m tempMark) {
	if t.local.Empty() {
		return
	}
	t.local.RollbackTo(m.local)
	switch {
	case m.has:
		t.rows.RollbackTo(m.rows)
	case t.rows != nil:
		t.rows.Rollback() // there were none before the transaction
	}
}

// dropTemporaries drops everything, at the end of the session and for DISCARD.
func (s *Session) dropTemporaries() {
	t := &s.temp
	t.local.Forget()
	if t.rows != nil {
		t.rows.Close()
		t.account.Close()
	}
	t.rows, t.local.Rows, t.plans, s.viewCache = nil, nil, nil, nil
}

// discardTemporaries is DISCARD TEMP, which a rollback undoes like any other DROP.
func (s *Session) discardTemporaries() error {
	if s.temp.local.Empty() {
		return nil
	}
	s.ensureTxn()
	s.temp.local.DropAll()
	if s.temp.rows != nil {
		var b txn.WriteBatch
		b.DeleteRange(keys.Span{Start: keys.TableKey(catalog.FirstLocalID), End: keys.TableSpan(catalog.LastLocalID).End})
		if err := s.temp.rows.Write(&b); err != nil {
			return err
		}
	}
	s.viewCache = nil
	return nil
}

// writesTemporary reports whether a query changes and locks rows of temporary tables only, which a READ ONLY transaction may.
func writesTemporary(q *bind.Query) bool {
	for i := range q.Access {
		if x := &q.Access[i]; x.Privileges&^catalog.Select != 0 && !x.Table.Temporary() {
			return false
		}
	}
	return true
}
