package session_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/kv"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/session/sessiontest"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// defect makes a function of SQL panic when it is called, as a nil pointer in an operator does.
func defect(t *testing.T, n *sessiontest.Node) {
	f := n.Server.Registry.Functions("md5")[0]
	was := *f
	t.Cleanup(func() { *f = was }) // all tests share the registry
	f.Volatility = scalar.Volatile
	f.Eval1, f.Eval2, f.Prepare = nil, nil, nil
	f.Eval = func(*scalar.Context, []types.Datum) (types.Datum, error) {
		var none *types.T
		return types.Null, errors.New(none.String())
	}
}

// TestPanicEndsItsStatement: a panic in a statement's code, in whichever part, is the statement's error (session.S6, fault.FA1): its session
// continues, and holds nothing of the statement, and the other sessions continue.
func TestPanicEndsItsStatement(t *testing.T) {
	for _, c := range []struct{ name, before, text, after string }{
		{name: "a target", text: "SELECT md5('x' || i) FROM generate_series(1, 3) i"},
		{name: "after rows were sent", text: "SELECT CASE WHEN a > 1 THEN md5(b) END FROM t ORDER BY a"},
		{name: "a filter", text: "SELECT * FROM t WHERE md5(b) = 'x'"},
		{name: "a group", text: "SELECT max(md5(b)) FROM t GROUP BY a"},
		{name: "a sort", text: "SELECT * FROM t ORDER BY md5(b)"},
		{name: "a hash join", text: "SELECT * FROM t x JOIN t y ON md5(x.b) = md5(y.b)"},
		{name: "a window", text: "SELECT lag(md5(b)) OVER (ORDER BY a) FROM t"},
		{name: "WITH RECURSIVE", text: "WITH RECURSIVE r(x) AS (SELECT 'a' UNION ALL SELECT md5(x) FROM r) SELECT * FROM r"},
		{name: "a write", text: "UPDATE t SET b = md5(b)"},
		{name: "a write after a write", text: "INSERT INTO t SELECT i, CASE i WHEN 9 THEN md5('x') ELSE 'y' END FROM generate_series(5, 9) i"},
		{name: "RETURNING", text: "DELETE FROM t RETURNING md5(b)"},
		{name: "ON CONFLICT", text: "INSERT INTO t VALUES (1, 'x') ON CONFLICT (a) DO UPDATE SET b = md5(t.b)"},
		{name: "a default", before: "CREATE TABLE d (a INT PRIMARY KEY, b TEXT DEFAULT md5('x'))", text: "INSERT INTO d (a) VALUES (1)"},
		{name: "a check", before: "CREATE TABLE d (a TEXT CHECK (md5(a) <> 'x'))", text: "INSERT INTO d VALUES ('x')"},
		{name: "a constant", text: "SELECT 1 WHERE md5('x') = 'y'"},
		{name: "a limit", text: "SELECT * FROM t LIMIT length(md5('x'))"},
		{name: "a command", text: "EXPLAIN ANALYZE SELECT md5(b) FROM t"},
		{name: "a cursor", text: "BEGIN; DECLARE c CURSOR FOR SELECT md5(b) FROM t; FETCH 1 FROM c", after: "ROLLBACK"},
		{name: "a constraint's job", text: "ALTER TABLE t ADD CHECK (md5(b) <> 'x')"},
		{name: "COPY", text: "COPY (SELECT md5(b) FROM t) TO STDOUT"},
		{name: "EXECUTE", text: "PREPARE p AS SELECT md5(b) FROM t; EXECUTE p"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := sessiontest.New(t, 1)
				defer cl.Stop()
				n := cl.Nodes[0]
				s, other := n.Open(t, "root"), n.Open(t, "root")
				s.Must("CREATE TABLE t (a INT PRIMARY KEY, b TEXT); INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, NULL), (4, 'z')")
				if c.before != "" {
					s.Must(c.before)
				}
				defect(t, n)
				used := s.Memory().Used()
				_, err := s.Exec(c.text)
				if !sessiontest.ErrIs(err, sqlstate.InternalError) && (err == nil || !strings.Contains(err.Error(), "nil pointer")) {
					t.Fatalf("%v", err)
				}
				if n.Server.Metrics().Faults.Load()+n.Jobs.Faults() == 0 {
					t.Error("the panic was not counted")
				}
				if c.after != "" {
					s.Must(c.after)
				}
				if now := s.Memory().Used(); now > used+64<<10 {
					t.Errorf("the session holds %d bytes, and had %d", now, used)
				}
				if s.Status() != 'I' {
					t.Errorf("status %c", s.Status())
				}
				// No lock and no write of the statement is left.
				for _, x := range []*sessiontest.Conn{other, s} {
					x.Must("SET lock_timeout = '1s'")
					x.Must("UPDATE t SET a = a WHERE a > 0")
					if got := x.Must("SELECT count(*), sum(a) FROM t"); !strings.Contains(got, "4 | 10") {
						t.Error(got)
					}
				}
				s.Close()
				other.Close()
			})
		})
	}
}

