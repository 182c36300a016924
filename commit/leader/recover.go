package leader

import (
	"context"
	"sync"
	"time"

	"meridian/commit"
	"meridian/kv"
)

// recoverPatience is for how long a push waits for another's recovery. Then it takes over: the other's queries may have been lost.
const recoverPatience = time.Second

// recoveries are those in progress at a range (leader.P20): a recovery may query thousands of writes, and each request that meets one of
// them pushes. All but the first wait for that one, and read the record again.
type recoveries struct {
	mu sync.Mutex // guards of; nothing is taken after it
	of map[kv.TxnID]*recovery
}

type recovery struct {
	began time.Duration // by the monotonic clock
	done  chan struct{}
}

// begin reports whether the recovery is the caller's, which has to end it; otherwise another push runs it.
func (r *recoveries) begin(id kv.TxnID, now time.Duration) (x *recovery, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x = r.of[id]; x != nil && now-x.began < recoverPatience {
		return x, false
	}
	if r.of == nil {
		r.of = make(map[kv.TxnID]*recovery)
	}
	x = &recovery{began: now, done: make(chan struct{})}
	r.of[id] = x
	return x, true
}

func (r *recoveries) end(id kv.TxnID, x *recovery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(x.done)
	if r.of[id] == x {
		delete(r.of, id)
	}
}

// recover finishes a staging transaction whose coordinator is gone, or waits until another push has done so or given up.
func (p *Participant) recover(ctx context.Context, rec *commit.Record) error {
	clk := p.o.Host.Clock
	x, mine := p.recoveries.begin(rec.ID, clk.Monotonic())
	if !mine {
		t := clk.NewTimer(x.began + recoverPatience - clk.Monotonic())
		defer t.Stop()
		select {
		case <-x.done:
			return nil
		case <-t.C():
			return nil
		case <-*p.unled.Load():
			return errUnled()
		case <-p.ended:
			return p.closedErr()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer p.recoveries.end(rec.ID, x)
	p.o.Metrics.Recoveries.Add(1)
	p.o.Probes.Reached(probeStaging)
	_, err := commit.Recover(ctx, p.o.Sender, p.o.Finishers, rec)
	if err != nil {
		p.o.Probes.Reached(probeRecoveryFailed)
	}
	return err
}
