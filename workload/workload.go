package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Workload is one way to use a database.
type Workload interface {
	// Name and About describe it.
	Name() string
	About() string
	// Init makes its tables and rows, replacing existing ones.
	Init(ctx context.Context, conn *pgx.Conn) error
	// Worker makes one worker; its step is called again and again with the worker's present connection.
	Worker(ctx context.Context, dice *rand.Rand) (Step, error)
	// Check verifies the invariants, which hold at any time.
	Check(ctx context.Context, conn *pgx.Conn) error
}

// Step does one operation and names its kind, for the figures.
type Step func(ctx context.Context, conn *pgx.Conn) (kind string, err error)

// Paced is a Workload whose workers wait before each operation, as people at terminals do. Their latencies do not include the wait.
type Paced interface {
	Workload
	// Terminal is Worker for a workload whose workers differ: id counts them from zero. A wait ends with the context at the latest; nil:
	// the worker does not wait.
	Terminal(ctx context.Context, id int, dice *rand.Rand) (wait func(context.Context), step Step, err error)
}

// Reporter is a Workload with figures of its own, which follow the summary of a run.
type Reporter interface {
	Workload
	Report(out io.Writer, r *Result)
}

// Options of a run.
type Options struct {
	URLs []string
	// Connect opens the connection of a worker, which counts its attempts from zero; the number of the final check is -1. Nil: URLs in turn,
	// beginning with the worker's own.
	Connect     func(ctx context.Context, worker, attempt int) (*pgx.Conn, error)
	Concurrency int
	// Duration ends the run; zero: until the context ends. MaxOps too; zero: no bound.
	Duration time.Duration
	MaxOps   int64
	// Ramp is a time at the beginning whose operations are not counted. Duration includes it.
	Ramp time.Duration
	// Rate bounds operations per second of all workers together; zero: as fast as possible.
	Rate float64
	// CheckEvery runs the workload's check while it runs; zero: only at the end.
	CheckEvery time.Duration
	// CheckLimit bounds the check at the end; zero: a minute.
	CheckLimit time.Duration
	// Histogram is a file for the latencies, in HdrHistogram's log format of percentiles; empty: none.
	Histogram string
	Seed      uint64
	Out       io.Writer
	// Quiet leaves the lines per second out.
	Quiet bool
}

// Result has the measurements of a run.
type Result struct {
	Ops, Retries, Unknown, Errors int64
	Elapsed                       time.Duration
	Latency                       *hdrhistogram.Histogram // microseconds
	// Kinds has the latencies of each kind of operation, as steps name them.
	Kinds  map[string]*hdrhistogram.Histogram
	Checks int64
	// LongestGap is the longest time without any operation done.
	LongestGap time.Duration
	// LastError is the last of the Errors, which unlike retries are unexpected.
	LastError error
}

const (
	histMinUS, histMaxUS, histDigits = 1, 60_000_000, 3
	maxAttempts                      = 100
)

// stats gathers the workers' figures.
type stats struct {
	counted  time.Time // operations that begin earlier belong to the ramp
	mu       sync.Mutex
	total    Result
	tick     *hdrhistogram.Histogram
	tickOps  int64
	tickErrs int64
	lastDone time.Time
	sample   error // an error of the last second, to show
	last     error // the last error
}

func (s *stats) done(kind string, start time.Time) {
	now := time.Now()
	us := min(max(now.Sub(start).Microseconds(), histMinUS), histMaxUS)
	s.mu.Lock()
	s.tickOps++
	s.tick.RecordValue(us)
	if !start.Before(s.counted) {
		s.total.Ops++
		s.total.Latency.RecordValue(us)
		h := s.total.Kinds[kind]
		if h == nil {
			h = newHistogram()
			s.total.Kinds[kind] = h
		}
		h.RecordValue(us)
	}
	s.total.LongestGap = max(s.total.LongestGap, now.Sub(s.lastDone))
	s.lastDone = now
	s.mu.Unlock()
}

func (s *stats) failed(counter *int64, err error) {
	s.mu.Lock()
	*counter++
	s.tickErrs++
	s.sample, s.last = err, err
	if counter == &s.total.Errors {
		s.total.LastError = err
	}
	s.mu.Unlock()
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(histMinUS, histMaxUS, histDigits)
}

// Retryable reports whether the server asks for a retry.
func Retryable(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "40001" || e.Code == "40P01")
}

