package fastpaxos

import (
	"context"
	"slices"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

// Rows that have to be there when a transaction commits, such as those that foreign keys refer to, and reads that have to know what was committed before they began.
//
//	insert a child                          delete the parent
//	read the parent                         read the parent: S is the state that its option replaces
//	options: child, guard of the parent     read the children, freshly: none
//	                                        option: the parent, without a value, instead of S
//
//	fastpaxos.FP80 (I3): A guard is an option that needs its record to have a value, and changes nothing. It is judged, learned, finished and executed as a commuting update without deltas:
//	    guards and commuting updates do not exclude each other; an accepted guard excludes physical updates, and an accepted physical update excludes guards. An executed one
//	    changes the name of the record's state (Seen), though not its value. So a record is deleted only by a transaction that has read a state with all guards which were committed on it, and
//	    no guard is accepted afterwards.
//	fastpaxos.FP81 (I3): A transaction that removes a key which others may refer to reads the key's record before it looks for those, and its option replaces the state which it read then, as all do
//	    (fastpaxos.FP24). A reference whose guard is not in that state can't be committed any more if the removal is.
//	fastpaxos.FP82 (I3): A fresh read sees all transactions that had committed when it began. It asks a classic quorum: one of its replicas has executed the option of such a transaction, or has it as an accepted
//	    one, or has a later state, since any quorum by which it was learned has a replica in common with this one (also after a fold, which keeps it). The transactions of accepted options are waited for, or
//	    finished. So a reference whose guard is in the state that was read before is found.
//	fastpaxos.FP83 (I3): A reference has to be found by the one who removes, or its guard has to be where the removal is judged. So the table that is referred to has this protocol, if the
//	    one that refers to it does. The other way round the references are found by a check of the leader protocol, which holds at the commit timestamp; that is after all guards in the state that
//	    is replaced. (schemachange.SC12)

// guardOf is the option by which a key keeps its value.
func (x *coordinator) guardOf(k keys.Key) (Update, clock.Timestamp, error) {
	row, ok := x.checked[string(k)]
	if !ok || row.Value == nil {
		// It was read while the range had another protocol.
		return Update{}, clock.Timestamp{}, &kv.TxnRetryError{Reason: kv.RetrySerializable, WriteTimestamp: x.c.o.Clock.Now()}
	}
	return Update{Seen: row.Seen, Guard: true}, row.Seen.Base.Forward(row.Last), nil
}

// check reads keys that have to have values at the commit. Those that have none at the nearest replica may have one that it has not heard of.
func (x *coordinator) check(ctx context.Context, t *kv.Txn, ks []keys.Key) ([]Row, error) {
	rows, err := x.c.read(ctx, ks)
	if err != nil {
		return nil, err
	}
	var missing []keys.Key
	for i := range rows {
		if x.fresher(&rows[i]); rows[i].Value == nil {
			missing = append(missing, rows[i].Key)
		}
	}
	more, err := x.c.fresh(ctx, t.ID, missing)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if rows[i].Value == nil {
			rows[i], more = more[0], more[1:]
		}
		if x.checked == nil {
			x.checked = map[string]Row{}
		}
		x.checked[string(rows[i].Key)] = rows[i]
	}
	return rows, nil
}

// getFresh reads keys freshly, and has later reads of the transaction see as much.
func (x *coordinator) getFresh(ctx context.Context, t *kv.Txn, ks []keys.Key) ([]Row, error) {
	rows, err := x.c.fresh(ctx, t.ID, ks)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		x.remember(&rows[i])
	}
	return rows, nil
}

// remember has later reads of the transaction see a row that was read freshly.
func (x *coordinator) remember(w *Row) {
	if x.fresh == nil {
		x.fresh = map[string]Row{}
	}
	x.fresh[string(w.Key)] = *w
}

// fresher replaces a row of the nearest replica by one that was read freshly, if that is of a later version.
func (x *coordinator) fresher(w *Row) {
	if f, ok := x.fresh[string(w.Key)]; ok && w.Seen.Base.Less(f.Seen.Base) {
		*w = f
	}
}

// scanFresh is Scan of what had committed when it began.
func (x *coordinator) scanFresh(ctx context.Context, t *kv.Txn, o txn.ScanOptions) ([]kv.KeyValue, *keys.Span, error) {
	if o.Reverse {
		return nil, nil, &txn.UnsupportedError{Protocol: kv.FastPaxos, What: "fresh reads in descending order"}
	}
	bytes := o.TargetBytes
	if bytes == 0 {
		bytes = freshBytes
	}
	rows, end, err := x.c.scanFresh(ctx, t.ID, o.Span, bytes)
	if err != nil {
		return nil, nil, err
	}
	var out []kv.KeyValue
	for i := range rows {
		if rows[i].Value == nil {
			continue
		}
		if o.MaxRows > 0 && int64(len(out)) == o.MaxRows {
			end = rows[i].Key
			break
		}
		x.see(&rows[i])
		x.remember(&rows[i])
		out = append(out, kv.KeyValue{Key: rows[i].Key, Value: rows[i].Value})
	}
	if end.Less(o.Span.End) {
		return out, &keys.Span{Start: end, End: o.Span.End}, nil
	}
	return out, nil, nil
}

// freshBytes is how much a fresh scan reads at once. Chosen by us.
const freshBytes = 1 << 20

// gathered is what the replicas of a classic quorum, in one generation, have answered.
type gathered struct {
	at   place
	rs   [][]*Reply
	from []kv.ReplicaID
}

