package session

import (
	"context"
	"strings"
	"time"

	"meridian/sql/session/plan"
	"meridian/sql/session/portal"
	"meridian/sql/session/replay"

	"meridian/sql/session/advisory"
	"meridian/sql/session/parameter"

	"meridian/sql/session/result"

	"meridian/admission"
	"meridian/replica/closedts"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/charset"
	"meridian/sql/exec"
	"meridian/sql/opt"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/session/txnstate"
	"meridian/sql/sqlstate"
	"meridian/sql/temporary"
	"meridian/sql/types"
)

// Session is the session of one client. The connection's goroutine calls its methods; the comments of the others say that another goroutine may
// call them.
type Session struct {
	srv *Server
	out result.Results
	identity
	settings
	ages   ages
	parser parse.Parser
	env    environment
	ending
	advisory *advisory.Locks

	deferred  deferrals
	notifying notifying
	transaction
	parts  [9]participant // in its transactions, in their order
	temp   temporaries
	replay replay.Log
	// statement is the begin of the running statement's output.
	statement result.Mark
	// endsTxn: the implicit transaction may end with the running statement; syncNext: the client's next message after it is Sync.
	endsTxn, syncNext bool

	statements portal.Statements
	portals    portal.Portals

	paramBuffer
	scalarCtx scalar.Context
	wall      func() time.Time // the node's clock
	execEnv   exec.Env
	held

	// ticket is the session's place at the node's gate, nil if there is none.
	ticket *admission.Ticket
	timer  statementTimer

	shown
}

// identity is a session's identity: its client, its process id and its roles.
type identity struct {
	client      Client
	pid, secret int32
	loginID     catalog.ID // of the role that logged in
	authorized  string     // the session role; acting is the current role: see role.go
	acting      string
	opened      time.Time
}

// settings are a session's settings, and the forms in which it reads and writes values because of them.
type settings struct {
	params   parameter.Values
	location *time.Location
	style    types.Style      // of values as text
	charset  *charset.Charset // of the client; nil: UTF-8
	// read has the settings that every statement reads; see frequent.
	read frequent
	// computed gives the values of settings that follow from the session's roles and its transaction.
	computed func(name string) (value string, ok bool)
	// reported has the values of the reported settings that were sent to the client last, nil before the first time; stale: one may have changed since.
	reported map[string]string
	stale    bool
}

// Parameter is a setting and its value.
type Parameter struct{ Name, Value string }

// Reported lists the settings that are sent to a client at the start.
func (s *settings) Reported() []Parameter {
	s.reported = map[string]string{}
	var out []Parameter
	for i := range parameter.All {
		if parameter.All[i].Reported {
			v := s.setting(parameter.All[i].Name)
			s.reported[parameter.All[i].Name] = v
			out = append(out, Parameter{parameter.DisplayName(parameter.All[i].Name), v})
		}
	}
	return out
}

// Report sends the reported settings that have changed since the client got them last. Like PostgreSQL, the connection calls it once before each
// ReadyForQuery: a change that is undone by then is not reported, and changes of settings do not change the bytes of a result.
func (s *Session) Report() {
	if !s.stale || s.reported == nil {
		return
	}
	s.stale = false
	for i := range parameter.All {
		if d := &parameter.All[i]; d.Reported {
			if v := s.setting(d.Name); s.reported[d.Name] != v {
				s.reported[d.Name] = v
				s.out.Parameter(parameter.DisplayName(d.Name), v)
			}
		}
	}
}

// CancelKey identifies the session to Cancel.
func (s *identity) CancelKey() (pid, secret int32) { return s.pid, s.secret }

// Terminated reports whether the session has to end. Another goroutine may call it.
func (e *ending) Terminated() bool { return e.terminated.Load() }

// ConnectionCheck is client_connection_check_interval: the time between two checks that the client is still connected, while a statement
// runs; zero is never. Another goroutine may call it.
func (e *ending) ConnectionCheck() time.Duration { return time.Duration(e.check.Load()) }

// Terminate ends the session: its statement is cancelled, and Terminated is true. Another goroutine may call it.
func (s *Session) Terminate() {
	s.terminated.Store(true)
	s.cancelStatement()
}

