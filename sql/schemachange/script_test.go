package schemachange_test

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"meridian/kv"
	"meridian/sql/session/sessiontest"
	"meridian/sql/virtual"
)

// TestScripts runs scripts of SQL with the answer to each statement. "sleep 1m" lets time pass, database=d names the database of a session. The cluster tells
// of nodes in three regions, or in more for scripts about many.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			nodes := threeRegions()
			switch filepath.Base(path) {
			case "regions", "invalid_regions", "witness":
				nodes = inRegions("ap-1", "eu-1", "us-1", "us-2", "us-3")
			case "system_zones":
				nodes = inRegions("af-1", "ap-1", "eu-1", "sa-1", "us-1", "us-2", "us-3")
			}
			c := sessiontest.NewIn(t, 1, nodes)
			defer c.Stop()
			conns := map[string]*sessiontest.Conn{}
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				switch d.Cmd {
				case "sleep":
					dur, err := time.ParseDuration(d.CmdArgs[0].Key)
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(dur)
					return ""
				case "sql":
					user := "root"
					d.MaybeScanArgs(t, "user", &user)
					database := "defaultdb"
					d.MaybeScanArgs(t, "database", &database)
					name := user
					d.MaybeScanArgs(t, "conn", &name)
					name += "@" + database
					conn := conns[name]
					if conn == nil {
						conn = c.Nodes[0].OpenIn(t, user, database)
						conns[name] = conn
					}
					var out []string
					for _, text := range statements(d.Input) {
						run := conn.Exec
						if stmt, data, ok := strings.Cut(text, "FROM STDIN\n"); ok { // COPY with its rows
							run = func(string) (string, error) { return conn.Copy(stmt+"FROM STDIN", data+"\n") }
						}
						got, err := run(text)
						if got != "" {
							out = append(out, got)
						}
						if err != nil {
							out = append(out, sessiontest.Describe(err))
						}
					}
					return strings.Join(out, "\n") + "\n"
				}
				t.Fatalf("unknown command %s", d.Cmd)
				return ""
			})
			for _, conn := range conns {
				conn.Close()
			}
		})
	})
}

// threeRegions are nodes in two zones of each of three regions.
func threeRegions() []virtual.NodeRow { return inRegions("us-east1", "us-west1", "europe-west1") }

// inRegions are nodes in two zones of each of some regions.
func inRegions(regions ...string) (out []virtual.NodeRow) {
	for _, region := range regions {
		for _, zone := range []string{"a", "b"} {
			out = append(out, virtual.NodeRow{ID: kv.NodeID(len(out) + 1), Region: region, Zone: region + "-" + zone, Live: true,
				Locality: "region=" + region + ",zone=" + region + "-" + zone})
		}
	}
	return out
}

// statements divides a script at semicolons at the end of lines: each part is a query string of its own.
func statements(text string) []string {
	var out []string
	for _, s := range strings.Split(text+"\n", ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}
