package parse

import (
	"errors"
	"strings"
	"testing"

	"meridian/sql/sqlstate"
)

// TestLongNumbers: a number that no type holds is refused before the grammar reads it, which takes time with the square of its length; digits that are
// no number are left alone.
func TestLongNumbers(t *testing.T) {
	var p Parser
	digits := strings.Repeat("9", 1_000_000)
	for _, sql := range []string{"select " + digits, "select 0." + digits, "select 1, " + digits + "::numeric > 0"} {
		_, err := p.Parse(sql)
		var e *sqlstate.Error
		if !errors.As(err, &e) || e.Code != sqlstate.NumericOutOfRange || e.Position == 0 {
			t.Errorf("%.20s...: %v; want 22003 with a position", sql, err)
		}
	}
	for _, sql := range []string{"select '" + digits + "'", "select 1 -- " + digits, "select " + digits[:131072]} {
		if _, err := p.Parse(sql); err != nil {
			t.Errorf("%.20s...: %v", sql, err)
		}
	}
}
