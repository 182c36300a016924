package txn

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"meridian/keys"
	"meridian/kv"
)

// TestRegions: what a transaction remembers of ranges is what each key's range has said last, and a scan meets one protocol at a time.
func TestRegions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const wide = 20
		key := func(i int) keys.Key { return keys.Key(fmt.Sprintf("%02d", i)) }
		var o others
		var model [wide]kv.Protocol
		span := func(name string) (int, int) {
			a := rapid.IntRange(0, wide-2).Draw(t, name)
			return a, rapid.IntRange(a+1, wide-1).Draw(t, name+" end")
		}
		for range rapid.IntRange(0, 12).Draw(t, "answers") {
			a, b := span("range")
			p := rapid.SampledFrom([]kv.Protocol{kv.Leader, kv.FastPaxos, kv.FirstForeign}).Draw(t, "protocol")
			o.learn(keys.Span{Start: key(a), End: key(b)}, p)
			for i := a; i < b; i++ {
				model[i] = p
			}
		}
		for i, want := range model {
			if got := o.protocol(key(i)); got != want {
				t.Fatalf("%s: %s, want %s", string(key(i)), got, want)
			}
		}
		a, b := span("scan")
		reverse := rapid.Bool().Draw(t, "reverse")
		left := keys.Span{Start: key(a), End: key(b)}
		for n := 0; left.Start.Less(left.End); n++ {
			part, p := o.part(left, reverse)
			if !part.Start.Less(part.End) || !left.ContainsSpan(part) || n > wide {
				t.Fatalf("part %s of %s", part, left)
			}
			for i := range model {
				if part.Contains(key(i)) && model[i] != p {
					t.Fatalf("%s is read as %s's, and is %s's", string(key(i)), p, model[i])
				}
			}
			if reverse {
				if !part.End.Equal(left.End) {
					t.Fatalf("part %s is not the end of %s", part, left)
				}
				left.End = part.Start
			} else {
				if !part.Start.Equal(left.Start) {
					t.Fatalf("part %s is not the beginning of %s", part, left)
				}
				left.Start = part.End
			}
		}
	})
}
