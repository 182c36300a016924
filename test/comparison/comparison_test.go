package comparison

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"meridian/bench/postgres"
	"meridian/sim/simcluster"
)

// Case is statements that one session sends one after the other.
type Case struct {
	// Group gathers differences that have one cause, as far as the generator can tell; empty: by the first statement.
	Group      string
	Statements []string
	// Schema gives the case an empty schema, the only one on its search_path.
	Schema bool
	// Unordered: the rows may come in any order.
	Unordered bool
	// Positions: errors are compared with their hint and position, too.
	Positions bool
}

// Generator makes cases on one subject.
type Generator struct {
	Name string
	// Prepare, if not nil, reads from PostgreSQL what the generator needs.
	Prepare func(t *testing.T, pg *pgconn.PgConn) func(r *rand.Rand) Case
	// Generate, if not nil, makes a case.
	Generate func(r *rand.Rand) Case
	Fixed    []Case
	// Always is how many cases of the first round are run even if no time is given for more.
	Always int
	// PerRound is how many cases a round has; zero is perRound.
	PerRound int
}

// generators are all of them: add yours here.
var generators = []Generator{
	literals, jsonForms, arrayForms, timeForms, charForms, numberForms, functions, operators, casts, temporaryTables, enums, networks, foreignKeys, texts,
	sequences, definitions, parsing, changes, recursion, wholeRows, dates, numberTemplates, patterns, answers, encodings,
	positions, qualified, clauses, sessionStates, rights, catalogues, rowTypes, objectIDs, frames, constants, keyOrders, layouts, forms, written, drops,
}

// seed keeps a generator's cases independent of the other generators that run.
func (g *Generator) seed() uint64 {
	h := fnv.New64a()
	h.Write([]byte(g.Name))
	return h.Sum64()
}

// perRound is how many cases a generator makes in a round, and roundsAlways how many rounds each run of the tests makes: some 20 s
// of CPU in all. perRecord is how many of them testdata/recorded.txt has of each generator.
const (
	perRound     = 2000
	roundsAlways = 6
	perRecord    = 1000
)

// lasting is how long cases are made beyond the rounds that are always asked.
func lasting(t *testing.T) time.Duration {
	s := os.Getenv("MERIDIAN_COMPARE")
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// startPostgres starts a server, or skips the test where there is none.
func startPostgres(t *testing.T) *pgconn.PgConn {
	t.Helper()
	return postgresSessions(t, 1)[0]
}

// postgresSessions is startPostgres for several sessions.
func postgresSessions(t *testing.T, n int) (conns []*pgconn.PgConn) {
	t.Helper()
	bin := cmp.Or(os.Getenv("PGBIN"), postgres.DefaultBin)
	if _, err := os.Stat(filepath.Join(bin, "initdb")); err != nil {
		t.Skipf("NOT COMPARED, because PostgreSQL 15 is not installed: %v (PGBIN names its folder). TestRecorded compares with recorded answers only.", err)
	}
	dir, err := os.MkdirTemp("", "comparison")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	limit, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	g, err := postgres.Start(limit, bin, dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	conn, err := pgconn.Connect(limit, g[0].URL())
	if err != nil {
		t.Fatal(err)
	}
	// Case conversion is that of Unicode in Meridian; the server's own databases have the locale C.
	url := g[0].URL()
	if _, err := conn.Exec(limit, "CREATE DATABASE compared TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'").ReadAll(); err != nil {
		t.Fatal(err)
	}
	conn.Close(limit)
	conf, err := pgconn.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	conf.Database = "compared"
	for range n {
		conn, err := pgconn.ConnectConfig(limit, conf)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(context.Background()) })
		conns = append(conns, conn)
	}
	return conns
}

// answer is a server's answer to one statement.
type answer struct {
	columns, rows, tag string
	code, message      string
}

func (a answer) String() string {
	if a.code != "" {
		return "ERROR " + a.code + " " + a.message
	}
	return a.columns + " " + a.rows + " " + a.tag
}

func text(values [][]byte) string {
	var b strings.Builder
	for i, v := range values {
		if i > 0 {
			b.WriteString(" | ")
		}
		if v == nil {
			b.WriteString("NULL")
		} else {
			b.WriteString(strings.ReplaceAll(string(v), "\n", `\n`))
		}
	}
	return b.String()
}

