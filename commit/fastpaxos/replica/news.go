package replica

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
)

// How old the rows are that a replica answers reads of the default level with. A gateway tells all replicas what it has committed; one that was cut off from it, or whose gateway has died, may not hear. So the stores
// of a range's voters tell each other, every hearEvery, of which options they have heard since the last time:
//
//	store R                                            store P, which has a voter of the same range
//	hear: all since number n    -------------------->
//	                            <--------------------  option o of row k: accepted
//	R has not heard of o: row k lacks it                accepted, or executed without a vote, or aborted
//	here, until R hears its outcome
//
//	fastpaxos.FP85 (read committed): A transaction whose client has an answer was accepted, option by option, by a replica of each classic quorum of the record. A replica that has heard from so many other
//	    voters that they are a classic quorum with it, each asked at t or later, has heard of each option of the transactions that were answered before t: it has executed it, or has it as a vote, or
//	    counts the row as one that lacks it. A vote that rejects an option, and one that a master's proposal has replaced, do not count: the master may accept the option elsewhere. The replica tells a reader the latest such t, and the rows that lack something, or of which a vote is old. A gateway reads these freshly (fastpaxos.FP82), and all rows
//	    where t is too long ago; unless it reaches no quorum: then it gives what there is.
//	fastpaxos.FP86 (read committed): A store that has not heard from another one's process before, or too long ago for that one to remember, asks for all that the replicas of a range have accepted, or executed, and that is not in
//	    their base; and takes the answer for complete when its own base is as new as theirs. Until then that one does not count for the range. From then on each record that was loaded before is compared with the base
//	    before it is read: a version that it has missed is in the base alone.

// Chosen by us.
const (
	// hearEvery is the pause between two questions to a store.
	hearEvery = 250 * time.Millisecond
	// newsMost bounds what a store remembers to tell others: about ten seconds of a loaded one.
	newsMost = 1 << 15
	// knownFor is for how long, at least, a store knows an option that it has heard of without looking at the record; knownMost bounds their number.
	knownFor, knownMost = 10 * time.Second, 1 << 18
	// lackingMost bounds the rows of a range that are known to lack something. If there are more, the range counts as one that has heard nothing.
	lackingMost = 1 << 12
	// newsItemSize is about how long an item is when it is sent, without its key.
	newsItemSize = 48
	// voteYoung is how old a vote is at least to be told of.
	voteYoung = 50 * time.Millisecond
	// lackMended is how long it has known that when it asks a quorum.
	lackMended = 3 * time.Second
	// checkedAtOnce bounds the rows that are checked for one range at the same time.
	checkedAtOnce = 8
	// hearWithin bounds the wait for a store's answer, and checkWithin the check of a row that lacks something.
	hearWithin, checkWithin = time.Second, 20 * time.Second
)

// ErrNoNews says that a node is of a release whose stores do not tell each other: it counts as one that was heard, since its own release promises no more.
var ErrNoNews = errors.New("fastpaxos: the node's release has no news")

// newsKind says what a store has heard of an option.
type newsKind uint8

const (
	accepted newsKind = iota + 1
	carriedOut
	aborted
)

// newsItem is what a store tells of an option.
type newsItem struct {
	Range kv.RangeID
	Kind  newsKind
	Key   keys.Key
	Name  core.Name
}

// hear asks for the items from a number on, of a process of the other store, and for all that the replicas of some ranges have.
type hear struct {
	Incarnation, Next uint64
	Want              []uint64
}

// tidings answers it. Lost says that some items are forgotten. Complete are the ranges all of whose items are among those here.
type tidings struct {
	Incarnation, Next uint64
	Lost              bool
	Items             []newsItem
	Complete          []completeNews
}

// completeNews is a range that has told all, and up to which index its log is in its base.
type completeNews struct {
	Range   kv.RangeID
	Applied uint64
}

