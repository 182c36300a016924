package truetime

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"meridian/clock"
	"meridian/host"
)

// Daemon keeps a source of time up to date (Spanner §3, timeslave daemon).
type Daemon struct {
	o      Options
	auto   bool // Options.Kind was Auto
	source clock.Source
	kept   *clock.Disciplined // nil: the source is System
	either *either            // what source is, if Auto has chosen the kernel; otherwise nil
	why    string             // of Auto's choice

	mu      sync.Mutex // guards the fields below; nothing is taken after it
	masters []master
	stats   Stats
	after   samples
	before  samples
	failing error // of the last reading; nil: it was good
	broken  bool
	turn    int  // which of the far masters is asked next
	wary    bool // all masters are asked each time
}

// Stats count what has happened to a Daemon.
type Stats struct {
	// Polls are readings of the source that counted, Failed those that did not.
	Polls, Failed int64
	// Rejected counts answers of masters that lied, Evicted those of masters that did not trust themselves, Silent questions without an answer.
	Rejected, Evicted, Silent int64
}

// Start reads the source until that succeeds, at most as long as Options.Patience, and then keeps it up to date until the host's group ends.
func Start(ctx context.Context, o Options) (*Daemon, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	d := &Daemon{o: o}
	if o.Kind == Auto {
		d.resolve()
		o = d.o
	}
	if o.Kind == System {
		d.source = clock.System{Clock: o.Host.Clock, Bound: o.Bound}
		d.say()
		return d, nil
	}
	d.kept = clock.NewDisciplined(o.Host.Clock)
	d.source = d.kept
	if d.auto && o.Kind == Kernel {
		d.either = &either{}
		d.either.now.Store(&chosen{Kernel, d.kept})
		d.source = d.either
	}
	for _, m := range o.Masters {
		d.masters = append(d.masters, master{Master: Master{Addr: m, State: NotAsked}})
	}
	if err := d.begin(ctx); err != nil {
		return nil, err
	}
	o.Host.Group.Go(d.run)
	d.say()
	return d, nil
}

