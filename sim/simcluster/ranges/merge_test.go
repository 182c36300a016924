package ranges_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/txn"
)

// TestMerge splits a range and puts it together again, with the right side's lease on each of the nodes, while a
// transaction is open on both sides.
func TestMerge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
		simtest.Replicated(t, c, 3)
		for i := range c.Len() {
			c.Node(i).Store().PauseQueues(true)
		}
		ctx := context.Background()
		value := func(k keys.Key) string {
			t.Helper()
			limit, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			v, err := c.Node(1).DB().Get(limit, k)
			if err != nil {
				t.Fatal(err)
			}
			return string(v)
		}
		for i := range 20 {
			if err := simtest.Put(ctx, c.Node(0).DB(), simtest.UserKey(i), "old"); err != nil {
				t.Fatal(err)
			}
		}
		// counted are the ranges once the index, which learns in the background, has so many.
		counted := func(want int) (out []kv.RangeDescriptor) {
			t.Helper()
			var err error
			for i := 0; i < 50 && len(out) != want; i++ {
				time.Sleep(100 * time.Millisecond)
				if out, err = c.Ranges(ctx, 2); err != nil {
					t.Fatal(err)
				}
			}
			if len(out) != want {
				t.Fatalf("%d ranges, want %d", len(out), want)
			}
			return out
		}
		whole, err := c.Ranges(ctx, 2)
		if err != nil {
			t.Fatal(err)
		}
		for round := range 6 {
			if err := simtest.Admin(c, 0, &kv.AdminSplitRequest{Key: simtest.UserKey(10)}); err != nil {
				t.Fatal(err)
			}
			if err := c.TransferLease(ctx, simtest.UserKey(10), round%3); err != nil {
				t.Fatal(err)
			}
			before := counted(len(whole) + 1)
			want := fmt.Sprint("new", round)
			mid := make(chan error, 1)
			err = c.Node(2).DB().Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
				if _, err := tx.Get(ctx, simtest.UserKey(12), kv.Exclusive, kv.Block); err != nil {
					return err
				}
				if round%2 == 1 {
					var b txn.WriteBatch
					b.Put(simtest.UserKey(3), []byte(want))
					b.Put(simtest.UserKey(15), []byte(want))
					if err := tx.Write(ctx, &b); err != nil {
						return err
					}
					if _, err := tx.Lay(ctx); err != nil {
						return err
					}
				}
				select {
				case err := <-mid:
					return err
				default:
					start := time.Now()
					if err := simtest.Admin(c, round%2, &kv.AdminMergeRequest{Key: simtest.UserKey(5)}); err != nil {
						return fmt.Errorf("merge: %w", err)
					}
					t.Logf("round %d: merged in %s", round, time.Since(start))
				}
				var b txn.WriteBatch
				b.Put(simtest.UserKey(3), []byte(want))
				b.Put(simtest.UserKey(12), []byte(want))
				b.Put(simtest.UserKey(15), []byte(want))
				return tx.CommitBatch(ctx, &b)
			})
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			for _, i := range []int{3, 12, 15} {
				if got := value(simtest.UserKey(i)); got != want {
					t.Errorf("round %d: key %d is %q", round, i, got)
				}
			}
			if got := value(simtest.UserKey(19)); got != "old" {
				t.Errorf("round %d: key 19 is %q", round, got)
			}
			after := counted(len(whole))
			simtest.Rest(t, c)
			// Every store remembers that no replica of the absorbed range may come back, however late a message for it is.
			for _, d := range before {
				if slices.ContainsFunc(after, func(x kv.RangeDescriptor) bool { return x.ID == d.ID }) {
					continue
				}
				for i := range c.Len() {
					if v, err := c.Node(i).Store().Engine().Get(keys.TombstoneKey(d.ID)); v == nil || err != nil {
						t.Errorf("round %d: n%d has forgotten that r%d is over: %v", round, i+1, d.ID, err)
					}
				}
			}
		}
		// All replicas crash and lose their unsynced data, and no absorbed range comes back.
		for i := range c.Len() {
			c.Crash(i, 0, false)
		}
		for i := range c.Len() {
			c.Boot(i)
		}
		for i := range c.Len() {
			c.WaitReady(i)
		}
		if got := value(simtest.UserKey(12)); got != "new5" {
			t.Errorf("after the crash, key 12 is %q", got)
		}
		simtest.Rest(t, c)
	})
}

// TestRangesMergeByThemselves: ranges that were split by hand stay until UNSPLIT; ranges that were split for their size
// merge when their data is cleared, as after DROP TABLE or for an index that was replaced.
func TestRangesMergeByThemselves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo(), RangeMaxBytes: 256 << 10})
		simtest.Replicated(t, c, 3)
		ctx := context.Background()
		conn := simtest.Connect(t, c, 0)
		count := func() int { return len(simtest.MustRanges(t, c)) }
		settle := func(want int, within time.Duration) {
			t.Helper()
			for end := time.Now().Add(within); count() != want; time.Sleep(5 * time.Second) {
				if time.Now().After(end) {
					t.Fatalf("%d ranges after %s, want %d", count(), within, want)
				}
			}
		}
		simtest.Exec(t, conn, "CREATE TABLE m (id int PRIMARY KEY, v text)")
		simtest.Exec(t, conn, "INSERT INTO m SELECT i, 'x' FROM generate_series(1, 100) AS g(i)")
		time.Sleep(3 * time.Minute)
		before := count()
		simtest.Exec(t, conn, "ALTER TABLE m SPLIT AT VALUES (20), (40), (60)")
		time.Sleep(3 * time.Minute)
		if n := count(); n != before+3 {
			t.Errorf("%d ranges, then three splits, then %d", before, n)
		}
		simtest.Exec(t, conn, "ALTER TABLE m UNSPLIT AT VALUES (40)")
		settle(before+2, 3*time.Minute)
		simtest.Exec(t, conn, "ALTER TABLE m UNSPLIT ALL")
		settle(before, 3*time.Minute)

		for i := range 200 {
			if err := simtest.Put(ctx, c.Node(0).DB(), simtest.UserKey(i), strings.Repeat("x", 8<<10)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(30 * time.Second)
		if n := count(); n < before+4 {
			t.Errorf("1.6 MB are in %d ranges", n)
		}
		if err := c.Node(0).DB().Clear(ctx, keys.Span{Start: simtest.UserKey(0), End: simtest.UserKey(999)}); err != nil {
			t.Fatal(err)
		}
		settle(before, 10*time.Minute)
		var n int
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM m").Scan(&n); err != nil || n != 100 {
			t.Errorf("%d rows, %v", n, err)
		}
		simtest.Rest(t, c)
	})
}
