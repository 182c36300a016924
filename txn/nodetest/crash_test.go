package nodetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

// TestNodeDies: with three replicas of everything, any node may die under load; writes from the others go on after
// at most five seconds, and nothing that was acknowledged is missing (I1).
func TestNodeDies(t *testing.T) {
	for _, victim := range []int{0, 1, 2} {
		t.Run(fmt.Sprint(victim+1), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { nodeDies(t, victim) })
		})
	}
}

// replicated returns when the ranges of ks have three replicas.
func replicated(ctx context.Context, t *testing.T, ns []*node, ks ...keys.Key) {
	for {
		full := 0
		for _, k := range ks {
			info, err := ns[0].Router().Range(ctx, k, true)
			if err != nil {
				t.Fatal(err)
			}
			if len(info.Desc.Replicas) == 3 {
				full++
			}
		}
		if full == len(ks) {
			return
		}
		time.Sleep(time.Second)
		if ctx.Err() != nil {
			t.Fatal("no three replicas after five minutes")
		}
	}
}

func nodeDies(t *testing.T, victim int) {
	ns := nodes(t, 3, 1)
	defer func() {
		for _, s := range ns {
			s.Stop()
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := ns[0].DB().Put(ctx, userKey("x"), []byte("0")); err != nil {
		t.Fatal(err)
	}
	if _, err := ns[0].DB().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: userKey("w")}}}); err != nil {
		t.Fatal(err)
	}
	replicated(ctx, t, ns, keys.Meta1Prefix, userKey("a"), userKey("x"))
	start := ns[0].DB().Clock().Physical().Monotonic()

	var (
		mu    sync.Mutex
		acked = map[string]string{}
		worst time.Duration
		when  time.Duration
		wg    sync.WaitGroup
	)
	stop := make(chan struct{})
	for w := range 4 {
		var live []*node
		for i, s := range ns {
			if i != victim {
				live = append(live, s)
			}
		}
		db := live[w%2].DB()
		wg.Add(1)
		go func() {
			defer wg.Done()
			d := rand.New(rand.NewPCG(1, uint64(w)))
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				// Two keys on two ranges, or one.
				k := fmt.Sprintf("%d-%d", w, i)
				var wb txn.WriteBatch
				wb.PutNew(userKey("a"+k), []byte(k))
				if d.IntN(2) == 0 {
					wb.Put(userKey("x"+k), []byte(k))
				}
				before := db.Clock().Physical().Monotonic()
				err := db.Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error { return tx.CommitBatch(ctx, &wb) })
				took := db.Clock().Physical().Monotonic() - before
				var lost *kv.AmbiguousError
				mu.Lock()
				if took > worst {
					worst, when = took, before-start
				}
				switch {
				case err == nil:
					acked["a"+k] = k
					if wb.Len() == 2 {
						acked["x"+k] = k
					}
				case errors.As(err, &lost):
				default:
					t.Errorf("%s: %v", k, err)
				}
				mu.Unlock()
				time.Sleep(20 * time.Millisecond)
			}
		}()
	}
	time.Sleep(time.Second)
	ns[victim].Stop()
	time.Sleep(8 * time.Second)
	close(stop)
	wg.Wait()
	t.Logf("%d acknowledged; the slowest took %v, %v after the start", len(acked), worst, when)
	if worst > 5*time.Second {
		t.Errorf("a write took %v", worst)
	}
	db := ns[(victim+1)%3].DB()
	missing := 0
	err := db.Run(ctx, txn.TxnOptions{ReadOnly: true}, func(ctx context.Context, tx *txn.Txn) error {
		rows, _, err := tx.Scan(ctx, txn.ScanOptions{Span: keys.Span{Start: userKey("a"), End: userKey("z")}})
		have := map[string]string{}
		for _, r := range rows {
			have[string(r.Key[len(userKey("")):])] = string(r.Value)
		}
		for k, v := range acked {
			if have[k] != v {
				missing++
			}
		}
		return err
	})
	if err != nil || missing > 0 {
		t.Errorf("%d acknowledged writes are missing; %v", missing, err)
	}
}

