package opt

import (
	"fmt"
	"math"
	"strings"
)

// commutes describes the columns that an UPDATE adds to.
func (u *Update) commutes() string {
	var parts []string
	for _, c := range u.Commutes {
		s := u.Table.Columns[c.Ordinal].Name
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
