package session_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sql/session/sessiontest"
)

// TestEnumOnTwoNodes: a node that has not heard of a new value of an enum reads it all the same (SC7), a cached plan over the old version is
// made again, and what was stored keeps its place when values are put between others or renamed.
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
