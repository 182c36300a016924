package regions_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/storage/engine"
	"meridian/version"
)

// The regions of the tests: nodes 0 to 2, 3 to 5, 6 to 8.
const (
	homeRegion    = "us-east1"
	otherRegion   = "us-west1"
	witnessRegion = "europe-west1"
)

// witnessed makes a database over two regions with a witness, and waits until two tables are in place.
func witnessed(t *testing.T, c *simcluster.Cluster) *pgx.Conn {
	t.Helper()
	simtest.Exec(t, simtest.Connect(t, c, 0), fmt.Sprintf(`CREATE DATABASE d PRIMARY REGION "%s" REGIONS "%s" WITNESS REGION "%s" SURVIVE REGION FAILURE`, homeRegion, otherRegion, witnessRegion))
	conn := simtest.ConnectTo(t, c, 0, "d")
	simtest.Exec(t, conn, "CREATE TABLE rows (id int PRIMARY KEY, n int NOT NULL, name text) LOCALITY REGIONAL BY ROW")
	simtest.Exec(t, conn, fmt.Sprintf(`CREATE TABLE far (id int PRIMARY KEY, n int NOT NULL, name text) LOCALITY REGIONAL BY TABLE IN "%s"`, otherRegion))
	for _, table := range []string{"rows", "far"} {
		simtest.Placed(t, table, func() (string, bool) {
			got, ok := simtest.PlacesOf(t, c, conn, table), true
			for line := range strings.SplitSeq(got, "\n") {
				ok = ok && strings.HasPrefix(line, fmt.Sprintf("1 [%s], 2 %s, 2 %s;", witnessRegion, homeRegion, otherRegion))
			}
			return got, ok
		})
	}
	return conn
}

// found looks for a word in what the stores of the witness region have: where users' keys are, and elsewhere (the log).
func found(t *testing.T, c *simcluster.Cluster, word string) (rows, elsewhere []string) {
	t.Helper()
	for i := range c.Machines {
		if c.Machines[i].Region != witnessRegion {
			continue
		}
		c.On(i, func(_ context.Context, n *server.Node) {
			it, err := n.Store().Engine().NewIter(engine.IterOptions{Lower: keys.Key{1}, Upper: keys.Max})
			if err != nil {
				t.Fatal(err)
			}
			defer it.Close()
			for ok := it.First(); ok; ok = it.Next() {
				v, err := it.Value()
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Contains(v, []byte(word)) && !bytes.Contains(it.RawKey(), []byte(word)) {
					continue
				}
				k, _, _ := engine.SplitKey(it.RawKey())
				what := fmt.Sprintf("%s %s %q", c.Machines[i].Name, keys.PrettyPrint(k), v[:min(len(v), 80)])
				if _, err := keys.DecodeRangeIDKey(k); err == nil {
					elsewhere = append(elsewhere, what)
				} else {
					rows = append(rows, what)
				}
			}
		})
	}
	return rows, elsewhere
}

// tallies are clients that count, each a row of its own.
type tallies struct {
	mu                    sync.Mutex // guards the fields below
	acknowledged, unknown map[string]int
	lost                  time.Time
	longest               time.Duration

	stop    chan struct{}
	clients sync.WaitGroup
}

func newTallies() *tallies {
	return &tallies{acknowledged: map[string]int{}, unknown: map[string]int{}, stop: make(chan struct{})}
}

