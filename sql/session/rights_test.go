package session_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"meridian/sql/session/sessiontest"
)

// rights runs f with sessions of some roles, which are made, and a schema app that everybody may use.
func rights(t *testing.T, f func(open func(role string) *sessiontest.Conn, root *sessiontest.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 1)
		defer c.Stop()
		open := func(role string) *sessiontest.Conn { return c.Nodes[0].Open(t, role) }
		root := open("root")
		defer root.Close()
		root.Must("CREATE ROLE owner LOGIN; CREATE ROLE other LOGIN; CREATE ROLE reader LOGIN; CREATE SCHEMA app; " +
			"GRANT USAGE, CREATE ON SCHEMA app TO owner, other; GRANT USAGE ON SCHEMA app TO public")
		f(open, root)
	})
}

// want runs a statement and compares what is answered: a part of the error, or of the output.
func want(t *testing.T, c *sessiontest.Conn, sql, part string) {
	t.Helper()
	out, err := c.Exec(sql)
	if err != nil {
		out = sessiontest.Describe(err)
	}
	if !strings.Contains(out, part) || part == "" && err != nil {
		t.Errorf("%s: %s\n\twant %q", sql, out, part)
	}
}

// refuse wants an answer that does not have some text in it.
func refuse(t *testing.T, c *sessiontest.Conn, sql, part string) {
	t.Helper()
	out, err := c.Exec(sql)
	if err != nil {
		out = sessiontest.Describe(err)
	}
	if strings.Contains(out, part) {
		t.Errorf("%s tells %q: %s", sql, part, out)
	}
}

// TestViewsReadAsTheirOwner: at each use, on open sessions and with plans that were made before (issue: any role that may create a
// view read another role's table through it).
func TestViewsReadAsTheirOwner(t *testing.T) {
	rights(t, func(open func(string) *sessiontest.Conn, root *sessiontest.Conn) {
		owner, other, reader := open("owner"), open("other"), open("reader")
		defer owner.Close()
		defer other.Close()
		defer reader.Close()
		owner.Must("CREATE TABLE app.secret (id int PRIMARY KEY, v text); INSERT INTO app.secret VALUES (1, 'treasure')")
		// PostgreSQL lets anybody make the view, and looks at each use.
		other.Must("CREATE VIEW app.peek AS SELECT v FROM app.secret; GRANT SELECT ON app.peek TO reader")
		for _, c := range []*sessiontest.Conn{other, reader, root} {
			want(t, c, "SELECT * FROM app.peek", "42501: permission denied for table secret")
		}
		owner.Must("GRANT SELECT ON app.secret TO other")
		want(t, other, "SELECT * FROM app.peek", "treasure")
		want(t, reader, "SELECT * FROM app.peek", "treasure")
		want(t, reader, "SELECT * FROM app.secret", "42501")
		reader.Must("PREPARE p AS SELECT * FROM app.peek; EXECUTE p")
		other.Must("CREATE VIEW app.outer AS SELECT v || '!' AS w FROM app.peek; GRANT SELECT ON app.outer TO reader")
		want(t, reader, "SELECT * FROM app.outer", "treasure!")
		// Rights that are taken count at once, with plans and prepared statements of before.
		owner.Must("REVOKE SELECT ON app.secret FROM other")
		want(t, reader, "SELECT * FROM app.peek", "42501: permission denied for table secret")
		want(t, reader, "EXECUTE p", "42501: permission denied for table secret")
		want(t, reader, "SELECT * FROM app.outer", "42501: permission denied for table secret")
		want(t, reader, "EXPLAIN SELECT * FROM app.peek", "42501")
		want(t, other, "CREATE TABLE app.copy AS SELECT * FROM app.peek", "42501")
		want(t, other, "INSERT INTO app.peek VALUES ('x')", "55000")
		// The owner of a view changes, and with it who reads.
		root.Must("ALTER VIEW app.peek OWNER TO owner")
		want(t, reader, "SELECT * FROM app.peek", "treasure")
		want(t, reader, "SELECT * FROM app.outer", "42501: permission denied for view peek")
		// A view of the invoker reads as who uses it, also below a view of somebody else's.
		root.Must("ALTER VIEW app.peek SET (security_invoker = true); GRANT SELECT ON app.peek TO other")
		want(t, reader, "SELECT * FROM app.peek", "42501: permission denied for table secret")
		want(t, owner, "SELECT * FROM app.peek", "treasure")
		want(t, reader, "SELECT * FROM app.outer", "42501: permission denied for table secret")
		owner.Must("GRANT SELECT ON app.secret TO reader")
		want(t, reader, "SELECT * FROM app.outer", "treasure!")
		want(t, root, "SHOW CREATE VIEW app.peek", "WITH (security_invoker=true)")
		root.Must("ALTER VIEW app.peek RESET (security_invoker)")
		want(t, root, "SHOW CREATE VIEW app.peek", "CREATE VIEW app.peek AS")
		want(t, root, "CREATE VIEW app.n WITH (security_barrier) AS SELECT 1 AS a", "0A000")
		want(t, root, "CREATE VIEW app.n WITH (check_option = local) AS SELECT 1 AS a", "0A000")
		want(t, root, "CREATE VIEW app.n WITH (fly = 1) AS SELECT 1 AS a", "22023: unrecognized parameter \"fly\"")
		want(t, root, "CREATE VIEW app.n WITH (security_invoker = perhaps) AS SELECT 1 AS a", "22023: invalid value for boolean option")
		root.Must("CREATE VIEW app.n (a) WITH (security_invoker, security_barrier = off) AS WITH x AS (SELECT 1) SELECT * FROM x")
	})
}

