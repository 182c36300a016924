package scalar

import (
	"testing"

	"meridian/sql/types"
)

// TestFoldError: the constant parts that PostgreSQL's planner evaluates fail without a row, and those that it leaves out do not.
func TestFoldError(t *testing.T) {
	r := NewRegistry()
	num := func(n int64) Expr { return &Const{types.NewInt(n), types.Int4} }
	yes, no := &Const{types.NewBool(true), types.Bool}, &Const{types.NewBool(false), types.Bool}
	col := &Column{ID: 1, T: types.Bool}
	div, err := r.NewOperator("/", num(1), num(0))
	if err != nil {
		t.Fatal(err)
	}
	bad := &Compare{Op: EQ, Left: div, Right: num(1)}
	when := func(c, x Expr) When { return When{Cond: c, Result: x} }
	for _, c := range []struct {
		name string
		e    Expr
		want bool
	}{
		{"1/0", div, true},
		{"1/0 = 1", bad, true},
		{"c AND 1/0 = 1", &And{[]Expr{col, bad}}, true},
		{"false AND 1/0 = 1", &And{[]Expr{no, bad}}, false},
		{"1/0 = 1 AND false", &And{[]Expr{bad, no}}, true},
		{"true OR 1/0 = 1", &Or{[]Expr{yes, bad}}, false},
		{"c OR 1/0 = 1", &Or{[]Expr{col, bad}}, true},
		{"NOT 1/0 = 1", &Not{bad}, true},
		{"CASE WHEN true THEN 1 ELSE 1/0 END", &Case{Whens: []When{when(yes, num(1))}, Else: div, T: types.Int4}, false},
		{"CASE WHEN false THEN 1/0 END", &Case{Whens: []When{when(no, div)}, T: types.Int4}, false},
		{"CASE WHEN c THEN 1/0 END", &Case{Whens: []When{when(col, div)}, T: types.Int4}, true},
		{"CASE WHEN c THEN 1 ELSE 1/0 END", &Case{Whens: []When{when(col, num(1))}, Else: div, T: types.Int4}, true},
		{"CASE WHEN c THEN 1 WHEN true THEN 2 ELSE 1/0 END", &Case{Whens: []When{when(col, num(1)), when(yes, num(2))}, Else: div, T: types.Int4}, false},
		{"coalesce(1, 1/0)", &Coalesce{[]Expr{num(1), div}, types.Int4}, false},
		{"coalesce(NULL, 1/0)", &Coalesce{[]Expr{&Const{types.Null, types.Int4}, div}, types.Int4}, true},
		{"$1 / 0", &Compare{Op: EQ, Left: &Placeholder{Index: 0, T: types.Int4}, Right: num(0)}, false},
		{"c = (1/0)", &Compare{Op: EQ, Left: &Column{ID: 2, T: types.Int4}, Right: div}, true},
	} {
		if err := FoldError(c.e); (err != nil) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
