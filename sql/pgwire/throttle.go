package pgwire

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"

	"meridian/host"
)

// Bounds on guessing passwords (pgwire.W7). The first guessFree failures of one role from one source have no consequence; after these its attempts
// are made one by one, with a delay that doubles from guessStep to guessMost. Failures of one source, whatever the role, delay only their own
// answers, so that one client does not keep others at the same address out.
const (
	guessFree   = 3
	guessStep   = 250 * time.Millisecond
	guessMost   = 8 * time.Second
	guessForget = 10 * time.Minute
	// guessPatience bounds the time for which an attempt waits for its turn; an attempt that would wait longer is refused.
	guessPatience = 10 * time.Second

	sourceFree   = 20
	sourceStep   = 50 * time.Millisecond
	sourceMost   = 2 * time.Second
	sourceForget = time.Minute

	// maxTallies bounds each of the two ledgers; the tally whose last failure is oldest is dropped first.
	maxTallies = 4096
)

// throttle counts failed logins. It counts names of roles as clients give them, whether they exist or not.
type throttle struct {
	clock host.Clock

	mu      sync.Mutex // guards the ledgers; nothing is taken after it
	pairs   ledger
	sources ledger
}

func newThrottle(c host.Clock) *throttle {
	return &throttle{clock: c,
		pairs:   newLedger(guessFree, guessStep, guessMost, guessForget),
		sources: newLedger(sourceFree, sourceStep, sourceMost, sourceForget)}
}

// admit returns the time for which an attempt has to wait for its turn; ok is false if that is too long.
func (t *throttle) admit(role, source string) (wait time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Monotonic()
	y := t.pairs.find(pairKey(role, source), now)
	if y == nil || y.failures < t.pairs.free {
		return 0, true
	}
	turn := max(now, y.next)
	if turn-now > guessPatience {
		return 0, false
	}
	y.next = turn + t.pairs.pause(y)
	return turn - now, true
}

// failed counts a failure, and returns the delay of its answer.
func (t *throttle) failed(role, source string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Monotonic()
	y := t.pairs.count(pairKey(role, source), now)
	if y.failures >= t.pairs.free {
		y.next = max(y.next, now+t.pairs.pause(y))
	}
	y = t.sources.count(sourceKey(source), now)
	if y.failures < t.sources.free {
		return 0
	}
	return t.sources.pause(y)
}

// succeeded drops the failures of a role from a source.
func (t *throttle) succeeded(role, source string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pairs.forget(pairKey(role, source))
}

// tallyKey is a digest, so that long names cost no more memory than short ones.
type tallyKey [16]byte

func pairKey(role, source string) tallyKey { return digest(role + "\x00" + source) }
func sourceKey(source string) tallyKey     { return digest(source) }

func digest(s string) (k tallyKey) {
	sum := sha256.Sum256([]byte(s))
	copy(k[:], sum[:])
	return k
}

// ledger counts failures by key.
type ledger struct {
	free         int
	step, most   time.Duration
	lasts        time.Duration // time for which failures count
	byKey        map[tallyKey]*list.Element
	oldestFailed *list.List // of *tally; the front has the oldest last failure
}

type tally struct {
	key      tallyKey
	failures int
	last     time.Duration // of the last failure
	next     time.Duration // when the next attempt may be made
}

func newLedger(free int, step, most, lasts time.Duration) ledger {
	return ledger{free: free, step: step, most: most, lasts: lasts, byKey: map[tallyKey]*list.Element{}, oldestFailed: list.New()}
}

// find returns the tally of a key at a time; nil: there is none.
func (l *ledger) find(k tallyKey, now time.Duration) *tally {
	e := l.byKey[k]
	if e == nil {
		return nil
	}
	y := e.Value.(*tally)
	if now-y.last > l.lasts {
		l.forget(k)
		return nil
	}
	return y
}

func (l *ledger) count(k tallyKey, now time.Duration) *tally {
	y := l.find(k, now)
	if y == nil {
		if l.oldestFailed.Len() >= maxTallies {
			l.forget(l.oldestFailed.Front().Value.(*tally).key)
		}
		y = &tally{key: k}
		l.byKey[k] = l.oldestFailed.PushBack(y)
	}
	y.failures++
	y.last = now
	l.oldestFailed.MoveToBack(l.byKey[k])
	return y
}

// pause is the delay after a number of failures.
func (l *ledger) pause(y *tally) time.Duration {
	return min(l.step<<min(y.failures-l.free, 16), l.most)
}

func (l *ledger) forget(k tallyKey) {
	if e := l.byKey[k]; e != nil {
		l.oldestFailed.Remove(e)
		delete(l.byKey, k)
	}
}
