package sessions_test

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
	"meridian/sim/simcluster/simtest"
)

// The rows that an adder writes.
const (
	oneRange = iota
	twoRanges
	hotRow
)

// adder is a client that adds to rows, one statement after the other.
type adder struct {
	kind, node int
	part       int // of the table, in which its rows are

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

// TestChangeUnderLoad: a table goes to the leader protocol and back while 25 clients in five regions write: rows of their own in one range or in two, and one that a client of each region shares. Nothing
// is lost or done twice, no statement fails, and a change ends in seconds. The pause of a client is by how much its longest time between two commits during the change exceeds its usual one; that of
// a range is the longest time in which none of its clients commits. Its bounds are about twice the longest that a hundred runs had, some of them on a busy machine: what is usual is in docs/ranges.md.
func TestChangeUnderLoad(t *testing.T) {
	const s = time.Second
	for _, one := range []*changeLoad{
		{parts: 1, statement: 30 * s, none: s, median: [3]time.Duration{oneRange: 2 * s, hotRow: 8 * s}, most: [3]time.Duration{oneRange: 5 * s, hotRow: 20 * s}},
		{parts: 4, statement: 30 * s, none: 8 * s, median: [3]time.Duration{5 * s, 8 * s, 12 * s}, most: [3]time.Duration{10 * s, 12 * s, 25 * s}},
	} {
		t.Run(fmt.Sprintf("ranges=%d", one.parts), func(t *testing.T) {
			synctest.Test(t, one.run)
		})
	}
}

// changeLoad is such a table: its rows are in some parts, and those of its index in a range more if these are several.
type changeLoad struct {
	parts           int
	statement, none time.Duration    // bounds of a change, and of a range's pause
	median, most    [3]time.Duration // of clients' pauses
}

func (w *changeLoad) run(t *testing.T) {
	c := simcluster.Start(t, simcluster.Options{Regions: sim.FiveRegions(), NodesPerRegion: 1, Log: simtest.LogTo()})
	simtest.Exec(t, simtest.Connect(t, c, 0), "SET CLUSTER SETTING replicas.voters = 5")
	simtest.Replicated(t, c, 5)
	simtest.Exec(t, simtest.Connect(t, c, 0), "CREATE DATABASE d")
	conn := simtest.ConnectTo(t, c, 0, "d")
	simtest.Exec(t, conn, "CREATE TABLE counts (id int PRIMARY KEY, n int NOT NULL, tag int, INDEX (tag)) WITH (commit_protocol = 'fast_paxos')")
	const clients, own = 25, 8
	const rows = clients * own
	if w.parts > 1 {
		for i := range w.parts - 1 {
			simtest.Exec(t, conn, fmt.Sprintf("ALTER TABLE counts SPLIT AT VALUES (%d)", rows/w.parts*(i+1)))
		}
		simtest.Exec(t, conn, "ALTER INDEX counts_tag_idx SPLIT AT VALUES (0)")
	}
	simtest.Exec(t, conn, fmt.Sprintf("INSERT INTO counts SELECT i, 0, i FROM generate_series(0, %d) i", rows-1))
	time.Sleep(10 * time.Second)
	var stop atomic.Bool
	var all []*adder
	var wg sync.WaitGroup
	for i := range clients {
		a := &adder{kind: oneRange, node: i % c.Len()}
		set, first, number := "n = n + 1", i*own, own
		switch {
		case i >= clients-c.Len():
			a.kind, first, number = hotRow, rows-1, 1
		case w.parts > 1 && i%2 == 1:
			a.kind, set = twoRanges, "n = n + 1, tag = tag + 10000"
		}
		a.part = first * w.parts / rows
		conn := simtest.ConnectTo(t, c, a.node, "d")
		all = append(all, a)
		wg.Go(func() {
			a.run(conn, &stop, func(n int) (int, string) {
				id := first + n%number
				return id, fmt.Sprintf("UPDATE counts SET %s WHERE id = %d", set, id)
			})
		})
	}
	time.Sleep(5 * time.Second)
	quiet := time.Now().Add(-4 * time.Second)
	for _, to := range []kv.Protocol{kv.Leader, kv.FastPaxos} {
		begun := time.Now()
		if _, err := conn.Exec(context.Background(), "ALTER TABLE counts SET (commit_protocol = '"+to.String()+"')"); err != nil {
			t.Error(err)
		}
		ended := time.Now()
		time.Sleep(5 * time.Second)
		settled := time.Now().Add(-3 * time.Second)
		var pauses [3][]time.Duration
		for _, a := range all {
			usual := max(a.usual(quiet, begun), a.usual(settled, time.Now()))
			pauses[a.kind] = append(pauses[a.kind], a.longest(begun, ended.Add(2*time.Second))-usual)
		}
		took, none := ended.Sub(begun), make([]time.Duration, w.parts)
		for part := range none {
			none[part] = nobody(all, part, begun, ended.Add(2*time.Second))
		}
		t.Logf("to %s: the statement took %v; nobody committed in the ranges for %v", to, took, none)
		if took > w.statement || slices.Max(none) > w.none {
			t.Errorf("to %s: it took too long", to)
		}
		for kind, p := range pauses {
			if len(p) == 0 {
				continue
			}
			slices.Sort(p)
			median, most := p[len(p)/2], p[len(p)-1]
			t.Logf("   %s: pauses of %v at the median, %v at most", [...]string{"one range", "two ranges", "one row for all"}[kind], median, most)
			if median > w.median[kind] || most > w.most[kind] {
				t.Errorf("to %s: clients pause for too long", to)
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
		if got := simtest.Ask[int](t, conn, fmt.Sprintf("SELECT n FROM counts WHERE id = %d", id)); got < n || got > n+unsure[id] {
			t.Errorf("row %d has %d updates, want %d", id, got, n)
		}
	}
	if n := simtest.Ask[int](t, conn, "SELECT count(*) FROM counts@counts_tag_idx AS i JOIN counts AS r ON i.id = r.id AND i.tag = r.tag"); n != rows {
		t.Errorf("%d rows are in the index with what they have", n)
	}
}

// nobody is the longest time in a window in which no client commits that has rows of its own in one range, which is a part of the table.
func nobody(all []*adder, part int, from, to time.Time) (gap time.Duration) {
	var acks []time.Time
	for _, a := range all {
		a.mu.Lock()
		for _, at := range a.acks {
			if a.kind == oneRange && a.part == part && !at.Before(from) && !at.After(to) {
				acks = append(acks, at)
			}
		}
		a.mu.Unlock()
	}
	slices.SortFunc(acks, time.Time.Compare)
	for i := 1; i < len(acks); i++ {
		gap = max(gap, acks[i].Sub(acks[i-1]))
	}
	return gap
}
