package latency_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
	"meridian/replica/closedts"
	"meridian/server"
	"meridian/sim"
	"meridian/sim/fault"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/txn"
)

// Reads at a timestamp always find the same rows (I6): transfers between keys in several ranges, while leases move, ranges split and
// sleep, nodes die, links fail and disks are slow; readers on all nodes choose timestamps in the past, served by any replica, and
// read at them again.
func TestStaleCampaign(t *testing.T) {
	t.Parallel()
	for _, seed := range simtest.Seeds(t, 1, 1) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			defer simtest.Watchdog(seed).Stop()
			synctest.Test(t, func(t *testing.T) { (&stale{seed: uint64(seed)}).run(t) })
		})
	}
}

const (
	staleKeys = 12
	staleSum  = staleKeys * 100
	staleAll  = staleKeys + 2 // and a pair that only slow transactions write, and that is never read at the present
	staleLast = 30 * time.Second
)

func staleKey(i int) keys.Key { return append(keys.TableKey(uint32(2000)), byte(i)) }

// stale is one seed's run.
type stale struct {
	seed uint64
	t    *testing.T
	c    *simcluster.Cluster
	stop chan struct{}
	from clock.Timestamp // the first rows were there

	mu      sync.Mutex                 // guards all below
	seen    map[clock.Timestamp]string // the accounts
	pairs   map[clock.Timestamp]uint64
	order   []clock.Timestamp
	reads   int
	again   int // reads at a timestamp that was read before
	wrote   int
	edges   int // pairs of reads of edge
	within  int // reads within a bound of staleness, at a negotiated timestamp
	refused int // of which a nearest replica could not keep to what it had said: it was replaced meanwhile
	closed  map[*replica.Replica]clock.Timestamp
	last    map[*server.Node]int64 // metrics: served by followers
}

func (s *stale) run(t *testing.T) {
	s.t, s.stop = t, make(chan struct{})
	s.seen, s.pairs = map[clock.Timestamp]string{}, map[clock.Timestamp]uint64{}
	s.closed, s.last = map[*replica.Replica]clock.Timestamp{}, map[*server.Node]int64{}
	dice := rand.New(rand.NewPCG(s.seed, 0x57a1e))
	o := simcluster.Options{Seed: s.seed, Log: simtest.LogTo()}
	switch dice.IntN(3) {
	case 1:
		o.Regions, o.NodesPerRegion = sim.ThreeRegions(), 1
	case 2:
		o.Regions, o.NodesPerRegion = sim.FiveRegions(), 1
		o.Configure = func(_ int, o *server.Options) { o.NonVoters = 2 }
	}
	s.c = simcluster.Start(t, o)
	ctx := context.Background()
	db := s.c.Node(0).DB()
	err := db.Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
		var b txn.WriteBatch
		for i := range staleAll {
			b.Put(staleKey(i), binary.BigEndian.AppendUint64(nil, staleSum/staleKeys))
		}
		return tx.Write(ctx, &b)
	})
	if err != nil {
		t.Fatal(err)
	}
	s.from = db.Clock().Now()
	for _, i := range []int{0, 4, 8, staleKeys} {
		s.split(s.c.Node(0), staleKey(i))
	}
	time.Sleep(15 * time.Second) // replicas are everywhere

	var wg sync.WaitGroup
	worker := func(n int, f func(*rand.Rand)) {
		for range n {
			d := rand.New(rand.NewPCG(s.seed, dice.Uint64()))
			wg.Go(func() {
				for {
					select {
					case <-s.stop:
						return
					default:
					}
					f(d)
					time.Sleep(time.Duration(10+d.IntN(80)) * time.Millisecond)
				}
			})
		}
	}
	worker(3, s.transfer)
	worker(4, s.slow)
	worker(6, s.read)
	worker(12, s.edge)
	worker(4, s.bounded)
	worker(1, s.administer)
	worker(1, s.watch)
	kinds := []fault.Kind{fault.Crash, fault.PowerOff, fault.Isolate, fault.Cut, fault.CutOneWay, fault.Slow, fault.Skew, fault.SlowDisk}
	plan := fault.Generate(s.seed, fault.Options{Nodes: s.c.Names(), Duration: staleLast, Every: 2 * time.Second,
		Lasting: 4 * time.Second, Kinds: kinds, MaxSkew: 190 * time.Millisecond})
	target := s.c.Target(s.seed)
	if err := fault.Run(ctx, s.c.Machines[0].Clock, plan, target, nil); err != nil {
		t.Errorf("the plan stopped: %v", err)
	}
	time.Sleep(2 * time.Second)
	if err := target.HealEverything(); err != nil {
		t.Errorf("healing: %v", err)
	}
	time.Sleep(10 * time.Second)
	close(s.stop)
	wg.Wait()
	time.Sleep(5 * time.Second)
	s.compare(ctx)
	var nearest int64
	for _, n := range s.last {
		nearest += n
	}
	t.Logf("%d nodes, %d faults: %d transfers, %d reads of which %d of what was read before, %d of what was just closed, %d within bounds, %d refused, %d batches at followers",
		s.c.Len(), len(plan), s.wrote, s.reads, s.again, s.edges, s.within, s.refused, nearest)
	if s.refused > s.within/10 {
		t.Errorf("seed %d: nearest replicas refused %d reads at timestamps to which they had agreed, and served %d", s.seed, s.refused, s.within)
	}
	if s.within < 50 || s.again < 50 || s.edges < 50 || nearest < 50 || s.wrote < 10 {
		t.Errorf("that is too little to mean anything; the plan was %s", plan)
	}
	s.c.Stop()
	time.Sleep(20 * time.Second)
}

