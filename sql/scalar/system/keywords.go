package system

import (
	_ "embed"
	"strings"

	"meridian/sql/types"
)

// keywords are PostgreSQL 15's key words: the word, its category, and whether it can be a bare label.
//
//go:embed keywords.txt
var keywords string

// keywordRows is pg_get_keywords.
func keywordRows() (rows []types.Row) {
	category := map[string]string{"U": "unreserved", "C": "unreserved (cannot be function or type name)", "T": "reserved (can be function or type name)", "R": "reserved"}
	label := map[string]string{"t": "can be bare label", "f": "requires AS"}
	for _, line := range strings.Split(strings.TrimSpace(keywords), "\n") {
		f := strings.Fields(line)
		rows = append(rows, types.Row{types.NewString(f[0]), types.NewString(f[1]), types.NewBool(f[2] == "t"), types.NewString(category[f[1]]), types.NewString(label[f[2]])})
	}
	return rows
}
