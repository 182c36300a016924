package bank

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"

	"meridian/workload"
)

// Bank is the workload.
type Bank struct {
	Accounts int
	// Initial is each account's first balance.
	Initial int64
}

// New makes the default: a hundred accounts of a thousand.
func New() *Bank { return &Bank{Accounts: 100, Initial: 1000} }

// Name implements workload.Workload.
func (b *Bank) Name() string { return "bank" }

// About implements workload.Workload.
func (b *Bank) About() string {
	return "transfers between accounts; the total is verified while it runs"
}

// Init implements workload.Workload.
func (b *Bank) Init(ctx context.Context, conn *pgx.Conn) error {
	for _, q := range []string{
		"DROP TABLE IF EXISTS bank_accounts",
		"CREATE TABLE bank_accounts (id int PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0))",
		fmt.Sprintf("INSERT INTO bank_accounts SELECT g, %d FROM generate_series(1, %d) AS g", b.Initial, b.Accounts),
	} {
		if _, err := conn.Exec(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	return nil
}

// Worker implements workload.Workload.
func (b *Bank) Worker(_ context.Context, dice *rand.Rand) (workload.Step, error) {
	return func(ctx context.Context, conn *pgx.Conn) (string, error) {
		from := dice.IntN(b.Accounts) + 1
		to := dice.IntN(b.Accounts-1) + 1
		if to >= from {
			to++
		}
		amount := dice.Int64N(10) + 1
		return "transfer", workload.InTxn(ctx, conn, func(tx pgx.Tx) error {
			var have int64
			if err := tx.QueryRow(ctx, "SELECT balance FROM bank_accounts WHERE id = $1", from).Scan(&have); err != nil {
				return err
			}
			if have < amount {
				return nil
			}
			if _, err := tx.Exec(ctx, "UPDATE bank_accounts SET balance = balance - $1 WHERE id = $2", amount, from); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "UPDATE bank_accounts SET balance = balance + $1 WHERE id = $2", amount, to)
			return err
		})
	}, nil
}

// Check implements workload.Workload: the total.
func (b *Bank) Check(ctx context.Context, conn *pgx.Conn) error {
	var n, total int64
	if err := conn.QueryRow(ctx, "SELECT count(*), coalesce(sum(balance), 0)::bigint FROM bank_accounts").Scan(&n, &total); err != nil {
		return err
	}
	if want := b.Initial * n; n == 0 || total != want {
		return &workload.CheckError{Err: fmt.Errorf("%d accounts hold %d, not %d", n, total, want)}
	}
	return nil
}
