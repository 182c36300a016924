package pgwire

import (
	"errors"
	"os"
	"sync"
	"time"
)

// An idle session that listens gets notifications immediately; otherwise they are sent before ReadyForQuery. The goroutine of an idle session waits
// for the first byte of a message. The goroutine that delivers a notification ends that wait by a deadline in the past; no byte of a message is lost,
// because none has been read.

// bell is rung when a notification comes.
type bell struct {
	mu      sync.Mutex // guards the fields below; nothing is taken after it
	waiting bool       // the goroutine waits for the first byte of a message
	rung    bool
}

// Ring signals that a notification has come. Another goroutine calls it.
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
			c.nc.SetReadDeadline(time.Unix(1, 0)) // sets again the deadline by which the drain, or the session's end, ended the wait
			return true
		}
		if !rung || !errors.Is(err, os.ErrDeadlineExceeded) {
			return true
		}
	}
	return true
}

// tell writes the notifications that have come, unless a transaction is open, and reports whether there were any.
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
