package latency_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica/lease"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/txn"
)

// readAhead reads keys at a time in the future, as a range of a GLOBAL table will close it: transactions that write them commit after it.
func readAhead(t *testing.T, db *txn.DB, at clock.Timestamp, ks ...keys.Key) {
	t.Helper()
	b := &kv.Batch{Header: kv.Header{Timestamp: at}}
	for _, k := range ks {
		b.Requests = append(b.Requests, &kv.GetRequest{Key: k})
	}
	if _, err := db.Send(context.Background(), b); err != nil {
		t.Fatal(err)
	}
}

// notAhead fails if a node's clock has been pushed past all physical clocks.
func notAhead(t *testing.T, c *simcluster.Cluster) {
	t.Helper()
	var newest time.Time
	for _, m := range c.Machines {
		if now := m.Clock.Now(); now.After(newest) {
			newest = now
		}
	}
	for i := range c.Machines {
		if now := c.Node(i).Clock().Now().Time(); now.After(newest) {
			t.Errorf("n%d's clock is %s ahead of all", i+1, now.Sub(newest))
		}
	}
}

func commitAll(ctx context.Context, tx *txn.Txn, v string, ks ...keys.Key) error {
	var b txn.WriteBatch
	for _, k := range ks {
		b.Put(k, []byte(v))
	}
	return tx.CommitBatch(ctx, &b)
}

func skewed(t *testing.T) (*simcluster.Cluster, []time.Duration) {
	c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo(), MaxOffset: 250 * time.Millisecond})
	simtest.Replicated(t, c, 3)
	skew := []time.Duration{-100 * time.Millisecond, 0, 100 * time.Millisecond}
	for i, d := range skew {
		c.Machines[i].Clock.SetOffset(d)
	}
	time.Sleep(time.Second)
	return c, skew
}

// TestCommitWait: a commit at a time in the future is answered when its gateway's clock has passed it, no sooner and not much later. No transaction
// waits for its locks meanwhile, and it moves no clock.
func TestCommitWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, skew := skewed(t)
		ctx := context.Background()
		const lead = 400 * time.Millisecond
		commit := map[string]func(ctx context.Context, db *txn.DB, n int) (clock.Timestamp, error){
			"one range": func(ctx context.Context, db *txn.DB, n int) (clock.Timestamp, error) {
				tx := db.Begin(txn.TxnOptions{})
				err := commitAll(ctx, tx, "v", simtest.UserKey(n))
				return tx.CommitTimestamp(), err
			},
			"two ranges": func(ctx context.Context, db *txn.DB, n int) (clock.Timestamp, error) {
				tx := db.Begin(txn.TxnOptions{})
				err := commitAll(ctx, tx, "v", simtest.UserKey(n), simtest.UserKey(n+5000))
				return tx.CommitTimestamp(), err
			},
			"no transaction": func(ctx context.Context, db *txn.DB, n int) (clock.Timestamp, error) {
				b := &kv.Batch{Requests: []kv.Request{&kv.PutRequest{Key: simtest.UserKey(n), Value: []byte("v")}}}
				r, err := db.Send(ctx, b)
				if err != nil {
					return clock.Timestamp{}, err
				}
				return r.Timestamp, nil
			},
		}
		if _, err := c.Node(0).DB().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: simtest.UserKey(5000)}}}); err != nil {
			t.Fatal(err)
		}
		n := 0
		for name, f := range commit {
			for gateway := range 3 {
				n += 10
				node := c.Node(gateway)
				at := clock.FromTime(time.Now().Add(lead))
				readAhead(t, c.Node(1).DB(), at, simtest.UserKey(n))
				start := time.Now()
				done, err := f(ctx, node.DB(), n)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				now := node.Clock().Now()
				if done.LessEq(at) {
					t.Errorf("%s: committed at %s, in the past of a read at %s", name, done, at)
				}
				if d := time.Since(start); d < lead-skew[2]-5*time.Millisecond { // the fastest clock may have told the others
					t.Errorf("%s at n%d: answered after %s", name, gateway+1, d)
				}
				if name == "no transaction" {
					continue // the leaseholder's clock has waited
				}
				if now.LessEq(done) {
					t.Errorf("%s at n%d: answered %s before its time", name, gateway+1, done.Time().Sub(now.Time()))
				}
				if late := c.Machines[gateway].Clock.Now().Sub(done.Time()); late > 5*time.Millisecond {
					t.Errorf("%s at n%d: answered %s after its time", name, gateway+1, late)
				}
				notAhead(t, c)
			}
		}

		// Commits at the present time do not wait.
		for gateway := range 3 {
			start := time.Now()
			if _, err := commit["two ranges"](ctx, c.Node(gateway).DB(), 1000+gateway); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(start); d > 20*time.Millisecond {
				t.Errorf("a commit of the present took %s", d)
			}
		}

		// The locks are released when the commit is decided: while it waits for its time, others get them.
		k := simtest.UserKey(2000)
		at := clock.FromTime(time.Now().Add(lead))
		readAhead(t, c.Node(0).DB(), at, k)
		var all sync.WaitGroup
		all.Go(func() {
			if err := commitAll(ctx, c.Node(1).DB().Begin(txn.TxnOptions{}), "v", k, simtest.UserKey(7000)); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(lead / 4)
		for _, k := range []keys.Key{k, simtest.UserKey(7000)} {
			tx := c.Node(0).DB().Begin(txn.TxnOptions{})
			if _, err := tx.Get(ctx, k, kv.Exclusive, kv.NoWait); err != nil {
				t.Errorf("%s is locked by a transaction that has committed: %v", k, err)
			}
			tx.Rollback(ctx)
		}
		all.Wait()

		// A client that gives up neither undoes the commit nor makes it visible earlier.
		at = clock.FromTime(time.Now().Add(lead))
		readAhead(t, c.Node(0).DB(), at, k)
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		tx := c.Node(1).DB().Begin(txn.TxnOptions{})
		if err := commitAll(short, tx, "w", k); err != nil {
			t.Errorf("a commit that is waiting for its time was taken back: %v", err)
		}
		if now := c.Node(1).Clock().Now(); now.LessEq(tx.CommitTimestamp()) {
			t.Error("a commit was answered before its time")
		}
		notAhead(t, c)
	})
}

