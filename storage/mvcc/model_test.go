package mvcc

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"reflect"
	"sort"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"meridian/clock"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
)

type noClock struct{ host.Clock }

func (noClock) Now() time.Time { return time.Unix(0, 0) }

// Sleep ends with its context: nothing here takes time.
func (noClock) Sleep(ctx context.Context, _ time.Duration) error {
	<-ctx.Done()
	return ctx.Err()
}

type fataler interface {
	Fatal(...any)
	Fatalf(string, ...any)
}

func openEngine(t fataler) (*engine.Engine, func()) {
	g := host.NewGroup(context.Background())
	e, err := engine.Open(&host.Host{Clock: noClock{}, FS: vfs.NewMem(), Group: g}, "store",
		engine.Options{CacheBytes: 1 << 20, MemTableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return e, func() {
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		g.Stop()
	}
}

// The model keeps, for each key, committed versions by timestamp and at most one intent with all of its writes.
type modelVersion struct {
	ts, local clock.Timestamp
	val       []byte // nil: tombstone
}

type modelWrite struct {
	seq kv.Seq
	val []byte
}

type modelIntent struct {
	txn     kv.TxnID
	attempt uint32
	ts      clock.Timestamp
	local   clock.Timestamp // of the last write, also if it is rolled back: the transaction commits after that
	writes  []modelWrite
}

// written is the local timestamp of what is written at ts.
func written(ts, local clock.Timestamp) clock.Timestamp {
	if local.IsZero() {
		return ts
	}
	return ts.Backward(local)
}

// uncertain reports whether a read can't tell if something at ts happened before it began.
func (o *ReadOptions) uncertain(ts, local clock.Timestamp) bool {
	u := o.Uncertainty
	return ts.LessEq(u.Global) && (u.Local.IsZero() || local.LessEq(u.Local))
}

type modelKey struct {
	versions []modelVersion // newest first
	intent   *modelIntent
}

type model struct {
	keys map[string]*modelKey
}

func (m *model) at(k string) *modelKey {
	if m.keys[k] == nil {
		m.keys[k] = &modelKey{}
	}
	return m.keys[k]
}

func (k *modelKey) add(v modelVersion) {
	k.versions = append(k.versions, v)
	sort.Slice(k.versions, func(i, j int) bool { return k.versions[j].ts.Less(k.versions[i].ts) })
}

// own finds what a transaction sees of its intent, nil if nothing.
func (i *modelIntent) own(txn *kv.Txn, seq kv.Seq) *modelWrite {
	if i.attempt != txn.Attempt {
		return nil
	}
	for n := len(i.writes) - 1; n >= 0; n-- {
		if w := &i.writes[n]; w.seq <= seq && !dead(w.seq, txn) {
			return w
		}
	}
	return nil
}

func dead(seq kv.Seq, txn *kv.Txn) bool {
	for _, r := range txn.IgnoredSeqs {
		if r.First <= seq && seq <= r.Last {
			return true
		}
	}
	return false
}

// read is what a read of one key must give: a value, or the kind of error.
func (m *model) read(key string, o *ReadOptions) (val []byte, kind string) {
	k := m.at(key)
	ts := o.Timestamp
	if ts.IsZero() {
		ts = o.Txn.ReadTimestamp
	}
	if i := k.intent; i != nil {
		if o.Txn != nil && i.txn == o.Txn.ID {
			seq := o.ReadSeq
			if seq == 0 {
				seq = ^kv.Seq(0)
			}
			if w := i.own(o.Txn, seq); w != nil {
				return w.val, ""
			}
		} else if !o.Inconsistent && (o.Lock != kv.NoLock || i.ts.LessEq(ts) || o.uncertain(i.ts, i.local)) {
			if o.SkipLocked {
				return nil, ""
			}
			return nil, "conflict"
		}
	}
	for _, v := range k.versions {
		if ts.Less(v.ts) {
			if o.Lock != kv.NoLock {
				return nil, "too old"
			}
			if o.uncertain(v.ts, v.local) {
				return nil, "uncertain"
			}
			continue
		}
		return v.val, ""
	}
	return nil, ""
}

func kindOf(err error) string {
	var (
		conflict  *LockConflictError
		old       *kv.WriteTooOldError
		uncertain *kv.UncertaintyError
		condition *kv.ConditionFailedError
		refresh   *kv.RefreshFailedError
	)
	switch {
	case err == nil:
		return ""
	case errors.As(err, &conflict):
		return "conflict"
	case errors.As(err, &old):
		return "too old"
	case errors.As(err, &uncertain):
		return "uncertain"
	case errors.As(err, &condition):
		return "condition"
	case errors.As(err, &refresh):
		return "refresh"
	}
	return err.Error()
}

var modelKeys = []string{"\x10a", "\x10a\x00", "\x10b", "\x10ba", "\x10c", "\x10\xff"}

type machine struct {
	e    *engine.Engine
	m    *model
	st   Stats
	txns []*kv.Txn
	now  int64
	ids  byte
}

func (c *machine) tick() clock.Timestamp {
	c.now++
	return clock.Timestamp{Wall: c.now, Logical: uint32(c.now % 3)}
}

// write runs f with a writer over the store or over an indexed batch, commits, and compares the statistics (mvcc.M5).
func (c *machine) write(t *rapid.T, f func(w *Writer) error) error {
	b := c.e.NewBatch()
	src := engine.Reader(c.e)
	if rapid.Bool().Draw(t, "indexed") {
		b.Close()
		b = c.e.NewIndexedBatch()
		src = b
	}
	defer b.Close()
	w := NewWriter(src, b)
	err := f(w)
	st := w.Stats
	if cerr := w.Close(); cerr != nil {
		t.Fatal(cerr)
	}
	if err != nil {
		return err
	}
	if err := b.Commit(false); err != nil {
		t.Fatal(err)
	}
	c.st.Add(st)
	return nil
}

func (c *machine) key(t *rapid.T) string { return rapid.SampledFrom(modelKeys).Draw(t, "key") }

func (c *machine) value(t *rapid.T) []byte {
	return []byte(rapid.SampledFrom([]string{"", "x", "yy", "zzz"}).Draw(t, "value"))
}

func (c *machine) txn(t *rapid.T) *kv.Txn {
	if len(c.txns) == 0 {
		return nil
	}
	return c.txns[rapid.IntRange(0, len(c.txns)-1).Draw(t, "txn")]
}

// canWrite is what a write must answer before it looks at values.
func (c *machine) canWrite(key string, txn *kv.Txn, ts clock.Timestamp) string {
	k := c.m.at(key)
	if k.intent != nil {
		if txn == nil || k.intent.txn != txn.ID {
			return "conflict"
		}
		return ""
	}
	if txn != nil {
		ts = txn.ReadTimestamp
	}
	if len(k.versions) > 0 && ts.LessEq(k.versions[0].ts) {
		return "too old"
	}
	return ""
}

func (c *machine) apply(key string, val []byte, txn *kv.Txn, ts, local clock.Timestamp, seq kv.Seq) {
	k := c.m.at(key)
	if txn == nil {
		k.add(modelVersion{ts: ts, val: val, local: written(ts, local)})
		return
	}
	i := k.intent
	if i == nil || i.attempt != txn.Attempt {
		n := &modelIntent{txn: txn.ID, attempt: txn.Attempt, ts: txn.WriteTimestamp}
		if i != nil {
			n.ts = n.ts.Forward(i.ts)
		}
		i = n
		k.intent = i
	}
	i.ts = i.ts.Forward(txn.WriteTimestamp)
	i.local = written(i.ts, local)
	i.writes = append(i.writes, modelWrite{seq, val})
}

func (c *machine) Put(t *rapid.T)    { c.put(t, "put") }
func (c *machine) CPut(t *rapid.T)   { c.put(t, "cput") }
func (c *machine) Delete(t *rapid.T) { c.put(t, "delete") }

func (c *machine) put(t *rapid.T, what string) {
	key, val := c.key(t), c.value(t)
	var txn *kv.Txn
	o := &WriteOptions{}
	if rapid.IntRange(0, 3).Draw(t, "in txn") > 0 {
		txn = c.txn(t)
	}
	if txn != nil {
		txn.Seq++
		o.Txn, o.Seq = txn, txn.Seq
	} else {
		o.Timestamp = clock.Timestamp{Wall: rapid.Int64Range(1, c.now+3).Draw(t, "ts")}
		o.OnePhase = false
	}
	if rapid.Bool().Draw(t, "has local") {
		o.LocalTimestamp = clock.Timestamp{Wall: rapid.Int64Range(1, c.now+3).Draw(t, "local")}
	}
	want := c.canWrite(key, txn, o.Timestamp)
	var expected []byte
	if what == "cput" {
		if rapid.Bool().Draw(t, "expects a value") {
			expected = c.value(t)
		}
		if want == "" {
			ro := &ReadOptions{Timestamp: clock.MaxTimestamp}
			if txn != nil {
				ro = &ReadOptions{Txn: txn, Timestamp: clock.MaxTimestamp, ReadSeq: o.Seq}
			}
			present, _ := c.m.read(key, ro)
			if (present == nil) != (expected == nil) || !bytes.Equal(present, expected) {
				want = "condition"
			}
		}
	}
	err := c.write(t, func(w *Writer) error {
		switch what {
		case "cput":
			return w.CPut(keys.Key(key), val, expected, o)
		case "delete":
			val = nil
			_, err := w.Delete(keys.Key(key), o)
			return err
		}
		return w.Put(keys.Key(key), val, o)
	})
	if kindOf(err) != want {
		t.Fatalf("%s %q: %q, want %q", what, key, kindOf(err), want)
	}
	if err == nil {
		c.apply(key, val, txn, o.Timestamp, o.LocalTimestamp, o.Seq)
	}
}

func (c *machine) Begin(t *rapid.T) {
	if len(c.txns) >= 3 {
		t.Skip("enough")
	}
	c.ids++
	ts := c.tick()
	txn := &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{c.ids}, Anchor: keys.Key("\x10a"), WriteTimestamp: ts, MinTimestamp: ts}, ReadTimestamp: ts}
	c.txns = append(c.txns, txn)
}

