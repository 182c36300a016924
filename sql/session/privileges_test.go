package session_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/sql/scalar"
	"meridian/sql/scalar/system"
	"meridian/sql/session"
	"meridian/sql/session/sessiontest"
)

// The matrix of privileges: every statement and function that touches an object, as every kind of role.
//
// A touch is a statement and the rights that it needs. From these follow the roles that try it, each in a session that
// was open before anything was granted, and what each has to be answered:
//
//	owner, member of the owner, superuser      may
//	member with NOINHERIT, stranger            may not
//	grantee with exactly what is needed        may; by a role that it inherits from, and by PUBLIC, too
//	grantee with all but one of what is needed may not, for each of them
//	grantee with every other right that exists may not, if ownership is what is needed
//
// testdata/privileges has PostgreSQL 15's answers for the statements that it has too. With MERIDIAN_POSTGRES=host:port, a server with a
// superuser root and a database defaultdb, the test asks that server, and writes the file.
//
// TestEveryStatementIsInTheMatrix reads the source of the binder's dispatch, and the table of functions: what is neither touched here nor
// listed with a reason fails.

// touch is a statement that touches objects.
type touch struct {
	name string
	// covers are the kinds of statements, as the binder's source has them, and the functions that it is about.
	covers []string
	sql    string
	// before runs as superuser before, and is undone after.
	before, after string
	// needs are rights; of alternatives, separated by |, one is enough: "t:SELECT", "q:USAGE|UPDATE". Schema app's USAGE is
	// needed as well, unless noSchema.
	needs    []string
	noSchema bool
	// by says who may, if not the owner and whoever has what is needed: "owner", "super", "all".
	by string
	// ours are statements that PostgreSQL does not have, or answers differently for a reason that is given.
	ours string
	// outside runs outside of a transaction.
	outside bool
	// fails is the code with which those fail who may: there is nothing to do.
	fails string
	// skips says that others are not refused but passed over, with a warning.
	skips bool
}

