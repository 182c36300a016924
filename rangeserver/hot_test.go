package rangeserver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"meridian/encoding"
	"meridian/keys"
	"meridian/kv"
	"meridian/sim"
)

func newSampler(every uint64) *sampler {
	h := sim.NewHost(context.Background(), sim.MachineOptions{Name: "n1", Network: sim.NewNetwork(sim.NetworkOptions{Seed: 1}), Seed: 1})
	return &sampler{dice: h.Dice, every: every}
}

func rowKey(i int) keys.Key { return append(keys.TableKey(uint32(100)), fmt.Sprintf("%05d", i)...) }

func readOf(k keys.Key) *kv.Batch {
	return &kv.Batch{Header: kv.Header{Gateway: 1}, Requests: []kv.Request{&kv.GetRequest{Key: k}}}
}

// TestHalves: the key at which a range is split has about half of the requests on each side, wherever they are; there is none while most requests are for one key.
func TestHalves(t *testing.T) {
	span := keys.TableSpan(uint32(100))
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p := newSampler(10)
		// Requests gather around some rows.
		center, width := rng.IntN(9000), 1+rng.IntN(2000)
		draw := func() int { return center + int(float64(width)*rng.ExpFloat64()) }
		for range 3000 {
			p.note(readOf(rowKey(draw())))
		}
		_, at := p.halves(span)
		if width < 5 {
			continue
		}
		if at == nil {
			t.Fatalf("seed %d: no key", seed)
		}
		left := 0
		for range 2000 {
			if rowKey(draw()).Less(at) {
				left++
			}
		}
		if left < 600 || left > 1400 {
			t.Errorf("seed %d: %d of 2000 requests are to the left", seed, left)
		}
	}
	one := newSampler(1)
	for i := range 1000 {
		one.note(readOf(rowKey(500)))
		if i%10 == 0 {
			one.note(readOf(rowKey(i)))
		}
	}
	if _, at := one.halves(span); at != nil {
		t.Errorf("one key has most of the requests, and the range is split at %s", at)
	}
}

// TestHalvesKeepDirectories: a range is split by its load between directories, and not at all if most requests are for one.
func TestHalvesKeepDirectories(t *testing.T) {
	row := func(user, album int) keys.Key {
		k := encoding.AppendInt(keys.IndexPrefix(uint32(100), uint32(1)), int64(user), encoding.Ascending)
		if album == 0 {
			return k
		}
		return encoding.AppendInt(keys.AppendInterleaved(k, uint32(101), uint32(1)), int64(album), encoding.Ascending)
	}
	p := newSampler(1)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 3000 {
		p.note(readOf(row(rng.IntN(20), rng.IntN(50))))
	}
	before, at := p.halves(keys.TableSpan(uint32(100)))
	if _, inside := keys.Directory(at); at == nil || inside || !before.Less(at) {
		t.Errorf("split at %s, behind %s", at, before)
	}
	one := newSampler(1)
	for i := range 3000 {
		one.note(readOf(row(7+i%100/99, rng.IntN(50))))
	}
	if _, at := one.halves(keys.TableSpan(uint32(100))); at != nil {
		t.Errorf("one directory has most of the requests, and the range is split at %s", at)
	}
}

// BenchmarkCount is what counting costs a request: while a range has few requests, and while their keys are sampled.
func BenchmarkCount(b *testing.B) {
	batch := readOf(rowKey(1))
	for _, sampled := range []bool{false, true} {
		b.Run(fmt.Sprintf("sampled=%v", sampled), func(b *testing.B) {
			var l loadCounter
			if sampled {
				l.sampler.Store(newSampler(200))
			}
			b.ReportAllocs()
			for b.Loop() {
				l.count(batch)
			}
		})
	}
	b.Run("before", func(b *testing.B) {
		var l loadCounter
		for b.Loop() {
			l.hit(1)
		}
	})
}
