package parse

import (
	"strings"

	"meridian/sql/charset"
	"meridian/sql/sqlstate"
)

// set parses SET in all its forms.
func (c *cursor) set() (any, error) {
	local := false
	switch {
	case c.accept("cluster", "setting"):
		n, err := c.dotted()
		if err != nil {
			return nil, err
		}
		if !c.acceptOp("=") && !c.accept("to") {
			return nil, c.unexpected()
		}
		s := &SetClusterSetting{Name: n}
		if c.accept("default") {
			s.Default = true
			return s, nil
		}
		s.Value, err = c.rest()
		return s, err
	case c.is("constraints") && !c.isAssignment(1):
		c.i++
		return c.setConstraints()
	case c.is("session") && c.isAt(1, "characteristics"):
		c.i += 2
		if err := c.expect("as", "transaction"); err != nil {
			return nil, err
		}
		s := &SetTransaction{Session: true}
		return s, c.modesNotEmpty(&s.Modes)
	case c.is("session") && c.isAt(1, "authorization"):
		c.i += 2
		return c.setRole("session_authorization", false)
	case c.is("session") && !c.isAssignment(1):
		c.i++
	case c.is("local") && !c.isAssignment(1):
		c.i++
		local = true
	}
	switch {
	case c.is("transaction") && !c.isAssignment(1):
		c.i++
		if c.is("snapshot") {
			return nil, c.unsupported("SET TRANSACTION SNAPSHOT")
		}
		s := &SetTransaction{}
		return s, c.modesNotEmpty(&s.Modes)
	case c.is("session") && c.isAt(1, "authorization"):
		c.i += 2
		return c.setRole("session_authorization", local)
	case c.is("role") && !c.isAssignment(1):
		c.i++
		return c.setRole("role", local)
	case c.accept("time", "zone"):
		return c.setTimeZone(local)
	case c.is("names") && !c.isAssignment(1):
		c.i++
		if c.done() || c.accept("default") {
			return &SetVar{Name: "client_encoding", Default: true, Local: local}, nil
		}
		v, err := c.word()
		return &SetVar{Name: "client_encoding", Values: []string{v}, Local: local}, err
	case c.is("schema") && !c.isAssignment(1):
		c.i++
		v, err := c.word()
		return &SetVar{Name: "search_path", Values: []string{v}, Local: local}, err
	case c.accept("xml", "option"):
		c.i = len(c.toks)
		return &Noop{Tag: "SET"}, nil
	}
	n, err := c.dotted()
	if err != nil {
		return nil, err
	}
	if !c.acceptOp("=") && !c.accept("to") {
		return nil, c.unexpected()
	}
	return c.setValues(n, local)
}

// isAssignment reports whether the k-th token ahead makes the one before it a variable's name.
func (c *cursor) isAssignment(k int) bool {
	t := c.peek(k)
	return isWord(t, c.src, "to") || t.Kind == Op && t.Text(c.src) == "=" || isPunct(t, c.src, ".")
}

func (c *cursor) modesNotEmpty(m *TxnModes) error {
	if c.done() {
		return c.unexpected()
	}
	return c.modes(m)
}

func (c *cursor) setRole(name string, local bool) (any, error) {
	if c.is("default") || name == "role" && c.is("none") {
		c.i++
		return &SetVar{Name: name, Default: true, Local: local}, nil
	}
	v, err := c.word()
	return &SetVar{Name: name, Values: []string{v}, Local: local}, err
}

func (c *cursor) setTimeZone(local bool) (any, error) {
	s := &SetVar{Name: "timezone", Local: local}
	if c.is("local") || c.is("default") {
		c.i++
		s.Default = true
		return s, nil
	}
	if c.accept("interval") {
		if c.acceptPunct("(") {
			if _, err := c.integer(); err != nil {
				return nil, err
			}
			if !c.acceptPunct(")") {
				return nil, c.unexpected()
			}
		}
		v, err := c.str()
		if err != nil {
			return nil, err
		}
		if c.accept("hour") && c.accept("to") && !c.accept("minute") {
			return nil, c.unexpected()
		}
		s.Values = []string{"INTERVAL '" + v + "'"}
		return s, nil
	}
	v, err := c.setValue()
	s.Values = []string{v}
	return s, err
}

