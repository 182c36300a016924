package engine

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"meridian/clock"
	"meridian/keys"
)

// everything is a copy of a store's entries in a span.
func everything(t testing.TB, r Reader, s keys.Span) (out [][2][]byte) {
	t.Helper()
	it, err := r.NewIter(IterOptions{Lower: s.Start, Upper: s.Stop()})
	if err != nil {
		t.Fatal(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, [2][]byte{bytes.Clone(it.RawKey()), bytes.Clone(v)})
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	return out
}

func equal(a, b [][2][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i][0], b[i][0]) || !bytes.Equal(a[i][1], b[i][1]) {
			return false
		}
	}
	return true
}

func letter(i int) keys.Key { return keys.Key{'t', byte('a' + i)} }

// TestIngestionIsABatch: what an ingestion and a batch do together is what one batch would do, whatever was there before.
func TestIngestionIsABatch(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		want, source := openMem(t), openMem(t)
		fs := vfs.NewCrashableMem()
		got := open(t, fs, Options{CacheBytes: 1 << 20, MemTableBytes: 1 << 20})
		key := func() keys.Key { return append(letter(rng.IntN(12)), byte(rng.IntN(4))) }
		value := func() []byte { return fmt.Append(nil, rng.Int64()) }
		random := func(b *Batch, k keys.Key) {
			switch rng.IntN(4) {
			case 0:
				b.Put(k, value())
			case 1:
				b.PutVersion(k, clock.Timestamp{Wall: int64(1 + rng.IntN(3))}, nil, value())
			case 2:
				b.PutLock(k, uint8(rng.IntN(2)), [16]byte{byte(rng.IntN(3))}, value())
			default:
				b.Delete(k)
			}
		}
		for range rng.IntN(5) {
			b := want.NewBatch()
			for range rng.IntN(20) {
				random(b, key())
			}
			for _, e := range []*Engine{want, got} {
				c := e.NewBatch()
				if err := c.ApplyRepr(b.Repr()); err != nil {
					t.Fatal(err)
				}
				if err := c.Commit(false); err != nil {
					t.Fatal(err)
				}
				c.Close()
			}
			b.Close()
			if rng.IntN(3) == 0 {
				if err := got.Flush(); err != nil {
					t.Fatal(err)
				}
			}
		}
		// Some letters are replaced, others are changed by the batch.
		commit(t, source, func(b *Batch) {
			for range rng.IntN(30) {
				random(b, key())
			}
		})
		var spans []keys.Span
		changes := got.NewBatch()
		all := want.NewBatch()
		for i := range 12 {
			span := keys.Span{Start: letter(i), End: letter(i + 1)}
			switch rng.IntN(3) {
			case 0:
				spans = append(spans, span)
				all.ClearSpan(span)
				for _, kv := range everything(t, source, span) {
					all.PutRaw(kv[0], kv[1])
				}
			case 1:
				for range rng.IntN(4) {
					if rng.IntN(3) == 0 {
						from := append(letter(i), byte(rng.IntN(3)))
						changes.ClearSpan(keys.Span{Start: from, End: append(letter(i), byte(int(from[2])+1+rng.IntN(3)))})
					} else {
						random(changes, append(letter(i), byte(rng.IntN(4))))
					}
				}
			}
		}
		if err := all.Apply(changes); err != nil {
			t.Fatal(err)
		}
		if err := all.Commit(true); err != nil {
			t.Fatal(err)
		}
		all.Close()
		whole := keys.Span{Start: keys.Key{'t'}, End: keys.Key{'u'}}
		before := everything(t, got, whole)

		g, err := got.NewIngestion(spans)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range spans {
			for _, kv := range everything(t, source, s) {
				if err := g.PutRaw(kv[0], kv[1]); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := g.Finish(); err != nil {
			t.Fatal(err)
		}
		if err := got.Sync(); err != nil {
			t.Fatal(err)
		}
		reopen := func(what string, fs vfs.FS, expect [][2][]byte) {
			e := open(t, fs, Options{CacheBytes: 1 << 20, MemTableBytes: 1 << 20})
			if have := everything(t, e, whole); !equal(have, expect) {
				t.Fatalf("round %d, %s: %q, not %q, spans %v", round, what, have, expect, spans)
			}
			if left, err := fs.List("store/" + ingestDir); err == nil && len(left) > 0 {
				t.Errorf("left after %s: %v", what, left)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
		crash := func() vfs.FS { return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}) }
		reopen("a crash before", crash(), before)
		if err := g.Commit(changes); err != nil {
			t.Fatal(err)
		}
		after := crash()
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
		changes.Close()
		expect := everything(t, want, whole)
		if have := everything(t, got, whole); !equal(have, expect) {
			t.Fatalf("round %d: %q, not %q", round, have, expect)
		}
		reopen("a crash after", after, expect)
		if err := got.Close(); err != nil {
			t.Fatal(err)
		}
		if left, err := fs.List("store/" + ingestDir); err != nil || len(left) > 0 {
			t.Errorf("left: %v %v", left, err)
		}
	}
}

// TestIngestionRefuses: entries come in order and within the spans, the batch's changes outside.
func TestIngestionRefuses(t *testing.T) {
	span := func(i int) keys.Span { return keys.Span{Start: letter(i), End: letter(i + 1)} }
	raw := func(k keys.Key) []byte { return appendKey(nil, k) }
	for name, puts := range map[string][]keys.Key{
		"before the first":  {letter(0)},
		"between":           {letter(2)},
		"after the last":    {letter(4)},
		"backwards":         {append(letter(1), 2), append(letter(1), 1)},
		"of an earlier one": {letter(3), letter(1)},
	} {
		e := openMem(t)
		g, err := e.NewIngestion([]keys.Span{span(1), span(3)})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range puts {
			err = g.PutRaw(raw(k), nil)
		}
		if err == nil || g.Finish() == nil {
			t.Errorf("%s: accepted", name)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if left, err := e.fs.List("store/" + ingestDir); err != nil || len(left) > 0 {
			t.Errorf("%s: left: %v %v", name, left, err)
		}
	}
	for name, change := range map[string]func(b *Batch){
		"an entry":             func(b *Batch) { b.Put(append(letter(1), 1), nil) },
		"the first entry":      func(b *Batch) { b.Put(letter(1), nil) },
		"a clear":              func(b *Batch) { b.ClearSpan(span(1)) },
		"a clear from the end": func(b *Batch) { b.ClearSpan(keys.Span{Start: append(letter(1), 1), End: letter(3)}) },
		"a clear of more":      func(b *Batch) { b.ClearSpan(keys.Span{Start: letter(0), End: letter(4)}) },
	} {
		e := openMem(t)
		g, err := e.NewIngestion([]keys.Span{span(1)})
		if err != nil {
			t.Fatal(err)
		}
		b := e.NewBatch()
		change(b)
		if err := g.Commit(b); !errors.Is(err, ErrNotOrdered) {
			t.Errorf("%s: %v", name, err)
		}
		b.Close()
		_ = g.Close()
	}
}