// count has a client of a node add to a row of a table.
func (s *tallies) count(t *testing.T, c *simcluster.Cluster, node int, table string, id int) {
	t.Helper()
	client, row := simtest.ConnectTo(t, c, node, "d"), fmt.Sprintf("%s %d", table, id)
	q := fmt.Sprintf("UPDATE %s SET n = n + 1 WHERE id = %d", table, id)
	s.clients.Go(func() {
		for {
			select {
			case <-s.stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
			begun := time.Now()
			_, err := client.Exec(context.Background(), q)
			var pg *pgconn.PgError
			if err != nil && !(errors.As(err, &pg) && pg.Code == "40003") {
				t.Errorf("%s from n%d: %v", q, node+1, err)
				return
			}
			s.mu.Lock()
			if err != nil {
				s.unknown[row]++
			} else {
				s.acknowledged[row]++
			}
			if !s.lost.IsZero() {
				s.longest = max(s.longest, time.Since(begun))
			}
			s.mu.Unlock()
		}
	})
}

// begun notes that something is about to be lost.
func (s *tallies) begun() {
	s.mu.Lock()
	s.lost = time.Now()
	s.mu.Unlock()
}

// end stops the clients and says how long a write took at most since begun.
func (s *tallies) end() time.Duration {
	close(s.stop)
	s.clients.Wait()
	s.stop, s.lost = make(chan struct{}), time.Time{}
	longest := s.longest
	s.longest = 0
	return longest
}

// check compares the rows with what was acknowledged.
func (s *tallies) check(t *testing.T, conn *pgx.Conn, when string) {
	t.Helper()
	for row, want := range s.acknowledged {
		var table string
		var id, n int
		if _, err := fmt.Sscan(row, &table, &id); err != nil {
			t.Fatal(err)
		}
		if err := conn.QueryRow(context.Background(), fmt.Sprintf("SELECT n FROM %s WHERE id = %d", table, id)).Scan(&n); err != nil || n < want || n > want+s.unknown[row] {
			t.Errorf("%s: %s: %d additions were acknowledged, of %d the outcome is unknown, and there are %d, %v", when, row, want, s.unknown[row], n, err)
		}
	}
}

// TestWitnessRegion: a database over two regions and a witness region survives the failure of each of the three: nothing that was acknowledged is lost, and
// writes go on within five seconds. Of the rows, the stores of the witness region have nothing but what is in the logs, for a few seconds.
func TestWitnessRegion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := simtest.ThreeContinents(t)
		conn := witnessed(t, c)
		for id := range 6 {
			home := []string{homeRegion, otherRegion}[id%2]
			simtest.Exec(t, conn, fmt.Sprintf("INSERT INTO rows (id, n, name, crdb_region) VALUES (%d, 0, 'gehe%04dimnis', '%s')", id, id, home))
			simtest.Exec(t, conn, fmt.Sprintf("INSERT INTO far (id, n, name) VALUES (%d, 0, 'gehe%04dimnis')", id, id))
		}
		time.Sleep(5 * time.Second)
		if rows, logs := found(t, c, "imnis"); len(rows)+len(logs) > 0 {
			t.Errorf("the witness region has\n%s\n%s", strings.Join(rows, "\n"), strings.Join(logs, "\n"))
		}

		s := newTallies()
		for _, phase := range []struct {
			region string
			nodes  []int // that are lost
			client int   // of this node, which is not
		}{
			{homeRegion, []int{0, 1, 2}, 3}, {otherRegion, []int{3, 4, 5}, 0}, {witnessRegion, []int{6, 7, 8}, 1},
		} {
			for id := range 6 {
				s.count(t, c, phase.client+id%2, "rows", id)
				s.count(t, c, phase.client+id%2, "far", id)
			}
			time.Sleep(3 * time.Second)
			s.begun()
			for _, i := range phase.nodes {
				c.Crash(i, 0, true)
			}
			time.Sleep(15 * time.Second)
			longest := s.end()
			t.Logf("%s is lost: a write took at most %v; unknown: %v", phase.region, longest, s.unknown)
			if longest > 5*time.Second {
				t.Errorf("%s is lost: a write took %v", phase.region, longest)
			}
			s.check(t, simtest.ConnectTo(t, c, phase.client, "d"), phase.region+" is lost")
			for _, i := range phase.nodes {
				c.Boot(i)
			}
			for _, i := range phase.nodes {
				c.WaitReady(i)
			}
			time.Sleep(20 * time.Second)
			s.check(t, simtest.ConnectTo(t, c, phase.nodes[0], "d"), phase.region+" is back")
		}
		if rows, logs := found(t, c, "imnis"); len(rows)+len(logs) > 0 {
			t.Errorf("in the end the witness region has\n%s\n%s", strings.Join(rows, "\n"), strings.Join(logs, "\n"))
		}
	})
}

