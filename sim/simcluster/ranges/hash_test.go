package ranges_test

import (
	"context"
	"errors"
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
	"meridian/server"
	"meridian/setting"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/storage/engine"
)

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
				c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
				simtest.Replicated(t, c, 3)
				ctx := context.Background()
				conn := simtest.Connect(t, c, 0)
				if err := simtest.Admin(c, 0, &kv.AdminSplitRequest{Key: simtest.UserKey(0), Keep: clock.MaxTimestamp}); err != nil {
					t.Fatal(err)
				}
				for i := range 5 {
					if err := simtest.Put(ctx, c.Node(0).DB(), simtest.UserKey(i), "v"); err != nil {
						t.Fatal(err)
					}
				}
				if err := c.TransferLease(ctx, simtest.UserKey(0), 1); err != nil {
					t.Fatal(err)
				}
				simtest.Exec(t, conn, "SET CLUSTER SETTING server.consistency_check.interval = '1m'")
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
				if problems := simtest.Compared(c); len(problems) > 0 {
					t.Error(strings.Join(problems, "\n"))
				}

				info, err := c.Node(0).Router().Range(ctx, simtest.UserKey(0), true)
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
					if slices.Contains(simtest.Leases(c.Node(1)), info.Desc.ID) {
						victim = 2
					}
				}
				if where != "one of two" {
					corrupt(t, c.Node(victim), &info.Desc)
				}
				var deviation *rangeserver.DeviationError
				if err := simtest.Fails(t, c, victim, 3*time.Minute); !errors.As(err, &deviation) {
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
				simtest.Healthy(t, c, 0)
				conn = simtest.Connect(t, c, 0)
				simtest.Exec(t, conn, "SET CLUSTER SETTING server.consistency_check.interval = 0") // or it would be found again
				c.Boot(victim)
				if err := simtest.Fails(t, c, victim, time.Minute); !errors.As(err, &deviation) {
					t.Errorf("on the same store, the node ends with %v", err)
				}
				c.StopNode(victim)
				simtest.Healthy(t, c, 0)
			})
		})
	}
}

// TestCheckOff: with the interval set to zero, no replicas are compared in the background.
func TestCheckOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo(), Nodes: []int{1}})
		simtest.Exec(t, simtest.Connect(t, c, 0), "SET CLUSTER SETTING server.consistency_check.interval = 0")
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
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
		simtest.Replicated(t, c, 3)
		ctx := context.Background()
		simtest.Healthy(t, c, 0)
		if err := c.TransferLease(ctx, simtest.UserKey(0), 0); err != nil {
			t.Fatal(err)
		}
		info, err := c.Node(0).Router().Range(ctx, simtest.UserKey(0), true)
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