// Unknown reports whether an operation may or may not have happened.
func Unknown(err error) bool {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code == "40003" || e.Code == "57P01" || e.Code[:2] == "08"
	}
	return err != nil && !errors.Is(err, pgx.ErrNoRows)
}

// Run runs a workload and returns its measurements; the error is a failed check, or that no operation was done.
func Run(ctx context.Context, w Workload, o Options) (*Result, error) {
	if o.Concurrency < 1 {
		o.Concurrency = 1
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.Connect == nil {
		if len(o.URLs) == 0 {
			return nil, errors.New("workload: no URL")
		}
		urls := o.URLs
		o.Connect = func(ctx context.Context, worker, attempt int) (*pgx.Conn, error) {
			return pgx.Connect(ctx, urls[(max(worker, 0)+attempt)%len(urls)])
		}
	}
	if o.CheckLimit == 0 {
		o.CheckLimit = time.Minute
	}
	if o.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Duration)
		defer cancel()
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	begin := time.Now()
	s := &stats{tick: newHistogram(), lastDone: begin, counted: begin.Add(o.Ramp)}
	s.total.Latency, s.total.Kinds = newHistogram(), make(map[string]*hdrhistogram.Histogram)

	var pace chan struct{}
	var all sync.WaitGroup
	if o.Rate > 0 {
		pace = make(chan struct{}, o.Concurrency)
		all.Go(func() {
			t := time.NewTicker(max(time.Duration(float64(time.Second)/o.Rate), time.Microsecond))
			defer t.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-t.C:
					select {
					case pace <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	workers := make(chan struct{})
	var running sync.WaitGroup
	for i := range o.Concurrency {
		running.Go(func() { work(ctx, w, &o, i, s, pace, stop) })
	}
	go func() { running.Wait(); close(workers) }()
	if o.CheckEvery > 0 {
		all.Go(func() { checkLoop(ctx, w, &o, s, stop) })
	}
	report(ctx, &o, s, begin, workers)
	<-workers
	stop(nil)
	all.Wait()

	s.total.Elapsed = max(time.Since(s.counted), 0)
	s.total.LongestGap = max(s.total.LongestGap, time.Since(s.lastDone))
	var fatal error
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		fatal = cause // a broken check, or a workload that cannot run
	}
	if fatal == nil {
		// The run's context may have ended; the check has its own.
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.CheckLimit)
		defer cancel()
		fatal = checkOnce(limit, w, &o, s)
	}
	r := s.total
	summary(o.Out, w.Name(), &r)
	if own, ok := w.(Reporter); ok {
		own.Report(o.Out, &r)
	}
	if o.Histogram != "" {
		if err := writeHistogram(o.Histogram, r.Latency); err != nil {
			return &r, err
		}
	}
	if fatal == nil && r.Ops == 0 {
		if s.last == nil {
			return &r, errors.New("no operation was done")
		}
		fatal = fmt.Errorf("no operation succeeded; the last error: %w", s.last)
	}
	return &r, fatal
}

// CheckError says that an invariant is violated.
type CheckError struct{ Err error }

func (e *CheckError) Error() string { return "check failed: " + e.Err.Error() }
func (e *CheckError) Unwrap() error { return e.Err }

func checkOnce(ctx context.Context, w Workload, o *Options, s *stats) error {
	var err error
	for i := range 20 * max(len(o.URLs), 1) {
		var conn *pgx.Conn
		if conn, err = o.Connect(ctx, -1, i); err == nil {
			err = w.Check(ctx, conn)
			conn.Close(ctx)
			if err == nil || !Unknown(err) && !Retryable(err) {
				break
			}
			var broken *CheckError
			if errors.As(err, &broken) {
				break
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(250 * time.Millisecond):
		}
	}
	if err == nil {
		s.mu.Lock()
		s.total.Checks++
		s.mu.Unlock()
	}
	return err
}

func checkLoop(ctx context.Context, w Workload, o *Options, s *stats, stop context.CancelCauseFunc) {
	t := time.NewTicker(o.CheckEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		err := checkOnce(ctx, w, o, s)
		var broken *CheckError
		if errors.As(err, &broken) {
			stop(broken)
			return
		}
	}
}

// work is one worker.
func work(ctx context.Context, w Workload, o *Options, id int, s *stats, pace chan struct{}, stop context.CancelCauseFunc) {
	dice := rand.New(rand.NewPCG(o.Seed, uint64(id)))
	var wait func(context.Context)
	var step Step
	var err error
	if paced, ok := w.(Paced); ok {
		wait, step, err = paced.Terminal(ctx, id, dice)
	} else {
		step, err = w.Worker(ctx, dice)
	}
	if err != nil {
		stop(err)
		return
	}
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			conn.Close(limit)
			cancel()
		}
	}()
	attempts := 0
	for ctx.Err() == nil {
		if pace != nil {
			select {
			case <-pace:
			case <-ctx.Done():
				return
			}
		}
		if wait != nil {
			if wait(ctx); ctx.Err() != nil {
				return
			}
		}
		start := time.Now()
		for attempt := 0; ctx.Err() == nil; attempt++ {
			if conn == nil || conn.IsClosed() {
				limit, cancel := context.WithTimeout(ctx, 5*time.Second)
				conn, err = o.Connect(limit, id, attempts)
				cancel()
				if err != nil {
					if ctx.Err() == nil {
						s.failed(&s.total.Errors, err)
					}
					conn = nil
					attempts++
					pause(ctx, 100*time.Millisecond)
					continue
				}
			}
			var kind string
			if kind, err = step(ctx, conn); err == nil {
				s.done(kind, start)
				break
			}
			if ctx.Err() != nil {
				return
			}
			if Retryable(err) && attempt < maxAttempts {
				s.failed(&s.total.Retries, err)
				pause(ctx, time.Duration(dice.Int64N(int64(time.Millisecond)<<min(attempt, 6))))
				continue
			}
			if Unknown(err) {
				s.failed(&s.total.Unknown, err)
				attempts++
			} else {
				s.failed(&s.total.Errors, err)
				pause(ctx, 10*time.Millisecond)
			}
			break
		}
		if o.MaxOps > 0 {
			s.mu.Lock()
			enough := s.total.Ops >= o.MaxOps
			s.mu.Unlock()
			if enough {
				stop(nil)
				return
			}
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// report prints a line each second until the workers end.
func report(ctx context.Context, o *Options, s *stats, begin time.Time, workers <-chan struct{}) {
	if !o.Quiet {
		fmt.Fprintln(o.Out, "elapsed      ops/s   err/s   p50(ms)   p95(ms)   p99(ms)")
	}
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-workers:
			return
		case <-t.C:
		}
		s.mu.Lock()
		h, ops, errs, sample := s.tick, s.tickOps, s.tickErrs, s.sample
		line := fmt.Sprintf("%6.0fs %10d %7d %9.2f %9.2f %9.2f", time.Since(begin).Seconds(), ops, errs,
			quantile(h, 50), quantile(h, 95), quantile(h, 99))
		h.Reset()
		s.tickOps, s.tickErrs, s.sample = 0, 0, nil
		s.mu.Unlock()
		if o.Quiet {
			continue
		}
		if errs > 0 && sample != nil {
			line += "   " + sample.Error()
		}
		fmt.Fprintln(o.Out, line)
	}
}

func quantile(h *hdrhistogram.Histogram, q float64) float64 {
	return float64(h.ValueAtQuantile(q)) / 1000
}

func summary(w io.Writer, name string, r *Result) {
	fmt.Fprintf(w, "\n%s: %d operations in %.1f s (%.0f/s), %d retries, %d unknown, %d errors, longest gap %.2f s, %d checks passed\n",
		name, r.Ops, r.Elapsed.Seconds(), float64(r.Ops)/r.Elapsed.Seconds(), r.Retries, r.Unknown, r.Errors, r.LongestGap.Seconds(), r.Checks)
	fmt.Fprintf(w, "latency (ms): p50 %.2f  p95 %.2f  p99 %.2f  max %.2f\n",
		quantile(r.Latency, 50), quantile(r.Latency, 95), quantile(r.Latency, 99), float64(r.Latency.Max())/1000)
	if r.LastError != nil {
		fmt.Fprintf(w, "the last error: %v\n", r.LastError)
	}
}

func writeHistogram(name string, h *hdrhistogram.Histogram) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if _, err := h.PercentilesPrint(f, 5, 1000); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// InTxn runs f in a transaction of the connection.
func InTxn(ctx context.Context, conn *pgx.Conn, f func(tx pgx.Tx) error) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		if !conn.IsClosed() {
			tx.Rollback(context.WithoutCancel(ctx))
		}
		return err
	}
	return tx.Commit(ctx)
}
