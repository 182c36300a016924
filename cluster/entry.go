package cluster

import (
	"slices"
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

func text(c *wire.Coder, n uint32, v *string) {
	if c.String(n, v); !c.Writing() && len(*v) > maxText {
		c.Malformed()
	}
}

// instant is a time in nanoseconds. Zero, which is not written, is one as well.
func instant(c *wire.Coder, n uint32, t *time.Time) {
	var ns int64
	if c.Writing() {
		ns = t.UnixNano()
	} else if c.At() != n && !t.IsZero() {
		return
	}
	if wire.Int64(c, n, &ns); !c.Writing() {
		*t = time.Unix(0, ns).UTC()
	}
}

func (e *Entry) fields(c *wire.Coder) {
	c.Message("cluster.Entry", wire.Skips)
	wire.Uint32(c, 1, &e.Node)
	wire.Uint32(c, 3, &e.Store)
	wire.Uint64(c, 5, &e.Life)
	wire.Uint64(c, 7, &e.Revision)
	text(c, 9, &e.Addr)
	wire.As(c, 11, &e.Versions.Own, version.Version.Uint64, version.From)
	wire.As(c, 13, &e.Versions.Oldest, version.Version.Uint64, version.From)
	wire.As(c, 15, &e.Versions.Acting, version.Version.Uint64, version.From)
	c.Timestamp(17, &e.Protected) // versions that the node reads may not be collected
	wire.Uint64(c, 19, &e.Start)
	c.Fixed64(21, &e.Token)
	wire.Uint64(c, 23, &e.Position)
	text(c, 2, &e.SQLAddr)
	text(c, 4, &e.HTTPAddr)
	wire.List(c, 6, (*[]Tier)(&e.Locality), (*Tier).fields)
	text(c, 8, &e.Build)
	instant(c, 10, &e.StartedAt)
	c.Bool(12, &e.Draining)
	c.Bool(14, &e.Decommissioning)
	c.Bool(16, &e.Slow)
	c.Bool(18, &e.Full)
	c.Strings(22, &e.Attributes)
	wire.One(c, 20, &e.Capacity, (*Capacity).fields)
	c.Unknown(&e.Unknown)
	if c.Complete() && (e.Node == 0 || slices.ContainsFunc(e.Attributes, func(a string) bool { return len(a) > maxText })) {
		c.Malformed()
	}
}

func (t *Tier) fields(c *wire.Coder) {
	c.Message("cluster.Tier", wire.Refuses)
	text(c, 1, &t.Key)
	text(c, 3, &t.Value)
}

func (x *Capacity) fields(c *wire.Coder) {
	c.Message("cluster.Capacity", wire.Skips)
	wire.Uint32(c, 1, &x.Ranges)
	wire.Uint32(c, 3, &x.Leases)
	wire.Uint64(c, 5, &x.UsedBytes)
	wire.Uint64(c, 7, &x.AvailableBytes)
	c.Float64(9, &x.QueriesPerSecond)
	c.Float64(2, &x.WritesPerSecond)
	c.Unknown(&x.Unknown)
}
