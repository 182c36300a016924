package route

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"meridian/commit/protocol"
	"meridian/keys"
	"meridian/kv"
	"meridian/probe"
	"meridian/transport"
)

// Pauses between two rounds over a range's replicas, chosen so that a range whose lease moves costs a few
// milliseconds, and one that stays unavailable costs little CPU.
const (
	pauseFirst = 2 * time.Millisecond
	pauseMax   = 200 * time.Millisecond
	// roundsBeforeLookup is the number of rounds without a serving replica before a range is looked up again.
	roundsBeforeLookup = 5
)

// errReroute says that the cached range was out of date.
var errReroute = errors.New("route: range has changed")

// repeat says how a batch whose answer was lost may be treated (route.RO2).
type repeat uint8

const (
	// harmless: send it again.
	harmless repeat = iota
	// commits: send it again, but an error of a later attempt says nothing about the earlier one.
	commits
	// never: the outcome is not known.
	never
)

func repeatOf(b *kv.Batch) repeat {
	for _, r := range b.Requests {
		switch r := r.(type) {
		case *kv.EndTxnRequest:
			if r.Commit {
				return commits
			}
		case *kv.PutRequest, *kv.CPutRequest, *kv.DeleteRequest, *kv.DeleteRangeRequest, *kv.AddRequest:
			if b.Txn == nil {
				return never
			}
		}
	}
	return harmless
}

// sendState is the state that is kept from one attempt of a batch to the next.
type sendState struct {
	repeat repeat
	// lost is the reason why the answer of an earlier attempt is not known; only with repeat commits.
	lost error
	// unsure: the answer of an earlier attempt was lost, whatever repeat says.
	unsure bool
	pauses int
	// woken is the node that ended the last pause: it has the lease.
	woken kv.NodeID
	// paused: the range is to be looked up after a pause that has just ended.
	paused bool
	// reroutes counts how often the cached range was out of date.
	reroutes int
	last     error // the last reason for a pause
	probes   *probe.Set
	// unserved is how long no replica has served the batch: pauses, and calls after the first that failed for this reason.
	unserved time.Duration
}

func (st *sendState) init(b *kv.Batch, p *probe.Set) { st.repeat, st.probes = repeatOf(b), p }

// wrap is the error that the caller gets.
func (st *sendState) wrap(err error) error {
	if err != nil && st.lost != nil {
		return &kv.AmbiguousError{Reason: fmt.Sprintf("%v; then: %v", st.lost, err)}
	}
	if st.unsure && err != nil {
		if failed, ok := root(err).(*kv.ConditionFailedError); ok {
			return &kv.RepeatedError{Err: failed} // route.RO2
		}
	}
	return err
}

// answerLost is called when a batch may have been served but its answer did not come. An error ends the attempts.
func (st *sendState) answerLost(err error, b *kv.Batch) error {
	st.unsure = true
	switch st.repeat {
	case commits:
		st.lost = err
		st.probes.Reached("route: the answer to a commit was lost")
		// If it was served, the range must meet its writes, and not move past them and write again.
		b.CanForwardRead = false
	case never:
		return &kv.AmbiguousError{Reason: err.Error()}
	}
	return nil
}

// pause waits before the next attempt, longer each time.
func (s *Sender) pause(ctx context.Context, st *sendState) error {
	return s.pauseUntil(ctx, st, nil)
}

