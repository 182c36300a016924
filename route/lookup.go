package route

import (
	"context"
	"errors"
	"fmt"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/transport"
)

// prefetch is the number of descriptors that one lookup returns.
const prefetch = 8

// settleTimeout bounds the wait for a transaction that changes the index: it may have to expire. settlePatience is how long the lookup
// waits before that.
const (
	settleTimeout  = 10 * time.Second
	settlePatience = 500 * time.Millisecond
	// indexPause is how long an index that can't be read is left alone.
	indexPause = time.Second
)

var errIndex = errors.New("the range index can't be read")

// flight is one lookup, which several requests may wait for.
type flight struct {
	done  chan struct{}
	found found
	err   error
}

// found is the result of a lookup: descriptors, and those that are not committed, or not known to be.
type found struct{ committed, provisional []kv.RangeInfo }

// locate returns the range that contains k or, with before, the keys just before k. It reads the range index if the range is not cached.
func (s *Sender) locate(ctx context.Context, k keys.Key, before bool) (*entry, error) {
	find := s.cache.find
	if before {
		find = s.cache.findBefore
	}
	if e := find(k); e != nil {
		return e, nil
	}
	if !before && k.Compare(keys.Max) >= 0 || before && len(k) == 0 {
		return nil, &kv.InternalError{Message: "route: a key is outside of the keyspace"}
	}
	span, indexed := keys.MetaSpan(k)
	if before {
		span, indexed = keys.MetaEndSpan(k)
	}
	if !indexed {
		if e := s.lastKnown(k, before); e != nil {
			s.inFlight("first", func(ctx context.Context) {
				ctx, cancel := s.o.Host.Clock.WithTimeout(ctx, settleTimeout)
				defer cancel()
				_ = s.findFirst(ctx) // takes seconds if members do not know who leads it
			})
			return e, nil
		}
	} else if s.unread.Load() {
		if e := s.lastKnown(k, before); e != nil {
			s.tryIndex(span)
			return e, nil
		}
	}
	var st sendState
	begun, most, outer := s.o.Host.Clock.Monotonic(), patience(ctx), ctx
	for {
		if most > 0 {
			if st.unserved = s.o.Host.Clock.Monotonic() - begun; st.unserved >= most {
				return s.withoutIndex(outer, k, before, s.outOfPatience(ctx, &st))
			}
			ctx = less(outer, most-st.unserved)
		}
		found, err := s.once(ctx, string(span.Start), func() (found, error) {
			s.metrics.Lookups.Add(1)
			if !indexed {
				return found{}, s.findFirst(ctx)
			}
			return s.lookup(ctx, span)
		})
		holds := func(d *kv.RangeDescriptor) bool {
			return before && d.Start.Less(k) && k.Compare(d.End) <= 0 || !before && d.Contains(k)
		}
		if e := s.behind(find(k), &found, holds, span); e != nil {
			return e, nil
		}
		if ctx.Err() != nil {
			if err == nil {
				err = ctx.Err()
			}
			return s.withoutIndex(outer, k, before, err)
		}
		if err != nil && !again(err) {
			return s.withoutIndex(outer, k, before, err)
		}
		// The index was read in the middle of a change, or not at all; or it has only intents of the range, more than it returns.
		if st.last = err; err == nil && indexed {
			s.settle(span)
		}
		if err := s.pause(ctx, &st); err != nil {
			return s.withoutIndex(outer, k, before, err)
		}
	}
}

// A region that is cut off can't read the index. Its replicas go on to answer reads of the past, so ranges that were evicted because their leaseholders do not
// answer are remembered.

// evict removes a range from the cache; it remains as the last that was known.
func (s *Sender) evict(e *entry) {
	s.old.insert(kv.RangeInfo{Desc: *e.desc})
	s.cache.evict(e)
}

// lastKnown is the range that contained a key when the index was read last.
func (s *Sender) lastKnown(k keys.Key, before bool) *entry {
	if before {
		return s.old.findBefore(k)
	}
	return s.old.find(k)
}

// withoutIndex is the result of a lookup that has failed: the last known range, which may have moved since, if there is one. Requests that it can't serve fail for lack of
// a leaseholder instead, as late as they would have for lack of the index.
func (s *Sender) withoutIndex(ctx context.Context, k keys.Key, before bool, err error) (*entry, error) {
	if ctx.Err() != nil {
		return nil, err // the caller has ended, which says nothing about the index
	}
	s.unread.Store(true)
	if e := s.lastKnown(k, before); e != nil {
		s.o.Probes.Reached("route: the index can't be read, and the last known range is used")
		return e, nil
	}
	return nil, err
}

