package fastpaxos_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	fastpaxos "meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestBallotsOfTable: every node knows the policy of ballots that a table declares, within seconds of the statement, wherever that was run; also a node that was cut off, once it
// can be reached again. To look it up allocates nothing.
func TestBallotsOfTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions(), NodesPerRegion: 1, Log: simtest.LogTo()})
		conn, other := simtest.Connect(t, c, 0), simtest.Connect(t, c, 2)
		time.Sleep(20 * time.Second)
		var row keys.Key
		everywhere := func(want fastpaxos.Policy, nodes ...int) {
			t.Helper()
			begun := time.Now()
			for _, i := range nodes {
				for c.Node(i).Ballots(row) != want {
					if time.Since(begun) > 3*time.Second {
						t.Fatalf("node %d has the policy %v, want %v", i+1, c.Node(i).Ballots(row), want)
					}
					time.Sleep(10 * time.Millisecond)
				}
			}
			t.Logf("%v after %v", want, time.Since(begun))
		}
		silent := fastpaxos.Policy{Ballots: fastpaxos.FastBallots, Gamma: 100}
		everywhere(silent, 0, 1, 2) // of a key of no table

		simtest.Exec(t, conn, "CREATE TABLE f (id int PRIMARY KEY) WITH (commit_protocol = 'fast_paxos', fast_paxos_ballots = 'classic')")
		row = append(keys.IndexPrefix(simtest.Ask[uint32](t, conn, "SELECT 'f'::regclass::oid"), uint32(1)), 0x88)
		everywhere(fastpaxos.Policy{Ballots: fastpaxos.ClassicBallots, Gamma: 100}, 0, 1, 2)
		simtest.Exec(t, other, "ALTER TABLE f SET (fast_paxos_ballots = 'gamma', fast_paxos_gamma = 7)")
		everywhere(fastpaxos.Policy{Ballots: fastpaxos.GammaBallots, Gamma: 7}, 0, 1, 2)
		if n := testing.AllocsPerRun(100, func() { c.Node(1).Ballots(row) }); n != 0 {
			t.Errorf("to look up a policy allocates %v times", n)
		}
		simtest.Exec(t, other, "ALTER TABLE f SET (fast_paxos_ballots = 'learned'), RESET (fast_paxos_gamma)")
		everywhere(fastpaxos.Policy{Ballots: fastpaxos.LearnedBallots, Gamma: 100}, 0, 1, 2)

		c.Network.Isolate(c.Machines[1].Name)
		simtest.Exec(t, conn, "ALTER TABLE f SET (fast_paxos_ballots = 'classic')")
		everywhere(fastpaxos.Policy{Ballots: fastpaxos.ClassicBallots, Gamma: 100}, 0, 2)
		everywhere(fastpaxos.Policy{Ballots: fastpaxos.LearnedBallots, Gamma: 100}, 1)
		c.Network.HealAll()
		time.Sleep(10 * time.Second)
		everywhere(fastpaxos.Policy{Ballots: fastpaxos.ClassicBallots, Gamma: 100}, 1)

		simtest.Exec(t, conn, "ALTER TABLE f RESET (commit_protocol)")
		everywhere(silent, 0, 1, 2)
		simtest.Exec(t, conn, "DROP TABLE f")
		everywhere(silent, 0, 1, 2)
	})
}

// TestExplainBallots: EXPLAIN names the policy of ballots; with classic ones it says where the master is, and predicts the way to it, and from it to a majority.
func TestExplainBallots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		regions := sim.ThreeRegions()
		c := simcluster.Start(t, simcluster.Options{Regions: regions, NodesPerRegion: 1, Log: simtest.LogTo()})
		conn := simtest.Connect(t, c, 0)
		time.Sleep(20 * time.Second)
		simtest.Exec(t, conn, "CREATE TABLE f (id int PRIMARY KEY, n int) WITH (commit_protocol = 'fast_paxos')")
		home, nearest := "us-east1", regions.RTT("us-east1", "us-west1")
		if err := c.TransferLease(context.Background(), keys.TableKey(simtest.Ask[uint32](t, conn, "SELECT 'f'::regclass::oid")), 0); err != nil {
			t.Fatal(err)
		}
		for _, x := range []struct{ policy, says string }{
			{"fast", "fast_paxos; fast quorum 3 of 3, classic 2 of 3; 1 wide-area round, "},
			{"classic", "fast_paxos; classic, master in " + home + " (leaseholder); quorum 2 of 3; "},
			{"gamma", "fast_paxos; gamma, 100 classic ballots after a collision; fast quorum 3 of 3, classic 2 of 3; 1 wide-area round, "},
			{"learned", "fast_paxos; learned, classic ballots for hot rows; fast quorum 3 of 3, classic 2 of 3; 1 wide-area round, "},
		} {
			simtest.Exec(t, conn, "ALTER TABLE f SET (fast_paxos_ballots = '"+x.policy+"')")
			for i, from := range regions.Names {
				at := simtest.Connect(t, c, i)
				simtest.Exec(t, at, "SELECT * FROM f") // looks up the range
				lines := simtest.Plain(t, at, "EXPLAIN INSERT INTO f VALUES (1, 1)")
				if text := strings.Join(lines, "\n"); !strings.Contains(text, "commit of f: "+x.says) {
					t.Errorf("%s, from %s: want %q in\n%s", x.policy, from, x.says, text)
				}
				want, rounds := regions.RTT(from, "us-east1"), "1" // without a master, to the farthest
				for _, r := range regions.Names {
					want = max(want, regions.RTT(from, r))
				}
				if x.policy == "classic" {
					if want = regions.RTT(from, home) + nearest; from != home {
						rounds = "2"
					}
					if from == "europe-west1" { // it knows its own distances only: the way from the master to the other region is 45 ms at least
						want = regions.RTT(from, "us-west1")
					}
				}
				ms, err := strconv.Atoi(strings.TrimSuffix(simtest.Footer(t, lines, "predicted latency"), " ms"))
				if off := time.Duration(ms)*time.Millisecond - want; err != nil || off.Abs() > 2*time.Millisecond || simtest.Footer(t, lines, "wide-area rounds") != rounds {
					t.Errorf("%s, from %s: want %v in %s rounds:\n%s", x.policy, from, want, rounds, strings.Join(lines, "\n"))
				}
			}
		}
	})
}

