package history

import (
	"cmp"
	"fmt"
	"slices"
)

// ValuesOptions are assumptions about registers.
type ValuesOptions struct {
	Ordering Ordering
	// Linearizable assumes that single keys are linearizable (I4): of two writes of a key that do not overlap in time, the
	// later one made the later version. Without it, only read-modify-writes tell the order of versions.
	Linearizable bool
}

// Values checks transactions that read and write registers, each value of a key written at most once, with 0 as the
// first one. Less is known than for lists: the order of a key's versions follows only from transactions that read one
// and wrote the next, and, if assumed, from time. So it may miss anomalies that Appends would find in the same history,
// but reports none that is not one.
func Values(txns []*Txn, o ValuesOptions) *Report {
	r := &Report{}
	a := newAnalysis(txns, r, Write)
	a.settle(func(seen func(k int32, v int64)) {
		a.reads(func(t *Txn, k int32, x *Access) { seen(k, x.Value) })
	})
	g := &graph{txns: a.committed, keys: a.keys}
	node := a.nodes()
	external := make([]map[int64][]int32, len(a.keys)) // a version's readers
	before := make([]map[int64][]int64, len(a.keys))   // versions that a version is known to follow
	for k := range a.keys {
		external[k], before[k] = map[int64][]int32{}, map[int64][]int64{}
	}
	replaced := map[[2]int64][]*Txn{} // of a version of a key, by transactions that had read it
	for i, t := range a.committed {
		own := map[int32]int64{}   // last value written
		first := map[int32]int64{} // value read before that
		for j := range t.Accesses {
			x := &t.Accesses[j]
			k := a.index[x.Key]
			mine, wrote := own[k]
			if x.Kind == Write {
				if v, read := first[k]; read && !wrote {
					replaced[[2]int64{int64(k), v}] = append(replaced[[2]int64{int64(k), v}], t)
				}
				own[k] = x.Value
				continue
			}
			if wrote {
				if x.Value != mine {
					r.add(&Anomaly{Class: Internal, Text: fmt.Sprintf("%s read %d of %s after it had written %d", t.Name(), x.Value, x.Key, mine), Txns: []*Txn{t}})
				}
				continue
			}
			first[k] = x.Value
			external[k][x.Value] = append(external[k][x.Value], int32(i))
			if x.Value == 0 {
				continue
			}
			w, known := a.writer[k][x.Value]
			switch {
			case !known:
				r.add(&Anomaly{Class: Garbage, Text: fmt.Sprintf("%s read %d of %s, which nobody wrote", t.Name(), x.Value, x.Key), Txns: []*Txn{t}})
			case w.txn.Outcome == Failed:
				r.add(&Anomaly{Class: G1a, Text: fmt.Sprintf("%s read %d of %s, which %s wrote and rolled back", t.Name(), x.Value, x.Key, w.txn.Name()), Txns: []*Txn{w.txn, t}})
			case w.txn == t:
				r.add(&Anomaly{Class: Internal, Text: fmt.Sprintf("%s read %d of %s before it wrote it", t.Name(), x.Value, x.Key), Txns: []*Txn{t}})
			case !w.final:
				r.add(&Anomaly{Class: G1b, Text: fmt.Sprintf("%s read %d of %s, which %s replaced itself", t.Name(), x.Value, x.Key, w.txn.Name()), Txns: []*Txn{w.txn, t}})
			}
			if n, ok := node[w.txn]; known && ok {
				g.add(n, int32(i), WR, k, x.Value, 0)
			}
		}
		for k, v := range own {
			if f, read := first[k]; read {
				before[k][v] = append(before[k][v], f)
			}
		}
	}
	for _, kv := range sortedPairs(replaced) {
		if l := replaced[kv]; len(l) > 1 {
			r.add(&Anomaly{Class: LostUpdate, Text: fmt.Sprintf("%d transactions read %d of %s and replaced it", len(l), kv[1], a.keys[kv[0]]), Txns: l})
		}
	}
	for k := range a.keys {
		a.versions(g, int32(k), node, external[k], before[k], o.Linearizable)
	}
	g.search(r, o.Ordering)
	return r
}

func sortedPairs(m map[[2]int64][]*Txn) [][2]int64 {
	out := make([][2]int64, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b [2]int64) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	return out
}

