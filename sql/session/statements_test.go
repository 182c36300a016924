package session_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sql/session"
	"meridian/sql/session/sessiontest"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
	"meridian/test/statements"
)

// TestRandomStatements: no random statement ends with an internal error, by either protocol, in and out of transactions.
// MERIDIAN_STATEMENT_SEEDS asks for more of them.
func TestRandomStatements(t *testing.T) {
	n := 1500
	if s := os.Getenv("MERIDIAN_STATEMENT_SEEDS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		cl := sessiontest.New(t, 1)
		defer cl.Stop()
		s := cl.Nodes[0].Open(t, "root")
		defer s.Close()
		prepare := func() {
			s.Must("ROLLBACK")
			s.Must("DISCARD ALL")
			s.Must("DROP SCHEMA public CASCADE; CREATE SCHEMA public; SET statement_timeout = '1s'; SET lock_timeout = '1s'")
			for _, text := range statements.Schema() {
				s.Must(text)
			}
			s.Must("INSERT INTO t (a, c) VALUES (1, 1), (2, 2.5), (3, NULL); INSERT INTO u VALUES (1, 1, 'a', '{}', '{1,2}'), (2, 1, 'b', NULL, NULL), (3, NULL, NULL, '[1]', '{}')")
		}
		done := 0
		for seed := range uint64(n) {
			if seed%50 == 0 {
				prepare()
			}
			r := rand.New(rand.NewPCG(seed, 4))
			text := statements.New(r).Statement()
			var err error
			if ctx := context.Background(); r.IntN(2) == 0 {
				_, err = s.Exec(text)
			} else {
				err = extended(ctx, s, text, r)
			}
			var e *sqlstate.Error
			switch {
			case err == nil:
				done++
			case errors.As(session.Outcome(err), &e) && e.Code == sqlstate.InternalError:
				t.Errorf("seed %d: %s\n  %v\n  %s %s", seed, text, err, e.Detail, e.Hint)
			}
			if s.Status() == 'E' && r.IntN(3) > 0 {
				s.Must("ROLLBACK")
			}
		}
		t.Logf("%d statements succeed", done)
		if done < n/20 {
			t.Errorf("only %d statements succeed", done)
		}
		time.Sleep(time.Minute)
	})
}

// extended sends a statement by the extended protocol, and moves over its portal as a cursor before or after it is executed.
func extended(ctx context.Context, s *sessiontest.Conn, text string, r *rand.Rand) error {
	return s.Confine(func() error {
		defer func() {
			s.ClosePortal("po")
			s.CloseStatement("m")
			s.Sync(ctx)
		}()
		if err := s.Parse(ctx, "", text, []uint32{types.Int4.OID()}); err != nil {
			return err
		}
		if err := s.Bind(ctx, "po", "", &session.Binding{Params: [][]byte{[]byte("1")}}); err != nil {
			if !strings.Contains(err.Error(), "parameters") {
				return err
			}
			if err := s.Bind(ctx, "po", "", &session.Binding{}); err != nil {
				return err
			}
		}
		for range r.IntN(4) {
			step := r.IntN(3)
			if step == 0 {
				if err := s.Execute(ctx, "po", r.IntN(3), false); err != nil {
					return err
				}
				continue
			}
			move := []string{"", "fetch 1 from po", "move forward 2 in po", "fetch absolute 3 from po", "move all in po", "fetch backward 1 from po", "fetch 0 from po"}[1+r.IntN(6)]
			if err := s.Parse(ctx, "m", move, nil); err != nil {
				return err
			}
			if err := s.Bind(ctx, "", "m", &session.Binding{}); err != nil {
				return err
			}
			if err := s.Execute(ctx, "", 0, false); err != nil {
				return err
			}
			s.CloseStatement("m")
		}
		return nil
	})
}
