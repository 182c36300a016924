package history

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"
)

// drawHistory runs clients on a real register whose operations take effect at some moment between call and return, or, if their
// outcome is unknown, later or never; then it spoils some answers.
func drawHistory(dice *rand.Rand, clients, n, spoil int) *Registers {
	r := &Registers{}
	var (
		value   int64
		next    int64
		pending = make([]*Op, clients) // called, not yet in effect
		got     = make([]int64, clients)
		done    = make([]bool, clients)
		late    []*Op
	)
	for range n {
		c := dice.IntN(clients)
		switch o := pending[c]; {
		case o == nil && dice.IntN(2) == 0:
			pending[c] = r.Begin(Op{Client: c, Kind: Read})
		case o == nil:
			next++
			pending[c] = r.Begin(Op{Client: c, Kind: Write, Value: next})
		case !done[c] && o.Kind == Write && dice.IntN(6) == 0:
			r.Unknown(o, "")
			late = append(late, o)
			pending[c] = nil
		case !done[c] && o.Kind == Write:
			value, done[c] = o.Value, true
		case !done[c]:
			got[c], done[c] = value, true
		default:
			if o.Kind == Read && spoil > 0 && dice.IntN(spoil) == 0 {
				got[c] = dice.Int64N(next + 1)
			}
			r.OK(o, got[c], false)
			pending[c], done[c] = nil, false
		}
		if len(late) > 0 && dice.IntN(4) == 0 {
			i := dice.IntN(len(late))
			value = late[i].Value
			late = append(late[:i], late[i+1:]...)
		}
	}
	return r
}

// TestDistinctAgrees: the comparison of intervals agrees with the search.
func TestDistinctAgrees(t *testing.T) {
	good, bad := 0, 0
	for seed := range uint64(3000) {
		dice := rand.New(rand.NewPCG(seed, 1))
		r := drawHistory(dice, 2+dice.IntN(4), 10+dice.IntN(60), []int{0, 3, 12}[seed%3])
		search, intervals := r.Check(time.Minute), r.CheckDistinct()
		if (search == nil) != (intervals == nil) {
			t.Fatalf("seed %d: the search says: %v\nintervals say: %v", seed, search, intervals)
		}
		if intervals == nil {
			good++
			continue
		}
		bad++
		if seed%3 == 0 {
			t.Fatalf("seed %d: %v", seed, intervals)
		}
		var lin *LinearizabilityError
		if !errors.As(intervals, &lin) || lin.Why == "" || len(lin.Ops) == 0 {
			t.Fatalf("seed %d: %v", seed, intervals)
		}
	}
	if good < 500 || bad < 500 {
		t.Errorf("%d good and %d bad histories", good, bad)
	}
}

// TestDistinctIsQuick: a long history with thousands of unknown outcomes, from many clients.
func TestDistinctIsQuick(t *testing.T) {
	r := drawHistory(rand.New(rand.NewPCG(1, 2)), 60, 300_000, 0)
	if _, _, unknown := r.Count(); unknown < 5000 {
		t.Fatalf("only %d outcomes are unknown", unknown)
	}
	if err := r.CheckDistinct(); err != nil {
		t.Fatal(err)
	}
}

// TestDistinctRefuses: histories to which the theorem does not apply are refused.
func TestDistinctRefuses(t *testing.T) {
	for name, ops := range map[string][]Op{
		"a swap":            {{Kind: CAS, Value: 1}},
		"a value twice":     {{Kind: Write, Value: 1}, {Kind: Write, Value: 1}},
		"the initial value": {{Kind: Write}},
	} {
		r := &Registers{}
		for _, o := range ops {
			r.OK(r.Begin(o), 0, false)
		}
		var lin *LinearizabilityError
		if err := r.CheckDistinct(); err == nil || errors.As(err, &lin) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
