package core

import (
	"bytes"
	"slices"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// Reads at a timestamp: an acceptor's part. fastpaxos.FP60 to fastpaxos.FP62 say why they are right.

// mark is what bars options of a record here.
func (a *Acceptor) mark(k keys.Key, r *Record) Mark {
	return a.marks.of(k).join(r.Mark).join(Mark{At: a.low})
}

// Chosen by us: earlier states are kept for eraTime in any case, and for as long as a transaction reads them. erasMost bounds those of a range: if there are more, they are not kept for transactions that
// take longer than eraTime.
const (
	eraTime  = Remembered
	erasMost = 1 << 18
)

// keepFrom says from when on earlier states are kept: for eraTime, and for all transactions that read.
func (a *Acceptor) keepFrom(now clock.Timestamp) {
	from := now.Add(-eraTime)
	if a.reads != nil && a.eras+a.retainedStates() <= erasMost {
		from = from.Backward(a.reads(now))
	}
	a.from = a.from.Forward(from)
	a.dropRetained()
}

// Source is what an acceptor reads the past of records from that it does not know.
type Source interface {
	// Record is a record that is not just a row; nil: it is.
	Record(k keys.Key) (*Record, error)
	// At is the newest version of a row up to a timestamp; false: that can't be told any more.
	At(k keys.Key, t clock.Timestamp) (Value, bool, error)
	// Scan has the rows of a span with values at q.At, in the order that q asks for, and what is left of the span if there are more than q wants.
	Scan(span keys.Span, q *Look) (rows []kv.KeyValue, resume *keys.Span, err error)
	// Apart are the records of a span that may differ from the rows.
	Apart(span keys.Span) (map[string]*Record, error)
	// First is the state of a record with which the generation has begun, if that is more than a row, nil otherwise.
	First(k keys.Key) (*Record, error)
	// Seen is the newest version of a row that the base has up to a timestamp. Versions between those of the base may be missing, and a deletion is as no version.
	Seen(k keys.Key, t clock.Timestamp) (Value, error)
}

// LookBack reads rows at a timestamp, and promises to accept nothing at or below it in what it has read (fastpaxos.FP60). The range has the span within.
func (a *Acceptor) LookBack(src Source, q *Look, within keys.Span) (out Looked, err error) {
	if q.At.Less(a.from) {
		// Versions between those that the base has may have been dropped.
		return Looked{Old: true, Since: a.from}, nil
	}
	out.Settled = a.isSettled(q.At)
	termed := !out.Settled && q.termed(a.term)
	if termed {
		out.Term = a.term
	}
	add := func(k keys.Key, r *Record) error {
		var p PastRow
		var newer clock.Timestamp
		if !out.Settled {
			p, newer = r.past(k, q, a.term)
		} else if p, newer, err = a.settledPast(src, k, r, q); err != nil {
			return err
		}
		out.Newer = out.Newer.Forward(newer)
		if p.Old || p.Busy || !p.Record.Base.At.IsZero() || len(p.Record.Added)+len(p.Record.Votes) > 0 {
			out.Past = append(out.Past, p)
		}
		return nil
	}
	promised := func(read keys.Span) {
		if !out.Settled {
			a.marks.Add(q, read)
		}
	}
	if q.Keys != nil {
		for _, k := range q.Keys {
			r := a.records[string(k)]
			if r == nil {
				if r, err = src.Record(k); err != nil {
					return out, err
				}
			}
			if r != nil || out.Settled {
				if err = add(k, r); err != nil {
					return out, err
				}
				continue
			}
			v, ok, err := src.At(k, q.At)
			if err != nil {
				return out, err
			}
			if !ok || !v.At.IsZero() || termed {
				out.Past = append(out.Past, PastRow{Key: k, Record: Record{Base: v}, Old: !ok, Busy: termed})
			}
		}
		promised(keys.Span{})
		return out, nil
	}
	all := q.Span
	if within.End.Less(all.End) {
		rest := keys.Span{Start: within.End, End: all.End}
		if all.End = within.End; q.Reverse {
			return out, &kv.RangeMismatchError{Span: rest}
		}
		out.Resume = &rest
	}
	known, err := src.Apart(all)
	if err != nil {
		return out, err
	}
	alone := map[string]bool{} // keys of which only an earlier generation has left something
	if out.Settled {
		a.retainedIn(all, q.At, func(k string) {
			if known[k] == nil {
				alone[k] = true
			}
		})
	}
	rows, resume, err := src.Scan(all, q)
	if err != nil {
		return out, err
	}
	part := all
	cut := func(at keys.Key) {
		rest := q.Span
		if q.Reverse {
			part.Start, rest.End = at, at
		} else {
			part.End, rest.Start = at, at
		}
		out.Resume = &rest
	}
	if resume != nil {
		if q.Reverse {
			cut(resume.End)
		} else {
			cut(resume.Start)
		}
	}
	for i := range rows {
		if v := &rows[i]; known[string(v.Key)] == nil && !alone[string(v.Key)] {
			out.Past = append(out.Past, PastRow{Key: v.Key, Record: Record{Base: Value{At: v.Timestamp, Data: v.Value}}, Busy: termed})
		}
	}
	for k, r := range known {
		if part.Contains(keys.Key(k)) {
			if err := add(keys.Key(k), r); err != nil {
				return out, err
			}
		}
	}
	for k := range alone {
		if part.Contains(keys.Key(k)) {
			if err := add(keys.Key(k), nil); err != nil {
				return out, err
			}
		}
	}
	slices.SortFunc(out.Past, func(x, y PastRow) int {
		if q.Reverse {
			x, y = y, x
		}
		return bytes.Compare(x.Key, y.Key)
	})
	if n := 2 * int(q.Max); n > 0 && len(out.Past) > n {
		// Some of them may have no value.
		if q.Reverse {
			cut(out.Past[n-1].Key)
		} else {
			cut(out.Past[n-1].Key.Next())
		}
		out.Past = out.Past[:n]
	}
	promised(part)
	return out, nil
}