var touches = []touch{
	// Queries.
	{name: "select", covers: []string{"tree.Select", "tree.SelectClause", "tree.ParenSelect"}, sql: "SELECT * FROM app.t", needs: []string{"t:SELECT"}},
	{name: "select no column", sql: "SELECT count(*) FROM app.t", needs: []string{"t:SELECT"}},
	{name: "select in a subquery", sql: "SELECT EXISTS (SELECT 1 FROM app.t)", needs: []string{"t:SELECT"}},
	{name: "select in with", sql: "WITH x AS (SELECT v FROM app.t) SELECT * FROM x", needs: []string{"t:SELECT"}},
	{name: "select of two", sql: "SELECT 1 FROM app.t JOIN app.r ON t.id = r.id", needs: []string{"t:SELECT", "r:SELECT"}},
	{name: "select of a union", sql: "SELECT id FROM app.t UNION SELECT id FROM app.r", needs: []string{"t:SELECT", "r:SELECT"}},
	{name: "table", sql: "TABLE app.t", needs: []string{"t:SELECT"}},
	{name: "select for update", sql: "SELECT v FROM app.t FOR UPDATE", needs: []string{"t:SELECT", "t:UPDATE"}},
	{name: "select for key share", sql: "SELECT v FROM app.t FOR KEY SHARE", needs: []string{"t:SELECT", "t:UPDATE"}},
	{name: "select a sequence", sql: "SELECT last_value FROM app.q", needs: []string{"q:SELECT"}},
	{name: "view", sql: "SELECT * FROM app.vw", needs: []string{"vw:SELECT"}},
	{name: "view for update", sql: "SELECT * FROM app.vw FOR UPDATE", needs: []string{"vw:SELECT", "vw:UPDATE"}},
	{name: "view of the invoker", sql: "SELECT * FROM app.vi", needs: []string{"vi:SELECT", "t:SELECT"}},
	{name: "view of the invoker for update of", sql: "SELECT * FROM app.vi FOR UPDATE OF vi", needs: []string{"vi:SELECT", "vi:UPDATE", "t:SELECT", "t:UPDATE"}},
	{name: "view over a view of the invoker", sql: "SELECT * FROM app.vvi", needs: []string{"vvi:SELECT", "t:SELECT"}},
	{name: "view over a view", sql: "SELECT * FROM app.vv", needs: []string{"vv:SELECT"}},
	{name: "view whose owner may not", sql: "SELECT * FROM app.vbad", needs: []string{"vbad:SELECT"}, by: "nobody"},
	{name: "explain", covers: []string{"parse.Explain"}, sql: "EXPLAIN SELECT * FROM app.t", needs: []string{"t:SELECT"}},
	{name: "explain analyze", sql: "EXPLAIN ANALYZE UPDATE app.t SET v = 1", needs: []string{"t:UPDATE"}},
	{name: "explain view", sql: "EXPLAIN SELECT * FROM app.vi", needs: []string{"vi:SELECT", "t:SELECT"}},
	{name: "prepare", covers: []string{"parse.Prepare", "parse.Execute", "parse.Deallocate"},
		sql: "PREPARE p AS SELECT * FROM app.t; EXECUTE p; DEALLOCATE p", needs: []string{"t:SELECT"}},
	{name: "cursor", covers: []string{"parse.DeclareCursor", "parse.Fetch", "parse.CloseCursor"},
		sql: "DECLARE c CURSOR FOR SELECT * FROM app.t; FETCH c; CLOSE c", needs: []string{"t:SELECT"}},
	{name: "copy to", covers: []string{"parse.Copy"}, sql: "COPY app.t TO STDOUT", needs: []string{"t:SELECT"}},
	{name: "copy query", sql: "COPY (SELECT v FROM app.t) TO STDOUT", needs: []string{"t:SELECT"}},

	// Changes.
	{name: "insert", covers: []string{"tree.Insert"}, sql: "INSERT INTO app.t VALUES (3, 3)", needs: []string{"t:INSERT"}},
	{name: "insert of a query", sql: "INSERT INTO app.t SELECT id + 10, 1 FROM app.r", needs: []string{"t:INSERT", "r:SELECT"}},
	{name: "insert returning", sql: "INSERT INTO app.t VALUES (3, 3) RETURNING id", needs: []string{"t:INSERT", "t:SELECT"}},
	{name: "insert returning *", sql: "INSERT INTO app.t VALUES (3, 3) RETURNING *", needs: []string{"t:INSERT", "t:SELECT"}},
	{name: "insert returning a row", sql: "INSERT INTO app.t VALUES (3, 3) RETURNING t", needs: []string{"t:INSERT", "t:SELECT"}},
	{name: "insert returning a constant", sql: "INSERT INTO app.t VALUES (3, 3) RETURNING 1", needs: []string{"t:INSERT"}},
	{name: "insert on conflict do nothing", sql: "INSERT INTO app.t VALUES (1, 3) ON CONFLICT DO NOTHING", needs: []string{"t:INSERT"}},
	{name: "insert on conflict of a key do nothing", sql: "INSERT INTO app.t VALUES (1, 3) ON CONFLICT (id) DO NOTHING", needs: []string{"t:INSERT", "t:SELECT"}},
	{name: "insert on conflict of a constraint do nothing", sql: "INSERT INTO app.t VALUES (1, 3) ON CONFLICT ON CONSTRAINT t_pkey DO NOTHING",
		needs: []string{"t:INSERT", "t:SELECT"}},
	{name: "insert on conflict do update", sql: "INSERT INTO app.t VALUES (1, 3) ON CONFLICT (id) DO UPDATE SET v = excluded.v",
		needs: []string{"t:INSERT", "t:UPDATE", "t:SELECT"}},
	{name: "upsert", sql: "UPSERT INTO app.t VALUES (1, 3)", needs: []string{"t:INSERT", "t:UPDATE", "t:SELECT"}, ours: "PostgreSQL has no UPSERT"},
	{name: "insert with a foreign key", sql: "INSERT INTO app.f VALUES (3, 1)", needs: []string{"f:INSERT"}},
	{name: "insert with a serial", sql: "INSERT INTO app.ser (v) VALUES (1)", needs: []string{"ser:INSERT", "ser_id_seq:USAGE|UPDATE"}},
	{name: "insert with an identity", sql: "INSERT INTO app.idn (v) VALUES (1)", needs: []string{"idn:INSERT"}},
	{name: "insert with a generated column", sql: "INSERT INTO app.gen (a) VALUES (3)", needs: []string{"gen:INSERT"}},
	{name: "update", covers: []string{"tree.Update"}, sql: "UPDATE app.t SET v = 1", needs: []string{"t:UPDATE"}},
	{name: "update by itself", sql: "UPDATE app.t SET v = v + 1", needs: []string{"t:UPDATE", "t:SELECT"}},
	{name: "update where", sql: "UPDATE app.t SET v = 1 WHERE id = 1", needs: []string{"t:UPDATE", "t:SELECT"}},
	{name: "update where qualified", sql: "UPDATE app.t AS x SET v = 1 WHERE x.id = 1", needs: []string{"t:UPDATE", "t:SELECT"}},
	{name: "update where nothing is read", sql: "UPDATE app.t SET v = 1 WHERE 1 = 1", needs: []string{"t:UPDATE"}},
	{name: "update default", sql: "UPDATE app.t SET v = DEFAULT", needs: []string{"t:UPDATE"}},
	{name: "update a generated column's base", sql: "UPDATE app.gen SET a = 4", needs: []string{"gen:UPDATE"}},
	{name: "update returning", sql: "UPDATE app.t SET v = 1 RETURNING v", needs: []string{"t:UPDATE", "t:SELECT"}},
	{name: "update returning a constant", sql: "UPDATE app.t SET v = 1 RETURNING 1", needs: []string{"t:UPDATE"}},
	{name: "update returning tableoid", sql: "UPDATE app.t SET v = 1 RETURNING tableoid", needs: []string{"t:UPDATE", "t:SELECT"}},
	{name: "update from", sql: "UPDATE app.t SET v = r.id FROM app.r", needs: []string{"t:UPDATE", "r:SELECT"}},
	{name: "update from where", sql: "UPDATE app.t SET v = 0 FROM app.r WHERE r.id = t.id", needs: []string{"t:UPDATE", "t:SELECT", "r:SELECT"}},
	{name: "update of a subquery", sql: "UPDATE app.t SET v = (SELECT max(id) FROM app.r)", needs: []string{"t:UPDATE", "r:SELECT"}},
	{name: "update of a correlated subquery", sql: "UPDATE app.t SET v = (SELECT max(id) FROM app.r WHERE r.id = t.id)", needs: []string{"t:UPDATE", "t:SELECT", "r:SELECT"}},
	{name: "update a referenced key", sql: "UPDATE app.r SET id = 9 WHERE id = 2", needs: []string{"r:UPDATE", "r:SELECT"}},
	{name: "delete", covers: []string{"tree.Delete"}, sql: "DELETE FROM app.f", needs: []string{"f:DELETE"}},
	{name: "delete where", sql: "DELETE FROM app.f WHERE id = 1", needs: []string{"f:DELETE", "f:SELECT"}},
	{name: "delete returning", sql: "DELETE FROM app.f RETURNING *", needs: []string{"f:DELETE", "f:SELECT"}},
	{name: "delete using", sql: "DELETE FROM app.f USING app.r", needs: []string{"f:DELETE", "r:SELECT"}},
	{name: "delete a cascade", sql: "DELETE FROM app.c1", needs: []string{"c1:DELETE"}},
	{name: "change in with", sql: "WITH x AS (DELETE FROM app.f RETURNING 1) SELECT * FROM x", needs: []string{"f:DELETE"}},
	{name: "truncate", covers: []string{"parse.Truncate"}, sql: "TRUNCATE app.f", needs: []string{"f:TRUNCATE"}},
	{name: "truncate cascade", sql: "TRUNCATE app.c1 CASCADE", needs: []string{"c1:TRUNCATE", "c2:TRUNCATE"}},
	{name: "truncate restart identity", sql: "TRUNCATE app.ser RESTART IDENTITY", needs: []string{"ser:TRUNCATE"}, by: "owner of its sequence"},
	{name: "lock access share", covers: []string{"parse.LockTable"}, sql: "LOCK TABLE app.t IN ACCESS SHARE MODE", needs: []string{"t:SELECT"}},
	{name: "lock row exclusive", sql: "LOCK TABLE app.t IN ROW EXCLUSIVE MODE", needs: []string{"t:INSERT|UPDATE|DELETE|TRUNCATE"}},
	{name: "lock share", sql: "LOCK TABLE app.t IN SHARE MODE", needs: []string{"t:UPDATE|DELETE|TRUNCATE"}},
	{name: "lock", sql: "LOCK TABLE app.t", needs: []string{"t:UPDATE|DELETE|TRUNCATE"}},

	// Sequences.
	{name: "nextval", covers: []string{"nextval()"}, sql: "SELECT nextval('app.q')", needs: []string{"q:USAGE|UPDATE"}},
	{name: "currval", covers: []string{"currval()", "lastval()"}, sql: "SELECT currval('app.q')", needs: []string{"q:USAGE|SELECT"}},
	{name: "lastval", sql: "SELECT lastval()", needs: []string{"q:USAGE|SELECT"}, noSchema: true},
	{name: "setval", covers: []string{"setval()"}, sql: "SELECT setval('app.q', 1000)", needs: []string{"q:UPDATE"}},
	{name: "nextval in a view", sql: "SELECT * FROM app.vseq", needs: []string{"vseq:SELECT", "q:USAGE|UPDATE"}},

	// Definitions.
	{name: "create table", covers: []string{"tree.CreateTable"}, sql: "CREATE TABLE app.n (a int)", needs: []string{"app:CREATE"}, noSchema: true},
	{name: "create table as", sql: "CREATE TABLE app.n AS SELECT * FROM app.t", needs: []string{"app:CREATE", "t:SELECT"}},
	{name: "create table that references", sql: "CREATE TABLE app.n (a int REFERENCES app.r)", needs: []string{"app:CREATE", "r:REFERENCES"}},
	{name: "create table with a serial", sql: "CREATE TABLE app.n (a serial)", needs: []string{"app:CREATE"}, noSchema: true,
		ours: "PostgreSQL looks the sequence up by name, which takes USAGE of the schema too"},
	{name: "create table like", sql: "CREATE TABLE app.n (LIKE app.t)", needs: []string{"app:CREATE", "t:SELECT"}},
	{name: "create table like a view", sql: "CREATE TABLE app.n (LIKE app.vw INCLUDING ALL)", needs: []string{"app:CREATE", "vw:SELECT"}},
	{name: "create view", covers: []string{"tree.CreateView"}, sql: "CREATE VIEW app.n AS SELECT * FROM app.t", needs: []string{"app:CREATE"}},
	{name: "replace view", sql: "CREATE OR REPLACE VIEW app.vw AS SELECT id, v FROM app.t", by: "owner", needs: []string{"app:CREATE"}},
	{name: "create sequence", covers: []string{"tree.CreateSequence"}, sql: "CREATE SEQUENCE app.n", needs: []string{"app:CREATE"}, noSchema: true},
	{name: "create type", covers: []string{"tree.CreateType"}, sql: "CREATE TYPE app.n AS ENUM ('a')", needs: []string{"app:CREATE"}, noSchema: true},
	{name: "add enum value", covers: []string{"tree.AlterType", "tree.AlterTypeAddValue"}, sql: "ALTER TYPE app.e ADD VALUE 'b'", by: "owner"},
	{name: "rename enum value", covers: []string{"tree.AlterTypeRenameValue"}, sql: "ALTER TYPE app.e RENAME VALUE 'a' TO 'b'", by: "owner"},
	{name: "rename type", covers: []string{"tree.AlterTypeRename"}, sql: "ALTER TYPE app.e RENAME TO n", by: "owner"},
	{name: "move type", covers: []string{"tree.AlterTypeSetSchema"}, sql: "ALTER TYPE app.e SET SCHEMA empty", needs: []string{"empty:CREATE"}, by: "owner"},
	{name: "give type away", covers: []string{"tree.AlterTypeOwner"}, sql: "ALTER TYPE app.e OWNER TO CURRENT_USER", by: "owner"},
	{name: "drop type", covers: []string{"tree.DropType"}, sql: "DROP TYPE app.e", by: "owner"},
	{name: "create index", covers: []string{"tree.CreateIndex"}, sql: "CREATE INDEX n ON app.t (v)", by: "owner"},
	{name: "create schema", covers: []string{"tree.CreateSchema"}, sql: "CREATE SCHEMA n", needs: []string{"defaultdb:CREATE"}, noSchema: true},
	{name: "drop table", covers: []string{"tree.DropTable"}, sql: "DROP TABLE app.f", by: "owner"},
	{name: "drop view", covers: []string{"tree.DropView"}, sql: "DROP VIEW app.vbad", by: "owner"},
	{name: "refresh materialized view", covers: []string{"tree.RefreshMaterializedView"}, sql: "REFRESH MATERIALIZED VIEW app.mv", by: "owner",
		before: "CREATE MATERIALIZED VIEW app.mv AS SELECT 1 AS one; ALTER TABLE app.mv OWNER TO owner", after: "DROP MATERIALIZED VIEW app.mv"},
	{name: "drop sequence", covers: []string{"tree.DropSequence"}, sql: "DROP SEQUENCE app.q2", by: "owner"},
	{name: "drop index", covers: []string{"tree.DropIndex"}, sql: "DROP INDEX app.t_v", by: "owner"},
	{name: "drop schema", covers: []string{"tree.DropSchema"}, sql: "DROP SCHEMA empty", by: "owner", noSchema: true},
	{name: "alter schema", covers: []string{"tree.AlterSchema"}, sql: "ALTER SCHEMA empty RENAME TO n", needs: []string{"defaultdb:CREATE"}, by: "owner", noSchema: true},
	{name: "add column", covers: []string{"tree.AlterTable", "tree.AlterTableAddColumn"}, sql: "ALTER TABLE app.t ADD COLUMN n int", by: "owner"},
	{name: "drop column", covers: []string{"tree.AlterTableDropColumn"}, sql: "ALTER TABLE app.gen DROP COLUMN b", by: "owner"},
	{name: "add constraint", covers: []string{"tree.AlterTableAddConstraint", "tree.UniqueConstraintTableDef", "tree.CheckConstraintTableDef"},
		sql: "ALTER TABLE app.t ADD CONSTRAINT n CHECK (v > 0)", by: "owner"},
	{name: "add foreign key", covers: []string{"tree.ForeignKeyConstraintTableDef"}, before: "CREATE TABLE app.kid (a int); ALTER TABLE app.kid OWNER TO grantee",
		after: "DROP TABLE app.kid", sql: "ALTER TABLE app.kid ADD CONSTRAINT n FOREIGN KEY (a) REFERENCES app.r", needs: []string{"r:REFERENCES"}, by: "grantee"},
	{name: "drop constraint", covers: []string{"tree.AlterTableDropConstraint"}, sql: "ALTER TABLE app.f DROP CONSTRAINT f_r_fkey", by: "owner"},
	{name: "validate constraint", covers: []string{"tree.AlterTableValidateConstraint"}, sql: "ALTER TABLE app.f VALIDATE CONSTRAINT f_r_fkey", by: "owner"},
	{name: "rename constraint", covers: []string{"tree.AlterTableRenameConstraint"}, sql: "ALTER TABLE app.f RENAME CONSTRAINT f_r_fkey TO n", by: "owner"},
	{name: "rename column", covers: []string{"tree.AlterTableRenameColumn", "tree.RenameColumn"}, sql: "ALTER TABLE app.f RENAME COLUMN r TO n", by: "owner"},
	{name: "set default", covers: []string{"tree.AlterTableSetDefault"}, sql: "ALTER TABLE app.t ALTER COLUMN v SET DEFAULT 1", by: "owner"},
	{name: "set not null", covers: []string{"tree.AlterTableSetNotNull"}, sql: "ALTER TABLE app.t ALTER COLUMN v SET NOT NULL", by: "owner"},
	{name: "drop not null", covers: []string{"tree.AlterTableDropNotNull"}, sql: "ALTER TABLE app.t ALTER COLUMN v DROP NOT NULL", by: "owner"},
	{name: "alter type", covers: []string{"tree.AlterTableAlterColumnType"}, sql: "ALTER TABLE app.f ALTER COLUMN x TYPE bigint", by: "owner"},
	{name: "set storage parameters", covers: []string{"tree.AlterTableSetStorageParams", "tree.AlterTableResetStorageParams"}, sql: "ALTER TABLE app.t SET (fillfactor = 70)", by: "owner"},
	{name: "set a view's options", sql: "ALTER VIEW app.vw SET (security_invoker = true)", by: "owner"},
	{name: "add identity", covers: []string{"tree.AlterTableAddIdentity", "tree.GeneratedAlwaysAsIdentity", "tree.GeneratedByDefAsIdentity"},
		sql: "ALTER TABLE app.nn ALTER COLUMN b ADD GENERATED ALWAYS AS IDENTITY", by: "owner"},
	{name: "set generated", covers: []string{"tree.AlterTableSetIdentity"}, sql: "ALTER TABLE app.idn ALTER COLUMN id SET GENERATED BY DEFAULT", by: "owner"},
	{name: "alter identity", covers: []string{"tree.AlterTableIdentity"}, sql: "ALTER TABLE app.idn ALTER COLUMN id SET INCREMENT 2", by: "owner"},
	{name: "drop identity", covers: []string{"tree.AlterTableDropIdentity"}, sql: "ALTER TABLE app.idn ALTER COLUMN id DROP IDENTITY", by: "owner"},
	{name: "alter primary key", covers: []string{"tree.AlterTableAlterPrimaryKey"}, sql: "ALTER TABLE app.nn ALTER PRIMARY KEY USING COLUMNS (b)", by: "owner", ours: "PostgreSQL has no ALTER PRIMARY KEY"},
	{name: "rename table", covers: []string{"tree.RenameTable"}, sql: "ALTER TABLE app.f RENAME TO n", by: "owner", needs: []string{"app:CREATE"}},
	{name: "rename index", covers: []string{"tree.RenameIndex"}, sql: "ALTER INDEX app.t_v RENAME TO n", by: "owner", needs: []string{"app:CREATE"}},
	{name: "alter owner", covers: []string{"tree.AlterTableOwner"}, sql: "ALTER TABLE app.f OWNER TO owner", by: "owner"},
	{name: "set schema", covers: []string{"tree.AlterTableSetSchema"}, sql: "ALTER TABLE app.f SET SCHEMA empty", by: "owner"},
	{name: "alter sequence", covers: []string{"tree.AlterSequence"}, sql: "ALTER SEQUENCE app.q INCREMENT 2", by: "owner"},
	{name: "comment", covers: []string{"parse.Comment", "COMMENT TABLE", "COMMENT COLUMN", "COMMENT INDEX", "COMMENT CONSTRAINT"}, sql: "COMMENT ON TABLE app.t IS 'x'", by: "owner"},
	{name: "comment on a type", covers: []string{"COMMENT TYPE"}, sql: "COMMENT ON TYPE app.e IS 'x'", by: "owner"},
	{name: "table with a column of a type", sql: "CREATE TABLE app.n (a app.e)", needs: []string{"app:CREATE"}},
	{name: "comment on a column", sql: "COMMENT ON COLUMN app.t.v IS 'x'", by: "owner"},
	{name: "analyze", covers: []string{"parse.Analyze"}, sql: "ANALYZE app.t", by: "owner", skips: true, outside: true},
	{name: "set statistics", covers: []string{"parse.AlterStorage"}, sql: "ALTER TABLE app.t ALTER COLUMN v SET STATISTICS 10", by: "owner"},
	{name: "set commit protocol", sql: "ALTER TABLE app.t SET (commit_protocol = 'leader')", by: "owner", ours: "commit protocols"},
	{name: "index parameters", sql: "ALTER INDEX app.t_v SET (fillfactor = 50)", by: "owner"},
	{name: "database options", covers: []string{"parse.AlterDatabase"}, sql: "ALTER DATABASE defaultdb CONNECTION LIMIT -1", by: "super", noSchema: true},
	{name: "vacuum", covers: []string{"parse.Vacuum"}, sql: "VACUUM app.t", by: "owner", skips: true, outside: true},
	{name: "create database", covers: []string{"tree.CreateDatabase"}, sql: "CREATE DATABASE n", by: "super", noSchema: true, outside: true, after: "DROP DATABASE IF EXISTS n"},
	{name: "drop database", covers: []string{"tree.DropDatabase"}, before: "CREATE DATABASE gone", after: "DROP DATABASE IF EXISTS gone", sql: "DROP DATABASE gone", by: "super", noSchema: true, outside: true},
	{name: "rename database", covers: []string{"tree.RenameDatabase"}, before: "CREATE DATABASE gone", after: "DROP DATABASE IF EXISTS gone; DROP DATABASE IF EXISTS gone2",
		sql: "ALTER DATABASE gone RENAME TO gone2", by: "super", noSchema: true, outside: true},
	{name: "alter database owner", covers: []string{"tree.AlterDatabaseOwner"}, sql: "ALTER DATABASE defaultdb OWNER TO chief", by: "super", noSchema: true},
	{name: "create role", covers: []string{"parse.CreateRole"}, sql: "CREATE ROLE n", by: "super", noSchema: true},
	{name: "alter role", covers: []string{"parse.AlterRole"}, sql: "ALTER ROLE stranger CREATEDB", by: "super", noSchema: true},
	{name: "drop role", covers: []string{"parse.DropRole"}, before: "CREATE ROLE gone", after: "DROP ROLE IF EXISTS gone", sql: "DROP ROLE gone", by: "super", noSchema: true},
	{name: "reassign owned", covers: []string{"parse.ReassignOwned"}, sql: "REASSIGN OWNED BY owner TO root", by: "super", noSchema: true},
	{name: "drop owned", covers: []string{"parse.DropOwned"}, before: "CREATE ROLE gone", after: "DROP ROLE IF EXISTS gone", sql: "DROP OWNED BY gone", by: "super", noSchema: true},

	// Statements of our own.
	{name: "split", covers: []string{"tree.Split"}, sql: "ALTER TABLE app.t SPLIT AT VALUES (5)", by: "owner", ours: "ranges"},
	{name: "split of an index", sql: "ALTER INDEX app.t@t_v SPLIT AT VALUES (5)", by: "owner", ours: "ranges"},
	{name: "unsplit", covers: []string{"tree.Unsplit"}, sql: "ALTER TABLE app.t UNSPLIT ALL", by: "owner", ours: "ranges"},
	{name: "show ranges", covers: []string{"SHOW RANGES"}, sql: "SHOW RANGES FROM TABLE app.t", needs: []string{"t:SELECT"}, ours: "ranges"},
	{name: "show ranges of an index", sql: "SHOW RANGES FROM INDEX app.t@t_v", needs: []string{"t:SELECT"}, ours: "ranges"},
	{name: "show all ranges", sql: "SHOW RANGES FROM DATABASE defaultdb", by: "super", noSchema: true, ours: "ranges"},
	{name: "set a cluster setting", covers: []string{"parse.SetClusterSetting"}, sql: "SET CLUSTER SETTING gc.ttlseconds = 3600", by: "super", noSchema: true, ours: "cluster settings"},
	{name: "cancel a job", covers: []string{"parse.Cancel"}, sql: "CANCEL JOB 1", by: "super", noSchema: true, fails: "42704", ours: "jobs"},
	{name: "primary region", covers: []string{"tree.AlterDatabasePrimaryRegion"}, before: `CREATE DATABASE gone`, after: "DROP DATABASE IF EXISTS gone",
		sql: `ALTER DATABASE gone PRIMARY REGION a`, by: "super", noSchema: true, outside: true, ours: "regions"},
	{name: "add region", covers: []string{"tree.AlterDatabaseAddRegion"}, before: `CREATE DATABASE gone PRIMARY REGION a REGIONS b, c, d`, after: "DROP DATABASE IF EXISTS gone",
		sql: `ALTER DATABASE gone ADD REGION e`, by: "super", noSchema: true, outside: true, ours: "regions"},
	{name: "drop region", covers: []string{"tree.AlterDatabaseDropRegion"}, before: `CREATE DATABASE gone PRIMARY REGION a REGIONS b, c, d`, after: "DROP DATABASE IF EXISTS gone",
		sql: `ALTER DATABASE gone DROP REGION d`, by: "super", noSchema: true, outside: true, ours: "regions"},
	{name: "survival goal", covers: []string{"tree.AlterDatabaseSurvivalGoal"}, before: `CREATE DATABASE gone PRIMARY REGION a REGIONS b, c, d`, after: "DROP DATABASE IF EXISTS gone",
		sql: `ALTER DATABASE gone SURVIVE REGION FAILURE`, by: "super", noSchema: true, outside: true, ours: "regions"},
	{name: "placement of a database", covers: []string{"tree.AlterDatabasePlacement"}, before: `CREATE DATABASE gone PRIMARY REGION a REGIONS b, c, d`, after: "DROP DATABASE IF EXISTS gone",
		sql: `ALTER DATABASE gone PLACEMENT RESTRICTED`, by: "super", noSchema: true, outside: true, ours: "regions"},
	{name: "secondary region", covers: []string{"tree.AlterDatabaseSecondaryRegion"}, before: `CREATE DATABASE gone PRIMARY REGION a REGIONS b, c, d`, after: "DROP DATABASE IF EXISTS gone",
		sql: `ALTER DATABASE gone SET SECONDARY REGION b`, by: "super", noSchema: true, outside: true, ours: "regions"},
	{name: "no secondary region", covers: []string{"tree.AlterDatabaseDropSecondaryRegion"}, before: `CREATE DATABASE gone PRIMARY REGION a REGIONS b SECONDARY REGION b`, after: "DROP DATABASE IF EXISTS gone",
		sql: `ALTER DATABASE gone DROP SECONDARY REGION`, by: "super", noSchema: true, outside: true, ours: "regions"},
	{name: "witness region", before: `CREATE DATABASE gone PRIMARY REGION a REGIONS b`, after: "DROP DATABASE IF EXISTS gone",
		sql: `ALTER DATABASE gone ADD WITNESS REGION c`, by: "super", noSchema: true, outside: true, ours: "regions"},
	{name: "no witness region", before: `CREATE DATABASE gone PRIMARY REGION a REGIONS b WITNESS REGION c`, after: "DROP DATABASE IF EXISTS gone",
		sql: `ALTER DATABASE gone DROP WITNESS REGION`, by: "super", noSchema: true, outside: true, ours: "regions"},
	{name: "add super region", covers: []string{"tree.AlterDatabaseAddSuperRegion"}, before: `CREATE DATABASE gone PRIMARY REGION a REGIONS b, c, d`, after: "DROP DATABASE IF EXISTS gone",
		sql: `ALTER DATABASE gone ADD SUPER REGION s VALUES b, c`, by: "super", noSchema: true, outside: true, ours: "regions"},
	{name: "alter super region", covers: []string{"tree.AlterDatabaseAlterSuperRegion"}, before: `CREATE DATABASE gone PRIMARY REGION a REGIONS b, c, d SUPER REGION s VALUES b, c`, after: "DROP DATABASE IF EXISTS gone",
		sql: `ALTER DATABASE gone ALTER SUPER REGION s VALUES b, c, d`, by: "super", noSchema: true, outside: true, ours: "regions"},
	{name: "drop super region", covers: []string{"tree.AlterDatabaseDropSuperRegion"}, before: `CREATE DATABASE gone PRIMARY REGION a REGIONS b, c, d SUPER REGION s VALUES b, c`, after: "DROP DATABASE IF EXISTS gone",
		sql: `ALTER DATABASE gone DROP SUPER REGION s`, by: "super", noSchema: true, outside: true, ours: "regions"},
	{name: "configure a locality", covers: []string{"tree.AlterDatabaseSetZoneConfigExtension"}, before: `CREATE DATABASE gone PRIMARY REGION a REGIONS b, c, d`, after: "DROP DATABASE IF EXISTS gone",
		sql: `ALTER DATABASE gone ALTER LOCALITY GLOBAL CONFIGURE ZONE USING gc.ttlseconds = 600`, by: "super", noSchema: true, outside: true, ours: "regions"},
	{name: "configure a zone", covers: []string{"tree.SetZoneConfig"}, sql: "ALTER TABLE app.t CONFIGURE ZONE USING gc.ttlseconds = 600", by: "owner", ours: "zones"},
	{name: "create a placement", covers: []string{"parse.PlacementOption"}, sql: "CREATE PLACEMENT n WITH (num_replicas = 1)", by: "super", noSchema: true, ours: "placements"},
	{name: "drop a placement", before: "CREATE PLACEMENT gone WITH (num_replicas = 1)", after: "DROP PLACEMENT IF EXISTS gone", sql: "DROP PLACEMENT gone", by: "super", noSchema: true, outside: true, ours: "placements"},
	{name: "placement of a table", covers: []string{"parse.SetPlacement"}, sql: "ALTER TABLE app.t RESET PLACEMENT", by: "owner", ours: "placements"},
	{name: "placement of a directory", sql: "ALTER TABLE app.t RESET PLACEMENT FOR VALUES (1)", by: "owner", ours: "placements"},
	{name: "placement option of a database", sql: "ALTER DATABASE defaultdb RESET PLACEMENT", by: "super", noSchema: true, ours: "placements"},
	{name: "partition a table", covers: []string{"tree.AlterTablePartitionByTable"}, sql: "ALTER TABLE app.t PARTITION BY NOTHING", by: "owner", ours: "partitions"},
	{name: "partition an index", covers: []string{"tree.AlterIndex"}, sql: "ALTER INDEX app.t_v PARTITION BY NOTHING", by: "owner", ours: "partitions"},
	{name: "passwords", sql: "SELECT rolpassword FROM pg_authid", by: "super", noSchema: true, ours: "the message says relation"},
}

