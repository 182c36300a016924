package schemachange

import (
	"context"
	"errors"
	"sync/atomic"
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

// fewRows is how many rows of a chunk a backfill fills one by one, each in a transaction, rather than read all of them again. So many of these
// transactions run at the same time.
const fewRows = 100

// rereads bounds how often a backfill reads a chunk again.
const rereads = 3

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
	// The next chunk is read while this one is loaded.
	var under *load
	finish := func() error {
		c := under
		if under = nil; c == nil {
			return nil
		}
		if err := e.finishLoad(ctx, b, c, 0); err != nil {
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
		c, err = b.Read(ctx, tx, span, chunkRows, kv.NoLock)
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

// finishLoad waits until a chunk is loaded. The remaining entries are those whose keys others have written or read since the rows were
// read: they are filled in transactions, which tell a concurrent write from a duplicate. If they are many, the cause is another one, such
// as a new leaseholder, which does not know the earlier reads: the chunk is read again. A unique index of a GLOBAL table always comes to the transactions, as its
// ranges have closed the future: any replica may have served a read above the timestamp at which the rows were read.
func (e *Executor) finishLoad(ctx context.Context, b *exec.Backfill, l *load, tries int) error {
	var err error
	select {
	case err = <-l.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	var gone *kv.BelowGCError
	if tries < rereads && (errors.As(err, &gone) || len(l.left) > fewRows) {
		for next := &l.Span; next != nil; {
			part, at, err := e.readChunk(ctx, b, *next)
			if err != nil {
				return err
			}
			if err := e.finishLoad(ctx, b, e.startLoad(ctx, part, at), tries+1); err != nil {
				return err
			}
			next = part.Rest
		}
		return nil
	}
	if err != nil {
		return err
	}
	return e.fillRows(ctx, b, l.left)
}

// fillRows adds the entries of rows in a transaction each, several of them at the same time: one that writes to a GLOBAL table takes about half a second.
func (e *Executor) fillRows(ctx context.Context, b *exec.Backfill, rows []keys.Key) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var next atomic.Int64
	fill := func() error {
		for i := next.Add(1) - 1; i < int64(len(rows)); i = next.Add(1) - 1 {
			if err := e.o.DB.Run(ctx, txn.TxnOptions{Name: "backfill"}, func(ctx context.Context, tx *txn.Txn) error {
				return b.Fill(ctx, tx, rows[i])
			}); err != nil {
				return err
			}
		}
		return nil
	}
	results := make(chan error, fewRows)
	running := min(fewRows, len(rows))
	for range running {
		if !e.o.Host.Group.Go(func(context.Context) { results <- fill() }) {
			results <- context.Canceled
		}
	}
	var first error
	for range running {
		if err := <-results; err != nil && first == nil {
			first = err
			cancel()
		}
	}
	return first
}
