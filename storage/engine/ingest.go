package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/cockroachkvs"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"meridian/keys"
)

const (
	// ingestDir is where files are made that are to become part of the store; what a crash leaves there is removed.
	ingestDir = "ingest"
	// ingestFileBytes is about the size of one of them, before compression.
	ingestFileBytes = 32 << 20
)

// ErrNotOrdered refuses an entry of an Ingestion that is outside of its spans or not above the one before.
var ErrNotOrdered = errors.New("engine: the entry is not where it should be")

// Ingestion replaces all that the store has in some spans by entries that come in order, in bounded memory: they are written to files
// outside the store, which Commit makes part of it. It is for one goroutine.
type Ingestion struct {
	e     *Engine
	spans []rawSpan // still to come; the first may be under way
	files []ingestFile
	w     *sstable.Writer // of the last of files, if not nil
	bytes int             // of what w was given
	last  []byte          // the last entry's key without its version
	err   error
}

// rawSpan is a span of engine keys.
type rawSpan struct{ lower, upper []byte }

func toRaw(s keys.Span) rawSpan { return rawSpan{appendKey(nil, s.Start), appendKey(nil, s.Stop())} }

// ingestFile has all that will be in [lower, upper).
type ingestFile struct {
	rawSpan
	path string
}

// IngestAbove is the size of a change from which on files are better than a batch (Options.IngestBytes).
func (e *Engine) IngestAbove() int64 { return e.opts.IngestBytes }

// NewIngestion begins to replace what is in spans, which are in order and apart. Close it in the end.
func (e *Engine) NewIngestion(spans []keys.Span) (*Ingestion, error) {
	if err := e.fs.MkdirAll(e.fs.PathJoin(e.dir, ingestDir), 0o755); err != nil {
		return nil, err
	}
	g := &Ingestion{e: e}
	for _, s := range spans {
		if r := toRaw(s); compare(r.lower, r.upper) < 0 {
			g.spans = append(g.spans, r)
		}
	}
	return g, nil
}

func compare(a, b []byte) int { return cockroachkvs.Comparer.Compare(a, b) }

// PutRaw adds an entry by its engine key, as RawKey gave it. After an error nothing but Close makes sense.
func (g *Ingestion) PutRaw(raw, value []byte) error {
	if g.err != nil {
		return g.err
	}
	for len(g.spans) > 0 && compare(raw, g.spans[0].upper) >= 0 {
		g.endSpan()
	}
	if len(g.spans) == 0 || compare(raw, g.spans[0].lower) < 0 {
		return g.failed(ErrNotOrdered)
	}
	prefix := raw[:cockroachkvs.Comparer.Split(raw)]
	if g.w != nil && g.bytes >= ingestFileBytes && !bytes.Equal(prefix, g.last) {
		g.spans[0].lower = slices.Clone(prefix)
		g.endFile(g.spans[0].lower)
	}
	if g.w == nil {
		g.begin(g.spans[0].lower)
	}
	if g.err == nil {
		g.last = append(g.last[:0], prefix...)
		g.bytes += len(raw) + len(value)
		g.err = g.w.Set(raw, value)
	}
	return g.err
}

func (g *Ingestion) failed(err error) error {
	if g.err == nil {
		g.err = err
	}
	return g.err
}

// begin makes a file for what begins at lower.
func (g *Ingestion) begin(lower []byte) {
	if g.err != nil {
		return
	}
	path := g.e.fs.PathJoin(g.e.dir, ingestDir, strconv.FormatInt(g.e.ingested.Add(1), 10)+".sst")
	f, err := g.e.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		_ = g.failed(err)
		return
	}
	f = vfs.NewSyncingFile(f, vfs.SyncingFileOptions{BytesPerSync: 512 << 10})
	g.files = append(g.files, ingestFile{rawSpan{lower: lower}, path})
	g.w = sstable.NewWriter(objstorageprovider.NewFileWritable(f), g.e.tables)
	g.bytes = 0
}

// endFile ends the file under way: it removes all that the store has up to upper, but for its own entries.
func (g *Ingestion) endFile(upper []byte) {
	f := &g.files[len(g.files)-1]
	f.upper = upper
	if g.err == nil {
		g.err = g.w.DeleteRange(f.lower, upper)
	}
	g.closeFile()
}

func (g *Ingestion) closeFile() {
	if g.w == nil {
		return
	}
	if err := g.w.Close(); err != nil { // it syncs
		_ = g.failed(err)
	}
	g.w = nil
}

