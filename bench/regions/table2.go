package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/bench/plot"
	"meridian/keys"
	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/workload"
	"meridian/workload/movr"
	"meridian/workload/tpcc"
)

func table2() figure {
	return figure{name: "table2", title: "Statements for several regions, before and after the syntax of regions (CRDB'22, table 2)", run: runTable2, about: `
**Question.** How many DDL statements does a schema need to serve three regions, and to serve one more or one less?

**Setup.** Four regions with three nodes each. For each of three schemas, the statements with PARTITION BY, zone configurations and duplicate indexes (before) and those of
regions (after) are run one by one, each in a database of its own, and counted as they succeed. Then the program waits until the schema's partitions have their leaseholders in
as many regions as there should be: three at first, four after a region was added, and three again after it was dropped.

**Counting.** Statements that every schema needs (CREATE TABLE and CREATE INDEX without any word about regions) do not count. The paper counts a computed column
within CREATE TABLE as a statement of its own, and this table does so too: the number of statements proper is in parentheses where it differs.`}
}

// regional is a schema and its ways to several regions.
type regional struct {
	name string
	// schema makes it in one region, and counts nowhere.
	schema []string
	// before are the statements for some regions, with PARTITION BY.
	before func(regions []string) []string
	// beforeAdd and beforeDrop are those for a change to some regions.
	beforeAdd, beforeDrop func(regions []string, changed string) []string
	// create makes the schema for regions; convert does so for one that is there.
	create, convert func(database string, regions []string) []string
	// probe is a table whose partitions have leaseholders everywhere, and fill are its rows.
	probe string
	// paper has the paper's numbers: before and after, of creation, conversion, addition, removal.
	paper [4][2]int
}

func partitionName(region string) string { return strings.ReplaceAll(region, "-", "_") }

// partitioned is PARTITION BY LIST with a partition for each region.
func partitioned(object, column string, regions []string, values func(region string) string) string {
	var parts []string
	for _, r := range regions {
		parts = append(parts, fmt.Sprintf("PARTITION %s VALUES IN (%s)", partitionName(r), values(r)))
	}
	return fmt.Sprintf("ALTER %s PARTITION BY LIST (%s) (%s)", object, column, strings.Join(parts, ", "))
}

// pinned is the zone configuration of something whose leaseholder is in a region.
func pinned(object, region string) string {
	return fmt.Sprintf(`ALTER %s CONFIGURE ZONE USING constraints = '{"+region=%s": 1}', lease_preferences = '[[+region=%s]]'`, object, region, region)
}

// divided is an index by whose column rows have a home.
type divided struct{ table, index, column string }

func (d divided) object() string {
	if d.index == "" {
		return "TABLE " + d.table
	}
	return "INDEX " + d.table + "@" + d.index
}

// byHand are the statements without regions: a schema's divided indexes, and one table that everyone reads, with an index for each region but the first.
type byHand struct {
	indexes []divided
	values  func(region string, regions []string) string
	// copied is the table that everyone reads, with its key and its other columns; empty: none.
	copied, key, storing string
}

func (h *byHand) partitions(regions []string) (out []string) {
	for _, d := range h.indexes {
		out = append(out, partitioned(d.object(), d.column, regions, func(r string) string { return h.values(r, regions) }))
	}
	return out
}

// zones are those of one region's partitions: one statement for all indexes of a table.
func (h *byHand) zones(region string) (out []string) {
	for _, d := range h.indexes {
		if d.index == "" {
			out = append(out, pinned(fmt.Sprintf("PARTITION %s OF INDEX %s@*", partitionName(region), d.table), region))
		}
	}
	return out
}

// copyIndex makes a region's copy of the table that everyone reads.
func (h *byHand) copyIndex(region string) []string {
	if h.copied == "" {
		return nil
	}
	name := h.copied + "_" + partitionName(region)
	return []string{fmt.Sprintf("CREATE INDEX %s ON %s (%s) STORING (%s)", name, h.copied, h.key, h.storing), pinned("INDEX "+h.copied+"@"+name, region)}
}

