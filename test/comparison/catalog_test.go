package comparison

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// catalogues is about the catalogue's account of definitions: generated names, operator classes.
var catalogues = Generator{Name: "catalog", Fixed: File("catalog"), Generate: namesCase, Always: 20, PerRound: 200}

// namesCase is a table and indexes without names of their own, whose parts have any length.
func namesCase(r *rand.Rand) Case {
	name := func(first string) string {
		letter := []string{"a", "é", "日"}[r.IntN(3)]
		return `"` + first + strings.Repeat(letter, r.IntN(62/len(letter))) + `"`
	}
	table := name("t")
	columns := []string{name("x"), name("y"), name("z")}
	some := func() string {
		var list []string
		for _, i := range r.Perm(3)[:1+r.IntN(3)] {
			list = append(list, columns[i])
		}
		return strings.Join(list, ", ")
	}
	c := Case{Group: "names", Schema: true}
	c.Statements = append(c.Statements, fmt.Sprintf("CREATE TABLE %s (%s int PRIMARY KEY, %s serial CHECK (%s > 0), %s int REFERENCES %s)",
		table, columns[0], columns[1], columns[1], columns[2], table))
	for range 1 + r.IntN(3) {
		c.Statements = append(c.Statements, fmt.Sprintf("ALTER TABLE %s ADD UNIQUE (%s)", table, some()))
		c.Statements = append(c.Statements, fmt.Sprintf("CREATE INDEX ON %s (%s) INCLUDE (%s)", table, some(), some()))
	}
	c.Statements = append(c.Statements, fmt.Sprintf("ALTER TABLE %s ADD FOREIGN KEY (%s) REFERENCES %s", table, columns[2], table),
		"SELECT conname, contype FROM pg_constraint WHERE connamespace = current_schema()::regnamespace ORDER BY conname COLLATE \"C\"",
		"SELECT relname, relkind FROM pg_class WHERE relnamespace = current_schema()::regnamespace ORDER BY relname COLLATE \"C\"")
	return c
}