// TestPanicOfASharedPartGoesOn: below the transaction a panic may leave latches held for which others wait, so it ends the process (fault.FA2).
func TestPanicOfASharedPartGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := sessiontest.New(t, 1)
		defer cl.Stop()
		s := cl.Nodes[0].Open(t, "root")
		s.Must("CREATE TABLE t (a INT PRIMARY KEY)")
		s.Must("SELECT * FROM t WHERE a = 1")
		time.Sleep(time.Minute) // until nothing runs in the background
		cl.Meet(func(b *kv.Batch) {
			if _, ok := b.Requests[0].(*kv.GetRequest); ok && b.Txn != nil {
				panic("a latch is held")
			}
		})
		defer cl.Meet(func(*kv.Batch) {})
		defer func() {
			if r := recover(); r != "a latch is held" {
				t.Errorf("recovered %v", r)
			}
		}()
		_, err := s.Exec("SELECT * FROM t WHERE a = 1")
		t.Errorf("the panic was taken for the statement's: %v", err)
	})
}

// definitions has at least one statement for each kind of data definition. A letter stands for an object of the system: R for a relation, S for a
// schema, D for a database, U for a role. TestDefinitionsOfSystemObjects fails if a kind is missing.
var definitions = strings.Split(strings.TrimSpace(`
CREATE TABLE R (x INT)
CREATE TABLE S.t (x INT)
CREATE TABLE x1 (LIKE R INCLUDING ALL)
CREATE TABLE x2 (x OID REFERENCES R (oid))
CREATE TABLE x2 (x OID REFERENCES R)
CREATE TABLE x3 AS SELECT * FROM R LIMIT 1
CREATE INDEX ON R (C)
CREATE UNIQUE INDEX i ON R (C)
CREATE VIEW R AS SELECT 1
CREATE VIEW S.v AS SELECT 1
CREATE OR REPLACE VIEW R AS SELECT 1
CREATE VIEW x4 AS SELECT * FROM R
CREATE MATERIALIZED VIEW R AS SELECT 1
CREATE MATERIALIZED VIEW S.v AS SELECT 1
CREATE MATERIALIZED VIEW x10 AS SELECT * FROM R LIMIT 1
REFRESH MATERIALIZED VIEW R
REFRESH MATERIALIZED VIEW CONCURRENTLY R
CREATE SEQUENCE R
CREATE SEQUENCE S.s
CREATE SEQUENCE x5 OWNED BY R.C
CREATE DATABASE D
CREATE SCHEMA S
CREATE SCHEMA x6 AUTHORIZATION U
CREATE ROLE U
DROP TABLE R
DROP TABLE R CASCADE
DROP VIEW R
DROP MATERIALIZED VIEW R
DROP SEQUENCE R
DROP INDEX R
DROP INDEX R@primary
DROP INDEX S.pg_class_oid_index
DROP SCHEMA S
DROP SCHEMA S CASCADE
DROP ROLE U
DROP OWNED BY U
REASSIGN OWNED BY U TO root
REASSIGN OWNED BY root TO U
ALTER TABLE R ADD COLUMN x INT
ALTER TABLE R ADD CONSTRAINT c CHECK (C IS NOT NULL)
ALTER TABLE R ADD CONSTRAINT c UNIQUE (C)
ALTER TABLE R ADD CONSTRAINT c PRIMARY KEY (C)
ALTER TABLE R ADD CONSTRAINT c FOREIGN KEY (C) REFERENCES R (C)
ALTER TABLE R ALTER PRIMARY KEY USING COLUMNS (C)
ALTER TABLE R DROP COLUMN C
ALTER TABLE R DROP CONSTRAINT c
ALTER TABLE R VALIDATE CONSTRAINT c
ALTER TABLE R RENAME CONSTRAINT a TO b
ALTER TABLE R RENAME COLUMN C TO x
ALTER TABLE R RENAME TO x
ALTER VIEW R RENAME TO x
ALTER SEQUENCE R RENAME TO x
ALTER INDEX R RENAME TO x
ALTER INDEX R@primary RENAME TO x
ALTER TABLE R ALTER COLUMN C SET DEFAULT NULL
ALTER TABLE R ALTER COLUMN C SET ON UPDATE NULL
ALTER TABLE R ALTER COLUMN C DROP DEFAULT
ALTER TABLE R ALTER COLUMN C SET NOT NULL
ALTER TABLE R ALTER COLUMN C DROP NOT NULL
ALTER TABLE R ALTER COLUMN C TYPE TEXT
ALTER TABLE R ALTER COLUMN C DROP IDENTITY
ALTER TABLE R ALTER COLUMN C ADD GENERATED ALWAYS AS IDENTITY
ALTER TABLE R ALTER COLUMN C ADD GENERATED BY DEFAULT AS IDENTITY
ALTER TABLE R ALTER COLUMN C SET GENERATED ALWAYS
ALTER TABLE R ALTER COLUMN C SET INCREMENT 2
ALTER TABLE R SET (fillfactor = 50)
ALTER TABLE R RESET (fillfactor)
ALTER TABLE R SET (commit_protocol = fast_paxos)
ALTER TABLE R RESET (commit_protocol)
ALTER VIEW R SET (security_invoker = true)
ALTER VIEW R RESET (security_invoker)
ALTER TABLE R SET SCHEMA public
ALTER VIEW R SET SCHEMA public
ALTER TABLE x7 SET SCHEMA S
ALTER TABLE R OWNER TO root
ALTER VIEW R OWNER TO root
ALTER TABLE x7 OWNER TO U
ALTER TABLE R SET LOCALITY GLOBAL
ALTER TABLE R SPLIT AT VALUES (1)
ALTER TABLE R UNSPLIT AT VALUES (1)
ALTER TABLE R UNSPLIT ALL
ALTER TABLE R SCATTER
ALTER SEQUENCE R INCREMENT BY 2
ALTER SEQUENCE R OWNED BY NONE
ALTER SCHEMA S RENAME TO x
ALTER SCHEMA S OWNER TO x8
ALTER SCHEMA x9 RENAME TO S
ALTER SCHEMA x9 OWNER TO U
ALTER DATABASE D RENAME TO x
ALTER DATABASE D OWNER TO x8
ALTER DATABASE D OWNER TO U
ALTER DATABASE D PRIMARY REGION "x"
ALTER DATABASE D ADD REGION "x"
ALTER DATABASE D DROP REGION "x"
ALTER DATABASE D SURVIVE ZONE FAILURE
ALTER DATABASE D SURVIVE 2 REGIONS FAILURE
ALTER DATABASE D PLACEMENT RESTRICTED
ALTER DATABASE D SET SECONDARY REGION "x"
ALTER DATABASE D DROP SECONDARY REGION
ALTER DATABASE D ADD WITNESS REGION "x"
ALTER DATABASE D DROP WITNESS REGION
ALTER DATABASE D ADD SUPER REGION x VALUES "x", "y"
ALTER DATABASE D ALTER SUPER REGION x VALUES "x"
ALTER DATABASE D ALTER SUPER REGION x SURVIVE DEFAULT
ALTER DATABASE D DROP SUPER REGION x
ALTER DATABASE D CONFIGURE ZONE USING num_replicas = 3
ALTER DATABASE D ALTER LOCALITY GLOBAL CONFIGURE ZONE DISCARD
ALTER TABLE R CONFIGURE ZONE USING num_replicas = 3
ALTER INDEX R@x CONFIGURE ZONE DISCARD
ALTER TABLE R PARTITION BY NOTHING
ALTER INDEX R PARTITION BY NOTHING
SHOW PARTITIONS FROM TABLE R
SHOW ZONE CONFIGURATION FOR TABLE R
SHOW ZONE CONFIGURATION FOR DATABASE D
ALTER DATABASE x RENAME TO D
ALTER ROLE U CREATEDB
ALTER ROLE U NOLOGIN
ALTER ROLE U RENAME TO x
ALTER ROLE U PASSWORD 'x'
COMMENT ON TABLE R IS 'x'
COMMENT ON VIEW R IS 'x'
COMMENT ON SEQUENCE R IS 'x'
COMMENT ON INDEX R IS 'x'
COMMENT ON INDEX S.pg_class_oid_index IS 'x'
COMMENT ON COLUMN R.C IS 'x'
COMMENT ON SCHEMA S IS 'x'
COMMENT ON DATABASE D IS 'x'
COMMENT ON ROLE U IS 'x'
GRANT SELECT ON R TO x8
GRANT ALL ON R TO U
REVOKE ALL ON R FROM PUBLIC
GRANT USAGE ON SEQUENCE R TO x8
GRANT USAGE ON SCHEMA S TO x8
REVOKE ALL ON SCHEMA S FROM PUBLIC CASCADE
GRANT SELECT ON ALL TABLES IN SCHEMA S TO x8
GRANT CREATE ON DATABASE D TO U
REVOKE ALL ON DATABASE D FROM PUBLIC
GRANT U TO x8
GRANT x8 TO U
REVOKE U FROM x8
TRUNCATE R
TRUNCATE R CASCADE
LOCK TABLE R IN ACCESS EXCLUSIVE MODE
ANALYZE R
VACUUM R
VACUUM (ANALYZE) R (C)
ANALYZE R (C)
ALTER TABLE R ALTER COLUMN C SET STATISTICS 5
ALTER TABLE R SET UNLOGGED
ALTER TABLE R CLUSTER ON x
ALTER INDEX R SET (fillfactor = 50)
ALTER DATABASE D CONNECTION LIMIT -1
CREATE DATABASE q TEMPLATE D
DROP TRIGGER IF EXISTS x ON R
LOCK TABLE R IN ACCESS SHARE MODE
SET CONSTRAINTS R DEFERRED
COPY R FROM STDIN
INSERT INTO R DEFAULT VALUES
UPDATE R SET C = NULL
DELETE FROM R
SELECT * FROM R FOR UPDATE
SELECT setval('R', 1)
SELECT nextval('R')
SHOW COLUMNS FROM R
SHOW INDEXES FROM R
SHOW CONSTRAINTS FROM R
SHOW CREATE TABLE R
SHOW RANGES FROM TABLE R
SHOW TABLES FROM S
SHOW GRANTS ON R
DROP DATABASE D
DROP DATABASE D CASCADE
CREATE TYPE R AS ENUM ('a')
CREATE TYPE S.x10 AS ENUM ('a', 'b')
ALTER TYPE R ADD VALUE 'c'
ALTER TYPE R RENAME VALUE 'a' TO 'b'
ALTER TYPE R RENAME TO x
ALTER TYPE R SET SCHEMA x9
ALTER TYPE R OWNER TO U
DROP TYPE R
DROP TYPE IF EXISTS R CASCADE
`), "\n")

