package pgwire_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestRoutineOfCachedPlan: a prepared statement whose columns have changed is refused with the routine's name by which drivers know that
// they have to prepare it anew.
func TestRoutineOfCachedPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := oneNode(t)
		ctx := context.Background()
		conn, err := c.Connect(ctx, 0, "defaultdb")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		pg := conn.PgConn()
		exec := func(sql string) {
			t.Helper()
			if _, err := pg.Exec(ctx, sql).ReadAll(); err != nil {
				t.Fatal(err)
			}
		}
		exec("create table t (a int)")
		if _, err := pg.Prepare(ctx, "p", "select * from t", nil); err != nil {
			t.Fatal(err)
		}
		exec("alter table t add b int")
		_, err = pg.ExecPrepared(ctx, "p", nil, nil, nil).Close()
		var e *pgconn.PgError
		if !errors.As(err, &e) || e.Code != "0A000" || e.Routine != "RevalidateCachedQuery" {
			t.Errorf("got %+v", e)
		}
	})
}