// TestFutureIsLinearizable: a counter is written at times in the future, through gateways whose clocks differ, and read through all of them. A read
// sees every addition that was acknowledged, or read by a client, before it begins (I4), and no clock is moved.
func TestFutureIsLinearizable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := skewed(t)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				ks := []keys.Key{simtest.UserKey(1), simtest.UserKey(6000)}
				if _, err := c.Node(0).DB().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: simtest.UserKey(5000)}}}); err != nil {
					t.Fatal(err)
				}
				var (
					mu    sync.Mutex
					known [2]int // what every read that begins now has to see
				)
				see := func(i, v int) {
					mu.Lock()
					known[i] = max(known[i], v)
					mu.Unlock()
				}
				var all sync.WaitGroup
				waits := 0
				all.Go(func() {
					dice := rand.New(rand.NewPCG(seed, 1))
					for v := 1; v <= 40; v++ {
						node := c.Node(dice.IntN(3))
						lead := time.Duration(dice.IntN(600)) * time.Millisecond
						readAhead(t, c.Node(dice.IntN(3)).DB(), clock.FromTime(time.Now().Add(lead)), ks[:1+dice.IntN(2)]...)
						err := node.DB().Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
							return commitAll(ctx, tx, strconv.Itoa(v), ks...)
						})
						if err != nil {
							t.Error(err)
							break
						}
						see(0, v)
						see(1, v)
						time.Sleep(time.Duration(dice.IntN(30)) * time.Millisecond)
					}
					for i := range c.Machines {
						waits += int(c.Node(i).DB().Metrics().CommitWaits.Load())
					}
					cancel()
				})
				for r := range 6 {
					dice := rand.New(rand.NewPCG(seed, uint64(r+2)))
					all.Go(func() {
						for ctx.Err() == nil {
							time.Sleep(time.Duration(dice.IntN(20)) * time.Millisecond)
							db := c.Node((r + dice.IntN(2)) % 3).DB()
							which := dice.IntN(2)
							mu.Lock()
							least := known
							mu.Unlock()
							var got [2]int
							err := db.Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
								for i, k := range ks {
									if r%2 == 0 && i != which {
										continue
									}
									raw, err := tx.Get(ctx, k, kv.NoLock, kv.Block)
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
							for i := range ks {
								if r%2 == 0 && i != which {
									continue
								}
								if got[i] < least[i] {
									t.Errorf("a read finds %d, and %d was there before it began", got[i], least[i])
								}
								see(i, got[i])
							}
							if r%2 == 1 && got[0] != got[1] {
								t.Errorf("half a transaction: %v", got)
							}
							notAhead(t, c)
						}
					})
				}
				all.Wait()
				if waits < 20 {
					t.Errorf("only %d commits have waited", waits)
				}
			})
		})
	}
}

