package bind

import (
	"testing"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// TestViewText: relations are written with the names that they have now, constants of enums with their type's identity, whatever the literal
// became while it was bound, and the tree is as before.
func TestViewText(t *testing.T) {
	const text = "SELECT 'a', 'b', 'c'::mood FROM t, u, pg_class"
	stmt, err := parse.ParseOne(text)
	if err != nil {
		t.Fatal(err)
	}
	sel := stmt.Node.(*tree.Select)
	clause := sel.Select.(*tree.SelectClause)
	before := tree.AsStringWithFlags(sel, tree.FmtParsable)
	enum := types.EnumOf(&types.Enum{ID: 123456, Name: "mood", Values: []types.EnumValue{{Label: "a"}, {Label: "c"}}})
	v := newViewText()
	literal := func(e tree.Expr) *scalar.Const {
		n := e.(*tree.StrVal)
		k := &scalar.Const{Value: types.NewString(n.RawString()), T: types.Unknown}
		v.literal(n, k)
		return k
	}
	a, b := literal(clause.Exprs[0].Expr), literal(clause.Exprs[1].Expr)
	now := &scalar.Const{Value: a.Value, T: types.Text}
	v.became(a, now)
	v.coerced(now, enum)
	v.coerced(b, types.Text)
	cast := clause.Exprs[2].Expr.(*tree.CastExpr)
	v.cast(cast, enum)
	v.coerced(literal(cast.Expr), enum)
	relations := []*catalog.Table{{ID: 1, Name: "renamed"}, {ID: 2, Name: "u"}, {ID: 3, Name: "pg_class", Kind: catalog.KindVirtual}}
	for i, x := range clause.From.Tables {
		v.resolved(x.(*tree.AliasedTableExpr).Expr.(*tree.TableName), relations[i])
	}
	got, err := v.write(sel, func(t *catalog.Table) Name { return Name{Schema: "s", Name: t.Name} })
	if err != nil {
		t.Fatal(err)
	}
	if want := "SELECT 'a'::@123456, 'b', 'c'::@123456 FROM s.renamed, s.u, s.pg_class"; got != want {
		t.Errorf("written  %s\nwant     %s", got, want)
	}
	if after := tree.AsStringWithFlags(sel, tree.FmtParsable); after != before {
		t.Errorf("the tree became %s", after)
	}
	named := v.relations([]opt.Dependency{{ID: 9}, {ID: 2}, {ID: 1}, {ID: 3}})
	if len(named) != 2 || named[0] != 2 || named[1] != 1 {
		t.Errorf("the query names %d", named)
	}
}
