package rowcode

import (
	"bytes"
	"fmt"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"meridian/encoding"
	"meridian/keys"
	"meridian/sql/catalog"
	"meridian/sql/types"
)

// family is a hierarchy of tables: the first is the root, and each other one is interleaved in one before it.
func family(t *rapid.T) []*catalog.Table {
	var divisible []*types.T
	for _, ty := range allTypes {
		if p := ty.Phys(); p != types.PhysArray && ty.Kind != types.KindInterval {
			divisible = append(divisible, ty)
		}
	}
	var out []*catalog.Table
	for i := range rapid.IntRange(2, 6).Draw(t, "tables") {
		tab := &catalog.Table{ID: catalog.ID(100 + 41*((i*3)%7)), Name: fmt.Sprintf("t%d", i)}
		key := catalog.Index{ID: catalog.IndexID(rapid.IntRange(1, 300).Draw(t, "index")), Name: "pk", Primary: true, Unique: true}
		own := rapid.IntRange(0, 2).Draw(t, "own")
		if i == 0 {
			own = max(own, 1)
			tab.Shared = true
		} else {
			parent := out[rapid.IntRange(0, i-1).Draw(t, "parent")]
			parent.Shared = true
			tab.Interleave = &catalog.Interleave{Ancestors: parent.AsAncestors()}
			for j, k := range parent.Primary().Columns {
				tab.Columns = append(tab.Columns, catalog.Column{ID: catalog.ColumnID(j + 1), Name: fmt.Sprintf("c%d", j), Type: parent.Column(k.Column).Type})
				key.Columns = append(key.Columns, catalog.IndexColumn{Column: catalog.ColumnID(j + 1), Desc: k.Desc})
			}
		}
		for range own {
			id := catalog.ColumnID(len(tab.Columns) + 1)
			tab.Columns = append(tab.Columns, catalog.Column{ID: id, Name: fmt.Sprintf("c%d", id), Type: rapid.SampledFrom(divisible).Draw(t, "type")})
			key.Columns = append(key.Columns, catalog.IndexColumn{Column: id, Desc: rapid.Bool().Draw(t, "desc")})
		}
		id := catalog.ColumnID(len(tab.Columns) + 1)
		tab.Columns = append(tab.Columns, catalog.Column{ID: id, Name: "v", Type: types.Int8})
		tab.Indexes = []catalog.Index{key}
		out = append(out, tab)
	}
	return out
}

