package keys

import (
	"bytes"
	"math/rand/v2"
	"sort"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"meridian/encoding"
)

type rangeID uint64

func TestPrint(t *testing.T) {
	id := [16]byte{0xab, 0xcd, 0xef, 0x01}
	for _, c := range []struct {
		key  Key
		want string
	}{
		{Min, "/Min"},
		{Max, "/Max"},
		{RaftLogKey(rangeID(7), 12), "/Local/RangeID/7/u/RaftLog/12"},
		{AppliedStateKey(rangeID(7)), "/Local/RangeID/7/r/AppliedState"},
		{RangeDescriptorKey(Key("\x10\x19")), "/Local/Range/Table/1/Descriptor"},
		{TxnKey(Key("\x10\x19"), id), "/Local/Range/Table/1/Txn/abcdef01"},
		{LockKey(RangeDescriptorKey(Min)), "/Local/Lock/Local/Range/Min/Descriptor"},
		{StoreIdentKey(), `/Local/Store/"ident"`},
		{RangeMetaKey(Max), "/Meta2/Max"},
		{LivenessKey(uint32(3)), "/System/liveness/3"},
		{ClusterVersionKey(), "/System/version"},
		{NodeVersionKey(uint32(3)), "/System/nodeversion/3"},
		{encoding.AppendNull(encoding.AppendString(IndexPrefix(uint32(104), uint32(1)), "x\x00", encoding.Descending), encoding.Ascending),
			`/Table/104/1/"x\x00"/NULL`},
		{Key("\x77"), "/0x77"},
		{Key("\x01"), "/Local"},
		{Key("\x01k\x60"), "/Local/0x6b60"},
	} {
		if got := PrettyPrint(c.key); got != c.want {
			t.Errorf("%x: %s, want %s", []byte(c.key), got, c.want)
		}
	}
}

func TestAddr(t *testing.T) {
	k := Key("\x10\x19a\x00b")
	for _, local := range []Key{RangeDescriptorKey(k), TxnKey(k, [16]byte{1}), TxnKey(RangeDescriptorKey(k), [16]byte{1})} {
		if got := Addr(local); !got.Equal(k) {
			t.Errorf("%s: %x", local, []byte(got))
		}
	}
	if !Addr(k).Equal(k) {
		t.Error("a user key is its own address")
	}
	anchor, id, err := DecodeTxnKey(TxnKey(k, [16]byte{9}))
	if err != nil || !anchor.Equal(k) || id != [16]byte{9} {
		t.Error(anchor, id, err)
	}
	if l, err := DecodeLockKey(LockKey(k)); err != nil || !l.Equal(k) {
		t.Error(l, err)
	}
	if i, x, err := DecodeRaftLogKey(RaftLogKey(rangeID(1<<40), 1<<50)); err != nil || i != 1<<40 || x != 1<<50 {
		t.Error(i, x, err)
	}
	if addr, name, err := DecodeProtocolKey(ProtocolKey(k, []byte("n"))); err != nil || !addr.Equal(k) || string(name) != "n" {
		t.Error(addr, name, err)
	}
	if _, _, err := DecodeProtocolKey(TxnKey(k, [16]byte{9})); err == nil {
		t.Error("a transaction record was taken for what a protocol keeps")
	}
	for generation, within := range map[uint64]bool{0: true, 6: true, 7: false, 8: false} {
		if s := DeltaSpan(rangeID(3), 7); s.Contains(DeltaKey(rangeID(3), generation, []byte("n"))) != within || s.Contains(DeltaPrefix(rangeID(3), generation)) != within {
			t.Errorf("deltas below 7 and one of %d: %s", generation, s)
		}
	}
	if !UnreplicatedSpan(rangeID(3)).Contains(DeltaKey(rangeID(3), 1<<63, []byte("n"))) || !ReplicatedSpan(rangeID(3)).Contains(SealKey(rangeID(3))) {
		t.Error("not where a removal looks for it")
	}
	if n, err := DecodeNodeKey(LivenessKey(uint32(12))); err != nil || n != 12 {
		t.Error(n, err)
	}
	if tb, ix, rest, err := DecodeIndexKey(append(IndexPrefix(uint32(1000), uint32(2)), 'x')); err != nil || tb != 1000 || ix != 2 || string(rest) != "x" {
		t.Error(tb, ix, rest, err)
	}
}

func genKey() *rapid.Generator[Key] {
	return rapid.Custom(func(t *rapid.T) Key {
		return Key(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 3, 4, 0x10, 0x7f, 0xfe, 0xff}), 0, 4).Draw(t, "key"))
	})
}

// TestLocalKeysStayInTheirRange: every local key of a user key is in the spans of the range that has the user
// key, and in no other range's.
func TestLocalKeysStayInTheirRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var bounds []Key
		for range 3 {
			if k := genKey().Draw(t, "bound"); k.Compare(LocalMax) > 0 && k.Less(Max) {
				bounds = append(bounds, k)
			}
		}
		bounds = append(bounds, Min, Max)
		sort.Slice(bounds, func(i, j int) bool { return bounds[i].Less(bounds[j]) })
		k := append(Key{0x10}, genKey().Draw(t, "k")...)
		desc := RangeDescriptorKey(k)
		for i := 0; i+1 < len(bounds); i++ {
			start, end := bounds[i], bounds[i+1]
			in := Span{start, end}.Contains(k) && !start.Equal(end)
			spans := RangeSpans(rangeID(1), start, end)
			for _, local := range []Key{k, desc, TxnKey(k, [16]byte{1}), ProtocolKey(k, []byte("x")), ProtocolKey(k, nil), LockKey(k), LockKey(desc), LockKey(TxnKey(k, [16]byte{2}))} {
				found := 0
				for _, s := range spans {
					if s.Contains(local) && s.Start.Less(s.End) {
						found++
					}
				}
				if want := map[bool]int{true: 1}[in]; found != want {
					t.Fatalf("%s: in %d spans of [%s, %s), want %d", local, found, start, end, want)
				}
			}
			for j := 1; j < len(spans); j++ {
				if !start.Equal(end) && spans[j].Start.Less(spans[j-1].End) {
					t.Fatalf("spans overlap: %s %s", spans[j-1], spans[j])
				}
			}
		}
	})
}

