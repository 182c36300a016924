package session_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"meridian/sql/session"
	"meridian/sql/session/sessiontest"
	"meridian/sql/sqlstate"
)

// TestFetchOfABoundPortal: FETCH and MOVE of a portal that the protocol has bound start its query, and go on behind the rows that Execute has read.
func TestFetchOfABoundPortal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := sessiontest.New(t, 1)
		defer cl.Stop()
		ctx := context.Background()
		s := cl.Nodes[0].Open(t, "root")
		defer s.Close()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(sessiontest.Describe(err))
			}
		}
		bind := func(text string) {
			t.Helper()
			s.ClosePortal("po")
			must(s.Parse(ctx, "", text, nil))
			must(s.Bind(ctx, "po", "", &session.Binding{}))
		}
		s.Must("CREATE TABLE t (a INT PRIMARY KEY)")
		s.Must("BEGIN")
		bind("SELECT * FROM generate_series(1, 9) g")
		want := func(text, rows string) {
			t.Helper()
			if got := strings.ReplaceAll(s.Must(text), "\n", " "); got != rows {
				t.Errorf("%s: %q, want %q", text, got, rows)
			}
		}
		want("MOVE FORWARD 2 IN po", "MOVE 2")
		must(s.Execute(ctx, "po", 2, false)) // 3, 4
		want("FETCH 1 FROM po", "g 5 FETCH 1")
		want("FETCH ABSOLUTE 7 FROM po", "g 7 FETCH 1")
		want("MOVE ALL IN po", "MOVE 2")
		want("FETCH 1 FROM po", "g FETCH 0")
		for _, text := range []string{"INSERT INTO t VALUES (1) RETURNING a", "SHOW search_path", ""} {
			s.Must("SAVEPOINT p")
			bind(text)
			if _, err := s.Exec("FETCH 1 FROM po"); !sessiontest.ErrIs(err, sqlstate.FeatureNotSupported) {
				t.Errorf("%q: %v", text, err)
			}
			s.Must("ROLLBACK TO p")
		}
		s.Must("ROLLBACK")
		s.Must("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT 1; MOVE ALL IN c")
		want("FETCH ABSOLUTE 2 FROM c", "?column? FETCH 0")
		want("FETCH ABSOLUTE 1 FROM c", "?column? 1 FETCH 1")
		s.Must("ROLLBACK")
	})
}
