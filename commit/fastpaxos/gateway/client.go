package gateway

import (
	"context"
	"errors"
	"math/bits"
	"slices"
	"sync"
	"time"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/route"
)

// Sender takes batches to ranges, and to all replicas of some ranges, and knows which range has a key; route.Sender does.
type Sender interface {
	Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error)
	All(ctx context.Context, f *route.Fan) error
	Range(ctx context.Context, k keys.Key, fresh bool) (kv.RangeInfo, error)
}

// ClientOptions are what a Client is made of.
type ClientOptions struct {
	Sender Sender
	Clock  *clock.Clock
	Host   *host.Host
	// NodeID is asked for when the first write is made.
	NodeID func() kv.NodeID
	// Columns are needed by the masters of records that have commuting updates; without them these are rejected.
	Columns core.Columns
	// Peers, if not nil, reaches the gateways of other nodes.
	Peers Peers
	// Policy, if not nil, is the policy of the record at a key, as far as this node knows; nil is FastBallots for all. It may be called from any goroutine, and neither
	// waits nor allocates.
	Policy func(k keys.Key) core.Policy
}

// Client is a gateway's half of the protocol: it drives commits and masters, reads, and finishes what other gateways have left.
//
//	fastpaxos.FP20 (I4): No two options have the same timestamp: a gateway's are told from others' by their logical part, and each is later than
//	    the one before. An option is after all that it replaces. (The options of a transaction that other protocols take part in have its timestamp,
//	    which two gateways could draw.)
//	fastpaxos.FP21 (I1): The answers of acceptors count within one generation of a range; a gateway begins again in the next one, and asks with the same
//	    options. All that was learned stays, because the next generation begins with it. So it does not matter which
//	    gateway is a record's master, or for how long: any two of them have different ballots, and a master that is gone is
//	    replaced by the next gateway that meets the record.
//	fastpaxos.FP22 (read your writes): Until all replicas have a physical update that a gateway has committed, the gateway reads it from its own memory
//	    instead of an earlier version at the nearest replica. A version that it was refused for, and had not read, it reads too; and it sees to it that
//	    replicas which miss that for more than a second get it. Its memory counts as it was before the replica was asked.
//	fastpaxos.FP23 (I2): A gateway that finishes a transaction has each of its options learned, by masters that reject what no acceptor knows. It has
//	    committed if all were accepted. A record that knows the transaction's end decides that by itself; a range that has another protocol
//	    has none of its options, and had them ended elsewhere before. Only transactions older than commit.Expiry are finished by
//	    others, so that this is not how gateways compete.
//	fastpaxos.FP24 (no lost update): An option replaces the state in which its transaction has first read the row.
//	fastpaxos.FP25 (I2): A gateway says "committed" when all options were learned as accepted, "refused" when one was learned as rejected, and
//	    that it does not know in all other cases. A transaction that it gives up at is finished, so that nobody has to wait for it.
//	fastpaxos.FP68 (I1): A request of a master counts in the generation for which it was made, and nowhere else: its promises are of that one's acceptors, and
//	    the next one has begun with a state that may know more.
//	fastpaxos.FP75 (liveness): No proposal waits for a late replica or gateway, which is one that takes longer to answer than others of its answers have
//	    taken. If no fast quorum can agree on a record without late replicas, a master decides about the option. Lateness is a matter of pace only: an
//	    answer that comes later counts as any other.
//	fastpaxos.FP50 (I2): A petition, an option that one gateway asks another one's master about, is decided as if that one's own gateway had asked: by
//	    the record's state, and with a sequence that a classic quorum accepts. So it may arrive twice, late, or at several masters. A gateway that
//	    has lost a record to a later ballot asks its master, which the ballot names, and rules by itself only if that does not answer.
//	fastpaxos.FP51 (I2): The state that a master has proposed in a ballot is learned when a classic quorum reports that it has accepted it in that ballot, whoever
//	    hears these reports. It stays so: a gateway that remembers a state that was accepted answers petitions by it, whoever has the record now.
//	fastpaxos.FP60 (I3): A replica that answers a read at a timestamp promises (Mark) that no option at or below it is accepted there any more, but the reader's own. A read has
//	    such promises of so many replicas of one generation that each option which a fast quorum has accepted, or of which a master could believe that one has,
//	    was accepted by one of them before (Quorums.Reading: two of three, four of five). They name it, and the reader waits for its
//	    outcome, or brings it about. So nothing comes to be at or below the timestamp afterwards. Promises are in memory: a replica's clock is past each of them, so
//	    the floor of the next generation is above them, and all that an earlier process of a node may have promised is below StartedAt. An option that came too late is
//	    rejected with the timestamp, and its gateway proposes again at a later one: nobody fails because of readers.
//	fastpaxos.FP61 (I3): A replica's promise binds masters by their Prepare. So it does not count for a record that has a master at the time (PastRow.Busy): that one is
//	    asked for the promise, and it is made when a classic quorum has accepted the state with it (Record.Mark), as an option is learned.
//	    This also reads rows by their keys where only a classic quorum of replicas answers.
//	fastpaxos.FP62 (I3): The answer of a replica about a row at a timestamp has all options up to it that it has accepted: as outstanding, or executed and not yet replaced by then, or as known to be aborted. Earlier
//	    states of a row are kept in memory (era) for a minute, and for as long as transactions of the cluster read at a timestamp that was less than a minute old when the replica heard of them, and only while that
//	    holds, over generations too (fastpaxos.FP97); a replica that does not know says so (PastRow.Old, Looked.Old), and does not count. A key of which a scan finds nothing at some replicas, and something at others, is asked for by itself: it may be deleted at the former.
//	fastpaxos.FP63 (I3): A serializable transaction reads and writes at its commit timestamp. Before it proposes anything it reads again, at that timestamp, what it has read, with the promises of fastpaxos.FP60, and is
//	    refused if something has changed. A row that one of its physical options replaces need not be read again: the option is accepted only if the row has not changed. So the
//	    order of timestamps is the order of serializable transactions; of two with the same one, the promise of one excludes the other's option. No option outlives its
//	    gateway without its reads having been validated, so whoever finishes the transaction need not know of them.
//	fastpaxos.FP89 (I3): A serializable transaction whose reads are at a timestamp that its gateway has drawn for it (fastpaxos.FP20) may propose physical options at that timestamp, without reading again: what it has read has changed at no
//	    later moment up to it. By fastpaxos.FP60 replicas accept options at a promised timestamp from the reader's own transaction, and from no other one, and no other has the timestamp. An option that comes too late for another
//	    reader is proposed again at the present, as in fastpaxos.FP63. It does so only for a second: the age of an option is that of its timestamp to those who ask whether its gateway is at work, and to those who forget outcomes (fastpaxos.FP6).
type Client struct {
	o ClientOptions

	mu sync.Mutex // guards the fields below; nothing is taken after it
	// writer is the logical part of this gateway's timestamps, zero before the first one; last is the wall part of the latest.
	writer uint32
	last   int64
	// masters counts those that this gateway has made, from a number that it has drawn.
	masters uint32
	// own are versions that this gateway has committed, or has seen committed as the outcome of its own work, and that are not at all replicas yet
	// (fastpaxos.FP22).
	own map[string]core.Value
	// unshown are updates that commute, and that this gateway has committed, by key, while no replica was shown them, nor all were told (fastpaxos.FP72).
	unshown map[string][]*core.Request
	// provisional are the latest options of transactions that other protocols take part in, by key, until they are resolved.
	provisional map[kv.TxnID]map[string]core.Option
	// sights are versions that were read lately (fastpaxos.FP64).
	sights sights
	// reigns are the records that have a master here.
	reigns map[string]*reign
	// turns are those at hot rows.
	turns turns
	// followed are the masters that records are thought to have elsewhere.
	followed map[string]follows
	// led says when somebody asked last which node leads a range.
	led map[kv.RangeID]time.Duration
	// sweeping says that somebody looks after masters that rest.
	sweeping bool
	// settled are states of records that masters here have had learned.
	settled memory
	// terms are those of ranges, by the range.
	terms map[kv.RangeID]*rangeTerm
	// ruled are terms that readers have met, by the range.
	ruled map[kv.RangeID]ruledTerm
	// finishing are transactions that are being finished here.
	finishing map[core.Name]bool
	// ends are to be told at announceAt, by the host's monotonic clock, zero if there are none; announced is when some were told last.
	ends                  []*ending
	announceAt, announced time.Duration
	// unreached are ranges of which no quorum has answered, until when.
	unreached map[kv.RangeID]time.Duration
	fates     fates
	// mending are records whose replicas are being brought up to date from here.
	mending map[string]bool
}

