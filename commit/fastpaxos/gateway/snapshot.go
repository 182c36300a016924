package gateway

import (
	"context"
	"slices"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
)

// Reads at a timestamp: a gateway's part (fastpaxos.FP60, fastpaxos.FP61, fastpaxos.FP62).
//
//	replicas answer      the next generation begins      a quorum is asked about o
//	   version 1, o          with version 3                o is past
//	---------|---------------------|---------------------------|------------> time
//
//	fastpaxos.FP98 (I2, I3): An option is past if its transaction has ended, and no record need know how: a quorum has what it has written, if it has committed, or a later version. Answers that were given before that was
//	    known may have neither, as above, where nobody remembers o because version 3 was made for it. So past means neither committed nor aborted to a reader. It reads again, once: answers that are given
//	    afterwards have what o has written, and if one of them has o as outstanding and none has executed it, o was aborted.

// snapshot is what rows are read at.
type snapshot struct {
	at, limit clock.Timestamp
	by        kv.TxnID
	front     *frontier // nil: there is none
}

// oldError says that too few replicas know the versions of a time.
type oldError struct{ at, since clock.Timestamp }

func (e *oldError) Error() string {
	return "fastpaxos: too few replicas have the versions of " + e.at.String() + "; those since " + e.since.String() + " can be read"
}

// lookBack reads rows of one range at a timestamp; *kv.RangeMismatchError: the keys are in several. In the result no option is open. front, if not nil, bounds what is uncertain, or takes in what this read says of it.
func (c *reader) lookBack(ctx context.Context, q *core.Look, front *frontier) (m *reading, err error) {
	if front != nil {
		before := q
		for again := false; ; again = true {
			info, err := c.o.Sender.Range(ctx, before.Start(), again)
			if err != nil {
				return nil, err
			}
			asked := *before
			asked.Limit = front.limit(&info.Desc, before.Limit)
			if m, err = c.lookBack(ctx, &asked, nil); err != nil {
				return nil, err
			}
			if m.in == core.PlaceOf(&info.Desc) || asked.Limit == before.Limit {
				front.note(m)
				return m, nil
			}
			if ctx.Err() != nil { // it may have other voters than was thought: it has changed meanwhile
				return nil, ctx.Err()
			}
		}
	}
	start := q.Start()
	closed := map[string]bool{}
	// The promise of a term's master is asked for before the acceptors', if it is known that there is one.
	var by ruledTerm
	promised := func(r ruledTerm) bool {
		ok := c.marked(ctx, q, r)
		if ok {
			asked := *q
			asked.Term, by, q = r.ballot, r, &asked
		}
		return ok
	}
	mayAsk := true // about keys
	past := pastOptions{}
	if r := c.ruledBy(ctx, start); r.in != (core.Place{}) {
		mayAsk = promised(r)
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		m = newReading(q)
		var busy, unsure []keys.Key
		enough, err := c.each(ctx, []*core.Request{{Kind: core.Read, Key: start, Look: q, Generation: by.in.Generation}}, func(d *kv.RangeDescriptor, from kv.ReplicaID, rs []*core.Reply) bool {
			if m.in != core.PlaceOf(d) {
				m.begin(d)
			}
			if rs[0].Looked == nil {
				return true
			}
			m.from(d, from, rs[0].Looked)
			m.take(rs[0].Looked)
			if m.termed > m.sizes.Replicas-m.sizes.Reading() && (mayAsk || q.Keys == nil) {
				return false
			}
			if m.promisers < m.sizes.Classic || m.promisers < m.need() && len(closed) == 0 {
				return true
			}
			var old []keys.Key
			old, busy, unsure = m.unread(closed)
			return len(old) > 0
		})
		if isOther(err) {
			return nil, err
		}
		if m.termed > m.sizes.Replicas-m.sizes.Reading() && (mayAsk || q.Keys == nil) {
			if r := (ruledTerm{m.in, m.latestTerm}); r != by && promised(r) {
				continue
			}
			if mayAsk = false; q.Keys != nil {
				continue // the records' masters are asked one by one
			}
			if err := c.renew(ctx, start, m.in.Generation); err != nil {
				return nil, err
			}
			if err := c.pause(ctx, pause); err != nil {
				return nil, err
			}
			continue
		}
		if !enough && m.in != (core.Place{}) && ctx.Err() == nil {
			switch {
			case m.promisers >= m.need(), m.promisers+m.refusers >= m.sizes.Replicas, m.refusers > m.sizes.Replicas-m.sizes.Classic:
				return nil, &oldError{q.At, m.since.Forward(q.At.Next())}
			case q.Keys != nil && m.promisers >= m.sizes.Classic && len(closed) < len(q.Keys):
				busy = q.Keys // masters need fewer replicas
			}
		}
		switch {
		case len(busy) > 0:
			if err := c.all(len(busy), func(i int) error { return c.promise(ctx, busy[i], core.Mark{At: q.At, By: q.By}) }); err != nil {
				return nil, err
			}
			for _, k := range busy {
				closed[string(k)] = true
			}
			continue
		case enough:
			if err := c.certain(ctx, m, unsure); err != nil {
				return nil, err
			}
			behind, err := c.outcomes(ctx, m, past)
			if err != nil {
				return nil, err
			}
			if !behind {
				return m, nil
			}
		}
		if err := c.pause(ctx, pause); err != nil {
			return nil, err
		}
		// The range may have been split between the keys; its replicas refuse those that they do not have.
		groups, descs, err := c.grouped(ctx, q.Keys)
		if err != nil {
			return nil, err
		}
		if len(groups) > 1 {
			return nil, &kv.RangeMismatchError{Span: keys.Span{Start: start}, Infos: []kv.RangeInfo{{Desc: descs[0]}}}
		}
	}
}

