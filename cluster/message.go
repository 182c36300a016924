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

func (p *ping) fields(c *wire.Coder) {
	c.Message("cluster.Ping", wire.Skips)
	wire.Opt(c, 1, &p.entry, (*Entry).fields)
	wire.Opt(c, 3, &p.record, (*Liveness).fields)
	wire.List(c, 5, &p.digest, (*known).fields)
	c.Bool(2, &p.brief)
	c.Bool(4, &p.contradicts)
}

func (k *known) fields(c *wire.Coder) {
	c.Message("cluster.Known", wire.Skips)
	wire.Uint32(c, 1, &k.node)
	wire.Uint64(c, 3, &k.life)
	wire.Uint64(c, 5, &k.revision)
	wire.Uint64(c, 7, &k.incarnation)
	c.Timestamp(9, &k.expiration)
}

func (p *pong) fields(c *wire.Coder) {
	c.Message("cluster.Pong", wire.Skips)
	instant(c, 1, &p.wall)
	wire.Large(c, 3, &p.entries, func(e **Entry, c *wire.Coder) {
		if *e == nil {
			*e = &Entry{}
		}
		(*e).fields(c)
	}, func(**Entry) int { return 0x80 })
	wire.List(c, 5, &p.records, (*Liveness).fields)
	c.Bool(2, &p.brief)
	c.String(4, &p.source)
	wire.Int64(c, 6, &p.epsilon)
}
