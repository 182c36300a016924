package txnstate

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"meridian/kv"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
)

// play does what its words say, one after the other, and answers with what each asked for, if it asked for anything, and with the
// status in the end. "fail/2" is a failure with two savepoints.
func play(words string) string {
	var (
		m   Machine
		at  Point
		out []string
	)
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, w := range strings.Fields(words) {
		name, n, _ := strings.Cut(w, "/")
		savepoints, _ := strconv.Atoi(n)
		switch name {
		case "implicit":
			m.Begin(Implicit, Modes{})
		case "begin":
			m.Begin(Explicit, Modes{})
		case "promote":
			m.Promote()
		case "statement":
			m.Statement()
		case "ran":
			m.StatementEnded()
		case "commit":
			say("%s", [...]string{"nothing open", "commit implicit", "commit", "roll back failed"}[m.Committing()])
		case "fail":
			c := m.Fail(savepoints)
			say("%s", [...]string{"nothing", "roll back", "release"}[c])
			if c == RollBack {
				m.End()
			}
		case "savable":
			say("savable %v", m.Savable(savepoints))
		case "restore":
			m.Restore()
		case "again":
			m.FailedAgain()
		case "point":
			at = m.Point()
		case "restart":
			m.Restart()
		case "interrupted":
			m.Interrupted(at)
		case "lost":
			m.Lost(at)
		case "several":
			m.Several(true)
		case "one":
			m.Several(false)
		case "end":
			m.End()
		case "block":
			say("%s", code(m.NeedBlock("X")))
		case "alone":
			say("%s", code(m.StandAlone("X", false)))
		case "bound":
			say("%s", code(m.StandAlone("X", true)))
		default:
			panic(w)
		}
	}
	return strings.Join(append(out, m.State().String()+" "+string(m.Status())), ", ")
}

func code(err error) string {
	var e *sqlstate.Error
	if err == nil {
		return "ok"
	}
	e = err.(*sqlstate.Error)
	if strings.Contains(e.Message, "pipeline") {
		return string(e.Code) + " pipeline"
	}
	return string(e.Code)
}

func TestMachine(t *testing.T) {
	for _, v := range []struct{ about, words, want string }{
		{"nothing", "", "none I"},
		{"a statement by itself", "implicit statement ran end", "none I"},
		{"one that fails", "implicit statement fail", "roll back, none I"},
		{"a block", "begin statement ran", "explicit T"},
		{"a block that fails gives up its locks", "begin statement fail", "release, failed E"},
		{"but not if a savepoint may keep it", "begin statement fail/1", "nothing, failed E"},
		{"which does", "begin statement fail/1 restore statement ran", "nothing, explicit T"},
		{"a failure after a failure changes nothing", "begin statement fail/1 statement fail/1", "nothing, nothing, failed E"},
		{"a failure without a transaction neither", "statement fail", "nothing, none I"},
		{"BEGIN within a string", "implicit ran promote ran fail", "release, failed E"},

		{"COMMIT", "begin statement commit end", "commit, none I"},
		{"COMMIT of nothing", "commit", "nothing open, none I"},
		{"COMMIT of an implicit transaction", "implicit statement commit end", "commit implicit, none I"},
		{"COMMIT of a failed one", "begin fail commit end", "release, roll back failed, none I"},
		{"COMMIT that fails ends it all the same", "begin statement commit fail/3", "commit, roll back, none I"},
		{"a later statement is not COMMIT's", "begin statement commit statement fail/1", "commit, nothing, failed E"},
		{"no savepoint saves a COMMIT", "begin savable/1 commit savable/1", "savable true, commit, savable false, explicit T"},
		{"nor without one", "begin savable", "savable false, explicit T"},
		{"nor an implicit one", "implicit savable/1", "savable false, implicit I"},

		{"a transaction starts over as it began", "implicit ran promote restart", "implicit I"},
		{"as a block, after a failure", "begin fail/1 restart", "nothing, explicit T"},
		{"a conflict that can't be settled dooms it", "begin statement point lost fail/2", "release, failed E"},
		{"even while it was failed", "begin fail/1 point restart lost fail/1", "nothing, release, failed E"},
		{"an implicit one is over", "implicit statement point restart lost fail", "roll back, none I"},
		{"COMMIT's conflict too", "begin statement commit point restart lost fail/1", "commit, roll back, none I"},
		{"one that is over stays over", "begin point end lost", "none I"},
		{"a cancelled run again dooms it", "begin point restart again interrupted fail/1", "release, failed E"},
		{"and an implicit one is over", "implicit point restart interrupted fail", "roll back, none I"},
		{"doom ends with the transaction", "begin point lost fail/1 end begin statement fail/1", "release, nothing, failed E"},
		{"a failure is repeated", "begin restart again", "failed E"},

		{"a block is asked for", "block begin block fail/1 block end implicit block", "25P01, ok, nothing, ok, 25P01, implicit I"},
		{"what commits by itself stands alone", "implicit alone bound", "ok, ok, implicit I"},
		{"not behind others of its transaction", "implicit ran alone bound", "25001, 25001 pipeline, implicit I"},
		{"not in a block", "begin alone bound", "25001, 25001, explicit T"},
		{"not in a string of several", "several implicit alone one alone", "25001, ok, implicit I"},
	} {
		if got := play(v.words); got != v.want {
			t.Errorf("%s (%s):\n got %s\nwant %s", v.about, v.words, got, v.want)
		}
	}
}

