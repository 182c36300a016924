package job_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/commit/leader/gateway"
	"meridian/host"
	"meridian/kv"
	"meridian/sim"
	"meridian/sql/job"
	"meridian/sql/sqlstate"
	"meridian/txn"
	"meridian/txn/fakekv"
	"meridian/version"
)

type node struct {
	h  *host.Host
	db *txn.DB
	r  *job.Registry
}

func cluster(t testing.TB, n int) []*node { return clusterOf(t, make([]version.Binary, n)...) }

// clusterOf has nodes of the given binaries; zero: this build.
func clusterOf(t testing.TB, binaries ...version.Binary) []*node {
	net := sim.NewNetwork(sim.NetworkOptions{Seed: 1})
	var fake *fakekv.KV
	var out []*node
	for i, b := range binaries {
		h := sim.NewHost(context.Background(), sim.MachineOptions{Name: fmt.Sprint("n", i), Network: net, Seed: 1})
		ck := clock.New(h.Clock, clock.DefaultMaxOffset)
		if fake == nil {
			fake = fakekv.New(h, ck)
		}
		id := func() kv.NodeID { return kv.NodeID(i + 1) }
		db := txn.NewDB(txn.Options{Records: gateway.Protocol{}, Sender: fake, Clock: ck, Host: h, NodeID: id})
		out = append(out, &node{h, db, job.New(job.Options{DB: db, Clock: ck, Host: h, NodeID: id, Retention: time.Hour,
			Version: version.NewHandle(b.Or(version.Built()), b.Or(version.Built()).Own)})})
	}
	return out
}

func stop(nodes []*node) {
	for _, n := range nodes {
		n.h.Group.Stop()
	}
}

func create(t testing.TB, n *node, s job.Spec) (id job.ID) {
	t.Helper()
	err := n.db.Run(context.Background(), txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) (err error) {
		id, err = n.r.Create(ctx, tx, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func status(t testing.TB, n *node, id job.ID) *job.Record {
	all, err := n.r.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if r.ID == id {
			return r
		}
	}
	return &job.Record{}
}

// Jobs that several nodes create at one moment, and a node many of them, have numbers of their own: a row that is written twice is a job that is
// lost.
func TestNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := cluster(t, 3)
		defer stop(nodes)
		const each = 200
		for _, n := range nodes {
			if err := n.db.Run(context.Background(), txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
				for range each {
					if _, err := n.r.Create(ctx, tx, job.Spec{Type: "t"}); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		all, err := nodes[0].r.List(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if want := each * len(nodes); len(all) != want {
			t.Errorf("%d jobs were created; there are %d", want, len(all))
		}
	})
}

// A job goes on at its checkpoint on another node when its node dies, and nobody else works on it before (job.J1, job.J2).
func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := cluster(t, 3)
		defer stop(nodes)
		var mu sync.Mutex // guards working
		working := map[int]bool{}
		var steps [3]atomic.Int64 // by node
		for i, n := range nodes {
			n.r.Handle("count", job.Handler{Resume: func(ctx context.Context, r *job.Run) error {
				mu.Lock()
				if len(working) > 0 {
					t.Errorf("nodes %v and %d work on one job", working, i)
				}
				working[i] = true
				mu.Unlock()
				defer func() {
					mu.Lock()
					delete(working, i)
					mu.Unlock()
				}()
				at := 0
				if err := r.Progress(&at); err != nil {
					return err
				}
				for at < 100 {
					if err := n.h.Clock.Sleep(ctx, time.Second); err != nil {
						return err
					}
					at++
					steps[i].Add(1)
					if err := r.Checkpoint(ctx, float64(at)/100, at); err != nil {
						return err
					}
				}
				return nil
			}})
			n.r.Start()
		}
		id := create(t, nodes[0], job.Spec{Type: "count"})
		go nodes[0].r.Run(nodes[0].h.Group.Context(), id)
		time.Sleep(30*time.Second + 500*time.Millisecond)
		nodes[0].h.Group.Stop()
		if n := steps[0].Load(); n < 29 {
			t.Errorf("%d steps", n)
		}
		time.Sleep(5 * time.Minute)
		if s := status(t, nodes[1], id); s.Status != job.Succeeded || s.Fraction != 1 {
			t.Errorf("%+v", s)
		}
		if total := steps[0].Load() + steps[1].Load() + steps[2].Load(); total < 100 || total > 101 {
			t.Errorf("%d steps were done for 100", total)
		}
		time.Sleep(2 * time.Hour)
		if s := status(t, nodes[1], id); s.ID != 0 {
			t.Error("the finished job's row is kept for ever")
		}
	})
}

