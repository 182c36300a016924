package session

import (
	"meridian/kv"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
	"meridian/version"
)

// External consistency (txn.TX11 to txn.TX14). A transaction has it if its session says so, or as soon as it uses a table that has it; from then on it has it as a whole.

// external tells the transaction, before a query runs, what external consistency requires of it.
func (s *Session) external(q *bind.Query) error {
	if !s.wantsExternal(q) {
		if s.tx.External() {
			s.tx.LockReads(false)
		}
		return nil
	}
	if !s.srv.Catalog.Active(version.ExternalConsistency) {
		return sqlstate.New(sqlstate.FeatureNotSupported, "there is no external consistency before the upgrade of the cluster is finalized").
			WithHint("Finalize it by meridian upgrade finalize, when all nodes have the later binary.")
	}
	only := !q.Writes && !q.Locks
	alone := only && s.state.Implicit() && s.state.First() && (s.endsTxn || s.syncNext) && !s.tx.Started()
	if !s.tx.External() {
		s.tx.BeExternal()
		if err := s.cat.StillValid(); err != nil {
			return err
		}
	}
	s.tx.LockReads(only && !alone && s.tx.Isolation() == kv.Serializable)
	return nil
}

// wantsExternal reports whether a query has to be part of an externally consistent transaction.
func (s *Session) wantsExternal(q *bind.Query) bool {
	if s.tx == nil {
		return false
	}
	if s.tx.External() {
		return true
	}
	stored := false
	for i := range q.Access {
		if t := q.Access[i].Table; t != nil && t.Kind == catalog.KindTable && !t.Temporary() {
			if t.External {
				return true
			}
			stored = true
		}
	}
	return stored && s.frequent().external
}
