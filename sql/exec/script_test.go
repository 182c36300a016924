package exec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/memory"
	"meridian/sql/opt"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/scalar/system"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// TestScripts runs SQL through binder, optimizer and executor over a fake transaction, once with plans as written and
// once with the optimizer's. The results that the scripts expect were recorded from PostgreSQL 15:
//
//	MERIDIAN_TEST_POSTGRES=postgres://... go test ./sql/exec -run TestScripts -rewrite
//
// A command is "sql", or "sql sort" where the order of the rows is not determined. Results that differ from
// PostgreSQL's on purpose are in commands named "ours", which are skipped when recording.
func TestScripts(t *testing.T) {
	if url := os.Getenv("MERIDIAN_TEST_POSTGRES"); url != "" {
		recordScripts(t, url)
		return
	}
	files, err := filepath.Glob("testdata/sql/*")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		for _, naive := range []bool{true, false} {
			name := filepath.Base(file)
			if naive {
				name += "/naive"
			}
			t.Run(name, func(t *testing.T) {
				db := newMiniDB(t, naive)
				datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
					return db.run(d.Input, d.HasArg("sort"))
				})
			})
		}
	}
}

func recordScripts(t *testing.T, url string) {
	datadriven.Walk(t, "testdata/sql", func(t *testing.T, path string) {
		c, err := pgconn.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		if _, err := c.Exec(t.Context(), "DROP SCHEMA public CASCADE; CREATE SCHEMA public; SET timezone = 'UTC'").ReadAll(); err != nil {
			t.Fatal(err)
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "ours" {
				return d.Expected
			}
			var out strings.Builder
			for _, stmt := range splitStatements(d.Input) {
				out.WriteString(askPostgres(t, c, stmt, d.HasArg("sort")))
			}
			return out.String()
		})
	})
}

// askPostgres runs a statement on PostgreSQL and prints what it answers.
func askPostgres(t *testing.T, c *pgconn.PgConn, stmt string, sorted bool) string {
	var out strings.Builder
	results, err := c.Exec(t.Context(), stmt).ReadAll()
	for _, r := range results {
		if r.Err != nil {
			continue
		}
		var lines []string
		for _, row := range r.Rows {
			var cells []string
			for _, v := range row {
				if v == nil {
					cells = append(cells, "NULL")
				} else {
					cells = append(cells, string(v))
				}
			}
			lines = append(lines, strings.Join(cells, " | "))
		}
		writeResult(&out, lines, sorted, r.CommandTag.String())
	}
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		writeError(&out, pe.Code, pe.Message, pe.Detail, pe.Hint)
	} else if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// splitStatements divides a command's input: a statement ends at the end of a line.
