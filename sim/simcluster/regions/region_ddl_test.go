package regions_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sim"
	"meridian/sim/simcluster/simtest"
	"meridian/workload/movr"
)

// TestMovrGoesAroundTheWorld makes a movr of one region one of three continents by the fourteen statements of CRDB'22 table 2, kills a region under SURVIVE REGION
// FAILURE and goes on.
func TestMovrGoesAroundTheWorld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simtest.ThreeContinents(t)
		root := simtest.Connect(t, c, 0)
		simtest.Exec(t, root, "CREATE DATABASE movr")
		conn := simtest.ConnectTo(t, c, 0, "movr")
		if err := movr.LoadSample(context.Background(), conn); err != nil {
			t.Fatal(err)
		}
		statements, began := movr.Localities("movr", sim.ThreeRegions().Names), time.Now()
		for _, q := range statements {
			start := time.Now()
			simtest.Exec(t, conn, q)
			t.Logf("%-90.90s %v", strings.Join(strings.Fields(q), " "), time.Since(start))
		}
		if t.Logf("%d statements in %v", len(statements), time.Since(began)); len(statements) != 14 {
			t.Errorf("%d statements", len(statements))
		}
		simtest.Placed(t, "users", func() (string, bool) {
			got := simtest.PlacesOf(t, c, conn, "users")
			return got, strings.Contains(got, "3 europe-west1; lease europe-west1") && strings.Contains(got, "3 us-west1; lease us-west1") && strings.Contains(got, "3 us-east1; lease us-east1")
		})
		t.Logf("in place after %v", time.Since(began))
		eu := simtest.ConnectTo(t, c, 6, "movr")
		simtest.RoundTrips(t, "a read at home", 0, func() { simtest.Exec(t, eu, "SELECT name FROM users WHERE city = 'paris'") })
		simtest.RoundTrips(t, "a write at home", 0, func() { simtest.Exec(t, eu, "UPDATE users SET name = 'Ada' WHERE city = 'paris'") })

		// A region fails, and all goes on.
		began = time.Now()
		simtest.Exec(t, conn, "ALTER DATABASE movr SURVIVE REGION FAILURE")
		t.Logf("SURVIVE REGION FAILURE: %v", time.Since(began))
		simtest.Placed(t, "users", func() (string, bool) {
			got := simtest.PlacesOf(t, c, conn, "users")
			for _, r := range []string{"europe-west1", "us-east1", "us-west1"} {
				ok := false
				for line := range strings.SplitSeq(got, "\n") {
					ok = ok || strings.HasSuffix(line, "lease "+r) && strings.Contains(line, "2 "+r) && !strings.Contains(line, "(")
				}
				if !ok {
					return got, false
				}
			}
			return got, true
		})
		t.Logf("in place after %v", time.Since(began))
		time.Sleep(10 * time.Second)
		for i := 6; i < 9; i++ {
			c.Crash(i, 0, true)
		}
		began = time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for _, city := range []string{"paris", "seattle", "new york"} {
			if _, err := conn.Exec(ctx, fmt.Sprintf("UPDATE users SET name = 'Bruno' WHERE city = '%s'", city)); err != nil {
				t.Errorf("%s after the loss of a region: %v", city, err)
			}
			t.Logf("%s is written %v after the loss of a region", city, time.Since(began))
		}
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("writes went on after %v", d)
		}
		if err := movr.New().Check(ctx, conn); err != nil {
			t.Error(err)
		}
	})
}

// TestRowsWaitForTheirPlace: where a database forbids regions, a region that is added gets rows when its partitions are there, and a statement that narrows the places of
// rows returns when the replicas have moved.
func TestRowsWaitForTheirPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simtest.ThreeContinents(t)
		root := simtest.Connect(t, c, 0)
		simtest.Exec(t, root, `CREATE DATABASE d PRIMARY REGION "us-east1" REGIONS "us-west1"`)
		conn := simtest.ConnectTo(t, c, 0, "d")
		simtest.Exec(t, conn, "CREATE TABLE u (id int PRIMARY KEY, v int)")
		simtest.Exec(t, conn, "INSERT INTO u VALUES (1, 1), (2, 2)")
		simtest.Exec(t, conn, "ALTER TABLE u SET LOCALITY REGIONAL BY ROW")
		settled := func(q string) {
			start := time.Now()
			simtest.Exec(t, conn, q)
			took := time.Since(start)
			got := simtest.PlacesOf(t, c, conn, "u")
			t.Logf("%s: %v\n%s", q, took, got)
			for line := range strings.SplitSeq(got, "\n") {
				places, _, _ := strings.Cut(line, "; lease")
				if strings.Contains(places, ",") {
					t.Errorf("%s has returned, and a range is at %s", q, line)
				}
			}
			if took > 30*time.Second {
				t.Errorf("%s took %v", q, took)
			}
		}
		settled("ALTER DATABASE d PLACEMENT RESTRICTED")
		settled(`ALTER DATABASE d ADD REGION "europe-west1"`)
		if got := simtest.PlacesOf(t, c, conn, "u"); !strings.Contains(got, "europe-west1") {
			t.Errorf("the region's partition is at %s", got)
		}
		simtest.Exec(t, conn, "INSERT INTO u (id, v, crdb_region) VALUES (3, 3, 'europe-west1')")
	})
}
