package bind

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/parse"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// viewText collects the meaning of the names and literals of a view's query while the query is bound, and writes the stored text, which has the
// same meaning in any session, and after objects were renamed: relations have their schemas, enums are named by identity, each
// constant of an enum is written with its type (parse.TypeReferences), and a constant that names a relation, as nextval's, has its number. A nil *viewText, of a query that is not
// stored, collects nothing.
type viewText struct {
	tables   map[*tree.TableName]*catalog.Table
	literals map[*scalar.Const]*tree.StrVal
	values   map[*tree.StrVal]*types.T   // literals that are constants of an enum
	casts    map[*tree.CastExpr]*types.T // casts to enums
	objects  map[*tree.StrVal]catalog.ID // literals that are relations
	regs     map[*tree.StrVal]bool       // literals that the text casts to regclass
	keyed    []catalog.ID                // relations by whose primary key the query groups
	typed    []catalog.ID                // relations whose rows' type the query names
}

func newViewText() *viewText {
	return &viewText{tables: map[*tree.TableName]*catalog.Table{}, literals: map[*scalar.Const]*tree.StrVal{},
		values: map[*tree.StrVal]*types.T{}, casts: map[*tree.CastExpr]*types.T{}, objects: map[*tree.StrVal]catalog.ID{}, regs: map[*tree.StrVal]bool{}}
}

// resolved notes the relation for which a name stands.
func (v *viewText) resolved(n *tree.TableName, t *catalog.Table) {
	if v != nil {
		v.tables[n] = t
	}
}

// literal notes the constant of a literal.
func (v *viewText) literal(n *tree.StrVal, k *scalar.Const) {
	if v != nil {
		v.literals[k] = n
	}
}

// coerced notes that an expression gets a type.
func (v *viewText) coerced(e scalar.Expr, to *types.T) {
	if v == nil || !to.IsEnum() {
		return
	}
	if k, ok := e.(*scalar.Const); ok && v.literals[k] != nil {
		v.values[v.literals[k]] = to
	}
}

// became notes that a constant was replaced by one of another type for the same literal.
func (v *viewText) became(from, to scalar.Expr) {
	if v == nil {
		return
	}
	if k, ok := from.(*scalar.Const); ok && v.literals[k] != nil {
		if now, ok := to.(*scalar.Const); ok {
			v.literals[now] = v.literals[k]
		}
	}
}

// cast notes the type that a cast names.
func (v *viewText) cast(n *tree.CastExpr, to *types.T) {
	if v == nil {
		return
	}
	if to.IsEnum() {
		v.casts[n] = to
	}
	if k, ok := n.Expr.(*tree.StrVal); ok && to.Kind == types.KindRegClass {
		v.regs[k] = true
	}
}

// object notes the relation that a constant names.
func (v *viewText) object(k *scalar.Const, t *catalog.Table) {
	if v != nil && v.literals[k] != nil && t.Kind != catalog.KindVirtual {
		v.objects[v.literals[k]] = t.ID
	}
}

// rowType notes that the query names the type of a relation's rows.
func (v *viewText) rowType(t *catalog.Table) {
	if v != nil && t.Kind != catalog.KindVirtual {
		v.typed = append(v.typed, t.ID)
	}
}

// groups notes that the query relies on the primary key of a relation.
func (v *viewText) groups(t *catalog.Table) {
	if v != nil && !slices.Contains(v.keyed, t.ID) {
		v.keyed = append(v.keyed, t.ID)
	}
}

// relations are the dependencies of a statement that the query itself names, without those of views in it.
func (v *viewText) relations(depends []opt.Dependency) (named []catalog.ID) {
	ids := map[catalog.ID]bool{}
	for _, t := range v.tables {
		if t.Kind != catalog.KindVirtual {
			ids[t.ID] = true
		}
	}
	for _, id := range v.objects {
		ids[id] = true
	}
	for _, id := range v.typed {
		ids[id] = true
	}
	for _, d := range depends {
		if ids[d.ID] {
			named = append(named, d.ID)
		}
	}
	return named
}

// write returns the text of the query. It refuses a query whose text the parser could not parse again.
func (v *viewText) write(sel *tree.Select, name func(*catalog.Table) Name) (string, error) {
	text := v.withReferences(func() string {
		ctx := tree.NewFmtCtx(tree.FmtParsable, tree.FmtReformatTableNames(func(ctx *tree.FmtCtx, n *tree.TableName) {
			if t := v.tables[n]; t != nil {
				ctx.WriteString(name(t).Quoted())
				return
			}
			ctx.WriteString(Name{Schema: string(n.SchemaName), Name: string(n.ObjectName)}.Quoted())
		}))
		ctx.FormatNode(sel)
		return parse.TypeNames(ctx.CloseAndGetString())
	})
	if _, err := parse.ParseOne(text); err != nil {
		e := sqlstate.New(sqlstate.FeatureNotSupported, "this query is not supported in a view")
		e.Cause = err
		return "", e
	}
	return text, nil
}

// withReferences calls format while the syntax tree has the references of enums and of relations in place of their names.
func (v *viewText) withReferences(format func() string) string {
	if len(v.values)+len(v.casts)+len(v.objects) == 0 {
		return format()
	}
	direct := map[*tree.StrVal]bool{}
	for n, t := range v.casts {
		defer func(was tree.CastExpr) { *n = was }(*n)
		n.Type = reference(t)
		if n.SyntaxMode == tree.CastPrepend {
			n.SyntaxMode = tree.CastShort
		}
		if k, ok := n.Expr.(*tree.StrVal); ok {
			direct[k] = true
		}
	}
	// The tree can't express the reference in a constant, so the constant gets a mark that occurs nowhere else in the text.
	mark := "named"
	for plain := format(); strings.Contains(plain, mark); {
		mark += "_"
	}
	var replace []string
	write := func(n *tree.StrVal, text string) (restore func()) {
		was, this := *n, mark+strconv.Itoa(len(replace))+"m"
		*n = *tree.NewStrVal(this)
		replace = append(replace, "'"+this+"'", text)
		return func() { *n = was }
	}
	for n, t := range v.values {
		text := parse.QuoteLiteral(n.RawString())
		if !direct[n] {
			text += "::" + t.Reference()
		}
		defer write(n, text)()
	}
	for n, id := range v.objects {
		text := parse.QuoteLiteral(strconv.Itoa(int(id)))
		if !v.regs[n] {
			text += "::regclass"
		}
		defer write(n, text)()
	}
	return strings.NewReplacer(replace...).Replace(format())
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
