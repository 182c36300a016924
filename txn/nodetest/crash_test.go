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
	"meridian/server"
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
	// Wait until everything has three replicas.
	for {
		full := 0
		for _, k := range []keys.Key{keys.Meta1Prefix, userKey("a"), userKey("x")} {
			info, err := ns[0].Router().Range(ctx, k, true)
			if err != nil {
				t.Fatal(err)
			}
			if len(info.Desc.Replicas) == 3 {
				full++
			}
		}
		if full == 3 {
			break
		}
		time.Sleep(time.Second)
		if ctx.Err() != nil {
			t.Fatal("no three replicas after five minutes")
		}
	}
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
		var live []*server.Node
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
				time.Sleep(10 * time.Millisecond)
			}
		}()
	}
	time.Sleep(5 * time.Second)
	ns[victim].Stop()
	time.Sleep(15 * time.Second)
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
