package schemachange

import (
	"context"
	"hash/fnv"
	"time"

	"meridian/clock"
	"meridian/encoding"
	"meridian/host"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/exec"
	"meridian/sql/rowcode"
	"meridian/sql/types"
	"meridian/txn"
)

// Bounds of the collection of statistics.
const (
	// sampleRows is the size of the sample; PostgreSQL's default target samples as many rows. A table of many columns has a smaller one, of about
	// sampleBytes if its values are long, but not below leastSample.
	sampleRows  = 30_000
	sampleBytes = 32 << 20
	leastSample = 300
	// histogramParts bounds the common values and the parts of one histogram: PostgreSQL's default target. Columns get histograms as long as those
	// before them fit into histogramBytes: the statistics of a table are one value, which every node keeps in memory.
	histogramParts = 100
	histogramBytes = 256 << 10
)

// Analyze collects statistics of a table: it counts all rows and samples some. It reads as of a moment ago, so that it
// delays no writer.
func (e *Executor) Analyze(ctx context.Context, t *catalog.Table) error {
	if t.Kind != catalog.KindTable || t.Dropped {
		return nil
	}
	counted, err := e.counted(ctx, t.ID)
	if err != nil {
		return err
	}
	tx := e.o.DB.Begin(collecting(t, "analyze", e.o.Clock.Now()))
	defer tx.Rollback(ctx)
	st, err := e.Collect(ctx, t, tx, Collection{CountsOnly: e.countsOnly(t)})
	if err != nil {
		return err
	}
	return e.store(ctx, t, st, counted)
}

// collecting are the options of a transaction that collects statistics of a table at a time. Ranges without leaseholders have no past; their newest rows do.
func collecting(t *catalog.Table, name string, at clock.Timestamp) txn.TxnOptions {
	if !t.Traits().Past.Can() {
		return txn.TxnOptions{Name: name, Isolation: kv.ReadCommitted, ReadOnly: true}
	}
	return txn.TxnOptions{Name: name, AsOf: at}
}

// store stores statistics of a table of which so many changed rows had been counted before they were collected.
func (e *Executor) store(ctx context.Context, t *catalog.Table, st *catalog.Statistics, counted int64) error {
	if err := e.o.Leases.PutStatistics(ctx, t.ID, st); err != nil || counted == 0 {
		return err
	}
	_, err := e.o.Leases.AddChanges(ctx, t.ID, -counted)
	return err
}

func (e *Executor) countsOnly(t *catalog.Table) bool {
	return e.o.CountsOnly != nil && e.o.CountsOnly(t)
}

// Collection says how statistics are collected.
type Collection struct {
	// CountsOnly leaves out all values, so the statistics have counts and no histograms: for tables whose rows may not leave their
	// region, since statistics are stored in a table of the system and are in the memory of every node (rule 7 of decision 0012).
	CountsOnly bool
	// Pace, if set, is called between two requests with the time that the last one took, and may wait. It fails if the collection is to end.
	Pace func(ctx context.Context, took time.Duration) error
}

