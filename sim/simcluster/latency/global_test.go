package latency_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/commit/leader"
	"meridian/keys"
	"meridian/kv"
	"meridian/placement"
	"meridian/probe"
	"meridian/rangeserver"
	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/txn"
)

// fiveGlobal is a cluster of one node in each of five regions but the first, which has three, with a database over all of them.
//
// offset is the clocks' maximum, or if it is small their bound, which they report, with the default maximum.
func fiveGlobal(t *testing.T, offset time.Duration, probes *probe.Set) *simcluster.Cluster {
	t.Helper()
	o := simcluster.Options{Regions: sim.FiveRegions(), Nodes: []int{3, 1, 1, 1, 1}, MaxOffset: offset, Log: simtest.LogTo(), Probes: probes}
	if offset <= reported {
		o.MaxOffset, o.Configure = 0, func(_ int, o *server.Options) { o.Time.Bound = offset }
	}
	c := simcluster.Start(t, o)
	simtest.Exec(t, simtest.Connect(t, c, 0), `CREATE DATABASE movr PRIMARY REGION "us-east1" REGIONS "us-west1", "europe-west1", "asia-northeast1", "australia-southeast1"`)
	return c
}

const reported = 5 * time.Millisecond

const globalPlace = "1 (asia-northeast1), 1 (australia-southeast1), 1 (europe-west1), 1 (us-west1), 3 us-east1; lease us-east1"

// TestGlobalLatency: rows of a GLOBAL table are read in every region without a message to another one, and a write takes as long as its lead.
func TestGlobalLatency(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ offset, most time.Duration }{{250 * time.Millisecond, 500 * time.Millisecond}, {10 * time.Millisecond, 250 * time.Millisecond}, {reported, 228 * time.Millisecond}} {
		if x.offset != reported && !simtest.All() {
			continue
		}
		t.Run(x.offset.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := fiveGlobal(t, x.offset, nil)
				home := simtest.ConnectTo(t, c, 0, "movr")
				simtest.Exec(t, home, `CREATE TABLE g (id int PRIMARY KEY, v int) LOCALITY GLOBAL`)
				simtest.Exec(t, home, `INSERT INTO g VALUES (1, 1), (2, 2), (3, 3)`)
				simtest.Settle(t, c, home, "g", globalPlace)
				for range 20 { // leads follow the rounds of commands, and shrink slowly
					simtest.Exec(t, home, `UPDATE g SET v = v + 1 WHERE id = 2`)
					time.Sleep(2 * time.Second)
				}
				for i := range c.Len() {
					conn := simtest.ConnectTo(t, c, i, "movr")
					simtest.Exec(t, conn, "SELECT v FROM g WHERE id = 1") // learns of the range
					for range 5 {
						simtest.RoundTrips(t, "a read", 0, func() { simtest.Exec(t, conn, "SELECT v FROM g WHERE id = 2") })
						simtest.RoundTrips(t, "a read of all", 0, func() { simtest.Exec(t, conn, "SELECT v FROM g") })
						time.Sleep(37 * time.Millisecond)
					}
					rtt := sim.FiveRegions().RTT(c.Machines[0].Region, c.Machines[i].Region)
					for _, stmt := range []string{"UPDATE g SET v = v + 1 WHERE id = 3", "INSERT INTO g VALUES ((random() * 1e9)::int + 100, 1)", "DELETE FROM g WHERE id >= 100"} {
						simtest.Exec(t, conn, stmt) // the plan is warm
						time.Sleep(time.Second)
						start := time.Now()
						simtest.Exec(t, conn, stmt)
						took := time.Since(start)
						t.Logf("n%d: %s took %s", i+1, stmt, took)
						limit := (x.most + rtt) * 21 / 20
						if x.offset <= reported && strings.HasPrefix(stmt, "INSERT") {
							limit = x.most + 2*time.Millisecond // the farthest round trip, 2 epsilon and 20 ms; a round trip within the region or two
						}
						if took > limit {
							t.Errorf("n%d: %s took %s, and the round trip is %s", i+1, stmt, took, rtt)
						}
						time.Sleep(time.Second)
					}
				}
			})
		})
	}
}

// TestGlobalContention: half of the operations of clients in five regions write to the same few rows of a GLOBAL table, and nearly all reads take less than the
// clocks' interval (YCSB-A; CRDB'22 §7.2).
func TestGlobalContention(t *testing.T) {
	t.Parallel()
	for _, offset := range []time.Duration{250 * time.Millisecond, reported} {
		if offset != reported && !simtest.All() {
			continue
		}
		t.Run(offset.String(), func(t *testing.T) { testGlobalContention(t, offset) })
	}
}

