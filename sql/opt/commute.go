package opt

import (
	"fmt"
	"math"
	"strings"

	"meridian/sql/catalog"
)

// commuting describes the columns that a statement adds to.
func commuting(t *catalog.Table, list []Commuting) string {
	var parts []string
	for _, c := range list {
		s := t.Columns[c.Ordinal].Name
		if c.Min > math.MinInt64 {
			s = fmt.Sprintf("%d <= %s", c.Min, s)
		}
		if c.Max < math.MaxInt64 {
			s = fmt.Sprintf("%s <= %d", s, c.Max)
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ", ")
}
