package rowcode

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"

	"github.com/cockroachdb/apd/v3"
	"pgregory.net/rapid"

	"meridian/encoding"
	"meridian/keys"
	"meridian/sql/catalog"
	"meridian/sql/types"
)

// allTypes is a type of every representation.
var allTypes = []*types.T{types.Bool, types.Int2, types.Int4, types.Int8, types.Float4, types.Float8, types.Decimal, types.Text,
	types.VarChar, types.BPChar, types.Bytes, types.Date, types.Time, types.TimeTZ, types.Timestamp, types.TimestampTZ, types.IntervalType,
	types.UUID, types.JSON, types.JSONB, types.OID, types.Int4Array, types.TextArray, types.ArrayOf(types.Decimal),
	types.Inet, types.CIDR, types.MACAddr, types.MACAddr8, types.ArrayOf(types.Inet)}

func genInt(t *rapid.T, lo, hi int64) int64 {
	return rapid.OneOf(rapid.Int64Range(max(lo, -3), min(hi, 3)), rapid.Int64Range(lo, hi)).Draw(t, "int")
}

func genDecimal(t *rapid.T) *apd.Decimal {
	switch rapid.IntRange(0, 12).Draw(t, "special") {
	case 0:
		return types.DecimalNaN()
	case 1:
		return types.DecimalInf()
	case 2:
		return types.DecimalNegInf()
	}
	d := apd.New(genInt(t, math.MinInt64+1, math.MaxInt64), -int32(rapid.IntRange(0, 12).Draw(t, "scale")))
	if rapid.IntRange(0, 3).Draw(t, "big") == 0 {
		d.Coeff.Mul(&d.Coeff, &d.Coeff)
	}
	n, err := types.NormalizeDecimal(d)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func genString(t *rapid.T) string {
	return rapid.OneOf(rapid.StringOfN(rapid.SampledFrom([]rune{0, 1, 'a', 'b', 0xff, 'é'}), 0, 4, -1), rapid.String()).Draw(t, "string")
}

func genDatum(t *rapid.T, typ *types.T, null bool) types.Datum {
	if null && rapid.IntRange(0, 5).Draw(t, "null") == 0 {
		return types.Null
	}
	switch typ.Kind {
	case types.KindBool:
		return types.NewBool(rapid.Bool().Draw(t, "bool"))
	case types.KindInt2:
		return types.NewInt(genInt(t, math.MinInt16, math.MaxInt16))
	case types.KindInt4:
		return types.NewInt(genInt(t, math.MinInt32, math.MaxInt32))
	case types.KindInt8:
		return types.NewInt(genInt(t, math.MinInt64, math.MaxInt64))
	case types.KindOID:
		return types.NewInt(genInt(t, 0, math.MaxUint32))
	case types.KindFloat4:
		return types.NewFloat(float64(rapid.Float32().Draw(t, "float")))
	case types.KindFloat8:
		return types.NewFloat(rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), 1, -1})).Draw(t, "float"))
	case types.KindDecimal:
		return types.NewDecimal(genDecimal(t))
	case types.KindBytes:
		return types.NewBytes(genString(t))
	case types.KindDate:
		return types.NewDate(rapid.OneOf(rapid.Int64Range(-100000, 100000), rapid.SampledFrom([]int64{types.InfinityNum, types.NegInfinityNum})).Draw(t, "date"))
	case types.KindTime:
		return types.NewTime(rapid.Int64Range(0, types.DayMicros).Draw(t, "time"))
	case types.KindTimeTZ:
		return types.NewTimeTZ(rapid.Int64Range(0, types.DayMicros).Draw(t, "time"), int32(rapid.IntRange(-12, 12).Draw(t, "zone")*3600))
	case types.KindTimestamp, types.KindTimestampTZ:
		return types.NewTimestamp(genInt(t, -211813488000000000, 9223371331199999999))
	case types.KindInterval:
		return types.NewInterval(int32(genInt(t, -1000, 1000)), int32(genInt(t, -100000, 100000)), genInt(t, -1<<50, 1<<50))
	case types.KindInet, types.KindCIDR:
		size := rapid.SampledFrom([]int{4, 16}).Draw(t, "size")
		a, _ := netip.AddrFromSlice(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 0, 1, 0x80, 0xff}), size, size).Draw(t, "address"))
		return types.NewNet(types.Net{Addr: a, Bits: rapid.IntRange(0, 8*size).Draw(t, "bits")})
	case types.KindMACAddr, types.KindMACAddr8:
		return types.NewMAC(rapid.SliceOfN(rapid.Byte(), int(typ.Len()), int(typ.Len())).Draw(t, "mac"))
	case types.KindUUID:
		var u [16]byte
		copy(u[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "uuid"))
		return types.NewUUID(u)
	case types.KindJSON, types.KindJSONB:
		return types.NewJSON(rapid.SampledFrom([]string{"1", `"x"`, `{"a": [1, null]}`, "true"}).Draw(t, "json"))
	case types.KindArray:
		var elems []types.Datum
		var shape []types.Dim
		n := 1
		for range rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "dims") {
			d := types.Dim{Lower: rapid.SampledFrom([]int32{1, 1, 0, -7, 3}).Draw(t, "lower"), Len: int32(rapid.IntRange(0, 3).Draw(t, "len"))}
			n *= int(d.Len)
			shape = append(shape, d)
		}
		for range n {
			elems = append(elems, genDatum(t, typ.Elem, true))
		}
		return types.NewShaped(typ.Elem, elems, shape)
	case types.KindBPChar:
		return types.NewChar(genString(t) + strings.Repeat(" ", rapid.IntRange(0, 2).Draw(t, "blanks")))
	}
	return types.NewString(genString(t))
}

