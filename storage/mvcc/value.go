package mvcc

import (
	"meridian/clock"
)

// Raw values. A version's raw value is a header and the user's bytes:
//
//	(nothing)                     tombstone
//	00 <bytes>                    value
//	01 <local timestamp:12> <bytes>  value written while the leaseholder's clock showed less than the version's timestamp
//	03 <local timestamp:12>       tombstone written so
//
// The local timestamp bounds from below when the write can have been seen to happen; without one it is the
// version's own timestamp. An intent's is that of its last write, also of one that was rolled back: the transaction commits after it.
// See Uncertainty.
const (
	flagLocal     = 0x01
	flagTombstone = 0x02
)

// value is a decoded raw value; bytes shares the raw value.
type value struct {
	bytes     []byte
	local     clock.Timestamp // zero: the version's timestamp
	tombstone bool
}

func decodeValue(raw []byte) (value, error) {
	if len(raw) == 0 {
		return value{tombstone: true}, nil
	}
	v := value{bytes: raw[1:]}
	switch raw[0] {
	case 0:
		return v, nil
	case flagLocal, flagLocal | flagTombstone:
		var err error
		if v.local, v.bytes, err = clock.Decode(v.bytes); err != nil {
			return value{}, errBadValue
		}
		if raw[0]&flagTombstone != 0 {
			if len(v.bytes) != 0 {
				return value{}, errBadValue
			}
			v.bytes, v.tombstone = nil, true
		}
		return v, nil
	}
	return value{}, errBadValue
}

// isTombstone tells without decoding the rest. A header that is not known is none: who decodes it refuses it.
func isTombstone(raw []byte) bool { return len(raw) == 0 || raw[0] == flagLocal|flagTombstone }

// header appends what precedes the user's bytes in a raw value; a zero local timestamp is left out.
func header(b []byte, local clock.Timestamp, tombstone bool) []byte {
	switch {
	case local.IsZero() && tombstone:
		return b
	case local.IsZero():
		return append(b, 0)
	case tombstone:
		return local.Append(append(b, flagLocal|flagTombstone))
	}
	return local.Append(append(b, flagLocal))
}
