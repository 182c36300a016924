package rowcode

import (
	"meridian/encoding"
	"meridian/keys"
	"meridian/sql/catalog"
	"meridian/sql/types"
)

// A recipe says how the key of a row in the primary index is made of the row's entry in another index, for nodes that serve entries and have no
// use for the table's shape otherwise (kv.Header.Follow):
//
//	length and prefix of the primary index, length of the entries' prefix, then for each column of the primary key
//	  00 position                    copied from the entry's key
//	  kind direction column          from the entry's value, where the column has this identity
//
// All numbers are varints. A recipe from another node may be anything, and the sender of one believes no key that comes back: it compares it with the one that it makes of the
// entry itself.
const (
	fromKey    = iota
	fromVarint // an integer, or what is kept as one
	fromSized
	fromBool
)

// Recipe returns how an entry of x leads to the row's key in the table's primary index; nil if it takes more than a recipe can say.
func (x *Index) Recipe(primary *Index) []byte {
	if !x.unique || x.Desc.Primary || primary.levels != nil {
		return nil
	}
	b := encoding.AppendSized(nil, primary.prefix)
	b = encoding.AppendUvarint(b, uint64(len(x.prefix)))
	for i := range primary.columns {
		c := &primary.columns[i]
		var ok bool
		if b, ok = x.ingredient(b, c); !ok {
			return nil
		}
	}
	return b
}

// ingredient appends the source of one column of the primary key.
func (x *Index) ingredient(b []byte, c *keyColumn) ([]byte, bool) {
	for at := range x.columns {
		k := &x.columns[at]
		if p := k.t.Phys(); p == types.PhysTime || p == types.PhysArray {
			break // in a key it is more than one item, and what follows is not found by counting
		}
		if k.id == c.id && k.dir == c.dir {
			return encoding.AppendUvarint(append(b, fromKey), uint64(at)), true
		}
	}
	for i := range x.values {
		v := &x.values[i]
		if v.id != c.id || v.inexactOnly {
			continue
		}
		kind := byte(0)
		switch v.t.Phys() {
		case types.PhysInt, types.PhysDate, types.PhysTimestamp:
			kind = fromVarint
		case types.PhysString, types.PhysBytes, types.PhysUUID:
			kind = fromSized
		case types.PhysBool:
			kind = fromBool
		default:
			return nil, false
		}
		return encoding.AppendUvarint(append(b, kind, byte(c.dir)), uint64(v.id)), true
	}
	return nil, false
}

// Follow makes the key of the row to which an entry leads, by a recipe; ok is false if it can't.
func Follow(recipe, key, value []byte) (k keys.Key, ok bool) {
	prefix, recipe, err := encoding.Sized(recipe)
	if err != nil || len(prefix) == 0 {
		return nil, false
	}
	skip, recipe, err := encoding.Uvarint(recipe)
	if err != nil || skip > uint64(len(key)) || len(value) == 0 || value[0] != valueVersion {
		return nil, false
	}
	key, value = key[skip:], value[1:]
	k = append(make(keys.Key, 0, len(prefix)+32), prefix...)
	for len(recipe) > 0 {
		kind := recipe[0]
		if recipe = recipe[1:]; kind != fromKey {
			if len(recipe) == 0 {
				return nil, false
			}
			dir := encoding.Direction(recipe[0] & 1)
			id, rest, err := encoding.Uvarint(recipe[1:])
			if err != nil {
				return nil, false
			}
			if k, ok = appendFrom(k, kind, dir, value, catalog.ColumnID(id)); !ok {
				return nil, false
			}
			recipe = rest
			continue
		}
		at, rest, err := encoding.Uvarint(recipe)
		if err != nil {
			return nil, false
		}
		recipe = rest
		b := key
		for ; at > 0; at-- {
			if b, err = encoding.Skip(b); err != nil {
				return nil, false
			}
		}
		n, err := encoding.Length(b)
		if err != nil {
			return nil, false
		}
		k = append(k, b[:n]...)
	}
	return k, true
}

// appendFrom appends a column of a value in key order.
func appendFrom(k keys.Key, kind byte, dir encoding.Direction, value []byte, id catalog.ColumnID) (keys.Key, bool) {
	for at := uint64(0); len(value) > 0; {
		head, rest, err := encoding.Uvarint(value)
		if err != nil {
			return nil, false
		}
		at += head >> 3
		wire := head & 7
		if value = rest; at != uint64(id) {
			if value, err = skipPayload(value, wire); err != nil {
				return nil, false
			}
			continue
		}
		switch {
		case kind == fromVarint && wire == wireVarint:
			v, _, err := encoding.Varint(value)
			return encoding.AppendInt(k, v, dir), err == nil
		case kind == fromSized && wire == wireSized:
			v, _, err := encoding.Sized(value)
			return encoding.AppendBytes(k, v, dir), err == nil
		case kind == fromBool && (wire == wireTrue || wire == wireFalse):
			return encoding.AppendBool(k, wire == wireTrue, dir), true
		}
		return nil, false
	}
	return nil, false
}