// TestDefinitionsOfSystemObjects: each statement of data definition, about each kind of object of the system, succeeds or is refused
// with a proper error, also as root; none panics, and the catalogue stays usable.
func TestDefinitionsOfSystemObjects(t *testing.T) {
	everyDefinition(t)
	objects := map[string][]string{
		"R": {"pg_class", "pg_catalog.pg_type", "information_schema.tables", "meridian_internal.ranges", "pg_catalog.nothing", "system.public.t", "pg_catalog.pg_class.oid"},
		"S": {"pg_catalog", "information_schema", "meridian_internal", "public", "pg_toast", "pg_temp", "system.pg_catalog", "defaultdb.information_schema"},
		"D": {"system", "defaultdb", "postgres", "template1", "template0"},
		"U": {"root", "admin", "public", "pg_read_all_data", "pg_database_owner", "pg_monitor", "postgres", "CURRENT_USER", "SESSION_USER", "none", "pg_new"},
	}
	column := map[string]string{"pg_class": "relname", "pg_catalog.pg_type": "typname", "information_schema.tables": "table_name", "meridian_internal.ranges": "range_id"}
	ran := 0
	for i, d := range definitions {
		synctest.Test(t, func(t *testing.T) {
			cl := sessiontest.New(t, 1)
			defer cl.Stop()
			n := cl.Nodes[0]
			root := n.Open(t, "root")
			root.Must("CREATE ROLE x8; CREATE ROLE low LOGIN; CREATE SCHEMA x9; CREATE TABLE x7 (x INT)")
			root.Must("CREATE DATABASE x")
			root.Must("CREATE DATABASE y")
			for _, user := range []string{"low", "root"} {
				for letter, names := range objects {
					if !mentions(d, letter) {
						continue
					}
					for _, name := range names {
						col := "oid"
						if column[name] != "" {
							col = column[name]
						}
						text := fill(d, map[string]string{letter: name, "C": col})
						for _, begin := range []string{"BEGIN; ", ""} { // without BEGIN its jobs run, too
							if ran++; begin == "" && (strings.HasPrefix(text, "DROP DATABASE defaultdb") || strings.HasSuffix(text, "NOLOGIN")) {
								continue // the test's own sessions need it
							}
							s := n.Open(t, user)
							if _, err := s.Exec(begin + text); err != nil {
								if e := sessiontest.Describe(err); strings.Contains(e, "XX000") || strings.Contains(e, "XX001") {
									t.Errorf("%s%s, as %s: %.300s", begin, text, user, e)
								}
							}
							s.Exec("ROLLBACK")
							s.Close()
						}
					}
				}
			}
			if faults := n.Server.Metrics().Faults.Load() + n.Jobs.Faults() + n.Schema.Faults(); faults > 0 {
				t.Errorf("%s: %d panics", d, faults)
			}
			if _, err := root.Exec("SELECT count(*) FROM pg_class; CREATE SCHEMA new; CREATE TABLE new.still (x INT PRIMARY KEY); INSERT INTO new.still VALUES (1); DROP SCHEMA new CASCADE"); err != nil {
				t.Errorf("after definition %d, %s: %s", i, d, sessiontest.Describe(err))
			}
			root.Close()
		})
	}
	t.Log(ran, "statements")
}

