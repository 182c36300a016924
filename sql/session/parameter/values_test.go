package parameter

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"meridian/sql/memory"
)

// player carries out the statements of testdata/histories.txt on Values alone, as a session does.
type player struct {
	t      *testing.T
	values Values
	block  bool
	failed bool
	marks  []namedMark
}

type namedMark struct {
	name string
	mark Mark
}

var assigns = regexp.MustCompile(`^(?:SET (LOCAL )?(\S+) = '(.*)'|SELECT set_config\('(\S+)', '(.*)', (true|false)\))$`)

func (p *player) play(statement string) {
	v := &p.values
	word, rest, _ := strings.Cut(statement, " ")
	own := !p.block && word != "BEGIN" // a transaction of its own
	if own {
		v.Begin()
	}
	switch m := assigns.FindStringSubmatch(statement); {
	case m != nil:
		name, value, local := m[2]+m[4], m[3]+m[5], m[1] != "" || m[6] == "true"
		if err := v.Hold(name, value); err != nil {
			p.t.Fatal(err)
		}
		if _, err := v.Set(name, value, local); err != nil {
			p.t.Fatal(statement, err)
		}
		v.Settle()
	case statement == "RESET ALL" || statement == "DISCARD ALL":
		for _, n := range v.Names() {
			v.Reset(n)
		}
	case word == "RESET" || strings.HasSuffix(statement, " TO DEFAULT"):
		name := strings.Fields(rest)[0]
		if err := v.Hold(name, ""); err != nil {
			p.t.Fatal(err)
		}
		v.Mention(name)
		v.Reset(name)
	case word == "BEGIN":
		p.block = true
		v.Begin()
	case word == "SAVEPOINT":
		p.marks = append(p.marks, namedMark{rest, v.Mark()})
	case word == "RELEASE" || strings.HasPrefix(statement, "ROLLBACK TO"):
		i := len(p.marks) - 1
		for p.marks[i].name != strings.TrimPrefix(rest, "TO ") {
			i--
		}
		if word == "RELEASE" {
			p.marks = p.marks[:i]
			break
		}
		v.RollbackTo(p.marks[i].mark)
		p.marks, p.failed = p.marks[:i+1], false
	case word == "COMMIT" || word == "ROLLBACK":
		v.End(word == "COMMIT")
		p.block, p.failed, p.marks = false, false, nil
	case statement == "SELECT 1/0":
		p.failed = true
	case statement != "SELECT":
		p.t.Fatal(statement)
	}
	if own {
		v.End(true)
	}
}

// shown are the values of some settings.
func shown(v *Values, names []string) string {
	var got []string
	for _, n := range names {
		v, ok := v.Get(n)
		if !ok {
			v = "NULL"
		}
		got = append(got, v)
	}
	return strings.Join(got, "|")
}

// TestHistories: Values through transactions and savepoints are what PostgreSQL 15 has shown for the same statements, Changes tells
// of every change, and what they are accounted for is what they hold. Package session plays the same histories in SQL.
func TestHistories(t *testing.T) {
	text, err := os.ReadFile("testdata/histories.txt")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"application_name", "statement_timeout", "my.x"}
	histories := strings.Split(strings.TrimSpace(string(text)), "\n\n")
	if len(histories) < 200 {
		t.Fatalf("only %d histories", len(histories))
	}
	for _, history := range histories {
		account := memory.Limited(1 << 20)
		p := &player{t: t, values: New(map[string]string{"application_name": "", "statement_timeout": "0"}, account)}
		lines := strings.Split(history, "\n")
		began := 0
		for strings.HasPrefix(lines[began], "start ") {
			began++
		}
		for _, where := range []string{"DATABASE", "ROLE", "BOTH"} { // the more particular one counts
			for _, line := range lines[:began] {
				if w := strings.SplitN(line, " ", 3); w[1] == where {
					p.play(w[2])
				}
			}
		}
		lines = lines[began:]
		p.values.Adopt("client")
		for i, line := range lines {
			statement, want, _ := strings.Cut(line, "\t")
			changes, values := p.values.Changes(), shown(&p.values, names)
			p.play(statement)
			if now := shown(&p.values, names); now != values && p.values.Changes() == changes {
				t.Errorf("%s\nline %d (%s): the values were %s and are %s, and Changes does not tell", history, i+1, statement, values, now)
			}
			if want == "-" {
				continue
			}
			if got := shown(&p.values, names); got != want {
				t.Errorf("%s\nline %d (%s): got %s", history, i+1, statement, got)
				break
			}
		}
		p.values.recount()
		if p.values.held != p.values.bytes() || account.Used() != p.values.held {
			t.Errorf("%s\n%d bytes are accounted for, %d are taken, %d are held", history, p.values.held, account.Used(), p.values.bytes())
		}
	}
}

// TestRollbackTellsWhatChanges: End and RollbackTo name the settings whose values they change, and no others that were not touched.
func TestRollbackTellsWhatChanges(t *testing.T) {
	set := func(v *Values, name, value string, local bool) {
		t.Helper()
		if _, err := v.Set(name, value, local); err != nil {
			t.Fatal(err)
		}
	}
	begun := func() *Values {
		v := New(map[string]string{"application_name": "", "datestyle": "ISO, MDY"}, memory.Limited(1<<20))
		set(&v, "application_name", "before", false)
		v.Begin()
		return &v
	}
	for _, c := range []struct {
		name string
		do   func(v *Values) []string
		want string
	}{
		{"nothing", func(v *Values) []string { return v.End(false) }, ""},
		{"SET, COMMIT", func(v *Values) []string { set(v, "application_name", "x", false); return v.End(true) }, ""},
		{"SET, ROLLBACK", func(v *Values) []string { set(v, "application_name", "x", false); return v.End(false) }, "application_name"},
		{"SET LOCAL, COMMIT", func(v *Values) []string { set(v, "my.x", "x", true); return v.End(true) }, "my.x"},
		{"RESET, ROLLBACK", func(v *Values) []string { v.Reset("application_name"); return v.End(false) }, "application_name"},
		{"SET, ROLLBACK TO", func(v *Values) []string {
			m := v.Mark()
			set(v, "application_name", "x", false)
			return v.RollbackTo(m)
		}, "application_name"},
		{"SET before the savepoint", func(v *Values) []string {
			set(v, "application_name", "x", false)
			m := v.Mark()
			set(v, "my.x", "x", true)
			return v.RollbackTo(m)
		}, "my.x"},
		{"SET of the same", func(v *Values) []string {
			m := v.Mark()
			set(v, "application_name", "before", false)
			return v.RollbackTo(m)
		}, ""},
	} {
		if got := strings.Join(c.do(begun()), " "); got != c.want {
			t.Errorf("%s: %q changes, want %q", c.name, got, c.want)
		}
	}
}

// TestMadeUpNames: settings that a client makes up stay without values, so they stay accounted for, and are bounded by the session's memory.
func TestMadeUpNames(t *testing.T) {
	v := New(nil, memory.Limited(64<<10))
	for i := range 1000 {
		name := "my.x" + strconv.Itoa(i)
		if err := v.Hold(name, ""); err != nil {
			if i < 100 {
				t.Errorf("%d names: %v", i, err)
			}
			return
		}
		v.Begin()
		if _, err := v.Set(name, "", true); err != nil {
			t.Fatal(err)
		}
		v.End(false)
	}
	t.Error("a thousand names are in 64 KiB")
}
