package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"meridian/clock"
	"meridian/clock/truetime"
	"meridian/host/machine"
)

// timeFlags say where a node has its time from.
type timeFlags struct {
	source  string
	bound   time.Duration
	masters []string
	set     *pflag.FlagSet
}

func (f *timeFlags) add(fl *pflag.FlagSet) {
	f.set = fl
	fl.StringVar(&f.source, "clock-source", string(truetime.Auto),
		"where the node has its time from: auto (masters where --time-masters names some, kernel where that is synchronised, system otherwise), system (the machine's clock, within --clock-bound), kernel (the machine's clock, within the bound that its NTP or PTP daemon keeps), masters (--time-masters)")
	fl.DurationVar(&f.bound, "clock-bound", 0, "for --clock-source=system, and auto where that is system: bound on the error of the machine's clock (default: --max-offset)")
	fl.StringSliceVar(&f.masters, "time-masters", nil, "for --clock-source=masters and auto: addresses of NTP servers that smear leap seconds, or of 'meridian timemaster'; three at least")
}

// options are the flags' meaning; the maximum offset is that of `meridian start`.
func (f *timeFlags) options(maxOffset time.Duration) (truetime.Options, error) {
	o := truetime.Options{Kind: truetime.Kind(f.source), Bound: f.bound, Masters: f.masters, MaxOffset: maxOffset}
	if f.set.Changed("clock-bound") && f.bound <= 0 {
		return o, fmt.Errorf("--clock-bound has to be positive, and not %s: no clock is without an error", f.bound)
	}
	if f.set.Changed("max-offset") && maxOffset <= 0 {
		return o, fmt.Errorf("--max-offset has to be positive, and not %s", maxOffset)
	}
	checked := o
	if err := checked.Check(); err != nil {
		return o, fmt.Errorf("--clock-source, --clock-bound, --time-masters: %w", err)
	}
	return o, nil
}

// timemasterFlags are the flags of `meridian timemaster`.
type timemasterFlags struct {
	listen, source string
	bound          time.Duration
	peers          []string
	logLevel       string
}

// newTimemasterCmd is `meridian timemaster`.
func newTimemasterCmd() *cobra.Command {
	var f timemasterFlags
	cmd := &cobra.Command{
		Use:   "timemaster",
		Short: "Answer nodes' questions for the time, with a bound on its error",
		Long: `Answer questions for the time by NTP, with a bound on its error, on a machine that has a reference: a receiver or a PTP clock
that disciplines the machine's clock. A master compares its clock's rate with the machine's monotonic clock, and its time with that of its --peers; if
it can't be right, it answers as unsynchronised until it is started again.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runTimemaster(cmd.Context(), &f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.listen, "listen", ":123", "UDP address at which it answers")
	fl.StringVar(&f.source, "source", string(truetime.Kernel), "its reference: kernel (the machine's clock, within the kernel's bound), system (the machine's clock, within --bound)")
	fl.DurationVar(&f.bound, "bound", 0, "for --source=system: bound on the error of the machine's clock")
	fl.StringSliceVar(&f.peers, "peers", nil, "addresses of the other time masters")
	fl.StringVar(&f.logLevel, "log", "info", "least severe messages logged: debug, info, warn, error")
	return cmd
}

func (f *timemasterFlags) check() error {
	switch kind := truetime.Kind(f.source); {
	case kind != truetime.System && kind != truetime.Kernel:
		return fmt.Errorf("--source=%s: a time master's reference is system or kernel", f.source)
	case kind == truetime.System && f.bound <= 0:
		return errors.New("--source=system needs a positive --bound on the error of the machine's clock")
	case kind == truetime.Kernel && f.bound != 0:
		return errors.New("--bound is for --source=system; the kernel has its own bound")
	}
	peers := truetime.Options{Kind: truetime.Masters, Masters: f.peers}
	if len(f.peers) > 0 {
		if err := peers.Check(); err != nil {
			return fmt.Errorf("--peers: %w", err)
		}
	}
	return nil
}

func runTimemaster(ctx context.Context, f *timemasterFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return err
	}
	h := machine.New(ctx, machine.Options{Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))})
	defer h.Group.Stop()
	// A master's epsilon is in its answers, and nodes decide how much they tolerate; it is evicted when even a node with the largest offset would not use it.
	broken := make(chan error, 1)
	d, err := truetime.Start(ctx, truetime.Options{Host: h, Kind: truetime.Kind(f.source), Bound: f.bound, MaxOffset: clock.DefaultMaxOffset,
		OnBroken: func(err error) { broken <- err }})
	if err != nil {
		return err
	}
	s, err := truetime.Serve(truetime.ServerOptions{Host: h, Listen: f.listen, Source: d.Source(), Peers: f.peers})
	if err != nil {
		return err
	}
	fmt.Printf("meridian timemaster %s\n  reference: %s, within %s\n  answers:   %s (UDP)\n", version, f.source, d.Epsilon(), s.Addr())
	for {
		select {
		case err := <-broken:
			s.Evict(err)
		case <-ctx.Done():
			return nil
		}
	}
}
