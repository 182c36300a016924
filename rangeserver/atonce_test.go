package rangeserver_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/kv"
)

// apart is a cluster of n nodes with Supported leases, all a delay from each other, of which all have a replica of each range.
func apart(t *testing.T, n int, delay time.Duration) *cluster {
	t.Helper()
	c := newCluster(t, n)
	c.supported = true
	all := make([]int, n)
	for i, n := range c.nodes {
		n.start(i == 0)
		all[i] = i + 1
	}
	check(t, c.put("a", "1"))
	for id := range kv.RangeID(2) {
		check(t, c.nodes[0].store.ChangeReplicas(context.Background(), id+1, targets(all...)))
	}
	for _, a := range c.nodes {
		for _, b := range c.nodes {
			c.net.Slow(a.machine.Name, b.machine.Name, delay)
		}
	}
	time.Sleep(5 * time.Second)
	return c
}

// leasesAtOnce counts the leases that new leaders asked for with their first entries.
func (c *cluster) leasesAtOnce() (n int64) {
	for _, x := range c.nodes {
		n += x.store.Metrics.LeasesAtOnce.Load()
	}
	return n
}

// TestLeaseAtOnce: a leaseholder dies. The next leader has the lease one round trip to a quorum after its election, since it asks for it in the first message of its term (replica.R14); so does
// one that has to send it again to a voter whose log is behind, and that voter has all of the log in the end. The lease starts after all that the dead leaseholder has served, whose clock was
// ahead (lease.RL7), and serves timestamps ahead of the clock (lease.RL5).
func TestLeaseAtOnce(t *testing.T) {
	const delay = 40 * time.Millisecond
	for _, behind := range []bool{false, true} {
		t.Run(fmt.Sprintf("behind=%v", behind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := apart(t, 5, delay)
				defer c.stop()
				atOnce := 0
				for round := range 4 {
					old := c.leaseholder(2)
					check(t, c.put("a", fmt.Sprint(round)))
					var late *node
					if behind {
						late = c.nodes[int(old.id)%5]
						c.net.Partition(old.machine.Name, late.machine.Name)
						for i := range 5 {
							check(t, c.put("b", fmt.Sprint(round, i)))
						}
					}
					// Its clock is ahead of the others', and it serves timestamps up to the end of its support.
					old.machine.Clock.SetOffset(400 * time.Millisecond)
					time.Sleep(time.Second)
					latest := clock.Timestamp{}
					for d := time.Second; latest.IsZero(); d -= 10 * time.Millisecond {
						at := old.clock.Now().Add(d)
						if seq, ok := old.store.Replica(2).CheckLease(at); ok {
							c.serve(2, seq, at, old.id)
							latest = at
						}
					}
					before := c.leasesAtOnce() - old.store.Metrics.LeasesAtOnce.Load()
					old.crash(0)
					var next *node
					for begun := time.Now(); next == nil; time.Sleep(time.Millisecond) {
						for _, n := range c.nodes {
							if n.isUp() && n.store.Replica(2).IsLeader() {
								next = n
							}
						}
						if time.Since(begun) > 10*time.Second {
							t.Fatal("nobody is elected")
						}
					}
					elected := time.Now()
					for !next.store.Replica(2).Status().LeaseHeld && time.Since(elected) < 10*time.Second {
						time.Sleep(time.Millisecond)
					}
					// Now and then raft's own time-out elects it before a majority has withdrawn from the dead one.
					took := time.Since(elected)
					if c.leasesAtOnce()-old.store.Metrics.LeasesAtOnce.Load() > before {
						if atOnce++; took > 3*delay {
							t.Errorf("round %d: n%d has the lease %v after its election", round, next.id, took)
						}
					}
					if l, _ := next.store.Replica(2).Lease(); l.Start.LessEq(latest) {
						t.Errorf("round %d: lease %d of n%d starts at %v, and n%d has served %v", round, l.Sequence, next.id, l.Start, old.id, latest)
					}
					// A timestamp before the lease's start is served once that is in reach.
					ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
					if _, err := next.store.Replica(2).EnsureLease(ctx, next.clock.Now().Add(2*time.Second)); err != nil {
						t.Errorf("round %d: n%d does not serve the future: %v", round, next.id, err)
					}
					cancel()
					c.net.HealAll()
					if v, err := c.get("a"); err != nil || v != fmt.Sprint(round) {
						t.Errorf("round %d: %q, %v", round, v, err)
					}
					old.machine.Clock.SetOffset(0)
					old.start(false)
					time.Sleep(5 * time.Second)
					if behind && late.store.Replica(2).AppliedIndex() != next.store.Replica(2).AppliedIndex() {
						t.Errorf("round %d: n%d has applied entry %d, n%d %d", round, late.id, late.store.Replica(2).AppliedIndex(), next.id, next.store.Replica(2).AppliedIndex())
					}
				}
				c.checkLeases()
				if atOnce < 2 {
					t.Errorf("%d of 4 leases were asked for at once", atOnce)
				}
			})
		})
	}
}

