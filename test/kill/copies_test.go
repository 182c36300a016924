package kill

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestCopiesOfTwoStores: copies of the stores of two nodes of three are put back, which lack the writes acknowledged in the last
// moments. The third node is down when they start, so it can't object; when it comes back, some node stops and says why. Package
// fence refuses older copies; these may be younger than the third node's records of its peers, and are found by the log
// (replica.R6).
func TestCopiesOfTwoStores(t *testing.T) {
	c := start(t)
	prepare(t, c, nil, "CREATE TABLE t (id bigint PRIMARY KEY)")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.Nodes[2].URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	copies := []string{t.TempDir(), t.TempDir()}
	for i, dir := range copies {
		if err := os.CopyFS(dir, os.DirFS(c.Nodes[i].Store())); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		if _, err := conn.Exec(ctx, "INSERT INTO t VALUES ($1)", i); err != nil {
			t.Fatal(err)
		}
	}
	c.KillAll()
	for i, dir := range copies {
		if err := os.RemoveAll(c.Nodes[i].Store()); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(c.Nodes[i].Store(), os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if err := c.Nodes[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range copies {
		if err := c.Nodes[i].WaitSQL(ctx); err != nil && len(c.Died()) == 0 {
			t.Fatal(err)
		}
	}
	if err := c.Nodes[2].Start(); err != nil {
		t.Fatal(err)
	}
	for len(c.Died()) == 0 {
		select {
		case <-ctx.Done():
			t.Fatal("all three nodes go on, and acknowledged rows are gone")
		case <-time.After(50 * time.Millisecond):
		}
	}
	last := c.Nodes[c.Died()[0]-1].Log()
	said := false
	for _, s := range []string{"but this node has committed that entry", "old copy or a clone", "is incomplete"} { // a running store was copied
		said = said || strings.Contains(last, s)
	}
	if !said {
		t.Error("it does not say why")
	}
	t.Log(last[max(0, len(last)-400):])
}
