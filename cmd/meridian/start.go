package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"meridian/cluster"
	"meridian/host"
	"meridian/host/machine"
	"meridian/kv"
	"meridian/probe"
	"meridian/server"
)

// startFlags are the flags of `meridian start`.
type startFlags struct {
	store, listen, advertise, sql, advertiseSQL, http string
	join                                              []string
	locality, attributes, certs                       string
	insecure                                          bool
	maxOffset                                         time.Duration
	time                                              timeFlags
	cache, memory, statement, total                   string
	logLevel                                          string
	watch                                             func() watched
	drain                                             server.DrainOptions
}

// watched has the flags of a binary that is built for tests; empty in others (watchFlags).
type watched struct {
	probes      *probe.Set
	clockOffset time.Duration
}

// newStartCmd is `meridian start`: a node on this machine's disk.
func newStartCmd() *cobra.Command {
	var f startFlags
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Start a node",
		Long: `Start a node. The first nodes of a cluster are started with the same --join list, and one of them is told to
begin with 'meridian init'. A node that has been in a cluster goes on where it stopped.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runStart(cmd.Context(), &f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.store, "store", "", "directory of the node's data (required)")
	fl.StringVar(&f.listen, "listen", ":26257", "address for other nodes")
	fl.StringVar(&f.advertise, "advertise", "", "address under which other nodes reach this one, which may be a proxy's (default: --listen with this machine's name)")
	fl.StringVar(&f.sql, "sql", ":5432", "address for PostgreSQL clients")
	fl.StringVar(&f.advertiseSQL, "advertise-sql", "", "address that other nodes tell clients (default: --sql with this machine's name)")
	fl.StringVar(&f.http, "http", ":8080", "address for metrics, health and the console; empty: none")
	fl.StringSliceVar(&f.join, "join", nil, "addresses of nodes of the cluster")
	fl.StringVar(&f.locality, "locality", "", "where the node is, as region=R,zone=Z")
	fl.StringVar(&f.attributes, "attrs", "", "words that say what the node and its store are, as ssd:large; zone configurations may require or forbid them")
	fl.StringVar(&f.certs, "certs", defaultCerts, "directory of the certificates")
	fl.BoolVar(&f.insecure, "insecure", false, "no TLS and no passwords: every client that reaches the node may do anything")
	fl.DurationVar(&f.maxOffset, "max-offset", 500*time.Millisecond, "bound on the difference between any two nodes' clocks")
	f.time.add(fl)
	fl.StringVar(&f.cache, "cache", "", "block cache (default: a tenth of --max-memory, and at least 256MiB)")
	fl.StringVar(&f.total, "max-memory", "", "memory of this process (default: that of the machine, or the limit of its control group)")
	fl.StringVar(&f.memory, "max-sql-memory", sqlShare, "memory of all statements together, as a size or a percentage of --max-memory")
	fl.StringVar(&f.statement, "max-statement-memory", "", "memory of one statement (default: half of --max-sql-memory while no other needs it)")
	fl.DurationVar(&f.drain.Wait, "drain-wait", 10*time.Second, "when stopped: how long clients may take to end their transactions")
	fl.DurationVar(&f.drain.Unready, "drain-unready", 0, "when stopped: how long clients are still accepted while /health already fails, for load balancers")
	fl.StringVar(&f.logLevel, "log", "info", "least severe messages logged: debug, info, warn, error")
	f.watch = watchFlags(fl)
	cmd.MarkFlagRequired("store")
	return cmd
}

func runStart(ctx context.Context, f *startFlags) error {
	locality, err := cluster.ParseLocality(f.locality)
	if err != nil {
		return err
	}
	attributes, err := cluster.ParseAttributes(f.attributes)
	if err != nil {
		return err
	}
	source, err := f.time.options(f.maxOffset)
	if err != nil {
		return err
	}
	total, statement := availableMemory(), int64(0)
	if f.total != "" {
		if total, err = parseBytes(f.total); err != nil {
			return err
		}
	}
	cache := defaultCache(total)
	if f.cache != "" {
		if cache, err = parseBytes(f.cache); err != nil {
			return err
		}
	}
	if f.statement != "" {
		if statement, err = parseBytes(f.statement); err != nil {
			return err
		}
	}
	memory, err := divide(total, cache, f.memory)
	if err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	o := server.Options{
		Dir: f.store, ListenAddr: f.listen, AdvertiseAddr: f.advertise, SQLAddr: f.sql, AdvertiseSQLAddr: f.advertiseSQL,
		HTTPAddr: f.http, Join: f.join, Locality: locality, Attributes: attributes, Insecure: f.insecure, MaxOffset: f.maxOffset, Time: source,
		CacheBytes: cache, SQLBytes: memory.sql, StatementBytes: statement, Version: version,
	}
	forTests := f.watch()
	o.Probes = forTests.probes
	if !f.insecure {
		if o.PeerTLS, o.SQLTLS, err = nodeTLS(f.certs); err != nil {
			return err
		}
	}
	// The node's goroutines outlive the signal: draining needs them.
	o.Host = machine.New(context.WithoutCancel(ctx), machine.Options{ClockOffset: forTests.clockOffset, Log: log})
	useProcessors()
	memory.limitHeap()
	collectSeldom(o.Host)
	o.Slots, o.Load = slotsPerProc*runtime.GOMAXPROCS(0), measureLoad()
	return serve(ctx, o, f.drain)
}

// serve runs a node until the context ends or the node fails.
func serve(ctx context.Context, o server.Options, d server.DrainOptions) error {
	if err := fillAdvertised(&o); err != nil {
		return err
	}
	n, err := server.Start(ctx, o)
	if err != nil {
		return err
	}
	banner(o, n)
	select {
	case <-ctx.Done():
		fmt.Fprintln(os.Stderr, "draining; interrupt again to stop at once")
		again, stop := signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt, syscall.SIGTERM)
		if r := n.Drain(again, d); r.Cut > 0 || r.Leases > 0 {
			fmt.Fprintf(os.Stderr, "%d clients were cut off within their transactions; %d leases were left\n", r.Cut, r.Leases)
		}
		stop()
		n.Stop()
		return nil
	case err := <-n.Failed():
		// The disk may have failed: nothing more is written, not even by an orderly stop.
		return err
	}
}

// fillAdvertised completes addresses that name no host with this machine's name.
func fillAdvertised(o *server.Options) error {
	fill := func(advertised *string, listen string) error {
		if *advertised == "" {
			*advertised = listen
		}
		h, p, err := net.SplitHostPort(*advertised)
		if err != nil {
			return fmt.Errorf("address %q: %w", *advertised, err)
		}
		if h == "" || h == "0.0.0.0" || h == "::" {
			if h, err = os.Hostname(); err != nil {
				return err
			}
		}
		*advertised = net.JoinHostPort(h, p)
		return nil
	}
	if err := fill(&o.AdvertiseAddr, o.ListenAddr); err != nil {
		return err
	}
	return fill(&o.AdvertiseSQLAddr, o.SQLAddr)
}

func banner(o server.Options, n *server.Node) {
	mode := "TLS, SCRAM-SHA-256"
	if o.Insecure {
		mode = "INSECURE: no TLS, no passwords"
	}
	fmt.Printf("meridian %s\n  security:  %s\n  store:     %s\n  locality:  %s\n  nodes:     %s (advertised as %s)\n  time:      %s\n  sql:       %s\n",
		version, mode, o.Dir, o.Locality, n.Addr(), o.AdvertiseAddr, n.TimeSource(), n.URL("root", "defaultdb"))
	if o.HTTPAddr != "" {
		fmt.Printf("  console:   http://%s/\n", n.HTTPAddr())
	}
	if id := n.NodeID(); id != 0 {
		fmt.Printf("  node:      %d of cluster %s\n", id, n.ClusterName())
	} else if len(o.Join) == 0 {
		fmt.Printf("  waiting:   run `meridian init --host %s` to begin a cluster\n", o.AdvertiseAddr)
	} else {
		fmt.Printf("  waiting:   for a cluster at %s, or for `meridian init --host %s`\n", strings.Join(o.Join, ", "), o.AdvertiseAddr)
	}
}

// parseBytes reads sizes such as 256MiB, 1GB and plain numbers of bytes.
func parseBytes(s string) (int64, error) {
	units := []struct {
		suffix string
		factor float64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1}}
	for _, u := range units {
		if n, ok := strings.CutSuffix(s, u.suffix); ok {
			var v float64
			if _, err := fmt.Sscanf(strings.TrimSpace(n), "%g", &v); err == nil && v > 0 && v*u.factor < 1<<50 {
				return int64(v * u.factor), nil
			}
			break
		}
	}
	return 0, fmt.Errorf("%q is not a size such as 256MiB", s)
}

// adminFlags are the flags by which the administration commands reach a node.
type adminFlags struct {
	host, certs string
	insecure    bool
}

func (f *adminFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.host, "host", "localhost:26257", "address of a node (its --listen)")
	cmd.Flags().StringVar(&f.certs, "certs", defaultCerts, "directory of the certificates")
	cmd.Flags().BoolVar(&f.insecure, "insecure", false, "the cluster is insecure")
}

func (f *adminFlags) client(ctx context.Context) (*server.Admin, error) {
	h := machine.New(ctx, machine.Options{Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	return f.connect(h)
}

func (f *adminFlags) connect(h *host.Host) (*server.Admin, error) {
	if f.insecure {
		return server.NewAdmin(h, f.host, nil), nil
	}
	t, err := clientTLS(f.certs)
	if err != nil {
		return nil, err
	}
	return server.NewAdmin(h, f.host, t), nil
}

// newInitCmd is `meridian init`.
func newInitCmd() *cobra.Command {
	var f adminFlags
	cmd := &cobra.Command{
		Use: "init", Short: "Begin a cluster on a node that waits for it", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := f.client(cmd.Context())
			if err != nil {
				return err
			}
			defer a.Close()
			name, err := a.Init(cmd.Context())
			if err != nil {
				return err
			}
			fmt.Println("cluster", name, "begun")
			return nil
		},
	}
	f.add(cmd)
	return cmd
}

// newNodeCmd is `meridian node`.
func newNodeCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "node", Short: "Show nodes, and take them out of service"}
	var f adminFlags
	status := &cobra.Command{
		Use: "status", Short: "List the nodes", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := f.client(cmd.Context())
			if err != nil {
				return err
			}
			defer a.Close()
			names, rows, err := a.Nodes(cmd.Context())
			if err != nil {
				return err
			}
			printTable(os.Stdout, names, make([]bool, len(names)), rows)
			return nil
		},
	}
	f.add(status)
	var g adminFlags
	force := false
	decommission := &cobra.Command{
		Use: "decommission NODE", Short: "Move everything off a node, and wait for it",
		Long: `Move everything off a node, and wait until it has nothing left. It then stops by itself, and its store is of no more
use. NODE is the id that 'meridian node status' shows; the node may be down. The command may be interrupted and given
again: the cluster goes on by itself.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := parseNode(args[0])
			if err != nil {
				return err
			}
			a, err := g.client(cmd.Context())
			if err != nil {
				return err
			}
			defer a.Close()
			last, same := server.Decommissioning{Left: -1}, 0
			err = a.Decommission(cmd.Context(), node, force, func(d server.Decommissioning) {
				if same++; d != last || same%30 == 0 {
					fmt.Printf("%d replicas left\n", d.Left)
					if d.Waiting != "" {
						fmt.Println(d.Waiting)
					}
				}
				if d != last {
					last, same = d, 0
				}
			})
			if err == nil {
				fmt.Printf("node %d is decommissioned\n", node)
			}
			return err
		},
	}
	g.add(decommission)
	decommission.Flags().BoolVar(&force, "force", false, "begin even if too few nodes remain for all voters of each range, and wait for another node")
	var h adminFlags
	recommission := &cobra.Command{
		Use: "recommission NODE", Short: "Cancel a decommissioning that is not complete", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := parseNode(args[0])
			if err != nil {
				return err
			}
			a, err := h.client(cmd.Context())
			if err != nil {
				return err
			}
			defer a.Close()
			return a.Recommission(cmd.Context(), node)
		},
	}
	h.add(recommission)
	var i adminFlags
	var wait server.DrainOptions
	drain := &cobra.Command{
		Use: "drain [NODE]", Short: "Take a node out of service, so that it can be stopped without interrupting clients",
		Long: `Take a node out of service: its health check fails, it accepts no more clients, its clients are told to go (57P01)
between their transactions, and its leases move to other nodes. Without NODE it is the node at --host. The node goes on
as a replica until it is stopped; a restart puts it in service again. Stopping a node by SIGTERM does the same first.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var node kv.NodeID
			if len(args) > 0 {
				var err error
				if node, err = parseNode(args[0]); err != nil {
					return err
				}
			}
			a, err := i.client(cmd.Context())
			if err != nil {
				return err
			}
			defer a.Close()
			var last server.Drained
			first := true
			return a.Drain(cmd.Context(), node, wait, func(d server.Drained) {
				if d.Done {
					fmt.Printf("drained; %d clients were cut off within their transactions, %d leases are left\n", d.Cut, d.Leases)
				} else if first || d != last {
					fmt.Printf("%d clients, %d leases left\n", d.Sessions, d.Leases)
				}
				first, last = false, d
			})
		},
	}
	i.add(drain)
	drain.Flags().DurationVar(&wait.Wait, "drain-wait", 10*time.Second, "how long clients may take to end their transactions")
	drain.Flags().DurationVar(&wait.Unready, "drain-unready", 0, "how long clients are still accepted while /health already fails, for load balancers")
	cmd.AddCommand(status, drain, decommission, recommission)
	return cmd
}

func parseNode(s string) (kv.NodeID, error) {
	id, err := strconv.ParseUint(s, 10, 31)
	if err != nil || id == 0 {
		return 0, fmt.Errorf("%q is not a node's id", s)
	}
	return kv.NodeID(id), nil
}

// newUserCmd is `meridian user`, by which a secure cluster gets its first password.
func newUserCmd() *cobra.Command {
	var f adminFlags
	cmd := &cobra.Command{
		Use: "user NAME", Short: "Create a user, or set its password, which is read from standard input", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			password, err := readPassword()
			if err != nil {
				return err
			}
			a, err := f.client(cmd.Context())
			if err != nil {
				return err
			}
			defer a.Close()
			return a.SetPassword(cmd.Context(), args[0], password)
		},
	}
	f.add(cmd)
	return cmd
}

func readPassword() (string, error) {
	fmt.Fprint(os.Stderr, "password: ")
	var p string
	if _, err := fmt.Scanln(&p); err != nil {
		return "", fmt.Errorf("no password: %w", err)
	}
	return p, nil
}
