package opttest

import (
	"fmt"
	"testing"

	"meridian/sql/bind"
	"meridian/sql/opt"
	"meridian/sql/types"
)

// chain joins a table with itself so many times.
func chain(n int) string {
	sql := "SELECT count(*) FROM t AS t0"
	for i := 1; i < n; i++ {
		sql += fmt.Sprintf(" JOIN t AS t%d ON t%d.b = t%d.a", i, i-1, i)
	}
	return sql + " WHERE t0.c = 'x' AND t1.d = $1"
}

func BenchmarkOptimize(b *testing.B) {
	d := newDB(b)
	d.must("CREATE TABLE t (a INT8 PRIMARY KEY, b INT8, c TEXT, d INT8 NOT NULL)")
	d.must("CREATE INDEX t_b ON t (b)")
	d.must("CREATE INDEX t_cd ON t (c, d)")
	for _, q := range []struct{ name, sql string }{
		{"point-select", "SELECT b, c FROM t WHERE a = $1"},
		{"point-update", "UPDATE t SET b = b + 1 WHERE a = $1"},
		{"point-delete", "DELETE FROM t WHERE a = $1"},
		{"insert", "INSERT INTO t VALUES ($1, $1, 'x', 3)"},
		{"secondary", "SELECT * FROM t WHERE b = $1"},
		{"ordered", "SELECT * FROM t WHERE b > $1 ORDER BY a LIMIT 10"},
		{"join2", "SELECT * FROM t JOIN t AS u ON t.b = u.a WHERE t.c = 'x' AND u.d = $1"},
		{"join4", "SELECT * FROM t, t AS u, t AS v, t AS w WHERE t.b = u.a AND u.b = v.a AND v.b = w.a AND t.c = 'x' AND u.d = $1"},
		{"join6", "SELECT * FROM t, t AS u, t AS v, t AS w, t AS x, t AS y WHERE t.b = u.a AND u.b = v.a AND v.b = w.a AND w.b = x.a AND x.b = y.a AND t.c = 'x' AND u.d = $1"},
		{"join12", chain(12)},
		{"join30", chain(30)},
	} {
		b.Run(q.name, func(b *testing.B) {
			s, err := d.bind(q.sql, types.Int8)
			if err != nil {
				b.Fatal(err)
			}
			env := d.env()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := opt.Optimize(s.(*bind.Query).Query, env); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
