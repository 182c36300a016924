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

// shown is what other goroutines see of a session: what it runs, and since when, and how to end that.
type shown struct {
	mu         sync.Mutex // guards the fields below; advisory.mu may be taken after it
	cancel     context.CancelCauseFunc
	query      string
	queryWhole string
	queryStart time.Time
	stateSince time.Time
	stateName  string
	waitEvent  string // what an active session waits for, if that is known
	idleTimer  func() // stops the idle timer
	// txnID is the identity of the open transaction, or else of the last one; application is what the client calls itself.
	txnID       kv.TxnID
	txnSince    time.Time
	application string
}

// active shows that a statement begins.
func (s *shown) active(cancel context.CancelCauseFunc, text string, start time.Time) {
	s.mu.Lock()
	s.cancel, s.query, s.queryWhole, s.queryStart, s.stateSince, s.stateName = cancel, shownQuery(text), text, start, start, "active"
	s.mu.Unlock()
}

// idle shows that none runs any more.
func (s *shown) idle(since time.Time, inBlock bool) {
	s.mu.Lock()
	s.cancel, s.stateSince, s.stateName = nil, since, "idle"
	if inBlock {
		s.stateName = "idle in transaction"
	}
	s.mu.Unlock()
}

// setIdleTimer keeps what stops the idle timer, and stops the one before.
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

// canceller is what ends the running statement; nil: none runs.
func (s *shown) canceller() context.CancelCauseFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cancel
}

// started is when the last statement began.
func (s *shown) started() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queryStart
}

// wholeQuery is its text.
func (s *shown) wholeQuery() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queryWhole
}

// shownQueryBytes is how much of a statement's text others see while it runs and afterwards, as PostgreSQL's
// track_activity_query_size: an idle session does not keep a text of megabytes for that.
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

// ending is whether a session has to end, and why; other goroutines decide that.
type ending struct {
	terminated atomic.Bool
	check      atomic.Int64                   // client_connection_check_interval
	timedOut   atomic.Pointer[string]         // the setting by which it was
	why        atomic.Pointer[sqlstate.Error] // if it was not by a setting or an administrator
}

// TimedOut is the error that ends the session, for example because it was idle for too long or could not keep its advisory locks; nil if there is
// none, or an administrator ends it.
func (e *ending) TimedOut() *sqlstate.Error {
	switch name := e.timedOut.Load(); {
	case name == nil:
		return e.why.Load()
	case *name == "idle_session_timeout":
		return &sqlstate.Error{Code: sqlstate.IdleSessionTimeout, Message: "terminating connection due to idle-session timeout"}
	}
	return &sqlstate.Error{Code: sqlstate.IdleInTransactionTimeout, Message: "terminating connection due to idle-in-transaction timeout"}
}
