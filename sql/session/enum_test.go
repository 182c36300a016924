package session_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sql/session/sessiontest"
)

// TestEnumOnTwoNodes: a node hears of a new value of an enum before anybody writes it (schemachange.SC8), a cached plan over the old version is made again, and what was stored keeps its place when values are put between others or renamed.
func TestEnumOnTwoNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 2)
		defer c.Stop()
		a, b := c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root")
		defer a.Close()
		defer b.Close()
		a.Must("create type e as enum ('b', 'd'); create table t (id int primary key, v e, vs e[]); insert into t values (1, 'b', '{d}'), (2, 'd', '{b}')")
		const all = "select id, v, vs from t order by v"
		for i, x := range []struct{ change, write, want string }{
			{"", "select 1", "1 | b | {d}\n2 | d | {b}"},
			{"alter type e add value 'c' before 'd'", "insert into t values (3, 'c', '{c}')", "1 | b | {d}\n3 | c | {c}\n2 | d | {b}"},
			{"alter type e add value 'a' before 'b'", "insert into t values (4, 'a', null)", "4 | a | NULL\n1 | b | {d}\n3 | c | {c}\n2 | d | {b}"},
			{"alter type e rename value 'b' to 'bee'", "select 1", "4 | a | NULL\n1 | bee | {d}\n3 | c | {c}\n2 | d | {bee}"},
		} {
			c.NewsDelay.Store(int64(time.Duration(i) * 300 * time.Millisecond))
			if x.change != "" {
				a.Must(x.change)
			}
			a.Must(x.write)
			time.Sleep(time.Second) // the nodes' clocks need not agree
			n := 2 + max(0, min(i, 2))
			want := "id | v | vs\n" + x.want + fmt.Sprintf("\nSELECT %d", n)
			for _, conn := range []*sessiontest.Conn{b, a} {
				if got := conn.Must(all); got != want {
					t.Errorf("after %q:\n%s\nwant\n%s", x.change, got, want)
				}
			}
		}
	})
}

// TestEnumValueMeanwhile: a transaction that began before a value was added, and read the table with its old version, meets a row with the
// new value, and starts over.
func TestEnumValueMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 2)
		defer c.Stop()
		a, b := c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root")
		defer a.Close()
		defer b.Close()
		a.Must("create type e as enum ('x'); create table t (id int primary key, v e); insert into t values (1, 'x')")
		b.Must("begin isolation level read committed; select count(*) from t")
		done := make(chan string, 1)
		go func() {
			out, err := a.Exec("alter type e add value 'y'")
			if err != nil {
				out += sessiontest.Describe(err)
			}
			if _, err := a.Exec("insert into t values (2, 'y')"); err != nil {
				out += sessiontest.Describe(err)
			}
			done <- out
		}()
		time.Sleep(time.Second)
		got, err := b.Exec("select id, v from t order by id")
		if err != nil {
			got = sessiontest.Describe(err)
		}
		if got != "id | v\n1 | x\nSELECT 1" && got != "id | v\n1 | x\n2 | y\nSELECT 2" {
			t.Error(got)
		}
		b.Exec("commit")
		if got := <-done; got != "ALTER TYPE" {
			t.Error(got)
		}
		time.Sleep(time.Second) // the nodes' clocks need not agree
		if got := b.Must("select id, v from t order by id"); got != "id | v\n1 | x\n2 | y\nSELECT 2" {
			t.Error(got)
		}
	})
}

// TestEnumValueIsReadFirst: until the job makes a new value public, no node accepts the value from a client, and every node could read it;
// a second session that adds the same value IF NOT EXISTS waits for the job (schemachange.SC8).
func TestEnumValueIsReadFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 2)
		defer c.Stop()
		a, b, d := c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root"), c.Nodes[1].Open(t, "root")
		defer a.Close()
		defer b.Close()
		defer d.Close()
		a.Must("create type e as enum ('x'); create table t (id int primary key, v e, s text); insert into t values (1, 'x', 'y')")
		// A transaction that uses the table keeps the readable version from being in use everywhere.
		time.Sleep(time.Second)
		b.Must("begin; select count(*) from t")
		done, second := make(chan string, 1), make(chan string, 1)
		run := func(conn *sessiontest.Conn, sql string, to chan string) {
			out, err := conn.Exec(sql)
			if err != nil {
				out += sessiontest.Describe(err)
			}
			to <- out
		}
		go run(a, "alter type e add value 'y'", done)
		time.Sleep(3 * time.Second)
		for sql, want := range map[string]string{
			"insert into t values (2, 'y')":          "ERROR 22P02: invalid input value for enum e: \"y\"",
			"select s::e from t":                     "ERROR 22P02: invalid input value for enum e: \"y\"",
			"select enum_range(null::e)":             "enum_range\n{x}\nSELECT 1",
			"select enum_last(null::e)":              "enum_last\nx\nSELECT 1",
			"select enumlabel from pg_enum":          "enumlabel\nx\nSELECT 1",
			"select v from t where v = any('{x,y}')": "ERROR 22P02: invalid input value for enum e: \"y\"",
		} {
			got, err := d.Exec(sql)
			if err != nil {
				got = sessiontest.Describe(err)
			}
			if got != want {
				t.Errorf("%s: %s, want %s", sql, got, want)
			}
		}
		go run(d, "alter type e add value if not exists 'y'", second)
		time.Sleep(3 * time.Second)
		if len(done) > 0 {
			t.Error("ALTER TYPE is done while a transaction uses the version without the value")
		}
		if len(second) > 0 {
			t.Error("IF NOT EXISTS is done before the value is there")
		}
		b.Must("commit")
		time.Sleep(time.Minute)
		if len(done)+len(second) != 2 {
			t.Fatalf("of two statements that change the type %d have ended", len(done)+len(second))
		}
		if got := <-done; got != "ALTER TYPE" {
			t.Error(got)
		}
		if got := <-second; got != "NOTICE 42710: enum label \"y\" already exists, skipping\nALTER TYPE" && got != "ALTER TYPE" {
			t.Error(got)
		}
		time.Sleep(time.Second)
		if got := d.Must("insert into t values (2, 'y') returning v, enum_range(null::e), s::e"); got != "v | enum_range | s\ny | {x,y} | NULL\nINSERT 0 1" {
			t.Error(got)
		}
	})
}

// TestTemporaryTableLearnsValues: a temporary table takes and shows the values that other sessions have added to the type of its column since
// it was made, with statements that were prepared before.
func TestTemporaryTableLearnsValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := sessiontest.New(t, 2)
		defer c.Stop()
		a, b := c.Nodes[0].Open(t, "root"), c.Nodes[1].Open(t, "root")
		defer a.Close()
		defer b.Close()
		a.Must("create type e as enum ('x')")
		b.Must("create temp table t (id int primary key, v e, vs e[]); create index on t (v); insert into t values (1, 'x', '{x}')")
		b.Must("prepare i as insert into t values ($1, $2, $3); prepare q as select id, v, vs from t order by v")
		a.Must("alter type e add value 'w' before 'x'")
		a.Must("alter type e rename value 'x' to 'ex'")
		time.Sleep(time.Second)
		b.Must("execute i(2, 'w', '{w,ex}')")
		if got := b.Must("execute q"); got != "id | v | vs\n2 | w | {w,ex}\n1 | ex | {ex}\nSELECT 2" {
			t.Error(got)
		}
		if got := b.Must("select id from t where v = 'w'"); got != "id\n2\nSELECT 1" {
			t.Error(got)
		}
	})
}
