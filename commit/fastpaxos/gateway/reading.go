package gateway

import (
	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
)

// Answers of replicas to a read at a timestamp, put together.

// reading puts the answers of replicas together.
type reading struct {
	q     *core.Look
	in    core.Place
	sizes core.Quorums
	// promisers are replicas that have promised, refusers those that have not. settled says that no promise is needed (fastpaxos.FP96).
	promisers, refusers int
	settled             bool
	// termed have promised a term whose master has not promised, of a span; latestTerm is the latest of these.
	termed       int
	latestTerm   core.Ballot
	newer, since clock.Timestamp
	// nodes have said what the latest option is that they have heard of, and last is the latest of these.
	nodes map[kv.NodeID]bool
	last  clock.Timestamp
	rows  map[string]*pastRecord
	// covered is the part of the span that all of them have read.
	covered keys.Span
}

// pastRecord is what is known of one row.
type pastRecord struct {
	key keys.Key
	core.Record
	// tellers are replicas that have told of it; old ones do not know the version, busy ones have it at a master, rested ones neither.
	tellers, old, busy, rested int
	// differ: not all have the same version.
	differ bool
}

func newReading(q *core.Look) *reading { return &reading{q: q} }

// need is how many answers are enough for a record that no master has been asked about.
func (m *reading) need() int {
	if m.settled {
		return m.sizes.Classic
	}
	return m.sizes.Reading()
}

// begin begins anew in a generation.
func (m *reading) begin(d *kv.RangeDescriptor) {
	*m = reading{q: m.q, in: core.PlaceOf(d), sizes: core.QuorumsIn(d), rows: map[string]*pastRecord{}, covered: m.q.Span}
	for _, k := range m.q.Keys {
		m.rows[string(k)] = &pastRecord{key: k}
	}
}

// from takes in which option the node of an answer's replica has heard of last.
func (m *reading) from(d *kv.RangeDescriptor, id kv.ReplicaID, l *core.Looked) {
	if l.Heard.IsZero() {
		return // its release does not
	}
	for _, r := range d.Replicas {
		if r.Replica == id {
			if m.nodes == nil {
				m.nodes = map[kv.NodeID]bool{}
			}
			m.nodes[r.Node], m.last = true, m.last.Forward(l.Heard)
		}
	}
}

// take takes in the answer of a replica.
func (m *reading) take(l *core.Looked) {
	if m.newer, m.since = m.newer.Forward(l.Newer), m.since.Forward(l.Since); l.Old {
		m.refusers++
		return
	}
	if !l.Term.Default() {
		m.termed++
		m.latestTerm = m.latestTerm.Later(l.Term)
		if m.q.Keys == nil {
			return // of rows that it has not found it says nothing
		}
	}
	m.promisers++
	m.settled = m.settled || l.Settled
	if l.Resume != nil && m.q.Keys == nil {
		if m.q.Reverse && m.covered.Start.Less(l.Resume.End) {
			m.covered.Start = l.Resume.End
		} else if !m.q.Reverse && l.Resume.Start.Less(m.covered.End) {
			m.covered.End = l.Resume.Start
		}
	}
	for i := range l.Past {
		p := &l.Past[i]
		r := m.rows[string(p.Key)]
		if r == nil {
			r = &pastRecord{key: p.Key}
			m.rows[string(p.Key)] = r
		}
		switch r.tellers++; {
		case p.Old:
			r.old++
		case p.Busy:
			r.busy++
		default:
			r.rested++
		}
		if p.Old {
			continue
		}
		if r.Base.At != p.Record.Base.At {
			r.differ = r.differ || r.tellers > 1
			if r.Base.At.Less(p.Record.Base.At) {
				r.Rebase(p.Record.Base, false)
			}
		}
		for _, a := range p.Record.Added {
			r.Execute(a)
		}
		for _, v := range p.Record.Votes {
			if r.Vote(v.Name) == nil {
				r.Votes = append(r.Votes, v)
			}
		}
	}
}

// unread are the rows for which the answers are not enough: of which no quorum is complete, or a master may not know of the promise; and those of which some replicas know nothing, and others something: a
// row of which a replica knows nothing may be deleted there.
func (m *reading) unread(closed map[string]bool) (old, busy, unsure []keys.Key) {
	for k, r := range m.rows {
		if m.q.Keys == nil && !m.covered.Contains(r.key) {
			continue
		}
		silent := m.promisers - r.tellers // they know of no version and no option
		switch {
		case closed[k] && silent+r.rested+r.busy < m.sizes.Classic || silent+r.rested+r.busy < m.need() && !closed[k]:
			old = append(old, r.key)
		case !closed[k] && silent+r.rested < m.need():
			busy = append(busy, r.key)
		case m.q.Keys == nil && silent > 0:
			unsure = append(unsure, r.key)
		}
	}
	return old, busy, unsure
}

// pastOptions are options of which a quorum has said that they are past, each with its record's key.
type pastOptions map[pastOption]bool

type pastOption struct {
	key string
	core.Name
}

// note notes an option, and reports whether it is a new one: an earlier answer about the record's state may lack what the option has written (fastpaxos.FP98).
func (p pastOptions) note(k keys.Key, n core.Name) (anew bool) {
	anew = !p[pastOption{string(k), n}]
	p[pastOption{string(k), n}] = true
	return anew
}
