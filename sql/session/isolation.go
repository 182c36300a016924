package session

import (
	"context"
	"time"

	"meridian/sql/session/replay"
	"meridian/sql/session/result"

	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/parse"
)

// Isolation levels. At READ COMMITTED a statement that meets a version newer than its snapshot is undone, and runs again with a later
// snapshot, as often as necessary, as long as no part of its answer has been sent. The transaction's other statements stay as they are. If
// that is not possible, the whole transaction is run again, as at the other levels (retry.go).

// setModes changes the open transaction's characteristics, as far as they can be changed once it has begun.
func (s *Session) setModes(m parse.TxnModes) error {
	started := s.tx != nil && s.tx.Started()
	mode, err := s.state.Modes().Change(m, started, s.savepoints.Len())
	if err != nil {
		return err
	}
	if m.Isolation != "" && mode.Isolation != kv.ReadCommitted && s.leaderless {
		return errWeaker(mode)
	}
	s.state.SetModes(mode)
	if s.tx != nil {
		if mode.Declared {
			s.tx.Declare(mode.Isolation)
		} else if !started && !s.tx.Historical() {
			s.tx.SetIsolation(mode.Isolation)
		}
		s.tx.SetReadOnly(mode.ReadOnly)
	}
	return nil
}

// calm moves a SERIALIZABLE READ ONLY DEFERRABLE transaction to a read timestamp in the past, where no conflict can make it run again.
// Versions committed before it began are at or below the end of its uncertainty interval; so it waits until that end is in the past, and
// reads there.
//
// deps are the descriptors of the query that is about to run.
func (s *Session) calm(ctx context.Context, deps []catalog.Dependency) error {
	m := s.state.Modes()
	if !m.Deferrable || !m.ReadOnly || m.Isolation != kv.Serializable || s.tx == nil || s.tx.Started() || s.tx.Historical() {
		return nil
	}
	at := s.srv.Clock.Read().Limit()
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

// holdCursors reads the open cursors of a READ COMMITTED transaction to their ends, so that they keep their snapshot when a statement takes a
// later one.
func (s *Session) holdCursors(ctx context.Context) error {
	if s.portals.Empty() || s.tx == nil || s.tx.Isolation() != kv.ReadCommitted {
		return nil
	}
	return s.portals.Hold(ctx)
}

// Waits between the attempts of one statement: the first attempts follow immediately, because the other transaction has usually ended when its
// write is met.
const (
	eagerRestarts  = 8
	maxRestartWait = 100 * time.Millisecond
)

// attempt runs a statement, and runs it again as long as it fails only because its snapshot is too old. seen is the part of its output that the
// client has.
func (s *Session) attempt(ctx context.Context, st *replay.Step, final bool, seen result.Fingerprint) error {
	for n := 1; ; n++ {
		// A statement can be undone alone only if it has one snapshot, which it took in this run.
		resumed := st.Portal != nil && st.Portal.Running()
		before, counts := uint32(0), s.advisory.Mark()
		checks, notified := s.deferred.mark(), s.notifying.mark()
		if s.tx != nil {
			before = s.tx.Statements()
		}
		s.endsTxn = final
		m := s.temp.mark()
		err := s.Confine(func() error { return st.Run(ctx, final) })
		if err == nil || resumed || s.tx == nil || !s.tx.MayRestartStatement(err) || s.tx.Statements() != before+1 ||
			ctx.Err() != nil || !s.out.Rewind(s.statement) {
			s.advisory.Settle()
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
		s.advisory.Undo(counts, false)
		s.deferred.deferralState = checks
		s.notifying.rollbackTo(notified)
		s.out.Watch(seen)
		st.Rewind()
		if st.Portal != nil {
			st.Portal.Rewind()
		}
	}
}