// TestWitnessHasTheNewest: region B is cut off while region A writes with the witness' votes; then A is lost, and B comes back. The writes that A has
// acknowledged are in the witness' log alone, which is not truncated meanwhile (replica.R12), so B gets them from there.
func TestWitnessHasTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := simtest.ThreeContinents(t)
		conn := witnessed(t, c)
		for id := range 4 {
			simtest.Exec(t, conn, fmt.Sprintf("INSERT INTO rows (id, n, crdb_region) VALUES (%d, 0, '%s')", id, homeRegion))
		}
		time.Sleep(5 * time.Second)
		s := newTallies()
		c.Network.PartitionRegions(homeRegion, otherRegion)
		c.Network.PartitionRegions(witnessRegion, otherRegion)
		for id := range 4 {
			s.count(t, c, id%3, "rows", id)
		}
		time.Sleep(10 * time.Second)
		simtest.Exec(t, conn, "UPDATE rows SET name = 'gehe0000imnis'")
		if longest := s.end(); s.acknowledged["rows 0"] < 20 {
			t.Fatalf("only %v were acknowledged while a region was cut off, and a write took %v", s.acknowledged, longest)
		}
		time.Sleep(5 * time.Second)
		if rows, logs := found(t, c, "imnis"); len(rows) > 0 || len(logs) == 0 {
			t.Errorf("while the other region lacks them, the witness has %d rows and %d entries of the log", len(rows), len(logs))
		}
		for i := range 3 {
			c.Crash(i, 0, true)
		}
		time.Sleep(3 * time.Second)
		c.Network.HealAll()
		healed := time.Now()
		there := simtest.ConnectTo(t, c, 3, "d")
		simtest.Exec(t, there, "UPDATE rows SET n = n WHERE id = 0")
		t.Logf("%v were acknowledged; the other region writes %v after it is back", s.acknowledged, time.Since(healed))
		s.check(t, there, "the witness was the only one")
		for id := range 4 {
			s.count(t, c, 3+id%3, "rows", id)
		}
		time.Sleep(10 * time.Second)
		s.end()
		for i := range 3 {
			c.Boot(i)
		}
		for i := range 3 {
			c.WaitReady(i)
		}
		time.Sleep(20 * time.Second)
		s.check(t, simtest.ConnectTo(t, c, 0, "d"), "the lost region is back")
		if rows, logs := found(t, c, "imnis"); len(rows)+len(logs) > 0 {
			t.Errorf("when all have the rows, the witness has %v %v", rows, logs)
		}
	})
}

