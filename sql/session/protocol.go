package session

import (
	"fmt"

	"meridian/kv"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/session/txnstate"
	"meridian/sql/sqlstate"
)

// Tables whose commit protocol is not the leader's have no leaseholders: rows are read as committed, at the nearest replica, and a transaction that
// changes a row commits only if nobody else has changed it since it was read. So transactions that use them are READ COMMITTED, without lost updates. A client
// that has declared another level is refused. Where the level is only the server's default, a statement that is a transaction by itself gets
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
	case q.AsOf != nil || s.bound != nil || s.tx != nil && s.tx.Historical():
		return sqlstate.New(sqlstate.FeatureNotSupported, "reads of the past are not supported for %s", table).
			WithHint("Leave out AS OF SYSTEM TIME, and set default_transaction_use_follower_reads to off. The nearest replica serves these reads in any case.")
	}
	m := s.state.Modes()
	switch {
	case m.Isolation == kv.ReadCommitted:
		return nil
	case m.Declared:
		return errWeaker(table, m)
	}
	if !others && s.state.Implicit() && s.state.First() && (s.endsTxn || s.syncNext) && s.tx != nil && !s.tx.Started() {
		m.Isolation = kv.ReadCommitted
		s.state.SetModes(m)
		s.tx.SetIsolation(kv.ReadCommitted)
	}
	s.leaderless = true
	return nil
}

// errWeaker refuses a level of isolation that was declared.
func errWeaker(table string, m txnstate.Modes) error {
	return sqlstate.New(sqlstate.FeatureNotSupported, "isolation level %s is not supported for %s", m.IsolationShown(), table).
		WithHint("Declare READ COMMITTED, or no level: updates are not lost at that level either. Or use a table with the commit protocol leader.")
}
