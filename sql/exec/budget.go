package exec

import (
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// DefaultBudget bounds what one statement may hold in memory at a time, in bytes (I9).
const DefaultBudget = 256 << 20

// Budget accounts for the rows that a statement's operators hold. It is used by one goroutine. The zero value
// has DefaultBudget.
type Budget struct {
	// Limit in bytes; zero is DefaultBudget.
	Limit int64
	used  int64
}

// Grow takes n bytes, or fails with 53200.
func (b *Budget) Grow(n int64) error {
	limit := b.Limit
	if limit <= 0 {
		limit = DefaultBudget
	}
	if b.used+n > limit {
		return sqlstate.New(sqlstate.OutOfMemory, "out of memory").
			WithDetail("The statement would hold more than %d bytes of rows.", limit)
	}
	b.used += n
	return nil
}

// Shrink gives n bytes back.
func (b *Budget) Shrink(n int64) { b.used -= n }

// Used is what is taken at present.
func (b *Budget) Used() int64 { return b.used }

const datumSize = 48

// datumBytes is about what a value occupies.
func datumBytes(d types.Datum) int64 {
	n := int64(datumSize + len(d.Str()))
	switch d.Phys() {
	case types.PhysDecimal:
		n += 72
	case types.PhysInterval:
		n += 8
	case types.PhysArray:
		for _, e := range d.Array().Elems {
			n += datumBytes(e)
		}
	case types.PhysTuple:
		for _, e := range d.Tuple().Elems {
			n += datumBytes(e)
		}
	}
	return n
}

func rowBytes(row types.Row) int64 {
	n := int64(24)
	for i := range row {
		n += datumBytes(row[i])
	}
	return n
}

// rowStore keeps copies of rows, in slabs, within a budget.
type rowStore struct {
	rows  []types.Row
	slab  []types.Datum
	bytes int64
}

// add copies row into the store.
func (s *rowStore) add(b *Budget, row types.Row) (types.Row, error) {
	n := rowBytes(row)
	if err := b.Grow(n); err != nil {
		return nil, err
	}
	s.bytes += n
	c := s.copy(row)
	s.rows = append(s.rows, c)
	return c, nil
}

func (s *rowStore) copy(row types.Row) types.Row {
	w := len(row)
	if w == 0 {
		return types.Row{} // not nil: that would be the end
	}
	if cap(s.slab)-len(s.slab) < w {
		// The first slabs are small, because most statements keep few rows.
		size := min(max(4*w, 2*cap(s.slab)), 8192)
		s.slab = make([]types.Datum, 0, max(size, w))
	}
	at := len(s.slab)
	s.slab = s.slab[:at+w]
	c := types.Row(s.slab[at : at+w : at+w])
	copy(c, row)
	return c
}

// reset forgets the rows and gives their memory back; rows handed out stay valid.
func (s *rowStore) reset(b *Budget) {
	b.Shrink(s.bytes)
	s.bytes = 0
	s.slab = nil
	if cap(s.rows) > 1024 {
		s.rows = nil
	}
	clear(s.rows)
	s.rows = s.rows[:0]
}
