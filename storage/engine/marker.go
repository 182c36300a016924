package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"meridian/host"
	"meridian/keys"
	"meridian/version"
)

// A store has a file of its own in addition to Pebble's, its marker (engine.EN4). Pebble takes a directory without its manifest for an
// empty one, and does not miss a log that is not there; the marker says that there was a store, which log was the last, and how far the
// store had come.
//
// The marker has two slots, which are written in turn, so that one of them is always whole. It is a line of text, for
// people. Its position is written once a second without a sync: a process that is killed loses nothing of it, and what a
// power cut loses makes the marker an older one, which promises less.

const (
	markerName  = "STORE"
	markerSlot  = 4096
	markerWords = "meridian store 2"
	// markerBefore began the line before stores had versions.
	markerBefore = "meridian store 1 "
	// formatMarker is how the name of the file begins without which Pebble takes a store for one of long ago.
	formatMarker = "marker.format-version"
)

// markEvery is how often the position is written.
const markEvery = time.Second

// marked is what a marker says.
type marked struct {
	Turn     uint64
	Made     bool // false: the store was being made, and nothing had been promised
	Ident    Ident
	Position uint64
	Log      uint64 // number of the last log file
	Lost     uint64 // not zero: the position at which the store was once found, which was less than Position
	Manifest manifestAt
	// Acting is the version by which the store's node acts, Promised the one below which it has promised not to go back;
	// both are zero until it belongs to a cluster.
	Acting, Promised version.Version
}

func (m *marked) line() string {
	s := fmt.Sprintf("%s turn=%d made=%t cluster=%x node=%d store=%d position=%d log=%d lost=%d manifest=%d synced=%d acting=%s promised=%s", markerWords, m.Turn, m.Made,
		m.Ident.Cluster, m.Ident.Node, m.Ident.Store, m.Position, m.Log, m.Lost, m.Manifest.Number, m.Manifest.Synced,
		m.Acting, m.Promised)
	return fmt.Sprintf("%s sum=%08x\n", s, crc32.ChecksumIEEE([]byte(s)))
}

var (
	errMarker      = errors.New("no marker of a store")
	errUnversioned = errors.New("it was written before stores had versions, and this release can't read it; start the nodes of a new cluster on empty directories")
)

func parseMarked(slot []byte) (m marked, err error) {
	line, _, found := strings.Cut(string(slot), "\n")
	body, sum, ok := strings.Cut(line, " sum=")
	if !found || !ok || sum != fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(body))) {
		return m, errMarker
	}
	if strings.HasPrefix(body, markerBefore) {
		return m, errUnversioned
	}
	var cluster []byte
	if _, err := fmt.Sscanf(body, markerWords+" turn=%d made=%t cluster=%x node=%d store=%d position=%d log=%d lost=%d", &m.Turn, &m.Made, &cluster,
		&m.Ident.Node, &m.Ident.Store, &m.Position, &m.Log, &m.Lost); err != nil || len(cluster) != len(m.Ident.Cluster) {
		return m, errMarker
	}
	copy(m.Ident.Cluster[:], cluster)
	_, rest, _ := strings.Cut(body, " manifest=")
	if _, err := fmt.Sscanf(rest, "%d synced=%d", &m.Manifest.Number, &m.Manifest.Synced); err != nil {
		return m, errMarker
	}
	// Additions of later releases come after a space.
	for _, v := range []struct {
		word string
		into *version.Version
	}{{" acting=", &m.Acting}, {" promised=", &m.Promised}} {
		_, text, ok := strings.Cut(rest, v.word)
		text, _, _ = strings.Cut(text, " ")
		if *v.into, err = version.Parse(text); err != nil || !ok {
			return m, errMarker
		}
	}
	return m, nil
}

// marker is the open file.
type marker struct {
	log      atomic.Uint64              // number of the newest log file
	manifest atomic.Pointer[manifestAt] // nil: none was written since the store was opened

	mu   sync.Mutex // guards the fields below; nothing is taken after it
	file vfs.File   // nil: there is none, or it can't be written
	said marked
}

