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
		wiretest.Of("register.Ballot", wiretest.Refuses, appendBallot, readBallot, nil),
		wiretest.Of("register.Version", wiretest.Refuses, appendVersion, readVersion, nil),
		wiretest.Of("register.Decree", wiretest.Refuses, appendDecree, readDecree, decree),
		wiretest.Of("register.Register", wiretest.Refuses, appendRegister, readRegister, register),
		wiretest.Of("register.Entry", wiretest.Refuses, func(b []byte, e *Entry) []byte { return e.Append(b) }, readEntry, func(e *Entry) { register(&e.Register) }),
		wiretest.Of("register.Request", wiretest.Skips, func(b []byte, q *Request) []byte { return q.Append(b) }, readRequest,
			func(q *Request) { q.Kind %= Resolve + 1; decree(&q.Decree) }),
		wiretest.Of("register.Reply", wiretest.Skips, func(b []byte, p *Reply) []byte { return p.Append(b) }, readReply,
			func(p *Reply) { register(&p.Register); decree(&p.Decree) }),
	})
}
