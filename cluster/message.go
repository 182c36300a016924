package cluster

import (
	"time"

	"meridian/clock"
	"meridian/kv"
	"meridian/wire"
)

// PingMethod is the transport method of pings.
const PingMethod = "cluster.ping"

// known says how much somebody knows about a node.
type known struct {
	node           kv.NodeID
	life, revision uint64
	incarnation    uint64
	expiration     clock.Timestamp
}

// ping is a node's half of an exchange. A node that has no id yet leaves entry out, and so does a brief ping to a node that has it.
type ping struct {
	entry  *Entry
	record *Liveness
	digest []known
	// brief: no digest, since no news is asked for. A build that does not know the field answers with all that it knows.
	brief bool
	// contradicts: the peer's last claim about its clock does not meet this node's; it should measure soon.
	contradicts bool
}

// pong answers with what the digest lacks, and the wall clock at which it was written.
type pong struct {
	wall    time.Time
	entries []*Entry
	records []Liveness
	// brief: the ping was, and was understood as such.
	brief bool
	// source is where the node has its time from, and epsilon half the width of the interval in which true time is by it; of a build that says neither: empty, zero.
	source  string
	epsilon time.Duration
}

func (p *ping) append(b []byte) []byte {
	var at int
	if p.entry != nil {
		b, at = wire.Begin(b, 1)
		b = wire.End(appendEntry(b, p.entry), at)
	}
	if p.record != nil {
		b, at = wire.Begin(b, 3)
		b = wire.End(AppendLiveness(b, p.record), at)
	}
	for i := range p.digest {
		b, at = wire.Begin(b, 5)
		b = wire.End(appendKnown(b, &p.digest[i]), at)
	}
	return wire.Bool(wire.Bool(b, 2, p.brief), 4, p.contradicts)
}

func readPing(r *wire.Reader, p *ping) {
	for m := r.Open("cluster.Ping"); r.Next(&m); {
		switch r.Field() {
		case 1:
			p.entry = &Entry{}
			readEntry(r, p.entry)
		case 3:
			p.record = &Liveness{}
			readLiveness(r, p.record)
		case 5:
			readKnown(r, wire.Grow(r, &p.digest))
		case 2:
			p.brief = r.Bool()
		case 4:
			p.contradicts = r.Bool()
		default:
			r.Skip()
		}
	}
}

func appendKnown(b []byte, k *known) []byte {
	b = wire.Uint(wire.Uint(b, 1, uint64(k.node)), 3, k.life)
	b = wire.Uint(wire.Uint(b, 5, k.revision), 7, k.incarnation)
	return wire.Timestamp(b, 9, k.expiration)
}

func readKnown(r *wire.Reader, k *known) {
	for m := r.Open("cluster.Known"); r.Next(&m); {
		switch r.Field() {
		case 1:
			k.node = kv.NodeID(r.Uint32())
		case 3:
			k.life = r.Uint()
		case 5:
			k.revision = r.Uint()
		case 7:
			k.incarnation = r.Uint()
		case 9:
			k.expiration = r.Timestamp()
		default:
			r.Skip()
		}
	}
}

func decodePing(b []byte) (*ping, error) {
	r := wire.Read(b)
	p := &ping{}
	if readPing(&r, p); r.Err() != nil {
		return nil, r.Err()
	}
	return p, nil
}

func (p *pong) append(b []byte) []byte {
	b = wire.Int(b, 1, p.wall.UnixNano())
	var at int
	for _, e := range p.entries {
		b, at = wire.BeginLong(b, 3, 0x80)
		b = wire.End(appendEntry(b, e), at)
	}
	for i := range p.records {
		b, at = wire.Begin(b, 5)
		b = wire.End(AppendLiveness(b, &p.records[i]), at)
	}
	b = wire.Bool(b, 2, p.brief)
	return wire.Int(wire.String(b, 4, p.source), 6, int64(p.epsilon))
}

func readPong(r *wire.Reader, p *pong) {
	p.wall = time.Unix(0, 0)
	for m := r.Open("cluster.Pong"); r.Next(&m); {
		switch r.Field() {
		case 1:
			p.wall = time.Unix(0, r.Int())
		case 3:
			e := &Entry{}
			readEntry(r, e)
			p.entries = append(p.entries, e)
		case 5:
			readLiveness(r, wire.Grow(r, &p.records))
		case 2:
			p.brief = r.Bool()
		case 4:
			p.source = r.String()
		case 6:
			p.epsilon = time.Duration(r.Int())
		default:
			r.Skip()
		}
	}
}

func decodePong(b []byte) (*pong, error) {
	r := wire.Read(b)
	p := &pong{}
	if readPong(&r, p); r.Err() != nil {
		return nil, r.Err()
	}
	return p, nil
}
