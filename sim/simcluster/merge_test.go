package simcluster_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
	"meridian/sim/simcluster"
	"meridian/storage/engine"
	"meridian/txn"
)

// admin sends a request about a range through node i.
func admin(c *simcluster.Cluster, i int, q kv.Request) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err := c.Node(i).Router().Send(ctx, &kv.Batch{Requests: []kv.Request{q}})
	return err
}

// whole says what is wrong with the ranges of a cluster that has come to rest: the index has to cover the keyspace
// exactly once, every replica has to belong to a range of the index, a range's replicas have to be equal, and their
// statistics have to be equal to a count.
func whole(c *simcluster.Cluster) (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var first []kv.RangeDescriptor
	for i := range c.Len() {
		ranges, err := c.Ranges(ctx, i)
		if err != nil {
			bad("n%d: %v", i+1, err)
			continue
		}
		at := keys.Min
		for _, d := range ranges {
			if !d.Start.Equal(at) {
				bad("n%d: the index goes from %s to %v", i+1, at, &d)
			}
			at = d.End
		}
		if !at.Equal(keys.Max) {
			bad("n%d: the index ends at %s", i+1, at)
		}
		if i == 0 {
			first = ranges
		} else if fmt.Sprint(ranges) != fmt.Sprint(first) {
			bad("n%d: the index is %v, n1 sees %v", i+1, ranges, first)
		}
	}
	at := map[kv.RangeID]kv.RangeDescriptor{}
	for _, d := range first {
		at[d.ID] = d
	}
	sums := map[kv.RangeID]map[string]string{}
	for i := range c.Len() {
		n := c.Node(i)
		n.Store().Replicas(func(r *replica.Replica) bool {
			d, ok := at[r.RangeID()]
			have := r.Desc()
			if have == nil {
				return true // a message was once sent to a replica that was never made
			}
			if self, here := d.Replica(n.NodeID()); !ok || !here || self.Replica != r.ReplicaID() || have.Generation != d.Generation {
				bad("n%d has %v as replica %d, the index %v %v", i+1, have, r.ReplicaID(), &d, d.Replicas)
				return true
			}
			kept, counted, err := r.CountStats()
			if err != nil || kept != counted {
				bad("n%d, %v: statistics say %+v, a count %+v (%v)", i+1, have, kept, counted, err)
			}
			// Followers of a range that is written now may be a little behind, so the comparison is at one applied index.
			before := r.AppliedIndex()
			sum, err := fingerprint(n.Store().Engine(), have)
			if err != nil {
				bad("n%d, %v: %v", i+1, have, err)
			}
			if r.AppliedIndex() == before {
				at := fmt.Sprint("at ", before)
				if sums[d.ID] == nil {
					sums[d.ID] = map[string]string{}
				}
				if other, ok := sums[d.ID][at]; ok && other != sum {
					bad("r%d: replicas differ %s", d.ID, at)
				}
				sums[d.ID][at] = sum
			}
			return true
		})
	}
	return problems
}

