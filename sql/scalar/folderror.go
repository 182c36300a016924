package scalar

import (
	"errors"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// FoldError is the error of a constant part of e that is evaluated before any row is read: PostgreSQL's planner evaluates those that AND, OR, CASE and COALESCE do not leave
// out for what other constants are, so that WHERE 1/0 = 1 fails for an empty table too. A part that needs much memory is left to the execution.
func FoldError(e Expr) error {
	_, err := FoldCondition(e)
	return err
}

// FoldCondition is FoldError of a condition. It reports, too, whether the condition is a constant that is false, after which AND leaves out the rest.
func FoldCondition(e Expr) (never bool, err error) {
	switch x := e.(type) {
	case *Column, *Placeholder, nil:
		return false, nil
	case *Compare:
		if _, ok := x.Left.(*Column); ok { // most conditions
			return false, FoldError(x.Right)
		}
	case *Const:
		return x.Value.Phys() == types.PhysBool && !x.Value.Bool(), nil
	}
	n, err := foldStrict(e)
	if k, ok := n.(*Const); ok && err == nil {
		never = k.Value.Phys() == types.PhysBool && !k.Value.Bool()
	}
	return never, err
}

// foldStrict folds e, up to the first error.
func foldStrict(e Expr) (Expr, error) {
	switch x := e.(type) {
	case *And:
		return strictJunction(x, x.Args, true)
	case *Or:
		return strictJunction(x, x.Args, false)
	case *Case:
		return strictCase(x)
	case *Coalesce:
		for i, a := range x.Args {
			n, err := foldStrict(a)
			if err != nil {
				return nil, err
			}
			if k, ok := n.(*Const); ok && !k.Value.IsNull() {
				if i == 0 {
					return n, nil
				}
				break
			}
		}
		return e, nil
	}
	children := Children(e)
	folded := children
	for i, c := range children {
		n, err := foldStrict(c)
		if err != nil {
			return nil, err
		}
		if n != c {
			if &folded[0] == &children[0] {
				folded = append([]Expr(nil), children...)
			}
			folded[i] = n
		}
	}
	n := e
	if len(children) > 0 && &folded[0] != &children[0] {
		n = WithChildren(e, folded)
	}
	n, err := foldStep(n)
	if se := (*sqlstate.Error)(nil); errors.As(err, &se) && (se.Code[:2] == "53" || se.Code[:2] == "54") {
		return e, nil
	}
	return n, err
}

// strictJunction evaluates the arguments of AND, or OR, up to the one that decides.
func strictJunction(e Expr, args []Expr, and bool) (Expr, error) {
	constant := true
	for _, a := range args {
		n, err := foldStrict(a)
		if err != nil {
			return nil, err
		}
		k, ok := n.(*Const)
		if ok && !k.Value.IsNull() && k.Value.Bool() != and {
			return n, nil
		}
		constant = constant && ok
	}
	if constant {
		return Fold(e), nil
	}
	return e, nil
}

// strictCase evaluates the branches up to one whose condition is always true, without those whose condition never is.
func strictCase(e *Case) (Expr, error) {
	reached := false // by a condition that is not constant
	for _, w := range e.Whens {
		c, err := foldStrict(w.Cond)
		if err != nil {
			return nil, err
		}
		k, constant := c.(*Const)
		if constant && (k.Value.IsNull() || !k.Value.Bool()) {
			continue
		}
		n, err := foldStrict(w.Result)
		switch {
		case err != nil:
			return nil, err
		case constant && reached:
			return e, nil
		case constant:
			return n, nil
		}
		reached = true
	}
	if e.Else == nil {
		return foldCase(e), nil
	}
	n, err := foldStrict(e.Else)
	if err != nil || reached {
		return e, err
	}
	return n, nil
}
