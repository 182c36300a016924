package bind

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// scope has the names that an expression can see: those of one FROM clause, and then its parent's.
type scope struct {
	parent *scope
	level  *level
	cols   []column
	rels   []*relation
	ctes   *cte // visible common table expressions, innermost first
}

// relation is one entry of a FROM clause.
type relation struct {
	alias string
	table *catalog.Table
	// bare is the table or view that the statement names without an alias: a name with a schema may refer to it.
	bare *catalog.Table
	// single: the relation is a function that returns a value instead of a row; its name stands for the value.
	single bool
	// outer is the side of an outer join in which the relation is, and for which the join may return NULLs; the innermost, nil: none. An alias of a
	// join has none: its row is made of the columns, as PostgreSQL makes it.
	outer  *outerSide
	joined bool
	// row is the relation that has the type of the row; nil: the row is a record.
	row *catalog.Table
	// target is the table if the statement changes it: reading it needs a right of its own.
	target *catalog.Table
}

// column is one visible column.
type column struct {
	name string
	rel  *relation
	id   opt.ColumnID
	t    *types.T
	// expr replaces a reference to the column, where it is not simply id.
	expr scalar.Expr
	// hidden columns are not part of *.
	hidden bool
	// fields are the columns of a row value.
	fields []column
	// qualified columns are found only as table.column: they were merged by USING.
	qualified bool
}

func (c *column) ref() scalar.Expr {
	if c.expr == nil {
		c.expr = &scalar.Column{ID: c.id, T: c.t, Name: c.name}
	}
	return c.expr
}

// output is a bound query: its relation, its visible columns, and its order.
type output struct {
	rel   opt.Rel
	cols  []outColumn
	order []opt.OrderColumn
	locks *lockList // for a locking clause of an enclosing query
}

type outColumn struct {
	name   string
	id     opt.ColumnID
	t      *types.T
	fields []column
	// item computes the column, if its type can still be changed there: it is an untyped literal or parameter.
	item *opt.ProjectItem
}

// child makes the scope of a query nested in s.
func (s *scope) child() *scope {
	return &scope{parent: s, level: &level{parent: s.level}, ctes: s.ctes}
}

// add appends the columns of o.
func (s *scope) add(o *scope) {
	s.cols = append(s.cols, o.cols...)
	s.rels = append(s.rels, o.rels...)
}

// resolveName resolves a name of one to four parts.
func (b *builder) resolveName(s *scope, n *tree.UnresolvedName) scalar.Expr {
	name := n.Parts[0]
	if n.NumParts == 1 {
		for sc := s; sc != nil; sc = sc.parent {
			if c := b.findColumn(sc, name, n); c != nil {
				if sc.level != s.level {
					s.level.readsColumn(sc.level, c)
				}
				b.reads(c.rel)
				return c.ref()
			}
		}
		// A relation's name stands for its whole row.
		for sc := s; sc != nil; sc = sc.parent {
			for _, r := range sc.rels {
				if r.alias == name {
					return b.wholeRow(s, sc, r)
				}
			}
		}
		if name == "tableoid" && len(s.rels) == 1 && s.rels[0].table != nil {
			b.reads(s.rels[0])
			return tableOID(s.rels[0].table)
		}
		b.unknownColumn(s, "", name, n)
	}
	if n.NumParts > 4 {
		b.fail(sqlstate.SyntaxError, n, "improper qualified name (too many dotted names)")
	}
	for sc := s; sc != nil; sc = sc.parent {
		r := b.findRelation(sc, n)
		if r == nil {
			continue
		}
		for i := range sc.cols {
			if c := &sc.cols[i]; c.rel == r && c.name == name {
				if sc.level != s.level {
					s.level.readsColumn(sc.level, c)
				}
				b.reads(r)
				return c.ref()
			}
		}
		if name == "tableoid" && r.table != nil {
			b.reads(r)
			return tableOID(r.table)
		}
		b.unknownColumn(sc, r.alias, name, n)
	}
	b.missingFrom(s, n.Parts[1], n)
	return nil
}

// findColumn finds an unqualified name in one scope.
func (b *builder) findColumn(sc *scope, name string, at any) *column {
	var found *column
	for i := range sc.cols {
		c := &sc.cols[i]
		if c.name != name || c.qualified {
			continue
		}
		if found != nil {
			b.fail(sqlstate.AmbiguousColumn, at, "column reference \"%s\" is ambiguous", name)
		}
		found = c
	}
	return found
}

// findRelation finds the relation of one scope that qualifies a column's name; nil: there is none.
func (b *builder) findRelation(sc *scope, n *tree.UnresolvedName) *relation {
	alias := n.Parts[1]
	var named *catalog.Table
	if n.Parts[2] != "" {
		if named = b.qualifier(n); named == nil {
			return nil
		}
	}
	var found *relation
	for _, r := range sc.rels {
		if named == nil && r.alias != alias || named != nil && (r.bare == nil || r.bare.ID != named.ID) {
			continue
		}
		if found != nil {
			b.fail("42P09", n, "table reference \"%s\" is ambiguous", alias)
		}
		found = r
	}
	return found
}

