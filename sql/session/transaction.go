package session

import (
	"context"
	"strconv"
	"strings"

	"meridian/clock"
	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
	"meridian/txn"
)

// ensureTxn opens an implicit transaction if none is open.
func (s *Session) ensureTxn() {
	if s.state == stateNone {
		s.openTxn(stateImplicit, s.defaultModes())
	}
}

func (s *Session) defaultModes() modes {
	return modes{
		isolation:   isolationOf(s.setting("default_transaction_isolation")),
		readOnly:    s.setting("default_transaction_read_only") == "on",
		deferrable:  s.setting("default_transaction_deferrable") == "on",
		uncommitted: s.setting("default_transaction_isolation") == "read uncommitted",
	}
}

func (s *Session) openTxn(st state, m modes) {
	s.modes = m
	s.tx = s.srv.DB.Begin(s.options(m))
	s.beginCatalog()
	s.state = st
	s.txnStart = s.srv.Host.Clock.Now()
	s.params.begin()
	s.replay.begin(st, m)
	s.wrote, s.ran = false, false
	for _, p := range s.portals {
		p.began = p.pos // of cursors that are the session's
	}
	s.showTxn()
	if a := s.advisory.Load(); a != nil && a.holder != nil {
		s.tx.SetHolder(a.holder)
	}
}

func (s *Session) options(m modes) txn.TxnOptions {
	return txn.TxnOptions{Isolation: m.isolation, ReadOnly: m.readOnly, LockTimeout: s.duration("lock_timeout")}
}

// commitImplicit commits the implicit transaction. If that fails, the statement has not completed: what it said to
// have done is taken back.
func (s *Session) commitImplicit(ctx context.Context) (err error) {
	if s.tx == nil {
		return nil
	}
	defer func() {
		if err != nil {
			s.out.Rewind(s.statement)
		}
	}()
	if err := s.checkDeferred(ctx, nil); err != nil {
		return err
	}
	if err := s.keepHeld(ctx); err != nil {
		return err
	}
	if err := s.cat.Flush(ctx); err != nil {
		return err
	}
	if err := s.tx.Commit(ctx); err != nil {
		return s.located(err)
	}
	return s.afterCommit(ctx)
}

func (s *Session) afterCommit(ctx context.Context) error {
	s.srv.metrics.TxnCommits.Add(1)
	cat := s.cat
	s.temp.commit()
	if s.wrote {
		s.srv.finished.note(finishedTxn{s.tx.ID(), s.pid, s.setting("application_name")})
	}
	s.clearTxn(true)
	return cat.Finish(ctx, true)
}

// endImplicit ends what is left of an implicit transaction after a query string or a Sync.
func (s *Session) endImplicit(ctx context.Context, err error) error {
	if s.state != stateImplicit {
		return err
	}
	if err != nil {
		s.finishTxn(ctx, false)
		return err
	}
	return s.step(ctx, "COMMIT", 0, nil, func(context.Context, bool) error { return nil }, true)
}

// finishTxn rolls back what is open.
func (s *Session) finishTxn(ctx context.Context, _ bool) {
	if s.state == stateNone {
		return
	}
	tx, cat := s.tx, s.cat
	s.temp.rollback()
	s.clearTxn(false)
	s.srv.metrics.TxnRollbacks.Add(1)
	if tx != nil {
		// The statement may have been cancelled: the rollback must reach the ranges all the same.
		tx.Rollback(context.WithoutCancel(ctx))
	}
	cat.Finish(context.WithoutCancel(ctx), false)
}

// clearTxn forgets the transaction; its portals go with it.
func (s *Session) clearTxn(committed bool) {
	s.dropTxnPortals(committed)
	s.state, s.tx, s.cat, s.viewCache = stateNone, nil, nil, nil
	s.ending, s.doomed = false, false
	s.savepts = s.savepts[:0:min(cap(s.savepts), 16)]
	s.replay.forget()
	s.deferred.reset()
	s.env.txnNumber = 0
	for _, n := range s.params.end(committed) {
		s.settingChanged(n)
	}
	s.endNotifying(committed)
	s.closeTxnMemory()
	s.endAdvisory()
}

// Fail notes that a statement failed: an explicit transaction is then good for nothing but its end (S4).
func (s *Session) Fail() {
	s.srv.metrics.Errors.Add(1)
	switch s.state {
	case stateExplicit:
		s.recordFailure()
		if s.ending {
			s.finishTxn(s.srv.Host.Group.Context(), false)
			return
		}
		s.state = stateFailed
		s.viewCache = nil
		if s.tx != nil && (len(s.savepts) == 0 || s.doomed) {
			// Nothing of it can be kept: its locks must not wait for the client to say so. A ROLLBACK TO that comes then
			// fails once more.
			s.dropTxnPortals(false)
			s.tx.Rollback(s.srv.Host.Group.Context())
			s.tx = nil
			s.endAdvisory()
		}
	case stateImplicit:
		// The messages up to Sync are skipped, and its locks must not wait for that.
		s.finishTxn(s.srv.Host.Group.Context(), false)
	}
}

