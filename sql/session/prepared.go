package session

import (
	"context"
	"errors"
	"strings"

	"meridian/sql/exec"
	"meridian/sql/fault"
	"meridian/sql/memory"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// maxPortals and maxPrepared bound what a client can make a session hold.
const (
	maxPortals  = 10_000
	maxPrepared = 100_000
)

// Prepared is a prepared statement.
type Prepared struct {
	name  string
	stmt  *parse.Statement // nil: empty query
	types []*types.T       // as the client gave them; nil elements are inferred
	plan  *plan
	path  string // the search path that plan was made for
	held  int64  // bytes of the session's memory
}

// portal is a bound statement, perhaps half run.
type portal struct {
	name    string
	prep    *Prepared
	plan    *plan
	params  []types.Datum
	formats []Format
	cur     *exec.Cursor // nil before the first Execute and after the end
	// memory is cur's, and held what the arguments occupy of the session's.
	memory *memory.Account
	owner  *memory.Account
	held   int64
	ended  bool
	sent   int64
	size   int // of its arguments, in bytes
	// byDeclare portals are SQL cursors (cursor.go).
	byDeclare bool
	cursorState
}

// Binding is the content of a Bind message. Params alias the message.
type Binding struct {
	ParamFormats  []Format
	Params        [][]byte
	ResultFormats []Format
}

// FormatBuffer lends a slice for a Binding's formats.
func (s *Session) FormatBuffer(int) []Format { return s.formatBuf[:0] }

// ParamBuffer lends a slice of n parameters.
func (s *Session) ParamBuffer(n int) [][]byte {
	if cap(s.paramBuf) < n {
		s.paramBuf = make([][]byte, n)
	}
	return s.paramBuf[:n]
}

// Confine calls f, which does something for the session's client: a panic of its own code is its error (S6).
func (s *Session) Confine(f func() error) error {
	return fault.Run(s.srv.Host.Log, &s.srv.metrics.Faults, f)
}

// Parse prepares a statement under a name; the empty name is replaced silently.
func (s *Session) Parse(ctx context.Context, name, text string, oids []uint32) error {
	s.startTime()
	return s.Confine(func() error { return s.prepare(ctx, name, text, oids) })
}

func (s *Session) prepare(ctx context.Context, name, text string, oids []uint32) error {
	if name != "" {
		if _, taken := s.prepared[name]; taken {
			return sqlstate.New(sqlstate.DuplicatePreparedStatement, "prepared statement %q already exists", name)
		}
	} else {
		s.CloseStatement("")
	}
	if len(s.prepared) >= maxPrepared {
		return sqlstate.New(sqlstate.ConfigurationLimitExceeded, "too many prepared statements").
			WithHint("Deallocate those that are not used.")
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
		if s.state == stateFailed && ctx.Err() == nil {
			return errInFailed()
		}
		return err
	}
	if len(stmts) > 1 {
		return sqlstate.New(sqlstate.SyntaxError, "cannot insert multiple commands into a prepared statement")
	}
	p := &Prepared{name: name}
	if len(stmts) == 1 {
		if p.stmt, err = s.detach(ctx, &stmts[0]); err != nil {
			return err
		}
	}
	given := make([]*types.T, len(oids))
	for i, oid := range oids {
		if oid == 0 || oid == types.Unknown.OID() {
			continue
		}
		t, ok := types.FromOID(oid)
		if !ok {
			t, ok = s.enumByOID(ctx, oid)
		}
		if given[i] = t; !ok {
			return sqlstate.New(sqlstate.UndefinedObject, "type with OID %d does not exist", oid)
		}
	}
	p.types = given
	if p.stmt != nil {
		if s.state == stateFailed && !endsFailed(p.stmt) {
			return errInFailed()
		}
		if err := s.refreshPlan(ctx, p); err != nil {
			return err
		}
	}
	return s.hold(p)
}

// heldBytes is what a statement and its plan occupy for as long as the session keeps them. A plan that is shared is in the cache
// now, but not for ever.
func (s *Session) heldBytes(stmt *parse.Statement, p *plan) int64 {
	n := int64(len(stmt.Source)) + stmt.Bytes
	if p != nil {
		n += p.bytes
	}
	return n
}

// detach is the statement without a much longer text that it came in, for those who keep it.
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

// hold makes a prepared statement part of the session, whose memory it is until it is closed.
func (s *Session) hold(p *Prepared) error {
	if p.stmt != nil {
		p.held = 512 + s.heldBytes(p.stmt, p.plan)
	}
	if err := s.memory.Grow(p.held); err != nil {
		return err
	}
	s.CloseStatement(p.name)
	s.prepared[p.name] = p
	return nil
}

// refreshPlan makes sure that the statement has a plan that is good now (S3).
func (s *Session) refreshPlan(ctx context.Context, p *Prepared) error {
	if p.stmt == nil {
		return nil
	}
	path := s.setting("search_path")
	if p.plan != nil && p.path == path && !s.catalogChanged() {
		if p.plan.query == nil && needsNoTxn(p.stmt) {
			return nil
		}
		if p.plan.query != nil {
			if good, err := s.reuse(p.plan); good != nil || err != nil {
				return err
			}
		}
	}
	// Binding reads the catalogue, in a transaction: the open one, or one that ends with Sync.
	pl, err := s.planFor(ctx, p.stmt, p.types)
	if err != nil {
		return err
	}
	if p.plan != nil && p.plan.query != nil && !sameColumns(p.plan.columns, pl.columns) {
		return sqlstate.CachedPlan()
	}
	p.plan, p.path = pl, path
	return nil
}

func sameColumns(a, b []Column) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name != b[i].Name || !a[i].Type.Same(b[i].Type) {
			return false
		}
	}
	return true
}