func same(t *types.T, a, b types.Datum) bool {
	if a.IsNull() || b.IsNull() {
		return a.IsNull() == b.IsNull()
	}
	return string(types.AppendText(nil, a, t, nil)) == string(types.AppendText(nil, b, t, nil)) && a.Phys() == b.Phys()
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}

// Keys sort as the values do, both ways, and decode to an equal value.
func TestKeyOrder(t *testing.T) {
	for _, typ := range allTypes {
		if typ.Kind == types.KindJSON || typ.Kind == types.KindJSONB {
			continue // ordered by text only
		}
		t.Run(typ.String(), rapid.MakeCheck(func(t *rapid.T) {
			a, b := genDatum(t, typ, true), genDatum(t, typ, true)
			want := typ.Compare(a, b)
			for _, dir := range []encoding.Direction{encoding.Ascending, encoding.Descending} {
				ka, err := AppendKeyDatum(nil, a, dir)
				if err != nil {
					t.Fatal(err)
				}
				kb, err := AppendKeyDatum(nil, b, dir)
				if err != nil {
					t.Fatal(err)
				}
				got := bytes.Compare(ka, kb)
				if dir == encoding.Descending {
					got = -got
				}
				if typ.Kind == types.KindInterval && want == 0 {
					got = 0 // equal intervals may have different keys
				}
				if sign(got) != sign(want) {
					t.Fatalf("%v %v: order %d, want %d (%x, %x)", a, b, got, want, ka, kb)
				}
				d, rest, err := DecodeKeyDatum(append(ka, 0x55), typ, dir)
				if err != nil || len(rest) != 1 || typ.Compare(d, a) != 0 {
					t.Fatalf("decode of %v: %v %v %x", a, d, err, rest)
				}
				rest, err = skipKeyDatum(append(ka, 0x55), typ, dir)
				if err != nil || len(rest) != 1 {
					t.Fatalf("skip of %v: %v %x", a, err, rest)
				}
			}
		}))
	}
}

// testTable has two key columns and some others of random types, and an index of each sort.
func testTable(t *rapid.T) *catalog.Table {
	tab := &catalog.Table{ID: 104, Name: "t"}
	n := rapid.IntRange(2, 7).Draw(t, "columns")
	for i := range n {
		tab.Columns = append(tab.Columns, catalog.Column{ID: catalog.ColumnID(i*3 + 1), Name: fmt.Sprintf("c%d", i),
			Type: rapid.SampledFrom(allTypes).Draw(t, "type"), HasMissing: false})
	}
	col := func(i int) catalog.IndexColumn {
		return catalog.IndexColumn{Column: tab.Columns[i].ID, Desc: rapid.Bool().Draw(t, "desc")}
	}
	tab.Indexes = []catalog.Index{
		{ID: 1, Name: "pk", Primary: true, Unique: true, Columns: []catalog.IndexColumn{col(0), col(1)}},
		{ID: 2, Name: "plain", Columns: []catalog.IndexColumn{col(n - 1)}, Stored: []catalog.ColumnID{tab.Columns[n/2].ID}},
		{ID: 3, Name: "uniq", Unique: true, Columns: []catalog.IndexColumn{col(n - 1)}},
	}
	return tab
}

func testRow(t *rapid.T, tab *catalog.Table) types.Row {
	row := make(types.Row, len(tab.Columns))
	for i := range row {
		row[i] = genDatum(t, tab.Columns[i].Type, i > 1)
	}
	return row
}

// A row that is encoded is decoded to itself, through every index, for any choice of columns.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := testTable(t)
		row := testRow(t, tab)
		for i := range tab.Indexes {
			x, err := NewIndex(tab, &tab.Indexes[i])
			if err != nil {
				t.Fatal(err)
			}
			key, err := x.AppendKey(nil, row)
			if err != nil {
				t.Fatal(err)
			}
			value := x.AppendValue(nil, row)
			if len(value) == 0 {
				t.Fatal("an empty value is a deletion")
			}
			if s := x.All(); !s.Contains(key) {
				t.Fatalf("key %x outside its index %v", key, s)
			}
			var ordinals []int
			for ord := range tab.Columns {
				if rapid.Bool().Draw(t, "want") {
					if _, err := x.NewDecoder([]int{ord}); err == nil {
						ordinals = append(ordinals, ord)
					} else if tab.Indexes[i].Primary || ord < 2 || ord == len(row)-1 {
						t.Fatal(err)
					}
				}
			}
			d, err := x.NewDecoder(ordinals)
			if err != nil {
				t.Fatal(err)
			}
			out := make(types.Row, len(ordinals))
			if err := d.Decode(key, value, out); err != nil {
				t.Fatal(err)
			}
			for slot, ord := range ordinals {
				if c := &tab.Columns[ord]; !same(c.Type, out[slot], row[ord]) {
					t.Fatalf("index %s column %s %s: %v, want %v", tab.Indexes[i].Name, c.Name, c.Type, out[slot], row[ord])
				}
			}
		}
	})
}

// rowcode.R1: entries of a unique index collide exactly if the columns are equal and not NULL.
func TestUnique(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := testTable(t)
		a, b := testRow(t, tab), testRow(t, tab)
		last := len(a) - 1
		typ := tab.Columns[last].Type
		if typ.Kind == types.KindInterval || typ.Phys() == types.PhysJSON {
			return
		}
		if rapid.Bool().Draw(t, "equal") {
			b[last] = a[last]
		}
		x, err := NewIndex(tab, &tab.Indexes[2])
		if err != nil {
			t.Fatal(err)
		}
		ka, _ := x.AppendKey(nil, a)
		kb, _ := x.AppendKey(nil, b)
		samePK := true
		for i := range 2 {
			samePK = samePK && tab.Columns[i].Type.Compare(a[i], b[i]) == 0
		}
		equal := typ.Compare(a[last], b[last]) == 0
		want := equal && (!a[last].IsNull() || samePK)
		if last < 2 {
			want = equal
		}
		if typ0, typ1 := tab.Columns[0].Type, tab.Columns[1].Type; a[last].IsNull() &&
			(typ0.Kind == types.KindInterval || typ1.Kind == types.KindInterval || typ0.Phys() == types.PhysJSON || typ1.Phys() == types.PhysJSON) {
			return
		}
		if bytes.Equal(ka, kb) != want {
			t.Fatalf("%v and %v: collide %v, want %v", a, b, bytes.Equal(ka, kb), want)
		}
		if x.Enforces(a) == a[last].IsNull() {
			t.Fatalf("Enforces(%v) = %v", a, x.Enforces(a))
		}
	})
}

// A span holds exactly the rows that satisfy its condition.
func TestSpan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := testTable(t)
		row := testRow(t, tab)
		other := testRow(t, tab)
		ix := &tab.Indexes[rapid.IntRange(0, 2).Draw(t, "index")]
		x, err := NewIndex(tab, ix)
		if err != nil {
			t.Fatal(err)
		}
		var equal []types.Datum
		n := rapid.IntRange(0, len(ix.Columns)-1).Draw(t, "equal")
		match := true
		for i := range n {
			ord := tab.Ordinal(ix.Columns[i].Column)
			v := row[ord]
			if rapid.Bool().Draw(t, "other") {
				v = other[ord]
			}
			equal = append(equal, v)
			match = match && tab.Columns[ord].Type.Compare(row[ord], v) == 0
		}
		ord := tab.Ordinal(ix.Columns[n].Column)
		typ := tab.Columns[ord].Type
		for i := range n + 1 {
			if tab.Columns[tab.Ordinal(ix.Columns[i].Column)].Type.Phys() == types.PhysJSON {
				return
			}
		}
		for i := range n {
			if tab.Columns[tab.Ordinal(ix.Columns[i].Column)].Type.Kind == types.KindInterval {
				return
			}
		}
		bound := func(name string) (*types.Datum, bool) {
			if !rapid.Bool().Draw(t, name) {
				return nil, false
			}
			d := genDatum(t, typ, false)
			if rapid.Bool().Draw(t, "same") && !row[ord].IsNull() {
				d = row[ord]
			}
			return &d, rapid.Bool().Draw(t, "incl")
		}
		low, lowIncl := bound("low")
		high, highIncl := bound("high")
		if low != nil {
			c := typ.Compare(row[ord], *low)
			match = match && (c > 0 || c == 0 && lowIncl)
		}
		if high != nil {
			c := typ.Compare(row[ord], *high)
			match = match && (c < 0 || c == 0 && highIncl)
		}
		if low != nil || high != nil {
			match = match && !row[ord].IsNull()
		}
		span, ok, err := x.Span(equal, low, lowIncl, high, highIncl)
		if err != nil {
			t.Fatal(err)
		}
		key, err := x.AppendKey(nil, row)
		if err != nil {
			t.Fatal(err)
		}
		if in := ok && span.Contains(keys.Key(key)); in != match {
			t.Fatalf("index %s row %v equal %v low %v %v high %v %v: in span %v, want %v\nkey %x\nspan %x %x",
				ix.Name, row, equal, low, lowIncl, high, highIncl, in, match, key, span.Start, span.End)
		}
	})
}

