package keys

import (
	"bytes"
	"encoding/binary"
	"errors"

	"meridian/encoding"
)

// ErrMalformed is what the decoders of this package return for keys of another kind.
var ErrMalformed = errors.New("keys: not a key of this kind")

// Second bytes of local keys.
const (
	localRangeID = 'i'
	localRange   = 'k'
	localStore   = 's'
	localLock    = 'z'

	unreplicated = 'u'
	replicated   = 'r'
)

// Names of range-ID local keys.
const (
	nameLog       = 'l' // unreplicated
	nameHardState = 'h' // unreplicated
	nameTruncated = 't' // unreplicated
	nameReplicaID = 'p' // unreplicated
	nameTombstone = 'x' // unreplicated
	nameApplied   = 'a' // replicated
	nameLease     = 'l' // replicated
	nameGC        = 'g' // replicated
	nameCopy      = 'd' // replicated
	nameSeal      = 'n' // replicated
	nameDelta     = 'd' // unreplicated
)

// Names of range-local keys.
const (
	nameDescriptor = 'd'
	nameTxn        = 't'
	nameProtocol   = 'p'
)

func rangeIDKey[R ~uint64](id R, class, name byte, extra int) Key {
	k := make(Key, 0, 12+extra)
	k = append(k, 0x01, localRangeID)
	k = binary.BigEndian.AppendUint64(k, uint64(id))
	return append(k, class, name)
}

// RaftLogPrefix precedes the indexes of a range's raft log.
func RaftLogPrefix[R ~uint64](id R) Key { return rangeIDKey(id, unreplicated, nameLog, 0) }

// RaftLogKey is the key of a raft log entry.
func RaftLogKey[R ~uint64](id R, index uint64) Key {
	return binary.BigEndian.AppendUint64(rangeIDKey(id, unreplicated, nameLog, 8), index)
}

// AppendRaftLogKey is RaftLogKey into a buffer.
func AppendRaftLogKey[R ~uint64](b []byte, id R, index uint64) Key {
	b = append(b, 0x01, localRangeID)
	b = binary.BigEndian.AppendUint64(b, uint64(id))
	b = append(b, unreplicated, nameLog)
	return binary.BigEndian.AppendUint64(b, index)
}

// DecodeRaftLogKey gives back the range and the index.
func DecodeRaftLogKey(k Key) (id, index uint64, err error) {
	if len(k) != 20 || k[0] != 0x01 || k[1] != localRangeID || k[10] != unreplicated || k[11] != nameLog {
		return 0, 0, ErrMalformed
	}
	return binary.BigEndian.Uint64(k[2:]), binary.BigEndian.Uint64(k[12:]), nil
}

// HardStateKey holds raft's term, vote and commit index.
func HardStateKey[R ~uint64](id R) Key { return rangeIDKey(id, unreplicated, nameHardState, 0) }

// TruncatedStateKey holds the index and term of the last entry that the log no longer has.
func TruncatedStateKey[R ~uint64](id R) Key { return rangeIDKey(id, unreplicated, nameTruncated, 0) }

// ReplicaIDKey holds which replica of the range this store has.
func ReplicaIDKey[R ~uint64](id R) Key { return rangeIDKey(id, unreplicated, nameReplicaID, 0) }

// TombstoneKey remembers, after a replica was removed, which replica numbers may not come back.
func TombstoneKey[R ~uint64](id R) Key { return rangeIDKey(id, unreplicated, nameTombstone, 0) }

// AppliedStateKey holds the applied index and what must change with it.
func AppliedStateKey[R ~uint64](id R) Key { return rangeIDKey(id, replicated, nameApplied, 0) }

// LeaseKey holds the range's lease.
func LeaseKey[R ~uint64](id R) Key { return rangeIDKey(id, replicated, nameLease, 0) }

// GCThresholdKey holds the timestamp below which versions may be gone.
func GCThresholdKey[R ~uint64](id R) Key { return rangeIDKey(id, replicated, nameGC, 0) }

// DescriptorCopyKey holds the descriptor as of the applied state, for opening the store: the transactional one is
// at RangeDescriptorKey.
func DescriptorCopyKey[R ~uint64](id R) Key { return rangeIDKey(id, replicated, nameCopy, 0) }

// SealKey holds how far the change of a range's generation has come; ranges of the leader protocol have none.
func SealKey[R ~uint64](id R) Key { return rangeIDKey(id, replicated, nameSeal, 0) }

// DeltaPrefix precedes the names of what a replica has promised under a protocol without a log, in one generation of the range.
func DeltaPrefix[R ~uint64](id R, generation uint64) Key {
	return binary.BigEndian.AppendUint64(rangeIDKey(id, unreplicated, nameDelta, 8), generation)
}

