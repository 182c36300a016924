package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// parseTxns reads transactions, one a line: "name [@call-return] [cN] [failed|unknown] [past]: r x [1 2], a x 3, w y 4, r y 4".
// Without a time they all overlap; without a client, each has its own.
func parseTxns(t *testing.T, text string) []*Txn {
	var out []*Txn
	for n, line := range strings.Split(strings.TrimSpace(text), "\n") {
		head, body, ok := strings.Cut(line, ":")
		if !ok {
			t.Fatalf("%q", line)
		}
		x := &Txn{ID: n + 1, Client: n + 1, Call: int64(n), Return: int64(1000 + n), Outcome: OK}
		f := strings.Fields(head)
		if f[0] != x.Name() {
			t.Fatalf("%q: want %s", line, x.Name())
		}
		num := func(s string) int64 {
			v, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			return v
		}
		for _, w := range f[1:] {
			switch {
			case w[0] == '@':
				a, b, _ := strings.Cut(w[1:], "-")
				x.Call, x.Return = num(a), num(b)
			case w == "failed":
				x.Outcome = Failed
			case w == "unknown":
				x.Outcome = Unknown
			case w == "past":
				x.Past = true
			case w[0] == 'c':
				x.Client = int(num(w[1:]))
			default:
				t.Fatalf("%q", line)
			}
		}
		for _, step := range strings.Split(body, ",") {
			f := strings.Fields(strings.NewReplacer("[", "[ ", "]", " ]").Replace(step))
			if len(f) == 0 {
				continue
			}
			a := Access{Key: f[1]}
			switch {
			case f[0] == "a":
				a.Kind, a.Value = Append, num(f[2])
			case f[0] == "w":
				a.Kind, a.Value = Write, num(f[2])
			case f[2] == "[":
				a.List = []int64{}
				for _, v := range f[3 : len(f)-1] {
					a.List = append(a.List, num(v))
				}
			default:
				a.Value = num(f[2])
			}
			x.Accesses = append(x.Accesses, a)
		}
		out = append(out, x)
	}
	return out
}

// TestCycles checks hand-made histories of each class, and their near misses.
func TestCycles(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			txns := parseTxns(t, d.Input)
			o := ByValues
			switch {
			case d.HasArg("time"):
				o = ByTime
			case d.HasArg("sessions"):
				o = BySession
			}
			var r *Report
			switch d.Cmd {
			case "lists":
				r = Appends(txns, o)
			case "registers":
				r = Values(txns, ValuesOptions{Ordering: o, Linearizable: d.HasArg("linearizable")})
			default:
				t.Fatal(d.Cmd)
			}
			if len(r.Anomalies) == 0 {
				return fmt.Sprintf("good: %d transactions\n", r.Txns)
			}
			var b strings.Builder
			for _, a := range r.Anomalies {
				fmt.Fprintf(&b, "%s, forbidden from %s on", a.Class, a.Class.Level())
				if a.Text != "" {
					b.WriteString("\n  " + a.Text)
				}
				for i := range a.Cycle {
					b.WriteString("\n  " + a.Cycle[i].String())
				}
				b.WriteByte('\n')
			}
			return b.String()
		})
	})
}

// executor makes histories by doing one transaction after the other.
type executor struct {
	dice  *rand.Rand
	kind  Kind // Append or Write
	txns  []*Txn
	lists map[string][]int64
	next  int64
	at    int64
}

func (x *executor) key() string { return string(rune('a' + x.dice.IntN(6))) }

func (x *executor) value() int64 { x.next++; return x.next }

func (x *executor) begin() *Txn {
	t := &Txn{ID: len(x.txns) + 1, Client: len(x.txns) + 1, Outcome: OK} // they overlap, so each has its own client
	x.txns = append(x.txns, t)
	return t
}

// span gives t a time around now, which moves on.
func (x *executor) span(t *Txn) {
	x.at += 10
	t.Call, t.Return = x.at-int64(x.dice.IntN(100)), x.at+int64(x.dice.IntN(100))
}

