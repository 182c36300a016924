// Command pgx walks through the basics of pgx 5 against a server: go run ./test/drivers/pgx URL
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// steps runs a program's steps one after the other and counts those that fail.
type steps struct {
	url      string
	failures int
}

func (s *steps) step(name string, f func(ctx context.Context, c *pgx.Conn) error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := func() error {
		c, err := pgx.Connect(ctx, s.url)
		if err != nil {
			return err
		}
		defer c.Close(ctx)
		return f(ctx, c)
	}()
	if err != nil {
		s.failures++
		fmt.Println("  FAIL", name, "-", strings.ReplaceAll(err.Error(), "\n", " | "))
		return
	}
	fmt.Println("  ok  ", name)
}

func state(ctx context.Context, c *pgx.Conn, sql, want string) error {
	_, err := c.Exec(ctx, sql)
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.Code != want {
		return fmt.Errorf("%s: %v, not %s", sql, err, want)
	}
	return nil
}

func eq(got, want any) error {
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// all has one field for every type.
type all struct {
	B  *bool
	I2 *int16
	I4 *int32
	I8 *int64
	F4 *float32
	F8 *float64
	N  *string
	T  *string
	V  *string
	By []byte
	D  *time.Time
	Ts *time.Time
	Tz *time.Time
	U  *string
	J  *string
}

func ptr[T any](v T) *T { return &v }

func main() {
	s := steps{url: os.Args[1]}
	s.step("connect", func(ctx context.Context, c *pgx.Conn) error {
		var n int
		return firstOf(c.QueryRow(ctx, "SELECT 1").Scan(&n), eq(n, 1), eq(c.PgConn().ParameterStatus("client_encoding"), "UTF8"))
	})
	s.step("create tables", func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, `DROP TABLE IF EXISTS pgx_types; DROP TABLE IF EXISTS pgx_rows;
			CREATE TABLE pgx_types (id int PRIMARY KEY, b bool, i2 int2, i4 int4, i8 int8, f4 float4, f8 float8, n numeric(30,6), t text, v varchar(20),
				by bytea, d date, ts timestamp, tz timestamptz, u uuid, j jsonb);
			CREATE TABLE pgx_rows (id int PRIMARY KEY, name text NOT NULL UNIQUE, n int CHECK (n >= 0))`)
		return err
	})
	modes := []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}
	for i, mode := range modes {
		s.step("types there and back, "+mode.String(), func(ctx context.Context, c *pgx.Conn) error {
			want := all{ptr(true), ptr(int16(-32768)), ptr(int32(2147483647)), ptr(int64(-9223372036854775808)), ptr(float32(1.5)), ptr(1e300), ptr("123456789012345678.123456"),
				ptr("snow \u2603 'q' \\"), ptr("varying"), []byte{0, 1, 254, 255}, ptr(time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)),
				ptr(time.Date(1999, 12, 31, 23, 59, 59, 999999000, time.UTC)), ptr(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)),
				ptr("80000000-0000-0000-0000-000000000001"), ptr(`{"a": [1, null]}`)}
			for k, row := range []all{want, {}} {
				id := 10*i + k
				if _, err := c.Exec(ctx, "INSERT INTO pgx_types VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16)", mode, id, row.B, row.I2, row.I4, row.I8, row.F4, row.F8,
					row.N, row.T, row.V, row.By, row.D, row.Ts, row.Tz, row.U, row.J); err != nil {
					return err
				}
				var got all
				if err := c.QueryRow(ctx, "SELECT b, i2, i4, i8, f4, f8, n::text, t, v, by, d, ts, tz, u::text, j::text FROM pgx_types WHERE id = $1", mode, id).Scan(&got.B, &got.I2, &got.I4,
					&got.I8, &got.F4, &got.F8, &got.N, &got.T, &got.V, &got.By, &got.D, &got.Ts, &got.Tz, &got.U, &got.J); err != nil {
					return err
				}
				if got.Tz != nil {
					got.Tz = ptr(got.Tz.UTC())
				}
				if err := eq(got, row); err != nil {
					return err
				}
			}
			return nil
		})
	}
	s.step("batch", func(ctx context.Context, c *pgx.Conn) error {
		var b pgx.Batch
		for i := range 200 {
			b.Queue("INSERT INTO pgx_rows VALUES ($1, $2, $3)", i, fmt.Sprint("row ", i), i)
		}
		var n int
		b.Queue("SELECT count(*) FROM pgx_rows").QueryRow(func(r pgx.Row) error { return r.Scan(&n) })
		return firstOf(c.SendBatch(ctx, &b).Close(), eq(n, 200))
	})
	s.step("pipeline with an error", func(ctx context.Context, c *pgx.Conn) error {
		var b pgx.Batch
		b.Queue("INSERT INTO pgx_rows VALUES (5000, 'five', 5)")
		b.Queue("SELECT 1/0")
		b.Queue("SELECT 1")
		var pg *pgconn.PgError
		if err := c.SendBatch(ctx, &b).Close(); !errors.As(err, &pg) || pg.Code != "22012" {
			return fmt.Errorf("%v", err)
		}
		var n int
		return firstOf(c.QueryRow(ctx, "SELECT count(*) FROM pgx_rows WHERE id = 5000").Scan(&n), eq(n, 0)) // a batch is one implicit transaction
	})
	s.step("errors by SQLSTATE", func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "SELECT * FROM no_such_table")
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Position != 15 || pg.Severity != "ERROR" {
			return fmt.Errorf("%+v", err)
		}
		return firstOf(state(ctx, c, "SELECT * FROM no_such_table", "42P01"), state(ctx, c, "SELEC 1", "42601"), state(ctx, c, "SELECT 1/0", "22012"),
			state(ctx, c, "INSERT INTO pgx_rows VALUES (1, 'other', 1)", "23505"), state(ctx, c, "INSERT INTO pgx_rows VALUES (6000, NULL, 1)", "23502"),
			state(ctx, c, "INSERT INTO pgx_rows VALUES (6000, 'x', -1)", "23514"), state(ctx, c, "SELECT no_such_function()", "42883"))
	})
	s.step("transactions and savepoints", func(ctx context.Context, c *pgx.Conn) error {
		if err := pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "INSERT INTO pgx_rows VALUES (3001, 'outer', 1)"); err != nil {
				return err
			}
			if err := pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
				_, err := inner.Exec(ctx, "INSERT INTO pgx_rows VALUES (3001, 'again', 1)")
				return err
			}); err == nil {
				return errors.New("no error")
			}
			_, err := tx.Exec(ctx, "INSERT INTO pgx_rows VALUES (3003, 'after', 1)")
			return err
		}); err != nil {
			return err
		}
		var n int
		return firstOf(c.QueryRow(ctx, "SELECT count(*) FROM pgx_rows WHERE id > 3000 AND id < 3010").Scan(&n), eq(n, 2))
	})
	s.step("copy in (binary) and out", func(ctx context.Context, c *pgx.Conn) error {
		n, err := c.CopyFrom(ctx, pgx.Identifier{"pgx_rows"}, []string{"id", "name", "n"}, pgx.CopyFromSlice(300, func(i int) ([]any, error) {
			return []any{10000 + i, fmt.Sprint("name ", i), i}, nil
		}))
		if err := firstOf(err, eq(n, int64(300))); err != nil {
			return err
		}
		var out bytes.Buffer
		tag, err := c.PgConn().CopyTo(ctx, &out, "COPY (SELECT id, name FROM pgx_rows WHERE id >= 10000 ORDER BY id) TO STDOUT")
		return firstOf(err, eq(tag.RowsAffected(), int64(300)), eq(strings.HasPrefix(out.String(), "10000\tname 0\n10001\tname 1\n"), true))
	})
	s.step("many rows", func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, "SELECT id FROM pgx_rows WHERE id >= 10000 ORDER BY id")
		if err != nil {
			return err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int])
		return firstOf(err, eq(len(ids), 300), eq(ids[0], 10000))
	})
	s.step("cancel", func(ctx context.Context, c *pgx.Conn) error {
		go func() {
			time.Sleep(300 * time.Millisecond)
			c.PgConn().CancelRequest(ctx)
		}()
		begin := time.Now()
		if err := state(ctx, c, "SELECT pg_sleep(20)", "57014"); err != nil {
			return err
		}
		var n int
		return firstOf(eq(time.Since(begin) < 10*time.Second, true), c.QueryRow(ctx, "SELECT 1").Scan(&n), eq(n, 1))
	})
	if s.failures > 0 {
		os.Exit(1)
	}
}