// DeltaKey is the key of such a promise; its name is the protocol's.
func DeltaKey[R ~uint64](id R, generation uint64, name []byte) Key {
	return append(binary.BigEndian.AppendUint64(rangeIDKey(id, unreplicated, nameDelta, 8+len(name)), generation), name...)
}

// DeltaSpan is all promises of a replica in generations below one.
func DeltaSpan[R ~uint64](id R, below uint64) Span {
	return Span{Start: rangeIDKey(id, unreplicated, nameDelta, 0), End: DeltaPrefix(id, below)}
}

// RangeIDSpan is all of a range's range-ID local keys.
func RangeIDSpan[R ~uint64](id R) Span {
	p := rangeIDKey(id, 0, 0, 0)[:10]
	return Span{Start: p, End: p.PrefixEnd()}
}

// UnreplicatedSpan is what each replica of a range keeps for itself.
func UnreplicatedSpan[R ~uint64](id R) Span {
	p := rangeIDKey(id, unreplicated, 0, 0)[:11]
	return Span{Start: p, End: p.PrefixEnd()}
}

// ReplicatedSpan is the range-ID local keys that all replicas of a range agree on.
func ReplicatedSpan[R ~uint64](id R) Span {
	p := rangeIDKey(id, replicated, 0, 0)[:11]
	return Span{Start: p, End: p.PrefixEnd()}
}

// AllRangeIDs is the span of every range's range-ID local keys; with DecodeRangeIDKey a store finds its ranges.
func AllRangeIDs() Span {
	return Span{Start: Key{0x01, localRangeID}, End: Key{0x01, localRangeID + 1}}
}

// DecodeRangeIDKey gives the range of a range-ID local key.
func DecodeRangeIDKey(k Key) (id uint64, err error) {
	if len(k) < 12 || k[0] != 0x01 || k[1] != localRangeID {
		return 0, ErrMalformed
	}
	return binary.BigEndian.Uint64(k[2:]), nil
}

func rangeLocalPrefix(addr Key, extra int) Key {
	k := make(Key, 0, 5+len(addr)+extra)
	return encoding.AppendBytes(append(k, 0x01, localRange), addr, encoding.Ascending)
}

// RangeDescriptorKey holds the descriptor of the range that starts at start.
func RangeDescriptorKey(start Key) Key {
	return append(rangeLocalPrefix(Addr(start), 1), nameDescriptor)
}

// TxnKey holds the record of a transaction. It lives in the range of the anchor's address.
func TxnKey(anchor Key, id [16]byte) Key {
	return append(append(rangeLocalPrefix(Addr(anchor), 17), nameTxn), id[:]...)
}

// DecodeTxnKey gives back the anchor's address and the transaction.
func DecodeTxnKey(k Key) (anchor Key, id [16]byte, err error) {
	addr, rest, err := decodeRangeLocal(k)
	if err != nil || len(rest) != 17 || rest[0] != nameTxn {
		return nil, id, ErrMalformed
	}
	copy(id[:], rest[1:])
	return addr, id, nil
}

// ProtocolKey holds what a protocol keeps about a key in the replicated state of its range, besides the versions of the key.
func ProtocolKey(addr Key, name []byte) Key {
	return append(append(rangeLocalPrefix(Addr(addr), 1+len(name)), nameProtocol), name...)
}

// DecodeProtocolKey gives back the key and the name.
func DecodeProtocolKey(k Key) (addr Key, name []byte, err error) {
	addr, rest, err := decodeRangeLocal(k)
	if err != nil || len(rest) == 0 || rest[0] != nameProtocol {
		return nil, nil, ErrMalformed
	}
	return addr, rest[1:], nil
}

func decodeRangeLocal(k Key) (addr Key, rest []byte, err error) {
	if len(k) < 2 || k[0] != 0x01 || k[1] != localRange {
		return nil, nil, ErrMalformed
	}
	addr, rest, err = encoding.DecodeBytes(k[2:], nil, encoding.Ascending)
	if err != nil {
		return nil, nil, ErrMalformed
	}
	return addr, rest, nil
}

// RangeLocalSpan is the range-local keys of [start, end).
func RangeLocalSpan(start, end Key) Span {
	return Span{Start: rangeLocalPrefix(start, 0), End: rangeLocalPrefix(end, 0)}
}

// IsLocal reports whether k is a local key.
func IsLocal(k Key) bool { return len(k) > 0 && k[0] == 0x01 }

