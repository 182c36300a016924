package clock

import (
	"testing"

	"pgregory.net/rapid"
)

func span(from, to int64) Interval { return Interval{Timestamp{Wall: from}, Timestamp{Wall: to}} }

// TestMarzullo: examples, of which some have liars.
func TestMarzullo(t *testing.T) {
	for _, c := range []struct {
		name  string
		of    []Interval
		want  Interval
		agree string
	}{
		{"none", nil, Interval{}, ""},
		{"one", []Interval{span(3, 5)}, span(3, 5), "+"},
		{"two that overlap", []Interval{span(0, 5), span(3, 9)}, span(3, 5), "++"},
		{"two that touch", []Interval{span(0, 3), span(3, 9)}, span(3, 3), "++"},
		{"two that disagree", []Interval{span(0, 2), span(3, 9)}, Interval{}, "--"},
		{"a liar among three", []Interval{span(0, 4), span(100, 101), span(2, 9)}, span(2, 4), "+-+"},
		{"two against two", []Interval{span(0, 4), span(1, 5), span(10, 14), span(11, 15)}, Interval{}, "----"},
		{"the drawing", []Interval{span(0, 12), span(4, 16), span(8, 12), span(22, 30)}, span(8, 12), "+++-"},
		// Two liars who say the same add to two of three honest masters; the true time, 5, stays in.
		{"liars that collude", []Interval{span(0, 10), span(0, 10), span(4, 6), span(8, 9), span(8, 9)}, span(4, 9), "+++++"},
		// Either side may be right.
		{"two places", []Interval{span(0, 10), span(0, 2), span(8, 10)}, span(0, 10), "+++"},
	} {
		got, agree, ok := Marzullo(c.of)
		marks := ""
		for _, a := range agree {
			marks += map[bool]string{true: "+", false: "-"}[a]
		}
		if got != c.want || marks != c.agree || ok != (c.want != Interval{}) {
			t.Errorf("%s: %v %s %v, want %v %s", c.name, got, marks, ok, c.want, c.agree)
		}
	}
}

// TestMarzulloHasTheTruth: whatever a minority says, the result has true time in it, and every end of it is an end that a source gave.
func TestMarzulloHasTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const truth = 1000
		honest := rapid.IntRange(1, 6).Draw(t, "honest")
		liars := rapid.IntRange(0, honest-1).Draw(t, "liars")
		var of []Interval
		ends := map[int64]bool{}
		for i := range honest + liars {
			from := rapid.Int64Range(truth-50, truth+50).Draw(t, "from")
			to := rapid.Int64Range(from, from+60).Draw(t, "to")
			if i < honest {
				from, to = min(from, truth), max(to, truth)
			}
			of = append(of, span(from, to))
			ends[from], ends[to] = true, true
		}
		of = rapid.Permutation(of).Draw(t, "order")
		got, agree, ok := Marzullo(of)
		if !ok || got.Earliest.Wall > truth || got.Latest.Wall < truth {
			t.Fatalf("%v of %v", got, of)
		}
		if !ends[got.Earliest.Wall] || !ends[got.Latest.Wall] {
			t.Fatalf("%v has ends of its own, of %v", got, of)
		}
		for k, i := range of {
			if agree[k] != i.Meets(got) || i.Earliest.Wall <= truth && truth <= i.Latest.Wall && !agree[k] {
				t.Fatalf("%v is said to lie: %v of %v", i, got, of)
			}
		}
	})
}
