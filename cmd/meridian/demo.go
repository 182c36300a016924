package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/chzyer/readline"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"meridian/clock/truetime"
	"meridian/cluster"
	"meridian/host/machine"
	"meridian/server"
	"meridian/sim"
	"meridian/workload/movr"
)

// demoUntilDead is how long a node of the demo may be down before its replicas are made anew elsewhere: nobody watches for five minutes.
const demoUntilDead = 30 * time.Second

// demoClockBound is the error that the nodes of a demo claim of their clocks: they share the one of this process, so that only the moments at which they read it differ. A node whose
// clock is set off (\demo skew) by more finds that out, and stops.
const demoClockBound = time.Millisecond

// demoFlags are the flags of `meridian demo`.
type demoFlags struct {
	regions    []string
	perRegion  int
	rtt        []float64
	noLatency  bool
	statements []string
	duration   time.Duration
	store      string
	port       int
	http       string
	empty      bool
	verbose    bool
}

// newDemoCmd is `meridian demo`: a cluster of several regions in one process.
func newDemoCmd() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a cluster of three regions in this process, with sample data and a SQL shell",
		Long: `Run a cluster of several regions in this process: every node has its own store, clock and listener, and the
distances between the regions are simulated. The movr sample is loaded, and any PostgreSQL client can connect.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd.Context(), &f) },
	}
	fl := cmd.Flags()
	fl.StringSliceVar(&f.regions, "regions", []string{"us-east1", "us-west1", "europe-west1"}, "names of the regions")
	fl.IntVar(&f.perRegion, "nodes-per-region", 3, "nodes, and zones, in each region")
	fl.Float64SliceVar(&f.rtt, "rtt", nil, "round trips between the regions in ms: first with second, first with third, ..., second with third, ... (default: published ones)")
	fl.BoolVar(&f.noLatency, "no-latency", false, "no distance between the regions")
	fl.StringArrayVarP(&f.statements, "execute", "e", nil, "run the statement and exit; may be repeated")
	fl.DurationVar(&f.duration, "duration", 0, "stop after this time instead of opening a shell")
	fl.StringVar(&f.store, "store", "", "keep the data in this directory (default: in memory)")
	fl.IntVar(&f.port, "port", 26257, "SQL port of the first region's first node; the others follow")
	fl.StringVar(&f.http, "http", "127.0.0.1:8080", "address of the first node's console; empty: none")
	fl.BoolVar(&f.empty, "empty", false, "do not load the movr sample")
	fl.BoolVar(&f.verbose, "verbose", false, "show the nodes' logs")
	return cmd
}

// demoRegions chooses the distances: those given, the published ones of known regions, or a constant.
func demoRegions(f *demoFlags) (*sim.Regions, error) {
	n := len(f.regions)
	if n == 0 || f.perRegion < 1 {
		return nil, errors.New("a cluster needs at least one region of one node")
	}
	rtt := f.rtt
	if rtt == nil {
		known := sim.FiveRegions()
		for i := range f.regions {
			for _, b := range f.regions[i+1:] {
				d := known.RTT(f.regions[i], b)
				if d == 0 {
					d = 100 * time.Millisecond
				}
				rtt = append(rtt, float64(d)/float64(time.Millisecond))
			}
		}
	}
	r, err := sim.NewRegions(f.regions, rtt...)
	if err == nil && f.noLatency {
		r = r.WithoutLatency()
	}
	return r, err
}

// demo is a running demonstration.
type demo struct {
	flags   *demoFlags
	network *sim.Network
	nodes   []*demoNode
	load    demoLoad
}

func runDemo(ctx context.Context, f *demoFlags) error {
	if f.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.duration)
		defer cancel()
	}
	quiet := len(f.statements) > 0
	say := func(format string, args ...any) {
		if !quiet {
			fmt.Printf(format, args...)
		}
	}
	begin := time.Now()
	d := &demo{flags: f}
	defer d.stop()
	if err := d.start(ctx, say); err != nil {
		return err
	}
	say("%d nodes in %d regions, ready after %.1f s\n\n", len(d.nodes), len(f.regions), time.Since(begin).Seconds())
	for i, r := range f.regions {
		say("  %-16s %s\n", r, d.nodes[i*f.perRegion].url)
	}
	if f.http != "" {
		say("  %-16s http://%s/\n", "console", d.nodes[0].running().HTTPAddr())
	}
	say("\n\\demo help lists what can be done to nodes, links and clocks.\n\n")
	if len(f.statements) == 0 && (f.duration > 0 || !readline.IsTerminal(int(os.Stdin.Fd()))) {
		<-ctx.Done()
		return nil
	}
	return runShellWith(ctx, &shell{out: os.Stdout, demo: d}, d.nodes[0].url, f.statements, os.Stdin)
}

// start boots the nodes, begins the cluster on the first and loads the sample.
func (d *demo) start(ctx context.Context, say func(string, ...any)) error {
	f := d.flags
	regions, err := demoRegions(f)
	if err != nil {
		return err
	}
	d.network = sim.NewNetwork(sim.NetworkOptions{Regions: regions, LocalRTT: 500 * time.Microsecond})
	if f.noLatency {
		d.network = sim.NewNetwork(sim.NetworkOptions{})
	}
	log := slog.New(slog.DiscardHandler)
	if f.verbose {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	// Clients come over the machine's own network; only the nodes' links among themselves are simulated.
	outside := machine.New(context.WithoutCancel(ctx), machine.Options{Log: log})
	cache := server.NewCache(128 << 20)
	defer cache.Unref()
	names := make([]string, len(f.regions)*f.perRegion)
	for i := range names {
		names[i] = "n" + strconv.Itoa(i+1)
	}
	for i, name := range names {
		region, z := f.regions[i/f.perRegion], i%f.perRegion
		var fs vfs.FS = vfs.NewMem()
		dir := "store"
		if f.store != "" {
			fs, dir = vfs.Default, filepath.Join(f.store, name)
		}
		m := sim.NewMachine(sim.MachineOptions{Name: name, Region: region, Zone: region + "-" + string(rune('a'+z%26)), Network: d.network,
			Seed: uint64(time.Now().UnixNano()), Log: log.With("node", i+1), FS: fs})
		locality, err := cluster.ParseLocality("region=" + region + ",zone=" + m.Zone)
		if err != nil {
			return err
		}
		sql := "127.0.0.1:" + strconv.Itoa(f.port+i)
		n := &demoNode{name: name, machine: m, url: "postgresql://root@" + sql + "/movr?sslmode=disable", options: server.Options{
			ClientNetwork: outside.Network, Dir: dir, ListenAddr: name + ":1", AdvertiseAddr: name + ":1",
			SQLAddr: sql, AdvertiseSQLAddr: sql, Locality: locality, Insecure: true, Cache: cache, Small: true, Version: version,
			TimeUntilStoreDead: demoUntilDead, Time: truetime.Options{Kind: truetime.System, Bound: demoClockBound},
		}}
		if i == 0 {
			n.options.HTTPAddr = f.http
		}
		if i > 0 {
			n.options.Join = []string{names[0] + ":1"}
		}
		d.nodes = append(d.nodes, n)
		if _, err := n.restart(ctx); err != nil {
			return err
		}
		if node := n.running(); i == 0 && node.NodeID() == 0 {
			if _, err := node.Init(ctx); err != nil {
				return err
			}
		}
		// A node that is restarted finds the cluster by any of the others.
		n.options.Join = nil
		for _, other := range names {
			if other != name {
				n.options.Join = append(n.options.Join, other+":1")
			}
		}
	}
	for _, n := range d.nodes {
		if err := n.running().WaitReady(ctx); err != nil {
			return err
		}
	}
	return d.sample(ctx, say)
}

// sample makes the database movr, with its rows unless --empty.
func (d *demo) sample(ctx context.Context, say func(string, ...any)) error {
	admin := strings.Replace(d.nodes[0].url, "/movr", "/defaultdb", 1)
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, movr.CreateDatabase("movr", d.flags.regions))
	conn.Close(ctx)
	if err != nil || d.flags.empty {
		return err
	}
	conn, err = pgx.Connect(ctx, d.nodes[0].url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	say("loading the movr sample ...\n")
	return movr.LoadSample(ctx, conn, d.flags.regions...)
}

func (d *demo) stop() {
	d.load.stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		var all sync.WaitGroup
		for _, n := range d.nodes {
			all.Go(n.stop)
		}
		all.Wait()
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		fmt.Fprintln(os.Stderr, "some nodes did not stop in time")
	}
}
