package leader

import (
	"sync"
	"time"

	"meridian/clock"
	"meridian/commit"
	"meridian/commit/leader/tscache"
	"meridian/host"
	"meridian/kv"
	"meridian/probe"
	"meridian/replica/lease"
	"meridian/storage/engine"
)

// Options are what all participants of a store share. They do not change after the first participant is made, and
// may not be copied then.
type Options struct {
	Host   *host.Host
	Clock  *clock.Clock
	Engine *engine.Engine
	Sender Sender
	// Finishers are the protocols whose writes a staging record may list; nil: this one alone.
	Finishers commit.Finishers
	// Cache is the store's timestamp cache.
	Cache *tscache.Cache
	// Metrics may be nil.
	Metrics *Metrics
	// Probes may be nil.
	Probes *probe.Set
	// Support says which gateways are gone; nil: their transactions are taken for dead by their heartbeats alone.
	Support lease.Support
	// MaxLocks bounds the lock table of each range; zero is lock.DefaultMaxLocks.
	MaxLocks int
	// ReadPushDelay is how long a read waits for an intent before it pushes; most intents are resolved sooner. Zero
	// is 10 ms.
	ReadPushDelay time.Duration
	// LockPushDelay is how long the first in a lock's queue waits before it checks whether the holder is alive. Zero is
	// 20 ms. The others wait for three times as long: they can only find a deadlock.
	LockPushDelay time.Duration
	// DeadlockDelay is how long a push waits before it looks for a cycle; from then on it is notified of changes. Zero is 5 ms.
	DeadlockDelay time.Duration
	// Moved, if not nil, is called for each request, of any gateway, whose wait for a lock has ended; on is a hash of the lock.
	Moved func(on uint64)

	finished finished
	vouched  vouched

	once     sync.Once
	readers  sync.Pool // of *mvcc.Reader
	writers  sync.Pool // of *mvcc.Writer
	requests sync.Pool // of *request
}

func (o *Options) fill() {
	o.once.Do(func() {
		o.finished.clock = o.Host.Clock
		if o.Metrics == nil {
			o.Metrics = &Metrics{}
		}
		if o.Finishers == nil {
			o.Finishers = commit.Finishers{kv.Leader: commit.Intents(o.Sender)}
		}
		if o.ReadPushDelay == 0 {
			o.ReadPushDelay = 10 * time.Millisecond
		}
		if o.LockPushDelay == 0 {
			o.LockPushDelay = 20 * time.Millisecond
		}
		if o.DeadlockDelay == 0 {
			o.DeadlockDelay = 5 * time.Millisecond
		}
		if o.Cache == nil {
			o.Cache = tscache.New(tscache.Options{}, o.Clock.Now())
		}
	})
}
