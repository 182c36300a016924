package fastpaxos

import (
	"bytes"
	"slices"
	"sync"

	"meridian/clock"
	"meridian/commit/leader/tscache"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
	"meridian/wire"
)

// Reads at a timestamp: an acceptor's part. fastpaxos.FP60 to fastpaxos.FP62 say why they are right.

// Mark is what was promised to readers at a timestamp: that no option at or below it is accepted any more, but for those at it of the reader's own transaction.
type Mark struct {
	At clock.Timestamp
	By kv.TxnID // zero: several
}

// bars reports whether an option comes too late.
func (m Mark) bars(o *Option) bool {
	c := o.At.Compare(m.At)
	return c < 0 || c == 0 && !m.At.IsZero() && o.Txn != m.By
}

// join is what keeps both promises.
func (m Mark) join(o Mark) Mark {
	switch c := m.At.Compare(o.At); {
	case c < 0:
		return o
	case c == 0 && m.By != o.By:
		m.By = kv.TxnID{}
	}
	return m
}

// name names the promise among what a master is asked for. No option has the name.
func (m Mark) name() Name {
	n := Name{Txn: m.By, At: m.At}
	n.Txn[0] ^= 0xff
	return n
}

func markOf(n Name) Mark {
	n.Txn[0] ^= 0xff
	return Mark{At: n.At, By: n.Txn}
}

// Marks are the promises of all replicas of a node. Those of an earlier process of the node were below its clock, and so below StartedAt of this one (Acceptor.low).
type Marks struct {
	once  sync.Once
	cache *tscache.Cache // nil before the first promise; once sets it
	mu    sync.Mutex     // guards the use of cache; nothing is taken after it
}

func (m *Marks) add(q *Look, read keys.Span) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.once.Do(func() { m.cache = tscache.New(tscache.Options{MaxPoints: 16 << 10}, clock.Timestamp{}) })
	for _, k := range q.Keys {
		m.cache.Add(k, q.At, q.By)
	}
	if q.Keys == nil && read.Start.Less(read.End) {
		m.cache.AddSpan(read, q.At, q.By)
	}
}

// latest is at or above all of them.
func (m *Marks) latest() clock.Timestamp {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cache == nil {
		return clock.Timestamp{}
	}
	return m.cache.Latest()
}

func (m *Marks) of(k keys.Key) (out Mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cache != nil {
		out.At, out.By = m.cache.Max(k)
	}
	return out
}

// mark is what bars options of a record here.
func (a *Acceptor) mark(k keys.Key, r *Record) Mark {
	return a.marks.of(k).join(r.Mark).join(Mark{At: a.low})
}

// era is an earlier state of a record: a version, and what was added to it, until the next version.
type era struct {
	base  Value
	added []Addition
	until clock.Timestamp
}

// eraMost bounds the earlier states that are kept of a record. Chosen by us.
const eraMost = 1 << 13

// keepEra remembers the state that a later version takes the place of, in memory: after a restart readers of the past ask other replicas. complete says that
// no option that was accepted here is missing in it.
func (r *Record) keepEra(until clock.Timestamp, complete bool) {
	by := r.kept
	switch {
	case by == nil:
		return
	case !complete:
		by.loseEras(len(by.eras))
		by.lost = by.lost.Forward(until)
		return
	}
	by.eras = append(by.eras, era{r.Base, slices.Clone(r.Added), until})
	if by.total != nil {
		*by.total++
	}
	if len(by.eras) > eraMost {
		by.loseEras(eraMost / 2)
	}
}

// loseEras forgets the first of the states.
func (by *kept) loseEras(n int) {
	if n == 0 {
		return
	}
	by.lost = by.lost.Forward(by.eras[n-1].until)
	if by.total != nil {
		*by.total -= int64(n)
	}
	by.eras = slices.Delete(by.eras, 0, n)
}

// dropEras forgets states that ended up to a timestamp.
func (r *Record) dropEras(upTo clock.Timestamp) {
	n := 0
	for n < len(r.kept.eras) && r.kept.eras[n].until.LessEq(upTo) {
		n++
	}
	r.kept.loseEras(n)
}