// TestInterleaved: each index of a hierarchy finds exactly its own rows in the spans that all of them share, in the order of its columns, and what it passes over has none of them
// (rowcode.R4). A row is in front of all rows that are interleaved in it, and nothing else is among them.
func TestInterleaved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tabs := family(t)
		indexes := make([]*Index, len(tabs))
		of := map[string]int{}
		rows := map[string]types.Row{}
		var all []keys.Key
		few := make([][]types.Datum, 0)
		for i, tab := range tabs {
			var err error
			if indexes[i], err = NewIndex(tab, tab.Primary()); err != nil {
				t.Fatal(err)
			}
			for range rapid.IntRange(1, 8).Draw(t, "rows") {
				row := make(types.Row, len(tab.Columns))
				for j := range row {
					// Few values for each column of a depth, so that rows share their beginnings; those of another table's column have another type.
					for len(few) <= j {
						few = append(few, nil)
					}
					row[j] = genDatum(t, tab.Columns[j].Type, false)
					for _, d := range few[j] {
						if d.Phys() == tab.Columns[j].Type.Phys() && j < len(tab.Primary().Columns) && sameType(tabs, i, j) && rapid.IntRange(0, 3).Draw(t, "again") > 0 {
							row[j] = d
						}
					}
					few[j] = append(few[j], row[j])
				}
				k, err := indexes[i].AppendKey(nil, row)
				if err != nil {
					t.Fatal(err)
				}
				if other, ok := of[string(k)]; ok && other != i {
					t.Fatalf("rows of %s and %s have the key %s", tabs[other].Name, tab.Name, keys.Key(k))
				}
				if of[string(k)] = i; rows[string(k)] == nil {
					all = append(all, k)
				}
				rows[string(k)] = row
			}
		}
		sort.Slice(all, func(i, j int) bool { return all[i].Less(all[j]) })
		root := indexes[0].All()
		for i, x := range indexes {
			if s := x.All(); !s.Start.Equal(root.Start) || !s.End.Equal(root.End) {
				t.Fatalf("%s is in another span: %s", tabs[i].Name, s)
			}
			dec, err := x.NewDecoder([]int{0, len(tabs[i].Columns) - 1})
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range all {
				mine := of[string(k)] == i
				row := rows[string(k)]
				if x.Owns(k) != mine {
					t.Fatalf("%s owns %s of %s: %v", tabs[i].Name, k, tabs[of[string(k)]].Name, !mine)
				}
				out := make(types.Row, 2)
				if err := dec.Decode(k, x.AppendValue(nil, make(types.Row, len(tabs[i].Columns))), out); (err == nil) != mine {
					t.Fatalf("%s decodes %s of %s: %v", tabs[i].Name, k, tabs[of[string(k)]].Name, err)
				}
				if mine {
					if table, index, _, err := keys.Owner(k); err != nil || catalog.ID(table) != tabs[i].ID || catalog.IndexID(index) != tabs[i].Primary().ID {
						t.Fatalf("%s of %s: %d/%d, %v", k, tabs[i].Name, table, index, err)
					}
					if err := dec.Decode(k, x.AppendValue(nil, row), out); err != nil || !same(tabs[i].Columns[0].Type, out[0], row[0]) || !same(types.Int8, out[1], row[len(row)-1]) {
						t.Fatalf("%s: %v, %v", k, out, err)
					}
					continue
				}
				after, before := x.After(k), x.Before(k)
				if !k.Less(after) || k.Less(before) {
					t.Fatalf("%s goes from %s to %s, or back to %s", tabs[i].Name, k, after, before)
				}
				for _, o := range all {
					if of[string(o)] == i && (k.Less(o) && o.Less(after) || !o.Less(before) && o.Less(k)) {
						t.Fatalf("%s passes over its key %s on the way from %s to %s or %s", tabs[i].Name, o, k, after, before)
					}
				}
			}
			for k, row := range rows {
				if of[k] != i {
					continue
				}
				spans(t, x, row, all, of, rows, i)
			}
		}
		for _, k := range all {
			i := of[string(k)]
			row := rows[string(k)]
			dir, ok := keys.Directory(k)
			if ok != (i > 0) {
				t.Fatalf("%s: directory %s", k, dir)
			}
			if i == 0 {
				continue
			}
			as := tabs[i].Interleave.Ancestors
			for j, a := range as {
				for n, tab := range tabs {
					if tab.ID != a.Table {
						continue
					}
					up, err := indexes[n].AppendPrefix(nil, row[:a.Columns])
					if err != nil {
						t.Fatal(err)
					}
					if !bytes.HasPrefix(k, up) || len(up) == len(k) || j == 0 && !bytes.Equal(up, dir) {
						t.Fatalf("%s of %s is not behind %s of %s, directory %s", k, tabs[i].Name, keys.Key(up), tab.Name, dir)
					}
				}
			}
		}
	})
}

// sameType reports whether no table has another type for a column of a depth.
func sameType(tabs []*catalog.Table, i, j int) bool {
	for _, o := range tabs {
		if j < len(o.Columns) && !o.Columns[j].Type.Equal(tabs[i].Columns[j].Type) {
			return false
		}
	}
	return true
}

// spans checks that the spans for the beginnings of a row have exactly the index's rows that begin so.
func spans(t *rapid.T, x *Index, row types.Row, all []keys.Key, of map[string]int, rows map[string]types.Row, i int) {
	key := func(r types.Row, n int) string {
		var b []byte
		for j := range n {
			b, _ = AppendKeyDatum(b, r[x.columns[j].ordinal], x.columns[j].dir)
		}
		return string(b)
	}
	for n := range len(x.columns) + 1 {
		span, ok, err := x.Span(append([]types.Datum(nil), row[:n]...), nil, false, nil, false)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		for _, k := range all {
			if of[string(k)] != i {
				continue
			}
			if in := key(rows[string(k)], n) == key(row, n); span.Contains(k) != in {
				t.Fatalf("%d columns of %s: %s has %s: %v", n, keys.Key(key(row, n)), span, k, !in)
			}
		}
		if n == len(x.columns) {
			break
		}
		// From the row's value on, and up to it, in the order of the column.
		for _, inclusive := range []bool{false, true} {
			at := row[n]
			for _, low := range []bool{false, true} {
				var span keys.Span
				if low {
					span, ok, err = x.Span(append([]types.Datum(nil), row[:n]...), &at, inclusive, nil, false)
				} else {
					span, ok, err = x.Span(append([]types.Datum(nil), row[:n]...), nil, false, &at, inclusive)
				}
				if err != nil || !ok {
					t.Fatal(ok, err)
				}
				for _, k := range all {
					if of[string(k)] != i || key(rows[string(k)], n) != key(row, n) {
						continue
					}
					a, _ := AppendKeyDatum(nil, rows[string(k)][n], encoding.Ascending)
					b, _ := AppendKeyDatum(nil, at, encoding.Ascending)
					c := bytes.Compare(a, b)
					if in := c == 0 && inclusive || c > 0 && low || c < 0 && !low; span.Contains(k) != in {
						t.Fatalf("range of column %d: %s has %s: %v", n, span, k, !in)
					}
				}
			}
		}
	}
}
