package simcluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/kv"
	"meridian/sim"
	"meridian/sim/simcluster"
)

// What an adder writes.
const (
	oneRange = iota
	twoRanges
	hotRow
)

// adder is a client that adds to rows, one statement after the other.
type adder struct {
	kind, node int

	mu            sync.Mutex // guards the fields below; nothing is taken after it
	acks          []time.Time
	added, unsure map[int]int // by rows
	failed        []string
}

func (a *adder) run(conn *pgx.Conn, stop *atomic.Bool, statement func(n int) (id int, q string)) {
	a.added, a.unsure = map[int]int{}, map[int]int{}
	for n := 0; !stop.Load(); n++ {
		id, q := statement(n)
		tag, err := conn.Exec(context.Background(), q)
		var e *pgconn.PgError
		a.mu.Lock()
		switch {
		case err == nil && tag.RowsAffected() == 1:
			a.acks = append(a.acks, time.Now())
			a.added[id]++
		case errors.As(err, &e) && e.Code == "40001":
		case errors.As(err, &e) && e.Code == "40003":
			a.unsure[id]++
		default:
			a.failed = append(a.failed, fmt.Sprint(err, tag))
		}
		a.mu.Unlock()
		time.Sleep(20 * time.Millisecond)
	}
}

// longest is the longest time between two acknowledged commits of which a part is in a window.
func (a *adder) longest(from, to time.Time) (gap time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := 1; i < len(a.acks); i++ {
		if !a.acks[i].Before(from) && !a.acks[i-1].After(to) {
			gap = max(gap, a.acks[i].Sub(a.acks[i-1]))
		}
	}
	return gap
}

// usual is the median time between two acknowledged commits in a window.
func (a *adder) usual(from, to time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []time.Duration
	for i := 1; i < len(a.acks); i++ {
		if a.acks[i-1].After(from) && a.acks[i].Before(to) {
			all = append(all, a.acks[i].Sub(a.acks[i-1]))
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// TestChangeUnderLoad: a table of five ranges with eight hundred rows goes to the leader protocol and back while clients in three regions write rows of their own, in one range and in two, and
// one that all share. Nothing is lost or done twice, no statement fails, and the changes end in seconds. The limits are what was measured, doubled: a change costs a client of one range about
// four rounds between the farthest regions (132 ms) at the median, one of two ranges ten. The end of a generation takes three or four rounds of the range's log, a client that was interrupted
// asks what became of its transaction, and begins it again. The shared row has turns, which everybody waits for anyway.
func TestChangeUnderLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions(), NodesPerRegion: 2, Log: logTo()})
		replicated(t, c, 3)
		exec(t, connect(t, c, 0), "CREATE DATABASE d")
		conn := connectTo(t, c, 0, "d")
		exec(t, conn, "CREATE TABLE counts (id int PRIMARY KEY, n int NOT NULL, tag int, INDEX (tag)) WITH (commit_protocol = 'fast_paxos')")
		const rows, parts = 800, 4
		for i := range parts - 1 {
			exec(t, conn, fmt.Sprintf("ALTER TABLE counts SPLIT AT VALUES (%d)", rows/parts*(i+1)))
		}
		exec(t, conn, "ALTER INDEX counts_tag_idx SPLIT AT VALUES (0)")
		for i := range rows / 100 {
			exec(t, conn, fmt.Sprintf("INSERT INTO counts SELECT i, 0, CASE WHEN i %% 2 = 0 THEN i ELSE -i END FROM generate_series(%d, %d) i", 100*i, 100*i+99))
		}
		time.Sleep(20 * time.Second)
		var stop atomic.Bool
		var all []*adder
		var wg sync.WaitGroup
		start := func(a *adder, statement func(n int) (int, string)) {
			conn := connectTo(t, c, a.node, "d")
			all = append(all, a)
			wg.Go(func() { a.run(conn, &stop, statement) })
		}
		for i := range c.Len() {
			for p := range parts {
				own := rows/parts*p + 1 + 10*i
				start(&adder{kind: oneRange, node: i}, func(n int) (int, string) {
					return own + n%9, fmt.Sprintf("UPDATE counts SET n = n + 1 WHERE id = %d", own+n%9)
				})
				start(&adder{kind: twoRanges, node: i}, func(n int) (int, string) {
					return 100 + own + n%9, fmt.Sprintf("UPDATE counts SET n = n + 1, tag = tag + 10000 WHERE id = %d", 100+own+n%9)
				})
			}
			start(&adder{kind: hotRow, node: i}, func(int) (int, string) { return 0, "UPDATE counts SET n = n + 1, tag = tag + 10000 WHERE id = 0" })
		}
		time.Sleep(10 * time.Second)
		quiet := time.Now().Add(-5 * time.Second)
		for _, to := range []kv.Protocol{kv.Leader, kv.FastPaxos} {
			begun := time.Now()
			if _, err := conn.Exec(context.Background(), "ALTER TABLE counts SET (commit_protocol = '"+to.String()+"')"); err != nil {
				t.Error(err)
			}
			ended := time.Now()
			time.Sleep(10 * time.Second)
			settled := time.Now().Add(-5 * time.Second)
			var pauses [3][]time.Duration
			for _, a := range all {
				usual := max(a.usual(quiet, begun), a.usual(settled, time.Now()))
				pauses[a.kind] = append(pauses[a.kind], a.longest(begun, ended.Add(3*time.Second))-usual)
			}
			t.Logf("to %s: the statement took %v", to, ended.Sub(begun))
			if took := ended.Sub(begun); took > 40*time.Second {
				t.Errorf("to %s: the statement took %v", to, took)
			}
			for kind, limit := range [...][2]time.Duration{oneRange: {4 * time.Second, 12 * time.Second}, twoRanges: {5 * time.Second, 18 * time.Second}, hotRow: {20 * time.Second, 40 * time.Second}} {
				p := pauses[kind]
				slices.Sort(p)
				median, longest := p[len(p)/2], p[len(p)-1]
				t.Logf("   %s: pauses of %v at the median, %v at most", [...]string{"one range", "two ranges", "one row for all"}[kind], median, longest)
				if median > limit[0] || longest > limit[1] {
					t.Errorf("to %s: pauses of %v at the median, %v at most", to, median, longest)
				}
			}
			quiet = settled
		}
		stop.Store(true)
		wg.Wait()
		time.Sleep(5 * time.Second)
		wanted, unsure := map[int]int{}, map[int]int{}
		for _, a := range all {
			for id, n := range a.added {
				wanted[id] += n
			}
			for id, n := range a.unsure {
				unsure[id] += n
			}
			if len(a.failed) > 0 {
				t.Errorf("node %d: %s", a.node+1, strings.Join(a.failed, "; "))
			}
		}
		for id, n := range wanted {
			if got := ask[int](t, conn, fmt.Sprintf("SELECT n FROM counts WHERE id = %d", id)); got < n || got > n+unsure[id] {
				t.Errorf("row %d has %d updates, want %d", id, got, n)
			}
		}
		if n := ask[int](t, conn, "SELECT count(*) FROM counts@counts_tag_idx AS i JOIN counts AS r ON i.id = r.id AND i.tag = r.tag"); n != rows {
			t.Errorf("%d rows are in the index with what they have", n)
		}
	})
}
