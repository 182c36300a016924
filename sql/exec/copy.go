package exec

import (
	"context"

	"meridian/sql/scalar"
	"meridian/sql/types"
)

// CopyWriter runs COPY FROM: it feeds rows to an INSERT whose input is VALUES over the statement's parameters. The
// values of each row become the parameters, so defaults, casts, checks and foreign keys are those of the INSERT.
type CopyWriter struct {
	cursor *Cursor
	it     *insertIter
	err    error
}

// NewCopyWriter begins COPY FROM. The program's plan is "INSERT INTO t (columns) VALUES ($1, $2, ...)", without
// RETURNING.
func NewCopyWriter(p *Program, env *Env) (*CopyWriter, error) {
	c, err := p.Start(env.Scalar.Context, env)
	if err != nil {
		return nil, err
	}
	it, ok := c.r.root.(*insertIter)
	if !ok {
		c.Close()
		return nil, internal("COPY needs a plain insert")
	}
	it.ran = true
	return &CopyWriter{cursor: c, it: it}, nil
}

// Add inserts one row; the writes are sent in batches. The caller may reuse the row afterwards, but not the memory of
// its values.
func (w *CopyWriter) Add(ctx context.Context, values types.Row) error {
	if w.err != nil {
		return w.err
	}
	w.err = w.add(ctx, values)
	return w.err
}

func (w *CopyWriter) add(ctx context.Context, values types.Row) error {
	r := w.cursor.r
	r.ctx, r.sctx.Context = ctx, ctx
	r.sctx.Params = values
	if err := w.it.in.open(); err != nil {
		return err
	}
	if _, err := w.it.consume(false); err != nil {
		return err
	}
	if w.it.m.batch.Len() == 0 {
		r.arena = nil // the batch was sent
	}
	return nil
}

// Flush ends the copy: it writes the remaining rows and checks the foreign keys.
func (w *CopyWriter) Flush(ctx context.Context) error {
	if w.err != nil {
		return w.err
	}
	r := w.cursor.r
	r.ctx, r.sctx.Context = ctx, ctx
	w.err = w.it.end()
	return w.err
}

// Close ends the copy; rows that were not written are dropped.
func (w *CopyWriter) Close() { w.cursor.Close() }

var _ scalar.Subqueries = (*run)(nil)
