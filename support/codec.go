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

func appendWithdrawal(b []byte, w *withdrawal) []byte {
	b = wire.Uint(b, 1, uint64(w.node))
	b = wire.Uint(b, 3, w.least)
	b = wire.Timestamp(b, 5, w.end)
	return wire.Bool(wire.Bool(b, 7, w.lapsed), 9, w.silent)
}

func readWithdrawal(r *wire.Reader, w *withdrawal) {
	for m := r.Open("support.Withdrawal"); r.Next(&m); {
		switch r.Field() {
		case 1:
			w.node = kv.NodeID(r.Uint32())
		case 3:
			w.least = r.Uint()
		case 5:
			w.end = r.Timestamp()
		case 7:
			w.lapsed = r.Bool()
		case 9:
			w.silent = r.Bool()
		default:
			r.Refuse()
		}
	}
}

func appendWithdrawals(b []byte, w *withdrawals) []byte {
	b = wire.Uint(b, 1, w.version)
	for i := range w.of {
		var at int
		b, at = wire.Begin(b, 3)
		b = wire.End(appendWithdrawal(b, &w.of[i]), at)
	}
	return b
}

func readWithdrawals(r *wire.Reader, w *withdrawals) {
	for m := r.Open("support.Withdrawals"); r.Next(&m); {
		switch r.Field() {
		case 1:
			w.version = r.Uint()
		case 3:
			readWithdrawal(r, wire.Grow(r, &w.of))
		default:
			r.Refuse()
		}
	}
}

func appendWant(b []byte, w *want) []byte {
	return wire.Uint(wire.Uint(b, 1, uint64(w.node)), 3, w.incarnation)
}

func readWant(r *wire.Reader, w *want) {
	for m := r.Open("support.Want"); r.Next(&m); {
		switch r.Field() {
		case 1:
			w.node = kv.NodeID(r.Uint32())
		case 3:
			w.incarnation = r.Uint()
		default:
			r.Refuse()
		}
	}
}

func newsField(b []byte, field uint32, w *withdrawals) []byte {
	if w == nil {
		return b
	}
	b, at := wire.Begin(b, field)
	return wire.End(appendWithdrawals(b, w), at)
}

func appendAsk(b []byte, a *ask) []byte {
	b = wire.Uint(b, 1, a.incarnation)
	b = wire.Timestamp(b, 3, a.end)
	b = wire.Int(b, 5, int64(a.duration))
	b = wire.Uint(b, 7, a.heard)
	b = newsField(b, 9, a.news)
	for i := range a.wants {
		var at int
		b, at = wire.Begin(b, 11)
		b = wire.End(appendWant(b, &a.wants[i]), at)
	}
	return kv.PositionField(b, 13, &a.position)
}

func readAsk(r *wire.Reader, a *ask) {
	for m := r.Open("support.Ask"); r.Next(&m); {
		switch r.Field() {
		case 1:
			a.incarnation = r.Uint()
		case 3:
			a.end = r.Timestamp()
		case 5:
			a.duration = time.Duration(r.Int())
		case 7:
			a.heard = r.Uint()
		case 9:
			a.news = &withdrawals{}
			readWithdrawals(r, a.news)
		case 11:
			readWant(r, wire.Grow(r, &a.wants))
		case 13:
			wire.In(r, &a.position, (*kv.StorePosition).Fields)
		default:
			r.Skip()
		}
	}
}

func appendAnswer(b []byte, a *answer) []byte {
	b = wire.Uint(b, 1, a.least)
	b = wire.Bool(b, 3, a.supports)
	b = newsField(b, 5, a.news)
	return kv.PositionField(b, 7, &a.position)
}

func readAnswer(r *wire.Reader, a *answer) {
	for m := r.Open("support.Answer"); r.Next(&m); {
		switch r.Field() {
		case 1:
			a.least = r.Uint()
		case 3:
			a.supports = r.Bool()
		case 5:
			a.news = &withdrawals{}
			readWithdrawals(r, a.news)
		case 7:
			wire.In(r, &a.position, (*kv.StorePosition).Fields)
		default:
			r.Skip()
		}
	}
}
