package replica

import (
	"bytes"
	"fmt"

	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
	"meridian/wire"
)

// append adds the fields of a side, but for its key, which is that of the row.
func (s *side) append(b []byte) []byte {
	return wire.Uint(wire.Uint(core.Nested(b, 1, s.Record.Append), 3, uint64(s.by)), 5, s.generation)
}

func (s *side) read(r *wire.Reader) {
	for m := r.Open("fastpaxos.Side"); r.Next(&m); {
		switch r.Field() {
		case 1:
			core.ReadRecord(r, &s.Record)
		case 3:
			s.by = kv.RangeID(r.Uint())
		case 5:
			s.generation = r.Uint()
		default:
			r.Refuse()
		}
	}
}

// sideName is the name of the protocol key next to a row that has what is known of a record beyond its newest version.
const sideName = "fastpaxos"

func sideKey(k keys.Key) keys.Key { return keys.ProtocolKey(k, []byte(sideName)) }

// side is such a protocol key. Its record's Base has no data: that is an ordinary version of the row.
type side struct {
	key keys.Key
	core.Record
	// by and generation say whose end it was written at. A fold that is made again leaves what it has decided as it is (fastpaxos.FP10).
	by         kv.RangeID
	generation uint64
}

func decodeSide(k keys.Key, b []byte) (*side, error) {
	s, r := &side{key: k}, wire.Read(bytes.Clone(b))
	s.read(&r)
	if err := r.Err(); err != nil {
		return nil, fmt.Errorf("fastpaxos: protocol key of %s: %w", keys.Masked(k), err)
	}
	return s, nil
}

// readSide reads that of a key, nil if there is none.
func readSide(src engine.Reader, k keys.Key) (*side, error) {
	b, err := src.Get(sideKey(k))
	if err != nil || b == nil {
		return nil, err
	}
	return decodeSide(k, b)
}

// sidesOf are those of a span, in order of keys.
func sidesOf(src engine.Reader, span keys.Span) (out []side, err error) {
	local := keys.RangeLocalSpan(span.Start, span.End)
	it, err := src.NewIter(engine.IterOptions{Lower: local.Start, Upper: local.End})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		s, err := sideOf(it)
		if err != nil {
			return nil, err
		}
		if s != nil {
			out = append(out, *s)
		}
	}
	return out, it.Error()
}

// sideOf reads the protocol key at an iterator, nil if that is at something else.
func sideOf(it *engine.Iterator) (*side, error) {
	k, _ := it.Key()
	addr, name, err := keys.DecodeProtocolKey(k)
	if err != nil || string(name) != sideName {
		return nil, nil
	}
	v, err := it.Value()
	if err != nil {
		return nil, err
	}
	return decodeSide(bytes.Clone(addr), v)
}

// onBase is a record as the range's replicated data has it; s is what is next to the row, nil if there is nothing.
func onBase(src *mvcc.Reader, k keys.Key, s *side) (*core.Record, error) {
	r := &core.Record{}
	if s != nil {
		*r = s.Record
	}
	var base core.Value
	var err error
	if base.At, base.Data, err = src.Latest(k); err != nil || base.At.IsZero() {
		return r, err
	}
	if s != nil {
		r = r.Clone()
		r.Learn(&core.Record{Base: base}) // the base may have gone on (fastpaxos.FP42)
		if s.Base.At.Less(base.At) && len(s.Added)+len(s.Votes) > 0 {
			r.Lose(base.At) // states between are not known here
		}
	}
	if r.Base.At == base.At || s == nil {
		r.Base = base
	}
	return r, nil
}

// Base reads a record from the range's replicated data.
func Base(src engine.Reader, k keys.Key) (*core.Record, error) {
	s, err := readSide(src, k)
	if err != nil {
		return nil, err
	}
	r := mvcc.NewReader(src)
	defer r.Close()
	return onBase(r, k, s)
}