// TestMeta: the first index entry in MetaSpan(k) belongs to the range that contains k.
func TestMeta(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bounds := []Key{Min, Max}
		for range rapid.IntRange(0, 5).Draw(t, "n") {
			if k := genKey().Draw(t, "bound"); k.Compare(Meta2Prefix) > 0 && k.Less(Max) &&
				// No index key lies between the last range's entry and the end of the index, so no split does.
				!(RangeMetaKey(Max).Compare(k) <= 0 && k.Less(MetaMax)) {
				bounds = append(bounds, k)
			}
		}
		sort.Slice(bounds, func(i, j int) bool { return bounds[i].Less(bounds[j]) })
		type entry struct {
			index Key
			r     Span
		}
		var index []entry
		for i := 0; i+1 < len(bounds); i++ {
			if bounds[i].Equal(bounds[i+1]) {
				continue
			}
			for _, m := range MetaKeys(bounds[i], bounds[i+1]) {
				index = append(index, entry{m, Span{bounds[i], bounds[i+1]}})
			}
		}
		sort.Slice(index, func(i, j int) bool { return index[i].index.Less(index[j].index) })
		for i := 1; i < len(index); i++ {
			if index[i].index.Equal(index[i-1].index) {
				t.Fatalf("two ranges at %s", index[i].index)
			}
		}
		find := func(s Span) Span {
			for _, e := range index {
				if s.Contains(e.index) {
					return e.r
				}
			}
			t.Fatalf("nothing in %s of %v", s, index)
			return Span{}
		}
		k := rapid.OneOf(genKey(), rapid.SampledFrom([]Key{RangeMetaKey(Max), RangeMetaKey(Max).Next(), MetaMax})).Draw(t, "k")
		if !k.Less(Max) {
			return
		}
		if s, ok := MetaSpan(k); ok {
			if r := find(s); !r.Contains(Addr(k)) {
				t.Fatalf("%s: found %s", k, r)
			}
		}
		if s, ok := MetaEndSpan(k); ok {
			if r := find(s); !(r.Start.Less(Addr(k)) && Addr(k).Compare(r.End) <= 0) {
				t.Fatalf("before %s: found %s", k, r)
			}
		}
	})
}

func TestOrder(t *testing.T) {
	ordered := []Key{
		RaftLogKey(rangeID(1), 1), RaftLogKey(rangeID(1), 256), RaftLogKey(rangeID(2), 1),
		RangeDescriptorKey(Min), StoreIdentKey(), LockKey(Min), LocalMax, RangeMetaKey(MetaMax),
		RangeMetaKey(TablePrefix), RangeMetaKey(Max), SystemKey(""), TableKey(uint32(1)), TableKey(uint32(100)), Max,
	}
	for i := 1; i < len(ordered); i++ {
		if bytes.Compare(ordered[i-1], ordered[i]) >= 0 {
			t.Errorf("%s >= %s", ordered[i-1], ordered[i])
		}
	}
}

func FuzzPrint(f *testing.F) {
	f.Add([]byte(TxnKey(Key("a"), [16]byte{1})))
	f.Add([]byte(IndexPrefix(uint32(5), uint32(6))))
	f.Fuzz(func(t *testing.T, b []byte) {
		k := Key(b)
		_ = PrettyPrint(k)
		_, _, _ = DecodeTxnKey(k)
		_, _, _ = DecodeRaftLogKey(k)
		_, _, _, _ = DecodeIndexKey(k)
		_, _ = DecodeRangeIDKey(k)
		_ = Addr(k)
	})
}

// TestSeparator: the shortest key between two, in random pairs; a masked key has none of its row's bytes.
func TestSeparator(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	key := func() Key {
		k := IndexPrefix(uint32(20000), uint32(1))
		for range 1 + dice.IntN(6) {
			k = append(k, byte('a'+dice.IntN(2)))
		}
		return k
	}
	for range 10000 {
		a, b := key(), key()
		if !a.Less(b) {
			continue
		}
		s := Separator(a, b)
		if !a.Less(s) || b.Less(s) || len(s) > 1 && len(s) > len(IndexPrefix(uint32(20000), uint32(1))) && a.Less(s[:len(s)-1]) {
			t.Fatalf("%s | %s: %s", a, b, s)
		}
	}
	if s := Separator(TableKey(uint32(19999)), IndexPrefix(uint32(20000), uint32(1))); !s.Equal(IndexPrefix(uint32(20000), uint32(1))) {
		t.Errorf("between tables: %s", s)
	}
	k := Key(encoding.AppendString(IndexPrefix(uint32(20000), uint32(1)), "secret", encoding.Ascending))
	if m := Masked(k); strings.Contains(m, "secret") || !strings.HasPrefix(m, "/Table/20000/1/#") || Masked(k) != m {
		t.Error(m)
	}
	if m := Masked(TableKey(uint32(20000))); m != "/Table/20000" {
		t.Error(m)
	}
}
