package main

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"meridian/clock"
	"meridian/clock/truetime"
	"meridian/host/machine"
)

// run gives the error of a command line.
func run(ctx context.Context, args ...string) error {
	c := root()
	c.SetArgs(args)
	c.SetOut(&bytes.Buffer{})
	c.SetErr(&bytes.Buffer{})
	return c.ExecuteContext(ctx)
}

// TestSourcesOfTimeAreChecked: flags that name no usable source are refused, with the reason, before the store is opened.
func TestSourcesOfTimeAreChecked(t *testing.T) {
	closed, err := net.ListenPacket("udp", "127.0.0.1:0") // nobody answers here
	if err != nil {
		t.Fatal(err)
	}
	silent := closed.LocalAddr().String()
	closed.Close()
	for _, c := range []struct {
		args string
		want []string
	}{
		{"start --clock-source=gps", []string{`"gps" is not a source of time; use auto, system, kernel or masters`}},
		{"start --clock-bound=0s", []string{"--clock-bound has to be positive"}},
		{"start --clock-bound=-1ms", []string{"--clock-bound has to be positive"}},
		{"start --max-offset=-1ms", []string{"--max-offset has to be positive"}},
		{"start --max-offset=0s", []string{"--max-offset has to be positive"}},
		{"start --clock-source=kernel --clock-bound=1ms", []string{"the source kernel has its own"}},
		{"start --clock-source=masters", []string{"needs the addresses of time masters"}},
		{"start --clock-source=system --time-masters=a:123,b:123", []string{"time masters are for the source masters, and the source is system"}},
		{"start --time-masters=a:123,a:123", []string{"a:123 is named twice"}}, // auto
		{"start --clock-source=masters --time-masters=a:123,a:123", []string{"a:123 is named twice"}},
		{"start --clock-source=masters --time-masters=nohost", []string{`"nohost" is not the address of a time master`}},
		{"timemaster --source=masters", []string{"a time master's reference is system or kernel"}},
		{"timemaster --source=system", []string{"needs a positive --bound"}},
		{"timemaster --source=system --bound=-1ms", []string{"needs a positive --bound"}},
		{"timemaster --source=kernel --bound=1ms", []string{"--bound is for --source=system"}},
		{"timemaster --source=system --bound=1ms --peers=a", []string{`"a" is not the address`}},
		{"timemaster --source=system --bound=1ms --listen=256.0.0.1:1", []string{"cannot listen on 256.0.0.1:1"}},
	} {
		args := strings.Fields(c.args)
		if args[0] == "start" {
			args = append(args, "--insecure", "--store="+t.TempDir())
		}
		err := run(t.Context(), args...)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, without %q", c.args, err, want)
			}
		}
	}
	// Masters that do not answer are named. The node would wait for ten seconds; the options are those of the flags.
	f := newStartCmd()
	if err := f.ParseFlags([]string{"--clock-source=masters", "--time-masters=" + silent + ",no.such.host.invalid:123"}); err != nil {
		t.Fatal(err)
	}
	h := machine.New(t.Context(), machine.Options{Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(h.Group.Stop)
	masters, _ := f.Flags().GetStringSlice("time-masters")
	_, err = truetime.Start(t.Context(), truetime.Options{Host: h, Kind: truetime.Masters, Masters: masters, Patience: time.Millisecond, Timeout: 100 * time.Millisecond})
	for _, want := range []string{"no time master answers", silent + " silent", "no.such.host.invalid:123 silent"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, without %q", err, want)
		}
	}
}

// TestTimemaster: the command answers by UDP, and ends when it is interrupted.
func TestTimemaster(t *testing.T) {
	free, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.LocalAddr().String()
	free.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, "timemaster", "--source=system", "--bound=2ms", "--listen="+addr, "--log=error")
	}()
	h := machine.New(t.Context(), machine.Options{Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(h.Group.Stop)
	d, err := truetime.Start(t.Context(), truetime.Options{Host: h, Kind: truetime.Masters, Masters: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	if now := clock.FromTime(time.Now()); d.Epsilon() < 2*time.Millisecond || clock.NewFrom(d.Source(), h.Clock, time.Second).TrueTime().Before(now) {
		t.Error("epsilon is", d.Epsilon())
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