func (s *Session) preparedByName(name string) (*Prepared, error) {
	if p, ok := s.prepared[name]; ok {
		return p, nil
	}
	if name == "" {
		return nil, sqlstate.New(sqlstate.InvalidStatementName, "unnamed prepared statement does not exist")
	}
	return nil, sqlstate.New(sqlstate.InvalidStatementName, "prepared statement %q does not exist", name)
}

// DescribeStatement returns the parameters' types and the result columns; nil columns: no rows.
func (s *Session) DescribeStatement(ctx context.Context, name string) ([]*types.T, []Column, error) {
	p, err := s.preparedByName(name)
	if err != nil || p.stmt == nil {
		return nil, nil, err
	}
	if s.state == stateFailed && !endsFailed(p.stmt) {
		return nil, nil, errInFailed()
	}
	if err := s.refreshPlan(ctx, p); err != nil {
		return nil, nil, err
	}
	return p.plan.params, s.planColumns(p.plan), nil
}

// aboutParameter says in an error which parameter of a Bind message it is about. Its value is not shown (PostgreSQL's
// log_parameter_max_length_on_error is 0).
func aboutParameter(err error, portal string, i int, f Format) error {
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
	if f == Text {
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
	s.startTime()
	return s.Confine(func() error { return s.makePortal(ctx, name, statement, b) })
}

func (s *Session) makePortal(ctx context.Context, name, statement string, b *Binding) error {
	p, err := s.preparedByName(statement)
	if err != nil {
		return err
	}
	if s.state == stateFailed && p.stmt != nil && !endsFailed(p.stmt) {
		return errInFailed()
	}
	if name != "" {
		if _, taken := s.portals[name]; taken {
			return sqlstate.New(sqlstate.DuplicateCursor, "cursor %q already exists", name)
		}
		if len(s.portals) >= maxPortals {
			return sqlstate.New(sqlstate.ConfigurationLimitExceeded, "too many portals")
		}
	} else {
		s.ClosePortal("")
	}
	if err := s.refreshPlan(ctx, p); err != nil {
		return err
	}
	po := &portal{name: name, prep: p, plan: p.plan}
	var want []*types.T
	if p.plan != nil {
		want = p.plan.params
	}
	if len(b.Params) != len(want) {
		return sqlstate.New(sqlstate.ProtocolViolation,
			"bind message supplies %d parameters, but prepared statement %q requires %d", len(b.Params), statement, len(want))
	}
	if n := len(b.ParamFormats); n > 1 && n != len(b.Params) {
		return sqlstate.New(sqlstate.ProtocolViolation, "bind message has %d parameter formats but %d parameters", n, len(b.Params))
	}
	if len(want) > 0 {
		po.params = make([]types.Datum, len(want))
	}
	for _, raw := range b.Params {
		po.size += 64 + len(raw)
	}
	// The parsed form of most is not larger than the text; of arrays and the like it may be.
	po.owner = s.memory
	if err := s.memory.Grow(2 * int64(po.size)); err != nil {
		return err
	}
	po.held = 2 * int64(po.size)
	env := s.textEnv()
	bound := false
	defer func() {
		if !bound {
			po.drop()
		}
	}()
	for i, raw := range b.Params {
		if raw == nil {
			continue
		}
		if t := want[i]; t.IsReg() || t.Kind == types.KindArray && t.Elem.IsReg() {
			s.ensureTxn() // names are looked up in the catalogue that the statement will see
		}
		f := Text
		switch len(b.ParamFormats) {
		case 0:
		case 1:
			f = b.ParamFormats[0]
		default:
			f = b.ParamFormats[i]
		}
		if f == Binary {
			if raw, err = s.decodeBinary(raw, want[i]); err == nil {
				po.params[i], err = types.ParseBinary(want[i], raw)
			}
		} else if raw, err = s.decodeText(raw); err == nil {
			if err = types.CheckString(raw); err == nil {
				po.params[i], err = types.ParseTextEnv(want[i], string(raw), env)
			}
		}
		if err != nil {
			return aboutParameter(err, name, i, f)
		}
	}
	if cols := s.planColumns(p.plan); cols != nil {
		if n := len(b.ResultFormats); n > 1 && n != len(cols) {
			return sqlstate.New(sqlstate.ProtocolViolation, "bind message has %d result formats but query has %d columns", n, len(cols))
		}
	}
	if len(b.ResultFormats) > 0 {
		po.formats = b.ResultFormats
	}
	po.made = s.portalsMade
	s.portalsMade++
	s.portals[name], bound = po, true
	return nil
}

// planColumns are the result columns of a plan, of a command too.
func (s *Session) planColumns(p *plan) []Column {
	if p == nil {
		return nil
	}
	if p.query == nil {
		return s.commandColumns(p.bound)
	}
	return p.columns
}

func (s *Session) portalByName(name string) (*portal, error) {
	if p, ok := s.portals[name]; ok {
		return p, nil
	}
	return nil, sqlstate.New(sqlstate.InvalidCursorName, "portal %q does not exist", name)
}

// DescribePortal returns a portal's result columns and formats.
func (s *Session) DescribePortal(_ context.Context, name string) ([]Column, []Format, error) {
	p, err := s.portalByName(name)
	if err != nil {
		return nil, nil, err
	}
	return s.planColumns(p.plan), p.formats, nil
}

// Execute runs a portal, up to limit rows (zero: all). final says that the client's next message is Sync.
func (s *Session) Execute(ctx context.Context, name string, limit int, final bool) error {
	p, err := s.portalByName(name)
	if err != nil {
		return err
	}
	if p.prep != nil && p.prep.stmt == nil {
		s.out.Empty()
		return nil
	}
	text := ""
	if p.plan != nil && p.plan.stmt != nil {
		text = p.plan.stmt.Text()
	}
	ctx, done := s.beginStatement(ctx, text)
	defer func() {
		if p.cur == nil {
			s.stopTime()
		}
	}()
	defer done()
	if p.byDeclare {
		return s.step(ctx, text, 0, p, func(ctx context.Context, _ bool) error { return s.executeCursor(ctx, p, int64(limit)) }, false)
	}
	if p.cur != nil {
		return s.step(ctx, text, 0, p, func(ctx context.Context, _ bool) error { return s.resume(ctx, p, int64(limit)) }, false)
	}
	if p.ended {
		// It has no more rows; what has none at all can't be run twice.
		if p.plan.query == nil || p.plan.columns == nil {
			return sqlstate.New(sqlstate.ObjectNotInPrerequisite, "portal %q cannot be run", name)
		}
		s.out.Complete(tagOf(p.plan.query.Tag, 0))
		return nil
	}
	if s.state == stateFailed && !endsFailed(p.plan.stmt) {
		return errInFailed()
	}
	s.syncNext = final
	defer func() { s.syncNext = false }()
	err = s.step(ctx, text, p.size, p, func(ctx context.Context, final bool) error {
		if p.plan.query == nil {
			return s.command(ctx, p.plan, p.params, p.formats, false)
		}
		if limit == 0 {
			return s.runPlan(ctx, p.plan, p.params, p.formats, false, final)
		}
		return s.open(ctx, p, int64(limit))
	}, final && s.mayEnd(p, limit))
	if err == nil && p.cur == nil {
		p.ended = true
	}
	return err
}

// mayEnd reports whether the implicit transaction can be committed with this statement: not if its portal stays open.
func (s *Session) mayEnd(p *portal, limit int) bool {
	return (s.state == stateNone || s.state == stateImplicit) && p.plan.query != nil && (limit == 0 || p.plan.program.Mutates())
}

// open starts a portal with a row limit.
func (s *Session) open(ctx context.Context, p *portal, limit int64) error {
	s.ensureTxn()
	if p.cur != nil {
		p.cur.Close()
		p.cur = nil
		p.memory.Close()
	}
	p.sent = 0
	now, err := s.current(ctx, p.plan)
	if err != nil {
		return err
	}
	p.plan = now
	if p.plan, err = s.prepareQuery(ctx, p.plan, p.params); err != nil {
		return err
	}
	if err := s.startCursor(ctx, p); err != nil {
		return err
	}
	return s.resume(ctx, p, limit)
}

// startCursor runs a portal's program, whose memory is the portal's.
func (s *Session) startCursor(ctx context.Context, p *portal) error {
	env := *s.environmentFor(p.params, false)
	sc := *env.Scalar
	env.Scalar = &sc
	env.Budget = s.memory.NewStatement(s.srv.MemoryPerStatement)
	cur, err := p.plan.program.Start(ctx, &env)
	if err != nil {
		env.Budget.Close()
		return err
	}
	p.cur, p.memory = cur, env.Budget
	return nil
}

// resume sends more rows of a portal.
func (s *Session) resume(ctx context.Context, p *portal, limit int64) error {
	n, end, err := s.sendRows(ctx, p.cur, p.plan.columns, p.formats, limit)
	if err != nil {
		p.close()
		return err
	}
	p.sent += n
	if !end {
		s.out.Suspend()
		return nil
	}
	affected := n // of this piece, as PostgreSQL counts
	if p.plan.columns == nil {
		affected = p.cur.RowsAffected()
	}
	p.close()
	s.out.Complete(tagOf(p.plan.query.Tag, affected))
	s.count(p.plan.query.Tag)
	return nil
}

func (p *portal) close() {
	if p.cur != nil {
		p.cur.Close()
		p.cur = nil
		p.memory.Close()
	}
	p.ended = true
}

// drop also gives back what the arguments occupy.
func (p *portal) drop() {
	p.close()
	p.owner.Shrink(p.held)
	p.held = 0
}

// Sync ends a sequence of extended-protocol messages, and the implicit transaction with it.
func (s *Session) Sync(ctx context.Context) error {
	s.stopTime()
	if s.state != stateImplicit {
		return nil
	}
	ctx, done := s.beginStatement(ctx, "")
	defer s.stopTime()
	defer done()
	return s.endImplicit(ctx, nil)
}

// CloseStatement drops a prepared statement, if it is there.
func (s *Session) CloseStatement(name string) {
	if p, ok := s.prepared[name]; ok {
		s.memory.Shrink(p.held)
		delete(s.prepared, name)
	}
}

// ClosePortal drops a portal, if it is there.
func (s *Session) ClosePortal(name string) {
	if p, ok := s.portals[name]; ok {
		p.drop()
		delete(s.portals, name)
	}
}

func (s *Session) closePortals() {
	for name := range s.portals {
		s.ClosePortal(name)
	}
}