// NewClient makes a gateway.
func NewClient(o ClientOptions) *Client {
	if o.Columns == nil {
		o.Columns = noColumns{}
	}
	return &Client{o: o, own: map[string]core.Value{}, unshown: map[string][]*core.Request{}, provisional: map[kv.TxnID]map[string]core.Option{}, finishing: map[core.Name]bool{}, mending: map[string]bool{}, reigns: map[string]*reign{}, terms: map[kv.RangeID]*rangeTerm{}, ruled: map[kv.RangeID]ruledTerm{}, turns: newTurns(), followed: map[string]follows{}, led: map[kv.RangeID]time.Duration{},
		unreached: map[kv.RangeID]time.Duration{}, fates: fates{working: map[core.Name]bool{}, now: map[core.Name]bool{}}}
}

type noColumns struct{}

func (noColumns) Column([]byte, uint32) (int64, bool) { return 0, false }

func (noColumns) Add([]byte, []core.Delta) ([]byte, error) {
	return nil, errors.New("fastpaxos: this gateway does not know columns")
}

// stamp draws a commit timestamp after all that were seen (fastpaxos.FP20).
func (c *Client) stamp(seen clock.Timestamp) clock.Timestamp {
	now := c.o.Clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writer == 0 {
		c.writer = 1<<31 | uint32(c.o.NodeID())<<16 | uint32(uint16(c.o.Host.Dice.Uint64())) // another one after each start
	}
	c.last = max(c.last+1, now.Wall, seen.Wall+1)
	at := clock.Timestamp{Wall: c.last, Logical: c.writer}
	if now.Less(at) {
		_ = c.o.Clock.Update(at) // the messages with the proposals carry a reading that is not before them (fastpaxos.FP87); a clock that refuses is beyond its bound
	}
	return at
}

