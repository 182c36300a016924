// Command libpq walks through the basics of lib/pq, by database/sql, against a server: go run ./test/drivers/libpq URL
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/lib/pq"
)

// steps runs a program's steps one after the other and counts those that fail.
type steps struct {
	db       *sql.DB
	failures int
}

func (s *steps) step(name string, f func(ctx context.Context, db *sql.DB) error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := f(ctx, s.db); err != nil {
		s.failures++
		fmt.Println("  FAIL", name, "-", strings.ReplaceAll(err.Error(), "\n", " | "))
		return
	}
	fmt.Println("  ok  ", name)
}

func state(ctx context.Context, db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, q, want string, args ...any) error {
	_, err := db.ExecContext(ctx, q, args...)
	var p *pq.Error
	if !errors.As(err, &p) || string(p.Code) != want {
		return fmt.Errorf("%s: %v, not %s", q, err, want)
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

func main() {
	db, err := sql.Open("postgres", os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	defer db.Close()
	s := steps{db: db}
	s.step("connect", func(ctx context.Context, db *sql.DB) error { return db.PingContext(ctx) })
	s.step("create tables", func(ctx context.Context, db *sql.DB) error {
		for _, q := range []string{"DROP TABLE IF EXISTS libpq_types", "DROP TABLE IF EXISTS libpq_rows",
			`CREATE TABLE libpq_types (id int PRIMARY KEY, b bool, i8 int8, f8 float8, n numeric(30,6), t text, c char(5), by bytea, tz timestamptz, d date, u uuid, j jsonb)`,
			`CREATE TABLE libpq_rows (id int PRIMARY KEY, name text NOT NULL UNIQUE, n int CHECK (n >= 0))`} {
			if _, err := db.ExecContext(ctx, q); err != nil {
				return fmt.Errorf("%s: %w", q, err)
			}
		}
		return nil
	})
	s.step("types there and back", func(ctx context.Context, db *sql.DB) error {
		at := time.Date(2026, 7, 1, 12, 0, 0, 123456000, time.UTC)
		if _, err := db.ExecContext(ctx, "INSERT INTO libpq_types VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12)", 1, true, int64(-9223372036854775808), 1e300, "123456789012345678.123456",
			"snow \u2603 'q' \\", "abc", []byte{0, 1, 254, 255}, at, "2024-02-29", "80000000-0000-0000-0000-000000000001", `{"a": [1, null]}`); err != nil {
			return err
		}
		var b bool
		var i8 int64
		var f8 float64
		var n, t, c, u, j string
		var by []byte
		var tz, d time.Time
		if err := db.QueryRowContext(ctx, "SELECT b, i8, f8, n, t, c, by, tz, d, u, j FROM libpq_types WHERE id = $1", 1).Scan(&b, &i8, &f8, &n, &t, &c, &by, &tz, &d, &u, &j); err != nil {
			return err
		}
		return firstOf(eq(b, true), eq(i8, int64(-9223372036854775808)), eq(f8, 1e300), eq(n, "123456789012345678.123456"), eq(t, "snow \u2603 'q' \\"), eq(c, "abc  "),
			eq(by, []byte{0, 1, 254, 255}), eq(tz.UTC(), at), eq(d.Format(time.DateOnly), "2024-02-29"), eq(u, "80000000-0000-0000-0000-000000000001"), eq(j, `{"a": [1, null]}`))
	})
	s.step("nulls", func(ctx context.Context, db *sql.DB) error {
		if _, err := db.ExecContext(ctx, "INSERT INTO libpq_types (id, t, i8) VALUES ($1, $2, $3)", 2, nil, nil); err != nil {
			return err
		}
		var t sql.NullString
		var i sql.NullInt64
		err := db.QueryRowContext(ctx, "SELECT t, i8 FROM libpq_types WHERE id = 2").Scan(&t, &i)
		return firstOf(err, eq(t.Valid || i.Valid, false))
	})
	s.step("prepared statements", func(ctx context.Context, db *sql.DB) error {
		s, err := db.PrepareContext(ctx, "INSERT INTO libpq_rows VALUES ($1, $2, $3)")
		if err != nil {
			return err
		}
		defer s.Close()
		for i := range 100 {
			if _, err := s.ExecContext(ctx, i, fmt.Sprint("row ", i), i); err != nil {
				return err
			}
		}
		var n int
		return firstOf(db.QueryRowContext(ctx, "SELECT count(*) FROM libpq_rows").Scan(&n), eq(n, 100))
	})
	s.step("rows affected and returning", func(ctx context.Context, db *sql.DB) error {
		r, err := db.ExecContext(ctx, "UPDATE libpq_rows SET n = n + 1 WHERE id < $1", 10)
		if err != nil {
			return err
		}
		n, err := r.RowsAffected()
		var id int
		return firstOf(err, eq(n, int64(10)), db.QueryRowContext(ctx, "INSERT INTO libpq_rows VALUES (1000, 'k', 1) RETURNING id").Scan(&id), eq(id, 1000))
	})
	s.step("errors by SQLSTATE", func(ctx context.Context, db *sql.DB) error {
		return firstOf(state(ctx, db, "SELECT * FROM no_such_table", "42P01"), state(ctx, db, "SELEC 1", "42601"), state(ctx, db, "SELECT 1/$1::int", "22012", 0),
			state(ctx, db, "SELECT $1::int", "22P02", "x"), state(ctx, db, "INSERT INTO libpq_rows VALUES (1, 'other', 1)", "23505"),
			state(ctx, db, "INSERT INTO libpq_rows VALUES ($1, NULL, 1)", "23502", 5000), state(ctx, db, "INSERT INTO libpq_rows VALUES ($1, 'x', -1)", "23514", 5000))
	})
	s.step("transactions and savepoints", func(ctx context.Context, db *sql.DB) error {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
		if err != nil {
			return err
		}
		defer tx.Rollback()
		exec := func(q string) error { _, err := tx.ExecContext(ctx, q); return err }
		if err := firstOf(exec("INSERT INTO libpq_rows VALUES (3001, 'outer', 1)"), exec("SAVEPOINT s"),
			state(ctx, tx, "INSERT INTO libpq_rows VALUES (3001, 'again', 1)", "23505")); err != nil {
			return err
		}
		if err := firstOf(state(ctx, tx, "SELECT 1", "25P02"), exec("ROLLBACK TO SAVEPOINT s"), exec("INSERT INTO libpq_rows VALUES (3003, 'after', 1)"), tx.Commit()); err != nil {
			return err
		}
		var n int
		return firstOf(db.QueryRowContext(ctx, "SELECT count(*) FROM libpq_rows WHERE id > 3000").Scan(&n), eq(n, 2))
	})
	s.step("read-only transaction", func(ctx context.Context, db *sql.DB) error {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return err
		}
		defer tx.Rollback()
		return state(ctx, tx, "INSERT INTO libpq_rows VALUES (4000, 'x', 1)", "25006")
	})
	s.step("copy in", func(ctx context.Context, db *sql.DB) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		s, err := tx.PrepareContext(ctx, "COPY libpq_rows (id, name, n) FROM STDIN")
		if err != nil {
			return err
		}
		for i := range 300 {
			if _, err := s.ExecContext(ctx, 10000+i, fmt.Sprint("tab\t", i), i); err != nil {
				return err
			}
		}
		if _, err := s.ExecContext(ctx); err != nil {
			return err
		}
		if err := firstOf(s.Close(), tx.Commit()); err != nil {
			return err
		}
		var n int
		return firstOf(db.QueryRowContext(ctx, "SELECT count(*) FROM libpq_rows WHERE id >= 10000").Scan(&n), eq(n, 300))
	})
	s.step("cancel by context", func(ctx context.Context, db *sql.DB) error {
		limit, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		defer cancel()
		begin := time.Now()
		if _, err := db.ExecContext(limit, "SELECT pg_sleep(20)"); err == nil {
			return errors.New("not cancelled")
		}
		return firstOf(eq(time.Since(begin) < 10*time.Second, true), db.PingContext(ctx))
	})
	if s.failures > 0 {
		os.Exit(1)
	}
}
