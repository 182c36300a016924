package exec

import (
	"encoding/binary"

	"meridian/sql/memory"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// memo holds the answers of a correlated plan by the values of the outer columns that it reads. For rows of the outer plan with the
// same values, often those of a foreign key, the plan need not run again.
//
// A plan whose outer values hardly ever repeat does without a memo: it is given up if, after memoProbation runs, less than
// one in memoHits was answered from it.
type memo[V any] struct {
	answers map[string]V
	key     []byte
	bytes   int64
	runs    int
	hits    int
	off     bool
}

const (
	// memoMax bounds the bytes of one memo. Rows that come later are not kept.
	memoMax = 8 << 20
	// memoProbation and memoHits decide when a memo is given up.
	memoProbation, memoHits = 512, 8
	// memoEntry is the approximate size of an entry besides its key and its rows.
	memoEntry = 96
)

// find looks up the answer for some values. The values are compared by their binary form, since a plan may distinguish equal
// values, such as 1.0 and 1.00.
func (m *memo[V]) find(values []types.Datum, ts []*types.T) (v V, ok bool) {
	if m.off {
		return v, false
	}
	if m.runs++; m.runs > memoProbation && m.hits < m.runs/memoHits {
		m.off = true
		return v, false
	}
	m.key = m.key[:0]
	for i, d := range values {
		at := len(m.key)
		m.key = append(m.key, 0, 0, 0, 0)
		if d.IsNull() {
			m.key[at] = 0xff
			continue
		}
		m.key = types.AppendBinary(m.key, d, ts[i])
		binary.BigEndian.PutUint32(m.key[at:], uint32(len(m.key)-at-4))
	}
	if v, ok = m.answers[string(m.key)]; ok {
		m.hits++
	}
	return v, ok
}

// keep adds the answer for the values of the last call of find. Its rows have been accounted for; their bytes are the memo's from
// then on. It reports whether there was room.
func (m *memo[V]) keep(b *memory.Account, v V, bytes int64) bool {
	n := int64(len(m.key)) + memoEntry
	if m.off || m.bytes+bytes+n > memoMax || b.Grow(n) != nil {
		return false
	}
	if m.answers == nil {
		m.answers = make(map[string]V)
	}
	m.answers[string(m.key)] = v
	m.bytes += bytes + n
	return true
}

// reset forgets all answers.
func (m *memo[V]) reset(b *memory.Account) {
	b.Shrink(m.bytes)
	*m = memo[V]{key: m.key}
}

// outerTypes are the types of columns that a correlated plan reads; nil if not all of them have a binary form.
func (b *builder) outerTypes(ids []scalar.ColumnID) []*types.T {
	ts := make([]*types.T, len(ids))
	for i, id := range ids {
		ts[i] = b.meta.Column(id).Type
		if ts[i] == nil || ts[i].Kind == types.KindUnknown || ts[i].Kind == types.KindTuple {
			return nil
		}
	}
	return ts
}
