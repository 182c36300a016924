package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"meridian/sql/memory"
	"meridian/sql/session/sessiontest"
	"meridian/sql/sqlstate"
)

// TestSessionsKeepToTheirMemory: whatever a client makes its session keep, it is refused with 53200 in the end, and the memory is free again when
// the client releases it (memory.ME1, memory.ME3). Each case is a way to hold much memory that was once not accounted for.
func TestSessionsKeepToTheirMemory(t *testing.T) {
	big := strings.Repeat("x", 200<<10)
	for _, c := range []struct {
		name          string
		small         bool // nothing is refused, as nothing is kept
		before, after string
		step          func(i int) string
		steps         int
	}{
		{name: "settings", step: func(i int) string { return fmt.Sprintf("SET my.v%d = '%s'", i, big) }, steps: 1000, after: "RESET ALL"},
		{name: "one setting again and again", small: true, before: "BEGIN", step: func(i int) string { return fmt.Sprintf("SET my.v = '%s%d'", big, i) },
			steps: 1000, after: "ROLLBACK"},
		{name: "set_config", step: func(i int) string {
			return fmt.Sprintf("SELECT set_config('my.v%d', repeat('x', 1000000), false) IS NULL", i)
		},
			steps: 100, after: "RESET ALL"},
		{name: "savepoints", before: "BEGIN", step: func(i int) string { return "SAVEPOINT a; SAVEPOINT b; SAVEPOINT c; SAVEPOINT d" }, steps: 100_000, after: "ROLLBACK"},
		{name: "savepoints with settings", before: "BEGIN; " + "SELECT set_config('my.v' || i, '', false) FROM generate_series(1, 500) i",
			step: func(i int) string { return "SAVEPOINT a" }, steps: 10_000, after: "ROLLBACK"},
		{name: "long texts of short statements", small: true, step: func(i int) string { return fmt.Sprintf("PREPARE p%d AS SELECT 1 /* %s */; SELECT 1", i, big) }, steps: 1000,
			after: "DEALLOCATE ALL"},
		{name: "cursors", before: "BEGIN", step: func(i int) string { return fmt.Sprintf("DECLARE c%d CURSOR FOR SELECT '%s'", i, big[:20<<10]) }, steps: 1000,
			after: "ROLLBACK"},
		{name: "replay", before: "SET transaction_replay_size = '1GB'; BEGIN", step: func(i int) string { return "SELECT '" + big[:100<<10] + "' IS NULL" },
			steps: 600, after: "ROLLBACK"},
		{name: "a plan from a short text", before: "CREATE VIEW v0 AS SELECT 1 AS x",
			step: func(i int) string {
				return fmt.Sprintf("CREATE VIEW v%d AS SELECT a.x FROM v%d a, v%d b", i+1, i, i)
			}, steps: 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := sessiontest.New(t, 1)
				defer cl.Stop()
				n := cl.Nodes[0]
				node := memory.NewNode(64 << 20)
				n.Server.Memory = node
				s := n.Open(t, "root")
				if c.before != "" {
					s.Must(c.before)
				}
				at := s.Memory().Used()
				i := 0
				for ; i < c.steps; i++ {
					_, err := s.Exec(c.step(i))
					if err == nil {
						continue
					}
					if !sessiontest.ErrIs(err, sqlstate.OutOfMemory) {
						t.Fatal(sessiontest.Describe(err))
					}
					break
				}
				if used := s.Memory().Used(); c.small && used > 4<<20 {
					t.Errorf("the session holds %d bytes", used)
				} else if i == c.steps && !c.small && c.name != "replay" {
					t.Errorf("nothing was refused; the session holds %d bytes", used)
				}
				if most := node.Most(); most < 4<<20 && !c.small {
					t.Errorf("refused with %d bytes", most)
				}
				if c.after != "" {
					s.Must(c.after)
				}
				// The memory of settings is not counted at every release.
				if now := s.Memory().Used(); now > at+1<<20 {
					t.Errorf("the session holds %d bytes when it has let go, and had %d", now, at)
				}
				s.Must("SELECT 1")
				s.Close()
				if used := node.Used(); used != 0 {
					t.Errorf("%d bytes are left when the session has ended (memory.ME3)", used)
				}
			})
		})
	}
}

// TestIdleSessionForgetsItsText: an idle session keeps only the beginning of its last statement's text for other sessions.
func TestIdleSessionForgetsItsText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := sessiontest.New(t, 1)
		defer cl.Stop()
		s := cl.Nodes[0].Open(t, "root")
		s.Must("SELECT 'é" + strings.Repeat("é", 100_000) + "' IS NULL")
		for _, a := range cl.Nodes[0].Server.Activity() {
			if a.Query != "" && (len(a.Query) > 1024 || len(a.Query) < 1020 || !strings.HasPrefix(a.Query, "SELECT 'éé") || strings.ContainsRune(a.Query, '\uFFFD')) {
				t.Errorf("%d bytes of the text are shown: %.20q...", len(a.Query), a.Query)
			}
		}
	})
}

// TestParsingIsInterrupted: parsing stops when its statement is ended. The texts have an error at their end, which must not be found.
func TestParsingIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := sessiontest.New(t, 1)
		defer cl.Stop()
		s := cl.Nodes[0].Open(t, "root")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(context.DeadlineExceeded)
		for _, text := range []string{"SELECT 1 IN (" + strings.Repeat("1,", 10_000) + "1) oops oops", strings.Repeat("SELECT 1;", 1000) + "oops"} {
			for how, err := range map[string]error{"Query": s.Session.Query(ctx, text), "Parse": s.Session.Parse(ctx, "p", text, nil)} {
				if !sessiontest.ErrIs(err, sqlstate.QueryCanceled) && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s of %.20s...: %v", how, text, err)
				}
			}
		}
	})
}

// TestLongConstantsCostTheirBytes: a long text with few tokens is not accounted for as a large tree.
func TestLongConstantsCostTheirBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := sessiontest.New(t, 1)
		defer cl.Stop()
		cl.Nodes[0].Server.Memory = memory.NewNode(256 << 20)
		s := cl.Nodes[0].Open(t, "root")
		for i := range 20 {
			s.Must(fmt.Sprintf("PREPARE p%d AS SELECT '%s' IS NULL", i, strings.Repeat("x", 500_000)))
		}
		s.Must("SELECT '" + strings.Repeat("x", 5_000_000) + "' IS NULL")
		s.Must("SELECT 1 IN (" + strings.Repeat("1234567,", 100_000) + "1)")
	})
}