func (x *executor) read(t *Txn, k string, l []int64) {
	a := Access{Kind: Read, Key: k}
	if x.kind == Append {
		a.List = slices.Clone(l)
		if a.List == nil {
			a.List = []int64{}
		}
	} else if len(l) > 0 {
		a.Value = l[len(l)-1]
	}
	t.Accesses = append(t.Accesses, a)
}

func (x *executor) write(t *Txn, k string, v int64) {
	t.Accesses = append(t.Accesses, Access{Kind: x.kind, Key: k, Value: v})
}

// one does one transaction.
func (x *executor) one() {
	t := x.begin()
	x.span(t)
	keep := true
	switch x.dice.IntN(12) {
	case 0:
		t.Outcome, keep = Failed, false
	case 1:
		t.Outcome = Unknown
	case 2:
		t.Outcome, keep = Unknown, false
	}
	mine := map[string][]int64{}
	get := func(k string) []int64 {
		if l, ok := mine[k]; ok {
			return l
		}
		return x.lists[k]
	}
	for range 1 + x.dice.IntN(4) {
		k := x.key()
		if x.dice.IntN(2) == 0 {
			x.read(t, k, get(k))
			continue
		}
		if x.kind == Write && x.dice.IntN(3) > 0 {
			x.read(t, k, get(k)) // so that the order of versions is partly known
		}
		v := x.value()
		x.write(t, k, v)
		mine[k] = append(slices.Clone(get(k)), v)
	}
	if keep {
		for k, l := range mine {
			x.lists[k] = l
		}
	}
}

// readAll does a transaction that reads every key.
func (x *executor) readAll() {
	t := x.begin()
	x.span(t)
	for c := 'a'; c < 'g'; c++ {
		x.read(t, string(c), x.lists[string(c)])
	}
}

// spoil does transactions side by side that show an anomaly, and returns its name.
func (x *executor) spoil() Class {
	keys := x.dice.Perm(6)
	k1, k2 := string(rune('a'+keys[0])), string(rune('a'+keys[1]))
	l1, l2 := slices.Clone(x.lists[k1]), slices.Clone(x.lists[k2])
	with := func(l []int64, v ...int64) []int64 { return append(slices.Clone(l), v...) }
	t, u := x.begin(), x.begin()
	x.span(t)
	x.span(u)
	v, w := x.value(), x.value()
	kinds := []Class{G1a, G1b, G1c, GSingle, G2}
	if x.kind == Append {
		kinds = append(kinds, G0, IncompatibleOrder, Duplicate, Garbage, GNonadjacent)
	} else {
		kinds = append(kinds, LostUpdate)
	}
	class := kinds[x.dice.IntN(len(kinds))]
	switch class {
	case G0:
		x.write(t, k1, v)
		x.write(u, k1, w)
		v2, w2 := x.value(), x.value()
		x.write(u, k2, w2)
		x.write(t, k2, v2)
		x.lists[k1], x.lists[k2] = with(l1, v, w), with(l2, w2, v2)
	case G1a:
		x.write(t, k1, v)
		t.Outcome = Failed
		x.read(u, k1, with(l1, v))
		if x.kind == Append {
			x.lists[k1] = with(l1, v) // a list that loses it again would show even more
		}
	case G1b:
		x.write(t, k1, v)
		x.read(u, k1, with(l1, v))
		x.write(t, k1, w)
		x.lists[k1] = with(l1, v, w)
	case G1c:
		x.write(t, k1, v)
		x.write(u, k2, w)
		x.read(t, k2, with(l2, w))
		x.read(u, k1, with(l1, v))
		x.lists[k1], x.lists[k2] = with(l1, v), with(l2, w)
	case GSingle: // u sees t's second write and not its first
		x.read(u, k1, l1)
		x.read(t, k1, l1)
		x.write(t, k1, v)
		x.write(t, k2, w)
		x.read(u, k2, with(l2, w))
		x.lists[k1], x.lists[k2] = with(l1, v), with(l2, w)
	case GNonadjacent:
		x.write(t, k1, v)
		x.write(u, k2, w)
		a, b := x.begin(), x.begin()
		x.span(a)
		x.span(b)
		x.read(a, k1, with(l1, v))
		x.read(a, k2, l2)
		x.read(b, k1, l1)
		x.read(b, k2, with(l2, w))
		x.lists[k1], x.lists[k2] = with(l1, v), with(l2, w)
	case G2:
		for _, y := range []*Txn{t, u} {
			x.read(y, k1, l1)
			x.read(y, k2, l2)
		}
		x.write(t, k1, v)
		x.write(u, k2, w)
		x.lists[k1], x.lists[k2] = with(l1, v), with(l2, w)
	case LostUpdate:
		x.read(t, k1, l1)
		x.read(u, k1, l1)
		x.write(t, k1, v)
		x.write(u, k1, w)
		x.lists[k1] = with(l1, v, w)
	case IncompatibleOrder:
		x.write(t, k1, v)
		x.write(u, k1, w)
		x.read(t, k1, with(l1, v))
		x.read(u, k1, with(l1, w))
		x.lists[k1] = with(l1, v, w)
	case Duplicate:
		x.write(t, k1, v)
		x.lists[k1] = with(l1, v, v)
	case Garbage:
		x.lists[k1] = with(l1, 1_000_000+v)
	}
	return class
}

