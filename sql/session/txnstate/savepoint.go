package txnstate

import "meridian/sql/sqlstate"

// Savepoints are the savepoints of the open transaction, in order. M is the state to which ROLLBACK TO returns. If several have the same name,
// the last one is meant.
type Savepoints[M any] struct{ list []savepoint[M] }

type savepoint[M any] struct {
	name string
	mark M
}

// Len is the number of savepoints.
func (s *Savepoints[M]) Len() int { return len(s.list) }

// Push is SAVEPOINT.
func (s *Savepoints[M]) Push(name string, mark M) { s.list = append(s.list, savepoint[M]{name, mark}) }

// Find returns the index of a savepoint, and its mark.
func (s *Savepoints[M]) Find(name string) (int, *M, error) {
	for i := len(s.list) - 1; i >= 0; i-- {
		if s.list[i].name == name {
			return i, &s.list[i].mark, nil
		}
	}
	return 0, nil, sqlstate.New(sqlstate.InvalidSavepoint, "savepoint %q does not exist", name)
}

// Last is the mark of the last savepoint; nil if there is none.
func (s *Savepoints[M]) Last() *M {
	if len(s.list) == 0 {
		return nil
	}
	return &s.list[len(s.list)-1].mark
}

// Release is RELEASE SAVEPOINT: it drops the savepoint and those after it.
func (s *Savepoints[M]) Release(at int) { s.list = s.list[:at] }

// Keep is ROLLBACK TO: it drops the savepoints after this one.
func (s *Savepoints[M]) Keep(at int) { s.list = s.list[:at+1] }

// keptSavepoints is the number of savepoints whose memory is kept from one transaction to the next.
const keptSavepoints = 16

// Clear drops all savepoints.
func (s *Savepoints[M]) Clear() { s.list = s.list[:0:min(cap(s.list), keptSavepoints)] }