// Move is a push: the transaction's write timestamp grows, perhaps its read timestamp too (after a refresh).
func (c *machine) Move(t *rapid.T) {
	txn := c.txn(t)
	if txn == nil {
		t.Skip("none")
	}
	txn.WriteTimestamp = c.tick()
}

// Restart begins a new attempt of a transaction.
func (c *machine) Restart(t *rapid.T) {
	txn := c.txn(t)
	if txn == nil {
		t.Skip("none")
	}
	txn.Attempt++
	txn.Seq = 0
	txn.IgnoredSeqs = nil
	txn.WriteTimestamp = c.tick()
	txn.ReadTimestamp = txn.WriteTimestamp
}

// Rollback returns a transaction to a savepoint.
func (c *machine) Rollback(t *rapid.T) {
	txn := c.txn(t)
	if txn == nil || txn.Seq == 0 {
		t.Skip("nothing to roll back")
	}
	first := kv.Seq(rapid.IntRange(1, int(txn.Seq)).Draw(t, "first"))
	txn.IgnoredSeqs = append(txn.IgnoredSeqs, kv.SeqRange{First: first, Last: txn.Seq})
}

func (c *machine) Resolve(t *rapid.T) {
	txn := c.txn(t)
	if txn == nil {
		t.Skip("none")
	}
	status := rapid.SampledFrom([]kv.Status{kv.Committed, kv.Aborted, kv.Pending}).Draw(t, "status")
	res := &Resolution{Txn: txn.TxnMeta, Status: status, IgnoredSeqs: txn.IgnoredSeqs}
	page := int64(rapid.IntRange(0, 2).Draw(t, "page"))
	err := c.write(t, func(w *Writer) error {
		if rapid.Bool().Draw(t, "by key") {
			for _, k := range modelKeys {
				_, err := w.ResolveIntent(keys.Key(k), res)
				if err != nil {
					return err
				}
			}
			return nil
		}
		start, end := keys.Key("\x10"), keys.Key("\x11")
		for {
			_, resume, err := w.ResolveRange(start, end, res, page)
			if err != nil || resume == nil {
				return err
			}
			start = resume.Start
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range c.m.keys {
		i := k.intent
		if i == nil || i.txn != txn.ID {
			continue
		}
		w := i.own(txn, ^kv.Seq(0))
		to := i.ts.Forward(txn.WriteTimestamp)
		switch {
		case status == kv.Aborted || w == nil:
			k.intent = nil
		case status == kv.Committed:
			k.add(modelVersion{ts: to, val: w.val, local: i.local})
			k.intent = nil
		default:
			i.ts = to
			live := i.writes[:0]
			for _, w := range i.writes {
				if !dead(w.seq, txn) {
					live = append(live, w)
				}
			}
			i.writes = live
		}
	}
	if status != kv.Pending {
		for n := range c.txns {
			if c.txns[n] == txn {
				c.txns = append(c.txns[:n:n], c.txns[n+1:]...)
				break
			}
		}
	}
}

func (c *machine) GC(t *rapid.T) {
	threshold := clock.Timestamp{Wall: rapid.Int64Range(0, c.now).Draw(t, "threshold")}
	probe := func() map[string][][]byte {
		got := make(map[string][][]byte)
		for _, k := range modelKeys {
			for at := threshold.Wall; at <= c.now+1; at++ {
				v, _ := c.m.read(k, &ReadOptions{Timestamp: clock.Timestamp{Wall: at, Logical: 5}, Inconsistent: true})
				got[k] = append(got[k], v)
			}
		}
		return got
	}
	before := probe()
	r := NewReader(c.e)
	var all []kv.GCKey
	start := keys.Key("\x10")
	for {
		found, resume, err := r.FindGarbage(start, keys.Key("\x11"), threshold, 2, 1000)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
		if resume == nil {
			break
		}
		start = resume.Start
	}
	r.Close()
	if err := c.write(t, func(w *Writer) error { return w.GC(all, threshold) }); err != nil {
		t.Fatal(err)
	}
	for _, k := range c.m.keys {
		if k.intent != nil && k.intent.ts.LessEq(threshold) {
			continue // left alone
		}
		if k.intent != nil {
			continue
		}
		var kept []modelVersion
		shadowed := false
		for _, v := range k.versions {
			if v.ts.LessEq(threshold) {
				if shadowed || v.val == nil {
					shadowed = true
					continue
				}
				shadowed = true
			}
			kept = append(kept, v)
		}
		k.versions = kept
	}
	if after := probe(); !reflect.DeepEqual(before, after) {
		t.Fatalf("the model's collection changed a read")
	}
}

func (c *machine) readOptions(t *rapid.T) ReadOptions {
	o := ReadOptions{Timestamp: clock.Timestamp{Wall: rapid.Int64Range(1, c.now+2).Draw(t, "read at"), Logical: uint32(rapid.IntRange(0, 2).Draw(t, "logical"))}}
	if txn := c.txn(t); txn != nil && rapid.Bool().Draw(t, "in txn") {
		o.Txn, o.Timestamp = txn, clock.Timestamp{}
		if rapid.Bool().Draw(t, "at seq") && txn.Seq > 0 {
			o.ReadSeq = kv.Seq(rapid.IntRange(1, int(txn.Seq)).Draw(t, "seq"))
		}
	}
	switch rapid.IntRange(0, 5).Draw(t, "mode") {
	case 0:
		o.Uncertainty.Global = clock.Timestamp{Wall: rapid.Int64Range(1, c.now+5).Draw(t, "global")}
		if rapid.Bool().Draw(t, "observed") {
			o.Uncertainty.Local = clock.Timestamp{Wall: rapid.Int64Range(1, c.now+5).Draw(t, "local")}
		}
	case 1:
		o.Lock = rapid.SampledFrom([]kv.LockStrength{kv.Shared, kv.Exclusive}).Draw(t, "lock")
		o.SkipLocked = rapid.Bool().Draw(t, "skip")
	case 2:
		o.Inconsistent = true
	}
	return o
}

func (c *machine) Get(t *rapid.T) {
	o := c.readOptions(t)
	r := NewReader(c.e)
	defer r.Close()
	for range 2 {
		key := c.key(t)
		want, kind := c.m.read(key, &o)
		got, err := r.Get(keys.Key(key), &o)
		if kindOf(err) != kind || (kind == "" && ((want == nil) != (got.Bytes == nil) || !bytes.Equal(want, got.Bytes))) {
			t.Fatalf("get %q %+v: %q %v, want %q %q", key, o, got.Bytes, err, want, kind)
		}
	}
}

func (c *machine) Scan(t *rapid.T) {
	o := ScanOptions{ReadOptions: c.readOptions(t), Reverse: rapid.Bool().Draw(t, "reverse")}
	start, end := keys.Key(c.key(t)), keys.Key(c.key(t))
	var want []kv.KeyValue
	order := append([]string(nil), modelKeys...)
	sort.Strings(order)
	if o.Reverse {
		for i, j := 0, len(order)-1; i < j; i, j = i+1, j-1 {
			order[i], order[j] = order[j], order[i]
		}
	}
	kind := ""
	for _, k := range order {
		if (keys.Span{Start: start, End: end}).Contains(keys.Key(k)) && start.Less(end) {
			val, kd := c.m.read(k, &o.ReadOptions)
			if kd != "" {
				kind = kd
				break
			}
			if val != nil {
				want = append(want, kv.KeyValue{Key: keys.Key(k), Value: val})
			}
		}
	}
	r := NewReader(c.e)
	defer r.Close()
	res, err := r.Scan(start, end, &o)
	if kindOf(err) != kind {
		t.Fatalf("scan [%q,%q) %+v: %v, want %q", start, end, o, err, kind)
	}
	if kind != "" {
		return
	}
	same := func(got []kv.KeyValue) {
		if len(got) != len(want) {
			t.Fatalf("scan [%q,%q) %+v: %v, want %v", []byte(start), []byte(end), o, got, want)
		}
		for i := range got {
			if !got[i].Key.Equal(want[i].Key) || !bytes.Equal(got[i].Value, want[i].Value) {
				t.Fatalf("scan [%q,%q) %+v: %v, want %v", []byte(start), []byte(end), o, got, want)
			}
		}
	}
	same(res.Rows)
	// In pages, the same.
	o.MaxKeys = int64(rapid.IntRange(0, 2).Draw(t, "page"))
	if o.MaxKeys == 0 {
		o.TargetBytes = 4
	}
	var rows []kv.KeyValue
	for pages := 0; ; pages++ {
		res, err := r.Scan(start, end, &o)
		if err != nil || pages > 20 {
			t.Fatal(err, pages)
		}
		if o.MaxKeys > 0 && int64(len(res.Rows)) > o.MaxKeys {
			t.Fatalf("%d rows in a page of %d", len(res.Rows), o.MaxKeys)
		}
		rows = append(rows, res.Rows...)
		if res.Resume == nil {
			break
		}
		start, end = res.Resume.Start, res.Resume.End
	}
	same(rows)
}

func (c *machine) Refresh(t *rapid.T) {
	from := clock.Timestamp{Wall: rapid.Int64Range(0, c.now).Draw(t, "from")}
	to := clock.Timestamp{Wall: rapid.Int64Range(from.Wall, c.now+2).Draw(t, "to")}
	txn := c.txn(t)
	start, end := keys.Key(c.key(t)), keys.Key(c.key(t))
	if !start.Less(end) {
		end = nil
	}
	want := ""
	for _, k := range modelKeys {
		if !(keys.Span{Start: start, End: end}).Contains(keys.Key(k)) {
			continue
		}
		mk := c.m.at(k)
		for _, v := range mk.versions {
			if from.Less(v.ts) && v.ts.LessEq(to) {
				want = "refresh"
			}
		}
		if i := mk.intent; i != nil && (txn == nil || i.txn != txn.ID) && i.ts.LessEq(to) {
			want = "refresh"
		}
	}
	r := NewReader(c.e)
	defer r.Close()
	if err := r.CheckRefresh(start, end, from, to, txn, false); kindOf(err) != want {
		t.Fatalf("refresh [%q,%q) (%s,%s]: %v, want %q", []byte(start), []byte(end), from, to, err, want)
	}
}

func (c *machine) DeleteRange(t *rapid.T) {
	txn := c.txn(t)
	if txn == nil {
		t.Skip("none")
	}
	txn.Seq++
	start, end := keys.Key(c.key(t)), keys.Key(c.key(t))
	var want []string
	kind := ""
	order := append([]string(nil), modelKeys...)
	sort.Strings(order)
	for _, k := range order {
		if start.Less(end) && (keys.Span{Start: start, End: end}).Contains(keys.Key(k)) {
			val, kd := c.m.read(k, &ReadOptions{Txn: txn, Lock: kv.Exclusive})
			if kd != "" && kind == "" {
				kind = kd
			}
			// An own intent that the transaction does not see hides versions that are too old for it, but there
			// can be none: mvcc.M3.
			if val != nil && kind == "" {
				want = append(want, k)
			}
		}
	}
	for _, k := range want {
		// A version exactly at the read timestamp is seen by the scan, but cannot be written over.
		if kind == "" {
			kind = c.canWrite(k, txn, txn.ReadTimestamp)
		}
	}
	o := &WriteOptions{Txn: txn, Seq: txn.Seq}
	var deleted []keys.Key
	err := c.write(t, func(w *Writer) (err error) {
		deleted, _, err = w.DeleteRange(start, end, 0, o)
		return err
	})
	if kindOf(err) != kind {
		t.Fatalf("delete range [%q,%q): %v, want %q", []byte(start), []byte(end), err, kind)
	}
	if err != nil {
		return
	}
	if len(deleted) != len(want) {
		t.Fatalf("deleted %v, want %q", deleted, want)
	}
	for _, k := range want {
		c.apply(k, nil, txn, clock.Timestamp{}, clock.Timestamp{}, txn.Seq)
	}
}

// sameLocals compares the local timestamps of all versions, which decide how uncertain they are (mvcc.M6).
func (c *machine) sameLocals(t *rapid.T, r *Reader) {
	for k, mk := range c.m.keys {
		want := make(map[clock.Timestamp]clock.Timestamp)
		for _, v := range mk.versions {
			want[v.ts] = v.local
		}
		if i := mk.intent; i != nil {
			want[i.ts] = i.local
		}
		got := make(map[clock.Timestamp]clock.Timestamp)
		err := r.newest(keys.Key(k), func(ts clock.Timestamp, raw []byte, lock *Lock) (bool, error) {
			v, err := decodeValue(raw)
			if lock != nil && lock.Local != v.local {
				t.Fatalf("the intent on %q is of %s, and its version of %s", k, lock.Local, v.local)
			}
			got[ts] = written(ts, v.local)
			return true, err
		})
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(got, want) {
			t.Fatalf("versions of %q were written at %v, want %v", k, got, want)
		}
	}
}

// Check compares the statistics, what there is of versions and when they were written, and mvcc.M1.
func (c *machine) Check(t *rapid.T) {
	r := NewReader(c.e)
	defer r.Close()
	c.sameLocals(t, r)
	st, err := r.ComputeStats(keys.Span{Start: keys.Key("\x10"), End: keys.Key("\x11")})
	if err != nil {
		t.Fatal(err)
	}
	if st != c.st {
		t.Fatalf("statistics are %+v, but the writes added up to %+v", st, c.st)
	}
	locks, err := r.Locks(keys.Key("\x10"), keys.Key("\x11"), 100)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for k, mk := range c.m.keys {
		if mk.intent == nil {
			continue
		}
		n++
		found := false
		for _, l := range locks {
			if string(l.Key) == k && l.Txn.ID == mk.intent.txn {
				found = true
				if l.Txn.WriteTimestamp != mk.intent.ts {
					t.Fatalf("intent on %q is at %s, want %s", k, l.Txn.WriteTimestamp, mk.intent.ts)
				}
			}
		}
		if !found {
			t.Fatalf("no intent on %q", k)
		}
	}
	if n != len(locks) {
		t.Fatalf("%d intents, want %d", len(locks), n)
	}
}

// TestModel runs random operations against the store and against the model.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, closeEngine := openEngine(t)
		defer closeEngine()
		c := &machine{e: e, m: &model{keys: make(map[string]*modelKey)}, now: 3}
		t.Repeat(map[string]func(*rapid.T){
			"":            c.Check,
			"put":         c.Put,
			"cput":        c.CPut,
			"delete":      c.Delete,
			"begin":       c.Begin,
			"move":        c.Move,
			"restart":     c.Restart,
			"rollback":    c.Rollback,
			"resolve":     c.Resolve,
			"gc":          c.GC,
			"get":         c.Get,
			"scan":        c.Scan,
			"refresh":     c.Refresh,
			"deleteRange": c.DeleteRange,
		})
	})
}
