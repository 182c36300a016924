package session

import (
	"context"
	"time"
)

// statementTimer is statement_timeout as PostgreSQL counts it: in a string of statements for each of them, from its begin and with the
// limit that holds then; in the extended protocol from the first message up to the end of an Execute that leaves no suspended portal,
// or to Sync. Only the connection's goroutine uses it.
type statementTimer struct {
	runs bool
	end  time.Duration      // of the host's monotonic clock
	stop context.CancelFunc // ends the wait for end; nil if nothing waits
}

// startTime lets the time of a statement begin, if it has not begun yet, and reports whether there is a limit.
func (s *Session) startTime() bool {
	t := &s.timer
	limit := s.duration("statement_timeout")
	if limit <= 0 {
		t.runs = false
	} else if !t.runs {
		t.runs, t.end = true, s.srv.Host.Clock.Monotonic()+limit
	}
	return t.runs
}

// watchTime ends the running statement, whose context it gets, when its time is over.
func (s *Session) watchTime(ctx context.Context, cancel context.CancelCauseFunc) {
	if !s.startTime() {
		return
	}
	left := s.timer.end - s.srv.Host.Clock.Monotonic()
	if left <= 0 {
		cancel(context.DeadlineExceeded)
		return
	}
	ctx, s.timer.stop = context.WithCancel(ctx)
	s.srv.Host.Group.Go(func(context.Context) {
		if s.srv.Host.Clock.Sleep(ctx, left) == nil {
			cancel(context.DeadlineExceeded)
		}
	})
}

// stopTime is called where the next statement's time does not count with what came before.
func (s *Session) stopTime() {
	s.timer.runs = false
	if s.timer.stop != nil {
		s.timer.stop()
		s.timer.stop = nil
	}
}