// number is one that no other master has. It names this node (Ballot.Node), and says nothing else: whose ballot is the later one is a matter of luck.
func (c *Client) number() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.masters == 0 {
		c.masters = uint32(c.o.Host.Dice.Uint64())
	}
	c.masters++
	return uint64(bits.Reverse32(c.masters))<<32 | uint64(uint32(c.o.NodeID()))
}

// Chosen by us: a seal lasts for a round trip or two. A round that hangs, because the replicas of a quorum do not answer, may be one by an old
// descriptor.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 200 * time.Millisecond
	roundTime  = time.Second
	// background bounds what is done for a transaction after its client was answered; others finish it otherwise.
	background = 20 * time.Second
	// parallel bounds the records of one transaction that have a master here at the same time.
	parallel = 32
)

// pause sleeps between d/2 and 3d/2: rivals for a record, and those who wait for a range to open, do not wait for equally long.
func (c *Client) pause(ctx context.Context, d time.Duration) error {
	if err := c.o.Host.Clock.Sleep(ctx, d/2+time.Duration(c.o.Host.Dice.Int64N(int64(d)))); err != nil {
		return err
	}
	if c.o.Host.Group.Context().Err() != nil {
		return &kv.UnavailableError{Reason: "the node is stopping"}
	}
	return nil
}