// fingerprint is a hash of a range's data on one store.
func fingerprint(e *engine.Engine, d *kv.RangeDescriptor) (string, error) {
	h := fnv.New128a()
	for _, s := range keys.RangeDataSpans(d.Start, d.End) {
		it, err := e.NewIter(engine.IterOptions{Lower: s.Start, Upper: s.Stop()})
		if err != nil {
			return "", err
		}
		for ok := it.First(); ok; ok = it.Next() {
			v, err := it.Value()
			if err != nil {
				_ = it.Close()
				return "", err
			}
			fmt.Fprintf(h, "%d %d ", len(it.RawKey()), len(v))
			_, _ = h.Write(it.RawKey())
			_, _ = h.Write(v)
		}
		if err := it.Close(); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// rest waits until a cluster is whole, or says what is wrong.
func rest(t *testing.T, c *simcluster.Cluster) {
	t.Helper()
	var problems []string
	for i := range 60 {
		if problems = whole(c); len(problems) == 0 {
			if problems = compared(c); len(problems) == 0 {
				return
			}
		}
		time.Sleep(time.Second << min(i/3, 5)) // a leftover replica is found when it asks for its range
	}
	t.Error(strings.Join(problems, "\n"))
}

// TestMerge splits a range and puts it together again, with the right side's lease on each of the nodes, while a
// transaction is open on both sides.
func TestMerge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: logTo()})
		replicated(t, c, 3)
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
			if err := put(ctx, c.Node(0).DB(), userKey(i), "old"); err != nil {
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
			if err := admin(c, 0, &kv.AdminSplitRequest{Key: userKey(10)}); err != nil {
				t.Fatal(err)
			}
			if err := c.TransferLease(ctx, userKey(10), round%3); err != nil {
				t.Fatal(err)
			}
			before := counted(len(whole) + 1)
			want := fmt.Sprint("new", round)
			mid := make(chan error, 1)
			err = c.Node(2).DB().Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
				if _, err := tx.Get(ctx, userKey(12), kv.Exclusive, kv.Block); err != nil {
					return err
				}
				if round%2 == 1 {
					var b txn.WriteBatch
					b.Put(userKey(3), []byte(want))
					b.Put(userKey(15), []byte(want))
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
					if err := admin(c, round%2, &kv.AdminMergeRequest{Key: userKey(5)}); err != nil {
						return fmt.Errorf("merge: %w", err)
					}
					t.Logf("round %d: merged in %s", round, time.Since(start))
				}
				var b txn.WriteBatch
				b.Put(userKey(3), []byte(want))
				b.Put(userKey(12), []byte(want))
				b.Put(userKey(15), []byte(want))
				return tx.CommitBatch(ctx, &b)
			})
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			for _, i := range []int{3, 12, 15} {
				if got := value(userKey(i)); got != want {
					t.Errorf("round %d: key %d is %q", round, i, got)
				}
			}
			if got := value(userKey(19)); got != "old" {
				t.Errorf("round %d: key 19 is %q", round, got)
			}
			after := counted(len(whole))
			rest(t, c)
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
		if got := value(userKey(12)); got != "new5" {
			t.Errorf("after the crash, key 12 is %q", got)
		}
		rest(t, c)
	})
}

// TestRangesMergeByThemselves: ranges that were split by hand stay until UNSPLIT; ranges that were split for their size
// merge when their data is cleared, as after DROP TABLE or for an index that was replaced.
func TestRangesMergeByThemselves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: logTo(), RangeMaxBytes: 256 << 10})
		replicated(t, c, 3)
		ctx := context.Background()
		conn := connect(t, c, 0)
		count := func() int { return len(mustRanges(t, c)) }
		settle := func(want int, within time.Duration) {
			t.Helper()
			for end := time.Now().Add(within); count() != want; time.Sleep(5 * time.Second) {
				if time.Now().After(end) {
					t.Fatalf("%d ranges after %s, want %d", count(), within, want)
				}
			}
		}
		exec(t, conn, "CREATE TABLE m (id int PRIMARY KEY, v text)")
		exec(t, conn, "INSERT INTO m SELECT i, 'x' FROM generate_series(1, 100) AS g(i)")
		time.Sleep(3 * time.Minute)
		before := count()
		exec(t, conn, "ALTER TABLE m SPLIT AT VALUES (20), (40), (60)")
		time.Sleep(3 * time.Minute)
		if n := count(); n != before+3 {
			t.Errorf("%d ranges, then three splits, then %d", before, n)
		}
		exec(t, conn, "ALTER TABLE m UNSPLIT AT VALUES (40)")
		settle(before+2, 3*time.Minute)
		exec(t, conn, "ALTER TABLE m UNSPLIT ALL")
		settle(before, 3*time.Minute)

		for i := range 200 {
			if err := put(ctx, c.Node(0).DB(), userKey(i), strings.Repeat("x", 8<<10)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(30 * time.Second)
		if n := count(); n < before+4 {
			t.Errorf("1.6 MB are in %d ranges", n)
		}
		if err := c.Node(0).DB().Clear(ctx, keys.Span{Start: userKey(0), End: userKey(999)}); err != nil {
			t.Fatal(err)
		}
		settle(before, 10*time.Minute)
		var n int
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM m").Scan(&n); err != nil || n != 100 {
			t.Errorf("%d rows, %v", n, err)
		}
		rest(t, c)
	})
}
