package pgwire_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"

	"meridian/server"
	"meridian/sim/simcluster"
)

func connect(t *testing.T, c *simcluster.Cluster) *pgx.Conn {
	t.Helper()
	conn, err := c.Connect(t.Context(), 0, "defaultdb")
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func code(err error) string {
	var e *pgconn.PgError
	if asPg(err, &e) {
		return e.Code
	}
	return fmt.Sprint(err)
}

func asPg(err error, e **pgconn.PgError) bool {
	for err != nil {
		if p, ok := err.(*pgconn.PgError); ok {
			*e = p
			return true
		}
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return false
		}
		err = u.Unwrap()
	}
	return false
}

// roundTrips are values of every type in their text form.
var roundTrips = []struct{ kind, value string }{
	{"bool", "t"}, {"int2", "-32768"}, {"int4", "2147483647"}, {"int8", "-9223372036854775808"}, {"float4", "1.5"},
	{"float8", "-1e+300"}, {"float8", "NaN"}, {"float8", "-Infinity"}, {"numeric", "-12345678901234567890.00012"}, {"numeric", "NaN"},
	{"numeric", "0.000"}, {"text", "héllo\n\t'\\"}, {"text", ""}, {"varchar", "x"}, {"bytea", `\x00ff10`}, {"date", "2024-02-29"},
	{"date", "infinity"}, {"time", "23:59:59.999999"}, {"timestamp", "2024-02-29 12:34:56.789"}, {"timestamp", "-infinity"},
	{"timestamptz", "1999-12-31 23:59:59+00"}, {"interval", "1 year 2 mons -3 days +04:05:06.7"},
	{"uuid", "01234567-89ab-cdef-0123-456789abcdef"}, {"jsonb", `{"a": [1, 2.50, null, "x"]}`}, {"int4[]", "{1,NULL,3}"}, {"text[]", `{"a b",c}`},
}

// TestTypesRoundTrip sends each value as text and gets it in binary, sends that and gets the text.
func TestTypesRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := connect(t, oneNode(t)).PgConn()
		defer conn.Close(t.Context())
		for _, x := range roundTrips {
			q := "select $1::" + x.kind
			to := conn.ExecParams(t.Context(), q, [][]byte{[]byte(x.value)}, nil, nil, []int16{1}).Read()
			if to.Err != nil {
				t.Errorf("%s %q: %v", x.kind, x.value, to.Err)
				continue
			}
			back := conn.ExecParams(t.Context(), q, [][]byte{to.Rows[0][0]}, nil, []int16{1}, nil).Read()
			if back.Err != nil || string(back.Rows[0][0]) != x.value {
				t.Errorf("%s %q: %x came back as %q, %v", x.kind, x.value, to.Rows[0][0], back.Rows, back.Err)
			}
		}
	})
}

// TestPgx runs the basics in every mode of the driver.
func TestPgx(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := oneNode(t)
		ctx := t.Context()
		conn := connect(t, c)
		defer conn.Close(ctx)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		_, err := conn.Exec(ctx, "create table x (id int8 primary key, v text, at timestamptz, d numeric, b bytea)")
		must(err)
		at := time.Date(2024, 2, 3, 4, 5, 6, 7000, time.UTC)
		for i, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
			pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
			for round := range 2 {
				id := int64(10*i + round)
				_, err := conn.Exec(ctx, "insert into x values ($1, $2, $3, $4, $5)", mode, id, "it's", at, "1.50", []byte{0, 1})
				must(err)
				var v, d string
				var got time.Time
				var b []byte
				must(conn.QueryRow(ctx, "select v, at, d::text, b from x where id = $1", mode, id).Scan(&v, &got, &d, &b))
				if v != "it's" || d != "1.50" || !got.Equal(at) || !bytes.Equal(b, []byte{0, 1}) {
					t.Errorf("%s: %q %q %s %x", mode, v, d, got, b)
				}
				if _, err := conn.Exec(ctx, "insert into x (id) values ($1)", mode, id); code(err) != "23505" {
					t.Errorf("%s: %v", mode, err)
				}
			}
		}
		// A batch is one transaction.
		b := &pgx.Batch{}
		b.Queue("insert into x (id) values ($1)", 1000)
		b.Queue("select 1/0")
		if err := conn.SendBatch(ctx, b).Close(); code(err) != "22012" {
			t.Error(err)
		}
		var n int
		must(conn.QueryRow(ctx, "select count(*) from x where id = 1000").Scan(&n))
		if n != 0 {
			t.Error("half a batch is there")
		}
		// COPY out. (Into the database the scripts do it: the driver's own lock would stop virtual time.)
		_, err = conn.Exec(ctx, "insert into x (id) select generate_series(5000, 7999)")
		must(err)
		var out bytes.Buffer
		_, err = conn.PgConn().CopyTo(ctx, &out, "copy (select id from x where id >= 5000) to stdout")
		if must(err); strings.Count(out.String(), "\n") != 3000 {
			t.Error(out.Len())
		}
		// A query that is cancelled by its context leaves a server that serves others.
		short, stop := context.WithTimeout(ctx, time.Second)
		_, err = conn.Exec(short, "select pg_sleep(1000)")
		if stop(); err == nil {
			t.Error("pg_sleep ended")
		}
		time.Sleep(20 * time.Second)
	})
}

