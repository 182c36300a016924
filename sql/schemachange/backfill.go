package schemachange

import (
	"context"
	"errors"
	"slices"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/exec"
	"meridian/sql/job"
	"meridian/txn"
)

// chunkRows is how many rows a backfill reads at once. No transaction waits for them.
const chunkRows = 10_000

// fewRows is how many rows of a chunk a backfill fills in transactions rather than read all of them again.
const fewRows = 100

// rereads bounds how often a backfill reads a chunk again.
const rereads = 3

// fillRows and fillBytes bound the rows that one transaction fills, fillsInFlight the number of such transactions at a time. Where entries belong to ranges
// that close the future, every row is filled so: a transaction takes some 0.6 s there, mostly because it waits for its own timestamp, and a writer of one
// of its rows may have to wait that long.
const (
	fillRows      = 500
	fillBytes     = 1 << 18
	fillsInFlight = 8
)

// fillPriority makes a transaction that fills several rows the victim of its deadlocks with others, however often it was one before.
const fillPriority = -1 << 20

// fillIndex adds the entries of all rows, chunk by chunk.
func (e *Executor) fillIndex(ctx context.Context, r *job.Run, t *catalog.Table, x *catalog.Index, done *changeProgress) error {
	id := uint32(x.ID)
	var b *exec.Backfill
	if err := e.viewOf(ctx, t.ID, func(ctx context.Context, _ *txn.Txn, view *lease.View, now *catalog.Table) error {
		nx := now.Index(x.ID)
		if nx == nil || nx.State != catalog.WriteOnly {
			return nil // it was dropped meanwhile
		}
		var err error
		b, err = e.o.backfill(ctx, view, now, nx, e.o.scalarContext(ctx, lease.Info{Database: view.CurrentDatabase()}, time.UTC))
		return err
	}); err != nil {
		return err
	}
	if b == nil {
		return nil
	}
	span := b.Span()
	if k := done.Next[id]; k != nil {
		span.Start = k
	}
	last := e.o.Host.Clock.Monotonic()
	f := &filling{e: e, b: b}
	// The next chunk is read while this one is loaded.
	var under *load
	finish := func() error {
		c := under
		if under = nil; c == nil {
			return nil
		}
		if err := f.finish(ctx, c, 0); err != nil {
			return err
		}
		done.Rows[id] += c.Rows
		if c.Rest == nil {
			return nil
		}
		done.Next[id] = c.Rest.Start
		if now := e.o.Host.Clock.Monotonic(); now-last > time.Second {
			last = now
			return r.Checkpoint(ctx, min(0.9, float64(done.Rows[id])/float64(max(e.rows(t.ID), done.Rows[id])+1)), done)
		}
		return nil
	}
	for next := &span; next != nil; {
		if e.o.Yield != nil {
			if err := e.o.Yield(ctx); err != nil {
				return errors.Join(err, finish())
			}
		}
		c, at, err := e.readChunk(ctx, b, *next)
		if ferr := finish(); ferr != nil {
			return ferr
		}
		if err != nil {
			return err
		}
		under, next = e.startLoad(ctx, c, at), c.Rest
	}
	if err := finish(); err != nil {
		return err
	}
	return e.o.DB.Run(ctx, txn.TxnOptions{Name: "backfill"}, func(ctx context.Context, tx *txn.Txn) error { return b.CheckRegions(ctx, tx) })
}

// readChunk reads a chunk of rows, makes their entries, and says at which timestamp.
func (e *Executor) readChunk(ctx context.Context, b *exec.Backfill, span keys.Span) (c *exec.Chunk, at clock.Timestamp, err error) {
	err = e.o.DB.Run(ctx, txn.TxnOptions{Name: "backfill"}, func(ctx context.Context, tx *txn.Txn) (err error) {
		c, err = b.Read(ctx, tx, span, chunkRows)
		at = tx.ReadTimestamp()
		return err
	})
	return c, at, err
}

// load is a chunk whose entries are on their way into the index.
type load struct {
	*exec.Chunk
	done chan error // receives once
	left []keys.Key // rows whose entries were refused
}

