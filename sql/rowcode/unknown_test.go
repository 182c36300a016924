package rowcode

import (
	"encoding/binary"
	"testing"

	"meridian/sql/catalog"
	"meridian/sql/types"
)

// TestUnknownForms: a row has no version of its own beyond its first byte, since its forms are those of the table's descriptor. So a first byte, or a form of a
// column, that the reader does not expect is refused and never read as something else (docs/decisions/0010-formats.md).
func TestUnknownForms(t *testing.T) {
	payload := map[uint64][]byte{wireVarint: {2}, wireFixed8: make([]byte, 8), wireSized: {1, 'x'}}
	for _, typ := range []*types.T{types.Bool, types.Int8, types.Date, types.TimestampTZ, types.Float8, types.Text, types.Bytes, types.UUID, types.Decimal} {
		own := map[uint64]bool{wireNull: true}
		switch typ.Phys() {
		case types.PhysBool:
			own[wireTrue], own[wireFalse] = true, true
		case types.PhysInt, types.PhysDate, types.PhysTimestamp:
			own[wireVarint] = true
		case types.PhysFloat:
			own[wireFixed8] = true
		default:
			own[wireSized] = true
		}
		tab := &catalog.Table{ID: 100, Name: "t", NextColumn: 3, Columns: []catalog.Column{{ID: 1, Name: "k", Type: types.Int8}, {ID: 2, Name: "v", Type: typ}},
			Indexes: []catalog.Index{{ID: 1, Name: "pk", Primary: true, Unique: true, Columns: []catalog.IndexColumn{{Column: 1}}}}}
		x, err := NewIndex(tab, &tab.Indexes[0])
		if err != nil {
			t.Fatal(err)
		}
		key, err := x.AppendKey(nil, types.Row{types.NewInt(1), types.Null})
		if err != nil {
			t.Fatal(err)
		}
		d, err := x.NewDecoder([]int{1})
		if err != nil {
			t.Fatal(err)
		}
		read := func(first byte, form uint64) error {
			value := append(binary.AppendUvarint([]byte{first}, 2<<3|form), payload[form]...)
			return d.Decode(key, value, make(types.Row, 1))
		}
		for form := range uint64(8) {
			if err := read(valueVersion, form); !own[form] && err == nil {
				t.Errorf("%s: form %d was read", typ, form)
			} else if own[form] && form != wireSized && err != nil {
				t.Errorf("%s: form %d: %v", typ, form, err)
			}
		}
		for first := range 256 {
			if err := read(byte(first), wireNull); (err == nil) != (first == valueVersion) {
				t.Errorf("%s: first byte %#x: %v", typ, first, err)
			}
		}
	}
}
