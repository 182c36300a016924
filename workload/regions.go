package workload

import "github.com/jackc/pgx/v5"

// DatabaseRegions returns the statements that give a database its regions, one for each; the first is the primary one.
func DatabaseRegions(database string, regions []string) (out []string) {
	quote := func(name string) string { return pgx.Identifier{name}.Sanitize() }
	for i, r := range regions {
		verb := "ADD REGION "
		if i == 0 {
			verb = "SET PRIMARY REGION "
		}
		out = append(out, "ALTER DATABASE "+quote(database)+" "+verb+quote(r))
	}
	return out
}
