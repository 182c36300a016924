package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"meridian/clock"
	"meridian/commit/leader/tscache"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica/lease"
)

// TestScripts runs testdata. Each line of input is one operation of a transaction or of nobody, done in order;
// an operation that waits is left waiting, and its result is printed after the command during which it came.
//
//	t1 get k | t1 get k lock=update|share wait=nowait|skip timeout=50ms | t1 scan a-c limit=2 lock=..
//	t1 first c,a,b limit=1 lock=update weak (the first of these keys that are free; weak: at READ COMMITTED)
//	t1 put k v | t1 lay (send buffered writes as intents) | t1 commit | t1 commit parallel | t1 rollback
//	t1 stage (only the record) | t1 late | t1 whole (a parallel commit in one range) | t1 copy (the writes that were sent last come again) | t1 tell (ranges hear that it committed) | t1 settle | t1 resolve k k2 | t1 die | t1 restart (the next attempt, of the same identity)
//	t1 merge (writes the intents that make one range of both) | t1 subsume | t1 absorb (as the trigger does) | t1 where (its timestamp is)
//	negotiate a-c (up to when stale reads can be served)
//	get k | put k v | cput k v expected | del k | delrange a c | add k 3
//
// Commands: run, wait <duration>, close <duration> (what is that long ago), ranges (writes the second one's descriptor, which merges change), count (what the range keeps), lease (a new lease), refuse on|off,
// forget (the store restarts: it no longer knows which transactions have committed), hold (the next command stays in the
// log until free).
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			c, stop := newCluster(t, 1, 0, "m")
			ctx, cancel := context.WithCancel(context.Background())
			s := &scripted{c: c, ctx: ctx, txns: map[string]*testTxn{}}
			defer func() {
				cancel()
				synctest.Wait()
				stop()
			}()
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.command(t, d) })
		})
	})
}

type scripted struct {
	c       *cluster
	ctx     context.Context
	txns    map[string]*testTxn
	pending []*pendingOp
	right   *frozen // the second range, once a merge is spoken of
	told    *kv.SubsumeResponse
}

type pendingOp struct {
	text   string
	result string
	done   atomic.Bool
}

