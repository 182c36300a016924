package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"meridian/workload"
	"meridian/workload/anomalies"
	"meridian/workload/bank"
	"meridian/workload/kv"
	"meridian/workload/movr"
	"meridian/workload/tpcc"
	"meridian/workload/ycsb"
)

// workloadKind is a workload with its own flags.
type workloadKind struct {
	workload workload.Workload
	flags    func(*pflag.FlagSet)
}

// workloadKinds makes fresh workloads: their flags write into them.
func workloadKinds() []workloadKind {
	b, k, y, m, c, a := bank.New(), kv.New(), ycsb.New(), movr.New(), tpcc.New(), anomalies.New()
	a.Out = os.Stdout
	return []workloadKind{
		{b, func(f *pflag.FlagSet) { f.IntVar(&b.Accounts, "accounts", b.Accounts, "number of accounts") }},
		{k, func(f *pflag.FlagSet) {
			f.Int64Var(&k.Keys, "keys", k.Keys, "number of keys")
			f.IntVar(&k.ReadPercent, "read-percent", k.ReadPercent, "share of reads")
			f.IntVar(&k.ValueBytes, "value-bytes", k.ValueBytes, "size of a value")
		}},
		{y, func(f *pflag.FlagSet) {
			f.StringVar(&y.Mix, "mix", y.Mix, "which of YCSB's mixes: A to F")
			f.Int64Var(&y.Records, "records", y.Records, "number of records")
		}},
		{m, func(f *pflag.FlagSet) {
			f.IntVar(&m.Rows.Users, "users", m.Rows.Users, "number of users at first")
			f.IntVar(&m.Rows.Vehicles, "vehicles", m.Rows.Vehicles, "number of vehicles")
			f.IntVar(&m.Rows.Rides, "rides", m.Rows.Rides, "number of rides at first")
		}},
		{c, func(f *pflag.FlagSet) {
			f.IntVarP(&c.Warehouses, "warehouses", "w", c.Warehouses, "number of warehouses")
			f.IntVar(&c.ScaleDown, "scale-down", c.ScaleDown, "divide customers, orders and items by this; the figures are then not comparable with TPC-C's")
			f.BoolVar(&c.Wait, "wait", c.Wait, "terminals key and think; without, they draw a warehouse for each transaction")
			f.StringSliceVar(&c.Regions, "regions", nil, "regions of the database, each home of consecutive warehouses; URLs are then gateways of these regions in turn")
			f.BoolVar(&c.NoForeignKeys, "no-foreign-keys", c.NoForeignKeys, "leave the foreign keys out")
			f.BoolVar(&c.Quick, "quick-check", c.Quick, "check only the four conditions that the specification requires at least")
			f.IntVar(&c.Loaders, "loaders", c.Loaders, "connections that load rows")
		}},
		{a, func(f *pflag.FlagSet) {
			f.StringVar(&a.Level, "level", a.Level, "isolation level to request, and to check")
			f.BoolVar(&a.Strict, "strict", a.Strict, "check the order of time too")
			f.StringVar(&a.Only, "only", a.Only, "parts to run, with commas between (default: all)")
			f.DurationVar(&a.Think, "think", a.Think, "longest pause between two statements")
		}},
	}
}

