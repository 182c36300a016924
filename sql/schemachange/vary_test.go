package schemachange_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sql/session/sessiontest"
)

// Rows are rewritten by volatile expressions: every index has the row's value, whether the entries are loaded or written, and
// whatever else happens in the transaction.
func TestVaryingExpressions(t *testing.T) {
	for _, change := range []string{
		"alter table t alter column v type float8 using random()",
		"alter table t alter column v type bigint using nextval('s')",
		"begin; alter table t alter column v type float8 using random(); update t set v = v + 1 where id < 5; commit",
		"alter table t add column w float8 default random() unique",
		"alter table t add column w serial, add primary key (id)",
		"begin; savepoint a; alter table t add column w float8 default random(); create index on t (w, v); rollback to a; alter table t add column w bigserial; create unique index on t (w); commit",
		"alter table t add column g int generated always as (v * 2) stored, add unique (g, id)",
	} {
		for _, rows := range []int{3, 700} {
			t.Run(fmt.Sprint(change, rows), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := sessiontest.New(t, 2)
					defer c.Stop()
					a, b := c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root")
					defer a.Close()
					defer b.Close()
					a.Must("create sequence s; create table t (id int not null, v int); create index on t (v); create unique index on t (id, v)")
					a.Must(fmt.Sprintf("insert into t select g, g from generate_series(1, %d) g", rows))
					// A row that is inserted while the change waits for its transaction is rewritten as well.
					b.Must("begin; insert into t values (0, 0)")
					done := start(a, change)
					time.Sleep(time.Second)
					b.Must("commit")
					if err := within(t, time.Minute, change, done); err != nil {
						t.Fatal(sessiontest.Describe(err))
					}
					if got, want := count(b, "t"), fmt.Sprint(rows+1); got != want {
						t.Errorf("%s rows, want %s", got, want)
					}
					b.Must("insert into t (id, v) values (-1, -1)")
					verify(t, c.Nodes[0], "t")
				})
			})
		}
	}
}