// endWith ends the session with an error. Another goroutine may call it.
func (s *Session) endWith(e *sqlstate.Error) {
	s.why.Store(e)
	if cancel := s.canceller(); cancel != nil {
		cancel(e)
	}
	s.terminate()
}

// Idle reports whether no transaction is open.
func (s *transaction) Idle() bool { return !s.state.Open() }

// Status is the transaction status of ReadyForQuery.
func (s *transaction) Status() byte { return s.state.Status() }

// Close rolls back the open transaction, and releases what the session holds.
func (s *Session) Close() {
	ctx := s.srv.Host.Group.Context()
	s.portals.CloseAll()
	s.finishTxn(ctx)
	s.temp.drop()
	s.viewCache = nil
	s.advisory.Close()
	s.notifying.unlistenAll()
	if s.ticket != nil {
		s.ticket.Close()
	}
	s.held.close()
	s.setIdleTimer(nil)
	s.srv.forget(s)
}

// setting is a setting's value.
func (s *settings) setting(name string) string {
	if v, ok := s.computed(name); ok {
		return v
	}
	v, _ := s.params.Get(name)
	return v
}

// computedSetting gives the values of settings that follow from the session's roles and its transaction.
func (s *Session) computedSetting(name string) (string, bool) {
	switch name {
	case "session_authorization":
		return s.sessionRole(), true
	case "is_superuser":
		return onOff(s.Superuser()), true
	case "transaction_isolation", "transaction_read_only", "transaction_deferrable":
		if !s.state.Open() {
			return s.setting("default_" + name), true
		}
	}
	m := s.state.Modes()
	switch name {
	case "transaction_isolation":
		return m.IsolationShown(), true
	case "transaction_read_only":
		return onOff(m.ReadOnly), true
	case "transaction_deferrable":
		return onOff(m.Deferrable), true
	}
	return "", false
}

func onOff(v bool) string {
	if v {
		return "on"
	}
	return "off"
}

// frequent are settings that every statement reads, in the form in which it uses them.
type frequent struct {
	changes                                        uint64 // of the values that they were made from
	path, rounds, application                      string
	statementTimeout, lockTimeout, idle, idleInTxn time.Duration
	modes                                          txnstate.Modes
	followers, plain, home, external               bool
	off                                            opt.Rules
	replay                                         replay.Limits
}

// frequent returns the settings that every statement reads. They are read again only after a change of any setting.
func (s *settings) frequent() *frequent {
	c := &s.read
	if now := s.params.Changes(); c.changes != now {
		*c = frequent{
			changes: now, path: s.setting("search_path"), rounds: s.setting(maxRounds), application: s.setting("application_name"),
			statementTimeout: s.duration("statement_timeout"), lockTimeout: s.duration("lock_timeout"),
			idle: s.duration(idleTimeout), idleInTxn: s.duration(idleInTxnTimeout),
			modes:     s.defaultModes(),
			followers: s.usesFollowers(),
			plain:     s.setting("locality_optimized_partitioned_index_scan") == "off",
			home:      s.setting(enforceHome) == "on",
			external:  s.setting(catalog.ExternalConsistency) == "on",
			off:       parameter.Rules(s.setting(parameter.DisabledRules)),
			replay:    replay.Limits{Statements: s.limit("transaction_replay_statements"), Bytes: s.limit("transaction_replay_size"), Shown: s.setting("transaction_replay_size")},
		}
	}
	return c
}

func (s *Session) startupSettings(all map[string]string) error {
	s.location = time.UTC
	s.restyle()
	s.initialSettings()
	defer s.params.Adopt("client")
	for k, v := range all {
		if k == "options" {
			given, err := commandLine(optionWords(v))
			if err != nil {
				return err
			}
			for _, o := range given {
				if err := s.set(o.Name, o.Value, false); err != nil {
					return err
				}
			}
			continue
		}
		if err := s.set(k, v, false); err != nil {
			return err
		}
	}
	return nil
}