func (s *stale) node(d *rand.Rand) *server.Node { return s.c.Node(d.IntN(s.c.Len())) }

func (s *stale) split(n *server.Node, k keys.Key) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, _ = n.Router().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: k}}})
}

// transfer moves money between two keys.
func (s *stale) transfer(d *rand.Rand) {
	n := s.node(d)
	if n == nil || d.IntN(40) == 0 {
		time.Sleep(time.Second) // ranges get some rest
		return
	}
	from, to := d.IntN(staleKeys), d.IntN(staleKeys)
	if from == to {
		return
	}
	think := time.Duration(0)
	if d.IntN(10) == 0 {
		think = time.Duration(d.IntN(6000)) * time.Millisecond // its timestamp is closed when it commits
	}
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
	defer cancel()
	err := n.DB().Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
		lock := kv.NoLock
		if d.IntN(2) == 0 {
			lock = kv.Exclusive
		}
		vs, err := tx.GetMany(ctx, []keys.Key{staleKey(from), staleKey(to)}, lock, kv.Block)
		if err != nil {
			return err
		}
		time.Sleep(think)
		var b txn.WriteBatch
		b.Put(staleKey(from), binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(vs[0])-1))
		b.Put(staleKey(to), binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(vs[1])+1))
		return tx.Write(ctx, &b)
	})
	if err == nil {
		s.mu.Lock()
		s.wrote++
		s.mu.Unlock()
	}
}

// slow writes two keys without reading them, long after its transaction began: only closed timestamps keep it from
// writing in the past.
func (s *stale) slow(d *rand.Rand) {
	n := s.node(d)
	if n == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 12*time.Second)
	defer cancel()
	v := binary.BigEndian.AppendUint64(nil, d.Uint64()>>32)
	_ = n.DB().Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
		time.Sleep(time.Duration(2000+d.IntN(3000)) * time.Millisecond)
		var b txn.WriteBatch
		b.Put(staleKey(staleKeys), v)
		b.Put(staleKey(staleKeys+1), v)
		return tx.Write(ctx, &b)
	})
}

