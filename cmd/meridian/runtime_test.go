package main

import (
	"runtime"
	"testing"
)

func TestGrowth(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 1600}, {1 << 20, 1600}, {8 << 20, 800}, {64 << 20, 100}, {1 << 30, 100},
	} {
		if got := growth(c.live); got != c.want {
			t.Errorf("%d live bytes: %d %%, want %d %%", c.live, got, c.want)
		}
	}
}

// TestUseProcessors: Go uses more processors than the machine has, unless the environment sets their number.
func TestUseProcessors(t *testing.T) {
	had := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(had)
	t.Setenv("GOMAXPROCS", "3")
	useProcessors()
	if n := runtime.GOMAXPROCS(0); n != had {
		t.Errorf("%d processors instead of %d, though it was said how many", n, had)
	}
	t.Setenv("GOMAXPROCS", "")
	useProcessors()
	if n := runtime.GOMAXPROCS(0); n != had+moreProcs {
		t.Errorf("%d processors, want %d more than %d", n, moreProcs, had)
	}
}
