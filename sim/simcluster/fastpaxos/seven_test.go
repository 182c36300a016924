package fastpaxos_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// sevenRegions are the five of the paper, and two more.
func sevenRegions(t *testing.T) *sim.Regions {
	t.Helper()
	r, err := sim.NewRegions(append(sim.FiveRegions().Names, "us-central1", "southamerica-east1"),
		63, 87, 155, 198, 33, 120,
		132, 90, 156, 35, 170,
		222, 274, 103, 200,
		113, 130, 256,
		175, 300,
		145)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestFastPaxosOfSeven: with seven voters a transaction commits in one round trip to the sixth nearest, from each region. When one is lost, the others are a fast quorum; when two are, masters decide, and when three are, too.
// Nothing that was acknowledged is lost meanwhile, and all seven have it afterwards.
func TestFastPaxosOfSeven(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		regions := sevenRegions(t)
		c := simcluster.Start(t, simcluster.Options{Regions: regions, NodesPerRegion: 1, Log: simtest.LogTo()})
		first := simtest.Connect(t, c, 0)
		simtest.Exec(t, first, "CREATE DATABASE d")
		simtest.Exec(t, first, "ALTER DATABASE d CONFIGURE ZONE USING num_replicas = 7")
		for _, name := range []string{"meta", "liveness", "system"} {
			// With five replicas, as by default, they may be at the three that are lost. Then leases of the schema end.
			simtest.Exec(t, first, "ALTER RANGE "+name+" CONFIGURE ZONE USING num_replicas = 7")
		}
		first = simtest.ConnectTo(t, c, 0, "d")
		simtest.Exec(t, first, "CREATE TABLE stock (id int PRIMARY KEY, n int CHECK (n >= 0), name text) WITH (commit_protocol = 'fast_paxos')")
		simtest.Exec(t, first, "INSERT INTO stock VALUES (7, 0, 'x')")
		time.Sleep(5 * time.Second)
		all, err := c.Ranges(context.Background(), 0)
		if err != nil {
			t.Fatal(err)
		}
		of := 0
		for i := range all {
			if all[i].Protocol != kv.FastPaxos || !keys.TableSpan(simtest.TableIDOf(t, first, "stock")).Overlaps(all[i].Span()) {
				continue
			}
			of++
			voters := 0
			for _, r := range all[i].Replicas {
				if r.Type == kv.Voter {
					voters++
				}
			}
			if voters != 7 {
				t.Errorf("%s has %d voters", all[i].Span(), voters)
			}
		}
		if of == 0 {
			t.Error("the table has no range of the protocol")
		}
		for i, from := range regions.Names {
			conn := simtest.ConnectTo(t, c, i, "d")
			row := strconv.Itoa(100 + i)
			simtest.Exec(t, conn, "SELECT * FROM stock")
			for _, q := range []string{"INSERT INTO stock VALUES (" + row + ", 0, 'x')", "UPDATE stock SET name = 'y' WHERE id = " + row, "UPDATE stock SET n = n + 1 WHERE id = " + row} {
				time.Sleep(2 * time.Second)
				begun := time.Now()
				simtest.Exec(t, conn, q)
				if took, want := time.Since(begun), trips(regions, from)[5]; took > want+max(want/20, 3*time.Millisecond) || took < want {
					t.Errorf("%s from %s took %v, want %v", q, from, took, want)
				}
			}
		}
		// Clients in the four regions that stay.
		stay := []int{0, 1, 2, 5}
		var wg sync.WaitGroup
		var mu sync.Mutex
		var phase, stop = 0, false
		acked, added := [4]int{}, 0 // by phase
		longest := [4]time.Duration{}
		for w, i := range stay {
			conn := simtest.ConnectTo(t, c, i, "d")
			simtest.Exec(t, conn, "SELECT * FROM stock")
			wg.Go(func() {
				for n := 0; ; n++ {
					mu.Lock()
					at, done := phase, stop
					mu.Unlock()
					if done {
						return
					}
					begun := time.Now()
					simtest.Exec(t, conn, "BEGIN; UPDATE stock SET n = n + 1 WHERE id = 7; INSERT INTO stock VALUES ("+strconv.Itoa(1000*(w+1)+n)+", 1, 'z'); COMMIT")
					took := time.Since(begun)
					mu.Lock()
					added++
					if at == phase { // not those that were under way when one was lost
						acked[at], longest[at] = acked[at]+1, max(longest[at], took)
					}
					mu.Unlock()
				}
			})
		}
		target := c.Target(1)
		for p, lost := range []int{-1, 6, 4, 3} {
			if lost >= 0 {
				target.Isolate(c.Names()[lost])
			}
			mu.Lock()
			phase = p
			mu.Unlock()
			time.Sleep(10 * time.Second)
		}
		mu.Lock()
		stop = true
		mu.Unlock()
		wg.Wait()
		t.Logf("committed with none, one, two and three lost: %v, in %v at most", acked, longest)
		const ms = time.Millisecond
		// From Europe to the sixth nearest, 222 ms; without South America, to Australia, 274. Masters take the rounds of a recovery as well, once in a while.
		for p, most := range []time.Duration{225 * ms, 280 * ms, 3000 * ms, 3000 * ms} {
			if n := acked[p]; n < 40 || longest[p] > most {
				t.Errorf("with %d lost %d were committed, in %v at most; want no more than %v", p, n, longest[p], most)
			}
		}
		for _, lost := range []int{6, 4, 3} {
			target.Rejoin(c.Names()[lost])
		}
		time.Sleep(30 * time.Second)
		for i := range c.Len() {
			conn := simtest.ConnectTo(t, c, i, "d")
			if n, rows := simtest.Ask[int](t, conn, "SELECT n FROM stock WHERE id = 7"), simtest.Ask[int](t, conn, "SELECT count(*) FROM stock WHERE id >= 1000"); n != added || rows != added {
				t.Errorf("%s: %d were added, %d rows inserted; %d were acknowledged", c.Names()[i], n, rows, added)
			}
		}
	})
}
