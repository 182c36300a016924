package temporary

import (
	"bytes"
	"errors"

	"github.com/google/btree"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/memory"
	"meridian/sql/sqlstate"
	"meridian/txn"
)

// degree is the degree of the tree: a node has up to 63 pointers, half a kilobyte, and a write copies two or three nodes. Chosen by us.
const degree = 32

// rowOverhead is roughly the memory of an entry besides its key and value.
const rowOverhead = 96

// entry is a key and its value; neither ever changes.
type entry struct{ key, value []byte }

func (e *entry) size() int64 { return int64(len(e.key)+len(e.value)) + rowOverhead }

func less(a, b *entry) bool { return bytes.Compare(a.key, b.key) < 0 }

type tree = btree.BTreeG[*entry]

// Mark is a state of the store.
type Mark struct {
	tree       *tree
	size, held int64
}

// Store has the rows of one session's temporary tables. One goroutine uses it at a time.
type Store struct {
	account *memory.Account
	// begin is the state to which a rollback returns, seen the state that statements read, now the newest one. They are the same tree until
	// the first write.
	begin     Mark
	seen, now *tree
	// size is the memory of the entries of now. held is the memory that the account has for the store: also for entries that were deleted or replaced
	// in the transaction (temporary.TT3).
	size, held int64
}

// New makes an empty store whose rows are accounted for by a.
func New(a *memory.Account) *Store {
	t := btree.NewG(degree, less)
	return &Store{account: a, seen: t, now: t, begin: Mark{tree: t}}
}

// Size is roughly the memory of the rows.
func (s *Store) Size() int64 { return s.size }

// Close releases all memory.
func (s *Store) Close() {
	s.account.Shrink(s.held)
	t := btree.NewG(degree, less)
	*s = Store{account: s.account, seen: t, now: t, begin: Mark{tree: t}}
}

// Step lets later reads see all writes so far (temporary.TT1).
func (s *Store) Step() { s.seen = s.now }

// Mark is the present state, for RollbackTo.
func (s *Store) Mark() Mark {
	s.Step()
	return Mark{s.now, s.size, s.held}
}

// RollbackTo returns to a state of the same transaction.
func (s *Store) RollbackTo(m Mark) {
	s.account.Shrink(s.held - m.held)
	s.now, s.size, s.held = m.tree, m.size, m.held
	s.Step()
}

// Commit makes the present state the one to which later rollbacks return.
func (s *Store) Commit() {
	s.account.Shrink(s.held - s.size)
	s.held = s.size
	s.begin = s.Mark()
}

// Rollback returns to the state of the last Commit.
func (s *Store) Rollback() { s.RollbackTo(s.begin) }

// Get is the value of a key, nil if it has none.
func (s *Store) Get(k keys.Key) []byte {
	if e, ok := s.seen.Get(&entry{key: k}); ok {
		return e.value
	}
	return nil
}

// newest is Get with all writes so far.
func (s *Store) newest(k keys.Key) []byte {
	if e, ok := s.now.Get(&entry{key: k}); ok {
		return e.value
	}
	return nil
}

// Scan reads a span as txn.Txn.Scan does.
func (s *Store) Scan(o txn.ScanOptions) (rows []kv.KeyValue, resume *keys.Span) {
	lo, hi := &entry{key: o.Span.Start}, &entry{key: o.Span.Stop()}
	size := int64(0)
	var next []byte // the first key that is not in rows, at which the scan stopped
	full := func() bool {
		return o.MaxRows > 0 && int64(len(rows)) >= o.MaxRows || o.TargetBytes > 0 && size >= o.TargetBytes
	}
	take := func(e *entry) bool {
		if full() {
			next = e.key
			return false
		}
		rows = append(rows, kv.KeyValue{Key: e.key, Value: e.value})
		size += int64(len(e.key) + len(e.value))
		return true
	}
	if !o.Reverse {
		s.seen.AscendRange(lo, hi, take)
		if next != nil {
			resume = &keys.Span{Start: next, End: hi.key}
		}
		return rows, resume
	}
	s.seen.DescendLessOrEqual(hi, func(e *entry) bool {
		switch {
		case bytes.Equal(e.key, hi.key):
			return true
		case less(e, lo):
			return false
		}
		return take(e)
	})
	if next != nil {
		resume = &keys.Span{Start: lo.key, End: keys.Key(next).Next()}
	}
	return rows, resume
}

