package fastpaxos

import (
	"fmt"
	"testing"

	"meridian/clock"
	"meridian/keys"
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
	a := NewAcceptor(QuorumsOf(3), plain{}, nil, 0)
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
