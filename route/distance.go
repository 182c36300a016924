package route

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"meridian/cluster"
	"meridian/commit/protocol"
	"meridian/keys"
	"meridian/kv"
)

// WideArea is the round trip above which a node of another region is far. Nodes of one region never are.
const WideArea = 5 * time.Millisecond

// unmeasured is the round trip to a node of another region to which none was measured yet; chosen by us.
const unmeasured = 50 * time.Millisecond

// maxMeasured bounds the ranges that Distance looks at; further ones are taken to be where the others are.
const maxMeasured = 256

// Distance is how far the ranges of a span are from this gateway, as far as it has them in its cache.
type Distance struct {
	// Leaseholder is the round trip to the farthest leaseholder. Sum is the sum of those to all leaseholders that are far, and Ranges how many these are.
	// Nearest is the round trip to the nearest replica, of the range where that is longest.
	Leaseholder, Sum, Nearest time.Duration
	Ranges                    int
	// Farthest stands for the round trip from a leaseholder to its farthest replica, of the range where that is longest. This gateway knows its own round trips only, so it is
	// that to the farther of the two.
	Farthest time.Duration
	// Quorum is the least time that the leaseholders wait for replicas in other regions to agree to a write; WideQuorum: they do.
	Quorum     time.Duration
	WideQuorum bool
	// Regions are those of the leaseholders that are far.
	Regions []string
	// Commit is how long a commit in ranges without leaseholders takes, of the range where that is longest: CommitRounds rounds to quorums. For these ranges Leaseholder and
	// Nearest are the way to the nearest voter, which serves reads. CommitRegions are the regions of the far voters in the nearest quorums.
	Commit        time.Duration
	CommitRounds  int
	CommitRegions []string
	// Unknown: a part of the span is not in the cache.
	Unknown bool
}

// Quorums are the sizes of a range's quorums, in a protocol that commits without a leaseholder. Reading is how many replicas promise something to a reader at a timestamp.
type Quorums struct{ Replicas, Fast, Classic, Reading int }

// alive answers which nodes are up; *cluster.Cluster does.
type alive interface {
	Live(kv.NodeID) bool
}

// localities answers where nodes are; *cluster.Cluster does.
type localities interface {
	Get(kv.NodeID) (cluster.Entry, bool)
}

// Region is a node's region; empty if it is not known.
func (s *Sender) Region(n kv.NodeID) string {
	if m, ok := s.o.Members.(localities); ok {
		e, _ := m.Get(n)
		return e.Locality.Region()
	}
	return ""
}

// trip is the round trip to a node; one in the region of this one is never wide.
func (s *Sender) trip(n kv.NodeID) time.Duration {
	self := s.o.NodeID()
	if n == self || s.o.Members == nil {
		return 0
	}
	near := s.Region(n) == s.Region(self) // also if both are unknown
	d, ok := s.o.Members.Latency(n)
	switch {
	case near:
		return min(d, WideArea)
	case !ok:
		return unmeasured
	}
	return d
}

// farFor is how long an answer of Far holds: it is asked for each statement that is planned.
const farFor = time.Second

// Far reports whether any node is far from this one, or was a moment ago.
func (s *Sender) Far() bool {
	if s.o.Members == nil {
		return false
	}
	now := int64(s.o.Host.Clock.Monotonic())
	if at := s.farAt.Load(); at == 0 || now-at > int64(farFor) {
		s.far.Store(slices.ContainsFunc(s.o.Members.Nodes(), func(e cluster.Entry) bool { return s.trip(e.Node) > WideArea }))
		s.farAt.Store(now)
	}
	return s.far.Load()
}

// Distance measures a span of addresses. It asks the cache alone, and sends nothing.
func (s *Sender) Distance(span keys.Span) Distance { return s.DistanceAt(span, AtNearest) }

// Asked is how many replicas of ranges without leaseholders a read asks.
type Asked uint8

// AtNearest is one, AtMajority a classic quorum, and AtTimestamp as many as promise something to a reader at a timestamp.
const (
	AtNearest Asked = iota
	AtMajority
	AtTimestamp
)

// DistanceAt is Distance where ranges without leaseholders are as far as the last one of the replicas that are asked. The rows of a table whose protocol has no leaseholders are in such ranges: others of its span,
// before its first index and behind its last, are empty, and don't count. While a table gets such a protocol, those that have not got it yet don't count either.
func (s *Sender) DistanceAt(span keys.Span, asked Asked) (d Distance) {
	l := s.cache.load()
	i := sort.Search(len(l), func(i int) bool { return span.Start.Less(l[i].desc.End) })
	within := l[i:]
	for n := range within {
		if n == maxMeasured || !within[n].desc.Start.Less(span.End) {
			within = within[:n]
			break
		}
	}
	leaderless := func(e *entry) bool {
		_, ok := s.quorums(e.desc)
		return ok
	}
	alone := slices.ContainsFunc(within, leaderless)
	at := span.Start
	for _, e := range within {
		d.Unknown = d.Unknown || at.Less(e.desc.Start)
		at = e.desc.End
		if !alone || leaderless(e) {
			d.add(s, e, asked)
		}
	}
	d.Unknown = d.Unknown || at.Less(span.End)
	return d
}

// quorums are those of a range whose protocol has no leaseholders; false: it has one, or is not known here.
func (s *Sender) quorums(desc *kv.RangeDescriptor) (q Quorums, ok bool) {
	if protocol.Leased(desc.Protocol) || s.o.Quorums == nil {
		return q, false
	}
	return s.o.Quorums(desc)
}

// Quorums are the sizes of the quorums of a span's ranges that have no leaseholders, as far as they are in the cache, each once.
func (s *Sender) Quorums(span keys.Span) (out []Quorums) {
	l := s.cache.load()
	i := sort.Search(len(l), func(i int) bool { return span.Start.Less(l[i].desc.End) })
	for n := 0; i < len(l) && l[i].desc.Start.Less(span.End) && n < maxMeasured; i, n = i+1, n+1 {
		if q, ok := s.quorums(l[i].desc); ok && !slices.Contains(out, q) {
			out = append(out, q)
		}
	}
	return out
}

// Masters is what a commit takes if masters at the leaseholders of its ranges decide about it.
type Masters struct {
	// Trip is the way to the leaseholder, and from there to a majority, as far as that is known (Distance.Quorum), of the range where that is longest; Rounds is how many of
	// the two are far.
	Trip   time.Duration
	Rounds int
	// Regions are the leaseholders', as far as they are known, and Far those of them that are far.
	Regions, Far []string
}

// Masters measures the ranges of a span whose commits need no leaseholder, as Distance does: it asks the cache alone.
func (s *Sender) Masters(span keys.Span) (m Masters) {
	l := s.cache.load()
	i := sort.Search(len(l), func(i int) bool { return span.Start.Less(l[i].desc.End) })
	for n := 0; i < len(l) && l[i].desc.Start.Less(span.End) && n < maxMeasured; i, n = i+1, n+1 {
		if _, ok := s.quorums(l[i].desc); ok {
			m.add(s, l[i])
		}
	}
	return m
}

// add adds a range. As long as its leaseholder is not known, the nearest voter counts, which would be asked first.
func (m *Masters) add(s *Sender, e *entry) {
	at := e.leaseholder()
	region := s.Region(at)
	if at != 0 && region != "" && !slices.Contains(m.Regions, region) {
		m.Regions = append(m.Regions, region)
	}
	if at == 0 {
		var nearest time.Duration
		for _, r := range e.desc.Replicas {
			if trip := s.trip(r.Node); r.Type.Votes() && (at == 0 || trip < nearest) {
				at, nearest = r.Node, trip
			}
		}
		region = s.Region(at)
	}
	wait, rounds := s.trip(at), 0
	if wait > WideArea {
		if rounds++; !slices.Contains(m.Far, region) {
			m.Far = append(m.Far, region)
		}
	}
	if q, wide := s.quorum(e.desc, at); wide {
		wait, rounds = wait+q, rounds+1
	}
	m.Trip, m.Rounds = max(m.Trip, wait), max(m.Rounds, rounds)
}

// masterRounds are those of a commit whose proposals no fast quorum can answer: the master's question, at the same time as the proposals, and what it has decided.
const masterRounds = 2

// leaderless adds a range without a leaseholder: reads go to the nearest voter, or to a quorum of them, and commits to a fast quorum, or, if too few voters are up,
// to a classic one by a master.
func (d *Distance) leaderless(s *Sender, desc *kv.RangeDescriptor, q Quorums, at Asked) {
	type voter struct {
		node kv.NodeID
		trip time.Duration
	}
	var all, live []voter
	up, knows := s.o.Members.(alive)
	for _, r := range desc.Replicas {
		if r.Type.Votes() && !r.Witness {
			v := voter{r.Node, s.trip(r.Node)}
			if all = append(all, v); !knows || r.Node == s.o.NodeID() || up.Live(r.Node) {
				live = append(live, v)
			}
		}
	}
	rounds, size := 1, q.Fast
	switch {
	case len(live) >= q.Fast:
	case len(live) >= q.Classic:
		rounds, size = masterRounds, q.Classic
	default:
		live = all // old news, or nothing can be done
	}
	if len(live) == 0 {
		return
	}
	slices.SortFunc(live, func(a, b voter) int { return cmp.Compare(a.trip, b.trip) })
	asked := live[:1]
	switch at {
	case AtMajority:
		asked = live[:min(q.Classic, len(live))]
	case AtTimestamp:
		asked = live[:min(q.Reading, len(live))]
	}
	near := asked[len(asked)-1].trip
	d.Leaseholder, d.Nearest = max(d.Leaseholder, near), max(d.Nearest, near)
	if near > WideArea {
		d.Sum += near
		d.Ranges++
	}
	for _, v := range asked {
		if r := s.Region(v.node); v.trip > WideArea && !slices.Contains(d.Regions, r) {
			d.Regions = append(d.Regions, r)
		}
	}
	quorum := live[:min(size, len(live))]
	d.CommitRounds = max(d.CommitRounds, rounds)
	d.Commit = max(d.Commit, time.Duration(rounds)*quorum[len(quorum)-1].trip)
	for _, v := range quorum {
		if r := s.Region(v.node); v.trip > WideArea && !slices.Contains(d.CommitRegions, r) {
			d.CommitRegions = append(d.CommitRegions, r)
		}
	}
}

// add adds a range. If its leaseholder is not known, the nearest voter counts, which would be asked first.
func (d *Distance) add(s *Sender, e *entry, at Asked) {
	if q, ok := s.quorums(e.desc); ok {
		d.leaderless(s, e.desc, q, at)
		return
	}
	nearest, voter := time.Duration(-1), kv.NodeID(0)
	var asked time.Duration
	for _, r := range e.desc.Replicas {
		if r.Witness {
			continue
		}
		t := s.trip(r.Node)
		if nearest < 0 || t < nearest {
			nearest = t
		}
		if r.Type.Votes() && (voter == 0 || t < asked) {
			voter, asked = r.Node, t
		}
	}
	if lh := e.leaseholder(); lh != 0 {
		voter, asked = lh, s.trip(lh)
	}
	if voter == 0 {
		return
	}
	d.Leaseholder, d.Nearest = max(d.Leaseholder, asked), max(d.Nearest, nearest)
	for _, r := range e.desc.Replicas {
		if r.Full() {
			d.Farthest = max(d.Farthest, s.trip(r.Node))
		}
	}
	if asked > WideArea {
		d.Sum += asked
		d.Ranges++
		if r := s.Region(voter); !slices.Contains(d.Regions, r) {
			d.Regions = append(d.Regions, r)
		}
	}
	if q, ok := s.quorum(e.desc, voter); ok {
		d.Quorum, d.WideQuorum = max(d.Quorum, q), true
	}
}

// quorum is how long a leaseholder waits, at least, for replicas in other regions to agree to a write; ok is false if a quorum is in its own
// region. This gateway has measured the way to both only, so of a leaseholder far away the difference of the two counts.
func (s *Sender) quorum(desc *kv.RangeDescriptor, leaseholder kv.NodeID) (d time.Duration, ok bool) {
	home, to := s.Region(leaseholder), s.trip(leaseholder)
	var others []time.Duration // round trips from the leaseholder
	for _, r := range desc.Replicas {
		switch {
		case !r.Type.Votes() || r.Node == leaseholder:
		case s.Region(r.Node) == home:
			others = append(others, 0)
		case to <= WideArea:
			others = append(others, s.trip(r.Node))
		default:
			others = append(others, max((s.trip(r.Node)-to).Abs(), WideArea+1))
		}
	}
	if len(others) == 0 {
		return 0, false
	}
	slices.SortFunc(others, cmp.Compare[time.Duration])
	d = others[(len(others)+1)/2-1] // of n voters, n/2 have to agree with the leaseholder
	return d, d > WideArea
}
