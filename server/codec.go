package server

import (
	"meridian/clock"
	"meridian/sql/session"
	"meridian/wire"
)

func (q *signalRequest) fields(c *wire.Coder) {
	c.Message("server.Signal", wire.Skips)
	c.Int32(1, &q.PID)
	c.String(3, &q.User)
	wire.Enum(c, 5, &q.What, session.SignalTerminate)
}

func (a *signalAnswer) fields(c *wire.Coder) {
	c.Message("server.SignalAnswer", wire.Skips)
	c.String(1, &a.Owner)
}

// clockBound is a time that the clock of a store's node has not passed (server.SV2).
type clockBound struct{ at clock.Timestamp }

func (b *clockBound) fields(c *wire.Coder) {
	c.Message("server.ClockBound", wire.Refuses)
	c.Timestamp(1, &b.at)
}
