package session

import (
	"fmt"

	"meridian/commit/protocol"
	"meridian/kv"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/scalar"
	"meridian/sql/session/txnstate"
	"meridian/sql/sqlstate"
)

// Tables whose commit protocol is not the leader's have no leaseholders: rows are read as committed, at the nearest replica, and a transaction that
// changes a row commits only if nobody else has changed it since it was read. So transactions that use them are READ COMMITTED, without lost updates. A client
// that has declared another level gets it: rows are read at one timestamp then, at a quorum of replicas. Where the level is only the server's default, a statement that is a transaction by itself gets
// READ COMMITTED, if it uses such tables alone; in other transactions the default stays what leaders' tables have.

// underProtocol refuses what the commit protocols of a query's tables exclude.
func (s *Session) underProtocol(q *bind.Query) error {
	weak, others := false, false
	for i := range q.Access {
		x := q.Access[i].Table
		if x == nil || x.Kind != catalog.KindTable {
			continue
		}
		p := x.Protocol.Traits()
		if err := s.excludes(q, x, p); err != nil {
			return err
		}
		weak, others = weak || !p.Levels, others || p.Levels && !x.Temporary()
	}
	if !weak {
		return nil
	}
	m := s.state.Modes()
	if m.Isolation == kv.ReadCommitted || m.Declared || q.AsOf != nil || s.tx != nil && s.tx.Historical() {
		return nil
	}
	if !others && s.state.Implicit() && s.state.First() && (s.endsTxn || s.syncNext) && s.tx != nil && !s.tx.Started() {
		m.Isolation = kv.ReadCommitted
		s.state.SetModes(m)
		s.tx.SetIsolation(kv.ReadCommitted)
	}
	s.leaderless = true
	return nil
}

// excludes refuses what the commit protocol of one of a query's tables excludes.
func (s *Session) excludes(q *bind.Query, t *catalog.Table, p protocol.Traits) error {
	table := func() string { return fmt.Sprintf("table \"%s\", whose commit protocol is %s", t.Name, t.Protocol) }
	switch {
	case q.Locking != "" && !p.Locks.Can():
		return sqlstate.New(sqlstate.FeatureNotSupported, "%s is not supported for %s", q.Locking, table()).WithHint("%s", p.Locks)
	case !p.Staleness.Can() && (s.bound != nil || bounded(q) || s.tx != nil && s.tx.Historical() && s.tx.Negotiated()):
		return sqlstate.New(sqlstate.FeatureNotSupported, "reads of bounded staleness are not supported for %s", table()).WithHint("%s", p.Staleness)
	}
	return nil
}

// bounded reports whether a query says how old its rows may be, rather than of when they are.
func bounded(q *bind.Query) bool {
	if q.AsOf == nil {
		return false
	}
	_, ok := scalar.BoundOf(q.AsOf)
	return ok
}

// errWeaker refuses a level of isolation that was declared after tables were used at a weaker one.
func errWeaker(m txnstate.Modes) error {
	return sqlstate.New(sqlstate.FeatureNotSupported, "isolation level %s is not supported for the tables that the transaction has used: they were read at READ COMMITTED", m.IsolationShown()).
		WithHint("Declare the level when the transaction begins.")
}
