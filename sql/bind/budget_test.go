package bind

import (
	"errors"
	"slices"
	"testing"

	"meridian/sql/sqlstate"
)

// raised is the error that f raises, or nil.
func raised(f func()) (err error) {
	defer guard(&err)
	f()
	return nil
}

// TestBudgetTakesMemoryInSteps: room is called once for many small charges and for each large one, with all that is owed.
func TestBudgetTakesMemoryInSteps(t *testing.T) {
	var taken []int64
	g := budget{room: func(n int64) error { taken = append(taken, n); return nil }}
	for range 2 * chargeSteps {
		g.charge(10)
	}
	g.charge(5)
	g.charge(chargeBytes)
	if want := []int64{10 * chargeSteps, 10 * chargeSteps, chargeBytes + 5}; !slices.Equal(taken, want) {
		t.Fatalf("room was charged %d, want %d", taken, want)
	}
}

// TestBudgetEndsBinding: room's error is the statement's, and so is a nesting that is too deep; siblings do not nest.
func TestBudgetEndsBinding(t *testing.T) {
	full := errors.New("no room")
	g := budget{room: func(int64) error { return full }}
	if err := raised(func() { g.charge(chargeBytes) }); err != full {
		t.Errorf("charge raised %v", err)
	}
	g = budget{}
	for range 3 * maxDepth {
		g.enter()
		g.leave()
	}
	err := raised(func() {
		for range maxDepth + 1 {
			g.enter()
		}
	})
	if e := (*sqlstate.Error)(nil); !errors.As(err, &e) || e.Code != sqlstate.StatementTooComplex {
		t.Errorf("enter raised %v", err)
	}
	if g.depth != maxDepth+1 {
		t.Errorf("refused at depth %d", g.depth)
	}
}
