package replica

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"meridian/clock"
	"meridian/commit"
	"meridian/commit/acceptor"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/replica"
	"meridian/storage/engine"
	"meridian/wire"
)

// ProtocolOptions are what a node's part of the protocol needs.
type ProtocolOptions struct {
	// Columns knows the form of rows.
	Columns core.Columns
	// Finishers decide transactions when a range gets another protocol. The Finisher of kv.FastPaxos is an Ender and a Mender.
	Finishers func() commit.Finishers
	// News tells the node's other stores what the replicas hear, and the replicas what they have not heard; nil: they hear from gateways only.
	News *News
}

// New is the protocol as a node's registry has it.
func New(o ProtocolOptions) rangeserver.Protocol {
	ends := &core.Generations{}
	p := acceptors(&o, &core.Marks{}, ends)
	return rangeserver.Protocol{
		Name: "fast_paxos",
		New: func(g *rangeserver.Range) rangeserver.Participant {
			made := participant{acceptor.New(p, g), g, o.News, ends}
			o.News.join(g.Desc(), g.Self().Node, made)
			made.begin(g.Desc().Generation)
			return made
		},
		Fold:   func(_ context.Context, f *rangeserver.Folding) error { return foldRange(o.Columns, f) },
		Settle: func(ctx context.Context, f *rangeserver.Folding) error { return settle(ctx, &o, f) },
		Recall: recall,
	}
}

// foldRows is about how many rows a fold puts together before it writes them.
const foldRows = 4096

// rows collects what a fold writes.
type rows struct {
	f    *rangeserver.Folding
	rows []replica.Row
}

// add adds a record; was is what the base has.
func (w *rows) add(k keys.Key, r, was *core.Record) error {
	if was.Base.At.Less(r.Base.At) {
		w.rows = append(w.rows, replica.Row{Key: k, Value: r.Base.Data, Timestamp: r.Base.At})
	}
	next := replica.Row{Key: sideKey(k)}
	if !r.Default() {
		s := side{Record: *r, by: w.f.Desc.ID, generation: w.f.Generation}
		s.Base.Data = nil
		next.Value = s.append(nil)
	}
	w.rows = append(w.rows, next)
	if len(w.rows) < foldRows {
		return nil
	}
	return w.flush() // not between a row and its protocol key
}

func (w *rows) flush() error {
	if len(w.rows) == 0 {
		return nil
	}
	err := w.f.Write(w.rows)
	w.rows = nil
	return err
}

// foldRange writes to the base what the reports of a generation come to (fastpaxos.FP9, fastpaxos.FP10).
func foldRange(cols core.Columns, f *rangeserver.Folding) error {
	reported, err := gather(f) // as far as their replicas' deltas had them
	if err != nil {
		return err
	}
	sides, err := sidesOf(f.Base, f.Desc.Span())
	if err != nil {
		return err
	}
	w, q, forget := &rows{f: f}, core.QuorumsIn(f.Desc), clock.Timestamp{Wall: f.Now.Wall - int64(core.Remembered)}
	for i := range sides {
		s := &sides[i]
		if s.by == f.Desc.ID && s.generation == f.Generation {
			delete(reported, string(s.key)) // decided when the fold was begun before
			continue
		}
		if reported[string(s.key)] != nil {
			continue
		}
		if n := len(s.Recent); n > 0 { // nobody has changed it for a generation
			if s.Forget(forget); len(s.Recent) < n {
				s.Floor = clock.Timestamp{}
				if err := w.add(s.key, &s.Record, &s.Record); err != nil {
					return err
				}
			}
		}
	}
	var order []string
	for k := range reported {
		order = append(order, k)
	}
	slices.Sort(order)
	for _, k := range order {
		was, err := Base(f.Base, keys.Key(k))
		if err != nil {
			return err
		}
		all := reported[k]
		for len(all) < len(f.Reports) {
			all = append(all, was) // a report has what its replica has changed
		}
		for i := range all {
			// A fold that was begun before may have found a version that its replicas have not heard of.
			all[i] = all[i].Clone()
			all[i].Learn(&core.Record{Base: was.Base})
		}
		r := core.Next(all, q, cols)
		r.Forget(forget)
		r.Floor = clock.Timestamp{} // that of the generation is above it
		if err := w.add(keys.Key(k), r, was); err != nil {
			return err
		}
	}
	return w.flush()
}

