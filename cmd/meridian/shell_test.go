package main

import (
	"strings"
	"testing"
)

// TestShellInput: what lines of input ask for. Each case is lines, and what the last of them asks for.
func TestShellInput(t *testing.T) {
	for _, x := range []struct{ lines, want string }{
		{"SELECT 1;", "run SELECT 1;"},
		{"SELECT 1", "nothing"},
		{"SELECT 1|, 2;", "run SELECT 1|, 2;"},
		{"SELECT ';'", "nothing"},
		{"SELECT 1 -- ;", "nothing"},
		{"SELECT 1 /* ; */;", "run SELECT 1 /* ; */;"},
		{"SELECT /* a|;", "nothing"},
		{"SELECT $a$;|", "nothing"},
		{"SELECT $a$;$a$;", "run SELECT $a$;$a$;"},
		{`SELECT 1 \g`, "run SELECT 1"},
		{`SELECT 1 \gx`, "runx SELECT 1"},
		{`SELECT 1|\g`, "run SELECT 1"},
		{`SELECT 1;|\g`, "run SELECT 1;"},
		{`SELECT 1|\x`, `command \x`},
		{`SELECT 1|\x on`, `command \x on`},
		{`SELECT 1|\x|;`, "run SELECT 1|;"},
		{`SELECT 1|\r|2;`, "run 2;"},
		{`SELECT '|\x`, "nothing"},
		{`SELECT '|\g|';`, `run SELECT '|\g|';`},
		{`\i some file.sql`, `command \i some file.sql`},
		{`SELECT E'it\'s;';`, `run SELECT E'it\'s;';`},
		{`SELECT E'\\';`, `run SELECT E'\\';`},
		{`SELECT E'\';`, "nothing"},
		{`SELECT name'\';`, `run SELECT name'\';`},
		{`SELECT 1|\g out`, `command \g out`},
		{`SELECT 1|\reset|2;`, "run 2;"},
		{"quit", `command \q`},
		{"SELECT 1|quit", "nothing"},
		{"", "nothing"},
	} {
		var in input
		var out typed
		for _, l := range strings.Split(x.lines, "|") {
			out = in.line(l)
		}
		got := "nothing"
		switch {
		case out.run != "" && out.expanded:
			got = "runx " + out.run
		case out.run != "":
			got = "run " + out.run
		case out.command != "":
			got = strings.TrimSpace("command " + out.command + " " + out.arg)
		}
		if got = strings.ReplaceAll(strings.TrimSpace(got), "\n", "|"); got != x.want {
			t.Errorf("%s: %s, want %s", x.lines, got, x.want)
		}
	}
}

// TestExpanded: rows as psql shows them after \x.
func TestExpanded(t *testing.T) {
	var b strings.Builder
	printRecords(&b, []string{"id", "a rather long name"}, [][]string{{"1", "x"}, {"2", "two\nlines"}})
	if want := `-[ RECORD 1 ]------+------
id                 | 1
a rather long name | x
-[ RECORD 2 ]------+------
id                 | 2
a rather long name | two+
                   | lines

`; b.String() != want {
		t.Errorf("got\n%s", &b)
	}
	b.Reset()
	printRecords(&b, []string{"n"}, [][]string{{"1"}})
	if want := "-[ RECORD 1 ]\nn | 1\n\n"; b.String() != want {
		t.Errorf("got\n%s", &b)
	}
}

// TestUnknownCommands: a backslash command of psql that the shell has not is refused by its name.
func TestUnknownCommands(t *testing.T) {
	for _, word := range strings.Fields(`\! \a \C \cd \copy \copyright \crosstabview \d+ \da \db \dn \du \e \echo \ef \elif \encoding \endif \ev \f \gdesc \gexec \gset \H \if \ir \o \password \prompt \pset
		\qecho \s \set \setenv \sf \sv \t \T \unset \w \watch \warn \z nonsense`) {
		var b strings.Builder
		s := shell{out: &b}
		if !s.command(t.Context(), word, "") {
			t.Errorf("%s leaves", word)
		}
		if !strings.HasPrefix(b.String(), word+" is not supported") {
			t.Errorf("%s: %s", word, &b)
		}
	}
	var b strings.Builder
	s := shell{out: &b}
	for _, arg := range []string{"on", "on", "off", "", "maybe"} {
		s.command(t.Context(), `\timing`, arg)
	}
	if want := "Timing is on.\nTiming is on.\nTiming is off.\nTiming is on.\n\\timing [on|off] shows how long statements take\n"; b.String() != want || !s.timing {
		t.Errorf("got %q", &b)
	}
}
