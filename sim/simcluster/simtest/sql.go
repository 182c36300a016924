package simtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/sim/simcluster"
	"meridian/sql/catalog"
)

// WantCode fails the test if an error does not have this SQLSTATE.
func WantCode(t *testing.T, err error, code string) {
	t.Helper()
	var e *pgconn.PgError
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("%v, want %s", err, code)
	}
}

// Ask is one value that a node answers.
func Ask[T any](t *testing.T, conn *pgx.Conn, sql string) (v T) {
	t.Helper()
	if err := conn.QueryRow(context.Background(), sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// Took is the median of the virtual time that an operation takes.
func Took(t *testing.T, f func()) time.Duration {
	t.Helper()
	var all []time.Duration
	for range 9 {
		begin := time.Now()
		f()
		all = append(all, time.Since(begin))
		time.Sleep(time.Second)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// One is the number that a query answers.
func One(t *testing.T, x *pgx.Conn, q string) (v int) {
	t.Helper()
	if err := x.QueryRow(context.Background(), q).Scan(&v); err != nil {
		t.Fatal(q, err)
	}
	return v
}

// TableID is the identity of a table.
func TableID(t *testing.T, c *simcluster.Cluster, name string) (id catalog.ID) {
	t.Helper()
	if err := Connect(t, c, 0).QueryRow(context.Background(), "SELECT $1::text::regclass::oid", name).Scan((*uint32)(&id)); err != nil {
		t.Fatal(err)
	}
	return id
}

// Connect opens a connection to node i, which is closed when the test ends.
func Connect(t *testing.T, c *simcluster.Cluster, i int) *pgx.Conn {
	t.Helper()
	conn, err := c.Connect(context.Background(), i, "defaultdb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// Exec runs a statement that has to succeed.
func Exec(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := conn.Exec(context.Background(), sql, args...); err != nil {
		var detail string
		if e := (*pgconn.PgError)(nil); errors.As(err, &e) {
			detail = e.Detail
		}
		t.Fatalf("%s: %v %s", sql, err, detail)
	}
}

// RoundTrips measures an operation and compares it with a time, with a tolerance for messages inside a region.
func RoundTrips(t *testing.T, what string, want time.Duration, f func()) {
	t.Helper()
	f() // plans, caches and leases are warm
	var got time.Duration
	for range 3 {
		time.Sleep(time.Second) // the intents of the last run are resolved in the background
		start := time.Now()
		f()
		got = time.Since(start)
		if slack := max(want/20, 3*time.Millisecond); got <= want+slack && got >= want-slack {
			t.Logf("%-60s %v", what, got)
			return
		}
		// A lease may just have moved, which costs a round trip to whoever had it.
		t.Logf("%-60s %v, want %v", what, got, want)
	}
	t.Errorf("%s took %v, want %v", what, got, want)
}

// Code is the SQLSTATE of an error, or the text of one that has none.
func Code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return fmt.Sprint(err)
}

// TableIDOf is the ID of a table.
func TableIDOf(t *testing.T, conn *pgx.Conn, name string) (id uint32) {
	t.Helper()
	if err := conn.QueryRow(context.Background(), "SELECT $1::text::regclass::oid", name).Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}

// ConnectTo is Connect to another database than defaultdb.
func ConnectTo(t *testing.T, c *simcluster.Cluster, i int, database string) *pgx.Conn {
	t.Helper()
	conn, err := c.Connect(context.Background(), i, database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// Plain are the lines of an EXPLAIN.
func Plain(t *testing.T, conn *pgx.Conn, sql string) []string {
	t.Helper()
	rows, err := conn.Query(context.Background(), sql)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return lines
}

// Footer is a line of an EXPLAIN that begins with a name.
func Footer(t *testing.T, lines []string, name string) string {
	t.Helper()
	for _, l := range lines {
		if v, ok := strings.CutPrefix(l, name+": "); ok {
			return v
		}
	}
	t.Fatalf("no line %q in\n%s", name, strings.Join(lines, "\n"))
	return ""
}
