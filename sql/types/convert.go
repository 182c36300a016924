package types

// ConvertStrings returns a value with f applied to each string in it: strings of text and JSON, also within arrays and rows.
func ConvertStrings(d Datum, f func(string) (string, error)) (Datum, error) {
	var err error
	each := func(list []Datum) []Datum {
		out := make([]Datum, len(list))
		for i := range list {
			if err == nil {
				out[i], err = ConvertStrings(list[i], f)
			}
		}
		return out
	}
	switch d.phys {
	case PhysString, PhysChar, PhysJSON:
		d.str, err = f(d.str)
	case PhysArray:
		a := *d.Array()
		a.Elems = each(a.Elems)
		return NewArray(&a), err
	case PhysTuple:
		t := *d.Tuple()
		t.Elems = each(t.Elems)
		return NewTuple(&t), err
	}
	return d, err
}
