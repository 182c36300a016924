package exec

import (
	"meridian/keys"
	"meridian/sql/types"
)

// noted is what a statement has written to tables that several of its parts change (exec.X9), whose rows and entries its reads do not
// see (exec.X3).
type noted struct {
	// entries of all indexes: whether the statement has written the entry, or removed it.
	entries map[string]bool
	// keys of unique indexes, as run.arbiterKey has them: whether a row that the statement has written has the key.
	keys map[string]bool
	// rows by their primary index's key: the row as the statement has left it, nil if it is gone.
	rows  map[string]types.Row
	bytes int64
}

// steps says that the mutations of the table change one row after the other, and note it.
func (w *tableWriter) steps() bool { return w.mutations > 1 || w.stepwise }

// noteEntry notes that the statement has written an entry for a row, or has removed it.
func (r *run) noteEntry(w *tableWriter, iw *indexWriter, k keys.Key, row types.Row, written bool) error {
	if !w.steps() || iw.conv != nil {
		return nil
	}
	n := r.noted
	if n == nil {
		n = &noted{entries: make(map[string]bool), keys: make(map[string]bool), rows: make(map[string]types.Row)}
		r.noted = n
	}
	grow := func(bytes int64) error {
		n.bytes += bytes
		return r.budget.Grow(bytes)
	}
	if err := grow(int64(len(k)) + 64); err != nil {
		return err
	}
	n.entries[string(k)] = written
	if iw == w.primary {
		var version types.Row
		if written {
			version = append(types.Row(nil), row...)
		}
		if err := grow(int64(len(k)) + 64 + rowBytes(version)); err != nil {
			return err
		}
		n.rows[string(k)] = version
	}
	if !iw.codec.conflicts(row) {
		return nil
	}
	key, err := r.arbiterKey(iw, row, k)
	if err != nil {
		return err
	}
	if err := grow(int64(len(key)) + 64); err != nil {
		return err
	}
	n.keys[string(key)] = written
	return nil
}

// touched reports whether the statement has changed or removed a row that it reads.
func (r *run) touched(w *tableWriter, row types.Row) (bool, error) {
	if r.noted == nil {
		return false, nil
	}
	k, err := w.primary.codec.appendKey(nil, row)
	if err != nil {
		return false, err
	}
	_, ok := r.noted.rows[string(k)]
	return ok, nil
}

// version is the row that the statement has left under a key of the primary index; known is false if it has left the row alone.
func (r *run) version(w *tableWriter, k keys.Key) (row types.Row, known bool) {
	if !w.steps() || r.noted == nil {
		return nil, false
	}
	row, known = r.noted.rows[string(k)]
	return row, known
}

// freed reports whether the statement has removed an entry that its reads still see.
func (r *run) freed(w *tableWriter, k keys.Key) bool {
	if !w.steps() || r.noted == nil {
		return false
	}
	written, known := r.noted.entries[string(k)]
	return known && !written
}

// holdsKey reports whether a row that the statement has written has a key, as run.arbiterKey has it.
func (r *run) holdsKey(k keys.Key) bool {
	return r.noted != nil && r.noted.keys[string(k)]
}

func (r *run) forgetNoted() {
	if r.noted != nil {
		r.budget.Shrink(r.noted.bytes)
		r.noted = nil
	}
}