// NewsOptions are what a News is made of.
type NewsOptions struct {
	Host *host.Host
	// NodeID is zero until the node has one.
	NodeID func() kv.NodeID
	// Ask asks another node's News (Serve). ErrNoNews: its release has none.
	Ask func(ctx context.Context, to kv.NodeID, msg []byte) ([]byte, error)
	// Check, if not nil, finds out what became of an option of which a row here has heard nothing for a while, and has all replicas hear it. lacks: the row here lacks it still.
	Check func(ctx context.Context, k keys.Key, n core.Name) (lacks bool, err error)
}

// News is a store's part in this: what its replicas have heard, and what those of others have.
type News struct {
	o    NewsOptions
	seed maphash.Seed

	mu sync.Mutex // guards the fields below; nothing is taken after it
	// incarnation tells one process of the store from another; zero: to be drawn.
	incarnation uint64
	// items are the last ones, of which that with number n is at n % newsMost; next is the next one's number.
	items []newsItem
	next  uint64
	// known are options that were heard of in the present and in the last part of time, by their hashes.
	known, before map[uint64]struct{}
	swapped       time.Duration
	// latest is the latest timestamp of an option that was heard of.
	latest  clock.Timestamp
	ranges  map[kv.RangeID]*rangeNews
	peers   map[kv.NodeID]*newsPeer
	running bool
}

// newsPeer is another node's store.
type newsPeer struct {
	incarnation, next uint64
	asking            bool
}

// teller is the participant of a range as News knows it.
type teller interface {
	// tell gives what the replica has accepted or executed and is not in its base, and up to which index its log is in the base.
	tell() (items []newsItem, applied uint64, err error)
}

// rangeNews is one range's.
type rangeNews struct {
	n  *News
	id kv.RangeID
	// at is when the last of the others was asked that make a classic quorum with this replica, by the host's monotonic clock, zero if too few have answered. lacks is how many rows lack something.
	at    atomic.Int64
	lacks atomic.Int64
	// behind says that the base here is not known to be as new as what another node has told.
	behind atomic.Bool

	// The fields below are guarded by News.mu.
	t       teller
	quorum  int
	voters  []kv.NodeID
	heard   map[kv.NodeID]*heardOf
	lacking map[string][]lack
}

// heardOf is what another node has told of a range. complete: all, when the base here is as new as needs; at is when it was asked last.
type heardOf struct {
	complete bool
	needs    uint64
	at       time.Duration
}

// lack is an option of which a row has heard nothing here. From are the nodes that have told of it, since is when the first of them has. It ends when each of them has told anew, and not of this option: an answer
// counts by itself, so what another one has told stays.
type lack struct {
	name  core.Name
	from  []kv.NodeID
	since time.Duration
}

// NewNews makes a store's.
func NewNews(o NewsOptions) *News {
	return &News{o: o, seed: maphash.MakeSeed(), known: map[uint64]struct{}{}, ranges: map[kv.RangeID]*rangeNews{}, peers: map[kv.NodeID]*newsPeer{}}
}

// hash is that of an option, for this process alone.
func (n *News) hash(k keys.Key, name core.Name) uint64 {
	var b [len(name.Txn) + 12]byte
	copy(b[:], name.Txn[:])
	binary.LittleEndian.PutUint64(b[len(name.Txn):], uint64(name.At.Wall))
	binary.LittleEndian.PutUint32(b[len(name.Txn)+8:], uint32(name.At.Logical))
	return maphash.Bytes(n.seed, k) ^ maphash.Bytes(n.seed, b[:])
}

// join adds a range, or says that its voters are others; t is nil then. A nil News has none.
func (n *News) join(d *kv.RangeDescriptor, self kv.NodeID, t teller) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	g := n.ranges[d.ID]
	if g == nil && t == nil {
		return
	}
	if g == nil {
		g = &rangeNews{n: n, id: d.ID, heard: map[kv.NodeID]*heardOf{}, lacking: map[string][]lack{}}
		n.ranges[d.ID] = g
	}
	if t != nil {
		g.t = t
	}
	g.quorum, g.voters = core.QuorumsIn(d).Classic, nil
	for _, r := range d.Replicas {
		if r.Type.Votes() && r.Node != self {
			g.voters = append(g.voters, r.Node)
		}
	}
	g.count()
	if !n.running {
		n.running = n.o.Host.Group.Go(n.run)
	}
}

