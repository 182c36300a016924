package truetime_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/clock/truetime"
)

// claimed is the bound that a master sends: its own in units of 2^-16 s, rounded up.
const claimed = 7 * time.Second >> 16

// TestEpsilonIsASawtooth: right after a poll epsilon is half of the round trip, the masters' own uncertainty and the drift meanwhile; it grows by 200 µs in each
// second until the next poll.
func TestEpsilonIsASawtooth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 0).serveAll()
		d := w.start()
		base := near/2 + claimed + clock.Drifted(near)/2 + 2*time.Nanosecond
		const takes = 2 * near // a poll: the connection, and the question
		time.Sleep(takes + ms)
		for second := range 100 {
			since := time.Duration(second%30)*time.Second + ms
			if second < 30 {
				since += takes // the first one ended at the start
			}
			if got, want := d.Epsilon(), base+since/5000; !close(got, want) {
				t.Errorf("after %d s: epsilon is %s and not %s", second, got, want)
			}
			w.holds(d)
			time.Sleep(time.Second)
		}
		after, before := d.AfterPolls(), d.BeforePolls()
		if after.Count != 4 || before.Count != 3 || !close(after.Quantiles[0.5], base) || !close(after.Quantiles[0.999], base) || !close(before.Quantiles[0.99], base+6*ms) {
			t.Errorf("%+v, %+v", after, before)
		}
		w.fine()
	})
}

// TestOneLiarIsRejected: of three masters one is wrong, and nothing of it gets into the node's time.
func TestOneLiarIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, by := range []time.Duration{-time.Hour, -5 * ms, 5 * ms, time.Hour} {
			w := newWorld(t, 3, 0).serveAll()
			w.masters[1].Clock.Jump(by)
			d := w.start()
			if got := states(d); got != "agrees, lies, agrees" {
				t.Errorf("off by %s: %s", by, got)
			}
			time.Sleep(65 * time.Second)
			w.holds(d)
			w.fine()
			m := d.List()[1]
			if s := d.Stats(); s.Rejected != 3 || s.Failed != 0 || s.Polls != 3 || (m.Offset-by).Abs() > ms || m.Delay != near || m.Asked.IsZero() {
				t.Errorf("off by %s: %+v, %+v", by, s, m)
			}
			w.masters[1].Clock.SetOffset(0)
			time.Sleep(30 * time.Second)
			if got := states(d); got != "agrees, agrees, agrees" {
				t.Errorf("off by %s, and then right: %s", by, got)
			}
			w.host.Group.Stop()
		}
	})
}

// TestNoMajority: two masters against two are no time at all; epsilon grows until they agree (truetime.TT1).
func TestNoMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4, 0).serveAll()
		d := w.start()
		w.masters[0].Clock.Jump(20 * ms)
		w.masters[1].Clock.Jump(20 * ms)
		time.Sleep(100 * time.Second)
		w.holds(d)
		w.fine()
		if s := d.Stats(); s.Failed < 3 || s.Polls != 1 || d.Epsilon() < 20*ms || states(d) != "disputed, disputed, disputed, disputed" {
			t.Errorf("%+v, epsilon is %s, %s", s, d.Epsilon(), states(d))
		}
		w.masters[0].Clock.SetOffset(0)
		time.Sleep(10 * time.Second)
		if s := d.Stats(); s.Polls < 2 || d.Epsilon() > 3*ms || states(d) != "agrees, lies, agrees, agrees" {
			t.Errorf("%+v, epsilon is %s, %s", s, d.Epsilon(), states(d))
		}
	})
}

// TestOneOfThreeIsNotEnough: a single master that is left of three may be the liar (truetime.TT1).
func TestOneOfThreeIsNotEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 0).serveAll()
		d := w.start()
		w.net.Kill("m1")
		w.net.Kill("m2")
		w.masters[2].Clock.Jump(time.Minute)
		time.Sleep(5 * time.Minute)
		w.holds(d)
		w.fine()
		if got := states(d); got != "silent, silent, disputed" {
			t.Error(got)
		}
	})
}

