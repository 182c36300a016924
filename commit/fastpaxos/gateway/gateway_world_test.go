package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/commit/fastpaxos/replica"
	shape "meridian/core"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/route"
	"meridian/sim"
)

// A small world for gateways: acceptors in memory, five regions with their distances (or three of them, or two more for voters), messages that are delayed, lost and overtake each other, and
// records of transactions that other protocols take part in.

// trips are round trips between five regions in milliseconds.
var trips = [5][5]time.Duration{
	{1, 60, 80, 140, 160},
	{60, 1, 70, 120, 220},
	{80, 70, 1, 200, 240},
	{140, 120, 200, 1, 110},
	{160, 220, 240, 110, 1},
}

// further are round trips from each of the five regions, and between them, to two more.
var further = [2][7]time.Duration{{30, 40, 100, 130, 180, 1, 150}, {120, 170, 200, 250, 300, 150, 1}}

// trip is the round trip between two of the seven.
func trip(a, b int) time.Duration {
	if a, b = min(a, b), max(a, b); b >= len(trips) {
		return further[b-len(trips)][a] * time.Millisecond
	}
	return trips[a][b] * time.Millisecond
}

type lab struct {
	voters   int        // of each range
	mu       sync.Mutex // guards all below
	dice     *rand.Rand
	descs    []*kv.RangeDescriptor
	replicas map[core.Place]map[kv.ReplicaID]*core.Acceptor
	loss     float64
	jitter   time.Duration
	records  map[kv.TxnID]kv.Txn
	dead     map[kv.ReplicaID]bool
	kinds    map[core.Kind]int
	batches  int                  // that have arrived
	splits   int                  // that were begun
	asked    int                  // of one gateway by another
	ballots  map[core.Ballot]bool // that were prepared
	mistake  string
	gateways map[kv.NodeID]*gateway
	// bases are what the last generation of a record's range has left, and logs the versions that were added since.
	bases map[string]*core.Record
	logs  map[core.Place]*labLog
	// replaced are versions that bases had before, and ends what replicas knew when generations ended.
	replaced map[string][]core.Value
	ends     map[kv.ReplicaID]*core.Generations
	// promised is up to when replicas of a generation have promised something to readers: the next one's floor is above it.
	promised map[core.Place]clock.Timestamp
	// mute replicas take messages in, and their answers are lost.
	unheard time.Duration // when it is known that a replica is dead; set at the beginning
	mute    bool
	// policy is that of all records, and leader the node near which classic masters are, zero if nobody knows.
	policy  core.Policy
	leader  kv.NodeID
	dropped int // records that acceptors have dropped
	reigned map[core.Ballot]bool
	inTerm  int          // states that were dictated in terms
	marked  int          // reads with a term's promise
	slow    kv.ReplicaID // one that applies nothing
	cut     int          // a gateway that reaches no replica
	renewed int          // generations that were begun because terms wanted it
	// away is a range none of whose replicas answers.
	away kv.RangeID
	// ages are how long ago a replica has heard from a quorum, and doubts what it says of rows that may be old.
	ages   map[kv.ReplicaID]time.Duration
	doubts map[string]core.StaleRow
	// news are those of acceptors' stores, and ignorant is the first break of fastpaxos.FP85.
	news     map[*core.Acceptor]*labNews
	ignorant string
}

func newLab(seed uint64, borders ...string) *lab { return newLabOf(5, seed, borders...) }

// anyLab has three voters, five or seven.
func anyLab(seed uint64, borders ...string) *lab {
	return newLabOf([]int{5, 3, 7}[rand.New(rand.NewPCG(seed, 11)).IntN(3)], seed, borders...)
}

