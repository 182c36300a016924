package fastpaxos

import (
	"errors"

	"meridian/clock"
	"meridian/commit/acceptor"
	"meridian/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/replica"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// acceptors are driven by package acceptor.
func acceptors(o *ProtocolOptions, marks *Marks, ends *Generations) *acceptor.Protocol[*Acceptor, Request, Reply, Write] {
	return &acceptor.Protocol[*Acceptor, Request, Reply, Write]{
		Name: "fastpaxos",
		New: func(g *rangeserver.Range, generation uint64, delta []Write, last core.Ticket) *Acceptor {
			a := NewAcceptor(QuorumsIn(g.Desc()), o.Columns, nil, last)
			a.floor, a.generation = g.Generation().Floor, generation
			a.reads = g.Reads
			a.low, a.from, a.marks = g.StartedAt(), g.StartedAt().Forward(a.floor), marks
			a.settled = a.floor
			a.news = o.News.of(g.Desc().ID)
			a.Restore(delta)
			a.begin(g.Engine(), g.Desc().Span())
			ends.begin(g, generation, a)
			return a
		},
		Ended: ends.keep,
		Load: func(a *Acceptor, src *acceptor.Base, k keys.Key) error {
			r, err := a.base(src, src.Rows, k)
			if err == nil {
				a.load(k, r)
			}
			return err
		},
		Read: func(g *rangeserver.Range, generation uint64, src *acceptor.Base, a *Acceptor, q *Request) (*Reply, error) {
			d := g.Desc()
			if me, ok := d.Replica(g.Self().Node); !ok || !me.Type.Votes() || !me.Full() {
				// Nobody tells it outcomes. Requests to the nearest replica go on to another one.
				return nil, &kv.UnavailableError{Reason: "a replica without a vote has the rows as of the generation's beginning"}
			}
			switch {
			case q.Kind == Reign && !q.Renew:
				var err error
				q.beside, err = a.besides(g.Engine(), d.Span(), g.AppliedIn)
				return nil, err
			case q.Kind != Read:
				return nil, nil
			}
			for _, k := range q.Look.Keys {
				if !d.Contains(k) {
					return nil, &kv.RangeMismatchError{Span: keys.Span{Start: k}, Infos: []kv.RangeInfo{{Desc: *d}}}
				}
			}
			if q.Look.Base {
				if q.Generation != generation || !g.Acts(generation) {
					return &Reply{Looked: &Looked{}}, nil
				}
				l, err := lookBase(g.Engine(), q.Look.Keys, g.AppliedIn)
				return &Reply{Looked: &l}, err
			}
			if !q.Look.At.IsZero() {
				return lookBack(g, generation, a, d, q.look(generation))
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
			return &Reply{Looked: &l}, err
		},
		Decode: DecodeRequest,
		Key:    func(q *Request) keys.Key { return q.Key },
		Append: func(b []byte, r *Reply) []byte { return r.Append(b) },
		Store:  func(d *rangeserver.Delta, w *Write) { w.store(d) },
		Stored: restoreDelta,
		Pieces: func(w *Write, send func([]byte) error) error { return w.pieces(send) },
		Last:   func(w *Write) clock.Timestamp { return w.Record.last() },
		Size:   (*Acceptor).holds,
		Tend: func(g *rangeserver.Range, a *Acceptor) error {
			a.leads, a.overdue = g.Leads(), nil
			ends.expire(g.Host().Clock.Monotonic())
			if a.crowded {
				g.Holds(a.holds())
			}
			err := a.Tend(g.Engine(), g.Clock().Now())
			if a.news != nil && err == nil {
				o.News.join(g.Desc(), g.Self().Node, nil)
				err = a.catchUp(g.Engine(), g.AppliedIn)
			}
			o.mend(a.overdue)
			g.Lags(len(a.lagging))
			return err
		},
		Final: func(a *Acceptor, max int) (out []replica.Row) {
			for _, v := range a.Final(max) {
				out = append(out, replica.Row{Key: v.Key, Value: v.Data, Timestamp: v.At})
			}
			return out
		},
		Absorbed: func(a *Acceptor, rows []replica.Row) {
			for i := range rows {
				a.Absorbed(rows[i].Key, rows[i].Timestamp)
			}
		},
	}
}

// lookBack is a read at a timestamp. The clock is moved past that before anything is promised, so that the floor of the next generation is above it, and what a later process
// of this node begins with (fastpaxos.FP60).
func lookBack(g *rangeserver.Range, generation uint64, a *Acceptor, d *kv.RangeDescriptor, q *Look) (*Reply, error) {
	if err := g.Clock().Update(q.At); err != nil {
		return nil, err
	}
	r := mvcc.NewReader(g.Engine())
	defer r.Close()
	l, err := a.lookBack(&replicated{a: a, src: g.Engine(), r: r}, q, d.Span())
	if a.news != nil {
		l.Heard = a.news.n.heardOf(g.StartedAt())
	}
	if err == nil && !g.Acts(generation) {
		return nil, &kv.GenerationError{Range: d.ID, Desc: g.Desc()} // what was promised may not be in this replica's report
	}
	return &Reply{Looked: &l}, err
}

// crowdedSize has a range folded (rangeserver's foldAfter).
const crowdedSize = 1 << 40

// holds is about how many bytes the delta has, or so many that the range is folded.
func (a *Acceptor) holds() int64 {
	if a.crowded {
		return crowdedSize
	}
	return a.size
}

// tellAge says how old an answer may be (fastpaxos.FP85).
func (a *Acceptor) tellAge(g *rangeserver.Range, src *acceptor.Base, q *Look, l *Looked) error {
	if a.news == nil || q.Open {
		return nil
	}
	now := g.Host().Clock.Monotonic()
	l.Age = a.news.age(now)
	lacking, err := a.news.lackingIn(q, now, func(k keys.Key) (*Record, error) {
		if r := a.records[string(k)]; r != nil {
			return r, nil
		}
		r, err := a.fromBase(src.Reader, src.Rows, k)
		if err == nil {
			r, _ = a.onBase(k, r)
		}
		return r, err
	})
	l.Stale = append(l.Stale, lacking...)
	return err
}

// tell implements teller.
func (p participant) tell() (items []newsItem, applied uint64, err error) {
	told := false
	err = p.With(p.g.Generation().Number, func(a *Acceptor) (err error) {
		if applied, err = p.g.AppliedIn(p.g.Engine()); err == nil {
			items, told = a.tell(p.g.Desc().ID), true
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
func (a *Acceptor) tell(id kv.RangeID) (items []newsItem) {
	a.order.Ascend(func(k string) bool {
		r, base := a.records[k], clock.Timestamp{}
		if r != nil {
			base = r.kept.base
		} else if r = a.stored[k]; r == nil {
			return true
		}
		for i := range r.Votes {
			if v := &r.Votes[i]; v.Verdict == Accepted {
				items = append(items, newsItem{id, accepted, keys.Key(k), v.Name})
			}
		}
		for i := range r.Added {
			items = append(items, newsItem{id, carriedOut, keys.Key(k), r.Added[i].Name})
		}
		if base.Less(r.Base.At) {
			items = append(items, newsItem{id, carriedOut, keys.Key(k), Name{At: r.Base.At}})
		}
		return true
	})
	return items
}

type participant struct {
	*acceptor.Participant[*Acceptor, Request, Reply, Write]
	g    *rangeserver.Range
	news *News
	ends *Generations
}

// Opened implements rangeserver.Participant.
func (p participant) Opened(d *kv.RangeDescriptor) {
	p.news.join(d, p.g.Self().Node, nil)
	p.Participant.Opened(d)
	p.begin(d.Generation)
}

// begin makes the acceptor of a generation, if another one's has ended here: the next one is to have it, though nobody asks for anything in this one.
func (p participant) begin(generation uint64) {
	if !p.ends.empty() {
		_ = p.With(generation, func(*Acceptor) error { return nil })
	}
}

// Close implements rangeserver.Participant.
func (p participant) Close(err error) {
	p.news.leave(p.g.Desc().ID, p)
	p.ends.forget(p.g.Desc().ID)
	p.Participant.Close(err)
}

// Receive gets nothing: replicas of this protocol do not talk to each other.
func (participant) Receive(kv.ReplicaDescriptor, []byte) {}

// bareLook bounds the search for protocol keys when a generation begins.
const bareLook = 64

// bare reports whether there is nothing next to any row of a span, as far as is easily found. Within a generation nothing comes there.
func bare(src engine.Reader, span keys.Span) bool {
	local := keys.RangeLocalSpan(span.Start, span.End)
	it, err := src.NewIter(engine.IterOptions{Lower: local.Start, Upper: local.End})
	if err != nil {
		return false
	}
	defer it.Close()
	for n, ok := 0, it.First(); ok; n, ok = n+1, it.Next() {
		k, _ := it.Key()
		if _, name, err := keys.DecodeProtocolKey(k); err == nil && string(name) == sideName || n == bareLook {
			return false
		}
	}
	return it.Error() == nil
}

// maybeSide reports whether something may be next to a row: whatever Tend has found there since the generation began, and all where it has not been yet.
func (a *Acceptor) maybeSide(k keys.Key) bool {
	if a.bare || a.sides == nil {
		return !a.bare
	}
	if _, ok := a.sides[nameOf(k)]; ok || a.left.Start == nil {
		return ok
	}
	return a.left.Start.Compare(sideKey(k)) <= 0
}

// base is Base for an acceptor.
func (a *Acceptor) base(src engine.Reader, rows func() *mvcc.Reader, k keys.Key) (*Record, error) {
	if v, ok := a.looked[string(k)]; ok {
		delete(a.looked, string(k))
		return &Record{Base: v}, nil
	}
	return a.fromBase(src, rows, k)
}

// fromBase reads a record that is not loaded from the base, unless it is known that nothing is there.
func (a *Acceptor) fromBase(src engine.Reader, rows func() *mvcc.Reader, k keys.Key) (*Record, error) {
	if a.gap.has(k) {
		return &Record{}, nil
	}
	var s *side
	if a.maybeSide(k) {
		var err error
		if s, err = readSide(src, k); err != nil {
			return nil, err
		}
	}
	r, err := onBase(rows(), k, s)
	if err == nil && s == nil && r.Base.At.IsZero() {
		err = a.gap.find(src, k)
	}
	return r, err
}

// lookedMost bounds the rows that an acceptor remembers because they were read.
const lookedMost = 256

// saw remembers a row of the base that was just read here, which is probably about to be written. A version that comes into the base meanwhile is one that the acceptor has not
// voted for: to it, it is one that it has missed.
func (a *Acceptor) saw(k keys.Key, r *Record) {
	if len(a.looked) >= lookedMost {
		clear(a.looked)
	}
	if a.stored[string(k)] == nil && !a.maybeSide(k) {
		a.looked[string(k)] = r.Base
	}
}
