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

// temporaries are the session's temporary relations: their descriptors, and the rows of tables. A rollback of the transaction undoes changes of both,
// and so does running it again (session.S2).
type temporaries struct {
	local *lease.Local
	rows  *temporary.Store // nil before the first relation
	kv    temporary.KV
	// account has the memory of the rows, as a part of the session's, up to the limit of the setting temporary_memory_limit.
	account memory.Account
	session *memory.Account
	limit   func() int64
	// plans are the plans that were made while there were temporary relations: names may mean something else to other sessions.
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

// through returns the interface by which statements read and write rows.
func (t *temporaries) through(tx *txn.Txn) exec.KV {
	if t.local.Empty() {
		return tx
	}
	return t.definitions(tx)
}

// definitions is through for data definition, which may make the first temporary table.
func (t *temporaries) definitions(tx *txn.Txn) exec.KV {
	if t.rows == nil {
		t.account.Begin(t.session, t.limit())
		t.rows = temporary.New(&t.account)
		t.local.Rows = func(x *catalog.Table) int64 { return t.rows.Count(keys.IndexSpan(x.ID, x.Primary().ID)) }
	}
	t.kv = temporary.KV{Txn: tx, Store: t.rows}
	t.rows.Step()
	return &t.kv
}

// cache returns the cache for the session's plans: the node's, or one of its own.
func (t *temporaries) cache(shared *plan.Cache) *plan.Cache {
	if t.local.Empty() {
		return shared
	}
	if t.plans == nil {
		t.plans = plan.NewCache(maxOwnPlans)
	}
	return t.plans
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

// atCommit carries out ON COMMIT DELETE ROWS and ON COMMIT DROP.
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

// drop drops everything, at the end of the session and for DISCARD ALL.
func (t *temporaries) drop() {
	t.local.Forget()
	if t.rows != nil {
		t.rows.Close()
		t.account.Close()
	}
	t.rows, t.local.Rows, t.plans = nil, nil, nil
}

// discard is DISCARD TEMP, which a rollback undoes like any other DROP.
func (t *temporaries) discard() error {
	t.local.DropAll()
	if t.rows == nil {
		return nil
	}
	var b txn.WriteBatch
	b.DeleteRange(keys.Span{Start: keys.TableKey(catalog.FirstLocalID), End: keys.TableSpan(catalog.LastLocalID).End})
	return t.rows.Write(&b)
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