// TestNearMastersFail: epsilon rises to the uncertainty that the way to those far away costs, and no further (Spanner §5.3).
func TestNearMastersFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 2).serveAll()
		d := w.start()
		for range 10 {
			time.Sleep(30 * time.Second)
		}
		if d.Epsilon() > 8*ms {
			t.Error("epsilon is", d.Epsilon())
		}
		near, farAway := 0, 0
		for _, m := range d.List() {
			if m.Near {
				near++
			} else if farAway++; !strings.HasPrefix(m.Addr, "m4") && !strings.HasPrefix(m.Addr, "m5") || m.Delay != far || time.Since(m.Asked) > 65*time.Second {
				t.Errorf("%+v", m) // those far away take turns
			}
		}
		if near != 3 || farAway != 2 {
			t.Error(near, "masters are near, and far away", farAway)
		}
		for _, m := range w.masters[:3] {
			w.net.Isolate(m.Name)
		}
		most := time.Duration(0)
		for range 600 {
			time.Sleep(time.Second)
			w.holds(d)
			most = max(most, d.Epsilon())
		}
		w.fine()
		if most < far/2 || most > far/2+8*ms {
			t.Error("epsilon rose to", most)
		}
		for _, m := range w.masters[:3] {
			w.net.Rejoin(m.Name)
		}
		time.Sleep(31 * time.Second)
		if d.Epsilon() > 8*ms {
			t.Error("epsilon is", d.Epsilon(), "when the near masters are back")
		}
	})
}

// TestFastClockIsDetected: a local clock that drifts by 1000 ppm contradicts the masters at the next poll (truetime.TT2).
func TestFastClockIsDetected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, ppm := range []float64{-1000, -500, 500, 1000} {
			w := newWorld(t, 3, 1).serveAll()
			w.start()
			w.node.Clock.SetDrift(ppm)
			var c *truetime.ContradictionError
			if err := w.stops(time.Minute); !errors.As(err, &c) || !strings.Contains(err.Error(), "drifts by more than 200 µs") {
				t.Errorf("%g ppm: %v", ppm, err)
			}
			w.host.Group.Stop()
		}
	})
}

// TestWallClockDoesNotMatter: the machine's wall clock jumps, and the node's time does not.
func TestWallClockDoesNotMatter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 0).serveAll()
		d := w.start()
		for _, by := range []time.Duration{time.Hour, -3 * time.Hour, time.Second} {
			w.node.Clock.Jump(by)
			for range 40 {
				w.holds(d)
				time.Sleep(time.Second)
			}
		}
		w.fine()
		if s := d.Stats(); s.Failed != 0 || s.Rejected != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestLeapSteps: a master that steps at a leap second lies by a second. If all do, the node does not follow; it stops.
func TestLeapSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 0).serveAll()
		d := w.start()
		w.masters[2].Clock.Jump(-time.Second)
		time.Sleep(70 * time.Second)
		w.holds(d)
		w.fine()
		if got := states(d); got != "agrees, agrees, lies" {
			t.Error(got)
		}
		w.masters[0].Clock.Jump(-time.Second)
		w.masters[1].Clock.Jump(-time.Second)
		var c *truetime.ContradictionError
		if err := w.stops(time.Minute); !errors.As(err, &c) || !strings.Contains(err.Error(), "behind") {
			t.Error(err)
		}
		w.holds(d)
	})
}

// TestMinorityOfAllMayBeAMajorityOfAFew: a poll of some masters that contradicts the node's time is repeated with all of them (truetime.TT2).
func TestMinorityOfAllMayBeAMajorityOfAFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 4).serveAll()
		d := w.start()
		for i := range 3 { // those that are asked each time
			w.masters[i].Clock.Jump(30 * ms)
		}
		time.Sleep(5 * time.Minute)
		w.holds(d)
		w.fine()
	})
}

