package workload_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/workload"
	"meridian/workload/bank"
	"meridian/workload/kv"
	"meridian/workload/ycsb"
)

// TestOnServer runs the workloads on the server of MERIDIAN_TEST_URL, any that speaks PostgreSQL, and then breaks their
// invariants, which the checks have to notice.
func TestOnServer(t *testing.T) {
	url := os.Getenv("MERIDIAN_TEST_URL")
	if url == "" {
		t.Skip("MERIDIAN_TEST_URL is not set")
	}
	mix := func(name string) *ycsb.YCSB { return &ycsb.YCSB{Mix: name, Records: 500} }
	for _, c := range []struct {
		name  string
		w     workload.Workload
		spoil string
	}{
		{"bank", bank.New(), "UPDATE bank_accounts SET balance = balance + 1 WHERE id = 7"},
		{"bank without accounts", bank.New(), "DELETE FROM bank_accounts"},
		{"kv", &kv.KV{Keys: 100, ReadPercent: 50, ValueBytes: 10}, ""},
		{"ycsb a", mix("A"), "DELETE FROM usertable"},
		{"ycsb d", mix("D"), ""},
		{"ycsb e", mix("E"), ""},
		{"ycsb f", mix("F"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			conn, err := pgx.Connect(ctx, url)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(ctx)
			for range 2 { // a second time over the first
				if err := c.w.Init(ctx, conn); err != nil {
					t.Fatal(err)
				}
			}
			r, err := workload.Run(ctx, c.w, workload.Options{URLs: []string{url}, Concurrency: 4, MaxOps: 200, CheckEvery: 20 * time.Millisecond})
			if err != nil || r.Errors > 0 {
				t.Fatal(r, err)
			}
			if c.spoil == "" {
				return
			}
			if _, err := conn.Exec(ctx, c.spoil); err != nil {
				t.Fatal(err)
			}
			var broken *workload.CheckError
			if err := c.w.Check(ctx, conn); !errors.As(err, &broken) {
				t.Errorf("after %s: %v", c.spoil, err)
			}
		})
	}
}
