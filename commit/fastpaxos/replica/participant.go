package replica

import (
	"errors"

	"meridian/clock"
	"meridian/commit/acceptor"
	"meridian/commit/fastpaxos/core"
	shape "meridian/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/replica"
	"meridian/storage/mvcc"
)

// acceptors are driven by package acceptor.
func acceptors(o *ProtocolOptions, marks *core.Marks, ends *core.Generations) *acceptor.Protocol[*Voter, core.Request, core.Reply, core.Write] {
	return &acceptor.Protocol[*Voter, core.Request, core.Reply, core.Write]{
		Name: "fastpaxos",
		New: func(g *rangeserver.Range, generation uint64, delta []core.Write, last shape.Ticket) *Voter {
			a := NewVoter(core.QuorumsIn(g.Desc()), o.Columns, last)
			a.Begin(core.Beginning{Generation: generation, Floor: g.Generation().Floor, StartedAt: g.StartedAt(), Reads: g.Reads, Marks: marks}, o.News.of(g.Desc().ID))
			a.Restore(delta)
			a.begin(g.Engine(), g.Desc().Span())
			ends.Begin(g.Desc(), g.Self(), generation, g.Clock().Now, a.Acceptor)
			return a
		},
		Ended: func(g *rangeserver.Range, generation uint64, a *Voter) {
			if now := g.Generation(); now.Number != generation || now.Stage == replica.Open {
				return // an acceptor that could not write for another reason is made anew
			}
			ends.Keep(g.Desc(), g.Host().Clock.Monotonic(), generation, a.Acceptor)
		},
		Load: func(a *Voter, src *acceptor.Base, k keys.Key) error {
			r, err := a.base(src, src.Rows, k)
			if err == nil {
				a.Take(k, r)
			}
			return err
		},
		Read: func(g *rangeserver.Range, generation uint64, src *acceptor.Base, a *Voter, q *core.Request) (*core.Reply, error) {
			d := g.Desc()
			if me, ok := d.Replica(g.Self().Node); !ok || !me.Type.Votes() || !me.Full() {
				// Nobody tells it outcomes. Requests to the nearest replica go on to another one.
				return nil, &kv.UnavailableError{Reason: "a replica without a vote has the rows as of the generation's beginning"}
			}
			switch {
			case q.Kind == core.Reign && !q.Renew:
				var err error
				q.Beside, err = a.besides(g.Engine(), d.Span(), g.AppliedIn)
				return nil, err
			case q.Kind != core.Read:
				return nil, nil
			}
			for _, k := range q.Look.Keys {
				if !d.Contains(k) {
					return nil, &kv.RangeMismatchError{Span: keys.Span{Start: k}, Infos: []kv.RangeInfo{{Desc: *d}}}
				}
			}
			if q.Look.Base {
				if q.Generation != generation || !g.Acts(generation) {
					return &core.Reply{Looked: &core.Looked{}}, nil
				}
				l, err := lookBase(g.Engine(), q.Look.Keys, g.AppliedIn)
				return &core.Reply{Looked: &l}, err
			}
			if !q.Look.At.IsZero() {
				return lookBack(g, generation, a, d, q.LookIn(generation))
			}
			if a.news != nil && !q.Look.Open {
				if err := a.catchUp(src.Reader, g.AppliedIn); err != nil {
					return nil, err
				}
			}
			l, err := a.look(src.Reader, g.Clock().Now(), src.Rows, d, q.Look)
			if err == nil {
				err = a.tellAge(g, src, q.Look, &l)
			}
			return &core.Reply{Looked: &l}, err
		},
		Decode: core.DecodeRequest,
		Key:    func(q *core.Request) keys.Key { return q.Key },
		Append: func(b []byte, r *core.Reply) []byte { return r.Append(b) },
		Store:  func(d *rangeserver.Delta, w *core.Write) { w.Store(d) },
		Stored: core.RestoreDelta,
		Pieces: func(w *core.Write, send func([]byte) error) error { return w.Pieces(send) },
		Last:   func(w *core.Write) clock.Timestamp { return w.Record.Last() },
		Size:   (*Voter).holds,
		Tend: func(g *rangeserver.Range, a *Voter) error {
			a.Lead(g.Leads())
			ends.Expire(g.Host().Clock.Monotonic())
			if a.Crowded() {
				g.Holds(a.holds())
			}
			err := a.Tend(g.Engine(), g.Clock().Now())
			if a.news != nil && err == nil {
				o.News.join(g.Desc(), g.Self().Node, nil)
				err = a.catchUp(g.Engine(), g.AppliedIn)
			}
			o.mend(a.Overdue())
			g.Lags(a.Lagging())
			return err
		},
		Final: func(a *Voter, max int) (out []replica.Row) {
			for _, v := range a.Final(max) {
				out = append(out, replica.Row{Key: v.Key, Value: v.Data, Timestamp: v.At})
			}
			return out
		},
		Absorbed: func(a *Voter, rows []replica.Row) {
			for i := range rows {
				a.Absorbed(rows[i].Key, rows[i].Timestamp)
			}
		},
	}
}

