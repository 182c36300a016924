package gateway

import (
	"bytes"
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
)

// Turns at a row that several gateways want. The gateway that proposes first is accepted. It is the same one for as long as it has transactions: a gateway that is far
// from a quorum never comes first. So a gateway that was refused makes the row hot, at itself and at the gateway that was faster. Transactions of a hot row
// take turns before they read it: at each gateway in one line, and the gateways in another one. A node that all gateways choose alike, the row's keeper, has that line.
//
//	fastpaxos.FP52 (liveness): A turn is a courtesy, and nothing relies on it. A transaction without a turn proposes all the same, and every proposal is
//	    decided by the records alone. A turn ends by itself. A keeper that does not answer is passed by. A transaction takes its turns in the order
//	    of the rows, so that no two wait for each other.

// Chosen by us.
const (
	// turnTime is how long a turn lasts at most, at a gateway and at a keeper.
	turnTime = 2 * time.Second
	// thinkTime is how long a turn lasts while the transaction does nothing, because its client thinks.
	thinkTime = 500 * time.Millisecond
	// heldFor is how long a keeper has given a turn before it asks whether that is still in use, and between two such questions.
	heldFor = 400 * time.Millisecond
	// ownTime is for how long a gateway passes a turn on among its own transactions.
	ownTime = 700 * time.Millisecond
	// hotTime is how long a row is hot after somebody was refused, or had to wait.
	hotTime = 4 * time.Second
	// turnPatience is how long a keeper lets a gateway wait before it says that it is not its turn yet, and that the keeper is alive.
	turnPatience = 250 * time.Millisecond
	// silence is for how long a keeper is not asked again that has not answered. Gateways that disagree about the keeper don't take turns with each other for that long.
	silence = 2 * time.Second
	// inLine is how long a transaction waits for its turn at most.
	inLine = 15 * time.Second
	// outcomeTime is for how long a gateway that has got a turn waits for the outcome of the one before.
	outcomeTime = 100 * time.Millisecond
	// atOnce bounds the rows at which a transaction takes turns.
	atOnce = 3
	// hottest bounds the rows that a gateway knows as hot, and that a keeper has lines for.
	hottest = 1000
)

// turn is what a transaction has when it is its turn at a row.
type turn struct {
	key    keys.Key
	begun  time.Duration
	keeper kv.NodeID // zero: none has been asked, or none has answered
	number uint64
	since  time.Duration // when the keeper has given it
	// working counts what the transaction is doing at the moment; if that is nothing, worked is when it did something last.
	working int
	worked  time.Duration
	// wrote is the version of the row that was committed last while this gateway had the turn.
	wrote clock.Timestamp
}

// over reports whether others need not wait any longer for a turn to end.
func (t *turn) over(now time.Duration) bool {
	return t.begun > 0 && (now-t.begun > turnTime || t.working == 0 && now-max(t.begun, t.worked) > thinkTime)
}

// line is those of this gateway who want a row.
type line struct {
	now     *turn
	waiting []chan *turn // each holds one
}

// standing is where a gateway stands in a keeper's line.
type standing struct {
	node    kv.NodeID
	number  uint64
	asked   time.Duration // when it was last there
	here    int           // requests that wait
	granted bool
	since   time.Duration
	probed  time.Duration   // when it was asked last whether it still has it
	after   clock.Timestamp // the version that was committed in a turn before
	wake    chan struct{}   // holds one
}

// turns are a gateway's part in them, and a keeper's.
type turns struct {
	*caller
	// reads reads rows at the nearest replicas.
	reads func(context.Context, []keys.Key) ([]core.Row, error)

	mu    sync.Mutex               // guards the fields below, and all turns, lines and standings; nothing is taken after it
	asked uint64                   // numbers what keepers are asked for
	until map[string]time.Duration // hot rows, and until when they are
	// also are hot rows where transactions were refused that had a turn at another one, until when.
	also   map[string]time.Duration
	lines  map[string]*line
	kept   map[string][]*standing // the first has the turn, or gets it
	silent map[kv.NodeID]time.Duration
	warned map[string]time.Duration // a row and a node that was told
}

func newTurns(by *caller, read func(context.Context, []keys.Key) ([]core.Row, error)) *turns {
	return &turns{caller: by, reads: read, until: map[string]time.Duration{}, also: map[string]time.Duration{}, lines: map[string]*line{}, kept: map[string][]*standing{}, silent: map[kv.NodeID]time.Duration{}, warned: map[string]time.Duration{}}
}

// quiet reports whether none of some rows is known to be hot.
func (c *turns) quiet(ks []keys.Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.until) == 0 || !slices.ContainsFunc(ks, func(k keys.Key) bool { return c.until[string(k)] > 0 })
}

