package simcluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/replica"
	"meridian/replica/lease"
	"meridian/server"
	"meridian/setting"
	"meridian/sim/simcluster"
	"meridian/storage/engine"
)

// leases are the ranges that a node has the lease of.
func leases(n *server.Node) (out []kv.RangeID) {
	if n == nil || n.Store() == nil {
		return nil
	}
	n.Store().Replicas(func(r *replica.Replica) bool {
		if _, held := r.CheckLease(clock.Timestamp{}); held && r.Desc() != nil {
			out = append(out, r.RangeID())
		}
		return true
	})
	return out
}

// compared compares the replicas of every range, and returns those that deviate or have wrong statistics.
func compared(c *simcluster.Cluster) (problems []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for i := range c.Len() {
		n := c.Node(i)
		for _, id := range leases(n) {
			check, err := n.Store().CheckRange(ctx, id)
			var moved *kv.NotLeaseholderError
			var gone *kv.RangeNotFoundError
			switch {
			case errors.As(err, &moved) || errors.As(err, &gone):
			case err != nil:
				problems = append(problems, fmt.Sprintf("r%d can't be compared: %v", id, err))
			case len(check.Deviating) > 0:
				problems = append(problems, check.Deviating[0].Error())
			case check.Kept != check.Counted:
				problems = append(problems, fmt.Sprintf("r%d: statistics say %+v, a count %+v", id, check.Kept, check.Counted))
			case len(check.Missing) > 0:
				problems = append(problems, fmt.Sprintf("r%d: nothing was heard of the replicas on %v up to index %d%s", id, check.Missing, check.Index,
					replicasOn(c, id, check.Missing)))
			}
		}
	}
	return problems
}

// replicasOn describes the replicas of a range on some nodes, to tell one that lags behind from one that is not there.
func replicasOn(c *simcluster.Cluster, id kv.RangeID, nodes []kv.NodeID) (out string) {
	for i := range c.Len() {
		n := c.Node(i)
		if n == nil || n.Store() == nil || !slices.Contains(nodes, n.NodeID()) {
			continue
		}
		there := false
		n.Store().Replicas(func(r *replica.Replica) bool {
			if r.RangeID() == id {
				there = true
				st := r.Status()
				d, l := st.Desc, st.Lease
				st.Desc, st.Lease = nil, lease.Lease{}
				out += fmt.Sprintf("; node %d has %v, %v, %+v", n.NodeID(), d, l, st)
			}
			return true
		})
		if !there {
			out += fmt.Sprintf("; node %d has no replica", n.NodeID())
		}
	}
	return out
}

// compareSome compares the replicas of a random range during the campaign; a replica that deviates ends its node.
// Statistics have to be right at any moment.
func compareSome(c *simcluster.Cluster, dice *rand.Rand) error {
	n := c.Node(dice.IntN(c.Len()))
	ids := leases(n)
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	check, err := n.Store().CheckRange(ctx, ids[dice.IntN(len(ids))])
	switch {
	case err != nil:
		return nil // it moved, or has no quorum
	case len(check.Deviating) > 0:
		return check.Deviating[0]
	case check.Kept != check.Counted:
		return fmt.Errorf("r%d: statistics say %+v, a count %+v", check.Range, check.Kept, check.Counted)
	}
	return nil
}

// corrupt changes one byte of one of a range's rows in a node's store.
func corrupt(t *testing.T, n *server.Node, d *kv.RangeDescriptor) {
	t.Helper()
	e := n.Store().Engine()
	span := keys.UserSpan(d.Start, d.End)
	it, err := e.NewIter(engine.IterOptions{Lower: span.Start, Upper: span.Stop()})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			t.Fatal(err)
		}
		if len(v) == 0 {
			continue
		}
		v = slices.Clone(v)
		v[len(v)-1] ^= 1
		b := e.NewBatch()
		b.PutRaw(slices.Clone(it.RawKey()), v)
		if err := b.Commit(true); err != nil {
			t.Fatal(err)
		}
		_ = b.Close()
		return
	}
	t.Fatal("the range has no row")
}

