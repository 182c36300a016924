package exec

import (
	"meridian/sql/memory"
	"meridian/sql/types"
)

// datumSize is the size of a value in a row.
const datumSize = 48

func rowBytes(row types.Row) int64 {
	n := int64(24)
	for i := range row {
		n += row[i].Bytes()
	}
	return n
}

// hold accounts for the large values of a row that an operator has computed, until it drops them.
func (r *run) hold(held *int64, row types.Row) error {
	for i := range row {
		if w := row[i].Weight(); w != 0 {
			if err := r.budget.Grow(w); err != nil {
				return err
			}
			*held += w
		}
	}
	return nil
}

func (r *run) drop(held *int64) {
	if *held != 0 {
		r.budget.Shrink(*held)
		*held = 0
	}
}

// rowStore keeps copies of rows, in slabs, within a budget.
type rowStore struct {
	rows  []types.Row
	slab  []types.Datum
	bytes int64
}

// add copies row into the store.
func (s *rowStore) add(b *memory.Account, row types.Row) (types.Row, error) {
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
		return types.Row{} // not nil, which would mean the end
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
func (s *rowStore) reset(b *memory.Account) {
	b.Shrink(s.bytes)
	s.bytes = 0
	s.slab = nil
	if cap(s.rows) > 1024 {
		s.rows = nil
	}
	clear(s.rows)
	s.rows = s.rows[:0]
}
