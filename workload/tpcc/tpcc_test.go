package tpcc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sql/parse"
	"meridian/workload"
)

// tiny is a small load, whose new orders last for the deliveries of a short run.
func tiny() *TPCC {
	t := New()
	t.Warehouses, t.ScaleDown, t.Wait = 2, 50, false
	return t
}

// spoils are changes of one row, each with the conditions that it violates. Foreign keys would forbid some of them.
var spoils = []struct {
	sql  string
	want []int
}{
	{"UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 1", []int{1, 8}},
	{"UPDATE district SET d_ytd = d_ytd + 1 WHERE d_w_id = 2 AND d_id = 3", []int{1, 9}},
	{"UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 10", []int{2}},
	{"DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 1 AND no_o_id = (SELECT min(no_o_id) + 1 FROM new_order WHERE no_w_id = 1 AND no_d_id = 1)", []int{3, 5, 11}},
	{"DELETE FROM order_line WHERE ol_w_id = 2 AND ol_d_id = 1 AND ol_o_id = 1 AND ol_number = 1", []int{4, 6}},
	{"UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_w_id = 2 AND o_d_id = 2 AND o_id = 2", []int{4, 6}},
	{"UPDATE orders SET o_carrier_id = NULL WHERE o_w_id = 1 AND o_d_id = 5 AND o_id = 1", []int{5, 7}},
	{"UPDATE order_line SET ol_delivery_d = NULL WHERE ol_w_id = 1 AND ol_d_id = 5 AND ol_o_id = 1 AND ol_number = 3", []int{7}},
	{"UPDATE history SET h_amount = h_amount + 1 WHERE h_w_id = 1 AND h_d_id = 5 AND h_c_id = 1", []int{8, 9, 10}},
	{"UPDATE customer SET c_balance = c_balance + 1 WHERE c_w_id = 2 AND c_d_id = 7 AND c_id = 4", []int{10, 12}},
	{"UPDATE customer SET c_ytd_payment = c_ytd_payment + 1 WHERE c_w_id = 2 AND c_d_id = 7 AND c_id = 4", []int{12}},
	{"UPDATE customer SET c_delivery_cnt = c_delivery_cnt + 1 WHERE c_w_id = 2 AND c_d_id = 7 AND c_id = 4", []int{11}},
	{"DELETE FROM orders WHERE o_w_id = 1 AND o_d_id = 9 AND o_id = (SELECT max(o_id) FROM orders WHERE o_w_id = 1 AND o_d_id = 9)", []int{2, 4, 11}},
	{"UPDATE order_line SET ol_amount = ol_amount + 1 WHERE ol_w_id = 1 AND ol_d_id = 5 AND ol_o_id = 1 AND ol_number = 1", []int{10, 12}},
}

var violated = regexp.MustCompile(`3\.3\.2\.(\d+) \(`)