// TestDeviatingReplica: a byte of one replica changes on disk. The comparison in the background finds it, and the node with
// that replica stops, whether it has the lease or not; its error names the reason, and it does not start again on that
// store. The others go on.
func TestDeviatingReplica(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"follower", "leaseholder", "one of two"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := simcluster.Start(t, simcluster.Options{Log: logTo()})
				replicated(t, c, 3)
				ctx := context.Background()
				conn := connect(t, c, 0)
				if err := admin(c, 0, &kv.AdminSplitRequest{Key: userKey(0), Keep: clock.MaxTimestamp}); err != nil {
					t.Fatal(err)
				}
				for i := range 5 {
					if err := put(ctx, c.Node(0).DB(), userKey(i), "v"); err != nil {
						t.Fatal(err)
					}
				}
				if err := c.TransferLease(ctx, userKey(0), 1); err != nil {
					t.Fatal(err)
				}
				exec(t, conn, "SET CLUSTER SETTING server.consistency_check.interval = '1m'")
				conn.Close(ctx)
				time.Sleep(3 * time.Minute)
				for i := range c.Len() {
					select {
					case err := <-c.Node(i).Failed():
						t.Fatalf("nothing is wrong, and n%d stops: %v", i+1, err)
					default:
					}
				}
				checks := func() (n int64) {
					for i := range c.Len() {
						if n1 := c.Node(i); n1 != nil {
							n += n1.Store().Metrics.RangeChecks.Load()
						}
					}
					return n
				}
				if n := checks(); n < 6 {
					t.Errorf("%d comparisons in three minutes of three ranges and more", n)
				}
				if problems := compared(c); len(problems) > 0 {
					t.Error(strings.Join(problems, "\n"))
				}

				info, err := c.Node(0).Router().Range(ctx, userKey(0), true)
				if err != nil {
					t.Fatal(err)
				}
				victim := 2
				switch where {
				case "leaseholder":
					victim = 1
				case "one of two":
					c.Crash(0, 0, false)
					time.Sleep(5 * time.Second)
					corrupt(t, c.Node(1), &info.Desc) // which had the lease, but may not have it any more
					victim = 1
					if slices.Contains(leases(c.Node(1)), info.Desc.ID) {
						victim = 2
					}
				}
				if where != "one of two" {
					corrupt(t, c.Node(victim), &info.Desc)
				}
				var deviation *rangeserver.DeviationError
				if err := fails(t, c, victim, 3*time.Minute); !errors.As(err, &deviation) {
					t.Fatalf("the node ends with %v", err)
				}
				t.Log(deviation)
				if deviation.Range != info.Desc.ID || deviation.Node != c.Node(victim).NodeID() || !slices.Equal(deviation.Parts, []string{"data"}) ||
					deviation.Hash == deviation.Other || deviation.Index == 0 {
					t.Errorf("%+v", deviation)
				}
				c.StopNode(victim)
				if where == "one of two" {
					return
				}
				healthy(t, c, 0)
				conn = connect(t, c, 0)
				exec(t, conn, "SET CLUSTER SETTING server.consistency_check.interval = 0") // or it would be found again
				c.Boot(victim)
				if err := fails(t, c, victim, time.Minute); !errors.As(err, &deviation) {
					t.Errorf("on the same store, the node ends with %v", err)
				}
				c.StopNode(victim)
				healthy(t, c, 0)
			})
		})
	}
}

// TestCheckOff: with the interval set to zero, no replicas are compared in the background.
func TestCheckOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: logTo(), Nodes: []int{1}})
		exec(t, connect(t, c, 0), "SET CLUSTER SETTING server.consistency_check.interval = 0")
		if d := c.Node(0).Settings().Duration(setting.CheckInterval); d != 0 {
			t.Errorf("the interval is %s", d)
		}
		time.Sleep(3 * time.Minute)
		if n := c.Node(0).Store().Metrics.RangeChecks.Load(); n != 0 {
			t.Errorf("%d comparisons", n)
		}
	})
}

// TestStatisticsSetRight: statistics that are wrong on all replicas alike are found and corrected.
func TestStatisticsSetRight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: logTo()})
		replicated(t, c, 3)
		ctx := context.Background()
		healthy(t, c, 0)
		if err := c.TransferLease(ctx, userKey(0), 0); err != nil {
			t.Fatal(err)
		}
		info, err := c.Node(0).Router().Range(ctx, userKey(0), true)
		if err != nil {
			t.Fatal(err)
		}
		s := c.Node(0).Store()
		r := s.Replica(info.Desc.ID)
		sequence, err := r.EnsureLease(ctx, clock.Timestamp{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Propose(ctx, &replica.Command{LeaseSequence: sequence, Delta: replica.Stats{LiveBytes: 7, IntentCount: 1}}); err != nil {
			t.Fatal(err)
		}
		check, err := s.CheckRange(ctx, info.Desc.ID)
		if err != nil || check.Kept.IntentCount != check.Counted.IntentCount+1 || len(check.Deviating) > 0 {
			t.Errorf("%+v, %v", check, err)
		}
		if check, err = s.CheckRange(ctx, info.Desc.ID); err != nil || check.Kept != check.Counted || len(check.Compared) != 3 {
			t.Errorf("afterwards: %+v, %v", check, err)
		}
		if n := s.Metrics.StatisticsWrong.Load(); n != 1 {
			t.Errorf("counted %d times", n)
		}
	})
}