// An error that another try does not mend is undone, and is the waiting client's; others are tried again (job.J3).
func TestOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := cluster(t, 1)
		defer stop(nodes)
		n := nodes[0]
		tries, reverts := 0, 0
		n.r.Handle("flaky", job.Handler{Resume: func(context.Context, *job.Run) error {
			if tries++; tries < 4 {
				return errors.New("a replica is down")
			}
			return nil
		}})
		n.r.Handle("bad", job.Handler{
			Resume: func(context.Context, *job.Run) error {
				return sqlstate.New(sqlstate.UniqueViolation, "twice").WithDetail("Key (%s).", "a")
			},
			Revert: func(_ context.Context, _ *job.Run, cause error) error {
				if !sqlstate.Is(cause, sqlstate.UniqueViolation) {
					t.Errorf("cause: %v", cause)
				}
				if reverts++; reverts < 3 {
					return errors.New("not yet")
				}
				return nil
			},
		})
		if err := n.r.Run(context.Background(), create(t, n, job.Spec{Type: "flaky"})); err != nil || tries != 4 {
			t.Errorf("%v after %d tries", err, tries)
		}
		id := create(t, n, job.Spec{Type: "bad"})
		err := n.r.Run(context.Background(), id)
		var e *sqlstate.Error
		if !errors.As(err, &e) || e.Code != sqlstate.UniqueViolation || e.Detail != "Key (a)." || reverts != 3 {
			t.Errorf("%v after %d reverts", err, reverts)
		}
		if s := status(t, n, id); s.Status != job.Failed {
			t.Errorf("%+v", s)
		}
		// Asking again gives the same answer.
		if again := n.r.Run(context.Background(), id); !sqlstate.Is(again, sqlstate.UniqueViolation) || reverts != 3 {
			t.Error(again)
		}
	})
}

// A cancelled job ends at its next checkpoint; one that is not due waits; one of a transaction that was rolled back
// does not exist.
func TestCancelAndDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := cluster(t, 1)
		defer stop(nodes)
		n := nodes[0]
		ctx := context.Background()
		n.r.Handle("long", job.Handler{Resume: func(ctx context.Context, r *job.Run) error {
			for i := 0; ; i++ {
				if err := n.h.Clock.Sleep(ctx, time.Second); err != nil {
					return err
				}
				if err := r.Checkpoint(ctx, 0, i); err != nil {
					return err
				}
			}
		}})
		var ranAt atomic.Int64
		n.r.Handle("late", job.Handler{Resume: func(context.Context, *job.Run) error { ranAt.Store(time.Now().UnixNano()); return nil }})
		n.r.Start()
		id := create(t, n, job.Spec{Type: "long"})
		done := make(chan error, 1)
		go func() { done <- n.r.Run(ctx, id) }()
		time.Sleep(10 * time.Second)
		if err := n.r.Cancel(ctx, id); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !sqlstate.Is(err, sqlstate.QueryCanceled) {
			t.Error(err)
		}
		if s := status(t, n, id); s.Status != job.Canceled {
			t.Errorf("%+v", s)
		}
		if err := n.r.Cancel(ctx, id); err == nil {
			t.Error("a finished job was cancelled")
		}
		if err := n.r.Cancel(ctx, 1); !sqlstate.Is(err, sqlstate.UndefinedObject) {
			t.Error(err)
		}
		due := time.Now().Add(3 * time.Minute)
		create(t, n, job.Spec{Type: "late", After: due})
		time.Sleep(10 * time.Minute)
		if ran := time.Unix(0, ranAt.Load()); ran.Before(due) || ran.After(due.Add(time.Minute)) {
			t.Errorf("due %v, ran %v", due, ran)
		}
		before, _ := n.r.List(ctx)
		tx := n.db.Begin(txn.TxnOptions{})
		if _, err := n.r.Create(ctx, tx, job.Spec{Type: "late"}); err != nil {
			t.Fatal(err)
		}
		tx.Rollback(ctx)
		if after, _ := n.r.List(ctx); len(after) != len(before) {
			t.Error("a job of a transaction that was rolled back exists")
		}
	})
}

// When the client who began a job goes away, its node goes on at once, from the checkpoint.
func TestClientGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := cluster(t, 2)
		defer stop(nodes)
		var steps [2]atomic.Int64
		for i, n := range nodes {
			n.r.Handle("count", job.Handler{Resume: func(ctx context.Context, r *job.Run) error {
				at := 0
				if err := r.Progress(&at); err != nil {
					return err
				}
				for ; at < 6; at++ {
					if err := n.h.Clock.Sleep(ctx, time.Second); err != nil {
						return err
					}
					steps[i].Add(1)
					if err := r.Checkpoint(ctx, 0, at+1); err != nil {
						return err
					}
				}
				return nil
			}})
			n.r.Start()
		}
		id := create(t, nodes[0], job.Spec{Type: "count"})
		client, leave := context.WithTimeout(context.Background(), 2500*time.Millisecond)
		defer leave()
		if err := nodes[0].r.Run(client, id); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		if s := status(t, nodes[0], id); s.Status != job.Succeeded {
			t.Errorf("%s after another 5 s", s.Status)
		}
		if a, b := steps[0].Load(), steps[1].Load(); a != 6 || b != 0 {
			t.Errorf("%d steps here, %d elsewhere", a, b)
		}
	})
}