// Chosen by us: earlier states are kept for eraTime in any case, and for as long as a transaction reads them. erasMost bounds those of a range: if there are more, they are not kept for transactions that
// take longer than eraTime.
const (
	eraTime  = remembered
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

// PastRow is what a replica knows of a row at a timestamp.
type PastRow struct {
	Key keys.Key
	// Record has the version and the updates up to the timestamp, and as Votes the accepted options up to it whose transactions have not ended here.
	Record Record
	// Old says that the version of that time is not known here any more.
	Old bool
	// Busy says that a master has the record: the promise does not bind it.
	Busy bool
}

// busy reports whether a master has the record that does not know of a promise to a reader. term is what the acceptor has promised for all records.
func (r *Record) busy(q *Look, term Ballot) bool {
	promised := r.Promised
	if q.termed(term) {
		promised = promised.later(term)
	}
	return promised != r.Accepted || !r.Accepted.Open() && r.Accepted != q.Term
}

// termed reports whether an acceptor has promised a term whose master has not made the reader's promise (fastpaxos.FP94).
func (q *Look) termed(term Ballot) bool { return q.Term.Less(term) }

// look is what a replica is asked in a generation. A term of another one is none.
func (q *Request) look(generation uint64) *Look {
	if q.Look.Term.Default() || q.Generation == generation {
		return q.Look
	}
	l := *q.Look
	l.Term = Ballot{}
	return &l
}

// past is the record at a timestamp. newer is the latest that was written, or may have been, in (at, limit].
func (r *Record) past(k keys.Key, q *Look, term Ballot) (out PastRow, newer clock.Timestamp) {
	out = PastRow{Key: k, Busy: r.busy(q, term)}
	note := func(t clock.Timestamp) bool {
		if q.At.Less(t) && t.LessEq(q.Limit) {
			newer = newer.Forward(t)
		}
		return t.LessEq(q.At)
	}
	base, added := r.Base, r.Added
	if !note(r.Base.At) {
		out.Old = true
		if r.kept != nil {
			for _, e := range slices.Backward(r.kept.eras) {
				if note(e.base.At) && q.At.Less(e.until) {
					base, added, out.Old = e.base, e.added, false
					break
				}
			}
		}
	}
	if !out.Old {
		out.Record.Base = base
	}
	for i := range added {
		if note(added[i].At) {
			out.Record.Added = append(out.Record.Added, added[i])
		}
	}
	for i := range r.Votes {
		if v := &r.Votes[i]; v.Verdict == Accepted && v.Txn != q.By && note(v.At) {
			out.Record.Votes = append(out.Record.Votes, *v)
		}
	}
	return out, newer
}

// source is what an acceptor reads the past of records from that it does not know.
type source interface {
	// record is a record that is not just a row; nil: it is.
	record(k keys.Key) (*Record, error)
	// at is the newest version of a row up to a timestamp; false: that can't be told any more.
	at(k keys.Key, t clock.Timestamp) (Value, bool, error)
	// scan has the rows of a span with values at q.At, in the order that q asks for, and what is left of the span if there are more than q wants.
	scan(span keys.Span, q *Look) (rows []kv.KeyValue, resume *keys.Span, err error)
	// apart are the records of a span that may differ from the rows.
	apart(span keys.Span) (map[string]*Record, error)
	// first is the state of a record with which the generation has begun, if that is more than a row, nil otherwise.
	first(k keys.Key) (*Record, error)
	// seen is the newest version of a row that the base has up to a timestamp. Versions between those of the base may be missing, and a deletion is as no version.
	seen(k keys.Key, t clock.Timestamp) (Value, error)
}

// lookBack reads rows at a timestamp, and promises to accept nothing at or below it in what it has read (fastpaxos.FP60). The range has the span within.
func (a *Acceptor) lookBack(src source, q *Look, within keys.Span) (out Looked, err error) {
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
			a.marks.add(q, read)
		}
	}
	if q.Keys != nil {
		for _, k := range q.Keys {
			r := a.records[string(k)]
			if r == nil {
				if r, err = src.record(k); err != nil {
					return out, err
				}
			}
			if r != nil || out.Settled {
				if err = add(k, r); err != nil {
					return out, err
				}
				continue
			}
			v, ok, err := src.at(k, q.At)
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
	known, err := src.apart(all)
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
	rows, resume, err := src.scan(all, q)
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

// replicated is the source of a replica.
type replicated struct {
	a   *Acceptor
	src engine.Reader
	r   *mvcc.Reader
}

func (s *replicated) record(k keys.Key) (*Record, error) {
	var beside *side
	if s.a.maybeSide(k) {
		var err error
		if beside, err = readSide(s.src, k); err != nil {
			return nil, err
		}
	}
	if beside == nil && s.a.stored[string(k)] == nil {
		return nil, nil
	}
	base, err := onBase(s.r, k, beside)
	if err != nil {
		return nil, err
	}
	r, _ := s.a.onBase(k, base)
	return r, nil
}

func (s *replicated) at(k keys.Key, t clock.Timestamp) (v Value, ok bool, err error) {
	n, _, err := s.r.Newest(k)
	if err != nil || n == nil {
		return v, err == nil, err
	}
	if n.Timestamp.LessEq(t) {
		return Value{At: n.Timestamp, Data: n.Value}, true, nil
	}
	rows, _, err := s.scan(keys.Span{Start: k, End: k.Next()}, &Look{At: t})
	if err != nil || len(rows) == 0 {
		return v, false, err // it was deleted by then, or not there yet
	}
	return Value{At: rows[0].Timestamp, Data: rows[0].Value}, true, nil
}

func (s *replicated) scan(span keys.Span, q *Look) ([]kv.KeyValue, *keys.Span, error) {
	res, err := s.r.Scan(span.Start, span.End, &mvcc.ScanOptions{Reverse: q.Reverse, MaxKeys: q.Max, TargetBytes: q.Bytes,
		ReadOptions: mvcc.ReadOptions{Timestamp: q.At, NoLocks: true}})
	return res.Rows, res.Resume, err
}

func (s *replicated) first(k keys.Key) (*Record, error) {
	if !s.a.maybeSide(k) {
		return nil, nil
	}
	beside, err := readSide(s.src, k)
	if err != nil || beside == nil {
		return nil, err
	}
	if !beside.Base.At.IsZero() {
		v, err := s.seen(k, beside.Base.At)
		if err != nil {
			return nil, err
		}
		if v.At == beside.Base.At {
			beside.Base = v
		}
	}
	return &beside.Record, nil
}

func (s *replicated) seen(k keys.Key, t clock.Timestamp) (v Value, err error) {
	rows, _, err := s.scan(keys.Span{Start: k, End: k.Next()}, &Look{At: t})
	if err != nil || len(rows) == 0 {
		return v, err
	}
	return Value{At: rows[0].Timestamp, Data: rows[0].Value}, nil
}

func (s *replicated) apart(span keys.Span) (map[string]*Record, error) {
	return s.a.apart(s.src, s.r, span)
}

// Append adds the bytes of a row.
func (p *PastRow) append(b []byte) []byte {
	b = message(wire.Bytes(b, 1, p.Key), 2, p.Record.Append)
	return wire.Bool(wire.Bool(b, 3, p.Old), 4, p.Busy)
}

func readPastRow(r *wire.Reader, p *PastRow) {
	for m := r.Open("fastpaxos.PastRow"); r.Next(&m); {
		switch r.Field() {
		case 1:
			p.Key = keys.Key(r.Bytes())
		case 2:
			readRecord(r, &p.Record)
		case 3:
			p.Old = r.Bool()
		case 4:
			p.Busy = r.Bool()
		default:
			r.Refuse()
		}
	}
}

func (m *Mark) append(b []byte) []byte {
	b = wire.Timestamp(b, 1, m.At)
	if m.By != (kv.TxnID{}) {
		b = wire.ID(b, 3, m.By)
	}
	return b
}

func readMark(r *wire.Reader, m *Mark) {
	for o := r.Open("fastpaxos.Mark"); r.Next(&o); {
		switch r.Field() {
		case 1:
			m.At = r.Timestamp()
		case 3:
			m.By = r.ID()
		default:
			r.Refuse()
		}
	}
}
