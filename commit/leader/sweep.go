package leader

import (
	"context"
	"time"

	"meridian/commit"
)

const (
	// sweepFirst and sweepEvery are how long after a record was written the range searches for abandoned records, and how often it does so
	// until there is none.
	sweepFirst = 2 * commit.SweepAge
	sweepEvery = 10 * time.Minute
	sweepMax   = 1000
)

// sweepLater schedules a sweep of the records (commit.Sweep), if there is none yet. A range without records costs nothing.
func (p *Participant) sweepLater() {
	if !p.sweeping.CompareAndSwap(false, true) {
		return
	}
	started := p.o.Host.Group.Go(func(ctx context.Context) {
		defer p.sweeping.Store(false)
		t := p.o.Host.Clock.NewTimer(sweepFirst)
		defer t.Stop()
		for {
			select {
			case <-t.C():
			case <-p.ended:
				return
			case <-ctx.Done():
				return
			}
			now := p.o.Clock.Now()
			d := p.r.Desc()
			if _, ok := p.r.CheckLease(now); !ok || d == nil {
				return // the next leaseholder will, when it writes a record
			}
			_, left, err := commit.Sweep(ctx, p.o.Sender, p.o.Finishers, p.o.Engine, d.Start, d.End, now, sweepMax)
			if err == nil && left == 0 {
				return
			}
			t.Reset(sweepEvery)
		}
	})
	if !started {
		p.sweeping.Store(false)
	}
}
