package session

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"meridian/sql/session/plan"
	"meridian/sql/session/portal"
	"meridian/sql/session/txnstate"

	"meridian/sql/session/parameter"

	"meridian/sql/session/result"

	"meridian/route"
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

// command runs a statement that is not a query. describe says that the client expects RowDescription before rows
// (the simple protocol); formats are the formats of its columns from the Bind message.
func (s *Session) command(ctx context.Context, p *plan.Plan, params []types.Datum, formats []result.Format, describe bool) error {
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
	formats  []result.Format
	describe bool
	params   []types.Datum // of the command
	cols     []result.Column
	rows     int64
}

func (w *rowWriter) columns(cols ...result.Column) {
	w.cols = cols
	if w.describe {
		w.s.out.Describe(cols, nil)
	}
}

func (w *rowWriter) row(values ...types.Datum) error {
	w.rows++
	return w.s.out.Row(values, w.cols, w.formats)
}

func text(name string) result.Column { return result.Column{Name: name, Type: types.Text} }

func (s *Session) runCommand(ctx context.Context, p *plan.Plan, w *rowWriter) (string, error) {
	switch p.Bound.(type) {
	case *bind.LockTable, *bind.SplitAt, *bind.Show:
		if err := s.rights().command(p.Bound); err != nil {
			return "", err
		}
	}
	switch c := p.Bound.(type) {
	case *bind.Begin:
		if c.Start {
			return "START TRANSACTION", s.begin(c.Modes)
		}
		return "BEGIN", s.begin(c.Modes)
	case *bind.Commit:
		if c.Chain {
			if err := s.state.NeedBlock("COMMIT AND CHAIN"); err != nil {
				return "", err
			}
		}
		m := s.state.Modes()
		tag, err := s.commit(ctx)
		if err == nil && c.Chain {
			s.openTxn(txnstate.Explicit, m)
			s.replay.Opened()
		}
		return tag, err
	case *bind.Rollback:
		if c.Chain {
			if err := s.state.NeedBlock("ROLLBACK AND CHAIN"); err != nil {
				return "", err
			}
		}
		m := s.state.Modes()
		tag := s.rollback(ctx)
		if c.Chain {
			s.openTxn(txnstate.Explicit, m)
			s.replay.Opened()
		}
		return tag, nil
	case *bind.Savepoint:
		return "SAVEPOINT", s.savepoint(ctx, c.Name)
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
		return "SHOW", showClusterSetting(s.srv.Catalog.Settings(), c, w)
	case *bind.Explain:
		return "EXPLAIN", s.explain(ctx, c, p.Params, w)
	case *bind.Prepare:
		return "PREPARE", s.sqlPrepare(ctx, c)
	case *bind.Execute:
		return "", s.sqlExecute(ctx, c, w)
	case *bind.Deallocate:
		return s.deallocate(c)
	case *bind.DeclareCursor:
		return "DECLARE CURSOR", s.declare(ctx, c, w.params, p.Params)
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
		if err := s.state.StandAlone("VACUUM", s.replay.Current().Portal != nil); err != nil {
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
		if !s.state.InBlock() {
			return "", s.state.NeedBlock("LOCK TABLE")
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
		return s.notifying.listen(s.txnMemory(), c)
	case *bind.Notify:
		return "NOTIFY", s.notifying.notify(s.txnMemory(), c.Channel, c.Payload)
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
func (s *Session) define(ctx context.Context, p *plan.Plan) (string, error) {
	bound, err := s.initialSetting(p.Bound)
	if err == nil {
		switch bound.(type) {
		case *bind.CreateDatabase:
			err = s.state.StandAlone("CREATE DATABASE", s.replay.Current().Portal != nil)
		case *bind.DropDatabase:
			err = s.state.StandAlone("DROP DATABASE", s.replay.Current().Portal != nil)
		}
	}
	if err != nil {
		return "", err
	}
	s.ensureTxn()
	s.tx.Harden()
	if s.state.Modes().ReadOnly {
		return "", sqlstate.New(sqlstate.ReadOnlyTransaction, "cannot execute %s in a read-only transaction", commandName(p.Bound))
	}
	if err := s.deferred.mayChange(p.Bound); err != nil {
		return "", err
	}
	tag, handled, err := s.srv.Schema.Execute(ctx, &schemachange.Definition{
		Stmt: bound, Txn: s.tx, KV: s.temp.definitions(s.tx), Catalog: s.cat, Session: s.pid, Info: s.info(), Binder: s.binder(nil), Explicit: s.state.Explicit(),
		NoSuperRegions: s.setting("enable_super_regions") == "off", NoPlacement: s.setting("enable_multiregion_placement_policy") == "off",
		Alone:         s.state.First() && (s.endsTxn || s.syncNext),
		OverrideZones: s.setting("override_multi_region_zone_config") == "on", IgnoreProtocol: s.setting("ignore_commit_protocol") == "on",
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

// definitionScalar is the context of a definition's expressions while it rewrites rows.
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
	p := &plan.Plan{Bound: q, Private: true}
	if err := s.compile(ctx, p, q, s.planRoom(ctx)); err != nil {
		return 0, err
	}
	env := *s.environmentFor(params, false)
	env.Home = nil // a definition concerns all regions
	cur, err := p.Program.Start(ctx, &env)
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
			if err := s.characteristicAsOf(c.Modes); err != nil {
				return err
			}
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
	if !s.state.Open() && s.state.InBlock() {
		s.ensureTxn()
	}
	if !s.state.Open() {
		s.out.Notice(&sqlstate.Error{Code: sqlstate.NoActiveTransaction, Message: "SET TRANSACTION can only be used in transaction blocks"})
		return nil
	}
	if ro := c.Modes.ReadOnly; ro != nil && !*ro && c.Modes.AsOf == "" && (s.tx != nil && s.tx.Historical() || s.bound != nil) {
		return errReadWrite()
	}
	if err := s.setModes(c.Modes); err != nil {
		return err
	}
	return s.beginAsOf(c.Modes)
}

// settingText joins the values of a SET to one text.
func settingText(c *bind.SetVar) (string, error) {
	values := c.Values
	switch name := parameter.Canonical(c.Name); name {
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
	s.ensureTxn() // its rollback undoes the SET if another statement of the same string or pipeline fails
	if c.Default {
		return s.resetVar(c.Name)
	}
	v, err := settingText(c)
	if err != nil {
		return err
	}
	if c.Local && !s.state.InBlock() {
		s.out.Notice(&sqlstate.Error{Code: sqlstate.NoActiveTransaction, Message: "SET LOCAL can only be used in transaction blocks"})
	}
	return s.set(c.Name, v, c.Local)
}

func (s *Session) resetVar(name string) error {
	s.ensureTxn()
	if name == "" {
		for _, n := range s.params.Names() {
			if n == "role" || n == "session_authorization" {
				continue // RESET ALL leaves the roles
			}
			s.unset(n)
		}
		s.params.RecountAtEnd()
		return nil
	}
	name = parameter.Canonical(name)
	if name == "session_authorization" {
		s.params.Reset("role")
	}
	if parameter.Find(name) == nil {
		if _, ok := s.params.Get(name); !ok {
			if !strings.Contains(name, ".") {
				return sqlstate.New(sqlstate.UndefinedObject, "unrecognized configuration parameter %q", name)
			}
			if err := s.params.Hold(name, ""); err != nil {
				return err
			}
			s.params.Mention(strings.Clone(name))
		}
	}
	s.unset(name)
	s.params.Settle()
	return nil
}

// unset resets a setting to the value with which the session began.
func (s *Session) unset(name string) {
	s.params.Reset(name)
	s.settingChanged(name)
}

func (s *settings) showVar(c *bind.ShowVar, w *rowWriter) error {
	if c.Name == "" {
		w.columns(text("name"), text("setting"), text("description"))
		for i := range parameter.All {
			d := &parameter.All[i]
			if err := w.row(types.NewString(parameter.DisplayName(d.Name)), types.NewString(s.setting(d.Name)), types.NewString(d.About)); err != nil {
				return err
			}
		}
		return nil
	}
	name := parameter.Canonical(c.Name)
	if _, ok := s.params.Get(name); !ok {
		return sqlstate.New(sqlstate.UndefinedObject, "unrecognized configuration parameter %q", c.Name)
	}
	w.columns(text(parameter.DisplayName(name)))
	return w.row(types.NewString(s.setting(name)))
}

// showClusterSetting shows one cluster setting, or all.
func showClusterSetting(set map[string]string, c *bind.ShowClusterSetting, w *rowWriter) error {
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
			WithHint("SHOW ALL CLUSTER SETTINGS lists the cluster settings.")
	}
	w.columns(clusterSettingColumns(c)...)
	return w.row(types.NewString(d.Shown(set)))
}

func clusterSettingColumns(c *bind.ShowClusterSetting) []result.Column {
	if c.Name != "" {
		return []result.Column{text(c.Name)}
	}
	return []result.Column{text("variable"), text("value"), text("setting_type"), text("default_value"), text("description")}
}

// commandColumns returns the result columns of a command, for Describe; nil if it returns no rows.
func (s *Session) commandColumns(b bind.Statement) []result.Column {
	switch c := b.(type) {
	case *bind.ShowVar:
		if c.Name == "" {
			return []result.Column{text("name"), text("setting"), text("description")}
		}
		return []result.Column{text(parameter.DisplayName(parameter.Canonical(c.Name)))}
	case *bind.ShowClusterSetting:
		return clusterSettingColumns(c)
	case *bind.Explain:
		return []result.Column{text("QUERY PLAN")}
	case *bind.Show:
		return showColumns(c)
	case *bind.Execute:
		if p, err := s.statements.Find(c.Name); err == nil && p.Plan != nil {
			return s.planColumns(p.Plan)
		}
	case *bind.Fetch:
		if p, err := s.portals.Cursor(c.Cursor); err == nil && !c.Move {
			return p.Plan.Columns
		}
	}
	return nil
}

// explain shows a plan, and with ANALYZE the measurements of a run.
func (s *Session) explain(ctx context.Context, c *bind.Explain, given []*types.T, w *rowWriter) error {
	if err := checkExplain(c); err != nil {
		return err
	}
	s.ensureTxn()
	began := s.srv.Host.Clock.Monotonic()
	p, params, err := s.explained(ctx, c, given, w.params)
	if err != nil {
		return err
	}
	planning, took := s.srv.Host.Clock.Monotonic()-began, time.Duration(0)
	w.columns(explainColumn(c.Format))
	if p.Query == nil {
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
	opts.Snapshot, _ = s.readsSnapshot(p)
	opts.Present = s.maxAge() < 0
	var footer []string
	var rounds *route.Trace
	expected, far, err := s.predict(ctx, p, nil, !c.Analyze)
	if err == nil && !c.Analyze && s.moved(p) { // the plan was made by earlier ranges
		if p, params, err = s.explained(ctx, c, given, w.params); err == nil {
			expected, far, err = s.predict(ctx, p, nil, false)
		}
	}
	if err != nil {
		return err
	}
	if c.Analyze {
		if p, err = s.prepareQuery(ctx, p, params, false); err != nil {
			return err
		}
		trace, rounds = exec.NewTrace(s.srv.Host.Clock), &route.Trace{}
		// The commit of a statement that is a transaction is a part of what takes place.
		tx, commits := s.tx, s.state.First() && (s.endsTxn || s.syncNext) && p.Program.Mutates()
		env := s.environmentFor(params, commits)
		env.Trace = trace
		tx.SetTrace(true)
		start := s.srv.Host.Clock.Monotonic()
		within := route.WithTrace(ctx, rounds)
		cur, err := p.Program.Start(within, env)
		if err != nil {
			return err
		}
		for {
			row, err := cur.Next(within)
			if err != nil {
				cur.Close()
				return err
			}
			if row == nil {
				break
			}
		}
		committed := cur.Committed()
		cur.Close()
		switch {
		case committed:
			err = s.afterCommit(ctx)
		case commits:
			err = s.commitImplicit(within)
		}
		tx.SetTrace(false)
		if took = s.srv.Host.Clock.Monotonic() - start; err != nil {
			return err
		}
		opts.Actual = func(n opt.Node) string { return trace.Describe(n, s.srv.Ranges.Region) }
		if n := s.replay.Attempt(); n > 0 {
			footer = append(footer, "Retries: "+itoa(int64(n)))
		}
		if c.Summary == nil || *c.Summary {
			footer = append(footer, "Execution Time: "+millis(took)+" ms")
		}
	}
	var more []field
	if opts.Costs {
		lines, fields, err := s.explainCommits(ctx, expected.Commits, far)
		if err != nil {
			return err
		}
		if more = fields; far {
			rest, fields := explainRounds(expected, rounds)
			lines, more = append(lines, rest...), append(more, fields...)
		}
		footer = append(lines, footer...)
	}
	if c.Format != "text" {
		return s.explainStructured(c, p, trace, more, planning, took, w)
	}
	for _, line := range append(opt.Explain(p.Program.Plan(), opts), footer...) {
		if err := w.row(types.NewString(line)); err != nil {
			return err
		}
	}
	return nil
}

// explains reports whether EXPLAIN shows the plan of its own statement, whose parameters are its own, and not that of a prepared one.
func explains(c *bind.Explain) bool {
	_, ok := c.Stmt.Node.(*bind.Execute)
	return !ok
}

// explained returns the plan that EXPLAIN shows, and its arguments: those of EXPLAIN, which have the given types, or those of EXPLAIN EXECUTE.
func (s *Session) explained(ctx context.Context, c *bind.Explain, given []*types.T, args []types.Datum) (*plan.Plan, []types.Datum, error) {
	if e, ok := c.Stmt.Node.(*bind.Execute); ok {
		return s.executed(ctx, e)
	}
	p, err := s.makePlan(ctx, c.Stmt, given)
	return p, args, err
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
	if err := s.statements.Reserve(c.Name); err != nil && !s.replay.Replaying() {
		return err
	}
	stmt, err := s.detach(ctx, c.Stmt)
	if err != nil {
		return err
	}
	p := &portal.Statement{Name: strings.Clone(c.Name), Stmt: stmt, Types: given, Source: strings.Clone(c.Stmt.Source), Created: s.scalarCtx.StatementTime}
	if err := s.refreshPlan(ctx, p); err != nil {
		return err
	}
	return s.statements.Add(p)
}

func (s *Session) sqlExecute(ctx context.Context, c *bind.Execute, w *rowWriter) error {
	p, params, err := s.executed(ctx, c)
	if err != nil {
		return err
	}
	return s.runPlan(ctx, p, params, w.formats, w.describe, false)
}

// executed returns the plan of EXECUTE and its arguments.
func (s *Session) executed(ctx context.Context, c *bind.Execute) (*plan.Plan, []types.Datum, error) {
	p, err := s.statements.Find(c.Name)
	if err != nil {
		return nil, nil, err
	}
	if err := s.refreshPlan(ctx, p); err != nil {
		return nil, nil, err
	}
	if len(c.Args) != len(p.Plan.Params) {
		return nil, nil, sqlstate.New(sqlstate.SyntaxError, "wrong number of parameters for prepared statement %q", c.Name).
			WithDetail("Expected %d parameters but got %d.", len(p.Plan.Params), len(c.Args))
	}
	params := make([]types.Datum, len(c.Args))
	s.ensureTxn()
	s.fillScalar(nil)
	for i, a := range c.Args {
		e, err := s.binder(nil).Argument(ctx, a, p.Plan.Params[i], i+1)
		if err != nil {
			var se *sqlstate.Error
			if errors.As(err, &se) && se.Position > 0 && i < len(c.Positions) {
				se.Position += c.Positions[i] - parse.ExprPosition
			}
			return nil, nil, err
		}
		if params[i], err = evaluate(&s.scalarCtx, e); err != nil {
			return nil, nil, err
		}
	}
	if p.Plan.Fails != nil {
		return nil, nil, p.Plan.Fails
	}
	p.Executed(s.setting("plan_cache_mode"))
	return p.Plan, params, nil
}

func (s *Session) deallocate(c *bind.Deallocate) (string, error) {
	if c.Name == "" {
		s.statements.CloseAll()
		return "DEALLOCATE ALL", nil
	}
	if _, err := s.statements.Find(c.Name); err != nil && !s.replay.Replaying() {
		return "", err
	}
	s.CloseStatement(c.Name)
	return "DEALLOCATE", nil
}

func (s *Session) discard(c *bind.Discard) (string, error) {
	if strings.EqualFold(c.What, "ALL") {
		if err := s.state.StandAlone("DISCARD ALL", s.replay.Current().Portal != nil); err != nil {
			return "", err
		}
		s.portals.CloseAll()
		s.statements.CloseAll()
		s.temp.drop()
		s.viewCache = nil
		if err := s.resetVar("session_authorization"); err != nil {
			return "", err
		}
		s.env.forget()
		s.advisory.UnlockAll()
		s.advisory.Settle()
		s.notifying.unlistenAll()
		return "DISCARD ALL", s.resetVar("")
	}
	if strings.EqualFold(c.What, "TEMP") {
		if s.temp.local.Empty() {
			return "DISCARD TEMP", nil
		}
		s.ensureTxn()
		s.viewCache = nil
		return "DISCARD TEMP", s.temp.discard()
	}
	if strings.EqualFold(c.What, "SEQUENCES") {
		s.env.forget()
	}
	return "DISCARD " + strings.ToUpper(c.What), nil
}
