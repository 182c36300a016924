package mvcc

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
)

// The scripts' verbs. Keys are single words under table prefix; times are wall readings.
//
//	txn NAME at=T [limit=T]          begins a transaction (limit ends its uncertainty interval)
//	move NAME to=T [read=T]          pushes it, or lets it read later
//	restart NAME at=T                begins its next attempt
//	ignore NAME first=N last=N       rolls back to a savepoint
//	put|del|cput|add k=K [v=V] [was=V] [by=NAME] [at=T] [seen=T] [local=T] [one-phase]
//	lock k=K by=NAME strength=shared|exclusive
//	get k=K, scan [from=K to=K]      [by=NAME] [at=T] [seq=N] [limit=T] [observed=T] [lock=...] [reverse] [max=N] [skip-locked] [inconsistent]
//	refresh k=K from=T to=T [by=NAME]
//	resolve NAME commit|abort|push   of all keys
//	gc at=T, split, stats, dump
type script struct {
	e    *engine.Engine
	st   Stats
	txns map[string]*kv.Txn
}

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		e, closeEngine := openEngine(t)
		defer closeEngine()
		s := &script{e: e, txns: make(map[string]*kv.Txn)}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out := s.run(t, d)
			// Every step leaves the statistics exact (mvcc.M5).
			r := NewReader(e)
			defer r.Close()
			if st, err := r.ComputeStats(tableSpan); err != nil || st != s.st {
				t.Fatalf("%s: statistics are %+v (%v), but the writes added up to %+v", d.Pos, st, err, s.st)
			}
			return out
		})
	})
}

var tableSpan = keys.Span{Start: keys.TablePrefix, End: keys.TableMax}

func tableKey(s string) keys.Key { return append(keys.TablePrefix[:1:1], s...) }

func at(wall int64) clock.Timestamp { return clock.Timestamp{Wall: wall} }

func word(d *datadriven.TestData, name string) string {
	for _, a := range d.CmdArgs {
		if a.Key == name && len(a.Vals) > 0 {
			return a.Vals[0]
		}
	}
	return ""
}

func flag(d *datadriven.TestData, name string) bool {
	for _, a := range d.CmdArgs {
		if a.Key == name {
			return true
		}
	}
	return false
}

func number(t *testing.T, d *datadriven.TestData, name string) int64 {
	s := word(d, name)
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	return n
}

func (s *script) by(t *testing.T, d *datadriven.TestData) *kv.Txn {
	name := word(d, "by")
	if name == "" {
		return nil
	}
	if s.txns[name] == nil {
		t.Fatalf("%s: no transaction %s", d.Pos, name)
	}
	return s.txns[name]
}

func (s *script) named(t *testing.T, d *datadriven.TestData) *kv.Txn {
	txn := s.txns[d.CmdArgs[0].Key]
	if txn == nil {
		t.Fatalf("%s: no transaction %s", d.Pos, d.CmdArgs[0].Key)
	}
	return txn
}

func (s *script) write(t *testing.T, f func(w *Writer) error) string {
	b := s.e.NewIndexedBatch()
	defer b.Close()
	w := NewWriter(b, b)
	err := f(w)
	st := w.Stats
	w.Close()
	if err != nil {
		return describe(err)
	}
	if err := b.Commit(false); err != nil {
		t.Fatal(err)
	}
	s.st.Add(st)
	return ""
}

func describe(err error) string {
	switch e := err.(type) {
	case *LockConflictError:
		var out []string
		for _, l := range e.Intents {
			out = append(out, fmt.Sprintf("%s on %s at %d", lockName(l.Strength), string(l.Key[1:]), l.Txn.WriteTimestamp.Wall))
		}
		return "conflict: " + strings.Join(out, ", ")
	case *kv.WriteTooOldError:
		return fmt.Sprintf("write too old: %s has a version at %d", string(e.Key[1:]), e.Actual.Wall)
	case *kv.UncertaintyError:
		return fmt.Sprintf("uncertain: %s has a version at %d, retry at %d", string(e.Key[1:]), e.Value.Wall, e.RetryAt.Wall)
	case *kv.ConditionFailedError:
		if e.Actual == nil {
			return "condition failed: there is no value"
		}
		return fmt.Sprintf("condition failed: the value is %q", e.Actual)
	case *kv.RefreshFailedError:
		return fmt.Sprintf("refresh failed: %s was written at %d", string(e.Key[1:]), e.Written.Wall)
	case *kv.TxnRetryError:
		return fmt.Sprintf("retry: reason %d", e.Reason)
	case *kv.AddOverflowError:
		return fmt.Sprintf("overflow: %d + %d", e.Value, e.Delta)
	}
	return "error: " + err.Error()
}

