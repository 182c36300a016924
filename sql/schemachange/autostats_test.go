package schemachange_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sql/session/sessiontest"
)

// rowsKnown are the rows that a node's statistics of a table say.
func rowsKnown(t *testing.T, n *sessiontest.Node, name string) int64 {
	st := n.Leases.Statistics(table(t, n, name).ID)
	if st == nil {
		return -1
	}
	return st.Rows
}

// collections are the collections of all nodes without having been asked.
func collections(c *sessiontest.Cluster) (sum int64) {
	for _, n := range c.Nodes {
		sum += n.Schema.Collected()
	}
	return sum
}

// TestStatisticsCollectThemselves: a new table is collected soon after its first rows, and again when 20 % of its rows and 500 more have changed,
// whichever gateways changed them; not before, and not while nothing is written.
func TestStatisticsCollectThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 3)
		defer c.Stop()
		for _, n := range c.Nodes {
			n.Schema.StartStatistics()
		}
		a, b := c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root")
		defer a.Close()
		defer b.Close()
		a.Must("create table t (id int primary key, v int)")
		a.Must("insert into t select g, g % 10 from generate_series(1, 10) g")
		time.Sleep(2 * time.Minute)
		if n := rowsKnown(t, c.Nodes[2], "t"); n != 10 {
			t.Fatalf("soon after its first rows the statistics say %d rows", n)
		}
		// 501 rows are not more than 20 % of 10 and 500.
		a.Must("insert into t select g, g % 10 from generate_series(11, 511) g")
		time.Sleep(12 * time.Minute)
		if n := rowsKnown(t, c.Nodes[2], "t"); n != 10 {
			t.Fatalf("below the threshold: %d rows", n)
		}
		a.Must("insert into t values (512, 1)")
		time.Sleep(11 * time.Minute)
		if n := rowsKnown(t, c.Nodes[2], "t"); n != 512 {
			t.Fatalf("at the threshold: %d rows", n)
		}
		// Two gateways have a part of the changes each; the sum counts.
		for i := range 10 {
			s := a
			if i%2 == 0 {
				s = b
			}
			s.Must(fmt.Sprintf("insert into t select g, 3 from generate_series(%d, %d) g", 1000*(i+1), 1000*(i+1)+999))
		}
		time.Sleep(2 * time.Minute)
		if n := rowsKnown(t, c.Nodes[2], "t"); n != 10_512 {
			t.Fatalf("after many rows: %d", n)
		}
		// Updates and deletes count too.
		a.Must("update t set v = 4 where id < 2000")
		b.Must("delete from t where id >= 9000")
		time.Sleep(2 * time.Minute)
		if n := rowsKnown(t, c.Nodes[2], "t"); n != 8_512 {
			t.Fatalf("after updates and deletes: %d", n)
		}
		before := collections(c)
		if before > 8 {
			t.Errorf("%d collections", before)
		}
		time.Sleep(20 * time.Minute)
		if n := collections(c) - before; n != 0 {
			t.Errorf("%d collections while nothing was written", n)
		}
	})
}

// TestAnalyzedIsNotCollected: rows that ANALYZE has seen are no changes since, also if their gateway had not reported them yet, as after a load
// that ends with ANALYZE.
func TestAnalyzedIsNotCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 2)
		defer c.Stop()
		for _, n := range c.Nodes {
			n.Schema.StartStatistics()
		}
		a := c.Nodes[0].Open(t, "root")
		defer a.Close()
		a.Must("create table t (id int primary key, v int)")
		a.Must("insert into t select g, g % 10 from generate_series(1, 10000) g")
		a.Must("analyze t")
		time.Sleep(25 * time.Minute)
		if n := collections(c); n != 0 {
			t.Errorf("%d collections after ANALYZE", n)
		}
		a.Must("insert into t select g, g % 10 from generate_series(10001, 13000) g")
		time.Sleep(2 * time.Minute)
		if n := rowsKnown(t, c.Nodes[1], "t"); n != 13_000 || collections(c) != 1 {
			t.Errorf("%d rows, %d collections after further changes", n, collections(c))
		}
	})
}

// TestStatisticsOff: with the cluster setting off, nothing is collected, and no request is sent.
func TestStatisticsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 2)
		defer c.Stop()
		for _, n := range c.Nodes {
			n.Schema.StartStatistics()
		}
		a := c.Nodes[0].Open(t, "root")
		defer a.Close()
		a.Must("set cluster setting sql.stats.automatic_collection.enabled = off")
		a.Must("create table t (id int primary key, v int)")
		a.Must("insert into t select g, g % 10 from generate_series(1, 10000) g")
		time.Sleep(25 * time.Minute)
		if n := rowsKnown(t, c.Nodes[1], "t"); n != -1 || collections(c) != 0 {
			t.Errorf("%d rows, %d collections", n, collections(c))
		}
		a.Must("set cluster setting sql.stats.automatic_collection.enabled = on")
		time.Sleep(2 * time.Minute)
		if n := rowsKnown(t, c.Nodes[1], "t"); n != 10_000 {
			t.Errorf("turned on: %d rows", n)
		}
	})
}