// tryIndex reads the index in the background, once in a while, until that succeeds.
func (s *Sender) tryIndex(span keys.Span) {
	s.inFlight("index", func(ctx context.Context) {
		if s.o.Host.Clock.Sleep(ctx, indexPause) != nil {
			return
		}
		ctx, cancel := s.o.Host.Clock.WithTimeout(ctx, settleTimeout)
		defer cancel()
		_, _ = s.lookup(ctx, span)
	})
}

// inFlight runs f in the background, unless that is being done under the same key.
func (s *Sender) inFlight(key string, f func(context.Context)) {
	s.mu.Lock()
	busy := s.flights[key] != nil
	if !busy {
		s.flights[key] = &flight{done: make(chan struct{})}
	}
	s.mu.Unlock()
	if busy {
		return
	}
	done := func() {
		s.mu.Lock()
		delete(s.flights, key)
		s.mu.Unlock()
	}
	if !s.o.Host.Group.Go(func(ctx context.Context) {
		defer done()
		f(ctx)
	}) {
		done()
	}
}

// behind chooses between the cached entry, e, and the index's answer. The index may be behind: when the coordinator of a change died, its
// intents remain, and lookups do not wait for their outcome. Its descriptor is then used without being cached (route.RO1); the replicas
// know the range's present state.
//
// An old descriptor does not replace newer ones of its neighbours. A descriptor that only an intent has may be the only one: half of a
// split's intents were resolved. One that an intent changes may be the old or the new one, so the replicas of both are asked.
func (s *Sender) behind(e *entry, f *found, holds func(*kv.RangeDescriptor) bool, span keys.Span) *entry {
	pick := func(infos []kv.RangeInfo) (d *kv.RangeDescriptor) {
		for i := range infos {
			if x := &infos[i].Desc; holds(x) && (d == nil || d.Generation < x.Generation) {
				d = x
			}
		}
		return d
	}
	was, next := pick(f.committed), pick(f.provisional)
	if next != nil && (e == nil || e.desc.Generation < next.Generation) {
		s.o.Probes.Reached("route: the index has intents")
		s.settle(span)
		switch {
		case was == nil && e == nil:
			return &entry{desc: next.Clone()}
		case was == nil:
			was = e.desc
		}
		if was.ID == next.ID {
			d := was.Clone()
			for _, r := range next.Replicas {
				if _, ok := d.Replica(r.Node); !ok {
					d.Replicas = append(d.Replicas, r)
				}
			}
			return &entry{desc: d}
		}
	}
	if e == nil && was != nil {
		s.o.Probes.Reached("route: the index is behind")
		e = &entry{desc: was.Clone()}
	}
	return e
}

// settle resolves the intents in a part of the index: a consistent read waits for their transactions, or ends them.
func (s *Sender) settle(span keys.Span) {
	s.inFlight("settle"+string(span.Start), func(ctx context.Context) {
		if s.o.Host.Clock.Sleep(ctx, settlePatience) != nil {
			return // most changes have ended by then
		}
		ctx, cancel := s.o.Host.Clock.WithTimeout(ctx, settleTimeout)
		defer cancel()
		b := &kv.Batch{Header: kv.Header{MaxKeys: prefetch}, Requests: []kv.Request{&kv.ScanRequest{Start: span.Start, End: span.End}}}
		_, _ = s.Send(ctx, b)
	})
}