// begin makes the first reading.
func (d *Daemon) begin(ctx context.Context) error {
	const pause = 500 * time.Millisecond
	for until := d.o.Host.Clock.Monotonic() + d.o.Patience; ; {
		at, truth, err := d.read(ctx, true)
		if err == nil {
			d.take(at, truth)
			// A majority of all masters may be far away. From now on the nearest are known.
			if len(d.o.Masters) > d.o.Near+1 {
				var contradiction *ContradictionError
				if err := d.refresh(ctx); errors.As(err, &contradiction) || ctx.Err() != nil {
					return err
				}
			}
			if e := d.Epsilon(); e > d.o.tolerated() {
				return &UnsureError{Kind: d.o.Kind, Epsilon: e, Tolerated: d.o.tolerated()}
			}
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if d.o.Kind == Kernel || d.o.Host.Clock.Monotonic()+pause > until {
			return err
		}
		if err := d.o.Host.Clock.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// Source is what the node's clock reads.
func (d *Daemon) Source() clock.Source { return d.source }

// Kind is where the time comes from now; it is not Auto.
func (d *Daemon) Kind() Kind {
	if d.either != nil {
		return d.either.now.Load().kind
	}
	return d.o.Kind
}

// MaxOffset is the one of the options.
func (d *Daemon) MaxOffset() time.Duration { return d.o.MaxOffset }

// Epsilon is the present one.
func (d *Daemon) Epsilon() time.Duration {
	_, truth := d.source.Read()
	return truth.Epsilon()
}

// read asks the source once.
func (d *Daemon) read(ctx context.Context, all bool) (at time.Duration, truth clock.Interval, err error) {
	if d.o.Kind == Kernel {
		return readKernel(d.o.Host.Clock)
	}
	return d.poll(ctx, all)
}

// readKernel asks the kernel.
func readKernel(c host.Clock) (at time.Duration, truth clock.Interval, err error) {
	k, ok := c.(host.KernelClock)
	if !ok {
		return 0, truth, &NoKernelError{}
	}
	begun := c.Monotonic()
	now, err := k.KernelTime()
	at = c.Monotonic()
	switch {
	case err != nil:
		return at, truth, &NoKernelError{err}
	case !now.Synchronised:
		return at, truth, &UnsynchronisedError{}
	}
	wall := clock.FromTime(now.Wall)
	return at, clock.Interval{Earliest: wall.Add(-now.MaxError), Latest: wall.Add(now.MaxError + at - begun)}, nil
}

// soon is so short a time that it counts as passed: a sleep may end a little early if the clock's rate has changed.
const soon = time.Millisecond

// run reads the source now and then.
func (d *Daemon) run(ctx context.Context) {
	c := d.o.Host.Clock
	for due := c.Monotonic() + d.o.Every; ; {
		if c.Sleep(ctx, max(min(due-c.Monotonic(), d.left()-soon), soon)) != nil {
			return
		}
		begun := c.Monotonic()
		if begun < due-soon {
			if d.left() > 2*soon {
				continue
			}
			err := &UnsureError{Kind: d.o.Kind, Epsilon: d.Epsilon(), Tolerated: d.o.tolerated(), Cause: d.cause()}
			if d.either == nil {
				d.fail(err)
				return
			}
			if !d.doWithout(ctx, err) {
				return
			}
			due = c.Monotonic() + d.o.Every
			continue
		}
		peak := d.Epsilon()
		err := d.refresh(ctx)
		if ctx.Err() != nil {
			return
		}
		var contradiction *ContradictionError
		if errors.As(err, &contradiction) {
			if d.either == nil {
				d.fail(err)
				return
			}
			if !d.doWithout(ctx, err) {
				return
			}
			due = c.Monotonic() + d.o.Every
			continue
		}
		d.note(err, peak)
		due = begun + d.o.Every
		if err != nil {
			due = begun + max(d.o.Every/8, min(time.Second, d.o.Every))
		}
	}
}

// refresh reads the source once, and compares it with the present interval.
func (d *Daemon) refresh(ctx context.Context) error {
	d.mu.Lock()
	all := d.failing != nil || d.wary
	d.mu.Unlock()
	at, truth, err := d.read(ctx, all)
	if err != nil {
		return err
	}
	if d.kept.At(at).Meets(truth) {
		d.take(at, truth)
		return nil
	}
	if d.o.Kind == Masters && !all { // truetime.TT2: liars may have had a majority of the few that were asked
		d.o.Host.Log.Warn("the masters that were asked contradict the time that this node has kept; all are asked from now on")
		d.mu.Lock()
		d.wary = true
		d.mu.Unlock()
		if at, truth, err = d.read(ctx, true); err != nil {
			return err
		}
		if d.kept.At(at).Meets(truth) {
			d.take(at, truth)
			return nil
		}
	}
	return &ContradictionError{Kind: d.o.Kind, Expected: d.kept.At(at), Source: truth}
}

// take keeps the narrower one of a new reading and the present interval (truetime.TT3).
func (d *Daemon) take(at time.Duration, truth clock.Interval) {
	d.mu.Lock()
	first := d.stats.Polls == 0
	d.stats.Polls++
	d.mu.Unlock()
	if first || truth.Epsilon() < d.kept.At(at).Epsilon() {
		d.kept.Set(at, truth)
	}
	d.mu.Lock()
	d.after.add(d.kept.At(at).Epsilon())
	d.mu.Unlock()
}

// left is how long the node may go on without another reading (truetime.TT4).
func (d *Daemon) left() time.Duration {
	return (d.o.tolerated() - d.Epsilon()) * time.Duration(time.Second/clock.Drift)
}

func (d *Daemon) cause() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failing
}

// note counts a reading, and logs a change.
func (d *Daemon) note(err error, peak time.Duration) {
	d.mu.Lock()
	was := d.failing
	d.failing = err
	d.before.add(peak)
	if err != nil {
		d.stats.Failed++
	}
	d.mu.Unlock()
	switch {
	case err != nil && was == nil:
		d.o.Host.Log.Warn("the source of time can't be read; epsilon grows", "source", d.o.Kind, "epsilon", d.Epsilon(), "error", err)
	case err == nil && was != nil:
		d.o.Host.Log.Info("the source of time can be read again", "source", d.o.Kind, "epsilon", d.Epsilon())
	}
}

func (d *Daemon) fail(err error) {
	d.mu.Lock()
	d.broken = true
	d.mu.Unlock()
	d.o.Host.Log.Error("the source of time can't be trusted", "source", d.o.Kind, "error", err)
	if d.o.OnBroken != nil {
		d.o.OnBroken(err)
	}
}

// Stats returns the counters.
func (d *Daemon) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

// AfterPolls and BeforePolls are the distribution of epsilon right after polls (Spanner, figure 6) and right before them.
func (d *Daemon) AfterPolls() Distribution {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.after.distribution()
}

// BeforePolls is described at AfterPolls.
func (d *Daemon) BeforePolls() Distribution {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.before.distribution()
}

// samplesKept is the number of samples that a distribution is about: a day and a half of polls every 30 s.
const samplesKept = 4096

// samples are the latest readings of epsilon.
type samples struct {
	ring []time.Duration
	n    uint64
	sum  time.Duration
}

func (s *samples) add(d time.Duration) {
	if len(s.ring) < samplesKept {
		s.ring = append(s.ring, d)
	} else {
		s.ring[s.n%samplesKept] = d
	}
	s.n++
	s.sum += d
}

// Distribution has quantiles of the latest samples, and the number and the sum of all.
type Distribution struct {
	Count     uint64
	Sum       time.Duration
	Quantiles map[float64]time.Duration
}

func (s *samples) distribution() Distribution {
	out := Distribution{s.n, s.sum, map[float64]time.Duration{}}
	if len(s.ring) == 0 {
		return out
	}
	sorted := slices.Sorted(slices.Values(s.ring))
	for _, q := range []float64{0.5, 0.9, 0.99, 0.999} {
		out.Quantiles[q] = sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
	}
	return out
}