// TestChange: what SET TRANSACTION may still change. Messages are PostgreSQL 15's.
func TestChange(t *testing.T) {
	on, off := true, false
	for _, v := range []struct {
		about      string
		from       Modes
		ask        parse.TxnModes
		started    bool
		savepoints int
		want       string
	}{
		{"a level, at first", Modes{}, parse.TxnModes{Isolation: "read committed"}, false, 0, "read committed"},
		{"a level under its other name", Modes{}, parse.TxnModes{Isolation: "read uncommitted"}, false, 0, "read uncommitted"},
		{"a level, later", Modes{}, parse.TxnModes{Isolation: "repeatable read"}, true, 0, "SET TRANSACTION ISOLATION LEVEL must be called before any query"},
		{"the level that it has", Modes{}, parse.TxnModes{Isolation: "serializable"}, true, 1, "serializable"},
		{"a level behind a savepoint", Modes{}, parse.TxnModes{Isolation: "repeatable read"}, false, 1, "SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction"},
		{"read only, at any time", Modes{}, parse.TxnModes{ReadOnly: &on}, true, 2, "serializable, read only"},
		{"read write, at first", Modes{ReadOnly: true}, parse.TxnModes{ReadOnly: &off}, false, 0, "serializable"},
		{"read write, later", Modes{ReadOnly: true}, parse.TxnModes{ReadOnly: &off}, true, 0, "transaction read-write mode must be set before any query"},
		{"read write behind a savepoint", Modes{ReadOnly: true}, parse.TxnModes{ReadOnly: &off}, false, 1, "cannot set transaction read-write mode inside a read-only transaction"},
		{"deferrable, at first", Modes{}, parse.TxnModes{Deferrable: &on}, false, 0, "serializable, deferrable"},
		{"deferrable, later", Modes{}, parse.TxnModes{Deferrable: &on}, true, 0, "SET TRANSACTION [NOT] DEFERRABLE must be called before any query"},
		{"deferrable behind a savepoint", Modes{}, parse.TxnModes{Deferrable: &off}, false, 1, "SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction"},
	} {
		got, err := v.from.Change(v.ask, v.started, v.savepoints)
		text := got.IsolationShown()
		if got.ReadOnly {
			text += ", read only"
		}
		if got.Deferrable {
			text += ", deferrable"
		}
		if err != nil {
			text = err.(*sqlstate.Error).Message
			if got != v.from {
				t.Errorf("%s: a refusal changed something", v.about)
			}
		}
		if text != v.want {
			t.Errorf("%s: %q, want %q", v.about, text, v.want)
		}
	}
	for _, i := range []kv.Isolation{kv.Serializable, kv.RepeatableRead, kv.ReadCommitted} {
		if IsolationOf(IsolationName(i)) != i {
			t.Errorf("%v is not found by its name", i)
		}
	}
}

// TestRestartModes: a transaction that starts over has the characteristics that it began with.
func TestRestartModes(t *testing.T) {
	var m Machine
	m.Begin(Explicit, Modes{Isolation: kv.RepeatableRead})
	m.SetModes(Modes{ReadOnly: true})
	m.Writes()
	if m.Restart(); m.Modes() != (Modes{Isolation: kv.RepeatableRead}) || !m.Wrote() {
		t.Error(m.Modes(), m.Wrote())
	}
	if m.Begin(Implicit, Modes{}); m.Wrote() || m.Ran() || !m.First() {
		t.Error("the next transaction has written before it began")
	}
}

func TestSavepoints(t *testing.T) {
	var s Savepoints[int]
	for i, name := range []string{"a", "b", "a", "c"} {
		s.Push(name, i+1)
	}
	find := func(name string, at, mark int) {
		t.Helper()
		if i, m, err := s.Find(name); err != nil || i != at || *m != mark {
			t.Errorf("%s is at %d (%v)", name, i, err)
		}
	}
	find("a", 2, 3) // the last of its name
	s.Keep(2)
	if _, _, err := s.Find("c"); !sqlstate.Is(err, sqlstate.InvalidSavepoint) || s.Len() != 3 {
		t.Error("ROLLBACK TO leaves what came later", err, s.Len())
	}
	s.Release(2)
	find("a", 0, 1)
	find("b", 1, 2)
	if s.Clear(); s.Len() != 0 {
		t.Error(s.Len())
	}
}
