package gateway

import (
	"context"
	"slices"

	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
)

// Fresh reads of a gateway (fastpaxos.FP82).

// freshBytes is how much a fresh scan reads at once. Chosen by us.
const freshBytes = 1 << 20

// scanFresh reads the rows of a part of a span, from the end at which the scan begins (fastpaxos.FP82); read is that part. Rows without a value are among them.
func (c *reader) scanFresh(ctx context.Context, me kv.TxnID, q core.Look) (rows []core.Row, read keys.Span, err error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		one := q
		one.Open = true
		if one.Span, err = c.part(ctx, q.Span, q.Reverse); err != nil {
			return nil, read, err
		}
		g, err := c.gather(ctx, []*core.Request{{Kind: core.Read, Key: one.Span.Start, Look: &one}})
		if err == nil {
			rows, read, unsure := g.merge(&one)
			more, err := c.fresh(concluding(ctx), me, unsure)
			if err != nil {
				return nil, read, err
			}
			rows = append(rows, more...)
			slices.SortFunc(rows, func(a, b core.Row) int {
				if q.Reverse {
					a, b = b, a
				}
				return a.Key.Compare(b.Key)
			})
			return rows, read, nil
		}
		if isOther(err) || ctx.Err() != nil {
			return nil, read, err
		}
		if err := c.pause(ctx, pause); err != nil {
			return nil, read, err
		}
	}
}

// fresh reads keys as of now (fastpaxos.FP82), in their order: of each the latest state that one of a classic quorum has, with the options that these have accepted and that have committed, once that is known.
func (c *reader) fresh(ctx context.Context, me kv.TxnID, ks []keys.Key) ([]core.Row, error) {
	rows, own := make([]core.Row, len(ks)), c.known(ks)
	var unsure []int
	for pause := firstPause; len(ks) > 0; pause = min(2*pause, lastPause) {
		groups, _, err := c.grouped(ctx, ks)
		if err != nil {
			return nil, err
		}
		of := make([][]int, len(groups))
		err = c.all(len(groups), func(n int) error {
			qs := make([]*core.Request, len(groups[n]))
			for j, i := range groups[n] {
				qs[j] = &core.Request{Kind: core.Read, Key: ks[i], Look: &core.Look{Keys: []keys.Key{ks[i]}, Open: true}}
			}
			g, err := c.gather(ctx, qs)
			if err != nil {
				return err
			}
			for j, i := range groups[n] {
				found := false
				for _, rs := range g.rs {
					l := rs[j].Looked
					if len(l.Behind) > 0 || slices.ContainsFunc(l.Open, func(o core.Outstanding) bool { return o.Option.Txn != me }) {
						found = false
						break
					}
					for _, w := range l.Rows {
						if !found || rows[i].Before(&w) {
							rows[i], found = w, true
						}
					}
				}
				if !found {
					of[n] = append(of[n], i)
				}
			}
			return nil
		})
		if err == nil {
			unsure, ctx = slices.Concat(of...), concluding(ctx)
			break
		}
		if isOther(err) || ctx.Err() != nil {
			return nil, err
		}
		if err := c.pause(ctx, pause); err != nil {
			return nil, err
		}
	}
	if err := c.all(len(unsure), func(j int) (err error) {
		i := unsure[j]
		rows[i], err = c.present(ctx, me, ks[i])
		return err
	}); err != nil {
		return nil, err
	}
	for i := range rows {
		own.version(&rows[i])
	}
	return rows, nil
}

// present is a row as of now, when the transactions of the options that a classic quorum has accepted have ended. Other options may come meanwhile; their transactions had not committed.
func (c *reader) present(ctx context.Context, me kv.TxnID, k keys.Key) (core.Row, error) {
	past := pastOptions{}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		r, err := c.quorum(ctx, k)
		if err == nil {
			var again bool
			if again, err = c.conclude(ctx, me, k, r, past); err == nil && !again && !r.Behind() {
				return r.Row(k, c.o.Columns)
			}
		}
		if isOther(err) || ctx.Err() != nil {
			return core.Row{}, err
		}
		if err := c.pause(ctx, pause); err != nil {
			return core.Row{}, err
		}
	}
}

// restOf is what is left of a span of which a part was read, from the end at which the scan begins; nil: nothing.
func restOf(all, read keys.Span, reverse bool) *keys.Span {
	switch {
	case reverse && all.Start.Less(read.Start):
		return &keys.Span{Start: all.Start, End: read.Start}
	case !reverse && read.End.Less(all.End):
		return &keys.Span{Start: read.End, End: all.End}
	}
	return nil
}

// concludingKey is of the context that bounds the wait for outcomes in one that bounds the wait for a quorum.
type concludingKey struct{}

// concluding is the context for the rest of a fresh read, when a quorum has answered: the master of a row, or the gateway of an option, may have died, so that an outcome takes several rounds. A reader that
// gave up meanwhile would read what is older than the bound allows, though it reaches a quorum (fastpaxos.FP85).
func concluding(ctx context.Context) context.Context {
	if long, ok := ctx.Value(concludingKey{}).(context.Context); ok {
		return long
	}
	return ctx
}
