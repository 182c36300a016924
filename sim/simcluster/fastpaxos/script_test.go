package fastpaxos_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestFastPaxosScript is all that a client may do with a table of the protocol fast_paxos, on a cluster: each statement works, or is refused with a hint before anything is changed.
func TestFastPaxosScript(t *testing.T) { fastPaxosScript(t, "testdata/fast_paxos") }

// TestFastPaxosKeysScript is the same for foreign keys.
func TestFastPaxosKeysScript(t *testing.T) { fastPaxosScript(t, "testdata/fast_paxos_keys") }

func fastPaxosScript(t *testing.T, file string) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Regions: sim.ThreeRegions(), NodesPerRegion: 2, Log: simtest.LogTo()})
		time.Sleep(20 * time.Second)
		conns := map[string]*pgx.Conn{}
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "sleep" {
				dur, err := time.ParseDuration(d.CmdArgs[0].Key)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(dur)
				return ""
			}
			node, database := 0, "defaultdb"
			d.MaybeScanArgs(t, "node", &node)
			d.MaybeScanArgs(t, "database", &database)
			name := fmt.Sprint(database, node)
			if conns[name] == nil {
				conns[name] = simtest.ConnectTo(t, c, node, database)
			}
			var out strings.Builder
			for _, q := range strings.Split(d.Input+"\n", ";\n") {
				if q = strings.TrimSpace(q); q == "" {
					continue
				}
				begun := time.Now()
				runScript(conns[name].PgConn(), q, &out)
				if took := time.Since(begun); took > 20*time.Second {
					fmt.Fprintf(&out, "took %v\n", took.Round(time.Second))
				}
			}
			return out.String()
		})
	})
}

// runScript writes what a statement answers. (COPY FROM is in sql/schemachange/testdata/protocol: the client library waits for it with a mutex.)
func runScript(conn *pgconn.PgConn, q string, out *strings.Builder) {
	results, err := conn.Exec(context.Background(), q).ReadAll()
	for _, r := range results {
		for _, row := range r.Rows {
			var cells []string
			for _, cell := range row {
				if cell == nil {
					cells = append(cells, "NULL")
				} else {
					cells = append(cells, string(cell))
				}
			}
			fmt.Fprintf(out, "  %s\n", strings.Join(cells, " | "))
		}
		if r.Err == nil {
			fmt.Fprintln(out, r.CommandTag)
		}
	}
	var e *pgconn.PgError
	switch {
	case errors.As(err, &e):
		fmt.Fprintf(out, "ERROR %s: %s\n", e.Code, e.Message)
		if e.Detail != "" {
			fmt.Fprintf(out, "DETAIL: %s\n", e.Detail)
		}
		if e.Hint != "" {
			fmt.Fprintf(out, "HINT: %s\n", e.Hint)
		}
	case err != nil:
		fmt.Fprintf(out, "%v\n", err)
	}
}
