package parse

import (
	"strings"

	"meridian/sql/sqlstate"
)

// create parses the forms of CREATE that do not go to the grammar: roles, and those that are refused.
func (c *cursor) create() (any, error) {
	start := c.i
	if w, ok := c.acceptAny("user", "role", "group"); ok && !c.is("mapping") {
		r := &CreateRole{User: w == "user"}
		r.IfNotExists = c.accept("if", "not", "exists")
		var err error
		at := c.peek(0)
		if r.Name, err = c.role(); err != nil {
			return nil, err
		}
		if r.Name == CurrentRole || r.Name == SessionRole {
			return nil, sqlstate.New(sqlstate.ReservedName, "%s cannot be used as a role name here", strings.ToUpper(at.Text(c.src))).At(CharPos(c.src, int(at.Pos)))
		}
		if r.User {
			r.Options.Login = boolPtr(true)
		}
		c.accept("with")
		return r, c.roleOptions(&r.Options, true)
	}
	c.i = start
	if c.accept("placement") {
		return c.placementOption("CREATE")
	}
	if c.is("policy") {
		return nil, noPolicies()
	}
	c.accept("or", "replace")
	for _, w := range []string{"function", "procedure", "trigger", "type", "domain", "aggregate", "operator", "cast", "rule", "policy",
		"publication", "subscription", "server", "tablespace", "collation", "conversion", "language", "statistics", "transform"} {
		if c.is(w) && !(w == "type" && c.makesEnum()) {
			return nil, c.unsupported("CREATE " + strings.ToUpper(w))
		}
	}
	for _, w := range [][]string{{"event", "trigger"}, {"constraint", "trigger"}, {"foreign", "table"}, {"foreign", "data"},
		{"text", "search"}, {"access", "method"}, {"trusted", "language"}, {"procedural", "language"}, {"default", "conversion"}, {"user", "mapping"}} {
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
		if n == "pgcrypto" && exists {
			return &Noop{Tag: "CREATE EXTENSION", Notice: "of extension \"pgcrypto\" only gen_random_uuid() is available"}, nil
		}
		switch builtIn := n == "uuid-ossp" || n == "plpgsql"; {
		case !builtIn:
			return nil, sqlstate.New(sqlstate.FeatureNotSupported, "extension \"%s\" is not available", n).
				WithHint("gen_random_uuid() and uuid_generate_v4() need no extension.")
		case !exists:
			return nil, sqlstate.New(sqlstate.DuplicateObject, "extension \"%s\" already exists", n)
		}
		return &Noop{Tag: "CREATE EXTENSION", Notice: "extension \"" + n + "\" already exists, skipping"}, nil
	}
	c.i = start
	return nil, nil
}

// initialSetting reads SET or RESET of ALTER ROLE and ALTER DATABASE.
func (c *cursor) initialSetting() (*SetVar, *ResetVar, error) {
	switch {
	case c.accept("set"):
		node, err := c.set()
		set, ok := node.(*SetVar)
		if err == nil && (!ok || set.Local) {
			err = c.unsupported("this form of SET for roles and databases")
		}
		return set, nil, err
	case c.accept("reset"):
		node, err := c.reset()
		reset, ok := node.(*ResetVar)
		if err == nil && !ok {
			err = c.unsupported("this form of RESET for roles and databases")
		}
		return nil, reset, err
	}
	return nil, nil, c.unexpected()
}

