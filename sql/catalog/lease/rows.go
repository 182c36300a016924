package lease

import (
	"maps"
	"slices"

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

func appendMessage(b []byte, msg *message) []byte {
	b = wire.Timestamp(b, 1, msg.At)
	var at int
	for i := range msg.Changes {
		c := &msg.Changes[i]
		b, at = wire.BeginLong(b, 3, len(c.Descriptor))
		b = wire.End(appendChange(b, c), at)
	}
	b = appendIDs(b, 5, msg.Statistics)
	for i := range msg.Ask {
		b, at = wire.Begin(b, 7)
		b = wire.End(appendDependency(b, &msg.Ask[i]), at)
	}
	return b
}

func readMessage(r *wire.Reader, msg *message) {
	for m := r.Open("lease.Message"); r.Next(&m); {
		switch r.Field() {
		case 1:
			msg.At = r.Timestamp()
		case 3:
			readChange(r, wire.Grow(r, &msg.Changes))
		case 5:
			msg.Statistics = readIDs(r)
		case 7:
			readDependency(r, wire.Grow(r, &msg.Ask))
		default:
			r.Skip()
		}
	}
}

func appendChange(b []byte, c *messageChange) []byte {
	b = wire.Uint(wire.Uint(b, 1, uint64(c.ID)), 3, c.Version)
	b = wire.Bytes(wire.Uint(b, 5, c.Used), 7, c.Descriptor)
	return wire.Bool(wire.Timestamp(b, 9, c.From), 11, c.Exact)
}

func readChange(r *wire.Reader, c *messageChange) {
	for m := r.Open("lease.Change"); r.Next(&m); {
		switch r.Field() {
		case 1:
			c.ID = catalog.ID(r.Uint32())
		case 3:
			c.Version = r.Uint()
		case 5:
			c.Used = r.Uint()
		case 7:
			c.Descriptor = r.Bytes()
		case 9:
			c.From = r.Timestamp()
		case 11:
			c.Exact = r.Bool()
		default:
			r.Skip()
		}
	}
}

func appendDependency(b []byte, d *catalog.Dependency) []byte {
	return wire.Uint(wire.Uint(b, 1, uint64(d.ID)), 3, d.Version)
}

func readDependency(r *wire.Reader, d *catalog.Dependency) {
	for m := r.Open("lease.Dependency"); r.Next(&m); {
		switch r.Field() {
		case 1:
			d.ID = catalog.ID(r.Uint32())
		case 3:
			d.Version = r.Uint()
		default:
			r.Skip()
		}
	}
}

func appendIDs(b []byte, field uint32, ids []catalog.ID) []byte {
	l := make([]uint64, len(ids))
	for i, id := range ids {
		l[i] = uint64(id)
	}
	return wire.Packed(b, field, l)
}

func readIDs(r *wire.Reader) (ids []catalog.ID) {
	for _, v := range r.Packed() {
		if v > 1<<32-1 {
			r.Malformed()
		}
		ids = append(ids, catalog.ID(v))
	}
	return ids
}

// users is the answer to a question: the transactions that use older versions.
type users struct{ Txns []kv.TxnMeta }

func appendUsers(b []byte, u *users) []byte {
	var at int
	for i := range u.Txns {
		b, at = wire.Begin(b, 1)
		b = wire.End(u.Txns[i].Append(b), at)
	}
	return b
}

func readUsers(r *wire.Reader, u *users) {
	for m := r.Open("lease.Users"); r.Next(&m); {
		switch r.Field() {
		case 1:
			wire.In(r, wire.Grow(r, &u.Txns), (*kv.TxnMeta).Fields)
		default:
			r.Skip()
		}
	}
}

// tenureRow tells how long a node may use its snapshot of the catalogue, and which of the versions that are being published it
// uses.
type tenureRow struct {
	Node       uint32
	Expiration int64
	Applied    map[catalog.ID]uint64
}

func appendTenure(b []byte, t *tenureRow) []byte {
	b = wire.Fixed64(wire.Uint(b, 1, uint64(t.Node)), 3, uint64(t.Expiration))
	var at int
	for _, id := range slices.Sorted(maps.Keys(t.Applied)) {
		b, at = wire.Begin(b, 5)
		b = wire.End(appendDependency(b, &catalog.Dependency{ID: id, Version: t.Applied[id]}), at)
	}
	return b
}

func readTenure(r *wire.Reader, t *tenureRow) {
	for m := r.Open("lease.Tenure"); r.Next(&m); {
		switch r.Field() {
		case 1:
			t.Node = r.Uint32()
		case 3:
			t.Expiration = int64(r.Fixed64())
		case 5:
			var d catalog.Dependency
			if readDependency(r, &d); t.Applied == nil {
				t.Applied = map[catalog.ID]uint64{}
			}
			t.Applied[d.ID] = d.Version
		default:
			r.Skip()
		}
	}
}

func decodeTenure(b []byte) (t tenureRow, err error) {
	r := wire.Read(b)
	readTenure(&r, &t)
	return t, r.Err()
}

// frozenRow is the row that exists while a table is frozen.
type frozenRow struct {
	Version uint64 // the frozen one
	By      []byte // the transaction
	Alone   bool   // no other transaction uses the earlier version
}

func appendFrozen(b []byte, f *frozenRow) []byte {
	return wire.Bool(wire.Bytes(wire.Uint(b, 1, f.Version), 3, f.By), 5, f.Alone)
}

func readFrozen(r *wire.Reader, f *frozenRow) {
	for m := r.Open("lease.Frozen"); r.Next(&m); {
		switch r.Field() {
		case 1:
			f.Version = r.Uint()
		case 3:
			f.By = r.Bytes()
		case 5:
			f.Alone = r.Bool()
		default:
			r.Skip()
		}
	}
}

func decodeFrozen(b []byte) (f frozenRow, err error) {
	r := wire.Read(b)
	readFrozen(&r, &f)
	return f, r.Err()
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

func appendPending(b []byte, p *pendingRow) []byte {
	b = wire.Bool(wire.Timestamp(wire.Uint(b, 1, p.Version), 3, p.At), 5, p.Exact)
	return wire.Bool(wire.Bytes(b, 7, p.By), 9, p.Open)
}

func readPendingRow(r *wire.Reader, p *pendingRow) {
	for m := r.Open("lease.Pending"); r.Next(&m); {
		switch r.Field() {
		case 1:
			p.Version = r.Uint()
		case 3:
			p.At = r.Timestamp()
		case 5:
			p.Exact = r.Bool()
		case 7:
			p.By = r.Bytes()
		case 9:
			p.Open = r.Bool()
		default:
			r.Skip()
		}
	}
}

func decodePending(b []byte) (p pendingRow, err error) {
	r := wire.Read(b)
	readPendingRow(&r, &p)
	return p, r.Err()
}

// Statistics that are not understood are as none: they are for the optimizer alone.
func appendStatistics(b []byte, s *catalog.Statistics) []byte {
	b = wire.Int(wire.Int(wire.Fixed64(b, 1, uint64(s.At)), 3, s.Rows), 5, s.Bytes)
	var at int
	for _, id := range slices.Sorted(maps.Keys(s.Columns)) {
		b, at = wire.Begin(b, 7)
		b = wire.End(appendColumn(b, &columnStatistics{id, s.Columns[id]}), at)
	}
	return b
}

func readStatistics(r *wire.Reader, s *catalog.Statistics) {
	for m := r.Open("lease.Statistics"); r.Next(&m); {
		switch r.Field() {
		case 1:
			s.At = int64(r.Fixed64())
		case 3:
			s.Rows = r.Int()
		case 5:
			s.Bytes = r.Int()
		case 7:
			var c columnStatistics
			if readColumn(r, &c); s.Columns == nil {
				s.Columns = map[catalog.ColumnID]catalog.ColumnStatistics{}
			}
			s.Columns[c.id] = c.ColumnStatistics
		default:
			r.Skip()
		}
	}
}

func decodeStatistics(b []byte) (*catalog.Statistics, error) {
	s := &catalog.Statistics{}
	r := wire.Read(b)
	readStatistics(&r, s)
	return s, r.Err()
}

type columnStatistics struct {
	id catalog.ColumnID
	catalog.ColumnStatistics
}

func appendColumn(b []byte, c *columnStatistics) []byte {
	b = wire.Int(wire.Int(wire.Int(wire.Uint(b, 1, uint64(c.id)), 3, c.Distinct), 5, c.NullCount), 7, c.AvgWidth)
	if c.Histogram != nil {
		var at int
		b, at = wire.Begin(b, 8)
		b = wire.End(appendHistogram(b, c.Histogram), at)
	}
	return b
}

func appendHistogram(b []byte, h *catalog.Histogram) []byte {
	var at int
	for i := range h.Common {
		b, at = wire.Begin(b, 2)
		b = wire.End(appendCommon(b, &h.Common[i]), at)
	}
	for _, v := range h.Bounds {
		b = wire.Element(b, 4, v)
	}
	return b
}

func readHistogram(r *wire.Reader, h *catalog.Histogram) {
	for m := r.Open("lease.Histogram"); r.Next(&m); {
		switch r.Field() {
		case 2:
			readCommon(r, wire.Grow(r, &h.Common))
		case 4:
			*wire.Grow(r, &h.Bounds) = slices.Clone(r.Bytes())
		default:
			r.Skip()
		}
	}
}

func appendCommon(b []byte, c *catalog.CommonValue) []byte {
	return wire.Uint(wire.Bytes(b, 2, c.Value), 4, uint64(c.PerMillion))
}

func readCommon(r *wire.Reader, c *catalog.CommonValue) {
	for m := r.Open("lease.CommonValue"); r.Next(&m); {
		switch r.Field() {
		case 2:
			c.Value = slices.Clone(r.Bytes())
		case 4:
			c.PerMillion = r.Uint32()
		default:
			r.Skip()
		}
	}
}

func readColumn(r *wire.Reader, c *columnStatistics) {
	for m := r.Open("lease.Column"); r.Next(&m); {
		switch r.Field() {
		case 1:
			c.id = catalog.ColumnID(r.Uint32())
		case 3:
			c.Distinct = r.Int()
		case 5:
			c.NullCount = r.Int()
		case 7:
			c.AvgWidth = r.Int()
		case 8:
			c.Histogram = &catalog.Histogram{}
			readHistogram(r, c.Histogram)
		default:
			r.Skip()
		}
	}
}

// changedRows is how many rows of a table were changed since its statistics were collected.
type changedRows struct{ Rows int64 }

func appendChanges(b []byte, c *changedRows) []byte { return wire.Int(b, 2, c.Rows) }

func readChanges(r *wire.Reader, c *changedRows) {
	for m := r.Open("lease.ChangedRows"); r.Next(&m); {
		switch r.Field() {
		case 2:
			c.Rows = r.Int()
		default:
			r.Skip()
		}
	}
}

func decodeChanges(b []byte) (c changedRows, err error) {
	r := wire.Read(b)
	readChanges(&r, &c)
	return c, r.Err()
}

// collector is the node that collects statistics, until a time in wall nanoseconds.
type collector struct {
	Node       uint32
	Expiration int64
}

func appendCollector(b []byte, c *collector) []byte {
	return wire.Fixed64(wire.Uint(b, 1, uint64(c.Node)), 3, uint64(c.Expiration))
}

func readCollector(r *wire.Reader, c *collector) {
	for m := r.Open("lease.Collector"); r.Next(&m); {
		switch r.Field() {
		case 1:
			c.Node = r.Uint32()
		case 3:
			c.Expiration = int64(r.Fixed64())
		default:
			r.Skip()
		}
	}
}

func decodeCollector(b []byte) (c collector, err error) {
	r := wire.Read(b)
	readCollector(&r, &c)
	return c, r.Err()
}
