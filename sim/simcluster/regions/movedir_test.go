package regions_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/console"
	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/version"
)

// directory is what SHOW DIRECTORIES says of one.
type directory struct {
	ranges          int
	size            int64
	replicas, state string
	reason          *string
}

// directoryOf is a directory of a table, by its prefix.
func directoryOf(t *testing.T, conn *pgx.Conn, table, prefix string) (d directory) {
	t.Helper()
	if err := conn.QueryRow(context.Background(), "SELECT ranges, size, replicas, state, reason FROM meridian_internal.directories WHERE table_name = $1 AND prefix = $2", table, prefix).
		Scan(&d.ranges, &d.size, &d.replicas, &d.state, &d.reason); err != nil {
		t.Fatal(err)
	}
	return d
}

// visitor is a client that reads and writes the rows of a directory, and notes when it was answered.
type visitor struct {
	who, dir string
	answers  []time.Time
	acked    int
	failed   []string
}

func (r *visitor) run(conn *pgx.Conn, stop *atomic.Bool) {
	for n := 0; !stop.Load(); n++ {
		var err error
		if row := n / 2 % 50; n%2 == 0 {
			_, err = conn.Exec(context.Background(), fmt.Sprintf("UPDATE photos SET seen = seen + 1 WHERE owner = %s AND n = %d", r.dir, row))
			if err == nil {
				r.acked++
			}
		} else {
			var body int
			err = conn.QueryRow(context.Background(), fmt.Sprintf("SELECT length(body) FROM photos WHERE owner = %s AND n = %d", r.dir, row)).Scan(&body)
			if err == nil && body != photoBytes {
				err = fmt.Errorf("a body of %d bytes", body)
			}
		}
		if err != nil {
			r.failed = append(r.failed, err.Error())
			continue
		}
		r.answers = append(r.answers, time.Now())
		time.Sleep(10 * time.Millisecond)
	}
}

// longest is the longest time between two answers.
func (r *visitor) longest(from, to time.Time) (gap time.Duration) {
	for i := 1; i < len(r.answers); i++ {
		if !r.answers[i].Before(from) && !r.answers[i-1].After(to) {
			gap = max(gap, r.answers[i].Sub(r.answers[i-1]))
		}
	}
	return gap
}

const photoBytes = 10_000

