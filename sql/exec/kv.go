package exec

import (
	"context"
	"errors"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/opt"
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

// settler is implemented by a KV whose writes may fail after Write returned.
type settler interface {
	Settle(ctx context.Context) error
}

// checker is implemented by a KV that may be less than serializable: its reads for a constraint still hold at the
// commit, and take locks.
type checker interface {
	Weak() bool
	CheckMany(ctx context.Context, ks []keys.Key) ([][]byte, error)
	CheckScan(ctx context.Context, o txn.ScanOptions) ([]kv.KeyValue, *keys.Span, error)
}

// observer is implemented by a KV some of whose reads may be of an earlier state than others.
type observer interface {
	Observe(ctx context.Context, ks []keys.Key) error
	ReadFresh(ctx context.Context, ks []keys.Key) error
}

// decider is implemented by a KV some of whose reads may be of an earlier state, unless the statement asks for the present one (txn.TX16).
type decider interface {
	ReadCurrent()
	Implies(entry, row keys.Key)
	Confirm(ctx context.Context) error
}

// confirmed is the end of a statement that changes rows: what it has read is confirmed before the client is told of its success, or of its failure.
func (r *run) confirmed(err error) error {
	d, ok := r.kv.(decider)
	if !ok || !r.prog.mutates || r.committed || r.ctx.Err() != nil || txn.Retriable(err) {
		return err
	}
	if stale := d.Confirm(r.ctx); stale != nil && (err == nil || txn.Retriable(stale)) {
		return stale
	}
	return err
}

// implies says that a row has an entry by which it was found.
func (r *run) implies(entry, row keys.Key) {
	if d, ok := r.kv.(decider); ok {
		d.Implies(entry, row)
	}
}

// observe reads the keys that events remove, if they are in ranges without leaseholders, before rows that refer to them are looked for (fastpaxos.FP81). The removal is
// committed only if nobody has referred to them since.
func (r *run) observe(in *fkIn, events []fkEvent) error {
	o, ok := r.kv.(observer)
	if !ok || !in.parent.Traits().Optimistic {
		return nil
	}
	var ks []keys.Key
	for _, e := range events {
		k, others, err := in.parentKey.parentOf(e.vals)
		if err != nil {
			return err
		}
		ks = append(append(ks, k), others...)
	}
	return o.Observe(r.ctx, ks)
}

// refresh reads rows of a table freshly, if it is one without leaseholders, before they are read in order to be changed: the entries by which they were found may be later than what
// an ordinary read sees.
func (r *run) refresh(t *catalog.Table, ks []keys.Key) error {
	if o, ok := r.kv.(observer); ok && t.Traits().Nearest {
		return o.ReadFresh(r.ctx, ks)
	}
	return nil
}

// checkMany reads keys to check a constraint.
func (r *run) checkMany(ks []keys.Key) ([][]byte, error) {
	if err := r.staysKeys(ks, kv.NoLock); err != nil {
		return nil, err
	}
	ask := func(ks []keys.Key) ([][]byte, error) { return r.kv.GetMany(r.ctx, ks, kv.NoLock, kv.Block) }
	if c, ok := r.kv.(checker); ok {
		ask = func(ks []keys.Key) ([][]byte, error) { return c.CheckMany(r.ctx, ks) }
	}
	// The caller uses the values at once and keeps none.
	taken := int64(0)
	defer func() { r.budget.Shrink(taken) }()
	return inParts(ks, ask, func(n int64) error {
		if n < pageFree {
			return nil
		}
		if err := r.budget.Grow(n); err != nil {
			return err
		}
		taken += n
		return nil
	})
}

// checkScan reads a span to check a constraint.
func (r *run) checkScan(o txn.ScanOptions) ([]kv.KeyValue, *keys.Span, error) {
	if err := r.stays(o.Span, o.Lock); err != nil {
		return nil, nil, err
	}
	if c, ok := r.kv.(checker); ok {
		return c.CheckScan(r.ctx, o)
	}
	return r.kv.Scan(r.ctx, o)
}

// toChange is the lock for rows that are read in order to be changed: below serializable they would not be protected
// otherwise.
func (r *run) toChange() kv.LockStrength {
	if c, ok := r.kv.(checker); ok && c.Weak() {
		return kv.Exclusive
	}
	return kv.NoLock
}

// holder is implemented by a KV that keeps the locks which a statement asks for.
type holder interface{ HoldLocks(on bool) }

// holds brackets reads that take locks which the statement asks for, and counts on until its transaction ends (opt.Plan.LocksOne).
func (rd *reader) holds(asked bool) func() {
	if !asked || rd.r.prog.locksOne && rd.r.env.Alone {
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

// finder is implemented by a KV that need not wait for all of several keys.
type finder interface {
	GetFound(ctx context.Context, ks []keys.Key, enough int, lock kv.LockStrength, wait kv.WaitPolicy) ([][]byte, error)
}

// chooser is implemented by a KV that locks the first of several keys that are free.
type chooser interface {
	LockFirst(ctx context.Context, ks []keys.Key, n int, lock kv.LockStrength) (values [][]byte, changed []bool, err error)
}

// firstScanner is implemented by a KV that reads the beginnings of several spans at the same time.
type firstScanner interface {
	ScanFirst(ctx context.Context, spans []keys.Span, o txn.ScanOptions) (rows [][]kv.KeyValue, rests []*keys.Span, ok bool, err error)
}

// tracer is implemented by a KV that can name the ranges and nodes that served it.
type tracer interface {
	SetTrace(on bool)
	Served() []kv.Served
}

// reader is embedded by operators that read ranges.
type reader struct {
	r     *run
	stats *NodeStats
	// held is the memory of the values that were read last, in the run with the number of.
	held int64
	of   uint32
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
		rd.stats.served(t.Served()) // the session turns it off: it wants to know about the writes too
	}
	rd.stats.KVTime += rd.r.env.Trace.Now() - start
	rd.stats.KVBatches++
	rd.stats.KVRows += rows
	rd.stats.KVBytes += bytes
	return err
}

// Rows from ranges are accounted for until the reader has the next ones (I9): a page is a megabyte, but a row may have 64. A
// batch of keys or spans with more bytes than an answer may have (kv.AnswerBytes) is read in parts, each of which takes its
// memory before the next is requested.

// pageFree is how much a reader may hold without an account.
const pageFree = 64 << 10

// letGo gives back the memory of the previous rows.
func (rd *reader) letGo() {
	if rd.of != rd.r.number {
		rd.of, rd.held = rd.r.number, 0 // the previous run has given back all
	}
	if rd.held != 0 {
		rd.r.pages -= rd.held
		rd.r.budget.Shrink(rd.held)
		rd.held = 0
	}
}

// hold takes memory for rows that were read, in addition to that held already.
func (rd *reader) hold(bytes int64) error {
	if bytes < pageFree {
		return nil
	}
	if err := rd.r.budget.Grow(bytes); err != nil {
		return err
	}
	rd.held += bytes
	rd.r.pages += bytes
	return nil
}

func (rd *reader) get(k keys.Key, lock kv.LockStrength, wait kv.WaitPolicy) ([]byte, error) {
	v, err := rd.askOne(k, lock, wait)
	if err != nil {
		return nil, err
	}
	rd.letGo()
	return v, rd.hold(int64(len(v)))
}

func (rd *reader) getMany(ks []keys.Key, lock kv.LockStrength, wait kv.WaitPolicy) ([][]byte, error) {
	rd.letGo()
	return rd.getParts(ks, lock, wait)
}

func (rd *reader) getParts(ks []keys.Key, lock kv.LockStrength, wait kv.WaitPolicy) ([][]byte, error) {
	return inParts(ks, func(ks []keys.Key) ([][]byte, error) { return rd.askMany(ks, lock, wait) }, rd.hold)
}

// getFound is getParts for keys of which no more than enough have values. Those that have none are not locked.
func (rd *reader) getFound(ks []keys.Key, enough int, lock kv.LockStrength, wait kv.WaitPolicy) ([][]byte, error) {
	if _, ok := rd.r.kv.(finder); !ok || enough <= 0 {
		return rd.getParts(ks, lock, wait)
	}
	vs, err := rd.askFound(ks, enough, lock, wait)
	if tooLarge(err) {
		return rd.getParts(ks, lock, wait)
	}
	if err != nil {
		return nil, err
	}
	return vs, rd.hold(valueBytes(vs))
}

// getParents is getFound for the sake of a constraint; enough is zero if each of the keys may have a value. Keys that have none are not locked.
func (rd *reader) getParents(ks []keys.Key, enough int) ([][]byte, error) {
	c, ok := rd.r.kv.(foundChecker)
	if !ok {
		return rd.getFound(ks, enough, kv.NoLock, kv.Block)
	}
	if enough == 0 {
		enough = len(ks)
	}
	vs, err := rd.askBy(ks, kv.NoLock, func() ([][]byte, error) { return c.CheckFound(rd.r.ctx, ks, enough) })
	if tooLarge(err) && len(ks) > 1 {
		half := len(ks) / 2 // each part may have all
		if vs, err = rd.getParents(ks[:half], 0); err != nil {
			return nil, err
		}
		more, err := rd.getParents(ks[half:], 0)
		return append(vs, more...), err
	}
	if err != nil {
		return nil, err
	}
	return vs, rd.hold(valueBytes(vs))
}

// inParts reads keys, in parts if all of them exceed the bound of an answer. It calls hold with the bytes of each part.
func inParts(ks []keys.Key, ask func([]keys.Key) ([][]byte, error), hold func(int64) error) ([][]byte, error) {
	vs, err := ask(ks)
	if tooLarge(err) && len(ks) > 1 {
		half := len(ks) / 2
		if vs, err = inParts(ks[:half], ask, hold); err != nil {
			return nil, err
		}
		more, err := inParts(ks[half:], ask, hold)
		return append(vs, more...), err
	}
	if err != nil {
		return nil, err
	}
	return vs, hold(valueBytes(vs))
}

func valueBytes(vs [][]byte) (n int64) {
	for _, v := range vs {
		n += int64(len(v))
	}
	return n
}

// valued is how many keys have a value.
func valued(vs [][]byte) (n int) {
	for _, v := range vs {
		if v != nil {
			n++
		}
	}
	return n
}

func tooLarge(err error) bool {
	var e *kv.AnswerTooLargeError
	return errors.As(err, &e)
}

func (rd *reader) scan(o txn.ScanOptions) ([]kv.KeyValue, *keys.Span, error) {
	rd.letGo()
	rows, resume, err := rd.askScan(o)
	if err != nil {
		return nil, nil, err
	}
	return rows, resume, rd.hold(pairBytes(rows))
}

func (rd *reader) scanMany(spans []keys.Span, o txn.ScanOptions) ([][]kv.KeyValue, error) {
	rd.letGo()
	return rd.scanParts(spans, o)
}

// scanParts is scanMany that keeps the rows that were read before.
func (rd *reader) scanParts(spans []keys.Span, o txn.ScanOptions) ([][]kv.KeyValue, error) {
	lists, err := rd.askScans(spans, o)
	if !tooLarge(err) {
		n := int64(0)
		for _, l := range lists {
			n += pairBytes(l)
		}
		if err == nil {
			err = rd.hold(n)
		}
		return lists, err
	}
	lists = make([][]kv.KeyValue, len(spans))
	o.TargetBytes = pageBytes
	for i := range spans {
		for rest := &spans[i]; rest != nil; {
			o.Span = *rest
			var rows []kv.KeyValue
			if rows, rest, err = rd.askScan(o); err == nil {
				err = rd.hold(pairBytes(rows))
			}
			if err == nil {
				err = rd.r.ctx.Err()
			}
			if err != nil {
				return nil, err
			}
			lists[i] = append(lists[i], rows...)
		}
	}
	return lists, nil
}

func (rd *reader) askOne(k keys.Key, lock kv.LockStrength, wait kv.WaitPolicy) (v []byte, err error) {
	if err := rd.r.stays(keys.Span{Start: k}, lock); err != nil {
		return nil, err
	}
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

func (rd *reader) askMany(ks []keys.Key, lock kv.LockStrength, wait kv.WaitPolicy) ([][]byte, error) {
	return rd.askBy(ks, lock, func() ([][]byte, error) { return rd.r.kv.GetMany(rd.r.ctx, ks, lock, wait) })
}

func (rd *reader) askFound(ks []keys.Key, enough int, lock kv.LockStrength, wait kv.WaitPolicy) ([][]byte, error) {
	return rd.askBy(ks, lock, func() ([][]byte, error) { return rd.r.kv.(finder).GetFound(rd.r.ctx, ks, enough, lock, wait) })
}

// candidates is how many rows are read at first, in addition to those that are wanted, where others may have locked them.
const candidates = 64

// chooses reports whether a statement that takes hinted rows locks the first that are free, and may pass over others.
func (rd *reader) chooses(lock opt.Locking, hinted int64) bool {
	_, ok := rd.r.kv.(chooser)
	return ok && hinted > 0 && lock.Held && lock.Wait == kv.SkipLocked
}

// choose locks the first n of the keys that have a value and are free. It returns the values of those that were tried, at least one: nil where there is none, or another transaction has
// locked it, or it has changed since the statement began. The last are passed over for the time being, since to lock one the statement may have to begin again: revisit locks them.
func (rd *reader) choose(ks []keys.Key, n int, lock opt.Locking) (vs [][]byte, changed []bool, err error) {
	defer rd.holds(lock.Held)()
	vs, err = rd.askBy(ks, lock.Strength, func() (vs [][]byte, err error) {
		vs, changed, err = rd.r.kv.(chooser).LockFirst(rd.r.ctx, ks, n, lock.Strength)
		return vs, err
	})
	if err != nil {
		return nil, nil, err
	}
	return vs, changed, rd.hold(valueBytes(vs))
}

// revisit locks a key that choose has passed over.
func (rd *reader) revisit(k keys.Key, lock opt.Locking) ([]byte, error) {
	defer rd.holds(lock.Held)()
	v, err := rd.askOne(k, lock.Strength, lock.Wait)
	if err != nil {
		return nil, err
	}
	return v, rd.hold(int64(len(v)))
}

func (rd *reader) askBy(ks []keys.Key, lock kv.LockStrength, ask func() ([][]byte, error)) (vs [][]byte, err error) {
	if err := rd.r.staysKeys(ks, lock); err != nil {
		return nil, err
	}
	if rd.stats == nil {
		return ask()
	}
	err = rd.measure(func() (rows, bytes int64, _ error) {
		vs, err = ask()
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

func (rd *reader) askScan(o txn.ScanOptions) (rows []kv.KeyValue, resume *keys.Span, err error) {
	if err := rd.r.stays(o.Span, o.Lock); err != nil {
		return nil, nil, err
	}
	if rd.stats == nil {
		return rd.r.kv.Scan(rd.r.ctx, o)
	}
	err = rd.measure(func() (int64, int64, error) {
		rows, resume, err = rd.r.kv.Scan(rd.r.ctx, o)
		return int64(len(rows)), pairBytes(rows), err
	})
	return rows, resume, err
}

func (rd *reader) askScans(spans []keys.Span, o txn.ScanOptions) (rows [][]kv.KeyValue, err error) {
	if err := rd.r.staysAll(spans, o.Lock); err != nil {
		return nil, err
	}
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

// askFirst asks for the beginnings of several spans; ok is false if they have to be read one after the other.
func (rd *reader) askFirst(spans []keys.Span, o txn.ScanOptions) (rows [][]kv.KeyValue, rests []*keys.Span, ok bool, err error) {
	f, ok := rd.r.kv.(firstScanner)
	if !ok {
		return nil, nil, false, nil
	}
	if err := rd.r.staysAll(spans, o.Lock); err != nil {
		return nil, nil, false, err
	}
	if rd.stats == nil {
		return f.ScanFirst(rd.r.ctx, spans, o)
	}
	err = rd.measure(func() (n, bytes int64, _ error) {
		rows, rests, ok, err = f.ScanFirst(rd.r.ctx, spans, o)
		for _, list := range rows {
			n += int64(len(list))
			bytes += pairBytes(list)
		}
		return n, bytes, err
	})
	return rows, rests, ok, err
}

// write sends a batch, and commits with it.
func (rd *reader) write(b *txn.WriteBatch, commit bool) (err error) {
	if rd.r.env.Home != nil {
		if err := rd.r.env.Home.Writes(rd.r.ctx, b); err != nil {
			return err
		}
	}
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

// Sizes of requests to the ranges.
const (
	// pageBytes bounds one page of a scan.
	pageBytes = 1 << 20
	// apartBytes bounds the first pages of a scan's spans together, if they are read at the same time.
	apartBytes = 4 * pageBytes
	// firstPage is how many rows a scan asks for first when its consumer may stop early; pages then grow.
	firstPage = 64
	// filteredPage is the least page of a scan with a filter.
	filteredPage = 16
	// lookupBatch bounds the keys of one batch of lookups; batches grow towards it from firstPage.
	lookupBatch = 1024
	// eagerScanRows bounds the rows that several spans are expected to have together, for all of them to be read at once.
	eagerScanRows = 10_000
)

// grow is the next size of a batch.
func grow(n, most int) int { return min(4*n, most) }