// of is a range's, nil if it has none.
func (n *News) of(id kv.RangeID) *rangeNews {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ranges[id]
}

// heardOf is the latest timestamp of an option that this process of the store has heard of; began is when the process began.
func (n *News) heardOf(began clock.Timestamp) clock.Timestamp {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.latest.Forward(began)
}

// leave removes a range, if it is still that participant's.
func (n *News) leave(id kv.RangeID, t teller) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if g := n.ranges[id]; g != nil && g.t == t {
		delete(n.ranges, id)
	}
}

// count finds out what at is. The caller has locked mu.
func (g *rangeNews) count() {
	var ats []time.Duration
	behind := false
	for _, v := range g.voters {
		if h := g.heard[v]; h != nil && h.complete && h.needs == 0 {
			ats = append(ats, h.at)
		} else if h != nil && h.complete {
			behind = true
		}
	}
	g.behind.Store(behind)
	at := time.Duration(0)
	if n := g.quorum - 1; n > 0 && len(ats) >= n && len(g.lacking) < lackingMost {
		slices.SortFunc(ats, func(a, b time.Duration) int { return int(b - a) })
		at = ats[n-1]
	}
	g.at.Store(int64(at))
	g.lacks.Store(int64(len(g.lacking)))
}

// note tells others of an option, if kind is not zero, and remembers that it was heard of here.
func (g *rangeNews) note(k keys.Key, name core.Name, kind newsKind) {
	if g == nil {
		return
	}
	n := g.n
	h := n.hash(k, name)
	n.mu.Lock()
	defer n.mu.Unlock()
	_, known := n.known[h]
	heard := known
	if !heard {
		_, heard = n.before[h]
	}
	if heard && kind == carriedOut {
		kind = 0 // it was accepted here before
	}
	if !known {
		n.known[h] = struct{}{}
	}
	n.latest = n.latest.Forward(name.At)
	if len(n.known) > knownMost {
		n.known, n.before = map[uint64]struct{}{}, n.known
	}
	if kind != 0 {
		n.append(newsItem{g.id, kind, slices.Clone(k), name})
	}
	if len(g.lacking) > 0 {
		g.hear(string(k), name)
	}
}

func (n *News) append(i newsItem) {
	if len(n.items) < newsMost {
		n.items = append(n.items, i)
	} else {
		n.items[n.next%newsMost] = i
	}
	n.next++
}

// hear takes an option out of those that a row lacks. The caller has locked mu.
func (g *rangeNews) hear(k string, name core.Name) {
	ls, ok := g.lacking[k]
	if !ok {
		return
	}
	if ls = slices.DeleteFunc(ls, func(l lack) bool { return l.name == name }); len(ls) > 0 {
		g.lacking[k] = ls
	} else {
		delete(g.lacking, k)
		g.lacks.Store(int64(len(g.lacking)))
	}
}

// Stepped notes what a step has changed of a record: base is the version that it had before, votes are those that it had before a master's proposal, and had says that it had a vote about the option.
// A replica that has rejected an option, or has not voted since the record has a master, has heard nothing of it: the master may decide otherwise, and this replica may not be told.
func (g *rangeNews) Stepped(kind core.Kind, q *core.Request, r *core.Record, base clock.Timestamp, votes []core.Vote, had bool) {
	switch kind {
	case core.Propose:
		if v := r.Vote(q.Option.Name); v != nil && v.Verdict == core.Accepted {
			g.note(q.Key, q.Option.Name, accepted)
		} else if r.Covers(q.Option.Name) {
			g.note(q.Key, q.Option.Name, 0)
		}
	case core.End, core.Show:
		switch {
		case q.Committed && r.Covers(q.Option.Name):
			g.note(q.Key, q.Option.Name, carriedOut)
		case q.Committed:
		case had:
			g.note(q.Key, q.Option.Name, aborted)
		default:
			g.note(q.Key, q.Option.Name, 0)
		}
	case core.Dictate:
		for i := range r.Votes {
			if v := &r.Votes[i]; v.Verdict == core.Accepted {
				g.note(q.Key, v.Name, carriedOut) // accepted, if that was not told before
			}
		}
		for i := range r.Added {
			g.note(q.Key, r.Added[i].Name, carriedOut)
		}
		if base.Less(r.Base.At) {
			g.note(q.Key, core.Name{At: r.Base.At}, carriedOut)
		}
		for i := range votes {
			if v := &votes[i]; v.Verdict == core.Accepted && !r.Covers(v.Name) && r.Outcome(v.Name) != core.Past {
				g.unhear(q.Key, v.Name)
			}
		}
	}
}