// needsNoTxn lists statements that must not open an implicit transaction.
func needsNoTxn(stmt *parse.Statement) bool {
	switch stmt.Node.(type) {
	case *parse.Begin, *parse.Commit, *parse.Rollback, *parse.Savepoint, *parse.Release, *parse.RollbackTo,
		*parse.SetVar, *parse.SetTransaction, *parse.ShowVar, *parse.ResetVar, *parse.Deallocate, *parse.Discard:
		return true
	}
	return false
}

// endsFailed lists the statements that a failed transaction accepts.
func endsFailed(stmt *parse.Statement) bool {
	switch stmt.Node.(type) {
	case *parse.Commit, *parse.Rollback, *parse.RollbackTo:
		return true
	}
	return false
}

func (s *Session) begin(m parse.TxnModes) error {
	if s.state == stateExplicit || s.state == stateFailed {
		s.out.Notice(&sqlstate.Error{Code: sqlstate.ActiveTransaction, Message: "there is already a transaction in progress"})
		return nil
	}
	mode := s.defaultModes()
	if err := applyModes(&mode, m); err != nil {
		return err
	}
	if s.state == stateImplicit {
		// BEGIN within a query string turns the implicit transaction into an explicit one.
		if err := s.setModes(m); err != nil {
			return err
		}
		if err := s.beginAsOf(m); err != nil {
			return err
		}
		s.state = stateExplicit
		return nil
	}
	s.openTxn(stateExplicit, mode)
	s.replay.opened = true
	err := s.beginAsOf(m)
	if err != nil {
		s.finishTxn(s.srv.Host.Group.Context(), false) // a BEGIN that fails has begun nothing
	}
	return err
}

func applyModes(mode *modes, m parse.TxnModes) error {
	if m.Isolation != "" {
		mode.isolation = isolationOf(m.Isolation)
		mode.uncommitted = m.Isolation == "read uncommitted"
	}
	if m.ReadOnly != nil {
		mode.readOnly = *m.ReadOnly
	}
	if m.Deferrable != nil {
		mode.deferrable = *m.Deferrable
	}
	return nil
}

// commit is COMMIT: of a failed transaction it is a rollback, as in PostgreSQL.
func (s *Session) commit(ctx context.Context) (string, error) {
	switch s.state {
	case stateNone:
		s.out.Notice(&sqlstate.Error{Code: sqlstate.NoActiveTransaction, Message: "there is no transaction in progress"})
		return "COMMIT", nil
	case stateImplicit:
		// Within a string of statements, or between two Syncs, it ends the implicit transaction.
		s.out.Notice(&sqlstate.Error{Code: sqlstate.NoActiveTransaction, Message: "there is no transaction in progress"})
	case stateFailed:
		s.finishTxn(ctx, false)
		return "ROLLBACK", nil
	}
	s.ending = true
	err := s.checkDeferred(ctx, nil)
	if err == nil {
		err = s.keepHeld(ctx)
	}
	if err == nil {
		err = s.cat.Flush(ctx)
	}
	if err == nil {
		err = s.tx.Commit(ctx)
	}
	if err != nil {
		return "", err
	}
	return "COMMIT", s.afterCommit(ctx)
}

func (s *Session) rollback(ctx context.Context) string {
	if s.state == stateNone || s.state == stateImplicit {
		s.out.Notice(&sqlstate.Error{Code: sqlstate.NoActiveTransaction, Message: "there is no transaction in progress"})
	}
	s.finishTxn(ctx, false)
	return "ROLLBACK"
}

func (s *Session) needBlock(what string) error {
	if s.state != stateExplicit && s.state != stateFailed {
		return sqlstate.New(sqlstate.NoActiveTransaction, "%s can only be used in transaction blocks", what)
	}
	return nil
}

// inBlock reports whether commands that have no effect beyond their transaction make sense: not if it ends with them.
func (s *Session) inBlock() bool {
	return s.state == stateExplicit || s.state == stateFailed || s.several
}

