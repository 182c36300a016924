package coordinator

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"meridian/clock"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
)

// TestScripts plays the scripts of testdata: the driver's side of the conversation is written there, and what the
// coordinator says back is compared. Timestamps are seconds.
//
//	begin [parallel] [as-of=T] [buffer=N] [level=rc|rr]   begins at 10
//	get k [lock] | scan a b                 a read, up to the batch that is sent
//	answer [write=T] [read=T] [ERROR]       the answer to the batch that is out; prints what follows
//	put k=v | delete k | delete-range a b | cput k=v expected
//	statement T | restart-statement T       a statement begins at READ COMMITTED, or runs again
//	check k | check a b | harden T          what has to hold at the commit, below SERIALIZABLE
//	hold k at=T | hold a b at=T             the client was given locks that it asked for, then or later
//	check-held now=T                        what asks whether they are held; answer says so
//	loses-locks | held-bounds a             of coordinator.CO10
//	step | savepoint NAME | rollback-to NAME
//	overlay a b k=v ...                     what a scan of ranges with these rows reads
//	commit [one-phase] [here] [now=T]       starts a commit, prints the first batch; here: held locks are in its range
//	commit flying                           ... while what was flushed is under way
//	land [write=T | ERROR]                  the first batch of those is answered, at T or with an error
//	answer record=committed|staging|gone [write=T]   the answer to the question for the record
//	rollback | restart | deadline T | state
//
// Errors: write-too-old=T, uncertain=T, retry=T, replay, aborted, ambiguous, condition, condition-again (after a lost answer), refresh-failed, one-phase, locks-lost.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{saves: map[string]kv.Seq{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.run(t, d) })
	})
}

type script struct {
	x          transaction.Core
	c          Coordinator
	out        *kv.Batch
	committing bool
	reads      []keys.Span
	locks      []keys.Key
	saves      map[string]kv.Seq
	flying     []*kv.Batch // flushed, not landed
}

func (s *script) put(k keys.Key, v []byte) {
	if w, first := s.x.Put(k, v); first {
		w.Seen(s.c.SeenAt(k))
	}
}

func at(s int64) clock.Timestamp { return clock.Timestamp{Wall: s * int64(time.Second)} }

// reading is of clocks that differ by a second at most.
func reading(s int64) clock.Reading {
	return clock.Reading{Now: at(s), Interval: clock.Interval{Earliest: at(s - 1), Latest: at(s + 1)}}
}

func ts(t clock.Timestamp) string {
	if t.Logical == 0 {
		return fmt.Sprint(t.Wall / int64(time.Second))
	}
	return fmt.Sprintf("%d.%d", t.Wall/int64(time.Second), t.Logical)
}

// when prints a timestamp that may be zero, or the last of all.
func when(label string, t clock.Timestamp) string {
	switch t {
	case clock.Timestamp{}:
		return ""
	case clock.MaxTimestamp:
		return label + "any"
	}
	return label + ts(t)
}

func showSpan(s keys.Span) string {
	if s.Point() {
		return string(s.Start)
	}
	return fmt.Sprintf("[%s,%s)", string(s.Start), string(s.End))
}

func showSpans(l []keys.Span) string {
	var out []string
	for _, s := range l {
		out = append(out, showSpan(s))
	}
	return strings.Join(out, " ")
}

