package job_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/kv"
	"meridian/sql/job"
	"meridian/sql/sqlstate"
)

// TestAttempts: how often a job is tried, what its row says meanwhile, and how it ends (job.J3).
func TestAttempts(t *testing.T) {
	odd := errors.New("nobody knows this error")
	away := &kv.UnavailableError{Reason: "its majority is gone"}
	for _, c := range []struct {
		name           string
		resume, revert error
		progress       bool // a checkpoint before each failure
		insist         bool
		within         time.Duration // 0: it goes on
		status         job.Status
		abandoned      bool
		says           string
	}{
		{name: "an unknown error", resume: odd, within: time.Minute, status: job.Failed, says: "nobody knows"},
		{name: "an unknown error, with progress", resume: odd, progress: true, status: job.Running},
		{name: "an unknown error of a job that insists", resume: odd, insist: true, status: job.Running, says: "nobody knows"},
		{name: "an error that passes", resume: away, status: job.Running, says: "majority is gone"},
		{name: "a user's error", resume: sqlstate.New(sqlstate.UniqueViolation, "twice"), within: time.Second, status: job.Failed, says: "twice"},
		{name: "it can't be undone", resume: sqlstate.New(sqlstate.UniqueViolation, "twice"), revert: odd, within: time.Minute, status: job.Failed, abandoned: true, says: "twice"},
		{name: "it can't be undone now", resume: sqlstate.New(sqlstate.UniqueViolation, "twice"), revert: away, status: job.Reverting, says: "twice"},
		{name: "an unknown error, and it can't be undone", resume: odd, revert: odd, within: 2 * time.Minute, status: job.Failed, abandoned: true, says: "nobody knows"},
		{name: "a panic", resume: nil, within: time.Minute, status: job.Failed, says: "panic"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := cluster(t, 1)
				defer stop(nodes)
				n := nodes[0]
				var abandoned, tries atomic.Int64
				n.r.Handle("work", job.Handler{Insist: c.insist,
					Resume: func(ctx context.Context, r *job.Run) error {
						if k := tries.Add(1); c.progress {
							if err := r.Checkpoint(ctx, 0, k); err != nil {
								return err
							}
						}
						if c.resume == nil {
							panic("a panic")
						}
						return c.resume
					},
					Revert:  func(context.Context, *job.Run, error) error { return c.revert },
					Abandon: func(context.Context, *job.Run) error { abandoned.Add(1); return nil }})
				id := create(t, n, job.Spec{Type: "work"})
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
				defer cancel()
				begun := time.Now()
				err := n.r.Run(ctx, id)
				took := time.Since(begun)
				if goes := ctx.Err() != nil; goes != (c.within == 0) || !goes && (err == nil || took > c.within) {
					t.Errorf("after %v, and %d attempts: %v", took, tries.Load(), err)
				}
				rec := status(t, n, id)
				if rec.Status != c.status || (abandoned.Load() > 0) != c.abandoned || c.says != "" && (rec.Error == nil || !strings.Contains(rec.Error.Message, c.says)) {
					t.Errorf("it is %s, abandoned %d times, with %+v", rec.Status, abandoned.Load(), rec.Error)
				}
				if c.abandoned && !strings.Contains(rec.Error.Detail, "could not be undone: nobody knows") {
					t.Errorf("detail %q", rec.Error.Detail)
				}
			})
		})
	}
}

// TestPassingError: the error of an attempt is gone from the row when the job has succeeded, and the job's caller does not get it.
func TestPassingError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := cluster(t, 2)
		defer stop(nodes)
		tries := 0
		nodes[0].r.Handle("work", job.Handler{Resume: func(context.Context, *job.Run) error {
			if tries++; tries < 7 {
				return errors.New("it passes after all")
			}
			return nil
		}})
		id := create(t, nodes[0], job.Spec{Type: "work"})
		go nodes[0].r.Run(context.Background(), id)
		time.Sleep(time.Second)
		if rec := status(t, nodes[1], id); rec.Error == nil {
			t.Error("the row does not say that an attempt failed")
		}
		if err := nodes[1].r.Run(context.Background(), id); err != nil {
			t.Errorf("the other node's caller gets %v", err)
		}
		if rec := status(t, nodes[1], id); rec.Status != job.Succeeded || rec.Error != nil {
			t.Errorf("it is %s, with %+v", rec.Status, rec.Error)
		}
	})
}

// TestCancelReachesAttempts: CANCEL JOB ends an attempt that makes no checkpoint, and a pause between two (job.J5).
func TestCancelReachesAttempts(t *testing.T) {
	for name, resume := range map[string]func(context.Context, *job.Run) error{
		"waits": func(ctx context.Context, _ *job.Run) error { <-ctx.Done(); return ctx.Err() },
		"fails": func(context.Context, *job.Run) error { return &kv.UnavailableError{Reason: "away"} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := cluster(t, 2)
				defer stop(nodes)
				reverted := false
				nodes[0].r.Handle("work", job.Handler{Resume: resume, Revert: func(context.Context, *job.Run, error) error { reverted = true; return nil }})
				id := create(t, nodes[0], job.Spec{Type: "work"})
				done := make(chan error, 1)
				go func() { done <- nodes[0].r.Run(context.Background(), id) }()
				time.Sleep(5 * time.Minute)
				begun := time.Now()
				if err := nodes[1].r.Cancel(context.Background(), id); err != nil {
					t.Fatal(err)
				}
				err := <-done
				if took := time.Since(begun); !sqlstate.Is(err, sqlstate.QueryCanceled) || took > job.DefaultClaimDuration/4+time.Second || !reverted {
					t.Errorf("after %v: %v", took, err)
				}
				if rec := status(t, nodes[1], id); rec.Status != job.Canceled {
					t.Errorf("it is %s", rec.Status)
				}
			})
		})
	}
}
