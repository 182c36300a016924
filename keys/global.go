package keys

import (
	"bytes"
	"encoding/binary"

	"meridian/encoding"
)

// Index keys.

func metaKey(prefix, k Key) Key {
	m := make(Key, 0, len(prefix)+len(k)+1)
	return append(append(m, prefix...), k...)
}

// RangeMetaKey is the index key of a range that ends at end. A range that holds the end of the index itself has
// a second one; MetaKeys lists both.
func RangeMetaKey(end Key) Key {
	switch {
	case bytes.Compare(end, Meta2Prefix) <= 0:
		return Meta1Prefix
	case bytes.Compare(end, MetaMax) < 0:
		return metaKey(Meta1Prefix, end[len(Meta2Prefix):])
	case end.Equal(MetaMax):
		return metaKey(Meta1Prefix, Max)
	}
	return metaKey(Meta2Prefix, end)
}

// MetaKeys lists the index keys under which the descriptor of the range [start, end) is to be found.
func MetaKeys(start, end Key) []Key {
	ks := []Key{RangeMetaKey(end)}
	if bytes.Compare(start, MetaMax) < 0 && bytes.Compare(end, MetaMax) > 0 {
		ks = append(ks, metaKey(Meta1Prefix, Max))
	}
	return ks
}

// MetaSpan is where the index entry of the range that contains k is: the first key of the span. Keys of the
// first level have none: they are in the first range, which nodes know without a lookup.
func MetaSpan(k Key) (s Span, ok bool) {
	k = Addr(k)
	switch {
	case bytes.Compare(k, Meta2Prefix) < 0:
		return Span{}, false
	case bytes.Compare(k, MetaMax) < 0:
		if tail := k[len(Meta2Prefix):]; bytes.Compare(tail, Max) < 0 {
			return Span{Start: append(metaKey(Meta1Prefix, tail), 0), End: Meta2Prefix}, true
		}
		// The entry of the last range, and what could only follow it: the range that holds the end of the index.
		return Span{Start: metaKey(Meta1Prefix, Max), End: Meta2Prefix}, true
	}
	return Span{Start: append(metaKey(Meta2Prefix, k), 0), End: MetaMax}, true
}

// MetaEndSpan is MetaSpan for the range that contains the keys just before k: for reverse scans.
func MetaEndSpan(k Key) (s Span, ok bool) {
	k = Addr(k)
	switch {
	case bytes.Compare(k, Meta2Prefix) <= 0:
		return Span{}, false
	case bytes.Compare(k, MetaMax) <= 0:
		if tail := k[len(Meta2Prefix):]; k.Less(MetaMax) && bytes.Compare(tail, Max) <= 0 {
			return Span{Start: metaKey(Meta1Prefix, tail), End: Meta2Prefix}, true
		}
		return Span{Start: metaKey(Meta1Prefix, Max), End: Meta2Prefix}, true
	}
	return Span{Start: metaKey(Meta2Prefix, k), End: MetaMax}, true
}

// IsMeta reports whether k is an index key.
func IsMeta(k Key) bool { return len(k) > 0 && (k[0] == Meta1Prefix[0] || k[0] == Meta2Prefix[0]) }

// System keys.

// SystemKey is a system key by name.
func SystemKey(name string) Key { return append(SystemPrefix[:1:1], name...) }

// AllocatorKey holds a counter that hands out identities.
func AllocatorKey(name string) Key { return SystemKey("alloc/" + name) }

// NodeIDAllocatorKey counts node identities.
func NodeIDAllocatorKey() Key { return AllocatorKey("node") }

// RangeIDAllocatorKey counts range identities.
func RangeIDAllocatorKey() Key { return AllocatorKey("range") }

// DescriptorIDAllocatorKey counts the identities of databases, schemas and tables.
func DescriptorIDAllocatorKey() Key { return AllocatorKey("descriptor") }

const (
	liveness    = "liveness/"
	nodeVersion = "nodeversion/"
)

// LivenessKey holds a node's liveness.
func LivenessKey[N ~uint32](node N) Key {
	return binary.BigEndian.AppendUint32(SystemKey(liveness), uint32(node))
}

// CeilingKey holds the cluster's agreement about its clocks (clock.Ceiling).
func CeilingKey() Key { return SystemKey("ceiling") }

// LivenessSpan is all nodes' liveness.
func LivenessSpan() Span { p := SystemKey(liveness); return Span{Start: p, End: p.PrefixEnd()} }

// NodeVersionKey holds what a node's binary can do, which version it acts by and below which it has promised not to go back.
func NodeVersionKey[N ~uint32](node N) Key {
	return binary.BigEndian.AppendUint32(SystemKey(nodeVersion), uint32(node))
}

// NodeVersionSpan is all nodes' versions.
func NodeVersionSpan() Span { p := SystemKey(nodeVersion); return Span{Start: p, End: p.PrefixEnd()} }

