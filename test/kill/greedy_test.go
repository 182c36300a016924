package kill

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/test/process"
)

// greedy are statements of which each would need gigabytes, or hours.
var greedy = []string{
	"select array_agg(repeat('x', 5000000) || i) from generate_series(1, 1200) i",
	"select string_agg(repeat('x', 1000000), ',') from generate_series(1, 100000) i",
	"select jsonb_object_agg(i, repeat('y', 1000)) from generate_series(1, 20000000) i",
	"select count(distinct i::text) from generate_series(1, 500000000) i",
	"select max(s) from (select repeat('x', 2000000) || i as s from generate_series(1, 10000) i) t group by s",
	"select length(regexp_replace(repeat('x', 60000000), 'x', 'yyyyyyyyyyyyyyyyyyyy', 'g'))",
	"select count(*) from string_to_table(repeat('a,', 30000000), ',')",
	"select jsonb_array_length(('[' || repeat('1,', 30000000) || '1]')::jsonb)",
	"select i from generate_series(1, 500000000) i order by i desc limit 1 offset 400000000",
	"select count(*) from generate_series(1, 50000000) a join generate_series(1, 50000000) b on a = b",
	"with x as materialized (select repeat('x', 1000000) || i from generate_series(1, 10000) i) select count(*) from x a, x b",
	"with recursive r(n, s) as (select 1, 'x' union all select n + 1, s || s from r where n < 40) select max(length(s)) from r",
	"select array_fill(repeat('x', 1000000), array[10000])",
	"select sum(n) over (order by n) from generate_series(1, 500000000) n",
	"select repeat('x', 60000000), repeat('x', 60000000), repeat('x', 60000000), repeat('x', 60000000), repeat('x', 60000000), repeat('x', 60000000)",
}

// TestGreedyStatements: many sessions ask a small node for more memory than it has, all the time. Each is refused with 53200
// or 54000; the process stays below its limit; others go on; and every node stays live: liveness is renewed in time, and no
// incarnation ends.
func TestGreedyStatements(t *testing.T) {
	const limitMiB = 1024
	c := start(t, "--max-memory", strconv.Itoa(limitMiB)+"MiB", "--cache", "64MiB")
	prepare(t, c, nil, "create table innocent (id int primary key, n int)", "insert into innocent select i, 0 from generate_series(1, 100) i")
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	var refused, done, slowest atomic.Int64
	for w := range 16 {
		wg.Go(func() {
			conn, err := pgx.Connect(ctx, c.Nodes[0].URL("postgres"))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close(context.Background())
			for i := w; ctx.Err() == nil; i++ {
				q := greedy[i%len(greedy)]
				_, err := conn.Exec(ctx, q)
				var e *pgconn.PgError
				switch {
				case ctx.Err() != nil:
					return
				case errors.As(err, &e) && (e.Code == "53200" || e.Code == "54000"):
					refused.Add(1)
				default:
					t.Errorf("%s: %v", q, err)
					if conn.IsClosed() {
						return
					}
				}
			}
		})
	}
	for w := range 4 {
		wg.Go(func() {
			conn, err := pgx.Connect(ctx, c.Nodes[w%3].URL("postgres"))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close(context.Background())
			for i := w; ctx.Err() == nil; i += 4 {
				began := time.Now()
				_, err := conn.Exec(ctx, "update innocent set n = n + 1 where id = $1", i%100+1)
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					t.Errorf("an innocent statement: %v", err)
					return
				}
				done.Add(1)
				if d := int64(time.Since(began)); d > slowest.Load() {
					slowest.Store(d)
				}
			}
		})
	}
	wg.Wait()
	if died := c.Died(); len(died) > 0 {
		t.Fatalf("nodes %v died", died)
	}
	most := peakMiB(t, c.Nodes[0].PID())
	late, n := histogram(t, c.Nodes[0], "meridian_heartbeat_late_seconds", "1.024")
	tick, ticks := histogram(t, c.Nodes[0], "meridian_raft_tick_late_seconds", "0.512")
	t.Logf("%d refused, %d innocent statements, the slowest %v; at most %d of %d MiB; heartbeats late by more than 1 s: %d of %d, ticks by more than 0.5 s: %d of %d",
		refused.Load(), done.Load(), time.Duration(slowest.Load()), most, limitMiB, late, n, tick, ticks)
	if refused.Load() < 16 || done.Load() < 100 {
		t.Errorf("%d refused, %d innocent statements", refused.Load(), done.Load())
	}
	if most == 0 || most >= limitMiB {
		t.Errorf("the process had %d MiB, its limit is %d", most, limitMiB)
	}
	if late > 0 || n == 0 || ticks == 0 {
		t.Errorf("%d of %d heartbeats were late by more than a second", late, n)
	}
	conn, err := pgx.Connect(t.Context(), c.Nodes[1].URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var sum int64
	if err := conn.QueryRow(t.Context(), "select sum(n) from innocent").Scan(&sum); err != nil || sum < done.Load() {
		t.Errorf("%d updates are there, %d were acknowledged (%v)", sum, done.Load(), err)
	}
}

// peakMiB is the most resident memory that a process ever had.
func peakMiB(t *testing.T, pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmHWM:" {
			kb, _ := strconv.Atoi(f[1])
			return kb >> 10
		}
	}
	return 0
}

// histogram reads how many of a histogram's values are above a bound, and how many there are.
func histogram(t *testing.T, n *process.Node, name, bound string) (above, all int) {
	r, err := http.Get("http://" + n.HTTP + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	below := 0
	for s := bufio.NewScanner(r.Body); s.Scan(); {
		f := strings.Fields(s.Text())
		if len(f) != 2 {
			continue
		}
		v, _ := strconv.ParseFloat(f[1], 64)
		switch {
		case strings.HasPrefix(f[0], name+"_bucket") && strings.Contains(f[0], `le="`+bound+`"`):
			below = int(v)
		case strings.HasPrefix(f[0], name+"_count"):
			all = int(v)
		}
	}
	return all - below, all
}
