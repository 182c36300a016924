package kill

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/test/process"
)

// turns are clients that each count in a row of their own, and connect again when they are cut off.
type turns struct {
	t          *testing.T
	c          *process.Cluster
	all        sync.WaitGroup
	end        context.CancelFunc
	told, done atomic.Int64
	acked      []int
}

// startTurns starts so many writers.
func startTurns(t *testing.T, c *process.Cluster, writers int) *turns {
	t.Helper()
	prepare(t, c, nil, "create table turns (writer int primary key, n int not null)",
		fmt.Sprintf("insert into turns select i, 0 from generate_series(0, %d) i", writers-1))
	ctx, cancel := context.WithCancel(t.Context())
	w := &turns{t: t, c: c, end: cancel, acked: make([]int, writers)}
	for i := range writers {
		w.all.Go(func() { w.run(ctx, i) })
	}
	return w
}

func (w *turns) run(ctx context.Context, writer int) {
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			conn.Close(context.Background())
		}
	}()
	for url := writer; ctx.Err() == nil; {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		if conn == nil {
			if now, err := pgx.Connect(limit, w.c.Nodes[url%len(w.c.Nodes)].URL("postgres")); err == nil {
				conn = now
			} else {
				url++
				pause(ctx)
			}
			cancel()
			continue
		}
		tx, err := conn.Begin(limit)
		if err == nil {
			if _, err = tx.Exec(limit, "update turns set n = n + 1 where writer = $1", writer); err == nil {
				err = tx.Commit(limit)
			}
			if err == nil {
				w.acked[writer]++
				w.done.Add(1)
			} else {
				w.t.Errorf("writer %d, in a transaction: %s", writer, inFull(err))
			}
		} else if e := (*pgconn.PgError)(nil); errors.As(err, &e) && e.Code != "57P01" {
			w.t.Errorf("writer %d, at BEGIN: %v", writer, err)
		} else {
			w.told.Add(1)
		}
		cancel()
		if err != nil {
			conn.Close(context.Background())
			conn = nil
			url++
		}
	}
}

// more waits for so many transactions from now on.
func (w *turns) more(n int64) {
	before := w.done.Load()
	for w.done.Load() < before+n && w.t.Context().Err() == nil && !w.t.Failed() {
		pause(w.t.Context())
	}
}

// replace stops a node in an orderly way and starts it again, with a binary unless that is empty.
func (w *turns) replace(i int, binary string) {
	w.t.Helper()
	begun := time.Now()
	limit, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	if err := w.c.Nodes[i].Stop(limit); err != nil {
		w.t.Errorf("node %d: %v", i+1, err)
	}
	w.t.Logf("node %d stopped within %.1f s; %d transactions so far, %d sessions told to go", i+1, time.Since(begun).Seconds(), w.done.Load(), w.told.Load())
	if binary != "" {
		w.c.Nodes[i].Binary = binary
	}
	restart(w.t, w.t.Context(), w.c, i)
}

// check ends the writers: the rows have the acknowledged increments, and no others.
func (w *turns) check() {
	t := w.t
	t.Helper()
	w.end()
	w.all.Wait()
	limit, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(limit, w.c.Nodes[0].URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(limit)
	for writer, want := range w.acked {
		var n int
		if err := conn.QueryRow(limit, "select n from turns where writer = $1", writer).Scan(&n); err != nil || n != want {
			t.Errorf("writer %d: %d transactions are there, %d were acknowledged (%v)", writer, n, want, err)
		}
	}
	t.Logf("%d transactions, %d sessions told to go between them", w.done.Load(), w.told.Load())
}

// TestRollingRestart: three nodes are stopped and started one after the other under twelve writers that connect again when they
// are cut off. A session is ended between transactions only: no transaction that was begun fails, and acknowledged writes
// exist.
func TestRollingRestart(t *testing.T) {
	c := start(t)
	w := startTurns(t, c, 12)
	for i := range c.Nodes {
		w.more(200)
		w.replace(i, "")
	}
	w.check()
}

// pause lets a moment pass before something is tried again.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(50 * time.Millisecond):
	}
}

// inFull is an error with its detail, which says why the outcome of a commit is unknown.
func inFull(err error) string {
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) && e.Detail != "" {
		return fmt.Sprintf("%v: %s", err, e.Detail)
	}
	return err.Error()
}