// later runs f apart from the caller, for a bounded time.
func (c *Client) later(f func(ctx context.Context)) {
	c.o.Host.Group.Go(func(ctx context.Context) {
		ctx, cancel := c.o.Host.Clock.WithTimeout(ctx, background)
		defer cancel()
		f(ctx)
	})
}

// all runs f for each of n, some at the same time, and returns the first error.
func (c *Client) all(n int, f func(int) error) error {
	errs := make(chan error, n)
	begun := 0
	var first error
	wait := func() {
		begun--
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	for i := range n {
		if begun == parallel {
			wait()
		}
		begun++
		if n == 1 || !c.o.Host.Group.Go(func(context.Context) { errs <- f(i) }) {
			errs <- f(i)
		}
	}
	for begun > 0 {
		wait()
	}
	return first
}

// grouped divides records by their ranges, as far as is known. i is the index of a record in ks.
func (c *Client) grouped(ctx context.Context, ks []keys.Key) (groups [][]int, descs []kv.RangeDescriptor, err error) {
next:
	for i, k := range ks {
		for j := range descs {
			if descs[j].Contains(k) {
				groups[j] = append(groups[j], i)
				continue next
			}
		}
		info, err := c.o.Sender.Range(ctx, k, false)
		if err != nil {
			return nil, nil, err
		}
		descs, groups = append(descs, info.Desc), append(groups, []int{i})
	}
	return groups, descs, nil
}

func batch(qs []*core.Request) *kv.Batch {
	b := &kv.Batch{Header: kv.Header{Protocol: kv.FastPaxos}, Requests: make([]kv.Request, len(qs))}
	rs, size := make([]kv.ProtocolRequest, len(qs)), 0
	for _, q := range qs {
		size += q.Size()
	}
	bodies := make([]byte, 0, size)
	for i, q := range qs {
		at := len(bodies)
		bodies = q.Append(bodies)
		rs[i] = kv.ProtocolRequest{Key: q.Key, Body: bodies[at:len(bodies):len(bodies)], Reads: q.Kind == core.Read || q.Kind == core.Show}
		b.Requests[i] = &rs[i]
	}
	return b
}

// replies are those to all but the first of n requests.
func replies(b *kv.BatchResponse, n, first int) ([]*core.Reply, error) {
	if len(b.Responses) != n {
		return nil, &kv.InternalError{Message: "fastpaxos: a replica answered another question"}
	}
	out := make([]*core.Reply, n-first)
	for i, one := range b.Responses[first:] {
		p, ok := one.(*kv.ProtocolResponse)
		if !ok {
			return nil, &kv.InternalError{Message: "fastpaxos: a replica answered another question"}
		}
		var err error
		if out[i], err = core.DecodeReply(p.Body); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// question is what all voters of one range are asked.
type question struct {
	qs []*core.Request
	// front is how many of them are ends of other transactions.
	front int
	// f is called with the answers to the others until it has enough.
	f func(d *kv.RangeDescriptor, from kv.ReplicaID, rs []*core.Reply) (more bool)
	// silent, if not nil, is called with those who do not answer, or not in time. The answer of one that was silent may follow.
	silent func(d *kv.RangeDescriptor, from kv.ReplicaID) (more bool)

	enough bool
	other  *kv.ProtocolError
	bad    error
}

// read gives the replies of one replica, or why there are none.
func (u *question) read(a *route.Answer) ([]*core.Reply, error) {
	if a.Err != nil {
		return nil, a.Err
	}
	return replies(a.Resp, len(u.qs), u.front)
}

// take takes them in.
func (u *question) take(a *route.Answer, rs []*core.Reply, err error) {
	switch {
	case u.enough:
	case err != nil:
		u.bad = err
		if p := isGone(a); p != nil {
			u.other = p
		}
		var unavailable *kv.UnavailableError
		if u.silent != nil && u.other == nil && a.Desc != nil && errors.As(a.Err, &unavailable) {
			u.enough = !u.silent(a.Desc, a.From.Replica)
		}
	default:
		u.enough = !u.f(a.Desc, a.From.Replica, rs)
	}
}

// isGone says that the range of an answer has another protocol.
func isGone(a *route.Answer) (p *kv.ProtocolError) {
	if errors.As(a.Err, &p) && (p.Desc == nil || a.Desc == nil || p.Desc.Generation >= a.Desc.Generation) { // else the replica is behind
		return p
	}
	return nil
}

// why says why not enough was heard; err is what the sender says. *kv.ProtocolError: the range has another protocol.
func (u *question) why(err error) error {
	switch {
	case u.other != nil:
		return u.other
	case err == nil:
		err = u.bad
	}
	if err == nil {
		err = &kv.UnavailableError{Reason: "fastpaxos: too few replicas have answered"}
	}
	return err
}

// asks asks all voters of some ranges once, until enough was heard of each, or f.More says no. tap, if not nil, hears of each answer, and of those that come later if
// f.Ended is to be called after them.
func (c *Client) asks(ctx context.Context, us []*question, f *route.Fan, tap func(i int, a *route.Answer, err error)) error {
	ctx, cancel := c.o.Host.Clock.WithTimeout(ctx, roundTime)
	defer cancel()
	f.Batches = make([]*kv.Batch, len(us))
	for i, u := range us {
		f.Batches[i] = batch(u.qs)
	}
	f.Answer = func(i int, a route.Answer) bool {
		rs, err := us[i].read(&a)
		if tap != nil {
			tap(i, &a, err)
		}
		us[i].take(&a, rs, err)
		if f.More != nil && !f.More() {
			return false
		}
		return slices.ContainsFunc(us, func(u *question) bool { return !u.enough })
	}
	if f.Ended != nil {
		f.Late = func(i int, a route.Answer) {
			_, err := us[i].read(&a)
			tap(i, &a, err)
		}
	}
	return c.o.Sender.All(ctx, f)
}

// each asks all voters of a range once. f is called with their answers until it has enough; otherwise the error says why it has not.
// *kv.ProtocolError: the range has another protocol.
func (c *Client) each(ctx context.Context, qs []*core.Request, f func(d *kv.RangeDescriptor, from kv.ReplicaID, rs []*core.Reply) (more bool)) (enough bool, err error) {
	u := &question{qs: qs, f: f}
	if err := c.asks(ctx, []*question{u}, &route.Fan{}, nil); !u.enough {
		return false, u.why(err)
	}
	return true, nil
}

func isOther(err error) bool {
	var other *kv.ProtocolError
	return errors.As(err, &other)
}

// attempt drives the commit of a transaction's options: the proposals to all acceptors of all records at once, and a master for each record whose
// acceptors do not agree.
type attempt struct {
	c    *Client
	wake chan struct{} // holds one when something was learned

	mu     sync.Mutex // guards the fields below; nothing is taken after it
	commit *core.Commit
	at     []core.Place
	// before, if not nil, is what the acceptors of a record are told before they are asked.
	before []*core.Request
	// blockers are options of others because of which this transaction's were rejected.
	blockers []blocker
	// marks are the latest promises to readers because of which acceptors have rejected options.
	marks []clock.Timestamp
	// masters counts records that needed a master.
	masters int
	// tried says that the master that a record was thought to have has been asked.
	tried []bool
}

type blocker struct {
	key    keys.Key
	option *core.Option
}

func (c *Client) attempt(options []core.Option) *attempt {
	return &attempt{c: c, wake: make(chan struct{}, 1), commit: core.NewCommit(options, core.Quorums{}), at: make([]core.Place, len(options)), marks: make([]clock.Timestamp, len(options)), tried: make([]bool, len(options))}
}

// marked notes that an option was rejected because of a promise to a reader.
func (a *attempt) marked(i int, at clock.Timestamp) { a.marks[i] = a.marks[i].Forward(at) }

// tooLate reports whether all that was rejected came too late for readers' promises, and nothing else is known to be in the way: a later timestamp may do.
func (a *attempt) tooLate() (at clock.Timestamp, only bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.commit.Polls {
		switch a.commit.Polls[i].Learned {
		case core.Rejected:
			if a.marks[i].IsZero() {
				return at, false
			}
			at = at.Forward(a.marks[i])
		case core.Past:
			return at, false
		}
	}
	return at, len(a.blockers) == 0 && !at.IsZero()
}

// open are the options that were neither learned nor given to a master.
func (a *attempt) open() (is []int, ks []keys.Key, out core.Verdict) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.commit.Polls {
		if p := &a.commit.Polls[i]; p.Learned == core.Undecided && !p.Master {
			is, ks = append(is, i), append(ks, a.commit.Key(i))
		}
	}
	return is, ks, a.commit.Outcome()
}

// run returns when the outcome was learned. *kv.ProtocolError: a range has another protocol; after that and any other error, options may have been
// accepted.
func (a *attempt) run(ctx context.Context) (core.Verdict, error) {
	c, begun := a.c, false
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		is, ks, out := a.open()
		if out != core.Undecided {
			return out, nil
		}
		if len(is) == 0 {
			select {
			case <-a.wake:
				continue
			case <-ctx.Done():
				return core.Undecided, ctx.Err()
			}
		}
		if is, ks = a.direct(ctx, is, ks); len(is) == 0 {
			continue
		}
		groups, descs, err := c.grouped(ctx, ks)
		if err != nil {
			return core.Undecided, err
		}
		for i := range descs {
			if d := &descs[i]; d.Protocol != kv.FastPaxos && begun {
				return core.Undecided, &kv.ProtocolError{Range: d.ID, Protocol: d.Protocol, Desc: d}
			}
		}
		begun = true
		for _, g := range groups {
			for j, i := range g {
				g[j] = is[i]
			}
		}
		last := a.round(ctx, groups, descs)
		if _, _, out := a.open(); out != core.Undecided {
			return out, nil
		}
		if isOther(last) {
			return core.Undecided, last
		}
		if last != nil {
			if ctx.Err() != nil {
				return core.Undecided, ctx.Err()
			}
			if changing(last) {
				c.awaitOpened(ctx, ks)
			}
			if err := c.pause(ctx, pause); err != nil {
				return core.Undecided, err
			}
		}
	}
}

// awaitOpened returns when the nearest replicas of some records act again, or have heard of the next generation of their ranges, or do not say so for a while.
func (c *Client) awaitOpened(ctx context.Context, ks []keys.Key) {
	groups, _, err := c.grouped(ctx, ks)
	if err != nil {
		return
	}
	_ = c.all(len(groups), func(i int) error {
		b := batch([]*core.Request{{Kind: core.Query, Key: ks[groups[i][0]]}})
		b.Target = kv.ToNearest
		_, _ = c.o.Sender.Send(ctx, b)
		return nil
	})
}

// round asks the acceptors of some records once; those of a group are in one range. The ends of other transactions travel with the questions (fastpaxos.FP70).
func (a *attempt) round(ctx context.Context, groups [][]int, descs []kv.RangeDescriptor) error {
	c := a.c
	us := make([]*question, len(groups))
	a.mu.Lock()
	for g, is := range groups {
		us[g] = a.question(is)
	}
	a.mu.Unlock()
	f := &route.Fan{Wake: a.wake, More: func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.commit.Outcome() == core.Undecided
	}}
	var tap func(int, *route.Answer, error)
	if es, d := c.ride(us, descs); d != nil {
		tap, f.Ended = d.heard, func() { c.delivered(es, d) }
	}
	sent := c.asks(ctx, us, f, tap)
	var last error
	for g, is := range groups {
		if us[g].enough {
			continue
		}
		err := us[g].why(sent)
		if !isOther(last) {
			last = err
		}
		if isOther(err) || changing(err) || ctx.Err() != nil {
			continue
		}
		// If no fast quorum can be reached, a master that reaches a classic one decides.
		a.mu.Lock()
		for _, i := range is {
			if p := &a.commit.Polls[i]; a.commit.Outcome() == core.Undecided && len(p.Votes) > 0 && len(p.Votes) >= p.Quorums.Classic && a.commit.Asked(i) {
				a.master(i)
			}
		}
		a.mu.Unlock()
	}
	return last
}

