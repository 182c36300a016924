package rowcode_test

import (
	"errors"
	"testing"

	"meridian/sql/catalog"
	"meridian/sql/rowcode"
	"meridian/sql/types"
)

// TestNewerEnumValue: a value of an enum that the reader's version of the table does not know is not corrupt, but newer, in a key, in a value
// and in an array; a value that was renamed is read.
func TestNewerEnumValue(t *testing.T) {
	table := func(e *types.Enum) *catalog.Table {
		return &catalog.Table{ID: 100, NextColumn: 4, Columns: []catalog.Column{
			{ID: 1, Name: "k", Type: types.EnumOf(e), NotNull: true}, {ID: 2, Name: "v", Type: types.EnumOf(e)},
			{ID: 3, Name: "vs", Type: types.ArrayOf(types.EnumOf(e))}},
			Indexes: []catalog.Index{{ID: 1, Primary: true, Unique: true, Columns: []catalog.IndexColumn{{Column: 1}}}}}
	}
	old := &types.Enum{ID: 5, Values: []types.EnumValue{{Label: "a", Place: 10}, {Label: "c", Place: 30}}}
	now := &types.Enum{ID: 5, Values: []types.EnumValue{{Label: "a", Place: 10}, {Label: "b", Place: 20}, {Label: "see", Place: 30}}}
	a, b, c := types.NewInt(10), types.NewInt(20), types.NewInt(30)
	array := func(ds ...types.Datum) types.Datum {
		return types.NewArray(&types.Array{Elem: types.EnumOf(now), Elems: ds})
	}
	for _, x := range []struct {
		row   types.Row
		newer bool
	}{
		{types.Row{a, c, array(a, types.Null, c)}, false},
		{types.Row{a, types.Null, types.Null}, false},
		{types.Row{b, c, array(a)}, true},
		{types.Row{a, b, array(a)}, true},
		{types.Row{a, c, array(a, b)}, true},
	} {
		tab := table(now)
		ix, err := rowcode.NewIndex(tab, tab.Primary())
		if err != nil {
			t.Fatal(err)
		}
		k, err := ix.AppendKey(nil, x.row)
		if err != nil {
			t.Fatal(err)
		}
		v := ix.AppendValue(nil, x.row)
		for version, e := range map[string]*types.Enum{"old": old, "new": now} {
			tab := table(e)
			d, err := rowcode.NewDecoder(tab, tab.Primary(), []int{0, 1, 2})
			if err != nil {
				t.Fatal(err)
			}
			out := make(types.Row, 3)
			err = d.Decode(k, v, out)
			var newer *rowcode.NewerError
			if want := x.newer && version == "old"; errors.As(err, &newer) != want || !want && err != nil {
				t.Errorf("%v by the %s version: %v", x.row, version, err)
			}
		}
	}
}