// commandLine reads settings as the server's command line has them: -c name=value, or --name=value.
func commandLine(words []string) (given []Parameter, err error) {
	for i := 0; i < len(words); i++ {
		w := words[i]
		text, ok := strings.CutPrefix(w, "--")
		if !ok {
			if text, ok = strings.CutPrefix(w, "-c"); ok && text == "" && i+1 < len(words) {
				i++
				text = words[i]
			}
		}
		if !ok {
			return nil, sqlstate.New(sqlstate.SyntaxError, "invalid command-line argument for server process: %s", w)
		}
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, sqlstate.New(sqlstate.SyntaxError, "%s requires a value", w)
		}
		given = append(given, Parameter{strings.ReplaceAll(name, "-", "_"), value})
	}
	return given, nil
}

// optionWords splits the startup parameter "options" at white space; a backslash makes the next byte part of a word.
func optionWords(v string) (out []string) {
	word, in := []byte(nil), false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if in {
				out, word, in = append(out, string(word)), word[:0], false
			}
			continue
		case c == '\\' && i+1 < len(v):
			i++
		}
		word, in = append(word, v[i]), true
	}
	if in {
		out = append(out, string(word))
	}
	return out
}

// set changes a setting and the state that depends on it.
func (s *Session) set(name, value string, local bool) error {
	name = parameter.Canonical(name)
	switch name {
	case "transaction_isolation", "transaction_read_only", "transaction_deferrable":
		v, err := parameter.Find(name).Accept(value)
		if err != nil || !s.state.Open() {
			return err
		}
		on := v == "on"
		switch name {
		case "transaction_isolation":
			return s.setModes(parse.TxnModes{Isolation: v})
		case "transaction_read_only":
			return s.setModes(parse.TxnModes{ReadOnly: &on})
		}
		return s.setModes(parse.TxnModes{Deferrable: &on})
	case "session_authorization", "role":
		return s.setRole(name, value, local)
	}
	value, err := s.canonicalValue(name, value)
	if err != nil {
		return err
	}
	if err := s.params.Hold(name, value); err != nil {
		return err
	}
	// The strings may be pieces of a long text, which must not live as long as the setting.
	name, value = strings.Clone(name), strings.Clone(value)
	if _, err := s.params.Set(name, value, local); err != nil {
		return err
	}
	s.params.Settle()
	s.settingChanged(name)
	return nil
}

// settingChanged updates the state that depends on a setting.
func (s *Session) settingChanged(name string) {
	switch name {
	case "timezone":
		if l, _, err := types.SessionZone(s.setting(name)); err == nil {
			s.location = l
		}
		s.restyle()
	case "datestyle", "intervalstyle", "extra_float_digits", "bytea_output", "client_encoding", "client_min_messages":
		s.restyle()
	case "search_path":
		s.viewCache = nil
	case "application_name":
		s.setApplication(s.setting(name))
	case "role", "session_authorization":
		s.rolesChanged()
	case parameter.ClientCheck:
		s.check.Store(int64(s.duration(name)))
	case temporary.Setting:
		s.temp.account.SetLimit(int64(s.limit(temporary.Setting)))
	case parameter.MaxStaleness, parameter.ReadAfter:
		s.ages = s.agesSet(name)
	case "lock_timeout":
		if s.tx != nil {
			s.tx.SetLockTimeout(s.duration(name))
		}
	}
	s.inform(name)
}

// inform notes that a setting's new value may have to be reported to the client.
func (s *settings) inform(name string) {
	if d := parameter.Find(name); d != nil && d.Reported {
		s.stale = true
	}
}

func (s *settings) duration(name string) time.Duration {
	v := s.setting(name)
	if v == "0" || v == "" {
		return 0
	}
	return parameter.ParseDuration(v)
}

// info is the session as the catalogue sees it.
func (s *Session) info() Info {
	path := parameter.SplitList(s.setting("search_path"))
	out := path[:0:0]
	for _, p := range path {
		if p == "$user" {
			p = s.role()
		}
		out = append(out, p)
	}
	return Info{User: s.role(), Session: s.sessionRole(), Database: s.client.Database, SearchPath: out}
}

// view is the catalogue as the running statement sees it; it opens an implicit transaction if there is none.
func (s *Session) view() catalog.View {
	if s.viewCache == nil {
		s.ensureTxn()
		s.viewCache = s.cat.View(s.info())
	}
	return s.viewCache
}

func (s *transaction) catalogChanged() bool { return s.cat != nil && s.cat.Changed() }