func newLabOf(voters int, seed uint64, borders ...string) *lab {
	w := &lab{voters: voters, dice: rand.New(rand.NewPCG(seed, 7)), replicas: map[core.Place]map[kv.ReplicaID]*core.Acceptor{}, records: map[kv.TxnID]kv.Txn{}, dead: map[kv.ReplicaID]bool{}, bases: map[string]*core.Record{}, logs: map[core.Place]*labLog{}, replaced: map[string][]core.Value{}, ends: map[kv.ReplicaID]*core.Generations{},
		news: map[*core.Acceptor]*labNews{}, kinds: map[core.Kind]int{}, gateways: map[kv.NodeID]*gateway{}, ballots: map[core.Ballot]bool{}, reigned: map[core.Ballot]bool{}, promised: map[core.Place]clock.Timestamp{}}
	w.mu.Lock()
	defer w.mu.Unlock()
	start := keys.Key("a")
	for i, b := range append(borders, "zz") {
		d := &kv.RangeDescriptor{ID: kv.RangeID(i + 1), Start: start, End: keys.Key(b), Generation: 3, Protocol: kv.FastPaxos}
		w.replicas[core.PlaceOf(d)] = map[kv.ReplicaID]*core.Acceptor{}
		for r := kv.ReplicaID(1); r <= kv.ReplicaID(voters); r++ {
			d.Replicas = append(d.Replicas, kv.ReplicaDescriptor{Node: kv.NodeID(r), Replica: r, Type: kv.Voter})
			w.acceptors(d)[r] = w.labAcceptor(d, r, clock.Timestamp{})
		}
		w.descs, start = append(w.descs, d), d.End
	}
	return w
}

// labAcceptor has a store of its own.
func (w *lab) labAcceptor(d *kv.RangeDescriptor, at kv.ReplicaID, floor clock.Timestamp) *core.Acceptor {
	a, n := core.NewAcceptor(core.QuorumsIn(d), plain{}, nil, 0), replica.NewNews(replica.NewsOptions{Host: &host.Host{Clock: sim.NewClock()}})
	a.Begin(core.Beginning{Generation: d.Generation, Floor: floor, Marks: &core.Marks{}, Listener: n.Attach(d, kv.NodeID(at), a)})
	w.news[a] = &labNews{n, map[string]map[core.Name]bool{}, map[string]bool{}, 0}
	return a
}

// labNews is what an acceptor was asked about, and what its store has told.
type labNews struct {
	news  *replica.News
	asked map[string]map[core.Name]bool // options by key, until the record knows their outcome
	told  map[string]bool
	read  uint64 // items so far
}

// hears finds an option that an acceptor takes for heard of, though the record has neither it nor its outcome, and the row does not count as one that lacks it; and one that it has accepted, or executed, and does not tell
// others of. base is what the generation has begun with.
func (w *lab) hears(a *core.Acceptor, q *core.Request, base *core.Record) {
	k, r, x := string(q.Key), a.Record(q.Key), w.news[a]
	all := x.asked[k]
	if all == nil {
		all = map[core.Name]bool{}
		x.asked[k] = all
	}
	if q.Kind == core.Propose || q.Kind == core.End || q.Kind == core.Show {
		all[q.Option.Name] = true
	}
	for i := range r.Votes {
		all[r.Votes[i].Name] = true
	}
	x.read = x.news.Told(x.read, func(k keys.Key, name core.Name) { x.told[string(k)+name.At.String()+string(name.Txn[:])] = true })
	for name := range all {
		known, lacks := x.news.Heard(w.desc(q.Key).ID, q.Key, name)
		v := r.Vote(name)
		_, added := r.Addition(name)
		switch {
		case r.Outcome(name) == core.Past || base.Vote(name) != nil || base.Outcome(name) != core.Undecided || w.ignorant != "":
			delete(all, name) // all replicas have begun the generation with it
		case known && !lacks && !r.Covers(name):
			w.ignorant = fmt.Sprintf("after %s: %s %v is taken for heard of: %s", q.Kind, k, name, show(r))
		case !x.told[k+name.At.String()+string(name.Txn[:])] && (v != nil && v.Verdict == core.Accepted || added):
			w.ignorant = fmt.Sprintf("after %s: others are not told of %s %v: %s", q.Kind, k, name, show(r))
		case r.Outcome(name) != core.Undecided:
			delete(all, name)
		}
	}
}

// lose makes a replica fail, or come back.
func (w *lab) lose(r kv.ReplicaID, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead[r] = lost
}

// acceptors are the replicas of a range. The caller has locked the lab, in which the others go on.
func (w *lab) acceptors(d *kv.RangeDescriptor) map[kv.ReplicaID]*core.Acceptor {
	if w.mu.TryLock() {
		panic("the lab is not locked")
	}
	return w.replicas[core.PlaceOf(d)]
}

func (w *lab) desc(k keys.Key) *kv.RangeDescriptor {
	for _, d := range w.descs {
		if d.Contains(k) {
			return d
		}
	}
	return w.descs[len(w.descs)-1]
}

