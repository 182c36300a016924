package fakekv

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"meridian/clock"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
)

// KV is all ranges of a cluster in one place: it evaluates one batch at a time, by the rules of CRDB'20 §3 but
// by brute force. Its ranges only matter for what may commit in one phase and what stays unresolved.
type KV struct {
	h      *host.Host
	clock  *clock.Clock
	splits []string // range boundaries
	// Latency is how long each batch takes, in nanoseconds; zero takes no time at all.
	Latency atomic.Int64
	// Slow is up to how much longer a batch takes, in nanoseconds, at random: batches overtake each other.
	Slow atomic.Int64
	// ClosedLag is how far behind the present negotiations find the past closed, in nanoseconds; New sets it to 3 s.
	ClosedLag atomic.Int64

	mu       sync.Mutex
	versions map[string][]fakeVersion // oldest first
	intents  map[string]*fakeIntent
	locks    map[string][]fakeLock
	// last is when a transaction was heard of, by the host's clock.
	last    map[kv.TxnID]time.Duration
	reads   []fakeRead
	records map[kv.TxnID]*fakeRecord
	seen    map[string]int // requests by kind
	turns   map[string]uint64
	before  func(*kv.Batch) error
	after   func(*kv.Batch) error
}

type fakeVersion struct {
	at    clock.Timestamp
	value []byte
}

type fakeIntent struct {
	txn  kv.TxnMeta
	hist []fakeWrite
}

type fakeWrite struct {
	seq   kv.Seq
	value []byte
}

type fakeRead struct {
	span keys.Span
	at   clock.Timestamp
	by   kv.TxnID
}

type fakeRecord struct {
	status  kv.Status
	at      clock.Timestamp
	beats   int
	attempt uint32
	ignored []kv.SeqRange
	// inFlight are the writes that a STAGING record asks for: they may come after it.
	inFlight []kv.InFlightWrite
}

// New makes an empty store.
func New(h *host.Host, c *clock.Clock, splits ...string) *KV {
	f := &KV{
		h: h, clock: c, splits: splits,
		versions: map[string][]fakeVersion{}, intents: map[string]*fakeIntent{}, locks: map[string][]fakeLock{}, last: map[kv.TxnID]time.Duration{},
		records: map[kv.TxnID]*fakeRecord{}, seen: map[string]int{},
	}
	f.ClosedLag.Store(int64(3 * time.Second))
	return f
}

func (f *KV) rangeOf(k keys.Key) int {
	return sort.Search(len(f.splits), func(i int) bool { return f.splits[i] > string(k) })
}

// OneRange implements txn.Ranges.
func (f *KV) OneRange(first, last keys.Key) bool { return f.rangeOf(first) == f.rangeOf(last) }

// waitError asks to wait for a transaction.
type waitError struct {
	holder  kv.TxnMeta
	patient bool // as long as the transaction lives
}

func (e *waitError) Error() string { return "wait" }

// Seen counts the requests of a kind that came: "PutRequest".
func (f *KV) Seen(kind string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[kind]
}

// Intercept has batches fail: before is asked before one is evaluated, each time that it is tried, and after gives an
// error that comes instead of the answer. Either may be nil. They are called under the mutex of the store, one at a time.
func (f *KV) Intercept(before, after func(*kv.Batch) error) {
	f.mu.Lock()
	f.before, f.after = before, after
	f.mu.Unlock()
}

// Left counts what transactions have not cleaned up yet.
func (f *KV) Left() (intents, locks, records int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.intents), len(f.locks), len(f.records)
}

// Record counts the heartbeats that a transaction's record has got; ok is false if there is none.
func (f *KV) Record(id kv.TxnID) (beats int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rec := f.records[id]
	if rec == nil {
		return 0, false
	}
	return rec.beats, true
}

// Abort ends a transaction that has a record, as somebody else would.
func (f *KV) Abort(id kv.TxnID) {
	f.mu.Lock()
	f.records[id].status = kv.Aborted
	f.mu.Unlock()
}

// Recovered is called from a hook of Intercept: somebody takes the gateway of a transaction for dead, and finds that it has committed as it is staged.
func (f *KV) Recovered(id kv.TxnID) { f.records[id].status = kv.Committed }