// Query runs a string of statements (the simple protocol). Without BEGIN they are one implicit transaction.
func (s *Session) Query(ctx context.Context, text string) error {
	ctx, done := s.beginStatement(ctx, text)
	defer s.timer.stop()
	defer done()
	s.CloseStatement("")
	err := s.queryText(ctx, text)
	if err != nil {
		s.Fail()
	}
	if s.state.Implicit() || err != nil && !s.state.Open() {
		err = s.endImplicit(ctx, err)
	}
	s.ClosePortal("")
	return err
}

// longText is the length from which a text's tree is accounted for, and its parsing can be interrupted.
const longText = 1 << 10

// parse parses a text, whose tree is accounted for in the running statement.
func (s *Session) parse(ctx context.Context, text string) ([]parse.Statement, error) {
	if len(text) <= longText {
		return s.parser.Parse(text)
	}
	return s.parser.ParseWithin(text, s.planRoom(ctx).Take)
}

func (s *Session) queryText(ctx context.Context, text string) error {
	// A text whose plan is cached needs no parsing.
	if p, err := s.cachedPlan(text); err != nil {
		return err
	} else if p != nil {
		return s.step(ctx, text, 0, nil, func(ctx context.Context, final bool) error { return s.runPlan(ctx, p, nil, nil, true, final) }, true)
	}
	if ran, err := s.runLiterals(ctx, text); ran {
		return err
	}
	stmts, err := s.parse(ctx, text)
	if err != nil {
		if s.state.Failed() && ctx.Err() == nil {
			return errInFailed()
		}
		return err
	}
	if len(stmts) == 0 {
		s.out.Empty()
		return nil
	}
	s.state.Several(len(stmts) > 1)
	defer s.state.Several(false)
	for i := range stmts {
		stmt, last := &stmts[i], i == len(stmts)-1
		if i > 0 {
			s.timer.stop()
			s.timer.watch(ctx, s.frequent().statementTimeout, s.canceller())
		}
		err := s.step(ctx, stmt.Text(), 0, nil, func(ctx context.Context, final bool) error {
			return s.runStatement(ctx, stmt, final)
		}, last)
		if err != nil {
			return err
		}
	}
	return nil
}

// cachedPlan returns the cached plan of a whole text; nil if there is none that the session may use now.
func (s *Session) cachedPlan(text string) (*plan.Plan, error) {
	if s.state.Failed() || s.catalogChanged() {
		return nil, nil
	}
	p := s.temp.cache(s.srv.plans).Get(plan.Key{Text: text, Database: s.client.Database, User: s.role(), Path: s.frequent().path, Plain: s.plain(), Home: s.staysHome(), Off: s.frequent().off})
	if p != nil && len(p.Params) > 0 {
		return nil, nil // the plan of a prepared statement
	}
	return s.reuse(p)
}

// runStatement runs one parsed statement of the simple protocol.
func (s *Session) runStatement(ctx context.Context, stmt *parse.Statement, final bool) error {
	if s.state.Failed() && !endsFailed(stmt) {
		return errInFailed()
	}
	if !s.state.Failed() && !needsNoTxn(stmt) {
		s.ensureTxn()
	}
	p, err := s.planFor(ctx, stmt, nil)
	if err != nil {
		if stmt.NumParams > 0 && sqlstate.Is(err, sqlstate.IndeterminateDatatype) {
			return stmt.NoParameter()
		}
		return err
	}
	switch e, _ := stmt.Node.(*bind.Explain); {
	case p.Query != nil && len(p.Params) > 0:
		return stmt.NoParameter()
	case e != nil && e.Stmt != nil && e.Stmt.NumParams > 0:
		return e.Stmt.NoParameter()
	}
	return s.runPlan(ctx, p, nil, nil, true, final)
}

func errInFailed() error {
	return sqlstate.New(sqlstate.InFailedTransaction,
		"current transaction is aborted, commands ignored until end of transaction block")
}

