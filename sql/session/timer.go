package session

import (
	"context"
	"time"

	"meridian/host"
)

// statementTimer measures statement_timeout as PostgreSQL does: in a string of statements for each of them, from its begin and with the
// limit of that moment; in the extended protocol from the first message up to the end of an Execute that leaves no suspended portal,
// or to Sync. Only the connection's goroutine uses it.
type statementTimer struct {
	host *host.Host
	runs bool
	end  time.Duration      // of the host's monotonic clock
	wait context.CancelFunc // ends the wait for end; nil if nothing waits
}

// start begins to measure the time of a statement, if it has not begun yet, and reports whether there is a limit.
func (t *statementTimer) start(limit time.Duration) bool {
	if limit <= 0 {
		t.runs = false
	} else if !t.runs {
		t.runs, t.end = true, t.host.Clock.Monotonic()+limit
	}
	return t.runs
}

// watch ends the running statement, which has the given context, when its time is over.
func (t *statementTimer) watch(ctx context.Context, limit time.Duration, cancel context.CancelCauseFunc) {
	if !t.start(limit) {
		return
	}
	left := t.end - t.host.Clock.Monotonic()
	if left <= 0 {
		cancel(context.DeadlineExceeded)
		return
	}
	ctx, t.wait = context.WithCancel(ctx)
	t.host.Group.Go(func(context.Context) {
		if t.host.Clock.Sleep(ctx, left) == nil {
			cancel(context.DeadlineExceeded)
		}
	})
}

// over reports whether the limit of the statement that is measured has passed.
func (t *statementTimer) over() bool { return t.runs && t.host.Clock.Monotonic() >= t.end }

// Overdue is the error of a message of the extended protocol that comes when the time of its statement, which an earlier message has begun, is over; nil if it is not. The time
// passes while the client sends nothing.
func (s *Session) Overdue() error {
	if !s.timer.over() {
		return nil
	}
	s.timer.stop()
	return context.DeadlineExceeded
}

// stop ends the measurement; that of the next statement begins anew.
func (t *statementTimer) stop() {
	t.runs = false
	if t.wait != nil {
		t.wait()
		t.wait = nil
	}
}
