package route

import (
	"context"
	"sync"
	"time"

	"meridian/commit"
	"meridian/kv"
)

// starter is an optional interface of a LocalStore: it starts batches, so that one goroutine can wait for several.
type starter interface {
	Start(ctx context.Context, b *kv.Batch, lazy bool) (commit.Flight, bool)
}

// together sends parts of a batch of writes whose leaseholders are all on this node, on the caller's goroutine: it has
// all of them evaluated and proposed, and then waits for one sync of the disk and for each of the commands. It reports
// false, having done nothing, if the parts are not of this kind.
//
// A part that can't be started without waiting takes the ordinary path, on a goroutine of its own; the caller waits for the started ones at
// the same time, since others may wait for their latches.
func (s *Sender) together(ctx context.Context, parts []*part) bool {
	st, ok := s.o.Local.(starter)
	if !ok {
		return false
	}
	self := s.o.NodeID()
	for _, p := range parts {
		if p.e.leaseholder() != self || !writes(&p.batch) {
			return false
		}
	}
	flights, starts := make([]commit.Flight, 0, 4), make([]time.Duration, 0, 4)
	for i, p := range parts {
		p.batch.RangeID = p.e.desc.ID
		began := s.o.Host.Clock.Monotonic()
		f, ok := st.Start(ctx, &p.batch, i < len(parts)-1)
		if !ok {
			break
		}
		s.metrics.Local.Add(1)
		flights, starts = append(flights, f), append(starts, began)
	}
	var wg sync.WaitGroup
	rest := parts[len(flights):]
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, p := range rest {
		wg.Add(1)
		work := func() {
			defer wg.Done()
			if p.r, p.err = s.send(within, &p.batch, &p.st); rank(p.err) > rankRetry {
				cancel()
			}
		}
		if !s.o.Host.Group.Go(func(context.Context) { work() }) {
			work()
		}
	}
	synced := false
	for i := len(flights) - 1; i >= 0; i-- {
		f, p := flights[i], parts[i]
		if synced {
			f.Cover()
		}
		if p.r, p.err = f.Wait(ctx); p.batch.Trace {
			s.traced(ctx, &p.batch, p.e, self, starts[i])
		}
		synced = synced || f.Synced() // of all of them, which were started before
	}
	var unserved time.Duration // route.RO5 is about all of them, one after the other
	for i := range flights {
		st := &parts[i].st
		st.unserved = max(st.unserved, unserved)
		if s.landed(ctx, parts[i]); rank(parts[i].err) > rankRetry {
			cancel()
		}
		unserved = st.unserved
	}
	wg.Wait()
	return true
}

// landed treats the answer of a started batch as sendRange treats those of calls.
func (s *Sender) landed(ctx context.Context, p *part) {
	switch x := root(p.err).(type) {
	case nil:
		p.e.setLeaseholder(s.o.NodeID())
		if len(p.r.RangeInfos) > 0 {
			s.cache.insert(p.r.RangeInfos...)
			p.r.RangeInfos = nil
		}
		return
	case *kv.NotLeaseholderError, *kv.RangeNotFoundError, *kv.RangeMismatchError:
	case *kv.ProtocolError:
		s.learn(p.err)
		p.err = p.st.wrap(p.err)
		return
	case *kv.UnavailableError:
		if x.DiskFull {
			p.err = p.st.wrap(p.err)
			return
		}
	case *kv.AmbiguousError:
		p.st.last = p.err
		if err := p.st.answerLost(p.err, &p.batch); err != nil {
			p.err = err
			return
		}
		if ctx.Err() != nil {
			p.err = p.st.wrap(p.err)
			return
		}
	default:
		p.err = p.st.wrap(p.err)
		return
	}
	p.r, p.err = s.send(ctx, &p.batch, &p.st)
}

// writes reports whether a batch consists of point writes and the end of a transaction.
func writes(b *kv.Batch) bool {
	for _, r := range b.Requests {
		switch r.(type) {
		case *kv.PutRequest, *kv.CPutRequest, *kv.DeleteRequest, *kv.EndTxnRequest:
		default:
			return false
		}
	}
	return b.Txn != nil
}
