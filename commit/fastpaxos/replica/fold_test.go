package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"meridian/clock"
	"meridian/commit"
	"meridian/commit/fastpaxos/core"
	"meridian/host/machine"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/replica"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// now is when the tests' ranges are folded.
const now = int64(1000 * time.Second)

func wall(n int64) clock.Timestamp { return clock.Timestamp{Wall: n} }

// old is a record that has the version "v" since 1.
func old() *core.Record { return &core.Record{Base: core.Value{At: wall(1), Data: []byte("v")}} }

func with(r *core.Record, change func(*core.Record)) *core.Record {
	change(r)
	return r
}

func votes(v core.Verdict, os ...core.Option) func(*core.Record) {
	return func(r *core.Record) {
		for _, o := range os {
			r.Votes = append(r.Votes, core.Vote{Option: o, Verdict: v})
		}
	}
}

func pair(n int64) core.Option {
	o := physical(n)
	o.Keys = []keys.Key{rowKey("a"), rowKey("z")}
	return o
}

func numbered() *core.Record { return &core.Record{Base: core.Value{At: wall(1), Data: []byte("3")}} }

// ask has an acceptor answer, and be durable.
func ask(a *core.Acceptor, q *core.Request) *core.Reply {
	a.Step(clock.Timestamp{}, core.Message{Request: q})
	fx := a.Effects()
	if fx.Ticket != 0 {
		a.Durable(fx.Ticket)
	}
	return append(fx.Send, fx.After...)[0].Reply
}

// store is a range's leaseholder, as a fold knows it.
type store struct {
	t      *testing.T
	e      *engine.Engine
	desc   kv.RangeDescriptor
	writes int
	fail   int // the write with this number fails
}

func rowKey(k string) keys.Key { return append(keys.TableKey(uint32(100)), k...) }

func newStore(t *testing.T) *store {
	h := machine.New(context.Background(), machine.Options{FS: vfs.NewMem(), Log: slog.New(slog.DiscardHandler)})
	e, err := engine.Open(h, "store", engine.Options{ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close(); h.Group.Stop() })
	s := &store{t: t, e: e, desc: kv.RangeDescriptor{ID: 7, Start: rowKey("a"), End: rowKey("n"), Generation: 4}}
	for i := range 3 {
		s.desc.Replicas = append(s.desc.Replicas, kv.ReplicaDescriptor{Node: kv.NodeID(i + 1), Replica: kv.ReplicaID(i + 1)})
	}
	return s
}

// row writes a version of a row, as another protocol has left it.
func (s *store) row(k, v string, at int64) {
	if err := s.write([]replica.Row{{Key: rowKey(k), Value: []byte(v), Timestamp: wall(at)}}); err != nil {
		s.t.Fatal(err)
	}
	s.writes--
}

var errFailed = errors.New("the lease is lost")