// question is what the acceptors of some records of one range are asked.
func (a *attempt) question(is []int) *question {
	u := &question{}
	for _, i := range is {
		if a.before != nil && a.before[i] != nil {
			u.qs = append(u.qs, a.before[i])
		}
	}
	told := len(u.qs)
	for _, i := range is {
		u.qs = append(u.qs, a.commit.Request(i))
	}
	u.f = func(d *kv.RangeDescriptor, from kv.ReplicaID, rs []*core.Reply) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		more := false
		for j, i := range is {
			if a.at[i] != core.PlaceOf(d) {
				a.at[i] = core.PlaceOf(d)
				a.commit.Restart(i, core.QuorumsIn(d))
			}
			if rs == nil {
				if a.commit.Silent(i, from) {
					a.master(i)
				}
			} else {
				r := rs[told+j]
				if a.commit.Answer(i, from, r) {
					a.master(i)
				}
				a.marked(i, r.Mark)
				if r.Blocker != nil {
					a.blockers = append(a.blockers, blocker{a.commit.Key(i), r.Blocker})
				}
			}
			p := &a.commit.Polls[i]
			more = more || p.Learned == core.Undecided && !p.Master
		}
		return more && a.commit.Outcome() == core.Undecided
	}
	u.silent = func(d *kv.RangeDescriptor, from kv.ReplicaID) bool { return u.f(d, from, nil) }
	return u
}

