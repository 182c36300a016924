package lease

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
	"meridian/txn"
)

// Sequences hand out numbers, outside of transactions as in PostgreSQL: a number that was taken stays taken.
//
// They are drawn at the leaseholder of the counter, which is ahead of them by some (kv.AddRequest.Draw): so they come in
// the order in which they are asked for, on whatever node, and only one of 32 has to be replicated.
//
// A sequence is one counter. What is stored is the last value less Sequence.Base, so that a counter that is not there
// is a sequence of which nothing has been taken.
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

// maxCachedSequences bounds the cache; what it drops are numbers nobody gets.
const maxCachedSequences = 1024

// NewSequences makes Sequences over a DB.
func NewSequences(db *txn.DB) *Sequences {
	return &Sequences{db: db, cache: map[catalog.ID]cached{}}
}

func sequenceKey(id catalog.ID) keys.Key { return keys.IndexPrefix(id, catalog.IndexID(1)) }

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
	first, got, err := s.Take(ctx, seq, n)
	if err != nil || got == 1 {
		return first, err
	}
	s.mu.Lock()
	if len(s.cache) >= maxCachedSequences {
		clear(s.cache)
	}
	s.cache[seq.ID] = cached{seq.Version, first + d.Increment, got - 1, d.Increment}
	s.mu.Unlock()
	return first, nil
}

// reserved is how many numbers a leaseholder sets aside in one round of consensus, as many as PostgreSQL logs at once;
// it does so for sequences with room for at least minReserved.
const reserved, minReserved = 32, 1 << 20

// ahead is what is set aside of a sequence.
func ahead(d *catalog.Sequence) int64 {
	step := d.Increment
	if d.Cycle || step > minReserved || step < -minReserved || uint64(d.Max)-uint64(d.Min) < minReserved*uint64(max(step, -step)) {
		return 0
	}
	return step * reserved
}

// Take takes up to n numbers at once: first, first plus the increment, and so on, got of them.
func (s *Sequences) Take(ctx context.Context, seq *catalog.Table, n int64) (first, got int64, err error) {
	d := seq.Sequence
	for {
		last, err := s.db.Draw(ctx, sequenceKey(seq.ID), d.Increment*n, ahead(d))
		var over *kv.AddOverflowError
		if err != nil && !errors.As(err, &over) {
			return 0, 0, err
		}
		first := last + d.Base - d.Increment*(n-1)
		if err == nil && first >= d.Min && first <= d.Max {
			end := d.Max
			if d.Increment < 0 {
				end = d.Min
			}
			return first, min(n, (end-first)/d.Increment+1), nil
		}
		if !d.Cycle {
			// Put the counter back near its end, so that it never overflows however often this is tried.
			bound, word := d.Max, "maximum"
			if d.Increment < 0 {
				bound, word = d.Min, "minimum"
			}
			if err == nil {
				s.db.Draw(ctx, sequenceKey(seq.ID), -d.Increment*n, 0)
			}
			return 0, 0, sqlstate.New("2200H", "nextval: reached %s value of sequence \"%s\" (%d)", word, seq.Name, bound)
		}
		restart := d.Min
		if d.Increment < 0 {
			restart = d.Max
		}
		if err := s.wrap(ctx, seq, restart); err != nil {
			return 0, 0, err
		}
	}
}

// wrap sets an exhausted cycling sequence back, unless somebody else has.
func (s *Sequences) wrap(ctx context.Context, seq *catalog.Table, to int64) error {
	return s.db.Run(ctx, txn.TxnOptions{Name: "sequence"}, func(ctx context.Context, tx *txn.Txn) error {
		v, err := tx.Get(ctx, sequenceKey(seq.ID), kv.Exclusive, kv.Block)
		if err != nil {
			return err
		}
		if next := counter(v) + seq.Sequence.Base; next >= seq.Sequence.Min && next <= seq.Sequence.Max {
			return nil
		}
		var b txn.WriteBatch
		b.Put(sequenceKey(seq.ID), counterValue(to-seq.Sequence.Increment-seq.Sequence.Base))
		return tx.Write(ctx, &b)
	})
}

// Set makes a sequence go on from a value: after it if called, else with it.
func (s *Sequences) Set(ctx context.Context, seq *catalog.Table, value int64, called bool) error {
	s.mu.Lock()
	delete(s.cache, seq.ID)
	s.mu.Unlock()
	if !called {
		value -= seq.Sequence.Increment
	}
	return s.db.Put(ctx, sequenceKey(seq.ID), counterValue(value-seq.Sequence.Base))
}

// Last is the last number taken; called says that there was one, else it is the first to come.
func (s *Sequences) Last(ctx context.Context, seq *catalog.Table) (last int64, called bool, err error) {
	n, err := s.db.Draw(ctx, sequenceKey(seq.ID), 0, 0)
	if err != nil {
		return 0, false, err
	}
	d := seq.Sequence
	last = n + d.Base
	if n == 0 || last < d.Min || last > d.Max {
		return min(max(last+d.Increment, d.Min), d.Max), false, nil
	}
	return last, true, nil
}

func counter(v []byte) int64 {
	if len(v) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(v))
}

func counterValue(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }
