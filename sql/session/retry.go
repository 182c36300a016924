package session

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"meridian/sql/session/plan"
	"meridian/sql/session/portal"
	"meridian/sql/session/replay"
	"meridian/sql/session/txnstate"

	"meridian/sql/session/parameter"

	"meridian/sql/session/result"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
)

// Retries. A transaction that loses a conflict is run again as a whole, without its client's notice, if the new answers are the same as those that
// the client has (session.S2); package replay compares them.

// maxAttempts bounds how often a transaction is run again after one conflict.
const maxAttempts = 50

// step runs one statement, and runs the transaction again as long as it fails with an error that another attempt may avoid. final says that the
// implicit transaction ends with the statement. size is the memory of its arguments, for the record.
func (s *Session) step(ctx context.Context, text string, size int, p *portal.Portal, run func(ctx context.Context, final bool) error, final bool) error {
	s.state.Statement()
	r := &s.replay
	s.statement = s.out.Mark()
	r.Begin(s.out, replay.Step{Run: run, Text: text, Portal: p, At: s.queryStart})
	wasFailed := s.state.Failed()
	err := s.attempt(ctx, r.Current(), final && r.First(), result.Fingerprint{})
	if err == nil && final && s.state.Implicit() {
		err = s.commitImplicit(ctx)
	}
	summed := err != nil && Retryable(err)
	if summed {
		err = s.retry(ctx, err, final)
	}
	if err != nil && ctx.Err() != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = errors.Join(cause, err)
		}
	}
	s.record(err, len(text)+size, wasFailed, summed)
	return err
}

// record records the statement that has just run, if its transaction continues.
func (s *Session) record(err error, size int, wasFailed, summed bool) {
	s.state.StatementEnded()
	o := replay.Outcome{Open: s.state.Open(), Size: size, Summed: summed}
	o.Keep = o.Open && s.replay.Keeps() && (err == nil || !wasFailed && s.canContinue())
	if !o.Keep {
		s.replay.Ended(s.out, o, replay.Limits{}, nil)
		return
	}
	if err != nil {
		o.Failed = errorSum(err)
	}
	s.replay.Ended(s.out, o, s.replayLimits(), s.txnMemory())
}

// replayLimits returns the limits of the session's settings.
func (s *settings) replayLimits() replay.Limits { return s.frequent().replay }

func (s *settings) limit(name string) int {
	v := s.setting(name)
	if n, err := strconv.Atoi(v); err == nil {
		return n
	}
	return int(parameter.ParseSize(v))
}

// canContinue reports whether the transaction of a failed statement can continue from a savepoint.
func (s *transaction) canContinue() bool {
	return s.tx != nil && s.state.Savable(s.savepoints.Len())
}

// recordFailure records the failure of a message that was not a statement's execution.
func (s *Session) recordFailure() {
	if r := &s.replay; !r.Noted() && r.Off() == "" && s.canContinue() {
		r.Mark(s.out, s.replayLimits(), s.txnMemory())
	}
}

// errorSum identifies an error as the client sees it.
func errorSum(err error) replay.Sum {
	e := Outcome(err)
	h := sha256.New()
	for _, f := range []string{string(e.Code), e.Message, e.Detail, e.Hint, e.Schema, e.Table, e.Column, e.DataType, e.Constraint, strconv.Itoa(e.Position)} {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(f))))
		h.Write([]byte(f))
	}
	return replay.Sum(h.Sum(nil))
}

