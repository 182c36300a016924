package truetime_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/clock/truetime"
	"meridian/host/machine"
)

// evicted reports which masters have evicted themselves.
func (w *world) evicted() string {
	s := ""
	for _, m := range w.servers {
		s += map[bool]string{true: "x", false: "."}[m.Evicted() != nil]
	}
	return s
}

// TestMasterComparesItselfWithPeers: of three masters one is off from the beginning, so that only the others can tell; it answers as
// unsynchronised, and nodes do not count it (truetime.TT5).
func TestMasterComparesItselfWithPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3, 0)
		w.checks = 16 * time.Second
		w.masters[1].Clock.Jump(3 * ms)
		for i := range w.masters {
			w.serve(i, nil, append(append([]string{}, w.addrs[:i]...), w.addrs[i+1:]...)...)
		}
		d := w.start()
		if got := states(d); got != "agrees, lies, agrees" {
			t.Error(got)
		}
		time.Sleep(40 * time.Second)
		w.holds(d)
		if got := w.evicted(); got != ".x." {
			t.Error("evicted:", got)
		}
		if err := w.servers[1].Evicted(); err == nil || !strings.Contains(err.Error(), "a majority of the time masters") {
			t.Error(err)
		}
		if s := d.Stats(); states(d) != "agrees, evicted, agrees" || s.Evicted != 1 || s.Failed != 0 {
			t.Errorf("%s, %+v", states(d), s)
		}
	})
}

// TestTwoMastersDoNotEvictEachOther: neither knows which of the two is wrong.
func TestTwoMastersDoNotEvictEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, 0)
		w.checks = 16 * time.Second
		w.masters[1].Clock.Jump(time.Second)
		w.serve(0, nil, w.addrs[1])
		w.serve(1, nil, w.addrs[0])
		time.Sleep(time.Minute)
		if got := w.evicted(); got != ".." {
			t.Error("evicted:", got)
		}
	})
}

// rate is a reference that gains ppm of what its machine's monotonic clock shows.
type rate struct {
	begun time.Time
	ppm   float64
}

func (r rate) Read() (int64, clock.Interval) {
	passed := time.Since(r.begun)
	wall := r.begun.UnixNano() + int64(passed) + int64(float64(passed)*r.ppm/1e6)
	return wall, clock.Interval{Earliest: clock.Timestamp{Wall: wall - int64(bound)}, Latest: clock.Timestamp{Wall: wall + int64(bound)}}
}

// TestMasterMeasuresItsRate: a reference that drifts from the machine's monotonic clock by more than the bound evicts its master, soon if it drifts much, and
// after some minutes if it drifts little (truetime.TT5).
func TestMasterMeasuresItsRate(t *testing.T) {
	for _, c := range []struct {
		ppm    float64
		within time.Duration // 0: for ever
	}{{1000, 17 * time.Second}, {-1000, 17 * time.Second}, {205, time.Minute}, {-205, time.Minute}, {190, 0}, {-190, 0}, {0, 0}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1, 0)
			w.checks = 16 * time.Second
			w.serve(0, rate{time.Now(), c.ppm})
			if c.within > 0 {
				time.Sleep(c.within)
			} else {
				time.Sleep(time.Hour)
			}
			if err := w.servers[0].Evicted(); (err != nil) != (c.within > 0) {
				t.Errorf("%g ppm: %v", c.ppm, err)
			}
		})
	}
}

// TestMasterWhoseClockJumps: a reference that is set while the master runs.
func TestMasterWhoseClockJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 0)
		w.checks = 16 * time.Second
		w.serve(0, nil)
		time.Sleep(time.Minute)
		w.masters[0].Clock.Jump(5 * ms)
		time.Sleep(17 * time.Second)
		var e *truetime.EvictedError
		if err := w.servers[0].Evicted(); !errors.As(err, &e) || e.Peers {
			t.Error(err)
		}
	})
}

// TestDatagrams: a master and a node on a real machine, over UDP.
func TestDatagrams(t *testing.T) {
	h := machine.New(context.Background(), machine.Options{Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(h.Group.Stop)
	s, err := truetime.Serve(truetime.ServerOptions{Host: h, Listen: "127.0.0.1:0", Source: clock.System{Clock: h.Clock, Bound: ms}})
	if err != nil {
		t.Fatal(err)
	}
	d, err := truetime.Start(context.Background(), truetime.Options{Host: h, Kind: truetime.Masters, Masters: []string{s.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	wall, i := d.Source().Read()
	if now := time.Now(); i.After(clock.FromTime(now)) || i.Before(clock.FromTime(now)) || now.Sub(time.Unix(0, wall)).Abs() > time.Second || i.Epsilon() < ms {
		t.Errorf("%s is not in %s", now, i)
	}
	if m := d.List()[0]; m.State != truetime.Agrees || m.Distance < ms || m.Distance > ms+20*us || m.Delay <= 0 {
		t.Errorf("%+v", m)
	}
}

// TestStrangePackets: a master answers questions only, and outlives the rest.
func TestStrangePackets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 0).serveAll()
		ask := func(first byte) error {
			c, err := w.host.Network.Dial(context.Background(), w.addrs[0])
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			p := make([]byte, 48)
			p[0] = first
			c.Write(p)
			_, err = io.ReadFull(c, p)
			return err
		}
		for version := range byte(8) {
			for mode := range byte(8) {
				err := ask(version<<3 | mode)
				if (err == nil) != (mode == 3 && (version == 3 || version == 4)) {
					t.Errorf("version %d, mode %d: %v", version, mode, err)
				}
			}
		}
	})
}
