package cluster

import (
	"time"

	"meridian/clock"
	"meridian/kv"
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

// ping is a node's half of an exchange. A node that has no id yet leaves entry out.
type ping struct {
	entry  *Entry
	record *Liveness
	digest []known
}

// pong answers with what the digest lacks, and the wall clock at which it was written.
type pong struct {
	wall    time.Time
	entries []*Entry
	records []Liveness
}

func (p *ping) append(b []byte) []byte {
	w := writer{b}
	w.bools(p.entry != nil, p.record != nil)
	if p.entry != nil {
		w.entry(p.entry)
	}
	if p.record != nil {
		w.liveness(p.record)
	}
	w.uint(uint64(len(p.digest)))
	for _, k := range p.digest {
		w.uint(uint64(k.node))
		w.uint(k.life)
		w.uint(k.revision)
		w.uint(k.incarnation)
		w.ts(k.expiration)
	}
	return w.b
}

func decodePing(b []byte) (*ping, error) {
	r := reader{b: b}
	p := &ping{}
	flags := r.uint()
	if flags&1 != 0 {
		p.entry = r.entry()
	}
	if flags&2 != 0 {
		l := r.liveness()
		p.record = &l
	}
	n := r.count()
	p.digest = make([]known, 0, n)
	for range n {
		if r.bad {
			break
		}
		p.digest = append(p.digest, known{
			node: kv.NodeID(r.uint32()), life: r.uint(), revision: r.uint(), incarnation: r.uint(), expiration: r.ts(),
		})
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *pong) append(b []byte) []byte {
	w := writer{b}
	w.int(p.wall.UnixNano())
	w.uint(uint64(len(p.entries)))
	for _, e := range p.entries {
		w.entry(e)
	}
	w.uint(uint64(len(p.records)))
	for i := range p.records {
		w.liveness(&p.records[i])
	}
	return w.b
}

func decodePong(b []byte) (*pong, error) {
	r := reader{b: b}
	p := &pong{wall: time.Unix(0, r.int())}
	for range r.count() {
		if r.bad {
			break
		}
		p.entries = append(p.entries, r.entry())
	}
	for range r.count() {
		if r.bad {
			break
		}
		p.records = append(p.records, r.liveness())
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return p, nil
}
