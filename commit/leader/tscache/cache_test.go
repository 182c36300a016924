package tscache

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

func at(n int64) clock.Timestamp { return clock.Timestamp{Wall: n} }

// read is one Add, for the naive model: a list of all reads.
type read struct {
	span keys.Span
	at   clock.Timestamp
	by   kv.TxnID
}

type model struct {
	low   clock.Timestamp
	reads []read
}

func (m *model) max(k keys.Key) (at clock.Timestamp, owner kv.TxnID) {
	at = m.low
	for _, r := range m.reads {
		if r.span.Contains(k) {
			merge(&at, &owner, r.at, r.by)
		}
	}
	return at, owner
}

// crowded are keys in order that share a set of a shard as long as this has no more than minSets.
func crowded(n int) (ks []keys.Key) {
	for i := 0; len(ks) < n; i++ {
		k := keys.Key(fmt.Sprintf("k%06d", i))
		if h := hashKey(k); h>>(64-6) == 0 && h&(minSets-1) == 0 {
			ks = append(ks, k)
		}
	}
	return ks
}

// TestModel checks an unbounded cache for equality with the model, and two that forget for tscache.T1 and tscache.T2: a tiny one, and one
// that may grow once. Half of the time all reads are of single keys that are in each other's way; then tscache.T1 and tscache.T2 are all
// that is to be had.
func TestModel(t *testing.T) {
	all := [2][]keys.Key{nil, crowded(42)}
	for i := range all[1] {
		all[0] = append(all[0], keys.Key(fmt.Sprintf("k%03d", i)))
	}
	rapid.Check(t, func(t *rapid.T) {
		crowd := rapid.IntRange(0, 1).Draw(t, "crowd")
		ks := all[crowd]
		exact := New(Options{}, at(5))
		small := []*Cache{
			New(Options{MaxPoints: 1, MaxSpans: 4, Retention: 1}, at(5)),
			New(Options{MaxPoints: 2 * minSets * ways * shards, MaxSpans: 4, Retention: 20}, at(5)),
		}
		m := model{low: at(5)}
		key := rapid.Custom(func(t *rapid.T) keys.Key { return ks[rapid.IntRange(0, 40).Draw(t, "key")] })
		for range rapid.IntRange(1, 120).Draw(t, "ops") {
			r := read{at: at(int64(rapid.IntRange(1, 60).Draw(t, "at"))), by: kv.TxnID{byte(rapid.IntRange(0, 3).Draw(t, "by"))}}
			r.span.Start = key.Draw(t, "start")
			kind := rapid.IntRange(0, 20).Draw(t, "kind")
			if crowd == 1 {
				kind = 20
			}
			switch kind {
			case 0:
				exact.AddLowWater(r.at)
				for _, c := range small {
					c.AddLowWater(r.at)
				}
				m.reads = append(m.reads, read{span: keys.Span{Start: keys.Key("a"), End: keys.Key("z")}, at: r.at})
				continue
			case 1, 2, 3, 4, 5, 6:
				r.span.End = key.Draw(t, "end")
				if !r.span.Start.Less(r.span.End) {
					continue
				}
			}
			m.reads = append(m.reads, r)
			exact.AddSpan(r.span, r.at, r.by)
			for _, c := range small {
				c.AddSpan(r.span, r.at, r.by)
			}
		}
		for _, k := range ks {
			wantAt, wantOwner := m.max(k)
			gotAt, gotOwner := exact.Max(k)
			if crowd == 0 && (gotAt != wantAt || gotOwner != wantOwner) {
				t.Fatalf("%s: got %s by %s, want %s by %s", k, gotAt, gotOwner, wantAt, wantOwner)
			}
			for i, c := range append(small, exact) {
				gotAt, gotOwner := c.Max(k)
				if gotAt.Less(wantAt) {
					t.Fatalf("tscache.T1: %s: cache %d says %s, read at %s", k, i, gotAt, wantAt)
				}
				if !gotOwner.IsZero() && gotAt == wantAt && gotOwner != wantOwner {
					t.Fatalf("tscache.T2: %s: cache %d says %s, read by %s", k, i, gotOwner, wantOwner)
				}
			}
		}
	})
}

// TestBounded says that memory has a bound, and that old reads are what is forgotten.
func TestBounded(t *testing.T) {
	c := New(Options{MaxPoints: 4096, Retention: time.Nanosecond}, clock.Timestamp{})
	for i := range 100_000 {
		c.Add(keys.Key(fmt.Sprintf("key%d", i)), at(int64(i+1)), kv.TxnID{1})
	}
	if n := c.Points(); n > 2*4096 {
		t.Fatalf("%d points", n)
	}
	if got, by := c.Max(keys.Key("key99999")); got != at(100_000) || by != (kv.TxnID{1}) {
		t.Fatalf("the newest read is gone: %s by %s", got, by)
	}
	if got, _ := c.Max(keys.Key("unread")); got.Wall > 99_000 {
		t.Fatalf("a key never read is at %s", got)
	}
}

func BenchmarkAdd(b *testing.B) {
	c := New(Options{}, clock.Timestamp{})
	ks := make([]keys.Key, 1<<14)
	for i := range ks {
		ks[i] = keys.Key(fmt.Sprintf("\x10table/index/%08d", i))
	}
	b.ResetTimer()
	for i := range b.N {
		c.Add(ks[i&(1<<14-1)], at(int64(i)), kv.TxnID{1})
	}
}

func BenchmarkMax(b *testing.B) {
	c := New(Options{}, clock.Timestamp{})
	ks := make([]keys.Key, 1<<14)
	for i := range ks {
		ks[i] = keys.Key(fmt.Sprintf("\x10table/index/%08d", i))
		c.Add(ks[i], at(int64(i)), kv.TxnID{1})
	}
	b.ResetTimer()
	for i := range b.N {
		c.Max(ks[i&(1<<14-1)])
	}
}