// standAlone refuses a command that commits by itself, where other statements share its transaction.
func (s *Session) standAlone(what string) error {
	switch {
	case s.state == stateExplicit || s.state == stateFailed || s.several || s.state == stateImplicit && s.replay.cur.portal == nil && s.ran:
		return sqlstate.New(sqlstate.ActiveTransaction, "%s cannot run inside a transaction block", what)
	case s.state == stateImplicit && s.ran:
		return sqlstate.New(sqlstate.ActiveTransaction, "%s cannot be executed within a pipeline", what)
	}
	return nil
}

func (s *Session) savepoint(name string) error {
	if err := s.needBlock("SAVEPOINT"); err != nil {
		return err
	}
	if err := s.holdSavepoint(name); err != nil {
		return err
	}
	s.savepts = append(s.savepts, savepoint{strings.Clone(name), s.tx.Savepoint(), s.cat.Mark(), s.temp.mark(), s.params.mark(), s.markAdvisory(), s.portalsMade, s.deferred.mark(), s.notifying.mark()})
	return nil
}

func (s *Session) findSavepoint(name string) (int, error) {
	for i := len(s.savepts) - 1; i >= 0; i-- {
		if s.savepts[i].name == name {
			return i, nil
		}
	}
	return 0, sqlstate.New(sqlstate.InvalidSavepoint, "savepoint %q does not exist", name)
}

func (s *Session) release(name string) error {
	if err := s.needBlock("RELEASE SAVEPOINT"); err != nil {
		return err
	}
	i, err := s.findSavepoint(name)
	if err != nil {
		return err
	}
	s.tx.Release(s.savepts[i].at)
	s.savepts = s.savepts[:i]
	return nil
}

func (s *Session) rollbackTo(name string) error {
	if err := s.needBlock("ROLLBACK TO SAVEPOINT"); err != nil {
		return err
	}
	i, err := s.findSavepoint(name)
	if err != nil {
		return err
	}
	if s.tx == nil {
		return sqlstate.New(sqlstate.SerializationFailure, "the transaction lost a conflict and can't be continued from savepoint %q", name).
			WithHint("Roll it back and try again.")
	}
	if err := s.tx.RollbackTo(s.savepts[i].at); err != nil {
		return err
	}
	s.dropPortalsSince(s.savepts[i].made)
	s.cat.RollbackTo(s.savepts[i].schema)
	s.temp.rollbackTo(s.savepts[i].temp)
	s.deferred.deferralState = s.savepts[i].deferred
	s.notifying.rollbackTo(s.savepts[i].notifying)
	s.undoAdvisory(s.savepts[i].advisory, true)
	s.settleAdvisory()
	s.viewCache = nil
	for _, n := range s.params.rollbackTo(s.savepts[i].params) {
		s.settingChanged(n)
	}
	s.savepts = s.savepts[:i+1]
	s.state = stateExplicit
	return nil
}

// readHere fixes the read timestamp, for a query that has been planned.
func (s *Session) readHere(ctx context.Context, ts clock.Timestamp, deps []catalog.Dependency) error {
	ok, err := s.readThere(ctx, ts, deps)
	if err == nil && !ok {
		err = sqlstate.New(sqlstate.SerializationFailure, "the schema was changed by another transaction")
	}
	return err
}

// beginAsOf moves the open transaction to the time that its modes name, if they do. What it has done already would be
// lost or of another time, so it must have done nothing.
func (s *Session) beginAsOf(m parse.TxnModes) error {
	switch {
	case m.AsOf == "":
		return nil
	case m.ReadOnly != nil && !*m.ReadOnly:
		return sqlstate.New(sqlstate.SyntaxError, "AS OF SYSTEM TIME specified with READ WRITE mode")
	case s.tx.Started() || s.wrote || s.catalogChanged():
		return sqlstate.New(sqlstate.ActiveTransaction, "SET TRANSACTION AS OF SYSTEM TIME must be called before any query")
	case len(s.savepts) > 0:
		return sqlstate.New(sqlstate.ActiveTransaction, "SET TRANSACTION AS OF SYSTEM TIME must not be called in a subtransaction")
	}
	s.fillScalar(nil)
	expr, err := s.binder(nil).Expr(s.srv.Host.Group.Context(), m.AsOf, nil)
	if err != nil {
		return err
	}
	ts, err := asOfTimestamp(&s.scalarCtx, expr, s.srv.Clock.Now())
	if err != nil {
		return err
	}
	return s.readAt(ts)
}

func (s *Session) readAt(ts clock.Timestamp) error {
	s.tx.Rollback(s.srv.Host.Group.Context())
	s.modes.readOnly = true
	s.tx = s.srv.DB.Begin(txn.TxnOptions{Isolation: s.modes.isolation, ReadOnly: true, AsOf: ts})
	s.cat.Finish(s.srv.Host.Group.Context(), false)
	s.beginCatalog()
	return nil
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
