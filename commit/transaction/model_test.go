package transaction

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"meridian/keys"
	"meridian/kv"
)

// naive is the buffer as a list of everything that was written.
type naive []struct {
	seq   kv.Seq
	span  keys.Span
	value []byte // nil: deleted
}

func (n naive) get(k keys.Key, seq kv.Seq) (value []byte, found bool) {
	for i := len(n) - 1; i >= 0; i-- {
		if n[i].seq <= seq && n[i].span.Contains(k) {
			return n[i].value, true
		}
	}
	return nil, false
}

// TestBuffer holds the buffer, small and large, against the list.
func TestBuffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wide := rapid.SampledFrom([]int{10, 200}).Draw(t, "keys")
		key := func() keys.Key { return keys.Key(fmt.Sprintf("%03d", rapid.IntRange(0, wide).Draw(t, "key"))) }
		var b buffer
		var n naive
		seq := kv.Seq(1)
		for range rapid.IntRange(0, 150).Draw(t, "steps") {
			switch rapid.IntRange(0, 12).Draw(t, "step") {
			case 0: // a deleted span
				s := keys.Span{Start: key(), End: key()}
				if s.Start.Compare(s.End) >= 0 {
					continue
				}
				seq++
				b.deleteRange(s, seq)
				n = append(n, struct {
					seq   kv.Seq
					span  keys.Span
					value []byte
				}{seq, s, nil})
			case 1: // back to some number
				to := kv.Seq(rapid.IntRange(1, int(seq)).Draw(t, "to"))
				b.rollback(to)
				for len(n) > 0 && n[len(n)-1].seq > to {
					n = n[:len(n)-1]
				}
			case 2: // a read
				k, at := key(), kv.Seq(rapid.IntRange(1, int(seq)).Draw(t, "at"))
				v, found := b.get(k, at)
				want, wantFound := n.get(k, at)
				if found != wantFound || (v == nil) != (want == nil) || string(v) != string(want) {
					t.Fatalf("%s at %d: %q %v, want %q %v", string(k), at, v, found, want, wantFound)
				}
			case 3: // a scan over rows that ranges have
				s := keys.Span{Start: key(), End: key()}
				if s.Start.Compare(s.End) >= 0 {
					continue
				}
				at, reverse := kv.Seq(rapid.IntRange(1, int(seq)).Draw(t, "at")), rapid.Bool().Draw(t, "reverse")
				var rows []kv.KeyValue
				var want []string
				for i := 0; i <= wide; i++ {
					k := keys.Key(fmt.Sprintf("%03d", i))
					if !s.Contains(k) {
						continue
					}
					v, found := n.get(k, at)
					if i%3 == 0 {
						rows = append(rows, kv.KeyValue{Key: k, Value: []byte("below")})
						if !found {
							v, found = []byte("below"), true
						}
					}
					if found && v != nil {
						want = append(want, string(k)+"="+string(v))
					}
				}
				if reverse {
					slices.Reverse(rows)
					slices.Reverse(want)
				}
				var got []string
				for _, r := range b.overlay(rows, s, reverse, at) {
					got = append(got, string(r.Key)+"="+string(r.Value))
				}
				if !slices.Equal(got, want) {
					t.Fatalf("scan at %d: %q, want %q", at, got, want)
				}
			default: // a write
				k := key()
				var v []byte
				if rapid.IntRange(0, 3).Draw(t, "delete") > 0 {
					v = []byte(fmt.Sprint(seq))
				}
				seq++
				b.put(k, v, seq)
				n = append(n, struct {
					seq   kv.Seq
					span  keys.Span
					value []byte
				}{seq, keys.Span{Start: k}, v})
			}
		}
		// Both ways of sending the buffer lead to the newest state, applied in the order given.
		for name, reqs := range map[string][]kv.Request{"requests": b.requests(0), "history": b.history()} {
			state := map[string]string{}
			for i := 0; i <= wide; i++ {
				state[fmt.Sprintf("%03d", i)] = "below"
			}
			for _, r := range reqs {
				switch r := r.(type) {
				case *kv.PutRequest:
					state[string(r.Key)] = string(r.Value)
				case *kv.DeleteRequest:
					delete(state, string(r.Key))
				case *kv.DeleteRangeRequest:
					for k := range state {
						if r.Span().Contains(keys.Key(k)) {
							delete(state, k)
						}
					}
				}
			}
			first, last := b.bounds()
			for i := 0; i <= wide; i++ {
				k := keys.Key(fmt.Sprintf("%03d", i))
				want, found := n.get(k, seq)
				if !found {
					want = []byte("below")
				} else if k.Less(first) || last.Less(k) {
					t.Fatalf("%s is outside of [%s, %s]", string(k), string(first), string(last))
				}
				if got, ok := state[string(k)]; ok != (want != nil) || got != string(want) {
					t.Fatalf("%s: %s leaves %q (%v), want %q", name, string(k), got, ok, want)
				}
			}
		}
	})
}

// TestSpanSet: a set holds at least what was added, in order and without overlap, and stays within its bound.
func TestSpanSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s SpanSet
		var added []keys.Span
		pad := string(make([]byte, rapid.SampledFrom([]int{0, 2000}).Draw(t, "pad")))
		key := func() keys.Key {
			return keys.Key(fmt.Sprintf("%c%03d%s", 'a'+rapid.IntRange(0, 2).Draw(t, "part"), rapid.IntRange(0, 999).Draw(t, "key"), pad))
		}
		for range rapid.IntRange(0, 400).Draw(t, "spans") {
			x := keys.Span{Start: key()}
			if rapid.Bool().Draw(t, "range") {
				if x.End = key(); x.Start.Compare(x.End) >= 0 || x.Start[0] != x.End[0] {
					x.End = nil
				}
			}
			added = append(added, x)
			s.Add(x)
		}
		if s.bytes > spanSetBytes+10_000 {
			t.Fatalf("%d bytes", s.bytes)
		}
		list := s.List()
		for i, x := range list {
			if i > 0 && x.Start.Less(list[i-1].Stop()) {
				t.Fatalf("%v overlaps %v", list[i-1], x)
			}
			if !x.Point() && x.Start[0] != x.End[0] {
				t.Fatalf("a span crosses parts of the keyspace: %v", x)
			}
		}
		for _, x := range added {
			if !slices.ContainsFunc(list, func(y keys.Span) bool { return y.ContainsSpan(x) }) {
				t.Fatalf("%v is lost", x)
			}
		}
	})
}