// again reports whether a failed lookup is worth repeating: another caller's context ended it.
func again(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// once runs f, unless another caller is running it for the same key: then it waits for that one.
func (s *Sender) once(ctx context.Context, key string, f func() (found, error)) (found, error) {
	s.mu.Lock()
	if other := s.flights[key]; other != nil {
		s.mu.Unlock()
		var late <-chan time.Time
		if most := patience(ctx); most > 0 { // which the caller that makes the lookup may not have
			timer := s.o.Host.Clock.NewTimer(most)
			defer timer.Stop()
			late = timer.C()
		}
		select {
		case <-late:
			return found{}, s.outOfPatience(ctx, &sendState{unserved: patience(ctx), last: errIndex})
		case <-other.done:
			if other.err != nil && ctx.Err() == nil && !(late != nil && unavailable(other.err)) {
				return found{}, context.Canceled // try for ourselves
			}
			return other.found, other.err
		case <-ctx.Done():
			return found{}, ctx.Err()
		}
	}
	fl := &flight{done: make(chan struct{})}
	s.flights[key] = fl
	s.mu.Unlock()
	fl.found, fl.err = f()
	s.mu.Lock()
	delete(s.flights, key)
	s.mu.Unlock()
	close(fl.done)
	return fl.found, fl.err
}

// lookup reads the range index, and caches the committed descriptors.
func (s *Sender) lookup(ctx context.Context, span keys.Span) (f found, err error) {
	b := &kv.Batch{
		Header:   kv.Header{Consistency: kv.Inconsistent, MaxKeys: prefetch},
		Requests: []kv.Request{&kv.ScanRequest{Start: span.Start, End: span.End}},
	}
	var st sendState
	r, err := s.send(ctx, b, &st)
	if err != nil {
		return f, err
	}
	if len(r.Responses) != 1 {
		return f, &kv.InternalError{Message: "route: malformed answer to a lookup"}
	}
	scan, ok := r.Responses[0].(*kv.ScanResponse)
	if !ok {
		return f, &kv.InternalError{Message: "route: malformed answer to a lookup"}
	}
	if f.committed, err = descriptors(scan.Rows); err != nil {
		return f, err
	}
	if f.provisional, err = descriptors(scan.Provisional); err != nil {
		return f, err
	}
	s.cache.insert(f.committed...)
	s.unread.Store(false)
	return f, nil
}

func descriptors(rows []kv.KeyValue) ([]kv.RangeInfo, error) {
	infos := make([]kv.RangeInfo, 0, len(rows))
	for _, row := range rows {
		d, err := kv.DecodeRangeDescriptor(row.Value)
		if err != nil {
			return nil, &kv.InternalError{Message: fmt.Sprintf("route: range index key %s: %v", keys.Masked(row.Key), err)}
		}
		infos = append(infos, kv.RangeInfo{Desc: d})
	}
	return infos, nil
}

// findFirst asks the members for the first range.
func (s *Sender) findFirst(ctx context.Context) error {
	var st sendState
	for {
		var nodes []kv.NodeID
		if s.o.Local != nil && s.o.NodeID() != 0 {
			nodes = append(nodes, s.o.NodeID())
		}
		if s.o.Members != nil {
			for _, m := range s.o.Members.Nodes() {
				if m.Node != 0 && m.Node != s.o.NodeID() {
					nodes = append(nodes, m.Node)
				}
			}
		}
		s.sortByLatency(nodes)
		for i := 0; i < len(nodes) && i < 1000; i++ {
			b := &kv.Batch{
				Header:   kv.Header{RangeID: FirstRange, Gateway: s.o.NodeID()},
				Requests: []kv.Request{&kv.RangeInfoRequest{Key: keys.Meta1Prefix}},
			}
			r, err := s.ask(ctx, nodes[i], b)
			switch x := root(err).(type) {
			case nil:
				if info, ok := r.Responses[0].(*kv.RangeInfoResponse); ok && info.Desc.Contains(keys.Meta1Prefix) {
					lease, _ := info.Desc.Replica(info.Leaseholder)
					s.cache.insert(kv.RangeInfo{Desc: info.Desc, Leaseholder: lease})
					return nil
				}
			case *kv.NotLeaseholderError:
				if x.Desc != nil {
					s.cache.insert(kv.RangeInfo{Desc: *x.Desc, Leaseholder: x.Leaseholder})
					return nil
				}
				if n := x.Leaseholder.Node; n != 0 && i < 10 {
					nodes = append(nodes[:i+1:i+1], append([]kv.NodeID{n}, nodes[i+1:]...)...)
				}
			case *kv.RangeMismatchError:
				if s.cache.insert(x.Infos...) {
					return nil
				}
			default:
				st.last = err
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if err := s.pause(ctx, &st); err != nil {
			return err
		}
	}
}

// ask sends a batch to one node, without the range cache.
func (s *Sender) ask(ctx context.Context, node kv.NodeID, b *kv.Batch) (*kv.BatchResponse, error) {
	var (
		r   *kv.BatchResponse
		err error
	)
	if node == s.o.NodeID() && s.o.Local != nil {
		r, err = s.o.Local.Send(ctx, b)
	} else {
		reply, fault := s.o.Remote.CallClass(ctx, transport.ClassSystem, node, Method, s.encode(b, node))
		if fault != nil {
			return nil, fault
		}
		var malformed error
		if r, err, malformed = kv.DecodeReply(reply); malformed != nil {
			return nil, malformed
		}
	}
	if err == nil && (r == nil || len(r.Responses) != len(b.Requests)) {
		err = kv.ErrMalformed
	}
	return r, err
}