// serve is one replica.
func (w *lab) serve(d *kv.RangeDescriptor, r kv.ReplicaID, b *kv.Batch) (*kv.BatchResponse, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead[r] || w.away == d.ID {
		return nil, &kv.UnavailableError{Reason: "dead"}
	}
	if now := w.desc(d.Start); now.Protocol != kv.FastPaxos {
		return nil, &kv.ProtocolError{Range: now.ID, Protocol: now.Protocol, Desc: now}
	}
	w.batches++
	a := w.acceptors(d)[r]
	if a == nil {
		return nil, &kv.GenerationError{Range: d.ID, Desc: w.desc(d.Start)}
	}
	out := &kv.BatchResponse{}
	for _, one := range b.Requests {
		q, err := core.DecodeRequest(one.(*kv.ProtocolRequest).Body)
		if err != nil {
			return nil, err
		}
		if q.Kind == core.Read {
			if i := slices.IndexFunc(q.Look.Keys, func(k keys.Key) bool { return !d.Contains(k) }); i >= 0 {
				return nil, &kv.RangeMismatchError{Span: keys.Span{Start: q.Look.Keys[i]}} // as a replica does
			}
		}
		if q.Kind == core.Read && !q.Look.At.IsZero() {
			l, err := a.LookBack(&labSource{w, a, d, r}, q.LookIn(d.Generation), d.Span())
			if err != nil {
				return nil, err
			}
			if !q.Look.Term.Default() {
				w.marked++
			}
			w.promised[core.PlaceOf(d)] = w.promised[core.PlaceOf(d)].Forward(q.Look.At)
			out.Responses = append(out.Responses, &kv.ProtocolResponse{Body: (&core.Reply{Looked: &l}).Append(nil)})
			continue
		}
		if q.Kind == core.Read && q.Look.Base {
			l := &core.Looked{}
			if q.Generation == d.Generation {
				v := w.baseAt(d, r, q.Key).Base
				l.Applied, l.Rows = w.applied(d, r), []core.Row{{Key: q.Key, Value: v.Data, Seen: core.Seen{Base: v.At}, Last: v.At}}
			}
			if w.mistake == "bases are old" {
				l.Applied += 1000
			}
			out.Responses = append(out.Responses, &kv.ProtocolResponse{Body: (&core.Reply{Looked: l}).Append(nil)})
			continue
		}
		if q.Kind == core.Read {
			out.Responses = append(out.Responses, &kv.ProtocolResponse{Body: (&core.Reply{Looked: w.look(d, r, a, q.Look)}).Append(nil)})
			continue
		}
		if !d.Contains(q.Key) {
			return nil, &kv.RangeMismatchError{Span: keys.Span{Start: q.Key}}
		}
		w.kinds[q.Kind]++
		switch q.Kind {
		case core.Prepare:
			w.ballots[q.Ballot] = true
		case core.Reign:
			if !q.Renew {
				w.reigned[q.Ballot] = true
			}
		case core.Dictate:
			if w.reigned[q.Ballot] {
				w.inTerm++
			}
		}
		if !a.Knows(q.Key) {
			a.Load(q.Key, w.baseAt(d, r, q.Key))
		}
		if q.Kind == core.Reign {
			q.Beside = &core.Beside{Applied: w.applied(d, r)}
			for k, g := range w.bases {
				if d.Contains(keys.Key(k)) && !g.Default() {
					q.Beside.Apart = append(q.Beside.Apart, core.NameOf(k))
				}
			}
		}
		if w.mistake == "everything is accepted" && q.Kind == core.Propose {
			g := a.Record(q.Key)
			q.Option.Seen = g.Seen()
		}
		a.Step(clock.Timestamp{}, shape.Call[core.Request, core.Reply]{Request: &q})
		w.hears(a, &q, w.baseAt(d, r, q.Key))
		fx := a.Effects()
		if fx.Ticket != 0 {
			a.Durable(fx.Ticket)
		}
		for _, m := range append(append(fx.Send, fx.After...), a.Effects().Send...) {
			if m.Reply.Reigned != nil && w.mistake == "no record is apart" {
				m.Reply.Reigned.Apart = nil
			}
			out.Responses = append(out.Responses, &kv.ProtocolResponse{Body: m.Reply.Append(nil)})
		}
	}
	return out, nil
}

// labLog has the versions that executed updates have added to the base of a range, in a generation, and up to where each replica has them.
type labLog struct {
	entries []core.Final
	has     map[kv.ReplicaID]int
}

func (w *lab) log(d *kv.RangeDescriptor) *labLog {
	l := w.logs[core.PlaceOf(d)]
	if l == nil {
		l = &labLog{has: map[kv.ReplicaID]int{}}
		w.logs[core.PlaceOf(d)] = l
	}
	return l
}

