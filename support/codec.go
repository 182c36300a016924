package support

import (
	"time"

	"meridian/clock"
	"meridian/kv"
	"meridian/wire"
)

// withdrawal is what a node says of its support for another one.
type withdrawal struct {
	node kv.NodeID
	// least is the smallest incarnation of the node that may be supported, durably (support.SU2); end is after all for which smaller ones were (support.SU3).
	least uint64
	end   clock.Timestamp
	// lapsed: the node has asked for support, and has none now. silent: it should have asked for some time, and never has.
	lapsed, silent bool
}

// want is a withdrawal that somebody needs.
type want struct {
	node        kv.NodeID
	incarnation uint64
}

// withdrawals are what a node says of all others.
type withdrawals struct {
	version uint64 // grows with each change; its upper half is the number of the node's start
	of      []withdrawal
}

// ask is a heartbeat: a request for support, and news.
type ask struct {
	incarnation uint64 // zero: only news
	end         clock.Timestamp
	duration    time.Duration
	heard       uint64 // the version of the peer's withdrawals that this node knows
	news        *withdrawals
	wants       []want
	position    kv.StorePosition
}

// answer to an ask.
type answer struct {
	least    uint64 // the smallest incarnation that is supported
	supports bool   // for the duration, from when the ask came
	news     *withdrawals
	position kv.StorePosition
}

func (w *withdrawal) fields(c *wire.Coder) {
	c.Message("support.Withdrawal", wire.Refuses)
	wire.Uint32(c, 1, &w.node)
	wire.Uint64(c, 3, &w.least)
	c.Timestamp(5, &w.end)
	c.Bool(7, &w.lapsed)
	c.Bool(9, &w.silent)
}

func (w *withdrawals) fields(c *wire.Coder) {
	c.Message("support.Withdrawals", wire.Refuses)
	wire.Uint64(c, 1, &w.version)
	wire.List(c, 3, &w.of, (*withdrawal).fields)
}

func (w *want) fields(c *wire.Coder) {
	c.Message("support.Want", wire.Refuses)
	wire.Uint32(c, 1, &w.node)
	wire.Uint64(c, 3, &w.incarnation)
}

func (a *ask) fields(c *wire.Coder) {
	c.Message("support.Ask", wire.Skips)
	wire.Uint64(c, 1, &a.incarnation)
	c.Timestamp(3, &a.end)
	wire.Int64(c, 5, &a.duration)
	wire.Uint64(c, 7, &a.heard)
	wire.Opt(c, 9, &a.news, (*withdrawals).fields)
	wire.List(c, 11, &a.wants, (*want).fields)
	wire.Some(c, 13, &a.position, (*kv.StorePosition).Fields)
}

func (a *answer) fields(c *wire.Coder) {
	c.Message("support.Answer", wire.Skips)
	wire.Uint64(c, 1, &a.least)
	c.Bool(3, &a.supports)
	wire.Opt(c, 5, &a.news, (*withdrawals).fields)
	wire.Some(c, 7, &a.position, (*kv.StorePosition).Fields)
}
