package bind

import (
	"bufio"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/scalar/system"
	"meridian/sql/types"
)

// fakeView is a catalogue in memory: one database "d" with schemas public and pg_catalog, and what tests create.
type fakeView struct {
	tables map[string]*catalog.Table // schema.name
	next   catalog.ID
	user   string
	db     *catalog.Database
}

func (v *fakeView) Database(_ context.Context, name string) (*catalog.Database, error) {
	if name == "d" {
		return v.db, nil
	}
	return nil, nil
}
func (v *fakeView) Databases(context.Context) ([]*catalog.Database, error) {
	return []*catalog.Database{v.db}, nil
}
func (v *fakeView) Table(_ context.Context, database, schema, name string) (*catalog.Table, error) {
	if database != "" && database != "d" {
		return nil, nil
	}
	if schema != "" {
		return v.tables[schema+"."+name], nil
	}
	if t := v.tables["public."+name]; t != nil {
		return t, nil
	}
	return v.tables["pg_catalog."+name], nil
}
func (v *fakeView) TableByID(_ context.Context, id catalog.ID) (*catalog.Table, error) {
	for _, t := range v.tables {
		if t.ID == id {
			return t, nil
		}
	}
	return nil, nil
}
func (v *fakeView) Tables(context.Context, string) ([]*catalog.Table, error) {
	var out []*catalog.Table
	for _, t := range v.tables {
		out = append(out, t)
	}
	return out, nil
}
func (v *fakeView) Schema(_ context.Context, _, name string) (*catalog.Schema, error) {
	switch name {
	case "public":
		return &catalog.Schema{ID: catalog.PublicSchemaID, Name: name, Database: 100}, nil
	case "pg_catalog":
		return &catalog.Schema{ID: catalog.PGCatalogSchemaID, Name: name}, nil
	}
	return nil, nil
}
func (v *fakeView) Schemas(ctx context.Context, db string) ([]*catalog.Schema, error) {
	a, _ := v.Schema(ctx, db, "public")
	b, _ := v.Schema(ctx, db, "pg_catalog")
	return []*catalog.Schema{a, b}, nil
}
func (v *fakeView) Users(context.Context) ([]*catalog.User, error) {
	return []*catalog.User{{Name: "root", Superuser: true}}, nil
}
func (v *fakeView) CurrentDatabase() string { return "d" }
func (v *fakeView) SearchPath() []string    { return []string{"public"} }
func (v *fakeView) CurrentUser() string     { return v.user }
func (v *fakeView) Access() *catalog.Access {
	return catalog.NewAccess(catalog.NewRoles([]*catalog.User{{Name: "root", Superuser: true}}), nil)
}
func (v *fakeView) Statistics(context.Context, catalog.ID) (*catalog.Statistics, error) {
	return nil, nil
}

// newFakeView has PostgreSQL 15's catalogue tables, from testdata/pg_catalog.txt, and those of meridian_internal.
func newFakeView(t testing.TB) *fakeView {
	v := &fakeView{tables: map[string]*catalog.Table{}, next: catalog.FirstUserID, user: "root"}
	v.db = &catalog.Database{ID: 100, Name: "d", Schemas: map[string]catalog.ID{"public": catalog.PublicSchemaID}}
	v.read(t, "pg_catalog", "testdata/pg_catalog.txt", &v.next)
	own := catalog.ID(13900)
	v.read(t, "meridian_internal", "../virtual/internal.txt", &own)
	return v
}

// read adds the virtual relations of a schema from a file that lists their columns.
func (v *fakeView) read(t testing.TB, schema, file string, next *catalog.ID) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		p := strings.SplitN(sc.Text(), " ", 3)
		tab := v.tables[schema+"."+p[0]]
		if tab == nil {
			*next++
			tab = &catalog.Table{ID: *next, Name: p[0], Schema: catalog.PGCatalogSchemaID, Kind: catalog.KindVirtual}
			v.tables[schema+"."+p[0]] = tab
		}
		typ, ok := types.FromName(p[2])
		if !ok {
			typ = types.Text
			if strings.HasSuffix(p[2], "[]") {
				typ = types.TextArray
			}
			if p[2] == "anyarray" {
				typ = types.TextArray
			}
		}
		tab.Columns = append(tab.Columns, catalog.Column{ID: catalog.ColumnID(len(tab.Columns) + 1), Name: p[1], Type: typ})
	}
}

func newBinder(v *fakeView) *Binder {
	return &Binder{View: v, Registry: system.Builtins(), Location: time.UTC}
}

// TestCorpus binds what clients send: psql's backslash commands, drivers' catalogue queries, pgbench.
func TestCorpus(t *testing.T) {
	v := newFakeView(t)
	b := newBinder(v)
	ddl := `create table pgbench_history(tid int,bid int,aid int,delta int,mtime timestamp,filler char(22));
		create table pgbench_tellers(tid int not null,bid int,tbalance int,filler char(84)) with (fillfactor=100);
		create table pgbench_accounts(aid int not null,bid int,abalance int,filler char(84)) with (fillfactor=100);
		create table pgbench_branches(bid int not null,bbalance int,filler char(88)) with (fillfactor=100)`
	for _, file := range []string{"", "testdata/psql15.sql", "testdata/drivers.sql"} {
		corpus := "# tables\n" + ddl
		if file != "" {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			corpus = string(text)
		}
		for _, q := range strings.Split(corpus, "\n\n") {
			head, sql, _ := strings.Cut(strings.TrimSpace(q), "\n")
			stmts, err := parse.Parse(sql)
			if err != nil {
				t.Errorf("%s: %v", head, err)
				continue
			}
			for i := range stmts {
				b.ParamTypes = nil
				s, err := b.Bind(context.Background(), &stmts[i])
				if err != nil {
					t.Errorf("%s: %v\n%s", head, err, sql)
					continue
				}
				if file == "" {
					v.apply(s)
				}
			}
		}
	}
}