// Send implements txn.Sender.
func (f *KV) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	f.mu.Lock()
	for _, r := range b.Requests {
		f.seen[fmt.Sprintf("%T", r)[4:]]++
	}
	if b.Txn != nil {
		f.last[b.Txn.ID] = f.h.Clock.Monotonic()
	}
	f.mu.Unlock()
	d := f.Latency.Load()
	if slow := f.Slow.Load(); slow > 0 {
		d += f.h.Dice.Int64N(slow)
	}
	if d > 0 {
		if err := f.h.Clock.Sleep(ctx, time.Duration(d)); err != nil {
			return nil, err
		}
	}
	for polls := 0; ; polls++ {
		f.mu.Lock()
		if f.before != nil {
			if err := f.before(b); err != nil {
				f.mu.Unlock()
				return nil, err
			}
		}
		r, err := f.eval(b)
		w, wait := err.(*waitError)
		if !wait {
			if f.after != nil {
				if lost := f.after(b); lost != nil {
					r, err = nil, lost
				}
			}
			f.mu.Unlock()
			return r, err
		}
		if polls > 40 && !(w.patient && f.h.Clock.Monotonic()-f.last[w.holder.ID] < expiry) {
			// Somebody has to give way: the one waited for.
			rec := f.records[w.holder.ID]
			if rec == nil {
				rec = &fakeRecord{}
				f.records[w.holder.ID] = rec
			}
			switch rec.status {
			case kv.Pending:
				rec.status = kv.Aborted
			case kv.Staging:
				if rec.status = kv.Aborted; f.there(w.holder.ID, rec) {
					rec.status = kv.Committed
				}
			}
		}
		f.mu.Unlock()
		if b.WaitPolicy == kv.NoWait {
			return nil, &kv.LockNotAvailableError{Holder: w.holder.ID}
		}
		if err := f.h.Clock.Sleep(ctx, time.Millisecond); err != nil {
			return nil, err
		}
		if limit := b.LockTimeout; limit > 0 && time.Duration(polls)*time.Millisecond >= limit {
			return nil, &kv.LockNotAvailableError{Holder: w.holder.ID, Timeout: true}
		}
	}
}

// expiry is after how long a transaction that holds the lock of a table, and is not heard of, counts as dead.
const expiry = 3 * time.Second

// fakeLock is one transaction's lock of a key.
type fakeLock struct {
	id       kv.TxnID
	strength kv.LockStrength
}

// patient reports whether a key stands for a whole table: transactions hold its lock for long.
func patient(k string) bool {
	_, index, _, err := keys.DecodeIndexKey(keys.Key(k))
	return err == nil && index == 0
}

// there reports whether all writes of a STAGING record were made in time.
func (f *KV) there(id kv.TxnID, rec *fakeRecord) bool {
	for _, w := range rec.inFlight {
		i := f.intents[string(w.Key)]
		if i == nil || i.txn.ID != id || i.txn.Attempt != rec.attempt || rec.at.Less(i.txn.WriteTimestamp) ||
			!slices.ContainsFunc(i.hist, func(h fakeWrite) bool { return h.seq == w.Seq }) {
			return false
		}
	}
	return true
}

type fakeEval struct {
	f       *KV
	b       *kv.Batch
	txn     kv.Txn
	readAt  clock.Timestamp
	readSeq kv.Seq
	undo    []func()
	seen    clock.Timestamp // of the write being evaluated
	late    bool            // beyond its deadline
}

