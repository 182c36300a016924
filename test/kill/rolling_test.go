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
)

// TestRollingRestart: three nodes are stopped and started one after the other under twelve writers that connect again when they
// are cut off. A session is told to go between transactions only: no transaction that was begun fails, and what was
// acknowledged is there.
func TestRollingRestart(t *testing.T) {
	const writers = 12
	c := start(t)
	prepare(t, c, nil, "create table turns (writer int primary key, n int not null)",
		fmt.Sprintf("insert into turns select i, 0 from generate_series(0, %d) i", writers-1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	var told, done atomic.Int64
	acked := make([]int, writers)
	for w := range writers {
		all.Go(func() {
			var conn *pgx.Conn
			defer func() {
				if conn != nil {
					conn.Close(context.Background())
				}
			}()
			for url := w; ctx.Err() == nil; {
				limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
				if conn == nil {
					if now, err := pgx.Connect(limit, c.Nodes[url%len(c.Nodes)].URL("postgres")); err == nil {
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
					if _, err = tx.Exec(limit, "update turns set n = n + 1 where writer = $1", w); err == nil {
						err = tx.Commit(limit)
					}
					if err == nil {
						acked[w]++
						done.Add(1)
					} else {
						t.Errorf("writer %d, in a transaction: %v", w, err)
					}
				} else if e := (*pgconn.PgError)(nil); errors.As(err, &e) && e.Code != "57P01" {
					t.Errorf("writer %d, at BEGIN: %v", w, err)
				} else {
					told.Add(1)
				}
				cancel()
				if err != nil {
					conn.Close(context.Background())
					conn = nil
					url++
				}
			}
		})
	}
	for i := range c.Nodes {
		before := done.Load()
		for done.Load() < before+200 && ctx.Err() == nil && !t.Failed() {
			pause(ctx)
		}
		begun := time.Now()
		limit, cancel := context.WithTimeout(ctx, time.Minute)
		if err := c.Nodes[i].Stop(limit); err != nil {
			t.Errorf("node %d: %v", i+1, err)
		}
		cancel()
		t.Logf("node %d stopped within %.1f s; %d transactions so far, %d sessions told to go", i+1, time.Since(begun).Seconds(), done.Load(), told.Load())
		restart(t, ctx, c, i)
	}
	cancel()
	all.Wait()
	limit, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(limit, c.Nodes[0].URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(limit)
	for w, want := range acked {
		var n int
		if err := conn.QueryRow(limit, "select n from turns where writer = $1", w).Scan(&n); err != nil || n != want {
			t.Errorf("writer %d: %d transactions are there, %d were acknowledged (%v)", w, n, want, err)
		}
	}
	t.Logf("%d transactions, %d sessions told to go between them", done.Load(), told.Load())
}

// pause lets a moment pass before something is tried again.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(50 * time.Millisecond):
	}
}
