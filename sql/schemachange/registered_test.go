package schemachange_test

import (
	"strings"
	"testing"
	"time"

	"meridian/keys"
	"meridian/sql/catalog"
	"meridian/sql/session/sessiontest"
	"meridian/sql/sqlstate"
)

// TestRegisteredStates: changes that are valid from a registered time on leave out the states that only keep two versions' writes apart (schemachange.SC14), and a transaction with an earlier timestamp
// goes on with the version that it has, also with an index that is dropped meanwhile: its entries stay as long.
func TestRegisteredStates(t *testing.T) {
	onlineBy(t, ways[2], 2, func(t *testing.T, c *sessiontest.Cluster) {
		ddl, reader, writer := c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root"), c.Nodes[1].Open(t, "root")
		defer ddl.Close()
		defer reader.Close()
		defer writer.Close()
		ddl.Must("create table t (id int primary key, v int, w int); insert into t select g, -g, g from generate_series(1, 30) g")
		ddl.Must("create index tv on t (v)")
		if x := table(t, c.Nodes[1], "t"); len(x.Indexes) != 2 || x.Version > 4 {
			t.Errorf("version %d", x.Version)
		}
		was := table(t, c.Nodes[1], "t").Version
		reader.Must("begin read only")
		reader.Must("select count(*) from t@tv where v < 0")
		ddl.Must("alter table t add column x int default 3")
		time.Sleep(50 * time.Millisecond) // transactions wait for a node's clock, and this test does not
		if x := table(t, c.Nodes[1], "t"); x.Version != was+1 || x.Columns[len(x.Columns)-1].State != catalog.Public {
			t.Errorf("adding a column takes %d versions", x.Version-was)
		}
		begin := time.Now()
		ddl.Must("drop index tv")
		took := time.Since(begin)
		time.Sleep(50 * time.Millisecond)
		if x := table(t, c.Nodes[1], "t"); x.Version != was+2 || len(x.Indexes) != 1 {
			t.Errorf("dropping an index takes %d versions", x.Version-was-1)
		}
		if took > 10*time.Second {
			t.Errorf("it took %v, with a transaction that uses the index", took)
		}
		writer.Must("update t set v = 5 where id = 7; delete from t where id = 8")
		time.Sleep(20 * time.Minute) // the entries would be removed by now
		if got := reader.Must("select count(*), min(v) from t@tv where v < 0"); !strings.Contains(got, "30 | -30\n") {
			t.Errorf("the reader finds %q by the index", got)
		}
		if _, err := reader.Exec("select x from t"); !sessiontest.ErrIs(err, sqlstate.UndefinedColumn) {
			t.Errorf("a column that was added later: %v", err)
		}
		reader.Must("rollback")
		time.Sleep(time.Minute)
		verify(t, c.Nodes[1], "t")
		for id := range 10 {
			if n := len(scan(t, c.Nodes[0], keys.IndexSpan(table(t, c.Nodes[0], "t").ID, catalog.IndexID(id+2)))); n > 0 {
				t.Errorf("%d entries of index %d are left", n, id+2)
			}
		}
	})
}
