package main

import "testing"

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
