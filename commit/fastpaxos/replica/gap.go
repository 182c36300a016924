package replica

import (
	"slices"

	"meridian/keys"
	"meridian/storage/engine"
)

// gap is a part of a range in which the base had no row, and nothing next to one, when it was looked at, a moment ago: rows that are inserted one after the other, as those of a history are, have no
// version that would have to be searched for. A version that comes into the base meanwhile is one that the acceptor has not voted for: to it, it is one that it has missed. One that it
// has voted for it knows, until it drops the record; then the gap is forgotten. Within a generation nothing but such versions comes into the base.
type gap struct {
	within, span keys.Span
	hits         int // how often the gap has saved a search
	// skip is how many searches are made without looking for a gap, pause how many after the next that was for nothing.
	skip, pause int
}

// gapPause bounds pause. Chosen by us: keys that are drawn at random find no gap twice.
const gapPause = 1 << 10

func (g *gap) has(k keys.Key) bool {
	if len(g.span.End) == 0 || !g.span.Contains(k) {
		return false
	}
	g.hits++
	return true
}

func (g *gap) forget() { g.span = keys.Span{} }

// find looks for the gap around a key that the base does not have.
func (g *gap) find(src engine.Reader, k keys.Key) error {
	switch {
	case len(g.within.End) == 0:
		return nil
	case g.hits > 0:
		g.pause, g.skip = 0, 0
	case g.skip > 0:
		g.skip--
		return nil
	default:
		g.pause = min(max(2*g.pause, 1), gapPause)
		g.skip = g.pause
	}
	g.hits = 0
	it, err := src.NewIter(engine.IterOptions{Lower: g.within.Start, Upper: g.within.End})
	if err != nil {
		return err
	}
	defer it.Close()
	span := g.within
	if it.SeekLT(k) {
		before, _ := it.Key()
		span.Start = slices.Clone(before).Next()
	}
	if it.SeekGE(k) {
		after, _ := it.Key()
		span.End = slices.Clone(after)
	}
	if err := it.Error(); err != nil {
		return err
	}
	local := keys.RangeLocalSpan(span.Start, span.End)
	beside, err := src.NewIter(engine.IterOptions{Lower: local.Start, Upper: local.End})
	if err != nil {
		return err
	}
	defer beside.Close()
	at := sideKey(k)
	if beside.SeekLT(at) {
		before, _ := beside.Key()
		span.Start = keys.Addr(slices.Clone(before)).Next()
	}
	if beside.SeekGE(at) {
		after, _ := beside.Key()
		span.End = slices.Clone(keys.Addr(after))
	}
	if err := beside.Error(); err != nil {
		return err
	}
	g.span = span
	return nil
}