// pauseUntil is pause, but ends when a range's leaseholder is known again; nil: it ends by itself.
func (s *Sender) pauseUntil(ctx context.Context, st *sendState, e *entry) error {
	d := pauseMax
	if st.pauses < 7 {
		d = pauseFirst << st.pauses
	}
	st.pauses++
	if s.o.Host.Group.Context().Err() != nil {
		return &kv.UnavailableError{Reason: "the node is stopping"}
	}
	if most := patience(ctx); most > 0 && st.unserved >= most {
		return s.outOfPatience(ctx, st)
	}
	d = d/2 + time.Duration(s.o.Host.Dice.Int64N(int64(d)))
	var err error
	if e == nil {
		st.unserved += d
		err = s.o.Host.Clock.Sleep(ctx, d)
	} else {
		begun := s.o.Host.Clock.Monotonic()
		k, timer := s.seekLease(e), s.o.Host.Clock.NewTimer(d)
		select {
		case <-k.found:
			if k.node == 0 || k.node == st.woken { // there is nothing to be found, or it has the lease and serves other requests only
				err = s.o.Host.Clock.Sleep(ctx, d)
			}
			st.woken = k.node
		case <-timer.C():
		case <-ctx.Done():
			err = ctx.Err()
		}
		timer.Stop()
		s.unseek(k)
		st.unserved += s.o.Host.Clock.Monotonic() - begun
	}
	if err != nil {
		if st.last != nil {
			return fmt.Errorf("%w (waiting because: %v)", err, st.last)
		}
		return err
	}
	return nil
}

// sendRange sends a batch that lies in one range to a replica that serves it. errReroute means that it has to be routed anew.
func (s *Sender) sendRange(ctx context.Context, b *kv.Batch, e *entry, st *sendState) (*kv.BatchResponse, error) {
	var (
		order   []kv.NodeID // replicas still to be tried in this round; nil: not computed yet
		started bool
		down    []kv.NodeID // not reached in this round
		absent  bool        // a replica does not have the range
		rounds  int
		hops    int // leaseholders followed in this round
	)
	if b.Target != (kv.Target{}) {
		return s.sendTarget(ctx, b, e, st)
	}
	if b.Consistency == kv.Stale {
		if r, err, served := s.sendNearest(ctx, b, e, st); served {
			return r, err
		}
		b.Consistency = kv.Consistent // from here on only the leaseholder can serve it
		defer func() { b.Consistency = kv.Stale }()
	}
	if b.Consistency == kv.Present {
		if r, err, served := s.sendPresent(ctx, b, e, st); served {
			return r, err
		}
		b.Consistency, b.MayWait = kv.Consistent, 0
	}
	node := e.leaseholder()
	if b.Consistency == kv.Inconsistent {
		node = 0
	}
	// next picks another replica, or starts a new round after a pause.
	next := func() error {
		if started && len(order) == 0 {
			s.metrics.Unserved.Add(1)
			led := e // whose leaseholder is missing
			if b.Consistency == kv.Inconsistent || absent {
				led = nil
			}
			if err := s.pauseUntil(ctx, st, led); err != nil {
				return err
			}
			// A removed replica reports that the range has moved. If none did, those that would may be unreachable; but a range that is
			// only slow to find a leaseholder is not worth a lookup each time.
			if rounds++; absent || rounds%roundsBeforeLookup == 0 && e.leaseholder() == 0 {
				st.paused = true
				s.evict(e)
				return errReroute
			}
			down, hops, started = nil, 0, false
			// Another request may have updated the cache meanwhile.
			if now := s.cache.find(e.desc.Start); now != e {
				st.paused = true
				return errReroute
			}
			if n := e.leaseholder(); n != 0 && b.Consistency != kv.Inconsistent {
				node = n
				return nil
			}
		}
		if !started {
			order, started = s.order(e), true
		}
		if len(order) == 0 {
			s.evict(e)
			return errReroute
		}
		node, order = order[0], order[1:]
		return nil
	}
	if node == 0 {
		if err := next(); err != nil {
			return nil, st.final(err)
		}
	}
	for {
		var begun time.Duration // zero for the common case, the first call
		if st.last != nil {
			begun = s.o.Host.Clock.Monotonic()
		}
		r, err, fault := s.call(ctx, node, b, e)
		if begun != 0 && (fault != nil || unavailable(err)) {
			st.unserved += s.o.Host.Clock.Monotonic() - begun
		}
		if fault != nil {
			if context.Cause(ctx) == errEnough {
				return nil, st.wrap(ctx.Err()) // this says nothing about the node
			}
			s.metrics.Unreachable.Add(1)
			s.o.Probes.Reached("route: node not reached")
			e.forget(node)
			st.last = fault
			if maybeServed(fault) {
				if err := st.answerLost(fault, b); err != nil {
					return nil, err
				}
			}
			if ctx.Err() != nil {
				return nil, st.final(ctx.Err())
			}
			down = append(down, node)
			if err := next(); err != nil {
				return nil, st.final(err)
			}
			continue
		}
		if err == nil {
			if b.Consistency == kv.Consistent {
				e.setLeaseholder(node)
				if e.leads.Load() != r.Leads {
					e.leads.Store(r.Leads)
				}
			}
			if len(r.RangeInfos) > 0 {
				s.cache.insert(r.RangeInfos...)
				r.RangeInfos = nil
			}
			return r, nil
		}
		switch x := root(err).(type) {
		case *kv.NotLeaseholderError:
			s.metrics.NotLeaseholder.Add(1)
			st.last = err
			if x.Desc != nil && s.cache.insert(kv.RangeInfo{Desc: *x.Desc, Leaseholder: x.Leaseholder}) {
				if now := s.cache.find(e.desc.Start); now != e {
					return nil, errReroute
				}
			}
			e.forget(node)
			if n := x.Leaseholder.Node; n != 0 && n != node && !slices.Contains(down, n) && hops <= len(e.desc.Replicas) {
				hops++
				if _, ok := e.desc.Replica(n); ok {
					e.setLeaseholder(n)
				}
				node = n
				continue
			}
		case *kv.RangeNotFoundError:
			st.last = err
			s.o.Probes.Reached("route: replica is gone")
			absent = true
			e.forget(node)
		case *kv.RangeMismatchError:
			s.metrics.Mismatches.Add(1)
			s.o.Probes.Reached("route: range has split or merged")
			st.last = err
			if !s.cache.insert(x.Infos...) {
				s.evict(e)
			}
			return nil, errReroute
		case *kv.UnavailableError:
			if x.DiskFull {
				return r, st.wrap(err)
			}
			st.last = err
			e.forget(node)
			down = append(down, node)
		case *kv.ProtocolError, *kv.GenerationError:
			s.learn(err)
			return r, st.wrap(err)
		case *kv.AmbiguousError:
			if err := st.answerLost(err, b); err != nil {
				return nil, err
			}
			if ctx.Err() != nil {
				return nil, st.wrap(err)
			}
			st.last = err
		default:
			return r, st.wrap(err)
		}
		if err := next(); err != nil {
			return nil, st.final(err)
		}
	}
}