// mentions reports whether a definition is about an object of the letter.
func mentions(d, letter string) bool { return fill(d, map[string]string{letter: "\x00"}) != d }

// fill puts names in the place of letters that are words of their own.
func fill(d string, names map[string]string) string {
	var b strings.Builder
	word := func(i int) bool {
		return i >= 0 && i < len(d) && (d[i] == '_' || d[i] >= '0' && d[i] <= '9' || d[i] >= 'A' && d[i] <= 'Z' || d[i] >= 'a' && d[i] <= 'z')
	}
	for i := range len(d) {
		if n, ok := names[d[i:i+1]]; ok && !word(i-1) && !word(i+1) {
			b.WriteString(n)
		} else {
			b.WriteByte(d[i])
		}
	}
	return b.String()
}

// everyDefinition fails if a kind of statement or action that the binder handles is in none of the definitions.
func everyDefinition(t *testing.T) {
	t.Helper()
	have := map[string]bool{}
	for _, d := range definitions {
		s, err := parse.ParseOne(fill(d, map[string]string{"R": "a", "S": "a", "D": "a", "U": "a", "C": "a"}))
		if err != nil {
			t.Errorf("%s: %v", d, err)
			continue
		}
		kinds(reflect.ValueOf(s.Node), have, 0)
	}
	var want []string
	for _, f := range []string{"ddl.go", "ddl_alter.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "bind", f), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if c, ok := n.(*ast.CaseClause); ok {
				for _, e := range c.List {
					if p, ok := e.(*ast.StarExpr); ok {
						if x, ok := p.X.(*ast.SelectorExpr); ok && fmt.Sprint(x.X) == "tree" {
							want = append(want, x.Sel.Name)
						}
					}
				}
			}
			return true
		})
	}
	if len(want) < 40 {
		t.Errorf("the binder knows %d kinds only", len(want))
	}
	for _, k := range want {
		switch k {
		case "StrVal", "UnresolvedName", "RenameColumn": // a value, a name; the grammar gives AlterTableRenameColumn
		default:
			if have[k] {
				continue
			}
			t.Errorf("no definition has a %s", k)
		}
	}
}

// kinds collects the names of the types in a tree.
func kinds(v reflect.Value, into map[string]bool, depth int) {
	if depth > 12 {
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			kinds(v.Elem(), into, depth+1)
		}
	case reflect.Struct:
		into[v.Type().Name()] = true
		for i := range v.NumField() {
			kinds(v.Field(i), into, depth+1)
		}
	case reflect.Slice:
		for i := range v.Len() {
			kinds(v.Index(i), into, depth+1)
		}
	}
}