// TestMovedir: a directory of 5 MB goes from one region to another while clients in both read and write it, and one a neighbour (Spanner §2.2). No statement fails, nothing is lost, the
// neighbours stay where they are, and a client waits no longer than for a change of replicas and of the lease. Then it goes back.
func TestMovedir(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simtest.ThreeContinents(t)
		root := simtest.Connect(t, c, 0)
		simtest.Exec(t, root, `CREATE PLACEMENT 'us, 3 replicas' WITH (num_replicas = 3, constraints = '[+region=us-east1]')`)
		simtest.Exec(t, root, `CREATE PLACEMENT 'eu, 3 replicas' WITH (num_replicas = 3, constraints = '[+region=europe-west1]')`)
		simtest.Exec(t, root, `CREATE DATABASE d`)
		simtest.Exec(t, root, `ALTER DATABASE d SET PLACEMENT 'us, 3 replicas'`)
		conn := simtest.ConnectTo(t, c, 0, "d")
		simtest.Exec(t, conn, `CREATE TABLE photos (owner int, n int, seen int NOT NULL, body text, PRIMARY KEY (owner, n))`)
		const rows = 500
		for owner := range 3 {
			for i := 0; i < rows; i += 50 {
				if owner != 1 && i > 0 {
					break // the neighbours are small
				}
				simtest.Exec(t, conn, `INSERT INTO photos SELECT $1, i, 0, repeat('x', $2) FROM generate_series($3::int, $4::int) i`, owner, photoBytes, i, i+49)
			}
		}
		simtest.Settle(t, c, conn, "photos", "3 us-east1; lease us-east1")

		var stop atomic.Bool
		var wg sync.WaitGroup
		clients := []*visitor{{who: "near", dir: "1"}, {who: "far", dir: "1"}, {who: "neighbour", dir: "0"}, {who: "next", dir: "2"}}
		for i, node := range []int{1, 6, 2, 2} {
			conn := simtest.ConnectTo(t, c, node, "d")
			wg.Go(func() { clients[i].run(conn, &stop) })
		}
		time.Sleep(5 * time.Second)
		move := func(placement, region string) (from, to time.Time) {
			from = time.Now()
			simtest.Exec(t, conn, fmt.Sprintf(`ALTER TABLE photos SET PLACEMENT '%s' FOR VALUES (1)`, placement))
			took := time.Since(from)
			var seen []string
			for d := (directory{}); ; time.Sleep(100 * time.Millisecond) {
				if d = directoryOf(t, conn, "photos", "(1)"); !slices.Contains(seen, d.state) {
					seen = append(seen, d.state)
				}
				if d.state == "settled" {
					if d.replicas != fmt.Sprintf("3 %s; lease %[1]s", region) || d.ranges != 1 || d.size < rows*photoBytes {
						t.Errorf("settled as %+v", d)
					}
					break
				}
				if time.Since(from) > time.Minute {
					t.Fatalf("not there after a minute: %+v %s", d, *d.reason)
				}
			}
			to = time.Now()
			if !slices.Equal(seen, []string{"moving", "settled"}) {
				t.Errorf("states: %s", seen)
			}
			t.Logf("to %s: the statement took %v, the move %v", region, took, to.Sub(from))
			if took > 5*time.Second || to.Sub(from) > 30*time.Second {
				t.Errorf("the statement took %v, the move %v", took, to.Sub(from))
			}
			return from, to
		}
		check := func(from, to time.Time) {
			for _, r := range clients {
				pause, usual := r.longest(from, to), r.longest(from.Add(-4*time.Second), from.Add(-time.Millisecond))
				t.Logf("%-10s %4d answers, longest pause %v, before the move %v", r.who, len(r.answers), pause, usual)
				if pause > time.Second {
					t.Errorf("%s was not answered for %v", r.who, pause)
				}
			}
		}
		out := [2]time.Time{}
		out[0], out[1] = move("eu, 3 replicas", "europe-west1")
		time.Sleep(5 * time.Second)
		back := [2]time.Time{}
		back[0], back[1] = move("us, 3 replicas", "us-east1")
		time.Sleep(2 * time.Second)
		stop.Store(true)
		wg.Wait()
		check(out[0], out[1])
		check(back[0], back[1])
		acked := map[string]int{}
		for _, r := range clients {
			acked[r.dir] += r.acked
			if len(r.failed) > 0 {
				t.Errorf("%s: %d statements failed, the first with %s", r.who, len(r.failed), r.failed[0])
			}
		}
		for dir, want := range acked {
			var got, count int
			if err := conn.QueryRow(context.Background(), "SELECT sum(seen), count(*) FROM photos WHERE owner = $1::int AND length(body) = $2", dir, photoBytes).Scan(&got, &count); err != nil {
				t.Fatal(err)
			}
			if got != want || dir == "1" && count != rows {
				t.Errorf("directory %s: %d updates of %d are there, in %d rows", dir, got, want, count)
			}
		}
	})
}

