package rangeserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
	"meridian/setting"
	"meridian/transport"
	"meridian/wire"
)

// Methods by which replicas are compared.
const (
	// MethodHash asks a store for the hash of a replica's state, as of a command in the range's log.
	MethodHash = "range.hash"
	// MethodDeviates tells a store that one of its replicas differs.
	MethodDeviates = "range.deviates"
)

const (
	// hashQueue bounds the states that are pinned and wait to be hashed, hashResults the hashes that wait to be asked for,
	// hashKeep how long they do.
	hashQueue, hashResults = 8, 256
	hashKeep               = 10 * time.Minute
	// hashPatience is how long a comparison waits for the others in addition to the time of hashing at the allowed rate.
	hashPatience = 30 * time.Second
	// The background comparison searches for a due range this often, or more often if there are many.
	checkPauseMin, checkPauseMax = 100 * time.Millisecond, 10 * time.Second
)

// hashKey names one replica's part in a comparison: the command is in the log of the range.
type hashKey struct {
	id      kv.RangeID
	command uint64
}

type hashResult struct {
	done  chan struct{} // closed when the following fields are set
	made  time.Duration // monotonic
	index uint64
	hash  replica.Hash
	kept  replica.Stats
	count *replica.Stats // nil: not requested
	err   error
}

// hashing has the hashes of this store's replicas, finished or in progress.
type hashing struct {
	mu      sync.Mutex // guards the fields below; it is taken with a replica held, so nothing is taken after it
	ended   bool
	queue   []*replica.HashJob
	wake    chan struct{}
	results map[hashKey]*hashResult
	counted map[hashKey]bool // of which the statistics are counted too
}

// result is where the hash for a command will be; nil if there are too many.
func (h *hashing) result(k hashKey, now time.Duration) *hashResult {
	if r := h.results[k]; r != nil {
		return r
	}
	if len(h.results) >= hashResults {
		for k, r := range h.results {
			if now-r.made > hashKeep {
				delete(h.results, k)
				delete(h.counted, k)
			}
		}
		if len(h.results) >= hashResults {
			return nil
		}
	}
	r := &hashResult{done: make(chan struct{}), made: now}
	h.results[k] = r
	return r
}

var errHashBusy = errors.New("rangeserver: too many replicas are being compared")

