package session

import (
	"fmt"

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
	var t *catalog.Table
	others := false
	for i := range q.Access {
		switch x := q.Access[i].Table; {
		case x == nil || x.Kind != catalog.KindTable:
		case x.Protocol != 0:
			t = x
		case !x.Temporary():
			others = true
		}
	}
	if t == nil {
		return nil
	}
	table := fmt.Sprintf("table \"%s\", whose commit protocol is %s", t.Name, t.Protocol)
	switch {
	case q.Locking != "":
		return sqlstate.New(sqlstate.FeatureNotSupported, "%s is not supported for %s", q.Locking, table).
			WithHint("An UPDATE or DELETE commits only if its rows are still as they were read; no lock is needed for that.")
	case s.bound != nil || bounded(q) || s.tx != nil && s.tx.Historical() && s.tx.Negotiated():
		return sqlstate.New(sqlstate.FeatureNotSupported, "reads of bounded staleness are not supported for %s", table).
			WithHint("Use AS OF SYSTEM TIME with a timestamp. Or leave it out: the nearest replica serves reads of the present, at READ COMMITTED.")
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
