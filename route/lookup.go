package route

import (
	"context"
	"errors"
	"fmt"

	"meridian/keys"
	"meridian/kv"
	"meridian/transport"
)

// prefetch is the number of descriptors that one lookup brings.
const prefetch = 8

// flight is one lookup, however many wait for it.
type flight struct {
	done  chan struct{}
	infos []kv.RangeInfo // what the index says
	err   error
}

// locate returns the range that contains k or, with before, the keys just before k. It asks the range index if the
// range is not remembered.
func (s *Sender) locate(ctx context.Context, k keys.Key, before bool) (*entry, error) {
	find := s.cache.find
	if before {
		find = s.cache.findBefore
	}
	if e := find(k); e != nil {
		return e, nil
	}
	if !before && k.Compare(keys.Max) >= 0 || before && len(k) == 0 {
		return nil, &kv.InternalError{Message: fmt.Sprintf("route: key %x is outside of the keyspace", []byte(k))}
	}
	span, indexed := keys.MetaSpan(k)
	if before {
		span, indexed = keys.MetaEndSpan(k)
	}
	var st sendState
	for {
		infos, err := s.once(ctx, string(span.Start), func() ([]kv.RangeInfo, error) {
			s.metrics.Lookups.Add(1)
			if !indexed {
				return nil, s.findFirst(ctx)
			}
			return s.lookup(ctx, span)
		})
		if e := find(k); e != nil {
			return e, nil
		}
		// The index may be behind what is remembered of k's neighbours: who split the range died before the intents
		// in the index were resolved, and lookups pass by intents. The old descriptor does not replace the newer ones
		// (RO1), but its replicas know what became of the range.
		for i := range infos {
			d := &infos[i].Desc
			if before && d.Start.Less(k) && k.Compare(d.End) <= 0 || !before && d.Contains(k) {
				s.o.Probes.Reached("route: the index is behind")
				return &entry{desc: d.Clone()}, nil
			}
		}
		if ctx.Err() != nil {
			if err == nil {
				err = ctx.Err()
			}
			return nil, err
		}
		if err != nil && !again(err) {
			return nil, err
		}
		// The index was read in the middle of a change, or not at all.
		st.last = err
		if err := s.pause(ctx, &st); err != nil {
			return nil, err
		}
	}
}

// again reports whether a failed lookup is worth repeating: somebody else's context ended it.
func again(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// once runs f, unless somebody else is running it for the same key: then it waits for that.
func (s *Sender) once(ctx context.Context, key string, f func() ([]kv.RangeInfo, error)) ([]kv.RangeInfo, error) {
	s.mu.Lock()
	if other := s.flights[key]; other != nil {
		s.mu.Unlock()
		select {
		case <-other.done:
			if other.err != nil && ctx.Err() == nil {
				return nil, context.Canceled // try for ourselves
			}
			return other.infos, other.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	fl := &flight{done: make(chan struct{})}
	s.flights[key] = fl
	s.mu.Unlock()
	fl.infos, fl.err = f()
	s.mu.Lock()
	delete(s.flights, key)
	s.mu.Unlock()
	close(fl.done)
	return fl.infos, fl.err
}

// lookup reads the range index and remembers what it finds.
func (s *Sender) lookup(ctx context.Context, span keys.Span) ([]kv.RangeInfo, error) {
	b := &kv.Batch{
		Header:   kv.Header{Consistency: kv.Inconsistent, MaxKeys: prefetch},
		Requests: []kv.Request{&kv.ScanRequest{Start: span.Start, End: span.End}},
	}
	var st sendState
	r, err := s.send(ctx, b, &st)
	if err != nil {
		return nil, err
	}
	if len(r.Responses) != 1 {
		return nil, &kv.InternalError{Message: "route: malformed answer to a lookup"}
	}
	scan, ok := r.Responses[0].(*kv.ScanResponse)
	if !ok {
		return nil, &kv.InternalError{Message: "route: malformed answer to a lookup"}
	}
	infos := make([]kv.RangeInfo, 0, len(scan.Rows))
	for _, row := range scan.Rows {
		d, _, err := kv.DecodeRangeDescriptor(row.Value)
		if err != nil {
			return nil, &kv.InternalError{Message: fmt.Sprintf("route: range index key %x: %v", []byte(row.Key), err)}
		}
		infos = append(infos, kv.RangeInfo{Desc: d})
	}
	s.cache.insert(infos...)
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
		reply, fault := s.o.Remote.CallClass(ctx, transport.ClassSystem, node, Method, kv.AppendBatch(nil, b))
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
