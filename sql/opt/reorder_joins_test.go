package opt

import (
	"testing"
)

// TestPairs counts the pairs of graphs for which their number is known (VLDB 2006, §2.3), and checks each pair.
func TestPairs(t *testing.T) {
	pow := func(b, n int) int {
		out := 1
		for range n {
			out *= b
		}
		return out
	}
	for n := 2; n <= 10; n++ {
		for _, c := range []struct {
			name string
			edge func(i, j int) bool // i < j
			want int
		}{
			{"chain", func(i, j int) bool { return j == i+1 }, (n*n*n - n) / 6},
			{"star", func(i, j int) bool { return i == 0 }, (n - 1) * pow(2, n-2)},
			{"clique", func(i, j int) bool { return true }, (pow(3, n) - pow(2, n+1) + 1) / 2},
		} {
			g := make(graph, n)
			for i := range g {
				for j := i + 1; j < n; j++ {
					if c.edge(i, j) {
						g[i] |= 1 << j
						g[j] |= 1 << i
					}
				}
			}
			seen := map[[2]uint64]bool{}
			made := map[uint64]bool{}
			for i := range g {
				made[1<<i] = true
			}
			g.pairs(func(a, b uint64) bool {
				if a&b != 0 || g.of(a)&b == 0 || seen[[2]uint64{a, b}] || seen[[2]uint64{b, a}] {
					t.Errorf("%s of %d: pair %b %b", c.name, n, a, b)
				}
				if !made[a] || !made[b] {
					t.Errorf("%s of %d: %b or %b comes before it is made", c.name, n, a, b)
				}
				made[a|b] = true
				seen[[2]uint64{a, b}] = true
				return true
			})
			if len(seen) != c.want {
				t.Errorf("%s of %d has %d pairs, want %d", c.name, n, len(seen), c.want)
			}
			if !made[1<<n-1] {
				t.Errorf("%s of %d is never whole", c.name, n)
			}
		}
	}
}