func lockName(s kv.LockStrength) string {
	return [...]string{"none", "key shared", "shared", "no key exclusive", "exclusive", "intent"}[s]
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "txn":
		name := d.CmdArgs[0].Key
		ts := at(number(t, d, "at"))
		s.txns[name] = &kv.Txn{TxnMeta: kv.TxnMeta{ID: kv.TxnID{name[0]}, WriteTimestamp: ts, MinTimestamp: ts},
			ReadTimestamp: ts, UncertaintyLimit: at(number(t, d, "limit"))}
		return ""
	case "move":
		txn := s.named(t, d)
		txn.WriteTimestamp = at(number(t, d, "to"))
		if r := number(t, d, "read"); r > 0 {
			txn.ReadTimestamp = at(r)
		}
		return ""
	case "restart":
		txn := s.named(t, d)
		txn.Attempt++
		txn.Seq, txn.IgnoredSeqs = 0, nil
		txn.ReadTimestamp = at(number(t, d, "at"))
		txn.WriteTimestamp = txn.ReadTimestamp
		return ""
	case "ignore":
		txn := s.named(t, d)
		txn.IgnoredSeqs = append(txn.IgnoredSeqs, kv.SeqRange{First: kv.Seq(number(t, d, "first")), Last: kv.Seq(number(t, d, "last"))})
		return ""
	case "put", "del", "cput", "add", "delrange", "lock":
		return s.change(t, d)
	case "get", "scan":
		return s.read(t, d)
	case "refresh":
		r := NewReader(s.e)
		defer r.Close()
		err := r.CheckRefresh(tableKey(word(d, "k")), nil, at(number(t, d, "from")), at(number(t, d, "to")), s.by(t, d), false)
		if err != nil {
			return describe(err)
		}
		return "ok"
	case "resolve":
		txn := s.named(t, d)
		res := &Resolution{Txn: txn.TxnMeta, IgnoredSeqs: txn.IgnoredSeqs}
		switch {
		case flag(d, "commit"):
			res.Status = kv.Committed
		case flag(d, "abort"):
			res.Status = kv.Aborted
		}
		var n int64
		out := s.write(t, func(w *Writer) (err error) {
			n, _, err = w.ResolveRange(tableSpan.Start, tableSpan.End, res, 0)
			return err
		})
		if out != "" {
			return out
		}
		return fmt.Sprintf("%d locks", n)
	case "gc":
		threshold := at(number(t, d, "at"))
		r := NewReader(s.e)
		defer r.Close()
		found, _, err := r.FindGarbage(tableSpan.Start, tableSpan.End, threshold, 100, 1000)
		if err != nil {
			return describe(err)
		}
		var out []string
		for _, g := range found {
			out = append(out, fmt.Sprintf("%s@%d", string(g.Key[1:]), g.Timestamp.Wall))
		}
		if msg := s.write(t, func(w *Writer) error { return w.GC(found, threshold) }); msg != "" {
			return msg
		}
		return strings.Join(append([]string{"garbage:"}, out...), " ")
	case "split":
		r := NewReader(s.e)
		defer r.Close()
		k, _, err := r.FindSplitKey(tableSpan.Start, tableSpan.End, 0)
		if err != nil {
			return describe(err)
		}
		if k == nil {
			return "no key"
		}
		return string(k[1:])
	case "stats":
		return fmt.Sprintf("live %d, keys %d, versions %d, locks %d", s.st.LiveCount, s.st.KeyCount, s.st.VersionCount, s.st.IntentCount)
	case "dump":
		return s.dump(t)
	}
	t.Fatalf("%s: unknown verb %s", d.Pos, d.Cmd)
	return ""
}

