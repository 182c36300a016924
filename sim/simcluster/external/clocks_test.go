package external_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/server"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestShowClusterClocks: each node shows the offsets of the others' clocks from its own, their errors, and the times of
// their measurement.
func TestShowClusterClocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
		simtest.Replicated(t, c, 3)
		c.Machines[1].Clock.SetOffset(120 * time.Millisecond)
		time.Sleep(15 * time.Second)
		conn := simtest.Connect(t, c, 0)
		type row struct {
			node                int64
			offset, err, max, t *time.Duration
			state               string
		}
		show := func() (out []row) {
			t.Helper()
			rows, err := conn.Query(context.Background(), `SELECT node_id, (extract(epoch FROM clock_offset) * 1e9)::int8, (extract(epoch FROM error) * 1e9)::int8,
				(extract(epoch FROM max_offset) * 1e9)::int8, (extract(epoch FROM now() - measured_at) * 1e9)::int8, state FROM meridian_internal.clocks ORDER BY 1`)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			for rows.Next() {
				var r row
				if err := rows.Scan(&r.node, &r.offset, &r.err, &r.max, &r.t, &r.state); err != nil {
					t.Fatal(err)
				}
				out = append(out, r)
			}
			return out
		}
		const near = 2 * time.Millisecond
		ahead, dead := int64(c.Node(1).NodeID()), int64(c.Node(2).NodeID())
		for i, r := range show() {
			want := map[int64]time.Duration{ahead: 120 * time.Millisecond}[r.node]
			state := "good"
			if r.node == int64(c.Node(0).NodeID()) {
				state = "this node"
			}
			if r.node != int64(i+1) || (*r.offset-want).Abs() > near || *r.err > near || *r.max != 500*time.Millisecond || *r.t > 5*time.Second ||
				*r.t < -near || r.state != state {
				t.Errorf("n%d: %d %s ± %s of %s, %s ago, %s", i+1, r.node, *r.offset, *r.err, *r.max, *r.t, r.state)
			}
		}
		c.Crash(2, 0, false)
		time.Sleep(15 * time.Second)
		if r := show(); len(r) != 3 || r[dead-1].state != "not measured lately" || *r[dead-1].t < 10*time.Second {
			t.Errorf("%+v", r)
		}
		rows, err := conn.Query(context.Background(), "SHOW CLUSTER CLOCKS")
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range rows.FieldDescriptions() {
			names = append(names, f.Name)
		}
		rows.Close()
		if len(names) != 8 || names[0] != "node_id" || names[5] != "state" || names[6] != "source" || names[7] != "epsilon" {
			t.Errorf("SHOW CLUSTER CLOCKS: %v", names)
		}
	})
}

// TestTimeDoesNotGoBackOverARestart: a node whose clock was set back while it was down waits until it is past every
// timestamp that its predecessor may have issued (server.SV2); by more than a minute, it refuses to start and says so.
func TestTimeDoesNotGoBackOverARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{NodesPerRegion: 1, Log: simtest.LogTo()})
		time.Sleep(10 * time.Second)
		var last clock.Timestamp
		for _, back := range []time.Duration{0, 20 * time.Second, 40 * time.Second} {
			last = c.Node(0).Clock().Now()
			c.Crash(0, 0, back == 0)
			c.Machines[0].Clock.Jump(-back)
			start := time.Now()
			c.Boot(0)
			c.WaitReady(0)
			if now := c.Node(0).Clock().Now(); !last.Less(now) {
				t.Errorf("set back by %s: the clock shows %s after %s", back, now, last)
			}
			if d := time.Since(start); d < back || d > back+10*time.Second {
				t.Errorf("set back by %s: the start took %s", back, d)
			}
		}
		c.StopNode(0)
		c.Machines[0].Clock.Jump(-5 * time.Minute)
		var jump *server.ClockJumpError
		if err := c.TryBoot(0); !errors.As(err, &jump) || jump.Last.Sub(jump.Now) < 4*time.Minute {
			t.Errorf("set back by five minutes: %v", err)
		}
	})
}
