package campaign_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/commit/leader"
	"meridian/keys"
	"meridian/kv"
	"meridian/probe"
	"meridian/replica"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/txn"
)

// mergeRandomly merges a random range of the cluster with its right neighbour; for the campaign.
func mergeRandomly(ctx context.Context, c *simcluster.Cluster, i int, dice *rand.Rand) error {
	n := c.Node(i)
	if n == nil || n.Store() == nil {
		return errors.New("the node is down")
	}
	ranges, err := c.Ranges(ctx, i)
	if err != nil {
		return err
	}
	var tables []kv.RangeDescriptor
	for _, d := range ranges {
		if keys.TablePrefix.Compare(d.Start) <= 0 && d.End.Less(keys.Max) {
			tables = append(tables, d)
		}
	}
	if len(tables) == 0 {
		return errors.New("there is nothing to merge")
	}
	d := tables[dice.IntN(len(tables))]
	_, err = n.Router().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminMergeRequest{Key: d.Start}}})
	return err
}

// TestMergeCampaign has a bank whose ranges are split and merged at random, their leases moved and replicas taken away
// and brought back, while nodes crash, lose what they had not synced, and come back, and disks are slow. No total is ever
// wrong, no node stops by itself, and in the end the ranges are whole.
func TestMergeCampaign(t *testing.T) {
	t.Parallel()
	for _, seed := range simtest.Seeds(t, 1, 1) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { mergeCampaign(t, uint64(seed)) })
		})
	}
}

