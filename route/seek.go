package route

import (
	"context"
	"errors"
	"time"

	"meridian/kv"
)

// A range whose leaseholder is lost gets another one, on some other replica. Batches that wait for that share one search, which asks the replicas for the
// lease alone, so that all of them go on when the first answer comes.
//
//	route.RO9 (I2): A call to a leaseholder from which nothing is heard goes on to wait, until another replica has served a request under a later lease: only then is it
//	    certain that nothing of the batch is still to come, and that waiting has no purpose. Its outcome is as unknown as if the link had broken (route.RO2).

const (
	// seekFirst and seekMax are the pauses between two rounds of questions: a search costs a few messages for each range in a round, however many batches wait.
	seekFirst, seekMax = 10 * time.Millisecond, 100 * time.Millisecond
	// seekLinger is how long a search goes on without a batch that waits for it: those that are between two pauses come back.
	seekLinger = 300 * time.Millisecond
)

var errMoved = errors.New("route: another replica has the lease by now, and no answer has come")

// seek is the search for the leaseholder of a range.
type seek struct {
	found chan struct{}
	node  kv.NodeID // set before found is closed; zero: the range is another one by now, or the search was given up

	waiting int           // batches; guarded by Sender.mu
	wanted  time.Duration // when a batch last began or ended to wait; guarded by Sender.mu
}

// seekLease returns the search for the leaseholder of a range, which it begins unless there is one. The caller has to unseek it.
func (s *Sender) seekLease(e *entry) *seek {
	now := s.o.Host.Clock.Monotonic()
	s.mu.Lock()
	k := s.seeks[e.desc.ID]
	begin := k == nil
	if begin {
		k = &seek{found: make(chan struct{})}
		if s.seeks == nil {
			s.seeks = make(map[kv.RangeID]*seek)
		}
		s.seeks[e.desc.ID] = k
	}
	k.waiting++
	k.wanted = now
	s.mu.Unlock()
	if begin && !s.o.Host.Group.Go(func(ctx context.Context) { s.search(ctx, e, k) }) {
		s.sought(e, k, 0)
	}
	return k
}

// unseek says that a batch does not wait any more.
func (s *Sender) unseek(k *seek) {
	now := s.o.Host.Clock.Monotonic()
	s.mu.Lock()
	k.waiting--
	k.wanted = now
	s.mu.Unlock()
}

// sought ends a search.
func (s *Sender) sought(e *entry, k *seek, node kv.NodeID) {
	if now := s.cache.find(e.desc.Start); node != 0 && now != nil && now.desc.ID == e.desc.ID {
		now.setLeaseholder(node) // the entry may have been made anew
	}
	k.node = node
	s.mu.Lock()
	delete(s.seeks, e.desc.ID)
	s.mu.Unlock()
	close(k.found)
}

// search asks the replicas of a range again and again, each of them one question at a time.
func (s *Sender) search(ctx context.Context, e *entry, k *seek) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		node  kv.NodeID
		leads bool
		moved bool
	}
	answers := make(chan answer, len(e.desc.Replicas))
	asked := make(map[kv.NodeID]bool, len(e.desc.Replicas))
	timer := s.o.Host.Clock.NewTimer(0)
	defer timer.Stop()
	for pause := seekFirst; ; {
		select {
		case a := <-answers:
			asked[a.node] = false
			switch {
			case a.leads:
				s.o.Probes.Reached("route: a lost lease was found")
				s.sought(e, k, a.node)
				return
			case a.moved:
				s.sought(e, k, 0)
				return
			}
			continue
		case <-timer.C():
		case <-ctx.Done():
			s.sought(e, k, 0)
			return
		}
		s.mu.Lock()
		idle := k.waiting == 0 && s.o.Host.Clock.Monotonic()-k.wanted > seekLinger
		if idle {
			delete(s.seeks, e.desc.ID)
		}
		s.mu.Unlock()
		if idle {
			return
		}
		if s.changed(e) {
			s.sought(e, k, 0) // others are to be asked
			return
		}
		for _, r := range e.desc.Replicas {
			if r.Witness || r.Type == kv.NonVoter || asked[r.Node] {
				continue
			}
			asked[r.Node] = s.o.Host.Group.Go(func(context.Context) {
				b := &kv.Batch{Header: kv.Header{RangeID: e.desc.ID, Generation: e.desc.Generation, Gateway: s.o.NodeID()},
					Requests: []kv.Request{&kv.RangeInfoRequest{Key: e.desc.Start}}}
				resp, err := s.ask(ctx, r.Node, b)
				a := answer{node: r.Node}
				if err == nil {
					info, ok := resp.Responses[0].(*kv.RangeInfoResponse)
					a.leads = ok && info.Leaseholder == r.Node
				} else if x, ok := root(err).(*kv.RangeMismatchError); ok {
					a.moved = s.cache.insert(x.Infos...)
				}
				answers <- a
			})
		}
		timer.Reset(pause)
		pause = min(pause*3/2, seekMax)
	}
}

// changed reports whether the cache has a later range in the place of an entry.
func (s *Sender) changed(e *entry) bool {
	now := s.cache.find(e.desc.Start)
	return now != nil && (now.desc.ID != e.desc.ID || now.desc.Generation > e.desc.Generation)
}

// moved returns an error when another replica than a node's has the lease of a range: the caller waits for that node, and nothing is heard from it.
func (s *Sender) moved(ctx context.Context, e *entry, node kv.NodeID) error {
	for {
		k := s.seekLease(e)
		select {
		case <-k.found:
		case <-ctx.Done():
		}
		s.unseek(k)
		switch {
		case ctx.Err() != nil:
			return nil
		case k.node != 0 && k.node != node:
			s.o.Probes.Reached("route: a call to a silent leaseholder was given up")
			return errMoved
		case k.node == 0 && s.changed(e):
			return errReroute
		}
		if s.o.Host.Clock.Sleep(ctx, seekMax) != nil {
			return nil
		}
	}
}

// silent ends the wait for an answer that any other replica can give.
func silent(context.Context) error { return errSilent }

var errSilent = errors.New("route: nothing is heard from the node")
