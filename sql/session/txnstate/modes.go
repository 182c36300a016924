package txnstate

import (
	"strings"

	"meridian/kv"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
)

// Modes are a transaction's characteristics.
type Modes struct {
	Isolation  kv.Isolation
	ReadOnly   bool
	Deferrable bool
	// Declared says that the level was asked for, by the session or the transaction: it is not the server's default.
	Declared bool
	// Uncommitted: READ COMMITTED was requested under the name READ UNCOMMITTED.
	Uncommitted bool
}

// IsolationName is the name of a level.
func IsolationName(i kv.Isolation) string {
	return [...]string{"serializable", "repeatable read", "read committed"}[i]
}

// IsolationOf is the level of a name.
func IsolationOf(name string) kv.Isolation {
	switch strings.ToLower(name) {
	case "repeatable read":
		return kv.RepeatableRead
	case "read committed", readUncommitted:
		return kv.ReadCommitted // as in PostgreSQL, no level reads what is not committed
	}
	return kv.Serializable
}

const readUncommitted = "read uncommitted"

// WithIsolation is m at the level of a name.
func (m Modes) WithIsolation(name string) Modes {
	m.Isolation, m.Uncommitted = IsolationOf(name), name == readUncommitted
	return m
}

// IsolationShown is the level under the name by which it was requested.
func (m Modes) IsolationShown() string {
	if m.Uncommitted {
		return readUncommitted
	}
	return IsolationName(m.Isolation)
}

// With is m with the characteristics of a BEGIN.
func (m Modes) With(ask parse.TxnModes) Modes {
	if ask.Isolation != "" {
		m = m.WithIsolation(ask.Isolation)
		m.Declared = true
	}
	if ask.ReadOnly != nil {
		m.ReadOnly = *ask.ReadOnly
	}
	if ask.Deferrable != nil {
		m.Deferrable = *ask.Deferrable
	}
	return m
}

// Change is m with the characteristics of a SET TRANSACTION, as far as they can be changed once the transaction has begun. started says that a
// query has read or written something.
func (m Modes) Change(ask parse.TxnModes, started bool, savepoints int) (Modes, error) {
	to := m.With(ask)
	refuse := func(what string) (Modes, error) { return m, sqlstate.New(sqlstate.ActiveTransaction, "%s", what) }
	within := savepoints > 0
	switch {
	case to.Isolation != m.Isolation || to.Uncommitted != m.Uncommitted:
		if started {
			return refuse("SET TRANSACTION ISOLATION LEVEL must be called before any query")
		}
		if within {
			return refuse("SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction")
		}
	case m.ReadOnly && !to.ReadOnly && within:
		return refuse("cannot set transaction read-write mode inside a read-only transaction")
	case m.ReadOnly && !to.ReadOnly && started:
		return refuse("transaction read-write mode must be set before any query")
	case ask.Deferrable != nil && within:
		return refuse("SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction")
	case ask.Deferrable != nil && started:
		return refuse("SET TRANSACTION [NOT] DEFERRABLE must be called before any query")
	}
	return to, nil
}
