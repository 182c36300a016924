package core

import (
	"errors"
	"testing"

	"meridian/clock"
)

// acceptor acknowledges a value once it is on disk, then applies it.
type acceptor struct {
	next    Ticket
	waiting map[Ticket]string
	fx      Effects[string, string, string]
	random  func() string
}

func (a *acceptor) Step(now clock.Timestamp, m string) {
	a.next++
	a.waiting[a.next] = m
	a.fx.Persist = append(a.fx.Persist, m)
	a.fx.Ticket = a.next
	a.fx.Send = append(a.fx.Send, "heard "+m+a.random())
	a.fx.After = append(a.fx.After, "accepted "+m)
	a.fx.Wake = now.Add(5)
}

func (a *acceptor) Tick(clock.Timestamp) {}

func (a *acceptor) Durable(upTo Ticket) {
	for t := Ticket(1); t <= upTo; t++ {
		if m, ok := a.waiting[t]; ok {
			a.fx.Apply = append(a.fx.Apply, m)
			delete(a.waiting, t)
		}
	}
}

func (a *acceptor) Effects() Effects[string, string, string] {
	fx := a.fx
	a.fx = Effects[string, string, string]{}
	return fx
}

func TestReplay(t *testing.T) {
	x, y := "x", "y"
	script := []Event[string]{
		{Now: clock.Timestamp{Wall: 1}, Message: &x},
		{Now: clock.Timestamp{Wall: 2}, Message: &y},
		{Durable: 2},
		{Now: clock.Timestamp{Wall: 9}},
	}
	calm := func() Core[string, string, string] {
		return &acceptor{waiting: map[Ticket]string{}, random: func() string { return "" }}
	}
	const want = `0 persist 1 x
0 send heard x
0 after 1 send accepted x
0 wake 6.0000000000
1 persist 2 y
1 send heard y
1 after 2 send accepted y
1 wake 7.0000000000
2 apply x
2 apply y
`
	if got := Replay(calm(), script); got != want {
		t.Errorf("got\n%s", got)
	}
	if err := CheckDeterminism(calm, script); err != nil {
		t.Error(err)
	}
	n := 0
	dicey := func() Core[string, string, string] {
		return &acceptor{waiting: map[Ticket]string{}, random: func() string { n++; return string(rune('a' + n)) }}
	}
	var e *NondeterminismError
	if err := CheckDeterminism(dicey, script); !errors.As(err, &e) || e.Line != 2 {
		t.Error(err)
	}
}

func TestEffectsReset(t *testing.T) {
	e := Effects[string, string, string]{Send: []string{"a"}, Ticket: 3}
	if e.Empty() {
		t.Error("empty")
	}
	e.Reset()
	if !e.Empty() || e.Ticket != 0 || cap(e.Send) != 1 {
		t.Errorf("%+v", e)
	}
}
