package history

import (
	"fmt"
	"slices"
)

// Appends checks transactions that read lists and append distinct elements to them. A list shows which transactions
// wrote its versions, and in which order, so that every dependency is known and not guessed (Kingsbury and Alvaro,
// "Elle", 2020).
//
// Transactions of unknown outcome count as committed if any transaction saw their writes.
func Appends(txns []*Txn, o Ordering) *Report {
	r := &Report{}
	a := newAnalysis(txns, r, Append)
	longest := make([][]int64, len(a.keys))
	reader := make([]*Txn, len(a.keys))
	a.settle(func(seen func(k int32, v int64)) {
		a.reads(func(t *Txn, k int32, x *Access) {
			if len(x.List) > len(longest[k]) {
				longest[k], reader[k] = x.List, t
			}
		})
		for k, l := range longest {
			for _, v := range l {
				seen(int32(k), v)
			}
		}
	})
	place := make([]map[int64]int, len(a.keys)) // of an element in the longest list
	for k, l := range longest {
		place[k] = make(map[int64]int, len(l))
		for i, v := range l {
			w, known := a.writer[k][v]
			if j, twice := place[k][v]; twice {
				r.add(&Anomaly{Class: Duplicate, Text: fmt.Sprintf("%d is in %s at places %d and %d", v, a.keys[k], j+1, i+1), Txns: []*Txn{reader[k]}})
			}
			place[k][v] = i
			switch {
			case !known:
				r.add(&Anomaly{Class: Garbage, Text: fmt.Sprintf("%d is in %s and nobody appended it", v, a.keys[k]), Txns: []*Txn{reader[k]}})
			case w.txn.Outcome == Failed:
				r.add(&Anomaly{Class: G1a, Text: fmt.Sprintf("%s read %d of %s, which %s appended and rolled back", reader[k].Name(), v, a.keys[k], w.txn.Name()),
					Txns: []*Txn{w.txn, reader[k]}})
			}
		}
	}
	g := &graph{txns: a.committed, keys: a.keys}
	node := a.nodes()
	of := func(k int32, v int64) int32 { // the node of an element's writer, or none
		if w, ok := a.writer[k][v]; ok {
			if n, ok := node[w.txn]; ok {
				return n
			}
		}
		return -1
	}
	unseen := make([][]int32, len(a.keys)) // committed appends after the longest list
	value := map[[2]int32]int64{}
	for k := range a.keys {
		l := longest[k]
		for i := 1; i < len(l); i++ {
			if f, t := of(int32(k), l[i-1]), of(int32(k), l[i]); f >= 0 && t >= 0 {
				g.add(f, t, WW, int32(k), l[i-1], l[i])
			}
		}
	}
	for i, t := range a.committed {
		last := map[int32]int64{} // its last append that is in the longest list
		for j := range t.Accesses {
			x := &t.Accesses[j]
			k := a.index[x.Key]
			if n, there := place[k][x.Value]; x.Kind == Append && there {
				if v, before := last[k]; before && place[k][v] > n {
					r.add(&Anomaly{Class: Internal, Text: fmt.Sprintf("%s appended %d to %s and then %d, which is before it in the list", t.Name(), v, a.keys[k], x.Value),
						Txns: []*Txn{t, reader[k]}})
				}
				last[k] = x.Value
			} else if x.Kind == Append {
				if n := [2]int32{k, int32(i)}; value[n] == 0 {
					value[n] = x.Value
					unseen[k] = append(unseen[k], int32(i))
				}
			}
		}
	}
	for k := range a.keys {
		if l := longest[k]; len(l) > 0 {
			if f := of(int32(k), l[len(l)-1]); f >= 0 {
				for _, t := range unseen[k] {
					g.add(f, t, WW, int32(k), l[len(l)-1], value[[2]int32{int32(k), t}])
				}
			}
		}
	}
	a.reads(func(t *Txn, k int32, x *Access) {
		l, all := x.List, longest[k]
		if !slices.Equal(l, all[:min(len(l), len(all))]) {
			r.add(&Anomaly{Class: IncompatibleOrder, Text: fmt.Sprintf("of %s, %s read %s and %s read %s", a.keys[k], t.Name(), showList(l), reader[k].Name(), showList(all)),
				Txns: []*Txn{t, reader[k]}})
			return
		}
		me := node[t]
		n := len(l)
		for n > 0 && of(k, l[n-1]) == me {
			n--
		}
		var last int64
		if n > 0 {
			last = l[n-1]
			if f := of(k, last); f >= 0 {
				if w := a.writer[k][last]; !w.final {
					r.add(&Anomaly{Class: G1b, Text: fmt.Sprintf("%s read %s up to %d, after which %s appended more", t.Name(), a.keys[k], last, w.txn.Name()),
						Txns: []*Txn{w.txn, t}})
				}
				g.add(f, me, WR, k, last, 0)
			}
		}
		if n < len(all) {
			if to := of(k, all[n]); to >= 0 {
				g.add(me, to, RW, k, last, all[n])
			}
			return
		}
		for _, to := range unseen[k] {
			g.add(me, to, RW, k, last, value[[2]int32{k, to}])
		}
	})
	// A transaction sees its own appends, and not before it has made them.
	for _, t := range a.committed {
		own := map[string][]int64{}
		for j := range t.Accesses {
			x := &t.Accesses[j]
			if x.Kind == Append {
				own[x.Key] = append(own[x.Key], x.Value)
				continue
			}
			if x.Kind == Read && len(x.List) > len(own[x.Key]) {
				if w, ok := a.writer[a.index[x.Key]][x.List[len(x.List)-len(own[x.Key])-1]]; ok && w.txn == t {
					r.add(&Anomaly{Class: Internal, Text: fmt.Sprintf("%s read %s of %s when it had appended %s", t.Name(), showList(x.List), x.Key, showList(own[x.Key])), Txns: []*Txn{t}})
					continue
				}
			}
			if mine := own[x.Key]; x.Kind == Read && (len(x.List) < len(mine) || !slices.Equal(x.List[len(x.List)-len(mine):], mine)) {
				r.add(&Anomaly{Class: Internal, Text: fmt.Sprintf("%s read %s of %s after it had appended %s", t.Name(), showList(x.List), x.Key, showList(mine)), Txns: []*Txn{t}})
			}
		}
	}
	g.search(r, o)
	return r
}

