package lease

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"sync"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
	"meridian/txn"
)

// Sequences hand out numbers, outside of transactions as in PostgreSQL: a number that was taken stays taken.
//
// The leaseholder of the counter hands them out of a reserve that it has replicated ahead (kv.AddRequest.Draw): so they
// come in the order of the requests, whichever node sends them, and only one draw in 32 has to be replicated.
//
// A sequence is one counter. The stored counter is the last value less Sequence.Base, so that a missing counter is a sequence of which no
// number was drawn.
type Sequences struct {
	db *txn.DB

	mu    sync.Mutex // guards cache; nothing is taken after it
	cache map[catalog.ID]cached
}

// cached are numbers that were taken at once (CACHE n), and not handed out yet.
type cached struct {
	version  uint64
	next     int64
	left     int64
	interval int64
}

// maxCachedSequences bounds the cache; numbers that it drops are never handed out.
const maxCachedSequences = 1024

// NewSequences makes Sequences over a DB.
func NewSequences(db *txn.DB) *Sequences {
	return &Sequences{db: db, cache: map[catalog.ID]cached{}}
}

// sequenceKey is the counter.
func sequenceKey(seq *catalog.Table) keys.Key {
	return keys.IndexPrefix(seq.ID, catalog.IndexID(max(seq.Sequence.Counter, 1)))
}

// setKey is the key where setval records the counter that it wrote, and whether its number counts as taken. The record is
// void once the counter has changed.
func setKey(seq *catalog.Table) keys.Key {
	return append(sequenceKey(seq), 1)
}

// InStock reports whether the node has reserved numbers of a sequence, so that Next sends nothing.
func (s *Sequences) InStock(seq *catalog.Table) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.cache[seq.ID]
	return ok && max(seq.Sequence.Cache, 1) > 1 && c.version == seq.Version && c.left > 0
}

// Next takes the next number of a sequence.
func (s *Sequences) Next(ctx context.Context, seq *catalog.Table) (int64, error) {
	d := seq.Sequence
	n := max(d.Cache, 1)
	if n > 1 {
		s.mu.Lock()
		if c, ok := s.cache[seq.ID]; ok && c.version == seq.Version && c.left > 0 {
			v := c.next
			c.next, c.left = c.next+c.interval, c.left-1
			s.cache[seq.ID] = c
			s.mu.Unlock()
			return v, nil
		}
		s.mu.Unlock()
	}
	t, err := s.Take(ctx, seq, n)
	if err != nil || t.Count == 1 {
		return t.First, err
	}
	s.mu.Lock()
	if len(s.cache) >= maxCachedSequences {
		clear(s.cache)
	}
	s.cache[seq.ID] = cached{seq.Version, t.First + d.Increment, t.Count - 1, d.Increment}
	s.mu.Unlock()
	return t.First, nil
}

// reserved is how many numbers a leaseholder sets aside in one round of consensus, as many as PostgreSQL logs at once;
// it does so for sequences with room for at least minReserved.
const reserved, minReserved = 32, 1 << 20

// ahead is how much a leaseholder adds to a sequence's counter beyond a draw, for the next ones; zero: nothing.
func ahead(d *catalog.Sequence) int64 {
	step := d.Increment
	if d.Cycle || step > minReserved || step < -minReserved || uint64(d.Max)-uint64(d.Min) < minReserved*uint64(max(step, -step)) {
		return 0
	}
	return step * reserved
}

// Taken are numbers that were taken at once: First, First plus the increment, and so on.
type Taken struct {
	First, Count int64
	turn         uint64
}

// Take takes up to n numbers at once, all within the sequence's bounds.
func (s *Sequences) Take(ctx context.Context, seq *catalog.Table, n int64) (Taken, error) {
	d := seq.Sequence
	if uint64(max(d.Increment, -d.Increment)) > math.MaxInt64/uint64(n) {
		n = 1
	}
	for wraps := 0; ; {
		last, turn, err := s.db.Draw(ctx, sequenceKey(seq), d.Increment*n, ahead(d))
		var over *kv.AddOverflowError
		if err != nil && !errors.As(err, &over) {
			return Taken{}, err
		}
		first := last + d.Base - d.Increment*(n-1)
		if err == nil && first >= d.Min && first <= d.Max && follows(d, first, last-d.Increment*n) {
			room := (uint64(d.Max) - uint64(first)) / uint64(d.Increment)
			if d.Increment < 0 {
				room = (uint64(first) - uint64(d.Min)) / uint64(-d.Increment)
			}
			t := Taken{first, n, turn}
			if room < uint64(n-1) {
				t.Count = int64(room) + 1
			}
			if t.Count < n {
				return t, s.db.GiveBack(ctx, sequenceKey(seq), d.Increment*(n-t.Count), turn)
			}
			return t, nil
		}
		if err == nil {
			// Put the counter back near its end, so that it never overflows however often this is tried.
			if err := s.db.GiveBack(ctx, sequenceKey(seq), d.Increment*n, turn); err != nil {
				return Taken{}, err
			}
		}
		if n > 1 {
			n = 1 // the last numbers, one by one
			continue
		}
		if !d.Cycle || wraps == maxWraps {
			bound, word := d.Max, "maximum"
			if d.Increment < 0 {
				bound, word = d.Min, "minimum"
			}
			return Taken{}, sqlstate.New("2200H", "nextval: reached %s value of sequence \"%s\" (%d)", word, seq.Name, bound)
		}
		wraps++
		wrapped, err := s.wrap(ctx, seq, err != nil)
		if err != nil || wrapped {
			return Taken{First: begin(d), Count: 1}, err
		}
	}
}