func mergeCampaign(t *testing.T, seed uint64) {
	const accounts, each, lasts = 24, 100, 20 * time.Second
	probes := &probe.Set{}
	o := simcluster.Options{Log: simtest.LogTo(), Seed: seed, NodesPerRegion: 3 + int(seed%2), Probes: probes, SplitsLast: 100 * time.Millisecond}
	two := newBinaries(seed, &o)
	c := simcluster.Start(t, o)
	problem := func(format string, args ...any) {
		t.Helper()
		t.Errorf("seed %d: "+format, append([]any{seed}, args...)...)
	}
	two.attach(c, problem, tell)
	simtest.Replicated(t, c, 3)
	ctx := context.Background()
	num := func(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }
	if err := c.Node(0).DB().Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
		var b txn.WriteBatch
		for i := range accounts {
			b.Put(simtest.UserKey(i), num(each))
		}
		return tx.CommitBatch(ctx, &b)
	}); err != nil {
		t.Fatal(err)
	}
	span := keys.Span{Start: simtest.UserKey(0), End: simtest.UserKey(accounts)}
	var wg sync.WaitGroup
	var moved, failed, checks, splits, merges, refused, leases, crashes atomic.Int64
	stop := make(chan struct{})
	work := func(id uint64, f func(dice *rand.Rand)) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			dice := rand.New(rand.NewPCG(seed, id))
			for {
				select {
				case <-stop:
					return
				default:
					f(dice)
				}
			}
		}()
	}
	gateway := func(dice *rand.Rand) *txn.DB {
		if n := c.Node(dice.IntN(c.Len())); n != nil && n.Store() != nil {
			return n.DB()
		}
		time.Sleep(5 * time.Millisecond)
		return nil
	}
	total := func(limit time.Duration, db *txn.DB) error {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		var sum int64
		var rows []kv.KeyValue
		err := db.Run(limited, txn.TxnOptions{ReadOnly: true}, func(ctx context.Context, tx *txn.Txn) (err error) {
			sum = 0
			rows, _, err = tx.Scan(ctx, txn.ScanOptions{Span: span})
			for _, r := range rows {
				sum += int64(binary.BigEndian.Uint64(r.Value))
			}
			return err
		})
		if err == nil && (sum != accounts*each || len(rows) != accounts) {
			t.Errorf("seed %d: %d accounts hold %d", seed, len(rows), sum)
		}
		if err == nil {
			checks.Add(1)
		}
		return err
	}
	for w := range uint64(6) {
		work(w, func(dice *rand.Rand) {
			db := gateway(dice)
			if db == nil {
				return
			}
			a, b := dice.IntN(accounts), dice.IntN(accounts)
			if a == b {
				return
			}
			lock := kv.NoLock
			if dice.IntN(2) == 0 {
				lock = kv.Exclusive
			}
			limited, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			err := db.Run(limited, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
				va, err := tx.Get(ctx, simtest.UserKey(a), lock, kv.Block)
				if err != nil {
					return err
				}
				vb, err := tx.Get(ctx, simtest.UserKey(b), kv.NoLock, kv.Block)
				if err != nil {
					return err
				}
				if len(va) == 0 || len(vb) == 0 {
					t.Errorf("seed %d: account %d has %x, account %d has %x", seed, a, va, b, vb)
					return errors.New("an account is gone")
				}
				n := dice.Int64N(10)
				var wb txn.WriteBatch
				wb.Put(simtest.UserKey(a), num(int64(binary.BigEndian.Uint64(va))-n))
				wb.Put(simtest.UserKey(b), num(int64(binary.BigEndian.Uint64(vb))+n))
				return tx.CommitBatch(ctx, &wb)
			})
			if err != nil {
				failed.Add(1)
			} else {
				moved.Add(1)
			}
			time.Sleep(time.Duration(dice.IntN(20)) * time.Millisecond)
		})
	}
	work(100, func(dice *rand.Rand) {
		if db := gateway(dice); db != nil {
			_ = total(3*time.Second, db)
		}
		time.Sleep(20 * time.Millisecond)
	})
	for w := range uint64(2) {
		work(200+w, func(dice *rand.Rand) {
			time.Sleep(time.Duration(dice.IntN(150)) * time.Millisecond)
			i := dice.IntN(c.Len())
			n := c.Node(i)
			if n == nil || n.Store() == nil {
				return
			}
			limited, cancel := context.WithTimeout(ctx, 4*time.Second)
			defer cancel()
			k := simtest.UserKey(dice.IntN(accounts))
			send := func(q kv.Request) error {
				_, err := n.Router().Send(limited, &kv.Batch{Requests: []kv.Request{q}})
				return err
			}
			switch dice.IntN(7) {
			case 0, 1, 2:
				if mergeRandomly(limited, c, i, dice) == nil {
					merges.Add(1)
				} else {
					refused.Add(1)
				}
			case 3, 4:
				if send(&kv.AdminSplitRequest{Key: k, Keep: clock.Timestamp{Wall: 1}}) == nil {
					splits.Add(1)
				}
			case 5:
				if send(&kv.AdminTransferLeaseRequest{Key: k, Target: kv.NodeID(1 + dice.IntN(c.Len()))}) == nil {
					leases.Add(1)
				}
			case 6:
				// One replica of a range goes to another node, if there is one: its neighbours have to be aligned.
				info, err := n.Router().Range(limited, k, true)
				if err != nil || c.Len() == 3 {
					return
				}
				skip := kv.NodeID(1 + dice.IntN(c.Len()))
				var targets []kv.ReplicaTarget
				for node := kv.NodeID(1); int(node) <= c.Len(); node++ {
					if node != skip {
						targets = append(targets, kv.ReplicaTarget{Node: node, Store: kv.StoreID(node)})
					}
				}
				_ = send(&kv.AdminChangeReplicasRequest{Key: info.Desc.Start, Targets: targets})
			}
		})
	}
	turn := make(chan struct{}, 1) // held by a goroutine that crashes nodes or looks into them
	two.turn = turn
	upgraded := two.begin()
	work(400, func(dice *rand.Rand) {
		// Data that a replica has lost is found at once, before others write it anew.
		time.Sleep(500 * time.Millisecond)
		turn <- struct{}{}
		defer func() { <-turn }()
		if err := simtest.CompareSome(c, dice); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		n := c.Node(dice.IntN(c.Len()))
		if n == nil || n.Store() == nil {
			return
		}
		n.Store().Replicas(func(r *replica.Replica) bool {
			if kept, counted, err := r.CountStats(); err == nil && kept != counted {
				t.Errorf("seed %d: n%d, %v: statistics say %+v, a count %+v", seed, n.NodeID(), r.Desc(), kept, counted)
			}
			return true
		})
	})
	target := c.Target(seed)
	work(300, func(dice *rand.Rand) {
		time.Sleep(time.Second + time.Duration(dice.IntN(3000))*time.Millisecond)
		i := dice.IntN(c.Len())
		name := c.Machines[i].Name
		turn <- struct{}{}
		if err := target.Crash(name, dice.IntN(2) == 0); err != nil {
			t.Error(err)
		}
		<-turn
		crashes.Add(1)
		if dice.IntN(2) == 0 {
			// A range that it misses is split again and again: when it comes back, it gets one part of each after the other from its
			// neighbour's log, and raft snapshots of all the others meanwhile.
			limited, cancel := context.WithTimeout(ctx, 5*time.Second)
			for k := dice.IntN(accounts / 2); k < accounts; k += 1 + dice.IntN(2) {
				if n := c.Node((i + 1) % c.Len()); n != nil && n.Store() != nil {
					_, _ = n.Router().Send(limited, &kv.Batch{Requests: []kv.Request{
						&kv.AdminSplitRequest{Key: simtest.UserKey(k), Keep: clock.Timestamp{Wall: 1}}}})
				}
			}
			cancel()
		}
		time.Sleep(time.Duration(dice.IntN(4000)) * time.Millisecond)
		if err := target.Restart(name); err != nil {
			t.Error(err)
		}
	})
	work(500, func(dice *rand.Rand) {
		time.Sleep(time.Second + time.Duration(dice.IntN(3000))*time.Millisecond)
		slowest := 2000
		if dice.IntN(2) == 0 {
			slowest = 200
		}
		name := c.Machines[dice.IntN(c.Len())].Name
		target.SlowDisk(name, time.Duration(1+dice.IntN(slowest))*time.Millisecond)
		time.Sleep(time.Duration(dice.IntN(4000)) * time.Millisecond)
		target.SlowDisk(name, 0)
	})
	time.Sleep(lasts)
	two.rest(true)
	close(stop)
	wg.Wait()
	if err := target.HealEverything(); err != nil {
		t.Error(err)
	}
	two.ready()
	for i := range c.Len() {
		var err error
		for try := range 10 {
			done := make(chan struct{})
			if try == 3 { // while it waits, to see for what
				go func() {
					defer close(done)
					time.Sleep(5 * time.Second)
					simtest.DumpRanges(t, c)
				}()
			} else {
				close(done)
			}
			err = total(10*time.Second, c.Node(i).DB())
			if <-done; err == nil {
				break
			}
		}
		if err != nil {
			t.Errorf("seed %d: n%d does not serve: %v", seed, i+1, err)
		}
	}
	// A campaign in which nodes were down nearly all the time may have merged nothing. A healthy cluster merges at once.
	dice := rand.New(rand.NewPCG(seed, 600))
	for try := 0; merges.Load() == 0; try++ {
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		_, _ = c.Node(0).Router().Send(limited, &kv.Batch{Requests: []kv.Request{
			&kv.AdminSplitRequest{Key: simtest.UserKey(dice.IntN(accounts)), Keep: clock.Timestamp{Wall: 1}}}})
		err := mergeRandomly(limited, c, 0, dice)
		cancel()
		if err == nil {
			merges.Add(1)
		} else if try == 10 {
			t.Errorf("seed %d: nothing was merged, though all nodes are well: %v", seed, err)
			break
		}
	}
	two.rest(false)
	two.complete()
	upgraded()
	if simtest.Rest(t, c); t.Failed() {
		simtest.DumpRanges(t, c)
	}
	var replaced int64
	for i := range c.Len() {
		replaced += c.Node(i).Store().Metrics.Subsumed.Load()
	}
	if probes.Count(leader.ProbeSplit) == 0 {
		t.Error("no split was watched")
	}
	t.Logf("%d transfers (%d failed), %d totals, %d splits, %d merges (%d refused), %d leases, %d crashes; since then %d replicas were replaced by raft snapshots; %s",
		moved.Load(), failed.Load(), checks.Load(), splits.Load(), merges.Load(), refused.Load(), leases.Load(), crashes.Load(), replaced, two.summary())
}
