package history

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// parse reads a history: one operation per line, "begin-end client kind value", with "?" as the end of an unknown one and
// "!" after the end of one that failed.
func parse(t testing.TB, text string) (ops []Op) {
	t.Helper()
	for line := range strings.Lines(strings.TrimSpace(text)) {
		var begin int
		var end, kind, value string
		o := Op{Outcome: OK}
		if _, err := fmt.Sscanf(strings.Replace(line, "-", " ", 1), "%d %s %d %s %s", &begin, &end, &o.Client, &kind, &value); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		o.Call = int64(begin)
		switch {
		case end == "?":
			o.Outcome, o.Return = Unknown, 0
		default:
			if e, failed := strings.CutSuffix(end, "!"); failed {
				o.Outcome, end = Failed, e
			}
			fmt.Sscan(end, &o.Return)
		}
		switch kind {
		case "r":
			o.Kind = Read
		case "a":
			o.Kind = Add
		}
		fmt.Sscan(value, &o.Value)
		o.Result = o.Value
		ops = append(ops, o)
	}
	return ops
}

func TestSet(t *testing.T) {
	adds := "0-1 1 a 1\n0-1 2 a 2\n2-? 1 a 3\n2-3! 2 a 4\n4-? 2 a 5"
	for _, c := range []struct {
		name  string
		final []int64
		right bool
	}{
		{"least", []int64{1, 2}, true},
		{"with an unknown one", []int64{5, 1, 2}, true},
		{"most", []int64{1, 2, 3, 5}, true},
		{"lost", []int64{1, 3}, false},
		{"failed is there", []int64{1, 2, 4}, false},
		{"twice", []int64{1, 2, 2}, false},
		{"unknown one twice", []int64{1, 2, 3, 3}, false},
		{"from nowhere", []int64{1, 2, 6}, false},
	} {
		err := Set(parse(t, adds), c.final)
		var v *Violation
		if c.right != (err == nil) || err != nil && !errors.As(err, &v) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestCounter(t *testing.T) {
	for _, c := range []struct {
		name, ops string
		right     bool
	}{
		{"sequence", "0-1 1 a 1\n2-3 2 a 1\n4-5 1 r 2", true},
		{"lost update", "0-1 1 a 1\n0-1 2 a 1\n4-5 1 r 1", false},
		{"applied twice", "0-1 1 a 1\n4-5 1 r 2", false},
		{"beside, without", "0-9 1 a 1\n4-5 1 r 0", true},
		{"beside, with", "0-9 1 a 1\n4-5 1 r 1", true},
		{"unknown, without", "0-? 1 a 1\n4-5 1 r 0", true},
		{"unknown, with", "0-? 1 a 1\n4-5 1 r 1", true},
		{"failed, with", "0-1! 1 a 1\n4-5 1 r 1", false},
		{"before it began", "0-1 1 r 1\n2-3 1 a 1", false},
	} {
		var v *Violation
		if err := Counter(parse(t, c.ops), 0); c.right != (err == nil) || err != nil && !errors.As(err, &v) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestTotals(t *testing.T) {
	done := Op{Outcome: OK}
	for _, c := range []struct {
		name  string
		s     Snapshot
		right bool
	}{
		{"whole", Snapshot{done, map[string]int64{"a": 30, "b": 70}}, true},
		{"money made", Snapshot{done, map[string]int64{"a": 30, "b": 71}}, false},
		{"half a transfer", Snapshot{done, map[string]int64{"a": 30, "b": 60}}, false},
		{"an account vanished", Snapshot{done, map[string]int64{"a": 100}}, false},
		{"debt", Snapshot{done, map[string]int64{"a": -1, "b": 101}}, false},
		{"not answered", Snapshot{Op{Outcome: Unknown}, nil}, true},
	} {
		if err := Totals([]Snapshot{c.s}, 2, 100, false); c.right != (err == nil) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := Totals([]Snapshot{{done, map[string]int64{"a": -1, "b": 101}}}, 2, 100, true); err != nil {
		t.Error(err)
	}
}

func TestMonotonic(t *testing.T) {
	for _, c := range []struct {
		name, ops string
		right     bool
	}{
		{"grows", "0-1 1 r 1\n2-3 1 r 1\n4-5 2 r 3", true},
		{"shrinks for one client", "0-1 1 r 2\n2-3 1 r 1", false},
		{"shrinks from one client to another", "0-1 1 r 2\n2-3 2 r 1", false},
		{"beside each other", "0-5 1 r 2\n2-9 2 r 1", true},
		{"a long read hides nothing", "0-50 9 r 0\n1-2 1 r 5\n10-11 2 r 4", false},
		{"unanswered", "0-1 1 r 2\n2-? 1 r 0", true},
	} {
		var v *Violation
		if err := Monotonic(parse(t, c.ops)); c.right != (err == nil) || err != nil && !errors.As(err, &v) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
