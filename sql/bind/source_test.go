package bind

import (
	"errors"
	"testing"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// TestSourcePositions: errors of the user's text have the position of their node, errors of stored text none.
func TestSourcePositions(t *testing.T) {
	stmt, err := parse.ParseOne("SELECT a + 'x', t.b FROM t WHERE c != 'y'")
	if err != nil {
		t.Fatal(err)
	}
	sel := stmt.Node.(*tree.Select).Select.(*tree.SelectClause)
	sum, name := sel.Exprs[0].Expr, sel.Exprs[1].Expr
	unequal := sel.Where.Expr
	tb := &column{name: "b", rel: &relation{alias: "t"}}
	for _, c := range []struct {
		name string
		pos  func(s *source) int
		want int
	}{
		{"first operand", func(s *source) int { return s.at(&sqlstate.Error{}, sum).Position }, 8},
		{"operator", func(s *source) int { return position(s.locateOp(&sqlstate.Error{}, sum)) }, 10},
		{"operator with another spelling", func(s *source) int { return position(s.locateOp(&sqlstate.Error{}, unequal)) }, 36},
		{"position from below", func(s *source) int { return s.at(&sqlstate.Error{Position: 3}, sum).Position }, 3},
		{"untyped literal", func(s *source) int {
			return s.literalPos(&scalar.Const{Value: types.NewString("y"), T: types.Unknown})
		}, 39},
		{"typed literal", func(s *source) int { return s.literalPos(&scalar.Const{Value: types.NewString("y"), T: types.Text}) }, 0},
		{"name", func(s *source) int { return s.columnPos(tb, name) }, 17},
		{"qualified name elsewhere", func(s *source) int { return s.columnPos(tb, nil) }, 17},
		{"unqualified name", func(s *source) int { return s.columnPos(&column{name: "c"}, nil) }, 34},
	} {
		user := source{stmt: stmt}
		if got := c.pos(&user); got != c.want {
			t.Errorf("%s: position %d, want %d", c.name, got, c.want)
		}
		stored := user.inExpression(&catalog.Table{}, stmt)
		if got := c.pos(&stored); got != 0 && c.want != 3 {
			t.Errorf("%s: position %d in stored text", c.name, got)
		}
	}
}

func position(err error) int {
	var e *sqlstate.Error
	errors.As(err, &e)
	return e.Position
}

// TestSourceRights: the query of a view is bound by the rights of the view's owner, those of a view with security_invoker by the rights of the
// role that runs the statement, and stored expressions by the rights of the text that uses their table.
func TestSourceRights(t *testing.T) {
	own := &catalog.Table{Owner: "ada"}
	invoker := &catalog.Table{Owner: "bob", Options: map[string]string{catalog.SecurityInvoker: "true"}}
	stmt := &parse.Statement{}
	user := source{stmt: stmt}
	view := user.inView(own, stmt)
	for _, c := range []struct {
		name  string
		s     source
		as    string
		views int
	}{
		{"statement", user, "", 0},
		{"view", view, "ada", 1},
		{"check of a table in a view", view.inExpression(&catalog.Table{Owner: "eve"}, stmt), "ada", 1},
		{"view of the invoker's in a view", view.inView(invoker, stmt), "", 2},
	} {
		if c.s.as != c.as || c.s.views != c.views {
			t.Errorf("%s: as %q in %d views", c.name, c.s.as, c.s.views)
		}
	}
}

// TestNamesOfTypesInStoredText: text that an earlier release stored may name types as the grammar library does; the user's text may not.
func TestNamesOfTypesInStoredText(t *testing.T) {
	for _, c := range []struct {
		text string
		want *types.T
	}{
		{"'a'::string", types.Text}, {"'a'::\"string\"", types.Text}, {"'a'::bytes", types.Bytes}, {"1::\"int\"", types.Int4}, {"1::serial", types.Int4},
		{"1::pg_catalog.decimal", types.Decimal}, {"ARRAY['a']::string[]", types.TextArray},
	} {
		bind := func(home *catalog.Table) (e scalar.Expr, err error) {
			defer guard(&err)
			x, stmt, err := parse.ParseExpr(c.text)
			if err != nil {
				return nil, err
			}
			b := newBinder(&fakeView{}).newBuilder(t.Context(), stmt)
			b.home = home
			return b.expr(&exprContext{scope: &scope{level: &level{}}}, x), nil
		}
		if e, err := bind(&catalog.Table{}); err != nil || !e.Type().Equal(c.want) {
			t.Errorf("stored %s: %v (%v), want %s", c.text, e, err, c.want.Name())
		}
		if e, err := bind(nil); !sqlstate.Is(err, sqlstate.UndefinedObject) {
			t.Errorf("%s: %v (%v), want %s", c.text, e, err, sqlstate.UndefinedObject)
		}
	}
}
