package parse

import (
	"strings"

	"meridian/sql/sqlstate"
)

// create parses the forms of CREATE that the grammar is not asked for: roles, and what is refused.
func (c *cursor) create() (any, error) {
	start := c.i
	if w, ok := c.acceptAny("user", "role", "group"); ok && !c.is("mapping") {
		r := &CreateRole{User: w == "user"}
		r.IfNotExists = c.accept("if", "not", "exists")
		var err error
		if r.Name, err = c.word(); err != nil {
			return nil, err
		}
		if r.User {
			r.Options.Login = boolPtr(true)
		}
		c.accept("with")
		return r, c.roleOptions(&r.Options)
	}
	c.i = start
	c.accept("or", "replace")
	for _, w := range []string{"function", "procedure", "trigger", "type", "domain", "aggregate", "operator", "cast", "rule", "policy",
		"publication", "subscription", "server", "tablespace", "collation", "conversion", "language", "user"} {
		if c.is(w) {
			return nil, c.unsupported("CREATE " + strings.ToUpper(w))
		}
	}
	for _, w := range [][]string{{"event", "trigger"}, {"constraint", "trigger"}, {"foreign", "table"}, {"foreign", "data"},
		{"text", "search"}, {"access", "method"}, {"materialized", "view"}, {"trusted", "language"}, {"default", "conversion"}} {
		if c.is(w[0]) && c.isAt(1, w[1]) {
			return nil, c.unsupported("CREATE " + strings.ToUpper(w[0]+" "+w[1]))
		}
	}
	if c.accept("extension") {
		exists := c.accept("if", "not", "exists")
		n, err := c.word()
		if err != nil {
			return nil, err
		}
		c.i = len(c.toks)
		if !exists {
			return nil, sqlstate.New(sqlstate.FeatureNotSupported, "extension \"%s\" is not available", n)
		}
		return &Noop{Tag: "CREATE EXTENSION", Notice: "extension \"" + n + "\" is not available, ignored"}, nil
	}
	c.i = start
	return nil, nil
}

func (c *cursor) alter() (any, error) {
	start := c.i
	if _, ok := c.acceptAny("user", "role", "group"); ok && !c.is("mapping") {
		r := &AlterRole{IfExists: c.accept("if", "exists")}
		var err error
		if r.Name, err = c.word(); err != nil {
			return nil, err
		}
		if c.accept("in", "database") {
			if _, err := c.ident(); err != nil {
				return nil, err
			}
		}
		switch {
		case c.accept("rename", "to"):
			r.Rename, err = c.ident()
			return r, err
		case c.is("set"):
			c.i++
			node, err := c.set()
			if err != nil {
				return nil, err
			}
			var ok bool
			if r.Set, ok = node.(*SetVar); !ok {
				return nil, c.unsupported("this ALTER ROLE")
			}
			return r, nil
		case c.is("reset"):
			c.i++
			node, err := c.reset()
			if err != nil {
				return nil, err
			}
			r.Reset, _ = node.(*ResetVar)
			return r, nil
		}
		c.accept("with")
		return r, c.roleOptions(&r.Options)
	}
	for _, w := range []string{"function", "procedure", "trigger", "type", "domain", "aggregate", "operator", "rule", "policy",
		"publication", "subscription", "server", "tablespace", "collation", "conversion", "language", "extension", "system", "statistics", "large"} {
		if c.is(w) {
			return nil, c.unsupported("ALTER " + strings.ToUpper(w))
		}
	}
	if c.is("default") && c.isAt(1, "privileges") {
		return nil, c.unsupported("ALTER DEFAULT PRIVILEGES")
	}
	c.i = start
	return nil, nil
}

func (c *cursor) drop() (any, error) {
	start := c.i
	if _, ok := c.acceptAny("user", "role", "group"); ok && !c.is("mapping") {
		d := &DropRole{IfExists: c.accept("if", "exists")}
		for {
			n, err := c.word()
			if err != nil {
				return nil, err
			}
			d.Names = append(d.Names, n)
			if !c.acceptPunct(",") {
				return d, nil
			}
		}
	}
	if c.is("extension") && c.isAt(1, "if") {
		c.i = len(c.toks)
		return &Noop{Tag: "DROP EXTENSION"}, nil
	}
	for _, w := range []string{"function", "procedure", "trigger", "type", "domain", "aggregate", "operator", "cast", "rule", "policy",
		"publication", "subscription", "server", "tablespace", "collation", "conversion", "language", "extension", "statistics", "owned", "materialized"} {
		if c.is(w) {
			return nil, c.unsupported("DROP " + strings.ToUpper(w))
		}
	}
	c.i = start
	return nil, nil
}