// TestLeasesOfFalseElections: leaders are replaced though their nodes live, are cut off in part or altogether, or lose their power, at random moments. A leader takes no lease before the one
// before is over (lease.RL7): what is served under a lease lies after all that was served under earlier ones (I5).
func TestLeasesOfFalseElections(t *testing.T) {
	seeds := 4
	if testing.Short() {
		seeds = 1
	}
	if n, err := strconv.Atoi(os.Getenv("MERIDIAN_SEEDS")); err == nil {
		seeds = n
	}
	for seed := range seeds {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { falseElections(t, uint64(seed)) })
		})
	}
}

func falseElections(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 11))
	c := apart(t, 5, 20*time.Millisecond)
	defer c.stop()
	for _, n := range c.nodes {
		n.machine.Clock.SetOffset(time.Duration(rng.Int64N(400)-200) * time.Millisecond)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for i, n := range c.nodes {
		wg.Go(func() { // a client that knows only this node
			for k := 0; ; k++ {
				select {
				case <-done:
					return
				case <-time.After(time.Duration(3+i) * time.Millisecond):
				}
				if n.inside.Add(1); n.isUp() {
					ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
					req := kv.Request(&kv.GetRequest{Key: tkey("a")})
					if k%20 == 0 {
						req = &kv.PutRequest{Key: tkey("a"), Value: []byte(fmt.Sprint(i, k))}
					}
					_, _ = n.store.Send(ctx, &kv.Batch{Header: kv.Header{RangeID: 2}, Requests: []kv.Request{req}})
					cancel()
					if r := n.store.Replica(2); r != nil { // it reads ahead of the clock, too
						l, _ := r.Lease()
						at := n.clock.Now().Add(time.Duration(k%8) * 100 * time.Millisecond).Forward(l.Start)
						if seq, ok := r.CheckLease(at); ok && seq == l.Sequence {
							c.serve(2, seq, at, n.id)
						}
					}
				}
				n.inside.Add(-1)
			}
		})
	}
	for range 60 {
		time.Sleep(time.Duration(100+rng.IntN(1500)) * time.Millisecond)
		var holder *node
		up := 0
		for _, n := range c.nodes {
			if n.isUp() {
				if up++; n.store.Replica(2).Status().LeaseHeld {
					holder = n
				}
			}
		}
		other := c.nodes[rng.IntN(5)]
		if holder == nil {
			holder = c.nodes[rng.IntN(5)]
		}
		switch rng.IntN(8) {
		case 0:
			c.net.Isolate(holder.machine.Name)
		case 1:
			c.net.Partition(holder.machine.Name, other.machine.Name)
		case 2:
			c.net.PartitionOneWay(holder.machine.Name, other.machine.Name)
		case 3:
			if up == 5 && holder.isUp() {
				holder.crash(rng.IntN(100))
			}
		case 4, 5:
			c.net.HealAll()
			for _, n := range c.nodes {
				if !n.isUp() {
					n.start(false)
				}
			}
		}
		for _, n := range c.nodes {
			if n != holder && n.isUp() {
				if r := n.store.Replica(2); r != nil {
					_, leader := r.Leader()
					r.LeaderDied(leader)
				}
			}
		}
	}
	c.net.HealAll()
	for _, n := range c.nodes {
		if !n.isUp() {
			n.start(false)
		}
	}
	time.Sleep(5 * time.Second)
	close(done)
	wg.Wait()
	c.checkLeases()
	l, _ := c.leaseholder(2).store.Replica(2).Lease()
	t.Logf("%d leases, %d requests served, %d leases at once since the last starts", l.Sequence, len(c.served), c.leasesAtOnce())
	if l.Sequence < 5 || len(c.served) < 1000 {
		t.Error("little has happened")
	}
}