// untouched are kinds of statements that touch no object, or nothing that rights are on.
var untouched = map[string]string{
	"parse.Begin": "begins a transaction", "parse.Commit": "ends one", "parse.Rollback": "ends one", "parse.Savepoint": "of a transaction",
	"parse.Release": "of a transaction", "parse.RollbackTo": "of a transaction", "parse.SetTransaction": "of a transaction", "parse.SetConstraints": "of a transaction",
	"parse.DropMissing":     "answers that there is no such object",
	"parse.AlterConstraint": "becomes ALTER TABLE, which is the owner's",
	"parse.SetVar":          "settings of the session; those of roles are session/role.go's", "parse.ResetVar": "the same", "parse.ShowVar": "the same",
	"parse.ShowClusterSetting": "everybody may see settings", "parse.Discard": "of the session",
	"parse.Listen": "refused, 0A000", "parse.Unlisten": "does nothing", "parse.Notify": "refused, 0A000", "parse.Noop": "does nothing, with a notice",
	"tree.Statement":          "the group of all below",
	"tree.AlterTableLocality": "ALTER TABLE, which is the owner's", "tree.AlterTableSetOnUpdate": "the same", "tree.Scatter": "refused, 0A000; ownership is looked at before",
	"tree.ShowPartitions": "definitions, which everybody may see", "tree.ShowZoneConfig": "the same", "tree.AlterSchemaRename": "a part of AlterSchema", "tree.AlterSchemaOwner": "a part of AlterSchema",
	"parse.Show": "see SHOW ...", "parse.Grant": "sql/catalog TestGrant and testdata/role: grant options are not rights",
	"COMMENT VIEW": "as TABLE", "COMMENT MATERIALIZED VIEW": "as TABLE", "COMMENT SEQUENCE": "as TABLE",
	"SHOW SCHEMAS": "names, which pg_catalog shows to everybody", "SHOW USERS": "the same", "SHOW ROLES": "the same",
	"SHOW TABLES": "the same", "SHOW SEQUENCES": "the same", "SHOW VIEWS": "the same", "SHOW COLUMNS": "definitions, which pg_catalog shows to everybody",
	"SHOW INDEXES": "the same", "SHOW CONSTRAINTS": "the same", "SHOW CREATE TABLE": "the same", "SHOW CREATE VIEW": "the same", "SHOW CREATE SEQUENCE": "the same",
	"SHOW STATISTICS": "refused, 0A000", "SHOW GRANTS": "the same", "SHOW TABLE": "a part of SHOW RANGES", "SHOW INDEX": "the same", "SHOW DATABASE": "the same",
	"SHOW UNIVERSE": "of nodes", "SHOW PLACEMENTS": "definitions, which everybody may see", "SHOW DIRECTORIES": "the same, but for the values of prefixes: sql/schemachange/testdata/placements",
	"SHOW TRANSACTION RETRIES": "counters", "SHOW CLUSTER CLOCKS": "of nodes", "SHOW NODES": "of nodes", "SHOW CLUSTER SETTINGS": "everybody may see settings",
	"SHOW JOBS": "TestOthersBusiness", "SHOW SESSIONS": "TestOthersBusiness", "SHOW QUERIES": "TestOthersBusiness",
}

