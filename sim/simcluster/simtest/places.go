package simtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/keys"
	"meridian/kv"
	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
)

// Homed waits until the leaseholders of a row-homed table's partitions are where the rows are homed.
func Homed(t *testing.T, c *simcluster.Cluster, conn *pgx.Conn, table string, regions, indexes int) {
	t.Helper()
	var got string
	for range 240 {
		got = PlacesOf(t, c, conn, table)
		homes := map[string]int{}
		for _, r := range sim.FiveRegions().Names {
			for line := range strings.SplitSeq(got, "\n") {
				if strings.HasSuffix(line, "; lease "+r) && strings.Contains(line, "3 "+r) {
					homes[r]++
				}
			}
		}
		done := len(homes) == regions
		for _, n := range homes {
			done = done && n >= indexes
		}
		if done {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Errorf("%s is at\n%s", table, got)
}

// LeasesRest waits until no lease has moved for some time: the nodes of a new cluster even out how many each of them has, one in a second. A gateway finds a lease that has moved by a round
// trip more.
func LeasesRest(t *testing.T, c *simcluster.Cluster) {
	t.Helper()
	var last string
	for rested, tries := 0, 0; rested < 15; tries++ {
		var leases []int
		for i := range c.Names() {
			leases = append(leases, int(c.Node(i).Store().Gauges().Leaseholders))
		}
		if now := fmt.Sprint(leases); now != last {
			last, rested = now, 0
		}
		if rested++; tries > 300 {
			t.Fatalf("leases go on moving: %s", last)
		}
		time.Sleep(time.Second)
	}
}

// Placed waits until ranges are where they should be.
func Placed(t *testing.T, what string, f func() (string, bool)) {
	t.Helper()
	var got string
	for range 240 {
		var ok bool
		if got, ok = f(); ok {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Errorf("%s is at\n%s", what, got)
}

// RegionOf is the region of a node.
func RegionOf(c *simcluster.Cluster, n kv.NodeID) string {
	for i := range c.Len() {
		if node := c.Node(i); node != nil && node.NodeID() == n {
			return c.Machines[i].Region
		}
	}
	return "?"
}

// PlacesOf describes where the ranges of a table are: voters by region, non-voters in parentheses, witnesses in brackets, the leaseholder's region at the end.
func PlacesOf(t *testing.T, c *simcluster.Cluster, conn *pgx.Conn, table string) string {
	t.Helper()
	var id uint32
	if err := conn.QueryRow(context.Background(), "SELECT $1::text::regclass::oid", table).Scan(&id); err != nil {
		t.Fatal(err)
	}
	ranges, err := c.Ranges(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	span := keys.TableSpan(id)
	var out []string
	for _, d := range ranges {
		if !d.Start.Less(span.End) || !span.Start.Less(d.End) {
			continue
		}
		places := map[string]int{}
		for _, r := range d.Replicas {
			p := RegionOf(c, r.Node)
			if r.Type != kv.Voter {
				p = "(" + p + ")"
			}
			if r.Witness {
				p = "[" + p + "]"
			}
			places[p]++
		}
		var words []string
		for p, n := range places {
			words = append(words, fmt.Sprintf("%d %s", n, p))
		}
		slices.Sort(words)
		lease := "none"
		for i := range c.Len() {
			c.On(i, func(_ context.Context, n *server.Node) {
				if r := n.Store().Replica(d.ID); r != nil {
					if l, ok := r.Lease(); ok {
						lease = RegionOf(c, l.Holder.Node)
					}
				}
			})
		}
		out = append(out, strings.Join(words, ", ")+"; lease "+lease)
	}
	return strings.Join(out, "\n")
}

// Settle waits until a table's ranges are where they should be.
func Settle(t *testing.T, c *simcluster.Cluster, conn *pgx.Conn, table, want string) {
	t.Helper()
	var got string
	for range 240 {
		if got = PlacesOf(t, c, conn, table); got == want {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Errorf("%s is at\n%s\nwant\n%s", table, got, want)
}