func (f *KV) eval(b *kv.Batch) (*kv.BatchResponse, error) {
	e := &fakeEval{f: f, b: b}
	for try := 0; ; try++ {
		e.undo = nil
		if b.Txn != nil {
			if try == 0 {
				e.txn = *b.Txn
			}
			e.readAt, e.readSeq = e.txn.ReadTimestamp, b.ReadSeq
			if e.readSeq == 0 {
				e.readSeq = e.txn.Seq
			}
			if rec := f.records[b.Txn.ID]; rec != nil && rec.status == kv.Aborted && !ending(b) {
				return nil, &kv.TxnAbortedError{ID: b.Txn.ID}
			}
		} else {
			e.txn = kv.Txn{}
			if e.readAt = b.Timestamp; e.readAt.IsZero() {
				e.readAt = f.clock.Now()
			}
			e.txn.WriteTimestamp, e.txn.ReadTimestamp = e.readAt, e.readAt
		}
		out := &kv.BatchResponse{Now: f.clock.Now()}
		var err error
		for _, r := range b.Requests {
			var x kv.Response
			if x, err = e.request(r); err != nil {
				break
			}
			out.Responses = append(out.Responses, x)
		}
		if err == nil && b.Txn == nil {
			for k, i := range f.intents {
				if i.txn.ID.IsZero() {
					f.resolve(k, kv.TxnMeta{}, kv.Committed, e.txn.WriteTimestamp, nil)
				}
			}
		}
		if b.Txn != nil {
			t := e.txn
			out.Txn = &t
		}
		if err != nil {
			for i := len(e.undo) - 1; i >= 0; i-- {
				e.undo[i]()
			}
			to := clock.Timestamp{}
			switch x := err.(type) {
			case *kv.WriteTooOldError:
				if e.txn.ReadTimestamp.LessEq(x.Actual) {
					to = x.Actual.Next()
				}
			case *kv.TxnRetryError:
				to = x.WriteTimestamp
			}
			if !to.IsZero() && !e.late && (b.CanForwardRead || b.Txn == nil && b.Timestamp.IsZero()) {
				e.txn.ReadTimestamp = to
				e.txn.WriteTimestamp = e.txn.WriteTimestamp.Forward(to)
				continue
			}
			out.Responses = nil
			return out, err
		}
		return out, nil
	}
}

func ending(b *kv.Batch) bool {
	r, ok := b.Requests[len(b.Requests)-1].(*kv.EndTxnRequest)
	return ok && !r.Commit
}

// conflict is the error of meeting somebody's lock or intent that is in the way at a timestamp.
func (e *fakeEval) conflict(k string, lock kv.LockStrength, at clock.Timestamp) error {
	if i := e.f.intents[k]; i != nil && i.txn.ID != e.txn.ID && i.txn.WriteTimestamp.LessEq(at) {
		if e.f.ended(k, i.txn) {
			return e.conflict(k, lock, at)
		}
		return &waitError{holder: i.txn}
	}
	if lock == kv.NoLock {
		return nil
	}
	for _, l := range slices.Clone(e.f.locks[k]) {
		if l.id == e.txn.ID || l.strength.Compatible(lock) && patient(k) {
			continue
		}
		if rec := e.f.records[l.id]; rec != nil && (rec.status == kv.Aborted || rec.status == kv.Committed) {
			e.f.unlock(k, l.id)
			continue
		}
		return &waitError{holder: kv.TxnMeta{ID: l.id}, patient: patient(k)}
	}
	return nil
}

func (f *KV) unlock(k string, id kv.TxnID) {
	f.locks[k] = slices.DeleteFunc(f.locks[k], func(l fakeLock) bool { return l.id == id })
	if len(f.locks[k]) == 0 {
		delete(f.locks, k)
	}
}

// ended resolves an intent whose transaction has ended.
func (f *KV) ended(k string, txn kv.TxnMeta) bool {
	rec := f.records[txn.ID]
	if rec == nil || rec.status != kv.Committed && rec.status != kv.Aborted {
		return false
	}
	txn.Attempt = rec.attempt
	f.resolve(k, txn, rec.status, rec.at, rec.ignored)
	return true
}

func (f *KV) resolve(k string, txn kv.TxnMeta, s kv.Status, at clock.Timestamp, ignored []kv.SeqRange) {
	f.unlock(k, txn.ID)
	i := f.intents[k]
	if i == nil || i.txn.ID != txn.ID {
		return
	}
	delete(f.intents, k)
	if s != kv.Committed || i.txn.Attempt != txn.Attempt {
		return
	}
	if v, ok := i.at(^kv.Seq(0), ignored); ok {
		f.versions[k] = append(f.versions[k], fakeVersion{at, v})
	}
}

