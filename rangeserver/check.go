package rangeserver

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
)

// Methods by which replicas are compared.
const (
	// MethodHash asks a store for the hash of a replica's state, as of a command in the range's log.
	MethodHash = "range.hash"
	// MethodDeviates tells a store that a replica of it has deviated.
	MethodDeviates = "range.deviates"
)

const (
	// hashQueue bounds the states that are pinned and wait to be hashed, hashResults the hashes that wait to be asked for,
	// hashKeep how long they do.
	hashQueue, hashResults = 8, 256
	hashKeep               = 10 * time.Minute
	// hashPatience is how long a comparison waits for the others beyond what the hashing takes at the allowed rate.
	hashPatience = 30 * time.Second
	// The background comparison looks for a range that is due this often, or more often if there are many.
	checkPauseMin, checkPauseMax = 100 * time.Millisecond, 10 * time.Second
)

// hashKey names one replica's part in a comparison: the command is in the log of the range.
type hashKey struct {
	id      kv.RangeID
	command uint64
}

type hashResult struct {
	done  chan struct{} // closed when what follows is set
	made  time.Duration // monotonic
	index uint64
	hash  replica.Hash
	kept  replica.Stats
	count *replica.Stats // nil: nobody asked
	err   error
}

// hashing is the hashes of this store's replicas, in the making or made.
type hashing struct {
	mu      sync.Mutex // guards what follows; it is taken with a replica held, so nothing is taken after it
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

// pace waits for as long as reading so many bytes may take, and while the node is busy with other things.
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
	defer func() { // nobody else asks
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

// hashOf is the hash of a replica anywhere.
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
	b := binary.AppendUvarint(nil, uint64(k.id))
	b = binary.AppendUvarint(b, k.command)
	if err := stream.Send(b); err != nil {
		return 0, h, err
	}
	if b, err = stream.Recv(); err != nil {
		return 0, h, err
	}
	index, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, h, kv.ErrMalformed
	}
	h, err = replica.DecodeHash(b[n:])
	return index, h, err
}

// serveHash answers hashOf. The asker's end is the end of the wait.
func (s *Store) serveHash(ctx context.Context, _ kv.NodeID, stream transport.Stream) error {
	b, err := stream.Recv()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	id, n := binary.Uvarint(b)
	if n <= 0 {
		return kv.ErrMalformed
	}
	command, m := binary.Uvarint(b[n:])
	if m <= 0 {
		return kv.ErrMalformed
	}
	r, err := s.awaitHash(ctx, hashKey{kv.RangeID(id), command})
	if err != nil {
		return err
	}
	return stream.Send(r.hash.Append(binary.AppendUvarint(nil, r.index)))
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
}

// DeviationError says that a replica's state is another than that of the rest of its range.
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
		"What it would serve may be wrong, so the node stops, and does not start again on this store. Start the node with an empty store, "+
		"as a new one, and take the old one out with 'meridian node decommission %d'; keep the old store until the reason is known (disk, memory, or a bug)",
		e.Range, e.Node, e.Index, e.Hash, strings.Join(others, ", "), e.Other, strings.Join(e.Parts, ", "), e.Node)
}

// CheckRange compares the replicas of a range whose lease is here.
//
// A command in the range's log makes each replica hash its state as of that place of the log, so that they compare equals
// however far apart they are at any moment (R4 in package replica). A deviation has to show a second time before it counts. The nodes that
// deviate are told, and stop.
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
	// This node last: it tells the others as long as it can.
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
		text, err := json.Marshal(d)
		if err == nil {
			_, err = s.o.Network.CallClass(ctx, transport.ClassSystem, d.Node, MethodDeviates, text)
		}
		if err != nil {
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
	// Each node hashes one range at a time, so what waits there may be as large as this one.
	takes := time.Duration(float64(e.r.Stats().TotalBytes) / float64(s.o.Settings.Bytes(setting.CheckRate)) * float64(time.Second))
	ctx, cancel := context.WithTimeout(ctx, hashPatience+4*takes)
	defer cancel()
	own, err := s.awaitHash(ctx, k)
	if err != nil {
		return nil, err
	}
	c := &RangeCheck{Range: id, Index: own.index, hashes: map[kv.NodeID]replica.Hash{s.o.NodeID: own.hash}}
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
			c.hashes[a.node] = a.hash
		} else {
			c.Missing = append(c.Missing, a.node)
		}
	}
	slices.Sort(c.Missing)
	c.judge(s.o.NodeID)
	if c.Kept != c.Counted {
		// All replicas whose hash is this one's keep the same statistics, so the mistake is in what changed them. They decide
		// whether readers look for intents at all: the difference is made good, by every replica alike.
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

// judge finds the replicas that deviate: those whose hash is not that of more than half of those that were compared. If
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
}

// serveDeviates stops this node, on whose store a replica has deviated.
func (s *Store) serveDeviates(_ context.Context, from kv.NodeID, b []byte) ([]byte, error) {
	d := &DeviationError{}
	if err := json.Unmarshal(b, d); err != nil {
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
	text, err := json.Marshal(d)
	if err == nil {
		b := s.o.Engine.NewBatch()
		b.Put(keys.StoreDeviationKey(), text)
		err = b.Commit(true)
		_ = b.Close()
	}
	if err != nil {
		s.log.Error("the store can't be marked as deviating", "error", err)
	}
	s.Fatal(d)
}

// checkDeviation refuses a store with a replica that has deviated.
func (s *Store) checkDeviation() error {
	v, err := s.o.Engine.Get(keys.StoreDeviationKey())
	if err != nil || v == nil {
		return err
	}
	d := &DeviationError{}
	if err := json.Unmarshal(v, d); err != nil {
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
			if e.checkAt == 0 { // the first time anywhere within an interval, so that not all are due at once
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
