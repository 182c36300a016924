package session

import (
	"context"
	"strconv"
	"strings"
	"time"

	"meridian/clock"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/parse"
	"meridian/sql/session/txnstate"
	"meridian/sql/sqlstate"
	"meridian/txn"
)

// transaction is the open transaction of a session.
type transaction struct {
	state      txnstate.Machine
	tx         *txn.Txn // nil if none is open, and in one that has failed and whose locks were given up
	cat        *lease.Txn
	viewCache  catalog.View
	savepoints txnstate.Savepoints[savepoint]
	txnStart   time.Time
	// bound is what the transaction negotiates its read timestamp within, as long as it has none.
	bound *bound
	// leaderless says that a statement has used a table without leaseholders at a level of isolation that is only the server's default.
	leaderless bool
}

// savepoint has the positions to which ROLLBACK TO returns: the transaction's, and those of all participants, in their order.
type savepoint struct {
	at       txn.Savepoint
	marks    []any
	readOnly bool
}

// ensureTxn opens an implicit transaction if none is open.
func (s *Session) ensureTxn() {
	if !s.state.Open() {
		s.openTxn(txnstate.Implicit, s.frequent().modes)
	}
}

func (s *settings) defaultModes() txnstate.Modes {
	return txnstate.Modes{
		ReadOnly:   s.setting("default_transaction_read_only") == "on" || s.usesFollowers(),
		Deferrable: s.setting("default_transaction_deferrable") == "on",
		Declared:   s.declared(defaultIsolation),
	}.WithIsolation(s.setting(defaultIsolation))
}

const defaultIsolation = "default_transaction_isolation"

func (s *Session) openTxn(st txnstate.State, m txnstate.Modes) {
	s.tx = s.srv.DB.Begin(s.options(m))
	s.state.Begin(st, m)
	s.leaderless = false
	s.txnStart = s.srv.Clock.Wall()
	for _, p := range &s.parts {
		p.Begin()
	}
}

// beginCatalog begins the catalogue's part of the open transaction.
func (s *Session) beginCatalog() {
	s.cat, s.viewCache = s.srv.Catalog.Begin(s.tx), nil
	s.cat.SetLocal(s.temp.local)
}

func (s *Session) options(m txnstate.Modes) txn.TxnOptions {
	o := txn.TxnOptions{Isolation: m.Isolation, Declared: m.Declared, ReadOnly: m.ReadOnly, LockTimeout: s.frequent().lockTimeout}
	if s.frequent().followers {
		o.AsOf = s.followerTimestamp()
	}
	return o
}

// commitImplicit commits the implicit transaction. If that fails, the statement has not completed: its output is taken back.
func (s *Session) commitImplicit(ctx context.Context) (err error) {
	if s.tx == nil {
		return nil
	}
	defer func() {
		if err != nil {
			s.out.Rewind(s.statement)
		}
	}()
	return s.commitOpen(ctx)
}

