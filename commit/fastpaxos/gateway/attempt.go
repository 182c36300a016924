package gateway

import (
	"context"
	"slices"
	"sync"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/route"
)

// attempt drives the commit of a transaction's options: the proposals to all acceptors of all records at once, and a master for each record whose
// acceptors do not agree.
type attempt struct {
	c    *Client
	wake chan struct{} // holds one when something was learned

	mu     sync.Mutex // guards the fields below; masters.mu is taken after it
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
		if is, ks = a.askMasters(ctx, is, ks); len(is) == 0 {
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

// askMasters asks the masters that records are thought to have (fastpaxos.FP55), and gives the options of others.
func (a *attempt) askMasters(ctx context.Context, is []int, ks []keys.Key) (rest []int, of []keys.Key) {
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

// forgotten reports whether an option is Past.
func (a *attempt) forgotten() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.commit.Polls, func(p core.Poll) bool { return p.Learned == core.Past })
}
