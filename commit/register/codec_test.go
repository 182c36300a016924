package register

import (
	"testing"

	"meridian/kv"
	"meridian/wire/wiretest"
)

// TestMessages: what gateways and replicas of registers tell each other, and what replicas keep, is as package wire wants it.
func TestMessages(t *testing.T) {
	decree := func(d *Decree) { d.Outcome %= Prevented + 1; d.Meta.Isolation %= kv.ReadCommitted + 1 }
	register := func(g *Register) {
		for i := range g.Decrees {
			decree(&g.Decrees[i])
		}
	}
	wiretest.Run(t, []wiretest.Message{
		wiretest.Declared("register.Ballot", wiretest.Refuses, (*Ballot).fields, nil),
		wiretest.Declared("register.Version", wiretest.Refuses, (*Version).fields, nil),
		wiretest.Declared("register.Decree", wiretest.Refuses, (*Decree).fields, decree),
		wiretest.Declared("register.Register", wiretest.Refuses, (*Register).fields, register),
		wiretest.Declared("register.Entry", wiretest.Refuses, (*Entry).fields, func(e *Entry) { register(&e.Register) }),
		wiretest.Declared("register.Request", wiretest.Skips, (*Request).fields,
			func(q *Request) { q.Kind %= Resolve + 1; decree(&q.Decree) }),
		wiretest.Declared("register.Reply", wiretest.Skips, (*Reply).fields,
			func(p *Reply) { register(&p.Register); decree(&p.Decree) }),
	})
}