// unhear takes in that a master's proposal has taken the place of an accepted option, which may be accepted in another ballot, or another sequence, without this replica. Others may have told of it before.
func (g *rangeNews) unhear(k keys.Key, name core.Name) {
	if g == nil {
		return
	}
	n := g.n
	now := n.o.Host.Clock.Monotonic()
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.hash(k, name)
	delete(n.known, h)
	delete(n.before, h)
	ls := g.lacking[string(k)]
	if slices.ContainsFunc(ls, func(l lack) bool { return l.name == name }) || ls == nil && len(g.lacking) >= lackingMost {
		return
	}
	g.lacking[string(k)] = append(ls, lack{name, slices.Clone(g.voters), now})
	g.count()
}

// age is how old what this replica has heard is.
func (g *rangeNews) age(now time.Duration) time.Duration {
	if at := g.at.Load(); at != 0 {
		return now - time.Duration(at)
	}
	return math.MaxInt64
}

// lackingIn are the rows among those that a reader asks for which lack something. record gives one.
func (g *rangeNews) lackingIn(q *core.Look, now time.Duration, record func(keys.Key) (*core.Record, error)) (out []core.StaleRow, err error) {
	if g.lacks.Load() == 0 {
		return nil, nil
	}
	type found struct {
		key   keys.Key
		names []lack
	}
	var all []found
	g.n.mu.Lock()
	if q.Keys != nil {
		for _, k := range q.Keys {
			if ls := g.lacking[string(k)]; ls != nil {
				all = append(all, found{k, slices.Clone(ls)})
			}
		}
	} else {
		for k, ls := range g.lacking {
			if q.Span.Contains(keys.Key(k)) {
				all = append(all, found{keys.Key(k), slices.Clone(ls)})
			}
		}
	}
	g.n.mu.Unlock()
	if len(all) == 0 {
		return nil, nil
	}
	wall := g.n.o.Host.Clock.Now()
	slices.SortFunc(all, func(a, b found) int { return a.key.Compare(b.key) })
	for _, f := range all {
		r, err := record(f.key)
		if err != nil {
			return nil, err
		}
		lacks := time.Duration(-1)
		for _, l := range f.names {
			switch {
			case r.Covers(l.name):
				g.n.mu.Lock()
				g.hear(string(f.key), l.name)
				g.n.mu.Unlock()
			case r.Vote(l.name) == nil: // the age of a rejected option is told as that of a vote
				// An option that was heard of late counts by its own age: its client may have had the answer long ago.
				lacks = max(lacks, now-l.since, wall.Sub(time.Unix(0, l.name.At.Wall))-(core.VoteOld-core.LackOld))
			}
		}
		if lacks >= 0 {
			out = append(out, core.StaleRow{Key: f.key, For: lacks})
		}
	}
	return out, nil
}

// caughtUp takes the others' answers for complete for which the base here is new enough, and reports whether there were any.
func (g *rangeNews) caughtUp(src engine.Reader, applied func(engine.Reader) (uint64, error)) (some bool, err error) {
	if !g.behind.Load() {
		return false, nil
	}
	index, err := applied(src)
	if err != nil {
		return false, err
	}
	g.n.mu.Lock()
	defer g.n.mu.Unlock()
	for _, h := range g.heard {
		if h.needs > 0 && h.needs <= index {
			h.needs, some = 0, true
		}
	}
	g.count()
	return some, nil
}

