package truetime

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"meridian/clock"
)

// chosen is a source and its kind.
type chosen struct {
	kind Kind
	clock.Source
}

// either is the kernel's time, or for as long as that is not known the machine's clock within the configured bound (truetime.TT6).
type either struct{ now atomic.Pointer[chosen] }

// Read implements clock.Source.
func (e *either) Read() (int64, clock.Interval) { return e.now.Load().Read() }

// resolve decides what Auto is (truetime.TT6).
func (d *Daemon) resolve() {
	d.auto = true
	if len(d.o.Masters) > 0 {
		d.o.Kind, d.why = Masters, "time masters are named"
		return
	}
	_, truth, err := readKernel(d.o.Host.Clock)
	switch {
	case err != nil:
		d.o.Kind, d.why = System, err.Error()
	case truth.Epsilon() > d.o.tolerated():
		d.o.Kind, d.why = System, fmt.Sprintf("the kernel knows the time only within %s, and half of the maximum offset is %s", truth.Epsilon(), d.o.tolerated())
	default:
		d.o.Kind, d.why = Kernel, "the kernel's clock is synchronised"
	}
}

// say logs where the time comes from.
func (d *Daemon) say() {
	args := []any{"source", d.Kind(), "epsilon", d.Epsilon()}
	if d.auto {
		args = append(args, "chosen because", d.why)
	}
	d.o.Host.Log.Info("the source of time", args...)
}

// About says where the time comes from, and within which bound, for people.
func (d *Daemon) About() string {
	s := string(d.Kind())
	if d.o.Kind == Masters {
		s += ", " + strings.Join(d.o.Masters, ", ")
	}
	s += ", within " + d.Epsilon().Round(time.Microsecond).String()
	if d.auto {
		s += " (chosen because " + firstClause(d.why) + ")"
	}
	return s
}

// firstClause is a message without its advice.
func firstClause(s string) string {
	s, _, _ = strings.Cut(s, ";")
	return s
}

// doWithout goes on by the machine's clock within the configured bound, for as long as the kernel's bound is too large or contradicts what was kept, and
// returns when the kernel's time is used again; false: the node ends. A node that was told to use the kernel stops instead (truetime.TT2, truetime.TT4). The
// configured bound holds at these times as it does where the kernel never says anything; the other nodes check it.
func (d *Daemon) doWithout(ctx context.Context, why error) bool {
	d.either.now.Store(&chosen{System, clock.System{Clock: d.o.Host.Clock, Bound: d.o.Bound}})
	d.note(why, d.o.Bound)
	d.o.Host.Log.Warn("the kernel's time can't be used; the node goes on by the machine's clock, within the configured bound", "epsilon", d.o.Bound, "error", why)
	// The kernel's time is believed again when this many readings agree with the first of them: a clock that was stepped may be stepped again.
	const agree = 10
	candidate, n := clock.NewDisciplined(d.o.Host.Clock), 0
	for d.o.Host.Clock.Sleep(ctx, d.o.Every) == nil {
		at, truth, err := readKernel(d.o.Host.Clock)
		switch {
		case err != nil || truth.Epsilon() > d.o.tolerated()/2:
			n = 0
			continue
		case n > 0 && !candidate.At(at).Meets(truth):
			n = 0
		}
		if n++; n == 1 {
			candidate.Set(at, truth)
		}
		if n < agree {
			continue
		}
		d.kept.Set(at, truth)
		d.either.now.Store(&chosen{Kernel, d.kept})
		d.note(nil, truth.Epsilon())
		return true
	}
	return false
}
