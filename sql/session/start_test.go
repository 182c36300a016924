package session_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"meridian/sql/session"
	"meridian/sql/session/sessiontest"
)

// TestSettingsOfTheStart: RESET, RESET ALL and DISCARD ALL return to what the session began with, the start packet before the role before the database, and pg_settings tells where that came from.
func TestSettingsOfTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := sessiontest.New(t, 1)
		defer cl.Stop()
		n := cl.Nodes[0]
		root := n.Open(t, "root")
		root.Must("ALTER DATABASE defaultdb SET work_mem = '5MB'; ALTER DATABASE defaultdb SET lock_timeout = 5; ALTER DATABASE defaultdb SET statement_timeout = 5000")
		root.Must("ALTER ROLE root SET lock_timeout = 6; ALTER ROLE root SET statement_timeout = 6000")
		root.Close()
		c := n.OpenFor(t, session.Client{User: "root", Database: "defaultdb", Settings: map[string]string{
			"application_name": "a", "options": "-c statement_timeout=7s -c my.x=8", "DateStyle": "German"}})
		defer c.Close()
		names := []string{"application_name", "statement_timeout", "my.x", "datestyle", "work_mem", "lock_timeout", "search_path"}
		show := func() string {
			var all []string
			for _, name := range names {
				lines := strings.Split(c.Must("SHOW "+name), "\n")
				all = append(all, lines[1])
			}
			return strings.Join(all, "; ")
		}
		first := show()
		if want := `a; 7s; 8; German, DMY; 5MB; 6ms; "$user", public`; first != want {
			t.Fatalf("it begins with %s, want %s", first, want)
		}
		change := "SET application_name = 'b'; SET statement_timeout = 1; SET my.x = 1; SET datestyle = iso; SET work_mem = '1MB'; SET lock_timeout = 1; SET search_path = x"
		for _, reset := range []string{
			"RESET ALL", "DISCARD ALL", "RESET application_name; RESET statement_timeout; RESET my.x; RESET datestyle; RESET work_mem; RESET lock_timeout; RESET search_path",
			"SET application_name TO DEFAULT; SET statement_timeout TO DEFAULT; SET my.x TO DEFAULT; SET datestyle TO DEFAULT; SET work_mem TO DEFAULT; SET lock_timeout TO DEFAULT; SET search_path TO DEFAULT",
		} {
			c.Must(change)
			for _, s := range strings.Split(reset, "; ") {
				c.Must(s)
			}
			if now := show(); now != first {
				t.Errorf("after %s there is %s, want %s", reset, now, first)
			}
		}
		c.Must("SET search_path = x")
		got := c.Must("SELECT name, reset_val, source FROM pg_settings WHERE name IN ('application_name', 'statement_timeout', 'work_mem', 'lock_timeout', 'search_path', 'idle_session_timeout') ORDER BY 1")
		for _, want := range []string{"application_name | a | client", "statement_timeout | 7000 | client", "work_mem | 5120 | database", "lock_timeout | 6 | user", "idle_session_timeout | 0 | default", `"$user", public | session`} {
			if !strings.Contains(got, want) {
				t.Errorf("pg_settings has no %q:\n%s", want, got)
			}
		}
	})
}

// TestReadOnlyOfSubtransactions: SET TRANSACTION READ ONLY within a savepoint ends with it, as in PostgreSQL.
func TestReadOnlyOfSubtransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := sessiontest.New(t, 1)
		defer cl.Stop()
		c := cl.Nodes[0].Open(t, "root")
		defer c.Close()
		c.Must("CREATE TABLE t (a int)")
		for _, end := range []string{"RELEASE a", "ROLLBACK TO a", "SAVEPOINT b; RELEASE a"} {
			c.Must("BEGIN; SAVEPOINT a; SET TRANSACTION READ ONLY")
			if got := c.Must("SHOW transaction_read_only"); !strings.Contains(got, "on") {
				t.Errorf("before %s: %s", end, got)
			}
			c.Must(end)
			c.Must("INSERT INTO t VALUES (1)")
			c.Must("COMMIT")
		}
		c.Must("BEGIN READ ONLY; SAVEPOINT a; RELEASE a")
		if out, err := c.Exec("INSERT INTO t VALUES (1)"); err == nil {
			t.Errorf("a transaction that is read only writes: %s", out)
		}
		c.Must("ROLLBACK")
	})
}