// newWorkloadCmd is `meridian workload`: load on any server that speaks PostgreSQL.
func newWorkloadCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "workload",
		Short: "Run a workload against a database and measure it",
		Long: `Put load on a database and measure it. Any PostgreSQL URL will do; with several, workers are dealt to them in turn
and move on when one does not answer.`,
	}
	initCmd := &cobra.Command{Use: "init", Short: "Create a workload's tables, replacing existing ones"}
	runCmd := &cobra.Command{Use: "run", Short: "Run a workload, and check its invariants"}
	for _, k := range workloadKinds() {
		var seed uint64
		c := &cobra.Command{
			Use: k.workload.Name() + " URL...", Short: k.workload.About(), Args: cobra.MinimumNArgs(1),
			RunE: func(cmd *cobra.Command, urls []string) error { return initWorkload(cmd.Context(), k.workload, urls) },
		}
		k.flags(c.Flags())
		switch w := k.workload.(type) {
		case *movr.MovR:
			c.Flags().Uint64Var(&w.Seed, "seed", w.Seed, "seed of the rows")
		case *tpcc.TPCC:
			c.Flags().Uint64Var(&w.Seed, "seed", w.Seed, "seed of the rows")
		default:
			c.Flags().Uint64Var(&seed, "seed", 1, "")
			c.Flags().MarkHidden("seed")
		}
		initCmd.AddCommand(c)
	}
	checkCmd := &cobra.Command{Use: "check", Short: "Check a workload's invariants once"}
	for _, k := range workloadKinds() {
		c := &cobra.Command{
			Use: k.workload.Name() + " URL", Short: k.workload.About(), Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, urls []string) error {
				return checkWorkload(cmd.Context(), k.workload, urls[0])
			},
		}
		k.flags(c.Flags())
		checkCmd.AddCommand(c)
	}
	for _, k := range workloadKinds() {
		o := workload.Options{Out: os.Stdout}
		var first bool
		c := &cobra.Command{
			Use: k.workload.Name() + " URL...", Short: k.workload.About(), Args: cobra.MinimumNArgs(1),
			RunE: func(cmd *cobra.Command, urls []string) error {
				o.URLs = urls
				if t, ok := k.workload.(*tpcc.TPCC); ok {
					if err := terminals(t, &o, cmd.Flags().Changed("concurrency")); err != nil {
						return err
					}
				}
				if first {
					if err := initWorkload(cmd.Context(), k.workload, urls); err != nil {
						return err
					}
				}
				_, err := workload.Run(cmd.Context(), k.workload, o)
				return err
			},
		}
		fl := c.Flags()
		fl.IntVarP(&o.Concurrency, "concurrency", "c", 8, "number of workers, each with a connection")
		fl.DurationVarP(&o.Duration, "duration", "d", 0, "how long to run (default: until interrupted)")
		fl.DurationVar(&o.Ramp, "ramp", 0, "do not count the operations of this time at the beginning")
		fl.DurationVar(&o.CheckLimit, "check-limit", time.Minute, "how long the check at the end may take")
		fl.Float64Var(&o.Rate, "rate", 0, "operations per second of all workers together (default: as fast as possible)")
		fl.Int64Var(&o.MaxOps, "max-ops", 0, "stop after this many operations")
		fl.StringVar(&o.Histogram, "histogram", "", "write the distribution of latencies to this file")
		fl.Uint64Var(&o.Seed, "seed", 1, "seed of the operations")
		fl.DurationVar(&o.CheckEvery, "check-every", 0, "check while running, this often (default: at the end only)")
		fl.BoolVar(&o.Quiet, "quiet", false, "no line per second")
		fl.BoolVar(&first, "init", false, "make the tables first")
		if k.workload.Name() == "bank" {
			o.CheckEvery = 2 * time.Second
			fl.Lookup("check-every").DefValue = o.CheckEvery.String()
		}
		k.flags(fl)
		runCmd.AddCommand(c)
	}
	cmd.AddCommand(initCmd, runCmd, checkCmd)
	return cmd
}

// terminals sets the workers of TPC-C: as many as the warehouses have terminals, unless the user wants another number or no waits, and each
// connected in the region of its warehouse.
func terminals(t *tpcc.TPCC, o *workload.Options, chosen bool) error {
	if t.Wait && !chosen {
		o.Concurrency = t.Terminals()
	}
	n := len(t.Regions)
	if n == 0 {
		return nil
	}
	if len(o.URLs)%n != 0 {
		return fmt.Errorf("%d regions need a URL for each, or as many for each, in the order of the regions; there are %d URLs", n, len(o.URLs))
	}
	o.Connect = func(ctx context.Context, worker, attempt int) (*pgx.Conn, error) {
		if worker < 0 {
			return pgx.Connect(ctx, o.URLs[attempt%len(o.URLs)])
		}
		// The gateways of the region in turn, and then those of the next regions: a terminal goes on when its region is down.
		own := len(o.URLs) / n
		region := (t.RegionOfWorker(worker) + attempt/own) % n
		return pgx.Connect(ctx, o.URLs[region+n*((worker+attempt)%own)])
	}
	return nil
}

func checkWorkload(ctx context.Context, w workload.Workload, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := w.Check(ctx, conn); err != nil {
		return err
	}
	fmt.Println(w.Name(), "is consistent")
	return nil
}

// initAttempts bounds how often the setup starts over when the server asks for a retry.
const initAttempts = 10

func initWorkload(ctx context.Context, w workload.Workload, urls []string) error {
	var err error
	for i := range initAttempts {
		if err = initOnce(ctx, w, urls[i%len(urls)]); err == nil || !workload.Retryable(err) {
			break
		}
	}
	if err == nil {
		fmt.Println(w.Name(), "is ready")
	}
	return err
}

func initOnce(ctx context.Context, w workload.Workload, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return w.Init(ctx, conn)
}