// untouchedFunctions are functions that are not immutable, and so may look at more than their arguments; what they look at needs
// no right.
var untouchedFunctions = map[string]string{
	"the clock": "age clock_timestamp current_date current_time current_timestamp localtime localtimestamp now statement_timestamp timeofday transaction_timestamp " +
		"follower_read_timestamp with_min_timestamp with_max_staleness cluster_logical_timestamp pg_sleep pg_sleep_for",
	"the session's settings": "array_to_json array_to_string concat concat_ws date_part date_trunc extract format overlaps json_build_array json_build_object " +
		"json_populate_record json_populate_recordset jsonb_build_array jsonb_build_object jsonb_populate_record jsonb_populate_recordset make_timestamptz quote_literal quote_nullable row_to_json timezone to_char to_json to_jsonb to_timestamp " +
		"current_setting set_config pg_client_encoding getdatabaseencoding generate_series pg_typeof pg_collation_for pg_column_size",
	"the session": "current_catalog current_database current_query current_role current_schema current_schemas current_user session_user system_user user " +
		"inet_client_addr inet_client_port inet_server_addr inet_server_port pg_backend_pid pg_my_temp_schema pg_is_other_temp_schema pg_listening_channels " +
		"pg_trigger_depth row_security_active version",
	"process ids, which PostgreSQL shows to everybody": "pg_blocking_pids",
	"names of roles": "acldefault",
	"the region of the node, and the regions of the database": "gateway_region default_to_database_primary_region rehome_row validate_multi_region_zone_configs",
	"dice": "gen_random_uuid random setseed unique_rowid uuid_generate_v4",
	"the node": "meridian_node_id pg_conf_load_time pg_is_in_backup pg_is_in_recovery pg_is_wal_replay_paused pg_jit_available pg_postmaster_start_time " +
		"pg_current_xact_id pg_current_xact_id_if_assigned txid_current txid_current_if_assigned pg_export_snapshot pg_stat_clear_snapshot pg_stat_get_numscans pg_stat_get_tuples_inserted",
	"nothing": "pg_notify pg_advisory_lock pg_advisory_lock_shared pg_advisory_unlock pg_advisory_unlock_shared pg_advisory_unlock_all pg_advisory_xact_lock " +
		"pg_advisory_xact_lock_shared pg_try_advisory_lock pg_try_advisory_lock_shared pg_try_advisory_xact_lock pg_try_advisory_xact_lock_shared " +
		"pg_sequence_last_value pg_get_serial_sequence",
	"definitions, which PostgreSQL shows to everybody": "col_description obj_description shobj_description pg_collation_is_visible pg_column_is_updatable " +
		"pg_conversion_is_visible pg_filenode_relation pg_function_is_visible pg_get_constraintdef pg_get_function_arg_default pg_get_function_arguments " +
		"pg_get_function_identity_arguments pg_get_function_result pg_get_function_sqlbody pg_get_functiondef pg_get_indexdef pg_get_partition_constraintdef " +
		"pg_get_expr pg_get_partkeydef pg_get_ruledef pg_get_statisticsobjdef pg_get_statisticsobjdef_columns pg_get_triggerdef pg_get_userbyid pg_get_viewdef " +
		"pg_opclass_is_visible pg_operator_is_visible pg_opfamily_is_visible pg_relation_is_publishable pg_relation_is_updatable pg_statistics_obj_is_visible " +
		"pg_table_is_visible pg_tablespace_location pg_ts_config_is_visible pg_ts_dict_is_visible pg_ts_parser_is_visible pg_ts_template_is_visible " +
		"pg_type_is_visible to_regclass to_regcollation to_regnamespace to_regoper to_regoperator to_regproc to_regprocedure " +
		"to_regrole to_regtype",
	"sizes, which PostgreSQL shows to everybody": "pg_database_size pg_indexes_size pg_relation_size pg_table_size pg_tablespace_size pg_total_relation_size",
	"rights themselves": "has_any_column_privilege has_column_privilege has_database_privilege has_foreign_data_wrapper_privilege has_function_privilege " +
		"has_language_privilege has_schema_privilege has_sequence_privilege has_server_privilege has_table_privilege has_tablespace_privilege has_type_privilege pg_has_role",
	"sessions: the roles' own test": "pg_cancel_backend pg_terminate_backend",
}