// heat makes a row hot.
func (c *turns) heat(k keys.Key) {
	now := c.o.Host.Clock.Monotonic()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heated(string(k), now)
}

// contest makes a row one at which turns are taken in addition to those at earlier ones.
func (c *turns) contest(k keys.Key) {
	now := c.o.Host.Clock.Monotonic()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heated(string(k), now); c.until[string(k)] > now {
		c.also[string(k)] = now + hotTime
	}
}

func (c *turns) heated(k string, now time.Duration) {
	if len(c.until) >= hottest {
		for k, until := range c.until {
			if until < now {
				c.cool(k)
			}
		}
		if len(c.until) >= hottest {
			return
		}
	}
	c.until[k] = now + hotTime
}

func (c *turns) cool(k string) {
	delete(c.until, k)
	delete(c.also, k)
}

// hot are those of the rows that are hot at which a transaction takes turns, in order: the first one of those that it wants, unless it has some already, and others where that was
// not enough.
func (c *turns) hot(has func(keys.Key) bool, some bool) (first []keys.Key) {
	now := c.o.Host.Clock.Monotonic()
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, until := range c.until {
		if key := keys.Key(k); until < now {
			c.cool(k)
		} else if has(key) {
			first = append(first, key)
		}
	}
	slices.SortFunc(first, keys.Key.Compare)
	i := 1
	if some {
		i = 0
	}
	for i < len(first) {
		if now < c.also[string(first[i])] {
			i++
		} else {
			first = slices.Delete(first, i, i+1)
		}
	}
	return first[:min(len(first), atOnce)]
}

func (c *turns) work(ts []*turn, n int) {
	now := c.o.Host.Clock.Monotonic()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range ts {
		t.working, t.worked = t.working+n, now
	}
}

// holds reports whether a turn that a keeper has given is still in use.
func (c *turns) holds(keeper kv.NodeID, q *Ask) bool {
	now := c.o.Host.Clock.Monotonic()
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lines[string(q.Key)]
	return l != nil && l.now != nil && l.now.keeper == keeper && l.now.number == q.Number && !l.now.over(now)
}

// probe asks a gateway whether it still has the turn at the head of a line, and ends the turn if it has not, or does not answer.
func (c *turns) probe(k string, s *standing) {
	ask := &Ask{Kind: Held, Key: keys.Key(k), Number: s.number}
	if s.node == c.o.NodeID() {
		if !c.holds(s.node, ask) {
			c.givenBack(s.node, ask)
		}
		return
	}
	c.o.Host.Group.Go(func(ctx context.Context) {
		if told, err := c.ask(ctx, s.node, 0, ask); err != nil || !told.Granted {
			c.givenBack(s.node, ask)
		}
	})
}

// take waits for a turn at a row. rival is whose transaction was faster, if that is known.
func (c *turns) take(ctx context.Context, k keys.Key, rival kv.NodeID) (*turn, error) {
	t := &turn{key: k}
	begun := c.o.Host.Clock.Monotonic()
	c.mu.Lock()
	l := c.lines[string(k)]
	if l == nil {
		l = &line{}
		c.lines[string(k)] = l
	}
	if l.now == nil {
		t.begun = max(begun, 1)
		l.now = t
		c.mu.Unlock()
	} else {
		mine := make(chan *turn, 1)
		l.waiting = append(l.waiting, mine)
		c.mu.Unlock()
		var err error
		if t, err = c.inLine(ctx, l, mine, begun); err != nil {
			return nil, err
		}
	}
	if t.keeper == 0 {
		c.atKeeper(ctx, t, rival)
	}
	return t, ctx.Err()
}

func (c *turns) inLine(ctx context.Context, l *line, mine chan *turn, begun time.Duration) (*turn, error) {
	for {
		tick := c.o.Host.Clock.NewTimer(turnTime / 8)
		select {
		case t := <-mine:
			tick.Stop()
			return t, nil
		case <-ctx.Done():
		case <-tick.C():
		}
		tick.Stop()
		now := c.o.Host.Clock.Monotonic()
		c.mu.Lock()
		at := slices.Index(l.waiting, mine)
		switch {
		case at < 0: // it is passed on to this one at this moment
			c.mu.Unlock()
			t := <-mine
			if err := ctx.Err(); err != nil {
				c.pass(t)
				return nil, err
			}
			return t, nil
		case ctx.Err() != nil:
			l.waiting = slices.Delete(l.waiting, at, at+1)
			c.mu.Unlock()
			return nil, ctx.Err()
		case at == 0 && l.now.over(now), now-begun > inLine:
			// The one before takes too long.
			t := &turn{key: l.now.key, begun: now}
			l.waiting, l.now = slices.Delete(l.waiting, at, at+1), t
			c.mu.Unlock()
			return t, nil
		}
		c.mu.Unlock()
	}
}

