package ycsb

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"meridian/workload"
)

// mix is the share of each operation, in percent.
type mix struct{ read, update, insert, scan, modify int }

// mixNamed is A to F; false for all others.
func mixNamed(name string) (mix, bool) {
	switch strings.ToUpper(name) {
	case "A":
		return mix{read: 50, update: 50}, true
	case "B":
		return mix{read: 95, update: 5}, true
	case "C":
		return mix{read: 100}, true
	case "D":
		return mix{read: 95, insert: 5}, true
	case "E":
		return mix{scan: 95, insert: 5}, true
	case "F":
		return mix{read: 50, modify: 50}, true
	}
	return mix{}, false
}

const (
	fields     = 10
	fieldBytes = 100
	theta      = 0.99 // YCSB's constant of the Zipfian distribution
	maxScan    = 100
)

// YCSB is the workload.
type YCSB struct {
	// Mix is A to F.
	Mix     string
	Records int64
	next    atomic.Int64
}

// New makes workload B over ten thousand records.
func New() *YCSB { return &YCSB{Mix: "B", Records: 10_000} }

// Name implements workload.Workload.
func (y *YCSB) Name() string { return "ycsb" }

// About implements workload.Workload.
func (y *YCSB) About() string {
	return "YCSB's mixes A to F over one table, with a Zipfian choice of keys"
}

// Init implements workload.Workload.
func (y *YCSB) Init(ctx context.Context, conn *pgx.Conn) error {
	var cols []string
	for i := range fields {
		cols = append(cols, fmt.Sprintf("field%d text", i))
	}
	for _, q := range []string{
		"DROP TABLE IF EXISTS usertable",
		"CREATE TABLE usertable (ycsb_key text PRIMARY KEY, " + strings.Join(cols, ", ") + ")",
	} {
		if _, err := conn.Exec(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	names := []string{"ycsb_key"}
	for i := range fields {
		names = append(names, fmt.Sprintf("field%d", i))
	}
	dice := rand.New(rand.NewPCG(1, 1))
	i := int64(0)
	_, err := conn.CopyFrom(ctx, pgx.Identifier{"usertable"}, names, pgx.CopyFromFunc(func() ([]any, error) {
		if i >= y.Records {
			return nil, nil
		}
		row := []any{key(i)}
		for range fields {
			row = append(row, text(dice))
		}
		i++
		return row, nil
	}))
	return err
}

// key spreads consecutive numbers over the keyspace, as YCSB does.
func key(n int64) string {
	h := uint64(n)*0x9E3779B97F4A7C15 ^ 0xD1B54A32D192ED03
	h ^= h >> 29
	return fmt.Sprintf("user%020d", h)
}

func text(dice *rand.Rand) string {
	b := make([]byte, fieldBytes)
	for i := range b {
		b[i] = byte('a' + dice.IntN(26))
	}
	return string(b)
}

// Zipf draws ranks below n with Gray's method, as YCSB does; math/rand's needs a constant above one.
type Zipf struct {
	n                 int64
	alpha, zetaN, eta float64
	half              float64
	dice              *rand.Rand
}

// NewZipf makes a generator for n ranks with YCSB's constant.
func NewZipf(n int64, dice *rand.Rand) *Zipf {
	zeta := func(n int64) (sum float64) {
		for i := int64(1); i <= n; i++ {
			sum += 1 / math.Pow(float64(i), theta)
		}
		return sum
	}
	z := &Zipf{n: n, alpha: 1 / (1 - theta), zetaN: zeta(n), half: 1 + math.Pow(0.5, theta), dice: dice}
	z.eta = (1 - math.Pow(2/float64(n), 1-theta)) / (1 - zeta(2)/z.zetaN)
	return z
}

// Next draws a rank; the smaller, the more often.
func (z *Zipf) Next() int64 {
	u := z.dice.Float64()
	uz := u * z.zetaN
	switch {
	case uz < 1:
		return 0
	case uz < z.half:
		return 1
	}
	return min(int64(float64(z.n)*math.Pow(z.eta*u-z.eta+1, z.alpha)), z.n-1)
}

// Worker implements workload.Workload.
func (y *YCSB) Worker(_ context.Context, dice *rand.Rand) (workload.Step, error) {
	m, ok := mixNamed(y.Mix)
	if !ok {
		return nil, fmt.Errorf("ycsb: no mix %q; there are A to F", y.Mix)
	}
	y.next.CompareAndSwap(0, y.Records)
	z := NewZipf(y.Records, dice)
	return func(ctx context.Context, conn *pgx.Conn) (string, error) {
		pick := dice.IntN(100)
		k := key(z.Next())
		if strings.EqualFold(y.Mix, "D") {
			k = key(max(y.next.Load()-1-z.Next(), 0)) // the latest records
		}
		field := fmt.Sprintf("field%d", dice.IntN(fields))
		switch {
		case pick < m.read:
			return "read", drain(conn.Query(ctx, "SELECT * FROM usertable WHERE ycsb_key = $1", k))
		case pick < m.read+m.update:
			_, err := conn.Exec(ctx, "UPDATE usertable SET "+field+" = $1 WHERE ycsb_key = $2", text(dice), k)
			return "update", err
		case pick < m.read+m.update+m.insert:
			_, err := conn.Exec(ctx, "INSERT INTO usertable (ycsb_key, field0) VALUES ($1, $2) ON CONFLICT (ycsb_key) DO NOTHING",
				key(y.next.Add(1)), text(dice))
			return "insert", err
		case pick < m.read+m.update+m.insert+m.scan:
			return "scan", drain(conn.Query(ctx, "SELECT * FROM usertable WHERE ycsb_key >= $1 ORDER BY ycsb_key LIMIT $2",
				k, dice.IntN(maxScan)+1))
		}
		return "modify", workload.InTxn(ctx, conn, func(tx pgx.Tx) error {
			if err := drain(tx.Query(ctx, "SELECT * FROM usertable WHERE ycsb_key = $1", k)); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "UPDATE usertable SET "+field+" = $1 WHERE ycsb_key = $2", text(dice), k)
			return err
		})
	}, nil
}

func drain(rows pgx.Rows, err error) error {
	if err != nil {
		return err
	}
	for rows.Next() {
	}
	return rows.Err()
}

// Check implements workload.Workload: no record was lost.
func (y *YCSB) Check(ctx context.Context, conn *pgx.Conn) error {
	var n int64
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM usertable").Scan(&n); err != nil {
		return err
	}
	if n < y.Records {
		return &workload.CheckError{Err: fmt.Errorf("%d of %d records are there", n, y.Records)}
	}
	return nil
}
