package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
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

// latencies prints what the clients of each region have seen lately.
func (d *demo) latencies(out io.Writer) error {
	l := &d.load
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel == nil {
		return fmt.Errorf("there is no load; \\demo load on begins it")
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "region\tsteps\terrors\tmedian\tp99\tslowest\t")
	for _, region := range d.flags.regions {
		var took []time.Duration
		var last error
		failed := 0
		for _, s := range l.seen[region] {
			if time.Since(s.at) > loadWindow {
				continue
			}
			if s.err != nil {
				failed, last = failed+1, s.err
				continue
			}
			took = append(took, s.took)
		}
		slices.Sort(took)
		at := func(q float64) string {
			if len(took) == 0 {
				return "-"
			}
			return fmt.Sprintf("%.1f ms", float64(took[int(q*float64(len(took)-1))].Microseconds())/1000)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\t\n", region, len(took), failed, at(0.5), at(0.99), at(1))
		if last != nil {
			defer fmt.Fprintf(out, "%s: %v\n", region, last)
		}
	}
	return w.Flush()
}
