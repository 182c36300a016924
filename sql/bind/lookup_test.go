package bind

import (
	"context"
	"errors"
	"testing"

	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
)

// namesView has two databases, each with the schemas public and s. The current role may use public alone.
type namesView struct {
	fakeView
	in map[string]*catalog.Table // by database.schema.name
}

func (v *namesView) Databases(context.Context) ([]*catalog.Database, error) {
	return []*catalog.Database{{ID: 100, Name: "d"}, {ID: 200, Name: "other"}}, nil
}

func (v *namesView) Schemas(context.Context, string) ([]*catalog.Schema, error) {
	return []*catalog.Schema{{ID: catalog.PublicSchemaID, Name: "public"}, {ID: 7, Name: "s"}}, nil
}

func (v *namesView) Schema(ctx context.Context, db, name string) (*catalog.Schema, error) {
	ss, _ := v.Schemas(ctx, db)
	for _, s := range ss {
		if s.Name == name {
			return s, nil
		}
	}
	return nil, nil
}

func (v *namesView) Table(_ context.Context, database, schema, name string) (*catalog.Table, error) {
	if schema == "" {
		schema = "public" // the search path
	}
	return v.in[database+"."+schema+"."+name], nil
}

func (v *namesView) Access() *catalog.Access {
	ada := &catalog.User{Name: "ada", ID: 11}
	return catalog.NewAccess(catalog.NewRoles([]*catalog.User{ada}), func(id catalog.ID) (catalog.Object, bool) {
		return catalog.Object{Class: catalog.ClassSchema, Kind: "schema", Name: "s", Owner: "root"}, id == 7
	})
}

// TestNames: a name in the user's text is found by the search path, and in a schema only if the role may use it; a name in stored text is found in
// the database and schema of its table first, whatever the session's are, and needs no right.
func TestNames(t *testing.T) {
	table := func(id catalog.ID, database, schema catalog.ID) *catalog.Table {
		return &catalog.Table{ID: id, Name: "t", Database: database, Schema: schema}
	}
	here, inS, there, thereInS := table(1, 100, catalog.PublicSchemaID), table(2, 100, 7), table(3, 200, catalog.PublicSchemaID), table(4, 200, 7)
	v := &namesView{fakeView: fakeView{user: "ada"}, in: map[string]*catalog.Table{
		"d.public.t": here, "d.s.t": inS, "other.public.t": there, "other.s.t": thereInS, "d.public.u": here}}
	n := names{ctx: context.Background(), view: v}
	view := &catalog.Table{Name: "v", Database: 200, Schema: 7}
	for _, c := range []struct {
		home                   *catalog.Table
		database, schema, name string
		want                   *catalog.Table
	}{
		{nil, "", "", "t", here},
		{nil, "", "public", "t", here},
		{nil, "", "missing", "t", nil},
		{nil, "d", "d", "t", here}, // database.table
		{inS, "", "", "t", inS},
		{inS, "", "", "u", here}, // by the search path
		{inS, "", "s", "t", inS}, // without the right
		{view, "", "", "t", thereInS},
		{view, "", "public", "t", there},
		{view, "d", "public", "t", here},
		{view, "", "", "u", nil}, // it is in the session's database
	} {
		if got := n.relation(c.home, c.database, c.schema, c.name); got != c.want {
			t.Errorf("home %v: %q.%q.%q is %v, want %v", c.home, c.database, c.schema, c.name, got, c.want)
		}
	}
	err := raised(func() { n.relation(nil, "", "s", "t") })
	if e := (*sqlstate.Error)(nil); !errors.As(err, &e) || e.Code != sqlstate.InsufficientPrivilege {
		t.Errorf("a schema without the right to use it: %v", err)
	}
	system := &catalog.Table{Name: "pg_class", Schema: catalog.PGCatalogSchemaID, Kind: catalog.KindVirtual}
	for want, x := range map[string]*catalog.Table{"public.t": here, "other.s.v": view, "pg_catalog.pg_class": system} {
		if got := n.qualified(x).Quoted(); got != want {
			t.Errorf("%s is written %s", want, got)
		}
	}
}
