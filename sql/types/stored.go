package types

import (
	"fmt"
	"strconv"
	"strings"
)

// MarshalText is the form in which descriptors keep a type: its OID, and its modifier if it has one. Both are
// PostgreSQL's and never change.
func (t *T) MarshalText() ([]byte, error) {
	if t.IsEnum() {
		return t.marshalEnum()
	}
	oid := t.OID()
	if t.Kind == KindXID8 || t.Kind == KindArray && t.Elem.Kind == KindXID8 { // earlier versions do not know it
		oid = 0
	}
	switch { // the fields of rows are not stored
	case t.RowOID != 0:
		oid = kinds[KindTuple].oid
	case t.Kind == KindArray && t.Elem.RowOID != 0:
		oid = kinds[KindTuple].array
	}
	if oid == 0 {
		return nil, fmt.Errorf("types: %s can't be stored", t)
	}
	b := strconv.AppendUint(nil, uint64(oid), 10)
	if m := t.Typmod(); m >= 0 {
		b = strconv.AppendInt(append(b, ':'), int64(m), 10)
	}
	return b, nil
}

// UnmarshalText reads what MarshalText wrote.
func (t *T) UnmarshalText(b []byte) error {
	if s := string(b); strings.HasPrefix(s, storedEnum) {
		return t.unmarshalEnum(s)
	}
	id, mod, modified := strings.Cut(string(b), ":")
	oid, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		return fmt.Errorf("types: %q is not a stored type", b)
	}
	found, ok := FromOID(uint32(oid))
	if !ok {
		return fmt.Errorf("types: unknown type %d", oid)
	}
	if modified {
		m, err := strconv.ParseInt(mod, 10, 32)
		if err != nil {
			return fmt.Errorf("types: %q is not a stored type", b)
		}
		found = found.WithTypmod(int32(m))
	}
	*t = *found
	return nil
}