func (c *cursor) setValue() (string, error) {
	neg := ""
	if c.acceptOp("-") {
		neg = "-"
	} else {
		c.acceptOp("+")
	}
	t := c.peek(0)
	v, err := c.word()
	if err != nil {
		return "", err
	}
	if neg != "" && t.Kind != Number {
		c.i--
		return "", c.unexpected()
	}
	// Words, such as the schemas of a search path, keep their case only in quotes; values with units are strings already.
	return neg + v, nil
}

func (c *cursor) setValues(name string, local bool) (any, error) {
	s := &SetVar{Name: name, Local: local}
	if c.accept("default") {
		s.Default = true
		return s, nil
	}
	for {
		v, err := c.setValue()
		if err != nil {
			return nil, err
		}
		s.Values = append(s.Values, v)
		if !c.acceptPunct(",") {
			return s, nil
		}
	}
}

// dotted consumes a setting's name.
func (c *cursor) dotted() (string, error) {
	n, err := c.ident()
	for err == nil && c.acceptPunct(".") {
		var part string
		part, err = c.ident()
		n += "." + part
	}
	return strings.ToLower(n), err
}

func (c *cursor) reset() (any, error) {
	switch {
	case c.accept("all"):
		return &ResetVar{}, nil
	case c.accept("time", "zone"):
		return &ResetVar{"timezone"}, nil
	case c.accept("transaction", "isolation", "level"):
		return &ResetVar{"transaction_isolation"}, nil
	case c.accept("session", "authorization"):
		return &ResetVar{"session_authorization"}, nil
	case c.accept("cluster", "setting"):
		n, err := c.dotted()
		return &SetClusterSetting{Name: n, Default: true}, err
	}
	c.accept("session")
	n, err := c.dotted()
	return &ResetVar{n}, err
}

// show parses SHOW: a variable, or one of the lists.
func (c *cursor) show() (any, error) {
	switch {
	case c.accept("all", "cluster", "settings"), c.accept("cluster", "settings"):
		return &ShowClusterSetting{}, nil
	case c.accept("cluster", "setting"):
		if c.accept("all") {
			return &ShowClusterSetting{}, nil
		}
		n, err := c.dotted()
		return &ShowClusterSetting{n}, err
	case c.is("all") && c.peek(1).Kind == EOF:
		c.i++
		return &ShowVar{}, nil
	case c.accept("time", "zone"):
		return &ShowVar{"timezone"}, nil
	case c.accept("transaction", "isolation", "level"):
		return &ShowVar{"transaction_isolation"}, nil
	case c.accept("cluster", "clocks"):
		return &Show{What: "CLUSTER CLOCKS"}, nil
	case c.accept("universe"):
		return &Show{What: "UNIVERSE"}, nil
	case c.accept("placements"):
		return &Show{What: "PLACEMENTS"}, nil
	case c.accept("directories"):
		return c.showDirectories()
	case c.accept("transaction", "retries"):
		return &Show{What: "TRANSACTION RETRIES"}, nil
	case c.accept("transaction", "status"):
		return &Show{What: "TRANSACTION STATUS"}, nil
	case c.accept("session", "authorization"):
		return &ShowVar{"session_authorization"}, nil
	}
	if isPunct(c.peek(1), c.src, ".") {
		n, err := c.dotted()
		return &ShowVar{n}, err
	}
	switch {
	case c.accept("create"):
		return c.showCreate()
	case c.is("tables"), c.is("sequences"), c.is("schemas"), c.is("databases"), c.is("users"), c.is("roles"), c.is("views"):
		return c.showObjects()
	case c.is("columns"), c.is("index"), c.is("indexes"), c.is("keys"), c.is("constraints"), c.is("constraint"):
		return c.showParts()
	case c.accept("ranges"), c.accept("cluster", "ranges"):
		return c.showRanges()
	case c.accept("regions"):
		return c.showRegions()
	case c.is("super") && c.isAt(1, "regions"):
		return c.showSuperRegions()
	case c.accept("enums"):
		s := &Show{What: "ENUMS"}
		var err error
		if _, ok := c.acceptAny("from", "in"); ok {
			s.Name, err = c.name()
		}
		return s, err
	case c.is("zone") && (c.isAt(1, "configuration") || c.isAt(1, "configurations")), c.is("all") && c.isAt(1, "zone"), c.is("partitions"):
		c.i = 0
		return nil, nil // the grammar has them
	case c.accept("survival", "goal"):
		s := &Show{What: "SURVIVAL GOAL", From: "DATABASE"}
		var err error
		if c.accept("from", "database") && !c.done() {
			s.Name.Database, err = c.ident()
		}
		return s, err
	case c.is("statistics"):
		return c.showStatistics()
	case c.is("grants"):
		return c.showGrants()
	}
	return c.showSessions()
}