// qualifier is the table that the qualifier of a column's name, with its schema, stands for; nil: there is none. As in PostgreSQL, no right is
// needed to name it.
func (b *builder) qualifier(n *tree.UnresolvedName) *catalog.Table {
	database := n.Parts[3]
	if database != "" && database != b.View.CurrentDatabase() && (b.home == nil || database != b.databaseOf(b.home)) {
		column := n.Parts[0]
		if n.Star {
			column = "*"
		}
		b.fail(sqlstate.FeatureNotSupported, n, "cross-database references are not implemented: %s", strings.Join([]string{database, n.Parts[2], n.Parts[1], column}, "."))
	}
	if database == "" {
		if database = b.View.CurrentDatabase(); b.home != nil {
			database = b.databaseOf(b.home)
		}
	}
	if b.draft != nil && b.draftName == (Name{Database: database, Schema: n.Parts[2], Name: n.Parts[1]}) {
		return b.draft
	}
	t, err := b.View.Table(b.ctx, database, n.Parts[2], n.Parts[1])
	check(err)
	if t == nil && n.Parts[2] == database {
		t, err = b.View.Table(b.ctx, database, "public", n.Parts[1]) // database.table, as relation has it
		check(err)
	}
	return t
}

// tableOID is the system column of that name; the other system columns do not exist here.
func tableOID(t *catalog.Table) scalar.Expr {
	return &scalar.Const{Value: types.NewInt(int64(t.ID)), T: types.OID}
}

// wholeRow is the row value of a relation.
func (b *builder) wholeRow(s, sc *scope, r *relation) scalar.Expr {
	b.reads(r)
	row := &scalar.RowCtor{T: &types.T{Kind: types.KindTuple}}
	for i := range sc.cols {
		c := &sc.cols[i]
		if c.rel != r || c.hidden {
			continue
		}
		if sc.level != s.level {
			s.level.readsColumn(sc.level, c)
		}
		row.Elems = append(row.Elems, c.ref())
		row.T.Fields = append(row.T.Fields, c.t)
		row.T.Names = append(row.T.Names, c.name)
	}
	if len(row.Elems) == 1 && r.single {
		return row.Elems[0]
	}
	if r.row != nil && r.row.Kind != catalog.KindSequence {
		// The fields have the relation's names for the columns, whatever the statement calls them.
		if t := b.rowOf(r.row); len(t.Fields) == len(row.Elems) {
			if !slices.Equal(t.Names, row.T.Names) {
				if b.renamedRows == nil {
					b.renamedRows = map[scalar.Expr][]string{}
				}
				b.renamedRows[row] = row.T.Names
			}
			t.Fields = row.T.Fields
			row.T = t
		}
	}
	if r.outer == nil || r.joined {
		return row
	}
	there := b.presence(sc, r)
	if sc.level != s.level {
		s.level.reads(sc.level, there)
	}
	x := &scalar.Case{Whens: []scalar.When{{Cond: &scalar.IsNull{Arg: &scalar.Column{ID: there, T: b.meta.Column(there).Type}, Negate: true}, Result: row}}, T: row.T}
	if b.nullableRows == nil {
		b.nullableRows = map[*scalar.Case]*scalar.RowCtor{}
	}
	b.nullableRows[x] = row
	if names := b.renamedRows[row]; names != nil {
		b.renamedRows[x] = names
	}
	return x
}

// outerSide is a side of an outer join. Its marker is a column that is true in its rows, and NULL where the join has found none.
type outerSide struct {
	rel    *opt.Rel
	marker opt.ColumnID
}

// presence is a column that is NULL where an outer join has found no row of a relation, and only there.
func (b *builder) presence(sc *scope, r *relation) opt.ColumnID {
	if r.table != nil && len(r.table.Indexes) > 0 {
		for i := range sc.cols {
			c := &sc.cols[i]
			if c.rel == r && c.id != 0 && b.meta.Column(c.id).Column == r.table.Primary().Columns[0].Column {
				if c.hidden {
					b.mark(c.id, r)
				}
				return c.id
			}
		}
	}
	o := r.outer
	if o.marker == 0 {
		o.marker = b.meta.Add(opt.ColumnMeta{Name: "present", Type: types.Bool})
		p := &opt.Project{Input: *o.rel, Items: []opt.ProjectItem{{Col: o.marker, Expr: &scalar.Const{Value: types.NewBool(true), T: types.Bool}}}}
		for id := range produced(*o.rel) {
			p.Pass = append(p.Pass, id)
		}
		slices.Sort(p.Pass)
		*o.rel = p
	}
	b.mark(o.marker, r)
	return o.marker
}