// certain asks for rows again by their keys, of which some replicas knew nothing when they were asked for a span.
func (c *reader) certain(ctx context.Context, m *reading, ks []keys.Key) error {
	if len(ks) == 0 {
		return nil
	}
	slices.SortFunc(ks, keys.Key.Compare)
	again, err := c.lookBack(ctx, &core.Look{Keys: ks, At: m.q.At, Limit: m.q.Limit, By: m.q.By, Term: m.q.Term}, nil)
	if err != nil {
		return err
	}
	for k, r := range again.rows {
		m.rows[k] = r
	}
	m.newer = m.newer.Forward(again.newer)
	return nil
}

// outcomes waits for the outcome of each option that was accepted, or brings it about, and executes those that have committed. behind: a version is missing which an option was made for, or may be missing
// because an option is past that was not so before the rows were read (fastpaxos.FP98).
func (c *reader) outcomes(ctx context.Context, m *reading, past pastOptions) (behind bool, err error) {
	var open []*pastRecord
	for _, r := range m.rows {
		r.Votes = slices.DeleteFunc(r.Votes, func(v core.Vote) bool {
			_, added := r.Addition(v.Name)
			return added || v.At.LessEq(r.Base.At)
		})
		if len(r.Votes) > 0 && (m.q.Keys != nil || m.covered.Contains(r.key)) {
			open = append(open, r)
		}
	}
	slices.SortFunc(open, func(a, b *pastRecord) int { return a.key.Compare(b.key) })
	ended := make([][]core.Name, len(open)) // of each record, those that are past
	if err := c.all(len(open), func(i int) error {
		r := open[i]
		votes := r.Votes
		r.Votes = nil
		slices.SortFunc(votes, func(a, b core.Vote) int { return a.Compare(b.Name) })
		for j := range votes {
			switch out, err := c.outcome(ctx, blocker{r.key, &votes[j].Option}); {
			case err != nil:
				return err
			case out == core.Accepted:
				r.Execute(core.Addition{Option: votes[j].Option})
			case out == core.Past:
				ended[i] = append(ended[i], votes[j].Name)
			}
		}
		return nil
	}); err != nil {
		return false, err
	}
	for i, r := range open {
		for _, n := range ended[i] {
			behind = past.note(r.key, n) || behind
		}
	}
	for _, r := range m.rows {
		behind = behind || r.Behind()
	}
	return behind, nil
}

// readAt reads rows at a timestamp, in the order of their keys.
func (c *reader) readAt(ctx context.Context, ks []keys.Key, s snapshot) (rows []core.Row, newer clock.Timestamp, err error) {
	rows = make([]core.Row, len(ks))
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		var groups [][]int
		if groups, _, err = c.grouped(ctx, ks); err != nil {
			return nil, newer, err
		}
		found := make([]*reading, len(groups))
		err = c.all(len(groups), func(g int) (err error) {
			q := &core.Look{At: s.at, Limit: s.limit, By: s.by}
			for _, i := range groups[g] {
				q.Keys = append(q.Keys, ks[i])
			}
			found[g], err = c.lookBack(ctx, q, s.front)
			return err
		})
		if err == nil {
			for g, m := range found {
				newer = newer.Forward(m.newer)
				for _, i := range groups[g] {
					if rows[i], err = m.rows[string(ks[i])].Row(ks[i], c.o.Columns); err != nil {
						return nil, newer, err
					}
				}
			}
			return rows, newer, nil
		}
		if !changing(err) {
			return nil, newer, err
		}
		if err := c.pause(ctx, pause); err != nil {
			return nil, newer, err
		}
	}
}

// scanAt reads the rows of a part of a span at a timestamp, from the end at which the scan begins; read is that part. Rows without a value are among them.
func (c *reader) scanAt(ctx context.Context, q core.Look, front *frontier) (rows []core.Row, read keys.Span, newer clock.Timestamp, err error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		one := q
		if one.Span, err = c.part(ctx, q.Span, q.Reverse); err != nil {
			return nil, read, newer, err
		}
		m, err := c.lookBack(ctx, &one, front)
		if err != nil {
			if !changing(err) {
				return nil, read, newer, err
			}
			if err := c.pause(ctx, pause); err != nil {
				return nil, read, newer, err
			}
			continue
		}
		for _, r := range m.rows {
			if !m.covered.Contains(r.key) {
				continue
			}
			w, err := r.Row(r.key, c.o.Columns)
			if err != nil {
				return nil, read, newer, err
			}
			rows = append(rows, w)
		}
		slices.SortFunc(rows, func(a, b core.Row) int {
			if q.Reverse {
				a, b = b, a
			}
			return a.Key.Compare(b.Key)
		})
		return rows, m.covered, m.newer, nil
	}
}
