package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// strictly looks for an order of the transactions that explains what they read and contradicts the order of time nowhere:
// the definition itself, tried out with every order. Those of unknown outcome may be in it.
func strictly(txns []*Txn) bool {
	before := func(a, b *Txn) bool { return a.Outcome == OK && !a.Past && !b.Past && a.Return < b.Call }
	placed := make([]bool, len(txns))
	state := map[string][]int64{}
	var search func() bool
	search = func() bool {
		done := true
	next:
		for i, t := range txns {
			if placed[i] || t.Outcome == Failed {
				continue
			}
			done = done && t.Outcome != OK
			for j, u := range txns {
				if !placed[j] && before(u, t) {
					continue next
				}
			}
			was := map[string][]int64{}
			good := true
			for k := range t.Accesses {
				x := &t.Accesses[k]
				if x.Kind == Read {
					if good = slices.Equal(x.List, state[x.Key]); !good {
						break
					}
					continue
				}
				if _, saved := was[x.Key]; !saved {
					was[x.Key] = state[x.Key]
				}
				state[x.Key] = append(slices.Clone(state[x.Key]), x.Value)
			}
			if good {
				placed[i] = true
				if search() {
					return true
				}
				placed[i] = false
			}
			for k, l := range was {
				state[k] = l
			}
		}
		return done
	}
	return search()
}

// small makes a history of a few transactions: of a serial execution, in which some reads, times and outcomes are then replaced by others. With
// last, a transaction reads all keys at the end, so that the order of all versions is known.
func small(dice *rand.Rand, last bool) []*Txn {
	keys := []string{"x", "y", "z"}[:1+dice.IntN(3)]
	state := map[string][]int64{}
	versions := map[string][][]int64{}
	for _, k := range keys {
		state[k], versions[k] = []int64{}, [][]int64{{}}
	}
	var txns []*Txn
	value := int64(0)
	wide := 1 + dice.IntN(40)
	for n := range 2 + dice.IntN(5) {
		t := &Txn{ID: n + 1, Client: n, Outcome: OK, Call: int64(10*n + 50 - dice.IntN(wide)), Return: int64(10*n + 50 + dice.IntN(wide))}
		txns = append(txns, t)
		switch dice.IntN(12) {
		case 0:
			t.Outcome = Unknown
		case 1:
			t.Outcome = Failed
		case 2:
			t.Past = true
		}
		for range 1 + dice.IntN(3) {
			k := keys[dice.IntN(len(keys))]
			if dice.IntN(2) == 0 {
				t.Accesses = append(t.Accesses, Access{Kind: Read, Key: k, List: state[k]})
				continue
			}
			value++
			t.Accesses = append(t.Accesses, Access{Kind: Append, Key: k, Value: value})
			if t.Outcome != Failed {
				state[k] = append(slices.Clone(state[k]), value)
				versions[k] = append(versions[k], state[k])
			}
		}
	}
	if last {
		t := &Txn{ID: len(txns) + 1, Client: 99, Outcome: OK, Call: 1000, Return: 1001}
		for _, k := range keys {
			t.Accesses = append(t.Accesses, Access{Kind: Read, Key: k, List: state[k]})
		}
		txns = append(txns, t)
	}
	for range dice.IntN(4) { // spoil it, perhaps
		t := txns[dice.IntN(len(txns))]
		switch x := &t.Accesses[dice.IntN(len(t.Accesses))]; {
		case dice.IntN(4) == 0 && t.Client != 99:
			d := int64(dice.IntN(61) - 30)
			t.Call, t.Return = t.Call+d, t.Return+d
		case x.Kind == Read && dice.IntN(8) == 0 && len(x.List) > 1:
			x.List = slices.Clone(x.List)
			i := dice.IntN(len(x.List) - 1)
			x.List[i], x.List[i+1] = x.List[i+1], x.List[i]
		case x.Kind == Read && t.Client != 99:
			x.List = versions[x.Key][dice.IntN(len(versions[x.Key]))]
		case dice.IntN(6) == 0:
			t.Outcome = Failed
		}
	}
	return txns
}

func shown(txns []*Txn) string {
	var b strings.Builder
	for _, t := range txns {
		b.WriteString("\n  " + t.String())
	}
	return b.String()
}

// TestStrictByDefinition: Appends in the order of time finds an anomaly in a small history exactly if no order explains it, when a last
// read shows the order of all versions; without that it may miss some, and still finds none where there is none.
func TestStrictByDefinition(t *testing.T) {
	n := 30_000
	if testing.Short() {
		n = 3_000
	}
	for _, last := range []bool{true, false} {
		var good, bad, missed int
		classes := map[Class]int{}
		for seed := range uint64(n) {
			txns := small(rand.New(rand.NewPCG(seed, 0x571)), last)
			r := Appends(txns, ByTime)
			err, want := r.At(Strict), strictly(txns)
			switch {
			case want && err != nil:
				t.Fatalf("seed %d, last read %t: an order explains what has %v\n%s", seed, last, err, shown(txns))
			case want:
				good++
			case err != nil:
				bad++
				for _, a := range r.Anomalies {
					classes[a.Class]++
				}
			case last:
				t.Fatalf("seed %d: no order explains%s", seed, shown(txns))
			default:
				missed++
			}
		}
		t.Logf("last read %t: %d good, %d bad, %d missed; %v", last, good, bad, missed, classes)
		if good < n/5 || bad < n/5 || missed > bad/10 {
			t.Errorf("last read %t: of %d histories %d are good, %d bad, %d missed", last, n, good, bad, missed)
		}
		for _, c := range []Class{G1c, GSingle, G2, GSingle + realtime, G2 + realtime, G0 + realtime, G1c + realtime} {
			if last && classes[c] == 0 {
				t.Errorf("no history shows %s", c)
			}
		}
	}
}

// TestStrictMany: a hundred thousand transactions of a hundred clients, in the order of time, take seconds; and a causal reverse in the middle of them is found.
func TestStrictMany(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds")
	}
	const n = 100_000
	x := &executor{dice: rand.New(rand.NewPCG(1, 2)), kind: Append, lists: map[string][]int64{}}
	var rename []string
	for i := range n {
		if i%300 == 0 {
			x.lists = map[string][]int64{}
		}
		x.one()
		rename = append(rename, fmt.Sprint(i/300))
	}
	for i, y := range x.txns {
		for j := range y.Accesses {
			y.Accesses[j].Key += rename[i]
		}
	}
	begun := time.Now()
	r := Appends(x.txns, ByTime)
	if r.At(Strict) != nil {
		t.Fatal(r.At(Strict))
	}
	t.Logf("good: %d edges, %s", r.Edges, time.Since(begun))
	at := x.txns[n/2].Call
	txn := func(call, ret int64, a ...Access) *Txn {
		return &Txn{ID: n + int(call+ret), Client: n + int(call+ret), Outcome: OK, Call: at + call, Return: at + ret, Accesses: a}
	}
	x.txns = append(x.txns, txn(0, 1, Access{Kind: Append, Key: "p", Value: 1}), txn(2, 3, Access{Kind: Append, Key: "q", Value: 1}),
		txn(0, 9, Access{Kind: Read, Key: "p", List: []int64{}}, Access{Kind: Read, Key: "q", List: []int64{1}}))
	x.txns = append(x.txns, txn(1<<40, 1<<40, Access{Kind: Read, Key: "p", List: []int64{1}}))
	begun = time.Now()
	r = Appends(x.txns, ByTime)
	if c := r.Counts(); c != "G-single-realtime 1" {
		t.Fatal(c)
	}
	t.Logf("one causal reverse: %s\n%s", time.Since(begun), r.Anomalies[0])
}
