package rowcode

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"meridian/sql/catalog"
	"meridian/sql/types"
)

// An entry of a unique index leads to the key of its row by the recipe, wherever there is one: always for keys of the usual types.
func TestFollow(t *testing.T) {
	made := 0
	rapid.Check(t, func(t *rapid.T) {
		tab := testTable(t)
		row := testRow(t, tab)
		uniq := &tab.Indexes[2]
		if rapid.Bool().Draw(t, "shared") { // as the region is
			shared := tab.Indexes[0].Columns[0]
			shared.Desc = shared.Desc != (rapid.IntRange(0, 3).Draw(t, "turned") == 0)
			uniq.Columns = append([]catalog.IndexColumn{shared}, uniq.Columns...)
		}
		var indexes [2]*Index
		for i, ix := range []*catalog.Index{&tab.Indexes[0], uniq} {
			var err error
			if indexes[i], err = NewIndex(tab, ix); err != nil {
				t.Fatal(err)
			}
		}
		recipe := indexes[1].Recipe(indexes[0])
		if recipe == nil {
			for _, c := range tab.Columns[:2] {
				switch c.Type.Phys() {
				case types.PhysInt, types.PhysDate, types.PhysTimestamp, types.PhysString, types.PhysBytes, types.PhysUUID, types.PhysBool:
				default:
					return
				}
			}
			for _, c := range uniq.Columns {
				if p := tab.Column(c.Column).Type.Phys(); p == types.PhysTime || p == types.PhysArray {
					return
				}
				for _, k := range tab.Indexes[0].Columns {
					if k.Column == c.Column && k.Desc != c.Desc {
						return
					}
				}
			}
			t.Fatalf("there is no recipe for %+v and %+v", tab.Columns, uniq)
		}
		made++
		want, err := indexes[0].AppendKey(nil, row)
		if err != nil {
			t.Fatal(err)
		}
		key, err := indexes[1].AppendKey(nil, row)
		if err != nil {
			t.Fatal(err)
		}
		value := indexes[1].AppendValue(nil, row)
		got, ok := Follow(recipe, key, value)
		if !ok || !bytes.Equal(got, want) {
			t.Fatalf("%x %v, want %x; row %v", got, ok, want, row)
		}
		// No bytes make it panic.
		for _, b := range [][]byte{recipe, key, value} {
			at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
			b[at] ^= rapid.Byte().Draw(t, "bits")
			Follow(recipe, key, value)
			Follow(recipe[:rapid.IntRange(0, len(recipe)).Draw(t, "cut")], key, value)
		}
	})
	if made == 0 {
		t.Error("no recipe was made")
	}
}