// endSpan ends the first span, which may be empty.
func (g *Ingestion) endSpan() {
	s := g.spans[0]
	g.spans = g.spans[1:]
	if g.w == nil {
		g.begin(s.lower)
	}
	if g.w != nil {
		g.endFile(s.upper)
	}
}

// Finish says that there are no more entries. Commit does it otherwise, but this is the slower part.
func (g *Ingestion) Finish() error {
	for len(g.spans) > 0 && g.err == nil {
		g.endSpan()
	}
	return g.err
}

// Commit applies the ingestion and b as one, and returns when both are durable. The changes of b are elsewhere than in the
// ingestion's spans. All that was committed before is durable too then. It takes some syncs: call Finish, and the engine's
// Sync, before anything is locked. Any error means that the store has failed (engine.EN1).
func (g *Ingestion) Commit(b *Batch) (err error) {
	if f := g.e.failure.Load(); f != nil {
		return f
	}
	defer g.e.recoverFailure(&err)
	err = g.Finish()
	if err == nil {
		err = g.add(b)
	}
	if err != nil {
		return g.e.fail(err)
	}
	// Data that is only in the store's log must not be lost while the files, which are younger, stay.
	if err := g.e.syncLog(); err != nil {
		return err
	}
	paths := make([]string, len(g.files))
	for i := range g.files {
		paths[i] = g.files[i].path
	}
	if err := g.e.db.Ingest(context.Background(), paths); err != nil {
		return g.e.fail(fmt.Errorf("while ingesting files: %w", err))
	}
	g.files = nil
	return g.e.Failure()
}

// change is one of a batch: of [key, end) if end is not nil.
type change struct {
	kind       pebble.InternalKeyKind
	order      int
	key, value []byte
	end        []byte
}

// add makes files of a batch.
func (g *Ingestion) add(b *Batch) error {
	var points, clears []change
	r := b.b.Reader()
	for n := 0; ; n++ {
		kind, key, value, ok, err := r.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		c := change{kind: kind, order: n, key: key, value: value}
		switch kind {
		case pebble.InternalKeyKindSet, pebble.InternalKeyKindDelete, pebble.InternalKeyKindSingleDelete:
			points = append(points, c)
		case pebble.InternalKeyKindRangeDelete:
			if c.end = value; compare(key, c.end) < 0 {
				clears = append(clears, c)
			}
		default:
			return fmt.Errorf("engine: a change of kind %v can't be ingested", kind)
		}
	}
	all := slices.DeleteFunc(points, func(p change) bool { // a file's points survive its own clears
		return slices.ContainsFunc(clears, func(c change) bool {
			return c.order > p.order && compare(c.key, p.key) <= 0 && compare(p.key, c.end) < 0
		})
	})
	all = append(all, joined(clears)...)
	slices.SortFunc(all, func(a, b change) int {
		if c := compare(a.key, b.key); c != 0 {
			return c
		}
		if (a.end == nil) != (b.end == nil) {
			return cmp.Compare(len(b.end), len(a.end))
		}
		return a.order - b.order
	})
	have := slices.Clone(g.files)
	for i := range all {
		c := &all[i]
		if c.end == nil && i+1 < len(all) && all[i+1].end == nil && bytes.Equal(c.key, all[i+1].key) {
			continue // the next one replaces it
		}
		for len(have) > 0 && compare(have[0].upper, c.key) <= 0 {
			have = have[1:]
			g.closeFile()
		}
		if len(have) > 0 && (compare(have[0].lower, c.key) <= 0 || c.end != nil && compare(have[0].lower, c.end) < 0) {
			return ErrNotOrdered
		}
		if g.w == nil {
			g.begin(c.key)
		}
		switch {
		case g.err != nil:
		case c.end != nil:
			g.err = g.w.DeleteRange(c.key, c.end)
		case c.kind == pebble.InternalKeyKindSet:
			g.err = g.w.Set(c.key, c.value)
		default:
			g.err = g.w.Delete(c.key)
		}
		if g.err != nil {
			return g.err
		}
	}
	g.closeFile()
	return g.err
}

// joined makes one of clears that overlap.
func joined(clears []change) []change {
	slices.SortFunc(clears, func(a, b change) int { return compare(a.key, b.key) })
	out := clears[:0]
	for _, c := range clears {
		if n := len(out); n > 0 && compare(c.key, out[n-1].end) < 0 {
			if compare(out[n-1].end, c.end) < 0 {
				out[n-1].end = c.end
			}
			continue
		}
		out = append(out, c)
	}
	return out
}

// Close removes the files, unless they were committed.
func (g *Ingestion) Close() error {
	g.closeFile()
	for _, f := range g.files {
		_ = g.e.fs.Remove(f.path)
	}
	g.files = nil
	return nil
}
