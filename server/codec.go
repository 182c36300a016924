package server

import (
	"meridian/clock"
	"meridian/sql/session"
	"meridian/wire"
)

func appendSignal(b []byte, q *signalRequest) []byte {
	return wire.Uint(wire.String(wire.Int(b, 1, int64(q.PID)), 3, q.User), 5, uint64(q.What))
}

func readSignal(r *wire.Reader, q *signalRequest) {
	for m := r.Open("server.Signal"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.PID = r.Int32()
		case 3:
			q.User = r.String()
		case 5:
			q.What = session.Signal(r.Enum(uint8(session.SignalTerminate)))
		default:
			r.Skip()
		}
	}
}

func appendSignalAnswer(b []byte, a *signalAnswer) []byte { return wire.String(b, 1, a.Owner) }

func readSignalAnswer(r *wire.Reader, a *signalAnswer) {
	for m := r.Open("server.SignalAnswer"); r.Next(&m); {
		switch r.Field() {
		case 1:
			a.Owner = r.String()
		default:
			r.Skip()
		}
	}
}

// clockBound is a time that the clock of a store's node has not passed (server.SV2).
type clockBound struct{ at clock.Timestamp }

func appendClockBound(b []byte, c *clockBound) []byte { return wire.Timestamp(b, 1, c.at) }

func readClockBound(r *wire.Reader, c *clockBound) {
	for m := r.Open("server.ClockBound"); r.Next(&m); {
		switch r.Field() {
		case 1:
			c.at = r.Timestamp()
		default:
			r.Refuse()
		}
	}
}
