package nodetest

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/sim"
	"meridian/txn"
)

// TestLargeCommitsTakeOneRound: every link is 50 ms long, and the leaseholders are elsewhere. So a round is 200 ms: to the
// leaseholder, its quorum, and back. COMMIT takes one, whatever the transaction has written, up to the number of writes that a
// staging record lists (transaction.MaxInFlight): beyond it, those that were sent first are waited for before the record is staged.
func TestLargeCommitsTakeOneRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := sim.NewNetwork(sim.NetworkOptions{Seed: 1})
		ns := nodesOn(t, net, 3, 1)
		defer func() {
			for _, s := range ns {
				s.Stop()
			}
		}()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
		defer cancel()
		key := func(i int) keys.Key { return userKey(fmt.Sprintf("big%06d", i)) }
		bounds := []keys.Key{key(0), key(300), key(3000), key(10_000)}
		for _, k := range bounds {
			if _, err := ns[0].DB().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: k}}}); err != nil {
				t.Fatal(err)
			}
		}
		replicated(ctx, t, ns, bounds...)
		for i, k := range bounds {
			if _, err := ns[0].DB().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminTransferLeaseRequest{Key: k, Target: ns[1+i%2].NodeID()}}}); err != nil {
				t.Fatal(err)
			}
		}
		names := []string{"n1", "n2", "n3"}
		for _, a := range names {
			for _, b := range names {
				net.Slow(a, b, 50*time.Millisecond)
			}
		}
		time.Sleep(3 * time.Second)
		for i, c := range []struct {
			name        string
			rows, bytes int
			one         bool
		}{
			{"(the first)", 1, 10, true}, // the gateway learns where the leases are
			{"1 row", 1, 10, true},
			{"100 rows", 100, 10, true},
			{"2,000 rows", 2000, 10, true},
			{"20,000 rows", 20_000, 10, true},
			{"1 MiB", 1024, 1 << 10, true},
			{"8 MiB", 8192, 1 << 10, true},
			{"100,000 rows", 100_000, 10, false},
		} {
			tx := ns[0].DB().Begin(txn.TxnOptions{})
			begun := time.Now()
			for i := 0; i < c.rows; i += 1000 {
				var b txn.WriteBatch
				for j := i; j < min(i+1000, c.rows); j++ {
					b.Put(key(j), make([]byte, c.bytes))
				}
				if err := tx.Write(ctx, &b); err != nil {
					t.Fatal(err)
				}
			}
			before := time.Now()
			if err := tx.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			took := time.Since(before)
			t.Logf("%-12s  writes %4d ms, COMMIT %4d ms", c.name, before.Sub(begun).Milliseconds(), took.Milliseconds())
			const round = 200 * time.Millisecond
			if one := took <= round+round/10; one != c.one && i > 0 {
				t.Errorf("%s: COMMIT took %s, want one round of %s: %t", c.name, took, round, c.one)
			}
			time.Sleep(3 * time.Second) // before leases follow the gateway
			rows, err := ns[0].DB().Scan(ctx, keys.Span{Start: key(0), End: key(999_999)})
			if err != nil || len(rows) < c.rows {
				t.Errorf("%s: %d rows are there, %v", c.name, len(rows), err)
			}
		}
	})
}
