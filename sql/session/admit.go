package session

import (
	"context"
	"errors"

	"meridian/admission"
)

// waitAdmission is the wait event of a session that queues for admission.
const waitAdmission = "Admission"

// Context returns the context in which the client's messages are served: a wait for a lock in it gives the session's place at the gate to
// another session.
func (s *Session) Context(ctx context.Context) context.Context {
	if s.ticket == nil {
		return ctx
	}
	return admission.NewContext(ctx, s.ticket)
}

// Admit waits until the session may serve its client's message. Cancel ends the wait as it ends a statement, and so does statement_timeout, which
// includes the wait. runs says that a statement is going to run, now or as soon as its arguments are bound; otherwise it is only prepared.
func (s *Session) Admit(ctx context.Context, runs bool) error {
	if s.ticket == nil {
		return nil
	}
	class := s.class()
	if class == admission.Fresh && !runs {
		class = admission.Prepare
	}
	if s.ticket.TryEnter(class) {
		return nil
	}
	if class == admission.Fresh || class == admission.Prepare {
		s.abandon(ctx)
	}
	ctx, done := s.beginStatement(ctx, "")
	defer done()
	s.setWaitEvent(waitAdmission)
	defer s.setWaitEvent("")
	if err := s.ticket.Enter(ctx, class); err != nil {
		s.timer.stop()
		if cause := context.Cause(ctx); cause != nil {
			err = errors.Join(cause, err)
		}
		return err
	}
	return nil
}

// abandon rolls back an implicit transaction that planning has opened and in which nothing has run: its timestamp would be old when its first
// statement leaves the queue.
func (s *Session) abandon(ctx context.Context) {
	if !s.unused() || !s.portals.Empty() {
		return
	}
	tx, cat := s.tx, s.cat
	s.clearTxn(false)
	tx.Rollback(context.WithoutCancel(ctx))
	cat.Finish(context.WithoutCancel(ctx), false)
}

// unused reports whether the open transaction is an implicit one in which no statement has run.
func (s *transaction) unused() bool {
	return s.state.First() && s.tx != nil && !s.state.Wrote() && !s.tx.Locks()
}

// class is the admission class of the next statement. Statements of a transaction that may hold locks never wait (admission.AD1).
func (s *transaction) class() admission.Class {
	switch {
	case !s.state.Open() || s.unused():
		return admission.Fresh
	case s.tx == nil || s.state.Wrote() || s.tx.Locks():
		return admission.Holder
	}
	return admission.Open
}

// Rest tells the gate that the session has no work until its client sends more.
func (s *Session) Rest() {
	if s.ticket != nil {
		// A transaction that has failed and was rolled back is over, though its client has not said so yet.
		s.ticket.Rest(!s.state.Open() || s.state.Failed() && s.tx == nil)
	}
}
