package rowcode

import (
	"bytes"
	"fmt"
	"testing"

	"meridian/sql/catalog"
	"meridian/sql/types"
)

// TestShortChars: a table with short values of char(n) stores none of their trailing blanks, and every reader gives all of them back, whatever its version of the descriptor says of values
// that were written by the other kind (rowcode.R5). A bpchar without a length, a varchar and the elements of an array stay as they are.
func TestShortChars(t *testing.T) {
	char10, char3 := &types.T{Kind: types.KindBPChar, Width: 10}, &types.T{Kind: types.KindBPChar, Width: 3}
	table := func(short bool) *catalog.Table {
		return &catalog.Table{ID: 100, ShortChars: short, NextColumn: 7, Columns: []catalog.Column{
			{ID: 1, Name: "k", Type: types.Int8}, {ID: 2, Name: "c", Type: char10}, {ID: 3, Name: "d", Type: char3}, {ID: 4, Name: "p", Type: types.BPChar},
			{ID: 5, Name: "v", Type: types.VarChar}, {ID: 6, Name: "a", Type: types.ArrayOf(char3)}},
			Indexes: []catalog.Index{{ID: 1, Name: "p", Primary: true, Unique: true, Columns: []catalog.IndexColumn{{Column: 1}}},
				{ID: 2, Name: "by", Columns: []catalog.IndexColumn{{Column: 2}}, Stored: []catalog.ColumnID{3}}}}
	}
	array := types.NewArray(&types.Array{Elem: char3, Elems: []types.Datum{types.NewChar("x  "), types.Null}})
	for _, text := range []string{"", "a", "a b", "äöü", "0123456789", " x", "\t", "NULL"} {
		c, d := types.PadChar(text, char10), types.PadChar(text[:min(len(text), 1)], char3)
		if text == "äöü" {
			d = types.PadChar("äöü", char3)
		}
		if text == "NULL" {
			c, d = types.Null, types.Null
		}
		row := types.Row{types.NewInt(7), c, d, types.NewChar("p  "), types.NewString("v  "), array}
		for _, writes := range []bool{false, true} {
			for i, ordinals := range [][]int{{0, 1, 2, 3, 4, 5}, {1, 2}} {
				tab := table(writes)
				x, err := NewIndex(tab, &tab.Indexes[i])
				if err != nil {
					t.Fatal(err)
				}
				key, err := x.AppendKey(nil, row)
				if err != nil {
					t.Fatal(err)
				}
				value := x.AppendValue(nil, row)
				if writes && i == 0 && text == "a" && (bytes.Contains(value, []byte("a ")) || !bytes.Contains(value, []byte("p  ")) || !bytes.Contains(value, []byte("x  "))) {
					t.Errorf("%q has the value %q", text, value)
				}
				for _, reads := range []bool{false, true} {
					then := table(reads)
					dec, err := NewDecoder(then, &then.Indexes[i], ordinals)
					if err != nil {
						t.Fatal(err)
					}
					got := make(types.Row, len(ordinals))
					if err := dec.Decode(key, value, got); err != nil {
						t.Fatal(err)
					}
					for s, o := range ordinals {
						if fmt.Sprintf("%#v", got[s]) != fmt.Sprintf("%#v", row[o]) && (o != 5 || fmt.Sprintf("%v", got[s].Array().Elems) != fmt.Sprintf("%v", array.Array().Elems)) {
							t.Errorf("index %d, written short %v, read short %v: column %d of %q is %#v, want %#v", i, writes, reads, o, text, got[s], row[o])
						}
					}
				}
			}
		}
	}
}
