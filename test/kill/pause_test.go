package kill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/history"
	"meridian/test/process"
)

const (
	// pauseFor is well past any lease: others have taken over when the paused node goes on.
	pauseFor    = 12 * time.Second
	pauseKeys   = 6
	pauseLimit  = 3 * time.Second // of one operation
	pauseClient = 9
)

// TestPausedLeaseholder stops each node in turn past its leases, and lets it go on, while clients read and write
// registers everywhere. A node that slept through the end of its lease must not serve a read, nor acknowledge a write, as
// if it still had it: every key stays linearizable (I4, I5), so nothing that was acknowledged is lost (I1).
func TestPausedLeaseholder(t *testing.T) {
	c := start(t)
	dice := seed(t)
	ctx := t.Context()
	prepare(t, c, nil, "CREATE TABLE reg (id int PRIMARY KEY, v bigint NOT NULL)",
		fmt.Sprintf("INSERT INTO reg SELECT g, 0 FROM generate_series(0, %d) AS g", pauseKeys-1), "ALTER TABLE reg SPLIT AT VALUES (2), (4)")
	regs, stop := &history.Registers{}, make(chan struct{})
	var wg sync.WaitGroup
	begun := time.Now()
	for i := range pauseClient {
		mine := rand.New(rand.NewPCG(dice.Uint64(), uint64(i)))
		wg.Go(func() { registerClient(ctx, c.Nodes[i%3], regs, i, mine, begun, stop) })
	}
	for _, i := range dice.Perm(len(c.Nodes)) {
		time.Sleep(3 * time.Second)
		leases := -1
		if s, err := c.Nodes[i].Cluster(ctx); err == nil {
			for _, n := range s.Nodes {
				if int(n.ID) == i+1 {
					leases = int(n.Leases)
				}
			}
		}
		okBefore, _, _ := regs.Count()
		c.Nodes[i].Pause()
		time.Sleep(pauseFor)
		okAfter, _, _ := regs.Count()
		c.Nodes[i].Resume()
		t.Logf("node %d (%d leases) slept for %s: %d operations were answered by the others", i+1, leases, pauseFor, okAfter-okBefore)
		if okAfter == okBefore {
			t.Errorf("nobody was served while node %d slept", i+1)
		}
	}
	time.Sleep(5 * time.Second)
	close(stop)
	wg.Wait()
	if dead := c.Died(); len(dead) > 0 {
		t.Logf("nodes %v stopped themselves", dead)
	}
	// The rows that are there in the end, from a node that runs.
	last, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for i, n := range c.Nodes {
		if n.PID() == 0 {
			continue
		}
		if err := n.WaitSQL(last); err != nil {
			t.Fatal(err)
		}
		conn, err := pgx.Connect(last, n.URL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		for k := range pauseKeys {
			o := regs.Begin(history.Op{Client: 1000 + i, Key: k, When: time.Since(begun)})
			var v int64
			if err := conn.QueryRow(last, "SELECT v FROM reg WHERE id = $1", k).Scan(&v); err != nil {
				t.Fatalf("node %d, key %d: %v", i+1, k, err)
			}
			regs.OK(o, v, false)
		}
		conn.Close(last)
	}
	ok, failed, unknown := regs.Count()
	t.Logf("%d operations were answered, %d failed, %d unknown", ok, failed, unknown)
	if err := regs.Check(time.Minute); err != nil {
		t.Error(err)
	}
}

// registerClient reads, writes, and compares and sets registers through one node, until it is stopped.
func registerClient(ctx context.Context, n *process.Node, regs *history.Registers, id int, dice *rand.Rand, begun time.Time, stop chan struct{}) {
	var conn *pgx.Conn
	next := int64(id+1) * 1_000_000
	for {
		select {
		case <-stop:
			if conn != nil {
				conn.Close(ctx)
			}
			return
		case <-time.After(time.Duration(20+dice.IntN(60)) * time.Millisecond):
		}
		limit, cancel := context.WithTimeout(ctx, pauseLimit)
		if conn == nil || conn.IsClosed() {
			var err error
			if conn, err = pgx.Connect(limit, n.URL("postgres")); err != nil {
				conn = nil
				cancel()
				continue
			}
		}
		next++
		op := history.Op{Client: id, Key: dice.IntN(pauseKeys), Value: next, When: time.Since(begun)}
		var err error
		var v int64
		swapped := false
		var o *history.Op
		switch dice.IntN(3) {
		case 0:
			o = regs.Begin(op)
			err = conn.QueryRow(limit, "SELECT v FROM reg WHERE id = $1", op.Key).Scan(&v)
		case 1:
			op.Kind = history.Write
			o = regs.Begin(op)
			_, err = conn.Exec(limit, "UPDATE reg SET v = $2 WHERE id = $1", op.Key, op.Value)
		default:
			if err = conn.QueryRow(limit, "SELECT v FROM reg WHERE id = $1", op.Key).Scan(&op.Expected); err != nil {
				cancel()
				continue
			}
			op.Kind = history.CAS
			o = regs.Begin(op)
			var tag pgconn.CommandTag
			tag, err = conn.Exec(limit, "UPDATE reg SET v = $2 WHERE id = $1 AND v = $3", op.Key, op.Value, op.Expected)
			swapped = tag.RowsAffected() == 1
		}
		cancel()
		var pg *pgconn.PgError
		switch {
		case err == nil:
			regs.OK(o, v, swapped)
		case errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01"):
			regs.Failed(o, pg.Code)
		default:
			regs.Unknown(o, err.Error())
		}
	}
}