func (c *cursor) alter() (any, error) {
	start := c.i
	switch {
	case c.accept("placement"):
		return c.placementOption("ALTER")
	case c.accept("table"):
		if node, err := c.alterTablePlacement(); node != nil || err != nil {
			return node, err
		}
		if node, err := c.alterConstraint(); node != nil || err != nil {
			return node, err
		}
		if node, err := c.alterStorage(false); node != nil || err != nil {
			return node, err
		}
	case c.accept("index"):
		if node, err := c.alterStorage(true); node != nil || err != nil {
			return node, err
		}
	case c.accept("database"):
		if node, err := c.alterDatabase(); node != nil || err != nil {
			return node, err
		}
	}
	c.i = start
	if w, ok := c.acceptAny("user", "role", "group"); ok && !c.is("mapping") {
		group := w == "group"
		r := &AlterRole{IfExists: c.accept("if", "exists")}
		var err error
		all := c.accept("all")
		if !all {
			if r.Name, err = c.role(); err != nil {
				return nil, err
			}
		}
		if c.accept("in", "database") {
			if r.Database, err = c.ident(); err != nil {
				return nil, err
			}
		}
		if all || r.Database != "" || c.is("set") || c.is("reset") {
			if r.Set, r.Reset, err = c.initialSetting(); err != nil || !all {
				return r, err
			}
			if r.Database == "" {
				return nil, sqlstate.New(sqlstate.FeatureNotSupported, "settings of all roles in all databases are not supported").
					WithHint("Use ALTER DATABASE ... SET for each database.")
			}
			return &AlterDatabase{Name: r.Database, Set: r.Set, Reset: r.Reset, Roles: true}, nil
		}
		switch {
		case group && (c.is("add") || c.is("drop")):
			r.Options.DropMembers = c.is("drop")
			c.i++
			if err := c.expect("user"); err != nil {
				return nil, err
			}
			r.Options.Members, err = c.roles()
			return r, err
		case c.accept("rename", "to"):
			r.Rename, err = c.ident()
			return r, err
		}
		c.accept("with")
		return r, c.roleOptions(&r.Options, false)
	}
	c.i = start
	for _, w := range []string{"function", "procedure", "trigger", "domain", "aggregate", "operator", "rule",
		"publication", "subscription", "server", "tablespace", "collation", "conversion", "language", "extension", "system", "statistics", "large", "routine"} {
		if c.is(w) {
			return nil, c.unsupported("ALTER " + strings.ToUpper(w))
		}
	}
	for _, w := range [][]string{{"event", "trigger"}, {"foreign", "table"}, {"foreign", "data"}, {"text", "search"}, {"user", "mapping"}, {"procedural", "language"}} {
		if c.is(w[0]) && c.isAt(1, w[1]) {
			return nil, c.unsupported("ALTER " + strings.ToUpper(w[0]+" "+w[1]))
		}
	}
	switch {
	case c.is("default") && c.isAt(1, "privileges"):
		return nil, sqlstate.New(sqlstate.FeatureNotSupported, "ALTER DEFAULT PRIVILEGES is not supported").
			WithHint("Use GRANT ... ON ALL TABLES IN SCHEMA for existing objects, and GRANT for each new one.")
	case c.is("policy"):
		return nil, noPolicies()
	case c.is("table"):
		for k := 1; c.peek(k).Kind != EOF; k++ {
			if c.isAt(k, "row") && c.isAt(k+1, "level") && c.isAt(k+2, "security") {
				return nil, noPolicies()
			}
		}
	}
	c.i = start
	return nil, nil
}

func (c *cursor) drop() (any, error) {
	start := c.i
	if _, ok := c.acceptAny("user", "role", "group"); ok && !c.is("mapping") {
		d := &DropRole{IfExists: c.accept("if", "exists")}
		for {
			n, err := c.role()
			if err != nil {
				return nil, err
			}
			d.Names = append(d.Names, n)
			if !c.acceptPunct(",") {
				return d, nil
			}
		}
	}
	if c.accept("placement") {
		return c.placementOption("DROP")
	}
	if c.accept("owned") {
		d := &DropOwned{}
		if err := c.expect("by"); err != nil {
			return nil, err
		}
		var err error
		if d.Roles, err = c.roles(); err != nil {
			return nil, err
		}
		if d.Cascade = c.accept("cascade"); !d.Cascade {
			c.accept("restrict")
		}
		return d, nil
	}
	c.i = start
	if node, err := c.dropMissing(); node != nil || err != nil {
		return node, err
	}
	c.i = start
	return nil, nil
}

// role consumes the name of a role, or a word such as CURRENT_USER that stands for one.
func (c *cursor) role() (string, error) {
	if c.peek(0).Kind == Word {
		switch {
		case c.accept("current_user"), c.accept("current_role"):
			return CurrentRole, nil
		case c.accept("session_user"):
			return SessionRole, nil
		}
	}
	return c.word()
}

// noPolicies refuses row-level security.
func noPolicies() error {
	return sqlstate.New(sqlstate.FeatureNotSupported, "row-level security is not supported").
		WithHint("Give roles a view of the rows that they may see, and no privilege on the table.")
}

// notOn refuses a GRANT or REVOKE on a kind of object.
func notOn(kind string) error {
	return sqlstate.New(sqlstate.FeatureNotSupported, "GRANT and REVOKE on %s are not supported", kind).
		WithHint("Privileges are on tables, views, sequences, schemas, types and databases.")
}

func (c *cursor) roles() ([]string, error) {
	var list []string
	for {
		n, err := c.role()
		if err != nil {
			return nil, err
		}
		if list = append(list, n); !c.acceptPunct(",") {
			return list, nil
		}
	}
}