// gather gives the records of all reports, by keys.
func gather(f *rangeserver.Folding) (map[string][]*core.Record, error) {
	out := map[string][]*core.Record{}
	for _, r := range f.Reports {
		var last *core.Write // a record may be in several pieces
		for _, piece := range r.Pieces {
			var e core.Write
			in := wire.Read(bytes.Clone(piece))
			if core.ReadWrite(&in, &e); in.Err() != nil {
				return nil, fmt.Errorf("fastpaxos: a report of replica %d: %w", r.From.Replica, in.Err())
			}
			if last != nil && last.Key.Equal(e.Key) {
				last.Record.Added = append(last.Record.Added, e.Record.Added...)
				last.Record.Votes = append(last.Record.Votes, e.Record.Votes...)
				last.Record.Recent = append(last.Record.Recent, e.Record.Recent...)
			} else {
				last = &e
				out[string(e.Key)] = append(out[string(e.Key)], e.Record)
			}
			f.Now = f.Now.Forward(e.Record.Last())
		}
	}
	return out, nil
}

// enders bounds how many transactions a range that is about to have another protocol ends at once.
const enders = 16

// settle ends all transactions with outstanding options in a sealed range, before it has another protocol: nobody could ask it about them
// afterwards (fastpaxos.FP11). The range has been folded, so the base has all.
func settle(ctx context.Context, o *ProtocolOptions, f *rangeserver.Folding) error {
	sides, err := sidesOf(f.Base, f.Desc.Span())
	if err != nil || len(sides) == 0 {
		return err
	}
	c := &closing{f: f, finishers: o.Finishers(), at: map[string]*core.Record{}, open: map[core.Name]*core.Option{}, committed: map[core.Name]bool{}}
	was := make([]*core.Record, len(sides))
	for i := range sides {
		r, err := Base(f.Base, sides[i].key)
		if err != nil {
			return err
		}
		f.Now = f.Now.Forward(r.Last())
		was[i], c.at[string(sides[i].key)] = r, r.Clone()
	}
	for i := range was {
		for j := range was[i].Votes {
			c.open[was[i].Votes[j].Name] = &was[i].Votes[j].Option
		}
	}
	asks := slices.ContainsFunc(slices.Collect(maps.Values(c.open)), func(o *core.Option) bool {
		return o.Anchor != nil || slices.ContainsFunc(o.Keys, func(k keys.Key) bool { return !f.Desc.Contains(k) })
	})
	if asks {
		// Others decide by the state that this range has come to.
		if err := f.Durable(); err != nil {
			return err
		}
	}
	if err := c.endAll(ctx); err != nil {
		return err
	}
	// First the outcomes, so that whoever begins again from here on finds all of them, unless the rest is in the same command.
	w, forget := &rows{f: f}, clock.Timestamp{Wall: f.Now.Wall - int64(core.Remembered)}
	for i := range sides {
		r := c.at[string(sides[i].key)]
		if len(r.Votes) == 0 {
			continue
		}
		for _, v := range slices.Clone(r.Votes) {
			r.End(&v.Option, c.committed[v.Name])
		}
		if err := w.add(sides[i].key, r, was[i]); err != nil {
			return err
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	for i := range sides {
		r := c.at[string(sides[i].key)]
		plain := &core.Record{Base: r.Base}
		for _, e := range r.Recent {
			// Its gateway may not have heard, and asks (recall). Records elsewhere that have not heard may ask at any time, and what this range has forgotten it
			// never had: it is rejected to them. So it does not forget what has committed.
			if !e.Committed || !slices.ContainsFunc(e.Keys, func(k keys.Key) bool { return !f.Desc.Contains(k) }) {
				e.Keys = nil
			}
			plain.Remember(e)
		}
		plain.Forget(forget)
		plain.Floor = clock.Timestamp{} // that of the next generation is above it
		if len(r.Added) > 0 {
			row, err := r.Row(sides[i].key, o.Columns)
			if err != nil {
				return err
			}
			plain.Base = core.Value{At: row.Last, Data: row.Value}
		}
		if err := w.add(sides[i].key, plain, r); err != nil {
			return err
		}
	}
	return w.flush()
}

// recall answers a Query of an option in a range that has another protocol now, or whose generation is folded (fastpaxos.FP11). Outcome is that of its transaction, undecided if the range does
// not know; Verdict is Accepted if the fold has found the option accepted.
func recall(base engine.Reader, body []byte) (answer []byte, upTo clock.Timestamp, err error) {
	q, err := core.DecodeRequest(body)
	if err != nil {
		return nil, upTo, err
	}
	r, err := Base(base, q.Key)
	if err != nil {
		return nil, upTo, err
	}
	reply := core.Reply{Outcome: r.Outcome(q.Option.Name)}
	if r.Vote(q.Option.Name) != nil {
		reply.Verdict = core.Accepted
	}
	return reply.Append(nil), q.Option.At, nil
}

// closing ends transactions for a sealed range.
type closing struct {
	f         *rangeserver.Folding
	finishers commit.Finishers
	at        map[string]*core.Record

	open map[core.Name]*core.Option

	mu        sync.Mutex // guards what is below, and what is left of open; nothing is taken after it
	committed map[core.Name]bool
}

// endAll ends all that are open.
func (c *closing) endAll(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all []*core.Option
	for _, o := range c.open {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *core.Option) int { return a.Compare(b.Name) })
	var wait sync.WaitGroup
	var first error
	for range min(enders, len(all)) {
		wait.Go(func() {
			for {
				c.mu.Lock()
				if len(all) == 0 || first != nil {
					c.mu.Unlock()
					return
				}
				o := all[0]
				all = all[1:]
				c.mu.Unlock()
				committed, err := c.end(ctx, o)
				c.mu.Lock()
				c.committed[o.Name] = committed
				if err != nil && first == nil {
					first = fmt.Errorf("fastpaxos: ending transaction %s: %w", o.Txn, err)
					cancel()
				}
				c.mu.Unlock()
			}
		})
	}
	wait.Wait()
	return first
}

// end learns a transaction's outcome, and tells its other records.
func (c *closing) end(ctx context.Context, o *core.Option) (committed bool, err error) {
	if o.Anchor != nil {
		return c.endByRecord(ctx, o)
	}
	known, elsewhere, outcome := map[string]core.Verdict{}, false, core.Accepted
	for _, k := range o.Keys {
		if !c.f.Desc.Contains(k) {
			elsewhere = true
			continue
		}
		v := core.Past // never came
		if r := c.at[string(k)]; r != nil {
			if r.Vote(o.Name) != nil {
				v = core.Accepted
			} else if out := r.Outcome(o.Name); out != core.Undecided {
				v = out
			}
		}
		if known[string(k)] = v; v != core.Accepted {
			outcome = core.Rejected
		}
	}
	if !elsewhere {
		return outcome == core.Accepted, nil
	}
	e, ok := c.finishers[kv.FastPaxos].(Ender)
	if !ok {
		return false, &kv.InternalError{Message: "fastpaxos: this node can't end transactions"}
	}
	return e.Finish(ctx, o, known)
}

// endByRecord decides a transaction that has a record.
func (c *closing) endByRecord(ctx context.Context, o *core.Option) (committed bool, err error) {
	finishers := commit.Finishers{}
	maps.Copy(finishers, c.finishers)
	finishers[kv.FastPaxos] = &inside{Finisher: c.finishers[kv.FastPaxos], c: c}
	t, err := commit.Conclude(ctx, c.f.Sender, finishers, kv.TxnMeta{ID: o.Txn, Anchor: o.Anchor, WriteTimestamp: o.At, MinTimestamp: o.At})
	return t.Status == kv.Committed && t.WriteTimestamp == o.At, err
}

// inside is the protocol's Finisher while a range is sealed for another protocol: what the range says of its own options is final, since nobody
// can add to them.
type inside struct {
	commit.Finisher
	c *closing
}

// Witness implements commit.Finisher.
func (f *inside) Witness(ctx context.Context, r *commit.Record, writes []kv.InFlightWrite) (bool, error) {
	var others []kv.InFlightWrite
	for _, w := range writes {
		if !f.c.f.Desc.Contains(w.Key) {
			others = append(others, w)
			continue
		}
		g, n := f.c.at[string(w.Key)], core.Name{Txn: r.ID, At: r.WriteTimestamp}
		if g == nil || g.Vote(n) == nil && g.Outcome(n) != core.Accepted {
			return false, nil
		}
	}
	if len(others) == 0 {
		return true, nil
	}
	return f.Finisher.Witness(ctx, r, others)
}
