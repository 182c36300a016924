package portal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"meridian/sql/memory"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// numbers is a query that answers 1, 2, ... in rows of some width.
type numbers struct {
	at, n  int
	width  int
	failAt int
	held   bool
	closed *int
}

func (q *numbers) Next(context.Context) (types.Row, error) {
	if q.at++; q.at == q.failAt {
		return nil, errors.New("broken")
	}
	if q.at > q.n {
		return nil, nil
	}
	row := types.Row{types.NewInt(int64(q.at))}
	if q.width > 0 {
		row = append(row, types.NewString(strings.Repeat("x", q.width)))
	}
	return row, nil
}
func (q *numbers) Hold(context.Context) error { q.held = true; return nil }
func (q *numbers) RowsAffected() int64        { return 0 }
func (q *numbers) Close()                     { *q.closed++ }

func account() *memory.Account { return memory.NewSession(memory.NewNode(0)) }

// declared is a cursor over numbers.
func declared(t *testing.T, owner *memory.Account, name string, d Declaration, q *numbers) *Portal {
	p := &Portal{Name: name}
	if q.closed == nil {
		q.closed = new(int)
	}
	d.Start = func(context.Context) error {
		p.Open(q, owner.NewStatement(0))
		return nil
	}
	p.Declare(d)
	if err := p.Take(owner, OwnBytes); err != nil {
		t.Fatal(err)
	}
	return p
}

func fetch(direction parse.FetchDirection, count int64) *parse.Fetch {
	return &parse.Fetch{Direction: direction, Count: count}
}

// rowsOf is what a FETCH emits, as text; an error ends it.
func rowsOf(p *Portal, f *parse.Fetch) string {
	var out []string
	err := p.Fetch(context.Background(), f, func(r types.Row) error {
		if r == nil {
			return nil
		}
		out = append(out, fmt.Sprint(r[0].Int()))
		return nil
	})
	if err != nil {
		var e *sqlstate.Error
		if errors.As(err, &e) {
			out = append(out, string(e.Code))
		} else {
			out = append(out, err.Error())
		}
	}
	return strings.Join(out, " ")
}

// TestFetch moves cursors over five rows, one step after the other. PostgreSQL 15 gives the same answers.
func TestFetch(t *testing.T) {
	const fwd, back, abs, rel = parse.FetchForward, parse.FetchBackward, parse.FetchAbsolute, parse.FetchRelative
	type step struct {
		f    *parse.Fetch
		want string
	}
	for _, v := range []struct {
		name  string
		d     Declaration
		steps []step
	}{
		{"forward", Declaration{NoScroll: true}, []step{{fetch(fwd, 2), "1 2"}, {fetch(fwd, 0), "55000"}, {fetch(back, 1), "55000"},
			{&parse.Fetch{All: true}, "3 4 5"}, {fetch(fwd, 1), ""}}},
		{"a cursor that locks goes forward", Declaration{Locks: true}, []step{{fetch(fwd, 1), "1"}, {fetch(back, 1), "55000"}}},
		{"back and forth", Declaration{Scroll: true}, []step{{fetch(fwd, 3), "1 2 3"}, {fetch(back, 1), "2"}, {fetch(fwd, 0), "2"}, {fetch(back, 5), "1"},
			{fetch(fwd, 0), ""}, {fetch(fwd, 1), "1"}}},
		{"a negative count turns round", Declaration{Scroll: true}, []step{{fetch(fwd, 4), "1 2 3 4"}, {fetch(fwd, -2), "3 2"}, {fetch(back, -2), "3 4"}}},
		{"absolute", Declaration{Scroll: true}, []step{{fetch(abs, 3), "3"}, {fetch(abs, -1), "5"}, {fetch(abs, -5), "1"}, {fetch(abs, -6), ""},
			{fetch(fwd, 1), "1"}, {fetch(abs, 9), ""}, {fetch(back, 1), "5"}, {fetch(abs, 0), ""}, {fetch(fwd, 1), "1"}}},
		{"relative", Declaration{Scroll: true}, []step{{fetch(rel, 2), "2"}, {fetch(rel, 0), "2"}, {fetch(rel, -1), "1"}, {fetch(rel, -1), ""}, {fetch(rel, 5), "5"},
			{fetch(rel, 1), ""}, {fetch(rel, -1), "5"}}},
		{"without a word it scrolls while its rows are few", Declaration{}, []step{{fetch(fwd, 2), "1 2"}, {fetch(back, 1), "1"}}},
		{"behind the end", Declaration{Scroll: true}, []step{{&parse.Fetch{All: true}, "1 2 3 4 5"}, {fetch(fwd, 0), ""}, {fetch(back, 2), "5 4"}}},
	} {
		owner := account()
		p := declared(t, owner, "c", v.d, &numbers{n: 5})
		for i, s := range v.steps {
			if got := rowsOf(p, s.f); got != s.want {
				t.Errorf("%s, step %d %+v: %q, want %q", v.name, i+1, *s.f, got, s.want)
			}
		}
		p.Drop()
		if n := owner.Used(); n != 0 {
			t.Errorf("%s: %d bytes are left", v.name, n)
		}
	}
}

// TestScrollBytes: a cursor that did not ask to scroll gives its rows up when they are too many, and one that did asks the session
// for their memory (portal.PO3).
func TestScrollBytes(t *testing.T) {
	for _, scroll := range []bool{false, true} {
		owner := account()
		p := declared(t, owner, "c", Declaration{Scroll: scroll}, &numbers{n: 40, width: scrollBytes / 20})
		if got := rowsOf(p, fetch(parse.FetchForward, 10)); got != "1 2 3 4 5 6 7 8 9 10" {
			t.Fatal(got)
		}
		if got := rowsOf(p, fetch(parse.FetchBackward, 1)); got != "9" {
			t.Fatal(got)
		}
		rowsOf(p, fetch(parse.FetchForward, 30))
		want, held := "55000", owner.Used() <= OwnBytes
		if scroll {
			want, held = "38 37", owner.Used() > scrollBytes
		}
		if got := rowsOf(p, fetch(parse.FetchBackward, 2)); got != want || !held {
			t.Errorf("scroll %v: %q, with %d bytes", scroll, got, owner.Used())
		}
	}
}

// TestRowsThatFail: an error ends the query, and the cursor can't run again.
func TestRowsThatFail(t *testing.T) {
	closed := 0
	p := declared(t, account(), "c", Declaration{}, &numbers{n: 9, failAt: 3, closed: &closed})
	if got := rowsOf(p, fetch(parse.FetchForward, 5)); got != "1 2 broken" || closed != 1 || !p.Ended() {
		t.Error(got, closed, p.Ended())
	}
	if got := rowsOf(p, fetch(parse.FetchForward, 5)); got != "55000" {
		t.Error(got)
	}
}
