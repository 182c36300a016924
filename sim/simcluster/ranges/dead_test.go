package ranges_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/txn"
)

// votersOf counts a range's voters, of the later configuration if it is a joint one.
func votersOf(d *kv.RangeDescriptor) (n int) {
	for _, r := range d.Replicas {
		if r.Type == kv.Voter || r.Type == kv.VoterIncoming {
			n++
		}
	}
	return n
}

// changesOf is every configuration that a range which begins at a key has ever had, the last one first: the versions of its
// descriptor, of which no change is without one.
func changesOf(ctx context.Context, db *txn.DB, start keys.Key) (out []kv.RangeDescriptor, err error) {
	for at := db.Clock().Now(); ; {
		var rows []kv.KeyValue
		err := db.Run(ctx, txn.TxnOptions{ReadOnly: true, AsOf: at}, func(ctx context.Context, tx *txn.Txn) error {
			k := keys.RangeDescriptorKey(start)
			rows, _, err = tx.Scan(ctx, txn.ScanOptions{Span: keys.Span{Start: k, End: k.Next()}})
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(rows) == 0 {
			return out, nil
		}
		d, err := kv.DecodeRangeDescriptor(rows[0].Value)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
		at = rows[0].Timestamp.Prev()
	}
}

// keptVoters checks every configuration change that any range of the cluster has ever applied: none leaves fewer voters than
// before if that is less than configured, and none ends at a larger even number. It returns the number of changes.
func keptVoters(t *testing.T, c *simcluster.Cluster, i, asked int) (changes int) {
	t.Helper()
	ctx := context.Background()
	ranges, err := c.Ranges(ctx, i)
	if err != nil {
		t.Error(err)
		return 0
	}
	for _, d := range ranges {
		history, err := changesOf(ctx, c.Node(i).DB(), d.Start)
		if err != nil {
			t.Errorf("r%d: %v", d.ID, err)
			continue
		}
		for j := 1; j < len(history); j++ {
			to, from := &history[j-1], &history[j]
			changes++
			if to.Generation != from.Generation+1 {
				t.Errorf("r%d: generation %d follows %d: a change is missing", d.ID, to.Generation, from.Generation)
			}
			before, after := votersOf(from), votersOf(to)
			if after < before && after < asked {
				t.Errorf("r%d: %d voters became %d, and %d are asked for: %v, then %v", d.ID, before, after, asked, from.Replicas, to.Replicas)
			}
			if after > before && after%2 == 0 {
				t.Errorf("r%d: %d voters became %d: %v, then %v", d.ID, before, after, from.Replicas, to.Replicas)
			}
		}
	}
	return changes
}

// TestDeadCampaign kills nodes of clusters of three to nine, for minutes, or hours if seeds are asked for, now and then more than a range survives, and takes
// some out for good, with others joining. Acknowledged writes stay; no configuration change leaves fewer voters than before if that
// is less than configured (placement.P2), which is checked for every change that was ever applied; and when all nodes are back, all
// ranges have all their voters.
func TestDeadCampaign(t *testing.T) {
	t.Parallel()
	for _, seed := range simtest.Seeds(t, 1, 1) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { deadForHours(t, uint64(seed)) })
		})
	}
}

func deadForHours(t *testing.T, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 0xdead))
	nodes, asked := 3+dice.IntN(7), 3
	if nodes >= 5 && dice.IntN(2) == 0 {
		asked = 5
	}
	if seed == 1 {
		nodes, asked = 3, 3 // the case of the defect
	}
	joiners := dice.IntN(2)
	c := simcluster.New(t, simcluster.Options{Log: simtest.LogTo(), NodesPerRegion: nodes + joiners, Seed: seed})
	ctx := context.Background()
	c.Boot(0)
	if _, err := c.Node(0).Init(ctx); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < nodes; i++ {
		c.Boot(i)
	}
	for i := range nodes {
		c.WaitReady(i)
	}
	conn := simtest.Connect(t, c, 0)
	simtest.Exec(t, conn, fmt.Sprintf("SET CLUSTER SETTING replicas.voters = %d", asked))
	simtest.Exec(t, conn, "SET CLUSTER SETTING gc.ttlseconds = 1000000") // the history of all changes stays
	conn.Close(ctx)
	simtest.Replicated(t, c, asked)
	for _, k := range []int{10, 20, 30} {
		if err := simtest.Admin(c, 0, &kv.AdminSplitRequest{Key: simtest.UserKey(k), Keep: clock.MaxTimestamp}); err != nil {
			t.Fatal(err)
		}
	}

	acknowledged := map[int]string{}
	write := func() {
		for range 5 {
			i := dice.IntN(nodes)
			n := c.Node(i)
			if n == nil {
				continue
			}
			k, v := dice.IntN(40), fmt.Sprint(dice.Uint64())
			limited, cancel := context.WithTimeout(ctx, 10*time.Second)
			switch err := simtest.Put(limited, n.DB(), simtest.UserKey(k), v); {
			case err == nil:
				acknowledged[k] = v
			default:
				delete(acknowledged, k) // it may have happened
			}
			cancel()
		}
	}
	for round := range 4 {
		write()
		dead := map[int]bool{}
		few := dice.IntN((asked-1)/2) + 1
		if dice.IntN(4) == 0 {
			few = min(nodes-1, few+1) // more than some range survives
		}
		for len(dead) < few {
			i := dice.IntN(nodes)
			if c.Node(i) != nil {
				c.Crash(i, dice.IntN(2)*50, dice.IntN(2) == 0)
			}
			dead[i] = true
			// The nodes die one after the other, with time for repairs in between.
			time.Sleep(time.Duration(dice.IntN(3)) * 4 * time.Minute)
			write()
		}
		if joiners > 0 && round == 2 {
			c.Boot(nodes)
			c.WaitReady(nodes)
			nodes, joiners = nodes+1, joiners-1
		}
		lasts := time.Duration(6+dice.IntN(8)) * time.Minute
		if round == 1 && (os.Getenv("MERIDIAN_SEEDS") != "" || os.Getenv("MERIDIAN_SEED") != "") {
			lasts = 2*time.Hour + time.Duration(dice.IntN(60))*time.Minute
		}
		t.Logf("%d nodes, %d voters, %d dead for %s", nodes, asked, len(dead), lasts)
		time.Sleep(lasts)
		write()
		for i := range dead {
			c.Boot(i)
		}
		for i := range dead {
			c.WaitReady(i)
		}
		time.Sleep(20 * time.Second)
	}
	simtest.Replicated(t, c, min(asked, nodes))
	for k, v := range acknowledged {
		got, err := c.Node(dice.IntN(nodes)).DB().Get(ctx, simtest.UserKey(k))
		if err != nil || string(got) != v {
			t.Errorf("key %d: %q was acknowledged; there is %q, %v", k, v, got, err)
		}
	}
	changes := keptVoters(t, c, 0, asked)
	t.Logf("%d keys; %d configuration changes", len(acknowledged), changes)
	if changes < 10 {
		t.Error("next to nothing was changed")
	}
	simtest.Rest(t, c)
}