// pass gives a turn to the next one.
func (c *turns) pass(t *turn) {
	now := c.o.Host.Clock.Monotonic()
	c.mu.Lock()
	l := c.lines[string(t.key)]
	if l == nil || l.now != t {
		l = nil // somebody else has it, as it took too long
	}
	back := t.keeper
	if l != nil {
		if len(l.waiting) == 0 {
			delete(c.lines, string(t.key))
		} else {
			next := &turn{key: t.key, begun: now, wrote: t.wrote}
			if t.keeper != 0 && now-t.since < ownTime {
				next.keeper, next.number, next.since, back = t.keeper, t.number, t.since, 0
			}
			l.now = next
			l.waiting[0] <- next
			l.waiting = l.waiting[1:]
		}
	}
	c.mu.Unlock()
	if back != 0 {
		ask := &Ask{Kind: Done, Key: t.key, Number: t.number, At: t.wrote}
		if back == c.o.NodeID() {
			c.givenBack(back, ask)
			return
		}
		c.o.Host.Group.Go(func(ctx context.Context) { _, _ = c.ask(ctx, back, patience, ask) })
	}
}

// keeper is the node where gateways take turns at a row: one of the range's voters, the same one for all that can reach it.
func (c *turns) keeper(ctx context.Context, k keys.Key) kv.NodeID {
	info, err := c.o.Sender.Range(ctx, k, false)
	if err != nil {
		return 0
	}
	var nodes []kv.NodeID
	for _, r := range info.Desc.Replicas {
		if r.Type == kv.Voter {
			nodes = append(nodes, r.Node)
		}
	}
	if len(nodes) == 0 {
		return 0
	}
	slices.Sort(nodes)
	h := fnv.New32a()
	_, _ = h.Write(k)
	at := int(h.Sum32() % uint32(len(nodes)))
	nodes = slices.DeleteFunc(slices.Concat(nodes[at:], nodes[:at]), func(n kv.NodeID) bool { return c.answers(n) == 0 })
	now := c.o.Host.Clock.Monotonic()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range nodes {
		if now >= c.silent[n] {
			return n
		}
	}
	return 0
}

// atKeeper waits until the keeper of a row gives this gateway the turn. If it does not answer, the turn is one at this gateway only.
func (c *turns) atKeeper(ctx context.Context, t *turn, rival kv.NodeID) {
	to := c.keeper(ctx, t.key)
	if to == 0 {
		c.turnBegins(t)
		return
	}
	c.mu.Lock()
	c.asked++
	ask := &Ask{Kind: Turn, Key: t.key, Number: c.asked, Rival: rival}
	t.begun = 0 // it has not begun
	c.mu.Unlock()
	after, err := c.stand(ctx, to, ask)
	if err != nil && !errors.Is(err, errSilent) && ctx.Err() == nil { // a node that is silent at the moment may be slow in one thing only
		c.mu.Lock()
		c.silent[to] = c.o.Host.Clock.Monotonic() + silence
		c.mu.Unlock()
	}
	c.mu.Lock()
	t.keeper, t.number, t.since = to, ask.Number, c.o.Host.Clock.Monotonic() // also if it was not given: it is given back
	c.mu.Unlock()
	c.turnBegins(t)
	c.catchUp(ctx, t.key, after)
	if ctx.Err() != nil {
		c.pass(t)
	}
}

// catchUp waits until the nearest replica has a version of a row, for a moment: the outcome of the transaction before may travel the same way as the turn, and arrive after it.
func (c *turns) catchUp(ctx context.Context, k keys.Key, at clock.Timestamp) {
	for begun := c.o.Host.Clock.Monotonic(); !at.IsZero() && c.o.Host.Clock.Monotonic()-begun < outcomeTime; {
		rows, err := c.reads(ctx, []keys.Key{k})
		if err != nil || !rows[0].Last.Less(at) || c.pause(ctx, firstPause) != nil {
			return
		}
	}
}

