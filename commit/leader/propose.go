package leader

import (
	"context"
	"sync/atomic"

	"meridian/kv"
	"meridian/replica"
	"meridian/storage/mvcc"
)

// proposal is the stage that has the evaluated command replicated and applied.
type proposal struct {
	*call
	latching   *latching
	locking    *locking
	evaluation *evaluation
	effects    *effects

	cmd replica.Command
	// starts is set if the batch is started only (flight.go): it must not wait. pend is its command then.
	starts  starter
	lazy    bool
	pend    *replica.Pending
	settled atomic.Bool
	unknown bool // the outcome: settle will be called
}

// propose replicates the command, if it has an effect. With keep, the latches stay: the command is in flight, or its outcome is unknown.
func (pr *proposal) propose(ctx context.Context) (keep bool, err error) {
	ev := pr.evaluation
	if ev.batch != nil && (!ev.batch.Empty() || ev.replicated.trigger != nil || !ev.replicated.gcThreshold.IsZero()) {
		pr.cmd = replica.Command{Use: useOf(pr.b), LeaseSequence: pr.latching.lease, Batch: ev.batch.Repr(),
			Delta: add(ev.replicated.delta, ev.w.Stats), Trigger: ev.replicated.trigger, GCThreshold: ev.replicated.gcThreshold,
			Commits: pr.effects.commits()}
		if pr.writes > 0 && !pr.bulk { // loaded rows are not read for some time (LoadRequest)
			pr.cmd.WriteAt = pr.latching.from
		}
		if ctx.Done() != nil {
			pr.cmd.Settled = pr.settle
		}
		ev.entries.takeOff(&pr.p.held) // leader.P11
		if pr.starts != nil {
			if pr.pend, err = pr.starts.Start(&pr.cmd, pr.lazy); err == nil {
				return true, nil // until the started batch has ended
			}
		} else {
			err = pr.p.r.Propose(ctx, &pr.cmd)
		}
	}
	return pr.proposed(ctx, err)
}

// proposed continues when the batch's command has been applied, or err is its outcome. With keep, the latches stay
// until that is known.
func (pr *proposal) proposed(ctx context.Context, err error) (keep bool, _ error) {
	ev := pr.evaluation
	ev.discard()
	if _, ambiguous := err.(*kv.AmbiguousError); ambiguous {
		keep = ctx.Done() != nil
		if pr.unknown = keep; !keep {
			pr.p.dead.unknown()
		}
		return keep, err
	}
	ev.entries.land(&pr.p.held, true, err == nil)
	if err != nil {
		return false, err
	}
	pr.p.dead.applied(pr.b) // leader.P32
	pr.effects.apply(&pr.locking.guard, ev.resp)
	return false, nil
}

// settle is called once the outcome of an ambiguous proposal is known, to this node at least.
func (pr *proposal) settle() {
	if pr.settled.CompareAndSwap(false, true) {
		pr.effects.mark()
		if pr.end != nil {
			pr.effects.releaseLocks() // whatever the outcome, the transaction has ended
		}
		pr.evaluation.entries.land(&pr.p.held, false, false)
		pr.p.dead.applied(pr.b)
		pr.latching.letGo()
	}
}

func add(a, b mvcc.Stats) mvcc.Stats {
	a.Add(b)
	return a
}