// database is what the matrix asks: ours, or PostgreSQL.
type database interface {
	// exec runs statements in the open session of a role and returns the code and message of its error, "00000" for none, with
	// the warnings in front.
	exec(role, sql string) (code, message string)
	ours() bool
}

const matrixSetup = `
CREATE ROLE owner LOGIN; CREATE ROLE member LOGIN IN ROLE owner; CREATE ROLE cold LOGIN NOINHERIT IN ROLE owner;
CREATE ROLE team; CREATE ROLE heir LOGIN IN ROLE team; CREATE ROLE coldheir LOGIN NOINHERIT IN ROLE team;
CREATE ROLE grantee LOGIN; CREATE ROLE stranger LOGIN; CREATE ROLE chief LOGIN SUPERUSER; CREATE ROLE poor;
CREATE SCHEMA app; CREATE SCHEMA empty;
CREATE TABLE app.t (id int PRIMARY KEY, v int, w int DEFAULT 7); INSERT INTO app.t VALUES (1, 10), (2, 20); CREATE INDEX t_v ON app.t (v);
CREATE TABLE app.r (id int PRIMARY KEY); INSERT INTO app.r VALUES (1), (2);
CREATE TABLE app.f (id int PRIMARY KEY, r int, x int, CONSTRAINT f_r_fkey FOREIGN KEY (r) REFERENCES app.r); INSERT INTO app.f VALUES (1, 1);
CREATE TABLE app.c1 (id int PRIMARY KEY); CREATE TABLE app.c2 (id int REFERENCES app.c1 ON DELETE CASCADE); INSERT INTO app.c1 VALUES (1); INSERT INTO app.c2 VALUES (1);
CREATE TABLE app.ser (id serial PRIMARY KEY, v int);
CREATE TABLE app.idn (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v int);
CREATE TABLE app.gen (a int PRIMARY KEY, b int GENERATED ALWAYS AS (a + 1) STORED); INSERT INTO app.gen VALUES (1);
CREATE TABLE app.nn (a int PRIMARY KEY, b int NOT NULL);
CREATE SEQUENCE app.q; CREATE SEQUENCE app.q2; CREATE TYPE app.e AS ENUM ('a');
CREATE VIEW app.vw AS SELECT id, v FROM app.t;
CREATE VIEW app.vi WITH (security_invoker = true) AS SELECT id, v FROM app.t;
CREATE VIEW app.vvi AS SELECT id FROM app.vi;
CREATE VIEW app.vv AS SELECT id FROM app.vw;
CREATE VIEW app.vbad AS SELECT id FROM app.t;
CREATE VIEW app.vseq AS SELECT nextval('app.q') AS n`