func (w *lab) applied(d *kv.RangeDescriptor, r kv.ReplicaID) uint64 {
	return uint64(10 + w.log(d).has[r])
}

// baseAt is what a replica's base has of a record.
func (w *lab) baseAt(d *kv.RangeDescriptor, r kv.ReplicaID, k keys.Key) *core.Record {
	v := w.base(k)
	l := w.log(d)
	for _, e := range l.entries[:l.has[r]] {
		if e.Key.Equal(k) && v.Base.At.Less(e.At) {
			v = v.Clone()
			v.Learn(&core.Record{Base: e.Value})
		}
	}
	return v
}

// absorb has some versions get into the base of a range, and the replicas apply some of its log, and drop what they need not keep.
func (w *lab) absorb(at int, now clock.Timestamp) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.descs[at%len(w.descs)]
	all, l := w.acceptors(d), w.log(d)
	if all == nil {
		return
	}
	for _, v := range all[kv.ReplicaID(1+w.dice.IntN(w.voters))].Final(1 << 20) {
		if !slices.ContainsFunc(l.entries, func(e core.Final) bool { return e.Key.Equal(v.Key) && v.At.LessEq(e.At) }) {
			l.entries = append(l.entries, v)
		}
	}
	for r := kv.ReplicaID(1); r <= kv.ReplicaID(w.voters); r++ {
		if r == w.slow {
			continue
		}
		if w.dice.IntN(2) == 0 {
			l.has[r] += w.dice.IntN(len(l.entries) - l.has[r] + 1)
		}
		if w.dice.IntN(2) == 0 {
			w.tend(d, r, all[r], now)
		}
	}
	for _, a := range all {
		if a.Crowded() {
			w.renewed++
			w.changeAt(at%len(w.descs), false)
			return
		}
	}
}

// tend has an acceptor tend its records on a base in memory.
func (w *lab) tend(d *kv.RangeDescriptor, r kv.ReplicaID, a *core.Acceptor, now clock.Timestamp) {
	for k, g := range a.Records() { // at once, and not after a while
		a.Renew(keys.Key(k), g, w.baseAt(d, r, keys.Key(k)).Base)
		g.Forget(now.Add(-core.Remembered))
	}
	n := recordsOf(a)
	if err := a.Tend(&labSource{w, a, d, r}, now); err != nil {
		panic(err)
	}
	w.dropped += n - recordsOf(a)
	a.Effects()
}

func recordsOf(a *core.Acceptor) (n int) {
	for range a.Records() {
		n++
	}
	return n
}

// Load implements View.
func (s *labSource) Load(k keys.Key) (*core.Record, error) { return s.base(k).Clone(), nil }

// Latest implements View.
func (s *labSource) Latest(k keys.Key) (core.Value, error) { return s.base(k).Base, nil }

// labSource has one version of each row.
type labSource struct {
	w *lab
	a *core.Acceptor
	d *kv.RangeDescriptor
	r kv.ReplicaID
}

func (s *labSource) base(k keys.Key) *core.Record {
	if s.d == nil {
		return s.w.base(k)
	}
	return s.w.baseAt(s.d, s.r, k)
}

func (s *labSource) Record(k keys.Key) (*core.Record, error) {
	if r := s.base(k); !r.Default() {
		return r.Clone(), nil
	}
	return nil, nil
}

func (s *labSource) At(k keys.Key, t clock.Timestamp) (core.Value, bool, error) {
	v := s.base(k).Base
	return v, v.At.LessEq(t), nil
}

func (s *labSource) First(k keys.Key) (*core.Record, error) { return s.w.base(k).Clone(), nil }

func (s *labSource) Seen(k keys.Key, t clock.Timestamp) (newest core.Value, err error) {
	all := append(slices.Clone(s.w.replaced[string(k)]), s.w.base(k).Base, s.base(k).Base)
	for _, v := range all {
		if v.At.LessEq(t) && newest.At.Less(v.At) {
			newest = v
		}
	}
	return newest, nil
}

func (s *labSource) Apart(span keys.Span) (map[string]*core.Record, error) {
	out := map[string]*core.Record{}
	for k, r := range s.w.bases {
		if span.Contains(keys.Key(k)) && !r.Default() {
			out[k] = s.base(keys.Key(k)).Clone()
		}
	}
	for k, r := range s.a.Records() {
		if span.Contains(keys.Key(k)) {
			out[k] = r
		}
	}
	return out, nil
}

