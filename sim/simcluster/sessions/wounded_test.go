package sessions_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestWoundedIsTold: an externally consistent transaction that an older one has aborted because it needed a lock of it (leader.P27) is told so.
func TestWoundedIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
		admin := simtest.Connect(t, c, 0)
		simtest.Exec(t, admin, "CREATE TABLE w (id int PRIMARY KEY, n int)")
		simtest.Exec(t, admin, "INSERT INTO w VALUES (1, 0), (2, 0)")
		old, young := simtest.Connect(t, c, 0), simtest.Connect(t, c, 0)
		for _, conn := range []interface {
			Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
		}{old, young} {
			if _, err := conn.Exec(context.Background(), "SET external_consistency = on; SET transaction_replay = off"); err != nil {
				t.Fatal(err)
			}
		}
		simtest.Exec(t, old, "BEGIN")
		simtest.Exec(t, old, "SELECT * FROM w WHERE id = 1")
		time.Sleep(time.Second)
		simtest.Exec(t, young, "BEGIN")
		simtest.Exec(t, young, "SELECT * FROM w WHERE id = 1") // which the older one is going to write
		simtest.Exec(t, young, "UPDATE w SET n = n + 1 WHERE id = 2")
		simtest.Exec(t, old, "UPDATE w SET n = n + 1 WHERE id IN (1, 2)")
		time.Sleep(100 * time.Millisecond)
		var e *pgconn.PgError
		_, err := young.Exec(context.Background(), "COMMIT")
		if !errors.As(err, &e) || e.Code != "40001" || !strings.Contains(e.Detail, "an older one needed a lock that this one held") {
			if e != nil {
				t.Logf("%s: %s", e.Message, e.Detail)
			}
			t.Errorf("the younger one: %v", err)
		}
		simtest.Exec(t, old, "COMMIT")
	})
}
