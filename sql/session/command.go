package session

import (
	"context"
	"slices"
	"strings"
	"time"

	clustersetting "meridian/setting"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/exec"
	"meridian/sql/opt"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/schemachange"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// command runs everything that is not a query. describe says that the client expects RowDescription before rows
// (the simple protocol); formats are its columns' as Bind gave them.
func (s *Session) command(ctx context.Context, p *plan, params []types.Datum, formats []Format, describe bool) error {
	w := &rowWriter{s: s, formats: formats, describe: describe, params: params}
	tag, err := s.runCommand(ctx, p, w)
	if err != nil {
		return err
	}
	if tag != "" {
		s.out.Complete(tag)
	}
	return nil
}

// rowWriter sends the rows of a command.
type rowWriter struct {
	s        *Session
	formats  []Format
	describe bool
	params   []types.Datum // of the command
	cols     []Column
	rows     int64
}

func (w *rowWriter) columns(cols ...Column) {
	w.cols = cols
	if w.describe {
		w.s.out.Describe(cols, nil)
	}
}

func (w *rowWriter) row(values ...types.Datum) error {
	w.rows++
	return w.s.out.Row(values, w.cols, w.formats)
}

func text(name string) Column { return Column{Name: name, Type: types.Text} }

func (s *Session) runCommand(ctx context.Context, p *plan, w *rowWriter) (string, error) {
	switch p.bound.(type) {
	case *bind.LockTable, *bind.SplitAt, *bind.Show:
		if err := s.checkCommand(p.bound); err != nil {
			return "", err
		}
	}
	switch c := p.bound.(type) {
	case *bind.Begin:
		if c.Start {
			return "START TRANSACTION", s.begin(c.Modes)
		}
		return "BEGIN", s.begin(c.Modes)
	case *bind.Commit:
		if c.Chain {
			if err := s.needBlock("COMMIT AND CHAIN"); err != nil {
				return "", err
			}
		}
		m := s.modes
		tag, err := s.commit(ctx)
		if err == nil && c.Chain {
			s.openTxn(stateExplicit, m)
			s.replay.opened = true
		}
		return tag, err
	case *bind.Rollback:
		if c.Chain {
			if err := s.needBlock("ROLLBACK AND CHAIN"); err != nil {
				return "", err
			}
		}
		m := s.modes
		tag := s.rollback(ctx)
		if c.Chain {
			s.openTxn(stateExplicit, m)
			s.replay.opened = true
		}
		return tag, nil
	case *bind.Savepoint:
		return "SAVEPOINT", s.savepoint(c.Name)
	case *bind.Release:
		return "RELEASE", s.release(c.Name)
	case *bind.RollbackTo:
		return "ROLLBACK", s.rollbackTo(c.Name)
	case *bind.SetTransaction:
		return "SET", s.setTransaction(c)
	case *bind.SetConstraints:
		return "SET CONSTRAINTS", s.setConstraints(ctx, c)
	case *bind.SetVar:
		return "SET", s.setVar(c)
	case *bind.ResetVar:
		return "RESET", s.resetVar(c.Name)
	case *bind.ShowVar:
		return "SHOW", s.showVar(c, w)
	case *bind.ShowClusterSetting:
		return "SHOW", s.showClusterSetting(c, w)
	case *bind.Explain:
		return "EXPLAIN", s.explain(ctx, c, w)
	case *bind.Prepare:
		return "PREPARE", s.sqlPrepare(ctx, c)
	case *bind.Execute:
		return "", s.sqlExecute(ctx, c, w)
	case *bind.Deallocate:
		return s.deallocate(c)
	case *bind.DeclareCursor:
		return "DECLARE CURSOR", s.declare(ctx, c, w.params, p.params)
	case *bind.Fetch:
		return s.fetch(ctx, c, w)
	case *bind.CloseCursor:
		return s.closeCursor(c)
	case *bind.Discard:
		return s.discard(c)
	case *bind.Copy:
		return s.copyCommand(ctx, c)
	case *bind.Show:
		return "SHOW", s.show(ctx, c, w)
	case *bind.Vacuum:
		if err := s.standAlone("VACUUM"); err != nil {
			return "", err
		}
		for _, n := range c.Notices {
			s.notice(n)
		}
		if c.Analyze {
			return "VACUUM", s.analyze(ctx, &bind.Analyze{Tables: c.Tables}, "vacuum")
		}
		s.ensureTxn()
		s.mayMaintain(c.Tables, true, "vacuum")
		return "VACUUM", nil
	case *bind.Analyze:
		return "ANALYZE", s.analyze(ctx, c, "analyze")
	case *bind.LockTable:
		if !s.inBlock() {
			return "", s.needBlock("LOCK TABLE")
		}
		return "LOCK TABLE", s.lockTables(ctx, c)
	case *bind.Noop:
		if c.Notice != "" {
			s.out.Notice(&sqlstate.Error{Code: sqlstate.SuccessfulCompletion, Message: c.Notice})
			for _, more := range c.More {
				s.out.Notice(&sqlstate.Error{Code: sqlstate.SuccessfulCompletion, Message: more})
			}
		}
		return c.Tag, nil
	case *bind.Listen, *bind.Unlisten:
		return s.listen(c)
	case *bind.Notify:
		return "NOTIFY", s.notify(c.Channel, c.Payload)
	case *bind.SplitAt:
		return s.splitAt(ctx, c)
	}
	return s.define(ctx, p)
}

// commandName names a data definition statement as PostgreSQL's command tags do.
func commandName(stmt bind.Statement) string {
	relation := func(k catalog.Kind) string {
		switch k {
		case catalog.KindView:
			return "VIEW"
		case catalog.KindSequence:
			return "SEQUENCE"
		}
		return "TABLE"
	}
	switch c := stmt.(type) {
	case *bind.CreateTable:
		return "CREATE TABLE"
	case *bind.DropRelation:
		if c.Materialized {
			return "DROP MATERIALIZED VIEW"
		}
		return "DROP " + relation(c.Kind)
	case *bind.RefreshView:
		return "REFRESH MATERIALIZED VIEW"
	case *bind.AlterTable:
		if c.Index != "" {
			return "ALTER INDEX"
		}
		return "ALTER " + relation(c.As)
	case *bind.CreateIndex:
		return "CREATE INDEX"
	case *bind.DropIndex:
		return "DROP INDEX"
	case *bind.RenameIndex:
		return "ALTER INDEX"
	case *bind.CreateSchema:
		return "CREATE SCHEMA"
	case *bind.DropSchema:
		return "DROP SCHEMA"
	case *bind.AlterSchema:
		return "ALTER SCHEMA"
	case *bind.CreateType:
		return "CREATE TYPE"
	case *bind.AlterType:
		return "ALTER TYPE"
	case *bind.DropType:
		return "DROP TYPE"
	case *bind.CreateSequence:
		return "CREATE SEQUENCE"
	case *bind.AlterSequence:
		return "ALTER SEQUENCE"
	case *bind.CreateView:
		return "CREATE VIEW"
	case *bind.Truncate:
		return "TRUNCATE TABLE"
	case *bind.Comment:
		return "COMMENT"
	case *bind.Grant:
		return "GRANT"
	case *bind.CreateRole:
		return "CREATE ROLE"
	case *bind.AlterRole:
		return "ALTER ROLE"
	case *bind.DropRole:
		return "DROP ROLE"
	}
	return "a change of the schema"
}

// define runs data definition statements.
func (s *Session) define(ctx context.Context, p *plan) (string, error) {
	bound, err := s.initialSetting(p.bound)
	if err == nil {
		switch bound.(type) {
		case *bind.CreateDatabase:
			err = s.standAlone("CREATE DATABASE")
		case *bind.DropDatabase:
			err = s.standAlone("DROP DATABASE")
		}
	}
	if err != nil {
		return "", err
	}
	s.ensureTxn()
	s.tx.Harden()
	if s.modes.readOnly {
		return "", sqlstate.New(sqlstate.ReadOnlyTransaction, "cannot execute %s in a read-only transaction", commandName(p.bound))
	}
	if err := s.notPending(p.bound); err != nil {
		return "", err
	}
	tag, handled, err := s.srv.Schema.Execute(ctx, &schemachange.Definition{
		Stmt: bound, Txn: s.tx, KV: s.definitionKV(), Catalog: s.cat, Session: s.pid, Info: s.info(), Binder: s.binder(nil), Explicit: s.state == stateExplicit,
		Alone:  s.state == stateImplicit && !s.ran && (s.replay.final || s.syncNext),
		Notice: s.out.Notice, Scalar: s.definitionScalar(ctx),
		Run: func(ctx context.Context, q *bind.Query, row func(types.Row) error) (int64, error) {
			return s.runBound(ctx, q, nil, row)
		},
	})
	if err != nil {
		return "", err
	}
	if !handled {
		return "", sqlstate.New(sqlstate.FeatureNotSupported, "this statement is not supported")
	}
	s.viewCache = nil
	return tag, nil
}

// definitionScalar is what the expressions of a definition may use while it rewrites rows.
func (s *Session) definitionScalar(ctx context.Context) *scalar.Context {
	s.env.mayDraw = 0
	s.fillScalar(nil)
	sctx := s.scalarCtx
	sctx.Context = ctx
	return &sctx
}

// runBound compiles and runs a query whose rows go to a function.
func (s *Session) runBound(ctx context.Context, q *bind.Query, params []types.Datum, row func(types.Row) error) (int64, error) {
	if q.AsOf != nil {
		return 0, sqlstate.New(sqlstate.FeatureNotSupported, "AS OF SYSTEM TIME is not supported in a statement that changes the schema")
	}
	s.viewCache = nil
	p := &plan{bound: q, private: true}
	if err := s.compile(ctx, p, q, s.planRoom(ctx)); err != nil {
		return 0, err
	}
	env := *s.environmentFor(params, false)
	cur, err := p.program.Start(ctx, &env)
	if err != nil {
		return 0, err
	}
	defer cur.Close()
	for {
		r, err := cur.Next(ctx)
		if err != nil {
			return 0, err
		}
		if r == nil {
			return cur.RowsAffected(), nil
		}
		if row != nil {
			if err := row(r); err != nil {
				return 0, err
			}
		}
	}
}

func (s *Session) setTransaction(c *bind.SetTransaction) error {
	if c.Session {
		if c.Modes.AsOf != "" {
			return sqlstate.New(sqlstate.FeatureNotSupported, "AS OF SYSTEM TIME belongs to one transaction, not to a session")
		}
		if c.Modes.Isolation != "" {
			if err := s.set("default_transaction_isolation", c.Modes.Isolation, false); err != nil {
				return err
			}
		}
		if c.Modes.Deferrable != nil {
			if err := s.set("default_transaction_deferrable", map[bool]string{true: "on", false: "off"}[*c.Modes.Deferrable], false); err != nil {
				return err
			}
		}
		if c.Modes.ReadOnly != nil {
			return s.set("default_transaction_read_only", map[bool]string{true: "on", false: "off"}[*c.Modes.ReadOnly], false)
		}
		return nil
	}
	if s.state == stateNone && s.several {
		s.ensureTxn()
	}
	if s.state == stateNone {
		s.out.Notice(&sqlstate.Error{Code: sqlstate.NoActiveTransaction, Message: "SET TRANSACTION can only be used in transaction blocks"})
		return nil
	}
	if err := s.setModes(c.Modes); err != nil {
		return err
	}
	return s.beginAsOf(c.Modes)
}

// settingText is the value of a SET as one text.
func settingText(c *bind.SetVar) (string, error) {
	values := c.Values
	switch name := canonical(c.Name); name {
	case "search_path", "temp_tablespaces":
		values = slices.Clone(values)
		for i, v := range values {
			values[i] = parse.QuoteIdent(v)
		}
	case "datestyle":
	default:
		if len(values) > 1 {
			return "", sqlstate.New(sqlstate.InvalidParameterValue, "SET %s takes only one argument", c.Name)
		}
	}
	return strings.Join(values, ", "), nil
}

func (s *Session) setVar(c *bind.SetVar) error {
	s.ensureTxn() // which undoes it if another statement of its string or pipeline fails
	if c.Default {
		return s.resetVar(c.Name)
	}
	v, err := settingText(c)
	if err != nil {
		return err
	}
	if c.Local && !s.inBlock() {
		s.out.Notice(&sqlstate.Error{Code: sqlstate.NoActiveTransaction, Message: "SET LOCAL can only be used in transaction blocks"})
	}
	return s.set(c.Name, v, c.Local)
}

func (s *Session) resetVar(name string) error {
	s.ensureTxn()
	if name == "" {
		for n := range s.params.session {
			if n == "role" || n == "session_authorization" {
				continue // RESET ALL leaves the roles
			}
			s.unset(n)
		}
		s.settingsCounted = 0 // so that they are counted when the transaction ends, which keeps what there was until then
		return nil
	}
	name = canonical(name)
	if name == "session_authorization" {
		s.params.reset("role")
	}
	if findSetting(name) == nil {
		if _, ok := s.params.get(name); !ok {
			return sqlstate.New(sqlstate.UndefinedObject, "unrecognized configuration parameter %q", name)
		}
	}
	s.unset(name)
	s.settleSettings()
	return nil
}

// unset gives a setting its default. A setting that the client has made up stays, as an empty one.
func (s *Session) unset(name string) {
	if s.params.reset(name); findSetting(name) == nil {
		s.params.set(name, "", false)
	}
	s.settingChanged(name)
}

func (s *Session) showVar(c *bind.ShowVar, w *rowWriter) error {
	if c.Name == "" {
		w.columns(text("name"), text("setting"), text("description"))
		for i := range settings {
			d := &settings[i]
			if err := w.row(types.NewString(displayName(d.name)), types.NewString(s.setting(d.name)), types.NewString(d.about)); err != nil {
				return err
			}
		}
		return nil
	}
	name := canonical(c.Name)
	if _, ok := s.params.get(name); !ok {
		return sqlstate.New(sqlstate.UndefinedObject, "unrecognized configuration parameter %q", c.Name)
	}
	w.columns(text(displayName(name)))
	return w.row(types.NewString(s.setting(name)))
}

// showClusterSetting shows one cluster setting, or all.
func (s *Session) showClusterSetting(c *bind.ShowClusterSetting, w *rowWriter) error {
	set := s.srv.Catalog.Settings()
	if c.Name == "" {
		w.columns(clusterSettingColumns(c)...)
		var err error
		clustersetting.All(func(d *clustersetting.Setting) {
			if err == nil {
				err = w.row(types.NewString(d.Name), types.NewString(d.Shown(set)), types.NewString(d.Kind.String()),
					types.NewString(d.Format(d.Default)), types.NewString(d.About))
			}
		})
		return err
	}
	d, ok := clustersetting.Find(c.Name)
	if !ok {
		return sqlstate.New(sqlstate.UndefinedObject, "unrecognized cluster setting %q", c.Name).
			WithHint("SHOW ALL CLUSTER SETTINGS lists those that there are.")
	}
	w.columns(clusterSettingColumns(c)...)
	return w.row(types.NewString(d.Shown(set)))
}

func clusterSettingColumns(c *bind.ShowClusterSetting) []Column {
	if c.Name != "" {
		return []Column{text(c.Name)}
	}
	return []Column{text("variable"), text("value"), text("setting_type"), text("default_value"), text("description")}
}

// commandColumns are the result columns of commands that return rows, for Describe.
func (s *Session) commandColumns(b bind.Statement) []Column {
	switch c := b.(type) {
	case *bind.ShowVar:
		if c.Name == "" {
			return []Column{text("name"), text("setting"), text("description")}
		}
		return []Column{text(displayName(canonical(c.Name)))}
	case *bind.ShowClusterSetting:
		return clusterSettingColumns(c)
	case *bind.Explain:
		return []Column{text("QUERY PLAN")}
	case *bind.Show:
		return showColumns(c)
	case *bind.Execute:
		if p, ok := s.prepared[c.Name]; ok && p.plan != nil {
			return s.planColumns(p.plan)
		}
	case *bind.Fetch:
		if p, ok := s.portals[c.Cursor]; ok && !c.Move {
			return p.plan.columns
		}
	}
	return nil
}

// explain shows a plan, and with ANALYZE what happened when it ran.
func (s *Session) explain(ctx context.Context, c *bind.Explain, w *rowWriter) error {
	if err := checkExplain(c); err != nil {
		return err
	}
	s.ensureTxn()
	began := s.srv.Host.Clock.Monotonic()
	p, params, err := s.explained(ctx, c)
	if err != nil {
		return err
	}
	planning, took := s.srv.Host.Clock.Monotonic()-began, time.Duration(0)
	w.columns(explainColumn(c.Format))
	if p.query == nil {
		switch c.Format {
		case "json":
			return w.row(types.NewString("[\n  \"Utility Statement\"\n]"))
		case "yaml":
			return w.row(types.NewString("- \"Utility Statement\""))
		}
		return w.row(types.NewString("utility statement"))
	}
	var trace *exec.Trace
	opts := opt.ExplainOptions{Verbose: c.Verbose, Costs: c.Costs == nil || *c.Costs}
	var footer []string
	if c.Analyze {
		if p, err = s.prepareQuery(ctx, p, params); err != nil {
			return err
		}
		trace = exec.NewTrace(s.srv.Host.Clock)
		env := s.environmentFor(params, false)
		env.Trace = trace
		s.tx.SetTrace(true)
		start := s.srv.Host.Clock.Monotonic()
		cur, err := p.program.Start(ctx, env)
		if err != nil {
			return err
		}
		for {
			row, err := cur.Next(ctx)
			if err != nil {
				cur.Close()
				return err
			}
			if row == nil {
				break
			}
		}
		cur.Close()
		s.tx.SetTrace(false)
		opts.Actual = func(n opt.Node) string { return trace.Describe(n, s.srv.Ranges.Region) }
		if n := s.replay.attempt; n > 0 {
			footer = append(footer, "Retries: "+itoa(int64(n)))
		}
		took = s.srv.Host.Clock.Monotonic() - start
		if c.Summary == nil || *c.Summary {
			footer = append(footer, "Execution Time: "+millis(took)+" ms")
		}
	}
	if c.Format != "text" {
		return s.explainStructured(c, p, trace, planning, took, w)
	}
	for _, line := range append(opt.Explain(p.program.Plan(), opts), footer...) {
		if err := w.row(types.NewString(line)); err != nil {
			return err
		}
	}
	return nil
}

// explained is the plan that EXPLAIN is about, and the arguments of EXPLAIN EXECUTE.
func (s *Session) explained(ctx context.Context, c *bind.Explain) (*plan, []types.Datum, error) {
	if e, ok := c.Stmt.Node.(*bind.Execute); ok {
		return s.executed(ctx, e)
	}
	p, err := s.makePlan(ctx, c.Stmt, nil)
	return p, nil, err
}

func (s *Session) sqlPrepare(ctx context.Context, c *bind.Prepare) error {
	given := c.Types
	if len(c.Named) > 0 {
		s.ensureTxn()
		given = slices.Clone(given)
		for _, n := range c.Named {
			t, err := s.binder(nil).TypeNamed(ctx, n)
			if err != nil {
				return err
			}
			given[n.At] = t
		}
	}
	if _, taken := s.prepared[c.Name]; taken && !s.replay.running {
		return sqlstate.New(sqlstate.DuplicatePreparedStatement, "prepared statement %q already exists", c.Name)
	}
	stmt, err := s.detach(ctx, c.Stmt)
	if err != nil {
		return err
	}
	p := &Prepared{name: strings.Clone(c.Name), stmt: stmt, types: given}
	if err := s.refreshPlan(ctx, p); err != nil {
		return err
	}
	return s.hold(p)
}

func (s *Session) sqlExecute(ctx context.Context, c *bind.Execute, w *rowWriter) error {
	p, params, err := s.executed(ctx, c)
	if err != nil {
		return err
	}
	return s.runPlan(ctx, p, params, w.formats, w.describe, false)
}

// executed is the plan of EXECUTE and its arguments.
func (s *Session) executed(ctx context.Context, c *bind.Execute) (*plan, []types.Datum, error) {
	p, err := s.preparedByName(c.Name)
	if err != nil {
		return nil, nil, err
	}
	if err := s.refreshPlan(ctx, p); err != nil {
		return nil, nil, err
	}
	if len(c.Args) != len(p.plan.params) {
		return nil, nil, sqlstate.New(sqlstate.SyntaxError, "wrong number of parameters for prepared statement %q", c.Name).
			WithDetail("Expected %d parameters but got %d.", len(p.plan.params), len(c.Args))
	}
	params := make([]types.Datum, len(c.Args))
	s.ensureTxn()
	s.fillScalar(nil)
	for i, a := range c.Args {
		e, err := s.binder(nil).Expr(ctx, a, p.plan.params[i])
		if err != nil {
			return nil, nil, err
		}
		if params[i], err = evaluate(&s.scalarCtx, e); err != nil {
			return nil, nil, err
		}
	}
	return p.plan, params, nil
}

func (s *Session) deallocate(c *bind.Deallocate) (string, error) {
	if c.Name == "" {
		for name := range s.prepared {
			s.CloseStatement(name)
		}
		return "DEALLOCATE ALL", nil
	}
	if _, err := s.preparedByName(c.Name); err != nil && !s.replay.running {
		return "", err
	}
	s.CloseStatement(c.Name)
	return "DEALLOCATE", nil
}

func (s *Session) discard(c *bind.Discard) (string, error) {
	if strings.EqualFold(c.What, "ALL") {
		if err := s.standAlone("DISCARD ALL"); err != nil {
			return "", err
		}
		s.closePortals()
		for name := range s.prepared {
			s.CloseStatement(name)
		}
		s.dropTemporaries()
		if err := s.resetVar("session_authorization"); err != nil {
			return "", err
		}
		s.env.forget()
		if a := s.advisory.Load(); a != nil {
			a.unlockAll()
			s.settleAdvisory()
		}
		s.unlistenAll()
		return "DISCARD ALL", s.resetVar("")
	}
	if strings.EqualFold(c.What, "TEMP") {
		return "DISCARD TEMP", s.discardTemporaries()
	}
	if strings.EqualFold(c.What, "SEQUENCES") {
		s.env.forget()
	}
	return "DISCARD " + strings.ToUpper(c.What), nil
}