// showDirectories parses SHOW DIRECTORIES after these words.
func (c *cursor) showDirectories() (any, error) {
	s := &Show{What: "DIRECTORIES"}
	if !c.accept("from") {
		return s, nil
	}
	c.accept("table")
	s.From = "TABLE"
	var err error
	s.Name, err = c.name()
	return s, err
}

// showCreate parses SHOW CREATE after these words.
func (c *cursor) showCreate() (any, error) {
	if c.accept("database") {
		n, err := c.ident()
		s := &Show{What: "CREATE DATABASE", From: "DATABASE"}
		s.Name.Database = n
		return s, err
	}
	w, ok := c.acceptAny("table", "view", "sequence")
	if !ok {
		w = "table"
	}
	if c.accept("all", "tables") {
		return nil, c.unsupported("SHOW CREATE ALL TABLES")
	}
	n, err := c.name()
	return &Show{What: "CREATE " + strings.ToUpper(w), Name: n}, err
}

// showObjects parses SHOW TABLES and its like, whose names are one word.
func (c *cursor) showObjects() (any, error) {
	w, _ := c.ident()
	s := &Show{What: strings.ToUpper(w)}
	var err error
	if _, ok := c.acceptAny("from", "in"); ok {
		s.Name, err = c.name()
	}
	return s, err
}

// showParts parses SHOW COLUMNS and its like, which list the parts of a table.
func (c *cursor) showParts() (any, error) {
	w, _ := c.ident()
	s := &Show{What: strings.ToUpper(w)}
	switch s.What {
	case "INDEX", "KEYS":
		s.What = "INDEXES"
	case "CONSTRAINT":
		s.What = "CONSTRAINTS"
	}
	if _, ok := c.acceptAny("from", "in"); !ok {
		return nil, c.unexpected()
	}
	if k, ok := c.acceptAny("table", "database"); ok {
		s.From = strings.ToUpper(k)
	}
	var err error
	s.Name, err = c.name()
	return s, err
}

// showRanges parses SHOW RANGES after these words.
func (c *cursor) showRanges() (any, error) {
	s := &Show{What: "RANGES"}
	if c.accept("from") {
		k, ok := c.acceptAny("table", "index", "database")
		if !ok {
			return nil, c.unexpected()
		}
		s.From = strings.ToUpper(k)
		if k == "database" {
			n, err := c.ident()
			if err != nil {
				return nil, err
			}
			s.Name.Database = n
		} else if err := c.tableIndex(s); err != nil {
			return nil, err
		}
	}
	if c.accept("with") {
		if s.Details = c.accept("details"); !s.Details {
			return nil, c.unexpected()
		}
	}
	return s, nil
}