// TestDetailsAreForReaders: errors show values of rows to those who may read them.
func TestDetailsAreForReaders(t *testing.T) {
	rights(t, func(open func(string) *sessiontest.Conn, root *sessiontest.Conn) {
		other, reader := open("other"), open("reader")
		defer other.Close()
		defer reader.Close()
		root.Must("CREATE TABLE app.t (id int PRIMARY KEY, secret int UNIQUE, n int NOT NULL, CHECK (n > 0)); INSERT INTO app.t VALUES (1, 4711, 5); " +
			"CREATE TABLE app.kid (id int PRIMARY KEY, secret int REFERENCES app.t (secret)); INSERT INTO app.kid VALUES (1, 4711); " +
			"GRANT INSERT, UPDATE, DELETE ON app.t, app.kid TO other, reader; GRANT SELECT ON app.t, app.kid TO reader")
		for _, x := range []struct{ sql, code, hidden string }{
			{"INSERT INTO app.t VALUES (2, 4711, 1)", "23505", ""},
			{"UPDATE app.t SET n = -1", "23514", ""},
			{"UPDATE app.t SET n = NULL", "23502", ""},
			{"DELETE FROM app.t", "23503", "Key is still referenced from table \"kid\"."},
			{"UPDATE app.kid SET secret = secret + 0 - 0", "", ""},
			{"INSERT INTO app.kid VALUES (2, 4712)", "23503", "Key is not present in table \"t\"."},
		} {
			if x.code == "" {
				want(t, other, x.sql, "42501")
				continue
			}
			want(t, reader, x.sql, x.code)
			want(t, reader, x.sql, "471")
			want(t, other, x.sql, x.code)
			if x.hidden != "" {
				want(t, other, x.sql, x.hidden)
			}
			refuse(t, other, x.sql, "471")
		}
	})
}

// TestOthersBusiness: what other sessions do, and how far sequences have come, is for those who may know.
func TestOthersBusiness(t *testing.T) {
	rights(t, func(open func(string) *sessiontest.Conn, root *sessiontest.Conn) {
		other, reader := open("other"), open("reader")
		defer other.Close()
		defer reader.Close()
		root.Must("CREATE SEQUENCE app.q; SELECT nextval('app.q')")
		want(t, root, "SELECT last_value FROM pg_sequences", "1")
		want(t, other, "SELECT coalesce(last_value::text, 'hidden') FROM pg_sequences", "hidden")
		root.Must("GRANT USAGE ON SEQUENCE app.q TO other")
		refuse(t, other, "SELECT coalesce(last_value::text, 'hidden') FROM pg_sequences", "hidden")
		want(t, other, "SELECT * FROM pg_shadow", "42501")
		root.Must("GRANT pg_read_all_data TO reader")

	})
}

// TestEmptyPasswords: an empty password clears the password, as in PostgreSQL.
func TestEmptyPasswords(t *testing.T) {
	rights(t, func(_ func(string) *sessiontest.Conn, root *sessiontest.Conn) {
		has := "SELECT rolname, rolpassword IS NULL FROM pg_authid WHERE rolname = 'x'"
		want(t, root, "CREATE ROLE x LOGIN PASSWORD ''", "NOTICE 00000: empty string is not a valid password, clearing password")
		want(t, root, has, "x | t")
		root.Must("ALTER ROLE x PASSWORD 'y'")
		want(t, root, has, "x | f")
		want(t, root, "ALTER ROLE x PASSWORD ''", "NOTICE 00000: empty string is not a valid password, clearing password")
		want(t, root, has, "x | t")
		root.Must("ALTER ROLE x PASSWORD 'y'")
		refuse(t, root, "ALTER ROLE x PASSWORD NULL", "NOTICE")
		want(t, root, has, "x | t")
	})
}

