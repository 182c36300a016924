package fault

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"meridian/sim"
)

var all = []Kind{Crash, CrashSync, PowerOff, Isolate, Pause, Cut, CutOneWay, Slow, Reset, Skew, SlowDisk}

// world is a target that only records the state of nodes and links.
type world struct {
	state map[string]string
	start time.Time
	lines []string
	fail  bool
}

func (w *world) set(key, v string, broken bool) {
	if w.state == nil {
		w.state = map[string]string{}
	}
	if broken {
		w.state[key] = v
	} else {
		delete(w.state, key)
	}
	w.lines = append(w.lines, fmt.Sprint(time.Since(w.start), " ", key, " ", v))
}

var errFail = errors.New("fail")

func (w *world) Crash(n string, silent bool) error {
	if w.fail {
		return errFail
	}
	w.set("node "+n, "crashed", true)
	return nil
}
func (w *world) Restart(n string) error            { w.set("node "+n, "up", false); return nil }
func (w *world) Isolate(n string)                  { w.set("node "+n, "isolated", true) }
func (w *world) Rejoin(n string)                   { w.set("node "+n, "up", false) }
func (w *world) Cut(a, b string, oneWay bool)      { w.set("link "+min(a, b)+max(a, b), "cut", true) }
func (w *world) Heal(a, b string)                  { w.set("link "+min(a, b)+max(a, b), "open", false) }
func (w *world) Slow(a, b string, d time.Duration) { w.set("slow "+a+b, d.String(), d != 0) }
func (w *world) Reset(a, b string)                 {}
func (w *world) Skew(n string, d time.Duration)    { w.set("clock "+n, d.String(), d != 0) }
func (w *world) Pause(n string)                    { w.set("node "+n, "paused", true) }
func (w *world) Resume(n string)                   { w.set("node "+n, "up", false) }
func (w *world) CrashSync(n string, syncs int)     { w.set("node "+n, "doomed", true) }
func (w *world) Revive(n string) error             { w.set("node "+n, "up", false); return nil }
func (w *world) SlowDisk(n string, d time.Duration) {
	w.set("disk "+n, d.String(), d != 0)
}

// fault.F1 to fault.F3 for any seed, and a plan reads back as it was printed.
func TestGeneratedPlansKeepTheirPromises(t *testing.T) {
	kinds := map[Kind]bool{}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "nodes")
		o := Options{Duration: 60 * time.Second, Kinds: append([]Kind{Flap, Behind, Brownout}, all...), MaxSkew: 150 * time.Millisecond}
		for i := range n {
			o.Nodes = append(o.Nodes, fmt.Sprintf("n%d", i+1))
		}
		seed := rapid.Uint64().Draw(t, "seed")
		p := Generate(seed, o)
		if again := Generate(seed, o); !slices.Equal(p, again) {
			t.Fatal("one seed, two plans")
		}
		if back, err := Parse(p.String()); err != nil || !slices.Equal(back, p) {
			t.Fatalf("%v\n%s", err, p)
		}
		broken := map[string]bool{}
		for _, a := range p {
			kinds[a.Kind] = true
			key := string(a.Kind) + a.A + a.B
			switch a.Kind {
			case Crash, PowerOff, Isolate, Pause, CrashSync:
				if broken[a.A] {
					t.Fatalf("%s is down already\n%s", a.A, p)
				}
				broken[a.A] = true
				down := 0
				for _, n := range o.Nodes {
					if broken[n] {
						down++
					}
				}
				if down > (n-1)/2 {
					t.Fatalf("fault.F1: %d of %d nodes are down\n%s", down, n, p)
				}
			case Restart, Rejoin, Resume, Revive:
				delete(broken, a.A)
			case Cut, CutOneWay:
				broken[min(a.A, a.B)+max(a.A, a.B)] = true
			case Heal:
				delete(broken, min(a.A, a.B)+max(a.A, a.B))
			case Skew, Slow, SlowDisk:
				if a.Kind == Skew && a.Amount.Abs() > o.MaxSkew {
					t.Fatalf("fault.F2: %s", a)
				}
				if broken[key] = a.Amount != 0; !broken[key] {
					delete(broken, key)
				}
			}
		}
		if len(broken) != 0 {
			t.Fatalf("fault.F3: %v stay broken\n%s", broken, p)
		}
	})
	for _, k := range all {
		if !kinds[k] {
			t.Errorf("no plan had %s", k)
		}
	}
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan, err := Parse(`
# A node dies while its clock is off.
1s    skew n2 -180ms
1.5s  crash n2
2s    cut n1 n3
4s    restart n2
4s    skew n2 0s
5s    heal n1 n3
`)
		if err != nil {
			t.Fatal(err)
		}
		w := &world{start: time.Now()}
		seen := 0
		if err := Run(t.Context(), sim.NewClock(), plan, w, func(Action) { seen++ }); err != nil {
			t.Fatal(err)
		}
		want := []string{"1s clock n2 -180ms", "1.5s node n2 crashed", "2s link n1n3 cut", "4s node n2 up", "4s clock n2 0s", "5s link n1n3 open"}
		if !slices.Equal(w.lines, want) || len(w.state) != 0 || seen != 6 {
			t.Errorf("%q %v", w.lines, w.state)
		}
		w.fail = true
		if err := Run(t.Context(), sim.NewClock(), plan, w, nil); !errors.Is(err, errFail) {
			t.Error(err)
		}
	})
}

func TestParseRefuses(t *testing.T) {
	for _, bad := range []string{"1s crash", "x crash n1", "1s explode n1", "1s cut n1", "1s skew n1", "1s crash n1 n2", "1s skew n1 much", "2s crash n1\n1s restart n1"} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// A node that is behind gets all messages late for as long.
func TestBehind(t *testing.T) {
	p := Generate(1, Options{Nodes: []string{"n1", "n2", "n3"}, Duration: 20 * time.Second, Kinds: []Kind{Behind}, MaxSkew: 100 * time.Millisecond})
	begun := 0
	for _, a := range p {
		if a.Kind != Skew || a.Amount == 0 {
			continue
		}
		begun++
		late := map[string]bool{}
		for _, b := range p {
			if b.Kind == Slow && b.At == a.At && b.B == a.A && b.Amount == 200*time.Millisecond {
				late[b.A] = true
			}
		}
		if a.Amount > -50*time.Millisecond || a.Amount < -100*time.Millisecond || len(late) != 2 {
			t.Errorf("%s: %v", a, late)
		}
	}
	if begun == 0 {
		t.Error("nobody was behind")
	}
}

// The power fails while the disk is slow, and comes back soon, with a disk that is not.
func TestBrownout(t *testing.T) {
	failed := 0
	for seed := range uint64(20) {
		p := Generate(seed, Options{Nodes: []string{"n1", "n2", "n3"}, Duration: 30 * time.Second, Kinds: []Kind{Brownout, SlowDisk}})
		slow, since := map[string]time.Duration{}, map[string]time.Duration{}
		for _, a := range p {
			switch a.Kind {
			case SlowDisk:
				slow[a.A] = a.Amount
			case PowerOff:
				if failed++; slow[a.A] == 0 {
					t.Errorf("seed %d: %s, and the disk is not slow\n%s", seed, a, p)
				}
				since[a.A] = a.At
			case Restart:
				if a.At-since[a.A] > time.Second || slow[a.A] != 0 {
					t.Errorf("seed %d: %s, after %s, with syncs of %s\n%s", seed, a, a.At-since[a.A], slow[a.A], p)
				}
			}
		}
	}
	if failed == 0 {
		t.Error("no power has failed")
	}
}

// Clocks that are far off belong to nodes that count as down, and are right before these come back.
func TestFarSkew(t *testing.T) {
	far := 0
	for seed := range uint64(50) {
		o := Options{Nodes: []string{"n1", "n2", "n3"}, Duration: 60 * time.Second, Kinds: []Kind{SkewFar, Skew, Crash}, FarSkew: 600 * time.Millisecond}
		down, off := map[string]bool{}, map[string]time.Duration{}
		p := Generate(seed, o)
		for _, a := range p {
			switch a.Kind {
			case Crash:
				down[a.A] = true
			case Skew:
				if off[a.A] = a.Amount; a.Amount.Abs() > 200*time.Millisecond {
					far++
					down[a.A] = true
					if a.Amount.Abs() < o.FarSkew {
						t.Errorf("%s", a)
					}
				}
			case Restart, Revive:
				delete(down, a.A)
				if off[a.A].Abs() > 200*time.Millisecond {
					t.Errorf("seed %d: %s comes back with a wrong clock\n%s", seed, a.A, p)
				}
			}
			if len(down) > 1 {
				t.Fatalf("seed %d: fault.F1\n%s", seed, p)
			}
		}
	}
	if far == 0 {
		t.Error("no clock was far off")
	}
}
