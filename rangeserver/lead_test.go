package rangeserver_test

import (
	"testing"
	"time"

	"meridian/rangeserver"
	"meridian/replica/closedts"
)

// TestRetuned: a lead grows soon, by bounded steps, and shrinks late, and never below what is needed; what is measured may go up and down by less than a step without
// moving it.
func TestRetuned(t *testing.T) {
	const ms = time.Millisecond
	p, calm := rangeserver.Retuned(closedts.Lag, 0, 164*ms)
	if p.Lead() != 165*ms {
		t.Fatalf("begins with %s", p.Lead())
	}
	looks := func(need time.Duration, until time.Duration) (n int) {
		for p.Lead() != until {
			was := p
			if p, calm = rangeserver.Retuned(p, calm, need); p > was+10 || p < was && p.Lead() < need {
				t.Fatalf("from %s to %s at once", was.Lead(), p.Lead())
			}
			if n++; n > 1000 {
				t.Fatalf("%s is needed, and it stays at %s", need, p.Lead())
			}
		}
		return n
	}
	if n := looks(398*ms, 400*ms); n != 3 {
		t.Errorf("longer after %d looks", n)
	}
	for i := range 100 { // it swings by less than the slack
		need := 398 * ms
		if i%2 == 0 {
			need = 389 * ms
		}
		if p, calm = rangeserver.Retuned(p, calm, need); p.Lead() != 400*ms {
			t.Fatalf("%s at look %d", p.Lead(), i)
		}
	}
	if n := looks(161*ms, 165*ms); n != 12*4 {
		t.Errorf("shorter after %d looks", n)
	}
	if p, _ = rangeserver.Retuned(p, 0, time.Minute); p.Lead() != 230*ms {
		t.Errorf("one slow command makes it %s", p.Lead())
	}
}
