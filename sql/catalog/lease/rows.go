package lease

import (
	"bytes"

	"meridian/clock"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/wire"
)

// The messages of this package, and its rows but for descriptors (codec.go), with package wire. A row is written whole by one node, so that no node
// reads, changes and rewrites a row of another version.

// message is news that a publisher tells other nodes, or a question.
type message struct {
	// At is a time at or after which all of the changes were made.
	At      clock.Timestamp
	Changes []messageChange
	// Statistics are tables whose statistics have changed.
	Statistics []catalog.ID
	// Ask is a question instead of news: which transactions use versions older than these?
	Ask []catalog.Dependency
}

type messageChange struct {
	ID      catalog.ID
	Version uint64
	// Descriptor is the row of the descriptor; nil: it was removed.
	Descriptor []byte
	// Used is the version that the node has to use, or a later one, before it answers; zero: Version.
	Used uint64
	// From is the time from which a registered version is valid, Exact its kind; without a descriptor, the change is to be registered.
	From  clock.Timestamp
	Exact bool
}

func (m *message) fields(c *wire.Coder) {
	c.Message("lease.Message", wire.Skips)
	c.Timestamp(1, &m.At)
	wire.Large(c, 3, &m.Changes, (*messageChange).fields, func(x *messageChange) int { return len(x.Descriptor) })
	wire.Numbers(c, 5, &m.Statistics)
	wire.List(c, 7, &m.Ask, dependency)
}

func (x *messageChange) fields(c *wire.Coder) {
	c.Message("lease.Change", wire.Skips)
	wire.Uint32(c, 1, &x.ID)
	wire.Uint64(c, 3, &x.Version)
	wire.Uint64(c, 5, &x.Used)
	c.Bytes(7, &x.Descriptor)
	c.Timestamp(9, &x.From)
	c.Bool(11, &x.Exact)
}

func dependency(d *catalog.Dependency, c *wire.Coder) { applied(&d.ID, &d.Version, c) }

func applied(id *catalog.ID, version *uint64, c *wire.Coder) {
	c.Message("lease.Dependency", wire.Skips)
	wire.Uint32(c, 1, id)
	wire.Uint64(c, 3, version)
}

// users is the answer to a question: the transactions that use older versions.
type users struct{ Txns []kv.TxnMeta }

func (u *users) fields(c *wire.Coder) {
	c.Message("lease.Users", wire.Skips)
	wire.List(c, 1, &u.Txns, (*kv.TxnMeta).Fields)
}

// tenureRow tells how long a node may use its snapshot of the catalogue, and which of the versions that are being published it
// uses.
type tenureRow struct {
	Node       uint32
	Expiration int64
	Applied    map[catalog.ID]uint64
}

func (t *tenureRow) fields(c *wire.Coder) {
	c.Message("lease.Tenure", wire.Skips)
	wire.Uint32(c, 1, &t.Node)
	c.Sfixed64(3, &t.Expiration)
	wire.Map(c, 5, &t.Applied, applied)
}

// frozenRow is the row that exists while a table is frozen.
type frozenRow struct {
	Version uint64 // the frozen one
	By      []byte // the transaction
	Alone   bool   // no other transaction uses the earlier version
}

func (f *frozenRow) fields(c *wire.Coder) {
	c.Message("lease.Frozen", wire.Skips)
	wire.Uint64(c, 1, &f.Version)
	c.Bytes(3, &f.By)
	c.Bool(5, &f.Alone)
}

// pendingRow is a version that some node may not use yet, or that is registered for a time.
type pendingRow struct {
	Version uint64
	// At is the time of a registered version, Exact its kind.
	At    clock.Timestamp
	Exact bool
	// By is the transaction that registers it; Open: it has not committed.
	By   []byte
	Open bool
}

func (p *pendingRow) fields(c *wire.Coder) {
	c.Message("lease.Pending", wire.Skips)
	wire.Uint64(c, 1, &p.Version)
	c.Timestamp(3, &p.At)
	c.Bool(5, &p.Exact)
	c.Bytes(7, &p.By)
	c.Bool(9, &p.Open)
}

// Statistics that are not understood are as none: they are for the optimizer alone.
func statistics(s *catalog.Statistics, c *wire.Coder) {
	c.Message("lease.Statistics", wire.Skips)
	c.Sfixed64(1, &s.At)
	wire.Int64(c, 3, &s.Rows)
	wire.Int64(c, 5, &s.Bytes)
	wire.Map(c, 7, &s.Columns, column)
}

func column(id *catalog.ColumnID, s *catalog.ColumnStatistics, c *wire.Coder) {
	c.Message("lease.Column", wire.Skips)
	wire.Uint32(c, 1, id)
	wire.Int64(c, 3, &s.Distinct)
	wire.Int64(c, 5, &s.NullCount)
	wire.Int64(c, 7, &s.AvgWidth)
	wire.Opt(c, 8, &s.Histogram, histogram)
}

func histogram(h *catalog.Histogram, c *wire.Coder) {
	c.Message("lease.Histogram", wire.Skips)
	wire.List(c, 2, &h.Common, common)
	wire.Keys(c, 4, &h.Bounds)
}

func common(v *catalog.CommonValue, c *wire.Coder) {
	c.Message("lease.CommonValue", wire.Skips)
	c.Bytes(2, &v.Value)
	wire.Uint32(c, 4, &v.PerMillion)
}

// decodeStatistics reads statistics, which outlive the row.
func decodeStatistics(row []byte) (*catalog.Statistics, error) {
	s := &catalog.Statistics{}
	return s, wire.Decode(bytes.Clone(row), s, statistics)
}

// changedRows is how many rows of a table were changed since its statistics were collected.
type changedRows struct{ Rows int64 }

func (x *changedRows) fields(c *wire.Coder) {
	c.Message("lease.ChangedRows", wire.Skips)
	wire.Int64(c, 2, &x.Rows)
}

// collector is the node that collects statistics, until a time in wall nanoseconds.
type collector struct {
	Node       uint32
	Expiration int64
}

func (x *collector) fields(c *wire.Coder) {
	c.Message("lease.Collector", wire.Skips)
	wire.Uint32(c, 1, &x.Node)
	c.Sfixed64(3, &x.Expiration)
}
