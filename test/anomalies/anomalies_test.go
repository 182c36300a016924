package anomalies

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/bench/postgres"
	"meridian/history"
	"meridian/test/process"
	"meridian/workload"
	"meridian/workload/anomalies"
)

// lasting is how long each level is tested.
func lasting(t *testing.T) time.Duration {
	s := os.Getenv("MERIDIAN_ANOMALIES")
	if s == "" {
		t.Skip("real servers; set MERIDIAN_ANOMALIES=10s, or run `make anomalies`")
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// try runs the workload at a level and returns what each part found.
func try(t *testing.T, urls []string, level string, strict bool, d time.Duration) (map[string]anomalies.Verdict, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d+3*time.Minute)
	defer cancel()
	a := anomalies.New()
	a.Level, a.Strict, a.Think = level, strict, 2*time.Millisecond
	var out strings.Builder
	a.Out = &out
	conn, err := pgx.Connect(ctx, urls[0])
	if err != nil {
		t.Fatal(err)
	}
	err = a.Init(ctx, conn)
	conn.Close(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r, err := workload.Run(ctx, a, workload.Options{URLs: urls, Concurrency: 16, Duration: d, Seed: uint64(time.Now().UnixNano()), Quiet: true})
	found := map[string]anomalies.Verdict{}
	for _, v := range a.Verdicts() {
		found[v.Part] = v
	}
	t.Logf("%s: %d operations (%.0f/s), %d retries, %d unknown, %d errors (%v)\n%s", level, r.Ops, float64(r.Ops)/r.Elapsed.Seconds(), r.Retries, r.Unknown, r.Errors, r.LastError, out.String())
	var broken *workload.CheckError
	if err != nil && !errors.As(err, &broken) {
		t.Fatal(err)
	}
	return found, err
}

// TestPostgreSQL: at each level PostgreSQL shows nothing that the level forbids, and what it allows is found.
func TestPostgreSQL(t *testing.T) {
	d := lasting(t)
	bin := os.Getenv("PGBIN")
	if bin == "" {
		bin = postgres.DefaultBin
	}
	dir, err := os.MkdirTemp("", "anomalies")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	limit, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	g, err := postgres.Start(limit, bin, dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Stop()
	urls := []string{g[0].URL()}
	shows := func(found map[string]anomalies.Verdict, level history.Level, parts ...string) {
		t.Helper()
		for _, p := range parts {
			if found[p].Allowed(level) {
				t.Errorf("%s: nothing was found that is not %s", p, level)
			}
		}
	}
	found, err := try(t, urls, "READ COMMITTED", false, d)
	if err != nil {
		t.Error(err)
	}
	shows(found, history.RepeatableRead, "lists", "values", "bank", "counter")
	shows(found, history.Serializable, "race", "skew")
	found, err = try(t, urls, "REPEATABLE READ", false, d)
	if err != nil {
		t.Error(err)
	}
	shows(found, history.Serializable, "lists", "values", "race", "skew")
	// Of about 60,000 transactions on lists, 15.18 let one cycle of two anti-dependencies pass (G2-item; docs/testing.md).
	// This test is not about anomalies that rare: they have to come twice.
	if _, err := try(t, urls, "SERIALIZABLE", true, d); err != nil {
		t.Logf("once more after %v", err)
		if _, err := try(t, urls, "SERIALIZABLE", true, d); err != nil {
			t.Error(err)
		}
	}
}

// TestMeridian: no level shows an anomaly that it forbids; on one node, SERIALIZABLE also keeps the order of time.
func TestMeridian(t *testing.T) {
	d := lasting(t)
	dir := t.TempDir()
	binary, err := process.Build(t.Context(), "../..", dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		nodes int
	}{{"one node", 1}, {"three nodes", 3}} {
		t.Run(c.name, func(t *testing.T) {
			limit, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cl, err := process.Start(limit, process.Options{Binary: binary, Dir: t.TempDir(), Nodes: c.nodes})
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			defer func() {
				if t.Failed() {
					t.Log(cl.Logs())
				}
			}()
			for _, level := range []string{"SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED"} {
				if _, err := try(t, cl.URLs("postgres"), level, c.nodes == 1 && level == "SERIALIZABLE", d); err != nil {
					t.Errorf("%s: %v", level, err)
				}
				if dead := cl.Died(); len(dead) > 0 {
					t.Fatalf("nodes %v ended", dead)
				}
			}
		})
	}
}