// TestMovedirNeighbours: only the directory moves. While its nodes are gone it is stuck, with the reason; when it has no placement any more, it goes back to where the table is.
func TestMovedirNeighbours(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simtest.ThreeContinents(t)
		root := simtest.Connect(t, c, 0)
		simtest.Exec(t, root, `CREATE PLACEMENT us WITH (num_replicas = 3, constraints = '[+region=us-east1]')`)
		simtest.Exec(t, root, `CREATE PLACEMENT eu WITH (num_replicas = 3, constraints = '[+region=europe-west1]')`)
		simtest.Exec(t, root, `CREATE TABLE users (id int PRIMARY KEY, v int)`)
		simtest.Exec(t, root, `INSERT INTO users SELECT i, i FROM generate_series(1, 9) i`)
		simtest.Exec(t, root, `ALTER TABLE users SET PLACEMENT us`)
		simtest.Settle(t, c, root, "users", "3 us-east1; lease us-east1")
		simtest.Exec(t, root, `ALTER TABLE users SET PLACEMENT eu FOR VALUES (5)`)
		home, away := "3 us-east1; lease us-east1", "3 europe-west1; lease europe-west1"
		simtest.Settle(t, c, root, "users", strings.Join([]string{home, away, home}, "\n"))
		if d := directoryOf(t, root, "users", "(5)"); d.state != "settled" {
			t.Errorf("%+v", d)
		}
		simtest.Exec(t, root, `ALTER TABLE users SET PLACEMENT us FOR VALUES (5)`)
		// The ranges are merged some time later.
		all := func(want string) {
			t.Helper()
			var got, state string
			for range 120 {
				if err := root.QueryRow(context.Background(), "SELECT replicas, state FROM meridian_internal.directories WHERE table_name = 'users' AND prefix IS NULL").Scan(&got, &state); err != nil {
					t.Fatal(err)
				}
				if got == want && state == "settled" {
					return
				}
				time.Sleep(500 * time.Millisecond)
			}
			t.Errorf("the table is at %s, %s; want %s", got, state, want)
		}
		all(home)
		c.Crash(7, 0, false)
		c.Crash(8, 0, false)
		time.Sleep(15 * time.Second)
		simtest.Exec(t, root, `ALTER TABLE users SET PLACEMENT eu FOR VALUES (5)`)
		time.Sleep(20 * time.Second)
		d := directoryOf(t, root, "users", "(5)")
		if d.state != "stuck" || d.reason == nil || *d.reason != "3 replicas wanted for constraint +region=europe-west1, which is satisfied by 1 node" {
			t.Errorf("%+v", d)
		}
		simtest.Exec(t, root, `UPDATE users SET v = 0 WHERE id = 5`)
		simtest.Exec(t, root, `ALTER TABLE users RESET PLACEMENT FOR VALUES (5)`)
		all(home)
	})
}

// TestUniverse: the console and SHOW UNIVERSE have the zones with their nodes, leaders and states, the moves between them and the directories that are not in place.
func TestUniverse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions(), NodesPerRegion: 3, Log: simtest.LogTo(), Configure: func(i int, o *server.Options) {
			if i == 0 {
				o.HTTPAddr = "n1:8080"
			}
		}})
		tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return c.Network.Node("monitor", "us-east1").Dial(ctx, addr)
		}}
		defer tr.CloseIdleConnections()
		ask := func() (a console.Cluster) {
			t.Helper()
			resp, err := (&http.Client{Transport: tr}).Get("http://n1:8080/api/v1/cluster")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
				t.Fatal(err)
			}
			return a
		}
		root := simtest.Connect(t, c, 0)
		simtest.Exec(t, root, `CREATE PLACEMENT us WITH (num_replicas = 3, constraints = '[+region=us-east1]')`)
		simtest.Exec(t, root, `CREATE PLACEMENT eu WITH (num_replicas = 3, constraints = '[+region=europe-west1]')`)
		simtest.Exec(t, root, `CREATE TABLE users (id int PRIMARY KEY, body text)`)
		simtest.Exec(t, root, `INSERT INTO users SELECT i, repeat('x', 100000) FROM generate_series(1, 60) i`)
		simtest.Exec(t, root, `ALTER TABLE users SET PLACEMENT us`)
		simtest.Settle(t, c, root, "users", "3 us-east1; lease us-east1")
		time.Sleep(10 * time.Second)
		a := ask()
		var leaders, replicas int64
		for _, z := range a.Zones {
			if z.State != "live" || len(z.Nodes) != z.Live || z.EpsilonMS != a.MaxOffsetMS || z.EpsilonMS <= 0 || z.Arriving+z.Leaving != 0 {
				t.Errorf("%+v", z)
			}
			leaders, replicas = leaders+z.Leaders, replicas+z.Replicas
		}
		if leaders < int64(a.RangeCount)-2 || leaders > int64(a.RangeCount)+2 || replicas < 3*leaders {
			t.Errorf("%d leaders and %d replicas of %d ranges", leaders, replicas, a.RangeCount)
		}
		if len(a.Directories) != 1 || a.Directories[0].Moving != 0 || a.Directories[0].Places != "3 us-east1; lease us-east1" || a.Directories[0].Placement != "us" {
			t.Errorf("directories: %+v", a.Directories)
		}
		// The whole table moves; then a part of it, which is stuck, since one of the nodes of that region has died.
		simtest.Exec(t, root, `ALTER TABLE users SET PLACEMENT eu`)
		arrows, away := 0, false
		for range 200 {
			a = ask()
			for _, r := range a.Moving {
				arrows += len(r.Coming)
			}
			if away = away || a.Directories[0].Moving > 0 && a.Directories[0].Reason != ""; a.Directories[0].Moving == 0 && away {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if arrows == 0 || !away || a.Directories[0].Moving != 0 {
			t.Errorf("%d replicas were seen to come, away: %v, now %+v", arrows, away, a.Directories)
		}
		c.Crash(3, 0, false)
		c.Crash(4, 0, false)
		c.Crash(5, 0, false)
		time.Sleep(20 * time.Second)
		simtest.Exec(t, root, `CREATE PLACEMENT two WITH (num_replicas = 3, constraints = '{"+region=us-west1": 1}')`)
		simtest.Exec(t, root, `ALTER TABLE users SET PLACEMENT two FOR VALUES (7)`)
		time.Sleep(2 * time.Second)
		a = ask()
		if d := a.Directories; len(d) != 2 || d[0].Prefix != "" || d[1].Prefix != "7" || !d[1].Stuck || d[0].Ranges < 3 {
			t.Errorf("directories: %+v", d)
		}
		var suspect, nodes int
		for _, z := range a.Zones {
			if z.Region == "us-west1" {
				suspect, nodes = suspect+z.Suspect, nodes+len(z.Nodes)
				if z.State != "suspect" {
					t.Errorf("%+v", z)
				}
			} else if z.State != "live" {
				t.Errorf("%+v", z)
			}
		}
		if suspect != 3 || nodes != 3 {
			t.Errorf("%d of %d nodes of us-west1 are suspect", suspect, nodes)
		}
		var zones, states string
		if err := root.QueryRow(context.Background(), "SELECT count(*)::text, string_agg(DISTINCT region || ' ' || state, ', ') FROM meridian_internal.universe").Scan(&zones, &states); err != nil {
			t.Fatal(err)
		}
		if zones != fmt.Sprint(len(a.Zones)) || states != "europe-west1 live, us-east1 live, us-west1 suspect" {
			t.Errorf("SHOW UNIVERSE has %s zones: %s", zones, states)
		}
		// After the time after which they are given up, they are dead.
		time.Sleep(6 * time.Minute)
		for _, z := range ask().Zones {
			if want := map[bool]string{true: "dead", false: "live"}[z.Region == "us-west1"]; z.State != want {
				t.Errorf("%+v, want %s", z, want)
			}
		}
	})
}