// showRegions parses SHOW REGIONS after these words.
func (c *cursor) showRegions() (any, error) {
	s := &Show{What: "REGIONS"}
	if c.accept("from") {
		switch {
		case c.accept("cluster"):
			s.From = "CLUSTER"
		case c.accept("all", "databases"):
			s.From = "ALL DATABASES"
		case c.accept("database"):
			s.From = "DATABASE"
			if !c.done() {
				n, err := c.ident()
				if err != nil {
					return nil, err
				}
				s.Name.Database = n
			}
		default:
			return nil, c.unexpected()
		}
	}
	return s, nil
}

// showSuperRegions parses SHOW SUPER REGIONS.
func (c *cursor) showSuperRegions() (any, error) {
	c.i += 2
	if err := c.expect("from", "database"); err != nil {
		return nil, err
	}
	s := &Show{What: "SUPER REGIONS", From: "DATABASE"}
	var err error
	s.Name.Database, err = c.ident()
	return s, err
}

// showStatistics parses SHOW STATISTICS.
func (c *cursor) showStatistics() (any, error) {
	c.i++
	s := &Show{What: "STATISTICS", From: "TABLE"}
	if err := c.expect("for", "table"); err != nil {
		return nil, err
	}
	var err error
	s.Name, err = c.name()
	return s, err
}

// showGrants parses SHOW GRANTS.
func (c *cursor) showGrants() (any, error) {
	c.i++
	s := &Show{What: "GRANTS"}
	var err error
	if c.accept("on") {
		if k, ok := c.acceptAny("table", "database", "schema"); ok {
			s.From = strings.ToUpper(k)
		}
		s.Name, err = c.name()
	}
	if err == nil && c.accept("for") {
		s.Index, err = c.word()
	}
	return s, err
}

// showSessions parses SHOW [ALL|CLUSTER|LOCAL] SESSIONS and the like, or that of a variable.
func (c *cursor) showSessions() (any, error) {
	k := 0
	if c.is("all") || c.is("cluster") || c.is("local") {
		k = 1
	}
	for _, w := range []string{"sessions", "queries", "statements", "transactions", "jobs", "nodes", "locality", "savepoint"} {
		if c.isAt(k, w) && (w != "locality" || k == 0) {
			c.i += k + 1
			if w == "savepoint" {
				if err := c.expect("status"); err != nil {
					return nil, err
				}
				return &Show{What: "SAVEPOINT STATUS"}, nil
			}
			if w == "statements" {
				w = "queries"
			}
			return &Show{What: strings.ToUpper(w)}, nil
		}
	}
	n, err := c.dotted()
	return &ShowVar{n}, err
}

// tableIndex parses table[@index].
func (c *cursor) tableIndex(s *Show) error {
	var err error
	if s.Name, err = c.name(); err != nil {
		return err
	}
	if c.acceptOp("@") {
		s.Index, err = c.ident()
	}
	return err
}