// MigrationKey says what has become of a migration of a version.
func MigrationKey(version, name string) Key { return SystemKey("migration/" + version + "/" + name) }

// DecodeNodeKey gives the node of a LivenessKey or a NodeVersionKey.
func DecodeNodeKey(k Key) (uint32, error) {
	for _, p := range [...]string{liveness, nodeVersion} {
		if rest, ok := bytes.CutPrefix(k, SystemKey(p)); ok && len(rest) == 4 {
			return binary.BigEndian.Uint32(rest), nil
		}
	}
	return 0, ErrMalformed
}

// ClusterVersionKey holds the version that the cluster acts by, and the one to which it is being upgraded.
func ClusterVersionKey() Key { return SystemKey("version") }

// Table keys.

// TableKey precedes all keys of a table.
func TableKey[T ~uint32](table T) Key {
	return encoding.AppendUint(TablePrefix[:1:1], uint64(table), encoding.Ascending)
}

// OfUser reports whether a key is one of a table's.
func OfUser(k Key) bool { return len(k) > 0 && k[0] == TablePrefix[0] }

// TableSpan is all keys of a table.
func TableSpan[T ~uint32](table T) Span {
	p := TableKey(table)
	return Span{Start: p, End: p.PrefixEnd()}
}

// IndexPrefix precedes all keys of one index of a table.
func IndexPrefix[T, I ~uint32](table T, index I) Key {
	return AppendIndexPrefix(make(Key, 0, 16), table, index)
}

// AppendIndexPrefix is IndexPrefix into a buffer.
func AppendIndexPrefix[T, I ~uint32](b []byte, table T, index I) Key {
	b = encoding.AppendUint(append(b, TablePrefix...), uint64(table), encoding.Ascending)
	return encoding.AppendUint(b, uint64(index), encoding.Ascending)
}

// IndexSpan is all keys of one index.
func IndexSpan[T, I ~uint32](table T, index I) Span {
	p := IndexPrefix(table, index)
	return Span{Start: p, End: p.PrefixEnd()}
}

// DecodeTableKey gives the table of a key, and what follows.
func DecodeTableKey(k Key) (table uint32, rest []byte, err error) {
	if len(k) == 0 || k[0] != TablePrefix[0] {
		return 0, nil, ErrMalformed
	}
	t, rest, err := encoding.DecodeUint(k[1:], encoding.Ascending)
	if err != nil || t != uint64(uint32(t)) {
		return 0, nil, ErrMalformed
	}
	return uint32(t), rest, nil
}

// DecodeIndexKey gives the table and index of a key, and what follows.
func DecodeIndexKey(k Key) (table, index uint32, rest []byte, err error) {
	table, rest, err = DecodeTableKey(k)
	if err != nil {
		return 0, 0, nil, err
	}
	i, rest, err := encoding.DecodeUint(rest, encoding.Ascending)
	if err != nil || i != uint64(uint32(i)) {
		return 0, 0, nil, ErrMalformed
	}
	return table, uint32(i), rest, nil
}

// Advisory locks.

// AdvisoryLock identifies an advisory lock of a database: by one number (Sub is 1), or by two (Sub is 2), which are the halves
// of ID.
type AdvisoryLock struct {
	Database uint32
	Sub      uint8
	ID       uint64
}

var advisoryPrefix = SystemKey("advisory/")

// Key is the key that the holder of an exclusive advisory lock writes, without ever committing it.
func (a AdvisoryLock) Key() Key {
	k := make(Key, 0, len(advisoryPrefix)+13+16)
	k = binary.BigEndian.AppendUint32(append(k, advisoryPrefix...), a.Database)
	return binary.BigEndian.AppendUint64(append(k, a.Sub), a.ID)
}

// SharerKey is the key that a holder writes who shares the lock with others; the holder's identity tells it apart.
func (a AdvisoryLock) SharerKey(holder [16]byte) Key { return append(a.Key(), holder[:]...) }

// Sharers is all keys of those who share the lock.
func (a AdvisoryLock) Sharers() Span {
	k := a.Key()
	return Span{Start: k.Next(), End: k.PrefixEnd()}
}

// DecodeAdvisory gives the advisory lock of which k is a key.
func DecodeAdvisory(k Key) (a AdvisoryLock, ok bool) {
	rest, ok := bytes.CutPrefix(k, advisoryPrefix)
	if !ok || len(rest) < 13 {
		return a, false
	}
	return AdvisoryLock{Database: binary.BigEndian.Uint32(rest), Sub: rest[4], ID: binary.BigEndian.Uint64(rest[5:])}, true
}

// Separator is the shortest key that is greater than left and at most right, of those that have right's table and index. left is less than right.
func Separator(left, right Key) Key {
	least := 0
	if _, _, rest, err := DecodeIndexKey(right); err == nil {
		least = len(right) - len(rest)
	}
	same := 0
	for same < len(left) && same < len(right) && left[same] == right[same] {
		same++
	}
	return append(Key(nil), right[:min(len(right), max(same+1, least))]...)
}
