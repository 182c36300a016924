package sessions_test

import (
	"context"
	"testing"
	"testing/synctest"

	"meridian/server"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/sql/catalog"
	"meridian/version"
)

// TestShortCharsBeforeUpgrade: no table stores char(n) without its blanks before the upgrade is finalized, since a node of the earlier binary would read it so; a table of that time is read and
// written afterwards as before. Nor does an index remember its operator classes, which that node would not read.
func TestShortCharsBeforeUpgrade(t *testing.T) {
	v := func(text string) version.Version { v, _ := version.Parse(text); return v }
	synctest.Test(t, func(t *testing.T) {
		run := version.Binary{Own: v("0.1"), Oldest: v("0.1")}
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo(), Configure: func(_ int, o *server.Options) { o.Binary = run }})
		short := func(table string) (is bool) {
			c.Node(0).Catalog().Snapshot().EachTable(func(d *catalog.Table) {
				if d.Name == table {
					is = d.ShortChars
				}
			})
			return is
		}
		class := func(table string) (is string) {
			c.Node(0).Catalog().Snapshot().EachTable(func(d *catalog.Table) {
				if d.Name == table {
					is = d.Indexes[len(d.Indexes)-1].Columns[0].Class
				}
			})
			return is
		}
		read := func(table, want string) {
			t.Helper()
			var got string
			if err := simtest.ConnectTo(t, c, 0, "defaultdb").QueryRow(context.Background(), "SELECT concat('[', v, ']') FROM "+table).Scan(&got); err != nil || got != want {
				t.Errorf("%s: %q, %v, want %q", table, got, err, want)
			}
		}
		conn := simtest.Connect(t, c, 0)
		simtest.Exec(t, conn, "CREATE TABLE early (id int PRIMARY KEY, v char(5))")
		simtest.Exec(t, conn, "INSERT INTO early VALUES (1, 'a')")
		simtest.Exec(t, conn, "CREATE INDEX ON early (v bpchar_pattern_ops)")
		if short("early") {
			t.Error("a table of the earlier version stores short values")
		}
		if class("early") != "" {
			t.Error("an index of the earlier version has an operator class")
		}
		read("early", "[a    ]")
		run.Own = v("0.2")
		for i := range c.Machines {
			c.StopNode(i)
			c.Boot(i)
			c.WaitReady(i)
		}
		a := c.Admin(0)
		defer a.Close()
		if _, err := a.Finalize(t.Context(), func(*server.Upgrade) {}); err != nil {
			t.Fatal(err)
		}
		conn = simtest.ConnectTo(t, c, 0, "defaultdb")
		simtest.Exec(t, conn, "CREATE TABLE late (id int PRIMARY KEY, v char(5))")
		simtest.Exec(t, conn, "CREATE TABLE other (id int PRIMARY KEY, v varchar(5))")
		simtest.Exec(t, conn, "INSERT INTO late VALUES (1, 'b')")
		if !short("late") || short("early") || short("other") {
			t.Errorf("short values: late %v, early %v, other %v", short("late"), short("early"), short("other"))
		}
		simtest.Exec(t, conn, "CREATE INDEX ON late (v bpchar_pattern_ops)")
		if got := class("late"); got != "bpchar_pattern_ops" {
			t.Errorf("the operator class is %q", got)
		}
		read("early", "[a    ]")
		read("late", "[b    ]")
		simtest.Exec(t, conn, "UPDATE early SET v = 'c'")
		simtest.Exec(t, conn, "UPDATE late SET v = v || 'd'")
		read("early", "[c    ]")
		read("late", "[bd   ]")
	})
}