// copy parses COPY, with its options in either style.
func (c *cursor) copy() (any, error) {
	cp := &Copy{Options: CopyOptions{Format: "text"}}
	var err error
	if c.accept("binary") {
		cp.Options.Format = "binary"
	}
	if c.isPunct("(") {
		depth, start := 0, c.i
		for ; c.i < len(c.toks); c.i++ {
			if isPunct(c.toks[c.i], c.src, "(") {
				depth++
			} else if isPunct(c.toks[c.i], c.src, ")") {
				if depth--; depth == 0 {
					break
				}
			}
		}
		if c.done() {
			return nil, c.unexpected()
		}
		if cp.Query, err = c.p.sub(c.src, c.toks[start+1:c.i]); err != nil {
			return nil, err
		}
		c.i++
		if err := c.expect("to"); err != nil {
			return nil, err
		}
	} else {
		if cp.Table, err = c.name(); err != nil {
			return nil, err
		}
		if cp.Columns, err = c.parenIdents(); err != nil {
			return nil, err
		}
		switch {
		case c.accept("from"):
			cp.From = true
		case c.accept("to"):
		default:
			return nil, c.unexpected()
		}
	}
	switch {
	case c.accept("stdin"), c.accept("stdout"):
	case c.accept("program"):
		cp.Program = true
		cp.Target, err = c.str()
	default:
		cp.Target, err = c.str()
	}
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	if c.is("with") && isPunct(c.peek(1), c.src, "(") {
		c.i++
	}
	if c.acceptPunct("(") {
		err = c.copyOptions(&cp.Options, seen)
	} else {
		c.accept("with")
		err = c.copyLegacy(&cp.Options, seen)
	}
	if err != nil {
		return nil, err
	}
	if c.is("where") {
		return nil, c.unsupported("COPY ... WHERE")
	}
	return cp, cp.Options.finish(seen, cp.From)
}

func (c *cursor) copyOptions(o *CopyOptions, seen map[string]bool) error {
	for {
		t := c.peek(0)
		name, err := c.ident()
		if err != nil {
			return err
		}
		if seen[name] {
			return sqlstate.New(sqlstate.SyntaxError, "conflicting or redundant options").At(CharPos(c.src, int(t.Pos)))
		}
		seen[name] = true
		switch name {
		case "format":
			if o.Format, err = c.word(); err == nil && o.Format != "text" && o.Format != "csv" && o.Format != "binary" {
				return sqlstate.New(sqlstate.InvalidParameterValue, "COPY format \"%s\" not recognized", o.Format).At(CharPos(c.src, int(t.Pos)))
			}
		case "freeze":
			o.Freeze, err = c.boolean()
		case "delimiter":
			o.Delimiter, err = c.oneByte("COPY delimiter")
		case "null":
			o.Null, err = c.str()
		case "header":
			if v := c.peek(0); v.Kind == String && strings.EqualFold(stringText(v, c.src), "match") || c.is("match") {
				c.i++
				o.Header, o.HeaderMatch = true, true
			} else if c.isPunct(",") || c.isPunct(")") {
				o.Header = true
			} else if o.Header, err = c.boolean(); err != nil {
				err = sqlstate.New(sqlstate.SyntaxError, "header requires a Boolean value or \"match\"")
			}
		case "quote":
			o.Quote, err = c.oneByte("COPY quote")
		case "escape":
			o.Escape, err = c.oneByte("COPY escape")
		case "encoding":
			if o.Encoding, err = c.word(); err == nil {
				if _, _, bad := charset.Find(o.Encoding); bad != nil {
					return sqlstate.New(sqlstate.InvalidParameterValue, "argument to option \"encoding\" must be a valid encoding name").At(CharPos(c.src, int(t.Pos)))
				}
			}
		case "force_quote":
			o.ForceQuote, err = c.columnsOrStar()
		case "force_not_null":
			o.ForceNotNull, err = c.columnsOrStar()
		case "force_null":
			o.ForceNull, err = c.columnsOrStar()
		default:
			return sqlstate.New(sqlstate.SyntaxError, "option \"%s\" not recognized", name).At(CharPos(c.src, int(t.Pos)))
		}
		if err != nil {
			return err
		}
		if !c.acceptPunct(",") {
			return c.expectPunct(")")
		}
	}
}

func (c *cursor) columnsOrStar() ([]string, error) {
	if c.acceptOp("*") {
		return []string{"*"}, nil
	}
	if c.isPunct("(") {
		return c.parenIdents()
	}
	return c.idents()
}

func (c *cursor) oneByte(what string) (byte, error) {
	s, err := c.str()
	if err != nil {
		return 0, err
	}
	if len(s) != 1 {
		return 0, sqlstate.New(sqlstate.FeatureNotSupported, "%s must be a single one-byte character", what)
	}
	return s[0], nil
}