// TestBallotsRounds: with classic ballots a write from the leaseholder's region takes one round trip to the third nearest of five replicas, also of a row that is new, or that nobody has written for minutes, and one
// from elsewhere the way to that region as well. With the other policies a row without collisions is written as with fast ballots.
func TestBallotsRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, regions := simtest.FiveAcceptors(t)
		simtest.Exec(t, simtest.Connect(t, c, 0), "CREATE DATABASE d")
		home := regions.Names[0]
		simtest.Exec(t, simtest.Connect(t, c, 0), "ALTER DATABASE d CONFIGURE ZONE USING num_replicas = 5, lease_preferences = '[[+region="+home+"]]'")
		conn := simtest.ConnectTo(t, c, 0, "d")
		policies := []string{"classic", "gamma", "learned"}
		rows, waits := 1, []time.Duration{2 * time.Minute}
		if simtest.All() {
			rows, waits = 3, append(waits, 10*time.Minute)
		}
		for _, policy := range policies {
			simtest.Exec(t, conn, "CREATE TABLE "+policy+" (id int PRIMARY KEY, n int, v text)")
			simtest.Exec(t, conn, "INSERT INTO "+policy+" SELECT i, i, 'x' FROM generate_series(1000, 1100) AS g(i)")
			simtest.Exec(t, conn, "ALTER TABLE "+policy+" SET (commit_protocol = 'fast_paxos', fast_paxos_ballots = '"+policy+"')")
		}
		time.Sleep(30 * time.Second)
		for _, i := range []int{0, 3} {
			conn, from := simtest.ConnectTo(t, c, i, "d"), regions.Names[i]
			run := func(policy string, n int, q string) {
				t.Helper()
				want := fourth(regions, from)
				if policy == "classic" {
					want = regions.RTT(from, home) + trips(regions, home)[2]
				}
				time.Sleep(2 * time.Second)
				begun := time.Now()
				simtest.Exec(t, conn, strings.ReplaceAll(strings.ReplaceAll(q, "$t", policy), "$n", strconv.Itoa(n)))
				took := time.Since(begun)
				t.Logf("%-20s %-60s %-8s %v of %v", from, q, policy, took, want)
				if took > want+max(want/20, 3*time.Millisecond) {
					t.Errorf("%s, %s from %s took %v, want %v", policy, q, from, took, want)
				}
			}
			for _, policy := range policies {
				simtest.Exec(t, conn, "SELECT * FROM "+policy)
				simtest.Exec(t, conn, "INSERT INTO "+policy+" VALUES ($1, 100, 'x')", 10*i) // the range's first write takes two rounds
				for n := 10*i + 1; n <= 10*i+rows; n++ {
					run(policy, n, "INSERT INTO $t VALUES ($n, 100, 'x')")
					run(policy, n, "UPDATE $t SET n = n + 1 WHERE id = $n")
					run(policy, n, "UPDATE $t SET v = 'y' WHERE id = $n")
					run(policy, n, "DELETE FROM $t WHERE id = $n")
					run(policy, 1000+n, "UPDATE $t SET n = n + 1 WHERE id = $n")
					run(policy, 1050+n, "UPDATE $t SET v = 'y' WHERE id IN ($n, $n + 10)")
				}
			}
			for _, wait := range waits {
				time.Sleep(wait)
				for _, policy := range policies {
					for n := 10*i + 1; n <= 10*i+rows; n++ {
						run(policy, n, "INSERT INTO $t VALUES ($n, 100, 'x')")
						run(policy, n, "DELETE FROM $t WHERE id = $n")
						run(policy, 1000+n, "UPDATE $t SET n = n + 1 WHERE id = $n")
						run(policy, 1050+n, "UPDATE $t SET v = 'y' WHERE id IN ($n, $n + 10)")
					}
				}
			}
		}
	})
}