// root finds the kv error in a wrapped one.
func root(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

func unavailable(err error) bool {
	if err == nil {
		return false
	}
	_, is := root(err).(*kv.UnavailableError)
	return is
}

// final is wrap, but lets errReroute pass.
func (st *sendState) final(err error) error {
	if err == errReroute {
		return err
	}
	return st.wrap(err)
}

// maybeServed reports whether a batch whose call failed may have been served.
func maybeServed(err error) bool {
	var (
		unreachable *transport.UnreachableError
		overloaded  *transport.OverloadedError
	)
	switch {
	case errors.As(err, &unreachable):
		return unreachable.Sent
	case errors.As(err, &overloaded):
		return false
	}
	return true
}

// call asks one node. fault says that there is no answer.
func (s *Sender) call(ctx context.Context, node kv.NodeID, b *kv.Batch, e *entry) (r *kv.BatchResponse, err, fault error) {
	if b.Trace || !protocol.Leased(b.Protocol) { // what a protocol of its own sends for a transaction is the transaction's
		start := s.o.Host.Clock.Monotonic()
		defer func() {
			if fault == nil {
				s.traced(ctx, b, e, node, start)
			}
		}()
	}
	if node == s.o.NodeID() && s.o.Local != nil {
		s.metrics.Local.Add(1)
		r, err = s.o.Local.Send(ctx, b)
	} else {
		s.metrics.Remote.Add(1)
		class := transport.ClassDefault
		if e.desc.Start.Less(keys.TablePrefix) {
			class = transport.ClassSystem
		}
		b.Now = s.o.Clock.Now()
		switch {
		case b.Consistency == kv.Inconsistent:
			ctx = transport.WhenQuiet(ctx, silent)
		case b.Consistency == kv.Consistent && b.Target == (kv.Target{}):
			ctx = transport.WhenQuiet(ctx, func(ctx context.Context) error { return s.moved(ctx, e, node) }) // route.RO9
		}
		reply, err := s.o.Remote.CallClass(ctx, class, node, Method, s.encode(b, node))
		if err != nil {
			return nil, nil, err
		}
		answer, answerErr, malformed := kv.DecodeReply(reply)
		if malformed != nil {
			return nil, nil, malformed
		}
		r = answer
		if r != nil {
			s.o.Clock.Update(r.Now)
			observe(b, r, node)
		}
		if answerErr != nil {
			return r, answerErr, nil
		}
		if r == nil {
			return nil, nil, kv.ErrMalformed
		}
	}
	if r == nil && err == nil {
		err = &kv.InternalError{Message: "route: a range answered nothing"}
	}
	if b.Trace && r != nil && len(r.Served) == 0 {
		r.Served = []kv.Served{{Range: e.desc.ID, Node: node}}
	}
	return r, err, nil
}

// encode gives the bytes of a batch that leaves for another node.
func (s *Sender) encode(b *kv.Batch, to kv.NodeID) []byte {
	s.address(b, to)
	return kv.AppendBatch(make([]byte, 0, batchSize(b)), b)
}

// observe records the first reading of a node's clock in the transaction (CRDB'20 §4.2): what the node writes after
// it was read, it wrote after the transaction began.
func observe(b *kv.Batch, r *kv.BatchResponse, node kv.NodeID) {
	if b.Txn == nil || r.Now.IsZero() || b.Txn.UncertaintyLimit.LessEq(b.Txn.ReadTimestamp) {
		return
	}
	if _, ok := b.Txn.ObservedAt(node); ok {
		return
	}
	if r.Txn == nil || r.Txn == b.Txn {
		t := *b.Txn
		r.Txn = &t
	}
	r.Txn.Observe(node, r.Now)
}

func batchSize(b *kv.Batch) int {
	n := 256
	for _, r := range b.Requests {
		switch r := r.(type) {
		case *kv.PutRequest:
			n += len(r.Key) + len(r.Value) + 16
		case *kv.CPutRequest:
			n += len(r.Key) + len(r.Value) + len(r.Expected) + 16
		case *kv.LoadRequest:
			for i := range r.Rows {
				n += len(r.Rows[i].Key) + len(r.Rows[i].Value) + 8
			}
		case *kv.ProtocolRequest:
			n += len(r.Key) + len(r.End) + len(r.Body) + 16
		default:
			n += 64
		}
	}
	return n
}

// order lists a range's replicas as they should be tried: this node, then by latency; those that were not measured
// yet last, by locality.
func (s *Sender) order(e *entry) []kv.NodeID {
	nodes := make([]kv.NodeID, 0, len(e.desc.Replicas))
	var witnesses []kv.NodeID // serve nothing, but may know who does
	for _, r := range e.desc.Replicas {
		if r.Witness {
			witnesses = append(witnesses, r.Node)
		} else {
			nodes = append(nodes, r.Node)
		}
	}
	s.sortByLatency(nodes)
	return append(nodes, witnesses...)
}

func (s *Sender) sortByLatency(nodes []kv.NodeID) {
	self := s.o.NodeID()
	rtt := func(n kv.NodeID) time.Duration {
		if n == self {
			return -1
		}
		if s.o.Members != nil {
			if d, ok := s.o.Members.Latency(n); ok {
				return d
			}
			return time.Hour - time.Duration(s.sharedTiers(n))
		}
		return time.Hour
	}
	slices.SortStableFunc(nodes, func(a, b kv.NodeID) int {
		x, y := rtt(a), rtt(b)
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
}