// TestGatewayDies: transfers run from all nodes while one dies with what it had begun. The others see all of each
// transfer or none, and finish what was decided (I2).
func TestGatewayDies(t *testing.T) {
	for _, parallel := range []bool{false, true} {
		for seed := range uint64(1) {
			t.Run(fmt.Sprintf("parallel=%v/%d", parallel, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { gatewayDies(t, parallel, seed) })
			})
		}
	}
}

func gatewayDies(t *testing.T, parallel bool, seed uint64) {
	ns := nodes(t, 3, seed)
	defer func() {
		for _, s := range ns {
			s.Stop()
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	const accounts = 8
	key := func(i int) keys.Key { return userKey(fmt.Sprintf("acc%02d", i)) }
	var wb txn.WriteBatch
	for i := range accounts {
		wb.PutNew(key(i), []byte{100})
	}
	if err := ns[0].DB().Begin(txn.TxnOptions{}).CommitBatch(ctx, &wb); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{2, 4, 6} {
		if _, err := ns[0].DB().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: key(at)}}}); err != nil {
			t.Fatal(err)
		}
	}
	replicated(ctx, t, ns, keys.Meta1Prefix, key(0), key(2), key(4), key(6))
	d := rand.New(rand.NewPCG(seed, 3))
	for i := range accounts / 2 {
		// Leases everywhere, so that the victim has some.
		target := ns[i%3].NodeID()
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		if _, err := ns[0].DB().Send(short, &kv.Batch{Requests: []kv.Request{&kv.AdminTransferLeaseRequest{Key: key(2 * i), Target: target}}}); err != nil {
			t.Log(err)
		}
		cancel()
	}
	victim := d.IntN(3)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	done, lost := 0, 0
	var worst time.Duration
	for w := range 9 {
		n := ns[w%3]
		db := n.DB()
		if !parallel {
			db = n.twoPhases()
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			d := rand.New(rand.NewPCG(seed, uint64(w)+10))
			for {
				select {
				case <-stop:
					return
				case <-n.h.Group.Context().Done():
					return
				default:
				}
				began := n.h.Clock.Monotonic()
				err := db.Run(n.h.Group.Context(), txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
					from, to := d.IntN(accounts), d.IntN(accounts)
					if from == to {
						return nil
					}
					vs, err := tx.GetMany(ctx, []keys.Key{key(from), key(to)}, kv.LockStrength(d.IntN(2)*2), kv.Block)
					if err != nil || vs[0][0] < 5 || vs[1][0] > 240 {
						return err
					}
					var wb txn.WriteBatch
					wb.Put(key(from), []byte{vs[0][0] - 5})
					wb.Put(key(to), []byte{vs[1][0] + 5})
					return tx.CommitBatch(ctx, &wb)
				})
				var ambiguous *kv.AmbiguousError
				mu.Lock()
				worst = max(worst, n.h.Clock.Monotonic()-began)
				switch {
				case err == nil:
					done++
				case errors.As(err, &ambiguous):
					lost++
				case n.h.Group.Context().Err() == nil:
					t.Errorf("worker %d: %v", w, err)
				}
				mu.Unlock()
				n.h.Clock.Sleep(n.h.Group.Context(), time.Duration(10+d.IntN(30))*time.Millisecond)
			}
		}()
	}
	time.Sleep(time.Duration(1000+d.IntN(500)) * time.Millisecond)
	ns[victim].Stop()
	time.Sleep(8 * time.Second)
	close(stop)
	wg.Wait()
	start := ns[0].h.Clock.Monotonic()
	for i, n := range ns {
		if i == victim {
			continue
		}
		err := n.DB().Run(ctx, txn.TxnOptions{ReadOnly: true}, func(ctx context.Context, tx *txn.Txn) error {
			rows, _, err := tx.Scan(ctx, txn.ScanOptions{Span: keys.Span{Start: userKey("acc"), End: userKey("acd")}})
			if err != nil {
				return err
			}
			sum := 0
			for _, r := range rows {
				sum += int(r.Value[0])
			}
			if sum != 100*accounts {
				return fmt.Errorf("%d in %d accounts", sum, len(rows))
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	t.Logf("n%d died; %d done, %d unknown; the slowest took %v, the last reads %v", victim+1, done, lost, worst,
		ns[0].h.Clock.Monotonic()-start)
	if done < 100 {
		t.Error("too little was done")
	}
}