func (s *scripted) command(t *testing.T, d *datadriven.TestData) string {
	var out strings.Builder
	switch d.Cmd {
	case "run":
		for _, line := range strings.Split(d.Input, "\n") {
			op := &pendingOp{text: line}
			s.pending = append(s.pending, op)
			go func() {
				op.result = s.op(line)
				op.done.Store(true)
			}()
			synctest.Wait()
			s.report(&out, op)
		}
		return out.String()
	case "wait":
		dur, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(dur)
		synctest.Wait()
		s.report(&out, nil)
		if out.Len() == 0 {
			return "nothing\n"
		}
		return out.String()
	case "count":
		for i, p := range s.c.ps {
			_, locks, pushes := p.QueueLengths()
			records := 0
			it := s.c.engine
			desc := p.r.Desc()
			span := keys.RangeLocalSpan(desc.Start, desc.End)
			records = countKeys(t, it, span)
			fmt.Fprintf(&out, "r%d: %d intents, %d locks, %d pushes, %d records\n", i+1, p.r.Stats().IntentCount, locks, pushes, records)
		}
		return out.String()
	case "lease":
		if d.HasArg("elsewhere") {
			s.c.o.Cache = tscache.New(tscache.Options{}, clock.Timestamp{}) // of a node that has served nothing
		}
		for i, p := range s.c.ps {
			by := uint64(2) // somebody else held it in between
			if d.HasArg("again") {
				by = 1
			}
			seq := s.c.reps[i].Lease.Add(by)
			s.c.reps[i].pause.Store(true) // it is not served before it knows what there is
			p.LeaseChanged(lease.Lease{Sequence: seq, Start: s.c.clock.Now()}, true)
			s.c.reps[i].pause.Store(false)
		}
		synctest.Wait()
		s.report(&out, nil)
		return out.String()
	case "ranges":
		right := s.c.reps[1].Desc()
		s.right = &frozen{cluster: s.c, t: t, desc: right, own: keys.RangeDescriptorKey(right.Start), entry: keys.RangeMetaKey(right.End)}
		made := s.right.change(s.right.own, right, right)
		s.right.end(made, true)
		s.right.resolve(made, kv.Committed, s.right.own)
		s.right.resolve(made, kv.Committed, s.right.entry)
		return "ok\n"
	case "forget":
		s.c.forget()
		return "ok\n"
	case "hold":
		s.c.freed = make(chan struct{})
		s.c.holdNext.Store(true)
		return "ok\n"
	case "free":
		close(s.c.freed)
		synctest.Wait()
		s.report(&out, nil)
		return out.String()
	case "close":
		ago, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range s.c.reps {
			r.Closer().Close(s.c.clock.Now().Add(-ago))
		}
		return "ok\n"
	case "refuse":
		on := d.CmdArgs[0].Key == "on"
		for i, p := range s.c.ps {
			s.c.reps[i].refuse.Store(on)
			if on {
				p.LeaseChanged(lease.Lease{}, false)
			}
		}
		synctest.Wait()
		s.report(&out, nil)
		return out.String()
	case "metrics":
		m := s.c.o.Metrics
		if d.HasArg("external") {
			return fmt.Sprintf("wounded %d, deadlocks %d, waited for what they have seen %d\n", m.Wounded.Load(), m.Deadlocks.Load(), m.SeenWaits.Load())
		}
		if d.HasArg("moves") {
			return fmt.Sprintf("moved by their ranges %d, refused %d\n", m.Forwarded.Load(), m.RetriesSerialize.Load()+m.RetriesWriteTooOld.Load())
		}
		return fmt.Sprintf("one-phase %d, commits %d, stages %d, recoveries %d, pushes %d, deadlocks %d, expired %d\n",
			m.OnePhaseCommits.Load(), m.Commits.Load(), m.Stages.Load(), m.Recoveries.Load(), m.Pushes.Load(),
			m.Deadlocks.Load(), m.Expired.Load())
	}
	return "unknown command"
}

func (s *scripted) report(out *strings.Builder, last *pendingOp) {
	for _, op := range s.pending {
		switch {
		case op.done.Load():
			fmt.Fprintf(out, "%s: %s\n", op.text, op.result)
		case op == last:
			fmt.Fprintf(out, "%s: waits\n", op.text)
		}
	}
	s.pending = slices.DeleteFunc(s.pending, func(op *pendingOp) bool { return op.done.Load() })
}

func value(v []byte) string {
	if v == nil {
		return "nothing"
	}
	return string(v)
}

func (s *scripted) explain(err error) string {
	name := func(id kv.TxnID) string {
		for n, x := range s.txns {
			if x.txn.ID == id {
				return n
			}
		}
		return "nobody"
	}
	var dead *kv.DeadlockError
	var na *kv.LockNotAvailableError
	var ab *kv.TxnAbortedError
	var cf *kv.ConditionFailedError
	var nl *kv.NotLeaseholderError
	var gone *kv.RangeNotFoundError
	switch {
	case errors.Is(err, errRestart):
		return "must restart: a read was overwritten"
	case errors.As(err, &dead):
		var ns []string
		for _, id := range dead.Cycle {
			ns = append(ns, name(id))
		}
		return "deadlock of " + strings.Join(ns, ", ")
	case errors.As(err, &na) && na.Timeout:
		return fmt.Sprintf("timeout: %s is locked by %s", string(na.Key), name(na.Holder))
	case errors.As(err, &na):
		return fmt.Sprintf("%s is locked by %s", string(na.Key), name(na.Holder))
	case errors.As(err, &ab):
		return "aborted: " + ab.Reason
	case errors.As(err, &cf):
		return "condition failed, is " + value(cf.Actual)
	case errors.As(err, &nl):
		return "not leaseholder"
	case errors.As(err, &gone):
		return "the range is gone"
	}
	return err.Error()
}