// TestSequencesOfColumns: a sequence follows its column's table, which is dropped, given away and restarted with it; so both have
// one owner and one schema.
func TestSequencesOfColumns(t *testing.T) {
	rights(t, func(open func(string) *sessiontest.Conn, root *sessiontest.Conn) {
		owner, other := open("owner"), open("other")
		defer owner.Close()
		defer other.Close()
		owner.Must("CREATE TABLE app.t (a int, i int GENERATED ALWAYS AS IDENTITY); CREATE SEQUENCE app.mine")
		other.Must("CREATE SEQUENCE app.q")
		root.Must("CREATE SCHEMA elsewhere AUTHORIZATION owner")
		const owners, schemas = "55000: sequence must have same owner as table it is linked to", "55000: sequence must be in same schema as table it is linked to"
		want(t, other, "CREATE SEQUENCE app.n OWNED BY app.t.a", owners)
		want(t, other, "ALTER SEQUENCE app.q OWNED BY app.t.a", owners)
		want(t, root, "CREATE SEQUENCE app.n OWNED BY app.t.a", owners)
		want(t, root, "ALTER SEQUENCE app.q OWNED BY app.t.a", owners)
		want(t, owner, "CREATE SEQUENCE elsewhere.n OWNED BY app.t.a", schemas)
		want(t, owner, "CREATE SEQUENCE app.n OWNED BY app.mine.last_value", "42809: sequence cannot be owned by relation \"mine\"")
		want(t, owner, "CREATE SEQUENCE app.n OWNED BY app.t.nothing", "42703: column \"nothing\" of relation \"t\" does not exist")
		want(t, owner, "ALTER SEQUENCE app.t_i_seq OWNED BY NONE", "0A000: cannot change ownership of identity sequence")
		want(t, owner, "ALTER SEQUENCE app.t_i_seq OWNED BY app.t.a", "0A000: cannot change ownership of identity sequence")
		owner.Must("CREATE SEQUENCE app.n OWNED BY app.t.a; ALTER SEQUENCE app.mine OWNED BY app.t.a; ALTER SEQUENCE app.mine OWNED BY NONE; DROP TABLE app.t")
		want(t, owner, "SELECT to_regclass('app.n') IS NULL, to_regclass('app.mine') IS NULL", "t | f")
	})
}

