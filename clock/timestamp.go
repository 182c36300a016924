package clock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Timestamp is a hybrid logical timestamp: wall-clock nanoseconds since the Unix epoch, then a counter that
// orders events within one nanosecond. The zero value means "no timestamp" and is less than every other.
type Timestamp struct {
	Wall    int64
	Logical uint32
}

// MaxTimestamp is greater than every timestamp a clock issues.
var MaxTimestamp = Timestamp{Wall: math.MaxInt64, Logical: math.MaxUint32}

// Less reports t < u.
func (t Timestamp) Less(u Timestamp) bool {
	return t.Wall < u.Wall || (t.Wall == u.Wall && t.Logical < u.Logical)
}

// LessEq reports t <= u.
func (t Timestamp) LessEq(u Timestamp) bool { return !u.Less(t) }

// Compare returns -1, 0 or 1.
func (t Timestamp) Compare(u Timestamp) int {
	switch {
	case t.Less(u):
		return -1
	case u.Less(t):
		return 1
	}
	return 0
}

// IsZero reports whether t is "no timestamp".
func (t Timestamp) IsZero() bool { return t == Timestamp{} }

// Next is the least timestamp greater than t.
func (t Timestamp) Next() Timestamp {
	if t.Logical == math.MaxUint32 {
		return Timestamp{Wall: t.Wall + 1}
	}
	return Timestamp{Wall: t.Wall, Logical: t.Logical + 1}
}

// Prev is the greatest timestamp less than t; t must not be zero.
func (t Timestamp) Prev() Timestamp {
	if t.Logical > 0 {
		return Timestamp{Wall: t.Wall, Logical: t.Logical - 1}
	}
	return Timestamp{Wall: t.Wall - 1, Logical: math.MaxUint32}
}

// Forward is the later of the two.
func (t Timestamp) Forward(u Timestamp) Timestamp {
	if t.Less(u) {
		return u
	}
	return t
}

// Backward is the earlier of the two.
func (t Timestamp) Backward(u Timestamp) Timestamp {
	if u.Less(t) {
		return u
	}
	return t
}

// Add shifts the wall part and keeps the counter.
func (t Timestamp) Add(d time.Duration) Timestamp {
	return Timestamp{Wall: t.Wall + int64(d), Logical: t.Logical}
}

// Time is the wall part.
func (t Timestamp) Time() time.Time { return time.Unix(0, t.Wall).UTC() }

// FromTime is the timestamp of a wall-clock reading.
func FromTime(t time.Time) Timestamp { return Timestamp{Wall: t.UnixNano()} }

// String prints wall nanoseconds, a dot and ten digits of the counter, which Parse reads back and which sorts
// as a decimal number does.
func (t Timestamp) String() string { return fmt.Sprintf("%d.%010d", t.Wall, t.Logical) }

// ErrBadTimestamp is what Parse returns for text that String did not print.
var ErrBadTimestamp = errors.New("clock: not a timestamp")

// Parse reads what String prints; the counter may be absent.
func Parse(s string) (Timestamp, error) {
	wall, frac, _ := strings.Cut(s, ".")
	w, err := strconv.ParseInt(wall, 10, 64)
	if err != nil || w < 0 {
		return Timestamp{}, ErrBadTimestamp
	}
	var l uint64
	if frac != "" {
		if len(frac) > 10 {
			return Timestamp{}, ErrBadTimestamp
		}
		frac += strings.Repeat("0", 10-len(frac))
		if l, err = strconv.ParseUint(frac, 10, 32); err != nil {
			return Timestamp{}, ErrBadTimestamp
		}
	}
	return Timestamp{Wall: w, Logical: uint32(l)}, nil
}

// EncodedLen is the number of bytes that Append adds.
const EncodedLen = 12

// Append adds the twelve-byte big-endian form, which sorts as Compare does for non-negative wall parts.
func (t Timestamp) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(t.Wall))
	return binary.BigEndian.AppendUint32(b, t.Logical)
}

// Decode reads what Append wrote and returns the rest.
func Decode(b []byte) (Timestamp, []byte, error) {
	if len(b) < EncodedLen {
		return Timestamp{}, nil, ErrBadTimestamp
	}
	return Timestamp{
		Wall:    int64(binary.BigEndian.Uint64(b)),
		Logical: binary.BigEndian.Uint32(b[8:]),
	}, b[EncodedLen:], nil
}
