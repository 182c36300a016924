package schemachange_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"meridian/sql/session/sessiontest"
)

// TestShowCreateRoundTrip: the text of SHOW CREATE, run in another database, makes what prints the same text.
func TestShowCreateRoundTrip(t *testing.T) {
	const regions = ` primary region "us-east1" regions "us-west1", "europe-west1"`
	for _, group := range []struct {
		name, database string
		tables         map[string]string // with what makes them
	}{
		{"plain", "", map[string]string{
			"a": `create table a (id int primary key, n text default 'x', check (n > ''), unique (n)) with (fillfactor = 70); create index an on a (n desc) storing (id)`,
			"b": `create table b (c text, id int, v int, primary key (c, id)) partition by list (c) (partition x values in ('a', 'b''c', null), partition y values in (default)); ` +
				`create index bv on b (v) partition by range (v) (partition low values from (minvalue) to (10), partition high values from (10) to (maxvalue)); ` +
				`alter partition x of table b configure zone using constraints = '[+region=us-east1]', lease_preferences = '[[+region=us-east1], [+region=us-west1, -zone=z]]'; ` +
				`alter index bv configure zone using num_replicas = 5, num_voters = 3, voter_constraints = '{"+region=us-east1,+zone=us-east1-a": 2}'; ` +
				`alter table b configure zone using gc.ttlseconds = 60, range_max_bytes = 1000000, range_min_bytes = 1000; alter partition low of index b@bv configure zone using global_reads = true`,
			"c": `create table c (a int, b date, k bool, primary key (a, b, k)) partition by list (a) (partition one values in (1, 2) partition by range (b, k) (` +
				`partition p values from ('2020-01-01', true) to ('2021-01-01', minvalue)), partition rest values in (3))`,
		}},
		{"regions", regions, map[string]string{
			"d": `create table d (id int primary key)`,
			"e": `create table e (id int primary key) locality global`,
			"f": `create table f (id int primary key, v int) locality regional by table in "us-west1"; alter table f configure zone using gc.ttlseconds = 60`,
			"g": `create table g (id int primary key, v int, u text unique) locality regional by row; create index gv on g (v)`,
			"h": `create table h (id int primary key, home crdb_internal_region not null default 'us-east1') locality regional by row as home`,
			"i": `create table i (id int primary key, crdb_region crdb_internal_region not null) locality regional by row`,
			"j": `create table j (id int primary key) locality regional by row; alter partition "us-west1" of table j configure zone using gc.ttlseconds = 60`,
		}},
	} {
		t.Run(group.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := sessiontest.NewIn(t, 1, threeRegions())
				defer c.Stop()
				root := c.Nodes[0].Open(t, "root")
				defer root.Close()
				root.Must("create database one" + group.database)
				root.Must("create database two" + group.database)
				one, two := c.Nodes[0].OpenIn(t, "root", "one"), c.Nodes[0].OpenIn(t, "root", "two")
				defer one.Close()
				defer two.Close()
				for table, text := range group.tables {
					for _, s := range strings.Split(text, "; ") {
						one.Must(s)
					}
					before := one.Must("show create table " + table)
					_, create, _ := strings.Cut(before, " | create_statement\n"+table+" | ")
					create = strings.TrimSuffix(create, "\nSHOW")
					for _, s := range strings.Split(create, ";\n") {
						two.Must(s)
					}
					if after := two.Must("show create table " + table); after != before {
						t.Errorf("made by\n%s\nit is shown as\n%s\nwhich makes\n%s", text, before, after)
					}
					show := "select target, raw_config_sql from meridian_internal.zones where table_id is not null and raw_config_sql is not null order by target"
					if a, b := one.Must(show), two.Must(show); strings.ReplaceAll(a, " one.", " two.") != b {
						t.Errorf("%s\nwhich becomes\n%s", a, b)
					}
				}
			})
		})
	}
}