func (x *executor) check(o Ordering) *Report {
	if x.kind == Append {
		return Appends(x.txns, o)
	}
	return Values(x.txns, ValuesOptions{Ordering: o, Linearizable: o == ByTime})
}

// TestRandomHistories: a serial history is always good, also in the order of time; with one anomaly in the middle it
// never is, and the checker names that anomaly.
func TestRandomHistories(t *testing.T) {
	for _, kind := range []Kind{Append, Write} {
		found := map[Class]int{}
		for seed := range uint64(600) {
			x := &executor{dice: rand.New(rand.NewPCG(seed, uint64(kind))), kind: kind, lists: map[string][]int64{}}
			n := 1 + x.dice.IntN(60)
			for range n {
				x.one()
			}
			good := *x
			good.readAll()
			for _, o := range []Ordering{ByValues, ByTime} {
				if r := good.check(o); len(r.Anomalies) > 0 {
					t.Fatalf("kind %d, seed %d: a serial history shows %s", kind, seed, r.Anomalies[0])
				}
			}
			x.txns = slices.Clone(x.txns)
			class := x.spoil()
			for range x.dice.IntN(20) {
				x.one()
			}
			x.readAll()
			r := x.check(ByValues)
			if err := r.At(Serializable); err == nil {
				var h strings.Builder
				for _, y := range x.txns {
					h.WriteString("\n" + y.String())
				}
				t.Fatalf("kind %d, seed %d: %s is not found in%s", kind, seed, class, h.String())
			}
			if slices.ContainsFunc(r.Anomalies, func(a *Anomaly) bool { return a.Class == class }) {
				found[class]++
			}
		}
		t.Logf("kind %d, named: %v", kind, found)
		want := []Class{G1a, G1b, G1c, GSingle, G2}
		if kind == Append {
			want = append(want, G0, GNonadjacent, IncompatibleOrder, Duplicate, Garbage)
		} else {
			want = append(want, LostUpdate)
		}
		for _, c := range want {
			if found[c] == 0 {
				t.Errorf("kind %d: %s was never named", kind, c)
			}
		}
	}
}

// TestStaleReads: a serial history in which one transaction reads what had been overwritten long ago is serializable,
// but not in the order of time, nor, of the same client, of sessions.
func TestStaleReads(t *testing.T) {
	for seed := range uint64(50) {
		x := &executor{dice: rand.New(rand.NewPCG(seed, 7)), kind: Append, lists: map[string][]int64{}}
		for range 20 {
			x.one()
		}
		old := slices.Clone(x.lists["a"])
		w := x.begin()
		x.at += 1000
		x.span(w)
		v := x.value()
		x.write(w, "a", v)
		x.lists["a"] = append(x.lists["a"], v)
		for range 20 {
			x.one()
		}
		x.at += 1000
		r := x.begin()
		x.span(r)
		r.Client = w.Client
		x.read(r, "a", old)
		x.readAll()
		if rep := x.check(ByValues); rep.At(Strict) != nil {
			t.Fatal(rep.At(Strict))
		}
		for o, class := range map[Ordering]Class{ByTime: GSingle + realtime, BySession: GSingle + realtime} {
			if rep := x.check(o); rep.At(Serializable) != nil || rep.At(Strict) == nil || rep.Anomalies[0].Class != class {
				t.Fatalf("seed %d, ordering %d: %s", seed, o, rep.Counts())
			}
		}
	}
}

