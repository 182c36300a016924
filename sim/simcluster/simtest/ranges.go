package simtest

import (
	"context"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
	"meridian/server"
	"meridian/sim/simcluster"
	"meridian/txn"
)

// Leases are the ranges that a node has the lease of.
func Leases(n *server.Node) (out []kv.RangeID) {
	if n == nil || n.Store() == nil {
		return nil
	}
	n.Store().Replicas(func(r *replica.Replica) bool {
		if _, held := r.CheckLease(clock.Timestamp{}); held && r.Desc() != nil {
			out = append(out, r.RangeID())
		}
		return true
	})
	return out
}

// UserKey is a key of a test that needs no table.
func UserKey(i int) keys.Key {
	return append(keys.IndexPrefix(uint32(20000), uint32(1)), []byte(fmt.Sprintf("k%04d", i))...)
}

// Put writes one key in a transaction.
func Put(ctx context.Context, db *txn.DB, k keys.Key, v string) error {
	return db.Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
		var b txn.WriteBatch
		b.Put(k, []byte(v))
		return tx.CommitBatch(ctx, &b)
	})
}

// Replicated waits until every range has n replicas and its lease on node 0.
func Replicated(t *testing.T, c *simcluster.Cluster, n int) {
	t.Helper()
	ctx := context.Background()
	for range 600 {
		ranges, err := c.Ranges(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		good := true
		for _, d := range ranges {
			// The system's own range has five where there are so many nodes.
			good = good && (len(d.Replicas) == n || d.Start.Less(keys.TablePrefix) && len(d.Replicas) >= min(n, 5))
			for _, r := range d.Replicas {
				good = good && r.Type == kv.Voter
			}
		}
		if good {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the ranges are not replicated after a minute")
}

// RestWithin fails unless the cluster is whole in time.
func RestWithin(t *testing.T, c *simcluster.Cluster, limit time.Duration) {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(500 * time.Millisecond) {
		problems := Whole(c)
		if len(problems) == 0 {
			return
		}
		if time.Now().After(end) {
			for _, p := range problems {
				t.Error(p)
			}
			DumpRanges(t, c)
			return
		}
	}
}

// TableKey is the beginning of a table's first index.
func TableKey(t *testing.T, conn *pgx.Conn, table string) keys.Key {
	t.Helper()
	var id uint32
	if err := conn.QueryRow(context.Background(), "SELECT oid::int8 FROM pg_class WHERE relname = $1", table).Scan(&id); err != nil {
		t.Fatal(err)
	}
	return keys.IndexPrefix(id, uint32(1))
}

// MustRanges are the ranges as node 0 finds them.
func MustRanges(t *testing.T, c *simcluster.Cluster) []kv.RangeDescriptor {
	t.Helper()
	time.Sleep(200 * time.Millisecond) // the index learns in the background
	ranges, err := c.Ranges(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return ranges
}

// DumpRanges adds to the file that MERIDIAN_DUMP names each node's state of its ranges, twice, and the stacks of all
// goroutines.
func DumpRanges(t *testing.T, c *simcluster.Cluster) {
	f, err := os.OpenFile(os.Getenv("MERIDIAN_DUMP"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	defer f.Close()
	for range 2 { // what stands still shows
		fmt.Fprintf(f, "%s at %s\n", t.Name(), time.Now())
		for i := range c.Len() {
			if n := c.Node(i); n != nil && n.Store() != nil {
				fmt.Fprintf(f, "n%d\n", i+1)
				n.Store().Describe(f)
				for _, r := range n.Router().Cached() {
					fmt.Fprintf(f, "  in the gateway's cache: %v, served by %v\n", &r.Desc, r.Leaseholder)
				}
			}
		}
		time.Sleep(time.Second)
	}
	_ = pprof.Lookup("goroutine").WriteTo(f, 2)
}

// Admin sends a request about a range through node i.
func Admin(c *simcluster.Cluster, i int, q kv.Request) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err := c.Node(i).Router().Send(ctx, &kv.Batch{Requests: []kv.Request{q}})
	return err
}

// Rest waits until a cluster is whole, or says what is wrong.
func Rest(t *testing.T, c *simcluster.Cluster) {
	t.Helper()
	var problems []string
	for i := range 60 {
		if problems = Whole(c); len(problems) == 0 {
			if problems = Compared(c); len(problems) == 0 {
				return
			}
		}
		time.Sleep(time.Second << min(i/3, 5)) // a leftover replica is found when it asks for its range
	}
	t.Error(strings.Join(problems, "\n"))
}

// Fails waits for the error that ends node i.
func Fails(t *testing.T, c *simcluster.Cluster, i int, within time.Duration) error {
	t.Helper()
	select {
	case err := <-c.Node(i).Failed():
		return err
	case <-time.After(within):
		t.Fatalf("node %d goes on", i)
		return nil
	}
}

// Healthy writes through node i.
func Healthy(t *testing.T, c *simcluster.Cluster, i int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := Put(ctx, c.Node(i).DB(), UserKey(i), "v"); err != nil {
		t.Fatalf("through node %d: %v", i, err)
	}
}

// Holder is the machine whose node has the lease of a key's range.
func Holder(t *testing.T, c *simcluster.Cluster, at int, k keys.Key) int {
	t.Helper()
	r, err := c.Node(at).Router().Send(context.Background(), &kv.Batch{Requests: []kv.Request{&kv.RangeInfoRequest{Key: k}}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.Len() {
		if n := c.Node(i); n != nil && n.NodeID() == r.Responses[0].(*kv.RangeInfoResponse).Leaseholder {
			return i
		}
	}
	t.Fatal("nobody has the lease")
	return 0
}
