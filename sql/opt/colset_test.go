package opt

import (
	"testing"

	"pgregory.net/rapid"
)

// TestColSet checks sets against maps.
func TestColSet(t *testing.T) {
	type pair struct {
		s colSet
		m map[ColumnID]bool
	}
	rapid.Check(t, func(t *rapid.T) {
		col := rapid.Int32Range(1, 300)
		draw := func() pair {
			p := pair{m: map[ColumnID]bool{}}
			for _, c := range rapid.SliceOfN(col, 0, 8).Draw(t, "columns") {
				p.s.add(ColumnID(c))
				p.m[ColumnID(c)] = true
			}
			return p
		}
		a, b := draw(), draw()
		before := a.s
		same := func(what string, s colSet, want func(c ColumnID) bool) {
			n := 0
			for c := ColumnID(1); c <= 320; c++ {
				if s.has(c) != want(c) {
					t.Fatalf("%s: column %d is %v", what, c, s.has(c))
				}
				if s.has(c) {
					n++
				}
			}
			if s.len() != n || len(s.list()) != n || s.empty() != (n == 0) {
				t.Fatalf("%s: %d columns, len %d, list %v", what, n, s.len(), s.list())
			}
		}
		same("set", a.s, func(c ColumnID) bool { return a.m[c] })
		same("union", a.s.union(b.s), func(c ColumnID) bool { return a.m[c] || b.m[c] })
		same("minus", a.s.minus(b.s), func(c ColumnID) bool { return a.m[c] && !b.m[c] })
		same("intersect", a.s.intersect(b.s), func(c ColumnID) bool { return a.m[c] && b.m[c] })
		within, meets := true, false
		for c := range a.m {
			within = within && b.m[c]
			meets = meets || b.m[c]
		}
		if a.s.within(&b.s) != within || a.s.intersects(&b.s) != meets {
			t.Fatalf("within %v, intersects %v", a.s.within(&b.s), a.s.intersects(&b.s))
		}
		if u, v := a.s.union(b.s), b.s.union(a.s); !u.equal(&v) {
			t.Fatal("union depends on the order")
		}
		x := a.s
		gone := ColumnID(col.Draw(t, "removed"))
		x.remove(gone)
		same("remove", x, func(c ColumnID) bool { return a.m[c] && c != gone })
		if !a.s.equal(&before) {
			t.Fatal("a set changed that is a value")
		}
	})
}
