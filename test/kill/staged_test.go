package kill

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// readLimit is how long a reader may wait for a transaction whose gateway died: three seconds until the transaction
// counts as dead, and the time until leases of the same node have moved.
const readLimit = 10 * time.Second

// TestStagedGatewayDies kills the gateway with kill -9 between STAGING and commit: all writes are replicated, and the
// record says STAGING, but no client has got the answer. The transaction is committed, so the next reader must see all of
// it (I1, I2).
func TestStagedGatewayDies(t *testing.T) {
	trap := filepath.Join(t.TempDir(), "die")
	c := start(t, "--debug-die-staged", trap)
	prepare(t, c, nil, "CREATE TABLE pair (id int PRIMARY KEY, v int NOT NULL)", "INSERT INTO pair VALUES (-1, 0), (1, 0)", "ALTER TABLE pair SPLIT AT VALUES (0)")
	ctx := t.Context()
	read := func(i int) (low, high int) {
		t.Helper()
		begun := time.Now()
		limit, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		conn, err := pgx.Connect(limit, c.Nodes[i].URL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(limit)
		if err := conn.QueryRow(limit, "SELECT (SELECT v FROM pair WHERE id = -1), (SELECT v FROM pair WHERE id = 1)").Scan(&low, &high); err != nil {
			t.Fatalf("node %d: %v", i+1, err)
		}
		took := time.Since(begun)
		t.Logf("node %d: %d and %d after %.1f s", i+1, low, high, took.Seconds())
		if took > readLimit {
			t.Errorf("node %d answered after %s", i+1, took)
		}
		return low, high
	}
	for i, gateway := range c.Nodes {
		v := i + 1
		limit, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		conn, err := pgx.Connect(limit, gateway.URL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(trap, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err = conn.Exec(limit, "UPDATE pair SET v = $1", v)
		var pg *pgconn.PgError
		if err == nil || errors.As(err, &pg) {
			t.Fatalf("the gateway was to die: %v", err)
		}
		if err := gateway.WaitExit(limit); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(trap); err != nil {
			t.Fatal(err)
		}
		if low, high := read((i + 1) % 3); low != v || high != v {
			t.Errorf("node %d died when its transaction was committed; there is %d and %d, not %d", i+1, low, high, v)
		}
		if err := gateway.Start(); err != nil {
			t.Fatal(err)
		}
		if err := gateway.WaitSQL(limit); err != nil {
			t.Fatal(err)
		}
		if err := c.WaitReplicated(limit, 3); err != nil {
			t.Fatal(err)
		}
		if low, high := read(i); low != v || high != v {
			t.Errorf("node %d, started again, sees %d and %d, not %d", i+1, low, high, v)
		}
	}
}