// snapshots makes a history of what a snapshot isolated database would do with many clients: full of write skew.
func snapshots(n int, seed uint64) []*Txn {
	x := &executor{dice: rand.New(rand.NewPCG(seed, 9)), kind: Append}
	const width = 8
	var txns []*Txn
	state := make(map[string][]int64)
	for len(txns) < n {
		keys := len(txns) / 200 // old keys retire
		taken := map[string]bool{}
		next := map[string][]int64{}
		for c := range width {
			t := &Txn{ID: len(txns) + 1, Client: c, Outcome: OK, Call: int64(len(txns)), Return: int64(len(txns) + width)}
			txns = append(txns, t)
			own := map[string]bool{}
			for i := range 4 {
				k := fmt.Sprint(keys*10 + x.dice.IntN(10))
				if i%2 == 0 || taken[k] {
					if !own[k] {
						x.read(t, k, state[k])
					}
					continue
				}
				taken[k], own[k] = true, true
				v := x.value()
				x.write(t, k, v)
				next[k] = append(slices.Clone(state[k]), v)
			}
		}
		for k, l := range next {
			state[k] = l
		}
	}
	return txns
}

// TestManyTransactions: ten thousand transactions take about a second, with few anomalies or many.
func TestManyTransactions(t *testing.T) {
	x := &executor{dice: rand.New(rand.NewPCG(1, 1)), kind: Append, lists: map[string][]int64{}}
	for i := range 10_000 {
		if i%500 == 0 {
			x.lists = map[string][]int64{}
		}
		x.one()
	}
	// Keys of one stretch are not those of the next.
	for i, y := range x.txns {
		for j := range y.Accesses {
			y.Accesses[j].Key += fmt.Sprint(i / 500)
		}
	}
	begun := time.Now()
	if r := Appends(x.txns, ByTime); r.At(Strict) != nil {
		t.Fatal(r.At(Strict))
	}
	t.Logf("good: %s", time.Since(begun))
	skewed := snapshots(10_000, 1)
	begun = time.Now()
	r := Appends(skewed, ByTime)
	t.Logf("write skew: %s, %s", time.Since(begun), r.Counts())
	if r.At(RepeatableRead) != nil || r.At(Serializable) == nil {
		t.Fatalf("%v", r.Counts())
	}
}

func BenchmarkAppends(b *testing.B) {
	txns := snapshots(10_000, 1)
	for b.Loop() {
		Appends(txns, ByTime)
	}
}

// TestWinners: races for one row.
func TestWinners(t *testing.T) {
	win := func(c int) Race { return Race{Key: "k", Client: c, Outcome: OK} }
	lose := func(c int) Race { return Race{Key: "k", Client: c, Outcome: Failed} }
	lost := func(c int) Race { return Race{Key: "k", Client: c, Outcome: Unknown} }
	for _, c := range []struct {
		tries []Race
		final int // zero: none
		good  bool
	}{
		{[]Race{win(1), lose(2)}, 1, true},
		{[]Race{win(1), win(2)}, 2, false},
		{[]Race{win(1), lose(2)}, 2, false},
		{[]Race{win(1)}, 0, false},
		{[]Race{lose(1), lost(2)}, 2, true},
		{[]Race{lose(1), lost(2)}, 0, true},
		{[]Race{lose(1), lost(2)}, 1, false},
		{[]Race{win(1), lost(2)}, 2, false},
		{[]Race{lose(1)}, 3, false},
	} {
		final := map[string]int{}
		if c.final > 0 {
			final["k"] = c.final
		}
		if err := Winners(c.tries, final); (err == nil) != c.good {
			t.Errorf("%v, %d: %v", c.tries, c.final, err)
		}
	}
}