// ask runs a case in a session that is fresh as far as settings, transactions and tables go; afterAny says that the case before may have
// left some.
func ask(ctx context.Context, conn *pgconn.PgConn, c Case, afterAny bool) ([]answer, error) {
	begin := "ROLLBACK; RESET ALL; SET client_min_messages = error; SET timezone = 'UTC'"
	if c.Schema {
		begin += "; DISCARD TEMP; DROP SCHEMA IF EXISTS scratch CASCADE; CREATE SCHEMA scratch; SET search_path = scratch"
	}
	if !c.Schema {
		begin += "; DISCARD TEMP; DROP SCHEMA IF EXISTS scratch CASCADE"
	}
	if c.Schema || len(c.Statements) > 1 || afterAny {
		if _, err := conn.Exec(ctx, begin).ReadAll(); err != nil {
			return nil, err
		}
	}
	var out []answer
	for _, s := range c.Statements {
		results, err := conn.Exec(ctx, s).ReadAll()
		a := answer{}
		for _, r := range results {
			for _, f := range r.FieldDescriptions {
				a.columns += fmt.Sprintf("%s:%d:%d ", f.Name, f.DataTypeOID, f.TypeModifier)
			}
			rows := make([]string, len(r.Rows))
			for i, v := range r.Rows {
				rows[i] = text(v)
			}
			if c.Unordered {
				slices.Sort(rows)
			}
			a.rows += "[" + strings.Join(rows, "; ") + "]"
			a.tag += r.CommandTag.String()
		}
		if err != nil {
			pe, ok := err.(*pgconn.PgError)
			if !ok {
				return nil, fmt.Errorf("%s: %w", s, err)
			}
			a.code, a.message = pe.Code, pe.Message
			if pe.Detail != "" {
				a.message += " DETAIL: " + pe.Detail
			}
			if c.Positions {
				if pe.Hint != "" {
					a.message += " HINT: " + pe.Hint
				}
				a.message += " AT " + strconv.Itoa(int(pe.Position))
			}
		}
		out = append(out, a)
	}
	return out, nil
}

// leaves reports whether a case may leave something behind for the next one.
func leaves(c Case) bool { return c.Schema || len(c.Statements) > 1 }

// difference is a case that two servers answer differently, from its statement number at.
type difference struct {
	c          Case
	at         int
	want, got  answer
	kind       string
	generator  string
	round, len int
}

// compare describes the difference of two answers; empty: none.
func compare(want, got answer) string {
	switch {
	case want.code != got.code && got.code == "":
		return "is accepted, want " + want.code
	case want.code != got.code:
		return "fails with " + got.code
	case want.code != "" && want.message != got.message:
		return "words"
	case want.code != "":
		return ""
	case want.rows != got.rows:
		return "rows"
	case ownTypes(want.columns) != ownTypes(got.columns):
		return "columns"
	case want.tag != got.tag:
		return "tag"
	}
	return ""
}

// askMeridian runs cases on a node in virtual time.
func askMeridian(t *testing.T, name string, cases []Case) (out [][]answer) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cl := simcluster.Start(t, simcluster.Options{NodesPerRegion: 1})
			ctx := t.Context()
			connect := func() *pgconn.PgConn {
				c, err := cl.Connect(ctx, 0, "defaultdb")
				if err != nil {
					t.Fatal(err)
				}
				return c.PgConn()
			}
			conn := connect()
			defer func() { conn.Close(ctx) }()
			for i, c := range cases {
				a, err := ask(ctx, conn, c, i == 0 || leaves(cases[i-1]))
				if err != nil {
					t.Errorf("%s: %v", strings.Join(c.Statements, "; "), err)
					conn.Close(ctx)
					conn = connect()
				}
				out = append(out, a)
			}
		})
	})
	return out
}

// prepare prepares the generators that are to run.
func prepare(t *testing.T, pg *pgconn.PgConn) (ready []Generator) {
	for _, g := range generators {
		if only := os.Getenv("MERIDIAN_GENERATOR"); only != "" && only != g.Name {
			continue
		}
		if g.Prepare != nil {
			g.Generate = g.Prepare(t, pg)
		}
		ready = append(ready, g)
	}
	return ready
}

// dice are the dice of a generator in a round.
func (g *Generator) dice(round int) *rand.Rand { return rand.New(rand.NewPCG(uint64(round), g.seed())) }

// askPostgres runs cases on PostgreSQL.
func askPostgres(t *testing.T, pg *pgconn.PgConn, cases []Case) (out [][]answer) {
	t.Helper()
	for i, c := range cases {
		a, err := ask(t.Context(), pg, c, i == 0 || leaves(cases[i-1]))
		if err != nil {
			t.Fatalf("PostgreSQL: %v", err)
		}
		out = append(out, a)
	}
	return out
}

