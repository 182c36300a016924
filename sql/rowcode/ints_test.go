package rowcode_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"meridian/sql/catalog"
	"meridian/sql/rowcode"
	"meridian/sql/types"
)

// TestAddInts: what is added to a value without knowing its table is what the table's own decoder finds, and nothing else changes.
func TestAddInts(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		tab := &catalog.Table{ID: 7, Name: "t", Indexes: []catalog.Index{{ID: 1, Name: "p", Primary: true, Unique: true}}}
		tab.Indexes[0].Columns = []catalog.IndexColumn{{Column: 1}}
		row := types.Row{types.NewInt(1)}
		tab.Columns = append(tab.Columns, catalog.Column{ID: 1, Name: "id", Type: types.Int8, State: catalog.Public})
		id := catalog.ColumnID(1)
		for range 1 + dice.IntN(6) {
			id += catalog.ColumnID(1 + dice.IntN(40))
			typ, d := types.Int8, types.NewInt(dice.Int64()-dice.Int64())
			switch dice.IntN(4) {
			case 0:
				typ, d = types.Text, types.NewString("some text")
			case 1:
				d = types.Null
			}
			tab.Columns = append(tab.Columns, catalog.Column{ID: id, Name: "c", Type: typ, State: catalog.Public})
			row = append(row, d)
		}
		ords := make([]int, len(row))
		for i := range ords {
			ords[i] = i
		}
		x, err := rowcode.NewIndex(tab, &tab.Indexes[0])
		if err != nil {
			t.Fatal(err)
		}
		value := x.AppendValue(nil, row)
		at := 1 + dice.IntN(len(row)-1)
		c := tab.Columns[at].ID
		was, ok := rowcode.Int(value, c)
		if isInt := !row[at].IsNull() && row[at].Phys() == types.PhysInt; ok != isInt || ok && was != row[at].Int() {
			t.Fatalf("%v: %d, %v", row, was, ok)
		}
		if _, ok := rowcode.Int(value, id+1); ok {
			t.Fatal("a column that is not there")
		}
		// The sum fits, though its parts overflow.
		out, err := rowcode.AddInts(value, []rowcode.Addend{{c, math.MaxInt64}, {c, 5}, {c, -math.MaxInt64}})
		if (err == nil) != ok {
			t.Fatal(err)
		}
		if !ok {
			continue
		}
		want := append(types.Row{}, row...)
		want[at] = types.NewInt(was + 5)
		if got := x.AppendValue(nil, want); string(out) != string(got) {
			t.Fatalf("%v: %x, want %x", row, out, got)
		}
	}
}
