package replica

import (
	"fmt"
	"slices"
	"testing"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// TestGap: of rows that are inserted one after the other the base is searched for the first only, and of those that are drawn at random as often as there are; and a row that the
// base has is never missed, once this replica has heard that it is there, or has dropped its record.
func TestGap(t *testing.T) {
	s := newStore(t)
	s.desc.Start, s.desc.End = rowKey("a"), rowKey("z")
	for _, k := range []string{"b", "h", "m"} {
		s.row(k, "v", 1)
	}
	a := NewVoter(core.QuorumsOf(3), plain{}, 0)
	a.begin(s.e, s.desc.Span())
	searched := 0
	at := func(k string) clock.Timestamp {
		t.Helper()
		rows := mvcc.NewReader(s.e)
		defer rows.Close()
		r, err := a.base(s.e, func() *mvcc.Reader { searched++; return rows }, rowKey(k))
		if err != nil {
			t.Fatal(err)
		}
		return r.Base.At
	}
	for i := range 100 {
		if v := at(fmt.Sprintf("n%03d", i)); !v.IsZero() {
			t.Fatalf("a row at %s", v)
		}
	}
	if searched != 1 {
		t.Errorf("%d searches for 100 rows one after the other", searched)
	}
	for _, k := range []string{"b", "h", "m"} {
		if v := at(k); v != wall(1) {
			t.Errorf("%s is at %s", k, v)
		}
	}
	// The leaseholder hears of versions that came into the base, and each replica looks for records that it need not keep.
	s.row("n050", "v", 2)
	a.Absorbed(rowKey("n050"), wall(2))
	if v := at("n050"); v != wall(2) {
		t.Errorf("after it was absorbed the row is at %s", v)
	}
	at("n051")
	s.row("n060", "v", 3)
	if err := a.Tend(s.e, wall(now)); err != nil {
		t.Fatal(err)
	}
	if v := at("n060"); v != wall(3) {
		t.Errorf("after a look at the records the row is at %s", v)
	}
	// Random keys have no gap for long, so it is looked for less and less often.
	found, last := 0, keys.Span{}
	for i := range 2000 {
		k := fmt.Sprintf("c%03d", i*7919%2000)
		if v := at(k); !v.IsZero() {
			t.Fatalf("a row at %s", v)
		}
		if !a.gap.span.Start.Equal(last.Start) || !a.gap.span.End.Equal(last.End) {
			found, last = found+1, a.gap.span
		}
		s.row(k, "v", 4)
		a.gap.forget()
	}
	if found > 4000/gapPause+30 {
		t.Errorf("%d gaps were looked for", found)
	}
}

// getting counts the searches for single keys.
type getting struct {
	engine.Reader
	gets int
}

func (g *getting) Get(k keys.Key) ([]byte, error) {
	g.gets++
	return g.Reader.Get(k)
}

// TestSides: what is next to a row is never missed, with a row or without one, in a gap too, however far Tend has come; and once it has seen all of it, nobody searches where nothing is.
func TestSides(t *testing.T) {
	s := newStore(t)
	s.desc.Start, s.desc.End = rowKey("a"), rowKey("z")
	outcome := func() *core.Record {
		return &core.Record{Recent: []core.Ended{{Name: core.Name{At: recent(core.Option{}, 5).At}, Committed: true}}}
	}
	beside, rows := []string{"c", "f", "k5", "n", "y"}, []string{"b", "c", "d", "n", "x"}
	for _, k := range rows {
		s.row(k, "v", 1)
	}
	all := reports{}
	for _, k := range beside {
		all[k] = outcome()
	}
	s.fold(all, all)
	src := &getting{Reader: s.e}
	a := NewVoter(core.QuorumsOf(3), plain{}, 0)
	a.begin(src, s.desc.Span())
	look := func() {
		t.Helper()
		r := mvcc.NewReader(s.e)
		defer r.Close()
		order := []string{"a", "b", "c", "d", "e", "f", "g", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "m", "n", "o", "x", "y"}
		for range 2 {
			slices.Reverse(order)
			a.gap = gap{within: a.gap.within}
			for _, k := range order {
				got, err := a.base(src, func() *mvcc.Reader { return r }, rowKey(k))
				if err != nil {
					t.Fatal(err)
				}
				if want := slices.Contains(beside, k); len(got.Recent) > 0 != want || got.Base.At.IsZero() == slices.Contains(rows, k) {
					t.Errorf("%s is %s", k, show(got))
				}
			}
		}
	}
	look()
	before := src.gets
	if err := a.inherited(src); err != nil {
		t.Fatal(err)
	}
	seen := a.sides
	for _, at := range []string{"c", "d", "f", "k5", "n", "p"} {
		a.left.Start, a.sides = sideKey(rowKey(at)), map[uint64]struct{}{}
		for _, k := range beside {
			if k < at {
				a.sides[core.NameOf(rowKey(k))] = struct{}{}
			}
		}
		look()
	}
	a.left.Start, a.sides, src.gets = nil, seen, 0
	look()
	if src.gets != 2*len(beside) || before <= src.gets {
		t.Errorf("%d searches next to rows, %d before all had been seen", src.gets, before)
	}
	a.sides = nil // there were too many
	look()
}
