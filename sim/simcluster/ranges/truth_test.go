package ranges_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/console"
	"meridian/server"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestTruthAboutRanges: with a node dead, the console, the metrics and SQL show which ranges have too few live voters,
// whatever number their descriptors name; with two of three dead, that they are unavailable.
func TestTruthAboutRanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo(), Configure: func(i int, o *server.Options) {
			o.HTTPAddr = strings.TrimSuffix(o.ListenAddr, ":1") + ":8080"
		}})
		simtest.Replicated(t, c, 3)
		ctx := context.Background()
		get := func(i int, path string) string {
			t.Helper()
			m := c.Machines[i]
			tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
				return c.Network.Node("monitor", m.Region).Dial(ctx, addr)
			}}
			defer tr.CloseIdleConnections()
			resp, err := (&http.Client{Transport: tr}).Get("http://" + m.Name + ":8080" + path)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			return string(body)
		}
		api := func(i int) (a console.Cluster) {
			t.Helper()
			if err := json.Unmarshal([]byte(get(i, "/api/v1/cluster")), &a); err != nil {
				t.Fatal(err)
			}
			return a
		}
		// metric adds a gauge up over nodes, and counts the ranges that are named in a state.
		metric := func(name string, nodes ...int) (sum int) {
			t.Helper()
			for _, i := range nodes {
				m := regexp.MustCompile(`(?m)^meridian_`+name+`\{[^}]*\} (\d+)$`).FindAllStringSubmatch(get(i, "/metrics"), -1)
				for _, line := range m {
					n, _ := strconv.Atoi(line[1])
					sum += n
				}
			}
			return sum
		}
		time.Sleep(10 * time.Second)
		all := len(api(0).Ranges)
		if a := api(0); a.Underreplicated != 0 || a.Unavailable != 0 || len(a.Troubled) != 0 || a.Ranges[0].State != "ok" || a.Ranges[0].LiveVoters != 3 {
			t.Errorf("all nodes are live: %+v", a)
		}
		if n := metric("ranges_underreplicated", 0, 1, 2) + metric("range_troubled", 0, 1, 2); n != 0 {
			t.Errorf("all nodes are live, and %d ranges are said to be under-replicated", n)
		}

		c.Crash(2, 0, true)
		for _, wait := range []time.Duration{15 * time.Second, 10 * time.Minute} {
			time.Sleep(wait)
			for _, i := range []int{0, 1} {
				a := api(i)
				if a.Error != "" || a.Underreplicated != all || a.Unavailable != 0 || len(a.Troubled) != all {
					t.Errorf("%s after n3 died: %d of %d ranges are under-replicated, %d unavailable (%s)", wait, a.Underreplicated, all, a.Unavailable, a.Error)
				}
				for _, r := range a.Ranges {
					if r.State != "under-replicated" || r.LiveVoters != 2 || r.WantedVoters != 3 || r.Leaseholder == 3 {
						t.Errorf("%+v", r)
					}
				}
			}
			if n, named := metric("ranges_underreplicated", 0, 1), metric("range_troubled", 0, 1); n != all || named != all {
				t.Errorf("the metrics of n1 and n2 count %d and name %d of %d ranges", n, named, all)
			}
			conn := simtest.Connect(t, c, 1)
			var n int
			if err := conn.QueryRow(ctx, "SELECT count(*) FROM meridian_internal.ranges WHERE state = 'under-replicated' AND live_voters = 2 AND wanted_voters = 3").Scan(&n); err != nil || n != all {
				t.Errorf("SQL shows %d of %d, %v", n, all, err)
			}
		}

		c.Crash(1, 0, true)
		time.Sleep(15 * time.Second)
		if n := metric("ranges_unavailable", 0); n != all {
			t.Errorf("%d of %d ranges are unavailable in the metrics", n, all)
		}
		if n := metric("ranges_underreplicated", 0); n != 0 {
			t.Errorf("%d of the unavailable ranges are called under-replicated too", n)
		}
		if a := api(0); a.Unavailable != all && a.Error == "" {
			t.Errorf("the console has %d of %d unavailable, and no error", a.Unavailable, all)
		}

		c.Boot(1)
		c.Boot(2)
		c.WaitReady(1)
		c.WaitReady(2)
		time.Sleep(20 * time.Second)
		if a := api(0); a.Error != "" || a.Underreplicated+a.Unavailable != 0 {
			t.Errorf("all are back: %+v", a)
		}
		if n := metric("ranges_underreplicated", 0, 1, 2) + metric("ranges_unavailable", 0, 1, 2); n != 0 {
			t.Errorf("all are back, and the metrics count %d", n)
		}
	})
}

// TestTruthAboutDeadNodes: the last report of a dead node is not shown as current: it has no leases, and no replicas once they were
// rebuilt elsewhere.
func TestTruthAboutDeadNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{NodesPerRegion: 4, Log: simtest.LogTo()})
		simtest.Replicated(t, c, 3)
		conn := simtest.Connect(t, c, 0)
		id := c.Node(3).NodeID()
		numbers := func() (ranges, leases int) {
			t.Helper()
			if err := conn.QueryRow(context.Background(), "SELECT ranges, leases FROM meridian_internal.nodes WHERE node_id = $1", int(id)).Scan(&ranges, &leases); err != nil {
				t.Fatal(err)
			}
			return ranges, leases
		}
		simtest.Exec(t, conn, "CREATE TABLE t (id int PRIMARY KEY)")
		simtest.Exec(t, conn, "ALTER TABLE t SPLIT AT SELECT i * 10 FROM generate_series(1, 10) AS g(i)")
		time.Sleep(2 * time.Minute)
		had, led := numbers()
		if had == 0 || led == 0 {
			t.Fatalf("node %d has %d replicas and %d leases", id, had, led)
		}
		c.Crash(3, 0, true)
		time.Sleep(20 * time.Second)
		if ranges, leases := numbers(); ranges != had || leases != 0 {
			t.Errorf("dead for 20 s: %d replicas of %d, %d leases", ranges, had, leases)
		}
		time.Sleep(8 * time.Minute)
		if ranges, leases := numbers(); ranges != 0 || leases != 0 {
			t.Errorf("replaced: %d replicas, %d leases", ranges, leases)
		}
	})
}
