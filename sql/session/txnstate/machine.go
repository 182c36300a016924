package txnstate

import "meridian/sql/sqlstate"

// State is the state of a session's transaction.
type State uint8

const (
	// None: no transaction is open.
	None State = iota
	// Implicit: a transaction without BEGIN, which ends with its query string, or with Sync.
	Implicit
	// Explicit: a transaction that BEGIN opened.
	Explicit
	// Failed: an explicit transaction in which a statement has failed. Only its end, and ROLLBACK TO, are accepted.
	Failed
)

func (s State) String() string { return [...]string{"none", "implicit", "explicit", "failed"}[s] }

// Machine is the state of a session's transaction.
type Machine struct {
	state State
	// ending: COMMIT runs; doomed: no savepoint can save it.
	ending, doomed bool
	// ran: a statement has run in it; wrote: a statement that writes.
	ran, wrote bool
	// several is set while a string of more than one statement runs, which counts as a transaction block for InBlock.
	several bool
	modes   Modes
	// begun is the state at its begin, to which Restart returns.
	begun struct {
		state State
		modes Modes
	}
}

// State returns the present state.
func (m *Machine) State() State { return m.state }

// Open reports whether there is a transaction, failed or not.
func (m *Machine) Open() bool { return m.state != None }

// Implicit reports whether a transaction without BEGIN is open.
func (m *Machine) Implicit() bool { return m.state == Implicit }

// Explicit reports whether a transaction with BEGIN is open that has not failed.
func (m *Machine) Explicit() bool { return m.state == Explicit }

// Failed reports whether the transaction has failed.
func (m *Machine) Failed() bool { return m.state == Failed }

// Block reports whether a transaction block is open, failed or not.
func (m *Machine) Block() bool { return m.state == Explicit || m.state == Failed }

// Status is the transaction status of ReadyForQuery.
func (m *Machine) Status() byte { return "IITE"[m.state] }

// Modes are the transaction's characteristics.
func (m *Machine) Modes() Modes { return m.modes }

// SetModes replaces the transaction's characteristics.
func (m *Machine) SetModes(to Modes) { m.modes = to }

// Begin opens a transaction.
func (m *Machine) Begin(s State, modes Modes) {
	m.state, m.modes = s, modes
	m.begun.state, m.begun.modes = s, modes
	m.ran, m.wrote = false, false
}

// Promote makes an implicit transaction an explicit one: BEGIN within a query string.
func (m *Machine) Promote() { m.state = Explicit }

// End closes the transaction.
func (m *Machine) End() { m.state, m.ending, m.doomed = None, false, false }

// Restart takes the transaction back to its begin, to be run again.
func (m *Machine) Restart() {
	m.state, m.modes = m.begun.state, m.begun.modes
	m.ending, m.doomed = false, false
}

// Several notes whether the running statement came in a string with others.
func (m *Machine) Several(on bool) { m.several = on }

// Statement notes that a statement begins.
func (m *Machine) Statement() { m.ending = false }

// StatementEnded notes that a statement has run, with whatever result.
func (m *Machine) StatementEnded() { m.ran = true }

// Ran reports whether a statement has run in the transaction.
func (m *Machine) Ran() bool { return m.ran }

// Writes notes a statement that writes, and Wrote reports whether there was one.
func (m *Machine) Writes()     { m.wrote = true }
func (m *Machine) Wrote() bool { return m.wrote }

// Consequence is the session's task after a failure.
type Consequence uint8

const (
	// Nothing has to be done.
	Nothing Consequence = iota
	// RollBack: the transaction is over.
	RollBack
	// Release: the transaction is failed, and no savepoint can save it: its locks are released without waiting for the client's ROLLBACK.
	Release
)

// Fail notes that a statement, or another message, failed.
func (m *Machine) Fail(savepoints int) Consequence {
	switch {
	case m.state == Implicit, m.state == Explicit && m.ending:
		return RollBack // whose last step is End
	case m.state != Explicit:
		return Nothing
	}
	m.state = Failed
	if savepoints == 0 || m.doomed {
		return Release
	}
	return Nothing
}

// Savable reports whether the transaction can continue from a savepoint if a statement fails now.
func (m *Machine) Savable(savepoints int) bool {
	return m.state == Explicit && savepoints > 0 && !m.doomed && !m.ending
}

// FailedAgain notes that a statement has failed in its replay in the same way as in its first run.
func (m *Machine) FailedAgain() { m.state = Failed }

// Restore is ROLLBACK TO: the transaction continues.
func (m *Machine) Restore() { m.state = Explicit }

// Point is the state of a transaction when its statement failed, before it was run again.
type Point struct {
	state  State
	ending bool
}

// Point returns the present point.
func (m *Machine) Point() Point { return Point{m.state, m.ending} }

// Interrupted notes that the statement was cancelled while its transaction ran again: it is at the point, and doomed if it is explicit, since its
// earlier work is lost.
func (m *Machine) Interrupted(p Point) {
	if m.state != None {
		m.state, m.ending, m.doomed = p.state, p.ending, p.state != Implicit
	}
}

// Lost notes that the transaction can't be run again: it is at the point, and no savepoint can save it. Fail follows.
func (m *Machine) Lost(p Point) {
	if m.state != None {
		m.state = p.state
		if p.state == Failed {
			m.state = Explicit // for Fail, which ends it
		}
	}
	m.doomed, m.ending = m.state == Explicit, p.ending
}

// Ending is the effect of COMMIT.
type Ending uint8

const (
	// NothingOpen: there is no transaction; the client gets a warning.
	NothingOpen Ending = iota
	// CommitImplicit: an implicit transaction is committed; the client gets a warning.
	CommitImplicit
	// Commit: an explicit transaction is committed.
	Commit
	// RollBackFailed: a failed transaction is rolled back.
	RollBackFailed
)

// Committing returns the effect of COMMIT. From then on the transaction is ending, if it is going to commit.
func (m *Machine) Committing() Ending {
	e := [...]Ending{None: NothingOpen, Implicit: CommitImplicit, Explicit: Commit, Failed: RollBackFailed}[m.state]
	if e == Commit || e == CommitImplicit {
		m.ending = true
	}
	return e
}

// NeedBlock refuses a command outside of transaction blocks.
func (m *Machine) NeedBlock(what string) error {
	if !m.Block() {
		return sqlstate.New(sqlstate.NoActiveTransaction, "%s can only be used in transaction blocks", what)
	}
	return nil
}

// InBlock reports whether a command whose effect ends with its transaction makes sense: it does not if the transaction ends with the command.
func (m *Machine) InBlock() bool { return m.Block() || m.several }

// First reports whether nothing has run in an implicit transaction yet.
func (m *Machine) First() bool { return m.state == Implicit && !m.ran }

// StandAlone refuses a command that commits by itself, if other statements share its transaction. bound says that it comes by
// Execute: then the others are in its pipeline.
func (m *Machine) StandAlone(what string, bound bool) error {
	switch {
	case m.InBlock() || m.state == Implicit && !bound && m.ran:
		return sqlstate.New(sqlstate.ActiveTransaction, "%s cannot run inside a transaction block", what)
	case m.state == Implicit && m.ran:
		return sqlstate.New(sqlstate.ActiveTransaction, "%s cannot be executed within a pipeline", what)
	}
	return nil
}