// TestWitnessIsReplaced: a witness whose node is dead for good is replaced by one on another node of its region, by a raft snapshot without rows; its votes count
// when a region is lost then. A comparison of replicas compares the part of the state that it has.
func TestWitnessIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := simtest.ThreeContinents(t)
		conn := witnessed(t, c)
		simtest.Exec(t, conn, "SET CLUSTER SETTING server.time_until_store_dead = '75s'")
		for id := range 3 {
			simtest.Exec(t, conn, fmt.Sprintf("INSERT INTO rows (id, n, name, crdb_region) VALUES (%d, 0, 'gehe%04dimnis', '%s')", id, id, homeRegion))
		}
		// witnesses are the nodes with those of the table's ranges.
		witnesses := func() map[kv.NodeID]bool {
			ranges, err := c.Ranges(context.Background(), 0)
			if err != nil {
				t.Fatal(err)
			}
			out := map[kv.NodeID]bool{}
			for _, d := range ranges {
				for _, r := range d.Replicas {
					if r.Witness {
						if out[r.Node] = true; r.Type != kv.Voter || simtest.RegionOf(c, r.Node) != witnessRegion {
							out[0] = true // changing
						}
					}
				}
			}
			return out
		}
		compared := func() {
			t.Helper()
			n := 0
			for i := range c.Machines {
				c.On(i, func(ctx context.Context, node *server.Node) {
					node.Store().Replicas(func(r *replica.Replica) bool {
						d := r.Desc()
						if _, held := r.CheckLease(clock.Timestamp{}); d == nil || !held || !d.HasWitness() {
							return true
						}
						got, err := node.Store().CheckRange(ctx, d.ID)
						if err != nil || len(got.Deviating) > 0 || len(got.Compared) != 5 {
							t.Errorf("r%d: %+v, %v", d.ID, got, err)
						}
						n++
						return true
					})
				})
			}
			if n == 0 {
				t.Error("no range was compared")
			}
		}
		time.Sleep(3 * time.Second)
		compared()
		had := witnesses()
		var lost []int
		for i := 6; i < 9 && len(lost) < 2; i++ { // one node remains
			if had[c.Node(i).NodeID()] {
				lost = append(lost, i)
			}
		}
		for _, i := range lost {
			c.Crash(i, 0, true)
		}
		gone := map[kv.NodeID]bool{}
		for n := range had {
			gone[n] = simtest.RegionOf(c, n) == "?"
		}
		simtest.Placed(t, "the witnesses", func() (string, bool) {
			now, ok := witnesses(), true
			for n := range now {
				ok = ok && n != 0 && !gone[n]
			}
			return fmt.Sprint(now), ok && len(now) > 0
		})
		time.Sleep(5 * time.Second)
		if rows, logs := found(t, c, "imnis"); len(rows)+len(logs) > 0 {
			t.Errorf("the new witness has %v %v", rows, logs)
		}
		compared()
		s := newTallies()
		for id := range 3 {
			s.count(t, c, 3+id, "rows", id)
		}
		time.Sleep(3 * time.Second)
		s.begun()
		for i := range 3 {
			c.Crash(i, 0, true)
		}
		time.Sleep(15 * time.Second)
		if longest := s.end(); longest > 5*time.Second {
			t.Errorf("a region is lost: a write took %v", longest)
		}
		s.check(t, simtest.ConnectTo(t, c, 3, "d"), "a region is lost")
	})
}

// TestWitnessBeforeUpgrade: nothing of witnesses is written before the upgrade is finalized, since a node of the earlier binary could not read it.
func TestWitnessBeforeUpgrade(t *testing.T) {
	v := func(text string) version.Version { v, _ := version.Parse(text); return v }
	synctest.Test(t, func(t *testing.T) {
		run := version.Binary{Own: v("0.1"), Oldest: v("0.1")}
		c := simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions(), NodesPerRegion: 2, Log: simtest.LogTo(), Configure: func(_ int, o *server.Options) { o.Binary = run }})
		conn := simtest.Connect(t, c, 0)
		simtest.Exec(t, conn, fmt.Sprintf(`CREATE DATABASE d PRIMARY REGION "%s" REGIONS "%s"`, homeRegion, otherRegion))
		refused := func(q string) {
			t.Helper()
			var pg *pgconn.PgError
			if _, err := conn.Exec(context.Background(), q); !errors.As(err, &pg) || pg.Code != "0A000" || pg.Hint == "" {
				t.Errorf("%s: %v", q, err)
			}
		}
		refused(fmt.Sprintf(`ALTER DATABASE d ADD WITNESS REGION "%s"`, witnessRegion))
		refused(fmt.Sprintf(`CREATE DATABASE e PRIMARY REGION "%s" REGIONS "%s" WITNESS REGION "%s"`, homeRegion, otherRegion, witnessRegion))
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
		conn = simtest.ConnectTo(t, c, 1, "d")
		simtest.Exec(t, conn, "CREATE TABLE rows (id int PRIMARY KEY)")
		simtest.Exec(t, conn, fmt.Sprintf(`ALTER DATABASE d ADD WITNESS REGION "%s"`, witnessRegion))
		simtest.Exec(t, conn, `ALTER DATABASE d SURVIVE REGION FAILURE`)
		simtest.Placed(t, "rows", func() (string, bool) {
			got := simtest.PlacesOf(t, c, conn, "rows")
			return got, strings.HasPrefix(got, fmt.Sprintf("1 [%s], 2 %s, 2 %s;", witnessRegion, homeRegion, otherRegion))
		})
	})
}
