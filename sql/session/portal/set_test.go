package portal

import (
	"context"
	"slices"
	"strings"
	"testing"

	"meridian/sql/memory"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
)

func (s *Portals) names() string {
	var out []string
	for n := range s.byName {
		out = append(out, n)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestLife: which portals there are after what happens to their transaction.
func TestLife(t *testing.T) {
	ctx := context.Background()
	type world struct {
		*testing.T
		s     Portals
		owner *memory.Account
		at    Mark
	}
	bound := func(w *world, name string) {
		p := &Portal{Name: name}
		if err := p.Take(w.owner, 100); err != nil {
			w.Fatal(err)
		}
		w.s.Add(p)
	}
	cursor := func(w *world, name string, hold bool) *Portal {
		p := declared(w.T, w.owner, name, Declaration{Hold: hold}, &numbers{n: 3})
		if err := p.Start(ctx); err != nil {
			w.Fatal(err)
		}
		w.s.Add(p)
		return p
	}
	for _, v := range []struct {
		name string
		do   func(w *world)
		want string
	}{
		{"commit leaves what was held", func(w *world) {
			bound(w, "p")
			cursor(w, "c", false)
			cursor(w, "h", true)
			if err := w.s.Materialize(ctx); err != nil {
				w.Fatal(err)
			}
			w.s.EndTransaction(true)
		}, "h"},
		{"rollback leaves nothing", func(w *world) {
			bound(w, "p")
			cursor(w, "h", true)
			w.s.EndTransaction(false)
		}, ""},
		{"rollback leaves an earlier transaction's cursor", func(w *world) {
			cursor(w, "h", true)
			w.s.EndTransaction(true)
			w.s.Begin()
			cursor(w, "c", false)
			w.s.EndTransaction(false)
		}, "h"},
		{"ROLLBACK TO takes what came after the savepoint", func(w *world) {
			bound(w, "before")
			w.at = w.s.Mark()
			bound(w, "after")
			cursor(w, "c", true)
			w.s.CloseSince(w.at)
		}, "before"},
		{"a transaction that starts over declares again", func(w *world) {
			h := cursor(w, "h", true)
			if err := w.s.Materialize(ctx); err != nil {
				w.Fatal(err)
			}
			w.s.EndTransaction(true)
			rowsOf(h, fetch(parse.FetchForward, 1))
			w.s.Begin()
			rowsOf(h, fetch(parse.FetchForward, 1))
			bound(w, "p")
			cursor(w, "c", false)
			w.s.Restart()
			if got := rowsOf(h, fetch(parse.FetchForward, 1)); got != "2" {
				w.Errorf("the session's cursor goes on at %q", got)
			}
		}, "h p"},
		{"the unnamed gives way", func(w *world) {
			for range 2 {
				if err := w.s.Reserve(""); err != nil {
					w.Fatal(err)
				}
				bound(w, "")
			}
			if w.owner.Used() != 100 {
				w.Errorf("%d bytes for one portal", w.owner.Used())
			}
		}, ""},
		{"names are unique", func(w *world) {
			bound(w, "p")
			if err := w.s.Reserve("p"); !sqlstate.Is(err, sqlstate.DuplicateCursor) {
				w.Error(err)
			}
			if _, err := w.s.Cursor("q"); !sqlstate.Is(err, sqlstate.InvalidCursorName) {
				w.Error(err)
			}
		}, "p"},
		{"and their number is bounded", func(w *world) {
			for i := range maxPortals {
				w.s.Add(&Portal{Name: string(rune('a' + i))})
			}
			if err := w.s.Reserve("one more"); !sqlstate.Is(err, sqlstate.ConfigurationLimitExceeded) {
				w.Error(err)
			}
			w.s.byName = map[string]*Portal{}
		}, ""},
	} {
		w := &world{T: t, s: NewPortals(), owner: account()}
		v.do(w)
		if got := w.s.names(); got != v.want {
			t.Errorf("%s: %q, want %q", v.name, got, v.want)
		}
		w.s.CloseAll()
		if n := w.owner.Used(); n != 0 {
			t.Errorf("%s: %d bytes are left", v.name, n)
		}
	}
}

// TestHeldRows: what a cursor WITH HOLD has when its transaction has committed: all rows, and it stands where it stood (portal.PO2).
func TestHeldRows(t *testing.T) {
	s, closed := NewPortals(), 0
	p := declared(t, account(), "h", Declaration{Hold: true}, &numbers{n: 4, closed: &closed})
	s.Add(p)
	if got := rowsOf(p, fetch(parse.FetchForward, 2)); got != "1 2" {
		t.Fatal(got)
	}
	if err := s.Materialize(context.Background()); err != nil || closed != 1 || p.Running() {
		t.Fatal(err, closed)
	}
	s.EndTransaction(true)
	if got := rowsOf(p, &parse.Fetch{All: true}); got != "3 4" {
		t.Error(got)
	}
}

// TestFreeze: a writing statement has declared cursors read to their end, another snapshot has all portals (portal.PO1).
func TestFreeze(t *testing.T) {
	s, owner := NewPortals(), account()
	queries := map[string]*numbers{}
	for _, name := range []string{"declared", "bound"} {
		q := &numbers{n: 2, closed: new(int)}
		p := &Portal{Name: name}
		if name == "declared" {
			p.Declare(Declaration{})
		}
		if err := p.Take(owner, 1); err != nil {
			t.Fatal(err)
		}
		p.Open(q, owner.NewStatement(0))
		s.Add(p)
		queries[name] = q
	}
	if err := s.Freeze(context.Background()); err != nil || !queries["declared"].held || queries["bound"].held {
		t.Error("Freeze", err, queries["declared"].held, queries["bound"].held)
	}
	if err := s.Hold(context.Background()); err != nil || !queries["bound"].held {
		t.Error("Hold", err)
	}
}

// TestStatements: names, replacement and memory of prepared statements.
func TestStatements(t *testing.T) {
	owner := account()
	s := NewStatements(owner)
	add := func(name, text string) {
		t.Helper()
		list, err := parse.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Reserve(name); err != nil {
			t.Fatal(err)
		}
		if err := s.Add(&Statement{Name: name, Stmt: &list[0]}); err != nil {
			t.Fatal(err)
		}
	}
	add("", "SELECT 1")
	one := owner.Used()
	add("", "SELECT 1")
	if owner.Used() != one || one < ownBytes {
		t.Errorf("one unnamed statement occupies %d bytes, two after each other %d", one, owner.Used())
	}
	add("a", "SELECT 2")
	if err := s.Reserve("a"); !sqlstate.Is(err, sqlstate.DuplicatePreparedStatement) {
		t.Error(err)
	}
	if _, err := s.Find("b"); !sqlstate.Is(err, sqlstate.InvalidStatementName) {
		t.Error(err)
	}
	if got := s.Named(); len(got) != 1 || got[0].Name != "a" || got[0].Stmt.Text() != "SELECT 2" {
		t.Error(got)
	}
	s.CloseAll()
	if owner.Used() != 0 {
		t.Errorf("%d bytes are left", owner.Used())
	}
}