// relations of the matrix, all owned by owner but vbad, whose owner may nothing.
var relations = []string{"t", "r", "f", "c1", "c2", "ser", "idn", "gen", "nn", "q", "q2", "vw", "vi", "vvi", "vv", "vseq"}

func must(t *testing.T, d database, role, sql string) {
	t.Helper()
	if code, message := d.exec(role, sql); code != "00000" {
		t.Fatalf("%s: %s: %s %s", role, sql, code, message)
	}
}

func setUp(t *testing.T, d database) {
	t.Helper()
	for _, s := range strings.Split(matrixSetup, ";") {
		must(t, d, "root", s)
	}
	for _, r := range relations {
		kind := "TABLE"
		switch {
		case r[0] == 'v':
			kind = "VIEW"
		case r[0] == 'q':
			kind = "SEQUENCE"
		}
		must(t, d, "root", "ALTER "+kind+" app."+r+" OWNER TO owner")
	}
	must(t, d, "root", "ALTER TYPE app.e OWNER TO owner")
	must(t, d, "root", "GRANT USAGE, CREATE ON SCHEMA app TO poor")
	must(t, d, "root", "ALTER VIEW app.vbad OWNER TO poor")
	must(t, d, "root", "REVOKE ALL ON SCHEMA app FROM poor")
	must(t, d, "root", "ALTER SCHEMA app OWNER TO owner")
	must(t, d, "root", "ALTER SCHEMA empty OWNER TO owner")
	must(t, d, "root", "GRANT CREATE ON DATABASE defaultdb TO owner")
}