func (i *fakeIntent) at(seq kv.Seq, ignored []kv.SeqRange) ([]byte, bool) {
next:
	for n := len(i.hist) - 1; n >= 0; n-- {
		if w := i.hist[n]; w.seq <= seq {
			for _, r := range ignored {
				if r.First <= w.seq && w.seq <= r.Last {
					continue next
				}
			}
			return w.value, true
		}
	}
	return nil, false
}

func (e *fakeEval) read(k string) ([]byte, error) {
	if i := e.f.intents[k]; i != nil && i.txn.ID == e.txn.ID && i.txn.Attempt == e.txn.Attempt {
		if v, ok := i.at(e.readSeq, e.txn.IgnoredSeqs); ok {
			return v, nil
		}
	}
	if err := e.conflict(k, kv.NoLock, e.readAt); err != nil {
		return nil, err
	}
	vs := e.f.versions[k]
	for n := len(vs) - 1; n >= 0; n-- {
		if vs[n].at.LessEq(e.readAt) {
			return vs[n].value, nil
		}
	}
	return nil, nil
}

func (e *fakeEval) lock(k string, s kv.LockStrength) error {
	if s == kv.NoLock {
		return nil
	}
	if err := e.conflict(k, s, clock.MaxTimestamp); err != nil {
		return err
	}
	if vs := e.f.versions[k]; len(vs) > 0 && e.readAt.Less(vs[len(vs)-1].at) {
		return &kv.WriteTooOldError{Key: keys.Key(k), Actual: vs[len(vs)-1].at}
	}
	for i := range e.f.locks[k] {
		if l := &e.f.locks[k][i]; l.id == e.txn.ID {
			l.strength = max(l.strength, s)
			return nil
		}
	}
	e.f.locks[k] = append(e.f.locks[k], fakeLock{e.txn.ID, s})
	return nil
}

func (e *fakeEval) note(s keys.Span) {
	e.f.reads = append(e.f.reads, fakeRead{s, e.readAt, e.txn.ID})
}

// negotiate closes what is ClosedLag in the past, as far as no intent is in the way: nothing is written there from now on, as if it had been read.
func (e *fakeEval) negotiate(r *kv.NegotiateRequest) *kv.NegotiateResponse {
	out := &kv.NegotiateResponse{Timestamp: e.f.clock.Now().Add(-time.Duration(e.f.ClosedLag.Load()))}
	out.Closed = out.Timestamp
	e.f.reads = append(e.f.reads, fakeRead{r.Span(), out.Timestamp, kv.TxnID{}})
	for k, i := range e.f.intents {
		if r.Span().Contains(keys.Key(k)) && i.txn.WriteTimestamp.LessEq(out.Timestamp) && !e.f.ended(k, i.txn) {
			out.Timestamp, out.Intent = i.txn.WriteTimestamp.Prev(), true
		}
	}
	return out
}

func (e *fakeEval) write(k string, v []byte, seq kv.Seq) error {
	if err := e.conflict(k, kv.Exclusive, clock.MaxTimestamp); err != nil {
		return err
	}
	since := e.txn.ReadTimestamp
	if !e.seen.IsZero() {
		since = e.seen.Next().Backward(e.txn.WriteTimestamp)
	}
	if vs := e.f.versions[k]; len(vs) > 0 && since.LessEq(vs[len(vs)-1].at) {
		return &kv.WriteTooOldError{Key: keys.Key(k), Actual: vs[len(vs)-1].at}
	}
	for _, r := range e.f.reads {
		if r.span.Contains(keys.Key(k)) && r.by != e.txn.ID && e.txn.WriteTimestamp.LessEq(r.at) {
			e.txn.WriteTimestamp = r.at.Next()
		}
	}
	old := e.f.intents[k]
	e.undo = append(e.undo, func() {
		if old == nil {
			delete(e.f.intents, k)
		} else {
			e.f.intents[k] = old
		}
	})
	i := &fakeIntent{txn: e.txn.TxnMeta}
	if old != nil && old.txn.Attempt == e.txn.Attempt {
		for _, w := range old.hist {
			if w.seq != seq {
				i.hist = append(i.hist, w)
			}
		}
	}
	i.hist = append(i.hist, fakeWrite{seq, v})
	e.f.intents[k] = i
	return nil
}