func (s *labSource) Scan(span keys.Span, q *core.Look) (rows []kv.KeyValue, resume *keys.Span, err error) {
	var ks []keys.Key
	for _, k := range s.w.based(s.d) {
		if r := s.base(k); r.Base.Data != nil && span.Contains(k) && r.Base.At.LessEq(q.At) {
			ks = append(ks, k)
		}
	}
	sortKeys(ks, q.Reverse)
	for i, k := range ks {
		if q.Max > 0 && i == int(q.Max) {
			resume = &keys.Span{Start: k, End: span.End}
			if q.Reverse {
				resume = &keys.Span{Start: span.Start, End: k.Next()}
			}
			break
		}
		v := s.base(k).Base
		rows = append(rows, kv.KeyValue{Key: k, Value: v.Data, Timestamp: v.At})
	}
	return rows, resume, nil
}

// based are the keys that the base of some replica may have.
func (w *lab) based(d *kv.RangeDescriptor) (out []keys.Key) {
	for k := range w.bases {
		out = append(out, keys.Key(k))
	}
	if d != nil {
		for _, e := range w.log(d).entries {
			if !slices.ContainsFunc(out, e.Key.Equal) {
				out = append(out, e.Key)
			}
		}
	}
	return out
}

func (w *lab) base(k keys.Key) *core.Record {
	if r := w.bases[string(k)]; r != nil {
		return r
	}
	return &core.Record{}
}

func (w *lab) look(d *kv.RangeDescriptor, at kv.ReplicaID, a *core.Acceptor, q *core.Look) *core.Looked {
	out := &core.Looked{}
	ks := q.Keys
	if ks == nil {
		span := q.Span
		for k, r := range a.Records() {
			if (r.Base.Data != nil || q.Open) && span.Contains(keys.Key(k)) {
				ks = append(ks, keys.Key(k))
			}
		}
		for _, k := range w.based(d) {
			b := w.baseAt(d, at, k)
			if (b.Base.Data != nil || q.Open && !b.Default()) && span.Contains(k) && a.Record(k) == nil {
				ks = append(ks, k)
			}
		}
		sortKeys(ks, q.Reverse)
		if n := int(q.Max); n > 0 && len(ks) > n {
			rest := span
			if q.Reverse {
				rest.End = ks[n-1]
			} else {
				rest.Start = ks[n-1].Next()
			}
			ks, out.Resume = ks[:n], &rest
		}
	}
	out.Age = w.ages[at]
	for _, k := range ks {
		if row, ok := w.doubts[string(k)]; ok && at == 1 {
			row.Key = k
			out.Stale = append(out.Stale, row)
		}
		r := a.Record(k)
		if r == nil {
			r = w.baseAt(d, at, k)
		}
		for i := range r.Votes {
			if v := &r.Votes[i]; q.Open && v.Verdict == core.Accepted {
				out.Open = append(out.Open, core.Outstanding{Key: k, Option: core.Option{Name: v.Name, Keys: v.Keys, Anchor: v.Anchor}})
			}
		}
		if r.Behind() {
			out.Behind = append(out.Behind, k)
			continue
		}
		row, _ := r.Row(k, plain{})
		out.Rows = append(out.Rows, row)
	}
	return out
}

// gateway is a node in a region with a Client, and the Sender of it.
type gateway struct {
	w      *lab
	id     int
	client *Client
	host   *host.Host
	cancel context.CancelFunc
	ctx    context.Context
	leads  kv.NodeID // as far as it has heard
}