// runPlan runs a query or a command.
func (s *Session) runPlan(ctx context.Context, p *plan.Plan, params []types.Datum, formats []result.Format, describe, final bool) error {
	if p.Query == nil {
		return s.command(ctx, p, params, formats, describe)
	}
	if s.state.Failed() {
		return errInFailed()
	}
	s.ensureTxn()
	p, err := s.current(ctx, p, !describe)
	if err != nil {
		return err
	}
	if p, err = s.prepareQuery(ctx, p, params, !describe); err != nil {
		return err
	}
	env := s.environmentFor(params, final && p.Program.Mutates())
	env.Alone = final && s.state.Implicit()
	cur, err := p.Program.Start(ctx, env)
	if err != nil {
		return err
	}
	defer cur.Close()
	if describe && p.Columns != nil {
		s.out.Describe(p.Columns, formats)
	}
	n, _, err := sendRows(ctx, s.out, cur, p.Columns, formats, 0)
	if err != nil {
		return err
	}
	if p.Query.Tag != "SELECT" {
		n = cur.RowsAffected()
	}
	s.srv.metrics.count(p.Query.Tag)
	s.env.giveBack(ctx)
	if cur.Committed() {
		if err := s.afterCommit(ctx); err != nil {
			return err
		}
	}
	s.out.Complete(tagOf(p.Query.Tag, n))
	return nil
}

// sendRows sends up to limit rows (zero: all) and returns their number, and whether the cursor has ended.
func sendRows(ctx context.Context, out result.Results, cur portal.Rows, cols []result.Column, formats []result.Format, limit int64) (int64, bool, error) {
	n := int64(0)
	for limit == 0 || n < limit {
		row, err := cur.Next(ctx)
		if err != nil {
			return n, false, err
		}
		if row == nil {
			return n, true, nil
		}
		n++
		if cols != nil {
			if err := out.Row(row, cols, formats); err != nil {
				return n, false, err
			}
		}
	}
	return n, false, nil
}

// prepareQuery checks the conditions that depend on the transaction and the moment. It returns another plan if the query reads at a time at which
// its tables were defined differently; if the client has been told of the plan's columns, the other one has the same.
func (s *Session) prepareQuery(ctx context.Context, p *plan.Plan, params []types.Datum, told bool) (*plan.Plan, error) {
	q := p.Query
	if err := s.underProtocol(q); err != nil {
		return nil, err
	}
	if q.Writes {
		s.state.Writes()
		if err := s.portals.Freeze(ctx); err != nil {
			return nil, err
		}
	}
	if (q.Writes || q.Locks) && (s.state.Modes().ReadOnly && !writesTemporary(q) || q.AsOf != nil) {
		what := q.Tag
		if what == "SELECT" && q.Locking != "" {
			what += " " + q.Locking
		}
		return nil, sqlstate.New(sqlstate.ReadOnlyTransaction, "cannot execute %s in a read-only transaction", what)
	}
	if err := s.holdCursors(ctx); err != nil {
		return nil, err
	}
	if err := s.external(q); err != nil {
		return nil, err
	}
	if s.bound != nil && q.AsOf == nil {
		return s.readWithin(ctx, p, params, s.bound, told)
	}
	if s.state.Modes().Deferrable {
		if err := s.calm(ctx, p.Depends); err != nil {
			return nil, err
		}
	}
	if err := s.limitRounds(ctx, p, params); err != nil {
		return nil, err
	}
	if q.AsOf != nil {
		return s.setAsOf(ctx, p, params, told)
	}
	if s.tx.Historical() {
		return p, s.covered(ctx, p, params)
	}
	if (q.Writes || q.Locks) && s.cat.MayMeetLocks() {
		return s.awaitTables(ctx, p)
	}
	return p, nil
}

// environmentFor fills in the session's execution environment; it is good until the next statement.
func (s *Session) environmentFor(params []types.Datum, autoCommit bool) *exec.Env {
	s.tx.BeginStatement()
	s.tx.SetMaxAge(s.maxAge())
	s.tx.SetRepeats(s.state.Block())
	s.env.mayDraw = 0
	s.fillScalar(params)
	s.execEnv = exec.Env{Txn: s.temp.through(s.tx), Scalar: &s.scalarCtx, Virtual: lazyTables{s}, AutoCommit: autoCommit && s.state.Implicit()}
	s.execEnv.Budget, s.execEnv.Deferrals, s.execEnv.Changes = s.account(), &s.deferred, s.srv.Schema
	s.execEnv.Region, s.execEnv.Home = s.srv.Region, s.homeOf()
	if s.execEnv.AutoCommit {
		s.execEnv.Looker = (*looker)(s)
	}
	return &s.execEnv
}

