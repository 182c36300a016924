package truetime_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock/truetime"
)

// TestAuto: the source is what the node has: masters that are named, a kernel that is synchronised well enough, and otherwise the configured bound; the log says
// which, and why (truetime.TT6).
func TestAuto(t *testing.T) {
	for _, c := range []struct {
		name    string
		masters bool
		says    time.Duration // the kernel's bound
		good    bool          // the kernel is synchronised
		err     error         // the kernel can't be asked
		want    truetime.Kind
		epsilon time.Duration
		why     string
	}{
		{"synchronised", false, 3 * ms, true, nil, truetime.Kernel, 3 * ms, "the kernel's clock is synchronised"},
		{"not synchronised", false, 3 * ms, false, nil, truetime.System, 40 * ms, "not synchronised"},
		{"too far off", false, 60 * ms, true, nil, truetime.System, 40 * ms, "knows the time only within 60ms"},
		{"no such call", false, 3 * ms, true, errors.New("function not implemented"), truetime.System, 40 * ms, "function not implemented"},
		{"masters are named", true, 3 * ms, true, nil, truetime.Masters, near + bound, "time masters are named"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 3, 0)
				k := &kernel{Clock: w.node.Clock, err: c.err}
				k.say(c.says, c.good)
				w.host.Clock = k
				var log bytes.Buffer
				w.host.Log = slog.New(slog.NewTextHandler(&log, nil))
				o := w.options()
				o.Kind, o.Masters, o.MaxOffset, o.Bound = truetime.Auto, nil, 100*ms, 40*ms
				if c.masters {
					w.serveAll()
					o.Masters = w.addrs
				}
				d, err := truetime.Start(context.Background(), o)
				if err != nil {
					t.Fatal(err)
				}
				if d.Kind() != c.want || d.Epsilon() > c.epsilon+ms || d.Epsilon() < c.epsilon/2 {
					t.Errorf("%s, within %s; want %s, %s", d.Kind(), d.Epsilon(), c.want, c.epsilon)
				}
				if said := log.String(); !strings.Contains(said, "source="+string(c.want)) || !strings.Contains(said, c.why) {
					t.Errorf("the log says %s", said)
				}
				if !strings.HasPrefix(d.About(), string(c.want)) {
					t.Error(d.About())
				}
				time.Sleep(3 * time.Second)
				w.holds(d)
				w.fine()
			})
		})
	}
}

// TestAutoWithoutItsKernel: where a node that was told to use the kernel would stop, one that has chosen it goes on within the configured bound, and comes back.
func TestAutoWithoutItsKernel(t *testing.T) {
	for _, c := range []struct {
		name  string
		lose  func(w *world, k *kernel)
		after time.Duration
	}{
		{"not synchronised any more", func(_ *world, k *kernel) { k.say(3*ms, false) }, 250 * time.Second},
		{"the clock is stepped", func(w *world, _ *kernel) { w.node.Clock.Jump(30 * ms) }, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, k, o := newKernel(t)
				o.Kind, o.MaxOffset, o.Bound = truetime.Auto, 100*ms, 40*ms
				d, err := truetime.Start(context.Background(), o)
				if err != nil {
					t.Fatal(err)
				}
				c.lose(w, k)
				time.Sleep(c.after)
				if c.after > time.Minute {
					if d.Kind() != truetime.System || d.Epsilon() != 40*ms {
						t.Errorf("%s, within %s", d.Kind(), d.Epsilon())
					}
				}
				w.holds(d)
				w.fine()
				w.node.Clock.SetOffset(0)
				k.say(2*ms, true)
				time.Sleep(15 * time.Second)
				if d.Kind() != truetime.Kernel || d.Epsilon() > 5*ms {
					t.Errorf("back: %s, within %s", d.Kind(), d.Epsilon())
				}
				w.holds(d)
				w.fine()
			})
		})
	}
}