// TestManyParameters: 65535 are the most that the protocol can count.
func TestManyParameters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := connect(t, oneNode(t)).PgConn()
		defer conn.Close(t.Context())
		var q strings.Builder
		q.WriteString("select 1 where 1 in (")
		params := make([][]byte, 65535)
		for i := range params {
			if i > 0 {
				q.WriteByte(',')
			}
			fmt.Fprintf(&q, "$%d", i+1)
			params[i] = []byte("7")
		}
		params[65534] = []byte("1")
		r := conn.ExecParams(t.Context(), q.String()+")", params, nil, nil, nil).Read()
		if r.Err != nil || len(r.Rows) != 1 {
			t.Errorf("%d rows, %v", len(r.Rows), r.Err)
		}
		if _, err := conn.Prepare(t.Context(), "", q.String()+", $65536)", nil); code(err) != "54023" && code(err) != "42P02" && code(err) != "54000" {
			t.Errorf("65536 parameters: %v", err)
		}
	})
}

type pqDialer struct{ c *simcluster.Cluster }

func (d pqDialer) Dial(_, _ string) (net.Conn, error) { return d.c.Dial(context.Background(), 0) }
func (d pqDialer) DialTimeout(_, _ string, _ time.Duration) (net.Conn, error) {
	return d.c.Dial(context.Background(), 0)
}

// TestPq runs the basics with database/sql.
func TestPq(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := oneNode(t)
		connector, err := pq.NewConnector("host=n1 port=5432 user=root dbname=defaultdb sslmode=disable")
		if err != nil {
			t.Fatal(err)
		}
		connector.Dialer(pqDialer{c})
		db := sql.OpenDB(connector)
		defer db.Close()
		must := func(_ any, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(db.Exec("create table x (id int primary key, v text)"))
		ins, err := db.Prepare("insert into x values ($1, $2)")
		must(nil, err)
		for i := range 10 {
			must(ins.Exec(i, fmt.Sprint("v", i)))
		}
		must(nil, ins.Close())
		tx, err := db.Begin()
		must(nil, err)
		cp, err := tx.Prepare("COPY x (id, v) FROM STDIN")
		must(nil, err)
		for i := range 100 {
			must(cp.Exec(100+i, "copied"))
		}
		must(cp.Exec())
		must(nil, cp.Close())
		must(nil, tx.Commit())
		var n int
		must(nil, db.QueryRow("select count(*) from x where v <> $1", "v3").Scan(&n))
		if n != 109 {
			t.Errorf("%d rows", n)
		}
		if _, err := db.Exec("insert into x values (1, 'x')"); err == nil || err.(*pq.Error).Code != "23505" {
			t.Error(err)
		}
	})
}

// TestClientStopsReading: a client that takes in nothing blocks nobody, and goes when it is told to.
func TestClientStopsReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := oneNode(t)
		nc, err := c.Dial(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.Write(startup())
		nc.Write(message('Q', "select g, repeat('x', 1000) from generate_series(1, 1000000) g\x00"))
		time.Sleep(5 * time.Second)
		conn := connect(t, c)
		defer conn.Close(t.Context())
		var pid uint32
		begun := time.Now()
		if err := conn.QueryRow(t.Context(), "select pid from pg_stat_activity where query like 'select g, repeat%' and state = 'active'").Scan(&pid); err != nil {
			b := make([]byte, 2000)
			n, _ := nc.Read(b)
			t.Fatalf("%v; the client would read %q", err, b[max(0, n-300):n])
		}
		if d := time.Since(begun); d > 100*time.Millisecond {
			t.Errorf("others wait for %s", d)
		}
		if _, err := conn.Exec(t.Context(), "select pg_terminate_backend($1)", pid); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		var n int
		if err := conn.QueryRow(t.Context(), "select count(*) from pg_stat_activity where pid = $1", pid).Scan(&n); err != nil || n != 0 {
			t.Errorf("it is still there: %d, %v", n, err)
		}
	})
}

// TestIdleConnections: two thousand that do nothing cost nothing but their memory.
func TestIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := oneNode(t)
		for range 2000 {
			nc, err := c.Dial(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			nc.Write(startup())
		}
		time.Sleep(time.Second)
		conn := connect(t, c)
		defer conn.Close(t.Context())
		var n int
		if err := conn.QueryRow(t.Context(), "select count(*) from pg_stat_activity").Scan(&n); err != nil || n != 2001 {
			t.Errorf("%d connections, %v", n, err)
		}
	})
}

// TestMemoryBudget: what does not fit is refused, and its memory is free again.
func TestMemoryBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := connect(t, oneNode(t, func(o *server.Options) { o.StatementBytes = 1 << 20 }))
		defer conn.Close(t.Context())
		for _, q := range []string{
			"select g, repeat('x', 100) from generate_series(1, 100000) g order by 1 desc",
			"select g % 50000, count(*) from generate_series(1, 100000) g group by 1",
			"select count(*) from generate_series(1, 50000) a join generate_series(1, 50000) b on a = b",
			"select distinct g from generate_series(1, 100000) g",
			"with x as materialized (select g, repeat('x', 100) from generate_series(1, 100000) g) select count(*) from x a, x b where a.g = b.g",
		} {
			if _, err := conn.Exec(t.Context(), q); code(err) != "53200" {
				t.Errorf("%s: %v", q, err)
			}
			if _, err := conn.Exec(t.Context(), "select g from generate_series(1, 1000) g order by 1"); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		}
	})
}

// TestOversized: a message beyond the bound ends its connection, and only that.
func TestOversized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := oneNode(t)
		nc, err := c.Dial(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.Write(startup())
		nc.Write(binary.BigEndian.AppendUint32([]byte{'Q'}, 65<<20))
		nc.SetReadDeadline(time.Now().Add(time.Second))
		var all bytes.Buffer
		all.ReadFrom(nc)
		if !strings.Contains(all.String(), "C08P01") {
			t.Errorf("%q", all.String())
		}
		ask(t, c)
	})
}
