package bind

import (
	"context"
	"strings"
	"testing"

	"meridian/sql/parse"
	"meridian/sql/sqlstate"
)

// TestLackingFunctions: a function of PostgreSQL that this server does not have is refused as a feature, with a hint, and a name that nobody defined is
// unknown.
func TestLackingFunctions(t *testing.T) {
	_, b := fuzzFixture(t)
	refusal := func(text string) *sqlstate.Error {
		stmts, err := parse.Parse(text)
		if err == nil {
			_, err = b.Bind(context.Background(), &stmts[0])
		}
		e, _ := err.(*sqlstate.Error)
		if e == nil {
			t.Fatalf("%s: %v", text, err)
		}
		return e
	}
	names := strings.Fields(postgresFunctions)
	if len(names) < 1000 {
		t.Fatalf("the list has %d names", len(names))
	}
	for i, name := range names {
		if i > 0 && name <= names[i-1] {
			t.Errorf("%s is not in order", name)
		}
		call := parse.QuoteIdent(name) + "(1, 2)"
		for _, text := range []string{"SELECT " + call, "SELECT pg_catalog." + call, "SELECT * FROM " + call, "SELECT " + call + " OVER ()"} {
			if e := refusal(text); e.Code != sqlstate.FeatureNotSupported || e.Hint == "" || e.Position == 0 || !strings.Contains(e.Message, name) {
				t.Errorf("%s: %s at %d: %s", text, e.Code, e.Position, e.Message)
			}
		}
		// Part of a name, and a name with more letters, are no names.
		for _, other := range []string{name[:len(name)-1] + "_zz", "zz" + name, name + "_zz"} {
			if e := refusal("SELECT " + parse.QuoteIdent(other) + "(1, 2)"); e.Code != sqlstate.UndefinedFunction {
				t.Errorf("%s: %s: %s", other, e.Code, e.Message)
			}
		}
	}
}

// TestLackingTypes: the same, of types, wherever a type's name can stand.
func TestLackingTypes(t *testing.T) {
	_, b := fuzzFixture(t)
	for _, name := range []string{"point", "line", "lseg", "box", "path", "polygon", "circle", "money", "xml", "bit", "bit(3)", "varbit", "bit varying(3)", "tsvector", "tsquery",
		"int4range", "nummultirange", "jsonpath", "pg_lsn", "pg_snapshot", "txid_snapshot", "tid", "refcursor", "trigger", "internal", "anyrange"} {
		for _, form := range []string{"SELECT NULL::@", "SELECT CAST(NULL AS @)", "SELECT NULL::@[]", "CREATE TABLE lacking (a int, b @ NOT NULL)", "CREATE TABLE lacking (b @[])",
			"ALTER TABLE t ADD COLUMN lacking @", "SELECT * FROM json_to_record('{}') AS x(a @)", "SELECT @ '1'", "SELECT pg_catalog.@ '1'", "SELECT NULL::\"@\"", "SELECT NULL::pg_catalog.@"} {
			if strings.ContainsAny(name, "( ") && strings.ContainsAny(form, "\".") {
				continue
			}
			text := strings.ReplaceAll(form, "@", name)
			stmts, err := parse.Parse(text)
			if err == nil {
				_, err = b.Bind(context.Background(), &stmts[0])
			}
			if e, ok := err.(*sqlstate.Error); !ok || e.Code != sqlstate.FeatureNotSupported || e.Hint == "" {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}
