package cluster

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"meridian/clock"
	"meridian/kv"
)

// Capacity is what a node's store holds.
type Capacity struct {
	Ranges, Leases uint32
	UsedBytes      uint64
	AvailableBytes uint64
	// QueriesPerSecond is recent load, for the allocator.
	QueriesPerSecond float64
}

// Entry is what a node says about itself.
type Entry struct {
	Node  kv.NodeID
	Store kv.StoreID
	// Addr is where other nodes reach it; SQLAddr and HTTPAddr are for clients.
	Addr, SQLAddr, HTTPAddr string
	Locality                Locality
	Build                   string
	StartedAt               time.Time
	Capacity                Capacity
	// Protected, if not zero, is at or below the timestamps at which the node's transactions read: what they may see is
	// not garbage. It is told with some delay, and not while it is only seconds old.
	Protected clock.Timestamp
	// Draining and Decommissioning ask others not to move leases, or replicas, to the node.
	Draining, Decommissioning bool
	// Slow tells others that writes have waited long for the node's disk lately.
	Slow bool
	// Full tells others that the node's disk is nearly full.
	Full bool
	// Start and Token name the run of the node's process, and Position how far its store had come (package fence).
	Start, Token, Position uint64

	// Life orders the starts of a node, Revision the changes within one. Package cluster sets both.
	Life, Revision uint64
}

// newer reports whether e was said after o.
func (e *Entry) newer(life, revision uint64) bool {
	return e.Life > life || e.Life == life && e.Revision > revision
}

// ErrCorrupt is what decoders return for bytes that no encoder of this package wrote.
var ErrCorrupt = errors.New("cluster: malformed bytes")

// maxText bounds every string of an entry.
const maxText = 1 << 12

// writer appends values; reader takes them in the same order and remembers the first failure.
type writer struct{ b []byte }

func (w *writer) uint(v uint64)        { w.b = binary.AppendUvarint(w.b, v) }
func (w *writer) int(v int64)          { w.b = binary.AppendVarint(w.b, v) }
func (w *writer) text(s string)        { w.uint(uint64(len(s))); w.b = append(w.b, s...) }
func (w *writer) float(v float64)      { w.b = binary.BigEndian.AppendUint64(w.b, math.Float64bits(v)) }
func (w *writer) ts(t clock.Timestamp) { w.int(t.Wall); w.uint(uint64(t.Logical)) }

func (w *writer) bools(vs ...bool) {
	var v uint64
	for i, b := range vs {
		if b {
			v |= 1 << i
		}
	}
	w.uint(v)
}

// sized writes what f writes, after its length, so that readers can skip what they do not know.
func (w *writer) sized(f func(w *writer)) {
	var in writer
	f(&in)
	w.uint(uint64(len(in.b)))
	w.b = append(w.b, in.b...)
}

type reader struct {
	b   []byte
	bad bool
}

func (r *reader) fail() { r.bad, r.b = true, nil }

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) uint32() uint32 {
	v := r.uint()
	if v > math.MaxUint32 {
		r.fail()
		return 0
	}
	return uint32(v)
}

func (r *reader) bytes() []byte {
	n := r.uint()
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) text() string {
	b := r.bytes()
	if len(b) > maxText {
		r.fail()
		return ""
	}
	return string(b)
}

func (r *reader) float() float64 {
	if len(r.b) < 8 {
		r.fail()
		return 0
	}
	v := math.Float64frombits(binary.BigEndian.Uint64(r.b))
	r.b = r.b[8:]
	return v
}

func (r *reader) ts() clock.Timestamp { return clock.Timestamp{Wall: r.int(), Logical: r.uint32()} }

// count reads a length of a list whose elements take at least one byte each.
func (r *reader) count() int {
	n := r.uint()
	if n > uint64(len(r.b)) {
		r.fail()
		return 0
	}
	return int(n)
}

func (r *reader) err() error {
	if r.bad {
		return ErrCorrupt
	}
	return nil
}

func (w *writer) entry(e *Entry) {
	w.sized(func(w *writer) {
		w.uint(uint64(e.Node))
		w.uint(uint64(e.Store))
		w.uint(e.Life)
		w.uint(e.Revision)
		w.text(e.Addr)
		w.text(e.SQLAddr)
		w.text(e.HTTPAddr)
		w.uint(uint64(len(e.Locality)))
		for _, t := range e.Locality {
			w.text(t.Key)
			w.text(t.Value)
		}
		w.text(e.Build)
		w.int(e.StartedAt.UnixNano())
		w.bools(e.Draining, e.Decommissioning, e.Slow, e.Full)
		w.uint(uint64(e.Capacity.Ranges))
		w.uint(uint64(e.Capacity.Leases))
		w.uint(e.Capacity.UsedBytes)
		w.uint(e.Capacity.AvailableBytes)
		w.float(e.Capacity.QueriesPerSecond)
		w.ts(e.Protected)
		w.uint(e.Start)
		w.uint(e.Token)
		w.uint(e.Position)
	})
}

func (r *reader) entry() *Entry {
	in := reader{b: r.bytes()}
	e := &Entry{}
	e.Node = kv.NodeID(in.uint32())
	e.Store = kv.StoreID(in.uint32())
	e.Life = in.uint()
	e.Revision = in.uint()
	e.Addr = in.text()
	e.SQLAddr = in.text()
	e.HTTPAddr = in.text()
	for range in.count() {
		e.Locality = append(e.Locality, Tier{in.text(), in.text()})
	}
	e.Build = in.text()
	e.StartedAt = time.Unix(0, in.int()).UTC()
	flags := in.uint()
	e.Draining, e.Decommissioning, e.Slow, e.Full = flags&1 != 0, flags&2 != 0, flags&4 != 0, flags&8 != 0
	e.Capacity.Ranges = in.uint32()
	e.Capacity.Leases = in.uint32()
	e.Capacity.UsedBytes = in.uint()
	e.Capacity.AvailableBytes = in.uint()
	e.Capacity.QueriesPerSecond = in.float()
	if len(in.b) > 0 { // older nodes do not say
		e.Protected = in.ts()
	}
	if len(in.b) > 0 {
		e.Start, e.Token, e.Position = in.uint(), in.uint(), in.uint()
	}
	if in.bad || e.Node == 0 {
		r.fail()
	}
	return e
}

// AppendEntry adds an entry's bytes, as stored under keys.NodeKey.
func AppendEntry(b []byte, e *Entry) []byte {
	w := writer{b}
	w.entry(e)
	return w.b
}

// DecodeEntry reads what AppendEntry wrote.
func DecodeEntry(b []byte) (*Entry, error) {
	r := reader{b: b}
	e := r.entry()
	if err := r.err(); err != nil {
		return nil, err
	}
	return e, nil
}
