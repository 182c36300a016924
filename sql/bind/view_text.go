package bind

import (
	"strconv"
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// namedRelations are the stored relations that a view's query names.
func (b *builder) namedRelations() (on []catalog.ID) {
	ids := map[catalog.ID]bool{}
	for _, t := range b.tableNames {
		if t.Kind != catalog.KindVirtual {
			ids[t.ID] = true
		}
	}
	for _, d := range b.meta.Depends {
		if ids[d.ID] {
			on = append(on, d.ID)
		}
	}
	return on
}

// readableText is viewText of what can be read again: the text is stored.
func (b *builder) readableText(sel *tree.Select) string {
	text := b.viewText(sel)
	if _, err := parse.ParseOne(text); err != nil {
		e := sqlstate.New(sqlstate.FeatureNotSupported, "this query is not supported in a view")
		e.Cause = err
		raise(e)
	}
	return text
}

// viewText writes a query with its relations' names qualified, so that it means the same in any session.
func (b *builder) viewText(sel *tree.Select) string {
	return b.enumText.write(func() string {
		ctx := tree.NewFmtCtx(tree.FmtParsable, tree.FmtReformatTableNames(func(ctx *tree.FmtCtx, n *tree.TableName) {
			t := b.tableNames[n]
			if t == nil {
				ctx.WriteString(parse.Name{Schema: string(n.SchemaName), Name: string(n.ObjectName)}.Quoted())
				return
			}
			ctx.WriteString(b.qualified(t).Quoted())
		}))
		ctx.FormatNode(sel)
		return parse.TypeNames(ctx.CloseAndGetString())
	})
}

// enumText is what the text of a view says of enums, as it was bound. In the stored text their types are named by identity, and each
// constant is written with its type (parse.TypeReferences), so that renaming a type or a value does not change the meaning of the view.
type enumText struct {
	literals map[*scalar.Const]*tree.StrVal
	values   map[*tree.StrVal]*types.T
	casts    map[*tree.CastExpr]*types.T
}

// bound notes the constant that a literal is.
func (m *enumText) bound(n *tree.StrVal, k *scalar.Const) {
	if m == nil {
		return
	}
	if m.literals == nil {
		m.literals = map[*scalar.Const]*tree.StrVal{}
	}
	m.literals[k] = n
}

// coerced notes that an expression gets a type.
func (m *enumText) coerced(e scalar.Expr, to *types.T) {
	if m == nil || !to.IsEnum() {
		return
	}
	k, ok := e.(*scalar.Const)
	if !ok {
		return
	}
	if n := m.literals[k]; n != nil {
		if m.values == nil {
			m.values = map[*tree.StrVal]*types.T{}
		}
		m.values[n] = to
	}
}

// became notes that a constant, of another type now, is still the same literal.
func (m *enumText) became(from, to scalar.Expr) {
	if m == nil {
		return
	}
	if k, ok := from.(*scalar.Const); ok && m.literals[k] != nil {
		if now, ok := to.(*scalar.Const); ok {
			m.literals[now] = m.literals[k]
		}
	}
}

// cast notes the type that a cast names.
func (m *enumText) cast(n *tree.CastExpr, to *types.T) {
	if m == nil || !to.IsEnum() {
		return
	}
	if m.casts == nil {
		m.casts = map[*tree.CastExpr]*types.T{}
	}
	m.casts[n] = to
}

// reference names a type by its identity.
func reference(t *types.T) tree.ResolvableTypeReference {
	if t.Kind == types.KindArray {
		return &tree.ArrayTypeReference{ElementType: reference(t.Elem)}
	}
	r := &tree.OIDTypeReference{}
	assign(&r.OID, t.OID())
	return r
}

func assign[T ~uint32](to *T, v uint32) { *to = T(v) }

// write calls format with a syntax tree that has the references in the places of the names.
func (m *enumText) write(format func() string) string {
	if m == nil || len(m.values)+len(m.casts) == 0 {
		return format()
	}
	direct := map[*tree.StrVal]bool{}
	for n, t := range m.casts {
		defer func(was tree.CastExpr) { *n = was }(*n)
		n.Type = reference(t)
		if n.SyntaxMode == tree.CastPrepend {
			n.SyntaxMode = tree.CastShort
		}
		if v, ok := n.Expr.(*tree.StrVal); ok {
			direct[v] = true
		}
	}
	// The tree has no room for another way to write a constant, so it gets a mark that nothing else in the text has.
	mark := "enum"
	for plain := format(); strings.Contains(plain, mark); {
		mark += "_"
	}
	var replace []string
	for n, t := range m.values {
		defer func(was tree.StrVal) { *n = was }(*n)
		text := parse.QuoteLiteral(n.RawString())
		if !direct[n] {
			text += "::" + t.Reference()
		}
		this := mark + strconv.Itoa(len(replace)) + "m"
		*n = *tree.NewStrVal(this)
		replace = append(replace, "'"+this+"'", text)
	}
	return strings.NewReplacer(replace...).Replace(format())
}