// TestOtherDatabases: names reach no other database than the session's, as in PostgreSQL. Otherwise CONNECT would mean nothing: it
// is asked when a session opens.
func TestOtherDatabases(t *testing.T) {
	rights(t, func(open func(string) *sessiontest.Conn, root *sessiontest.Conn) {
		// Objects of another database, which everybody was granted.
		root.Must("CREATE DATABASE far")
		root.Must("REVOKE CONNECT ON DATABASE far FROM PUBLIC")
		other := open("other")
		defer other.Close()
		for _, sql := range []string{
			"SELECT * FROM far.public.t", "TABLE far.public.t", "INSERT INTO far.public.t VALUES (1)", "UPDATE far.public.t SET a = 1", "DELETE FROM far.public.t",
			"TRUNCATE far.public.t", "COPY far.public.t TO STDOUT", "LOCK TABLE far.public.t", "ANALYZE far.public.t", "VACUUM far.public.t",
			"CREATE TABLE far.public.n (a int)", "CREATE VIEW far.public.n AS SELECT 1", "CREATE SEQUENCE far.public.n", "CREATE INDEX ON far.public.t (a)",
			"CREATE SCHEMA far.n", "ALTER SCHEMA far.public RENAME TO n", "DROP SCHEMA far.public", "DROP TABLE far.public.t", "DROP VIEW far.public.t",
			"DROP SEQUENCE far.public.t", "DROP INDEX far.public.t", "ALTER TABLE far.public.t ADD COLUMN b int", "ALTER TABLE far.public.t RENAME TO n",
			"ALTER SEQUENCE far.public.t RESTART", "ALTER INDEX far.public.t RENAME TO n", "COMMENT ON TABLE far.public.t IS 'x'", "GRANT SELECT ON far.public.t TO other",
			"GRANT SELECT ON ALL TABLES IN SCHEMA far.public TO other", "GRANT USAGE ON SCHEMA far.public TO other", "SHOW INDEXES FROM DATABASE far",
			"CREATE TABLE app.n (a int REFERENCES far.public.t)", "CREATE TABLE app.n (LIKE far.public.t)", "CREATE SEQUENCE app.n OWNED BY far.public.t.a",
			"SELECT 'far.public.t'::regclass", "SELECT nextval('far.public.t')", "SELECT has_table_privilege('far.public.t', 'SELECT')",
			"SELECT * FROM far.pg_catalog.pg_class", "SHOW RANGES FROM TABLE far.public.t", "SHOW RANGES FROM INDEX far.public.t", "SHOW CREATE TABLE far.public.t",
			"SHOW COLUMNS FROM far.public.t", "SHOW SCHEMAS FROM far", "ALTER TABLE far.public.t SPLIT AT VALUES (1)",
		} {
			for _, c := range []*sessiontest.Conn{other, root} {
				want(t, c, sql, "0A000: cross-database references are not implemented")
			}
		}
		for _, sql := range []string{"SELECT * FROM far.t", "CREATE TABLE far.n (a int)", "SHOW TABLES FROM far", "GRANT CONNECT ON DATABASE x.far TO other"} {
			if out, err := root.Exec(sql); err == nil {
				t.Errorf("%s: %s", sql, out)
			}
		}
		root.Must("CREATE TABLE defaultdb.app.t (a int); SELECT * FROM defaultdb.app.t; SELECT 'defaultdb.app.t'::regclass; DROP TABLE defaultdb.app.t")
		root.Must("CREATE TABLE defaultdb.u (a int)")
		root.Must("REVOKE USAGE ON SCHEMA public FROM PUBLIC; GRANT SELECT ON public.u TO other")
		want(t, other, "SELECT * FROM defaultdb.u", "42501: permission denied for schema public")
	})
}

// TestRenamesLeaveLiterals: the text of a view that reads a relation follows its new name and schema, and nothing else of the text does. The
// relation's owner could otherwise write into a view that reads with its own owner's rights.
func TestRenamesLeaveLiterals(t *testing.T) {
	rights(t, func(open func(string) *sessiontest.Conn, root *sessiontest.Conn) {
		owner, other := open("owner"), open("other")
		defer owner.Close()
		defer other.Close()
		owner.Must("CREATE TABLE app.secret (v text); INSERT INTO app.secret VALUES ('treasure')")
		other.Must("CREATE TABLE app.x (a int); INSERT INTO app.x VALUES (1); GRANT SELECT ON app.x TO owner")
		owner.Must(`CREATE VIEW app.v AS SELECT 'app.x' AS "in app.x", E'it\'s app.x' AS e, ' app.x ' || app.x.a AS b, x.a FROM app.x`)
		owner.Must("GRANT SELECT ON app.v TO other")
		const all = "app.x | it's app.x |  app.x 1 | 1"
		want(t, other, "SELECT * FROM app.v", all)
		for _, name := range []string{`' || (SELECT v FROM app.secret) || '`, `" FROM app.secret --`, `y`, `a.b`, `select`, `order`} {
			quoted := `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
			other.Must("ALTER TABLE app.x RENAME TO " + quoted)
			want(t, other, "SELECT * FROM app.v", all)
			want(t, other, `SELECT "in app.x" FROM app.v`, "in app.x")
			other.Must("ALTER TABLE app." + quoted + " RENAME TO x")
			want(t, other, "SELECT * FROM app.v", all)
		}
		// Checks follow their columns in the same way.
		other.Must(`CREATE TABLE app.c (a int, k text, CHECK (a > 0 AND k <> E'\'a > 0'))`)
		other.Must(`ALTER TABLE app.c RENAME COLUMN a TO "select"`)
		want(t, other, "INSERT INTO app.c VALUES (0, 'x')", "23514")
		want(t, other, "INSERT INTO app.c VALUES (1, E'\\'a > 0')", "23514")
		other.Must("INSERT INTO app.c VALUES (1, 'x')")
		root.Must("CREATE SCHEMA elsewhere AUTHORIZATION other; GRANT USAGE ON SCHEMA elsewhere TO owner")
		other.Must("ALTER TABLE app.x SET SCHEMA elsewhere")
		want(t, other, "SELECT * FROM app.v", all)
	})
}
