package bind

import (
	"fmt"
	"math"
	"slices"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// An UPDATE that adds to integer columns, and reads the row for nothing else, commutes with others of its kind (MDCC §3.4): in tables without a leader such updates of one row commit at
// the same time, from every region, for as long as the column keeps within its bounds. These are those of its type and of CHECK constraints on it alone.

// commuting decides whether an UPDATE commutes: it sets Commutes of u, or the reason why each of its writes replaces the whole row. set are the client's assignments, where the
// conditions of WHERE, all the assignments with those that follow from them.
func (b *builder) commuting(u *opt.Update, set, all []opt.SetItem, where scalar.Expr, others string) {
	t := u.Table
	if t.Protocol != catalog.CommitProtocol(kv.FastPaxos) {
		return
	}
	var out []opt.Commuting
	fail := func(format string, args ...any) { u.Physical = fmt.Sprintf(format, args...) }
	switch {
	case others != "":
		fail("%s", others)
		return
	case len(all) > len(set):
		fail("columns are computed from the row")
		return
	}
	for _, s := range set {
		col := &t.Columns[s.Ordinal]
		if !adds(s.Expr, u.Old[s.Ordinal]) {
			fail("\"%s\" is not set to itself plus something that does not depend on the row", col.Name)
			return
		}
		c := opt.Commuting{Ordinal: s.Ordinal, Min: math.MinInt64, Max: math.MaxInt64}
		switch col.Type.Kind {
		case types.KindInt2:
			c.Min, c.Max = math.MinInt16, math.MaxInt16
		case types.KindInt4:
			c.Min, c.Max = math.MinInt32, math.MaxInt32
		case types.KindInt8:
		default:
			fail("\"%s\" is not an integer", col.Name)
			return
		}
		reads := false
		scalar.Columns(where, func(id opt.ColumnID) { reads = reads || id == u.Old[s.Ordinal] })
		if reads {
			fail("WHERE reads \"%s\"", col.Name)
			return
		}
		if x := indexed(t, col.ID); x != "" {
			fail("index \"%s\" has \"%s\"", x, col.Name)
			return
		}
		for i := range u.Checks {
			k := &u.Checks[i]
			uses, alone := false, true
			scalar.Columns(k.Expr, func(id opt.ColumnID) {
				if id == u.New[s.Ordinal] {
					uses = true
				} else {
					alone = false
				}
			})
			if uses && (!alone || !bound(k.Expr, u.New[s.Ordinal], &c)) {
				fail("constraint \"%s\" is more than a bound on \"%s\"", k.Name, col.Name)
				return
			}
		}
		out = append(out, c)
	}
	u.Commutes = out
}

// indexed is the name of an index that has a column in its key, its stored columns or its predicate, other than as a stored column of the primary one.
func indexed(t *catalog.Table, id catalog.ColumnID) string {
	for i := range t.Indexes {
		x := &t.Indexes[i]
		has := slices.ContainsFunc(x.Columns, func(c catalog.IndexColumn) bool { return c.Column == id })
		if !x.Primary {
			has = has || slices.Contains(x.Stored, id) || x.Predicate != ""
		}
		if has {
			return x.Name
		}
	}
	return ""
}

// adds reports whether an expression is a column plus or minus something that reads no column.
func adds(e scalar.Expr, id opt.ColumnID) bool {
	if c, ok := e.(*scalar.Cast); ok {
		return adds(c.Arg, id) // to the column's own type, from a wider one
	}
	call, ok := e.(*scalar.Call)
	if !ok || len(call.Args) != 2 || call.Func.Name != "+" && call.Func.Name != "-" {
		return false
	}
	own := func(e scalar.Expr) bool {
		if c, ok := e.(*scalar.Cast); ok {
			e = c.Arg
		}
		c, ok := e.(*scalar.Column)
		return ok && c.ID == id && integer(c.T)
	}
	free := func(e scalar.Expr) bool {
		none := integer(e.Type())
		scalar.Columns(e, func(opt.ColumnID) { none = false })
		return none && !scalar.HasSubquery(e)
	}
	return own(call.Args[0]) && free(call.Args[1]) || call.Func.Name == "+" && own(call.Args[1]) && free(call.Args[0])
}

func integer(t *types.T) bool {
	return t.Kind == types.KindInt2 || t.Kind == types.KindInt4 || t.Kind == types.KindInt8
}

// bound narrows c by a condition that is a bound on a column, or several of them; false: it is something else.
func bound(e scalar.Expr, id opt.ColumnID, c *opt.Commuting) bool {
	switch e := e.(type) {
	case *scalar.And:
		for _, a := range e.Args {
			if !bound(a, id, c) {
				return false
			}
		}
		return true
	case *scalar.Compare:
		op, v, ok := e.Op, int64(0), false
		if isColumn(e.Left, id) {
			v, ok = constInt(e.Right)
		} else if isColumn(e.Right, id) {
			v, ok = constInt(e.Left)
			op = map[scalar.CmpOp]scalar.CmpOp{scalar.LT: scalar.GT, scalar.LE: scalar.GE, scalar.GT: scalar.LT, scalar.GE: scalar.LE}[op]
		}
		switch {
		case !ok:
			return false
		case op == scalar.GE:
			c.Min = max(c.Min, v)
		case op == scalar.GT && v < math.MaxInt64:
			c.Min = max(c.Min, v+1)
		case op == scalar.LE:
			c.Max = min(c.Max, v)
		case op == scalar.LT && v > math.MinInt64:
			c.Max = min(c.Max, v-1)
		default:
			return false
		}
		return true
	}
	return false
}

func isColumn(e scalar.Expr, id opt.ColumnID) bool {
	if c, ok := e.(*scalar.Cast); ok && integer(c.To) {
		e = c.Arg
	}
	c, ok := e.(*scalar.Column)
	return ok && c.ID == id
}

func constInt(e scalar.Expr) (int64, bool) {
	if c, ok := e.(*scalar.Cast); ok && integer(c.To) {
		e = c.Arg
	}
	c, ok := e.(*scalar.Const)
	if !ok || c.Value.IsNull() || !integer(c.T) {
		return 0, false
	}
	return c.Value.Int(), true
}

// returns reports whether there is a RETURNING clause.
func returns(r tree.ReturningClause) bool {
	_, some := r.(*tree.ReturningExprs)
	return some
}
