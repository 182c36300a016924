package catalog

import (
	"math/rand/v2"
	"slices"
	"testing"

	"meridian/encoding"
)

// TestHistogramEstimates: estimates by a histogram of a sample are near to counts of the whole column, for several distributions.
func TestHistogramEstimates(t *testing.T) {
	const rows, sampled = 50_000, 5_000
	for name, draw := range map[string]func(r *rand.Rand) int64{
		"uniform": func(r *rand.Rand) int64 { return r.Int64N(1000) },
		"skewed":  func(r *rand.Rand) int64 { x := r.Float64(); return int64(x * x * x * x * 10_000) },
		"unique":  func(r *rand.Rand) int64 { return r.Int64() >> 20 },
		"few":     func(r *rand.Rand) int64 { return r.Int64N(5) * 7 },
		"signed":  func(r *rand.Rand) int64 { return int64(r.NormFloat64() * 300) },
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			counts := map[int64]int{}
			all := make([]int64, rows)
			for i := range all {
				all[i] = draw(r)
				counts[all[i]]++
			}
			var sample [][]byte
			nulls := 0
			for range sampled {
				if r.IntN(10) == 0 {
					nulls++ // one row in ten of the table is NULL
					continue
				}
				sample = append(sample, encoding.AppendInt(nil, all[r.IntN(rows)], encoding.Ascending))
			}
			h := NewHistogram(sample, nulls, false, 100)
			if len(h.Common) > 100 || len(h.Bounds) > 101 {
				t.Fatalf("%d common values, %d bounds", len(h.Common), len(h.Bounds))
			}
			slices.Sort(all)
			worst := 0.0
			for range 500 {
				v := all[r.IntN(rows)]
				key := encoding.AppendInt(nil, v, encoding.Ascending)
				below, _ := slices.BinarySearch(all, v)
				got, want := h.Below(key, false, 0.1), 0.9*float64(below)/rows
				if d := got - want; d < -0.04 || d > 0.04 {
					t.Errorf("below %d: %.4f, counted %.4f", v, got, want)
				}
				got, want = h.Equal(key, 0.1, float64(len(counts)), rows), 0.9*float64(counts[v])/rows
				worst = max(worst, got-want, want-got)
				if d := got - want; d < -0.02 || d > 0.02 {
					t.Errorf("equal %d: %.4f, counted %.4f", v, got, want)
				}
			}
			t.Logf("%d common values, %d bounds; the worst share of a value is off by %.4f", len(h.Common), len(h.Bounds), worst)
		})
	}
}

// TestHistogramOfAll: a histogram of a whole column with few values has all of them, so one that is missing is rare.
func TestHistogramOfAll(t *testing.T) {
	var values [][]byte
	for i := range 100 {
		values = append(values, encoding.AppendInt(nil, int64(i%3), encoding.Ascending))
	}
	h := NewHistogram(values, 0, true, 100)
	if len(h.Common) != 3 || h.Bounds != nil {
		t.Fatalf("%+v", h)
	}
	if s := h.Equal(encoding.AppendInt(nil, 7, encoding.Ascending), 0, 3, 100); s > 0.01 {
		t.Errorf("a value that is not there: %f", s)
	}
}

// TestHistogramCutsValues: long values are compared by their beginnings, and none of them is a common value, as it may be several.
func TestHistogramCutsValues(t *testing.T) {
	var values [][]byte
	long := make([]byte, 100)
	for i := range 50 {
		key := encoding.AppendString(nil, string(long)+string(rune('a'+i%5)), encoding.Ascending)
		values = append(values, key[:HistogramValueBytes])
	}
	if h := NewHistogram(values, 0, true, 10); len(h.Common) != 0 || len(h.Bounds) != 11 {
		t.Errorf("%d common values, %d bounds", len(h.Common), len(h.Bounds))
	}
}
