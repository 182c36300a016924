package workload

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// fakeServer lets clients log in and ignores all further messages, until it is closed.
func fakeServer(t *testing.T) (url string, logins *atomic.Int64, closeAll func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	logins = new(atomic.Int64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := pgproto3.NewBackend(c, c)
				if _, err := b.ReceiveStartupMessage(); err != nil {
					return
				}
				logins.Add(1)
				b.Send(&pgproto3.AuthenticationOk{})
				b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
				if b.Flush() == nil {
					io.Copy(io.Discard, c)
				}
			}()
		}
	}()
	t.Cleanup(func() { l.Close() })
	return "postgres://u@" + l.Addr().String() + "/d?sslmode=disable", logins, func() { l.Close() }
}

// script is a workload whose steps answer with the given errors in turn, then with success.
type script struct {
	errs   []error
	calls  atomic.Int64
	check  func() error
	worker error
	before func(call int64)
}

func (s *script) Name() string                          { return "script" }
func (s *script) About() string                         { return "" }
func (s *script) Init(context.Context, *pgx.Conn) error { return nil }
func (s *script) Worker(context.Context, *rand.Rand) (Step, error) {
	return func(context.Context, *pgx.Conn) (string, error) {
		i := s.calls.Add(1) - 1
		if s.before != nil {
			s.before(i)
		}
		if i < int64(len(s.errs)) {
			return "step", s.errs[i]
		}
		return "step", nil
	}, s.worker
}
func (s *script) Check(context.Context, *pgx.Conn) error {
	if s.check != nil {
		return s.check()
	}
	return nil
}

func code(c string) error { return &pgconn.PgError{Code: c} }

func TestRunCounts(t *testing.T) {
	url, _, _ := fakeServer(t)
	w := &script{errs: []error{code("40001"), nil, code("40P01"), code("40001"), code("40003"), io.ErrUnexpectedEOF, code("23505"), nil}}
	var out bytes.Buffer
	file := filepath.Join(t.TempDir(), "hist")
	r, err := Run(t.Context(), w, Options{URLs: []string{url}, MaxOps: 5, Out: &out, Histogram: file})
	if err != nil {
		t.Fatal(err)
	}
	if r.Ops != 5 || r.Retries != 3 || r.Unknown != 2 || r.Errors != 1 || r.Checks != 1 || r.Latency.TotalCount() != 5 || r.LastError == nil {
		t.Errorf("%+v", r)
	}
	if w.calls.Load() != 11 {
		t.Errorf("%d calls", w.calls.Load())
	}
	if !strings.Contains(out.String(), "5 operations") || !strings.Contains(out.String(), "3 retries, 2 unknown, 1 errors") || !strings.Contains(out.String(), "1 checks passed") || !strings.Contains(out.String(), "the last error: ") {
		t.Error(out.String())
	}
	if b, err := os.ReadFile(file); err != nil || !bytes.Contains(b, []byte("Percentile")) {
		t.Errorf("histogram: %q, %v", b, err)
	}
}

func TestRunDealsURLsAndFailsOver(t *testing.T) {
	a, na, closeA := fakeServer(t)
	b, nb, _ := fakeServer(t)
	closeA()
	r, err := Run(t.Context(), &script{}, Options{URLs: []string{a, b}, MaxOps: 20}) // the worker begins with the first
	if err != nil {
		t.Fatal(err)
	}
	if na.Load() != 0 || nb.Load() != 2 || r.Errors != 1 || r.Ops != 20 { // one login more is the check's
		t.Errorf("logins %d and %d, %+v", na.Load(), nb.Load(), r)
	}
}

