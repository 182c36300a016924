package portal

import (
	"time"

	"meridian/sql/memory"
	"meridian/sql/parse"
	"meridian/sql/session/plan"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// maxStatements bounds the prepared statements that a client can make a session hold.
const maxStatements = 100_000

// ownBytes is roughly the memory of a statement or a cursor besides its text and plan.
const ownBytes = 512

// Statement is a prepared statement.
type Statement struct {
	Name  string
	Stmt  *parse.Statement // nil: empty query
	Types []*types.T       // as the client gave them; nil elements are inferred
	Plan  *plan.Plan
	Path  string // the search path for which Plan was made
	held  int64  // bytes of the session's memory
	// Source is the query string of PREPARE; empty: the statement is the protocol's.
	Source  string
	Created time.Time
	// Generic and Custom count its executions by a plan for any arguments, and for the ones given.
	Generic, Custom int64
}

// customPlans is how often PostgreSQL plans a statement for its arguments before it prefers a plan for any.
const customPlans = 5

// Executed counts an execution as PostgreSQL would plan it: a statement without parameters needs no plan for its arguments.
func (p *Statement) Executed(mode string) {
	switch {
	case p.Plan == nil || p.Plan.Query == nil:
	case len(p.Plan.Params) == 0, mode == "force_generic_plan", mode != "force_custom_plan" && p.Custom >= customPlans:
		p.Generic++
	default:
		p.Custom++
	}
}

// Bytes is the memory of a statement and its plan. A shared plan counts too: it is in the cache now, but may leave it while the session still
// keeps it.
func Bytes(stmt *parse.Statement, p *plan.Plan) int64 {
	n := int64(len(stmt.Source)) + stmt.Bytes
	if p != nil {
		n += p.Bytes
	}
	return n
}

// Statements are the prepared statements of a session.
type Statements struct {
	memory *memory.Account
	byName map[string]*Statement
}

// NewStatements makes an empty set, which reserves the memory of its statements in an account.
func NewStatements(account *memory.Account) Statements {
	return Statements{memory: account, byName: map[string]*Statement{}}
}

// Find returns the statement of a name.
func (s *Statements) Find(name string) (*Statement, error) {
	if p, ok := s.byName[name]; ok {
		return p, nil
	}
	if name == "" {
		return nil, sqlstate.New(sqlstate.InvalidStatementName, "unnamed prepared statement does not exist")
	}
	return nil, sqlstate.New(sqlstate.InvalidStatementName, "prepared statement %q does not exist", name)
}

// Free refuses the name of an existing statement.
func (s *Statements) Free(name string) error {
	if _, taken := s.byName[name]; taken {
		return sqlstate.New(sqlstate.DuplicatePreparedStatement, "prepared statement %q already exists", name)
	}
	return nil
}

// Reserve checks that a statement of a name can be added. An unnamed statement is replaced; another name must be free.
func (s *Statements) Reserve(name string) error {
	if name == "" {
		s.Close("")
	} else if err := s.Free(name); err != nil {
		return err
	}
	if len(s.byName) >= maxStatements {
		return sqlstate.New(sqlstate.ConfigurationLimitExceeded, "too many prepared statements").
			WithHint("Deallocate those that are not used.")
	}
	return nil
}

// Add keeps a statement in place of one of the same name, and reserves its memory until it is closed.
func (s *Statements) Add(p *Statement) error {
	if p.Stmt != nil {
		p.held = ownBytes + Bytes(p.Stmt, p.Plan)
	}
	if err := s.memory.Grow(p.held); err != nil {
		return err
	}
	s.Close(p.Name)
	s.byName[p.Name] = p
	return nil
}

// Close drops a statement, if it is there.
func (s *Statements) Close(name string) {
	if p, ok := s.byName[name]; ok {
		s.memory.Shrink(p.held)
		delete(s.byName, name)
	}
}

// CloseAll drops all of them.
func (s *Statements) CloseAll() {
	for name := range s.byName {
		s.Close(name)
	}
}

// Named returns the statements with a name.
func (s *Statements) Named() (out []*Statement) {
	for n, p := range s.byName {
		if n != "" && p.Stmt != nil {
			out = append(out, p)
		}
	}
	return out
}
