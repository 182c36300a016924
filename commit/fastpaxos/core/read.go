package core

import (
	"time"

	"meridian/clock"
	"meridian/commit/protocol"
	"meridian/keys"
	"meridian/kv"
	"meridian/wire"
)

// Row is a row as one replica has it, with the name of the state that it is in. A key that was never written has neither.
type Row struct {
	Key   keys.Key
	Value []byte // nil: there is none
	Seen  Seen
	// Last is the latest timestamp in the state.
	Last clock.Timestamp
}

// Look asks one replica for rows that are committed, as far as it knows (§4.1): some keys, or those of a span that have values, at most Max of
// them, or as many as have about Bytes.
type Look struct {
	Keys       []keys.Key
	Span       keys.Span
	Reverse    bool
	Max, Bytes int64
	// Open asks for options that have not ended as well, and of records that differ from the base also for those without a row (fastpaxos.FP82).
	Open bool
	// At, if not zero, asks for the rows at a timestamp, with a promise to the transaction By that they do not change up to it (Acceptor.lookBack). Limit ends the interval after it of which versions are
	// reported (Looked.Newer).
	At, Limit clock.Timestamp
	By        kv.TxnID
	// Base asks for the newest versions of keys that the replica's base has, whatever its acceptor knows besides (fastpaxos.FP92).
	Base bool
	// Term is a ballot whose master has made the promise for the span, for all records that it decides about in it (fastpaxos.FP94).
	Term Ballot
}

// Looked answers it. Resume is what is left of the span.
type Looked struct {
	Rows   []Row
	Resume *keys.Span
	// Behind are keys whose row this replica lacks a version of (Record.Behind): they are not in Rows, and another replica is to be asked.
	Behind []keys.Key
	// Open are options that have been accepted here, and whose transactions have not ended here.
	Open []Outstanding
	// Past are the rows of a read at a timestamp, with those that have no value; Newer is the latest version in the interval that Look.Limit ends. Old says that the replica can't read what was before Since, and
	// promises nothing.
	Past         []PastRow
	Newer, Since clock.Timestamp
	Old          bool
	// Applied is up to which index the range's log is in the base that was read, if that was asked for.
	Applied uint64
	// Term is what the acceptor has promised for all records, if Look.Term is not that: the promise of this answer does not bind its master.
	Term Ballot
	// Age is how old the answer may be, and Stale are rows that may be older (fastpaxos.FP85). A read of the present that asks for no options gets them.
	Age   time.Duration
	Stale []StaleRow
	// Heard is the latest timestamp of an option that the replica's store has heard of, in any range, of an answer about rows at a timestamp (fastpaxos.FP87).
	Heard clock.Timestamp
	// Settled says of a read at a timestamp that no replica of the generation accepts anything at or below that any more: a classic quorum of answers is enough (fastpaxos.FP96).
	Settled bool
}

// Chosen by us.
const (
	// StalenessMost is how old rows may be that the default level reads, unless a session wants less: the time since their client had its answer, without the way of the read.
	StalenessMost = protocol.NearestAge
	// VoteOld is how old a vote is when its row counts as one that may lack something. Ends of living gateways come a round trip after the option.
	VoteOld = 700 * time.Millisecond
	// LackOld is how long a store has known that a row lacks something before it counts: what it lacks may be on its way. If that is older than VoteOld, it counts at once.
	LackOld = 250 * time.Millisecond
)

// StaleRow is a row that may be older than the other ones of an answer.
type StaleRow struct {
	Key keys.Key
	// For is how long the replica has known that something is missing, or more if that is old; or, with Vote, how old an option is whose outcome it has not heard.
	For  time.Duration
	Vote bool
}

// Outstanding is an option of a record, with what is needed to have its transaction ended: its name, keys and anchor.
type Outstanding struct {
	Key    keys.Key
	Option Option
}