// maxWraps bounds how often an exhausted sequence is set back for one number: others may exhaust it again at once.
const maxWraps = 100

// begin is the number at which a cycling sequence continues when it is exhausted.
func begin(d *catalog.Sequence) int64 {
	if d.Increment < 0 {
		return d.Max
	}
	return d.Min
}

// follows reports whether a number comes after the one that a counter stood for, and not from beyond the end of all numbers: numbers are
// added modulo 2^64. The first number of a counter may come after one that does not exist.
func follows(d *catalog.Sequence, number, counter int64) bool {
	if before := number - d.Increment; (d.Increment > 0) == (number > before) {
		return true
	}
	return counter == 0
}

// GiveBack returns the last n of the numbers taken, unused, so that they are the next ones again. If others have been taken
// since, the n are lost.
func (s *Sequences) GiveBack(ctx context.Context, seq *catalog.Table, t Taken, n int64) error {
	return s.db.GiveBack(ctx, sequenceKey(seq), seq.Sequence.Increment*n, t.turn)
}

// wrap sets an exhausted cycling sequence back and takes its first number, unless another caller has. A counter that overflowed is at its
// end in any case.
func (s *Sequences) wrap(ctx context.Context, seq *catalog.Table, overflow bool) (taken bool, err error) {
	d := seq.Sequence
	err = s.db.Run(ctx, txn.TxnOptions{Name: "sequence"}, func(ctx context.Context, tx *txn.Txn) error {
		taken = false
		v, err := tx.Get(ctx, sequenceKey(seq), kv.Exclusive, kv.Block)
		if err != nil {
			return err
		}
		next := counter(v) + d.Base + d.Increment
		if !overflow && next >= d.Min && next <= d.Max && follows(d, next, counter(v)) {
			return nil
		}
		var b txn.WriteBatch
		b.Put(sequenceKey(seq), counterValue(begin(d)-d.Base))
		taken = true
		return tx.Write(ctx, &b)
	})
	return taken, err
}

// Set makes a sequence go on from a value: after it if called, else with it.
func (s *Sequences) Set(ctx context.Context, seq *catalog.Table, value int64, called bool) error {
	s.mu.Lock()
	delete(s.cache, seq.ID)
	s.mu.Unlock()
	state := byte(1)
	if !called {
		value -= seq.Sequence.Increment
		state = 0
	}
	c := counterValue(value - seq.Sequence.Base)
	return s.db.Run(ctx, txn.TxnOptions{Name: "sequence"}, func(ctx context.Context, tx *txn.Txn) error {
		var b txn.WriteBatch
		b.Put(sequenceKey(seq), c)
		b.Put(setKey(seq), append(c[:8:8], state))
		return tx.Write(ctx, &b)
	})
}

// Last is the last number taken; if called is false, none was taken, and it is the first to come.
func (s *Sequences) Last(ctx context.Context, seq *catalog.Table) (last int64, called bool, err error) {
	n, _, err := s.db.Draw(ctx, sequenceKey(seq), 0, 0)
	if err != nil {
		return 0, false, err
	}
	set, err := s.db.Get(ctx, setKey(seq))
	if err != nil {
		return 0, false, err
	}
	d := seq.Sequence
	// A counter that setval has moved may be where it began.
	last, called = n+d.Base, n != 0 || len(set) == 9
	if len(set) == 9 && counter(set[:8]) == n {
		called = set[8] == 1
	}
	if !called {
		return last + d.Increment, false, nil
	}
	return last, true, nil
}

// LastFor is Last for a sequence that may be a temporary one of a session.
func (s *Sequences) LastFor(ctx context.Context, l *Local, seq *catalog.Table) (last int64, called bool, err error) {
	if seq.Temporary() {
		last, called = l.LastValue(seq)
		return last, called, nil
	}
	return s.Last(ctx, seq)
}

func counter(v []byte) int64 {
	if len(v) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(v))
}

func counterValue(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }
