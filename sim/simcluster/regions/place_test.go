package regions_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestSplitsOfConfinedRows: the index of ranges, which is everywhere, gets of a split no more than what separates two rows; logs and errors name keys by a hash.
func TestSplitsOfConfinedRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logLines
		c := simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions(), NodesPerRegion: 3, Log: &log})
		root := simtest.Connect(t, c, 0)
		simtest.Exec(t, root, `CREATE DATABASE d PRIMARY REGION "us-east1" REGIONS "us-west1", "europe-west1" PLACEMENT RESTRICTED`)
		eu := simtest.ConnectTo(t, c, 6, "d")
		simtest.Exec(t, eu, `CREATE TABLE people (name text PRIMARY KEY, v int) LOCALITY REGIONAL BY TABLE IN "europe-west1"`)
		simtest.Exec(t, eu, "INSERT INTO people SELECT chr(97 + i) || '-geheimnis', i FROM generate_series(0, 19) AS i")
		var id uint32
		if err := eu.QueryRow(context.Background(), "SELECT 'people'::regclass::oid").Scan(&id); err != nil {
			t.Fatal(err)
		}
		splits := 0
		for i := range c.Len() {
			c.On(i, func(ctx context.Context, n *server.Node) {
				var there []kv.RangeID
				n.Store().Replicas(func(r *replica.Replica) bool {
					if d := r.Desc(); d != nil && d.Contains(keys.IndexPrefix(id, uint32(1))) {
						if _, held := r.CheckLease(clock.Timestamp{}); held {
							there = append(there, d.ID)
						}
					}
					return true
				})
				for _, id := range there {
					if err := n.Store().Split(ctx, id, nil); err != nil {
						t.Error(err)
					}
					splits++
				}
			})
		}
		if splits != 1 {
			t.Fatalf("%d splits", splits)
		}
		// A lock that is waited for long is logged.
		other := simtest.ConnectTo(t, c, 7, "d")
		simtest.Exec(t, other, "BEGIN")
		simtest.Exec(t, other, "UPDATE people SET v = 0 WHERE name = 'b-geheimnis'")
		go func() { time.Sleep(30 * time.Second); other.Exec(context.Background(), "COMMIT") }()
		simtest.Exec(t, eu, "UPDATE people SET v = 1 WHERE name = 'b-geheimnis'")
		time.Sleep(5 * time.Second)
		for _, l := range leaked(c, "europe-west1", "geheimnis") {
			t.Error(l)
		}
		for _, word := range []string{"geheimnis", fmt.Sprintf("%x", "geheimnis")} {
			if l := log.find(word); l != "" {
				t.Errorf("the log has %s: %s", word, l)
			}
		}
		if log.find("waits long for a lock") == "" {
			t.Error("no wait was logged")
		}
	})
}

// TestCancelledRegionStatement: a statement of regions that is cancelled leaves neither its change nor a job behind.
func TestCancelledRegionStatement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simtest.ThreeContinents(t)
		root := simtest.Connect(t, c, 0)
		simtest.Exec(t, root, `CREATE DATABASE d PRIMARY REGION "us-east1" REGIONS "us-west1" PLACEMENT RESTRICTED`)
		conn := simtest.ConnectTo(t, c, 0, "d")
		simtest.Exec(t, conn, "CREATE TABLE u (id int PRIMARY KEY) LOCALITY REGIONAL BY ROW")
		for i := 6; i < 9; i++ {
			c.Crash(i, 0, false) // nothing can be placed in the region
		}
		for _, how := range []string{"statement_timeout", "CancelRequest"} {
			ctx, cancel := context.WithCancel(context.Background())
			if how == "statement_timeout" {
				simtest.Exec(t, conn, "SET statement_timeout = '5s'")
			} else {
				simtest.Exec(t, conn, "SET statement_timeout = 0")
				go func() {
					time.Sleep(5 * time.Second)
					if err := conn.PgConn().CancelRequest(context.Background()); err != nil {
						t.Error(err)
					}
				}()
			}
			start := time.Now()
			_, err := conn.Exec(ctx, `ALTER DATABASE d ADD REGION "europe-west1"`)
			cancel()
			if err == nil || !strings.Contains(err.Error(), "57014") {
				t.Errorf("%s: %v", how, err)
			}
			if d := time.Since(start); d > 45*time.Second {
				t.Errorf("%s took %v", how, d)
			}
			simtest.Exec(t, conn, "SET statement_timeout = 0")
			var running, regions int
			if err := conn.QueryRow(context.Background(), "SELECT count(*) FROM meridian_internal.jobs WHERE status IN ('running', 'reverting') OR status = 'pending' AND job_type <> 'removal of data'").Scan(&running); err != nil {
				t.Fatal(err)
			}
			rows, err := conn.Query(context.Background(), "SHOW REGIONS FROM DATABASE d")
			if err != nil {
				t.Fatal(err)
			}
			for rows.Next() {
				regions++
			}
			if running != 0 || regions != 2 {
				t.Errorf("%s: %d jobs are running, and there are %d regions", how, running, regions)
			}
		}
	})
}

// logLines keeps what nodes log.
type logLines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

// find is a line with a word.
func (l *logLines) find(word string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.SplitSeq(l.all.String(), "\n") {
		if strings.Contains(line, word) {
			return line
		}
	}
	return ""
}

// TestPlacesTakeSeconds: statements that make ranges whose rows may not be everywhere wait for their replicas for seconds, also from a gateway that is far from the
// system's ranges: a change of a descriptor then takes about 0.3 s.
func TestPlacesTakeSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simtest.ThreeContinents(t)
		root := simtest.Connect(t, c, 0)
		simtest.Exec(t, root, `CREATE DATABASE d PRIMARY REGION "us-east1" REGIONS "us-west1", "europe-west1" PLACEMENT RESTRICTED`)
		simtest.Exec(t, root, `CREATE DATABASE w PRIMARY REGION "us-east1" REGIONS "us-west1" WITNESS REGION "europe-west1" SURVIVE REGION FAILURE`)
		time.Sleep(40 * time.Second) // a new cluster is rebalanced
		eu, twoRegions := simtest.ConnectTo(t, c, 6, "d"), simtest.ConnectTo(t, c, 6, "w")
		for _, s := range []struct {
			sql  string
			most time.Duration
		}{
			{`CREATE TABLE home (id int PRIMARY KEY, name text) LOCALITY REGIONAL BY TABLE IN "europe-west1"`, 6 * time.Second},
			{"CREATE TABLE u (id int PRIMARY KEY, name text) LOCALITY REGIONAL BY ROW", 6 * time.Second},
			{"INSERT INTO u (id, name) VALUES (1, 'a')", time.Second},
			{"CREATE INDEX byname ON u (name)", 10 * time.Second},
			{"ALTER TABLE home SET LOCALITY REGIONAL BY ROW", 11 * time.Second},
			{`ALTER TABLE home SET LOCALITY REGIONAL BY TABLE IN "europe-west1"`, 11 * time.Second},
			{"CREATE TABLE witnessed (id int PRIMARY KEY, name text) LOCALITY REGIONAL BY ROW", 6 * time.Second},
			{"CREATE INDEX ofwitnessed ON witnessed (name)", 10 * time.Second},
		} {
			conn := eu
			if strings.Contains(s.sql, "witnessed") {
				conn = twoRegions
			}
			start := time.Now()
			simtest.Exec(t, conn, s.sql)
			took := time.Since(start)
			t.Logf("%6.2fs  %s", took.Seconds(), s.sql)
			if took > s.most {
				t.Errorf("%s took %v", s.sql, took)
			}
		}
	})
}

// leaked are the machines outside of a region on whose disks a word was ever written; disks keep their logs.
func leaked(c *simcluster.Cluster, region, word string) (out []string) {
	for _, m := range c.Machines {
		if m.Region == region {
			continue
		}
		if err := m.Disk.Image().Files(func(name string, data []byte) {
			if i := bytes.Index(data, []byte(word)); i >= 0 {
				out = append(out, fmt.Sprintf("%s %s: %q", m.Name, name, data[max(0, i-100):min(len(data), i+len(word)+40)]))
			}
		}); err != nil {
			out = append(out, err.Error())
		}
	}
	slices.Sort(out)
	return out
}