func (s *store) write(rows []replica.Row) error {
	if s.writes++; s.writes == s.fail {
		return errFailed
	}
	b := s.e.NewBatch()
	defer b.Close()
	w := mvcc.NewWriter(s.e, b)
	for _, row := range rows {
		switch {
		case !row.Timestamp.IsZero():
			if err := w.Fold(row.Key, row.Value, row.Timestamp); err != nil {
				return err
			}
		case row.Value == nil:
			b.Delete(row.Key)
		default:
			b.Put(row.Key, row.Value)
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return b.Commit(false)
}

type reports map[string]*core.Record

func (s *store) folding(rs ...reports) *rangeserver.Folding {
	f := &rangeserver.Folding{Desc: &s.desc, Generation: s.desc.Generation, Base: s.e, Now: wall(now), Write: s.write, Durable: func() error { return nil }}
	for i, r := range rs {
		one := rangeserver.Report{From: s.desc.Replicas[i]}
		for k, g := range r {
			one.Pieces = append(one.Pieces, (&core.Write{Key: rowKey(k), Record: g}).Append(nil))
		}
		f.Reports = append(f.Reports, one)
	}
	return f
}

func (s *store) fold(rs ...reports) {
	s.t.Helper()
	if err := foldRange(plain{}, s.folding(rs...)); err != nil {
		s.t.Fatal(err)
	}
}

// want expects rows, and whether there is a protocol key next to each.
func (s *store) want(k, want string, next bool) {
	s.t.Helper()
	r, err := Base(s.e, rowKey(k))
	if err != nil {
		s.t.Fatal(err)
	}
	if got := strings.TrimPrefix(show(r), "{0 0 false}{0 0 false}0|"); got != want {
		s.t.Errorf("%s is %s, want %s", k, got, want)
	}
	if v, err := s.e.Get(sideKey(rowKey(k))); err != nil || (v != nil) != next {
		s.t.Errorf("next to %s: %x, %v", k, v, err)
	}
}

// recent is an option of a moment ago.
func recent(o core.Option, by int64) core.Option {
	o.At.Wall = now - by
	return o
}

// TestFoldRange: a replica whose report does not have a record has it as the base does; what the base has of it afterwards is all that the next
// generation needs.
func TestFoldRange(t *testing.T) {
	s := newStore(t)
	for _, k := range []string{"a", "b", "c", "d"} {
		s.row(k, "v", 1)
	}
	x := recent(physical(10), 5)
	s.fold(reports{"a": with(old(), votes(core.Accepted, x)), "b": with(old(), votes(core.Accepted, x)), "c": with(old(), func(r *core.Record) { o := physical(10); r.End(&o, true) })},
		reports{"a": with(old(), votes(core.Accepted, x))})
	s.want("a", fmt.Sprintf("1=v %dacceptedtrue", x.At.Wall), true)
	s.want("b", fmt.Sprintf("1=v e%dfalse", x.At.Wall), true) // the other one has not heard of it
	s.want("c", "10=10", false)                               // its transaction ended long ago
	s.want("d", "1=v", false)

	// Replicas begin with it, and have the floor of the generation.
	s.desc.Generation++
	a := core.NewAcceptor(core.QuorumsOf(3), plain{}, nil, 0)
	a.Begin(core.Beginning{Floor: wall(now), Marks: &core.Marks{}})
	for _, k := range []string{"a", "b", "d"} {
		r, err := Base(s.e, rowKey(k))
		if err != nil {
			t.Fatal(err)
		}
		a.Load(rowKey(k), r)
	}
	for k, want := range map[string]core.Reply{"a": {Verdict: core.Accepted}, "b": {Outcome: core.Rejected}, "d": {Outcome: core.Past}} {
		if r := ask(a, &core.Request{Kind: core.Propose, Key: rowKey(k), Option: x}); r.Verdict != want.Verdict || r.Outcome != want.Outcome {
			t.Errorf("%s: %+v", k, r)
		}
	}
	// A transaction of this generation.
	y := recent(physical(10), -5)
	if r := ask(a, &core.Request{Kind: core.Propose, Key: rowKey("d"), Option: y}); r.Verdict != core.Accepted {
		t.Errorf("a new one: %+v", r)
	}
	// In the next but one, "b" need not know any more.
	f := s.folding(reports{}, reports{})
	f.Now.Wall += int64(2 * core.Remembered)
	if err := foldRange(plain{}, f); err != nil {
		t.Fatal(err)
	}
	s.want("a", fmt.Sprintf("1=v %dacceptedtrue", x.At.Wall), true)
	s.want("b", "1=v", false)
}

// TestFoldAgain: a fold that is begun again by other reports leaves what it has decided before (fastpaxos.FP10). Afterwards the range is merged into
// another one, which is in the generation of that number.
func TestFoldAgain(t *testing.T) {
	s := newStore(t)
	s.row("a", "v", 1)
	s.row("b", "v", 1)
	x, y := recent(physical(10), 5), recent(physical(11), 6)
	rejected := fmt.Sprintf("1=v e%dfalse", x.At.Wall)
	s.fold(reports{"a": with(old(), votes(core.Accepted, x))}, reports{})
	s.want("a", rejected, true)
	// The one that did not report has accepted it, too.
	both := reports{"a": with(old(), votes(core.Accepted, x)), "b": with(old(), votes(core.Accepted, y))}
	s.fold(both, both)
	s.want("a", rejected, true)
	s.want("b", fmt.Sprintf("1=v %dacceptedtrue", y.At.Wall), true)

	// An outcome of long ago, which need not be remembered. Others have not heard of it.
	z := physical(10)
	s.row("c", "v", 1)
	s.fold(reports{"c": with(old(), func(r *core.Record) { o := z; r.End(&o, true) })}, reports{})
	s.want("c", "10=10", false)
	all := reports{"c": with(old(), votes(core.Accepted, z))}
	s.fold(all, all)
	s.want("c", "10=10", false)

	s.desc.ID++
	next := with(old(), func(r *core.Record) { r.End(&x, true) })
	s.fold(reports{"a": next}, reports{"a": next})
	s.want("a", fmt.Sprintf("%d=10 e%[1]dtrue", x.At.Wall), true)
}

// ender is a gateway that knows how transactions with records elsewhere have ended.
type ender struct {
	commit.Finisher
	outcome map[core.Name]bool
	err     error

	mu    sync.Mutex // guards asked: several are finished at once
	asked []string
}

func (e *ender) Finish(_ context.Context, o *core.Option, known map[string]core.Verdict) (bool, error) {
	e.mu.Lock()
	e.asked = append(e.asked, fmt.Sprint(o.At.Wall-now, known[string(rowKey("a"))]))
	e.mu.Unlock()
	for _, v := range known {
		if v != core.Accepted && e.outcome[o.Name] {
			return false, errors.New("it was not accepted")
		}
	}
	return e.outcome[o.Name], e.err
}

func (s *store) settle(e commit.Finisher) error {
	return settle(context.Background(), &ProtocolOptions{Columns: plain{}, Finishers: func() commit.Finishers { return commit.Finishers{kv.FastPaxos: e} }}, s.folding())
}

// TestSettle: before a range has another protocol, each of its transactions is ended, and those that have committed are remembered for others.
func TestSettle(t *testing.T) {
	for fail := range 4 { // the second and third time it is done again after it has failed half-way
		s := newStore(t)
		for _, k := range []string{"a", "b", "c", "d"} {
			s.row(k, "v", 1)
		}
		wide, gone, inner, half := recent(pair(10), 5), recent(pair(11), 6), recent(physical(12), 7), recent(physical(13), 8)
		inner.Keys = []keys.Key{rowKey("b"), rowKey("c")}
		half.Keys = []keys.Key{rowKey("d"), rowKey("e")}
		s.row("f", "3", 1)
		sum := recent(less(14, 1), 9) // an update that commutes, of its own transaction
		sum.Keys = []keys.Key{rowKey("f")}
		all := reports{
			"a": with(old(), func(r *core.Record) {
				r.End(&gone, true)
				r.Base = old().Base
				wide.Seen.Base = wall(1)
				votes(core.Accepted, wide)(r)
			}),
			"b": with(old(), votes(core.Accepted, inner)), "c": with(old(), votes(core.Accepted, inner)),
			"d": with(old(), votes(core.Accepted, half)), // nothing came to "e"
			"f": with(numbered(), votes(core.Accepted, sum)),
		}
		s.fold(all, all)
		if s.fail = s.writes + fail; fail == 0 {
			s.fail = -1
		}
		e := &ender{outcome: map[core.Name]bool{wide.Name: true, gone.Name: true}}
		if err := s.settle(e); fail == 1 || fail == 2 {
			if !errors.Is(err, errFailed) {
				t.Fatal(err)
			}
			if err := s.settle(e); err != nil {
				t.Fatal(err)
			}
		} else if err != nil {
			t.Fatal(err)
		}
		slices.Sort(e.asked)
		if got := strings.Join(slices.Compact(e.asked), ", "); got != "-5 accepted" {
			t.Errorf("asked elsewhere about %s", got)
		}
		// The outcomes are kept for those who were not told: as long as somebody elsewhere may not have heard of a commit.
		r, err := Base(s.e, rowKey("a"))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []core.Name{wide.Name, gone.Name} {
			if r.Forget(wall(now + int64(time.Hour))); r.Outcome(n) != core.Accepted {
				t.Errorf("what has committed with others is %s after an hour", r.Outcome(n))
			}
		}
		s.want("a", fmt.Sprintf("%d=10 e%dtrue e%dtrue", wide.At.Wall, gone.At.Wall, wide.At.Wall), true)
		s.want("b", fmt.Sprintf("%d=12 e%dtrue", inner.At.Wall, inner.At.Wall), true)
		s.want("c", fmt.Sprintf("%d=12 e%dtrue", inner.At.Wall, inner.At.Wall), true)
		s.want("d", fmt.Sprintf("1=v e%dfalse", half.At.Wall), true)
		s.want("f", fmt.Sprintf("%d=2 e%dtrue", sum.At.Wall, sum.At.Wall), true)
	}
	// A transaction that can't be ended now.
	s := newStore(t)
	s.row("a", "v", 1)
	wide := recent(pair(10), 5)
	all := reports{"a": with(old(), votes(core.Accepted, wide))}
	s.fold(all, all)
	if err := s.settle(&ender{err: errFailed}); !errors.Is(err, errFailed) {
		t.Errorf("settled: %v", err)
	}
	if err := s.settle(nil); err == nil {
		t.Error("settled without anybody who could")
	}
	s.want("a", fmt.Sprintf("1=v %dacceptedtrue", wide.At.Wall), true)
}

// TestSettleHalfway: a range with many outstanding options, whose leaseholder dies at any of the writes. A transaction with options in its first and its last
// row has committed in both.
func TestSettleHalfway(t *testing.T) {
	for fail := 1; ; fail++ {
		s := newStore(t)
		s.desc.Generation = uint64(fail)
		all := reports{}
		inner := recent(physical(12), 7)
		inner.Keys = []keys.Key{rowKey("a"), rowKey("m")}
		for i := range foldRows {
			o := recent(physical(13), 100)
			o.Txn[1] = byte(i)
			k := fmt.Sprintf("b%03d", i)
			o.Keys, o.Seen = []keys.Key{rowKey(k)}, core.Seen{}
			all[k] = with(&core.Record{}, votes(core.Accepted, o))
		}
		for _, k := range []string{"a", "m"} {
			all[k] = with(old(), votes(core.Accepted, inner))
			s.row(k, "v", 1)
		}
		s.fold(all, all)
		s.fail = s.writes + fail
		switch err := s.settle(nil); {
		case err == nil:
			if fail < 5 {
				t.Errorf("only %d writes", fail)
			}
			return
		case !errors.Is(err, errFailed):
			t.Fatal(err)
		}
		if err := s.settle(nil); err != nil {
			t.Fatal(err)
		}
		for _, k := range []string{"a", "m"} {
			s.want(k, fmt.Sprintf("%d=12 e%dtrue", inner.At.Wall, inner.At.Wall), true)
		}
	}
}

// records is where the records of transactions that write under two protocols are.
type records struct {
	status kv.Status
	t      *testing.T
	asked  []kv.Method
}

func (r *records) Send(_ context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	r.asked = append(r.asked, b.Requests[0].Method())
	out := &kv.BatchResponse{}
	switch q := b.Requests[0].(type) {
	case *kv.QueryTxnRequest:
		if !q.Txn.Anchor.Equal(keys.Key("record")) {
			r.t.Errorf("asked at %s", q.Txn.Anchor)
		}
		out.Responses = []kv.Response{&kv.QueryTxnResponse{Exists: r.status != kv.Pending, Txn: kv.Txn{TxnMeta: q.Txn, Status: r.status}}}
	case *kv.PushTxnRequest:
		if r.status == kv.Pending {
			r.status = kv.Aborted
		}
		out.Responses = []kv.Response{&kv.PushTxnResponse{Pushee: kv.Txn{TxnMeta: q.Pushee, Status: r.status}}}
	default:
		r.t.Fatalf("%T", q)
	}
	return out, nil
}

// TestSettleByRecord: a transaction that writes in ranges of other protocols too has a record that decides.
func TestSettleByRecord(t *testing.T) {
	for status, committed := range map[kv.Status]bool{kv.Pending: false, kv.Aborted: false, kv.Committed: true} {
		s := newStore(t)
		s.row("a", "v", 1)
		x := recent(physical(10), 5)
		x.Keys, x.Anchor = []keys.Key{rowKey("a")}, keys.Key("record")
		all := reports{"a": with(old(), votes(core.Accepted, x))}
		s.fold(all, all)
		at := &records{status: status, t: t}
		f := s.folding()
		f.Sender, f.Now = at, wall(1)
		if err := settle(context.Background(), &ProtocolOptions{Columns: plain{}, Finishers: func() commit.Finishers { return nil }}, f); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("1=v e%dfalse", x.At.Wall)
		if committed {
			want = fmt.Sprintf("%d=10 e%dtrue", x.At.Wall, x.At.Wall)
		}
		s.want("a", want, true)
		if f.Now.Less(x.At) || len(at.asked) == 0 {
			t.Errorf("now %s; asked %v", f.Now, at.asked)
		}
	}
}

// others answers for ranges that are not sealed.
type others struct {
	commit.Finisher
	asked []kv.InFlightWrite
}

func (o *others) Witness(_ context.Context, _ *commit.Record, writes []kv.InFlightWrite) (bool, error) {
	o.asked = writes
	return true, nil
}

// TestInside: while a range is sealed, it answers by itself whether the options of a staging record are there.
func TestInside(t *testing.T) {
	x, gone := recent(physical(10), 5), recent(physical(10), 6)
	c := &closing{f: newStore(t).folding(), at: map[string]*core.Record{
		string(rowKey("a")): with(old(), votes(core.Accepted, x)), string(rowKey("b")): with(old(), func(r *core.Record) { o := x; r.End(&o, true) }),
		string(rowKey("c")): with(old(), func(r *core.Record) { o := x; r.End(&o, false) })}}
	for _, w := range []struct {
		at   core.Name
		keys string
		want bool
		ask  int
	}{
		{x.Name, "a", true, 0}, {x.Name, "ab", true, 0}, {x.Name, "c", false, 0}, {x.Name, "ad", false, 0}, {gone.Name, "a", false, 0},
		{x.Name, "az", true, 1}, {x.Name, "zd", false, 0},
	} {
		elsewhere := &others{}
		r := &commit.Record{TxnMeta: kv.TxnMeta{ID: w.at.Txn, WriteTimestamp: w.at.At}}
		var writes []kv.InFlightWrite
		for _, k := range w.keys {
			writes = append(writes, kv.InFlightWrite{Key: rowKey(string(k)), Protocol: kv.FastPaxos})
		}
		all, err := (&inside{Finisher: elsewhere, c: c}).Witness(context.Background(), r, writes)
		if err != nil || all != w.want || len(elsewhere.asked) != w.ask {
			t.Errorf("%s at %d: %t, %v, asked for %v", w.keys, w.at.At.Wall, all, err, elsewhere.asked)
		}
	}
}

// TestLook: what a replica shows of its range, from the base, from what is next to the rows, and from what it has heard since.
func TestLook(t *testing.T) {
	s := newStore(t)
	for _, k := range []string{"a", "b", "c", "d", "e"} {
		s.row(k, "v", 1)
	}
	x := recent(physical(10), 5)
	y := recent(physical(11), 4)
	y.Seen = core.Seen{}
	outstanding := reports{"c": with(old(), votes(core.Accepted, x)), "cc": with(&core.Record{}, votes(core.Accepted, y))} // the latter inserts a row
	s.fold(outstanding, outstanding)
	a := NewVoter(core.QuorumsOf(3), plain{}, 0)
	load := func(k string, change func(*core.Record)) {
		r, err := Base(s.e, rowKey(k))
		if err != nil {
			t.Fatal(err)
		}
		change(r)
		a.Load(rowKey(k), r)
	}
	removed, inserted := physical(20), physical(21)
	removed.Value = nil
	load("b", func(r *core.Record) { r.End(&removed, true) })
	load("bb", func(r *core.Record) { r.End(&inserted, true) })
	late := physical(30)
	late.Seen.Base = wall(25)
	load("d", votes(core.Accepted, late))
	text := func(l core.Looked, err error) string {
		if err != nil {
			return err.Error()
		}
		var b strings.Builder
		for _, r := range l.Rows {
			fmt.Fprintf(&b, "%s=%s@%d ", string(r.Key[len(rowKey("")):]), r.Value, r.Seen.Base.Wall)
		}
		for _, k := range l.Behind {
			fmt.Fprintf(&b, "behind %s ", string(k[len(rowKey("")):]))
		}
		slices.SortFunc(l.Open, func(x, y core.Outstanding) int { return x.Key.Compare(y.Key) })
		for _, o := range l.Open {
			fmt.Fprintf(&b, "open %s ", string(o.Key[len(rowKey("")):]))
		}
		if l.Resume != nil {
			fmt.Fprintf(&b, "then %s", string(l.Resume.Start[len(rowKey("")):]))
		}
		return strings.TrimSpace(b.String())
	}
	rows := mvcc.NewReader(s.e)
	defer rows.Close()
	for _, c := range []struct {
		q    core.Look
		want string
	}{
		{core.Look{Keys: []keys.Key{rowKey("c"), rowKey("b"), rowKey("bb"), rowKey("d"), rowKey("x")}}, "c=v@1 b=@20 bb=21@21 x=@0 behind d"},
		{core.Look{Span: keys.Span{Start: rowKey("a"), End: rowKey("n")}}, "a=v@1 bb=21@21 c=v@1 e=v@1 behind d"},
		{core.Look{Span: keys.Span{Start: rowKey("a"), End: rowKey("z")}}, "a=v@1 bb=21@21 c=v@1 e=v@1 behind d then n"},
		{core.Look{Span: keys.Span{Start: rowKey("a"), End: rowKey("n")}, Max: 2}, "a=v@1 bb=21@21 then c"},
		{core.Look{Span: keys.Span{Start: rowKey("b"), End: rowKey("n")}, Max: 2}, "bb=21@21 c=v@1 then d"},
		{core.Look{Span: keys.Span{Start: rowKey("a"), End: rowKey("n")}, Reverse: true}, "e=v@1 c=v@1 bb=21@21 a=v@1 behind d"},
		{core.Look{Span: keys.Span{Start: rowKey("a"), End: rowKey("n")}, Reverse: true, Max: 2}, "e=v@1 behind d then a"},
		{core.Look{Span: keys.Span{Start: rowKey("c"), End: rowKey("c").Next()}}, "c=v@1"},
		{core.Look{Span: keys.Span{Start: rowKey("c"), End: rowKey("d")}, Open: true}, "c=v@1 cc=@0 open c open cc"},
		{core.Look{Keys: []keys.Key{rowKey("cc"), rowKey("e")}, Open: true}, "cc=@0 e=v@1 open cc"},
	} {
		l, err := a.look(s.e, clock.Timestamp{}, func() *mvcc.Reader { return rows }, &s.desc, &c.q)
		if got := text(l, err); got != c.want {
			t.Errorf("%+v: %q, want %q", c.q, got, c.want)
		}
	}
}