// direct asks the masters that records are thought to have (fastpaxos.FP55), and gives the options of others.
func (a *attempt) direct(ctx context.Context, is []int, ks []keys.Key) (rest []int, of []keys.Key) {
	rest, of = is[:0], ks[:0]
	for j, i := range is {
		// An outcome that the replicas have to be told before goes with the proposal.
		if !a.tried[i] && (a.before == nil || a.before[i] == nil) {
			a.tried[i] = true
			if to, ok := a.c.master(ctx, ks[j]); ok {
				a.mu.Lock()
				a.commit.Polls[i].Master = true
				a.petition(i, petition{direct: true}, to)
				a.mu.Unlock()
				continue
			}
		}
		rest, of = append(rest, i), append(of, ks[j])
	}
	return rest, of
}

// master has a master decide about an option (fastpaxos.FP21).
func (a *attempt) master(i int) {
	known := a.commit.Polls[i].Promised
	if !known.Open() && a.c.policy(a.commit.Key(i)).Ballots != core.FastBallots {
		a.c.follow(a.commit.Key(i), known)
	}
	a.petition(i, petition{}, known)
}

func (a *attempt) petition(i int, p petition, known core.Ballot) {
	a.masters++
	k := a.commit.Key(i)
	p.o = a.commit.Options[i]
	if !a.c.o.Host.Group.Go(func(ctx context.Context) {
		ctx, cancel := a.c.o.Host.Clock.WithTimeout(ctx, background)
		defer cancel()
		l, err := a.c.ruleAfter(ctx, k, p, known)
		a.mu.Lock()
		if err == nil && l.Blocker != nil {
			a.blockers = append(a.blockers, blocker{k, l.Blocker})
		}
		if err != nil {
			a.commit.Polls[i].Master = false // it is asked again
		} else {
			a.commit.Learn(i, l.Verdict)
			a.marked(i, l.Mark)
		}
		a.mu.Unlock()
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}) {
		a.commit.Polls[i].Master = false
	}
}

func end(k keys.Key, o core.Option, committed bool) *core.Request {
	return &core.Request{Kind: core.End, Key: k, Option: o, Committed: committed}
}