// TestRowsAreNeverElsewhere: with PLACEMENT RESTRICTED no disk of another region ever has a byte of a row, whatever statement makes the ranges that the row is in: their
// logs would show it.
func TestRowsAreNeverElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simtest.ThreeContinents(t)
		root := simtest.Connect(t, c, 0)
		simtest.Exec(t, root, `CREATE DATABASE d PRIMARY REGION "us-east1" REGIONS "us-west1", "europe-west1" PLACEMENT RESTRICTED`)
		eu := simtest.ConnectTo(t, c, 6, "d")
		n := 0
		check := func(what string, f func(word string)) {
			t.Helper()
			n++
			word, start := fmt.Sprintf("gehe%04dimnis", n), time.Now()
			f(word)
			t.Logf("%s: %v", what, time.Since(start))
			time.Sleep(2 * time.Second)
			for _, l := range leaked(c, "europe-west1", word) {
				t.Errorf("%s: %s", what, l)
			}
		}
		row := func(conn *pgx.Conn, table string, id int, word string) {
			simtest.Exec(t, conn, fmt.Sprintf("INSERT INTO %s (id, name, crdb_region) VALUES (%d, '%s', 'europe-west1')", table, id, word))
		}
		check("CREATE TABLE IN", func(word string) {
			simtest.Exec(t, eu, `CREATE TABLE home (id int PRIMARY KEY, name text) LOCALITY REGIONAL BY TABLE IN "europe-west1"`)
			simtest.Exec(t, eu, fmt.Sprintf("INSERT INTO home VALUES (1, '%s')", word))
		})
		check("CREATE TABLE BY ROW", func(word string) {
			simtest.Exec(t, eu, "CREATE TABLE u (id int PRIMARY KEY, name text, n int DEFAULT 1) LOCALITY REGIONAL BY ROW")
			row(eu, "u", 1, word)
		})
		check("CREATE INDEX", func(word string) {
			row(eu, "u", 2, word)
			simtest.Exec(t, eu, "CREATE INDEX byname ON u (name)")
		})
		check("rows while an index is made", func(word string) {
			other := simtest.ConnectTo(t, c, 7, "d")
			done := make(chan error, 1)
			go func() {
				_, err := other.Exec(context.Background(), "CREATE UNIQUE INDEX pair ON u (name, id)")
				done <- err
			}()
			for i := 0; len(done) == 0; i++ {
				row(eu, "u", 1000+i, fmt.Sprintf("%s%d", word, i))
				simtest.Exec(t, eu, fmt.Sprintf("DELETE FROM u WHERE id = %d", 1000+i))
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		check("ALTER COLUMN TYPE", func(word string) {
			row(eu, "u", 3, word)
			simtest.Exec(t, eu, "ALTER TABLE u ALTER COLUMN n TYPE numeric(10, 2)")
		})
		check("TRUNCATE", func(word string) {
			simtest.Exec(t, eu, "TRUNCATE u")
			row(eu, "u", 1, word)
		})
		check("SET LOCALITY", func(word string) {
			simtest.Exec(t, eu, `CREATE TABLE moved (id int PRIMARY KEY, name text UNIQUE) LOCALITY REGIONAL BY TABLE IN "europe-west1"`)
			simtest.Exec(t, eu, fmt.Sprintf("INSERT INTO moved VALUES (1, '%s')", word))
			simtest.Exec(t, eu, "ALTER TABLE moved SET LOCALITY REGIONAL BY ROW")
			simtest.Exec(t, eu, `ALTER TABLE moved SET LOCALITY REGIONAL BY TABLE IN "europe-west1"`)
		})
		check("a transaction", func(word string) {
			simtest.Exec(t, eu, "BEGIN")
			simtest.Exec(t, eu, "CREATE TABLE together (id int PRIMARY KEY, name text) LOCALITY REGIONAL BY ROW")
			row(eu, "together", 1, word)
			simtest.Exec(t, eu, "CREATE INDEX ON together (name)")
			simtest.Exec(t, eu, "COMMIT")
		})
		check("CONFIGURE ZONE", func(word string) {
			simtest.Exec(t, root, "CREATE DATABASE by_hand")
			conn := simtest.ConnectTo(t, c, 6, "by_hand")
			simtest.Exec(t, conn, "CREATE TABLE there (id int PRIMARY KEY, name text)")
			simtest.Exec(t, conn, `ALTER TABLE there CONFIGURE ZONE USING constraints = '[+region=europe-west1]'`)
			if got := simtest.PlacesOf(t, c, conn, "there"); !strings.HasPrefix(got, "3 europe-west1;") {
				t.Errorf("CONFIGURE ZONE has returned, and rows are at %s", got)
			}
			simtest.Exec(t, conn, fmt.Sprintf("INSERT INTO there VALUES (1, '%s')", word))
			simtest.Exec(t, conn, `ALTER DATABASE by_hand CONFIGURE ZONE USING constraints = '[-region=us-east1, -region=us-west1]'`)
			simtest.Exec(t, conn, "CREATE TABLE later (id int PRIMARY KEY, name text)")
			simtest.Exec(t, conn, fmt.Sprintf("INSERT INTO later VALUES (1, '%s')", word))
		})
		check("CREATE TABLE AS", func(word string) {
			simtest.Exec(t, eu, fmt.Sprintf("INSERT INTO home VALUES (2, '%s')", word))
			simtest.Exec(t, eu, "BEGIN")
			simtest.Exec(t, eu, "ALTER TABLE u ADD COLUMN more text")
			_, err := eu.Exec(context.Background(), "CREATE INDEX ON u (more, name)")
			if err == nil || !strings.Contains(err.Error(), "0A000") {
				t.Errorf("an index of a table that others know, in a transaction block: %v", err)
			}
			simtest.Exec(t, eu, "ROLLBACK")
		})
	})
}