// newsQuestion is what another store is asked.
type newsQuestion struct {
	to kv.NodeID
	q  hear
}

// run asks the others until the node stops.
func (n *News) run(ctx context.Context) {
	for n.o.Host.Clock.Sleep(ctx, hearEvery) == nil {
		now := n.o.Host.Clock.Monotonic()
		qs, check := n.questions(now)
		for _, x := range qs {
			if !n.o.Host.Group.Go(func(ctx context.Context) { n.ask(ctx, x.to, &x.q, now) }) {
				return
			}
		}
		for _, f := range check {
			if !n.o.Host.Group.Go(f) {
				return
			}
		}
	}
}

// questions are those of a moment, to all that are not being asked; check is what has to be looked after.
func (n *News) questions(now time.Duration) (qs []newsQuestion, check []func(context.Context)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.incarnation == 0 {
		n.incarnation = n.o.Host.Dice.Uint64() | 1
	}
	if now-n.swapped > knownFor {
		n.known, n.before, n.swapped = map[uint64]struct{}{}, n.known, now
	}
	asked := map[kv.NodeID][]*rangeNews{}
	for _, g := range n.ranges {
		for _, v := range g.voters {
			asked[v] = append(asked[v], g)
		}
		check = append(check, g.overdue(now)...)
	}
	for to, gs := range asked {
		p := n.peers[to]
		if p == nil {
			p = &newsPeer{}
			n.peers[to] = p
		}
		if p.asking {
			continue
		}
		p.asking = true
		x := newsQuestion{to: to, q: hear{Incarnation: p.incarnation, Next: p.next}}
		for _, g := range gs {
			if h := g.heard[to]; h == nil || !h.complete || p.incarnation == 0 {
				x.q.Want = append(x.q.Want, uint64(g.id))
			}
		}
		slices.Sort(x.q.Want)
		qs = append(qs, x)
	}
	return qs, check
}

// overdue are checks of what rows have lacked for long. The caller has locked mu.
func (g *rangeNews) overdue(now time.Duration) (out []func(context.Context)) {
	if g.n.o.Check == nil {
		return nil
	}
	for k, ls := range g.lacking {
		for i := range ls {
			l := ls[i]
			if now-l.since < lackMended || len(out) == checkedAtOnce {
				continue
			}
			ls[i].since = now - core.LackOld // again later
			out = append(out, func(ctx context.Context) {
				ctx, cancel := g.n.o.Host.Clock.WithTimeout(ctx, checkWithin)
				defer cancel()
				if lacks, err := g.n.o.Check(ctx, keys.Key(k), l.name); err == nil && !lacks {
					g.n.mu.Lock()
					g.hear(k, l.name)
					g.n.mu.Unlock()
				}
			})
		}
	}
	return out
}