// commitOpen commits the open transaction. Participants that may fail are asked before.
func (s *Session) commitOpen(ctx context.Context) error {
	if err := s.checkDeferred(ctx, nil); err != nil {
		return err
	}
	if err := s.portals.Materialize(ctx); err != nil {
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
	if s.state.Wrote() {
		s.srv.finished.note(finishedTxn{s.tx.ID(), s.pid, s.frequent().application})
	}
	s.clearTxn(true)
	return cat.Finish(ctx, true)
}

// endImplicit ends an implicit transaction that is still open at the end of a query string, or at a Sync.
func (s *Session) endImplicit(ctx context.Context, err error) error {
	if !s.state.Implicit() {
		return err
	}
	if err != nil {
		s.finishTxn(ctx)
		return err
	}
	return s.step(ctx, "COMMIT", 0, nil, func(context.Context, bool) error { return nil }, true)
}

// finishTxn rolls back the open transaction, if there is one.
func (s *Session) finishTxn(ctx context.Context) {
	if !s.state.Open() {
		return
	}
	tx, cat := s.tx, s.cat
	s.clearTxn(false)
	s.srv.metrics.TxnRollbacks.Add(1)
	if tx != nil {
		// The statement may have been cancelled: the rollback must reach the ranges all the same.
		tx.Rollback(context.WithoutCancel(ctx))
	}
	cat.Finish(context.WithoutCancel(ctx), false)
}

// clearTxn ends the transaction in all participants.
func (s *Session) clearTxn(committed bool) {
	for _, p := range &s.parts {
		p.End(committed)
	}
}

// Fail notes that a statement failed: an explicit transaction then accepts only its end, and ROLLBACK TO (session.S4).
func (s *Session) Fail() {
	s.srv.metrics.Errors.Add(1)
	s.timer.stop()
	if s.state.Explicit() {
		s.recordFailure()
		s.viewCache = nil
	}
	switch s.state.Fail(s.savepoints.Len()) {
	case txnstate.RollBack:
		// The messages up to Sync are skipped, and the locks of an implicit transaction must not wait for that.
		s.finishTxn(s.srv.Host.Group.Context())
	case txnstate.Release:
		if s.tx != nil {
			// A ROLLBACK TO that follows fails, because tx is nil.
			s.portals.EndTransaction(false)
			s.tx.Rollback(s.srv.Host.Group.Context())
			s.tx = nil
			s.advisory.End()
		}
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
	if s.state.Block() {
		s.out.Notice(&sqlstate.Error{Code: sqlstate.ActiveTransaction, Message: "there is already a transaction in progress"})
		return nil
	}
	if m.ReadOnly != nil && !*m.ReadOnly && m.AsOf == "" && s.usesFollowers() {
		return errReadWrite()
	}
	if s.state.Implicit() {
		// BEGIN within a query string turns the implicit transaction into an explicit one.
		if err := s.setModes(m); err != nil {
			return err
		}
		if err := s.beginAsOf(m); err != nil {
			return err
		}
		s.state.Promote()
		return nil
	}
	s.openTxn(txnstate.Explicit, s.frequent().modes.With(m))
	s.replay.Opened()
	err := s.beginAsOf(m)
	if err != nil {
		s.finishTxn(s.srv.Host.Group.Context()) // a BEGIN that fails has begun nothing
	}
	return err
}

// commit is COMMIT. It rolls back a failed transaction, as in PostgreSQL.
func (s *Session) commit(ctx context.Context) (string, error) {
	switch s.state.Committing() {
	case txnstate.NothingOpen:
		s.noTransaction()
		return "COMMIT", nil
	case txnstate.CommitImplicit:
		// Within a string of statements, or between two Syncs, it ends the implicit transaction.
		s.noTransaction()
	case txnstate.RollBackFailed:
		s.finishTxn(ctx)
		return "ROLLBACK", nil
	}
	return "COMMIT", s.commitOpen(ctx)
}

func (s *Session) noTransaction() {
	s.out.Notice(&sqlstate.Error{Code: sqlstate.NoActiveTransaction, Message: "there is no transaction in progress"})
}

func (s *Session) rollback(ctx context.Context) string {
	if !s.state.Block() {
		s.noTransaction()
	}
	s.finishTxn(ctx)
	return "ROLLBACK"
}

func (s *Session) savepoint(ctx context.Context, name string) error {
	if err := s.state.NeedBlock("SAVEPOINT"); err != nil {
		return err
	}
	if err := s.settleBound(ctx); err != nil {
		return err
	}
	if err := s.txnMemory().Grow(savepointBytes + int64(len(name)) + s.params.MarkBytes()); err != nil {
		return err
	}
	at := savepoint{at: s.tx.Savepoint(), marks: make([]any, len(s.parts)), readOnly: s.state.Modes().ReadOnly}
	for i, p := range &s.parts {
		at.marks[i] = p.Mark()
	}
	s.savepoints.Push(strings.Clone(name), at)
	return nil
}

// restoreReadOnly undoes SET TRANSACTION READ ONLY at the end of a subtransaction, released or not.
func (s *Session) restoreReadOnly(to *savepoint) {
	m := s.state.Modes()
	m.ReadOnly = to.readOnly
	s.state.SetModes(m)
	s.tx.SetReadOnly(m.ReadOnly)
}

func (s *Session) release(name string) error {
	if err := s.state.NeedBlock("RELEASE SAVEPOINT"); err != nil {
		return err
	}
	i, to, err := s.savepoints.Find(name)
	if err != nil {
		return err
	}
	s.tx.Release(to.at)
	s.restoreReadOnly(to)
	s.savepoints.Release(i)
	return nil
}

func (s *Session) rollbackTo(name string) error {
	if err := s.state.NeedBlock("ROLLBACK TO SAVEPOINT"); err != nil {
		return err
	}
	i, to, err := s.savepoints.Find(name)
	if err != nil {
		return err
	}
	if s.tx == nil {
		return sqlstate.New(sqlstate.SerializationFailure, "the transaction lost a conflict and can't be continued from savepoint %q", name).
			WithHint("Roll it back and try again.")
	}
	if err := s.tx.RollbackTo(to.at); err != nil {
		return err
	}
	s.restoreReadOnly(to)
	for j, p := range &s.parts {
		p.RollbackTo(to.marks[j])
	}
	s.savepoints.Keep(i)
	s.state.Restore()
	return nil
}

// readHere fixes the read timestamp, for a query that has been planned.
func (s *Session) readHere(ctx context.Context, ts clock.Timestamp, deps []catalog.Dependency) error {
	ok, err := s.readThere(ctx, ts, txn.NearestLikely, deps)
	if err == nil && !ok {
		err = sqlstate.New(sqlstate.SerializationFailure, "the schema was changed by another transaction")
	}
	return err
}

// beginAsOf moves the open transaction to the time that its modes name, if they do. Its earlier work would be lost or belong to another
// time, so it must have done nothing.
func (s *Session) beginAsOf(m parse.TxnModes) error {
	switch {
	case m.AsOf == "":
		return nil
	case m.ReadOnly != nil && !*m.ReadOnly:
		return errReadWrite()
	case s.tx.Started() || s.state.Wrote() || s.catalogChanged():
		return sqlstate.New(sqlstate.ActiveTransaction, "SET TRANSACTION AS OF SYSTEM TIME must be called before any query")
	case s.savepoints.Len() > 0:
		return sqlstate.New(sqlstate.ActiveTransaction, "SET TRANSACTION AS OF SYSTEM TIME must not be called in a subtransaction")
	}
	ctx := s.srv.Host.Group.Context()
	s.fillScalar(nil)
	expr, err := s.binder(nil).Expr(ctx, m.AsOf, nil)
	if err != nil {
		return err
	}
	b, err := s.boundOf(expr)
	if err != nil {
		return err
	}
	if b != nil {
		s.beginWithin(b)
		return nil
	}
	ts, err := asOfTimestamp(&s.scalarCtx, expr, s.srv.Clock.Now())
	if err != nil {
		return err
	}
	return s.readAt(ctx, ts, txn.NearestLikely)
}

// readAt moves the open transaction, which has done nothing, to a timestamp in the past.
func (s *Session) readAt(ctx context.Context, ts clock.Timestamp, near txn.Nearness) error {
	s.bound = nil
	external := s.tx.External()
	s.tx.Rollback(s.srv.Host.Group.Context())
	m := s.state.Modes()
	m.ReadOnly = true
	s.state.SetModes(m)
	s.tx = s.srv.DB.Begin(txn.TxnOptions{Isolation: m.Isolation, ReadOnly: true, AsOf: ts, Near: near})
	if external {
		s.tx.BeExternal()
	}
	s.cat.Finish(s.srv.Host.Group.Context(), false)
	s.beginCatalog()
	return s.cat.Covers(ctx)
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// declared reports whether the session, or what it began with, has a value for a setting.
func (s *settings) declared(name string) bool {
	_, began := s.params.Fallback(name)
	return began || s.params.IsSet(name)
}
