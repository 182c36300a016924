package types

import "testing"

// TestWeightOfNestedRows: the text of rows in rows doubles with each level, and their weight includes that.
func TestWeightOfNestedRows(t *testing.T) {
	row := func(d Datum) Datum { return NewTuple(&Tuple{Types: []*T{nil}, Elems: []Datum{d}}) }
	d := NewString(`"`)
	for depth := range 60 {
		w := d.Weight()
		if depth < 18 {
			if text := int64(len(AppendText(nil, d, nil, nil))); text >= LargeBytes && w < text {
				t.Errorf("depth %d: a text of %d bytes weighs %d", depth, text, w)
			}
		} else if w < 1<<min(depth, 39) || w > 4*textBytesMax {
			t.Errorf("depth %d weighs %d", depth, w)
		}
		if depth%3 == 2 {
			d = NewArray(&Array{Elem: Text, Elems: []Datum{d}})
		} else {
			d = row(d)
		}
	}
	plain := row(NewString("x"))
	if plain.Weight() != 0 {
		t.Error("a small row weighs something")
	}
}
