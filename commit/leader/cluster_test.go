package leader

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"meridian/clock"
	"meridian/commit/leader/leadertest"
	"meridian/host/machine"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
	"meridian/replica/lease"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// fakeReplica is a range's replica in a cluster.
type fakeReplica struct {
	leadertest.Replica
	c      *cluster
	refuse atomic.Bool // no lease
	pause  atomic.Bool // the next who asks for statistics waits until nobody else can go on
	// meanwhile is what happens as the next one asks for them, in the middle of an evaluation.
	meanwhile atomic.Pointer[func()]
	wrote     atomic.Pointer[clock.Timestamp] // the last command's WriteAt
}

func (r *fakeReplica) Stats() mvcc.Stats {
	if r.pause.Swap(false) {
		synctest.Wait()
	}
	if f := r.meanwhile.Swap(nil); f != nil {
		(*f)()
	}
	return r.Replica.Stats()
}

func (r *fakeReplica) CheckLease(at clock.Timestamp) (uint64, bool) {
	seq, ok := r.Replica.CheckLease(at)
	return seq, ok && !r.refuse.Load()
}

func (r *fakeReplica) EnsureLease(ctx context.Context, at clock.Timestamp) (uint64, error) {
	if r.refuse.Load() {
		return 0, &kv.NotLeaseholderError{Range: r.RangeID()}
	}
	return r.Replica.EnsureLease(ctx, at)
}

func (r *fakeReplica) Propose(ctx context.Context, cmd *replica.Command) error {
	r.c.proposals.Add(1)
	at := cmd.WriteAt
	r.wrote.Store(&at)
	if r.c.holdNext.CompareAndSwap(true, false) {
		<-r.c.freed
	}
	return r.Replica.Propose(ctx, cmd)
}

// cluster is some ranges of one store, and their clients.
type cluster struct {
	t         testing.TB
	o         *Options
	engine    *engine.Engine
	clock     *clock.Clock
	reps      []*fakeReplica
	ps        []*Participant
	proposals atomic.Int64
	// holdNext has the next proposal wait until something comes from freed.
	holdNext atomic.Bool
	freed    chan struct{}
	rngMu    sync.Mutex
	rng      *rand.Rand
	latency  time.Duration // of consensus, at most
	nextTxn  atomic.Uint32
	audits   atomic.Int64
}

