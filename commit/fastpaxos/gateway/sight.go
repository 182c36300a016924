package gateway

import (
	"context"
	"time"

	"github.com/google/btree"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
)

// The versions of rows that the sessions of a gateway have read lately. The nearest replica may be another one the next time, or have lost what it had executed and not synced.
//
//	fastpaxos.FP64 (read your writes): A gateway that has read a version of a row, or has written it, reads no earlier one at the default level for as long as some replica may not have it: such an answer is
//	    not used, and all replicas are asked. Of updates that commute one that was read may be missing in the next answer, for as long as it takes
//	    to reach that replica, unless this gateway has made it, and shows it (fastpaxos.FP72).

// sights are versions that were read, by row.
type sights struct {
	of    map[string]sight
	order *btree.BTreeG[string] // the keys of of
}

type sight struct {
	base clock.Timestamp
	seen time.Duration // on the host's monotonic clock
}

const (
	// sightTime is how old a version is, at least, when all replicas are sure to have it, or to be mended: chosen by us, longer than overdueElsewhere.
	sightTime = 30 * time.Second
	sightMost = 4096
)

// sighted notes versions that are read, and reports the rows of which an earlier version has come than was read before.
func (c *reader) sighted(rows []core.Row) (earlier []int) {
	lately := c.lately()
	now := time.Duration(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range rows {
		w := &rows[i]
		if len(c.sights.of) > 0 {
			if s, ok := c.sights.of[string(w.Key)]; ok && lately.Less(s.base) && w.Seen.Base.Less(s.base) {
				earlier = append(earlier, i)
				continue
			}
		}
		if !lately.Less(w.Seen.Base) {
			continue
		}
		if now < 0 {
			now = c.o.Host.Clock.Monotonic()
		}
		c.sights.put(string(w.Key), sight{w.Seen.Base, now}, now)
	}
	return earlier
}

// lately is the time of which versions are remembered.
func (c *reader) lately() clock.Timestamp {
	return clock.Timestamp{Wall: c.o.Clock.Wall().Add(-sightTime).UnixNano()}
}

func (s *sights) put(k string, one sight, now time.Duration) {
	if s.of == nil {
		s.of, s.order = map[string]sight{}, btree.NewOrderedG[string](16)
	}
	if _, ok := s.of[k]; !ok {
		if len(s.of) >= sightMost {
			s.drop(func(x sight) bool { return now-x.seen > sightTime })
		}
		if len(s.of) >= sightMost {
			s.drop(func(x sight) bool { return len(s.of) > sightMost/2 })
		}
		s.order.ReplaceOrInsert(k)
	}
	s.of[k] = one
}

func (s *sights) drop(which func(sight) bool) {
	for k, x := range s.of {
		if which(x) {
			delete(s.of, k)
			s.order.Delete(k)
		}
	}
}

// unsighted are keys in a span that were read lately, and that an answer does not have.
func (c *reader) unsighted(s keys.Span, rows []core.Row) (out []keys.Key) {
	lately := c.lately()
	c.mu.Lock()
	if c.sights.order != nil {
		c.sights.order.AscendRange(string(s.Start), string(s.End), func(k string) bool {
			if lately.Less(c.sights.of[k].base) {
				out = append(out, keys.Key(k))
			}
			return true
		})
	}
	c.mu.Unlock()
	if len(out) == 0 {
		return nil
	}
	found := make(map[string]bool, len(rows))
	for i := range rows {
		found[string(rows[i].Key)] = true
	}
	n := 0
	for _, k := range out {
		if !found[string(k)] {
			out[n] = k
			n++
		}
	}
	return out[:n]
}

// reread reads rows again at replicas that have the versions which were read before. An answer that may be older than within allows counts only if no other replica has a better one, and no quorum answers (fastpaxos.FP85):
// updates that commute may be missing in it.
func (c *reader) reread(ctx context.Context, rows []core.Row, which []int, within time.Duration) error {
	return c.all(len(which), func(j int) error {
		w := &rows[which[j]]
		c.mu.Lock()
		want := c.sights.of[string(w.Key)].base
		c.mu.Unlock()
		q := &core.Request{Kind: core.Read, Key: w.Key, Look: &core.Look{Keys: []keys.Key{w.Key}}}
		for pause := firstPause; ; pause = min(2*pause, lastPause) {
			var old *core.Row
			enough, err := c.each(ctx, []*core.Request{q}, func(_ *kv.RangeDescriptor, _ kv.ReplicaID, rs []*core.Reply) bool {
				l := rs[0].Looked
				if l == nil || len(l.Rows) != 1 || l.Rows[0].Seen.Base.Less(want) {
					return true
				}
				if l.TooOld(within) {
					old = &l.Rows[0]
					return true
				}
				*w = l.Rows[0]
				return false
			})
			if enough || isOther(err) {
				return err
			}
			if old != nil {
				*w = *old
				return c.renewRows(ctx, rows, which[j:j+1])
			}
			if err := c.pause(ctx, pause); err != nil {
				return err
			}
		}
	})
}