// TestFutureOverARestart: a value that a node has read at a time in the future does not change when the node crashes and is back before that
// time, whatever kind of lease its range has (lease.RL4).
func TestFutureOverARestart(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]keys.Key{"a system range": keys.SystemKey("of a test"), "a table's range": simtest.UserKey(1)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := simcluster.Start(t, simcluster.Options{NodesPerRegion: 1, Log: simtest.LogTo()})
				ctx := context.Background()
				time.Sleep(5 * time.Second)
				for round := range 6 {
					time.Sleep(time.Duration(round) * 230 * time.Millisecond)
					lead := 250 * time.Millisecond // no further than a lease reaches anyway
					if round%2 == 1 {
						lead = lease.Farthest - 50*time.Millisecond
					}
					at := clock.FromTime(time.Now().Add(lead))
					readAhead(t, c.Node(0).DB(), at, k)
					c.Crash(0, 0, false)
					c.Boot(0)
					c.WaitReady(0)
					var done clock.Timestamp
					for try := range 100 {
						b := &kv.Batch{Requests: []kv.Request{&kv.PutRequest{Key: k, Value: []byte(strconv.Itoa(round))}}}
						r, err := c.Node(0).DB().Send(ctx, b)
						if err == nil {
							done = r.Timestamp
							break
						}
						if try == 99 {
							t.Fatal(err)
						}
						time.Sleep(10 * time.Millisecond)
					}
					if done.LessEq(at) {
						t.Errorf("written at %s, and read as it was before at %s", done, at)
					}
					took := time.Since(at.Time()) + lead
					t.Logf("round %d: served again %s after the crash", round, took)
					// Reads further ahead before the last crash cost nothing now: since then there were writes only.
					if round%2 == 0 && took > 2500*time.Millisecond {
						t.Errorf("after a read %s ahead, round %d's crash cost %s", lead, round, took)
					}
				}
			})
		})
	}
}

// TestFarAhead: a range serves as far ahead of its clock as GLOBAL tables need, and further, at the price of one round in its log; a
// leaseholder that takes over after a crash writes above it. A timestamp beyond that is refused, with the numbers.
func TestFarAhead(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]keys.Key{"a system range": keys.SystemKey("of a test"), "a table's range": simtest.UserKey(1)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
				simtest.Replicated(t, c, 3)
				ctx := context.Background()
				time.Sleep(5 * time.Second)
				holder := 1
				for _, lead := range []time.Duration{2100 * time.Millisecond, lease.Farthest - 50*time.Millisecond} {
					if err := c.TransferLease(ctx, k, holder); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
					at := clock.FromTime(time.Now().Add(lead))
					for range 3 {
						start := time.Now()
						readAhead(t, c.Node(0).DB(), at, k)
						if d := time.Since(start); d > 100*time.Millisecond {
							t.Errorf("a read %s ahead took %s", lead, d)
						}
					}
					notAhead(t, c)
					c.Crash(holder, 0, true)
					start := time.Now()
					var done clock.Timestamp
					for {
						r, err := c.Node(0).DB().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.PutRequest{Key: k, Value: []byte("v")}}})
						if err == nil {
							done = r.Timestamp
							break
						}
						if time.Since(start) > 30*time.Second {
							t.Fatal(err)
						}
					}
					if done.LessEq(at) {
						t.Errorf("written at %s, and read as it was before at %s", done, at)
					}
					t.Logf("%s ahead: writes resumed %s after the crash", lead, time.Since(start))
					c.Boot(holder)
					c.WaitReady(holder)
					notAhead(t, c)
					time.Sleep(5 * time.Second)
				}
				b := &kv.Batch{Header: kv.Header{Timestamp: clock.FromTime(time.Now().Add(time.Minute))}, Requests: []kv.Request{&kv.GetRequest{Key: k}}}
				start := time.Now()
				if _, err := c.Node(0).DB().Send(ctx, b); !errors.As(err, new(*kv.FutureError)) || time.Since(start) > 100*time.Millisecond {
					t.Errorf("a read a minute ahead: %v", err)
				}
			})
		})
	}
}
