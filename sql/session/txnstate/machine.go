package txnstate

import "meridian/sql/sqlstate"

// State is where a session's transaction is.
type State uint8

const (
	// None: no transaction is open.
	None State = iota
	// Implicit: one that ends with its query string, or with Sync.
	Implicit
	// Explicit: one that BEGIN opened.
	Explicit
	// Failed: an explicit one in which a statement has failed. Only its end, and ROLLBACK TO, are accepted.
	Failed
)

func (s State) String() string { return [...]string{"none", "implicit", "explicit", "failed"}[s] }

// Machine is the state of a session's transaction.
type Machine struct {
	state State
	// ending: COMMIT runs; doomed: no savepoint can save it.
	ending, doomed bool
	// ran: a statement has run in it; wrote: one that writes.
	ran, wrote bool
	// several is set while a string of more than one statement runs, which is a transaction block to commands that ask.
	several bool
	modes   Modes
	// begun is how it began, to which Restart goes back.
	begun struct {
		state State
		modes Modes
	}
}

// State is the present one.
func (m *Machine) State() State { return m.state }

// Open reports whether there is a transaction, failed or not.
func (m *Machine) Open() bool { return m.state != None }

// Implicit reports whether a transaction is open that nobody began.
func (m *Machine) Implicit() bool { return m.state == Implicit }

// Explicit reports whether a transaction is open that was begun and has not failed.
func (m *Machine) Explicit() bool { return m.state == Explicit }

// Failed reports whether the transaction has failed.
func (m *Machine) Failed() bool { return m.state == Failed }

// Block reports whether a transaction block is open, failed or not.
func (m *Machine) Block() bool { return m.state == Explicit || m.state == Failed }

// Status is the transaction status of ReadyForQuery.
func (m *Machine) Status() byte { return "IITE"[m.state] }

// Modes are the transaction's characteristics.
func (m *Machine) Modes() Modes { return m.modes }

// SetModes replaces them.
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

// Restart takes the transaction back to how it began, to be run again.
func (m *Machine) Restart() {
	m.state, m.modes = m.begun.state, m.begun.modes
	m.ending, m.doomed = false, false
}

// Several says whether the statements that run come in one string.
func (m *Machine) Several(on bool) { m.several = on }

// Statement notes that a statement begins.
func (m *Machine) Statement() { m.ending = false }

// StatementEnded notes that one has run, with whatever result.
func (m *Machine) StatementEnded() { m.ran = true }

// Ran reports whether a statement has run in the transaction.
func (m *Machine) Ran() bool { return m.ran }

// Writes notes a statement that writes, Wrote that there was one.
func (m *Machine) Writes()     { m.wrote = true }
func (m *Machine) Wrote() bool { return m.wrote }

// Consequence is what a failure asks for.
type Consequence uint8

const (
	// Nothing is to be done.
	Nothing Consequence = iota
	// RollBack: the transaction is over.
	RollBack
	// Release: it is failed, and nothing of it can be kept: its locks must not wait for the client to say so.
	Release
)

// Fail notes that a statement, or another message, failed.
func (m *Machine) Fail(savepoints int) Consequence {
	switch {
	case m.state == Implicit, m.state == Explicit && m.ending:
		return RollBack // by which End is called
	case m.state != Explicit:
		return Nothing
	}
	m.state = Failed
	if savepoints == 0 || m.doomed {
		return Release
	}
	return Nothing
}

// Savable reports whether a statement that fails now leaves a transaction that a savepoint can save.
func (m *Machine) Savable(savepoints int) bool {
	return m.state == Explicit && savepoints > 0 && !m.doomed && !m.ending
}

// FailedAgain notes that a statement that failed when it ran first has failed in the same way again.
func (m *Machine) FailedAgain() { m.state = Failed }

// Restore is ROLLBACK TO: the transaction goes on.
func (m *Machine) Restore() { m.state = Explicit }

// Point is where a transaction was when its statement failed, before it was run again.
type Point struct {
	state  State
	ending bool
}

// Point returns the present one.
func (m *Machine) Point() Point { return Point{m.state, m.ending} }

// Interrupted is called when the statement was cancelled while its transaction ran again: what was there at the point is lost.
func (m *Machine) Interrupted(p Point) {
	if m.state != None {
		m.state, m.ending, m.doomed = p.state, p.ending, p.state != Implicit
	}
}

// Lost is called when the transaction can't be run again: it is where it was at the point, and no savepoint saves it. Fail follows.
func (m *Machine) Lost(p Point) {
	if m.state != None {
		m.state = p.state
		if p.state == Failed {
			m.state = Explicit // for Fail, which ends it
		}
	}
	m.doomed, m.ending = m.state == Explicit, p.ending
}

// Ending is what COMMIT does to a transaction.
type Ending uint8

const (
	// NothingOpen: there is no transaction; the client is warned.
	NothingOpen Ending = iota
	// CommitImplicit: an implicit one ends with it; the client is warned.
	CommitImplicit
	// Commit is what was asked for.
	Commit
	// RollBackFailed: of a failed transaction COMMIT is a rollback.
	RollBackFailed
)

// Committing says what COMMIT does. From then on the transaction is ending, if it is to commit.
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

// InBlock reports whether commands that have no effect beyond their transaction make sense: not if it ends with them.
func (m *Machine) InBlock() bool { return m.Block() || m.several }

// First reports whether nothing has run in an implicit transaction yet.
func (m *Machine) First() bool { return m.state == Implicit && !m.ran }

// StandAlone refuses a command that commits by itself, where other statements share its transaction. bound says that it comes by
// Execute: then others of the transaction are in its pipeline.
func (m *Machine) StandAlone(what string, bound bool) error {
	switch {
	case m.InBlock() || m.state == Implicit && !bound && m.ran:
		return sqlstate.New(sqlstate.ActiveTransaction, "%s cannot run inside a transaction block", what)
	case m.state == Implicit && m.ran:
		return sqlstate.New(sqlstate.ActiveTransaction, "%s cannot be executed within a pipeline", what)
	}
	return nil
}