func (h *byHand) all(regions []string) []string {
	out := h.partitions(regions)
	for i, r := range regions {
		out = append(out, h.zones(r)...)
		if i > 0 {
			out = append(out, h.copyIndex(r)...)
		}
	}
	if h.copied != "" {
		out = append(out, pinned("TABLE "+h.copied, regions[0]))
	}
	return out
}

func (h *byHand) add(regions []string, added string) []string {
	return slices.Concat(h.partitions(regions), h.zones(added), h.copyIndex(added))
}

func (h *byHand) drop(regions []string, dropped string) []string {
	out := h.partitions(regions)
	if h.copied != "" {
		out = append(out, "DROP INDEX "+h.copied+"@"+h.copied+"_"+partitionName(dropped))
	}
	return out
}

func movrSchema() regional {
	hand := &byHand{indexes: []divided{{"users", "", "city"}, {"vehicles", "", "city"}, {"rides", "", "city"}, {"vehicle_location_histories", "", "city"},
		{"user_promo_codes", "", "city"}, {"vehicles", "vehicles_owner_idx", "city"}, {"rides", "rides_rider_idx", "city"}, {"rides", "rides_vehicle_idx", "vehicle_city"}},
		values: func(region string, regions []string) string {
			var names []string
			for _, c := range movr.Cities {
				if c.Region == region {
					names = append(names, "'"+c.Name+"'")
				}
			}
			if names == nil {
				names = []string{"'a city of " + region + "'"}
			}
			return strings.Join(names, ", ")
		},
		copied: "promo_codes", key: "code", storing: "description, creation_time, expiration_time, rules"}
	return regional{name: "movr", schema: movr.Schema(), before: hand.all, beforeAdd: hand.add, beforeDrop: hand.drop,
		create: func(database string, regions []string) []string {
			return append([]string{movr.CreateDatabase(database, regions)}, movr.Schema(regions...)...)
		},
		convert: movr.Localities, probe: "users",
		paper: [4][2]int{{28, 12}, {28, 14}, {15, 1}, {9, 1}}}
}

// tpccPerRegion is the number of each region's warehouses.
const tpccPerRegion = 2

// tpccByHand partitions TPC-C's tables by warehouse.
func tpccByHand() *byHand {
	return &byHand{indexes: []divided{{"warehouse", "", "w_id"}, {"district", "", "d_w_id"}, {"customer", "", "c_w_id"}, {"history", "", "h_w_id"}, {"orders", "", "o_w_id"},
		{"new_order", "", "no_w_id"}, {"stock", "", "s_w_id"}, {"order_line", "", "ol_w_id"}, {"customer", "customer_name_idx", "c_w_id"}, {"orders", "orders_customer_idx", "o_w_id"}},
		values: func(region string, regions []string) string {
			i := slices.Index(regions, region)
			return fmt.Sprintf("%d, %d", tpccPerRegion*i+1, tpccPerRegion*i+2)
		}, copied: "item", key: "i_id", storing: "i_im_id, i_name, i_price, i_data"}
}

func tpccSchema() regional {
	hand := tpccByHand()
	load := func(regions []string) *tpcc.TPCC {
		w := tpcc.New()
		w.Warehouses, w.Regions, w.Keyed = tpccPerRegion*max(len(regions), 1), regions, true
		return w
	}
	return regional{name: "TPC-C", schema: load(nil).Schema(), before: hand.all, beforeAdd: hand.add, beforeDrop: hand.drop,
		create: func(database string, regions []string) []string {
			return append([]string{movr.CreateDatabase(database, regions)}, load(regions).Schema()...)
		},
		convert: func(database string, regions []string) []string { return load(regions).Localities(database) }, probe: "district",
		paper: [4][2]int{{44, 18}, {44, 20}, {20, 1}, {11, 1}}}
}