func TestRunReportsBrokenCheck(t *testing.T) {
	url, _, _ := fakeServer(t)
	broken := &CheckError{errors.New("the sum is wrong")}
	var n atomic.Int64
	w := &script{check: func() error {
		if n.Add(1) > 1 {
			return broken
		}
		return nil
	}}
	// While it runs: the run has no other end.
	r, err := Run(t.Context(), w, Options{URLs: []string{url}, CheckEvery: 5 * time.Millisecond, Rate: 100})
	if !errors.Is(err, broken) || r.Checks != 1 || n.Load() != 2 {
		t.Errorf("%v after %d checks: %+v", err, n.Load(), r)
	}
	// At the end.
	n.Store(1)
	if _, err = Run(t.Context(), w, Options{URLs: []string{url}, MaxOps: 1}); !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestRunWithoutSuccess(t *testing.T) {
	url, _, _ := fakeServer(t)
	refused := errors.New("no such workload")
	if _, err := Run(t.Context(), &script{worker: refused}, Options{URLs: []string{url}}); !errors.Is(err, refused) {
		t.Error(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	w := &script{errs: []error{code("42P01"), code("42P01"), code("42P01")}}
	w.before = func(call int64) {
		if call == 2 {
			stop()
		}
	}
	_, err := Run(ctx, w, Options{URLs: []string{url}})
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != "42P01" {
		t.Error(err)
	}
	if _, err := Run(t.Context(), &script{}, Options{}); err == nil {
		t.Error("ran without a URL")
	}
}

func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		err               error
		retryable, unsure bool
	}{
		{nil, false, false},
		{code("40001"), true, false},
		{code("40P01"), true, false},
		{code("40003"), false, true},
		{code("08006"), false, true},
		{code("57P01"), false, true},
		{code("23505"), false, false},
		{pgx.ErrNoRows, false, false},
		{io.ErrUnexpectedEOF, false, true},
	} {
		if Retryable(c.err) != c.retryable || Unknown(c.err) != c.unsure {
			t.Errorf("%v: retryable %t, unknown %t", c.err, Retryable(c.err), Unknown(c.err))
		}
	}
}

// pacedScript is a script whose workers wait, and that reports.
type pacedScript struct {
	script
	terminals atomic.Int64
	reported  *Result
}

func (s *pacedScript) Terminal(ctx context.Context, id int, dice *rand.Rand) (func(context.Context), Step, error) {
	s.terminals.Add(int64(1 + id))
	step, err := s.Worker(ctx, dice)
	return func(context.Context) { time.Sleep(20 * time.Millisecond) }, step, err
}

func (s *pacedScript) Report(_ io.Writer, r *Result) { s.reported = r }

// TestRunPaces: waits are no part of latencies, the ramp is not counted, kinds are, and each worker is connected by its number.
func TestRunPaces(t *testing.T) {
	url, _, _ := fakeServer(t)
	w := &pacedScript{}
	var numbers [3]atomic.Int64 // of -1, 0, 1
	r, err := Run(t.Context(), w, Options{Concurrency: 2, Duration: 400 * time.Millisecond, Ramp: 200 * time.Millisecond, Quiet: true,
		Connect: func(ctx context.Context, worker, attempt int) (*pgx.Conn, error) {
			numbers[worker+1].Add(1)
			return pgx.Connect(ctx, url)
		}})
	if err != nil {
		t.Fatal(err)
	}
	if w.terminals.Load() != 3 || w.reported == nil {
		t.Errorf("terminals %d, report %v", w.terminals.Load(), w.reported)
	}
	for i := range numbers {
		if numbers[i].Load() != 1 {
			t.Errorf("worker %d connected %d times", i-1, numbers[i].Load())
		}
	}
	if all := w.calls.Load(); r.Ops == 0 || r.Ops >= all || r.Kinds["step"] == nil || r.Kinds["step"].TotalCount() != r.Ops {
		t.Errorf("%d of %d operations are counted, kinds %v", r.Ops, all, r.Kinds)
	}
	if p := r.Latency.ValueAtQuantile(50); p >= 20_000 {
		t.Errorf("a wait is part of the latency: %d us", p)
	}
	if r.Elapsed < 150*time.Millisecond || r.Elapsed > 10*time.Second {
		t.Errorf("elapsed %v", r.Elapsed)
	}
}