func testGlobalContention(t *testing.T, offset time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		probes := &probe.Set{}
		c := fiveGlobal(t, offset, probes)
		home := simtest.ConnectTo(t, c, 0, "movr")
		simtest.Exec(t, home, `CREATE TABLE g (id int PRIMARY KEY, v int) LOCALITY GLOBAL`)
		simtest.Exec(t, home, `INSERT INTO g SELECT i, 0 FROM generate_series(0, 99) i`)
		simtest.Settle(t, c, home, "g", globalPlace)
		time.Sleep(20 * time.Second)
		var (
			mu  sync.Mutex
			all []time.Duration
			wg  sync.WaitGroup
		)
		for client, node := range []int{0, 3, 4, 5, 6, 0, 3, 4, 5, 6} {
			conn := simtest.ConnectTo(t, c, node, "movr")
			dice := rand.New(rand.NewPCG(7, uint64(client)))
			zipf := rand.NewZipf(dice, 1.1, 1, 99)
			wg.Go(func() {
				simtest.Exec(t, conn, "SELECT v FROM g WHERE id = $1", 1)
				for range 60 {
					id := int(zipf.Uint64())
					if dice.IntN(2) == 0 {
						simtest.Exec(t, conn, "UPDATE g SET v = v + 1 WHERE id = $1", id)
						continue
					}
					start := time.Now()
					simtest.Exec(t, conn, "SELECT v FROM g WHERE id = $1", id)
					mu.Lock()
					all = append(all, time.Since(start))
					mu.Unlock()
					time.Sleep(time.Duration(dice.IntN(20)) * time.Millisecond)
				}
			})
		}
		wg.Wait()
		slices.Sort(all)
		p := func(n int) time.Duration { return all[len(all)*n/100] }
		t.Logf("%d reads: median %s, p90 %s, p95 %s, p99 %s, longest %s", len(all), p(50), p(90), p(95), p(99), all[len(all)-1])
		// With the bound of 5 ms the interval is 2 epsilon and the ceiling's margin of a quarter, in whole milliseconds.
		if most := max(offset, 2*reported+3*time.Millisecond); p(99) > most {
			t.Errorf("99 %% of the reads take up to %s", p(99))
		}
		for _, name := range probes.Names() {
			if strings.HasPrefix(name, "route") || strings.HasPrefix(name, "present") {
				t.Logf("%s: %d", name, probes.Count(name))
			}
		}
	})
}

// globalFrom has all keys from a certain one on in ranges that close the future.
type globalFrom struct {
	rangeserver.ZoneSource
	from keys.Key
}

func (z globalFrom) Zone(k keys.Key) (placement.Zone, keys.Span) {
	zone, span := z.ZoneSource.Zone(k)
	if k.Less(z.from) {
		span.End = z.from
	} else {
		zone.GlobalReads = true
		if span.Start.Less(z.from) {
			span.Start = z.from
		}
	}
	return zone, span
}