func showBatch(b *kv.Batch) string {
	var out strings.Builder
	if q, ok := b.Requests[0].(*kv.QueryTxnRequest); ok {
		return fmt.Sprintf("ask for the record at %s\n", string(q.Txn.Anchor))
	}
	fmt.Fprintf(&out, "send read=%s write=%s", ts(b.Txn.ReadTimestamp), ts(b.Txn.WriteTimestamp))
	if b.Txn.Attempt > 0 {
		fmt.Fprintf(&out, " attempt=%d", b.Txn.Attempt)
	}
	if b.Target == kv.ToNearest {
		out.WriteString(" to the nearest")
	}
	if b.CanForwardRead {
		out.WriteString(" forward")
	}
	if len(b.Txn.IgnoredSeqs) > 0 {
		fmt.Fprintf(&out, " ignored=%v", b.Txn.IgnoredSeqs)
	}
	for _, r := range b.Requests {
		out.WriteString("\n  ")
		switch r := r.(type) {
		case *kv.GetRequest:
			fmt.Fprintf(&out, "get %s %s", string(r.Key), [...]string{"plain", "key shared", "shared", "no key exclusive", "exclusive"}[r.Lock])
		case *kv.ScanRequest:
			fmt.Fprintf(&out, "scan %s", showSpan(r.Span()))
		case *kv.PutRequest:
			fmt.Fprintf(&out, "put %s=%s seq=%d%s", string(r.Key), r.Value, r.Seq, when(" seen=", r.Seen))
		case *kv.CPutRequest:
			fmt.Fprintf(&out, "cput %s=%s expected=%q seq=%d", string(r.Key), r.Value, r.Expected, r.Seq)
		case *kv.DeleteRequest:
			fmt.Fprintf(&out, "delete %s seq=%d%s", string(r.Key), r.Seq, when(" seen=", r.Seen))
		case *kv.DeleteRangeRequest:
			fmt.Fprintf(&out, "delete-range %s seq=%d", showSpan(r.Span()), r.Seq)
		case *kv.RefreshRequest:
			fmt.Fprintf(&out, "refresh %s from=%s", string(r.Key), ts(r.From))
		case *kv.RefreshRangeRequest:
			fmt.Fprintf(&out, "refresh %s from=%s", showSpan(r.Span()), ts(r.From))
		case *kv.EndTxnRequest:
			fmt.Fprintf(&out, "end-txn anchor=%s commit=%v", string(r.Anchor), r.Commit)
			if r.OnePhase {
				out.WriteString(" one-phase")
			}
			out.WriteString(when(" upto=", r.Upto))
			out.WriteString(when(" deadline=", r.Deadline))
			for _, h := range r.Held {
				fmt.Fprintf(&out, " held=%s from=%s", showSpan(h.Span), ts(h.From))
			}
			if len(r.LockSpans) > 0 {
				fmt.Fprintf(&out, " locks={%s}", showSpans(r.LockSpans))
			}
			for _, w := range r.InFlight {
				fmt.Fprintf(&out, " in-flight=%s/%d", string(w.Key), w.Seq)
			}
		case *kv.CheckLocksRequest:
			fmt.Fprintf(&out, "check-locks %s%s", showSpan(r.Span()), when(" from=", r.From))
		default:
			fmt.Fprintf(&out, "%T", r)
		}
	}
	return out.String() + "\n"
}

func showCleanup(k *transaction.Cleanup) string {
	if k == nil {
		return "nothing to clean up\n"
	}
	return fmt.Sprintf("clean up as %s: end=%v spans={%s} record=%v\n", k.Status, k.End, showSpans(k.Spans), k.Record)
}

func (s *script) parseError(name string) error {
	value := func(prefix string) (clock.Timestamp, bool) {
		v, ok := strings.CutPrefix(name, prefix+"=")
		var n int64
		fmt.Sscan(v, &n)
		return at(n), ok
	}
	if t, ok := value("write-too-old"); ok {
		return &kv.WriteTooOldError{Actual: t}
	}
	if t, ok := value("uncertain"); ok {
		return &kv.UncertaintyError{RetryAt: t}
	}
	if t, ok := value("retry"); ok {
		return &kv.TxnRetryError{WriteTimestamp: t}
	}
	return map[string]error{
		"replay":          &kv.TxnRetryError{Reason: kv.RetryPossibleReplay},
		"aborted":         &kv.TxnAbortedError{},
		"ambiguous":       &kv.AmbiguousError{Reason: "lost"},
		"condition":       &kv.ConditionFailedError{},
		"condition-again": &kv.RepeatedError{Err: &kv.ConditionFailedError{}},
		"refresh-failed":  &kv.RefreshFailedError{Key: keys.Key("k")},
		"one-phase":       &kv.OnePhaseError{},
		"deadlock":        &kv.DeadlockError{},
		"unavailable":     &kv.UnavailableError{},
		"locks-lost":      &kv.LocksLostError{},
		"not-closed":      &kv.NotClosedError{},
	}[name]
}

