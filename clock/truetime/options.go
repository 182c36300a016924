package truetime

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"meridian/clock"
	"meridian/host"
)

// Kind says where a node has its time from.
type Kind string

// The kinds of sources.
const (
	// Auto is Masters where some are named, Kernel where the kernel says that it is synchronised, and System otherwise (truetime.TT6).
	Auto Kind = "auto"
	// System is the machine's clock; a configured number bounds its error.
	System Kind = "system"
	// Kernel is the machine's clock; the kernel, which is synchronised by NTP or PTP, bounds its error.
	Kernel Kind = "kernel"
	// Masters are time masters.
	Masters Kind = "masters"
)

// Options of a Daemon; intervals have defaults.
type Options struct {
	Host *host.Host
	// Kind is the source; default System.
	Kind Kind
	// Bound on the error of the machine's clock, for System, and for Auto where that is System; zero: MaxOffset.
	Bound time.Duration
	// Masters are addresses, host:port, for Masters.
	Masters []string
	// MaxOffset is the bound on the difference between any two nodes' clocks. A node with another source than System stops when its
	// epsilon exceeds half of it.
	MaxOffset time.Duration
	// Every is the time between two polls; default 30 s for Masters (Spanner §3), 1 s for Kernel.
	Every time.Duration
	// Timeout bounds one question to a master; default 1 s.
	Timeout time.Duration
	// Patience is how long a start waits for the first poll that counts; default 10 s.
	Patience time.Duration
	// Near is how many of the nearest masters are asked in each poll; default 3. One of the others is asked in addition, in turn.
	Near int
	// OnBroken is called once if the node's time can't be trusted any more; the node should stop.
	OnBroken func(error)
}

// OptionError says that the options contradict each other.
type OptionError struct{ Message string }

func (e *OptionError) Error() string { return e.Message }

// Check completes the options, and refuses those that contradict each other.
func (o *Options) Check() error {
	wrong := func(format string, args ...any) error { return &OptionError{fmt.Sprintf(format, args...)} }
	if o.Kind == "" {
		o.Kind = System
	}
	if o.MaxOffset == 0 {
		o.MaxOffset = clock.DefaultMaxOffset
	}
	if o.MaxOffset < 0 {
		return wrong("the maximum offset between clocks has to be positive, and not %s", o.MaxOffset)
	}
	switch o.Kind {
	case Auto, System, Kernel, Masters:
	default:
		return wrong("%q is not a source of time; use auto, system, kernel or masters", o.Kind)
	}
	switch {
	case o.Bound < 0:
		return wrong("the bound on the clock's error has to be positive, and not %s", o.Bound)
	case o.Bound > 0 && (o.Kind == Kernel || o.Kind == Masters):
		return wrong("a bound on the clock's error is for the sources auto and system; the source %s has its own", o.Kind)
	case len(o.Masters) > 0 && o.Kind != Masters && o.Kind != Auto:
		return wrong("time masters are for the source masters, and the source is %s", o.Kind)
	case len(o.Masters) == 0 && o.Kind == Masters:
		return wrong("the source masters needs the addresses of time masters")
	}
	for i, m := range o.Masters {
		if h, _, err := net.SplitHostPort(m); err != nil || h == "" {
			return wrong("%q is not the address of a time master, such as time1.example.com:123", m)
		}
		if slices.Contains(o.Masters[:i], m) {
			return wrong("the time master %s is named twice, and would count twice", m)
		}
	}
	def := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	if o.Kind == Kernel || o.Kind == Auto && len(o.Masters) == 0 {
		def(&o.Every, time.Second)
	}
	def(&o.Every, 30*time.Second)
	def(&o.Timeout, time.Second)
	def(&o.Patience, 10*time.Second)
	def(&o.Bound, o.MaxOffset)
	if o.Near == 0 {
		o.Near = 3
	}
	return nil
}

// tolerated is the largest epsilon with which a node may go on (truetime.TT4).
func (o *Options) tolerated() time.Duration { return o.MaxOffset / 2 }

// UnsureError says that a node's epsilon would exceed what the cluster tolerates.
type UnsureError struct {
	Kind      Kind
	Epsilon   time.Duration
	Tolerated time.Duration
	Cause     error // of the last reading that failed; may be nil
}

func (e *UnsureError) Error() string {
	s := fmt.Sprintf("this node knows the time only within %s, and half of the maximum offset is %s", e.Epsilon.Round(time.Microsecond), e.Tolerated)
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s + "; see to its source of time (" + string(e.Kind) + "), and start the node again"
}

func (e *UnsureError) Unwrap() error { return e.Cause }

// ContradictionError says that a reading of the source does not meet the interval that the node has computed from earlier ones (truetime.TT2).
type ContradictionError struct {
	Kind             Kind
	Expected, Source clock.Interval
}

func (e *ContradictionError) Error() string {
	by := time.Duration(e.Source.Earliest.Wall - e.Expected.Latest.Wall)
	way := "ahead of"
	if e.Source.Latest.Less(e.Expected.Earliest) {
		by, way = time.Duration(e.Expected.Earliest.Wall-e.Source.Latest.Wall), "behind"
	}
	return fmt.Sprintf("the source of time (%s) is at least %s %s the time that this node has kept since the last reading; the node's clock drifts by more than 200 µs in a second, "+
		"the machine was suspended, or the source was wrong; check the machine and start the node again", e.Kind, by.Round(time.Microsecond), way)
}

// UnsynchronisedError says that the kernel's clock is not synchronised with anything.
type UnsynchronisedError struct{}

func (*UnsynchronisedError) Error() string {
	return "the kernel says that its clock is not synchronised; run chronyd or another NTP or PTP daemon that keeps the kernel informed (chronyc tracking shows it), or choose another source of time"
}

// NoKernelError says that this machine's kernel can't be asked.
type NoKernelError struct{ Err error }

func (e *NoKernelError) Error() string {
	s := "this machine's kernel does not say how wrong its clock may be"
	if e.Err != nil {
		s += " (" + e.Err.Error() + ")"
	}
	return s + "; use time masters, or the machine's clock with a bound of your own"
}

func (e *NoKernelError) Unwrap() error { return e.Err }

// MastersError says that a poll of the masters did not count (truetime.TT1).
type MastersError struct {
	Answered, Agreed, Of int
	Masters              []Master // those that were asked
}

func (e *MastersError) Error() string {
	var b strings.Builder
	switch {
	case e.Answered == 0:
		b.WriteString("no time master answers")
	case e.Agreed*2 > e.Answered:
		fmt.Fprintf(&b, "only %d of %d time masters says the time, and two at least have to agree", e.Agreed, e.Of)
	default:
		fmt.Fprintf(&b, "no majority of the %d time masters that answered agrees on the time", e.Answered)
	}
	for i, m := range e.Masters {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%s%s %s", sep, m.Addr, m.State)
		if m.Err != nil {
			fmt.Fprintf(&b, " (%s)", m.Err)
		}
	}
	return b.String()
}