func (s *script) change(t *testing.T, d *datadriven.TestData) string {
	o := &WriteOptions{Txn: s.by(t, d), Timestamp: at(number(t, d, "at")), Seen: at(number(t, d, "seen")),
		LocalTimestamp: at(number(t, d, "local")), OnePhase: flag(d, "one-phase")}
	if o.Txn != nil {
		if n := number(t, d, "seq"); n > 0 {
			o.Seq = kv.Seq(n)
		} else {
			o.Txn.Seq++
			o.Seq = o.Txn.Seq
		}
	}
	k := tableKey(word(d, "k"))
	out := ""
	var own clock.Timestamp
	msg := s.write(t, func(w *Writer) error {
		defer func() { own = w.Own }()
		switch d.Cmd {
		case "put":
			return w.Put(k, []byte(word(d, "v")), o)
		case "cput":
			var was []byte
			if flag(d, "was") {
				was = []byte(word(d, "was"))
			}
			return w.CPut(k, []byte(word(d, "v")), was, o)
		case "del":
			existed, err := w.Delete(k, o)
			out = fmt.Sprintf("existed %v", existed)
			return err
		case "delrange":
			deleted, resume, err := w.DeleteRange(tableKey(word(d, "from")), tableKey(word(d, "to")), number(t, d, "max"), o)
			out = fmt.Sprintf("deleted %d", len(deleted))
			if resume != nil {
				out += fmt.Sprintf(", rest from %s", string(resume.Start[1:]))
			}
			return err
		case "add":
			sum, err := w.Add(k, number(t, d, "v"), o)
			out = fmt.Sprint(sum)
			return err
		}
		strength := kv.Exclusive
		if word(d, "strength") == "shared" {
			strength = kv.Shared
		}
		return w.Lock(k, strength, o)
	})
	if msg != "" {
		return msg
	}
	if o.Txn != nil && o.Txn.WriteTimestamp.Less(own) {
		out += fmt.Sprintf("its intent is at %d\n", own.Wall)
	}
	return out
}

func (s *script) read(t *testing.T, d *datadriven.TestData) string {
	o := ScanOptions{MaxKeys: number(t, d, "max"), Reverse: flag(d, "reverse")}
	o.Txn = s.by(t, d)
	o.Timestamp = at(number(t, d, "at"))
	o.ReadSeq = kv.Seq(number(t, d, "seq"))
	o.Uncertainty = Uncertainty{Global: at(number(t, d, "limit")), Local: at(number(t, d, "observed"))}
	if o.Txn != nil && o.Uncertainty.Global.IsZero() {
		o.Uncertainty.Global = o.Txn.UncertaintyLimit
	}
	switch word(d, "lock") {
	case "shared":
		o.Lock = kv.Shared
	case "exclusive":
		o.Lock = kv.Exclusive
	}
	o.SkipLocked, o.Inconsistent = flag(d, "skip-locked"), flag(d, "inconsistent")
	r := NewReader(s.e)
	defer r.Close()
	if d.Cmd == "get" {
		v, err := r.Get(tableKey(word(d, "k")), &o.ReadOptions)
		switch {
		case err != nil:
			return describe(err)
		case v.Bytes == nil:
			return "nothing"
		}
		return fmt.Sprintf("%q at %d", show(v.Bytes), v.Timestamp.Wall)
	}
	span := tableSpan
	if f := word(d, "from"); f != "" {
		span.Start = tableKey(f)
	}
	if to := word(d, "to"); to != "" {
		span.End = tableKey(to)
	}
	res, err := r.Scan(span.Start, span.End, &o)
	if err != nil {
		return describe(err)
	}
	var out []string
	for _, row := range res.Rows {
		out = append(out, fmt.Sprintf("%s=%s@%d", string(row.Key[1:]), show(row.Value), row.Timestamp.Wall))
	}
	if res.Resume != nil {
		out = append(out, "...")
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, " ")
}

func show(b []byte) string {
	if len(b) == 8 && b[0] == 0 {
		n := int64(0)
		for _, c := range b {
			n = n<<8 | int64(c)
		}
		return strconv.FormatInt(n, 10)
	}
	return string(b)
}

func (s *script) dump(t *testing.T) string {
	var out strings.Builder
	r := NewReader(s.e)
	defer r.Close()
	locks, err := r.Locks(tableSpan.Start, tableSpan.End, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range locks {
		fmt.Fprintf(&out, "lock %s: %s of %c at %d, attempt %d, sequence %d", string(l.Key[1:]), lockName(l.Strength), l.Txn.ID[0],
			l.Txn.WriteTimestamp.Wall, l.Txn.Attempt, l.Txn.Seq)
		for _, p := range l.history {
			v, err := decodeValue(p.raw)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, ", before at %d: %s", p.seq, v.bytes)
		}
		out.WriteByte('\n')
	}
	it, err := s.e.NewIter(engine.IterOptions{Lower: tableSpan.Start, Upper: tableSpan.End})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		k, ver := it.Key()
		ts, err := engine.DecodeTimestamp(ver)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := it.Value()
		if err != nil {
			t.Fatal(err)
		}
		v, err := decodeValue(raw)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s @ %d", string(k[1:]), ts.Wall)
		if !v.local.IsZero() {
			fmt.Fprintf(&out, " local %d", v.local.Wall)
		}
		if v.tombstone {
			out.WriteString(": deleted\n")
		} else {
			fmt.Fprintf(&out, ": %s\n", show(v.bytes))
		}
	}
	return out.String()
}