// newCluster makes a range for each pair of neighbours among Min, bounds and Max. stop has to be called inside of the
// bubble.
func newCluster(t testing.TB, seed int64, latency time.Duration, bounds ...string) (c *cluster, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	h := machine.New(ctx, machine.Options{FS: vfs.NewMem()})
	e, err := engine.Open(h, "store", engine.Options{CacheBytes: 64 << 20, MemTableBytes: 8 << 20, ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	c = &cluster{t: t, engine: e, clock: clock.New(h.Clock, 250*time.Millisecond),
		rng: rand.New(rand.NewSource(seed)), latency: latency}
	c.o = &Options{Host: h, Clock: c.clock, Engine: e, Sender: c, Metrics: &Metrics{}}
	start := keys.Min
	for i, b := range append(bounds, string(keys.Max)) {
		r := &fakeReplica{c: c}
		r.Init(e, &kv.RangeDescriptor{ID: kv.RangeID(i + 1), Start: start, End: keys.Key(b)}, mvcc.Stats{})
		r.Delay = c.delay
		c.reps = append(c.reps, r)
		p := New(c.o, r, nil)
		p.LeaseChanged(lease.Lease{Sequence: 1, Start: c.clock.Now()}, true)
		c.ps = append(c.ps, p)
		start = keys.Key(b)
	}
	return c, func() {
		for _, p := range c.ps {
			p.Close(nil)
		}
		h.Group.Stop()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		cancel()
	}
}

func (c *cluster) intn(n int) int {
	c.rngMu.Lock()
	defer c.rngMu.Unlock()
	return c.rng.Intn(n)
}

func (c *cluster) delay() time.Duration {
	if c.latency == 0 {
		return 0
	}
	return time.Duration(1 + c.intn(int(c.latency)))
}

func (c *cluster) rangeOf(k keys.Key) int {
	for i, r := range c.reps {
		if r.Desc().Contains(keys.Addr(k)) {
			return i
		}
	}
	panic("no range")
}

// Send routes like package route, as far as the tests need it: every request lies in one range.
func (c *cluster) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	parts := map[int]*kv.Batch{}
	var order []int
	where := make([]int, len(b.Requests))
	for i, r := range b.Requests {
		n := c.rangeOf(r.Span().Start)
		where[i] = n
		if parts[n] == nil {
			parts[n] = &kv.Batch{Header: b.Header}
			order = append(order, n)
		}
		parts[n].Requests = append(parts[n].Requests, r)
	}
	if len(order) == 1 {
		return c.ps[order[0]].Send(ctx, b)
	}
	all := make([]*kv.BatchResponse, len(c.ps))
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for _, n := range order {
		wg.Add(1)
		go func() {
			defer wg.Done()
			resp, err := c.ps[n].Send(ctx, parts[n])
			mu.Lock()
			defer mu.Unlock()
			all[n] = resp
			if err != nil && failed == nil {
				failed = err
			}
		}()
	}
	wg.Wait()
	out := &kv.BatchResponse{Txn: b.Txn}
	for _, r := range all {
		if r != nil && r.Txn != nil && out.Txn != nil && out.Txn.WriteTimestamp.Less(r.Txn.WriteTimestamp) {
			out.Txn = r.Txn
		}
	}
	if failed != nil {
		return out, failed
	}
	next := make([]int, len(c.ps))
	for i := range b.Requests {
		n := where[i]
		out.Responses = append(out.Responses, all[n].Responses[next[n]])
		next[n]++
	}
	return out, nil
}

// testTxn is a small coordinator: it buffers writes, refreshes, and commits in one phase, two, or in parallel.
type testTxn struct {
	c        *cluster
	txn      *kv.Txn
	writes   []kv.Request
	value    map[string][]byte
	locks    []keys.Span
	reads    []keys.Span
	parallel bool
	reverse  bool // scans
	laid     bool
	policy   kv.WaitPolicy
	timeout  time.Duration
	copy     *kv.Batch // of the writes that were sent last, with the header of then
}

var errRestart = errors.New("restart")

func (c *cluster) begin() *testTxn {
	now := c.clock.Now()
	n := c.nextTxn.Add(1)
	t := &kv.Txn{ReadTimestamp: now, UncertaintyLimit: c.clock.Interval().Latest}
	t.ID = kv.TxnID{byte(n), byte(n >> 8), byte(n >> 16)}
	t.WriteTimestamp, t.MinTimestamp, t.Gateway = now, now, 1
	return &testTxn{c: c, txn: t, value: map[string][]byte{}}
}

func (x *testTxn) header() kv.Header {
	h := kv.Header{Txn: x.txn.Clone(), CanForwardRead: len(x.reads) == 0, WaitPolicy: x.policy, LockTimeout: x.timeout, Now: x.c.clock.Now()}
	return h
}

// send sends a batch, refreshing and sending again when it has to.
func (x *testTxn) send(ctx context.Context, reqs ...kv.Request) ([]kv.Response, error) {
	var last error
	for range 50 {
		b := &kv.Batch{Header: x.header(), Requests: reqs}
		if reqs[0].Method().IsWrite() && reqs[0].Method() != kv.MethodEndTxn {
			x.copy = &kv.Batch{Header: x.header(), Requests: slices.Clone(reqs)}
		}
		resp, err := x.c.Send(ctx, b)
		if resp != nil && resp.Txn != nil {
			x.txn.WriteTimestamp = x.txn.WriteTimestamp.Forward(resp.Txn.WriteTimestamp)
			if b.CanForwardRead {
				x.txn.ReadTimestamp = x.txn.ReadTimestamp.Forward(resp.Txn.ReadTimestamp)
			}
		}
		if err == nil {
			return resp.Responses, nil
		}
		last = err
		to := clock.Timestamp{}
		switch e := err.(type) {
		case *kv.TxnRetryError:
			if to = e.WriteTimestamp; e.Reason == kv.RetryPossibleReplay {
				return nil, err
			}
		case *kv.WriteTooOldError:
			to = e.Actual.Next()
		case *kv.UncertaintyError:
			to = e.RetryAt
		default:
			return nil, err
		}
		if err := x.refresh(ctx, to); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("too many rounds: %w", last)
}

func (x *testTxn) refresh(ctx context.Context, to clock.Timestamp) error {
	from := x.txn.ReadTimestamp
	to = to.Forward(x.txn.WriteTimestamp)
	if x.c.latency > 0 {
		time.Sleep(time.Duration(x.c.intn(2000)) * time.Microsecond) // else two refreshes may push each other for ever
	}
	next := x.txn.Clone()
	next.ReadTimestamp, next.WriteTimestamp = to, to
	for _, s := range x.reads {
		var r kv.Request = &kv.RefreshRequest{Key: s.Start, From: from}
		if !s.Point() {
			r = &kv.RefreshRangeRequest{Start: s.Start, End: s.End, From: from}
		}
		if _, err := x.c.Send(ctx, &kv.Batch{Header: kv.Header{Txn: next}, Requests: []kv.Request{r}}); err != nil {
			var failed *kv.RefreshFailedError
			if errors.As(err, &failed) {
				return fmt.Errorf("%w: %v", errRestart, err)
			}
			return err
		}
	}
	x.txn.ReadTimestamp, x.txn.WriteTimestamp = to, to
	return nil
}

func (x *testTxn) anchor(k keys.Key) {
	if len(x.txn.Anchor) == 0 {
		x.txn.Anchor = k
	}
}

func (x *testTxn) get(ctx context.Context, k string, lock kv.LockStrength) ([]byte, error) {
	if v, ok := x.value[k]; ok {
		return v, nil
	}
	if lock != kv.NoLock {
		x.anchor(keys.Key(k))
		x.locks = append(x.locks, keys.Span{Start: keys.Key(k)})
	}
	out, err := x.send(ctx, &kv.GetRequest{Key: keys.Key(k), Lock: lock})
	if err != nil {
		return nil, err
	}
	x.reads = append(x.reads, keys.Span{Start: keys.Key(k)})
	return out[0].(*kv.GetResponse).Value, nil
}

func (x *testTxn) scan(ctx context.Context, start, end string, lock kv.LockStrength, max int64) (*kv.ScanResponse, error) {
	for range 50 {
		b := &kv.Batch{Header: x.header(), Requests: []kv.Request{
			&kv.ScanRequest{Start: keys.Key(start), End: keys.Key(end), Lock: lock, Reverse: x.reverse}}}
		if lock != kv.NoLock {
			x.anchor(keys.Key(start))
			b.Txn.Anchor = x.txn.Anchor
			x.locks = append(x.locks, keys.Span{Start: keys.Key(start), End: keys.Key(end)})
		}
		b.MaxKeys = max
		resp, err := x.c.Send(ctx, b)
		if err == nil {
			if b.CanForwardRead {
				x.txn.ReadTimestamp = x.txn.ReadTimestamp.Forward(resp.Txn.ReadTimestamp)
				x.txn.WriteTimestamp = x.txn.WriteTimestamp.Forward(resp.Txn.WriteTimestamp)
			}
			r := resp.Responses[0].(*kv.ScanResponse)
			x.reads = append(x.reads, readPart(keys.Span{Start: keys.Key(start), End: keys.Key(end)}, r.Resume, x.reverse))
			return r, nil
		}
		switch e := err.(type) {
		case *kv.WriteTooOldError:
			err = x.refresh(ctx, e.Actual.Next())
		case *kv.UncertaintyError:
			err = x.refresh(ctx, e.RetryAt)
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, errRestart
}

func (x *testTxn) put(k string, v []byte) {
	x.anchor(keys.Key(k))
	x.locks = append(x.locks, keys.Span{Start: keys.Key(k)})
	x.txn.Seq++
	x.writes = append(x.writes, &kv.PutRequest{Key: keys.Key(k), Value: v, Seq: x.txn.Seq})
	x.value[k] = v
}

// lay sends the writes as intents.
func (x *testTxn) lay(ctx context.Context) error {
	if len(x.writes) == 0 {
		return nil
	}
	x.laid = true
	_, err := x.send(ctx, x.writes...)
	x.writes = nil
	return err
}

func (x *testTxn) commit(ctx context.Context) error {
	if len(x.writes) == 0 && !x.laid {
		x.cleanup(kv.Aborted, x.locks)
		return nil
	}
	end := &kv.EndTxnRequest{Anchor: x.txn.Anchor, Commit: true, LockSpans: x.locks}
	one := !x.laid
	n := x.c.rangeOf(x.txn.Anchor)
	for _, w := range x.writes {
		one = one && x.c.rangeOf(w.Span().Start) == n
	}
	if !one && x.parallel && !x.laid {
		for _, w := range x.writes {
			k, seq, _ := written(w)
			end.InFlight = append(end.InFlight, kv.InFlightWrite{Key: k, Seq: seq})
		}
		if x.c.intn(8) == 0 {
			// The coordinator dies while its batches leave: some arrive.
			some := append([]kv.Request(nil), x.writes[x.c.intn(len(x.writes)):]...)
			if x.c.intn(4) > 0 {
				some = append(some, end)
			}
			x.c.Send(ctx, &kv.Batch{Header: x.header(), Requests: some})
			return &kv.AmbiguousError{Reason: "dead"}
		}
		out, err := x.send(ctx, append(x.writes, end)...)
		if err != nil {
			return err
		}
		x.laid, x.writes = true, nil
		if x.c.intn(8) == 0 {
			// It dies after the last answer: committed, if at the staged timestamp, and somebody else has to find out.
			if e := out[len(out)-1].(*kv.EndTxnResponse); e.Staged && x.txn.WriteTimestamp == e.CommitTimestamp {
				if x.c.intn(2) == 0 {
					x.tell(ctx) // and others overwrite what recovery will ask for (leader.P10)
				}
				return nil
			}
			return &kv.AmbiguousError{Reason: "dead"}
		}
		if e := out[len(out)-1].(*kv.EndTxnResponse); e.Staged && x.txn.WriteTimestamp == e.CommitTimestamp {
			tell, late := x.c.intn(4) > 0, time.Duration(x.c.intn(60))*time.Millisecond
			if tell {
				x.tell(ctx)
			}
			x.c.o.Host.Group.Go(func(ctx context.Context) {
				if tell && x.c.latency > 0 {
					time.Sleep(late)
				}
				x.end(ctx)
			})
			return nil
		}
		return x.end(ctx)
	}
	if one {
		end.OnePhase = true
		out, err := x.send(ctx, append(x.writes, end)...)
		if err != nil {
			return err
		}
		x.cleanup(kv.Committed, out[len(out)-1].(*kv.EndTxnResponse).Unresolved)
		return nil
	}
	if err := x.lay(ctx); err != nil {
		return err
	}
	return x.end(ctx)
}

// tell has the ranges know that it has committed.
func (x *testTxn) tell(ctx context.Context) error {
	for _, s := range x.locks {
		if _, err := x.c.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.ReleaseRequest{Start: s.Start, End: s.End, Txn: x.txn.TxnMeta}}}); err != nil {
			return err
		}
	}
	return nil
}

// forget has the store know no more of who has committed, as after a restart.
func (c *cluster) forget() {
	for i := range c.o.finished.shards {
		f := &c.o.finished.shards[i]
		f.mu.Lock()
		f.at, f.ring, f.next = nil, nil, 0
		f.mu.Unlock()
	}
}

// end makes the commit explicit.
func (x *testTxn) end(ctx context.Context) error {
	end := &kv.EndTxnRequest{Anchor: x.txn.Anchor, Commit: true, LockSpans: x.locks}
	out, err := x.send(ctx, end)
	if err != nil {
		return err
	}
	e := out[0].(*kv.EndTxnResponse)
	x.txn.WriteTimestamp = e.CommitTimestamp
	x.cleanup(kv.Committed, e.Unresolved)
	return nil
}

// cleanup releases what is left, behind the client's back.
func (x *testTxn) cleanup(status kv.Status, spans []keys.Span) {
	if len(spans) == 0 {
		return
	}
	meta := x.txn.TxnMeta
	x.c.o.Host.Group.Go(func(ctx context.Context) {
		for _, s := range spans {
			var r kv.Request = &kv.ResolveIntentRequest{Key: s.Start, Txn: meta, Status: status}
			if !s.Point() {
				r = &kv.ResolveRangeRequest{Start: s.Start, End: s.End, Txn: meta, Status: status}
			}
			// commit.CR1: the record may go only after every intent.
			for {
				_, err := x.c.Send(ctx, &kv.Batch{Requests: []kv.Request{r}})
				if ctx.Err() != nil {
					return
				}
				if err == nil {
					break
				}
				time.Sleep(time.Millisecond) // the range may be merging
			}
		}
		if len(meta.Anchor) > 0 {
			x.c.Send(ctx, &kv.Batch{Requests: []kv.Request{
				&kv.GCRequest{Start: meta.Anchor, Records: []keys.Key{keys.TxnKey(meta.Anchor, meta.ID)}}}})
		}
	})
}

func (x *testTxn) rollback(ctx context.Context) error {
	if len(x.locks) == 0 {
		return nil
	}
	if !x.laid {
		x.cleanup(kv.Aborted, x.locks)
		return nil
	}
	resp, err := x.c.Send(ctx, &kv.Batch{Header: x.header(), Requests: []kv.Request{
		&kv.EndTxnRequest{Anchor: x.txn.Anchor, LockSpans: x.locks}}})
	if err != nil {
		return err
	}
	x.cleanup(kv.Aborted, resp.Responses[0].(*kv.EndTxnResponse).Unresolved)
	return nil
}

// restart begins the next attempt: it keeps its identity and what it has locked, and forgets what it has read.
func (x *testTxn) restart() {
	now := x.c.clock.Now()
	x.txn.Attempt++
	x.txn.ReadTimestamp, x.txn.WriteTimestamp = now, now
	x.txn.UncertaintyLimit = x.c.clock.Interval().Latest
	x.reads, x.writes, x.value = nil, nil, map[string][]byte{}
}

// checkIdle says whether nothing is left behind.
func (c *cluster) checkIdle() {
	c.t.Helper()
	for i, p := range c.ps {
		if latches, locks, pushes := p.QueueLengths(); latches+locks+pushes != 0 {
			c.t.Errorf("r%d: %d latches, %d locks, %d pushes left", i+1, latches, locks, pushes)
		}
		if n := c.reps[i].Stats().IntentCount; n != 0 {
			c.t.Errorf("r%d: %d intents left", i+1, n)
		}
		rd := mvcc.NewReader(c.engine)
		want, err := rd.ComputeStats(keys.UserSpan(p.r.Desc().Start, p.r.Desc().End))
		rd.Close()
		if got := c.reps[i].Stats(); err != nil || got != want {
			c.t.Errorf("r%d: statistics are %+v, the data's %+v, %v", i+1, got, want, err)
		}
	}
}

// changeLeases gives a range a new lease now and then: what was in flight is refused, what was in memory forgotten at times.
func (c *cluster) changeLeases(ctx context.Context) {
	for c.o.Host.Clock.Sleep(ctx, time.Duration(1+c.intn(40))*time.Millisecond) == nil {
		n := c.intn(len(c.ps))
		c.reps[n].Applying.Lock()
		seq := c.reps[n].Lease.Add(uint64(1 + c.intn(2))) // the next, or another's was in between
		c.ps[n].LeaseChanged(lease.Lease{Sequence: seq, Start: c.clock.Now()}, true)
		c.reps[n].Applying.Unlock()
		if c.clock.Physical().Monotonic() > 10*time.Second {
			return
		}
	}
}

// countKeys counts the unversioned keys of a span.
func countKeys(t testing.TB, e *engine.Engine, s keys.Span) (n int) {
	t.Helper()
	it, err := e.NewIter(engine.IterOptions{Lower: s.Start, Upper: s.End})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	return n
}
