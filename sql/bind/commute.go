package bind

import (
	"fmt"
	"math"
	"slices"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"

	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// An UPDATE that adds to integer columns, and reads the row for nothing else, commutes with others of its kind (MDCC §3.4): in tables without a leader such updates of one row commit at
// the same time, from every region, for as long as the column keeps within its bounds. These are those of its type and of CHECK constraints on it alone.

// change is what decides whether an UPDATE, or ON CONFLICT DO UPDATE, commutes.
type change struct {
	t *catalog.Table
	// old are the columns of the row as it was, next those of the row as checks see it, and checks the constraints.
	old, next []opt.ColumnID
	checks    []opt.CheckExpr
	// set are the client's assignments, where the conditions of WHERE, and all the assignments with those that follow from them.
	set, all []opt.SetItem
	where    scalar.Expr
	// others is what the statement reads otherwise; empty: nothing.
	others string
}

// commuting are the columns that a statement adds to, or the reason why each of its writes replaces the whole row; neither: the table's protocol makes no use of that.
func (x *change) commuting() (out []opt.Commuting, physical string) {
	t := x.t
	if !t.Protocol.Traits().Commutes {
		return nil, ""
	}
	fail := func(format string, args ...any) ([]opt.Commuting, string) { return nil, fmt.Sprintf(format, args...) }
	switch {
	case x.others != "":
		return fail("%s", x.others)
	case len(x.all) == 0:
		return fail("no column changes")
	case len(x.all) > len(x.set):
		return fail("columns are computed from the row")
	}
	// WHERE holds for the row as it becomes if nobody can add to what it reads at the same time.
	var reads *catalog.Column
	scalar.Columns(x.where, func(id opt.ColumnID) {
		if i := slices.Index(x.old, id); i >= 0 && integer(t.Columns[i].Type) && indexed(t, t.Columns[i].ID) == "" {
			reads = &t.Columns[i]
		}
	})
	for _, s := range x.set {
		col := &t.Columns[s.Ordinal]
		if !x.adds(s.Expr, x.old[s.Ordinal]) {
			return fail("\"%s\" is not set to itself plus something that does not depend on the row", col.Name)
		}
		c := opt.Commuting{Ordinal: s.Ordinal, Min: math.MinInt64, Max: math.MaxInt64}
		switch col.Type.Kind {
		case types.KindInt2:
			c.Min, c.Max = math.MinInt16, math.MaxInt16
		case types.KindInt4:
			c.Min, c.Max = math.MinInt32, math.MaxInt32
		case types.KindInt8:
		default:
			return fail("\"%s\" is not an integer", col.Name)
		}
		if reads != nil {
			return fail("WHERE reads \"%s\"", reads.Name)
		}
		if name := indexed(t, col.ID); name != "" {
			return fail("index \"%s\" has \"%s\"", name, col.Name)
		}
		for i := range t.Foreign {
			if slices.Contains(t.Foreign[i].Columns, col.ID) {
				return fail("foreign key \"%s\" has \"%s\"", t.Foreign[i].Name, col.Name)
			}
		}
		for i := range x.checks {
			k := &x.checks[i]
			uses, alone := false, true
			scalar.Columns(k.Expr, func(id opt.ColumnID) {
				if id == x.next[s.Ordinal] {
					uses = true
				} else {
					alone = false
				}
			})
			if uses && (!alone || !bound(k.Expr, x.next[s.Ordinal], &c)) {
				return fail("constraint \"%s\" is more than a bound on \"%s\"", k.Name, col.Name)
			}
		}
		out = append(out, c)
	}
	return out, ""
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

// adds reports whether an expression is a column plus or minus something that does not read the row.
func (x *change) adds(e scalar.Expr, id opt.ColumnID) bool {
	if c, ok := e.(*scalar.Cast); ok {
		return x.adds(c.Arg, id) // to the column's own type, from a wider one
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
		scalar.Columns(e, func(id opt.ColumnID) { none = none && !slices.Contains(x.old, id) })
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

// commutingConflict decides whether DO UPDATE commutes. asked are the client's assignments.
func (b *builder) commutingConflict(ins *opt.Insert, asked []opt.SetItem, returns bool) {
	c := ins.Conflict
	x := change{t: ins.Table, old: c.Existing, next: ins.New, checks: c.Checks, set: asked, all: slices.Concat(c.Set, c.Generated), where: scalar.Conjoin(c.Where)}
	switch {
	case len(asked) == 0:
		x.others = "UPSERT sets columns to what it is given"
	case returns:
		x.others = "RETURNING reads the new row"
	case !given(ins.Input):
		x.others = "the rows, or what they are set to, come from a query"
	}
	c.Commutes, c.Physical = x.commuting()
}

// given reports whether the rows that are inserted are constants of the statement, with nothing that reads the table.
func given(r opt.Rel) bool {
	switch r := r.(type) {
	case *opt.Project:
		return !slices.ContainsFunc(r.Items, func(it opt.ProjectItem) bool { return scalar.HasSubquery(it.Expr) }) && given(r.Input)
	case *opt.Values:
		return !slices.ContainsFunc(r.Rows, func(row []scalar.Expr) bool { return slices.ContainsFunc(row, scalar.HasSubquery) })
	}
	return false
}
