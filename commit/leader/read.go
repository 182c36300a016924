package leader

import (
	"context"

	"meridian/keys"
	"meridian/kv"
	"meridian/storage/mvcc"
)

// maxRounds bounds how often the range moves a batch's timestamp by itself. Each round follows a commit of another transaction, so only a
// request that others keep overtaking reaches it.
const maxRounds = 100

// sendRead serves a batch of plain reads.
func (q *request) sendRead(ctx context.Context) error {
	p := q.p
	for round := 0; ; round++ {
		q.clockIn()
		if q.b.Consistency == kv.Inconsistent {
			return q.evaluation.readInconsistent()
		}
		if q.b.WaitPolicy == kv.Peek {
			return q.evaluation.peek(ctx)
		}
		gen, _, err := p.enter(ctx, q.readAt())
		if err != nil {
			return err
		}
		p.serves(q.readAt(), q.now)
		since := p.locks.Releases()
		err = q.readOnce(ctx)
		p.gate.leave(gen)
		switch e := err.(type) {
		case nil:
			return nil
		case *mvcc.LockConflictError:
			if err := q.locking.meet(ctx, e, since); err != nil {
				return err
			}
		case *kv.UncertaintyError:
			if !q.mayForward() || round >= maxRounds {
				return err
			}
			q.forward(e.RetryAt)
		default:
			return err
		}
	}
}

// readOnce evaluates the batch's reads (leader.P1). Reads with a limit are latched, because the keys that they read are known only
// afterwards; so are reads that may meet intents of their own transaction, which may be moving (leader.P2).
func (q *request) readOnce(ctx context.Context) error {
	q.evaluation.noLocks = q.p.noEntries()
	latched := q.limited() || q.txn != nil && len(q.txn.Anchor) > 0 && !q.evaluation.noLocks
	if !latched {
		if err := q.latching.passReads(ctx); err != nil {
			return err
		}
		return q.readLatched(false)
	}
	q.latching.declareReads()
	if scan := q.limitedScan(); scan != nil {
		return q.readAhead(ctx, scan)
	}
	if _, err := q.latching.acquire(ctx, true); err != nil {
		return err
	}
	defer q.latching.letGo()
	return q.readLatched(true)
}

// limitedScan is the batch's only request, if that is a scan which may end before its span does.
func (c *call) limitedScan() *kv.ScanRequest {
	if c.b.MaxKeys == 0 || len(c.b.Requests) != 1 {
		return nil
	}
	scan, _ := c.b.Requests[0].(*kv.ScanRequest)
	return scan
}

// readAhead evaluates a scan that is latched, without waiting for writers in progress beyond its rows (latch.L5). If it reaches one, or
// can't be answered, it waits for all of them and is evaluated anew.
func (q *request) readAhead(ctx context.Context, scan *kv.ScanRequest) error {
	p := q.p
	g, ahead := p.latches.Queue(q.latching.latches)
	if ahead != nil && ahead.Few() {
		if err := q.readLatched(true); err == nil {
			resume := q.evaluation.resp.Responses[0].(*kv.ScanResponse).Resume
			if resume != nil && !ahead.Touches(readPart(keys.Span{Start: scan.Start, End: scan.End}, resume, scan.Reverse)) {
				p.o.Metrics.ReadsAhead.Add(1)
				p.latches.Release(g)
				return nil
			}
		}
	}
	if ahead != nil {
		p.o.Metrics.LatchWaits.Add(1)
		if err := p.latches.Await(ctx, g, ahead); err != nil {
			return err
		}
	}
	defer p.latches.Release(g)
	return q.readLatched(true)
}

// readLatched evaluates the reads.
func (q *request) readLatched(latched bool) error {
	p := q.p
	q.evaluation.noLocks = p.noEntries()
	rd := p.o.reader(p.o.Engine)
	rd.Table = &p.held
	rd.ReadDead(&p.dead)
	err := q.evaluation.readAll(rd, latched)
	q.evaluation.newest = rd.Seen
	if cerr := p.o.putReader(rd); err == nil {
		err = cerr
	}
	if err != nil {
		if _, ok := err.(*mvcc.LockConflictError); ok {
			return err
		}
		// The keys may have left the range; that error has precedence over the result of the read.
		if served := p.checkSpans(q.b); served != nil {
			return served
		}
		return err
	}
	return p.checkServed(q.b, q.readAt())
}

func (ev *evaluation) readAll(rd *mvcc.Reader, latched bool) error {
	ev.begin()
	for _, r := range ev.b.Requests {
		if latched {
			// Entered into the timestamp cache below, or as a whole where there is no limit.
			switch r.(type) {
			case *kv.ScanRequest:
			default:
				if !notMVCC(r) {
					ev.p.o.Cache.AddSpan(r.Span(), ev.readAt(), ev.txnID())
				}
			}
		}
		one, err := ev.evalRead(rd, r, latched)
		if err != nil {
			return err
		}
		ev.resp.Responses = append(ev.resp.Responses, one)
	}
	return nil
}
