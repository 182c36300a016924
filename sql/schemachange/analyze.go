package schemachange

import (
	"context"
	"hash/fnv"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/sql/catalog"
	"meridian/sql/exec"
	"meridian/sql/fault"
	"meridian/sql/rowcode"
	"meridian/sql/types"
	"meridian/txn"
)

// Bounds of the collection of statistics.
const (
	// sampleRows is the size of the sample; PostgreSQL's default target samples as many rows.
	sampleRows = 30_000
	// analyzeInterval is how often a node looks for tables whose statistics are old or missing.
	analyzeInterval = time.Minute
	// largeRows divides tables whose statistics are renewed often from those that are not.
	largeRows  = 200_000
	smallStale = 10 * time.Minute
	largeStale = 2 * time.Hour
)

// Analyze collects statistics of a table: it counts all rows and samples some. It reads as of a moment ago, so that it
// delays no writer.
func (e *Executor) Analyze(ctx context.Context, t *catalog.Table) error {
	if t.Kind != catalog.KindTable || t.Dropped {
		return nil
	}
	tx := e.o.DB.Begin(txn.TxnOptions{Name: "analyze", AsOf: clock.Timestamp{Wall: e.o.Clock.Now().Wall}})
	defer tx.Rollback(ctx)
	st, err := e.Collect(ctx, t, tx)
	if err != nil {
		return err
	}
	return e.o.Leases.PutStatistics(ctx, t.ID, st)
}

// Collect is Analyze of the rows that a transaction sees; the caller stores the result.
func (e *Executor) Collect(ctx context.Context, t *catalog.Table, tx exec.KV) (*catalog.Statistics, error) {
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
	st := &catalog.Statistics{At: e.o.Host.Clock.Now().UnixNano(), Columns: map[catalog.ColumnID]catalog.ColumnStatistics{}}
	s := sample{stride: 1, columns: len(ordinals)}
	row := make(types.Row, len(ordinals))
	span := keys.IndexSpan(t.ID, t.Primary().ID)
	for next := &span; next != nil; {
		rows, resume, err := tx.Scan(ctx, txn.ScanOptions{Span: *next, MaxRows: 5000, TargetBytes: 1 << 20})
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			st.Rows++
			st.Bytes += int64(len(r.Key) + len(r.Value))
			if st.Rows%s.stride != 0 {
				continue
			}
			if err := dec.Decode(r.Key, r.Value, row); err != nil {
				return nil, err
			}
			s.add(row, t, ordinals)
		}
		next = resume
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	for i, o := range ordinals {
		st.Columns[t.Columns[o].ID] = s.column(i, st.Rows)
	}
	return st, nil
}

// sample keeps hashes and widths of the columns of every stride-th row; when it is full it keeps every other one.
type sample struct {
	stride  int64
	columns int
	hashes  []uint64 // columns for each row; zero is NULL
	widths  []uint16
}

func (s *sample) add(row types.Row, t *catalog.Table, ordinals []int) {
	if len(s.hashes) >= sampleRows*s.columns {
		kept := 0
		for r := 0; r < len(s.hashes)/s.columns; r += 2 {
			copy(s.hashes[kept*s.columns:], s.hashes[r*s.columns:(r+1)*s.columns])
			copy(s.widths[kept*s.columns:], s.widths[r*s.columns:(r+1)*s.columns])
			kept++
		}
		s.hashes, s.widths = s.hashes[:kept*s.columns], s.widths[:kept*s.columns]
		s.stride *= 2
	}
	var buf [64]byte
	for i, d := range row {
		if d.IsNull() {
			s.hashes, s.widths = append(s.hashes, 0), append(s.widths, 0)
			continue
		}
		text := types.AppendText(buf[:0], d, t.Columns[ordinals[i]].Type, nil)
		h := fnv.New64a()
		h.Write(text)
		s.hashes, s.widths = append(s.hashes, h.Sum64()|1), append(s.widths, uint16(min(len(text), 1<<16-1)))
	}
}

// column estimates one column of a table with that many rows: distinct values as Haas and Stokes do (estimator Duj1),
// which PostgreSQL uses too.
func (s *sample) column(i int, rows int64) (c catalog.ColumnStatistics) {
	counts := make(map[uint64]int32)
	var n, nulls, width int64
	for at := i; at < len(s.hashes); at += s.columns {
		n++
		if s.hashes[at] == 0 {
			nulls++
			continue
		}
		counts[s.hashes[at]]++
		width += int64(s.widths[at])
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
	return c
}

// StartStatistics renews statistics in the background until the host's group stops.
func (e *Executor) StartStatistics() {
	e.o.Host.Group.Go(func(ctx context.Context) {
		for {
			// Nodes begin at different moments, so that two rarely do the same work.
			d := analyzeInterval/2 + time.Duration(e.o.Host.Dice.Int64N(int64(analyzeInterval)))
			if e.o.Host.Clock.Sleep(ctx, d) != nil {
				return
			}
			e.renewStatistics(ctx)
		}
	})
}

func (e *Executor) renewStatistics(ctx context.Context) {
	var stale []*catalog.Table
	now := e.o.Host.Clock.Now().UnixNano()
	e.o.Leases.Snapshot().EachTable(func(t *catalog.Table) {
		if t.Kind != catalog.KindTable {
			return
		}
		st := e.o.Leases.Statistics(t.ID)
		limit := smallStale
		if st != nil && st.Rows > largeRows {
			limit = largeStale
		}
		if st == nil || now-st.At > int64(limit) {
			stale = append(stale, t)
		}
	})
	// Only a few at a time: this node or another one takes the rest soon.
	for _, t := range stale[:min(len(stale), 8)] {
		err := fault.Run(e.o.Host.Log, &e.faults, func() error { return e.Analyze(ctx, t) })
		if err != nil && ctx.Err() == nil {
			e.o.Host.Log.Debug("statistics were not collected", "table", t.Name, "err", err)
		}
	}
}
