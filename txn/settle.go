package txn

import (
	"context"
	"sync"
	"time"

	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
)

// A commit whose intents are in several ranges is settled later, together with many others: the record is made COMMITTED, the intents are
// resolved and the record is removed. The leaseholders know of the commit (leader.P10), so the intents block no other transaction. A range
// gets one raft command for all transactions of a round, and no client waits for it.
//
//	txn.ST1 (I2, commit.CR4): the records say COMMITTED on a quorum before any of their intents is resolved, because until then recovery
//	    queries the intents
//	txn.ST2 (I2, commit.CR1): all intents are resolved on a quorum before any of their records is removed
//
// If a gateway dies, transactions that meet the intents do this, as usual.
const (
	// settleDelay is how long a round collects: a few percent of commit.Expiry, after which others would begin to recover transactions that
	// have not been settled. Longer rounds would have fewer commands but more intents that scans have to skip.
	settleDelay = 40 * time.Millisecond
	// settleMax is the number of transactions of one round, settleQueue of those that wait for one (I9).
	settleMax   = 256
	settleQueue = 16384
	// settleRounds run concurrently: one that waits for an unreachable range does not delay the others.
	settleRounds = 16
)

// settler collects transactions that have committed.
type settler struct {
	db *DB

	mu      sync.Mutex // guards the fields below; nothing is taken after it
	waiting []*transaction.Cleanup
	running bool
	rounds  int
	full    chan struct{} // buffered: a round's worth is waiting, or a round has ended
	// told are requests not yet sent to leaseholders on other nodes; telling says that a goroutine sends them.
	told    []kv.Request
	telling bool
}

// Teller delivers requests that need no answer to leaseholders on this node; route.Sender implements it.
type Teller interface {
	// Tell returns the requests for other nodes.
	Tell(ctx context.Context, reqs []kv.Request) (rest []kv.Request)
}

// committed cleans up after a commit, later.
func (db *DB) committed(ctx context.Context, k *transaction.Cleanup) {
	if k == nil {
		return
	}
	if len(k.Txn.IgnoredSeqs) > 0 {
		db.cleanup(k) // not all of its writes are committed
		return
	}
	points := true
	told := make([]kv.ReleaseRequest, len(k.Spans))
	reqs := make([]kv.Request, len(k.Spans))
	for i, s := range k.Spans {
		told[i] = kv.ReleaseRequest{Start: s.Start, End: s.End, Txn: k.Txn.TxnMeta}
		reqs[i] = &told[i]
		points = points && s.Point()
	}
	if t := db.o.Teller; t != nil {
		reqs = t.Tell(ctx, reqs)
	}
	db.settler.tell(reqs)
	switch {
	case !k.End && !k.Record:
		// Only locks in memory were left.
	case len(k.Elsewhere) > 0:
		db.cleanup(k)
	case !points:
		db.cleanup(k) // too many intents for a round
	default:
		db.settler.add(k)
	}
}

// tell sends requests to leaseholders on other nodes, those of many transactions together.
func (s *settler) tell(reqs []kv.Request) {
	if len(reqs) == 0 {
		return
	}
	s.mu.Lock()
	if len(s.told)+len(reqs) <= settleQueue {
		s.told = append(s.told, reqs...)
	}
	start := !s.telling
	s.telling = true
	s.mu.Unlock()
	if start && !s.db.o.Host.Group.Go(s.tellAll) {
		s.mu.Lock()
		s.telling, s.told = false, nil
		s.mu.Unlock()
	}
}