// lookBack is a read at a timestamp. The clock is moved past that before anything is promised, so that the floor of the next generation is above it, and what a later process
// of this node begins with (fastpaxos.FP60).
func lookBack(g *rangeserver.Range, generation uint64, a *Voter, d *kv.RangeDescriptor, q *core.Look) (*core.Reply, error) {
	if err := g.Clock().Update(q.At); err != nil {
		return nil, err
	}
	r := mvcc.NewReader(g.Engine())
	defer r.Close()
	l, err := a.LookBack(&replicated{a: a, src: g.Engine(), r: r}, q, d.Span())
	if a.news != nil {
		l.Heard = a.news.n.heardOf(g.StartedAt())
	}
	if err == nil && !g.Acts(generation) {
		return nil, &kv.GenerationError{Range: d.ID, Desc: g.Desc()} // what was promised may not be in this replica's report
	}
	return &core.Reply{Looked: &l}, err
}

// crowdedSize has a range folded (rangeserver's foldAfter).
const crowdedSize = 1 << 40

// holds is about how many bytes the delta has, or so many that the range is folded.
func (a *Voter) holds() int64 {
	if a.Crowded() {
		return crowdedSize
	}
	return a.Size()
}

// tellAge says how old an answer may be (fastpaxos.FP85).
func (a *Voter) tellAge(g *rangeserver.Range, src *acceptor.Base, q *core.Look, l *core.Looked) error {
	if a.news == nil || q.Open {
		return nil
	}
	now := g.Host().Clock.Monotonic()
	l.Age = a.news.age(now)
	lacking, err := a.news.lackingIn(q, now, func(k keys.Key) (*core.Record, error) {
		if r := a.Record(k); r != nil {
			return r, nil
		}
		r, err := a.fromBase(src.Reader, src.Rows, k)
		if err == nil {
			r = a.Over(k, r)
		}
		return r, err
	})
	l.Stale = append(l.Stale, lacking...)
	return err
}

// tell implements teller.
func (p participant) tell() (items []newsItem, applied uint64, err error) {
	told := false
	err = p.With(p.g.Generation().Number, func(a *Voter) (err error) {
		if applied, err = p.g.AppliedIn(p.g.Engine()); err == nil {
			items, told = tell(a.Acceptor, p.g.Desc().ID), true
		}
		return err
	})
	if err == nil && !told {
		err = errSealed
	}
	return items, applied, err
}

var errSealed = errors.New("fastpaxos: the range is sealed")

// tell gives what has been accepted or executed here and is not in the base. The order is that of keys.
func tell(a *core.Acceptor, id kv.RangeID) (items []newsItem) {
	a.Each(func(k keys.Key, r *core.Record, base clock.Timestamp) {
		for i := range r.Votes {
			if v := &r.Votes[i]; v.Verdict == core.Accepted {
				items = append(items, newsItem{id, accepted, k, v.Name})
			}
		}
		for i := range r.Added {
			items = append(items, newsItem{id, carriedOut, k, r.Added[i].Name})
		}
		if base.Less(r.Base.At) {
			items = append(items, newsItem{id, carriedOut, k, core.Name{At: r.Base.At}})
		}
	})
	return items
}

type participant struct {
	*acceptor.Participant[*Voter, core.Request, core.Reply, core.Write]
	g    *rangeserver.Range
	news *News
	ends *core.Generations
}

// Opened implements rangeserver.Participant.
func (p participant) Opened(d *kv.RangeDescriptor) {
	p.news.join(d, p.g.Self().Node, nil)
	p.Participant.Opened(d)
	p.begin(d.Generation)
}

// begin makes the acceptor of a generation, if another one's has ended here: the next one is to have it, though nobody asks for anything in this one.
func (p participant) begin(generation uint64) {
	if !p.ends.Empty() {
		_ = p.With(generation, func(*Voter) error { return nil })
	}
}

// Close implements rangeserver.Participant.
func (p participant) Close(err error) {
	p.news.leave(p.g.Desc().ID, p)
	p.ends.Forget(p.g.Desc().ID)
	p.Participant.Close(err)
}

// Receive gets nothing: replicas of this protocol do not talk to each other.
func (participant) Receive(kv.ReplicaDescriptor, []byte) {}