// retry runs the transaction again after a conflict. When it returns, the fingerprint of the running statement's output has been taken.
func (s *Session) retry(ctx context.Context, err error, final bool) error {
	r := &s.replay
	m := &s.srv.metrics
	at := s.state.Point()
	conflict := err // the last conflict, which the client's error describes
	r.SumUp(s.out)
	defer r.Done()
	why := ""
	seen := false
	var lost []keys.Key
	backoff := time.Millisecond
	for attempt := 1; err != nil && Retryable(err) && ctx.Err() == nil; attempt++ {
		conflict = err
		switch {
		case s.tx == nil || !s.state.Open():
			return s.lost(at, conflict, nil, "")
		case r.Unrepeatable(s.replayLimits()) != "":
			why = r.Unrepeatable(s.replayLimits())
		case attempt >= maxAttempts:
			why = fmt.Sprintf("it lost %d conflicts in a row", attempt)
		case !r.LayOut(s.out):
			why = "the parts of its output that the client has could not be determined"
		}
		if seen = r.Seen() || r.Off() != ""; seen && s.tx.Led() {
			s.ticket.Lose() // a transaction without a leader is a rival for the time of wide-area rounds, and costs the node little (admission.AD7)
		}
		if why == "" && seen && s.setting("transaction_replay") != "on" {
			why = "transaction_replay is off"
		}
		if why == "" && deadlockedLocks(s.advisory, conflict) {
			why = "it has taken advisory locks, which another attempt would hold from its beginning"
		}
		if why == "" && seen && s.tx.LosesLocks() {
			why = "another attempt would not have the row locks that it has acquired (FOR UPDATE and similar clauses)"
		}
		if why != "" {
			if seen {
				m.ReplaysOff.Add(1)
			}
			return s.lost(at, conflict, nil, why)
		}
		r.Retry(attempt)
		if seen {
			m.Replays.Add(1)
		} else {
			m.Retries.Add(1)
		}
		if rerr := s.startOver(ctx); rerr != nil {
			return errors.Join(err, rerr)
		}
		if attempt > 3 {
			// Under contention the others go first. The wait is random, so that two losers do not meet again.
			d := time.Duration(s.srv.Host.Dice.Int64N(int64(backoff)))
			if s.srv.Host.Clock.Sleep(ctx, d) != nil {
				break
			}
			backoff = min(2*backoff, 100*time.Millisecond)
		}
		if attempt > 1 {
			lost = s.lockLost(ctx, conflict, lost)
		}
		err = s.runAgain(ctx, final)
		var d *replay.DiffersError
		if errors.As(err, &d) {
			m.ReplaysDiffering.Add(1)
			return s.lost(at, conflict, d, "")
		}
	}
	if err != nil && ctx.Err() != nil {
		s.state.Interrupted(at)
		return err
	}
	if seen && (err == nil || !Retryable(err)) {
		m.ReplaysSucceeded.Add(1)
	}
	return err
}

// maxLost bounds the rows that are locked before a transaction runs again.
const maxLost = 8

// lockLost locks the rows over which the transaction has lost conflicts, before it runs again. Otherwise it would read them, wait for
// other writers, and lose again, as long as there are other writers. If a row can't be locked, the statements run without its lock.
func (s *transaction) lockLost(ctx context.Context, conflict error, lost []keys.Key) []keys.Key {
	if s.state.Modes().Isolation == kv.ReadCommitted || s.state.Modes().ReadOnly {
		return nil
	}
	var (
		tooOld  *kv.WriteTooOldError
		refresh *kv.RefreshFailedError
		key     keys.Key
	)
	switch {
	case errors.As(conflict, &refresh):
		key = refresh.Key
	case errors.As(conflict, &tooOld):
		key = tooOld.Key
	}
	if _, _, err := keys.DecodeTableKey(key); err == nil && len(lost) < maxLost &&
		!slices.ContainsFunc(lost, func(k keys.Key) bool { return k.Equal(key) }) {
		lost = append(lost, key)
		slices.SortFunc(lost, keys.Key.Compare) // in one order for all transactions, so that their locks form no deadlock
	}
	for _, k := range lost {
		if _, err := s.tx.Get(ctx, k, kv.Exclusive, kv.Block); err != nil {
			break
		}
	}
	return lost
}

