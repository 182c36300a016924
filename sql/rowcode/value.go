package rowcode

import (
	"fmt"

	"meridian/encoding"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// valueVersion is the first byte of every value; it also keeps a value from being empty, which storage takes for a
// deletion.
const valueVersion = 0x01

// AppendValue appends the value of a row's entry. row has a value for every column of the table, in its order.
func (x *Index) AppendValue(buf []byte, row types.Row) []byte {
	if buf == nil {
		n := 1
		for i := range x.values {
			d := row[x.values[i].ordinal]
			switch d.Phys() {
			case types.PhysNull:
			case types.PhysString, types.PhysChar, types.PhysBytes, types.PhysUUID, types.PhysJSON, types.PhysNet, types.PhysMAC:
				n += 4 + len(d.Str())
			default:
				n += 10
			}
		}
		buf = make([]byte, 0, n)
	}
	buf = append(buf, valueVersion)
	prev := catalog.ColumnID(0)
	for i := range x.values {
		c := &x.values[i]
		d := row[c.ordinal]
		if d.IsNull() && !c.writeNull || c.inexactOnly && !inexact(d) {
			continue
		}
		if c.short && !d.IsNull() {
			d = types.NewChar(types.UnpadBlanks(d.Str()))
		}
		buf = encoding.AppendUvarint(buf, uint64(c.id-prev)<<3|wireOf(d))
		buf = appendPayload(buf, d)
		prev = c.id
	}
	return buf
}

// Decoder reads some columns of the entries of an index. It is immutable, and may be used by many scans at once.
type Decoder struct {
	x *Index
	// keySlots[i] is where the i-th key column goes, -1 if nowhere; it ends with the last one needed.
	keySlots []int
	// byColumn[id] is one more than the slot of a column that the value may have.
	byColumn []int32
	types    []*types.T // by slot
	initial  types.Row  // by slot: NULL, or the default of rows older than the column
	maxID    catalog.ColumnID
	wantText bool
	// whole says that all columns of the row are read, to write it again for example: a reader of that kind must not lose
	// columns that are newer than its version of the table.
	whole bool
	next  uint64 // the identity that the table's next column will have
	// enums are the slots of enums and their arrays.
	enums []int
}

// NewDecoder prepares to read the columns with the given ordinals in the table into slots 0, 1, ... An index that
// lacks one of them gives an error.
func NewDecoder(t *catalog.Table, ix *catalog.Index, ordinals []int) (*Decoder, error) {
	x, err := NewIndex(t, ix)
	if err != nil {
		return nil, err
	}
	return x.NewDecoder(ordinals)
}

// NewDecoder is the function of that name for this index.
func (x *Index) NewDecoder(ordinals []int) (*Decoder, error) {
	d := &Decoder{x: x, types: make([]*types.T, len(ordinals)), initial: make(types.Row, len(ordinals)),
		whole: x.Desc.Primary && len(ordinals) >= written(x.Table), next: uint64(x.Table.NextColumn)}
	inKey := func(ord int) int {
		for i := range x.columns {
			if x.columns[i].ordinal == ord {
				return i
			}
		}
		if !x.unique {
			for i := range x.suffix {
				if x.suffix[i].ordinal == ord {
					return len(x.columns) + i
				}
			}
		}
		return -1
	}
	for slot, ord := range ordinals {
		if ord < 0 || ord >= len(x.Table.Columns) {
			return nil, fmt.Errorf("rowcode: table %q has no column %d", x.Table.Name, ord)
		}
		c := &x.Table.Columns[ord]
		d.types[slot] = c.Type
		if c.Type.IsEnum() {
			d.enums = append(d.enums, slot)
		}
		found := false
		if k := inKey(ord); k >= 0 {
			for len(d.keySlots) <= k {
				d.keySlots = append(d.keySlots, -1)
			}
			d.keySlots[k] = slot
			found = true
		}
		for i := range x.values {
			if x.values[i].ordinal != ord {
				continue
			}
			found = true
			for catalog.ColumnID(len(d.byColumn)) <= c.ID {
				d.byColumn = append(d.byColumn, 0)
			}
			d.byColumn[c.ID] = int32(slot + 1)
			d.maxID = max(d.maxID, c.ID)
			switch c.Type.Phys() {
			case types.PhysString, types.PhysChar, types.PhysBytes, types.PhysJSON:
				d.wantText = true
			}
		}
		if !found && x.Desc.Primary {
			continue // a column that is being added or removed reads as NULL
		}
		if !found {
			return nil, fmt.Errorf("rowcode: index %q does not have column %q", x.Desc.Name, c.Name)
		}
		if c.HasMissing && x.Desc.Primary {
			v, err := types.ParseStored(c.Type.Bare(), c.Missing)
			if err != nil {
				return nil, err
			}
			d.initial[slot] = v
		}
	}
	return d, nil
}

// written is the number of columns that a row of the table is made of.
func written(t *catalog.Table) (n int) {
	for i := range t.Columns {
		if s := t.Columns[i].State; s == catalog.Public || s == catalog.WriteOnly {
			n++
		}
	}
	return n
}

func (d *Decoder) corrupt(what string) error {
	return &CorruptionError{Table: d.x.Table.ID, Index: d.x.Desc.ID, What: what}
}

// Decode reads an entry into out, which has a slot for every wanted column. It keeps nothing of key and value. Errors are
// *CorruptionError, and *NewerError from a decoder of all columns, or of a value of an enum that is not known yet.
func (d *Decoder) Decode(key, value []byte, out types.Row) error {
	if err := d.decode(key, value, out); err != nil || d.enums == nil {
		return err
	}
	for _, slot := range d.enums {
		if !known(out[slot], d.types[slot]) {
			return &NewerError{Table: d.x.Table.ID}
		}
	}
	return nil
}

// known reports whether this version of the table knows an enum's value.
func known(v types.Datum, t *types.T) bool {
	switch v.Phys() {
	case types.PhysInt:
		_, ok := t.Enum.Label(v.Int())
		return ok
	case types.PhysArray:
		for _, e := range v.Array().Elems {
			if !known(e, elemOf(t)) {
				return false
			}
		}
	}
	return true
}

func (d *Decoder) decode(key, value []byte, out types.Row) error {
	copy(out, d.initial)
	if d.x.mixed && !d.x.find(key).own {
		return d.corrupt("key of another table")
	}
	if len(d.keySlots) > 0 {
		if err := d.decodeKey(key, out); err != nil {
			return err
		}
	}
	if d.maxID == 0 {
		return nil
	}
	if len(value) == 0 || value[0] != valueVersion {
		return d.corrupt("unknown format of a value")
	}
	text := ""
	b := value[1:]
	id := uint64(0)
	for len(b) > 0 {
		head := uint64(b[0])
		if head < 0x80 {
			b = b[1:]
		} else {
			var err error
			if head, b, err = encoding.Uvarint(b); err != nil {
				return d.corrupt("malformed value")
			}
		}
		id += head >> 3
		wire := head & 7
		slot := int32(0)
		if id <= uint64(d.maxID) {
			slot = d.byColumn[id]
		} else if !d.whole {
			break // columns are in order: nothing more is wanted
		} else if id >= d.next && d.next > 0 {
			return &NewerError{Table: d.x.Table.ID}
		}
		var err error
		if slot == 0 {
			if b, err = skipPayload(b, wire); err != nil {
				return d.corrupt("malformed value")
			}
			continue
		}
		if wire == wireSized && d.wantText && text == "" {
			text = string(value)
		}
		if out[slot-1], b, err = decodePayload(b, wire, d.types[slot-1], text); err != nil {
			return d.corrupt("malformed value")
		}
	}
	return nil
}

func (d *Decoder) decodeKey(key []byte, out types.Row) error {
	p := d.x.prefix
	if len(key) < len(p) || string(key[:len(p)]) != string(p) {
		return d.corrupt("key of another index")
	}
	b := key[len(p):]
	for i, slot := range d.keySlots {
		c := d.x.keyColumn(i)
		var err error
		if d.x.levels != nil && i > 0 {
			var ok bool
			if b, ok = d.x.ascend(b, i); !ok {
				return d.corrupt("key of another table")
			}
		}
		if slot < 0 {
			if b, err = skipKeyDatum(b, c.t, c.dir); err != nil {
				return d.corrupt("malformed key")
			}
			continue
		}
		if out[slot], b, err = DecodeKeyDatum(b, c.t, c.dir); err != nil {
			return d.corrupt("malformed key")
		}
	}
	return nil
}

// KeyValues reads the values of all columns of an entry's key, for messages such as "Key (a)=(1) already exists".
func (x *Index) KeyValues(key []byte) (types.Row, error) {
	d := Decoder{x: x}
	p := x.prefix
	if len(key) < len(p) || string(key[:len(p)]) != string(p) {
		return nil, d.corrupt("key of another index")
	}
	b := key[len(p):]
	row := make(types.Row, len(x.columns))
	for i := range x.columns {
		c := &x.columns[i]
		var err error
		if x.levels != nil && i > 0 {
			var ok bool
			if b, ok = x.ascend(b, i); !ok {
				return nil, d.corrupt("key of another table")
			}
		}
		if row[i], b, err = DecodeKeyDatum(b, c.t, c.dir); err != nil {
			return nil, d.corrupt("malformed key")
		}
	}
	return row, nil
}

// Bounds of an entry. A command of the log has at most 32 MiB, and an entry is written by one, with some others that are small.
// A key is copied into locks, spans and the bounds of ranges, so its bound is much lower; PostgreSQL's is 2,704 bytes.
const (
	KeyBytesMax   = 1 << 20
	EntryBytesMax = 30 << 20
)

// Check refuses an entry that is too large to be written.
func (x *Index) Check(key, value []byte) error {
	if len(key) > KeyBytesMax {
		return sqlstate.New(sqlstate.ProgramLimitExceeded, "index row size %d exceeds maximum %d for index \"%s\"", len(key), KeyBytesMax, x.Desc.Name).
			WithHint("Keep long values in columns that no index has, and index a hash of them.")
	}
	if n := len(key) + len(value); n > EntryBytesMax {
		return sqlstate.New(sqlstate.ProgramLimitExceeded, "row is too big: size %d, maximum size %d", n, EntryBytesMax).
			WithHint("Divide long values among several rows.")
	}
	return nil
}