// Row is a record as a reader sees it.
func (r *Record) Row(k keys.Key, cols Columns) (Row, error) {
	out := Row{Key: k, Value: r.Base.Data, Seen: r.Seen(), Last: r.Base.At}
	if len(r.Added) == 0 {
		return out, nil
	}
	out.Last = out.Last.Forward(r.Added[len(r.Added)-1].At)
	t := r.totals()
	if len(t.pending) > 0 {
		v, err := cols.Add(t.row, t.pending)
		if err != nil {
			return out, err
		}
		t.row, t.pending = v, nil
	}
	out.Value = t.row
	return out, nil
}

// Append adds the bytes of a Look.
func (q *Look) Append(b []byte) []byte {
	for _, k := range q.Keys {
		b = wire.Element(b, 1, k)
	}
	b = wire.Bytes(wire.Bytes(b, 2, q.Span.Start), 3, q.Span.End)
	b = wire.Bool(wire.Int(wire.Int(wire.Bool(b, 4, q.Reverse), 5, q.Max), 6, q.Bytes), 7, q.Open)
	b = wire.ID(wire.Timestamp(wire.Timestamp(b, 8, q.At), 9, q.Limit), 10, q.By)
	return Nested(wire.Bool(b, 11, q.Base), 13, q.Term.Append)
}

func readLook(r *wire.Reader, q *Look) {
	for m := r.Open("fastpaxos.Look"); r.Next(&m); {
		switch r.Field() {
		case 1:
			*wire.Grow(r, &q.Keys) = keys.Key(r.Bytes())
		case 2:
			q.Span.Start = keys.Key(r.Bytes())
		case 3:
			q.Span.End = keys.Key(r.Bytes())
		case 4:
			q.Reverse = r.Bool()
		case 5:
			q.Max = r.Int()
		case 6:
			q.Bytes = r.Int()
		case 7:
			q.Open = r.Bool()
		case 8:
			q.At = r.Timestamp()
		case 9:
			q.Limit = r.Timestamp()
		case 10:
			q.By = r.ID()
		case 11:
			q.Base = r.Bool()
		case 13:
			ReadBallot(r, &q.Term)
		default:
			r.Refuse()
		}
	}
}

// Append adds the bytes of an answer.
func (l *Looked) Append(b []byte) []byte {
	for i := range l.Rows {
		var at int
		b, at = wire.Begin(b, 1)
		b = wire.End(l.Rows[i].append(b), at)
	}
	if l.Resume != nil {
		var at int
		b, at = wire.Begin(b, 2)
		b = wire.End(wire.Append(b, l.Resume, kv.SpanFields), at)
	}
	for _, k := range l.Behind {
		b = wire.Element(b, 3, k)
	}
	for i := range l.Open {
		var at int
		b, at = wire.Begin(b, 4)
		b = wire.End(l.Open[i].append(b), at)
	}
	for i := range l.Past {
		var at int
		b, at = wire.Begin(b, 5)
		b = wire.End(l.Past[i].append(b), at)
	}
	b = wire.Bool(wire.Timestamp(wire.Timestamp(b, 6, l.Newer), 7, l.Since), 8, l.Old)
	b = wire.Int(Nested(wire.Uint(b, 10, l.Applied), 11, l.Term.Append), 12, int64(l.Age))
	for i := range l.Stale {
		var at int
		b, at = wire.Begin(b, 14)
		b = wire.End(l.Stale[i].append(b), at)
	}
	return wire.Bool(wire.Timestamp(b, 16, l.Heard), 18, l.Settled)
}

func (o *Outstanding) append(b []byte) []byte {
	return Nested(wire.Bytes(b, 1, o.Key), 2, o.Option.Append)
}

func readOutstanding(r *wire.Reader, o *Outstanding) {
	for m := r.Open("fastpaxos.Outstanding"); r.Next(&m); {
		switch r.Field() {
		case 1:
			o.Key = keys.Key(r.Bytes())
		case 2:
			ReadOption(r, &o.Option)
		default:
			r.Refuse()
		}
	}
}

