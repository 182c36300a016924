package bind

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"meridian/sql/fault"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
	"meridian/test/statements"
)

// realTexts are the statements that PostgreSQL's clients sent, and those of the scripts.
func realTexts(t *testing.T) (texts []string) {
	t.Helper()
	text, err := os.ReadFile("testdata/psql15.sql")
	if err != nil {
		t.Fatal(err)
	}
	texts = strings.Split(string(text), "\n\n")
	for _, file := range []string{"select", "change", "errors", "types", "definition"} {
		text, err := os.ReadFile("testdata/scripts/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range strings.Split(string(text), "\n") {
			if len(l) > 8 && (l[0]|0x20 >= 'a' && l[0]|0x20 <= 'z') {
				texts = append(texts, l)
			}
		}
	}
	return texts
}

// TestRandomStatements: no random statement, and no changed text of a client, makes the parser or the binder panic, and each error has a code.
// MERIDIAN_STATEMENT_SEEDS asks for more of them.
func TestRandomStatements(t *testing.T) {
	n := 6000
	if s := os.Getenv("MERIDIAN_STATEMENT_SEEDS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	_, b := fuzzFixture(t)
	texts := realTexts(t)
	bound := 0
	for seed := range uint64(n) {
		r := rand.New(rand.NewPCG(seed, 3))
		g := statements.New(r)
		var text string
		switch r.IntN(3) {
		case 0:
			text = g.Statement()
		case 1:
			text = g.Change(g.Statement())
		case 2:
			text = g.Change(texts[r.IntN(len(texts))])
		}
		stmts, err := parse.Parse(text)
		for i := range stmts {
			if _, err = b.Bind(context.Background(), &stmts[i]); err != nil {
				break
			}
			bound++
		}
		var e *sqlstate.Error
		var d *fault.Defect
		switch {
		case err == nil:
		case errors.As(err, &d):
			t.Errorf("seed %d: %s\n  %v\n%s", seed, text, err, d.Stack)
		case !errors.As(err, &e) || e.Code == sqlstate.InternalError:
			t.Errorf("seed %d: %s\n  %T %v", seed, text, err, err)
		}
	}
	t.Logf("%d statements are bound", bound)
	if bound < n/20 {
		t.Errorf("only %d statements are bound", bound)
	}
}