func showErr(err error) string {
	var retry *transaction.RetryError
	if errors.As(err, &retry) {
		return fmt.Sprintf("restart: %s\n", retry.Reason)
	}
	return fmt.Sprintf("error: %T\n", err)
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	var args []string
	flags := map[string]string{}
	for _, a := range d.CmdArgs {
		if len(a.Vals) > 0 {
			flags[a.Key] = a.Vals[0]
		}
		args = append(args, a.Key)
	}
	number := func(name string) int64 {
		var n int64
		fmt.Sscan(flags[name], &n)
		return n
	}
	has := func(name string) bool {
		for _, a := range args {
			if a == name {
				return true
			}
		}
		return false
	}
	switch d.Cmd {
	case "begin":
		o := transaction.Options{ID: kv.TxnID{1}, Gateway: 1, ParallelCommit: has("parallel"), BufferBytes: int(number("buffer"))}
		if has("as-of") {
			o.AsOf = at(number("as-of"))
			o.Near = map[string]transaction.Nearness{"first": transaction.NearestFirst, "only": transaction.NearestOnly}[flags["near"]]
		}
		o.Isolation = map[string]kv.Isolation{"rr": kv.RepeatableRead, "rc": kv.ReadCommitted}[flags["level"]]
		*s = script{saves: map[string]kv.Seq{}}
		s.x.Init(o, reading(10))
		s.c.Init(&s.x)
		return ""
	case "get":
		k := keys.Key(args[0])
		if v, ok := s.x.Buffered(k); ok && !has("lock") {
			return fmt.Sprintf("buffered %q\n", v)
		}
		g := &kv.GetRequest{Key: k}
		s.out, s.reads = &kv.Batch{Requests: []kv.Request{g}}, []keys.Span{{Start: k}}
		if has("lock") {
			g.Lock = kv.Exclusive
			s.locks = []keys.Key{k}
			s.x.NoteLock(keys.Span{Start: k})
			s.c.PrepareLocking(s.out, k, false)
		} else {
			s.c.Prepare(s.out)
		}
		return showBatch(s.out)
	case "scan":
		sp := keys.Span{Start: keys.Key(args[0]), End: keys.Key(args[1])}
		s.out, s.reads = &kv.Batch{Requests: []kv.Request{&kv.ScanRequest{Start: sp.Start, End: sp.End}}}, []keys.Span{sp}
		s.c.Prepare(s.out)
		return showBatch(s.out)
	case "answer":
		if status, ok := flags["record"]; ok {
			return s.record(status, at(number("write")))
		}
		return s.answer(args, number, has)
	case "put":
		for k, v := range flags {
			s.put(keys.Key(k), []byte(v))
		}
		return ""
	case "cput":
		for k, v := range flags {
			s.x.CPut(keys.Key(k), []byte(v), nil)
		}
		return ""
	case "delete":
		s.put(keys.Key(args[0]), nil)
		return ""
	case "delete-range":
		s.x.DeleteRange(keys.Span{Start: keys.Key(args[0]), End: keys.Key(args[1])})
		return ""
	case "flush":
		if !s.x.FlushNeeded() {
			return "no need\n"
		}
		out := ""
		for _, b := range s.x.TakeFlush(nil) {
			s.c.PrepareFlush(b)
			out += showBatch(b)
			s.out = b
			s.flying = append(s.flying, b)
		}
		return out
	case "land":
		return s.land(args, number)
	case "wanted": // of the last flush
		s.out.Requests = s.x.Wanted(s.out.Requests)
		s.c.PrepareFlush(s.out)
		return showBatch(s.out)
	case "statement", "restart-statement", "harden":
		var n int64
		fmt.Sscan(args[0], &n)
		switch {
		case d.Cmd == "statement":
			s.x.BeginStatement()
			s.c.BeginStatement(reading(n))
		case d.Cmd == "harden":
			if s.x.Level() != kv.Serializable { // as txn.Txn does it
				s.x.BeginStatement()
				s.c.BeginStatement(reading(n))
				s.x.Harden()
			}
		case !s.x.MayRestartStatement():
			return "can't\n"
		default:
			s.c.RestartStatement(reading(n))
		}
		return fmt.Sprintf("reads at %s\n", ts(s.x.Txn().ReadTimestamp))
	case "check":
		if len(args) == 1 {
			s.c.NoteCheck(keys.Span{Start: keys.Key(args[0])}, true)
		} else {
			s.c.NoteCheck(keys.Span{Start: keys.Key(args[0]), End: keys.Key(args[1])}, false)
		}
		return ""
	case "hold":
		sp := keys.Span{Start: keys.Key(args[0])}
		if args[1] != "at" {
			sp.End = keys.Key(args[1])
		}
		s.c.NoteHeld(sp, at(number("at")))
		return ""
	case "check-held":
		if s.out = s.c.CheckHeld(at(number("now"))); s.out == nil {
			return "nothing is held\n"
		}
		return showBatch(s.out)
	case "loses-locks":
		return fmt.Sprintln(s.c.LosesLocks())
	case "held-bounds":
		first, last := s.c.HeldBounds(keys.Key(args[0]), keys.Key(args[0]))
		return fmt.Sprintf("%s to %s\n", string(first), string(last))
	case "step":
		s.x.StepStatement()
		return ""
	case "savepoint":
		s.saves[args[0]] = s.x.Seq()
		return ""
	case "rollback-to":
		s.x.RollbackTo(s.saves[args[0]])
		s.x.StepStatement()
		return ""
	case "overlay":
		var rows []kv.KeyValue
		for _, a := range d.CmdArgs[2:] {
			rows = append(rows, kv.KeyValue{Key: keys.Key(a.Key), Value: []byte(a.Vals[0])})
		}
		var out []string
		for _, r := range s.x.Overlay(rows, keys.Span{Start: keys.Key(args[0]), End: keys.Key(args[1])}, false) {
			out = append(out, fmt.Sprintf("%s=%s", string(r.Key), r.Value))
		}
		return strings.Join(out, " ") + "\n"
	case "commit":
		s.committing = true
		if !has("flying") {
			s.flying = nil
		}
		if s.x.ReadOnly() {
			return "read-only; " + showCleanup(s.x.CommitReadOnly(has("record")))
		}
		s.c.HeldInRange(has("here"))
		s.c.StartCommit(has("one-phase"), has("flying"), false, at(number("now")))
		return s.next()
	case "rollback":
		return showCleanup(s.x.Rollback(has("record")))
	case "restart":
		k, fresh := s.x.Restart(kv.TxnID{2}, reading(number("now")), has("record"))
		s.c.Restarted(fresh)
		s.committing = false
		return fmt.Sprintf("id=%d %s", s.x.Txn().ID[0], showCleanup(k))
	case "deadline":
		var n int64
		fmt.Sscan(args[0], &n)
		s.x.SetDeadline(at(n))
		return ""
	case "state":
		return fmt.Sprintf("read=%s write=%s limit=%s reads={%s} locks={%s}\n", ts(s.x.Txn().ReadTimestamp), ts(s.x.Txn().WriteTimestamp),
			ts(s.x.Txn().UncertaintyLimit), showSpans(s.c.reads.List()), showSpans(s.x.Locks().List()))
	}
	t.Fatalf("unknown command %s", d.Cmd)
	return ""
}

