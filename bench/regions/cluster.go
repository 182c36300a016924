package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/keys"
	"meridian/kv"
	"meridian/sim/simcluster"
	"meridian/workload"
)

// must runs a statement.
func must(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// persist runs a statement until no other transaction is in its way.
func persist(ctx context.Context, conn *pgx.Conn, sql string, args []any) (tag pgconn.CommandTag, err error) {
	for {
		if tag, err = conn.Exec(ctx, sql, args...); err == nil || !workload.Retryable(err) {
			break
		}
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", sql, err)
	}
	return tag, err
}

// open connects to a node's database until the test ends.
func open(t *testing.T, c *simcluster.Cluster, node int, database string) *pgx.Conn {
	t.Helper()
	conn, err := c.Connect(context.Background(), node, database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// nodesOf lists the nodes of a region.
func nodesOf(c *simcluster.Cluster, region string) (nodes []int) {
	for i, m := range c.Machines {
		if m.Region == region {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// place is where the voters of a range and its leaseholder have to be: by region.
type place struct {
	voters map[string]int
	lease  string   // empty: anywhere
	also   []string // regions with a replica of any kind
}

// settle waits until the ranges of some tables of a database are where they have to be.
func settle(t *testing.T, c *simcluster.Cluster, conn *pgx.Conn, tables []string, want place) {
	t.Helper()
	ctx := context.Background()
	var missing string
	for range 600 {
		missing = ""
		ranges, err := c.Ranges(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range tables {
			var id uint32
			if err := conn.QueryRow(ctx, "SELECT $1::text::regclass::oid", name).Scan(&id); err != nil {
				t.Fatal(err)
			}
			span := keys.TableSpan(id)
			for _, d := range ranges {
				if d.Start.Less(span.End) && span.Start.Less(d.End) {
					if got := placed(c, &d, want); got != "" {
						missing = name + ": " + got
					}
				}
			}
		}
		if missing == "" {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Fatalf("%s, want %v", missing, want)
}

// placed compares one range; empty: it is where it has to be.
func placed(c *simcluster.Cluster, d *kv.RangeDescriptor, want place) string {
	voters, all, lease := map[string]int{}, map[string]bool{}, ""
	for i := range c.Len() {
		n := c.Node(i)
		if n == nil {
			continue
		}
		if r, ok := d.Replica(n.NodeID()); ok {
			if all[c.Machines[i].Region] = true; r.Type == kv.Voter {
				voters[c.Machines[i].Region]++
			}
		}
		if r := n.Store().Replica(d.ID); r != nil {
			if l, ok := r.Lease(); ok && l.Holder.Node == n.NodeID() {
				lease = c.Machines[i].Region
			}
		}
	}
	for region, n := range want.voters {
		if voters[region] != n {
			return fmt.Sprintf("range %d has voters %v", d.ID, voters)
		}
	}
	for _, region := range want.also {
		if !all[region] {
			return fmt.Sprintf("range %d has no replica in %s", d.ID, region)
		}
	}
	if want.lease != "" && lease != want.lease {
		return fmt.Sprintf("the lease of range %d is in %q", d.ID, lease)
	}
	return ""
}

// sample is one operation of a client.
type sample struct {
	kind    string
	region  string
	end     time.Duration // since the beginning of the measurement
	latency time.Duration
	failed  bool
	hottest bool // of the row that is used most
}

// samples are gathered from all clients.
type samples struct {
	mu   sync.Mutex
	list []sample
}

func (s *samples) add(v sample) {
	s.mu.Lock()
	s.list = append(s.list, v)
	s.mu.Unlock()
}

// latencies are those of the operations that were done and that f accepts, in order.
func latencies(list []sample, f func(*sample) bool) (out []time.Duration) {
	for i := range list {
		if !list[i].failed && f(&list[i]) {
			out = append(out, list[i].latency)
		}
	}
	slices.Sort(out)
	return out
}

// quantile is the q-quantile of sorted latencies; zero if there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func sorted(list []float64) []float64 { return slices.Sorted(slices.Values(list)) }