// TestPlacementsBeforeUpgrade: nothing of placements is written before the upgrade is finalized, since a node of the earlier binary could not read it.
func TestPlacementsBeforeUpgrade(t *testing.T) {
	t.Parallel()
	v := func(text string) version.Version { v, _ := version.Parse(text); return v }
	synctest.Test(t, func(t *testing.T) {
		run := version.Binary{Own: v("0.1-2"), Oldest: v("0.1")}
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo(), Configure: func(_ int, o *server.Options) { o.Binary = run }})
		conn := simtest.Connect(t, c, 0)
		simtest.Exec(t, conn, `CREATE TABLE t (id int PRIMARY KEY)`)
		refused := func(q, code string) {
			t.Helper()
			var pg *pgconn.PgError
			if _, err := conn.Exec(context.Background(), q); !errors.As(err, &pg) || pg.Code != code || pg.Hint == "" {
				t.Errorf("%s: %v", q, err)
			}
		}
		refused(`CREATE PLACEMENT three WITH (num_replicas = 3)`, "0A000")
		refused(`ALTER TABLE t SET PLACEMENT three FOR VALUES (1)`, "42704") // there can be none to be named
		run.Own = v("0.2")
		for i := range c.Machines {
			c.StopNode(i)
			c.Boot(i)
			c.WaitReady(i)
		}
		a := c.Admin(0)
		defer a.Close()
		if _, err := a.Finalize(t.Context(), func(*server.Upgrade) {}); err != nil {
			t.Fatal(err)
		}
		conn = simtest.Connect(t, c, 1)
		simtest.Exec(t, conn, `CREATE PLACEMENT three WITH (num_replicas = 3)`)
		simtest.Exec(t, conn, `ALTER TABLE t SET PLACEMENT three FOR VALUES (1)`)
	})
}
