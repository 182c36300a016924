package kv

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"

	"meridian/workload"
)

// KV is the workload.
type KV struct {
	// Keys bounds the keys; ReadPercent of the operations read.
	Keys        int64
	ReadPercent int
	ValueBytes  int
}

// New makes the default: ten thousand keys, half of the operations read.
func New() *KV { return &KV{Keys: 10_000, ReadPercent: 50, ValueBytes: 64} }

// Name implements workload.Workload.
func (k *KV) Name() string { return "kv" }

// About implements workload.Workload.
func (k *KV) About() string { return "reads and upserts of single rows by primary key" }

// Init implements workload.Workload.
func (k *KV) Init(ctx context.Context, conn *pgx.Conn) error {
	for _, q := range []string{
		"DROP TABLE IF EXISTS kv",
		"CREATE TABLE kv (k bigint PRIMARY KEY, v bytea NOT NULL)",
	} {
		if _, err := conn.Exec(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	return nil
}

// Worker implements workload.Workload.
func (k *KV) Worker(_ context.Context, dice *rand.Rand) (workload.Step, error) {
	value := make([]byte, k.ValueBytes)
	return func(ctx context.Context, conn *pgx.Conn) (string, error) {
		key := dice.Int64N(k.Keys)
		if dice.IntN(100) < k.ReadPercent {
			var v []byte
			err := conn.QueryRow(ctx, "SELECT v FROM kv WHERE k = $1", key).Scan(&v)
			if err == pgx.ErrNoRows {
				err = nil
			}
			return "read", err
		}
		for i := range value {
			value[i] = byte(dice.Uint32())
		}
		_, err := conn.Exec(ctx, "INSERT INTO kv (k, v) VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET v = excluded.v", key, value)
		return "write", err
	}, nil
}

// Check implements workload.Workload: no key exists twice.
func (k *KV) Check(ctx context.Context, conn *pgx.Conn) error {
	var n, distinct int64
	if err := conn.QueryRow(ctx, "SELECT count(*), count(DISTINCT k) FROM kv").Scan(&n, &distinct); err != nil {
		return err
	}
	if n != distinct {
		return &workload.CheckError{Err: fmt.Errorf("%d rows but %d keys", n, distinct)}
	}
	return nil
}