// exercise loads, runs and checks, then changes one row after the other, for which Check has to name all conditions that are violated.
func exercise(t *testing.T, w *TPCC, o workload.Options, connect func() (*pgx.Conn, error)) *workload.Result {
	t.Helper()
	ctx := context.Background()
	conn, err := connect()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if err := w.Init(ctx, conn); err != nil {
		t.Fatal(err)
	}
	if err := w.Check(ctx, conn); err != nil {
		t.Fatalf("after the load: %v", err)
	}
	var out strings.Builder
	o.Out, o.Quiet = &out, true
	r, err := workload.Run(ctx, w, o)
	t.Log(out.String())
	if err != nil || r.Errors > 0 || r.Unknown > 0 {
		t.Fatalf("%+v: %v", r, err)
	}
	exec := func(sql string) {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	exec("ALTER TABLE new_order DROP CONSTRAINT new_order_orders_fk")
	exec("ALTER TABLE order_line DROP CONSTRAINT order_line_orders_fk")
	for _, s := range spoils {
		tx, err := conn.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		tag, err := tx.Exec(ctx, s.sql)
		if err != nil || tag.RowsAffected() != 1 {
			t.Fatalf("%s: %v, %v", s.sql, tag, err)
		}
		err = w.verify(ctx, tx)
		tx.Rollback(ctx)
		var broken *workload.CheckError
		if !errors.As(err, &broken) {
			t.Errorf("after %s: %v", s.sql, err)
			continue
		}
		var got []int
		for _, m := range violated.FindAllStringSubmatch(err.Error(), -1) {
			var n int
			fmt.Sscan(m[1], &n)
			got = append(got, n)
		}
		// A run may have made a delivery of what a change refers to, so that more conditions are violated, but never fewer.
		for _, n := range s.want {
			if !slices.Contains(got, n) {
				t.Errorf("after %s: violated are %v, and not %d of %v", s.sql, got, n, s.want)
			}
		}
	}
	if err := w.Check(ctx, conn); err != nil {
		t.Errorf("after all changes were rolled back: %v", err)
	}
	return r
}

// TestSimulated loads, runs and checks on three nodes in virtual time.
func TestSimulated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions().WithoutLatency(), NodesPerRegion: 1})
		ctx := context.Background()
		w := tiny()
		w.Inserts = true
		r := exercise(t, w, workload.Options{Concurrency: 6, MaxOps: 600, Seed: 1, Connect: func(ctx context.Context, worker, attempt int) (*pgx.Conn, error) {
			return c.Connect(ctx, (max(worker, 0)+attempt)%3, "defaultdb")
		}}, func() (*pgx.Conn, error) { return c.Connect(ctx, 0, "defaultdb") })
		for _, k := range kinds() {
			if h := r.Kinds[k.name]; h == nil || h.TotalCount() < int64(k.cards)*600/100/2 {
				t.Errorf("%s: %v", k.name, h)
			}
		}
		if w.rolledBack.Load() == 0 || w.remote.Load() == 0 {
			t.Errorf("%d new orders were rolled back, %d had remote lines", w.rolledBack.Load(), w.remote.Load())
		}
	})
}

// TestWaitsGiveTheRate runs one warehouse's terminals with keying and think times for an hour: nearly 12.86 new orders per minute.
func TestWaitsGiveTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions().WithoutLatency(), Nodes: []int{1, 0, 0}})
		ctx := context.Background()
		conn, err := c.Connect(ctx, 0, "defaultdb")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		w := tiny()
		w.Warehouses, w.Wait, w.Inserts = 1, true, true
		if err := w.Init(ctx, conn); err != nil {
			t.Fatal(err)
		}
		r, err := workload.Run(ctx, w, workload.Options{Concurrency: w.Terminals(), Duration: time.Hour, Ramp: 2 * time.Minute, Seed: 1, Quiet: true,
			Connect: func(ctx context.Context, _, _ int) (*pgx.Conn, error) { return c.Connect(ctx, 0, "defaultdb") }})
		if err != nil {
			t.Fatal(err)
		}
		f := w.Figures(r)
		t.Logf("%.2f tpmC, efficiency %.3f, p50 %d us", f.TpmC, f.Efficiency, r.Latency.ValueAtQuantile(50))
		if f.Efficiency < 0.9 || f.Efficiency > 1.1 {
			t.Errorf("efficiency %.3f", f.Efficiency)
		}
		if p := r.Latency.ValueAtQuantile(99); p > 1_000_000 {
			t.Errorf("waits are part of latencies: p99 is %d us", p)
		}
	})
}

// TestOnServer runs the workload on the server of MERIDIAN_TEST_URL, any that speaks PostgreSQL.
func TestOnServer(t *testing.T) {
	url := os.Getenv("MERIDIAN_TEST_URL")
	if url == "" {
		t.Skip("MERIDIAN_TEST_URL is not set")
	}
	exercise(t, tiny(), workload.Options{URLs: []string{url}, Concurrency: 8, MaxOps: 2000, CheckEvery: 100 * time.Millisecond, Seed: 1},
		func() (*pgx.Conn, error) { return pgx.Connect(t.Context(), url) })
}

