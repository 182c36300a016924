package exec

import (
	"context"

	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

// KV is the transaction as operators see it; *txn.Txn is one.
type KV interface {
	Get(ctx context.Context, key keys.Key, lock kv.LockStrength, wait kv.WaitPolicy) ([]byte, error)
	GetMany(ctx context.Context, ks []keys.Key, lock kv.LockStrength, wait kv.WaitPolicy) ([][]byte, error)
	Scan(ctx context.Context, o txn.ScanOptions) ([]kv.KeyValue, *keys.Span, error)
	ScanMany(ctx context.Context, spans []keys.Span, o txn.ScanOptions) ([][]kv.KeyValue, error)
	Write(ctx context.Context, b *txn.WriteBatch) error
	CommitBatch(ctx context.Context, b *txn.WriteBatch) error
	StepStatement()
}

var _ KV = (*txn.Txn)(nil)

// settler is what a KV has whose writes may fail after Write returned.
type settler interface {
	Settle(ctx context.Context) error
}

// checker is what a KV has that may be less than serializable: what is read for the sake of a constraint holds at the
// commit all the same, and is locked.
type checker interface {
	Weak() bool
	CheckMany(ctx context.Context, ks []keys.Key) ([][]byte, error)
	CheckScan(ctx context.Context, o txn.ScanOptions) ([]kv.KeyValue, *keys.Span, error)
}

// checkMany reads keys for the sake of a constraint.
func (r *run) checkMany(ks []keys.Key) ([][]byte, error) {
	if c, ok := r.kv.(checker); ok {
		return c.CheckMany(r.ctx, ks)
	}
	return r.kv.GetMany(r.ctx, ks, kv.NoLock, kv.Block)
}

// checkScan reads a span for the sake of a constraint.
func (r *run) checkScan(o txn.ScanOptions) ([]kv.KeyValue, *keys.Span, error) {
	if c, ok := r.kv.(checker); ok {
		return c.CheckScan(r.ctx, o)
	}
	return r.kv.Scan(r.ctx, o)
}

// toChange is how to lock rows that are read in order to be changed, where nothing but serializability would protect
// them otherwise.
func (r *run) toChange() kv.LockStrength {
	if c, ok := r.kv.(checker); ok && c.Weak() {
		return kv.Exclusive
	}
	return kv.NoLock
}

// holder is what a KV has that keeps the locks which a statement asks for.
type holder interface{ HoldLocks(on bool) }

// holds brackets reads that take locks which the statement asks for.
func (rd *reader) holds(asked bool) func() {
	if !asked {
		return nothing
	}
	h, ok := rd.r.kv.(holder)
	if !ok {
		return nothing
	}
	h.HoldLocks(true)
	return func() { h.HoldLocks(false) }
}

func nothing() {}

// tracer is what a KV has that can name who served it.
type tracer interface {
	SetTrace(on bool)
	Served() []kv.Served
}

// reader is embedded by operators that read ranges.
type reader struct {
	r     *run
	stats *NodeStats
}

func (rd *reader) setStats(s *NodeStats) { rd.stats = s }

// measure brackets a read when the statement is traced.
func (rd *reader) measure(f func() (rows, bytes int64, err error)) error {
	start := rd.r.env.Trace.Now()
	t, _ := rd.r.kv.(tracer)
	if t != nil {
		t.SetTrace(true)
	}
	rows, bytes, err := f()
	if t != nil {
		rd.stats.served(t.Served())
		t.SetTrace(false)
	}
	rd.stats.KVTime += rd.r.env.Trace.Now() - start
	rd.stats.KVBatches++
	rd.stats.KVRows += rows
	rd.stats.KVBytes += bytes
	return err
}

func (rd *reader) get(k keys.Key, lock kv.LockStrength, wait kv.WaitPolicy) (v []byte, err error) {
	if rd.stats == nil {
		return rd.r.kv.Get(rd.r.ctx, k, lock, wait)
	}
	err = rd.measure(func() (int64, int64, error) {
		if v, err = rd.r.kv.Get(rd.r.ctx, k, lock, wait); v == nil {
			return 0, 0, err
		}
		return 1, int64(len(k) + len(v)), err
	})
	return v, err
}

func (rd *reader) getMany(ks []keys.Key, lock kv.LockStrength, wait kv.WaitPolicy) (vs [][]byte, err error) {
	if rd.stats == nil {
		return rd.r.kv.GetMany(rd.r.ctx, ks, lock, wait)
	}
	err = rd.measure(func() (rows, bytes int64, _ error) {
		vs, err = rd.r.kv.GetMany(rd.r.ctx, ks, lock, wait)
		for i, v := range vs {
			if v != nil {
				rows++
				bytes += int64(len(ks[i]) + len(v))
			}
		}
		return rows, bytes, err
	})
	return vs, err
}

func (rd *reader) scan(o txn.ScanOptions) (rows []kv.KeyValue, resume *keys.Span, err error) {
	if rd.stats == nil {
		return rd.r.kv.Scan(rd.r.ctx, o)
	}
	err = rd.measure(func() (int64, int64, error) {
		rows, resume, err = rd.r.kv.Scan(rd.r.ctx, o)
		return int64(len(rows)), pairBytes(rows), err
	})
	return rows, resume, err
}

func (rd *reader) scanMany(spans []keys.Span, o txn.ScanOptions) (rows [][]kv.KeyValue, err error) {
	if rd.stats == nil {
		return rd.r.kv.ScanMany(rd.r.ctx, spans, o)
	}
	err = rd.measure(func() (n, bytes int64, _ error) {
		rows, err = rd.r.kv.ScanMany(rd.r.ctx, spans, o)
		for _, list := range rows {
			n += int64(len(list))
			bytes += pairBytes(list)
		}
		return n, bytes, err
	})
	return rows, err
}

// write sends a batch, and commits with it.
func (rd *reader) write(b *txn.WriteBatch, commit bool) (err error) {
	f := rd.r.kv.Write
	if commit {
		f = rd.r.kv.CommitBatch
	}
	if rd.stats == nil {
		return f(rd.r.ctx, b)
	}
	start := rd.r.env.Trace.Now()
	err = f(rd.r.ctx, b)
	rd.stats.KVTime += rd.r.env.Trace.Now() - start
	rd.stats.Writes += int64(b.Len())
	return err
}

func pairBytes(rows []kv.KeyValue) (n int64) {
	for i := range rows {
		n += int64(len(rows[i].Key) + len(rows[i].Value))
	}
	return n
}

// Sizes of what is asked of the ranges at once.
const (
	// pageBytes bounds one page of a scan.
	pageBytes = 1 << 20
	// firstPage is how many rows a scan asks for first when its consumer may stop early; pages then grow.
	firstPage = 64
	// filteredPage is the least page of a scan with a filter.
	filteredPage = 16
	// lookupBatch bounds the keys of one batch of lookups; batches grow towards it from firstPage.
	lookupBatch = 1024
	// eagerScanRows is how many rows several spans may be expected to have for all to be read at once.
	eagerScanRows = 10_000
)

// grow is the next size of a batch.
func grow(n, most int) int { return min(4*n, most) }
