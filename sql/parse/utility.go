package parse

import (
	"strings"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// utility parses the statements for which this package does not use the grammar library: those that control
// transactions and sessions, and those whose PostgreSQL forms the library lacks.
func (c *cursor) utility() (node any, handled bool, err error) {
	t := c.peek(0)
	if t.Kind != Word {
		return nil, false, nil
	}
	var buf [16]byte
	n := int(t.End - t.Pos)
	if n > len(buf) {
		return nil, false, nil
	}
	for i := range n {
		ch := c.src[int(t.Pos)+i]
		if ch >= 'A' && ch <= 'Z' {
			ch |= 0x20
		}
		buf[i] = ch
	}
	parse := c.lookup(buf[:n])
	if parse == nil {
		return nil, false, nil
	}
	c.i = 1
	node, err = parse()
	if err != nil {
		return nil, true, err
	}
	if node == nil {
		return nil, false, nil
	}
	return node, true, c.end()
}

// lookup finds the parser for a first word; nil leaves the statement to the grammar.
func (c *cursor) lookup(w []byte) func() (any, error) {
	switch string(w) {
	case "select", "insert", "update", "delete", "with", "values", "table", "upsert":
		return nil
	case "begin":
		return c.begin
	case "start":
		return c.start
	case "commit", "end":
		return c.commit
	case "rollback", "abort":
		return c.rollback
	case "savepoint":
		return func() (any, error) { n, err := c.ident(); return &Savepoint{n}, err }
	case "release":
		return func() (any, error) { c.accept("savepoint"); n, err := c.ident(); return &Release{n}, err }
	case "prepare":
		return c.prepare
	case "execute":
		return c.execute
	case "deallocate":
		return c.deallocate
	case "declare":
		return c.declare
	case "fetch":
		return func() (any, error) { return c.fetch(false) }
	case "move":
		return func() (any, error) { return c.fetch(true) }
	case "close":
		return c.closeCursor
	case "discard":
		return c.discard
	case "set":
		return c.set
	case "reset":
		return c.reset
	case "show":
		return c.show
	case "explain":
		return c.explain
	case "copy":
		return c.copy
	case "vacuum":
		return c.vacuum
	case "analyze", "analyse":
		return c.analyze
	case "truncate":
		return c.truncate
	case "lock":
		return c.lock
	case "listen":
		return func() (any, error) { n, err := c.ident(); return &Listen{n}, err }
	case "unlisten":
		return c.unlisten
	case "notify":
		return c.notify
	case "comment":
		return c.comment
	case "grant":
		return func() (any, error) { return c.grant(false) }
	case "revoke":
		return func() (any, error) { return c.grant(true) }
	case "checkpoint":
		return c.refuseWith("CHECKPOINT", "Commits are durable, and each store flushes its memory by itself.")
	case "reindex":
		return c.refuseWith("REINDEX", "Indexes do not bloat. To replace one, use CREATE INDEX and DROP INDEX.")
	case "cluster":
		return c.refuseWith("CLUSTER", "Rows are stored in the order of the primary key.")
	case "do":
		return c.refuse("DO")
	case "call":
		return c.refuse("CALL")
	case "load":
		return c.refuse("LOAD")
	case "security":
		return c.securityLabel
	case "import":
		return c.refuse("IMPORT")
	case "export", "backup", "restore":
		return c.refuse(strings.ToUpper(string(w)))
	case "reassign":
		return c.reassign
	case "cancel":
		return c.cancel
	case "create":
		return c.create
	case "alter":
		return c.alter
	case "drop":
		return c.drop
	}
	return nil
}

// start parses START TRANSACTION after the first word.
func (c *cursor) start() (any, error) {
	if err := c.expect("transaction"); err != nil {
		return nil, err
	}
	node, err := c.beginModes()
	if b, ok := node.(*Begin); ok {
		b.Start = true
	}
	return node, err
}

// deallocate parses DEALLOCATE after this word.
func (c *cursor) deallocate() (any, error) {
	c.accept("prepare")
	if c.accept("all") {
		return &Deallocate{}, nil
	}
	n, err := c.ident()
	return &Deallocate{n}, err
}

// closeCursor parses CLOSE after this word.
func (c *cursor) closeCursor() (any, error) {
	if c.accept("all") {
		return &CloseCursor{}, nil
	}
	n, err := c.ident()
	return &CloseCursor{n}, err
}

// discard parses DISCARD after this word.
func (c *cursor) discard() (any, error) {
	w, ok := c.acceptAny("all", "plans", "sequences", "temp", "temporary")
	if !ok {
		return nil, c.unexpected()
	}
	if w == "temporary" {
		w = "temp"
	}
	return &Discard{strings.ToUpper(w)}, nil
}

// unlisten parses UNLISTEN after this word.
func (c *cursor) unlisten() (any, error) {
	if c.acceptOp("*") {
		return &Unlisten{}, nil
	}
	n, err := c.ident()
	return &Unlisten{n}, err
}

// notify parses NOTIFY after this word.
func (c *cursor) notify() (any, error) {
	n, err := c.ident()
	if err != nil {
		return nil, err
	}
	cmd := &Notify{Channel: n}
	if c.acceptPunct(",") {
		cmd.Payload, err = c.str()
	}
	return cmd, err
}

// refuseWith refuses a statement, with a hint.
func (c *cursor) refuseWith(what, hint string) func() (any, error) {
	return func() (any, error) {
		return nil, sqlstate.New(sqlstate.FeatureNotSupported, "%s is not supported", what).WithHint("%s", hint)
	}
}

func (c *cursor) refuse(what string) func() (any, error) {
	return func() (any, error) { return nil, c.unsupported(what) }
}

// unsupported refuses a statement; the hint is for the kind of object at the end of what.
func (c *cursor) unsupported(what string) error {
	e := sqlstate.New(sqlstate.FeatureNotSupported, "%s is not supported", what)
	kind := what
	for _, verb := range []string{"CREATE ", "ALTER ", "DROP ", "COMMENT ON "} {
		kind = strings.TrimPrefix(kind, verb)
	}
	if hint := hintsOf[kind]; hint != "" {
		e.WithHint("%s", hint)
	}
	return e
}

func (c *cursor) begin() (any, error) {
	if _, ok := c.acceptAny("work", "transaction"); !ok {
		c.accept("tran")
	}
	return c.beginModes()
}

func (c *cursor) beginModes() (any, error) {
	b := &Begin{}
	return b, c.modes(&b.Modes)
}

// modes parses transaction modes, separated by optional commas, to the end.
func (c *cursor) modes(m *TxnModes) error {
	for !c.done() {
		switch {
		case c.accept("isolation", "level"):
			switch {
			case c.accept("serializable"):
				m.Isolation = "serializable"
			case c.accept("repeatable", "read"):
				m.Isolation = "repeatable read"
			case c.accept("read", "committed"):
				m.Isolation = "read committed"
			case c.accept("read", "uncommitted"):
				m.Isolation = "read uncommitted"
			case c.accept("snapshot"):
				m.Isolation = "repeatable read"
			default:
				return c.unexpected()
			}
		case c.accept("read", "only"):
			m.ReadOnly = boolPtr(true)
		case c.accept("read", "write"):
			m.ReadOnly = boolPtr(false)
		case c.accept("deferrable"):
			m.Deferrable = boolPtr(true)
		case c.accept("not", "deferrable"):
			m.Deferrable = boolPtr(false)
		case c.accept("as", "of", "system", "time"):
			text, err := c.until()
			if err != nil {
				return err
			}
			m.AsOf = text
		default:
			return c.unexpected()
		}
		if c.acceptPunct(",") && c.done() {
			return c.unexpected()
		}
	}
	return nil
}

func boolPtr(b bool) *bool { return &b }

func (c *cursor) chain() (bool, error) {
	if c.accept("and", "chain") {
		return true, nil
	}
	if c.accept("and", "no", "chain") {
		return false, nil
	}
	return false, nil
}

func (c *cursor) commit() (any, error) {
	if c.is("prepared") {
		return nil, c.unsupported("COMMIT PREPARED")
	}
	c.acceptAny("work", "transaction")
	ch, err := c.chain()
	return &Commit{ch}, err
}

func (c *cursor) rollback() (any, error) {
	if c.is("prepared") {
		return nil, c.unsupported("ROLLBACK PREPARED")
	}
	c.acceptAny("work", "transaction")
	if c.accept("to") {
		c.accept("savepoint")
		n, err := c.ident()
		return &RollbackTo{n}, err
	}
	ch, err := c.chain()
	return &Rollback{ch}, err
}

func (c *cursor) prepare() (any, error) {
	if c.is("transaction") {
		return nil, c.unsupported("PREPARE TRANSACTION")
	}
	n, err := c.ident()
	if err != nil {
		return nil, err
	}
	p := &Prepare{Name: n}
	if c.acceptPunct("(") {
		for {
			at := c.peek(0)
			text, err := c.until()
			if err != nil {
				return nil, err
			}
			var t *types.T
			n, err := types.ParseTypeName(text)
			ok := err == nil
			if ok {
				t, ok = n.Find()
			}
			if !ok {
				p.Named = append(p.Named, NamedType{len(p.Types), text, CharPos(c.src, int(at.Pos))})
			}
			p.Types = append(p.Types, t)
			if !c.acceptPunct(",") {
				break
			}
		}
		if err := c.expectPunct(")"); err != nil {
			return nil, err
		}
	}
	if err := c.expect("as"); err != nil {
		return nil, err
	}
	p.Stmt, err = c.nested()
	return p, err
}

func (c *cursor) execute() (any, error) {
	n, err := c.ident()
	if err != nil {
		return nil, err
	}
	e := &Execute{Name: n}
	if c.acceptPunct("(") {
		for !c.isPunct(")") {
			at := CharPos(c.src, int(c.peek(0).Pos))
			a, err := c.until()
			if err != nil {
				return nil, err
			}
			e.Args, e.Positions = append(e.Args, a), append(e.Positions, at)
			if !c.acceptPunct(",") {
				break
			}
		}
		if err := c.expectPunct(")"); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func (c *cursor) declare() (any, error) {
	n, err := c.ident()
	if err != nil {
		return nil, err
	}
	d := &DeclareCursor{Name: n}
	for {
		switch {
		case c.accept("binary"):
			d.Binary = true
			continue
		case c.accept("asensitive"), c.accept("insensitive"):
			continue
		case c.accept("no", "scroll"):
			d.NoScroll = true
			continue
		case c.accept("scroll"):
			d.Scroll = true
			continue
		}
		break
	}
	if err := c.expect("cursor"); err != nil {
		return nil, err
	}
	if c.accept("with", "hold") {
		d.Hold = true
	} else {
		c.accept("without", "hold")
	}
	if err := c.expect("for"); err != nil {
		return nil, err
	}
	d.Stmt, err = c.nested()
	return d, err
}

func (c *cursor) fetch(move bool) (any, error) {
	f := &Fetch{Count: 1, Move: move}
	var err error
	count := func(def int64) error {
		if c.accept("all") {
			f.All = true
			return nil
		}
		if t := c.peek(0); t.Kind == Number || t.Kind == Op {
			f.Count, err = c.integer()
			return err
		}
		f.Count = def
		return nil
	}
	switch {
	case c.accept("next"):
	case c.accept("prior"):
		f.Direction = FetchBackward
	case c.accept("first"):
		f.Direction = FetchAbsolute
	case c.accept("last"):
		f.Direction, f.Count = FetchAbsolute, -1
	case c.accept("absolute"):
		f.Direction = FetchAbsolute
		f.Count, err = c.integer()
	case c.accept("relative"):
		f.Direction = FetchRelative
		f.Count, err = c.integer()
	case c.accept("forward"):
		err = count(1)
	case c.accept("backward"):
		f.Direction = FetchBackward
		err = count(1)
	default:
		err = count(1)
	}
	if err != nil {
		return nil, err
	}
	c.acceptAny("from", "in")
	f.Cursor, err = c.ident()
	return f, err
}

func (c *cursor) cancel() (any, error) {
	w, ok := c.acceptAny("query", "queries", "session", "sessions", "job", "jobs")
	if !ok {
		return nil, c.unexpected()
	}
	id, err := c.word()
	w = strings.ToUpper(w)
	w = strings.TrimSuffix(strings.Replace(w, "QUERIES", "QUERY", 1), "S")
	return &Cancel{Kind: w, ID: id}, err
}

func (c *cursor) explain() (any, error) {
	e := &Explain{Format: "text"}
	if c.isPunct("(") {
		if w := c.peek(1); !isWord(w, c.src, "select") && !isWord(w, c.src, "values") && !isWord(w, c.src, "with") && !isPunct(w, c.src, "(") && !isWord(w, c.src, "table") {
			c.i++
			if err := c.explainOptions(e); err != nil {
				return nil, err
			}
		}
	} else {
		for {
			if c.accept("analyze") || c.accept("analyse") {
				e.Analyze = true
				// The grammar's EXPLAIN ANALYZE (options).
				if c.isPunct("(") && !c.isAt(1, "select") && !c.isAt(1, "values") && !c.isAt(1, "with") {
					c.i++
					if err := c.explainOptions(e); err != nil {
						return nil, err
					}
				}
				continue
			}
			if c.accept("verbose") {
				e.Verbose = true
				continue
			}
			break
		}
	}
	var err error
	e.Stmt, err = c.nested()
	return e, err
}

func (c *cursor) explainOptions(e *Explain) error {
	for {
		t := c.peek(0)
		opt, err := c.ident()
		if err != nil {
			return err
		}
		flag := func(p **bool) error {
			b, err := c.boolean()
			*p = &b
			return err
		}
		set := func(p *bool) (err error) {
			*p, err = c.boolean()
			return err
		}
		switch opt {
		case "analyze":
			err = set(&e.Analyze)
		case "verbose":
			err = set(&e.Verbose)
		case "costs":
			err = flag(&e.Costs)
		case "timing":
			err = flag(&e.Timing)
		case "summary":
			err = flag(&e.Summary)
		case "buffers":
			err = set(&e.Buffers)
		case "wal":
			err = set(&e.WAL)
		case "settings":
			err = set(&e.Settings)
		case "format":
			e.Format, err = c.word()
			e.Format = strings.ToLower(e.Format)
			switch e.Format {
			case "text", "json", "xml", "yaml":
			default:
				if err == nil {
					err = sqlstate.New(sqlstate.InvalidParameterValue, "unrecognized value for EXPLAIN option \"format\": \"%s\"", e.Format)
				}
			}
		default:
			return sqlstate.New(sqlstate.SyntaxError, "unrecognized EXPLAIN option \"%s\"", opt).At(CharPos(c.src, int(t.Pos)))
		}
		if err != nil {
			return err
		}
		if !c.acceptPunct(",") {
			return c.expectPunct(")")
		}
	}
}

// vacuum parses VACUUM. There is nothing to vacuum: its options are checked as in PostgreSQL, and have no effect.
func (c *cursor) vacuum() (any, error) {
	v := &Vacuum{}
	if c.acceptPunct("(") {
		full, skipping, toast, parallel := false, false, true, int64(0)
		for {
			t := c.peek(0)
			opt, err := c.ident()
			if err != nil {
				return nil, err
			}
			fail := func(format string, args ...any) (any, error) {
				return nil, sqlstate.New(sqlstate.SyntaxError, format, args...).At(CharPos(c.src, int(t.Pos)))
			}
			on := true
			switch opt {
			case "analyze", "analyse", "verbose", "freeze", "full", "disable_page_skipping", "skip_locked", "process_toast", "truncate":
				if on, err = c.boolean(); err != nil {
					return nil, err
				}
			case "index_cleanup":
				if !c.accept("auto") {
					_, err = c.boolean()
				}
				if err != nil {
					return nil, err
				}
			case "parallel":
				if c.peek(0).Kind == Punct {
					return fail("parallel option requires a value between 0 and 1024")
				}
				if parallel, err = c.integer(); err != nil {
					return nil, err
				}
				if parallel < 0 || parallel > 1024 {
					return fail("parallel workers for vacuum must be between 0 and 1024")
				}
			default:
				return fail("unrecognized VACUUM option \"%s\"", opt)
			}
			switch opt {
			case "analyze", "analyse":
				v.Analyze = on
			case "full":
				full = on
			case "disable_page_skipping":
				skipping = on
			case "process_toast":
				toast = on
			}
			if !c.acceptPunct(",") {
				break
			}
		}
		if err := c.expectPunct(")"); err != nil {
			return nil, err
		}
		refuse := func(message string) (any, error) {
			return nil, sqlstate.New(sqlstate.FeatureNotSupported, "%s", message)
		}
		switch {
		case full && parallel > 0:
			return refuse("VACUUM FULL cannot be performed in parallel")
		case full && skipping:
			return refuse("VACUUM option DISABLE_PAGE_SKIPPING cannot be used with FULL")
		case full && !toast:
			return refuse("PROCESS_TOAST required with VACUUM FULL")
		}
	} else {
		c.accept("full")
		c.accept("freeze")
		c.accept("verbose")
		_, v.Analyze = c.acceptAny("analyze", "analyse")
	}
	var err error
	if v.Tables, v.Columns, err = c.tablesWithColumns(); err != nil {
		return nil, err
	}
	for _, list := range v.Columns {
		if len(list) > 0 && !v.Analyze {
			return nil, sqlstate.New(sqlstate.FeatureNotSupported, "ANALYZE option must be specified when a column list is provided")
		}
	}
	return v, nil
}

// tablesWithColumns consumes table [(column, ...)], ...; columns has one list for each table.
func (c *cursor) tablesWithColumns() (tables []Name, columns [][]string, err error) {
	if c.done() {
		return nil, nil, nil
	}
	for {
		n, err := c.name()
		if err != nil {
			return nil, nil, err
		}
		list, err := c.parenIdents()
		if err != nil {
			return nil, nil, err
		}
		tables, columns = append(tables, n), append(columns, list)
		if !c.acceptPunct(",") {
			return tables, columns, nil
		}
	}
}

func (c *cursor) analyze() (any, error) {
	if c.acceptPunct("(") {
		for {
			t := c.peek(0)
			opt, err := c.ident()
			if err != nil {
				return nil, err
			}
			if opt != "verbose" && opt != "skip_locked" {
				return nil, sqlstate.New(sqlstate.SyntaxError, "unrecognized ANALYZE option \"%s\"", opt).At(CharPos(c.src, int(t.Pos)))
			}
			if _, err := c.boolean(); err != nil {
				return nil, err
			}
			if !c.acceptPunct(",") {
				break
			}
		}
		if err := c.expectPunct(")"); err != nil {
			return nil, err
		}
	} else {
		c.accept("verbose")
	}
	a := &Analyze{}
	var err error
	a.Tables, a.Columns, err = c.tablesWithColumns()
	return a, err
}

func (c *cursor) truncate() (any, error) {
	c.accept("table")
	t := &Truncate{}
	var err error
	if t.Tables, err = c.names(); err != nil {
		return nil, err
	}
	if c.accept("restart", "identity") {
		t.RestartIdentity = true
	} else {
		c.accept("continue", "identity")
	}
	if c.accept("cascade") {
		t.Cascade = true
	} else {
		c.accept("restrict")
	}
	return t, nil
}

func (c *cursor) lock() (any, error) {
	c.accept("table")
	l := &LockTable{Mode: "ACCESS EXCLUSIVE"}
	var err error
	if l.Tables, err = c.names(); err != nil {
		return nil, err
	}
	if c.accept("in") {
		var words []string
		for !c.is("mode") {
			w, err := c.ident()
			if err != nil {
				return nil, err
			}
			words = append(words, strings.ToUpper(w))
		}
		c.accept("mode")
		l.Mode = strings.Join(words, " ")
		switch l.Mode {
		case "ACCESS SHARE", "ROW SHARE", "ROW EXCLUSIVE", "SHARE UPDATE EXCLUSIVE", "SHARE", "SHARE ROW EXCLUSIVE", "EXCLUSIVE", "ACCESS EXCLUSIVE":
		default:
			c.i -= 2
			return nil, c.unexpected()
		}
	}
	l.NoWait = c.accept("nowait")
	return l, nil
}

func (c *cursor) comment() (any, error) {
	if err := c.expect("on"); err != nil {
		return nil, err
	}
	cm := &Comment{}
	w, err := c.ident()
	if err != nil {
		return nil, err
	}
	cm.Kind = strings.ToUpper(w)
	switch cm.Kind {
	case "TABLE", "VIEW", "SEQUENCE", "INDEX", "DATABASE", "SCHEMA", "ROLE", "TYPE":
		cm.Name, err = c.name()
	case "MATERIALIZED":
		if err = c.expect("view"); err == nil {
			cm.Kind = "MATERIALIZED VIEW"
			cm.Name, err = c.name()
		}
	case "COLUMN":
		cm.Name, err = c.name()
		if err == nil {
			cm.Column = cm.Name.Name
			cm.Name = Name{Schema: cm.Name.Database, Name: cm.Name.Schema}
			if cm.Name.Name == "" {
				return nil, sqlstate.New(sqlstate.SyntaxError, "column name must be qualified")
			}
		}
	case "CONSTRAINT":
		if cm.Constraint, err = c.ident(); err == nil {
			if err = c.expect("on"); err == nil {
				if c.is("domain") && !c.isAt(1, "is") {
					return nil, c.unsupported("COMMENT ON CONSTRAINT of domains")
				}
				cm.Name, err = c.name()
			}
		}
	default:
		second := ""
		if t := c.peek(0); t.Kind == Word {
			second = strings.ToUpper(t.Text(c.src))
		}
		switch cm.Kind {
		case "ACCESS", "EVENT", "FOREIGN", "TEXT", "LARGE":
			if second != "DATA" {
				return nil, c.unsupported("COMMENT ON " + cm.Kind + " " + second)
			}
			return nil, c.unsupported("COMMENT ON FOREIGN DATA WRAPPER")
		case "OPERATOR", "AGGREGATE", "CAST", "COLLATION", "CONVERSION", "DOMAIN", "EXTENSION", "FUNCTION", "LANGUAGE", "POLICY", "PROCEDURAL", "PROCEDURE",
			"PUBLICATION", "ROUTINE", "RULE", "SERVER", "STATISTICS", "SUBSCRIPTION", "TABLESPACE", "TRANSFORM", "TRIGGER", "TYPE":
			return nil, sqlstate.New(sqlstate.FeatureNotSupported, "COMMENT ON %s is not supported", cm.Kind).
				WithHint("Tables, columns, constraints, indexes, views, sequences, schemas, databases and roles have comments.")
		}
		c.i--
		return nil, c.unexpected()
	}
	if err != nil {
		return nil, err
	}
	if err := c.expect("is"); err != nil {
		return nil, err
	}
	if c.accept("null") {
		return cm, nil
	}
	cm.Text, err = c.str()
	return cm, err
}

// securityLabel refuses SECURITY LABEL as PostgreSQL does without a provider.
func (c *cursor) securityLabel() (any, error) {
	if err := c.expect("label"); err != nil {
		return nil, err
	}
	if c.accept("for") {
		provider, err := c.word()
		if err != nil {
			return nil, err
		}
		return nil, sqlstate.New(sqlstate.InvalidParameterValue, "security label provider \"%s\" is not loaded", provider)
	}
	return nil, sqlstate.New(sqlstate.InvalidParameterValue, "no security label providers have been loaded")
}
