package comparison

import (
	"os"
	"strings"
	"testing"
)

// recorded is the file of cases with PostgreSQL 15's answers: the fixed ones, and a part of the first round.
const recorded = "testdata/recorded.txt"

// Words of a case's heading in the file.
const (
	inSchema = "-- in a schema of its own"
	anyOrder = "-- in any order"
	placed   = "-- with the positions of errors"
)

// record writes cases and answers: each statement on a line, its answer on the next one after a tab, a blank line after a case.
func record(t *testing.T, cases []Case, answers [][]answer) {
	var b strings.Builder
	b.WriteString("-- What PostgreSQL 15 answered. Made by: MERIDIAN_RECORD=1 go test ./test/comparison -run TestRecorded\n\n")
	for i, c := range cases {
		if c.Schema {
			b.WriteString(inSchema + "\n")
		}
		if c.Unordered {
			b.WriteString(anyOrder + "\n")
		}
		if c.Positions {
			b.WriteString(placed + "\n")
		}
		for j, s := range c.Statements {
			b.WriteString(s + "\n\t" + line(answers[i][j]) + "\n")
		}
		b.WriteString("\n")
	}
	if err := os.WriteFile(recorded, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// line is an answer on one line.
func line(a answer) string {
	return strings.NewReplacer("\n", `\n`, "\r", `\r`).Replace(a.String())
}

// replay reads what record wrote.
func replay(t *testing.T) (cases []Case, answers [][]string) {
	text, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	var c Case
	var as []string
	for l := range strings.SplitSeq(string(text), "\n") {
		switch {
		case l == inSchema:
			c.Schema = true
		case l == anyOrder:
			c.Unordered = true
		case l == placed:
			c.Positions = true
		case strings.HasPrefix(l, "-- What"):
		case strings.HasPrefix(l, "\t"):
			as = append(as, l[1:])
		case l != "":
			c.Statements = append(c.Statements, l)
		case len(c.Statements) > 0:
			if len(as) != len(c.Statements) {
				t.Fatalf("%d answers to %q", len(as), c.Statements)
			}
			cases, answers = append(cases, c), append(answers, as)
			c, as = Case{}, nil
		}
	}
	return cases, answers
}

// parsed is an answer in the form that known takes.
func parsed(l string) answer {
	if rest, ok := strings.CutPrefix(l, "ERROR "); ok {
		code, message, _ := strings.Cut(rest, " ")
		return answer{code: code, message: message}
	}
	return answer{rows: l}
}

// TestRecorded compares with recorded answers, also where PostgreSQL is not installed. MERIDIAN_RECORD=1 records them anew.
func TestRecorded(t *testing.T) {
	if os.Getenv("MERIDIAN_RECORD") != "" {
		pg := startPostgres(t)
		var cases []Case
		for _, g := range prepare(t, pg) {
			for _, c := range g.Fixed {
				if !strings.Contains(strings.Join(c.Statements, ""), "\n") {
					cases = append(cases, c)
				}
			}
			if g.Generate == nil {
				continue
			}
			n := perRecord
			if g.PerRound > 0 {
				n = g.Always
			}
			r := g.dice(1)
			for range n {
				cases = append(cases, g.Generate(r))
			}
		}
		record(t, cases, askPostgres(t, pg, cases))
	}
	cases, want := replay(t)
	got := askMeridian(t, "recorded", cases)
	stay, asked := map[string]int{}, 0
	for i, c := range cases {
		if i >= len(got) || got[i] == nil {
			continue
		}
		for j, s := range c.Statements {
			asked++
			if ownTypes(line(got[i][j])) == ownTypes(want[i][j]) {
				continue
			}
			if reason := known(c, j, parsed(want[i][j]), got[i][j]); reason != "" {
				stay[reason]++
				break
			}
			t.Errorf("%s\n  PostgreSQL %s\n  Meridian   %s", s, want[i][j], line(got[i][j]))
		}
	}
	t.Logf("%d statements, departures: %v", asked, stay)
}