func ycsbSchema() regional {
	hand := &byHand{indexes: []divided{{"usertable", "", "region"}}, values: func(region string, _ []string) string { return "'" + region + "'" }}
	return regional{name: "YCSB", schema: []string{"CREATE TABLE usertable (region text NOT NULL DEFAULT 'us-east1', ycsb_key text NOT NULL, field0 text, PRIMARY KEY (region, ycsb_key))"},
		before: hand.all, beforeAdd: hand.add, beforeDrop: hand.drop,
		create: func(database string, regions []string) []string {
			return []string{movr.CreateDatabase(database, regions), "CREATE TABLE usertable (ycsb_key text PRIMARY KEY, field0 text) LOCALITY REGIONAL BY ROW"}
		},
		convert: func(database string, regions []string) []string {
			return append(workload.DatabaseRegions(database, regions), "ALTER TABLE usertable SET LOCALITY REGIONAL BY ROW")
		}, probe: "usertable",
		paper: [4][2]int{{5, 1}, {5, 1}, {2, 1}, {2, 1}}}
}

func schemas() []regional { return []regional{movrSchema(), tpccSchema(), ycsbSchema()} }

// counted is a number of statements, and the same with computed columns as the paper counts them.
type counted struct{ statements, paper int }

// counts are those of a schema: of creation, conversion, addition, removal; before and after.
type counts [4][2]counted

func runTable2(t *testing.T, c *config) *outcome {
	results := make(map[string]*counts)
	for _, s := range schemas() {
		bubble(t, s.name, func(t *testing.T) { results[s.name] = countStatements(t, c, &s) })
		if t.Failed() {
			return nil
		}
	}
	return table2Outcome(results)
}

// counter runs statements and counts those that have to do with regions.
type counter struct {
	t    *testing.T
	conn *pgx.Conn
}

func (r counter) run(list []string) (n counted) {
	r.t.Helper()
	for _, s := range list {
		must(r.t, r.conn, s)
		regions := !strings.HasPrefix(s, "CREATE TABLE") && !strings.HasPrefix(s, "CREATE INDEX") || strings.Contains(s, " LOCALITY ") || strings.Contains(s, "STORING")
		if !regions {
			continue
		}
		n.statements++
		n.paper++
		if strings.HasPrefix(s, "CREATE TABLE") && strings.Contains(s, " AS (CASE") {
			n.paper++
		}
	}
	return n
}

func countStatements(t *testing.T, c *config, s *regional) *counts {
	regions, err := sim.NewRegions(sim.FiveRegions().Names[:4], 63, 87, 155, 132, 90, 222)
	if err != nil {
		t.Fatal(err)
	}
	cl := simcluster.Start(t, simcluster.Options{Regions: regions, NodesPerRegion: 3, Configure: func(_ int, o *server.Options) { o.NonVoters = 0 }})
	three, all, added := regions.Names[:3], regions.Names, regions.Names[3]
	root := open(t, cl, 0, "defaultdb")
	in := func(database string) counter { return counter{t, open(t, cl, 0, database)} }
	spread := func(r counter, step string, want []string) {
		t.Helper()
		c.say("table 2, %s, %s: waits for leaseholders in %d regions", s.name, step, len(want))
		awaitLeases(t, cl, r.conn, s.probe, want)
	}
	var n counts
	step := func(i, after int, k counted) { n[i][after] = k }

	must(t, root, "CREATE DATABASE by_hand")
	hand := in("by_hand")
	hand.run(s.schema)
	k := hand.run(s.before(three))
	step(0, 0, k)
	step(1, 0, k) // the statements of a new schema and of one that is there are the same
	spread(hand, "by hand", three)
	step(2, 0, hand.run(s.beforeAdd(all, added)))
	spread(hand, "by hand, added", all)
	step(3, 0, hand.run(s.beforeDrop(three, added)))

	list := s.create("new_schema", three)
	k = counter{t, root}.run(list[:1])
	made := in("new_schema")
	rest := made.run(list[1:])
	step(0, 1, counted{k.statements + rest.statements, k.paper + rest.paper})
	spread(made, "new", three)

	must(t, root, "CREATE DATABASE converted")
	converted := in("converted")
	converted.run(plainSchema(s))
	step(1, 1, converted.run(s.convert("converted", three)))
	spread(converted, "converted", three)
	step(2, 1, converted.run([]string{fmt.Sprintf("ALTER DATABASE converted ADD REGION %q", added)}))
	spread(converted, "added", all)
	step(3, 1, converted.run([]string{fmt.Sprintf("ALTER DATABASE converted DROP REGION %q", added)}))
	spread(converted, "dropped", three)
	return &n
}

