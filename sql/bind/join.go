package bind

import (
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// join binds a JOIN.
func (b *builder) join(n *tree.JoinTableExpr, sc *scope, lateral []*scope) (opt.Rel, part) {
	if n.Hint != "" {
		b.fail(sqlstate.FeatureNotSupported, nil, "join hint %s is not supported", n.Hint)
	}
	l, lp := b.tableExpr(n.Left, sc, lateral)
	lp.level = sc.level
	r, rp := b.tableExpr(n.Right, sc, append(append([]*scope(nil), lateral...), lp.scope))
	rp.level = sc.level
	b.uniqueAliases(lp.scope, rp)
	j := &opt.Join{Left: l, Right: r, Lateral: rp.lateralOf(lp.scope)}
	switch strings.ToUpper(n.JoinType) {
	case tree.AstLeft:
		j.Kind = opt.LeftJoin
	case tree.AstRight:
		j.Kind = opt.RightJoin
	case tree.AstFull:
		j.Kind = opt.FullJoin
	}
	if j.Lateral && (j.Kind == opt.RightJoin || j.Kind == opt.FullJoin) {
		raise(sqlstate.New(sqlstate.InvalidColumnReference, "invalid reference to FROM-clause entry for table \"%s\"", lp.rels[0].alias).
			WithDetail("The combining JOIN type must be INNER or LEFT for a LATERAL reference."))
	}
	s := &scope{}
	s.rels = append(append(s.rels, lp.rels...), rp.rels...)
	var using []string
	switch cond := n.Cond.(type) {
	case tree.NaturalJoinCond, *tree.NaturalJoinCond:
		for i := range lp.cols {
			lc := &lp.cols[i]
			if lc.hidden || lc.qualified {
				continue
			}
			for k := range rp.cols {
				if rc := &rp.cols[k]; !rc.hidden && !rc.qualified && rc.name == lc.name {
					using = append(using, lc.name)
					break
				}
			}
		}
	case *tree.UsingJoinCond:
		for _, c := range cond.Cols {
			using = append(using, string(c))
		}
	case *tree.OnJoinCond:
		s.add(lp.scope)
		s.rels = s.rels[:len(lp.rels)+len(rp.rels)]
		s.cols = append(s.cols, rp.cols...)
		on := &scope{parent: sc.parent, level: sc.level, ctes: sc.ctes, cols: s.cols, rels: s.rels}
		c := &exprContext{scope: on, clause: "JOIN conditions"}
		if len(lateral) > 0 && len(lateral[0].cols) > 0 {
			// Names of items before the join are visible too, if not hidden by the join's own.
			on.parent = &scope{parent: sc.parent, level: sc.level, ctes: sc.ctes, cols: lateral[0].cols, rels: lateral[0].rels}
		}
		j.On = scalar.Conjuncts(b.boolean(c, cond.Expr))
		if on.parent != nil && on.parent.level == sc.level {
			b.noBeside(j, on, s)
		}
	}
	if len(s.cols) == 0 {
		b.merge(j, using, lp.scope, rp.scope, s)
	}
	missing := func(side *opt.Rel, of part) {
		o := &outerSide{rel: side}
		for _, r := range of.rels {
			if r.outer == nil {
				r.outer = o
			}
		}
	}
	if j.Kind == opt.LeftJoin || j.Kind == opt.FullJoin {
		missing(&j.Right, rp)
	}
	if j.Kind == opt.RightJoin || j.Kind == opt.FullJoin {
		missing(&j.Left, lp)
	}
	reads := append(append([]opt.ColumnID(nil), lp.reads...), rp.reads...)
	return j, part{scope: s, reads: reads}
}

// noBeside refuses ON conditions that read items outside their join.
func (b *builder) noBeside(j *opt.Join, on, own *scope) {
	for _, f := range j.On {
		scalar.Columns(f, func(id opt.ColumnID) {
			for i := range on.parent.cols {
				c := &on.parent.cols[i]
				if c.id != id {
					continue
				}
				alias := c.name
				if c.rel != nil {
					alias = c.rel.alias
				}
				raise(b.at(sqlstate.New(sqlstate.UndefinedTable, "invalid reference to FROM-clause entry for table \"%s\"", alias).
					WithHint("There is an entry for table \"%s\", but it cannot be referenced from this part of the query.", alias), alias))
			}
		})
	}
	_ = own
}

// merge arranges the columns of a join: those of USING once, then the rest of both sides.
func (b *builder) merge(j *opt.Join, using []string, l, r *scope, s *scope) {
	side := func(sc *scope, name, which string) *column {
		var found *column
		for i := range sc.cols {
			c := &sc.cols[i]
			if c.name != name || c.qualified {
				continue
			}
			if found != nil {
				b.fail(sqlstate.AmbiguousColumn, name, "common column name \"%s\" appears more than once in %s table", name, which)
			}
			found = c
		}
		if found == nil {
			b.fail(sqlstate.UndefinedColumn, nil, "column \"%s\" specified in USING clause does not exist in %s table", name, which)
		}
		return found
	}
	var merged []column
	for _, name := range using {
		lc, rc := side(l, name, "left"), side(r, name, "right")
		t := types.Common(lc.t, rc.t)
		if t == nil {
			b.fail(sqlstate.DatatypeMismatch, name, "JOIN/USING types %s and %s cannot be matched", lc.t.Name(), rc.t.Name())
		}
		j.On = append(j.On, b.compare(scalar.EQ, lc.ref(), rc.ref(), name))
		m := column{name: name, t: t}
		le := b.coerce(lc.ref(), t, types.CastImplicit, name)
		re := b.coerce(rc.ref(), t, types.CastImplicit, name)
		switch j.Kind {
		case opt.RightJoin:
			m.expr = re
		case opt.FullJoin:
			m.expr = &scalar.Coalesce{Args: []scalar.Expr{le, re}, T: t}
		default:
			m.expr = le
		}
		if c, ok := m.expr.(*scalar.Column); ok {
			m.id = c.ID
		}
		merged = append(merged, m)
		lc.qualified, rc.qualified = true, true
	}
	s.cols = append(append(merged, l.cols...), r.cols...)
}