// TestLoadIsDeterministic makes all rows twice.
func TestLoadIsDeterministic(t *testing.T) {
	all := func(seed uint64) string {
		var b strings.Builder
		w := tiny()
		w.Seed = seed
		w.parts(func(part func() []*rows) {
			for _, r := range part() {
				b.WriteString(r.table)
				b.Write(r.Bytes())
			}
		})
		return b.String()
	}
	first, again := all(1), all(1)
	if first != again {
		t.Error("one seed, two loads")
	}
	if first == all(2) {
		t.Error("two seeds, one load")
	}
}

// TestDistributions compares what terminals draw with the specification's shares.
func TestDistributions(t *testing.T) {
	w := New()
	w.Warehouses = 10
	dice := rand.New(rand.NewPCG(1, 1))
	m := &terminal{TPCC: w, dice: dice, kinds: kinds(), first: 3, last: 3}
	counts := make(map[string]int)
	for range 1000 {
		m.deal()
		counts[m.nextKind.name]++
	}
	for _, k := range kinds() {
		if counts[k.name] != 10*k.cards {
			t.Errorf("%d of 1000 are %s, not %d", counts[k.name], k.name, 10*k.cards)
		}
	}
	named, most := 0, make(map[int]int)
	const n = 100_000
	for range n {
		if c := m.anyone(3, 1); c.id == 0 {
			named++
		}
		c := m.anyCustomer()
		if c < 1 || c > fullCustomers {
			t.Fatal(c)
		}
		most[c]++
		if i := m.anyItem(); i < 1 || i > fullItems {
			t.Fatal(i)
		}
		if o := m.otherWarehouse(3); o == 3 || o < 1 || o > 10 {
			t.Fatal(o)
		}
	}
	if named < n*58/100 || named > n*62/100 {
		t.Errorf("%d of %d customers are named", named, n)
	}
	// NURand's favourites are drawn several times as often as the average.
	hottest := 0
	for _, c := range most {
		hottest = max(hottest, c)
	}
	if hottest < 3*n/fullCustomers {
		t.Errorf("the hottest customer was drawn %d times", hottest)
	}
	for _, c := range []struct{ a, full, part, want int }{{1023, 3000, 3000, 1023}, {1023, 3000, 15, 3}, {8191, 100_000, 500, 31}, {255, 1000, 10, 1}} {
		if got := scaledA(c.a, c.full, c.part); got != c.want {
			t.Errorf("A for %d of %d: %d, not %d", c.part, c.full, got, c.want)
		}
	}
	if lastName(371) != "PRICALLYOUGHT" || lastName(40) != "BARPRESBAR" {
		t.Error(lastName(371), lastName(40))
	}
}

// TestRegions compares homes of warehouses with the computed column, and reads the statements by the parser.
func TestRegions(t *testing.T) {
	w := New()
	w.Warehouses, w.Regions = 10, []string{"us-east1", "us-west1", "europe-west1"}
	if got, want := w.regionOf("w_id"), "CASE WHEN w_id <= 3 THEN 'us-east1' WHEN w_id <= 6 THEN 'us-west1' ELSE 'europe-west1' END"; got != want {
		t.Error(got)
	}
	for id := range w.Terminals() {
		first, last := w.warehousesOf(w.RegionOfWorker(id))
		if h := w.warehouseOfTerminal(id); h < first || h > last {
			t.Errorf("terminal %d of warehouse %d sits in a region of %d to %d", id, h, first, last)
		}
	}
	schema := w.Schema()
	for _, sql := range append(workload.DatabaseRegions("tpcc", w.Regions), schema...) {
		if _, err := parse.Parse(sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	byRow, global := 0, 0
	for _, sql := range schema {
		if strings.HasSuffix(sql, "LOCALITY REGIONAL BY ROW") && strings.Contains(sql, "crdb_region crdb_internal_region NOT NULL AS (CASE") {
			byRow++
		}
		if strings.HasSuffix(sql, "LOCALITY GLOBAL") {
			global++
		}
	}
	if byRow != 8 || global != 1 {
		t.Errorf("%d tables are REGIONAL BY ROW, %d GLOBAL", byRow, global)
	}
}
