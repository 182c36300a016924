package ycsb

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestMixesAreWhole(t *testing.T) {
	for _, name := range []string{"A", "B", "C", "D", "E", "F"} {
		m, _ := mixNamed(name)
		if sum := m.read + m.update + m.insert + m.scan + m.modify; sum != 100 {
			t.Errorf("%s: %d percent", name, sum)
		}
	}
	y := New()
	y.Mix = "G"
	if _, err := y.Worker(t.Context(), rand.New(rand.NewPCG(1, 1))); err == nil {
		t.Error("a mix G was found")
	}
}

func TestKeysDiffer(t *testing.T) {
	seen := make(map[string]bool)
	for i := range int64(100_000) {
		k := key(i)
		if seen[k] || len(k) != 24 {
			t.Fatalf("%d: %q", i, k)
		}
		seen[k] = true
	}
}

// TestZipf holds the shares of the first ranks against the distribution's formula.
func TestZipf(t *testing.T) {
	const n, draws = 1000, 200_000
	z := NewZipf(n, rand.New(rand.NewPCG(7, 7)))
	count := make([]int, n)
	for range draws {
		r := z.Next()
		if r < 0 || r >= n {
			t.Fatalf("rank %d of %d", r, n)
		}
		count[r]++
	}
	for _, rank := range []int{0, 1} { // these two are exact in Gray's method, the others nearly so
		want := 1 / math.Pow(float64(rank+1), theta) / z.zetaN
		if got := float64(count[rank]) / draws; math.Abs(got-want) > 0.005 {
			t.Errorf("rank %d: share %.4f, not %.4f", rank, got, want)
		}
	}
	var head, all float64
	for rank := range n {
		all += 1 / math.Pow(float64(rank+1), theta)
		if rank < 100 {
			head = all
		}
	}
	got := 0
	for _, c := range count[:100] {
		got += c
	}
	if share := float64(got) / draws; math.Abs(share-head/all) > 0.03 {
		t.Errorf("the first tenth has a share of %.3f, not %.3f", share, head/all)
	}
}