// land answers the first batch that is under way.
func (s *script) land(args []string, number func(string) int64) string {
	b := s.flying[0]
	s.flying = s.flying[1:]
	txn := *b.Txn
	txn.WriteTimestamp = txn.WriteTimestamp.Forward(at(number("write")))
	var err error
	for _, a := range args {
		if e := s.parseError(fmt.Sprintf("%s=%d", a, number(a))); e != nil {
			err = e
		} else if e := s.parseError(a); e != nil {
			err = e
		}
	}
	doubt := s.c.Doubt(err, at(12))
	var ambiguous *kv.AmbiguousError
	switch a := s.c.Answered(b, &kv.BatchResponse{Txn: &txn}, err); {
	case errors.As(doubt, &ambiguous):
		return showErr(doubt)
	case a.Verdict == Fail:
		return showErr(a.Err)
	case a.Verdict == Again:
		s.c.PrepareFlush(b)
		s.flying = append(s.flying, b)
		return "again: " + showBatch(b)
	}
	if len(s.flying) > 0 || s.c.Overlaps() {
		return "done\n"
	}
	s.c.Landed()
	return s.next()
}

// next prints what the commit sends next.
func (s *script) next() string {
	if s.c.Overlaps() {
		var list []kv.InFlightWrite
		for _, b := range s.flying {
			list = s.x.InFlight(list, kv.Leader, b.Requests)
		}
		s.c.Beside(list)
	}
	if s.c.commit.stage == stageLanding && len(s.flying) > 0 {
		return "what is under way has to land\n"
	}
	b, err := s.c.CommitNext()
	if err != nil {
		return showErr(err)
	}
	if b == nil {
		when, later, _ := s.x.Committed()
		return fmt.Sprintf("committed at %s; %s", ts(when), showCleanup(later))
	}
	s.out = b
	return showBatch(b)
}

