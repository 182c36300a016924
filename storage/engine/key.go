package engine

import (
	"encoding/binary"

	"meridian/clock"
	"meridian/keys"
)

// Lengths of versions, without the length byte that follows each.
const (
	wallLen  = 8
	fullLen  = 12
	lockLen  = 17
	maxExtra = 1 + lockLen + 1
)

// appendKey appends the engine key of an unversioned key.
func appendKey(b []byte, k keys.Key) []byte { return append(append(b, k...), 0) }

// appendVersion appends the engine key of a version. The zero timestamp is the place before all versions.
func appendVersion(b []byte, k keys.Key, ts clock.Timestamp) []byte {
	b = append(append(b, k...), 0)
	return appendTimestamp(b, ts)
}

func appendTimestamp(b []byte, ts clock.Timestamp) []byte {
	switch {
	case ts.Logical != 0:
		b = binary.BigEndian.AppendUint64(b, uint64(ts.Wall))
		b = binary.BigEndian.AppendUint32(b, ts.Logical)
		return append(b, fullLen+1)
	case ts.Wall != 0:
		b = binary.BigEndian.AppendUint64(b, uint64(ts.Wall))
		return append(b, wallLen+1)
	}
	return b
}

// appendLock appends the engine key of a lock on k.
func appendLock(b []byte, k keys.Key, strength uint8, txn [16]byte) []byte {
	b = append(keys.AppendLockKey(b, k), 0, strength)
	b = append(b, txn[:]...)
	return append(b, lockLen+1)
}

// versionSize is the number of bytes that a timestamp takes in an engine key.
func versionSize(ts clock.Timestamp) int {
	switch {
	case ts.Logical != 0:
		return fullLen + 1
	case ts.Wall != 0:
		return wallLen + 1
	}
	return 0
}

// SplitKey divides an engine key into key and version; both share raw.
func SplitKey(raw []byte) (k keys.Key, version []byte, ok bool) {
	if len(raw) == 0 {
		return nil, nil, false
	}
	n := int(raw[len(raw)-1])
	end := len(raw) - 1 - n
	if n == 1 || end < 0 || raw[end] != 0 {
		return nil, nil, false
	}
	if n > 0 {
		version = raw[end+1 : len(raw)-1]
	}
	return raw[:end:end], version, true
}

// DecodeTimestamp reads a version that is a timestamp. An empty version gives the zero timestamp.
func DecodeTimestamp(version []byte) (clock.Timestamp, error) {
	switch len(version) {
	case 0:
		return clock.Timestamp{}, nil
	case wallLen:
		return clock.Timestamp{Wall: int64(binary.BigEndian.Uint64(version))}, nil
	case fullLen:
		return clock.Timestamp{
			Wall:    int64(binary.BigEndian.Uint64(version)),
			Logical: binary.BigEndian.Uint32(version[wallLen:]),
		}, nil
	}
	return clock.Timestamp{}, ErrBadKey
}

// DecodeLock reads a version that is a lock.
func DecodeLock(version []byte) (strength uint8, txn [16]byte, err error) {
	if len(version) != lockLen {
		return 0, txn, ErrBadKey
	}
	copy(txn[:], version[1:])
	return version[0], txn, nil
}
