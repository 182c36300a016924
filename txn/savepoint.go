package txn

import (
	"meridian/kv"
)

// Savepoint marks a state of a transaction to which it can return.
type Savepoint struct {
	id      kv.TxnID
	attempt uint32
	seq     kv.Seq
	loads   uint32
	depth   int // of savepoints, this one included
}

// StepStatement lets later reads see all writes so far (txn.TX4).
func (t *Txn) StepStatement() {
	t.core.StepStatement()
	t.load.step()
}

// Savepoint marks the present state.
func (t *Txn) Savepoint() Savepoint {
	t.load.savepoints++
	return Savepoint{depth: t.load.savepoints, id: t.core.Txn().ID, attempt: t.core.Txn().Attempt, seq: t.core.Seq(), loads: t.load.stamp}
}

// RollbackTo undoes all writes since s; locks stay. It fails if the transaction has restarted since.
func (t *Txn) RollbackTo(s Savepoint) error {
	if err := t.usable(); err != nil {
		return err
	}
	if s.id != t.core.Txn().ID || s.attempt != t.core.Txn().Attempt || s.seq > t.core.Seq() {
		return ErrNoSavepoint
	}
	if s.loads != t.load.stamp {
		return ErrLoaded
	}
	t.core.RollbackTo(s.seq)
	t.core.StepStatement()
	t.load.savepoints = s.depth
	return nil
}

// Release forgets s and the savepoints after it; writes stay.
func (t *Txn) Release(s Savepoint) {
	if s.id == t.core.Txn().ID && s.attempt == t.core.Txn().Attempt {
		t.load.savepoints = min(t.load.savepoints, s.depth-1)
	}
}