func (s *Session) fillScalar(params []types.Datum) {
	start := s.started()
	if s.replay.Replaying() {
		start = s.replay.Step().At
	}
	s.scalarCtx = scalar.Context{StatementTime: start, TxnTime: s.txnStart, Clock: s.wall,
		FollowerReadLag: closedts.ReadLag, Location: s.location, Style: &s.style, Params: params, Env: &s.env}
}

// textEnv is the environment in which values are read from text. Without a transaction, the begin of the next one is now.
func (s *Session) textEnv() types.Env {
	now := s.txnStart
	if s.tx == nil {
		now = s.srv.Clock.Wall()
	}
	return types.Env{Location: s.location, Style: &s.style, Now: now}
}

func tagOf(verb string, n int64) string {
	switch verb {
	case "INSERT":
		return "INSERT 0 " + itoa(n)
	case "SELECT":
		if n == 1 {
			return "SELECT 1"
		}
		return "SELECT " + itoa(n)
	}
	return verb + " " + itoa(n)
}

func (s *Session) notice(n bind.Notice) {
	code := sqlstate.Code(n.Code)
	if code == "" {
		code = sqlstate.SuccessfulCompletion
		if n.Severity == "WARNING" {
			code = sqlstate.Warning
		}
	}
	s.out.Notice(&sqlstate.Error{Code: code, Message: n.Message, Hint: n.Hint})
}

// beginStatement makes the context of one statement, which Cancel and statement_timeout end.
func (s *Session) beginStatement(ctx context.Context, text string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	start, begun := s.srv.Clock.Wall(), s.srv.Host.Clock.Monotonic()
	s.env.blocking = nil
	s.active(cancel, text, start)
	s.setIdleTimer(nil)
	s.timer.watch(ctx, s.frequent().statementTimeout, cancel)
	return ctx, func() {
		s.env.giveBack(ctx)
		took := s.srv.Host.Clock.Monotonic() - begun
		s.idle(start.Add(took), s.state.Block())
		cancel(nil)
		s.endStatement()
		s.srv.metrics.observe(took)
		s.armIdle()
	}
}

// interruptible makes the context of work for a statement that does not run yet, such as planning for a Parse message: Cancel and
// statement_timeout end it like a statement.
func (s *Session) interruptible(ctx context.Context, text string) (context.Context, func()) {
	if s.canceller() != nil { // a statement runs
		return ctx, func() {}
	}
	return s.beginStatement(ctx, text)
}

const (
	idleTimeout      = "idle_session_timeout"
	idleInTxnTimeout = "idle_in_transaction_session_timeout"
)

// armIdle starts idle_in_transaction_session_timeout, or idle_session_timeout outside of transactions.
func (s *Session) armIdle() {
	name, d := idleTimeout, s.frequent().idle
	if s.state.Block() {
		name, d = idleInTxnTimeout, s.frequent().idleInTxn
	}
	if d <= 0 {
		return
	}
	why := name
	ctx, stop := context.WithCancel(s.srv.Host.Group.Context())
	s.setIdleTimer(stop)
	s.srv.Host.Group.Go(func(context.Context) {
		if s.srv.Host.Clock.Sleep(ctx, d) == nil {
			s.timedOut.Store(&why)
			s.terminated.Store(true)
			if h, ok := s.out.(interface{ HangUp() }); ok {
				h.HangUp()
			}
		}
	})
}

func (s *Session) cancelStatement() {
	if cancel := s.canceller(); cancel != nil {
		cancel(context.Canceled)
		if s.client.Interrupt != nil {
			s.client.Interrupt()
		}
	}
}

func (s *Session) activity() Activity {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.stateName
	if state == "" {
		state = "idle"
	}
	a := Activity{PID: s.pid, User: s.client.User, Database: s.client.Database, Application: s.application,
		Remote: s.client.Remote, State: state, Query: s.query, Opened: s.opened, QueryStart: s.queryStart, StateSince: s.stateSince,
		WaitEvent: s.waitEvent, Node: s.srv.NodeID()}
	if state != "idle" {
		a.Txn, a.TxnStart = s.txnID, s.txnSince
	}
	a.Advisory, a.Holder = s.advisory.List()
	return a
}