// TestForgottenDeadNode: a node is dead, and all others are started again, so that none of them has had a message of it. It
// still counts as dead, and is replaced.
func TestForgottenDeadNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo(), NodesPerRegion: 4})
		simtest.Replicated(t, c, 3)
		ctx := context.Background()
		ranges, err := c.Ranges(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		victim := 3
		for i := range c.Len() {
			if _, ok := ranges[0].Replica(c.Node(i).NodeID()); ok && i > 0 {
				victim = i
			}
		}
		id := c.Node(victim).NodeID()
		c.Crash(victim, 0, true)
		time.Sleep(time.Minute)
		for i := range c.Len() {
			if i != victim {
				c.StopNode(i)
			}
		}
		for i := range c.Len() {
			if i != victim {
				c.Boot(i)
			}
		}
		for i := range c.Len() {
			if i != victim {
				c.WaitReady(i)
			}
		}
		from := (victim + 1) % c.Len()
		time.Sleep(8 * time.Minute)
		if ranges, err = c.Ranges(ctx, from); err != nil {
			t.Fatal(err)
		}
		for _, d := range ranges {
			if _, ok := d.Replica(id); ok || votersOf(&d) != 3 {
				t.Errorf("r%d has replicas %v; n%d is dead", d.ID, d.Replicas, id)
			}
		}
	})
}

// TestSleepWithoutTheDead: a range sleeps though one of its replicas is on a dead node, for as long as that is dead; when it
// is live again, whether it was started anew or had only been cut off with its replica asleep, it gets the entries that it
// has missed.
func TestSleepWithoutTheDead(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"crashed", "cut off"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
				simtest.Replicated(t, c, 3)
				ctx := context.Background()
				if err := simtest.Admin(c, 0, &kv.AdminSplitRequest{Key: simtest.UserKey(0), Keep: clock.MaxTimestamp}); err != nil {
					t.Fatal(err)
				}
				if err := simtest.Put(ctx, c.Node(0).DB(), simtest.UserKey(1), "before"); err != nil {
					t.Fatal(err)
				}
				if err := c.TransferLease(ctx, simtest.UserKey(0), 0); err != nil {
					t.Fatal(err)
				}
				info, err := c.Node(0).Router().Range(ctx, simtest.UserKey(0), true)
				if err != nil {
					t.Fatal(err)
				}
				of := func(i int) *replica.Replica { return c.Node(i).Store().Replica(info.Desc.ID) }
				time.Sleep(10 * time.Second)
				if !of(0).Quiesced() || !of(2).Quiesced() {
					t.Fatal("with all nodes live, the range does not sleep")
				}
				if how == "crashed" {
					c.Crash(2, 0, true)
				} else {
					c.Network.Isolate(c.Machines[2].Name)
				}
				if err := simtest.Put(ctx, c.Node(0).DB(), simtest.UserKey(1), "meanwhile"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Second)
				if !of(0).Quiesced() || !of(1).Quiesced() {
					t.Error("the range does not sleep without the dead node")
				}
				ticks := of(0).Status().Ticks
				time.Sleep(6 * time.Minute)
				if n := of(0).Status().Ticks - ticks; n > 30 {
					t.Errorf("the leader ticked %d times in six minutes", n)
				}
				if how == "crashed" {
					c.Boot(2)
					c.WaitReady(2)
				} else {
					c.Network.Rejoin(c.Machines[2].Name)
				}
				time.Sleep(20 * time.Second)
				if a, b := of(0).AppliedIndex(), of(2).AppliedIndex(); a != b {
					t.Errorf("n1 has applied %d, n3, which is back, %d", a, b)
				}
				if !of(0).Quiesced() || !of(2).Quiesced() {
					t.Error("the range does not sleep again")
				}
			})
		})
	}
}
