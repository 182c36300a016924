package txnstate

import "meridian/sql/sqlstate"

// Savepoints are those of the open transaction, in order. M is what it takes to go back to one. A name may stand for several: then
// the last one is meant.
type Savepoints[M any] struct{ list []savepoint[M] }

type savepoint[M any] struct {
	name string
	mark M
}

// Len is how many there are.
func (s *Savepoints[M]) Len() int { return len(s.list) }

// Push is SAVEPOINT.
func (s *Savepoints[M]) Push(name string, mark M) { s.list = append(s.list, savepoint[M]{name, mark}) }

// Find returns the place of a savepoint, and its mark.
func (s *Savepoints[M]) Find(name string) (int, *M, error) {
	for i := len(s.list) - 1; i >= 0; i-- {
		if s.list[i].name == name {
			return i, &s.list[i].mark, nil
		}
	}
	return 0, nil, sqlstate.New(sqlstate.InvalidSavepoint, "savepoint %q does not exist", name)
}

// Release is RELEASE SAVEPOINT: it goes, and those that came after it.
func (s *Savepoints[M]) Release(at int) { s.list = s.list[:at] }

// Keep is ROLLBACK TO: those that came after it go.
func (s *Savepoints[M]) Keep(at int) { s.list = s.list[:at+1] }

// keptSavepoints is for how many the memory is kept from one transaction to the next.
const keptSavepoints = 16

// Clear forgets all of them.
func (s *Savepoints[M]) Clear() { s.list = s.list[:0:min(cap(s.list), keptSavepoints)] }
