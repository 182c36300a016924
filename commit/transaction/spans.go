package transaction

import (
	"bytes"
	"slices"

	"meridian/keys"
)

// SpanSet is a set of keys as spans. It may grow beyond what was added when it would otherwise exceed its bound:
// its users need every key that was added, and can do with more (a refresh that checks too much, a cleanup that
// looks in vain).
type SpanSet struct {
	spans  []keys.Span
	inline [2]keys.Span
	bytes  int
	// tidyAt is the number of spans at which they are sorted and merged next.
	tidyAt int
}

// spanSetBytes bounds the memory of a set of spans; CockroachDB's default for the same purpose is 256 KB to 4 MB.
const spanSetBytes = 256 << 10

const spanOverhead = 48

// Empty reports whether nothing was added.
func (s *SpanSet) Empty() bool { return len(s.spans) == 0 }

// Reset empties the set.
func (s *SpanSet) Reset() {
	clear(s.inline[:])
	s.spans, s.bytes, s.tidyAt = nil, 0, 0
}

// Add adds a span.
func (s *SpanSet) Add(x keys.Span) {
	if n := len(s.spans); n > 0 {
		last := s.spans[n-1]
		if last.ContainsSpan(x) {
			return
		}
		// A scan that goes on where it stopped.
		if !last.Point() && !x.Point() && bytes.Equal(last.End, x.Start) {
			s.spans[n-1].End = x.End
			return
		}
	} else if s.spans == nil {
		s.spans = s.inline[:0]
	}
	s.spans = append(s.spans, x)
	s.bytes += len(x.Start) + len(x.End) + spanOverhead
	if s.bytes > spanSetBytes && len(s.spans) >= s.tidyAt {
		s.tidy()
		for s.bytes > spanSetBytes/2 && s.condense() {
		}
		s.tidyAt = 2 * len(s.spans)
	}
}

// tidy sorts the spans and merges those that overlap or touch.
func (s *SpanSet) tidy() {
	if len(s.spans) < 2 {
		return
	}
	slices.SortFunc(s.spans, func(a, b keys.Span) int {
		if c := bytes.Compare(a.Start, b.Start); c != 0 {
			return c
		}
		return bytes.Compare(b.End, a.End)
	})
	out := s.spans[:1]
	for _, x := range s.spans[1:] {
		last := &out[len(out)-1]
		switch {
		case last.ContainsSpan(x):
		case !last.Point() && bytes.Compare(x.Start, last.End) <= 0:
			if stop := x.Stop(); bytes.Compare(last.End, stop) < 0 {
				last.End = stop
			}
		case bytes.Equal(last.Start, x.Start): // a point, then a span from it
			*last = x
		default:
			out = append(out, x)
		}
	}
	clear(s.spans[len(out):])
	s.spans = out
	s.count()
}

func (s *SpanSet) count() {
	s.bytes = 0
	for _, x := range s.spans {
		s.bytes += len(x.Start) + len(x.End) + spanOverhead
	}
}

// condense merges each pair of neighbours that agree in the first byte: spans never reach across the parts of the
// keyspace. It reports whether anything was merged. The spans are tidy before and after.
func (s *SpanSet) condense() bool {
	out := s.spans[:0]
	merged := false
	for i := 0; i < len(s.spans); i++ {
		x := s.spans[i]
		if i+1 < len(s.spans) && len(x.Start) > 0 && len(s.spans[i+1].Start) > 0 && x.Start[0] == s.spans[i+1].Start[0] {
			x.End = s.spans[i+1].Stop()
			i++
			merged = true
		}
		out = append(out, x)
	}
	clear(s.spans[len(out):])
	s.spans = out
	s.count()
	return merged
}

// Few is a copy of the set, if it has no more than n spans.
func (s *SpanSet) Few(n int) ([]keys.Span, bool) {
	if len(s.spans) > n {
		return nil, false
	}
	return slices.Clone(s.spans), true
}

// All is the spans, sorted and without overlap, until the set changes.
func (s *SpanSet) All() []keys.Span {
	s.tidy()
	return s.spans
}

// List is a copy of the spans, sorted and without overlap.
func (s *SpanSet) List() []keys.Span {
	if len(s.spans) == 0 {
		return nil
	}
	s.tidy()
	return slices.Clone(s.spans)
}