// readMarker gives the newer slot; found is false if there is no file.
func readMarker(fs vfs.FS, name string) (m marked, found bool, err error) {
	f, err := fs.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return m, false, nil
	}
	if err != nil {
		return m, false, err
	}
	defer f.Close()
	var buf [markerSlot + 512]byte
	n, err := f.ReadAt(buf[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return m, true, err
	}
	m, err = parseMarked(buf[:min(n, markerSlot)])
	if n > markerSlot {
		other, oerr := parseMarked(buf[markerSlot:n])
		if oerr == nil && (err != nil || other.Turn > m.Turn) || oerr == errUnversioned && err == errMarker {
			m, err = other, oerr
		}
	}
	return m, true, err
}

// openMarker makes the file if there is none.
func (e *Engine) openMarker(said marked) error {
	name := e.fs.PathJoin(e.dir, markerName)
	f, err := e.fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if errors.Is(err, os.ErrNotExist) {
		if f, err = e.fs.Create(name, vfs.WriteCategoryUnspecified); err == nil {
			if err = f.Close(); err == nil {
				f, err = e.fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
			}
		}
	}
	if err != nil {
		return err
	}
	e.marker.file, e.marker.said = f, said
	return nil
}

// mark changes what the marker says.
func (e *Engine) mark(sync bool, change func(*marked)) error {
	e.marker.mu.Lock()
	defer e.marker.mu.Unlock()
	if e.marker.file == nil {
		return nil
	}
	next := e.marker.said
	change(&next)
	if next == e.marker.said && !sync {
		return nil
	}
	next.Turn++
	if _, err := e.marker.file.WriteAt([]byte(next.line()), int64(next.Turn%2)*markerSlot); err != nil {
		return err
	}
	e.marker.said = next
	if !sync {
		return nil
	}
	if err := e.marker.file.Sync(); err != nil {
		return err
	}
	d, err := e.fs.OpenDir(e.dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// progress writes down how far the store has come.
func (e *Engine) progress(m *marked) {
	m.Position, m.Log = e.at.durable.Load(), e.marker.log.Load()
	if at := e.marker.manifest.Load(); at != nil {
		m.Manifest = *at
	}
}

// keepMark does so for as long as the store is open. A failure here makes the marker less complete; the disk's errors are
// noticed where they count.
func (e *Engine) keepMark(ctx context.Context, clk host.Clock) {
	for clk.Sleep(ctx, markEvery) == nil {
		if e.at.durable.Load() > 0 && !e.DiskFull() {
			_ = e.mark(false, e.progress)
		}
	}
}

func (e *Engine) closeMarker(clean bool) {
	if clean && e.at.durable.Load() > 0 && e.Failure() == nil {
		_ = e.mark(true, e.progress)
	}
	e.marker.mu.Lock()
	defer e.marker.mu.Unlock()
	if e.marker.file != nil {
		_ = e.marker.file.Close()
		e.marker.file = nil
	}
}

// MissingError says that a store lacks a file, or the end of one.
type MissingError struct {
	Dir, File string
	// Shows is how that is known.
	Shows string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("store %q is incomplete: %s is missing (%s). If the file was moved, put it back. Otherwise what the node has acknowledged is lost "+
		"here: remove the directory, let the node join again as a new one, and decommission the old one", e.Dir, e.File, e.Shows)
}

// DamagedError says that a file of a store is not as it was written.
type DamagedError struct {
	Dir string
	Err error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("store %q is damaged: %v. If there is a good copy of the file that was made since the node has stopped, put it back. Otherwise what the node has acknowledged "+
		"may be lost here: remove the directory, let the node join again as a new one, and decommission the old one", e.Dir, e.Err)
}

func (e *DamagedError) Unwrap() error { return e.Err }

// NotAStoreError says that a directory has files, of which none belongs to a store.
type NotAStoreError struct{ Dir, File string }

func (e *NotAStoreError) Error() string {
	return fmt.Sprintf("directory %q holds %q and other files, but no store (there is no file %s): it is not used, since it may be what is left of a store; give an empty directory",
		e.Dir, e.File, markerName)
}

// look decides before Pebble sees the directory whether it is a store, and whether it is whole. fresh: there is no marker.
func (e *Engine) look() (m marked, fresh, mustExist bool, err error) {
	m, found, err := readMarker(e.fs, e.fs.PathJoin(e.dir, markerName))
	if err == errMarker {
		return m, false, false, &MissingError{e.dir, markerName, "it is there, but neither of its two copies is whole"}
	}
	if err != nil {
		return m, false, false, &OpenError{Dir: e.dir, Err: err}
	}
	names, err := e.fs.List(e.dir)
	if err != nil {
		return m, false, false, &OpenError{Dir: e.dir, Err: err}
	}
	names = slices.DeleteFunc(names, func(n string) bool {
		return n == "LOCK" || n == "lost+found" || n == ingestDir || strings.HasPrefix(n, ".")
	})
	slices.Sort(names)
	if !found {
		// A store of the first release has no marker; anything else that is here is no store.
		return m, true, len(names) > 0, nil
	}
	if err := e.opts.Binary.Fits("this node", m.Acting, m.Promised); err != nil {
		return m, false, true, &OpenError{Dir: e.dir, Err: err}
	}
	if !m.Made {
		return m, false, false, nil
	}
	if m.Lost != 0 {
		return m, false, true, e.lost(m)
	}
	manifest, format, newest := false, false, uint64(0)
	for _, n := range names {
		manifest = manifest || strings.HasPrefix(n, manifestPrefix)
		format = format || strings.HasPrefix(n, formatMarker)
		if base, ok := strings.CutSuffix(path.Base(n), ".log"); ok {
			if v, err := strconv.ParseUint(base, 10, 64); err == nil {
				newest = max(newest, v)
			}
		}
	}
	switch {
	case !manifest:
		return m, false, true, &MissingError{e.dir, "MANIFEST", "no file of that name is there"}
	case !format:
		return m, false, true, &MissingError{e.dir, formatMarker, "the file that tells the format of the others"}
	case newest < m.Log:
		return m, false, true, &MissingError{e.dir, logName(m.Log), "it was the last write-ahead log, and there is no later one"}
	}
	return m, false, true, e.shortManifest(names, m.Manifest)
}

func logName(n uint64) string { return fmt.Sprintf("%06d.log", n) }

// opened checks what Pebble has opened against the marker, and brings that up to date.
func (e *Engine) opened(m marked, fresh bool) error {
	v, err := e.Get(keys.StoreMarkedKey())
	if err != nil {
		return err
	}
	id, err := e.Ident()
	if err != nil && err != ErrNoIdent {
		return err
	}
	switch {
	case fresh && v != nil:
		return &MissingError{e.dir, markerName, "the store has had one"}
	case m.Made && e.at.opening < m.Position:
		// Pebble goes on from what it has found, so the file would be of no use any more if it came back, and later attempts
		// would find more changes.
		lost := m
		lost.Lost = max(e.at.opening, 1)
		if err := e.mark(true, func(m *marked) { m.Lost = lost.Lost }); err != nil {
			return &OpenError{Dir: e.dir, Err: err}
		}
		return e.lost(lost)
	case m.Made && m.Ident != Ident{} && id != m.Ident:
		return &MissingError{e.dir, "what belongs to " + markerName, fmt.Sprintf("the store was node %d's and does not know it", m.Ident.Node)}
	}
	if v == nil && id != (Ident{}) { // of the first release
		b := e.NewBatch()
		defer b.Close()
		b.Put(keys.StoreMarkedKey(), []byte{1})
		if err := b.Commit(true); err != nil {
			return err
		}
	}
	return e.mark(true, func(m *marked) {
		m.Made, m.Ident = true, id
		m.Position, m.Log = max(m.Position, e.at.durable.Load()), e.marker.log.Load()
	})
}

func (e *Engine) lost(m marked) error {
	return &MissingError{e.dir, "the end of " + logName(m.Log) + ", or a log before it",
		fmt.Sprintf("%d changes were durable, and %d were there", m.Position, m.Lost)}
}

// missing names the file that Pebble did not find.
func (e *Engine) missing(err error, made bool) error {
	if errors.Is(err, pebble.ErrDBDoesNotExist) {
		names, _ := e.fs.List(e.dir)
		slices.Sort(names)
		for _, n := range names {
			if !made && n != "LOCK" && n != markerName && n != ingestDir {
				return &NotAStoreError{e.dir, n}
			}
		}
		return &MissingError{e.dir, "marker.manifest", "the file that names the manifest"}
	}
	switch {
	case !made:
	case errors.Is(err, os.ErrNotExist):
		return &MissingError{e.dir, "a table", err.Error()}
	case pebble.IsCorruptionError(err):
		return &DamagedError{e.dir, err}
	}
	return &OpenError{Dir: e.dir, Err: err}
}