// read reads all keys at a timestamp in the past, new or known.
func (s *stale) read(d *rand.Rand) {
	n := s.node(d)
	if n == nil {
		return
	}
	now := n.DB().Clock().Now()
	at := now.Add(-time.Duration(d.Int64N(int64(8 * time.Second))))
	s.mu.Lock()
	if len(s.order) > 0 && d.IntN(2) == 0 {
		at = s.order[max(0, len(s.order)-1-d.IntN(200))]
	}
	s.mu.Unlock()
	upto := staleAll
	if now.Add(-closedts.DefaultLag - time.Second).Less(at) {
		upto = staleKeys // else the leaseholder's record of the read would keep slow from writing in the past, which is the closed timestamps' task here
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
	defer cancel()
	tx := n.DB().Begin(txn.TxnOptions{AsOf: at})
	defer tx.Rollback(ctx)
	var rows []kv.KeyValue
	var err error
	if d.IntN(2) == 0 {
		rows, _, err = tx.Scan(ctx, txn.ScanOptions{Span: keys.Span{Start: staleKey(0), End: staleKey(upto)}})
	} else {
		for i := range upto {
			var v []byte
			if v, err = tx.Get(ctx, staleKey(i), kv.NoLock, kv.Block); err != nil {
				break
			}
			rows = append(rows, kv.KeyValue{Key: staleKey(i), Value: v})
		}
	}
	if err != nil {
		return
	}
	s.saw(fmt.Sprintf("n%d", n.NodeID()), at, rows)
	served := n.Router().Metrics().Nearest.Load()
	s.mu.Lock()
	s.last[n] = served
	s.mu.Unlock()
}

// edge reads the pair of slow at a timestamp that its node has just closed, and again a little later: a write that was in flight
// then, and not tracked, would have come in between (closedts.CT1). It reads from its own store, because a leaseholder would record
// the read in its timestamp cache.
func (s *stale) edge(d *rand.Rand) {
	n := s.node(d)
	if n == nil || n.Store() == nil {
		return
	}
	at := n.DB().Clock().Now().Add(-closedts.DefaultLag - time.Duration(d.Int64N(int64(200*time.Millisecond))))
	pair := &kv.ScanRequest{Start: staleKey(staleKeys), End: staleKey(staleAll)}
	look := func() (string, bool) {
		info, ok := n.Store().Lookup(pair.Start)
		if !ok {
			return "", false
		}
		b := &kv.Batch{Header: kv.Header{RangeID: info.Desc.ID, Timestamp: at, Consistency: kv.Stale}, Requests: []kv.Request{pair}}
		// The store of a node that is killed meanwhile may not answer any more.
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		r, err := n.Store().Send(ctx, b)
		if err != nil || len(r.Responses[0].(*kv.ScanResponse).Rows) != 2 {
			return "", false
		}
		rows := r.Responses[0].(*kv.ScanResponse).Rows
		if string(rows[0].Value) != string(rows[1].Value) {
			s.t.Errorf("seed %d: n%d has half of a transaction at %s", s.seed, n.NodeID(), at)
		}
		return fmt.Sprintf("%x", rows[0].Value), true
	}
	then, ok := look()
	if !ok {
		return
	}
	time.Sleep(time.Second)
	now, ok := look()
	if ok && now != then {
		s.t.Errorf("seed %d: n%d read %s at %s, when that was just closed, and %s a second later", s.seed, n.NodeID(), then, at, now)
	}
	s.mu.Lock()
	s.edges++
	s.mu.Unlock()
}

// bounded reads all keys within a bound of staleness, at the timestamp that the nearest replicas agree on (leader.P24), and from them alone. compare
// finds the same rows at that timestamp at the leaseholders.
func (s *stale) bounded(d *rand.Rand) {
	n := s.node(d)
	if n == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
	defer cancel()
	span := keys.Span{Start: staleKey(0), End: staleKey(staleAll)}
	least := n.DB().Clock().Now().Add(-time.Duration(3+d.IntN(20)) * time.Second).Forward(s.from)
	got, err := n.DB().Negotiate(ctx, []keys.Span{span}, least)
	if err != nil || got.At.Less(least) {
		return
	}
	if now := n.DB().Clock().Now(); now.Less(got.At) || got.Closed.Less(got.At) {
		s.t.Errorf("seed %d: n%d agreed to read at %s, closed %s, at %s", s.seed, n.NodeID(), got.At, got.Closed, now)
	}
	o := txn.TxnOptions{AsOf: got.At, Near: txn.NearestOnly}
	if d.IntN(2) == 0 {
		o.Near = txn.NearestFirst
	}
	tx := n.DB().Begin(o)
	defer tx.Rollback(ctx)
	rows, _, err := tx.Scan(ctx, txn.ScanOptions{Span: span})
	s.mu.Lock()
	if err == nil {
		s.within++
	} else if errors.As(err, new(*kv.NotClosedError)) {
		s.refused++
	}
	s.mu.Unlock()
	if err == nil {
		s.saw(fmt.Sprintf("n%d, within a bound,", n.NodeID()), got.At, rows)
	}
}

// saw compares the rows read, of the accounts and perhaps the pair, with those of the first read at the timestamp.
func (s *stale) saw(who string, at clock.Timestamp, rows []kv.KeyValue) {
	var sum, pair uint64
	text := ""
	for i, r := range rows {
		if len(r.Value) != 8 {
			s.t.Errorf("seed %d: %s at %s: %x is %x", s.seed, who, at, r.Key, r.Value)
			return
		}
		switch v := binary.BigEndian.Uint64(r.Value); {
		case i < staleKeys:
			sum += v
			text += fmt.Sprintf(" %d", v)
		case i > staleKeys && v != pair:
			s.t.Errorf("seed %d: %s read half of a transaction at %s: %d and %d", s.seed, who, at, pair, v)
		default:
			pair = v
		}
	}
	if sum != staleSum || len(rows) != staleKeys && len(rows) != staleAll {
		s.t.Errorf("seed %d: %s read%s at %s, which is %d instead of %d", s.seed, who, text, at, sum, staleSum)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if old, known := s.seen[at]; !known {
		s.seen[at] = text
		s.order = append(s.order, at)
	} else if s.again++; old != text {
		s.t.Errorf("seed %d: %s read%s at %s, where%s was read before", s.seed, who, text, at, old)
	}
	if len(rows) < staleAll {
		return
	}
	if old, known := s.pairs[at]; known && old != pair {
		s.t.Errorf("seed %d: %s read %d at %s, where %d was read before", s.seed, who, pair, at, old)
	}
	s.pairs[at] = pair
}

// administer moves leases and splits ranges.
func (s *stale) administer(d *rand.Rand) {
	time.Sleep(time.Duration(d.IntN(1500)) * time.Millisecond)
	n := s.node(d)
	if n == nil {
		return
	}
	k := staleKey(d.IntN(staleKeys))
	if d.IntN(4) == 0 {
		s.split(n, k)
		return
	}
	to := s.node(d)
	if to == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	_, _ = n.Router().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminTransferLeaseRequest{Key: k, Target: to.NodeID()}}})
}