// HashDue implements replica.Store: it leaves the work to hashLoop.
func (s *Store) HashDue(_ *replica.Replica, j *replica.HashJob) {
	h := &s.hashing
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.result(hashKey{j.Range, j.ID}, s.o.Clock.Physical().Monotonic())
	if h.ended || r == nil || len(h.queue) >= hashQueue {
		j.Close()
		if r != nil {
			r.err = errHashBusy
			close(r.done)
		}
		return
	}
	h.queue = append(h.queue, j)
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// hashLoop hashes one pinned state after the other, no faster than the cluster setting allows.
func (s *Store) hashLoop(ctx context.Context) {
	h := &s.hashing
	defer func() {
		h.mu.Lock()
		h.ended = true
		for _, j := range h.queue {
			j.Close()
		}
		h.queue = nil
		h.mu.Unlock()
	}()
	for {
		h.mu.Lock()
		var j *replica.HashJob
		if len(h.queue) > 0 {
			j = h.queue[0]
			h.queue = slices.Delete(h.queue, 0, 1)
		}
		h.mu.Unlock()
		if j == nil {
			select {
			case <-h.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		s.hash(ctx, j)
	}
}

func (s *Store) hash(ctx context.Context, j *replica.HashJob) {
	defer j.Close()
	h, k := &s.hashing, hashKey{j.Range, j.ID}
	sum, err := j.Sum(func(n int) error { return s.pace(ctx, n) })
	h.mu.Lock()
	count := h.counted[k]
	h.mu.Unlock()
	var kept replica.Stats
	var counted *replica.Stats
	if count && err == nil {
		var c replica.Stats
		kept, c, err = j.Stats()
		counted = &c
	}
	h.mu.Lock()
	if r := h.results[k]; r != nil {
		r.index, r.hash, r.kept, r.count, r.err = j.Index, sum, kept, counted, err
		close(r.done)
	}
	h.mu.Unlock()
}

// pace waits for as long as reading so many bytes may take, and while the node is busy with other work.
func (s *Store) pace(ctx context.Context, n int) error {
	if err := s.yield(ctx); err != nil {
		return err
	}
	rate := s.o.Settings.Bytes(setting.CheckRate)
	return s.o.Clock.Physical().Sleep(ctx, time.Duration(float64(n)/float64(rate)*float64(time.Second)))
}

// awaitHash waits for the hash of a replica here.
func (s *Store) awaitHash(ctx context.Context, k hashKey) (*hashResult, error) {
	h := &s.hashing
	h.mu.Lock()
	r := h.result(k, s.o.Clock.Physical().Monotonic())
	h.mu.Unlock()
	if r == nil {
		return nil, errHashBusy
	}
	defer func() { // there is no other caller
		h.mu.Lock()
		delete(h.results, k)
		delete(h.counted, k)
		h.mu.Unlock()
	}()
	select {
	case <-r.done:
		return r, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// hashOf is the hash of a replica on any node.
func (s *Store) hashOf(ctx context.Context, p kv.ReplicaDescriptor, k hashKey) (index uint64, h replica.Hash, err error) {
	if p.Node == s.o.NodeID {
		r, err := s.awaitHash(ctx, k)
		if err != nil {
			return 0, h, err
		}
		return r.index, r.hash, nil
	}
	if s.o.Network == nil {
		return 0, h, errors.New("rangeserver: no network")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.o.Network.OpenStreamClass(ctx, transport.ClassBulk, p.Node, MethodHash)
	if err != nil {
		return 0, h, err
	}
	if err := stream.Send(wire.Append(nil, &k, (*hashKey).fields)); err != nil {
		return 0, h, err
	}
	b, err := stream.Recv()
	if err != nil {
		return 0, h, err
	}
	answer, err := wire.Decoded(b, (*hashAnswer).fields)
	return answer.index, answer.hash, err
}

func (k *hashKey) fields(c *wire.Coder) {
	c.Message("rangeserver.HashRequest", wire.Skips)
	wire.Uint64(c, 1, &k.id)
	wire.Uint64(c, 3, &k.command)
}

// hashAnswer is a replica's hash at an index of its log.
type hashAnswer struct {
	index uint64
	hash  replica.Hash
}

// fields declares the message. All of it has to be understood: another method of hashing would look like a difference.
func (a *hashAnswer) fields(c *wire.Coder) {
	c.Message("rangeserver.HashAnswer", wire.Refuses)
	wire.Uint64(c, 1, &a.index)
	var hash []byte
	if c.Writing() {
		hash = a.hash.Append(nil)
	} else if c.At() != 3 {
		return
	}
	if c.Bytes(3, &hash); !c.Writing() {
		var err error
		if a.hash, err = replica.DecodeHash(hash); err != nil {
			c.Malformed()
		}
	}
}

// serveHash answers hashOf. The wait ends with the caller's context.
func (s *Store) serveHash(ctx context.Context, _ kv.NodeID, stream transport.Stream) error {
	b, err := stream.Recv()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	k, err := wire.Decoded(b, (*hashKey).fields)
	if err != nil {
		return err
	}
	r, err := s.awaitHash(ctx, k)
	if err != nil {
		return err
	}
	return stream.Send(wire.Append(nil, &hashAnswer{r.index, r.hash}, (*hashAnswer).fields))
}

// RangeCheck is the result of comparing the replicas of a range.
type RangeCheck struct {
	Range kv.RangeID
	// Index is the place in the log at which they were compared; Compared are the nodes that gave a hash, Missing those that did
	// not: they are away, or have got a raft snapshot of a later state.
	Index             uint64
	Compared, Missing []kv.NodeID
	// Deviating are the replicas whose nodes have to stop.
	Deviating []*DeviationError
	// Kept and Counted are the range's statistics and what a count of the leaseholder's data says.
	Kept, Counted replica.Stats

	hashes map[kv.NodeID]replica.Hash
	// witnesses are the hashes of those, which have a part of the state only.
	witnesses map[kv.NodeID]replica.Hash
}

// DeviationError says that a replica's state differs from that of the rest of its range.
type DeviationError struct {
	Range       kv.RangeID
	Node        kv.NodeID
	Index       uint64
	Hash, Other string
	// Others have Other's hash; Parts are those in which the two differ.
	Others []kv.NodeID
	Parts  []string
}

func (e *DeviationError) Error() string {
	others := make([]string, len(e.Others))
	for i, n := range e.Others {
		others[i] = "n" + strconv.Itoa(int(n))
	}
	return fmt.Sprintf("the replica of range %d on node %d has deviated: at index %d its hash is %s, that of %s is %s; they differ in: %s. "+
		"Its data may be wrong, so the node stops, and does not start again on this store. Start the node with an empty store, "+
		"as a new one, and take the old one out with 'meridian node decommission %d'; keep the old store until the reason is known (disk, memory, or a bug)",
		e.Range, e.Node, e.Index, e.Hash, strings.Join(others, ", "), e.Other, strings.Join(e.Parts, ", "), e.Node)
}

func (e *DeviationError) fields(c *wire.Coder) {
	c.Message("rangeserver.Deviation", wire.Skips)
	wire.Uint64(c, 1, &e.Range)
	wire.Uint32(c, 3, &e.Node)
	wire.Uint64(c, 5, &e.Index)
	c.String(7, &e.Hash)
	c.String(9, &e.Other)
	if c.Writing() {
		wire.Numbers(c, 11, &e.Others)
	} else if c.At() == 11 { // several are one list
		var more []kv.NodeID
		wire.Numbers(c, 11, &more)
		e.Others = append(e.Others, more...)
	}
	c.Strings(13, &e.Parts)
}

// CheckRange compares the replicas of a range whose lease is here.
//
// A command in the range's log makes each replica hash its state as of that place of the log, so that they compare equals
// however far apart they are at any moment (replica.R4). A difference has to be found a second time before it counts. The nodes of such
// replicas are told, and stop.
func (s *Store) CheckRange(ctx context.Context, id kv.RangeID) (*RangeCheck, error) {
	c, err := s.compare(ctx, id)
	if err != nil || len(c.Deviating) == 0 {
		return c, err
	}
	again, err := s.compare(ctx, id)
	if err != nil {
		return c, err
	}
	again.Deviating = slices.DeleteFunc(again.Deviating, func(d *DeviationError) bool {
		return !slices.ContainsFunc(c.Deviating, func(o *DeviationError) bool { return o.Node == d.Node })
	})
	for _, d := range again.Deviating {
		s.Metrics.Deviations.Add(1)
		s.log.Error("a replica has deviated", "range", uint64(id), "node", d.Node, "error", d)
	}
	// This node comes last, so that it can tell the others first.
	slices.SortFunc(again.Deviating, func(a, b *DeviationError) int {
		if (a.Node == s.o.NodeID) != (b.Node == s.o.NodeID) {
			if a.Node == s.o.NodeID {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.Node, b.Node)
	})
	for _, d := range again.Deviating {
		if d.Node == s.o.NodeID {
			s.deviates(d)
			continue
		}
		if _, err := s.o.Network.CallClass(ctx, transport.ClassSystem, d.Node, MethodDeviates, wire.Append(nil, d, (*DeviationError).fields)); err != nil {
			s.log.Error("the node of a deviating replica can't be told to stop", "node", d.Node, "error", err)
		}
	}
	return again, nil
}

// compare is one round.
func (s *Store) compare(ctx context.Context, id kv.RangeID) (*RangeCheck, error) {
	e := s.entry(id)
	if e == nil || !e.ready.Load() {
		return nil, &kv.RangeNotFoundError{Range: id}
	}
	sequence, err := e.r.EnsureLease(ctx, clock.Timestamp{})
	if err != nil {
		return nil, err
	}
	d, k := e.r.Desc(), hashKey{id, s.o.Host.Dice.Uint64() | 1}
	h := &s.hashing
	h.mu.Lock()
	h.counted[k] = true
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.counted, k)
		h.mu.Unlock()
	}()
	if err := e.r.Propose(ctx, &replica.Command{LeaseSequence: sequence, Hash: k.command}); err != nil {
		return nil, err
	}
	s.Metrics.RangeChecks.Add(1)
	// Each node hashes one range at a time, so a range that waits there may be as large as this one.
	takes := time.Duration(float64(e.r.Stats().TotalBytes) / float64(s.o.Settings.Bytes(setting.CheckRate)) * float64(time.Second))
	ctx, cancel := s.o.Host.Clock.WithTimeout(ctx, hashPatience+4*takes)
	defer cancel()
	own, err := s.awaitHash(ctx, k)
	if err != nil {
		return nil, err
	}
	c := &RangeCheck{Range: id, Index: own.index, hashes: map[kv.NodeID]replica.Hash{s.o.NodeID: own.hash}, witnesses: map[kv.NodeID]replica.Hash{}}
	if own.count != nil {
		c.Kept, c.Counted = own.kept, *own.count
	}
	type answer struct {
		node  kv.NodeID
		index uint64
		hash  replica.Hash
		err   error
	}
	answers := make(chan answer, len(d.Replicas))
	asked := 0
	for _, p := range d.Replicas {
		if p.Node == s.o.NodeID {
			continue
		}
		if inc, _ := s.o.Liveness.Incarnation(p.Node); inc == 0 || !s.o.Liveness.IsLive(p.Node, inc, s.o.Clock.Now()) {
			c.Missing = append(c.Missing, p.Node)
			continue
		}
		if s.group.Go(func(context.Context) {
			index, h, err := s.hashOf(ctx, p, k)
			answers <- answer{p.Node, index, h, err}
		}) {
			asked++
		}
	}
	for range asked {
		if a := <-answers; a.err == nil && a.index == own.index {
			if p, ok := d.Replica(a.node); ok && p.Witness {
				c.witnesses[a.node] = a.hash
			} else {
				c.hashes[a.node] = a.hash
			}
		} else {
			c.Missing = append(c.Missing, a.node)
		}
	}
	slices.Sort(c.Missing)
	c.judge(s.o.NodeID)
	if c.Kept != c.Counted {
		// All replicas whose hash is this one's keep the same statistics, so the defect is in the commands that changed them. They decide
		// whether readers look for intents at all: a command corrects the difference on every replica.
		s.Metrics.StatisticsWrong.Add(1)
		s.log.Error("a range's statistics were wrong", "range", uint64(id), "index", c.Index, "kept", c.Kept, "counted", c.Counted)
		if len(c.Deviating) == 0 {
			delta := c.Counted
			delta.Subtract(c.Kept)
			if err := e.r.Propose(ctx, &replica.Command{LeaseSequence: sequence, Delta: delta}); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}

// judge finds the replicas that differ: those whose hash is not that of more than half of the compared ones. If
// there is no such majority, as with two, the leaseholder's is right: all commands were evaluated against its state, and all
// answers of the range came from it.
func (c *RangeCheck) judge(leaseholder kv.NodeID) {
	count := make(map[replica.Hash]int)
	for n, h := range c.hashes {
		c.Compared = append(c.Compared, n)
		count[h]++
	}
	slices.Sort(c.Compared)
	right := c.hashes[leaseholder]
	for h, n := range count {
		if 2*n > len(c.hashes) {
			right = h
		}
	}
	var agree []kv.NodeID
	for _, n := range c.Compared {
		if c.hashes[n] == right {
			agree = append(agree, n)
		}
	}
	for _, n := range c.Compared {
		if h := c.hashes[n]; h != right {
			c.Deviating = append(c.Deviating, &DeviationError{Range: c.Range, Node: n, Index: c.Index, Hash: h.String(), Other: right.String(),
				Others: agree, Parts: h.Differs(&right)})
		}
	}
	for _, n := range slices.Sorted(maps.Keys(c.witnesses)) { // they are no part of a majority
		c.Compared = append(c.Compared, n)
		if h := c.witnesses[n]; !h.AgreesAsWitness(&right) {
			c.Deviating = append(c.Deviating, &DeviationError{Range: c.Range, Node: n, Index: c.Index, Hash: h.String(), Other: right.String(),
				Others: agree, Parts: h.Differs(&right)[:1]})
		}
	}
	slices.Sort(c.Compared)
}

// serveDeviates stops this node, because a replica on its store differs.
func (s *Store) serveDeviates(_ context.Context, from kv.NodeID, b []byte) ([]byte, error) {
	d := &DeviationError{}
	if err := wire.Decode(b, d, (*DeviationError).fields); err != nil {
		return nil, err
	}
	if d.Node != s.o.NodeID || s.entry(d.Range) == nil {
		return nil, fmt.Errorf("rangeserver: n%d has no replica of r%d that could have deviated", s.o.NodeID, d.Range)
	}
	s.log.Error("told of a replica here that has deviated", "by", from, "range", uint64(d.Range))
	s.deviates(d)
	return nil, nil
}

// deviates notes in the store that it must not be used again, and stops the node.
func (s *Store) deviates(d *DeviationError) {
	b := s.o.Engine.NewBatch()
	b.Put(keys.StoreDeviationKey(), wire.Append(nil, d, (*DeviationError).fields))
	err := b.Commit(true)
	_ = b.Close()
	if err != nil {
		s.log.Error("the store can't be marked as deviating", "error", err)
	}
	s.Fatal(d)
}

// checkDeviation refuses a store with a replica that differs.
func (s *Store) checkDeviation() error {
	v, err := s.o.Engine.Get(keys.StoreDeviationKey())
	if err != nil || v == nil {
		return err
	}
	d := &DeviationError{}
	if err := wire.Decode(v, d, (*DeviationError).fields); err != nil {
		return err
	}
	return d
}

// checkLoop compares the replicas of each range whose lease is here, one range after the other, each once in the interval of
// the cluster setting.
func (s *Store) checkLoop(ctx context.Context) {
	clk := s.o.Clock.Physical()
	pause := checkPauseMax
	for clk.Sleep(ctx, pause) == nil {
		interval := s.o.Settings.Duration(setting.CheckInterval)
		if pause = checkPauseMax; interval == 0 || !s.o.Settings.Known() || s.queues.paused.Load() {
			continue
		}
		now, mine := clk.Monotonic(), 0
		var due *entry
		s.ranges.Range(func(_, v any) bool {
			e := v.(*entry)
			if !e.ready.Load() {
				return true
			}
			if _, held := e.r.CheckLease(clock.Timestamp{}); !held {
				return true
			}
			mine++
			if e.checkAt == 0 { // the first time at a random moment of the interval, so that not all are due together
				e.checkAt = now + time.Duration(s.o.Host.Dice.Int64N(int64(interval)))
			}
			e.checkAt = min(e.checkAt, now+interval) // the setting may have changed
			if e.checkAt <= now && (due == nil || e.checkAt < due.checkAt) {
				due = e
			}
			return true
		})
		pause = min(max(interval/time.Duration(mine+1), checkPauseMin), checkPauseMax)
		if due == nil {
			continue
		}
		due.checkAt = now + interval
		if _, err := s.CheckRange(ctx, due.r.RangeID()); err != nil && ctx.Err() == nil {
			s.log.Info("a range's replicas could not be compared", "range", uint64(due.r.RangeID()), "err", err)
		}
	}
}
