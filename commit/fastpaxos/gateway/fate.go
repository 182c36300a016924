package gateway

import (
	"sync"
	"time"

	"meridian/clock"
	"meridian/commit"
	"meridian/commit/fastpaxos/core"
	"meridian/kv"
)

// The outcomes of a gateway's own transactions, for others who have met an option.

// fate is what an option's gateway says of its transaction.
type fate uint8

const (
	// unclear: the gateway was not asked, or is of a release that does not know the question.
	unclear fate = iota
	// working: it is at work on it.
	working
	// won and lost: it has committed, or not, and the replicas are being told.
	won
	lost
	// deserted: the gateway does not answer, or does not know of it.
	deserted
)

// fatesMost bounds the outcomes that are remembered for others. Chosen by us.
const fatesMost = 1 << 18

// fates are the transactions that a gateway works on, and those that it has ended lately.
type fates struct {
	mu          sync.Mutex // guards the fields below; nothing is taken after it
	working     map[core.Name]bool
	now, before map[core.Name]bool // whether they have committed
	swapped     time.Duration
}

func newFates() *fates {
	return &fates{working: map[core.Name]bool{}, now: map[core.Name]bool{}}
}

// fateHere is fate of this gateway's transaction.
func (f *fates) fateHere(n core.Name) fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.working[n] {
		return working
	}
	committed, ok := f.now[n]
	if !ok {
		committed, ok = f.before[n]
	}
	switch {
	case !ok:
		return deserted
	case committed:
		return won
	}
	return lost
}

// worksOn says that the gateway is at work on a transaction until the returned function is called.
func (f *fates) worksOn(n core.Name) (done func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.working[n] = true
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.working, n)
	}
}

// decided remembers the outcome of a transaction of this gateway for as long as replicas may not have heard.
func (f *fates) decided(n core.Name, committed bool, now time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now-f.swapped > 2*stale || len(f.now) > fatesMost {
		f.now, f.before, f.swapped = map[core.Name]bool{}, f.now, now
	}
	f.now[n] = committed
}

// stale is how old an option is before others than its gateway finish its transaction: as long as the leader protocol waits for a heartbeat.
const stale = commit.Expiry

// gatewayOf is whose gateway has drawn a timestamp, zero if that is not known (fastpaxos.FP20).
func gatewayOf(at clock.Timestamp) kv.NodeID {
	if at.Logical>>31 == 0 {
		return 0
	}
	return kv.NodeID(at.Logical >> 16 & (1<<15 - 1))
}