func (c *cursor) copyLegacy(o *CopyOptions, seen map[string]bool) error {
	for !c.done() && !c.is("where") {
		var err error
		switch {
		case c.accept("binary"):
			o.Format = "binary"
		case c.accept("csv"):
			o.Format = "csv"
		case c.accept("freeze"):
			o.Freeze = true
		case c.accept("header"):
			o.Header = true
		case c.is("delimiter"), c.is("delimiters"):
			c.i++
			c.accept("as")
			seen["delimiter"] = true
			o.Delimiter, err = c.oneByte("COPY delimiter")
		case c.accept("null"):
			c.accept("as")
			seen["null"] = true
			o.Null, err = c.str()
		case c.accept("quote"):
			c.accept("as")
			seen["quote"] = true
			o.Quote, err = c.oneByte("COPY quote")
		case c.accept("escape"):
			c.accept("as")
			seen["escape"] = true
			o.Escape, err = c.oneByte("COPY escape")
		case c.accept("force", "quote"):
			o.ForceQuote, err = c.columnsOrStar()
		case c.accept("force", "not", "null"):
			o.ForceNotNull, err = c.columnsOrStar()
		case c.accept("force", "null"):
			o.ForceNull, err = c.columnsOrStar()
		case c.accept("encoding"):
			o.Encoding, err = c.str()
		default:
			return c.unexpected()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// finish checks the options together and fills in defaults.
func (o *CopyOptions) finish(seen map[string]bool, from bool) error {
	csv := o.Format == "csv"
	bad := func(format string, args ...any) error {
		return sqlstate.New(sqlstate.FeatureNotSupported, format, args...)
	}
	if o.Format == "binary" {
		if seen["delimiter"] {
			return sqlstate.New(sqlstate.SyntaxError, "cannot specify DELIMITER in BINARY mode")
		}
		if seen["null"] {
			return sqlstate.New(sqlstate.SyntaxError, "cannot specify NULL in BINARY mode")
		}
		if o.Header {
			return bad("cannot specify HEADER in BINARY mode")
		}
	}
	if !seen["delimiter"] {
		o.Delimiter = '\t'
		if csv {
			o.Delimiter = ','
		}
	}
	if !seen["null"] && !csv {
		o.Null = `\N`
	}
	if o.HeaderMatch && !from {
		return bad("cannot use \"match\" with HEADER in COPY TO")
	}
	if !csv && seen["quote"] {
		return bad("COPY quote available only in CSV mode")
	}
	if !csv && seen["escape"] {
		return bad("COPY escape available only in CSV mode")
	}
	if len(o.ForceQuote) > 0 && (!csv || from) {
		return bad("COPY force quote available only in CSV mode")
	}
	if len(o.ForceNotNull) > 0 && (!csv || !from) {
		return bad("COPY force not null available only in CSV mode")
	}
	if len(o.ForceNull) > 0 && (!csv || !from) {
		return bad("COPY force null available only in CSV mode")
	}
	if o.Quote == 0 {
		o.Quote = '"'
	}
	if o.Escape == 0 {
		o.Escape = o.Quote
	}
	switch {
	case o.Delimiter == '\n' || o.Delimiter == '\r':
		return sqlstate.New(sqlstate.InvalidParameterValue, "COPY delimiter cannot be newline or carriage return")
	case csv && o.Delimiter == o.Quote:
		return sqlstate.New(sqlstate.InvalidParameterValue, "COPY delimiter and quote must be different")
	case !csv && o.Format == "text" && strings.IndexByte("\\.abcdefghijklmnopqrstuvwxyz0123456789", o.Delimiter) >= 0:
		return sqlstate.New(sqlstate.InvalidParameterValue, "COPY delimiter cannot be \"%c\"", o.Delimiter)
	}
	return nil
}
