package keys

import "bytes"

// Key is a position in the ordered keyspace. Keys compare as byte strings.
type Key []byte

// Next is the least key greater than k.
func (k Key) Next() Key {
	n := make(Key, len(k)+1)
	copy(n, k)
	return n
}

// PrefixEnd is the least key greater than every key that has k as a prefix; it is Max if there is none.
func (k Key) PrefixEnd() Key {
	end := append(Key(nil), k...)
	for i := len(end) - 1; i >= 0; i-- {
		end[i]++
		if end[i] != 0 {
			return end[:i+1]
		}
	}
	return Max
}

// Less reports k < o.
func (k Key) Less(o Key) bool { return bytes.Compare(k, o) < 0 }

// Equal reports k == o.
func (k Key) Equal(o Key) bool { return bytes.Equal(k, o) }

// Compare returns -1, 0 or 1.
func (k Key) Compare(o Key) int { return bytes.Compare(k, o) }

// Span is the keys in [Start, End). An empty End means the single key Start.
type Span struct{ Start, End Key }

// Point reports whether the span is a single key.
func (s Span) Point() bool { return len(s.End) == 0 }

// Single reports whether the span has a single key, in either of the two ways to write it: with no end, or with that key's Next.
func (s Span) Single() bool {
	n := len(s.Start)
	return s.Point() || len(s.End) == n+1 && s.End[n] == 0 && bytes.Equal(s.End[:n], s.Start)
}

// Stop is the exclusive end of the span, also for a single key.
func (s Span) Stop() Key {
	if s.Point() {
		return s.Start.Next()
	}
	return s.End
}

// Contains reports whether k is in the span.
func (s Span) Contains(k Key) bool {
	if s.Point() {
		return bytes.Equal(s.Start, k)
	}
	return bytes.Compare(s.Start, k) <= 0 && bytes.Compare(k, s.End) < 0
}

// ContainsSpan reports whether o lies within s.
func (s Span) ContainsSpan(o Span) bool {
	if o.Point() {
		return s.Contains(o.Start)
	}
	if s.Point() {
		return false
	}
	return bytes.Compare(s.Start, o.Start) <= 0 && bytes.Compare(o.End, s.End) <= 0
}

// Overlaps reports whether the spans share a key.
func (s Span) Overlaps(o Span) bool {
	if s.Point() {
		return o.Contains(s.Start)
	}
	if o.Point() {
		return s.Contains(o.Start)
	}
	return bytes.Compare(s.Start, o.End) < 0 && bytes.Compare(o.Start, s.End) < 0
}
