package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Violation is a history that no correct database shows, found by one of the checkers of sums.
type Violation struct {
	// Checker names the checker that found it, Text says what is wrong.
	Checker, Text string
	// Ops are the operations concerned.
	Ops []Op
}

// shownOps bounds the operations that a violation's text lists.
const shownOps = 40

func (v *Violation) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", v.Checker, v.Text)
	for i := range v.Ops {
		if i == shownOps {
			fmt.Fprintf(&b, "\n... %d more", len(v.Ops)-i)
			break
		}
		b.WriteString("\n" + v.Ops[i].String())
	}
	return b.String()
}

// Ops returns the operations recorded so far, in the order of the calls.
func (r *Registers) Ops() []Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Op, len(r.ops))
	for i, o := range r.ops {
		out[i] = *o
	}
	return out
}

// Set checks additions of distinct elements against the final set: it has every acknowledged element, none that failed,
// no others, and none twice. With two sets that are written together, check each and compare them.
func Set(adds []Op, final []int64) error {
	there := make(map[int64]int, len(final))
	for _, v := range final {
		there[v]++
	}
	tried := make(map[int64]bool, len(adds))
	var lost, undead, twice []Op
	for _, o := range adds {
		if o.Kind != Add {
			continue
		}
		tried[o.Value] = true
		switch n := there[o.Value]; {
		case o.Outcome == OK && n == 0:
			lost = append(lost, o)
		case o.Outcome == Failed && n > 0:
			undead = append(undead, o)
		case n > 1:
			twice = append(twice, o)
		}
	}
	var strange []int64
	for v := range there {
		if !tried[v] {
			strange = append(strange, v)
		}
	}
	slices.Sort(strange)
	for _, c := range []struct {
		ops  []Op
		text string
	}{{lost, "acknowledged but missing"}, {undead, "failed but present"}, {twice, "present more than once"}} {
		if len(c.ops) > 0 {
			return &Violation{Checker: "set", Text: fmt.Sprintf("%d of %d elements: %s", len(c.ops), len(adds), c.text), Ops: c.ops}
		}
	}
	if len(strange) > 0 {
		return &Violation{Checker: "set", Text: fmt.Sprintf("%d elements that nobody added, first %d", len(strange), strange[0])}
	}
	return nil
}

// Counter checks increments of one counter, and reads of it: each read shows at least the increments that were
// acknowledged before it began, and at most those that were begun before it ended. A lost increment makes it too small,
// one applied twice too large. Increments must not be negative.
func Counter(ops []Op, initial int64) error {
	for _, r := range ops {
		if r.Kind != Read || r.Outcome != OK {
			continue
		}
		least, most := initial, initial
		for _, a := range ops {
			if a.Kind != Add || a.Outcome == Failed {
				continue
			}
			if a.Outcome == OK && a.Return < r.Call {
				least += a.Value
			}
			if a.Call <= r.Return {
				most += a.Value
			}
		}
		if r.Result < least || r.Result > most {
			return &Violation{Checker: "counter", Text: fmt.Sprintf("a read shows %d, possible are %d to %d", r.Result, least, most), Ops: []Op{r}}
		}
	}
	return nil
}

// Snapshot is one read of all accounts of a bank.
type Snapshot struct {
	Op       Op // when and by whom
	Balances map[string]int64
}

// Totals checks snapshots of a bank: money moves but is neither made nor lost, accounts neither appear nor vanish, and,
// unless debt is allowed, no balance is negative.
func Totals(snapshots []Snapshot, accounts int, total int64, debt bool) error {
	for _, s := range snapshots {
		if s.Op.Outcome != OK {
			continue
		}
		if len(s.Balances) != accounts {
			return &Violation{Checker: "totals", Text: fmt.Sprintf("%d accounts, not %d", len(s.Balances), accounts), Ops: []Op{s.Op}}
		}
		var sum int64
		for name, b := range s.Balances {
			if b < 0 && !debt {
				return &Violation{Checker: "totals", Text: fmt.Sprintf("account %s holds %d", name, b), Ops: []Op{s.Op}}
			}
			sum += b
		}
		if sum != total {
			return &Violation{Checker: "totals", Text: fmt.Sprintf("the accounts hold %d, not %d", sum, total), Ops: []Op{s.Op}}
		}
	}
	return nil
}

// Monotonic checks reads of values that only grow, each key alone: no client sees one shrink, and a read that begins
// after another client's has ended shows no less.
func Monotonic(ops []Op) error {
	type seat struct {
		client, key int
	}
	reads := make([]Op, 0, len(ops))
	for _, o := range ops {
		if o.Kind == Read && o.Outcome == OK {
			reads = append(reads, o)
		}
	}
	slices.SortStableFunc(reads, func(a, b Op) int { return cmp.Compare(a.Call, b.Call) })
	own := make(map[seat]Op)
	for _, r := range reads {
		k := seat{r.Client, r.Key}
		if p, ok := own[k]; ok && r.Result < p.Result {
			return &Violation{Checker: "monotonic", Text: fmt.Sprintf("client %d sees %d after %d", r.Client, r.Result, p.Result), Ops: []Op{p, r}}
		}
		own[k] = r
	}
	// The greatest value of all reads that ended before a read begins.
	ended := slices.Clone(reads)
	slices.SortStableFunc(ended, func(a, b Op) int { return cmp.Compare(a.Return, b.Return) })
	best := make(map[int]Op)
	i := 0
	for _, r := range reads {
		for ; i < len(ended) && ended[i].Return < r.Call; i++ {
			if p, ok := best[ended[i].Key]; !ok || ended[i].Result > p.Result {
				best[ended[i].Key] = ended[i]
			}
		}
		if p, ok := best[r.Key]; ok && r.Result < p.Result {
			return &Violation{Checker: "monotonic", Text: fmt.Sprintf("%d was seen, and later %d", p.Result, r.Result), Ops: []Op{p, r}}
		}
	}
	return nil
}
