package sessions_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestTurnsTakeOneRound: clients far from the leaseholder wait for one row, which others read all the time. However long they have waited, each holds the lock for one
// round trip. Its transaction does not fall behind the timestamps that the range closes (leader.P26), and its commit is not refused for the reads of others or for what the
// range has closed ahead (coordinator.CO12): either would cost it seven round trips more.
func TestTurnsTakeOneRound(t *testing.T) {
	t.Parallel()
	for _, locality := range []string{"REGIONAL BY TABLE", "GLOBAL"} {
		t.Run(locality, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { turnsTakeOneRound(t, locality) }) })
	}
}

func turnsTakeOneRound(t *testing.T, locality string) {
	regions := sim.FiveRegions()
	c := simcluster.Start(t, simcluster.Options{Regions: regions, Nodes: []int{3, 0, 0, 0, 1}, MaxOffset: 250 * time.Millisecond, Log: simtest.LogTo(),
		Configure: func(_ int, o *server.Options) { o.NonVoters = 0 }})
	root := simtest.Connect(t, c, 0)
	simtest.Exec(t, root, `CREATE DATABASE d PRIMARY REGION "us-east1" REGIONS "australia-southeast1"`)
	near, reader := simtest.ConnectTo(t, c, 0, "d"), simtest.ConnectTo(t, c, 0, "d")
	simtest.Exec(t, near, "CREATE TABLE hot (id int PRIMARY KEY, v int) LOCALITY "+locality)
	simtest.Exec(t, near, "INSERT INTO hot VALUES (1, 0)")
	simtest.Settle(t, c, near, "hot", "1 (australia-southeast1), 3 us-east1; lease us-east1")
	time.Sleep(10 * time.Second)
	ctx := context.Background()
	const clients = 10
	begun, ended := make(chan bool), make(chan time.Time)
	for range clients {
		far := simtest.ConnectTo(t, c, 3, "d")
		update := func() {
			if _, err := far.Exec(ctx, "UPDATE hot SET v = v + 1 WHERE id = $1", 1); err != nil {
				t.Error(err)
			}
		}
		update() // prepares it
		go func() {
			for range begun {
				update()
				ended <- time.Now()
			}
		}()
	}
	rtt := regions.RTT(regions.Names[0], regions.Names[4])
	for _, held := range []time.Duration{time.Second, 5 * time.Second, 12 * time.Second} {
		simtest.Exec(t, near, "BEGIN")
		simtest.Exec(t, near, "UPDATE hot SET v = v + 1 WHERE id = 1")
		for range clients {
			begun <- true
		}
		time.Sleep(held)
		simtest.Exec(t, near, "COMMIT")
		begin := time.Now()
		stop, stopped := make(chan bool), make(chan bool)
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
					simtest.Exec(t, reader, "SELECT v FROM hot WHERE id = 1")
				}
			}
		}()
		var last time.Duration
		for range clients {
			last = max(last, (<-ended).Sub(begin))
		}
		close(stop)
		<-stopped
		// The first one hears that it has the lock half a round trip later. A write to a GLOBAL table waits until its timestamp has come.
		limit := clients*rtt + rtt/2 + 20*time.Millisecond
		if locality == "GLOBAL" {
			limit += 700 * time.Millisecond
		}
		if last > limit {
			t.Errorf("a lock was held for %v; then %d clients, %v away, took %v, and not %v", held, clients, rtt, last, limit)
		}
	}
	close(begun)
}
