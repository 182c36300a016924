package route

import (
	"context"

	"meridian/kv"
)

// Tell gives requests without an answer (kv.ReleaseRequest) to the ranges whose leaseholders are on this node, immediately and on the
// caller's goroutine; it returns the others, which take a Send. It waits for nothing but mutexes.
func (s *Sender) Tell(ctx context.Context, reqs []kv.Request) (rest []kv.Request) {
	if s.o.Local == nil {
		return reqs
	}
	self := s.o.NodeID()
	for i := 0; i < len(reqs); {
		start, end := addrs(reqs[i])
		e := s.cache.find(start)
		if e == nil || e.leaseholder() != self || !e.holds(start, end) {
			rest = append(rest, reqs[i])
			i++
			continue
		}
		j := i + 1
		for j < len(reqs) && e.holds(addrs(reqs[j])) {
			j++
		}
		b := kv.Batch{Requests: reqs[i:j:j]}
		b.RangeID, b.Gateway = e.desc.ID, self
		if _, err := s.o.Local.Send(ctx, &b); err != nil {
			rest = append(rest, reqs[i:j]...)
		}
		i = j
	}
	return rest
}
