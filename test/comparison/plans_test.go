package comparison

import (
	"cmp"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"meridian/sql/sqlstate"
)

const (
	// queriesFirst is how many rounds TestQueries runs by default: they take some ten seconds.
	queriesFirst = 3
	// queriesOfSchema is the number of queries over a schema, schemasOfRound the number of schemas in a round.
	queriesOfSchema, schemasOfRound = 60, 5
)

// TestQueries runs random queries over random tables: joins of all kinds, subqueries in all places, groups, windows, set operations.
// MERIDIAN_QUERIES=20m goes on for so long; MERIDIAN_SEED=k begins at another round.
func TestQueries(t *testing.T) {
	pg := startPostgres(t)
	round, end := 1, time.Time{}
	if s := os.Getenv("MERIDIAN_SEED"); s != "" {
		var err error
		if round, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	if s := os.Getenv("MERIDIAN_QUERIES"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
		end = time.Now().Add(d)
	}
	type found struct {
		round, schema, count int
		text                 string
	}
	groups := map[string]found{}
	asked, alike, failed := 0, 0, map[string]int{}
	for first := round; round < first+queriesFirst && end.IsZero() || time.Now().Before(end); round++ {
		var cases []Case
		var ordered [][]bool
		var made []int
		for i := range schemasOfRound {
			q := &queries{r: rand.New(rand.NewPCG(uint64(round), uint64(i)))}
			c := Case{Schema: true, Statements: q.schema()}
			made = append(made, len(c.Statements))
			kept := make([]bool, len(c.Statements), len(c.Statements)+queriesOfSchema)
			for range queriesOfSchema {
				s, o := q.query()
				c.Statements, kept = append(c.Statements, s), append(kept, o)
			}
			cases, ordered = append(cases, c), append(ordered, kept)
		}
		var want [][]answer
		for _, c := range cases {
			a, err := ask(t.Context(), pg, c, true)
			if err != nil {
				t.Fatalf("PostgreSQL: %v", err)
			}
			want = append(want, a)
		}
		got := askMeridian(t, "round"+strconv.Itoa(round), cases)
		for i, c := range cases {
			if i >= len(got) || got[i] == nil {
				continue
			}
			for j, s := range c.Statements {
				w, g := want[i][j], got[i][j]
				if !ordered[i][j] {
					w.rows, g.rows = sortedRows(w.rows), sortedRows(g.rows)
				}
				if j >= made[i] {
					asked++
					if w.code != "" {
						failed[w.code]++
					}
				}
				if w.code == string(sqlstate.QueryCanceled) {
					continue
				}
				how := compare(w, g)
				if how == "" || how == "words" {
					alike++
					continue
				}
				key := how
				if how == "rows" || how == "columns" {
					key += " round " + strconv.Itoa(round) + " " + strconv.Itoa(i)
				} else {
					key += cmp.Or(g.message, w.message)
				}
				f, ok := groups[key]
				if !ok || len(s) < len(f.text) {
					made := strings.Join(c.Statements[:made[i]], ";\n    ")
					if len(made) > 4000 {
						made = made[:4000]
					}
					f = found{round, i, f.count, s + "\n  PostgreSQL " + cut(w.String()) + "\n  Meridian   " + cut(g.String()) + "\n    " + made}
				}
				f.count++
				groups[key] = f
			}
		}
	}
	for _, k := range sortedKeys(groups) {
		f := groups[k]
		t.Errorf("round %d schema %d: %s (%d times)\n    %s", f.round, f.schema, k, f.count, f.text)
	}
	t.Logf("%d queries, %d statements answered alike; refused by PostgreSQL: %v", asked, alike, failed)
}

// cut is the beginning of an answer.
func cut(s string) string { return s[:min(len(s), 1000)] }

// sortedRows are an answer's rows in sorted order.
func sortedRows(rows string) string {
	all := strings.Split(strings.TrimSuffix(strings.TrimPrefix(rows, "["), "]"), "; ")
	slices.Sort(all)
	return "[" + strings.Join(all, "; ") + "]"
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