func (w *lab) gateway(seed uint64, id int) *gateway {
	g := &gateway{w: w, id: id}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	c := sim.NewClock()
	g.host = &host.Host{Clock: c, Dice: sim.NewDice(seed, fmt.Sprint("gateway", id)), Group: host.NewGroup(g.ctx),
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	g.client = NewClient(ClientOptions{Sender: g, Clock: clock.New(c, clock.DefaultMaxOffset), Host: g.host, NodeID: func() kv.NodeID { return kv.NodeID(id) }, Columns: plain{}, Peers: g, Policy: func(keys.Key) core.Policy { return w.policy }})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gateways[kv.NodeID(id)] = g
	return g
}

// Leaseholder implements Leaders.
func (g *gateway) Leaseholder(_ context.Context, _ keys.Key, fresh bool) (kv.NodeID, error) {
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	if g.leads == 0 || fresh {
		g.leads = g.w.leader
	}
	return g.leads, nil
}

// Region implements Regions.
func (*gateway) Region(n kv.NodeID) string { return fmt.Sprint((n - 1) % 5) }

// politics has one world of four keep its records for other reasons than the others do: each policy, with masters near each of the gateways, or nowhere.
func (w *lab) politics(seed uint64) {
	w.policy, w.leader = core.Policy{Ballots: core.Ballots(seed % 4), Gamma: 1 + int(seed/4%7)}, kv.NodeID(seed/4%6)
}

// waver has messages take up to so much longer.
func (w *lab) waver(jitter time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jitter = jitter
}

// way is one from this gateway to a region. The message may be lost on it.
func (g *gateway) way(to int) (lost bool) {
	w := g.w
	w.mu.Lock()
	t := trip(g.region(), to) / 2
	if w.jitter > 0 {
		t += time.Duration(w.dice.Int64N(int64(w.jitter)))
	}
	lost = w.dice.Float64() < w.loss
	w.mu.Unlock()
	time.Sleep(t)
	return lost
}

// Ask implements Peers.
func (g *gateway) Ask(ctx context.Context, to kv.NodeID, msg []byte) ([]byte, error) {
	type answer struct {
		b   []byte
		err error
	}
	out := make(chan answer, 1)
	go func() {
		g.w.mu.Lock()
		other := g.w.gateways[to]
		g.w.asked++
		g.w.mu.Unlock()
		if other == nil || g.way(other.region()) || other.ctx.Err() != nil {
			return
		}
		b, err := other.client.Serve(ctx, kv.NodeID(g.id), msg)
		if g.ctx.Err() == nil && other.ctx.Err() == nil && !g.way(other.region()) {
			out <- answer{b, err}
		}
	}()
	select {
	case a := <-out:
		return a.b, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-g.ctx.Done():
		return nil, g.ctx.Err()
	}
}

// counted is how many terms were asked for, how many generations readers wanted, and how many replicas were read with a term's promise.
func (w *lab) counted() (terms, renewed, marked int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.reigned), w.renewed, w.marked
}

// got is how many messages of a kind acceptors have got.
func (w *lab) got(k core.Kind) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.kinds[k]
}

func isUnavailable(err error) bool {
	var u *kv.UnavailableError
	return errors.As(err, &u)
}

func (g *gateway) region() int { return (g.id - 1) % 5 }

// call is one message and its answer, either of which may be lost.
func (g *gateway) call(d *kv.RangeDescriptor, r kv.ReplicaID, b *kv.Batch) (*kv.BatchResponse, error) {
	w := g.w
	way := func() bool { return g.way(int(r - 1)) }
	w.mu.Lock()
	gone := g.ctx.Err() != nil && w.dice.IntN(2) == 0 // what a gateway sends at the moment when it dies reaches some
	w.mu.Unlock()
	w.mu.Lock()
	cut := w.cut == g.id
	w.mu.Unlock()
	if gone || way() || cut {
		time.Sleep(300 * time.Millisecond)
		return nil, &kv.UnavailableError{Reason: "lost"}
	}
	w.mu.Lock()
	mute := w.mute
	w.mu.Unlock()
	resp, err := w.serve(d, r, b)
	if isUnavailable(err) {
		time.Sleep(w.unheard)
	}
	if way() || mute {
		time.Sleep(300 * time.Millisecond)
		return nil, &kv.UnavailableError{Reason: "lost"}
	}
	return resp, err
}

func (g *gateway) Range(_ context.Context, k keys.Key, _ bool) (kv.RangeInfo, error) {
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	return kv.RangeInfo{Desc: *g.w.desc(k).Clone(), Leaseholder: kv.ReplicaDescriptor{Node: g.leads}}, nil
}

