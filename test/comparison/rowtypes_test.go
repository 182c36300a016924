package comparison

import (
	"regexp"
	"strconv"
)

// rowTypes: the types that tables and views give to their rows.
var rowTypes = Generator{Name: "rowtypes", Fixed: unordered(Positioned("rowtypes"))}

var typeOID = regexp.MustCompile(`:\d{5,}:`)

// ownTypes replaces the OIDs of types that statements have made: they are numbers of each server's own.
func ownTypes(columns string) string {
	return typeOID.ReplaceAllStringFunc(columns, func(s string) string {
		if n, err := strconv.ParseUint(s[1:len(s)-1], 10, 32); err == nil && n >= 16384 {
			return ":own:"
		}
		return s
	})
}
