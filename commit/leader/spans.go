package leader

import (
	"bytes"
	"slices"

	"meridian/keys"
	"meridian/kv"
)

func point(k keys.Key) keys.Span { return keys.Span{Start: k} }

// serves reports whether keys of a span, if they are in the range, are the leader protocol's: of a range with another protocol
// only the range-local ones are.
func serves(s keys.Span, d *kv.RangeDescriptor) bool {
	return d.Protocol == kv.Leader || keys.IsLocal(s.Start)
}

// clip is the part of a span that is in the range, and the leader protocol's there.
func clip(s keys.Span, d *kv.RangeDescriptor) (keys.Span, bool) {
	if !serves(s, d) {
		return s, false
	}
	if s.Point() || keys.IsLocal(s.Start) {
		return s, d.Contains(keys.Addr(s.Start))
	}
	if s.Start.Less(d.Start) {
		s.Start = d.Start
	}
	if d.End.Less(s.End) {
		s.End = d.End
	}
	return s, s.Start.Less(s.End)
}

// outside are the parts of spans that are not in the range, or not the leader protocol's there: others have to resolve them.
func outside(spans []keys.Span, d *kv.RangeDescriptor) (out []keys.Span) {
	for _, s := range spans {
		if !serves(s, d) {
			out = append(out, s)
			continue
		}
		if s.Point() || keys.IsLocal(s.Start) {
			if !d.Contains(keys.Addr(s.Start)) {
				out = append(out, s)
			}
			continue
		}
		if s.Start.Less(d.Start) {
			l := s
			if d.Start.Less(l.End) {
				l.End = d.Start
			}
			out = append(out, l)
		}
		if d.End.Less(s.End) {
			r := s
			if r.Start.Less(d.End) {
				r.Start = d.End
			}
			out = append(out, r)
		}
	}
	return out
}

// disjoint sorts spans and merges those that overlap: resolving an intent twice in one batch would count it twice.
func disjoint(spans []keys.Span) []keys.Span {
	sorted := true
	for i := 1; i < len(spans) && sorted; i++ {
		sorted = bytes.Compare(spans[i-1].Stop(), spans[i].Start) <= 0
	}
	if sorted {
		return spans
	}
	slices.SortFunc(spans, func(a, b keys.Span) int { return bytes.Compare(a.Start, b.Start) })
	out := spans[:1]
	for _, s := range spans[1:] {
		last := &out[len(out)-1]
		if bytes.Compare(last.Stop(), s.Start) <= 0 {
			out = append(out, s)
		} else if last.Stop().Less(s.Stop()) {
			last.End = s.Stop()
		}
	}
	return out
}
