package cluster

import (
	"math"
	"time"

	"meridian/clock"
	"meridian/kv"
	"meridian/version"
	"meridian/wire"
)

// Capacity is what a node's store holds.
type Capacity struct {
	Ranges, Leases uint32
	UsedBytes      uint64
	AvailableBytes uint64
	// QueriesPerSecond is recent load of the ranges whose leases the node has, WritesPerSecond that of all its replicas, for the allocator.
	QueriesPerSecond, WritesPerSecond float64
	// Unknown are fields that a later version wrote; they are passed on.
	Unknown wire.Unknown
}

// Entry is what a node says about itself.
type Entry struct {
	Node  kv.NodeID
	Store kv.StoreID
	// Addr is where other nodes reach it; SQLAddr and HTTPAddr are for clients.
	Addr, SQLAddr, HTTPAddr string
	Locality                Locality
	// Attributes are words that the operator gave the node and its store, such as ssd (ParseAttributes).
	Attributes []string
	Build      string
	StartedAt  time.Time
	Capacity   Capacity
	// Protected, if not zero, is at or below the timestamps at which the node's transactions read: what they may see is
	// not garbage. It is told with some delay, and not while it is only seconds old.
	Protected clock.Timestamp
	// Draining and Decommissioning ask others not to move leases, or replicas, to the node.
	Draining, Decommissioning bool
	// Slow tells others that writes have waited long for the node's disk lately.
	Slow bool
	// Full tells others that the node's disk is nearly full.
	Full bool
	// Start and Token name the run of the node's process, and Position how far its store had come (package fence).
	Start, Token, Position uint64
	// Versions are what the node's binary can do, and the version that it acts by.
	Versions version.Said

	// Life orders the starts of a node, Revision the changes within one. Package cluster sets both.
	Life, Revision uint64
	// Unknown are fields that a later version wrote; they are passed on.
	Unknown wire.Unknown
}

// newer reports whether e was said after o.
func (e *Entry) newer(life, revision uint64) bool {
	return e.Life > life || e.Life == life && e.Revision > revision
}

// maxText bounds every string of an entry.
const maxText = 1 << 12

func text(r *wire.Reader) string {
	b := r.Bytes()
	if len(b) > maxText {
		r.Malformed()
		return ""
	}
	return string(b)
}

func appendEntry(b []byte, e *Entry) []byte {
	b = wire.Uint(b, 1, uint64(e.Node))
	b = wire.Uint(b, 3, uint64(e.Store))
	b = wire.Uint(b, 5, e.Life)
	b = wire.Uint(b, 7, e.Revision)
	b = wire.String(b, 9, e.Addr)
	b = wire.Uint(b, 11, e.Versions.Own.Uint64())
	b = wire.Uint(b, 13, e.Versions.Oldest.Uint64())
	b = wire.Uint(b, 15, e.Versions.Acting.Uint64())
	// Versions that the node reads may not be collected.
	b = wire.Timestamp(b, 17, e.Protected)
	b = wire.Uint(b, 19, e.Start)
	b = wire.Fixed64(b, 21, e.Token)
	b = wire.Uint(b, 23, e.Position)
	b = wire.String(b, 2, e.SQLAddr)
	b = wire.String(b, 4, e.HTTPAddr)
	for i := range e.Locality {
		var at int
		b, at = wire.Begin(b, 6)
		b = wire.End(appendTier(b, &e.Locality[i]), at)
	}
	b = wire.String(b, 8, e.Build)
	b = wire.Int(b, 10, e.StartedAt.UnixNano())
	b = wire.Bool(b, 12, e.Draining)
	b = wire.Bool(b, 14, e.Decommissioning)
	b = wire.Bool(b, 16, e.Slow)
	b = wire.Bool(b, 18, e.Full)
	for _, a := range e.Attributes {
		b = wire.Element(b, 22, []byte(a))
	}
	b, at := wire.Begin(b, 20)
	b = wire.End(appendCapacity(b, &e.Capacity), at)
	return e.Unknown.Append(b)
}

func readEntry(r *wire.Reader, e *Entry) {
	e.StartedAt = time.Unix(0, 0).UTC()
	for m := r.Open("cluster.Entry"); r.Next(&m); {
		switch r.Field() {
		case 1:
			e.Node = kv.NodeID(r.Uint32())
		case 2:
			e.SQLAddr = text(r)
		case 3:
			e.Store = kv.StoreID(r.Uint32())
		case 4:
			e.HTTPAddr = text(r)
		case 5:
			e.Life = r.Uint()
		case 6:
			readTier(r, wire.Grow(r, (*[]Tier)(&e.Locality)))
		case 7:
			e.Revision = r.Uint()
		case 8:
			e.Build = text(r)
		case 9:
			e.Addr = text(r)
		case 10:
			e.StartedAt = time.Unix(0, r.Int()).UTC()
		case 11:
			e.Versions.Own = version.From(r.Uint())
		case 12:
			e.Draining = r.Bool()
		case 13:
			e.Versions.Oldest = version.From(r.Uint())
		case 14:
			e.Decommissioning = r.Bool()
		case 15:
			e.Versions.Acting = version.From(r.Uint())
		case 16:
			e.Slow = r.Bool()
		case 17:
			e.Protected = r.Timestamp()
		case 18:
			e.Full = r.Bool()
		case 19:
			e.Start = r.Uint()
		case 20:
			readCapacity(r, &e.Capacity)
		case 21:
			e.Token = r.Fixed64()
		case 22:
			*wire.Grow(r, &e.Attributes) = text(r)
		case 23:
			e.Position = r.Uint()
		default:
			r.Keep(&e.Unknown)
		}
	}
	if e.Node == 0 {
		r.Malformed()
	}
}

func appendTier(b []byte, t *Tier) []byte { return wire.String(wire.String(b, 1, t.Key), 3, t.Value) }

func readTier(r *wire.Reader, t *Tier) {
	for m := r.Open("cluster.Tier"); r.Next(&m); {
		switch r.Field() {
		case 1:
			t.Key = text(r)
		case 3:
			t.Value = text(r)
		default:
			r.Refuse()
		}
	}
}

func appendCapacity(b []byte, c *Capacity) []byte {
	b = wire.Uint(wire.Uint(b, 1, uint64(c.Ranges)), 3, uint64(c.Leases))
	b = wire.Uint(wire.Uint(b, 5, c.UsedBytes), 7, c.AvailableBytes)
	b = wire.Fixed64(b, 9, math.Float64bits(c.QueriesPerSecond))
	b = wire.Fixed64(b, 2, math.Float64bits(c.WritesPerSecond))
	return c.Unknown.Append(b)
}

func readCapacity(r *wire.Reader, c *Capacity) {
	for m := r.Open("cluster.Capacity"); r.Next(&m); {
		switch r.Field() {
		case 1:
			c.Ranges = r.Uint32()
		case 3:
			c.Leases = r.Uint32()
		case 5:
			c.UsedBytes = r.Uint()
		case 7:
			c.AvailableBytes = r.Uint()
		case 2:
			c.WritesPerSecond = math.Float64frombits(r.Fixed64())
		case 9:
			c.QueriesPerSecond = math.Float64frombits(r.Fixed64())
		default:
			r.Keep(&c.Unknown)
		}
	}
}