// record answers the question for the record.
func (s *script) record(status string, write clock.Timestamp) string {
	q := &kv.QueryTxnResponse{Exists: status != "gone"}
	q.Txn.WriteTimestamp = write
	q.Txn.Status = map[string]kv.Status{"committed": kv.Committed, "staging": kv.Staging}[status]
	if err := s.c.CommitAnswered(&kv.BatchResponse{Responses: []kv.Response{q}}, nil, clock.Timestamp{}); err != nil {
		return showErr(err)
	}
	return s.next()
}

func (s *script) answer(args []string, number func(string) int64, has func(string) bool) string {
	r := &kv.BatchResponse{Txn: s.out.Txn}
	txn := *s.out.Txn
	if has("write") {
		txn.WriteTimestamp = at(number("write"))
		r.Txn = &txn
	}
	if has("read") {
		txn.ReadTimestamp = at(number("read"))
		r.Txn = &txn
	}
	end := &kv.EndTxnResponse{CommitTimestamp: txn.WriteTimestamp, Staged: has("staged")}
	if has("elsewhere") {
		end.Unresolved = []keys.Span{{Start: keys.Key("elsewhere")}}
	}
	r.Responses = []kv.Response{end}
	if s.c.commit.verify {
		r.Responses = nil
		for range s.out.Requests {
			g := &kv.GetResponse{Value: []byte("there")}
			if has("gone") {
				g.Value = nil
			}
			r.Responses = append(r.Responses, g)
		}
	}
	var err error
	for _, a := range args {
		name := a
		if n := number(a); n != 0 {
			name = fmt.Sprintf("%s=%d", a, n)
		}
		if e := s.parseError(name); e != nil {
			err = e
		}
	}
	if s.committing {
		if err := s.c.CommitAnswered(r, err, at(cmp.Or(number("now"), 11))); err != nil {
			return showErr(err)
		}
		return s.next()
	}
	if _, ok := s.out.Requests[0].(*kv.CheckLocksRequest); ok {
		if err := s.c.HeldChecked(s.out, err); err != nil {
			return showErr(err)
		}
		return "held\n"
	}
	if _, ok := s.out.Requests[0].(*kv.RefreshRequest); ok || has("refreshed") {
		if err := s.c.Refreshed(err); err != nil {
			return showErr(err)
		}
		return "refreshed\n"
	}
	a := s.c.Answered(s.out, r, err)
	switch a.Verdict {
	case Done:
		for _, sp := range s.reads {
			s.c.NoteRead(sp)
		}
		for _, k := range s.locks {
			s.c.NoteLocked(k)
		}
		s.locks = nil
		return "done\n"
	case Fail:
		return showErr(a.Err)
	}
	if a.Refresh == nil {
		return "again\n"
	}
	s.out = a.Refresh
	return showBatch(s.out)
}