// written is the transaction that wrote a value, and whether that was its last one for the key.
type written struct {
	txn   *Txn
	final bool
}

// analysis is the common part of the checkers of lists and of registers.
type analysis struct {
	txns      []*Txn
	r         *Report
	keys      []string
	index     map[string]int32
	writer    []map[int64]written
	committed []*Txn
}

func newAnalysis(txns []*Txn, r *Report, write Kind) *analysis {
	a := &analysis{txns: txns, r: r, index: map[string]int32{}}
	for _, t := range txns {
		last := map[int32]int64{}
		for i := range t.Accesses {
			x := &t.Accesses[i]
			k, ok := a.index[x.Key]
			if !ok {
				k = int32(len(a.keys))
				a.index[x.Key] = k
				a.keys = append(a.keys, x.Key)
				a.writer = append(a.writer, map[int64]written{})
			}
			if x.Kind != write {
				continue
			}
			if v, again := last[k]; again {
				a.writer[k][v] = written{t, false}
			}
			last[k] = x.Value
			a.writer[k][x.Value] = written{t, true}
		}
	}
	return a
}

// reads calls f for each read of a transaction that counts as committed.
func (a *analysis) reads(f func(t *Txn, k int32, x *Access)) {
	for _, t := range a.committed {
		for i := range t.Accesses {
			if x := &t.Accesses[i]; x.Kind == Read {
				f(t, a.index[x.Key], x)
			}
		}
	}
}

// settle finds the transactions that count as committed: those acknowledged, and those of unknown outcome whose writes
// any of these saw. all calls seen with the values that they saw; settle calls it again when there are more of them.
func (a *analysis) settle(all func(seen func(k int32, v int64))) {
	effect := map[*Txn]bool{}
	for more := true; more; {
		more = false
		a.committed = a.committed[:0]
		for _, t := range a.txns {
			if t.Outcome == OK || effect[t] {
				a.committed = append(a.committed, t)
			}
		}
		all(func(k int32, v int64) {
			if w, ok := a.writer[k][v]; ok && w.txn.Outcome == Unknown && !effect[w.txn] {
				effect[w.txn], more = true, true
			}
		})
	}
}

func (a *analysis) nodes() map[*Txn]int32 {
	out := make(map[*Txn]int32, len(a.committed))
	for i, t := range a.committed {
		out[t] = int32(i)
	}
	return out
}
