package session

import (
	"context"
	"strings"
	"time"

	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
)

// Levels of isolation as a client asks for them, and what READ COMMITTED adds to a statement's life: one that ran into
// something newer than its snapshot is undone, and runs again with a later one, as often as it takes, while nothing of
// its answer has left. The transaction's other statements stay as they are. If that is not possible, the whole
// transaction is run again as at the other levels (replay.go).

func isolationName(i kv.Isolation) string {
	return [...]string{"serializable", "repeatable read", "read committed"}[i]
}

func isolationOf(name string) kv.Isolation {
	switch strings.ToLower(name) {
	case "repeatable read":
		return kv.RepeatableRead
	case "read committed", "read uncommitted":
		return kv.ReadCommitted // as in PostgreSQL, nobody reads what is not committed
	}
	return kv.Serializable
}

// isolationShown is the open transaction's level under the name that it was asked for.
func (s *Session) isolationShown() string {
	if s.modes.uncommitted {
		return "read uncommitted"
	}
	return isolationName(s.modes.isolation)
}

// setModes changes the open transaction's characteristics, as far as they can be changed once it has begun.
func (s *Session) setModes(m parse.TxnModes) error {
	mode := s.modes
	if err := applyModes(&mode, m); err != nil {
		return err
	}
	old := s.modes
	started := s.tx != nil && s.tx.Started()
	refuse := func(format string, args ...any) error {
		return sqlstate.New(sqlstate.ActiveTransaction, format, args...)
	}
	switch {
	case mode.isolation != old.isolation || mode.uncommitted != old.uncommitted:
		if started {
			return refuse("SET TRANSACTION ISOLATION LEVEL must be called before any query")
		}
		if len(s.savepts) > 0 {
			return refuse("SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction")
		}
	case old.readOnly && !mode.readOnly && len(s.savepts) > 0:
		return refuse("cannot set transaction read-write mode inside a read-only transaction")
	case old.readOnly && !mode.readOnly && started:
		return refuse("transaction read-write mode must be set before any query")
	case m.Deferrable != nil && len(s.savepts) > 0:
		return refuse("SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction")
	case m.Deferrable != nil && started:
		return refuse("SET TRANSACTION [NOT] DEFERRABLE must be called before any query")
	}
	s.modes = mode
	if s.tx != nil {
		if !started && !s.tx.Historical() {
			s.tx.SetIsolation(mode.isolation)
		}
		s.tx.SetReadOnly(mode.readOnly)
	}
	return nil
}

// calm makes a SERIALIZABLE READ ONLY DEFERRABLE transaction one that can't be in anybody's way, nor anybody in its: it
// reads at a time which no clock of the cluster has left to come. What was committed before it began is at or below the
// end of its uncertainty interval; so it waits until that is in the past, and reads there.
//
// deps are the descriptors of the query that is about to run.
func (s *Session) calm(ctx context.Context, deps []catalog.Dependency) error {
	m := s.modes
	if !m.deferrable || !m.readOnly || m.isolation != kv.Serializable || s.tx == nil || s.tx.Started() || s.tx.Historical() {
		return nil
	}
	at := s.srv.Clock.Now().Add(s.srv.Clock.MaxOffset())
	for {
		wait := at.Wall - s.srv.Clock.Now().Wall
		if wait < 0 {
			return s.readHere(ctx, at, deps)
		}
		if err := s.srv.Host.Clock.Sleep(ctx, time.Duration(wait)+time.Microsecond); err != nil {
			return err
		}
	}
}

// holdCursors keeps cursors that are open at READ COMMITTED at their snapshot, before a statement takes another one.
func (s *Session) holdCursors(ctx context.Context) error {
	if len(s.portals) == 0 || s.tx == nil || s.tx.Isolation() != kv.ReadCommitted {
		return nil
	}
	for _, p := range s.portals {
		if p.cur != nil {
			if err := p.cur.Hold(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Waits between attempts of one statement: the first ones follow at once, because the conflict is over when it is met.
const (
	eagerRestarts  = 8
	maxRestartWait = 100 * time.Millisecond
)

// attempt runs a statement, and runs it again for as long as only its snapshot was too old. seen is what the client has
// of its output.
func (s *Session) attempt(ctx context.Context, st *step, final bool, seen Fingerprint) error {
	for n := 1; ; n++ {
		// Nothing but a statement with one snapshot, taken in this very run, can be undone by itself.
		resumed := st.portal != nil && st.portal.cur != nil
		before, counts := uint32(0), s.markAdvisory()
		checks, notified := s.deferred.mark(), s.notifying.mark()
		if s.tx != nil {
			before = s.tx.Statements()
		}
		s.replay.final = final
		m := s.temp.mark()
		err := s.Confine(func() error { return st.run(ctx, final) })
		if err == nil || resumed || s.tx == nil || !s.tx.MayRestartStatement(err) || s.tx.Statements() != before+1 ||
			ctx.Err() != nil || !s.out.Rewind(s.statement) {
			s.settleAdvisory()
			return s.located(err)
		}
		if n > eagerRestarts {
			d := min(time.Millisecond<<min(n-eagerRestarts, 10), maxRestartWait)
			if s.srv.Host.Clock.Sleep(ctx, time.Duration(s.srv.Host.Dice.Int64N(int64(d)))) != nil {
				return err
			}
		}
		s.srv.metrics.StatementRetries.Add(1)
		s.tx.RestartStatement()
		s.temp.rollbackTo(m)
		s.viewCache = nil
		s.undoAdvisory(counts, false)
		s.deferred.deferralState = checks
		s.notifying.rollbackTo(notified)
		s.out.Watch(seen)
		st.next = 0
		if st.tape != nil {
			st.tape.at = 0
		}
		if st.portal != nil {
			st.portal.rewind()
		}
	}
}