func (c *cursor) roleOptions(o *RoleOptions, create bool) error {
	seen := map[string]bool{}
	for !c.done() {
		var err error
		t := c.peek(0)
		w := strings.ToLower(t.Text(c.src))
		switch w {
		case "encrypted":
			w = "password"
		case "user", "role":
			w = "role"
		default:
			w = strings.TrimPrefix(w, "no")
		}
		if w != "in" && seen[w] {
			return sqlstate.New(sqlstate.SyntaxError, "conflicting or redundant options").At(CharPos(c.src, int(t.Pos)))
		}
		seen[w] = true
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
			if o.NullPassword = c.accept("null"); !o.NullPassword {
				if o.Password, err = c.str(); err != nil {
					return err
				}
			}
		case c.is("unencrypted"):
			return sqlstate.New(sqlstate.FeatureNotSupported, "UNENCRYPTED PASSWORD is no longer supported").
				WithHint("Remove UNENCRYPTED to store the password in encrypted form instead.")
		case c.accept("valid", "until"):
			var v string
			v, err = c.str()
			o.ValidUntil = &v
		case c.accept("connection", "limit"):
			var n int64
			n, err = c.integer()
			v := int(n)
			o.ConnLimit = &v
		case create && c.accept("in", "role"), create && c.accept("in", "group"):
			o.InRoles, err = c.roles()
		case create && c.accept("role"), c.accept("user"):
			o.Members, err = c.roles()
		case create && c.accept("admin"):
			o.Admins, err = c.roles()
		case create && c.accept("sysid"):
			_, err = c.integer()
		case c.accept("inherit"):
			o.Inherit = boolPtr(true)
		case c.accept("noinherit"):
			o.Inherit = boolPtr(false)
		case c.accept("noreplication"), c.accept("nobypassrls"):
			// No role has either.
		case c.accept("replication"):
			return sqlstate.New(sqlstate.FeatureNotSupported, "roles for replication are not supported").
				WithHint("There is no streaming replication to a server outside of the cluster.")
		case c.accept("bypassrls"):
			return sqlstate.New(sqlstate.FeatureNotSupported, "row-level security is not supported").
				WithHint("No table has policies that a role could bypass.")
		case t.Kind == Word:
			return sqlstate.New(sqlstate.SyntaxError, "unrecognized role option \"%s\"", strings.ToLower(t.Text(c.src))).At(CharPos(c.src, int(t.Pos)))
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
	words, err := c.grantWords()
	if err != nil {
		return nil, err
	}
	if c.accept("on") {
		if err := c.grantOn(g, words); err != nil {
			return nil, err
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
		n, err := c.role()
		if err != nil {
			return nil, err
		}
		g.Grantees = append(g.Grantees, n)
		if !c.acceptPunct(",") {
			break
		}
	}
	option := "grant"
	if g.Roles != nil {
		option = "admin"
	}
	if !revoke && c.accept("with", option, "option") {
		g.GrantOption = true
	}
	if c.accept("granted", "by") {
		if g.Grantor, err = c.role(); err != nil {
			return nil, err
		}
	}
	if revoke && c.accept("cascade") {
		g.Cascade = true
	} else if revoke {
		c.accept("restrict")
	}
	return g, nil
}

// grantWords parses the privileges or roles of GRANT and REVOKE.
func (c *cursor) grantWords() ([]string, error) {
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
			return nil, sqlstate.New(sqlstate.FeatureNotSupported, "privileges on columns are not supported").
				WithHint("Grant the privilege on the table, or on a view of the columns.")
		}
		if !c.acceptPunct(",") {
			break
		}
	}
	return words, nil
}

// grantOn parses the objects of GRANT and REVOKE after the word ON, and checks the privileges on them.
func (c *cursor) grantOn(g *Grant, words []string) error {
	for _, w := range words {
		w = strings.ToUpper(w)
		switch w {
		case "ALL", "SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER", "USAGE", "CREATE", "CONNECT",
			"TEMPORARY", "TEMP", "EXECUTE":
		case "SET", "ALTER":
			return notOn("parameters")
		default:
			return sqlstate.New(sqlstate.SyntaxError, "unrecognized privilege type \"%s\"", strings.ToLower(w))
		}
		g.Privileges = append(g.Privileges, w)
	}
	g.Kind = "TABLE"
	if c.accept("all") {
		w, ok := c.acceptAny("tables", "sequences", "functions", "procedures", "routines")
		if !ok {
			return c.unexpected()
		}
		if err := c.expect("in", "schema"); err != nil {
			return err
		}
		g.Kind = "ALL " + strings.ToUpper(w) + " IN SCHEMA"
	} else if w, ok := c.acceptAny("table", "sequence", "database", "schema", "function", "procedure", "routine", "type", "domain", "language", "tablespace", "parameter"); ok {
		g.Kind = strings.ToUpper(w)
	} else if c.accept("foreign") {
		return notOn("foreign data wrappers and servers")
	} else if c.accept("large", "object") {
		return notOn("large objects")
	}
	for {
		n, err := c.name()
		if err != nil {
			return err
		}
		if c.acceptPunct("(") {
			for !c.acceptPunct(")") {
				if c.done() {
					return c.unexpected()
				}
				c.i++
			}
		}
		g.Objects = append(g.Objects, n)
		if !c.acceptPunct(",") {
			break
		}
	}
	return nil
}

// reassign parses REASSIGN OWNED.
func (c *cursor) reassign() (any, error) {
	r := &ReassignOwned{}
	if err := c.expect("owned", "by"); err != nil {
		return nil, err
	}
	var err error
	if r.Roles, err = c.roles(); err != nil {
		return nil, err
	}
	if err := c.expect("to"); err != nil {
		return nil, err
	}
	r.To, err = c.role()
	return r, err
}

// makesEnum reports whether the rest of CREATE TYPE has AS ENUM.
func (c *cursor) makesEnum() bool {
	for i := 1; i < 6; i++ {
		if c.isAt(i, "as") {
			return c.isAt(i+1, "enum")
		}
	}
	return false
}
