package kill

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/test/process"
)

// start runs three nodes of the binary until the test ends, whose logs are printed if it fails.
func start(t *testing.T, args ...string) *process.Cluster {
	t.Helper()
	if os.Getenv("MERIDIAN_PROCESSES") == "" {
		t.Skip("real processes; set MERIDIAN_PROCESSES=1")
	}
	dir := t.TempDir()
	binary, err := process.Build(t.Context(), "../..", dir, "watched")
	if err != nil {
		t.Fatal(err)
	}
	limit, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := process.Start(limit, process.Options{Binary: binary, Dir: dir, Nodes: 3, Args: args})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Logs())
		}
		c.Close()
	})
	return c
}

// prepare calls f and runs the statements that a test needs first, and waits until all of that is replicated.
func prepare(t *testing.T, c *process.Cluster, f func(ctx context.Context, conn *pgx.Conn) error, statements ...string) {
	t.Helper()
	limit, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(limit, c.Nodes[0].URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(limit)
	if f != nil {
		if err := f(limit, conn); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range statements {
		if _, err := conn.Exec(limit, q); err != nil {
			t.Fatal(fmt.Errorf("%s: %w", q, err))
		}
	}
	if err := c.WaitReplicated(limit, 3); err != nil {
		t.Fatal(err)
	}
}