// ask asks another store, and takes in its answer.
func (n *News) ask(ctx context.Context, to kv.NodeID, q *hear, now time.Duration) {
	ctx, cancel := n.o.Host.Clock.WithTimeout(ctx, hearWithin)
	defer cancel()
	b, err := n.o.Ask(ctx, to, q.Append(nil))
	var a tidings
	if err == nil {
		a, err = decodeTidings(b)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peers[to]
	p.asking = false
	switch {
	case errors.Is(err, ErrNoNews):
		for _, g := range n.ranges {
			if slices.Contains(g.voters, to) {
				g.heard[to] = &heardOf{complete: true, at: now}
				g.count()
			}
		}
		return
	case err != nil:
		return
	}
	if a.Lost {
		for _, g := range n.ranges {
			if h := g.heard[to]; h != nil && !slices.ContainsFunc(a.Complete, func(c completeNews) bool { return c.Range == g.id }) {
				h.complete = false
			}
		}
	}
	p.incarnation, p.next = a.Incarnation, a.Next
	for _, c := range a.Complete {
		if g := n.ranges[c.Range]; g != nil && slices.Contains(q.Want, uint64(c.Range)) {
			// Options that it told of before are among those that it tells of now, or have ended.
			for k, ls := range g.lacking {
				for i := range ls {
					ls[i].from = slices.DeleteFunc(ls[i].from, func(n kv.NodeID) bool { return n == to })
				}
				if ls = slices.DeleteFunc(ls, func(l lack) bool { return len(l.from) == 0 }); len(ls) > 0 {
					g.lacking[k] = ls
				} else {
					delete(g.lacking, k)
				}
			}
			g.heard[to] = &heardOf{complete: true, needs: c.Applied}
		}
	}
	for i := range a.Items {
		n.take(&a.Items[i], to, now)
	}
	for _, g := range n.ranges {
		if h := g.heard[to]; h != nil && h.complete {
			h.at = now
			g.count()
		}
	}
}

// take takes in what another store tells of an option.
func (n *News) take(i *newsItem, from kv.NodeID, now time.Duration) {
	g := n.ranges[i.Range]
	if g == nil {
		return
	}
	if i.Kind == aborted {
		g.hear(string(i.Key), i.Name)
		return
	}
	h := n.hash(i.Key, i.Name)
	if _, ok := n.known[h]; ok {
		return
	}
	if _, ok := n.before[h]; ok {
		return
	}
	ls := g.lacking[string(i.Key)]
	if len(g.lacking) >= lackingMost && ls == nil {
		return // count says that the range has heard nothing
	}
	at := slices.IndexFunc(ls, func(l lack) bool { return l.name == i.Name })
	if at < 0 {
		g.lacking[string(i.Key)] = append(ls, lack{i.Name, []kv.NodeID{from}, now})
	} else if !slices.Contains(ls[at].from, from) {
		ls[at].from = append(ls[at].from, from)
	}
}

// Serve answers what another node's News asks.
func (n *News) Serve(_ context.Context, _ kv.NodeID, msg []byte) ([]byte, error) {
	q, err := decodeHear(msg)
	if err != nil {
		return nil, err
	}
	var out tidings
	n.mu.Lock()
	// Options that are heard of from here on are told the next time, whether or not the replicas have told them now.
	if n.incarnation == 0 {
		n.incarnation = n.o.Host.Dice.Uint64() | 1
	}
	out.Incarnation, out.Next = n.incarnation, n.next
	n.mu.Unlock()
	for _, id := range q.Want {
		n.mu.Lock()
		var t teller
		if g := n.ranges[kv.RangeID(id)]; g != nil {
			t = g.t
		}
		n.mu.Unlock()
		if t == nil {
			continue
		}
		if items, applied, err := t.tell(); err == nil {
			out.Items, out.Complete = append(out.Items, items...), append(out.Complete, completeNews{kv.RangeID(id), applied})
		}
	}
	n.mu.Lock()
	if out.Lost = q.Incarnation != n.incarnation || q.Next > n.next || n.next-q.Next > uint64(len(n.items)); !out.Lost {
		out.Items = slices.Grow(out.Items, int(max(out.Next, q.Next)-q.Next))
		for i := q.Next; i < out.Next; i++ {
			out.Items = append(out.Items, n.items[i%newsMost])
		}
	}
	n.mu.Unlock() // items are immutable; no replica waits while they are encoded
	size := 64
	for i := range out.Items {
		size += len(out.Items[i].Key) + newsItemSize
	}
	return out.Append(make([]byte, 0, size)), nil
}

// Age is how long ago the last replica of a range here has heard from so many others that they are a quorum, of the range where that is longest; zero if there is no range of the protocol.
func (n *News) Age() (age time.Duration) {
	now := n.o.Host.Clock.Monotonic()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, g := range n.ranges {
		age = max(age, min(g.age(now), now))
	}
	return age
}

// Lacking is how many rows here lack something that others have heard of.
func (n *News) Lacking() (rows int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, g := range n.ranges {
		rows += int64(len(g.lacking))
	}
	return rows
}