// stand stands in a keeper's line until the turn comes, for as long as one waits at most. after is the version that was committed in the turn before. An error says that the keeper does not answer.
//
// A question leaves before the one before it is answered, so that it is there by then: otherwise a turn that comes while an answer is on its way would wait for the next question.
func (c *turns) stand(ctx context.Context, to kv.NodeID, ask *Ask) (after clock.Timestamp, err error) {
	ctx, cancel := c.o.Host.Clock.WithTimeout(ctx, inLine)
	defer cancel()
	if to == c.o.NodeID() {
		for ctx.Err() == nil {
			told := c.keep(ctx, to, ask)
			if told.Waiting {
				c.heat(ask.Key)
			}
			if told.Granted {
				return told.At, nil
			}
		}
		return after, nil
	}
	type answer struct {
		*Told
		err error
	}
	answers := make(chan answer)
	next := c.o.Host.Clock.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-next.C():
			next.Reset(turnPatience)
			if !c.o.Host.Group.Go(func(context.Context) {
				told, err := c.ask(ctx, to, turnPatience, ask)
				select {
				case answers <- answer{told, err}:
				case <-ctx.Done():
				}
			}) {
				return after, nil // the node is stopping
			}
		case a := <-answers:
			switch {
			case ctx.Err() != nil:
				return after, nil
			case a.err != nil:
				return after, a.err
			case a.Waiting:
				c.heat(ask.Key)
			}
			if a.Granted {
				return a.At, nil
			}
		case <-ctx.Done():
			return after, nil
		}
	}
}

func (c *turns) turnBegins(t *turn) {
	now := c.o.Host.Clock.Monotonic()
	c.mu.Lock()
	defer c.mu.Unlock()
	t.begun = max(now, 1)
}

// keep answers a gateway that wants a turn: that it has it, or after a while that it has to wait.
func (c *turns) keep(ctx context.Context, from kv.NodeID, q *Ask) (out Told) {
	k := string(q.Key)
	now := c.o.Host.Clock.Monotonic()
	if q.Rival != 0 {
		c.warn(q.Key, q.Rival, now)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var me *standing
	for _, s := range c.kept[k] {
		if s.node == from && s.number == q.Number {
			me = s
		}
	}
	if me == nil {
		if len(c.kept) >= hottest && c.kept[k] == nil {
			for k := range c.kept {
				c.advance(k, now)
			}
			if len(c.kept) >= hottest {
				return Told{Granted: true}
			}
		}
		me = &standing{node: from, number: q.Number, wake: make(chan struct{}, 1)}
		c.kept[k] = append(c.kept[k], me)
	}
	me.here++
	defer func() { me.here-- }()
	for until := now + turnPatience; ; {
		me.asked = now
		c.advance(k, now)
		all := c.kept[k]
		switch {
		case len(all) > 0 && all[0] == me:
			if !me.granted {
				me.granted, me.since = true, now
			}
			return Told{Granted: true, Waiting: len(all) > 1, At: me.after}
		case !slices.Contains(all, me):
			return Told{Granted: true} // it has had its turn
		case now >= until || ctx.Err() != nil:
			return Told{Waiting: true}
		}
		head := all[0]
		ask := head.granted && now-head.since > heldFor && now-head.probed > heldFor
		if ask {
			head.probed = now
		}
		c.mu.Unlock()
		if ask {
			c.probe(k, head)
		}
		tick := c.o.Host.Clock.NewTimer(turnPatience / 4)
		select {
		case <-me.wake:
		case <-tick.C():
		case <-ctx.Done():
		}
		tick.Stop()
		now = c.o.Host.Clock.Monotonic()
		c.mu.Lock()
	}
}

// advance drops those at the head of a line whose turn is over, or who do not ask any more.
func (c *turns) advance(k string, now time.Duration) {
	all := c.kept[k]
	for len(all) > 0 {
		s := all[0]
		if s.granted && now-s.since <= turnTime || !s.granted && (s.here > 0 || now-s.asked <= turnTime/2) {
			break
		}
		all = all[1:]
	}
	if len(all) == 0 {
		delete(c.kept, k)
		return
	}
	c.kept[k] = all
	if s := all[0]; !s.granted {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// givenBack ends a turn at its keeper.
func (c *turns) givenBack(from kv.NodeID, q *Ask) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := string(q.Key)
	c.kept[k] = slices.DeleteFunc(c.kept[k], func(s *standing) bool { return s.node == from && s.number == q.Number })
	for _, s := range c.kept[k] {
		s.after = s.after.Forward(q.At)
	}
	c.advance(k, c.o.Host.Clock.Monotonic())
}

// warn tells a gateway that others want a row that it has written.
func (c *turns) warn(k keys.Key, rival kv.NodeID, now time.Duration) {
	if rival == c.o.NodeID() {
		c.heat(k)
		return
	}
	id := string(append(bytes.Clone(k), byte(rival>>24), byte(rival>>16), byte(rival>>8), byte(rival)))
	c.mu.Lock()
	if len(c.warned) >= hottest {
		for id, until := range c.warned {
			if until < now {
				delete(c.warned, id)
			}
		}
	}
	again := now < c.warned[id] || len(c.warned) >= hottest
	if !again {
		c.warned[id] = now + hotTime/4
	}
	c.mu.Unlock()
	if !again {
		c.o.Host.Group.Go(func(ctx context.Context) { _, _ = c.ask(ctx, rival, patience, &Ask{Kind: Hot, Key: k}) })
	}
}