func splitStatements(text string) []string {
	var out []string
	for _, s := range strings.SplitAfter(text, ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func writeResult(out *strings.Builder, lines []string, sorted bool, tag string) {
	if sorted {
		sort.Strings(lines)
	}
	for _, l := range lines {
		out.WriteString(strings.TrimRight(l, " "))
		out.WriteByte('\n')
	}
	if !strings.HasPrefix(tag, "SELECT") {
		out.WriteString(tag + "\n")
	} else if len(lines) == 0 {
		out.WriteString("(no rows)\n")
	}
}

func writeError(out *strings.Builder, code, message, detail, hint string) {
	fmt.Fprintf(out, "ERROR %s: %s\n", code, message)
	if detail != "" {
		fmt.Fprintf(out, "DETAIL: %s\n", detail)
	}
	if hint != "" {
		fmt.Fprintf(out, "HINT: %s\n", hint)
	}
}

// miniDB is a database of one session without transactions: just enough catalogue for the scripts.
type miniDB struct {
	catalog.View
	t      *testing.T
	naive  bool
	kv     *fakeKV
	tables map[string]*catalog.Table
	next   catalog.ID
	env    *miniEnv
}

type miniEnv struct {
	system.Environment
	rowid int64
	seqs  map[string]int64
	names []string // of sequences, by OID less one
}

func (e *miniEnv) UniqueRowID() int64                 { e.rowid++; return e.rowid }
func (e *miniEnv) CurrentUser() string                { return "root" }
func (e *miniEnv) Setting(name string) (string, bool) { return "", false }
func (e *miniEnv) NextIdentity(ctx context.Context, sequence string) (int64, error) {
	return e.NextVal(ctx, sequence)
}

func (e *miniEnv) NextVal(_ context.Context, sequence string) (int64, error) {
	e.seqs[sequence]++
	return e.seqs[sequence], nil
}
func (e *miniEnv) ResolveReg(kind types.Kind, name string) (uint32, error) {
	i := slices.Index(e.names, name)
	if i < 0 {
		i = len(e.names)
		e.names = append(e.names, name)
	}
	return uint32(i + 1), nil
}
func (e *miniEnv) RegName(kind types.Kind, oid uint32) string { return e.names[oid-1] }

func newMiniDB(t *testing.T, naive bool) *miniDB {
	return &miniDB{t: t, naive: naive, kv: newFakeKV(), tables: map[string]*catalog.Table{}, next: catalog.FirstUserID,
		env: &miniEnv{seqs: map[string]int64{}}}
}

func (db *miniDB) Database(_ context.Context, name string) (*catalog.Database, error) {
	return &catalog.Database{ID: 100, Name: "d", Schemas: map[string]catalog.ID{"public": catalog.PublicSchemaID}}, nil
}
func (db *miniDB) Table(_ context.Context, database, schema, name string) (*catalog.Table, error) {
	if schema != "" && schema != "public" {
		return nil, nil
	}
	return db.tables[name], nil
}
func (db *miniDB) TableByID(_ context.Context, id catalog.ID) (*catalog.Table, error) {
	for _, t := range db.tables {
		if t.ID == id {
			return t, nil
		}
	}
	return nil, nil
}
func (db *miniDB) Schema(_ context.Context, _, name string) (*catalog.Schema, error) {
	if name == "public" {
		return &catalog.Schema{ID: catalog.PublicSchemaID, Name: name, Database: 100}, nil
	}
	return nil, nil
}
func (db *miniDB) Tables(context.Context, string) ([]*catalog.Table, error) {
	var out []*catalog.Table
	for _, t := range db.tables {
		out = append(out, t)
	}
	return out, nil
}
func (db *miniDB) Databases(ctx context.Context) ([]*catalog.Database, error) {
	d, err := db.Database(ctx, "d")
	return []*catalog.Database{d}, err
}
func (db *miniDB) Schemas(ctx context.Context, name string) ([]*catalog.Schema, error) {
	s, err := db.Schema(ctx, name, "public")
	return []*catalog.Schema{s}, err
}
func (db *miniDB) Users(context.Context) ([]*catalog.User, error) {
	return []*catalog.User{{Name: "root", Superuser: true}}, nil
}
func (db *miniDB) CurrentDatabase() string { return "d" }
func (db *miniDB) SearchPath() []string    { return []string{"public"} }
func (db *miniDB) CurrentUser() string     { return "root" }
func (db *miniDB) Access() *catalog.Access {
	return catalog.NewAccess(catalog.NewRoles([]*catalog.User{{Name: "root", Superuser: true}}), nil)
}
func (db *miniDB) Statistics(context.Context, catalog.ID) (*catalog.Statistics, error) {
	return nil, nil
}

func (db *miniDB) run(text string, sorted bool) string {
	var out strings.Builder
	for _, sql := range splitStatements(text) {
		before := maps(db.kv.visible)
		stmt, err := parse.ParseOne(sql)
		if err == nil {
			err = db.statement(stmt, sorted, &out)
		}
		if err != nil {
			clear(db.kv.pending)
			db.kv.visible, db.kv.stale = before, true
			writeErr(&out, err)
		}
		db.kv.StepStatement()
	}
	return out.String()
}

func writeErr(out *strings.Builder, err error) {
	var e *sqlstate.Error
	if errors.As(err, &e) {
		writeError(out, string(e.Code), e.Message, detailOf(e), e.Hint)
		if e.Code == sqlstate.InternalError {
			fmt.Fprintf(out, "%s\n", detailOf(e))
		}
		return
	}
	fmt.Fprintf(out, "ERROR ?????: %v\n", err)
}

func (db *miniDB) statement(stmt *parse.Statement, sorted bool, out *strings.Builder) error {
	ctx := db.t.Context()
	binder := &bind.Binder{View: db, Registry: system.Builtins(), Location: time.UTC}
	b, err := binder.Bind(ctx, stmt)
	if err != nil {
		return err
	}
	switch b := b.(type) {
	case *bind.CreateTable:
		db.create(b)
		writeResult(out, nil, false, "CREATE TABLE")
		return nil
	case *bind.CreateIndex:
		t := db.tables[b.Table.Name]
		db.addIndex(t, b.Index.Name, b.Index.Unique, false, b.Index.Columns, b.Index.Storing)
		if err := db.fill(t, &t.Indexes[len(t.Indexes)-1]); err != nil {
			t.Indexes = t.Indexes[:len(t.Indexes)-1]
			return err
		}
		writeResult(out, nil, false, "CREATE INDEX")
		return nil
	case *bind.Query:
		return db.query(ctx, b, sorted, out)
	}
	return fmt.Errorf("no %T in scripts", b)
}

func (db *miniDB) query(ctx context.Context, q *bind.Query, sorted bool, out *strings.Builder) error {
	plan, err := opt.Optimize(q.Query, opt.Env{Registry: system.Builtins(), Naive: db.naive})
	if err != nil {
		return err
	}
	p, err := Build(ctx, plan, Options{View: db})
	if err != nil {
		return err
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	budget := &memory.Account{}
	env := Env{Txn: db.kv, Budget: budget, Scalar: &scalar.Context{Context: ctx, Location: time.UTC, Env: db.env, StatementTime: now, TxnTime: now}}
	if db.naive {
		env.Trace = &Trace{Now: func() time.Duration { return 0 }}
	}
	db.kv.starts(p, env.Scalar)
	c, err := p.Start(ctx, &env)
	if err != nil {
		return err
	}
	defer func() {
		c.Close()
		if db.kv.beyond != "" {
			db.t.Errorf("the program reads %s", db.kv.beyond)
		}
		if budget.Used() != 0 {
			db.t.Errorf("%d bytes of the budget are not given back", budget.Used())
		}
	}()
	var lines []string
	for {
		row, err := c.Next(ctx)
		if err != nil {
			return err
		}
		if row == nil {
			break
		}
		var cells []string
		for i, d := range row {
			if d.IsNull() {
				cells = append(cells, "NULL")
			} else {
				cells = append(cells, string(types.AppendText(nil, d, q.Output[i].Type, nil)))
			}
		}
		lines = append(lines, strings.Join(cells, " | "))
	}
	tag := fmt.Sprintf("%s %d", q.Tag, c.RowsAffected())
	if q.Tag == "INSERT" {
		tag = fmt.Sprintf("INSERT 0 %d", c.RowsAffected())
	}
	writeResult(out, lines, sorted, tag)
	return nil
}

// create makes a table's descriptor.
func (db *miniDB) create(c *bind.CreateTable) {
	db.next++
	t := &catalog.Table{ID: db.next, Version: 1, Name: c.Name.Name, Schema: catalog.PublicSchemaID, NextIndex: 1, ImplicitPrimary: c.ImplicitPrimary}
	for i, d := range c.Columns {
		t.Columns = append(t.Columns, catalog.Column{ID: catalog.ColumnID(i + 1), Name: d.Name, Type: d.Type, NotNull: d.NotNull, Default: d.Default,
			Generated: d.Generated, Hidden: d.Hidden, Identity: d.Identity})
	}
	t.NextColumn = catalog.ColumnID(len(t.Columns) + 1)
	db.tables[t.Name] = t
	for _, k := range c.Constraints {
		if k.Kind == bind.PrimaryKey {
			db.addIndex(t, k.Name, true, true, k.Columns, nil)
			for _, col := range k.Columns {
				t.ColumnByName(col.Name).NotNull = true
			}
		}
	}
	for _, k := range c.Constraints {
		t.NextConstr++
		switch k.Kind {
		case bind.Unique:
			db.addIndex(t, k.Name, true, false, k.Columns, k.Storing)
		case bind.Check:
			t.Checks = append(t.Checks, catalog.Check{ID: t.NextConstr, Name: k.Name, Expr: k.Expr})
		case bind.ForeignKey:
			ref := k.RefTable
			if k.RefSelf {
				ref = t
			}
			fk := catalog.ForeignKey{ID: t.NextConstr, Name: k.Name, RefTable: ref.ID, OnDelete: k.OnDelete, OnUpdate: k.OnUpdate, MatchFull: k.MatchFull}
			for _, col := range k.Columns {
				fk.Columns = append(fk.Columns, t.ColumnByName(col.Name).ID)
			}
			for _, name := range k.RefColumns {
				fk.RefColumns = append(fk.RefColumns, ref.ColumnByName(name).ID)
			}
			t.Foreign = append(t.Foreign, fk)
			if !k.RefSelf {
				ref.ReferencedBy = append(ref.ReferencedBy, catalog.Reference{Table: t.ID, Constraint: fk.ID})
			}
		}
	}
	for _, x := range c.Indexes {
		db.addIndex(t, x.Name, x.Unique, false, x.Columns, x.Storing)
	}
}

func (db *miniDB) addIndex(t *catalog.Table, name string, unique, primary bool, cols []bind.IndexColumnDef, storing []string) {
	ix := catalog.Index{ID: t.NextIndex, Name: name, Unique: unique, Primary: primary}
	t.NextIndex++
	for _, c := range cols {
		ix.Columns = append(ix.Columns, catalog.IndexColumn{Column: t.ColumnByName(c.Name).ID, Desc: c.Desc})
	}
	for _, s := range storing {
		ix.Stored = append(ix.Stored, t.ColumnByName(s).ID)
	}
	t.Indexes = append(slices.Clip(t.Indexes), ix)
}

func (db *miniDB) fill(t *catalog.Table, ix *catalog.Index) error {
	f, err := NewBackfill(db.t.Context(), t, ix, Options{}, nil)
	if err != nil {
		return err
	}
	_, err = f.Step(db.t.Context(), db.kv, f.Span(), 0)
	return err
}

// detailOf is an error's detail as a role sees it that may read the table.
func detailOf(e *sqlstate.Error) string {
	if e.RowOf != 0 {
		return e.Values
	}
	return e.Detail
}
