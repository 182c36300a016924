package session_test

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"meridian/sql/session/sessiontest"
)

// TestSettingsLikePostgreSQL: the values of settings through SET, SET LOCAL, RESET, transactions that commit and that don't, savepoints, and
// sessions that begin with what ALTER ROLE and ALTER DATABASE have set, are those that PostgreSQL 15 has shown
// (parameter/testdata/record.py records them).
func TestSettingsLikePostgreSQL(t *testing.T) {
	text, err := os.ReadFile("parameter/testdata/histories.txt")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		cl := sessiontest.New(t, 1)
		defer cl.Stop()
		root := cl.Nodes[0].Open(t, "root")
		defer root.Close()
		root.Must("CREATE USER settings")
		db := one(t, root, "SELECT current_database()")
		where := map[string]string{"ROLE": "ALTER ROLE settings ", "DATABASE": "ALTER DATABASE " + db + " ", "BOTH": "ALTER ROLE settings IN DATABASE " + db + " "}
		failures := 0
		for _, history := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
			if failures += playSettings(t, cl, root, where, history); failures > 5 {
				t.Fatal("and so on")
			}
		}
	})
}

// playSettings carries out one history, and returns 1 if it ended differently.
func playSettings(t *testing.T, cl *sessiontest.Cluster, root *sessiontest.Conn, where map[string]string, history string) int {
	const show = "SELECT coalesce(current_setting('application_name', true), 'NULL') || '|' || coalesce(current_setting('statement_timeout', true), 'NULL') || '|' || coalesce(current_setting('my.x', true), 'NULL')"
	lines := strings.Split(history, "\n")
	for strings.HasPrefix(lines[0], "start ") {
		w := strings.SplitN(lines[0], " ", 3)
		root.Must(where[w[1]] + w[2])
		defer root.Must(where[w[1]] + "RESET ALL")
		lines = lines[1:]
	}
	s := cl.Nodes[0].Open(t, "settings")
	defer s.Close()
	for i, line := range lines {
		statement, want, _ := strings.Cut(line, "\t")
		_, err := s.Exec(statement)
		if err != nil != (statement == "SELECT 1/0") {
			t.Errorf("%s\nline %d (%s): %v", history, i+1, statement, err)
			return 1
		}
		if want == "-" {
			continue
		}
		if got := one(t, s, show); got != want {
			t.Errorf("%s\nline %d (%s): got %s, want %s", history, i+1, statement, got, want)
			return 1
		}
	}
	return 0
}

// TestApplicationNameShown: other sessions (Server.Activity) see the application_name that is set now, through transactions and savepoints.
func TestApplicationNameShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := sessiontest.New(t, 1)
		defer cl.Stop()
		root := cl.Nodes[0].Open(t, "root")
		defer root.Close()
		root.Must("CREATE USER app; ALTER ROLE app SET application_name = 'initial'")
		s := cl.Nodes[0].Open(t, "app")
		defer s.Close()
		shown := func(want string) {
			t.Helper()
			for _, a := range cl.Nodes[0].Server.Activity() {
				if a.User == "app" && a.Application != want {
					t.Errorf("shows %q, want %q", a.Application, want)
				}
			}
		}
		shown("initial")
		s.Must("SET application_name = 'first'")
		shown("first")
		s.Must("BEGIN; SET LOCAL application_name = 'local'")
		shown("local")
		s.Must("SAVEPOINT a; SET application_name = 'undone'; ROLLBACK TO a")
		shown("local")
		s.Must("ROLLBACK")
		shown("first")
		s.Must("RESET application_name")
		shown("initial")
	})
}
