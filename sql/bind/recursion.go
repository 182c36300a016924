package bind

import (
	"reflect"
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/sqlstate"
)

// recursiveWith orders the queries of a WITH RECURSIVE so that each follows those that it reads, and tells which read themselves. Those
// must have the form that PostgreSQL asks for (its checkWellFormedRecursion).
func (b *builder) recursiveWith(w *tree.With) (list []*tree.CTE, self map[*tree.CTE]bool) {
	list = append(list, w.CTEList...)
	self = map[*tree.CTE]bool{}
	names := map[string]*tree.CTE{}
	for _, e := range list {
		names[string(e.Name.Alias)] = e
	}
	reads := map[*tree.CTE]map[*tree.CTE]bool{}
	for _, e := range list {
		of := map[*tree.CTE]bool{}
		reads[e] = of
		(&relationWalk{visit: func(n *tree.TableName, _ place) {
			if x := names[string(n.ObjectName)]; x == e {
				self[e] = true
			} else if x != nil {
				of[x] = true
			}
		}}).walk(e.Stmt)
	}
	for i := range list {
		free := i
		for free < len(list) && len(reads[list[free]]) > 0 {
			free++
		}
		if free == len(list) {
			b.fail(sqlstate.FeatureNotSupported, string(list[i].Name.Alias), "mutual recursion between WITH items is not implemented")
		}
		list[i], list[free] = list[free], list[i]
		for _, e := range list[i+1:] {
			delete(reads[e], list[i])
		}
	}
	for _, e := range list {
		if self[e] {
			b.wellFormed(e)
		}
	}
	return list, self
}

// place is where in a recursive query its name stands.
type place string

const (
	allowedPlace  place = ""
	nonRecursive  place = "its non-recursive term"
	inSubquery    place = "a subquery"
	inOuterJoin   place = "an outer join"
	inIntersect   place = "INTERSECT"
	inExcept      place = "EXCEPT"
	recursionForm       = "recursive query \"%s\" does not have the form non-recursive-term UNION [ALL] recursive-term"
)

// wellFormed checks a query that reads itself.
func (b *builder) wellFormed(e *tree.CTE) {
	name := string(e.Name.Alias)
	sel := recursiveSelect(e.Stmt)
	if sel == nil {
		b.fail(sqlstate.InvalidRecursion, name, "recursive query \"%s\" must not contain data-modifying statements", name)
	}
	u, ok := sel.Select.(*tree.UnionClause)
	if !ok || u.Type != tree.UnionOp {
		b.fail(sqlstate.InvalidRecursion, name, recursionForm, name)
	}
	references := 0
	check := &relationWalk{visit: func(n *tree.TableName, at place) {
		switch {
		case string(n.ObjectName) != name:
		case at != allowedPlace:
			b.fail(sqlstate.InvalidRecursion, n, "recursive reference to query \"%s\" must not appear within %s", name, string(at))
		default:
			if references++; references > 1 {
				b.fail(sqlstate.InvalidRecursion, n, "recursive reference to query \"%s\" must not appear more than once", name)
			}
		}
	}}
	check.at = nonRecursive
	check.walk(u.Left)
	check.at = allowedPlace
	check.walk(u.Right)
	if sel.With != nil {
		check.at = inSubquery
		for _, x := range sel.With.CTEList {
			check.walk(x.Stmt)
		}
	}
	refuse := func(at any, what string) {
		b.fail(sqlstate.FeatureNotSupported, at, "%s in a recursive query is not implemented", what)
	}
	switch {
	case len(sel.OrderBy) > 0:
		refuse(sel.OrderBy[0].Expr, "ORDER BY")
	case sel.Limit != nil && sel.Limit.Offset != nil:
		refuse(sel.Limit.Offset, "OFFSET")
	case sel.Limit != nil:
		refuse(sel.Limit.Count, "LIMIT")
	case len(sel.Locking) > 0:
		refuse(nil, "FOR UPDATE/SHARE")
	}
	b.noLocking(u.Left, notAllowed, "UNION/INTERSECT/EXCEPT")
	b.noLocking(u.Right, notAllowed, "UNION/INTERSECT/EXCEPT")
}

// recursiveSelect is the query of a statement without the parentheses around it; nil if it is another statement.
func recursiveSelect(s tree.Statement) *tree.Select {
	var sel *tree.Select
	switch n := s.(type) {
	case *tree.Select:
		sel = n
	case *tree.ParenSelect:
		sel = n.Select
	default:
		return nil
	}
	for {
		p, ok := sel.Select.(*tree.ParenSelect)
		if !ok || len(sel.OrderBy) > 0 || sel.Limit != nil || len(sel.Locking) > 0 || sel.With != nil && p.Select.With != nil {
			return sel
		}
		in := *p.Select
		if in.With == nil {
			in.With = sel.With
		}
		sel = &in
	}
}