// startLoad loads a chunk's entries, at the timestamp at which its rows were read. So a transaction that has changed one of the
// rows since has written, or will write, a later version of its entry.
func (e *Executor) startLoad(ctx context.Context, c *exec.Chunk, at clock.Timestamp) *load {
	l := &load{Chunk: c, done: make(chan error, 1)}
	if !e.o.Host.Group.Go(func(context.Context) { l.done <- e.load(ctx, l, at) }) {
		l.done <- context.Canceled
	}
	return l
}

func (e *Executor) load(ctx context.Context, l *load, at clock.Timestamp) error {
	entries := func(es *exec.Entries, mode kv.LoadMode) error {
		refused, err := e.o.DB.LoadAt(ctx, es.KVs, mode, at)
		for _, k := range refused {
			l.left = append(l.left, es.Row(k))
		}
		return err
	}
	if err := entries(&l.Unique, kv.LoadShared); err != nil {
		return err
	}
	return entries(&l.Own, kv.LoadUnread)
}

// filling is the backfill of one index.
type filling struct {
	e *Executor
	b *exec.Backfill
	// useless: most rows of a chunk that was read again were refused again.
	useless bool
}

// finish waits until a chunk is loaded. The remaining entries are those whose keys others have written or read since the rows were
// read: they are filled in transactions, which tell a concurrent write from a duplicate. If they are many, the cause is another one. After the change of a
// leaseholder, which does not know the earlier reads, it helps to read the chunk again. It does not where ranges close the
// future, and count every time until then as read.
func (f *filling) finish(ctx context.Context, l *load, tries int) error {
	e := f.e
	var err error
	select {
	case err = <-l.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	var gone *kv.BelowGCError
	old := errors.As(err, &gone)
	if tries > 0 && !old && 2*int64(len(l.left)) > max(l.Rows, fewRows) {
		f.useless = true
	}
	if tries < rereads && (old || len(l.left) > fewRows && !f.useless) {
		for next := &l.Span; next != nil; {
			part, at, err := e.readChunk(ctx, f.b, *next)
			if err != nil {
				return err
			}
			if err := f.finish(ctx, e.startLoad(ctx, part, at), tries+1); err != nil {
				return err
			}
			next = part.Rest
		}
		return nil
	}
	if err != nil {
		return err
	}
	return f.fill(ctx, l)
}

// fill adds the entries that were refused, in several transactions at a time.
func (f *filling) fill(ctx context.Context, l *load) error {
	if len(l.left) == 0 {
		return nil
	}
	slices.SortFunc(l.left, keys.Key.Compare) // each transaction writes to few ranges
	most := int(min(fillRows, max(1, fillBytes*l.Rows/max(l.Bytes, 1))))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, fillsInFlight)
	running := 0
	for part := range slices.Chunk(l.left, (len(l.left)+fillsInFlight-1)/fillsInFlight) {
		if !f.e.o.Host.Group.Go(func(context.Context) { ended <- f.fillPart(ctx, part, most) }) {
			ended <- context.Canceled
		}
		running++
	}
	var failed error
	for ; running > 0; running-- {
		if err := <-ended; err != nil && failed == nil {
			failed = err
			stop()
		}
	}
	return failed
}

// fillPart fills rows one transaction after the other. A transaction that loses a conflict begins again with half of its rows. Rows that others have locked come
// last: the first of them is waited for, and by then most of the others are free.
func (f *filling) fillPart(ctx context.Context, rows []keys.Key, most int) error {
	var later []keys.Key // locked, or gone
	size, alone, sift := most, false, false
	for len(rows)+len(later) > 0 {
		if len(rows) == 0 {
			rows, later = later, nil
			alone, sift = true, true
		}
		n, tries := min(size, len(rows)), 0
		if alone {
			n, alone = 1, false
		}
		o := txn.TxnOptions{Name: "backfill"}
		if n > 1 {
			o.Priority = fillPriority
		}
		var left []keys.Key
		if err := f.e.o.DB.Run(ctx, o, func(ctx context.Context, tx *txn.Txn) (err error) {
			if tries++; tries > 1 {
				n = max(1, n/2)
				size = n
			}
			left, err = f.b.Fill(ctx, tx, rows[:n], sift)
			return err
		}); err != nil {
			return err
		}
		if tries == 1 {
			size = min(2*size, most)
		}
		rows, later = rows[n:], append(later, left...)
	}
	return nil
}