// All implements Sender. The messages to the ranges of a node are lost, and arrive, one by one.
func (g *gateway) All(ctx context.Context, f *route.Fan) error {
	end := func() {
		if f.Ended != nil {
			f.Ended()
		}
	}
	if g.ctx.Err() != nil {
		end()
		return g.ctx.Err()
	}
	type answer struct {
		i int
		route.Answer
	}
	var early []answer
	n := 0
	answers := make(chan answer, g.w.voters*len(f.Batches))
	for i, b := range f.Batches {
		g.w.mu.Lock()
		d := g.w.desc(b.Requests[0].Span().Start)
		g.w.mu.Unlock()
		if at := slices.IndexFunc(b.Requests, func(q kv.Request) bool { return !d.Contains(q.Span().Start) }); at >= 0 {
			early = append(early, answer{i, route.Answer{Err: &kv.RangeMismatchError{Span: b.Requests[at].Span()}}})
			continue
		}
		for _, r := range d.Replicas {
			n++
			go func() {
				resp, err := g.call(d, r.Replica, b)
				answers <- answer{i, route.Answer{Desc: d, From: r, Resp: resp, Err: err}}
			}()
		}
	}
	more := true
	for _, a := range early {
		more = more && f.Answer(a.i, a.Answer)
	}
	var err error
	for n > 0 && more {
		select {
		case a := <-answers:
			n--
			more = f.Answer(a.i, a.Answer)
		case <-f.Wake:
			more = f.More()
		case <-ctx.Done():
			err, more = ctx.Err(), false
		case <-g.ctx.Done():
			err, more = g.ctx.Err(), false
		}
	}
	go func() {
		defer end()
		for range n {
			select {
			case a := <-answers:
				if f.Late != nil {
					f.Late(a.i, a.Answer)
				}
			case <-g.ctx.Done():
				return
			}
		}
	}()
	return err
}

func (g *gateway) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	if g.ctx.Err() != nil {
		return nil, g.ctx.Err()
	}
	switch q := b.Requests[0].(type) {
	case *kv.QueryTxnRequest:
		time.Sleep(50 * time.Millisecond)
		g.w.mu.Lock()
		defer g.w.mu.Unlock()
		t, ok := g.w.records[q.Txn.ID]
		return &kv.BatchResponse{Responses: []kv.Response{&kv.QueryTxnResponse{Exists: ok, Txn: t}}}, nil
	case *kv.AdminRecallRequest:
		time.Sleep(50 * time.Millisecond)
		g.w.mu.Lock()
		defer g.w.mu.Unlock()
		d := g.w.desc(q.Key)
		if d.Protocol == q.Protocol {
			return nil, &kv.ProtocolError{Range: d.ID, Protocol: d.Protocol, Desc: d}
		}
		asked, err := core.DecodeRequest(q.Body)
		if err != nil {
			return nil, err
		}
		r := core.Reply{Outcome: g.w.base(q.Key).Outcome(asked.Option.Name)}
		return &kv.BatchResponse{Responses: []kv.Response{&kv.ProtocolResponse{Body: r.Append(nil)}}}, nil
	case *kv.PushTxnRequest:
		time.Sleep(50 * time.Millisecond)
		g.w.mu.Lock()
		defer g.w.mu.Unlock()
		t, ok := g.w.records[q.Pushee.ID]
		if !ok {
			t = kv.Txn{TxnMeta: q.Pushee, Status: kv.Aborted}
			g.w.records[q.Pushee.ID] = t
		}
		return &kv.BatchResponse{Responses: []kv.Response{&kv.PushTxnResponse{Pushee: t}}}, nil
	}
	out := &kv.BatchResponse{}
	for _, q := range b.Requests {
		for i := 0; ; i++ {
			// The nearest one, or the next one.
			r := kv.ReplicaID((g.region()+i)%g.w.voters + 1)
			g.w.mu.Lock()
			d := g.w.desc(q.Span().Start)
			g.w.mu.Unlock()
			if p, ok := q.(*kv.ProtocolRequest); ok && !p.Reads {
				time.Sleep(slices.Sorted(slices.Values(trips[g.region()][:]))[1] * time.Millisecond) // another voter is told first (fence.FE5)
			}
			resp, err := g.call(d, r, &kv.Batch{Requests: []kv.Request{q}})
			if err == nil {
				out.Responses = append(out.Responses, resp.Responses...)
				break
			}
			if i > 20 || ctx.Err() != nil || g.ctx.Err() != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func (w *lab) show(k string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := ""
	for r := kv.ReplicaID(1); r <= kv.ReplicaID(w.voters); r++ {
		if g := w.acceptors(w.desc(keys.Key(k)))[r].Record(keys.Key(k)); g != nil {
			out += fmt.Sprintf("  r%d %s\n", r, show(g))
		}
	}
	return out
}

// change seals a range, and opens its next generation, or those of two ranges, from what a quorum of the sealed replicas reports.
func (w *lab) change(split bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changeAt(w.dice.IntN(len(w.descs)), split)
}

func (w *lab) changeAt(at int, split bool) {
	d := w.descs[at]
	sealed := w.acceptors(d)
	if sealed == nil {
		return // it is being changed
	}
	delete(w.replicas, core.PlaceOf(d))
	for r, a := range sealed {
		if w.ends[r] == nil {
			w.ends[r] = &core.Generations{}
		}
		if w.mistake == "retained states are lost" {
			a = core.NewAcceptor(core.QuorumsIn(d), plain{}, nil, 0)
		}
		w.ends[r].Keep(d, 0, d.Generation, a)
	}
	for _, e := range w.log(d).entries {
		if v := w.base(e.Key); v.Base.At.Less(e.At) {
			w.replaced[string(e.Key)] = append(w.replaced[string(e.Key)], v.Base) // a base has all of its versions
			v = v.Clone()
			v.Learn(&core.Record{Base: e.Value})
			w.bases[string(e.Key)] = v
		}
	}
	var quorum []*core.Acceptor
	for _, r := range w.dice.Perm(w.voters)[:core.QuorumsIn(d).Classic] {
		quorum = append(quorum, sealed[kv.ReplicaID(r+1)])
	}
	known := map[string]bool{}
	for _, a := range quorum {
		for k := range a.Records() {
			known[k] = true
		}
	}
	floor := w.promised[core.PlaceOf(d)].Forward(clock.Timestamp{Wall: time.Now().UnixNano()})
	base := map[string]*core.Record{}
	for k := range known {
		var reports []*core.Record
		for _, a := range quorum {
			r := a.Record(keys.Key(k))
			if r == nil {
				r = w.bases[k]
			}
			if r == nil {
				r = &core.Record{}
			}
			if floor = floor.Forward(r.Last()); a.Record(keys.Key(k)) != nil {
				r = r.Clone()
				r.Learn(&core.Record{Base: w.base(keys.Key(k)).Base})
			}
			reports = append(reports, r)
		}
		base[k] = core.Next(reports, core.QuorumsIn(d), plain{})
		base[k].Floor = clock.Timestamp{}
	}
	pause := time.Duration(w.dice.Int64N(int64(300 * time.Millisecond)))
	now := []*kv.RangeDescriptor{d.Clone()}
	if split && len(w.descs) < 5 {
		if k := keys.Key(fmt.Sprint("k", w.dice.IntN(6))); d.Contains(k) && !k.Equal(d.Start) {
			right := d.Clone()
			w.splits++ // another range may be divided at the same time
			right.ID, right.Start, now[0].End = kv.RangeID(100+w.splits), k, k
			now = append(now, right)
		}
	}
	time.AfterFunc(pause, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for k, r := range base {
			w.replaced[k] = append(w.replaced[k], w.base(keys.Key(k)).Base)
			w.bases[k] = r
		}
		for i, n := range now {
			n.Generation = d.Generation + 1
			if i == 0 {
				w.descs[at] = n
			} else {
				w.descs = append(w.descs, n)
			}
			w.replicas[core.PlaceOf(n)] = map[kv.ReplicaID]*core.Acceptor{}
			for r := kv.ReplicaID(1); r <= kv.ReplicaID(w.voters); r++ {
				a := w.labAcceptor(n, r, floor)
				if w.mistake != "nothing is kept" {
					me, _ := n.Replica(kv.NodeID(r))
					w.ends[r].Resume(n, me, n.Generation, a)
				}
				w.acceptors(n)[r] = a
			}
		}
	})
}

// leave gives a range the leader protocol: what a quorum has accepted of transactions that write nowhere else is committed, and the outcomes are kept, as settle does.
func (w *lab) leave(at int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.descs[at].Clone()
	sealed := w.acceptors(d)
	reports := map[string][]*core.Record{}
	for r := kv.ReplicaID(1); r <= kv.ReplicaID(core.QuorumsIn(d).Classic); r++ {
		for k, g := range sealed[r].Records() {
			reports[k] = append(reports[k], g)
		}
	}
	for k, all := range reports {
		for len(all) < core.QuorumsIn(d).Classic {
			all = append(all, w.base(keys.Key(k)))
		}
		g := core.Next(all, core.QuorumsIn(d), plain{})
		for _, v := range slices.Clone(g.Votes) {
			g.End(&v.Option, true)
		}
		w.bases[k] = &core.Record{Base: g.Base, Recent: g.Recent}
	}
	delete(w.replicas, core.PlaceOf(d))
	d.Generation, d.Protocol = d.Generation+1, kv.Leader
	w.descs[at] = d
}
