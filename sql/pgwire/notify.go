package pgwire

import (
	"errors"
	"os"
	"sync"
	"time"
)

// A session that listens is told of notifications at once while it is idle, and otherwise before ReadyForQuery. Its goroutine waits
// for a message then; whoever brings a notification ends the wait by a deadline that is past, which costs nothing of a message:
// the wait is for its first byte.

// bell is rung when a notification comes.
type bell struct {
	mu      sync.Mutex // guards the fields below; nothing is taken after it
	waiting bool       // the goroutine waits for the first byte of a message
	rung    bool
}

// Ring is called by session, from another goroutine.
func (r results) Ring() {
	b := &r.c.bell
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rung = true
	if b.waiting {
		r.c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

// hear waits for the next message, and sends notifications meanwhile. It reports whether the connection goes on.
func (c *conn) hear() bool {
	b := &c.bell
	for c.sess.Idle() {
		b.mu.Lock()
		b.rung = false
		b.mu.Unlock()
		if c.tell() && c.out.flush() != nil {
			return false
		}
		if c.in.r.Buffered() > 0 {
			return true
		}
		b.mu.Lock()
		b.waiting = !b.rung
		wait := b.waiting
		b.mu.Unlock()
		if !wait {
			continue
		}
		_, err := c.in.r.Peek(1)
		b.mu.Lock()
		b.waiting = false
		rung := b.rung
		if rung {
			c.nc.SetReadDeadline(time.Time{})
		}
		b.mu.Unlock()
		if rung && (c.draining.Load() || c.sess.Terminated()) {
			c.nc.SetReadDeadline(time.Unix(1, 0)) // which ended the wait too
			return true
		}
		if !rung || !errors.Is(err, os.ErrDeadlineExceeded) {
			return true
		}
	}
	return true
}

// tell writes the notifications that have come, if the session may hear them now, and reports whether there were some.
func (c *conn) tell() bool {
	ns := c.sess.Notifications()
	for _, n := range ns {
		at := c.out.begin('A')
		c.out.int32(n.Process)
		c.out.prose(n.Channel)
		c.out.prose(n.Payload)
		c.out.end(at)
	}
	return len(ns) > 0
}
