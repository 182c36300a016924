package opttest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestEstimates: estimates of random conditions by statistics with histograms, compared with counts. The error is the quotient of the two, with
// numbers below ten taken as ten: a plan for no row and one for ten are the same.
func TestEstimates(t *testing.T) {
	d := newDB(t)
	d.must("CREATE TABLE t (a INT8 PRIMARY KEY, few INT8, skewed INT8, word TEXT, f FLOAT8)")
	d.must(`INSERT INTO t SELECT g, (g::INT8 * 7919) % 13, CASE WHEN g % 11 = 0 THEN NULL ELSE (g::INT8 * 104729 % 1000) * (g::INT8 * 15485863 % 1000) / 1000 END,
		substr('abcdefghijklmnopqrstuvwxyz', 1 + g * 31 % 20, 3) || g % 10, (g::INT8 * 7907 % 2000)::FLOAT8 / 3 - 200 FROM generate_series(1, 3000) g`)
	d.analyze("t")
	r := rand.New(rand.NewPCG(3, 5))
	one := func() string {
		switch r.IntN(9) {
		case 0:
			return fmt.Sprintf("few = %d", r.IntN(13))
		case 1:
			return fmt.Sprintf("few IN (%d, %d, %d)", r.IntN(13), r.IntN(13), r.IntN(13))
		case 2:
			return fmt.Sprintf("few <> %d", r.IntN(13))
		case 3:
			return fmt.Sprintf("skewed < %d", r.IntN(1000))
		case 4:
			x := r.IntN(1000)
			return fmt.Sprintf("skewed BETWEEN %d AND %d", x, x+r.IntN(200))
		case 5:
			return fmt.Sprintf("f >= %d", r.IntN(700)-220)
		case 6:
			x := r.IntN(700) - 220
			return fmt.Sprintf("f > %d AND f <= %d", x, x+r.IntN(100))
		case 7:
			return fmt.Sprintf("word LIKE '%c%%'", 'a'+rune(r.IntN(22)))
		}
		return fmt.Sprintf("a > %d", r.IntN(3000))
	}
	var errors []float64
	for range 400 {
		where := one()
		if r.IntN(4) == 0 {
			where = "(" + where + ") OR (" + one() + ")"
		}
		p, err := d.plan("SELECT a FROM t WHERE " + where)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := d.execute(p)
		if err != nil {
			t.Fatal(err)
		}
		est, actual := max(p.Root.Estimate().Rows, 10), max(float64(len(rows)), 10)
		q := max(est/actual, actual/est)
		errors = append(errors, q)
		if q > 4 {
			t.Errorf("%s: estimated %.0f rows, there are %d", where, p.Root.Estimate().Rows, len(rows))
		}
	}
	slices.Sort(errors)
	t.Logf("quotients of estimates and counts: median %.2f, 90 of 100 %.2f, worst %.2f", errors[200], errors[360], errors[399])
	if errors[200] > 1.2 || errors[360] > 2 {
		t.Errorf("median %.2f, 90 of 100 %.2f", errors[200], errors[360])
	}
}
