package sessions_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/console"
	"meridian/server"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestAdminHTTP sends a node the requests of a monitor.
func TestAdminHTTP(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo(), Configure: func(i int, o *server.Options) {
			o.HTTPAddr = strings.TrimSuffix(o.ListenAddr, ":1") + ":8080"
		}})
		simtest.Replicated(t, c, 3)
		conn := simtest.Connect(t, c, 0)
		simtest.Exec(t, conn, "CREATE TABLE a (id int PRIMARY KEY)")
		simtest.Exec(t, conn, "INSERT INTO a VALUES (1)")
		time.Sleep(10 * time.Second) // clocks are measured, liveness is spread

		get := func(i int, path string) (int, string) {
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
			return resp.StatusCode, string(body)
		}

		code, body := get(0, "/health")
		if code != http.StatusOK || !strings.Contains(body, `"ok"`) {
			t.Errorf("/health: %d %s", code, body)
		}

		if code, body := get(0, "/health?ready=1"); code != http.StatusOK || !strings.Contains(body, `"ok"`) {
			t.Errorf("/health?ready=1: %d %s", code, body)
		}
		if code, body := get(0, "/health?ready=yes"); code != http.StatusBadRequest {
			t.Errorf("/health?ready=yes: %d %s", code, body)
		}

		_, body = get(0, "/metrics")
		line := regexp.MustCompile(`^(meridian_[a-z0-9_]+)\{([^}]*)\} [-+0-9.e]+$`)
		values := map[string]string{}
		kinds := map[string]string{}
		for l := range strings.Lines(body) {
			l = strings.TrimSpace(l)
			if f := strings.Fields(l); f[0] == "#" {
				if f[1] == "TYPE" {
					kinds[f[2]] = f[3]
				}
				continue
			}
			m := line.FindStringSubmatch(l)
			if m == nil || !strings.Contains(m[2], `node="1"`) {
				t.Errorf("/metrics: %q", l)
				continue
			}
			values[m[1]] = l[strings.LastIndexByte(l, ' ')+1:]
		}
		for name, kind := range kinds {
			if (kind == "counter") != strings.HasSuffix(name, "_total") {
				t.Errorf("%s is a %s", name, kind)
			}
		}
		for name, want := range map[string]string{
			"meridian_cluster_nodes": "3", "meridian_cluster_nodes_live": "3", "meridian_node_live": "1", "meridian_node_draining": "0",
			"meridian_clock_max_offset_seconds": "0.5", "meridian_clock_offset_seconds": "", "meridian_rpc_round_trip_seconds": "",
			"meridian_kv_deadlocks_total": "0", "meridian_kv_lock_waits_total": "", "meridian_kv_pushes_total": "",
			"meridian_kv_one_phase_commits_total": "", "meridian_txn_begun_total": "", "meridian_txn_ambiguous_total": "0",
			"meridian_route_remote_total": "", "meridian_block_cache_hits_total": "", "meridian_l0_sstables": "",
			"meridian_read_amplification": "", "meridian_wal_written_bytes_total": "", "meridian_write_stalls_total": "0",
			"meridian_sql_inserts_total": "1", "meridian_sql_connections": "1",
		} {
			if got, ok := values[name]; !ok || want != "" && got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		for _, moved := range []string{"meridian_kv_one_phase_commits_total", "meridian_txn_begun_total", "meridian_raft_applied_total",
			"meridian_txn_one_phase_commits_total", "meridian_wal_written_bytes_total", "meridian_rpc_calls_total"} {
			if values[moved] == "0" {
				t.Errorf("%s did not move", moved)
			}
		}

		_, body = get(1, "/api/v1/cluster")
		var got console.Cluster
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		if got.Node != int(c.Node(1).NodeID()) || len(got.Nodes) != 3 || got.Error != "" || got.RangeCount < 2 || len(got.Ranges) != got.RangeCount {
			t.Errorf("/api/v1/cluster: %s", body)
		}
		for _, n := range got.Nodes {
			if !n.Live || n.Draining || n.Ranges == 0 {
				t.Errorf("/api/v1/cluster: node %+v", n)
			}
		}

		// A node that drains takes itself out of the load balancer's list, and is seen draining by others.
		limit, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		conn.Close(limit)
		start := time.Now()
		c.Node(0).Drain(limit, server.DrainOptions{})
		cancel()
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("draining took %s", d)
		}
		if code, body := get(0, "/health"); code != http.StatusServiceUnavailable || !strings.Contains(body, "draining") {
			t.Errorf("/health of a draining node: %d %s", code, body)
		}
		if code, body := get(0, "/health?ready=1"); code != http.StatusServiceUnavailable || !strings.Contains(body, "draining") {
			t.Errorf("/health?ready=1 of a draining node: %d %s", code, body)
		}
		if code, body := get(0, "/health?ready=0"); code != http.StatusOK || !strings.Contains(body, "draining") {
			t.Errorf("/health?ready=0 of a draining node: %d %s", code, body)
		}
		if n := c.Node(0).Store().Gauges().Leaseholders; n != 0 {
			t.Errorf("%d leases are left on the drained node", n)
		}
		time.Sleep(3 * time.Second)
		_, body = get(1, "/api/v1/cluster")
		if err := json.Unmarshal([]byte(body), &got); err != nil || !got.Nodes[0].Draining {
			t.Errorf("others do not see it draining: %s, %v", body, err)
		}

		// One that is cut off can't use its leases.
		for _, i := range []int{0, 2} {
			c.Network.Partition(c.Machines[1].Name, c.Machines[i].Name)
		}
		time.Sleep(10 * time.Second)
		if code, body := get(1, "/health?ready=1"); code != http.StatusServiceUnavailable || !strings.Contains(body, "not live") {
			t.Errorf("/health?ready=1 of a node that is cut off: %d %s", code, body)
		}
		c.Network.HealAll()
		time.Sleep(10 * time.Second)
		if code, body := get(1, "/health?ready=1"); code != http.StatusOK {
			t.Errorf("/health?ready=1 after it was cut off: %d %s", code, body)
		}
	})
}