// Addr is the key by which k is routed: itself, or what a range-local key belongs to. Other local keys are not
// routed; their address is themselves.
func Addr(k Key) Key {
	if !IsLocal(k) {
		return k
	}
	if addr, _, err := decodeRangeLocal(k); err == nil {
		return addr
	}
	return k
}

// LockKey is the lock table key of k.
func LockKey(k Key) Key { return AppendLockKey(make(Key, 0, 2+len(k)), k) }

// AppendLockKey is LockKey into a buffer.
func AppendLockKey(b []byte, k Key) Key { return append(append(b, 0x01, localLock), k...) }

// DecodeLockKey gives back the key whose lock table key k is; the result shares k.
func DecodeLockKey(k Key) (Key, error) {
	if len(k) < 2 || k[0] != 0x01 || k[1] != localLock {
		return nil, ErrMalformed
	}
	return k[2:], nil
}

// LockSpan is the lock table keys of [start, end); an empty end means the single key start.
func LockSpan(start, end Key) Span {
	if len(end) == 0 {
		end = start.Next()
	}
	return Span{Start: LockKey(start), End: LockKey(end)}
}

// StoreKey is a store-local key.
func StoreKey(name string) Key { return append(Key{0x01, localStore}, name...) }

// StoreIdentKey says which cluster, node and store this disk belongs to.
func StoreIdentKey() Key { return StoreKey("ident") }

// StoreClockKey holds a bound that the store's clock has never passed; a restarted node starts after it, so that
// it never issues a timestamp twice (clock.C1) even if the physical clock went back.
func StoreClockKey() Key { return StoreKey("clock") }

// StoreStartKey holds how often the store's node was started, and what the latest start was.
func StoreStartKey() Key { return StoreKey("start") }

// StorePeerKey holds what this node knows of the starts of another one.
func StorePeerKey[N ~uint32](node N) Key {
	return encoding.AppendUint32Fixed(StoreKey("peer/"), uint32(node))
}

// DecodeStorePeerKey gives the node of a StorePeerKey.
func DecodeStorePeerKey(k Key) (uint32, error) {
	prefix := StoreKey("peer/")
	if !bytes.HasPrefix(k, prefix) || len(k) != len(prefix)+4 {
		return 0, ErrMalformed
	}
	node, _, err := encoding.DecodeUint32Fixed(k[len(prefix):])
	return node, err
}

// StorePeerSpan has the keys of StorePeerKey.
func StorePeerSpan() Span { return Span{Start: StoreKey("peer/"), End: StoreKey("peer0")} }

// SupportKey holds what this node has withdrawn of its support for another one.
func SupportKey[N ~uint32](node N) Key {
	return encoding.AppendUint32Fixed(StoreKey("support/"), uint32(node))
}

// DecodeSupportKey gives the node of a SupportKey.
func DecodeSupportKey(k Key) (uint32, error) {
	prefix := StoreKey("support/")
	if !bytes.HasPrefix(k, prefix) || len(k) != len(prefix)+4 {
		return 0, ErrMalformed
	}
	node, _, err := encoding.DecodeUint32Fixed(k[len(prefix):])
	return node, err
}

// SupportSpan has the keys of SupportKey.
func SupportSpan() Span { return Span{Start: StoreKey("support/"), End: StoreKey("support0")} }

// StoreProbeKey never has a value; its removal shows the number that the next change of the store gets.
func StoreProbeKey() Key { return StoreKey("probe") }

// StoreMarkedKey is there once the store has a marker file.
func StoreMarkedKey() Key { return StoreKey("marked") }

// StoreDeviationKey says that a replica of this store has deviated from the rest of its range: the store must not be used.
func StoreDeviationKey() Key { return StoreKey("deviation") }

// UserSpan is the addressable keys of [start, end): without the local keys, which sort at the beginning of the
// first range.
func UserSpan(start, end Key) Span {
	if bytes.Compare(start, LocalMax) < 0 {
		start = LocalMax
	}
	return Span{Start: start, End: end}
}

// RangeSpans is all replicated data of the range [start, end), in key order: what a raft snapshot ships and what
// a removed replica clears (with UnreplicatedSpan besides).
func RangeSpans[R ~uint64](id R, start, end Key) []Span {
	return append([]Span{ReplicatedSpan(id)}, RangeDataSpans(start, end)...)
}

// RangeDataSpans is the part of RangeSpans that is addressed by user keys, and so moves with a split or merge.
func RangeDataSpans(start, end Key) []Span {
	local, user := RangeLocalSpan(start, end), UserSpan(start, end)
	return []Span{
		local,
		LockSpan(local.Start, local.End),
		LockSpan(user.Start, user.End),
		user,
	}
}
