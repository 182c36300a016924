package regions_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/console"
	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestRegionalByTable: replicas and leases of tables go where their localities say, and reads at home leave no region.
func TestRegionalByTable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simtest.ThreeContinents(t)
		root := simtest.Connect(t, c, 0)
		simtest.Exec(t, root, `CREATE DATABASE movr PRIMARY REGION "us-east1" REGIONS "us-west1", "europe-west1"`)
		conn := simtest.ConnectTo(t, c, 0, "movr")
		simtest.Exec(t, conn, `CREATE TABLE home (id int PRIMARY KEY, v int)`)
		simtest.Exec(t, conn, `CREATE TABLE away (id int PRIMARY KEY, v int) LOCALITY REGIONAL BY TABLE IN "europe-west1"`)
		simtest.Exec(t, conn, `INSERT INTO home VALUES (1, 1)`)
		simtest.Exec(t, conn, `INSERT INTO away VALUES (1, 1)`)
		simtest.Settle(t, c, conn, "home", "1 (europe-west1), 1 (us-west1), 3 us-east1; lease us-east1")
		simtest.Settle(t, c, conn, "away", "1 (us-east1), 1 (us-west1), 3 europe-west1; lease europe-west1")
		eu := simtest.ConnectTo(t, c, 6, "movr")
		simtest.RoundTrips(t, "a read at home", 0, func() { simtest.Exec(t, eu, "SELECT v FROM away WHERE id = 1") })
		simtest.RoundTrips(t, "a write at home", 0, func() { simtest.Exec(t, eu, "UPDATE away SET v = v + 1 WHERE id = 1") })
	})
}

// TestConsoleRegions: the console has the distances between regions and where the rows of each table are.
func TestConsoleRegions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions(), NodesPerRegion: 3, Log: simtest.LogTo(), Configure: func(i int, o *server.Options) {
			if i == 0 {
				o.HTTPAddr = "n1:8080"
			}
		}})
		simtest.Exec(t, simtest.Connect(t, c, 0), `CREATE DATABASE movr PRIMARY REGION "us-east1" REGIONS "us-west1", "europe-west1"`)
		conn := simtest.ConnectTo(t, c, 0, "movr")
		simtest.Exec(t, conn, `CREATE TABLE away (id int PRIMARY KEY, v int) LOCALITY REGIONAL BY TABLE IN "europe-west1"`)
		simtest.Settle(t, c, conn, "away", "1 (us-east1), 1 (us-west1), 3 europe-west1; lease europe-west1")
		tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return c.Network.Node("monitor", "us-east1").Dial(ctx, addr)
		}}
		defer tr.CloseIdleConnections()
		ask := func() (a console.Cluster) {
			t.Helper()
			resp, err := (&http.Client{Transport: tr}).Get("http://n1:8080/api/v1/cluster")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
				t.Fatal(err)
			}
			return a
		}
		a := ask()
		for _, pair := range a.RoundTrips {
			want := float64(sim.ThreeRegions().RTT(pair.From, pair.To)) / float64(time.Millisecond)
			if pair.MS < want || pair.MS > want+3 {
				t.Errorf("%+v, want %.0f ms", pair, want)
			}
		}
		if len(a.RoundTrips) != 9 {
			t.Errorf("%d round trips, want 9", len(a.RoundTrips))
		}
		places := []console.Place{{Region: "europe-west1", Voters: 3, Leases: 1}, {Region: "us-east1", NonVoters: 1}, {Region: "us-west1", NonVoters: 1}}
		if len(a.Tables) != 1 || a.Tables[0].Locality != `REGIONAL BY TABLE IN "europe-west1"` || !slices.Equal(a.Tables[0].Places, places) {
			t.Errorf("tables: %+v", a.Tables)
		}
		// Writes take as long as their gateway is away from the table's home.
		simtest.Exec(t, conn, "INSERT INTO away VALUES (1, 1)")
		home := simtest.ConnectTo(t, c, 7, "movr")
		for range 20 {
			simtest.Exec(t, conn, "UPDATE away SET v = v + 1 WHERE id = 1")
			simtest.Exec(t, home, "UPDATE away SET v = v + 1 WHERE id = 1")
		}
		for _, l := range ask().Latencies {
			least, most, count := 0.0, 0.0, int64(0)
			switch l.Region {
			case "us-east1":
				least, most, count = 87, 200, 21
			case "europe-west1":
				least, most, count = 0, 10, 20
			}
			if l.Statements != count || l.P50MS < least || l.P50MS > most || l.P99MS < l.P50MS {
				t.Errorf("%+v, want %d statements of %v to %v ms", l, count, least, most)
			}
		}
		if n := len(ask().Latencies); n != 3 {
			t.Errorf("latencies of %d regions", n)
		}
		// A constraint that nobody sees to.
		for i := range c.Len() {
			c.On(i, func(_ context.Context, n *server.Node) { n.Store().PauseQueues(true) })
		}
		simtest.Exec(t, conn, "CREATE TABLE stays (id int PRIMARY KEY)")
		found := false
		for _, x := range ask().Tables {
			found = found || x.Name == "stays" && x.Violations == 1 && strings.Contains(x.Violation, "no replica may be on")
		}
		if !found {
			t.Errorf("no violation: %+v", ask().Tables)
		}
	})
}

// TestConfinedStatistics: statistics are everywhere, so those of rows that may not leave their region have no values.
func TestConfinedStatistics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simtest.ThreeContinents(t)
		root := simtest.Connect(t, c, 0)
		for name, want := range map[string]int{"DEFAULT": 1, "RESTRICTED": 0} {
			simtest.Exec(t, root, `CREATE DATABASE "`+strings.ToLower(name)+`" PRIMARY REGION "us-east1" REGIONS "us-west1", "europe-west1" PLACEMENT `+name)
			conn := simtest.ConnectTo(t, c, 0, strings.ToLower(name))
			simtest.Exec(t, conn, `CREATE TABLE people (id int PRIMARY KEY, name text)`)
			simtest.Exec(t, conn, `INSERT INTO people SELECT i, 'secret' FROM generate_series(1, 100) AS i`)
			simtest.Exec(t, conn, `ANALYZE people`)
			var columns, values int
			if err := conn.QueryRow(context.Background(), `SELECT count(*), count(most_common_vals) FROM pg_stats WHERE tablename = 'people' AND attname = 'name'`).Scan(&columns, &values); err != nil {
				t.Fatal(err)
			}
			if columns != 1 || values != want {
				t.Errorf("%s: %d columns, %d of them with values, want %d", name, columns, values, want)
			}
		}
	})
}
