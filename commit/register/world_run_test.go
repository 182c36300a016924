package register

import (
	"fmt"
	"strings"
	"testing"

	"meridian/history"
)

// play runs one world, then lets everything come to an end, reads all, and judges.
func play(seed uint64, steps int, wrong mistakes) (*world, error) {
	w := newWorld(seed, wrong)
	for range steps {
		w.step()
		if w.broken != nil {
			return w, w.broken
		}
	}
	w.calm = true
	// Operations in progress may end, or not: with a transaction that is abandoned nothing goes on by itself.
	reads := 0
	for range registers {
		for k := range registers {
			o := w.hist.Begin(history.Op{Client: 9, Key: k, Kind: history.Read})
			done := false
			w.run(Read(key(k)), func(r Result) { done = true; w.hist.OK(o, number(r.Version.Value), false) })
			for n := 0; !done; n++ {
				if n > 50_000 {
					return w, fmt.Errorf("register %d can't be read", k)
				}
				w.step()
				if w.broken != nil {
					return w, w.broken
				}
			}
			reads++
		}
	}
	return w, w.judge()
}

// judge looks for an order of each register's operations. A transaction of which one write was read has committed, so its other
// writes took effect as well (I2).
func (w *world) judge() error {
	read := map[int64]int64{} // value: when it was first seen to be read
	for _, o := range w.hist.Ops() {
		if o.Kind == history.Read && o.Outcome == history.OK {
			if at, ok := read[o.Result]; !ok || o.Return < at {
				read[o.Result] = o.Return
			}
		}
	}
	for _, id := range w.order {
		t := w.txns[id]
		at, seen := read[t.value]
		for _, o := range t.ops {
			if seen && o.Outcome == history.Unknown {
				o.Outcome, o.Return = history.OK, at
			}
		}
	}
	return w.hist.CheckDistinct()
}

// TestRegister: reads, writes and transactions on a few registers, while messages are lost, come twice and late, replicas and gateways
// die, and the range changes its replicas again and again.
func TestRegister(t *testing.T) {
	seen := map[string]int{}
	ok, failed, unknown := 0, 0, 0
	seeds := uint64(400)
	if testing.Short() {
		seeds = 50
	}
	for i := range seeds + 1 {
		seed := i
		if i == seeds {
			seed = 4882 // a ballot is sent again in the next generation (register.RG3)
		}
		w, err := play(seed, 4000, mistakes{})
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(w.trace, "\n"))
		}
		for k, n := range w.seen {
			seen[k] += n
		}
		seen["a change of the range"] += w.opened().generation - 1
		a, b, c := w.hist.Count()
		ok, failed, unknown = ok+a, failed+b, unknown+c
	}
	t.Logf("%d operations succeeded, %d failed, of %d nobody knows; %v", ok, failed, unknown, seen)
	for _, what := range []string{"a change of the range", "a fold with provisional writes", "a joint configuration",
		"a pending write passed by", "a committed write read before it was settled", "a recovery", "a recovery that commits",
		"a write prevented", "a write too old", "a ballot overtaken", "a commit"} {
		if seen[what] < 5 && !testing.Short() { // fifty seeds do not reach all of it
			t.Errorf("%s: %d times in all", what, seen[what])
		}
	}
}

// TestMistakesAreNoticed: each of the rules, broken.
func TestMistakesAreNoticed(t *testing.T) {
	for name, wrong := range map[string]mistakes{
		"the reports of a minority are enough":      {minority: true},
		"a sealed replica goes on":                  {actSealed: true},
		"the fold drops provisional writes":         {foldDrops: true},
		"the fold drops preventions":                {foldForgives: true},
		"half of a joint configuration counts":      {jointHalf: true},
		"replies leave before they are durable":     {ackEarly: true},
		"a restart forgets the delta":               {deltaLost: true},
		"requests of another generation are served": {anyGeneration: true},
		"a read does not store what it found":       {noWriteBack: true},
	} {
		t.Run(name, func(t *testing.T) {
			first := uint64(0)
			if wrong.anyGeneration {
				first = 6390 // it is rare that an operation's answers are of two generations and nobody else mends that
			}
			for seed := first; seed < first+3000; seed++ {
				if _, err := play(seed, 4000, wrong); err != nil {
					t.Logf("seed %d: %.300s", seed, err)
					return
				}
			}
			t.Error("nobody noticed")
		})
	}
}