// Collect is Analyze of the rows that a transaction sees; the caller stores the result.
func (e *Executor) Collect(ctx context.Context, t *catalog.Table, tx exec.KV, how Collection) (*catalog.Statistics, error) {
	var ordinals []int
	for i := range t.Columns {
		if t.Columns[i].State == catalog.Public {
			ordinals = append(ordinals, i)
		}
	}
	dec, err := rowcode.NewDecoder(t, t.Primary(), ordinals)
	if err != nil {
		return nil, err
	}
	st := &catalog.Statistics{At: e.o.Clock.Wall().UnixNano(), Columns: map[catalog.ColumnID]catalog.ColumnStatistics{}}
	s := newSample(len(ordinals), e.o.Host.Dice)
	row := make(types.Row, len(ordinals))
	span, filter, err := ownRows(t)
	if err != nil {
		return nil, err
	}
	for next := &span; next != nil; {
		began := e.o.Host.Clock.Monotonic()
		rows, resume, err := tx.Scan(ctx, txn.ScanOptions{Span: *next, MaxRows: 5000, TargetBytes: 1 << 20, Filter: filter})
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			st.Rows++
			st.Bytes += int64(len(r.Key) + len(r.Value))
			at, ok := s.place()
			if !ok {
				continue
			}
			if err := dec.Decode(r.Key, r.Value, row); err != nil {
				return nil, err
			}
			s.put(at, row, t, ordinals, !how.CountsOnly)
		}
		if next = resume; next != nil && how.Pace != nil {
			if err := how.Pace(ctx, e.o.Host.Clock.Monotonic()-began); err != nil {
				return nil, err
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	room := histogramBytes
	for i, o := range ordinals {
		parts := histogramParts
		if how.CountsOnly || room <= 0 {
			parts = 0
		}
		c := s.column(i, st.Rows, parts)
		if c.Histogram != nil {
			room -= c.Histogram.Size()
		}
		st.Columns[t.Columns[o].ID] = c
	}
	return st, nil
}

// sample is a uniform sample of the rows (reservoir sampling, Vitter's algorithm R): of each value it keeps a hash, a width, and, for the
// histogram, the key encoding, which is cut. So its memory is bounded by sampleBytes, whatever the table has.
type sample struct {
	columns, rows int // the second is the most that it keeps
	dice          host.Dice
	seen          int64
	values        []sampled // columns for each row
	buf           []byte
}

type sampled struct {
	hash  uint64 // zero: NULL
	width uint16
	plain bool   // key is not set: the type has no key encoding
	key   []byte // at most catalog.HistogramValueBytes
}

func newSample(columns int, dice host.Dice) *sample {
	rows := min(sampleRows, max(sampleBytes/(max(columns, 1)*catalog.HistogramValueBytes), leastSample))
	return &sample{columns: columns, rows: rows, dice: dice}
}

// place is where in the sample the next row goes; false: nowhere.
func (s *sample) place() (at int, ok bool) {
	s.seen++
	if n := len(s.values) / max(s.columns, 1); n < s.rows {
		s.values = append(s.values, make([]sampled, s.columns)...)
		return n, true
	}
	at = int(s.dice.Int64N(s.seen))
	return at, at < s.rows
}

// put sets a row of the sample. keep says that its values may be stored.
func (s *sample) put(at int, row types.Row, t *catalog.Table, ordinals []int, keep bool) {
	var text [64]byte
	for i, d := range row {
		v := &s.values[at*s.columns+i]
		if d.IsNull() {
			*v = sampled{}
			continue
		}
		text := types.AppendText(text[:0], d, t.Columns[ordinals[i]].Type, nil)
		h := fnv.New64a()
		h.Write(text)
		v.hash, v.width, v.plain = h.Sum64()|1, uint16(min(len(text), 1<<16-1)), true
		if keep {
			key, err := rowcode.AppendKeyDatum(s.buf[:0], d, encoding.Ascending)
			if v.plain = err != nil; err == nil {
				s.buf = key
				v.key = append(v.key[:0], key[:min(len(key), catalog.HistogramValueBytes)]...)
			}
		}
	}
}

// column estimates one column of a table with that many rows: distinct values as Haas and Stokes do (estimator Duj1),
// which PostgreSQL uses too. parts bounds the histogram; zero: there is none.
func (s *sample) column(i int, rows int64, parts int) (c catalog.ColumnStatistics) {
	counts := make(map[uint64]int32)
	var n, nulls, width int64
	var keys [][]byte
	for at := i; at < len(s.values); at += s.columns {
		v := &s.values[at]
		n++
		if v.hash == 0 {
			nulls++
			continue
		}
		counts[v.hash]++
		width += int64(v.width)
		if parts > 0 && !v.plain {
			keys = append(keys, v.key)
		}
	}
	if n == 0 {
		return c
	}
	c.NullCount = rows * nulls / n
	full := n - nulls
	if full == 0 {
		return c
	}
	c.AvgWidth = width / full
	var once int64
	for _, k := range counts {
		if k == 1 {
			once++
		}
	}
	d, total := float64(len(counts)), float64(rows-c.NullCount)
	f, f1 := float64(full), float64(once)
	est := f * d / (f - f1 + f1*f/total)
	c.Distinct = int64(min(max(est, d), total))
	if int64(len(keys)) == full {
		c.Histogram = catalog.NewHistogram(keys, int(nulls), n == rows, parts)
	}
	return c
}