// TestUnsureNodeStops: without masters a node goes on until its epsilon is half of the maximum offset (truetime.TT4).
func TestUnsureNodeStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for k := range time.Duration(10) { // the moment may come while masters are being asked
			w := newWorld(t, 3, 0).serveAll()
			o := w.options()
			o.MaxOffset = 50*ms + k*200*us
			d, err := truetime.Start(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			begun, left := time.Now(), (o.MaxOffset/2-d.Epsilon())*5000
			for _, m := range w.masters {
				w.net.Isolate(m.Name)
			}
			var unsure *truetime.UnsureError
			var masters *truetime.MastersError
			err = w.stops(10 * time.Minute)
			if !errors.As(err, &unsure) || !errors.As(err, &masters) || !strings.Contains(err.Error(), "m2:123 silent") {
				t.Error(err)
			}
			if took := time.Since(begun); took > left || took < left-5*ms || d.Epsilon() > o.MaxOffset/2 {
				t.Errorf("stopped after %s of %s, with %s", took, left, d.Epsilon())
			}
			w.host.Group.Stop()
		}
	})
}

// TestMastersThatDoNotAnswer: a node does not start without its time, and says which masters are missing and why.
func TestMastersThatDoNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, 0)
		w.serve(0, nil)
		w.addrs = append(w.addrs, "nowhere:123")
		begun := time.Now()
		var masters *truetime.MastersError
		_, err := truetime.Start(context.Background(), w.options())
		if !errors.As(err, &masters) || time.Since(begun) < 9*time.Second || time.Since(begun) > 12*time.Second {
			t.Fatal(err, time.Since(begun))
		}
		for _, want := range []string{"only 1 of 3", "m1:123 disputed", "m2:123 silent", "refused", "nowhere:123 silent", "no such host"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not in %q", want, err)
			}
		}
		// A master that comes while the node waits is in time.
		w.addrs = w.addrs[:2]
		w.net.Isolate("m1")
		go func() {
			time.Sleep(5 * time.Second)
			w.serve(1, nil)
		}()
		w.holds(w.start())
	})
}

// TestEpsilonTooLargeAtTheStart: masters so far away that epsilon exceeds half of the maximum offset are of no use.
func TestEpsilonTooLargeAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 0, 3).serveAll()
		o := w.options()
		o.MaxOffset = 50 * ms
		var unsure *truetime.UnsureError
		if _, err := truetime.Start(context.Background(), o); !errors.As(err, &unsure) {
			t.Error(err)
		}
	})
}

// TestTrueTimeIsAlwaysInTheInterval: random drifts within the bound that change now and then, delays that differ by direction, masters that fail, and as many
// liars as may be (clock.C5, truetime.TT1).
func TestTrueTimeIsAlwaysInTheInterval(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			dice := rand.New(rand.NewPCG(seed, 12))
			n := 3 + dice.IntN(5)
			w := newWorld(t, n-n/3, n/3).serveAll()
			slow := func(name string) {
				w.net.Slow("node", name, time.Duration(dice.Int64N(int64(20*ms))))
				w.net.Slow(name, "node", time.Duration(dice.Int64N(int64(20*ms))))
			}
			for _, m := range w.masters {
				m.Clock.Jump(time.Duration(dice.Int64N(int64(2*bound))) - bound)
				slow(m.Name)
			}
			dice.Shuffle(n, func(i, j int) { w.masters[i], w.masters[j] = w.masters[j], w.masters[i] })
			o := w.options()
			liars := w.masters[:1] // of four that are asked
			if dice.IntN(2) == 0 {
				o.Near, liars = n, w.masters[:(n-1)/2] // of all
			}
			for _, m := range liars {
				m.Clock.Jump(time.Duration(dice.Int64N(int64(200*ms))) - 100*ms)
			}
			d, err := truetime.Start(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			for range 60 {
				switch m := w.masters[dice.IntN(n)]; dice.IntN(4) {
				case 0:
					w.node.Clock.SetDrift(dice.Float64()*399 - 200 + 1)
				case 1:
					slow(m.Name)
				case 2:
					m := liars[dice.IntN(len(liars))]
					m.Clock.Jump(time.Duration(dice.Int64N(int64(20*ms))) - 10*ms)
				case 3:
					w.node.Clock.Jump(time.Duration(dice.Int64N(int64(time.Hour))) - 30*time.Minute)
				}
				for range 10 {
					time.Sleep(time.Duration(dice.Int64N(int64(2 * time.Second))))
					w.holds(d)
				}
			}
			w.fine()
			w.host.Group.Stop()
		})
	}
}
