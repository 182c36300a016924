package replica

import (
	"testing"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	shape "meridian/core"
	"meridian/keys"
	"meridian/kv"
)

// TestTogether: several requests of one message, about one record too, are one batch of the delta, which has what they come to.
func TestTogether(t *testing.T) {
	k := keys.Key("k")
	a := core.NewAcceptor(core.QuorumsOf(3), plain{}, nil, 0)
	a.Load(k, &core.Record{Base: core.Value{At: wall(1), Data: []byte("5")}})
	option := func(i byte, seen clock.Timestamp) core.Option {
		return core.Option{Name: core.Name{Txn: kv.TxnID{i}, At: wall(int64(i))}, Update: core.Update{Seen: core.Seen{Base: seen}, Value: []byte{'0' + i}}, Keys: []keys.Key{k, keys.Key("z")}}
	}
	x, y := option(2, wall(1)), option(3, wall(2))
	for i, q := range []*core.Request{{Kind: core.Propose, Key: k, Option: x}, {Kind: core.End, Key: k, Option: x, Committed: true}, {Kind: core.Propose, Key: k, Option: y}, {Kind: core.Query, Key: k}} {
		a.Step(clock.Timestamp{}, shape.Call[core.Request, core.Reply]{ID: uint64(i), Request: q})
	}
	fx := a.Effects()
	if fx.Ticket == 0 || len(fx.Send) != 0 || len(fx.After) != 4 {
		t.Errorf("%d replies leave before it is durable, %d after", len(fx.Send), len(fx.After))
	}
	delta := deltaMap{}
	b := deltaBatch{}
	for i := range fx.Persist {
		fx.Persist[i].Store(&b)
	}
	for _, op := range b.ops {
		op(delta)
	}
	w := &deltaWorld{t: t}
	again := w.restored(delta, clock.Timestamp{})
	again.Load(k, &core.Record{Base: core.Value{At: wall(1), Data: []byte("5")}})
	if got, want := show(again.Record(k)), show(a.Record(k)); got != want {
		t.Errorf("after a restart: %s, want %s", got, want)
	}
}
