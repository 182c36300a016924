package regions_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/keys"
	"meridian/kv"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// regionLimits are measurements of statements over the five regions of the paper, in exact virtual time, by the operation that they belong to.
type regionLimits struct {
	*testing.T
	c        *simcluster.Cluster
	regions  *sim.Regions
	measured map[string][]measurement
	numbers  int
}

// measurement is how long a statement took, and how long it has to take at least and may take at most.
type measurement struct {
	from, text        string
	least, most, took time.Duration
}

// good reports whether a time is within its limits; 5 % or 3 ms may be added.
func (m *measurement) good() bool {
	return m.took <= m.most+max(m.most/20, 3*time.Millisecond) && m.took >= m.least-max(m.least/20, 3*time.Millisecond)
}

// take measures statements, each with a new number for $n, when plans and caches are warm and the intents of the run before are resolved.
func (l *regionLimits) take(operation string, conn *pgx.Conn, from string, least, most time.Duration, texts ...string) {
	l.Helper()
	for _, text := range texts {
		m := measurement{from, text, least, most, 0}
		for try := range 4 {
			time.Sleep(600 * time.Millisecond)
			l.numbers++
			q := strings.ReplaceAll(text, "$n", strconv.Itoa(1000+l.numbers))
			begun := time.Now()
			simtest.Exec(l.T, conn, q)
			if m.took = time.Since(begun); try > 0 {
				if m.good() {
					break
				}
				l.Logf("%s from %s took %v", text, from, m.took) // new statistics, or a lease that has just moved, cost a round trip once
			}
		}
		l.measured[operation] = append(l.measured[operation], m)
	}
}

// farthest is the round trip from a region to the farthest one.
func (l *regionLimits) farthest(region string) (d time.Duration) {
	for _, r := range l.regions.Names {
		d = max(d, l.regions.RTT(region, r))
	}
	return d
}

// quorum is the round trip from a region to the nearest quorum of the voters of each range of a table's rows whose lease is there, the longest one. The ranges
// of its other indexes, which may have other voters, are not written by updates of other columns.
func (l *regionLimits) quorum(conn *pgx.Conn, table, region string) (longest time.Duration) {
	l.Helper()
	ranges, err := l.c.Ranges(context.Background(), 0)
	if err != nil {
		l.Fatal(err)
	}
	span := keys.IndexSpan(simtest.TableIDOf(l.T, conn, table), uint32(1))
	for _, d := range ranges {
		if !span.Contains(d.Start) {
			continue
		}
		var away []time.Duration
		home := 0
		for _, r := range d.Replicas {
			if r.Type == kv.Voter {
				at := simtest.RegionOf(l.c, r.Node)
				if away = append(away, l.regions.RTT(region, at)); at == region {
					home++
				}
			}
		}
		if slices.Sort(away); home >= 2 {
			longest = max(longest, away[len(away)/2])
		}
	}
	return longest
}

// The operations that have limits.
const (
	limitHome     = "REGIONAL BY ROW, row homed here, zone survival, by primary key or unique column: 0"
	limitSurvive  = "the same, region survival: reads 0, writes 1 to the nearest quorum"
	limitAway     = "row homed elsewhere, read by primary key or unique column: 1"
	limitInsert   = "insert with default region and one or three unique columns: 1 to the farthest region in all"
	limitComputed = "insert with computed region, or uuid default: 0"
	limitGlobal   = "GLOBAL read, any region, no conflict: 0"
	limitBounded  = "bounded-staleness read anywhere: 0"
	limitOrphaned = "bounded-staleness read anywhere while its home region is gone: 0"
	limitFailure  = "region failure, region survival: writes go on after at most 5 s"
	limitOthers   = "region failure, zone survival: other regions' rows unaffected"
)

// TestRegionLimits has what statements over five regions may take, each line from every region (CRDB'22 §7).
func TestRegionLimits(t *testing.T) {
	t.Parallel()
	measured := map[string][]measurement{}
	synctest.Test(t, func(t *testing.T) { (&regionLimits{T: t, measured: measured, regions: sim.FiveRegions()}).measure() })
	for _, operation := range []string{limitHome, limitSurvive, limitAway, limitInsert, limitComputed, limitGlobal, limitBounded, limitOrphaned, limitFailure, limitOthers} {
		t.Run(operation, func(t *testing.T) {
			for _, m := range measured[operation] {
				t.Logf("%-22s %-100s %v", m.from, m.text, m.took)
				if !m.good() {
					t.Errorf("%s from %s took %v, want %v to %v", m.text, m.from, m.took, m.least, m.most)
				}
			}
			if len(measured[operation]) == 0 {
				t.Error("nothing was measured")
			}
		})
	}
}

func (l *regionLimits) measure() {
	l.c = fiveContinents(l.T)
	names := l.regions.Names
	create := func(database string) *pgx.Conn {
		simtest.Exec(l.T, simtest.Connect(l.T, l.c, 0), fmt.Sprintf(`CREATE DATABASE %s PRIMARY REGION "%s" REGIONS "%s", "%s", "%s", "%s"`, database, names[0], names[1], names[2], names[3], names[4]))
		return simtest.ConnectTo(l.T, l.c, 0, database)
	}
	home := create("movr")
	for _, q := range []string{
		"CREATE TABLE users (id int PRIMARY KEY, email text UNIQUE, phone text UNIQUE, name text) LOCALITY REGIONAL BY ROW",
		"CREATE TABLE one (id int PRIMARY KEY, name text) LOCALITY REGIONAL BY ROW",
		"CREATE TABLE tokens (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), name text) LOCALITY REGIONAL BY ROW",
		`CREATE TABLE computed (id int PRIMARY KEY, name text, crdb_region crdb_internal_region NOT NULL AS (
			CASE id % 5 WHEN 0 THEN 'us-east1' WHEN 1 THEN 'us-west1' WHEN 2 THEN 'europe-west1' WHEN 3 THEN 'asia-northeast1' ELSE 'australia-southeast1' END::crdb_internal_region) STORED)
			LOCALITY REGIONAL BY ROW`,
	} {
		simtest.Exec(l.T, home, q)
	}
	for i, r := range names {
		simtest.Exec(l.T, home, fmt.Sprintf("INSERT INTO users (id, email, phone, name, crdb_region) VALUES (%d, 'e%d', 'p%d', 'n', '%s')", i, i, i, r))
	}
	l.conform()
	l.writesAndReads("movr", limitHome, func(string) time.Duration { return 0 })
	for i, from := range names {
		conn := simtest.ConnectTo(l.T, l.c, 3*i, "movr")
		away, far := (i+1)%5, l.farthest(from)
		nearest := l.regions.RTT(from, names[away])
		l.take(limitAway, conn, from, nearest, nearest, fmt.Sprintf("SELECT name FROM users WHERE id = %d", away), fmt.Sprintf("SELECT id FROM users WHERE email = 'e%d'", away),
			fmt.Sprintf("SELECT * FROM users WHERE email = 'e%d'", away))
		l.take(limitInsert, conn, from, far, far, "INSERT INTO one (id, name) VALUES ($n, 'n')",
			"INSERT INTO users (id, email, phone, name) VALUES ($n, 'e$n', 'p$n', 'n')")
		l.take(limitComputed, conn, from, 0, 0, "INSERT INTO tokens (name) VALUES ('n')", fmt.Sprintf("INSERT INTO computed (id, name) VALUES (5 * $n + %d, 'n')", i))
		l.take(limitBounded, conn, from, 0, 0, bounded("users", away)...)
	}

	// Ranges that close the future send many messages, so this table is GLOBAL only for as long as it is read.
	simtest.Exec(l.T, home, "CREATE TABLE codes (id int PRIMARY KEY, v int) LOCALITY GLOBAL")
	simtest.Exec(l.T, home, "INSERT INTO codes VALUES (1, 1), (2, 2)")
	l.conform()
	for i, from := range names {
		l.take(limitGlobal, simtest.ConnectTo(l.T, l.c, 3*i, "movr"), from, 0, 0, "SELECT v FROM codes WHERE id = 2", "SELECT count(*), sum(v) FROM codes")
	}
	simtest.Exec(l.T, home, "ALTER TABLE codes SET LOCALITY REGIONAL BY TABLE")

	for _, r := range names {
		var n int
		if err := home.QueryRow(context.Background(), "SELECT count(*) FROM one WHERE crdb_region = $1::text::crdb_internal_region", r).Scan(&n); err != nil || n < 2 {
			l.Errorf("%d of two rows that were inserted in %s are homed there: %v", n, r, err)
		}
	}

	// Another database survives the loss of a region; this one does not, and the rows of other regions are as before.
	second := create("sturdy")
	simtest.Exec(l.T, second, "ALTER DATABASE sturdy SURVIVE REGION FAILURE")
	simtest.Exec(l.T, second, "CREATE TABLE users (id int PRIMARY KEY, email text UNIQUE, phone text UNIQUE, name text) LOCALITY REGIONAL BY ROW")
	for i, r := range names {
		simtest.Exec(l.T, second, fmt.Sprintf("INSERT INTO users (id, email, phone, name, crdb_region) VALUES (%d, 'e%d', 'p%d', 'n', '%s')", i, i, i, r))
	}
	l.conform()
	l.writesAndReads("sturdy", limitSurvive, func(r string) time.Duration { return l.quorum(second, "users", r) })

	const lost = 2
	conns := map[string][]*pgx.Conn{}
	for i := range names {
		for _, database := range []string{"movr", "sturdy"} {
			conn := simtest.ConnectTo(l.T, l.c, 3*i, database)
			simtest.Exec(l.T, conn, fmt.Sprintf("UPDATE users SET name = 'before' WHERE id = %d", i))
			conns[database] = append(conns[database], conn)
		}
	}
	for i := range 3 {
		l.c.Crash(3*lost+i, 0, true)
	}
	begun := time.Now()
	for i := range names {
		from, conn := names[i], conns["sturdy"][i]
		if i == lost {
			from, conn = names[0], conns["sturdy"][0]
		}
		simtest.Exec(l.T, conn, fmt.Sprintf("UPDATE users SET name = 'after%d' WHERE id = %d", i, i))
		l.measured[limitFailure] = append(l.measured[limitFailure], measurement{from, fmt.Sprintf("UPDATE users of %s", names[i]), 0, 5 * time.Second, time.Since(begun)})
	}
	var kept int
	if err := conns["sturdy"][0].QueryRow(context.Background(), "SELECT count(*) FROM users WHERE name = 'after' || id").Scan(&kept); err != nil || kept != len(names) {
		l.Errorf("%d of the rows that were written are there, %v", kept, err)
	}
	for i, from := range names {
		if i == lost {
			continue
		}
		conn := conns["movr"][i]
		l.take(limitOthers, conn, from, 0, 0, fmt.Sprintf("UPDATE users SET name = 'after' WHERE id = %d", i), fmt.Sprintf("SELECT * FROM users WHERE email = 'e%d'", i))
		l.take(limitOrphaned, conn, from, 0, 0, bounded("users", lost)...)
	}
}