func (s *scripted) op(line string) string {
	ctx := s.ctx
	f := strings.Fields(line)
	if len(f[0]) > 1 && f[0][0] == 't' && f[0][1] >= '0' && f[0][1] <= '9' {
		x := s.txns[f[0]]
		if x == nil {
			x = s.c.begin()
			s.txns[f[0]] = x
		}
		out, err := s.txnOp(ctx, x, f[1:])
		if err != nil {
			return s.explain(err)
		}
		return out
	}
	var (
		r   kv.Request
		at  clock.Timestamp
		max int64
	)
	switch k := keys.Key(f[1]); f[0] {
	case "get":
		r = &kv.GetRequest{Key: k}
	case "put":
		r = &kv.PutRequest{Key: k, Value: []byte(f[2])}
	case "cput":
		req := &kv.CPutRequest{Key: k, Value: []byte(f[2])}
		if len(f) > 3 {
			req.Expected = []byte(f[3])
		}
		r = req
	case "del":
		r = &kv.DeleteRequest{Key: k}
	case "delrange":
		r = &kv.DeleteRangeRequest{Start: k, End: keys.Key(f[2])}
	case "clear":
		r = &kv.ClearRequest{Start: k, End: keys.Key(f[2])}
	case "add":
		n, _ := strconv.Atoi(f[2])
		r = &kv.AddRequest{Key: k, Delta: int64(n)}
	case "negotiate":
		start, end, _ := strings.Cut(f[1], "-")
		q := &kv.NegotiateRequest{Start: keys.Key(start), End: keys.Key(end)}
		if len(f) > 2 {
			q.Least = s.c.clock.Now() // whatever can be served is too early
		}
		r = q
	case "scan":
		start, end, _ := strings.Cut(f[1], "-")
		scan := &kv.ScanRequest{Start: keys.Key(start), End: keys.Key(end)}
		for _, a := range f[2:] {
			if n, ok := strings.CutPrefix(a, "limit="); ok {
				max, _ = strconv.ParseInt(n, 10, 64)
			}
			scan.Reverse = scan.Reverse || a == "reverse"
		}
		r = scan
	case "load": // at the time at which the transaction reads
		load := &kv.LoadRequest{Mode: map[string]kv.LoadMode{"alone": kv.LoadAlone, "shared": kv.LoadShared, "unread": kv.LoadUnread}[f[2]]}
		for _, row := range f[3:] {
			k, v, _ := strings.Cut(row, "=")
			load.Rows = append(load.Rows, kv.KeyValue{Key: keys.Key(k), Value: []byte(v)})
		}
		r, at = load, s.txns[f[1]].txn.ReadTimestamp
	default:
		return "unknown operation"
	}
	resp, err := s.c.Send(ctx, &kv.Batch{Header: kv.Header{Timestamp: at, MaxKeys: max}, Requests: []kv.Request{r}})
	if err != nil {
		return s.explain(err)
	}
	switch r := resp.Responses[0].(type) {
	case *kv.GetResponse:
		return value(r.Value)
	case *kv.DeleteRangeResponse:
		return fmt.Sprintf("%d deleted", r.Deleted)
	case *kv.LoadResponse:
		var refused []string
		for _, k := range r.Refused {
			refused = append(refused, string(k))
		}
		if len(refused) > 0 {
			return "all but " + strings.Join(refused, " ")
		}
	case *kv.NegotiateResponse:
		if !r.Intent {
			return fmt.Sprintf("closed, %t", r.Timestamp == r.Closed)
		}
		for name, x := range s.txns {
			if x.txn.WriteTimestamp.Prev() == r.Timestamp {
				return "just below " + name
			}
		}
		return "below an intent"
	case *kv.AddResponse:
		return strconv.Itoa(int(r.Value))
	case *kv.ScanResponse:
		return rows(r)
	}
	return "ok"
}