// watch checks that no replica's closed timestamp goes back (closedts.CT4).
func (s *stale) watch(*rand.Rand) {
	for i := range s.c.Len() {
		n := s.c.Node(i)
		if n == nil || n.Store() == nil {
			continue
		}
		n.Store().Replicas(func(r *replica.Replica) bool {
			if now, old := r.ClosedTimestamp(), s.closed[r]; now.Less(old) {
				s.t.Errorf("seed %d: n%d r%d: closed %s, then %s", s.seed, n.NodeID(), r.RangeID(), old, now)
			} else {
				s.closed[r] = now
			}
			return true
		})
	}
}

// compare repeats all reads, at the leaseholders and at every node.
func (s *stale) compare(ctx context.Context) {
	for i, at := range s.order {
		if i%7 != 0 {
			continue
		}
		n := s.c.Node(i % s.c.Len())
		span := &kv.ScanRequest{Start: staleKey(0), End: staleKey(staleAll)}
		limit, cancel := context.WithTimeout(ctx, 10*time.Second)
		r, err := n.Router().Send(limit, &kv.Batch{Header: kv.Header{Timestamp: at}, Requests: []kv.Request{span}})
		if err != nil {
			s.t.Errorf("seed %d: a read at the leaseholders at %s: %v", s.seed, at, err)
		} else {
			s.saw("the leaseholders", at, r.Responses[0].(*kv.ScanResponse).Rows)
		}
		r, err = n.Router().Send(limit, &kv.Batch{Header: kv.Header{Timestamp: at, Consistency: kv.Stale}, Requests: []kv.Request{span}})
		if err != nil {
			s.t.Errorf("seed %d: a read at n%d at %s: %v", s.seed, n.NodeID(), at, err)
		} else {
			s.saw(fmt.Sprintf("n%d, later,", n.NodeID()), at, r.Responses[0].(*kv.ScanResponse).Rows)
		}
		cancel()
	}
}