// conform waits until all replicas and leases are where they should be, and closed timestamps have reached them.
func (l *regionLimits) conform() {
	l.Helper()
	simtest.Placed(l.T, "all", func() (string, bool) {
		misfits, _, err := l.c.Node(0).Conforms(context.Background(), keys.Span{Start: keys.TablePrefix, End: keys.TablePrefix.PrefixEnd()}, true)
		return fmt.Sprint(misfits, err), err == nil && len(misfits) == 0
	})
	time.Sleep(20 * time.Second)
}

// bounded are reads of a row with a bound of staleness.
func bounded(table string, id int) []string {
	return []string{fmt.Sprintf("SELECT name FROM %s AS OF SYSTEM TIME with_max_staleness('2m') WHERE id = %d", table, id),
		fmt.Sprintf("SELECT count(*) FROM %s AS OF SYSTEM TIME with_max_staleness('2m', true)", table)}
}

// writesAndReads measures, in each region, statements on the row that is homed there.
func (l *regionLimits) writesAndReads(database, operation string, write func(region string) time.Duration) {
	for i, from := range l.regions.Names {
		conn := simtest.ConnectTo(l.T, l.c, 3*i, database)
		l.take(operation, conn, from, 0, 0, fmt.Sprintf("SELECT * FROM users WHERE id = %d", i), fmt.Sprintf("SELECT * FROM users WHERE email = 'e%d'", i))
		most := write(from)
		l.take(operation, conn, from, most, most, fmt.Sprintf("UPDATE users SET name = 'x' WHERE id = %d", i), fmt.Sprintf("UPDATE users SET name = 'x' WHERE phone = 'p%d'", i))
	}
}