// keysIn lists all keys that have ever been written or are being written, in order.
func (e *fakeEval) keysIn(s keys.Span) []string {
	var out []string
	for k := range e.f.versions {
		if s.Contains(keys.Key(k)) {
			out = append(out, k)
		}
	}
	for k := range e.f.intents {
		if s.Contains(keys.Key(k)) && e.f.versions[k] == nil {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

func (e *fakeEval) request(r kv.Request) (kv.Response, error) {
	e.seen = clock.Timestamp{}
	f := e.f
	switch r := r.(type) {
	case *kv.GetRequest:
		if err := e.lock(string(r.Key), r.Lock); err != nil {
			return nil, err
		}
		v, err := e.read(string(r.Key))
		e.note(r.Span())
		return &kv.GetResponse{Value: v}, err
	case *kv.ScanRequest:
		out := &kv.ScanResponse{}
		ks := e.keysIn(r.Span())
		if r.Reverse {
			slices.Reverse(ks)
		}
		for _, k := range ks {
			v, err := e.read(k)
			if err != nil {
				return nil, err
			}
			if v == nil {
				continue
			}
			if e.b.MaxKeys > 0 && int64(len(out.Rows)) == e.b.MaxKeys {
				last := out.Rows[len(out.Rows)-1].Key
				out.Resume = &keys.Span{Start: last.Next(), End: r.End}
				if r.Reverse {
					out.Resume = &keys.Span{Start: r.Start, End: last}
				}
				break
			}
			if err := e.lock(k, r.Lock); err != nil {
				return nil, err
			}
			out.Rows = append(out.Rows, kv.KeyValue{Key: keys.Key(k), Value: v})
		}
		e.note(r.Span())
		return out, nil
	case *kv.NegotiateRequest:
		return e.negotiate(r), nil
	case *kv.PutRequest:
		e.seen = r.Seen
		return &kv.EmptyResponse{}, e.write(string(r.Key), r.Value, r.Seq)
	case *kv.DeleteRequest:
		e.seen = r.Seen
		return &kv.EmptyResponse{}, e.write(string(r.Key), nil, r.Seq)
	case *kv.CPutRequest:
		e.readSeq = r.Seq - 1
		v, err := e.read(string(r.Key))
		if err != nil {
			return nil, err
		}
		if (v == nil) != (r.Expected == nil) || !bytes.Equal(v, r.Expected) {
			return nil, &kv.ConditionFailedError{Key: r.Key, Actual: v}
		}
		return &kv.EmptyResponse{}, e.write(string(r.Key), r.Value, r.Seq)
	case *kv.DeleteRangeRequest:
		for _, k := range e.keysIn(r.Span()) {
			if err := e.write(k, nil, r.Seq); err != nil {
				return nil, err
			}
		}
		e.note(r.Span())
		return &kv.DeleteRangeResponse{}, nil
	case *kv.AddRequest:
		v, err := e.read(string(r.Key))
		if err != nil {
			return nil, err
		}
		sum := r.Delta
		if v != nil {
			sum += int64(binary.BigEndian.Uint64(v))
		}
		if r.Back && (r.Turn == 0 || f.turns[string(r.Key)] != r.Turn) {
			return &kv.AddResponse{Value: sum - r.Delta}, nil
		}
		if r.Draw && r.Delta == 0 {
			return &kv.AddResponse{Value: sum}, nil // it sets nothing aside
		}
		if f.turns == nil {
			f.turns = map[string]uint64{}
		}
		f.turns[string(r.Key)]++
		return &kv.AddResponse{Value: sum, Turn: f.turns[string(r.Key)]}, e.write(string(r.Key), binary.BigEndian.AppendUint64(nil, uint64(sum)), r.Seq)
	case *kv.EndTxnRequest:
		return e.end(r)
	case *kv.HeartbeatTxnRequest:
		rec := f.records[e.txn.ID]
		if rec == nil {
			rec = &fakeRecord{}
			f.records[e.txn.ID] = rec
		}
		rec.beats++
		t := e.txn
		t.Status = rec.status
		return &kv.HeartbeatTxnResponse{Txn: t}, nil
	case *kv.ResolveIntentRequest:
		f.resolve(string(r.Key), r.Txn, r.Status, r.Txn.WriteTimestamp, r.IgnoredSeqs)
		return &kv.EmptyResponse{}, nil
	case *kv.ResolveRangeRequest:
		f.resolveSpan(r.Span(), r.Txn, r.Status, r.Txn.WriteTimestamp, r.IgnoredSeqs)
		return &kv.EmptyResponse{}, nil
	case *kv.ReleaseRequest:
		if rec := f.records[r.Txn.ID]; rec != nil && rec.status == kv.Staging {
			rec.status = kv.Committed
		}
		f.resolveSpan(r.Span(), r.Txn, kv.Committed, r.Txn.WriteTimestamp, nil) // as good as resolved
		return &kv.EmptyResponse{}, nil
	case *kv.QueryTxnRequest:
		resp := &kv.QueryTxnResponse{Txn: kv.Txn{TxnMeta: r.Txn}}
		if rec := f.records[r.Txn.ID]; rec != nil {
			resp.Exists, resp.Txn.Status, resp.Txn.WriteTimestamp = true, rec.status, rec.at
		}
		return resp, nil
	case *kv.RecoverTxnRequest:
		if rec := f.records[r.Txn.ID]; rec != nil && rec.status == kv.Staging {
			rec.status = kv.Committed
		}
		return &kv.RecoverTxnResponse{Txn: kv.Txn{TxnMeta: r.Txn, Status: kv.Committed}}, nil
	case *kv.RefreshRequest:
		return e.refresh(r.Span(), r.From)
	case *kv.RefreshRangeRequest:
		return e.refresh(r.Span(), r.From)
	case *kv.GCRequest:
		for _, k := range r.Records {
			_, id, err := keys.DecodeTxnKey(k)
			if err != nil {
				return nil, err
			}
			delete(f.records, id)
		}
		return &kv.EmptyResponse{}, nil
	case *kv.LoadRequest:
		return e.load(r)
	case *kv.ClearRequest:
		n := int64(0)
		for _, k := range e.keysIn(r.Span()) {
			if r.Max > 0 && n == r.Max {
				return &kv.DeleteRangeResponse{Deleted: n, Resume: &keys.Span{Start: keys.Key(k), End: r.End}}, nil
			}
			delete(f.versions, k)
			delete(f.intents, k)
			n++
		}
		return &kv.DeleteRangeResponse{Deleted: n}, nil
	}
	return nil, fmt.Errorf("fake: %T", r)
}

// load checks all rows before it adds the first.
func (e *fakeEval) load(r *kv.LoadRequest) (kv.Response, error) {
	f, at := e.f, e.b.Timestamp
	resp := &kv.LoadResponse{}
	var rows []kv.KeyValue
	for _, row := range r.Rows {
		k := string(row.Key)
		lock := kv.Exclusive
		if r.Mode == kv.LoadAlone {
			lock = kv.NoLock
		}
		if err := e.conflict(k, lock, clock.MaxTimestamp); err != nil {
			return nil, err
		}
		var last fakeVersion
		if vs := f.versions[k]; len(vs) > 0 {
			last = vs[len(vs)-1]
		}
		read := r.Mode == kv.LoadShared && slices.ContainsFunc(f.reads, func(x fakeRead) bool { return x.span.Contains(row.Key) && at.LessEq(x.at) })
		same := last.value != nil && bytes.Equal(last.value, row.Value) && last.at.LessEq(at)
		switch {
		case same && (r.Mode != kv.LoadAlone || last.at == at), r.Mode == kv.LoadUnread && at.Less(last.at):
		case last.value == nil && last.at.Less(at) && !read:
			rows = append(rows, row)
		case r.Mode != kv.LoadAlone:
			resp.Refused = append(resp.Refused, row.Key)
		case at.LessEq(last.at):
			return nil, &kv.WriteTooOldError{Key: row.Key, Actual: last.at}
		default:
			return nil, &kv.ConditionFailedError{Key: row.Key, Actual: last.value}
		}
	}
	for _, row := range rows {
		f.versions[string(row.Key)] = append(f.versions[string(row.Key)], fakeVersion{at, row.Value})
	}
	return resp, nil
}

func (f *KV) resolveSpan(s keys.Span, txn kv.TxnMeta, st kv.Status, at clock.Timestamp, ignored []kv.SeqRange) {
	for k := range f.intents {
		if s.Contains(keys.Key(k)) {
			f.resolve(k, txn, st, at, ignored)
		}
	}
	for k := range f.locks {
		if s.Contains(keys.Key(k)) {
			f.unlock(k, txn.ID)
		}
	}
}

func (e *fakeEval) refresh(s keys.Span, from clock.Timestamp) (kv.Response, error) {
	for _, k := range e.keysIn(s) {
		if i := e.f.intents[k]; i != nil && i.txn.ID != e.txn.ID && i.txn.WriteTimestamp.LessEq(e.readAt) && !e.f.ended(k, i.txn) {
			return nil, &kv.RefreshFailedError{Key: keys.Key(k), By: i.txn.ID}
		}
		for _, v := range e.f.versions[k] {
			if from.Less(v.at) && v.at.LessEq(e.readAt) {
				return nil, &kv.RefreshFailedError{Key: keys.Key(k), Written: v.at}
			}
		}
	}
	e.note(s)
	return &kv.EmptyResponse{}, nil
}

func (e *fakeEval) end(r *kv.EndTxnRequest) (kv.Response, error) {
	f := e.f
	rec := f.records[e.txn.ID]
	if r.Commit {
		if rec != nil && rec.status == kv.Aborted {
			return nil, &kv.TxnAbortedError{ID: e.txn.ID}
		}
		if e.txn.ReadTimestamp.Forward(r.Upto).Less(e.txn.WriteTimestamp) {
			return nil, &kv.TxnRetryError{WriteTimestamp: e.txn.WriteTimestamp}
		}
		if !r.Deadline.IsZero() && r.Deadline.Less(e.txn.WriteTimestamp) {
			e.late = true
			return nil, &kv.TxnRetryError{WriteTimestamp: e.txn.WriteTimestamp}
		}
		if r.OnePhase {
			home := f.rangeOf(r.Anchor)
			for _, x := range e.b.Requests {
				s := x.Span()
				if f.rangeOf(s.Start) != home || !s.Point() && f.rangeOf(s.End) != home {
					return nil, &kv.OnePhaseError{}
				}
			}
		}
		if len(r.InFlight) > 0 {
			if rec != nil && rec.status == kv.Committed { // somebody has recovered it
				return &kv.EndTxnResponse{CommitTimestamp: rec.at, Unresolved: r.LockSpans}, nil
			}
			if rec == nil {
				rec = &fakeRecord{}
				f.records[e.txn.ID] = rec
			}
			rec.status, rec.at, rec.ignored, rec.attempt = kv.Staging, e.txn.WriteTimestamp, e.txn.IgnoredSeqs, e.txn.Attempt
			rec.inFlight = slices.Clone(r.InFlight)
			return &kv.EndTxnResponse{Staged: true, CommitTimestamp: e.txn.WriteTimestamp}, nil
		}
	}
	status := kv.Aborted
	if r.Commit {
		status = kv.Committed
	}
	out := &kv.EndTxnResponse{CommitTimestamp: e.txn.WriteTimestamp, OnePhase: r.OnePhase}
	for _, x := range e.b.Requests {
		if _, ok := x.(*kv.EndTxnRequest); !ok && r.OnePhase {
			f.resolveSpan(x.Span(), e.txn.TxnMeta, status, e.txn.WriteTimestamp, nil)
		}
	}
	home := f.rangeOf(r.Anchor)
	for _, s := range r.LockSpans {
		if f.rangeOf(s.Start) == home && (s.Point() || f.rangeOf(s.End) == home) {
			f.resolveSpan(s, e.txn.TxnMeta, status, e.txn.WriteTimestamp, e.txn.IgnoredSeqs)
		} else {
			out.Unresolved = append(out.Unresolved, s)
		}
	}
	delete(f.records, e.txn.ID)
	if len(out.Unresolved) > 0 && !r.OnePhase {
		f.records[e.txn.ID] = &fakeRecord{status: status, at: e.txn.WriteTimestamp, ignored: e.txn.IgnoredSeqs, attempt: e.txn.Attempt}
	}
	return out, nil
}
