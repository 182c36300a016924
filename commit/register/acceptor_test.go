package register

import (
	"math/rand/v2"
	"testing"

	"meridian/clock"
	"meridian/core"
	"meridian/keys"
	"meridian/kv"
)

var _ core.Core[Message, Write, struct{}] = (*Acceptor)(nil)

// TestAcceptorIsACore: the same requests give the same effects (core.K1), and replies wait for what they build on (register.RG1).
func TestAcceptorIsACore(t *testing.T) {
	dice := rand.New(rand.NewPCG(3, 4))
	var events []core.Event[Message]
	var tickets core.Ticket
	probe := fresh()
	for i := range uint64(500) {
		if dice.IntN(3) == 0 && tickets > 0 {
			events = append(events, core.Event[Message]{Durable: tickets})
			probe.Durable(tickets)
		} else {
			q := &Request{Kind: Kind(1 + dice.IntN(5)), Key: key(dice.IntN(2))}
			b := Ballot{uint64(dice.IntN(3)), uint64(dice.IntN(2))}
			q.Decree = Decree{Instance: Instance{Txn: kv.TxnID{byte(dice.IntN(3))}, Seq: 1, At: clock.Timestamp{Wall: 5}}, Promised: b, Outcome: Written}
			q.Version = Version{At: clock.Timestamp{Wall: dice.Int64N(9)}, Value: value(int64(i))}
			q.Txn = q.Decree.Txn
			m := Message{ID: i, Request: q}
			events = append(events, core.Event[Message]{Message: &m})
			probe.Step(clock.Timestamp{}, m)
		}
		fx := probe.Effects()
		if fx.Ticket != 0 {
			tickets = fx.Ticket
		}
		if probe.durable < tickets && len(fx.Send) > 0 {
			t.Fatalf("event %d: a reply leaves before ticket %d is durable", i, tickets)
		}
	}
	if err := core.CheckDeterminism(func() core.Core[Message, Write, struct{}] { return fresh() }, events); err != nil {
		t.Fatal(err)
	}
}

func fresh() *Acceptor {
	return NewAcceptor(1, clock.Timestamp{}, []Entry{{Key: key(0)}, {Key: key(1)}}, 0)
}

// A write that was prevented arrives after the range has had the leader protocol and come back: that has removed the prevention, and the
// floor is above the write (register.RG7).
func TestLateWriteBelowTheFloor(t *testing.T) {
	a := NewAcceptor(1, clock.Timestamp{Wall: 10}, nil, 0)
	k := keys.Key("x")
	a.Load(k, Register{})
	for at, want := range map[int64]Outcome{10: Prevented, 11: Written} {
		i := Instance{Txn: kv.TxnID{1}, At: clock.Timestamp{Wall: at}}
		a.Step(clock.Timestamp{}, Message{Request: &Request{Kind: Accept, Key: k, Decree: Decree{Instance: i, Outcome: Written}}})
		fx := a.Effects()
		if r := append(fx.Send, fx.After...); len(r) != 1 || r[0].Reply.Decree.Outcome != want {
			t.Errorf("at %d: %v, want %s", at, r, want)
		}
		a.Durable(fx.Ticket)
	}
}