func rows(r *kv.ScanResponse) string {
	var b strings.Builder
	for _, row := range r.Rows {
		fmt.Fprintf(&b, "%s=%s ", string(row.Key), row.Value)
	}
	if r.Resume != nil {
		fmt.Fprintf(&b, "more from %s", string(r.Resume.Start))
	}
	if b.Len() == 0 {
		return "nothing"
	}
	return strings.TrimSpace(b.String())
}

func (s *scripted) txnOp(ctx context.Context, x *testTxn, f []string) (string, error) {
	lock, limit := kv.NoLock, int64(0)
	x.policy, x.timeout, x.parallel = kv.Block, 0, false
	var args []string
	for _, a := range f[1:] {
		switch k, v, opt := strings.Cut(a, "="); {
		case a == "parallel":
			x.parallel = true
		case a == "weak":
			x.txn.Isolation = kv.ReadCommitted
		case a == "external":
			x.txn.Born = x.txn.MinTimestamp
		case !opt:
			args = append(args, a)
		case k == "lock" && v == "update":
			lock = kv.Exclusive
		case k == "lock":
			lock = kv.Shared
		case k == "wait" && v == "nowait":
			x.policy = kv.NoWait
		case k == "wait":
			x.policy = kv.SkipLocked
		case k == "timeout":
			x.timeout, _ = time.ParseDuration(v)
		case k == "limit":
			limit, _ = strconv.ParseInt(v, 10, 64)
		case k == "priority":
			n, _ := strconv.Atoi(v)
			x.txn.Priority = int32(n)
		}
	}
	switch f[0] {
	case "begin":
		return "ok", nil
	case "get":
		v, err := x.get(ctx, args[0], lock)
		return value(v), err
	case "scan":
		start, end, _ := strings.Cut(args[0], "-")
		r, err := x.scan(ctx, start, end, lock, limit)
		if err != nil {
			return "", err
		}
		return rows(r), nil
	case "first":
		var reqs []kv.Request
		for _, k := range strings.Split(args[0], ",") {
			reqs = append(reqs, &kv.ScanRequest{Start: keys.Key(k), End: keys.Key(k).Next(), Lock: lock})
			x.anchor(keys.Key(k))
			x.locks = append(x.locks, keys.Span{Start: keys.Key(k)})
		}
		b := &kv.Batch{Header: x.header(), Requests: reqs}
		b.MaxKeys, b.CanForwardRead = limit, false
		r, err := x.c.Send(ctx, b)
		if err != nil {
			return "", err
		}
		var out []string
		for i, r := range r.Responses {
			switch scan := r.(*kv.ScanResponse); {
			case scan.Resume != nil:
				out = append(out, string(reqs[i].Span().Start)+" left")
			case len(scan.Rows) == 0:
				out = append(out, string(reqs[i].Span().Start)+" none")
			default:
				out = append(out, fmt.Sprintf("%s=%s", string(scan.Rows[0].Key), scan.Rows[0].Value))
			}
		}
		return strings.Join(out, " "), nil
	case "put":
		x.put(args[0], []byte(args[1]))
		return "buffered", nil
	case "lay":
		return "ok", x.lay(ctx)
	case "commit":
		return "committed", x.commit(ctx)
	case "stage":
		// The record alone arrives, and the first write: the coordinator dies on the way.
		end := &kv.EndTxnRequest{Anchor: x.txn.Anchor, Commit: true, LockSpans: x.locks}
		for _, w := range x.writes {
			k, seq, _ := written(w)
			end.InFlight = append(end.InFlight, kv.InFlightWrite{Key: k, Seq: seq})
		}
		_, err := x.send(ctx, x.writes[0], end)
		return "staged", err
	case "whole":
		// All writes of a parallel commit are in the range of the record.
		end := &kv.EndTxnRequest{Anchor: x.txn.Anchor, Commit: true, LockSpans: x.locks}
		for _, w := range x.writes {
			k, seq, _ := written(w)
			end.InFlight = append(end.InFlight, kv.InFlightWrite{Key: k, Seq: seq})
		}
		_, err := x.send(ctx, append(slices.Clone(x.writes), end)...)
		x.writes = nil
		return "committed", err
	case "copy":
		// The network brings the writes that were sent last for the second time, and nobody waits for the answer.
		_, err := x.c.Send(ctx, x.copy)
		switch err.(type) {
		case *kv.WriteTooOldError, *kv.TxnRetryError:
			return "refused", nil // which range says why first is a matter of chance
		}
		return "served", err
	case "late":
		// A write that was staged arrives after all.
		b := &kv.Batch{Header: x.header(), Requests: x.writes[1:]}
		resp, err := x.c.Send(ctx, b)
		if err != nil {
			return "", err
		}
		if x.txn.WriteTimestamp.Less(resp.Txn.WriteTimestamp) {
			return "written, but later than staged", nil
		}
		return "written", nil
	case "tell":
		// Its coordinator has all answers, and tells the ranges that it has committed.
		return "told", x.tell(ctx)
	case "settle":
		// Steps that the coordinator takes late: the record first, then the intents, then the record again (txn.ST1, txn.ST2).
		reqs := []kv.Request{&kv.RecoverTxnRequest{Txn: x.txn.TxnMeta, ImplicitlyCommits: true}}
		for _, s := range x.locks {
			reqs = append(reqs, &kv.ResolveIntentRequest{Key: s.Start, Txn: x.txn.TxnMeta, Status: kv.Committed})
		}
		reqs = append(reqs, &kv.GCRequest{Start: x.txn.Anchor, Records: []keys.Key{keys.TxnKey(x.txn.Anchor, x.txn.ID)}})
		for _, r := range reqs {
			if _, err := x.c.Send(ctx, &kv.Batch{Requests: []kv.Request{r}}); err != nil {
				return "", err
			}
		}
		return "settled", nil
	case "resolve":
		// Somebody resolves these keys, as their transaction committed.
		b := &kv.Batch{}
		for _, k := range f[1:] {
			b.Requests = append(b.Requests, &kv.ResolveIntentRequest{Key: keys.Key(k), Txn: x.txn.TxnMeta, Status: kv.Committed})
		}
		_, err := x.c.Send(ctx, b)
		return "resolved", err
	case "heartbeat":
		resp, err := x.c.Send(ctx, &kv.Batch{Header: x.header(), Requests: []kv.Request{
			&kv.HeartbeatTxnRequest{Anchor: x.txn.Anchor}}})
		if err != nil {
			return "", err
		}
		return resp.Responses[0].(*kv.HeartbeatTxnResponse).Txn.Status.String(), nil
	case "restart":
		x.restart()
		return "ok", nil
	case "rollback":
		return "rolled back", x.rollback(ctx)
	case "merge":
		f := s.right
		return "laid", f.lay(x, keys.Key("a"), nil, f.absorbed())
	case "subsume":
		resp, err := x.c.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.SubsumeRequest{Key: s.right.desc.Start, Txn: x.txn.TxnMeta}}})
		if err != nil {
			return "", err
		}
		s.told = resp.Responses[0].(*kv.SubsumeResponse)
		return "frozen", nil
	case "absorb":
		x.c.reps[0].SetDesc(s.right.absorbed())
		x.c.ps[0].Absorb(s.right.absorbed(), x.c.ps[1].Subsume(), s.told.Freeze)
		return "absorbed", nil
	case "where":
		if s.told.Freeze.Less(x.txn.WriteTimestamp) {
			return "above the freeze", nil
		}
		return "at or below the freeze", nil
	}
	return "unknown operation", nil
}