func readLooked(r *wire.Reader, l *Looked) {
	for m := r.Open("fastpaxos.Looked"); r.Next(&m); {
		switch r.Field() {
		case 1:
			readRow(r, wire.Grow(r, &l.Rows))
		case 2:
			l.Resume = &keys.Span{}
			wire.In(r, l.Resume, kv.SpanFields)
		case 3:
			*wire.Grow(r, &l.Behind) = keys.Key(r.Bytes())
		case 4:
			readOutstanding(r, wire.Grow(r, &l.Open))
		case 5:
			readPastRow(r, wire.Grow(r, &l.Past))
		case 6:
			l.Newer = r.Timestamp()
		case 7:
			l.Since = r.Timestamp()
		case 8:
			l.Old = r.Bool()
		case 10:
			l.Applied = r.Uint()
		case 11:
			ReadBallot(r, &l.Term)
		case 12:
			l.Age = time.Duration(r.Int())
		case 14:
			readStaleRow(r, wire.Grow(r, &l.Stale))
		case 16:
			l.Heard = r.Timestamp()
		case 18:
			l.Settled = r.Bool()
		default:
			r.Skip()
		}
	}
}

func (w *StaleRow) append(b []byte) []byte {
	return wire.Bool(wire.Int(wire.Bytes(b, 1, w.Key), 3, int64(w.For)), 5, w.Vote)
}

func readStaleRow(r *wire.Reader, w *StaleRow) {
	for m := r.Open("fastpaxos.StaleRow"); r.Next(&m); {
		switch r.Field() {
		case 1:
			w.Key = keys.Key(r.Bytes())
		case 3:
			w.For = time.Duration(r.Int())
		case 5:
			w.Vote = r.Bool()
		default:
			r.Skip()
		}
	}
}

func (w *Row) append(b []byte) []byte {
	b = wire.Bytes(wire.Bytes(b, 1, w.Key), 2, w.Value)
	b = wire.Fixed64(wire.Timestamp(b, 3, w.Seen.Base), 4, w.Seen.Sum)
	return wire.Timestamp(b, 5, w.Last)
}

func readRow(r *wire.Reader, w *Row) {
	for m := r.Open("fastpaxos.Row"); r.Next(&m); {
		switch r.Field() {
		case 1:
			w.Key = keys.Key(r.Bytes())
		case 2:
			w.Value = r.Bytes()
		case 3:
			w.Seen.Base = r.Timestamp()
		case 4:
			w.Seen.Sum = r.Fixed64()
		case 5:
			w.Last = r.Timestamp()
		default:
			r.Skip()
		}
	}
}

// tooOld reports whether a row may be older than within allows.
func (w *StaleRow) tooOld(within time.Duration) bool {
	switch {
	case w.Vote:
		return w.For > min(within, VoteOld)
	case within < StalenessMost:
		return true
	}
	return w.For > LackOld
}

// TooOld reports whether an answer about one row may be older than within allows.
func (l *Looked) TooOld(within time.Duration) bool {
	return l.Age > within || len(l.StaleRows(within)) > 0
}

// StaleRows are the keys of an answer's rows that may be older than within allows.
func (l *Looked) StaleRows(within time.Duration) (out []keys.Key) {
	for i := range l.Stale {
		if l.Stale[i].tooOld(within) {
			out = append(out, l.Stale[i].Key)
		}
	}
	return out
}

// Before reports whether a row is in an earlier state than another one of the same key.
func (w *Row) Before(o *Row) bool {
	return w.Seen.Base.Less(o.Seen.Base) || w.Seen.Base == o.Seen.Base && w.Seen != o.Seen && w.Last.Less(o.Last)
}

// Start is the key by which the range is found.
func (q *Look) Start() keys.Key {
	if q.Keys != nil {
		return q.Keys[0]
	}
	return q.Span.Start
}