func (c *cursor) roleOptions(o *RoleOptions) error {
	for !c.done() {
		var err error
		switch {
		case c.accept("superuser"):
			o.Superuser = boolPtr(true)
		case c.accept("nosuperuser"):
			o.Superuser = boolPtr(false)
		case c.accept("createdb"):
			o.CreateDB = boolPtr(true)
		case c.accept("nocreatedb"):
			o.CreateDB = boolPtr(false)
		case c.accept("createrole"), c.accept("createuser"):
			o.CreateRole = boolPtr(true)
		case c.accept("nocreaterole"), c.accept("nocreateuser"):
			o.CreateRole = boolPtr(false)
		case c.accept("login"):
			o.Login = boolPtr(true)
		case c.accept("nologin"):
			o.Login = boolPtr(false)
		case c.is("encrypted"), c.is("password"):
			c.accept("encrypted")
			if err := c.expect("password"); err != nil {
				return err
			}
			o.HasPassword = true
			if !c.accept("null") {
				if o.Password, err = c.str(); err != nil {
					return err
				}
			}
		case c.is("unencrypted"):
			return sqlstate.New(sqlstate.FeatureNotSupported, "UNENCRYPTED PASSWORD is no longer supported").
				WithHint("Remove UNENCRYPTED to store the password in encrypted form instead.")
		case c.accept("valid", "until"):
			o.ValidUntil, err = c.str()
		case c.accept("connection", "limit"):
			o.ConnLimit, err = c.integer()
		case c.accept("in", "role"), c.accept("in", "group"):
			o.InRoles, err = c.idents()
		case c.accept("role"), c.accept("admin"), c.accept("user"):
			_, err = c.idents()
		case c.accept("sysid"):
			_, err = c.integer()
		case c.accept("inherit"), c.accept("noinherit"), c.accept("replication"), c.accept("noreplication"), c.accept("bypassrls"), c.accept("nobypassrls"):
		default:
			return c.unexpected()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// grant parses GRANT and REVOKE.
func (c *cursor) grant(revoke bool) (any, error) {
	g := &Grant{Revoke: revoke}
	if revoke {
		if c.accept("grant", "option", "for") || c.accept("admin", "option", "for") {
			g.GrantOption = true
		}
	}
	var words []string
	for {
		if c.accept("all") {
			c.accept("privileges")
			words = append(words, "all")
		} else {
			w, err := c.ident()
			if err != nil {
				return nil, err
			}
			words = append(words, w)
		}
		if cols, err := c.parenIdents(); err != nil {
			return nil, err
		} else if cols != nil {
			return nil, c.unsupported("a privilege on columns")
		}
		if !c.acceptPunct(",") {
			break
		}
	}
	if c.accept("on") {
		for _, w := range words {
			w = strings.ToUpper(w)
			switch w {
			case "ALL", "SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", "USAGE", "CREATE", "CONNECT",
				"TEMPORARY", "TEMP", "EXECUTE", "SET", "DROP", "ZONECONFIG", "BACKUP":
			default:
				return nil, sqlstate.New(sqlstate.SyntaxError, "unrecognized privilege type \"%s\"", strings.ToLower(w))
			}
			g.Privileges = append(g.Privileges, w)
		}
		g.Kind = "TABLE"
		if c.accept("all") {
			w, ok := c.acceptAny("tables", "sequences", "functions", "procedures", "routines")
			if !ok {
				return nil, c.unexpected()
			}
			if err := c.expect("in", "schema"); err != nil {
				return nil, err
			}
			g.Kind = "ALL " + strings.ToUpper(w) + " IN SCHEMA"
		} else if w, ok := c.acceptAny("table", "sequence", "database", "schema", "function", "procedure", "routine", "type", "domain", "language", "tablespace", "parameter"); ok {
			g.Kind = strings.ToUpper(w)
		}
		for {
			n, err := c.name()
			if err != nil {
				return nil, err
			}
			if c.acceptPunct("(") {
				for !c.acceptPunct(")") {
					if c.done() {
						return nil, c.unexpected()
					}
					c.i++
				}
			}
			g.Objects = append(g.Objects, n)
			if !c.acceptPunct(",") {
				break
			}
		}
	} else {
		g.Roles = words
	}
	to := "to"
	if revoke {
		to = "from"
	}
	if err := c.expect(to); err != nil {
		return nil, err
	}
	for {
		c.accept("group")
		n, err := c.word()
		if err != nil {
			return nil, err
		}
		g.Grantees = append(g.Grantees, n)
		if !c.acceptPunct(",") {
			break
		}
	}
	if c.accept("with", "grant", "option") || c.accept("with", "admin", "option") {
		g.GrantOption = true
	}
	if c.accept("granted", "by") {
		if _, err := c.word(); err != nil {
			return nil, err
		}
	}
	if c.accept("cascade") {
		g.Cascade = true
	} else {
		c.accept("restrict")
	}
	return g, nil
}
