package session

import (
	"context"
	"errors"
	"strings"

	"meridian/sql/session/plan"
	"meridian/sql/session/portal"

	"meridian/sql/session/copydata"

	"meridian/sql/session/result"

	"meridian/sql/fault"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// Binding is the content of a Bind message. Params alias the message.
type Binding struct {
	ParamFormats  []result.Format
	Params        [][]byte
	ResultFormats []result.Format
}

// paramBuffer keeps a slice for the parameters of Bind messages.
type paramBuffer struct{ lent [][]byte }

// ParamBuffer lends a slice of n parameters.
func (b *paramBuffer) ParamBuffer(n int) [][]byte {
	if cap(b.lent) < n {
		b.lent = make([][]byte, n)
	}
	return b.lent[:n]
}

// Confine calls f, which serves the session's client: a panic in f becomes its error (session.S6).
func (s *Session) Confine(f func() error) error {
	return fault.Run(s.srv.Host.Log, &s.srv.metrics.Faults, f)
}

// Parse prepares a statement under a name; the empty name is replaced silently.
func (s *Session) Parse(ctx context.Context, name, text string, oids []uint32) error {
	s.timer.start(s.frequent().statementTimeout)
	return s.Confine(func() error { return s.prepare(ctx, name, text, oids) })
}

func (s *Session) prepare(ctx context.Context, name, text string, oids []uint32) error {
	if err := s.statements.Reserve(name); err != nil {
		return err
	}
	if len(oids) > 65535 {
		return sqlstate.New(sqlstate.TooManyArguments, "too many parameters")
	}
	if len(text) > longText {
		var done func()
		ctx, done = s.interruptible(ctx, text)
		defer done()
	}
	stmts, err := s.parse(ctx, text)
	if err != nil {
		if s.state.Failed() && ctx.Err() == nil {
			return errInFailed()
		}
		return err
	}
	if len(stmts) > 1 {
		return sqlstate.New(sqlstate.SyntaxError, "cannot insert multiple commands into a prepared statement")
	}
	p := &portal.Statement{Name: name, Created: s.wall()}
	if len(stmts) == 1 {
		if p.Stmt, err = s.detach(ctx, &stmts[0]); err != nil {
			return err
		}
	}
	given := make([]*types.T, len(oids))
	for i, oid := range oids {
		if oid == 0 || oid == types.Unknown.OID() {
			continue
		}
		t, ok := types.FromOID(oid)
		if !ok && !s.state.Failed() {
			t, ok = typeByOID(ctx, s.view(), oid)
		}
		if given[i] = t; !ok {
			return sqlstate.New(sqlstate.UndefinedObject, "type with OID %d does not exist", oid)
		}
	}
	p.Types = given
	if p.Stmt != nil {
		if s.state.Failed() && !endsFailed(p.Stmt) {
			return errInFailed()
		}
		if err := s.refreshPlan(ctx, p); err != nil {
			return err
		}
	}
	return s.statements.Add(p)
}

// detach returns a statement that is going to be kept, parsed again from its own text if it came as a small part of a much longer one.
func (s *Session) detach(ctx context.Context, stmt *parse.Statement) (*parse.Statement, error) {
	text := stmt.Text()
	if len(stmt.Source) < 2*len(text)+longText {
		return stmt, nil
	}
	list, err := s.parse(ctx, strings.Clone(text))
	if err != nil {
		return nil, err
	}
	return &list[0], nil
}

// refreshPlan makes sure that the statement has a plan that can be used now (session.S3). A client that prepares, describes or binds a statement is not told of a change of the schema that
// its transaction is too old for: the transaction begins anew, as for one that is executed (session.S2).
func (s *Session) refreshPlan(ctx context.Context, p *portal.Statement) error {
	err := s.planAnew(ctx, p)
	if err == nil || !Retryable(err) || s.state.Failed() {
		return err
	}
	return s.step(ctx, p.Stmt.Text(), 0, nil, func(ctx context.Context, _ bool) error { return s.planAnew(ctx, p) }, false)
}

func (s *Session) planAnew(ctx context.Context, p *portal.Statement) error {
	if p.Stmt == nil {
		return nil
	}
	path := s.frequent().path
	if p.Plan != nil && p.Path == path && !s.catalogChanged() {
		if p.Plan.Query == nil && needsNoTxn(p.Stmt) {
			return nil
		}
		if p.Plan.Query != nil {
			if good, err := s.reuse(p.Plan); good != nil || err != nil {
				return err
			}
		}
	}
	// Binding reads the catalogue, in a transaction: the open one, or one that ends with Sync.
	pl, err := s.planFor(ctx, p.Stmt, p.Types)
	if f := (*failing)(nil); errors.As(err, &f) {
		pl, err = f.plan, nil
	}
	if err != nil {
		return err
	}
	if p.Plan != nil && p.Plan.Query != nil && !plan.SameColumns(p.Plan.Columns, pl.Columns) {
		return sqlstate.CachedPlan()
	}
	p.Plan, p.Path = pl, path
	return nil
}

// DescribeStatement returns the parameters' types and the result columns; nil columns: no rows.
func (s *Session) DescribeStatement(ctx context.Context, name string) ([]*types.T, []result.Column, error) {
	s.timer.start(s.frequent().statementTimeout)
	p, err := s.statements.Find(name)
	if err != nil || p.Stmt == nil {
		return nil, nil, err
	}
	if s.state.Failed() && !endsFailed(p.Stmt) {
		return nil, nil, errInFailed()
	}
	if err := s.refreshPlan(ctx, p); err != nil {
		return nil, nil, err
	}
	return p.Plan.Params, s.planColumns(p.Plan), nil
}

// aboutParameter says in an error which parameter of a Bind message it is about. Its value is not shown (PostgreSQL's
// log_parameter_max_length_on_error is 0).
func aboutParameter(err error, portal string, i int, f result.Format) error {
	var e *sqlstate.Error
	if !errors.As(err, &e) {
		return err
	}
	told := *e
	where := "unnamed portal"
	if portal != "" {
		where = "portal \"" + portal + "\""
	}
	where += " parameter $" + itoa(int64(i)+1)
	if f == result.Text {
		where += " = '...'"
	}
	if told.Context != "" {
		told.Context += "\n"
	}
	told.Context += where
	return &told
}

// Bind makes a portal.
func (s *Session) Bind(ctx context.Context, name, statement string, b *Binding) error {
	s.timer.start(s.frequent().statementTimeout)
	return s.Confine(func() error { return s.makePortal(ctx, name, statement, b) })
}

func (s *Session) makePortal(ctx context.Context, name, statement string, b *Binding) error {
	p, err := s.statements.Find(statement)
	if err != nil {
		return err
	}
	if s.state.Failed() && p.Stmt != nil && !endsFailed(p.Stmt) {
		return errInFailed()
	}
	if err := s.portals.Reserve(name); err != nil {
		return err
	}
	if err := s.refreshPlan(ctx, p); err != nil {
		return err
	}
	if name := p.Name; name != "" {
		p.Executed(s.setting("plan_cache_mode"))
	}
	po := &portal.Portal{Name: name, Statement: p, Plan: p.Plan}
	var want []*types.T
	if p.Plan != nil {
		want = p.Plan.Params
	}
	if len(b.Params) != len(want) {
		return sqlstate.New(sqlstate.ProtocolViolation,
			"bind message supplies %d parameters, but prepared statement %q requires %d", len(b.Params), statement, len(want))
	}
	if n := len(b.ParamFormats); n > 1 && n != len(b.Params) {
		return sqlstate.New(sqlstate.ProtocolViolation, "bind message has %d parameter formats but %d parameters", n, len(b.Params))
	}
	if len(want) > 0 {
		po.Params = make([]types.Datum, len(want))
	}
	for _, raw := range b.Params {
		po.Size += 64 + len(raw)
	}
	// The parsed form of most arguments is not larger than their text; that of an array may be.
	if err := po.Take(s.memory, 2*int64(po.Size)); err != nil {
		return err
	}
	env := s.textEnv()
	bound := false
	defer func() {
		if !bound {
			po.Drop()
		}
	}()
	for i, raw := range b.Params {
		if raw == nil {
			continue
		}
		if t := want[i]; t.IsReg() || t.Kind == types.KindArray && t.Elem.IsReg() {
			s.ensureTxn() // names are looked up in the catalogue of the statement's transaction
		}
		f := result.Text
		switch len(b.ParamFormats) {
		case 0:
		case 1:
			f = b.ParamFormats[0]
		default:
			f = b.ParamFormats[i]
		}
		if f == result.Binary {
			if raw, err = copydata.DecodeBinary(s.charset, raw, want[i]); err == nil {
				po.Params[i], err = types.ParseBinary(want[i], raw)
			}
		} else if raw, err = s.decodeText(raw); err == nil {
			if err = types.CheckString(raw); err == nil {
				po.Params[i], err = types.ParseTextEnv(want[i], string(raw), env)
			}
		}
		if err != nil {
			return aboutParameter(err, name, i, f)
		}
	}
	if p.Plan != nil && p.Plan.Fails != nil {
		return p.Plan.Fails
	}
	if cols := s.planColumns(p.Plan); cols != nil {
		if n := len(b.ResultFormats); n > 1 && n != len(cols) {
			return sqlstate.New(sqlstate.ProtocolViolation, "bind message has %d result formats but query has %d columns", n, len(cols))
		}
	}
	if len(b.ResultFormats) > 0 {
		po.Formats = b.ResultFormats
	}
	s.portals.Add(po)
	bound = true
	return nil
}

// planColumns returns the result columns of a plan or a command.
func (s *Session) planColumns(p *plan.Plan) []result.Column {
	if p == nil {
		return nil
	}
	if p.Query == nil {
		return s.commandColumns(p.Bound)
	}
	return p.Columns
}

// DescribePortal returns a portal's result columns and formats.
func (s *Session) DescribePortal(_ context.Context, name string) ([]result.Column, []result.Format, error) {
	s.timer.start(s.frequent().statementTimeout)
	p, err := s.portals.Find(name)
	if err != nil {
		return nil, nil, err
	}
	return s.planColumns(p.Plan), p.Formats, nil
}

// Execute runs a portal, up to limit rows (zero: all). final says that the client's next message is Sync.
func (s *Session) Execute(ctx context.Context, name string, limit int, final bool) error {
	p, err := s.portals.Find(name)
	if err != nil {
		return err
	}
	if p.Statement != nil && p.Statement.Stmt == nil {
		s.timer.stop()
		s.out.Empty()
		return nil
	}
	text := ""
	if p.Plan != nil && p.Plan.Stmt != nil {
		text = p.Plan.Stmt.Text()
	}
	ctx, done := s.beginStatement(ctx, text)
	defer func() {
		if !p.Running() {
			s.timer.stop()
		}
	}()
	defer done()
	if p.Declared {
		return s.step(ctx, text, 0, p, func(ctx context.Context, _ bool) error { return s.executeCursor(ctx, p, int64(limit)) }, false)
	}
	if p.Running() {
		return s.step(ctx, text, 0, p, func(ctx context.Context, _ bool) error { return s.resume(ctx, p, int64(limit)) }, false)
	}
	if p.Ended() {
		// The portal has no more rows. One that returns no rows at all can't be run twice.
		if p.Plan.Query == nil || p.Plan.Columns == nil {
			return sqlstate.New(sqlstate.ObjectNotInPrerequisite, "portal %q cannot be run", name)
		}
		s.out.Complete(tagOf(p.Plan.Query.Tag, 0))
		return nil
	}
	if s.state.Failed() && !endsFailed(p.Plan.Stmt) {
		return errInFailed()
	}
	s.syncNext = final
	defer func() { s.syncNext = false }()
	err = s.step(ctx, text, p.Size, p, func(ctx context.Context, final bool) error {
		if p.Plan.Query == nil {
			return s.command(ctx, p.Plan, p.Params, p.Formats, false)
		}
		if limit == 0 {
			return s.runPlan(ctx, p.Plan, p.Params, p.Formats, false, final)
		}
		return s.open(ctx, p, int64(limit))
	}, final && s.mayEnd(p, limit))
	if err == nil && !p.Running() {
		p.End()
	}
	return err
}

// mayEnd reports whether the implicit transaction can be committed with this statement: it can't if the portal may stay open.
func (s *transaction) mayEnd(p *portal.Portal, limit int) bool {
	return !s.state.Block() && p.Plan.Query != nil && (limit == 0 || p.Plan.Program.Mutates())
}

// open starts a portal with a row limit.
func (s *Session) open(ctx context.Context, p *portal.Portal, limit int64) error {
	if err := s.startPortal(ctx, p); err != nil {
		return err
	}
	return s.resume(ctx, p, limit)
}

// startPortal starts the query of a portal that was bound.
func (s *Session) startPortal(ctx context.Context, p *portal.Portal) error {
	s.ensureTxn()
	p.Rewind()
	now, err := s.current(ctx, p.Plan, true)
	if err != nil {
		return err
	}
	p.Plan = now
	if p.Plan, err = s.prepareQuery(ctx, p.Plan, p.Params, true); err != nil {
		return err
	}
	return s.startCursor(ctx, p)
}

// startCursor starts a portal's program. Its memory is accounted for in the portal.
func (s *Session) startCursor(ctx context.Context, p *portal.Portal) error {
	env := *s.environmentFor(p.Params, false)
	sc := *env.Scalar
	env.Scalar = &sc
	env.Budget = s.portalAccount()
	cur, err := p.Plan.Program.Start(ctx, &env)
	if err != nil {
		env.Budget.Close()
		return err
	}
	p.Open(cur, env.Budget)
	return nil
}

// resume sends more rows of a portal.
func (s *Session) resume(ctx context.Context, p *portal.Portal, limit int64) error {
	n, end, err := sendRows(ctx, s.out, p.Rows(), p.Plan.Columns, p.Formats, limit)
	p.Advance(n)
	if err != nil {
		p.Stop()
		return err
	}
	if !end {
		s.out.Suspend()
		return nil
	}
	affected := n // rows of this Execute alone, as in PostgreSQL
	if p.Plan.Columns == nil {
		affected = p.Rows().RowsAffected()
	}
	p.Stop()
	s.out.Complete(tagOf(p.Plan.Query.Tag, affected))
	s.srv.metrics.count(p.Plan.Query.Tag)
	return nil
}

// Sync ends a sequence of extended-protocol messages, and the implicit transaction with it.
func (s *Session) Sync(ctx context.Context) error {
	s.timer.stop()
	if !s.state.Implicit() {
		return nil
	}
	ctx, done := s.beginStatement(ctx, "")
	defer s.timer.stop()
	defer done()
	return s.endImplicit(ctx, nil)
}

// CloseStatement drops a prepared statement, if it is there.
func (s *Session) CloseStatement(name string) { s.statements.Close(name) }

// ClosePortal drops a portal, if it is there.
func (s *Session) ClosePortal(name string) { s.portals.Close(name) }