// relationWalk visits the names of relations without a schema that a statement reads, apart from those that an inner WITH defines, in the
// order of the text.
type relationWalk struct {
	visit  func(n *tree.TableName, at place)
	at     place
	hidden []string
}

// within walks a part in another place.
func (w *relationWalk) within(at place, n any) {
	was := w.at
	w.at = at
	w.walk(n)
	w.at = was
}

func (w *relationWalk) walk(n any) {
	switch n := n.(type) {
	case nil:
	case *tree.TableName:
		if n == nil || n.ExplicitSchema {
			return
		}
		for _, h := range w.hidden {
			if h == string(n.ObjectName) {
				return
			}
		}
		w.visit(n, w.at)
	case *tree.Select:
		if n == nil {
			return
		}
		hidden := len(w.hidden)
		w.with(n.With)
		w.walk(n.Select)
		w.walk(n.OrderBy)
		w.walk(n.Limit)
		w.hidden = w.hidden[:hidden]
	case *tree.Insert:
		w.change(n.With, reflect.ValueOf(n).Elem())
	case *tree.Update:
		w.change(n.With, reflect.ValueOf(n).Elem())
	case *tree.Delete:
		w.change(n.With, reflect.ValueOf(n).Elem())
	case *tree.With:
	case *tree.SelectClause:
		w.walk(n.DistinctOn)
		w.walk(n.Exprs)
		w.walk(n.From.Tables)
		w.walk(n.Where)
		w.walk(n.GroupBy)
		w.walk(n.Having)
		w.walk(n.Window)
	case *tree.UnionClause:
		left, right := w.at, w.at
		switch {
		case w.at != allowedPlace:
		case n.Type == tree.IntersectOp && n.All:
			left, right = inIntersect, inIntersect
		case n.Type == tree.ExceptOp:
			if right = inExcept; n.All {
				left = inExcept
			}
		}
		w.within(left, n.Left)
		w.within(right, n.Right)
	case *tree.AliasedTableExpr:
		if q, ok := n.Expr.(*tree.Subquery); ok {
			w.walk(q.Select)
			return
		}
		w.walk(n.Expr)
	case *tree.Subquery:
		w.within(inSubquery, n.Select)
	case *tree.JoinTableExpr:
		left, right := w.at, w.at
		if w.at == allowedPlace {
			switch kind := strings.ToUpper(n.JoinType); kind {
			case tree.AstLeft:
				right = inOuterJoin
			case tree.AstRight:
				left = inOuterJoin
			case tree.AstFull:
				left, right = inOuterJoin, inOuterJoin
			}
		}
		w.within(left, n.Left)
		w.within(right, n.Right)
		w.walk(n.Cond)
	default:
		w.value(reflect.ValueOf(n))
	}
}

// with walks the queries of a WITH, and hides their names until its statement ends.
func (w *relationWalk) with(n *tree.With) {
	if n == nil {
		return
	}
	if n.Recursive {
		for _, e := range n.CTEList {
			w.hidden = append(w.hidden, string(e.Name.Alias))
		}
	}
	for _, e := range n.CTEList {
		w.walk(e.Stmt)
		w.hidden = append(w.hidden, string(e.Name.Alias))
	}
}

// change walks a statement that changes rows: the names of its WITH are hidden in it alone.
func (w *relationWalk) change(with *tree.With, of reflect.Value) {
	hidden := len(w.hidden)
	w.with(with)
	w.fields(of)
	w.hidden = w.hidden[:hidden]
}

// ofTree reports whether a type is one of the syntax tree's.
func ofTree(t reflect.Type) bool { return t.PkgPath() == reflect.TypeFor[tree.Select]().PkgPath() }

// value walks any other part of the syntax tree.
func (w *relationWalk) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return
		}
		if v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct {
			if ofTree(v.Elem().Type()) {
				w.fields(v.Elem())
			}
			return
		}
		w.part(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			w.part(v.Index(i))
		}
	case reflect.Struct:
		if ofTree(v.Type()) {
			w.fields(v)
		}
	}
}

func (w *relationWalk) fields(v reflect.Value) {
	for i := range v.NumField() {
		if v.Type().Field(i).IsExported() {
			w.part(v.Field(i))
		}
	}
}

func (w *relationWalk) part(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			w.walk(v.Interface())
		}
	case reflect.Slice:
		w.value(v)
	case reflect.Struct:
		if v.CanAddr() {
			w.walk(v.Addr().Interface())
		} else {
			w.value(v)
		}
	}
}