func (s *settler) tellAll(ctx context.Context) {
	for {
		s.mu.Lock()
		now := s.told
		if s.told = nil; len(now) == 0 || ctx.Err() != nil {
			s.telling = false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		for len(now) > 0 {
			n := min(len(now), gatherBatch)
			// A leaseholder that does not hear of it asks the record.
			_, _ = s.db.o.Sender.Send(ctx, &kv.Batch{Requests: now[:n:n]})
			now = now[n:]
		}
	}
}

// add takes a transaction into the next round.
func (s *settler) add(k *transaction.Cleanup) {
	s.mu.Lock()
	if len(s.waiting) >= settleQueue {
		s.mu.Unlock()
		s.db.o.Probes.Reached("txn: cleanup dropped")
		s.db.metrics.CleanupsDropped.Add(1)
		return
	}
	s.waiting = append(s.waiting, k)
	full := len(s.waiting) >= settleMax
	start := !s.running
	if start {
		s.running = true
		if s.full == nil {
			s.full = make(chan struct{}, 1)
		}
	}
	s.mu.Unlock()
	switch {
	case start:
		if !s.db.o.Host.Group.Go(s.run) {
			s.mu.Lock()
			s.running, s.waiting = false, nil
			s.mu.Unlock()
		}
	case full:
		s.wake()
	}
}

func (s *settler) wake() {
	select {
	case s.full <- struct{}{}:
	default:
	}
}

// run starts rounds for as long as transactions wait.
func (s *settler) run(ctx context.Context) {
	t := s.db.o.Host.Clock.NewTimer(settleDelay)
	defer t.Stop()
	due := false
	for {
		select {
		case <-t.C():
			due = true
		case <-s.full:
		case <-ctx.Done():
			return
		}
		for {
			s.mu.Lock()
			n := min(len(s.waiting), settleMax)
			if s.rounds >= settleRounds || n < settleMax && !due {
				s.mu.Unlock()
				break
			}
			if n == 0 {
				if s.rounds == 0 {
					s.running, s.waiting = false, nil
					s.mu.Unlock()
					return
				}
				s.mu.Unlock()
				break
			}
			now := s.waiting[:n:n]
			if s.waiting = s.waiting[n:]; len(s.waiting) == 0 {
				s.waiting = nil
			}
			s.rounds++
			s.mu.Unlock()
			if !s.db.o.Host.Group.Go(func(ctx context.Context) {
				s.db.settle(ctx, now)
				s.mu.Lock()
				s.rounds--
				s.mu.Unlock()
				s.wake()
			}) {
				return
			}
		}
		if due {
			due = false
			t.Reset(settleDelay)
		}
	}
}

// settle makes the commits of a round explicit, resolves their intents, and removes their records. If a step fails,
// each transaction takes its way alone: a range that can't be reached keeps those only that wrote there.
func (db *DB) settle(ctx context.Context, ks []*transaction.Cleanup) {
	db.metrics.Settled.Add(int64(len(ks)))
	alone := func() {
		for _, k := range ks {
			db.cleanup(k)
		}
	}
	reqs := make([]kv.Request, 0, len(ks))
	for _, k := range ks {
		if k.End {
			reqs = append(reqs, &kv.RecoverTxnRequest{Txn: k.Txn.TxnMeta, ImplicitlyCommits: true})
		}
	}
	if !db.sendAll(ctx, reqs) { // txn.ST1
		alone()
		return
	}
	n := 0
	for _, k := range ks {
		n += len(k.Spans)
	}
	slab := make([]kv.ResolveIntentRequest, n)
	reqs = make([]kv.Request, 0, n)
	for _, k := range ks {
		for _, s := range k.Spans {
			r := &slab[len(reqs)]
			r.Key, r.Txn, r.Status = s.Start, k.Txn.TxnMeta, kv.Committed
			reqs = append(reqs, r)
		}
	}
	if !db.sendAll(ctx, reqs) {
		alone()
		return
	}
	reqs = make([]kv.Request, 0, len(ks)) // txn.ST2
	for _, k := range ks {
		if k.Record {
			a := k.Txn.Anchor
			reqs = append(reqs, &kv.GCRequest{Start: a, Records: []keys.Key{keys.TxnKey(a, k.Txn.ID)}})
		}
	}
	db.sendAll(ctx, reqs) // a record that stays is swept
}

// sendAll sends requests in batches of many, and reports whether all of them were answered.
func (db *DB) sendAll(ctx context.Context, reqs []kv.Request) bool {
	for len(reqs) > 0 {
		n := min(len(reqs), gatherBatch)
		if _, err := db.o.Sender.Send(ctx, &kv.Batch{Requests: reqs[:n:n]}); err != nil {
			return false
		}
		reqs = reqs[n:]
	}
	return true
}
