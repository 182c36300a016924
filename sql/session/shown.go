package session

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"meridian/kv"
	"meridian/sql/sqlstate"
)

// shown is the state of a session that other goroutines read: its statement, the times at which its states began, and the function that cancels
// the statement.
type shown struct {
	mu         sync.Mutex // guards the fields below; advisory.mu may be taken after it
	cancel     context.CancelCauseFunc
	query      string
	queryWhole string
	queryStart time.Time
	stateSince time.Time
	stateName  string
	waitEvent  string // the name of what an active session waits for; empty if it is not known
	idleTimer  func() // stops the idle timer
	// txnID is the identity of the open transaction, or otherwise of the last one; application is its application_name.
	txnID       kv.TxnID
	txnSince    time.Time
	application string
}

// active notes that a statement begins.
func (s *shown) active(cancel context.CancelCauseFunc, text string, start time.Time) {
	s.mu.Lock()
	s.cancel, s.query, s.queryWhole, s.queryStart, s.stateSince, s.stateName = cancel, shownQuery(text), text, start, start, "active"
	s.mu.Unlock()
}

// idle notes that the statement has ended.
func (s *shown) idle(since time.Time, inBlock bool) {
	s.mu.Lock()
	s.cancel, s.stateSince, s.stateName = nil, since, "idle"
	if inBlock {
		s.stateName = "idle in transaction"
	}
	s.mu.Unlock()
}

// setIdleTimer keeps the function that stops the idle timer, and stops the one before.
func (s *shown) setIdleTimer(stop func()) {
	s.mu.Lock()
	before := s.idleTimer
	s.idleTimer = stop
	s.mu.Unlock()
	if before != nil {
		before()
	}
}

func (s *shown) setWaitEvent(name string) {
	s.mu.Lock()
	s.waitEvent = name
	s.mu.Unlock()
}

func (s *shown) setApplication(name string) {
	s.mu.Lock()
	s.application = name
	s.mu.Unlock()
}

// canceller returns the function that ends the running statement; nil: none runs.
func (s *shown) canceller() context.CancelCauseFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cancel
}

// started is the time at which the last statement began.
func (s *shown) started() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queryStart
}

// wholeQuery is the last statement's text.
func (s *shown) wholeQuery() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queryWhole
}

// shownQueryBytes bounds the part of a statement's text that other sessions see, as PostgreSQL's track_activity_query_size does: an idle session
// does not keep a text of megabytes for them.
const shownQueryBytes = 1024

func shownQuery(text string) string {
	if len(text) <= shownQueryBytes {
		return text
	}
	cut := shownQueryBytes
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return strings.Clone(text[:cut])
}

// ending says whether a session has to end, and why; other goroutines decide that.
type ending struct {
	terminated atomic.Bool
	check      atomic.Int64                   // client_connection_check_interval
	timedOut   atomic.Pointer[string]         // the timeout that has expired; nil: none
	why        atomic.Pointer[sqlstate.Error] // another reason; nil: there is none, or an administrator ends the session
}

// TimedOut is the error that ends the session, for example because it was idle for too long or could not keep its advisory locks; nil if there is
// none, or if an administrator ends it. Another goroutine may call it.
func (e *ending) TimedOut() *sqlstate.Error {
	switch name := e.timedOut.Load(); {
	case name == nil:
		return e.why.Load()
	case *name == "idle_session_timeout":
		return &sqlstate.Error{Code: sqlstate.IdleSessionTimeout, Message: "terminating connection due to idle-session timeout"}
	}
	return &sqlstate.Error{Code: sqlstate.IdleInTransactionTimeout, Message: "terminating connection due to idle-in-transaction timeout"}
}