// countedRows bounds the entries that Count counts. Chosen by us: so many take a small part of a millisecond.
const countedRows = 10_000

// Count estimates the number of entries in a span. It is exact if there are few; otherwise it is the number of entries that the whole store would
// have if all were as large as those that were counted.
func (s *Store) Count(span keys.Span) int64 {
	n, size := int64(0), int64(0)
	s.seen.AscendRange(&entry{key: span.Start}, &entry{key: span.Stop()}, func(e *entry) bool {
		n, size = n+1, size+e.size()
		return n < countedRows
	})
	if n == countedRows {
		n = max(n, s.size/(size/n))
	}
	return n
}

// Write carries out a batch, all of it or, after an error, nothing.
func (s *Store) Write(b *txn.WriteBatch) error {
	if s.now == s.seen {
		s.now = s.seen.Clone()
	}
	w := writer{s: s, size: s.size, held: s.held}
	for x := range b.Writes() {
		if err := w.write(&x); err != nil {
			w.undo()
			return err
		}
	}
	return nil
}

// writer carries out one batch; done has the entries by which undo takes it back.
type writer struct {
	s          *Store
	size, held int64
	done       []undone
}

// undone is a key's entry before a write; nil: none.
type undone struct {
	key []byte
	was *entry
}

func (w *writer) undo() {
	for i := len(w.done) - 1; i >= 0; i-- {
		if u := w.done[i]; u.was != nil {
			w.s.now.ReplaceOrInsert(u.was)
		} else {
			w.s.now.Delete(&entry{key: u.key})
		}
	}
	w.s.account.Shrink(w.s.held - w.held)
	w.s.size, w.s.held = w.size, w.held
}

func (w *writer) write(x *txn.Write) error {
	switch x.Kind {
	case txn.WritePut:
		return w.put(x.Key, x.Value)
	case txn.WritePutNew, txn.WriteCPut:
		present := w.newest(x.Key)
		if !same(present, x.Expected) || x.Kind == txn.WritePutNew && present != nil {
			return &kv.ConditionFailedError{Key: x.Key, Actual: present}
		}
		return w.put(x.Key, x.Value)
	case txn.WriteDelete:
		w.remove(x.Key)
		return nil
	case txn.WriteDeleteRange:
		var gone []*entry
		w.s.now.AscendRange(&entry{key: x.Key}, &entry{key: x.End}, func(e *entry) bool {
			gone = append(gone, e)
			return true
		})
		for _, e := range gone {
			w.remove(e.key)
		}
		return nil
	}
	return errors.New("temporary: this kind of write is not known")
}

// same compares two values; nil is no value.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func (w *writer) newest(k keys.Key) []byte {
	if e, ok := w.s.now.Get(&entry{key: k}); ok {
		return e.value
	}
	return nil
}

func (w *writer) put(k keys.Key, v []byte) error {
	// The entry gets memory of its own: those of a batch share larger pieces, which must not live as long as a row.
	mem := make([]byte, len(k)+len(v))
	copy(mem, k)
	copy(mem[len(k):], v)
	e := &entry{key: mem[:len(k):len(k)], value: mem[len(k):]}
	if err := w.s.account.Grow(e.size()); err != nil {
		return refused(err)
	}
	was, _ := w.s.now.ReplaceOrInsert(e)
	w.done = append(w.done, undone{e.key, was})
	w.s.held += e.size()
	w.s.size += e.size()
	if was != nil {
		w.s.size -= was.size()
	}
	return nil
}

func (w *writer) remove(k keys.Key) {
	if was, ok := w.s.now.Delete(&entry{key: k}); ok {
		w.done = append(w.done, undone{was.key, was})
		w.s.size -= was.size()
	}
}

// Setting is the session's setting that bounds the memory of its temporary tables.
const Setting = "temporary_memory_limit"

// refused adds a hint to the error of a write for which there is no memory.
func refused(err error) error {
	var e *sqlstate.Error
	if !errors.As(err, &e) {
		return err
	}
	c := *e
	c.Cause = err
	c.Hint = "Temporary tables are kept in the memory of the session's node. Drop or truncate some, or raise " + Setting + "."
	return &c
}
