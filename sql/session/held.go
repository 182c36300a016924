package session

import "meridian/sql/memory"

// The memory of a session in addition to its statements, portals and their rows is small, unless a client makes it large: it sets
// parameters to texts of megabytes (parameter.Values), or a million savepoints. So that is accounted for too (I9), in estimates of ours.

// savepointBytes is what a savepoint occupies besides its name and the list of settings.
const savepointBytes = 512

// txnMemory is the account of what the open transaction holds in the session, until it ends.
func (s *Session) txnMemory() *memory.Account {
	if s.inTxn == nil {
		s.inTxn = s.memory.NewStatement(0)
	}
	return s.inTxn
}

// closeTxnMemory gives back what the transaction held.
func (s *Session) closeTxnMemory() {
	if s.inTxn != nil {
		s.inTxn.Close()
	}
	s.params.Settle()
}

// holdSavepoint takes the memory of a savepoint, which has a copy of the list of settings.
func (s *Session) holdSavepoint(name string) error {
	return s.txnMemory().Grow(savepointBytes + int64(len(name)) + s.params.MarkBytes())
}