// lost ends a transaction that can't be run again, and returns the client's error.
func (s *Session) lost(at txnstate.Point, conflict error, d *replay.DiffersError, why string) error {
	s.state.Lost(at)
	s.srv.metrics.ClientRetries.Add(1)
	return s.witness().loss(conflict, s.state.Modes().Isolation, d, why)
}

// startOver begins a new attempt of the transaction, with the session as it was at its beginning.
func (s *Session) startOver(ctx context.Context) error {
	old := s.tx.ID()
	if err := s.tx.Restart(ctx); err != nil {
		return err
	}
	if s.tx.ID() != old {
		s.srv.finished.note(finishedTxn{old, s.pid, s.setting("application_name")}) // conflicts with the old identity are with this session
	}
	for _, p := range &s.parts {
		p.Restart(ctx)
	}
	return nil
}

// runAgain runs the recorded statements and the present one again.
func (s *Session) runAgain(ctx context.Context, final bool) error {
	r := &s.replay
	r.Start()
	steps, cur := r.Steps(), r.Current()
	for i := range steps {
		if err := s.runStepAgain(ctx, &steps[i]); err != nil {
			return err
		}
	}
	r.Resume()
	for i := range steps {
		// The steps have opened portals that the client has closed since.
		if p := steps[i].Portal; p != nil && p != cur.Portal && !s.portals.Has(p) {
			p.Stop()
		}
	}
	err := s.placed(ctx, cur, final && r.First() && cur.Seen().Bytes == 0)
	same := r.SumUp(s.out)
	if errors.Is(err, result.ErrDiffers) || err == nil && !same {
		return r.Different(cur, err)
	}
	if err == nil && final && s.state.Implicit() {
		if err = s.commitImplicit(ctx); err != nil {
			r.CommitFailed(s.out)
		}
	}
	return err
}

// placed runs a statement again, at the end of the output.
func (s *Session) placed(ctx context.Context, st *replay.Step, final bool) error {
	s.replay.Place(s.out, st)
	s.statement = s.out.Mark()
	s.out.Watch(st.Seen())
	return s.attempt(ctx, st, final, st.Seen())
}

func (s *Session) runStepAgain(ctx context.Context, st *replay.Step) error {
	if st.Marker() {
		s.replay.Place(s.out, st)
		st.Repeated()
		s.state.FailedAgain()
		return nil
	}
	err := s.placed(ctx, st, false)
	w := st.Watched(s.out)
	var sum replay.Sum
	if err != nil {
		if Retryable(err) || ctx.Err() != nil {
			return err
		}
		sum = errorSum(err)
	}
	switch s.replay.Compare(st, w, err, sum) {
	case replay.Same:
		return nil
	case replay.SameFailure:
		s.state.FailedAgain()
		s.viewCache = nil
		return nil
	case replay.NewFailure:
		return err
	}
	return s.replay.Different(st, err)
}

// draw returns the number that the statement drew in its first run, or draws one.
func (s *Session) draw(seq catalog.ID, fresh func() (int64, error)) (int64, error) {
	if s.replay.Step() == nil || !s.state.Open() {
		return fresh()
	}
	return s.replay.Draw(seq, fresh)
}

// current returns a plan of p's statement that can be used now. Only a statement that is being run again may need another plan than p. told says that the client may know
// the plan's columns before the statement runs.
func (s *Session) current(ctx context.Context, p *plan.Plan, told bool) (*plan.Plan, error) {
	if !s.replay.Again() || p.Query == nil || p.Stmt == nil || p.Private {
		return p, nil
	}
	if !s.catalogChanged() {
		if good, err := s.reuse(p); good != nil || err != nil {
			return good, err
		}
	}
	now, err := s.planFor(ctx, p.Stmt, p.Params)
	if err != nil {
		return nil, err
	}
	if told && !plan.SameColumns(p.Columns, now.Columns) || now.Query == nil || len(now.Params) != len(p.Params) {
		return nil, sqlstate.CachedPlan()
	}
	return now, nil
}