// mark notes that a column which no name stands for tells whether there is a row of the relation.
func (b *builder) mark(id opt.ColumnID, r *relation) {
	if b.markers == nil {
		b.markers = map[opt.ColumnID]*relation{}
	}
	b.markers[id] = r
}

// fieldsOf are the fields of a row constructor, or of a relation's row, which may be NULL; nil: it is another expression.
func (b *builder) fieldsOf(x scalar.Expr) *scalar.RowCtor {
	switch x := x.(type) {
	case *scalar.RowCtor:
		return x
	case *scalar.Case:
		return b.nullableRows[x]
	}
	return nil
}

// unknownColumn raises 42703, with the nearest name as a hint.
func (b *builder) unknownColumn(s *scope, table, name string, at any) {
	shown := "\"" + name + "\""
	if table != "" {
		shown = table + "." + name
	}
	if systemColumn(name) {
		for sc := s; sc != nil; sc = sc.parent {
			if slices.ContainsFunc(sc.rels, func(r *relation) bool { return r.table != nil && (table == "" || r.alias == table) }) {
				raise(b.at(sqlstate.New(sqlstate.FeatureNotSupported, "system column %s is not supported", shown).WithHint("%s", noPlaces), at))
			}
		}
	}
	e := sqlstate.New(sqlstate.UndefinedColumn, "column %s does not exist", shown)
	for lv := s.level; lv != nil; lv = lv.parent {
		for _, sc := range lv.seen {
			for _, r := range sc.rels {
				if (table == "" || r.alias == table) && sc.has(r, name) {
					e.Hint = "There is a column named \"" + name + "\" in table \"" + r.alias + "\", but it cannot be referenced from this part of the query."
					raise(b.at(e, at))
				}
			}
		}
	}
	best, bestName := 4, ""
	limit := utf8.RuneCountInString(name) / 2
	for sc := s; sc != nil; sc = sc.parent {
		for i := range sc.cols {
			c := &sc.cols[i]
			if c.rel == nil || table != "" && c.rel.alias != table || c.hidden {
				continue
			}
			if d := distance(name, c.name, min(best-1, limit)); d < best && d <= limit {
				best, bestName = d, c.rel.alias+"."+c.name
			}
		}
	}
	if bestName != "" {
		e.Hint = "Perhaps you meant to reference the column \"" + bestName + "\"."
	}
	raise(b.at(e, at))
}

// missingFrom raises the error for a qualifier that names no relation of the query.
func (b *builder) missingFrom(s *scope, alias string, at any) {
	e := sqlstate.New(sqlstate.UndefinedTable, "missing FROM-clause entry for table \"%s\"", alias)
	for sc := s; sc != nil; sc = sc.parent {
		for _, r := range sc.rels {
			if r.table != nil && r.table.Name == alias && r.alias != alias {
				e.Message = "invalid reference to FROM-clause entry for table \"" + alias + "\""
				e.Hint = "Perhaps you meant to reference the table alias \"" + r.alias + "\"."
			}
		}
	}
	for lv := s.level; lv != nil && e.Hint == ""; lv = lv.parent {
		for _, sc := range lv.seen {
			for _, r := range sc.rels {
				if r.alias == alias && e.Hint == "" {
					e.Message = "invalid reference to FROM-clause entry for table \"" + alias + "\""
					e.Hint = "There is an entry for table \"" + alias + "\", but it cannot be referenced from this part of the query."
				}
			}
		}
	}
	raise(b.at(e, at))
}

// has reports whether a relation of the scope has a column.
func (s *scope) has(r *relation, name string) bool {
	for i := range s.cols {
		if c := &s.cols[i]; c.rel == r && c.name == name && !c.hidden {
			return true
		}
	}
	for i := 0; r.table != nil && len(s.cols) == 0 && i < len(r.table.Columns); i++ {
		if c := &r.table.Columns[i]; c.Name == name && c.State == catalog.Public && !c.Hidden {
			return true
		}
	}
	return false
}

// distance is the edit distance of two names, or more than limit.
func distance(a, b string, limit int) int {
	if limit < 0 || len(a)-len(b) > limit || len(b)-len(a) > limit || len(a) > 255 || len(b) > 255 {
		return limit + 1
	}
	prev := make([]int, len(b)+1)
	cur := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
		}
		prev, cur = cur, prev
	}
	return prev[len(b)]
}

// cte is a visible common table expression.
type cte struct {
	next *cte
	name string
	id   int
	cols []outColumn
	// inline is the query that is bound again at its only use; scope is the scope of its definition.
	inline tree.Statement
	names  []string
	scope  *scope
	// recursing: its recursive term is being bound.
	recursing bool
}

func (s *scope) findCTE(name string) *cte {
	for c := s.ctes; c != nil; c = c.next {
		if c.name == name {
			return c
		}
	}
	return nil
}