// right is one thing that a touch needs: an object, and the privileges of which one is enough.
type right struct {
	object string
	any    []string
}

func (x touch) rights() []right {
	var out []right
	if !x.noSchema {
		out = append(out, right{"app", []string{"USAGE"}})
	}
	for _, n := range x.needs {
		object, any, _ := strings.Cut(n, ":")
		out = append(out, right{object, strings.Split(any, "|")})
	}
	return out
}

// grants are statements that give a role rights, and those that take them.
type grants []string

func (g *grants) add(object, privilege, to string) {
	on := "TABLE app." + object
	switch {
	case object == "app" || object == "empty":
		on = "SCHEMA " + object
	case object == "defaultdb":
		on = "DATABASE defaultdb"
	case object[0] == 'q' || strings.HasSuffix(object, "_seq"):
		on = "SEQUENCE app." + object
	}
	*g = append(*g, privilege+" ON "+on+" |"+to)
}

func (g grants) run(t *testing.T, d database, verb string) {
	t.Helper()
	for _, s := range g {
		what, who, _ := strings.Cut(s, "|")
		if verb == "GRANT" {
			must(t, d, "root", "GRANT "+what+"TO "+who)
		} else {
			must(t, d, "root", "REVOKE "+what+"FROM "+who)
		}
	}
}

// attempt is one role's try of a touch.
type attempt struct {
	variant string
	role    string
	grants  grants
	allowed bool
}

// attempts derives them from what the touch needs.
func (x touch) attempts() []attempt {
	rights := x.rights()
	full := func(to string) (g grants) {
		for _, r := range rights {
			g.add(r.object, r.any[0], to)
		}
		return g
	}
	owns := x.by == "" || x.by == "owner" || x.by == "owner of its sequence"
	byRight := x.by == ""
	out := []attempt{
		{"superuser", "chief", nil, x.by != "nobody"},
		{"owner", "owner", nil, owns || x.by == "all"},
		{"member of the owner", "member", nil, owns || x.by == "all"},
		{"member of the owner, NOINHERIT", "cold", nil, x.by == "all"},
		{"stranger", "stranger", nil, x.by == "all" || byRight && len(rights) == 0},
		{"grantee", "grantee", full("grantee"), byRight || x.by == "grantee" || x.by == "all"},
		{"heir of a grantee", "heir", full("team"), byRight || x.by == "all"},
		{"heir of a grantee, NOINHERIT", "coldheir", full("team"), x.by == "all" || byRight && len(rights) == 0},
		{"everybody is a grantee", "stranger", full("PUBLIC"), byRight || x.by == "all"},
	}
	if x.by == "grantee" { // it owns one of the tables
		out[1].allowed, out[2].allowed = false, false
	}
	if byRight || x.by == "grantee" {
		for i, r := range rights {
			var g grants
			for j, o := range rights {
				if i == j {
					continue
				}
				g.add(o.object, o.any[0], "grantee")
			}
			for _, p := range allPrivileges(r.object) {
				if !slices.Contains(r.any, p) && !slices.ContainsFunc(rights, func(o right) bool { return o.object == r.object && slices.Contains(o.any, p) }) {
					g.add(r.object, p, "grantee")
				}
			}
			out = append(out, attempt{"grantee of all but " + strings.Join(r.any, " and ") + " on " + r.object, "grantee", g, false})
			for _, p := range r.any[1:] {
				g := grants{}
				for j, o := range rights {
					if i == j {
						g.add(o.object, p, "grantee")
					} else {
						g.add(o.object, o.any[0], "grantee")
					}
				}
				out = append(out, attempt{"grantee of " + p + " on " + r.object, "grantee", g, true})
			}
		}
		return out
	}
	if x.by == "owner" || x.by == "nobody" {
		g := full("grantee")
		for _, r := range relations {
			g.add(r, "ALL", "grantee")
		}
		g.add("app", "ALL", "grantee")
		g.add("empty", "ALL", "grantee")
		out = append(out, attempt{"grantee of everything", "grantee", g, false})
	}
	return out
}

func allPrivileges(object string) []string {
	switch {
	case object == "app":
		return []string{"USAGE", "CREATE"}
	case object == "defaultdb":
		return []string{"CONNECT", "TEMPORARY"}
	case object[0] == 'q' || strings.HasSuffix(object, "_seq"):
		return []string{"USAGE", "SELECT", "UPDATE"}
	}
	return []string{"SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"}
}

// try makes an attempt and says what came of it: "may", or what it was told.
func (x touch) try(t *testing.T, d database, a attempt) string {
	t.Helper()
	for _, s := range strings.Split(x.before, ";") {
		if s != "" {
			must(t, d, "root", s)
		}
	}
	if strings.Contains(x.sql, "currval") || strings.Contains(x.sql, "lastval") {
		// The session has drawn a number while it might.
		g := grants{}
		g.add("app", "USAGE", a.role)
		g.add("q", "USAGE", a.role)
		if a.role != "chief" && a.role != "owner" && a.role != "member" {
			g.run(t, d, "GRANT")
		}
		must(t, d, a.role, "SELECT nextval('app.q')")
		if a.role != "chief" && a.role != "owner" && a.role != "member" {
			g.run(t, d, "REVOKE")
		}
	}
	a.grants.run(t, d, "GRANT")
	var code, message string
	if x.outside {
		code, message = d.exec(a.role, x.sql)
	} else {
		must(t, d, a.role, "BEGIN")
		for _, s := range strings.Split(x.sql, ";") {
			if code, message = d.exec(a.role, strings.TrimSpace(s)); code != "00000" {
				break
			}
		}
		must(t, d, a.role, "ROLLBACK")
	}
	for _, s := range strings.Split(x.after, ";") {
		if s != "" {
			must(t, d, "root", s)
		}
	}
	a.grants.run(t, d, "REVOKE")
	if code == "00000" && strings.HasPrefix(message, "skipping") {
		return message
	}
	if code == "00000" || code == x.fails {
		return "may"
	}
	return code + " " + message
}

