package replica

import (
	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// replicated is the source of a replica.
type replicated struct {
	a   *Voter
	src engine.Reader
	r   *mvcc.Reader
}

// Record implements Source.
func (s *replicated) Record(k keys.Key) (*core.Record, error) {
	var beside *side
	if s.a.maybeSide(k) {
		var err error
		if beside, err = readSide(s.src, k); err != nil {
			return nil, err
		}
	}
	if beside == nil && !s.a.Stores(k) {
		return nil, nil
	}
	base, err := onBase(s.r, k, beside)
	if err != nil {
		return nil, err
	}
	return s.a.Over(k, base), nil
}

// At implements Source.
func (s *replicated) At(k keys.Key, t clock.Timestamp) (v core.Value, ok bool, err error) {
	n, _, err := s.r.Newest(k)
	if err != nil || n == nil {
		return v, err == nil, err
	}
	if n.Timestamp.LessEq(t) {
		return core.Value{At: n.Timestamp, Data: n.Value}, true, nil
	}
	rows, _, err := s.Scan(keys.Span{Start: k, End: k.Next()}, &core.Look{At: t})
	if err != nil || len(rows) == 0 {
		return v, false, err // it was deleted by then, or not there yet
	}
	return core.Value{At: rows[0].Timestamp, Data: rows[0].Value}, true, nil
}

// Scan implements Source.
func (s *replicated) Scan(span keys.Span, q *core.Look) ([]kv.KeyValue, *keys.Span, error) {
	res, err := s.r.Scan(span.Start, span.End, &mvcc.ScanOptions{Reverse: q.Reverse, MaxKeys: q.Max, TargetBytes: q.Bytes,
		ReadOptions: mvcc.ReadOptions{Timestamp: q.At, NoLocks: true}})
	return res.Rows, res.Resume, err
}

// First implements Source.
func (s *replicated) First(k keys.Key) (*core.Record, error) {
	if !s.a.maybeSide(k) {
		return nil, nil
	}
	beside, err := readSide(s.src, k)
	if err != nil || beside == nil {
		return nil, err
	}
	if !beside.Base.At.IsZero() {
		v, err := s.Seen(k, beside.Base.At)
		if err != nil {
			return nil, err
		}
		if v.At == beside.Base.At {
			beside.Base = v
		}
	}
	return &beside.Record, nil
}

// Seen implements Source.
func (s *replicated) Seen(k keys.Key, t clock.Timestamp) (v core.Value, err error) {
	rows, _, err := s.Scan(keys.Span{Start: k, End: k.Next()}, &core.Look{At: t})
	if err != nil || len(rows) == 0 {
		return v, err
	}
	return core.Value{At: rows[0].Timestamp, Data: rows[0].Value}, nil
}

// Apart implements Source.
func (s *replicated) Apart(span keys.Span) (map[string]*core.Record, error) {
	return s.a.apart(s.src, s.r, span)
}