// plainSchema is the schema of one region that is converted by the statements of regions.
func plainSchema(s *regional) []string {
	if s.name == "YCSB" { // its rows get their region from the system
		return []string{"CREATE TABLE usertable (ycsb_key text PRIMARY KEY, field0 text)"}
	}
	return s.schema
}

// awaitLeases waits until the leaseholders of a table are in just these regions.
func awaitLeases(t *testing.T, cl *simcluster.Cluster, conn *pgx.Conn, table string, want []string) {
	t.Helper()
	ctx := context.Background()
	var id uint32
	if err := conn.QueryRow(ctx, "SELECT $1::text::regclass::oid", table).Scan(&id); err != nil {
		t.Fatal(err)
	}
	span := keys.TableSpan(id)
	want = slices.Sorted(slices.Values(want))
	var got []string
	for range 240 {
		ranges, err := cl.Ranges(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		got = nil
		for _, d := range ranges {
			if !d.Start.Less(span.End) || !span.Start.Less(d.End) {
				continue
			}
			for _, region := range want {
				if placed(cl, &d, place{lease: region}) == "" {
					got = append(got, region)
				}
			}
		}
		slices.Sort(got)
		if got = slices.Compact(got); slices.Equal(got, want) {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Fatalf("%s has leaseholders in %v, want %v", table, got, want)
}

var table2Rows = [4]string{"New multi-region schema", "Converting single-region schema", "Adding a region", "Dropping a region"}

func table2Outcome(results map[string]*counts) *outcome {
	var b strings.Builder
	b.WriteString("| operation |")
	for _, s := range schemas() {
		fmt.Fprintf(&b, " %s before | paper | %s after | paper |", s.name, s.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("---:|", 4*len(schemas())) + "\n")
	var bars []plot.BarGroup
	for i, row := range table2Rows {
		fmt.Fprintf(&b, "| %s |", row)
		for _, s := range schemas() {
			for after := range 2 {
				k := results[s.name][i][after]
				text := fmt.Sprint(k.paper)
				if k.statements != k.paper {
					text += fmt.Sprintf(" (%d)", k.statements)
				}
				fmt.Fprintf(&b, " %s | %d |", text, s.paper[i][after])
			}
		}
		b.WriteString("\n")
	}
	for _, s := range schemas() {
		for i := range table2Rows {
			k := results[s.name][i]
			bars = append(bars, plot.BarGroup{Label: s.name + ": " + []string{"new", "convert", "add", "drop"}[i],
				Values: []float64{float64(k[0].paper), float64(s.paper[i][0]), float64(k[1].paper), float64(s.paper[i][1])}})
		}
	}
	b.WriteString(`
Where the numbers differ:

- TPC-C before: the paper has 44 statements and this program 39; both need 20 to add a region and 11 to drop one, so the paper's schema has 5 more statements that are not repeated per
  region. It does not list them.
- YCSB before: partitioning and a configuration per region are 4 statements, and a region is dropped by one; the paper has 5 and 2, and does not say which.
- YCSB after: this program also counts CREATE DATABASE, SET PRIMARY REGION and ADD REGION, as the paper does for movr and TPC-C; only one statement is about the table.
`)
	return &outcome{table: b.String(), svg: plot.Bars("DDL statements for several regions (CRDB'22, table 2)", "statements",
		[]string{"before", "before, paper", "after", "after, paper"}, bars)}
}
