package core

import (
	"testing"

	"meridian/clock"
	"meridian/core"
	"meridian/keys"
	"meridian/kv"
)

// TestShow: an outcome that was shown is executed, and promises nothing; the end that follows is durable before it is answered, if it has to be (fastpaxos.FP72).
func TestShow(t *testing.T) {
	k := keys.Key("k")
	for _, several := range []bool{false, true} {
		a := NewAcceptor(QuorumsOf(3), plain{}, nil, 0)
		a.Load(k, &Record{Base: Value{At: wall(1), Data: []byte("5")}})
		step := func(q *Request) Effects {
			a.Step(clock.Timestamp{}, core.Call[Request, Reply]{Request: q})
			return a.Effects()
		}
		o := Option{Name: Name{Txn: kv.TxnID{1}, At: wall(2)}, Update: Update{Seen: Seen{Base: wall(1)}, Deltas: []Delta{{Amount: 1, Min: 0, Max: 100}}}, Keys: []keys.Key{k}}
		if several {
			o.Keys = append(o.Keys, keys.Key("z"))
		}
		fx := step(&Request{Kind: Propose, Key: k, Option: o})
		if fx.Ticket == 0 || len(fx.After) != 1 || fx.After[0].Reply.Verdict != Accepted {
			t.Fatalf("proposed: %+v", fx)
		}
		a.Durable(fx.Ticket)
		a.Effects()
		if fx = step(&Request{Kind: Show, Key: k, Option: o, Committed: true}); fx.Ticket != 0 || len(fx.Send) != 1 || len(fx.Persist) != 0 {
			t.Errorf("shown: %+v", fx)
		}
		if row, err := a.records["k"].Row(k, plain{}); err != nil || string(row.Value) != "6" {
			t.Errorf("shown: %q, %v", row.Value, err)
		}
		if fx = step(&Request{Kind: Show, Key: k, Option: o, Committed: true}); len(fx.Persist) != 0 {
			t.Errorf("shown again: %+v", fx)
		}
		if fx = step(&Request{Kind: End, Key: k, Option: o, Committed: true}); (fx.Ticket != 0) != several || len(fx.After) == 1 != several || several && len(fx.Persist) != 1 {
			t.Errorf("several records %v, ended: %+v", several, fx)
		}
		if fx.Ticket != 0 {
			a.Durable(fx.Ticket)
			a.Effects()
		}
		if fx = step(&Request{Kind: End, Key: k, Option: o, Committed: true}); fx.Ticket != 0 || len(fx.Send) != 1 {
			t.Errorf("ended again: %+v", fx)
		}
		if step(&Request{Kind: Forget, Key: k, Option: Option{Name: o.Name}}); a.records["k"].Outcome(o.Name) != Accepted || a.records["k"].Recent[0].Keys != nil {
			t.Errorf("forgotten: %s", show(a.records["k"]))
		}
		if step(&Request{Kind: Forget, Key: k, Option: Option{Name: Name{Txn: kv.TxnID{9}, At: wall(9)}}}); a.records["k"].Outcome(Name{Txn: kv.TxnID{9}, At: wall(9)}) != Undecided {
			t.Error("an outcome was made up")
		}
	}
}