// gather asks requests of a classic quorum of one range.
func (c *Client) gather(ctx context.Context, qs []*Request) (g gathered, err error) {
	_, err = c.each(ctx, qs, func(d *kv.RangeDescriptor, from kv.ReplicaID, rs []*Reply) bool {
		if g.at != placeOf(d) {
			g = gathered{at: placeOf(d)}
		}
		if !slices.Contains(g.from, from) && !slices.ContainsFunc(rs, func(r *Reply) bool { return r.Looked == nil }) {
			g.from, g.rs = append(g.from, from), append(g.rs, rs)
		}
		return len(g.rs) < QuorumsIn(d).Classic
	})
	return g, err
}

// scanFresh reads the rows of a span up to end, in order (fastpaxos.FP82); some may have no value.
func (c *Client) scanFresh(ctx context.Context, me kv.TxnID, s keys.Span, bytes int64) (rows []Row, end keys.Key, err error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		part, err := c.part(ctx, s, false)
		if err != nil {
			return nil, nil, err
		}
		g, err := c.gather(ctx, []*Request{{Kind: Read, Key: part.Start, Look: &Look{Span: part, Bytes: bytes, Open: true}}})
		if err == nil {
			rows, end, unsure := g.merge(part)
			more, err := c.fresh(ctx, me, unsure)
			if err != nil {
				return nil, nil, err
			}
			rows = append(rows, more...)
			slices.SortFunc(rows, func(a, b Row) int { return a.Key.Compare(b.Key) })
			return rows, end, nil
		}
		if isOther(err) || ctx.Err() != nil {
			return nil, nil, err
		}
		if err := c.pause(ctx, pause); err != nil {
			return nil, nil, err
		}
	}
}

// merge gives the rows of a span, up to where all replicas have read, that all of them have in the same state, and the keys of which they know different things, or of which there are options.
func (g *gathered) merge(part keys.Span) (rows []Row, end keys.Key, unsure []keys.Key) {
	end = part.End
	for _, rs := range g.rs {
		if l := rs[0].Looked; l.Resume != nil && l.Resume.Start.Less(end) {
			end = l.Resume.Start
		}
	}
	type known struct {
		row    Row
		times  int
		differ bool
	}
	all := map[string]*known{}
	at := func(k keys.Key) *known {
		x := all[string(k)]
		if x == nil {
			x = &known{}
			all[string(k)] = x
		}
		return x
	}
	for _, rs := range g.rs {
		l := rs[0].Looked
		for _, w := range l.Rows {
			x := at(w.Key)
			x.differ = x.differ || x.times > 0 && x.row.Seen != w.Seen
			x.row = w
			x.times++
		}
		for _, k := range l.Behind {
			at(k).differ = true
		}
		for _, o := range l.Open {
			at(o.Key).differ = true
		}
	}
	for k, x := range all {
		switch {
		case !keys.Key(k).Less(end):
		case x.differ || x.times < len(g.rs):
			unsure = append(unsure, keys.Key(k))
		default:
			rows = append(rows, x.row)
		}
	}
	slices.SortFunc(unsure, keys.Key.Compare)
	return rows, end, unsure
}

// fresh reads keys as of now (fastpaxos.FP82): of each the latest state that one of a classic quorum has, when the transactions of the options that these had accepted before have ended. Other options may come
// meanwhile; their transactions had not committed.
func (c *Client) fresh(ctx context.Context, me kv.TxnID, ks []keys.Key) ([]Row, error) {
	rows, own := make([]Row, len(ks)), c.known(ks)
	var before map[Name]bool // options to be waited for, once it is known which
	for pause := firstPause; len(ks) > 0; pause = min(2*pause, lastPause) {
		groups, _, err := c.grouped(ctx, ks)
		if err != nil {
			return nil, err
		}
		open := make([][]Outstanding, len(groups))
		found := make([]bool, len(ks))
		err = c.all(len(groups), func(n int) error {
			qs := make([]*Request, len(groups[n]))
			for j, i := range groups[n] {
				qs[j] = &Request{Kind: Read, Key: ks[i], Look: &Look{Keys: []keys.Key{ks[i]}, Open: true}}
			}
			g, err := c.gather(ctx, qs)
			for _, rs := range g.rs {
				for j, i := range groups[n] {
					l := rs[j].Looked
					open[n] = append(open[n], l.Open...)
					for _, w := range l.Rows {
						if !found[i] || rows[i].Seen.Base.Less(w.Seen.Base) || rows[i].Seen.Base == w.Seen.Base && rows[i].Last.Less(w.Last) {
							rows[i], found[i] = w, true
						}
					}
				}
			}
			return err
		})
		switch {
		case err == nil:
		case isOther(err) || ctx.Err() != nil:
			return nil, err
		default:
			if err := c.pause(ctx, pause); err != nil {
				return nil, err
			}
			continue
		}
		first := before == nil
		if first {
			before = map[Name]bool{}
		}
		var wait []blocker
		for _, o := range slices.Concat(open...) {
			if o.Option.Txn == me || !first && !before[o.Option.Name] || slices.ContainsFunc(wait, func(b blocker) bool { return b.option.Name == o.Option.Name }) {
				continue
			}
			before[o.Option.Name] = true
			wait = append(wait, blocker{o.Key, &o.Option})
		}
		if len(wait) == 0 && !slices.Contains(found, false) {
			break
		}
		for _, b := range wait {
			if err := c.clear(ctx, b); err != nil {
				return nil, err
			}
		}
		if !first || len(wait) == 0 {
			if err := c.pause(ctx, pause); err != nil {
				return nil, err
			}
		}
	}
	for i := range rows {
		own.version(&rows[i])
	}
	return rows, nil
}