// TestComparison asks both servers, and fails for each difference that is not among the departures.
func TestComparison(t *testing.T) {
	pg := startPostgres(t)
	ready := prepare(t, pg)
	first := 1
	if s := os.Getenv("MERIDIAN_SEED"); s != "" {
		var err error
		if first, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	limit := lasting(t)
	end := time.Now().Add(limit)
	groups := map[string]difference{}
	counts := map[string]int{}
	stay := map[string]int{} // by the reason
	asked := 0
	round := first
	for ; round < first+roundsAlways || time.Now().Before(end); round++ {
		type source struct {
			generator string
			fixed     bool
		}
		var cases []Case
		var from []source
		for _, g := range ready {
			if round == first {
				for _, c := range g.Fixed {
					cases, from = append(cases, c), append(from, source{g.Name, true})
				}
			}
			if g.Generate == nil {
				continue
			}
			n := cmp.Or(g.PerRound, perRound)
			if limit == 0 && g.PerRound > 0 {
				n = 0
				if round == first {
					n = g.Always
				}
			}
			r := g.dice(round)
			for range n {
				cases, from = append(cases, g.Generate(r)), append(from, source{g.Name, false})
			}
		}
		want := askPostgres(t, pg, cases)
		got := askMeridian(t, "round"+strconv.Itoa(round), cases)
		for i, c := range cases {
			if i >= len(got) || got[i] == nil {
				continue
			}
			asked++
			for j := range c.Statements {
				kind := compare(want[i][j], got[i][j])
				if kind == "" {
					continue
				}
				if reason := known(c, j, want[i][j], got[i][j]); reason != "" {
					stay[reason]++
					break
				}
				d := difference{c: c, at: j, want: want[i][j], got: got[i][j], kind: kind, generator: from[i].generator, round: round}
				d.len = len(strings.Join(c.Statements, "; "))
				key := d.generator + ": " + cmp.Or(c.Group, c.Statements[0]) + ": " + kind
				if c.Group == "" && c.Schema {
					verb, _, _ := strings.Cut(c.Statements[j], " ")
					key = d.generator + ": " + verb + ": " + kind + " " + want[i][j].code + " " + got[i][j].code
				}
				if from[i].fixed {
					key = d.generator + ": " + c.Statements[j]
				}
				if old, ok := groups[key]; !ok || d.len < old.len {
					groups[key] = d
				}
				counts[key]++
				if !from[i].fixed {
					break
				}
			}
		}
	}
	keys := make([]string, 0, len(groups))
	for k := range groups {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		d := groups[k]
		var b strings.Builder
		for i, s := range d.c.Statements[:d.at+1] {
			if i > 0 {
				b.WriteString(";\n    ")
			}
			b.WriteString(s)
		}
		t.Errorf("%s (%d times)\n    %s\n  PostgreSQL %s\n  Meridian   %s", k, counts[k], b.String(), d.want, d.got)
	}
	t.Logf("%d cases in rounds %d to %d, %d groups differ; stays as it is: %v", asked, first, round-1, len(groups), stay)
}

// parse reads cases: a statement on each line, a blank line between two cases, comments after --.
func parse(text string) (cases []Case) {
	c := Case{}
	for l := range strings.Lines(text + "\n\n") {
		l = strings.TrimSpace(l)
		switch {
		case strings.HasPrefix(l, "--"):
		case l != "":
			c.Statements = append(c.Statements, l)
			c.Schema = c.Schema || strings.HasPrefix(strings.ToLower(l), "create ")
		case len(c.Statements) > 0:
			cases, c = append(cases, c), Case{}
		}
	}
	return cases
}

// File has the cases of a file in testdata.
func File(name string) []Case {
	text, err := testdata.ReadFile("testdata/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	return parse(string(text))
}

// Positioned has the cases of a file, compared with the positions of errors.
func Positioned(name string) []Case {
	cases := File(name)
	for i := range cases {
		cases[i].Positions = true
	}
	return cases
}

//go:embed testdata
var testdata embed.FS

// TestStatements prints both answers to the statements of a file.
func TestStatements(t *testing.T) {
	name := os.Getenv("MERIDIAN_STATEMENTS")
	if name == "" {
		t.Skip("MERIDIAN_STATEMENTS names a file")
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	cases := parse(string(text))
	if os.Getenv("MERIDIAN_POSITIONS") != "" {
		for i := range cases {
			cases[i].Positions = true
		}
	}
	pg := startPostgres(t)
	got := askMeridian(t, "statements", cases)
	same := 0
	for i, c := range cases {
		want, err := ask(t.Context(), pg, c, true)
		if err != nil {
			t.Fatal(err)
		}
		for j, s := range c.Statements {
			if i >= len(got) || got[i] == nil {
				t.Errorf("%s\n  PostgreSQL %s\n  Meridian   no answer", s, want[j])
			} else if kind := compare(want[j], got[i][j]); kind != "" {
				t.Errorf("%s: %s\n  PostgreSQL %s\n  Meridian   %s", s, kind, want[j], got[i][j])
			} else {
				same++
			}
		}
	}
	t.Logf("%d statements are answered alike", same)
}
