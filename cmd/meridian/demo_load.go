package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/workload"
	"meridian/workload/movr"
)

const (
	// loadClients are the clients of each region, each of which does a step in loadPause.
	loadClients = 4
	loadPause   = 100 * time.Millisecond
	// loadWindow is the time over which \demo latency looks back.
	loadWindow = 10 * time.Second
)

// demoLoad is the clients of the sample in each region.
type demoLoad struct {
	mu      sync.Mutex // guards the fields below; nothing is taken after it
	cancel  context.CancelFunc
	clients sync.WaitGroup
	seen    map[string][]loadStep // by region, of the last loadWindow
}

type loadStep struct {
	at   time.Time
	took time.Duration
	err  error
}

func (l *demoLoad) stop() {
	l.mu.Lock()
	cancel := l.cancel
	l.cancel = nil
	l.mu.Unlock()
	if cancel != nil {
		cancel()
		l.clients.Wait()
	}
}

// setLoad turns the load on or off, or tells what it is.
func (d *demo) setLoad(ctx context.Context, args []string, out io.Writer) error {
	l := &d.load
	l.mu.Lock()
	on := l.cancel != nil
	l.mu.Unlock()
	switch {
	case len(args) == 1 && args[0] == "off":
		l.stop()
		on = false
	case len(args) == 1 && args[0] == "on" && !on:
		ctx, cancel := context.WithCancel(ctx)
		l.mu.Lock()
		l.cancel, l.seen, on = cancel, map[string][]loadStep{}, true
		l.mu.Unlock()
		for _, region := range d.flags.regions {
			for range loadClients {
				l.clients.Go(func() { d.client(ctx, region) })
			}
		}
	case len(args) == 1 && args[0] == "on", len(args) == 0:
	default:
		return errUsage
	}
	if !on {
		fmt.Fprintln(out, "the load is off")
		return nil
	}
	fmt.Fprintf(out, "%d clients in each region do a step every %s; \\demo latency shows what they see\n", loadClients, loadPause)
	return nil
}

// client is one customer in a region, who goes to another node of it when one is gone.
func (d *demo) client(ctx context.Context, region string) {
	w := movr.New()
	w.Cities = movr.CitiesOf(region, d.flags.regions)
	dice := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	step, err := w.Worker(ctx, dice)
	if err != nil {
		return
	}
	nodes, _ := d.at(region)
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			conn.Close(context.WithoutCancel(ctx))
		}
	}()
	var began time.Time
	for ctx.Err() == nil {
		if err == nil || !workload.Retryable(err) {
			began = time.Now()
		}
		err = nil
		if conn == nil || conn.IsClosed() {
			conn, err = pgx.Connect(ctx, nodes[dice.IntN(len(nodes))].url)
		}
		if err == nil {
			_, err = step(ctx, conn)
		} else {
			conn = nil
		}
		if ctx.Err() != nil {
			return
		}
		if workload.Retryable(err) {
			continue // a customer would not see it: the step is done again
		}
		d.load.note(region, loadStep{time.Now(), time.Since(began), err})
		select {
		case <-ctx.Done():
		case <-time.After(loadPause):
		}
	}
}

func (l *demoLoad) note(region string, s loadStep) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := append(l.seen[region], s)
	old := 0
	for old < len(list) && s.at.Sub(list[old].at) > loadWindow {
		old++
	}
	l.seen[region] = list[old:]
}

// seenBy is what the clients of a region have seen in a window that ends now.
type seenBy struct {
	took   []time.Duration // of the steps that succeeded, sorted
	failed int
	last   error // of those that failed
}

// at is a quantile, in words.
func (s *seenBy) at(q float64) string {
	if len(s.took) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f ms", float64(s.took[int(q*float64(len(s.took)-1))].Microseconds())/1000)
}

// within is what the clients of a region have seen in the last part of the window; on is false if there are none.
func (l *demoLoad) within(region string, window time.Duration) (out seenBy, on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.seen[region] {
		switch {
		case time.Since(s.at) > window:
		case s.err != nil:
			out.failed, out.last = out.failed+1, s.err
		default:
			out.took = append(out.took, s.took)
		}
	}
	slices.Sort(out.took)
	return out, l.cancel != nil
}

var errNoLoad = errors.New("there is no load; \\demo load on begins it")

// latencies prints what the clients of each region have seen lately.
func (d *demo) latencies(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "region\tsteps\terrors\tmedian\tp99\tslowest\t")
	for _, region := range d.flags.regions {
		s, on := d.load.within(region, loadWindow)
		if !on {
			return errNoLoad
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\t\n", region, len(s.took), s.failed, s.at(0.5), s.at(0.99), s.at(1))
		if s.last != nil {
			defer fmt.Fprintf(out, "%s: %v\n", region, s.last)
		}
	}
	return w.Flush()
}

const (
	// defaultWatch and mostWatch are for how many seconds \demo watch prints a line.
	defaultWatch, mostWatch = 10, 3600
	watchWidth              = 30
)

// watch prints what the clients of each region see, a line for each second: the median and the p99 of a second's steps.
func (d *demo) watch(ctx context.Context, seconds int, out io.Writer) error {
	line := " "
	for _, region := range d.flags.regions {
		line += fmt.Sprintf("  %-*s", watchWidth, region)
	}
	fmt.Fprintln(out, strings.TrimRight(line, " "))
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range seconds {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		line = " "
		for _, region := range d.flags.regions {
			s, on := d.load.within(region, time.Second)
			if !on {
				return errNoLoad
			}
			cell := s.at(0.5) + ", p99 " + s.at(0.99)
			if len(s.took) == 0 {
				cell = "nothing"
			}
			if s.failed > 0 {
				cell += fmt.Sprintf(", %d errors", s.failed)
			}
			line += fmt.Sprintf("  %-*s", watchWidth, cell)
		}
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
	return nil
}