// rowcode.R3: a newer version reads rows of an older one, and the other way.
func TestVersions(t *testing.T) {
	v1 := &catalog.Table{ID: 7, Columns: []catalog.Column{
		{ID: 1, Name: "k", Type: types.Int8}, {ID: 2, Name: "a", Type: types.Text}, {ID: 3, Name: "b", Type: types.Int4}},
		Indexes: []catalog.Index{{ID: 1, Primary: true, Unique: true, Columns: []catalog.IndexColumn{{Column: 1}}}}}
	v2 := &catalog.Table{ID: 7, Columns: []catalog.Column{
		{ID: 1, Name: "k", Type: types.Int8}, {ID: 3, Name: "b", Type: types.Int4},
		{ID: 5, Name: "d", Type: types.Decimal, HasMissing: true, Missing: "1.50"}, {ID: 4, Name: "c", Type: types.Text}}, Indexes: v1.Indexes}
	old, err := NewIndex(v1, v1.Primary())
	if err != nil {
		t.Fatal(err)
	}
	now, err := NewIndex(v2, v2.Primary())
	if err != nil {
		t.Fatal(err)
	}
	row := types.Row{types.NewInt(1), types.NewString("gone"), types.NewInt(-5)}
	key, _ := old.AppendKey(nil, row)
	d, err := now.NewDecoder([]int{3, 2, 1, 0})
	if err != nil {
		t.Fatal(err)
	}
	out := make(types.Row, 4)
	if err := d.Decode(key, old.AppendValue(nil, row), out); err != nil {
		t.Fatal(err)
	}
	if !out[0].IsNull() || types.FormatText(out[1], types.Decimal, nil) != "1.50" || out[2].Int() != -5 || out[3].Int() != 1 {
		t.Fatalf("old row read as %v", out)
	}
	// A NULL written by the new version stays NULL.
	row2 := types.Row{types.NewInt(1), types.NewInt(2), types.Null, types.NewString("x")}
	if err := d.Decode(key, now.AppendValue(nil, row2), out); err != nil {
		t.Fatal(err)
	}
	if out[0].Str() != "x" || !out[1].IsNull() {
		t.Fatalf("new row read as %v", out)
	}
	od, err := old.NewDecoder([]int{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := od.Decode(key, now.AppendValue(nil, row2), out[:2]); err != nil || !out[0].IsNull() || out[1].Int() != 2 {
		t.Fatalf("new row read by the old version as %v (%v)", out[:2], err)
	}
	// A reader of all columns may want to write the row, and would lose the new ones.
	v1.NextColumn = 4
	if od, err = old.NewDecoder([]int{0, 1, 2}); err != nil {
		t.Fatal(err)
	}
	var newer *NewerError
	if err := od.Decode(key, now.AppendValue(nil, row2), out[:3]); !errors.As(err, &newer) || newer.Table != 7 {
		t.Fatalf("a whole new row read by the old version: %v", err)
	}
	v1.NextColumn = 6 // the columns existed and were dropped
	if od, err = old.NewDecoder([]int{0, 1, 2}); err != nil {
		t.Fatal(err)
	}
	if err := od.Decode(key, now.AppendValue(nil, row2), out[:3]); err != nil {
		t.Fatalf("a row with columns of before: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	tab := &catalog.Table{ID: 7}
	for i, typ := range allTypes {
		tab.Columns = append(tab.Columns, catalog.Column{ID: catalog.ColumnID(i + 1), Name: typ.String(), Type: typ})
	}
	tab.Indexes = []catalog.Index{{ID: 1, Primary: true, Unique: true}}
	for i := range allTypes {
		tab.Indexes[0].Columns = append(tab.Indexes[0].Columns, catalog.IndexColumn{Column: catalog.ColumnID(i + 1), Desc: i%2 == 1})
	}
	var ords []int
	for i := range allTypes {
		ords = append(ords, i)
	}
	inKey, err := NewDecoder(tab, tab.Primary(), ords)
	if err != nil {
		f.Fatal(err)
	}
	flat := *tab
	flat.Indexes = []catalog.Index{{ID: 1, Primary: true, Unique: true}}
	inValue, err := NewDecoder(&flat, flat.Primary(), ords)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{0x18}, []byte{1, 0x0b})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		out := make(types.Row, len(ords))
		k := append(append([]byte(nil), inKey.x.prefix...), key...)
		if err := inKey.Decode(k, value, out); err == nil {
			for i, d := range out {
				types.AppendText(nil, d, allTypes[i], nil)
			}
		}
		if err := inValue.Decode(k, value, out); err == nil {
			for i, d := range out {
				types.AppendText(nil, d, allTypes[i], nil)
			}
		}
	})
}

func benchTable() (*Index, types.Row) {
	tab := &catalog.Table{ID: 104, Columns: []catalog.Column{{ID: 1, Type: types.Int4}, {ID: 2, Type: types.Int4}, {ID: 3, Type: types.Int4},
		{ID: 4, Type: types.BPChar}}, Indexes: []catalog.Index{{ID: 1, Primary: true, Unique: true, Columns: []catalog.IndexColumn{{Column: 1}}}}}
	x, _ := NewIndex(tab, tab.Primary())
	return x, types.Row{types.NewInt(12345), types.NewInt(1), types.NewInt(-500), types.NewString("filler")}
}

func BenchmarkEncode(b *testing.B) {
	x, row := benchTable()
	b.ReportAllocs()
	var key, value []byte
	for b.Loop() {
		key, _ = x.AppendKey(key[:0], row)
		value = x.AppendValue(value[:0], row)
	}
}

func BenchmarkDecode(b *testing.B) {
	x, row := benchTable()
	key, _ := x.AppendKey(nil, row)
	value := x.AppendValue(nil, row)
	d, _ := x.NewDecoder([]int{2})
	out := make(types.Row, 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Decode(key, value, out); err != nil {
			b.Fatal(err)
		}
	}
}

// Arrays with the same elements sort by their dimensions, then by their lengths, then by their first subscripts.
func TestShapedKeys(t *testing.T) {
	elems := []types.Datum{types.NewInt(1), types.NewInt(2)}
	var last []byte
	var before types.Datum
	for i, shape := range [][]types.Dim{{{Lower: -7, Len: 2}}, {{Lower: 0, Len: 2}}, nil, {{Lower: 3, Len: 2}}, {{Lower: 1, Len: 1}, {Lower: 1, Len: 2}},
		{{Lower: 2, Len: 1}, {Lower: 0, Len: 2}}, {{Lower: 0, Len: 2}, {Lower: 1, Len: 1}}} {
		d := types.NewShaped(types.Int4, elems, shape)
		key, err := AppendKeyDatum(nil, d, encoding.Ascending)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && (bytes.Compare(last, key) >= 0 || types.Compare(before, d) >= 0) {
			t.Errorf("%s does not sort before %s", types.FormatText(before, types.Int4Array, nil), types.FormatText(d, types.Int4Array, nil))
		}
		back, rest, err := DecodeKeyDatum(key, types.Int4Array, encoding.Ascending)
		if err != nil || len(rest) > 0 || types.Compare(back, d) != 0 {
			t.Errorf("%s comes back as another array: %v", types.FormatText(d, types.Int4Array, nil), err)
		}
		last, before = key, d
	}
}
