package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"meridian/bench/plot"
	"meridian/clock"
	"meridian/clock/truetime"
	"meridian/sim"
)

// The world of figure 6: data centres with time masters, and daemons that poll them.
const (
	centres6 = 3
	masters6 = 4  // in each centre
	daemons6 = 12 // in each centre
	poll6    = 30 * time.Second
	// bound6 is the error that masters claim.
	bound6 = 50 * time.Microsecond
)

// epsilons are samples of epsilon right after polls, in bins of time.
type epsilons struct {
	bin  time.Duration
	bins [][]time.Duration
}

// quantile is that of one bin.
func (e *epsilons) quantile(i int, q float64) time.Duration {
	s := slices.Sorted(slices.Values(e.bins[i]))
	return s[min(int(q*float64(len(s))), len(s)-1)]
}

// over is the quantile of all samples between two times.
func (e *epsilons) over(from, to time.Duration, q float64) time.Duration {
	all := epsilons{bins: [][]time.Duration{slices.Concat(e.bins[from/e.bin : to/e.bin]...)}}
	return all.quantile(0, q)
}

func runFigure6(t *testing.T, c *config) *outcome {
	phase := 3 * time.Hour
	if c.quick {
		phase = time.Hour
	}
	e := &epsilons{bin: 10 * time.Minute}
	bubble(t, "epsilon", func(t *testing.T) { e.measure(t, c, phase) })
	if t.Failed() {
		return nil
	}
	return figure6Outcome(e, phase)
}

// measure runs three phases: a network with congestion, a better one, and that one with the loss of two masters for the first hour.
func (e *epsilons) measure(t *testing.T, c *config, phase time.Duration) {
	names := []string{"dc1", "dc2", "dc3"}
	regions, err := sim.NewRegions(names, 8, 16, 22)
	if err != nil {
		t.Fatal(err)
	}
	net := sim.NewNetwork(sim.NetworkOptions{Regions: regions, LocalRTT: 400 * time.Microsecond, Jitter: 100 * time.Microsecond, Seed: 1})
	dice := rand.New(rand.NewPCG(1, 6))
	var addrs []string
	for d := range centres6 {
		for m := range masters6 {
			name := fmt.Sprintf("m%d%d", d+1, m+1)
			machine := sim.NewMachine(sim.MachineOptions{Name: name, Region: names[d], Network: net})
			h := machine.Boot(context.Background())
			defer h.Group.Stop()
			addrs = append(addrs, name+":123")
			if _, err := truetime.Serve(truetime.ServerOptions{Host: h, Listen: name + ":123", Source: clock.System{Clock: machine.Clock, Bound: bound6}, Every: 24 * time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var daemons []*truetime.Daemon
	var machines []string
	for d := range centres6 {
		for n := range daemons6 {
			name := fmt.Sprintf("n%d.%d", d+1, n+1)
			machine := sim.NewMachine(sim.MachineOptions{Name: name, Region: names[d], Network: net})
			machine.Clock.SetDrift(float64(dice.IntN(200) - 100))
			h := machine.Boot(context.Background())
			defer h.Group.Stop()
			time.Sleep(poll6 / (centres6 * daemons6)) // polls are spread
			daemon, err := truetime.Start(context.Background(), truetime.Options{Host: h, Kind: truetime.Masters, Masters: addrs, Every: poll6,
				OnBroken: func(err error) { t.Errorf("%s stops: %v", name, err) }})
			if err != nil {
				t.Fatal(err)
			}
			daemons, machines = append(daemons, daemon), append(machines, name)
		}
	}
	began := time.Now()
	e.bins = make([][]time.Duration, 3*phase/e.bin)
	for at := time.Duration(0); at < 3*phase; at += poll6 {
		switch at {
		case 2 * phase:
			net.Isolate("m11")
			net.Isolate("m12")
		case 2*phase + time.Hour:
			net.Rejoin("m11")
			net.Rejoin("m12")
		}
		if at%(30*time.Minute) == 0 {
			c.say("figure 6: %v of %v", at, 3*phase)
		}
		congest(net, dice, machines, addrs, at < phase)
		// An epsilon is least right after the poll.
		least := make([]time.Duration, len(daemons))
		for time.Since(began) < at+poll6 {
			for i, d := range daemons {
				if x := d.Epsilon(); least[i] == 0 || x < least[i] {
					least[i] = x
				}
			}
			time.Sleep(250 * time.Millisecond)
		}
		e.bins[at/e.bin] = append(e.bins[at/e.bin], least...)
	}
}

// congest slows some machines' ways to all masters down for the next poll: many of them, or few.
func congest(net *sim.Network, dice *rand.Rand, machines, masters []string, many bool) {
	share, most := 0.002, 1.0
	if many {
		share, most = 0.02, 4.0
	}
	for _, m := range machines {
		extra := time.Duration(0)
		if dice.Float64() < share {
			extra = time.Duration(dice.ExpFloat64() * most * float64(time.Millisecond))
		}
		for _, to := range masters {
			net.Slow(m, strings.TrimSuffix(to, ":123"), extra)
		}
	}
}

func figure6Outcome(e *epsilons, phase time.Duration) *outcome {
	var b strings.Builder
	b.WriteString("| | paper | 90th percentile | 99th | 99.9th |\n|---|---|---:|---:|---:|\n")
	for _, p := range []struct {
		name, paper string
		from, to    time.Duration
	}{
		{"congestion on many ways", "until March 30", 0, phase},
		{"on few ways", "tails are shorter", phase, 2 * phase},
		{"two masters of one data centre are down", "April 13: higher for an hour", 2 * phase, 2*phase + time.Hour},
		{"they are back", "as before", 2*phase + time.Hour, 3 * phase},
	} {
		if p.from == p.to {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s", p.name, p.paper)
		for _, q := range []float64{0.9, 0.99, 0.999} {
			fmt.Fprintf(&b, " | %.2f ms", float64(e.over(p.from, p.to, q))/float64(time.Millisecond))
		}
		b.WriteString(" |\n")
	}
	panel := plot.Panel{Title: "epsilon right after polls", XLabel: "hours", YLabel: "milliseconds", XMax: (3 * phase).Hours()}
	for k, q := range []float64{0.9, 0.99, 0.999} {
		s := plot.Series{Name: fmt.Sprintf("%gth percentile", 100*q), Color: plot.Color(k)}
		for i := range e.bins {
			s.X, s.Y = append(s.X, (time.Duration(i+1)*e.bin).Hours()), append(s.Y, float64(e.quantile(i, q))/float64(time.Millisecond))
		}
		panel.Curves = append(panel.Curves, s)
	}
	panel.Marks = []plot.Mark{{X: phase.Hours(), Text: "less congestion"}, {X: (2 * phase).Hours(), Text: "two masters down"}}
	return &outcome{table: b.String(), svg: plot.Draw("The uncertainty of time (Spanner, figure 6)", 1, []plot.Panel{panel}, nil)}
}