// TestPrivileges is the matrix.
func TestPrivileges(t *testing.T) {
	const file = "testdata/privileges"
	if addr := os.Getenv("MERIDIAN_POSTGRES"); addr != "" {
		d := newPostgres(t, addr)
		out := runMatrix(t, d, nil)
		var b strings.Builder
		for _, k := range slices.Sorted(maps.Keys(out)) {
			b.WriteString(k + " = " + out[k] + "\n")
		}
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), " = "); ok {
			recorded[k] = v
		}
	}
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 1)
		defer c.Stop()
		d := &own{t: t, node: c.Nodes[0], conns: map[string]*sessiontest.Conn{}}
		defer d.close()
		runMatrix(t, d, recorded)
	})
}

func runMatrix(t *testing.T, d database, recorded map[string]string) map[string]string {
	setUp(t, d)
	out, n := map[string]string{}, 0
	for _, x := range touches {
		if x.ours != "" && !d.ours() {
			continue
		}
		for _, a := range x.attempts() {
			n++
			key := x.name + ": " + a.variant
			got := x.try(t, d, a)
			out[key] = got
			denied := strings.HasPrefix(got, "42501 ") || x.skips && strings.HasPrefix(got, "skipping")
			if a.allowed && got != "may" || !a.allowed && !denied {
				t.Errorf("%s: %s\n\tby the rules: %s", key, got, map[bool]string{true: "may", false: "denied"}[a.allowed])
			}
			if recorded == nil || x.ours != "" {
				continue
			}
			if want, ok := recorded[key]; !ok {
				t.Errorf("%s: PostgreSQL was not asked: MERIDIAN_POSTGRES=host:port go test ./sql/session -run TestPrivileges", key)
			} else if got != want {
				t.Errorf("%s: %s\n\tPostgreSQL: %s", key, got, want)
			}
		}
	}
	t.Logf("%d attempts of %d statements", n, len(touches))
	return out
}

// own is our database.
type own struct {
	t     *testing.T
	node  *sessiontest.Node
	conns map[string]*sessiontest.Conn
}

func (d *own) ours() bool { return true }

func (d *own) exec(role, sql string) (code, message string) {
	c := d.conns[role]
	if c == nil {
		c = d.node.Open(d.t, role)
		d.conns[role] = c
	}
	out, err := c.Exec(sql)
	if err != nil {
		e := session.Outcome(err)
		return string(e.Code), e.Message
	}
	for line := range strings.Lines(out) {
		if _, text, ok := strings.Cut(strings.TrimSpace(line), "NOTICE 01000: "); ok {
			return "00000", text
		}
	}
	return "00000", ""
}

func (d *own) close() {
	for _, c := range d.conns {
		c.Close()
	}
}

// peer is PostgreSQL.
type peer struct {
	t     *testing.T
	addr  string
	conns map[string]*pgconn.PgConn
	said  string
}

func newPostgres(t *testing.T, addr string) *peer {
	d := &peer{t: t, addr: addr, conns: map[string]*pgconn.PgConn{}}
	t.Cleanup(func() {
		for _, c := range d.conns {
			c.Close(context.Background())
		}
	})
	for _, s := range []string{"DROP SCHEMA IF EXISTS app CASCADE", "DROP SCHEMA IF EXISTS empty CASCADE"} {
		must(t, d, "root", s)
	}
	for _, r := range []string{"member", "cold", "heir", "coldheir", "grantee", "stranger", "chief", "poor", "team", "owner"} {
		d.exec("root", "DROP OWNED BY "+r)
		must(t, d, "root", "DROP ROLE IF EXISTS "+r)
	}
	return d
}

func (d *peer) ours() bool { return false }

func (d *peer) exec(role, sql string) (code, message string) {
	c := d.conns[role]
	if c == nil {
		cfg, err := pgx.ParseConfig("postgres://" + role + "@" + d.addr + "/defaultdb?sslmode=disable")
		if err != nil {
			d.t.Fatal(err)
		}
		cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
			if n.Code == "01000" {
				d.said = n.Message
			}
		}
		if c, err = pgconn.ConnectConfig(context.Background(), &cfg.Config); err != nil {
			d.t.Fatal(err)
		}
		d.conns[role] = c
	}
	d.said = ""
	_, err := c.Exec(context.Background(), sql).ReadAll()
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code, e.Message
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return "00000", d.said
}

// TestEveryStatementIsInTheMatrix: a statement that the binder learns, and a function that may look at more than its arguments, is
// in the matrix, or in the lists of those that touch nothing.
func TestEveryStatementIsInTheMatrix(t *testing.T) {
	covered := map[string]bool{}
	for _, x := range touches {
		for _, c := range x.covers {
			covered[c] = true
		}
	}
	kinds := statementKinds(t)
	if len(kinds) < 90 {
		t.Fatalf("found only %d kinds of statements: has the binder's dispatch moved?", len(kinds))
	}
	for _, k := range kinds {
		if _, ok := untouched[k]; !covered[k] && !ok {
			t.Errorf("%s is neither in the matrix nor in the list of what touches no object", k)
		}
	}
	for k := range untouched {
		if covered[k] {
			t.Errorf("%s is in the matrix and in the list of what touches no object", k)
		}
		if !slices.Contains(kinds, k) {
			t.Errorf("%s is in the list of what touches no object, and no statement", k)
		}
	}
	listed := map[string]bool{}
	for _, names := range untouchedFunctions {
		for _, n := range strings.Fields(names) {
			listed[n] = true
		}
	}
	known := map[string]bool{}
	for _, o := range system.Builtins().AllFunctions() {
		known[o.Name] = true
		if o.Volatility != scalar.Immutable && !listed[o.Name] && !covered[o.Name+"()"] {
			t.Errorf("%s() may look at more than its arguments, and is neither in the matrix nor in the list of what needs no right", o.Name)
		}
	}
	for n := range listed {
		if !known[n] {
			t.Errorf("%s() is in the list and does not exist", n)
		}
	}
}

// statementKinds reads the cases of the binder's dispatch: types of syntax trees, and the words after SHOW and COMMENT ON.
func statementKinds(t *testing.T) []string {
	files, err := filepath.Glob("../bind/*.go")
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]string{"show": "SHOW ", "showObjects": "SHOW ", "showRanges": "SHOW ", "comment": "COMMENT "}
	found := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			switch fn.Name.Name {
			case "statement", "definition", "command", "show", "showObjects", "showRanges", "comment", "rowStatement", "alterAction", "addConstraint", "addIdentity", "alterSchema", "viewOptions":
			default:
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				c, ok := n.(*ast.CaseClause)
				if !ok {
					return true
				}
				for _, e := range c.List {
					if s, ok := e.(*ast.StarExpr); ok {
						e = s.X
					}
					switch e := e.(type) {
					case *ast.SelectorExpr:
						if x, ok := e.X.(*ast.Ident); ok && (x.Name == "tree" || x.Name == "parse") {
							found[x.Name+"."+e.Sel.Name] = true
						}
					case *ast.BasicLit:
						if prefix := words[fn.Name.Name]; prefix != "" {
							w, _ := strconv.Unquote(e.Value)
							found[prefix+w] = true
						}
					}
				}
				return true
			})
		}
	}
	return slices.Sorted(maps.Keys(found))
}

var _ = fmt.Sprint