// TestGlobalIsLinearizable: a counter in two ranges that close the future, one of which is written together with a range that does not, through gateways in
// three regions whose clocks differ, while the leases move. A read anywhere sees every addition that was acknowledged, or read by a client, before
// it begins (I4), and no transaction in part (I2).
func TestGlobalIsLinearizable(t *testing.T) {
	t.Parallel()
	for _, seed := range simtest.Seeds(t, 0, 1) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				probes := &probe.Set{}
				c := simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions(), NodesPerRegion: 1, Log: simtest.LogTo(), MaxOffset: 250 * time.Millisecond,
					Probes: probes, Configure: func(_ int, o *server.Options) {
						o.Zones = func(z rangeserver.ZoneSource) rangeserver.ZoneSource { return globalFrom{z, simtest.UserKey(5000)} }
					}})
				simtest.Replicated(t, c, 3)
				for i, d := range []time.Duration{-120 * time.Millisecond, 0, 120 * time.Millisecond} {
					c.Machines[i].Clock.SetOffset(d)
				}
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				ks := []keys.Key{simtest.UserKey(1), simtest.UserKey(6000), simtest.UserKey(8000)}
				for _, k := range []keys.Key{simtest.UserKey(5000), simtest.UserKey(7000)} {
					if _, err := c.Node(0).DB().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: k}}}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(10 * time.Second)
				var (
					mu    sync.Mutex
					known [3]int // what every read that begins now has to see
				)
				see := func(i, v int) {
					mu.Lock()
					known[i] = max(known[i], v)
					mu.Unlock()
				}
				var all sync.WaitGroup
				all.Go(func() {
					defer cancel()
					dice := rand.New(rand.NewPCG(uint64(seed), 1))
					for v := 1; v <= 40; v++ {
						which := ks
						if v%3 == 0 {
							which = ks[2:] // of one range
						}
						err := c.Node(dice.IntN(3)).DB().Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
							if dice.IntN(2) == 0 {
								if _, err := tx.Get(ctx, which[0], kv.Exclusive, kv.Block); err != nil {
									return err
								}
							}
							return commitAll(ctx, tx, strconv.Itoa(v), which...)
						})
						if err != nil {
							t.Error(err)
							return
						}
						for i, k := range ks {
							if slices.ContainsFunc(which, k.Equal) {
								see(i, v)
							}
						}
						if dice.IntN(8) == 0 {
							if err := c.TransferLease(ctx, ks[1+dice.IntN(2)], dice.IntN(3)); err != nil {
								t.Log(err)
							}
						}
						time.Sleep(time.Duration(dice.IntN(100)) * time.Millisecond)
					}
				})
				for r := range 6 {
					dice := rand.New(rand.NewPCG(uint64(seed), uint64(r+2)))
					all.Go(func() {
						for ctx.Err() == nil {
							time.Sleep(time.Duration(dice.IntN(20)) * time.Millisecond)
							db := c.Node(r % 3).DB()
							mu.Lock()
							least := known
							mu.Unlock()
							got := [3]int{-1, -1, -1}
							which := dice.Perm(3)[:1+dice.IntN(3)]
							err := db.Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
								for _, i := range which {
									raw, err := tx.Get(ctx, ks[i], kv.NoLock, kv.Block)
									if err != nil {
										return err
									}
									got[i], _ = strconv.Atoi(string(raw))
								}
								return tx.Commit(ctx)
							})
							if ctx.Err() != nil {
								return
							}
							if err != nil {
								t.Error(err)
								return
							}
							for _, i := range which {
								if got[i] < least[i] {
									t.Errorf("a read through n%d finds %d under key %d, and %d was there before it began", r%3+1, got[i], i, least[i])
								}
								see(i, got[i])
							}
							if got[0] >= 0 && got[1] >= 0 && got[0] != got[1] || got[1] >= 0 && got[2] >= 0 && got[2] < got[1] {
								t.Errorf("half a transaction: %v", got)
							}
							notAhead(t, c)
						}
					})
				}
				all.Wait()
				n := probes.Count(leader.ProbePresent)
				t.Logf("%d reads of the present without the lease", n)
				if n < 100 {
					t.Errorf("only %d reads of the present were served without the lease", n)
				}
			})
		})
	}
}

// TestGlobalCounter: additions that read without a lock, and carry the refresh of what they have read with their commit (coordinator.CO12), are neither lost
// nor doubled, from near and from far.
func TestGlobalCounter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions(), NodesPerRegion: 1, Log: simtest.LogTo(), MaxOffset: 100 * time.Millisecond,
			Configure: func(_ int, o *server.Options) {
				o.Zones = func(z rangeserver.ZoneSource) rangeserver.ZoneSource { return globalFrom{z, simtest.UserKey(5000)} }
			}})
		simtest.Replicated(t, c, 3)
		ctx := context.Background()
		if _, err := c.Node(0).DB().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: simtest.UserKey(5000)}}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		var all sync.WaitGroup
		const each, clients = 6, 6
		for r := range clients {
			all.Go(func() {
				for range each {
					err := c.Node(r%3).DB().Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
						raw, err := tx.Get(ctx, simtest.UserKey(6000), kv.NoLock, kv.Block)
						if err != nil {
							return err
						}
						n, _ := strconv.Atoi(string(raw))
						return commitAll(ctx, tx, strconv.Itoa(n+1), simtest.UserKey(6000))
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		err := c.Node(1).DB().Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
			raw, err := tx.Get(ctx, simtest.UserKey(6000), kv.NoLock, kv.Block)
			if err == nil && string(raw) != strconv.Itoa(each*clients) {
				t.Errorf("%d additions make %s", each*clients, raw)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}
