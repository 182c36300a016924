package fence

import (
	"meridian/kv"
	"meridian/wire"
)

// Starts, and what a store keeps of them, have to be understood as a whole: whether a node may act on its store follows from them. Claims and
// answers may have more of later versions.

func appendStart(b []byte, s *Start) []byte {
	return wire.Fixed64(wire.Uint(b, 1, s.Number), 3, s.Token)
}

func readStart(r *wire.Reader, s *Start) {
	for m := r.Open("fence.Start"); r.Next(&m); {
		switch r.Field() {
		case 1:
			s.Number = r.Uint()
		case 3:
			s.Token = r.Fixed64()
		default:
			r.Refuse()
		}
	}
}

func startField(b []byte, field uint32, s *Start) []byte {
	if *s == (Start{}) {
		return b
	}
	b, at := wire.Begin(b, field)
	return wire.End(appendStart(b, s), at)
}

func appendClaim(b []byte, c *Claim) []byte {
	b = startField(wire.Uint(b, 1, uint64(c.Node)), 3, &c.Last)
	b = startField(wire.Uint(b, 5, c.Position), 7, &c.Next)
	return wire.String(b, 9, c.Addr)
}

func readClaim(r *wire.Reader, c *Claim) {
	for m := r.Open("fence.Claim"); r.Next(&m); {
		switch r.Field() {
		case 1:
			c.Node = kv.NodeID(r.Uint32())
		case 3:
			readStart(r, &c.Last)
		case 5:
			c.Position = r.Uint()
		case 7:
			readStart(r, &c.Next)
		case 9:
			c.Addr = r.String()
		default:
			r.Skip()
		}
	}
}

func appendKnown(b []byte, k *Known) []byte {
	return wire.String(wire.Uint(startField(b, 1, &k.Start), 3, k.Position), 5, k.Addr)
}

func readKnown(r *wire.Reader, k *Known) {
	for m := r.Open("fence.Known"); r.Next(&m); {
		switch r.Field() {
		case 1:
			readStart(r, &k.Start)
		case 3:
			k.Position = r.Uint()
		case 5:
			k.Addr = r.String()
		default:
			r.Refuse()
		}
	}
}

func appendOwn(b []byte, o *own) []byte {
	return wire.Bool(wire.Uint(startField(b, 1, &o.Start), 3, o.Position), 5, o.Cleared)
}

func readOwnStart(r *wire.Reader, o *own) {
	for m := r.Open("fence.Own"); r.Next(&m); {
		switch r.Field() {
		case 1:
			readStart(r, &o.Start)
		case 3:
			o.Position = r.Uint()
		case 5:
			o.Cleared = r.Bool()
		default:
			r.Refuse()
		}
	}
}

// A reason that the reader does not know refuses as any other.
func appendAnswer(b []byte, a *answer) []byte {
	b = wire.String(wire.Uint(b, 1, uint64(a.By)), 3, string(a.Reason))
	if a.Known == (Known{}) {
		return b
	}
	b, at := wire.Begin(b, 5)
	return wire.End(appendKnown(b, &a.Known), at)
}

func readAnswer(r *wire.Reader, a *answer) {
	for m := r.Open("fence.Answer"); r.Next(&m); {
		switch r.Field() {
		case 1:
			a.By = kv.NodeID(r.Uint32())
		case 3:
			a.Reason = Reason(r.String())
		case 5:
			readKnown(r, &a.Known)
		default:
			r.Skip()
		}
	}
}

func appendAlive(b []byte, a *alive) []byte {
	return startField(wire.Uint(b, 1, uint64(a.Node)), 3, &a.Start)
}

func readAlive(r *wire.Reader, a *alive) {
	for m := r.Open("fence.Alive"); r.Next(&m); {
		switch r.Field() {
		case 1:
			a.Node = kv.NodeID(r.Uint32())
		case 3:
			readStart(r, &a.Start)
		default:
			r.Skip()
		}
	}
}
