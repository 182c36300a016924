package truetime_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/clock/truetime"
	"meridian/host"
	"meridian/host/machine"
	"meridian/sim"
)

// kernel is a simulated machine's clock with a kernel that says what a test wants.
type kernel struct {
	*sim.Clock
	says atomic.Pointer[host.KernelTime]
	err  error
}

func (k *kernel) KernelTime() (host.KernelTime, error) {
	t := *k.says.Load()
	t.Wall = k.Now()
	return t, k.err
}

func (k *kernel) say(bound time.Duration, synchronised bool) {
	k.says.Store(&host.KernelTime{MaxError: bound, Synchronised: synchronised})
}

// newKernel is a node with such a clock.
func newKernel(t testing.TB) (*world, *kernel, truetime.Options) {
	w := newWorld(t, 0, 0)
	k := &kernel{Clock: w.node.Clock}
	k.say(3*ms, true)
	w.host.Clock = k
	o := w.options()
	o.Kind = truetime.Kernel
	return w, k, o
}

// TestKernel: epsilon is the kernel's bound at the last reading and the drift since, and the kernel's new bound if that is smaller.
func TestKernel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, o := newKernel(t)
		d, err := truetime.Start(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Epsilon(); got != 3*ms {
			t.Error("epsilon is", got)
		}
		k.say(2*ms, true)
		time.Sleep(1500 * ms)
		if got := d.Epsilon(); !close(got, 2*ms+100*us) {
			t.Error("epsilon is", got)
		}
		k.say(20*ms, true)
		time.Sleep(10 * time.Second)
		if got := d.Epsilon(); !close(got, 2*ms+2100*us) {
			t.Error("epsilon is", got)
		}
		w.holds(d)
		w.fine()
	})
}

// TestKernelLosesItsSynchronisation: epsilon grows from the last good reading, and the node stops when it is half of the maximum offset.
func TestKernelLosesItsSynchronisation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, o := newKernel(t)
		o.MaxOffset = 20 * ms
		d, err := truetime.Start(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		k.say(16*time.Second, false)
		time.Sleep(20 * time.Second)
		if got := d.Epsilon(); !close(got, 7*ms) || d.Stats().Failed == 0 {
			t.Error("epsilon is", got, d.Stats())
		}
		k.say(3*ms, true)
		time.Sleep(2 * time.Second)
		if got := d.Epsilon(); got > 4*ms {
			t.Error("epsilon is", got, "when the kernel is synchronised again")
		}
		k.say(0, false)
		var unsure *truetime.UnsureError
		var not *truetime.UnsynchronisedError
		if err := w.stops(time.Minute); !errors.As(err, &unsure) || !errors.As(err, &not) || d.Epsilon() > 10*ms {
			t.Error(err, d.Epsilon())
		}
	})
}

// TestKernelThatSteps: a clock that is set by more than its bound was wrong before or is now.
func TestKernelThatSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, o := newKernel(t)
		if _, err := truetime.Start(context.Background(), o); err != nil {
			t.Fatal(err)
		}
		k.Jump(10 * ms)
		var c *truetime.ContradictionError
		if err := w.stops(2 * time.Second); !errors.As(err, &c) {
			t.Error(err)
		}
	})
}

// TestKernelRefusesToStart: a node is not started with a kernel that is not synchronised, has no bound, or has too large a one.
func TestKernelRefusesToStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, k, o := newKernel(t)
		k.say(0, false)
		var not *truetime.UnsynchronisedError
		if _, err := truetime.Start(context.Background(), o); !errors.As(err, &not) || !strings.Contains(err.Error(), "chronyd") {
			t.Error(err)
		}
		k.say(300*ms, true)
		var unsure *truetime.UnsureError
		if _, err := truetime.Start(context.Background(), o); !errors.As(err, &unsure) {
			t.Error(err)
		}
		k.err = errors.New("operation not permitted")
		var none *truetime.NoKernelError
		if _, err := truetime.Start(context.Background(), o); !errors.As(err, &none) || !strings.Contains(err.Error(), "not permitted") {
			t.Error(err)
		}
		o.Host.Clock = k.Clock // no kernel at all, as on another operating system
		if _, err := truetime.Start(context.Background(), o); !errors.As(err, &none) || !strings.Contains(err.Error(), "use time masters") {
			t.Error(err)
		}
	})
}

// TestRealKernel: the kernel of this machine, if it has adjtimex, shows the time of its clock.
func TestRealKernel(t *testing.T) {
	var c host.Clock = machine.NewClock(0)
	k, ok := c.(host.KernelClock)
	if !ok {
		t.Skip("this operating system has no adjtimex")
	}
	before := c.Now()
	now, err := k.KernelTime()
	if err != nil {
		t.Skip(err) // in a sandbox
	}
	if after := c.Now(); now.Wall.Before(before.Add(-time.Millisecond)) || now.Wall.After(after.Add(time.Millisecond)) || now.MaxError < 0 {
		t.Errorf("%+v, between %s and %s", now, before, after)
	}
	t.Logf("%+v", now)
}

// TestOptions: options that contradict each other are refused with their reason.
func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o    truetime.Options
		want string
	}{
		{truetime.Options{Kind: "gps"}, `"gps" is not a source`},
		{truetime.Options{Bound: -1}, "has to be positive"},
		{truetime.Options{MaxOffset: -1}, "has to be positive"},
		{truetime.Options{Kind: truetime.Kernel, Bound: ms}, "has its own"},
		{truetime.Options{Masters: []string{"a:1"}}, "the source is system"},
		{truetime.Options{Kind: truetime.Masters}, "needs the addresses"},
		{truetime.Options{Kind: truetime.Masters, Masters: []string{"a"}}, `"a" is not the address`},
		{truetime.Options{Kind: truetime.Masters, Masters: []string{"a:1", "b:1", "a:1"}}, "named twice"},
		{truetime.Options{}, ""},
		{truetime.Options{Bound: ms}, ""},
		{truetime.Options{Kind: truetime.Masters, Masters: []string{"a:1", "[::1]:123"}}, ""},
	} {
		err := c.o.Check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
}

// TestSystem: the machine's clock and a bound, as before there were other sources.
func TestSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 0, 0)
		d, err := truetime.Start(context.Background(), truetime.Options{Host: w.host, Bound: 4 * ms})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := d.Source().(clock.System); !ok || d.Epsilon() != 4*ms || len(d.List()) != 0 {
			t.Errorf("%T, epsilon is %s, %v", d.Source(), d.Epsilon(), d.List())
		}
		w.holds(d)
	})
}
