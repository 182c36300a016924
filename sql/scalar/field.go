package scalar

import "meridian/sql/types"

// fieldOf is (row).name: the row, the number of the field, and its name for printing.
var fieldOf = (&Overload{Name: "field", Args: []*types.T{types.Record, types.Int4, types.Name}, Return: types.Any}).setN(
	func(_ *Context, a []types.Datum) (types.Datum, error) {
		if t := a[0].Tuple(); int(a[1].Int()) < len(t.Elems) {
			return t.Elems[a[1].Int()], nil
		}
		return types.Null, nil
	})

// FieldNamed selects a field of a row value by its name in the given type; nil if the type has none of that name.
func FieldNamed(row Expr, t *types.T, name string) Expr {
	for i, n := range t.Names {
		if n != name {
			continue
		}
		if r, ok := row.(*RowCtor); ok && VolatilityOf(r) != Volatile {
			return r.Elems[i]
		}
		return FieldAt(row, i)
	}
	return nil
}

// FieldAt selects a field of a row value whose type has names.
func FieldAt(row Expr, i int) Expr {
	t := row.Type()
	return &Call{Func: fieldOf, T: t.Fields[i], Args: []Expr{row, &Const{Value: types.NewInt(int64(i)), T: types.Int4},
		&Const{Value: types.NewString(t.Names[i]), T: types.Name}}}
}
