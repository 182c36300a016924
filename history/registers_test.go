package history

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestRegisters: hand-made histories, one line an event. "a w 1" calls, "a ok" returns, "a lost" gets no answer, "a
// failed" had no effect.
func TestRegisters(t *testing.T) {
	for _, c := range []struct {
		name, script string
		good         bool
	}{
		{"one after the other", "a w 1; a ok; b r; b ok 1", true},
		{"a read of what was overwritten", "a w 1; a ok; b w 2; b ok; c r; c ok 1", false},
		{"a read beside a write sees either", "a w 1; b r; b ok 0; c r; c ok 1; a ok", true},
		{"two reads beside a write go back", "a w 1; b r; b ok 1; c r; c ok 0; a ok", false},
		{"a lost write shows", "a w 1; a lost; b r; b ok 0; c r; c ok 1; d r; d ok 1", true},
		{"a lost write does not come and go", "a w 1; a lost; b r; b ok 1; c r; c ok 0", false},
		{"a lost write may never show", "a w 1; a lost; b w 2; b ok; c r; c ok 2", true},
		{"a lost write may show late", "a w 1; a lost; b w 2; b ok; c r; c ok 1", true},
		{"a failed write shows", "a w 1; a failed; b r; b ok 1", false},
		{"a swap", "a c 0 5; a swapped; b r; b ok 5", true},
		{"two swaps of one value", "a c 0 5; b c 0 6; a swapped; b swapped", false},
		{"a swap that should have been", "a c 0 5; a kept; b r; b ok 0", false},
		{"a lost swap was one", "a c 0 5; a lost; b r; b ok 5; c c 0 6; c kept", true},
		{"a lost update", "a r; a ok 0; b r; b ok 0; a w 1; a ok; b c 1 2; b kept", false},
		{"a read of nobody's value", "a r; a ok 7", false},
		{"a write that never returned", "a w 3; b r; b ok 3", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &Registers{}
			open := map[string]*Op{}
			for i, line := range strings.Split(c.script, ";") {
				f := strings.Fields(line)
				num := func(i int) (n int64) {
					for _, d := range f[i] {
						n = 10*n + int64(d-'0')
					}
					return n
				}
				o := open[f[0]]
				switch f[1] {
				case "w":
					open[f[0]] = r.Begin(Op{Kind: Write, Value: num(2)})
				case "r":
					open[f[0]] = r.Begin(Op{Kind: Read})
				case "c":
					open[f[0]] = r.Begin(Op{Kind: CAS, Expected: num(2), Value: num(3)})
				case "ok":
					v := int64(0)
					if o.Kind == Read {
						v = num(2)
					}
					r.OK(o, v, false)
				case "swapped":
					r.OK(o, 0, true)
				case "kept":
					r.OK(o, 0, false)
				case "lost":
					r.Unknown(o, "")
				case "failed":
					r.Failed(o, "")
				default:
					t.Fatalf("line %d: %q", i, line)
				}
			}
			err := r.Check(10 * time.Second)
			if good := err == nil; good != c.good {
				t.Fatalf("accepted: %v, want %v (%v)", good, c.good, err)
			}
			var lin *LinearizabilityError
			if err != nil && (!errors.As(err, &lin) || lin.TimedOut) {
				t.Fatal(err)
			}
			if strings.Contains(c.script, " c ") {
				return
			}
			err = r.CheckDistinct()
			if good := err == nil; good != c.good || err != nil && !errors.As(err, &lin) {
				t.Fatalf("by intervals: accepted: %v, want %v (%v)", good, c.good, err)
			}
		})
	}
}

// TestRegistersAreApart: keys don't explain each other.
func TestRegistersAreApart(t *testing.T) {
	r := &Registers{Initial: 9}
	r.OK(r.Begin(Op{Key: 1, Kind: Write, Value: 1}), 0, false)
	r.OK(r.Begin(Op{Key: 2, Kind: Read}), 9, false)
	if err := r.Check(time.Minute); err != nil {
		t.Fatal(err)
	}
	r.OK(r.Begin(Op{Key: 2, Kind: Read}), 1, false)
	var lin *LinearizabilityError
	if err := r.Check(time.Minute); !errors.As(err, &lin) || lin.Key != 2 {
		t.Fatalf("%v", err)
	}
	if ok, failed, unknown := r.Count(); ok != 3 || failed != 0 || unknown != 0 {
		t.Fatal(ok, failed, unknown)
	}
}