// versions adds the dependencies that follow from the known part of the order of one key's versions.
func (a *analysis) versions(g *graph, k int32, node map[*Txn]int32, readers map[int64][]int32, before map[int64][]int64, linearizable bool) {
	type version struct {
		value int64
		txn   *Txn
	}
	var list []version
	for v, w := range a.writer[k] {
		if _, ok := node[w.txn]; ok && w.final {
			list = append(list, version{v, w.txn})
		}
	}
	slices.SortFunc(list, func(x, y version) int {
		return cmp.Or(cmp.Compare(x.txn.Call, y.txn.Call), cmp.Compare(x.txn.ID, y.txn.ID))
	})
	if linearizable {
		ended := slices.DeleteFunc(slices.Clone(list), func(v version) bool { return v.txn.Outcome != OK })
		slices.SortFunc(ended, func(x, y version) int { return cmp.Compare(x.txn.Return, y.txn.Return) })
		n := 0
		var call int64 = -1 // the latest call of those that ended: a write that returned before it is not an immediate predecessor
		var open []version
		for _, v := range list {
			for n < len(ended) && ended[n].txn.Return < v.txn.Call {
				open = append(open, ended[n])
				call = max(call, ended[n].txn.Call)
				n++
			}
			open = slices.DeleteFunc(open, func(p version) bool { return p.txn.Return < call })
			for _, p := range open {
				before[v.value] = append(before[v.value], p.value)
			}
		}
	}
	// The first version precedes those that no other version is known to precede.
	for _, v := range list {
		if len(before[v.value]) == 0 {
			before[v.value] = []int64{0}
		}
	}
	// From an order that contradicts itself nothing else follows.
	state := map[int64]int{}
	var visit func(v int64) bool
	visit = func(v int64) bool {
		state[v] = 1
		for _, p := range before[v] {
			if state[p] == 1 || state[p] == 0 && !visit(p) {
				return false
			}
		}
		state[v] = 2
		return true
	}
	for _, v := range list {
		if state[v.value] == 0 && !visit(v.value) {
			var txns []*Txn
			text := fmt.Sprintf("versions of %s would precede each other:", a.keys[k])
			for _, w := range list {
				if state[w.value] == 1 {
					txns = append(txns, w.txn)
					text += fmt.Sprintf(" %d", w.value)
				}
			}
			a.r.add(&Anomaly{Class: CyclicVersions, Text: text, Txns: txns})
			return
		}
	}
	for _, v := range list {
		to := node[v.txn]
		for _, p := range before[v.value] {
			if w, ok := a.writer[k][p]; ok && p != 0 {
				if from, ok := node[w.txn]; ok {
					g.add(from, to, WW, k, p, v.value)
				}
			}
			for _, rd := range readers[p] {
				g.add(rd, to, RW, k, p, v.value)
			}
		}
	}
}

// Race is one client's try to be the only one.
type Race struct {
	Key    string
	Client int
	Outcome
	Note string
}

// Winners checks races in which at most one client may have succeeded: of each key, at most one try was OK, and the row
// at the end, if the winner is known, is the winner's. final has the client of each key's row; a key without a row is
// left out.
func Winners(tries []Race, final map[string]int) error {
	winner := map[string]Race{}
	possible := map[string]map[int]bool{}
	for _, t := range tries {
		if possible[t.Key] == nil {
			possible[t.Key] = map[int]bool{}
		}
		if t.Outcome != Failed {
			possible[t.Key][t.Client] = true
		}
		if t.Outcome != OK {
			continue
		}
		if w, ok := winner[t.Key]; ok {
			return &Violation{Checker: "winners", Text: fmt.Sprintf("%s was won by client %d (%s) and by client %d (%s)", t.Key, w.Client, w.Note, t.Client, t.Note)}
		}
		winner[t.Key] = t
	}
	for k, w := range winner {
		if c, there := final[k]; !there {
			return &Violation{Checker: "winners", Text: fmt.Sprintf("%s was won by client %d (%s) and is missing", k, w.Client, w.Note)}
		} else if c != w.Client {
			return &Violation{Checker: "winners", Text: fmt.Sprintf("%s was won by client %d (%s) and is client %d's", k, w.Client, w.Note, c)}
		}
	}
	for k, c := range final {
		if !possible[k][c] {
			return &Violation{Checker: "winners", Text: fmt.Sprintf("%s is client %d's, who failed or never tried", k, c)}
		}
	}
	return nil
}
