package sim

import (
	"errors"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// conn is one end of a connection: it reads one pipe and writes the other.
type conn struct {
	net           *Network
	node          *node
	local, remote Addr
	in, out       *pipe
	peer          *conn
}

// connect makes both ends and returns the dialer's. The caller holds n.mu.
func (n *Network) connect(from, to *node, local, remote Addr) *conn {
	there, back := n.link(from, to), n.link(to, from)
	a := &conn{net: n, node: from, local: local, remote: remote, in: newPipe(back, there), out: newPipe(there, back)}
	b := &conn{net: n, node: to, local: remote, remote: local, in: a.out, out: a.in, peer: a}
	a.peer = b
	n.conns[a], n.conns[b] = struct{}{}, struct{}{}
	return a
}

// drop removes both ends. The caller holds n.mu.
func (n *Network) drop(c *conn) {
	delete(n.conns, c)
	delete(n.conns, c.peer)
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.in.read(b)
	if err != nil && err != io.EOF {
		err = &net.OpError{Op: "read", Net: "sim", Source: c.local, Addr: c.remote, Err: err}
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.out.write(b)
	if err != nil {
		if errors.Is(err, syscall.EPIPE) {
			c.in.fail() // sim.N6: an end that has learned of a reset learns of it for reading and writing
		}
		err = &net.OpError{Op: "write", Net: "sim", Source: c.local, Addr: c.remote, Err: err}
	}
	return n, err
}

// Close implements net.Conn: the peer reads all bytes sent, then the end of the stream.
func (c *conn) Close() error {
	c.net.mu.Lock()
	delete(c.net.conns, c)
	c.net.mu.Unlock()
	c.out.finish(io.EOF)
	c.in.abandon(false)
	return nil
}

// CloseWrite is TCP's half close.
func (c *conn) CloseWrite() error {
	c.out.finish(io.EOF)
	return nil
}

// reset ends the connection as the death of this end's process does: the peer learns of it one delay later, or, if
// silent, not before the machine is back (sim.N4).
func (c *conn) reset(silent bool) {
	c.net.mu.Lock()
	delete(c.net.conns, c)
	c.net.mu.Unlock()
	c.in.abandon(silent)
	if silent {
		c.out.mute()
	} else {
		c.out.finish(errReset)
	}
}

var errReset = os.NewSyscallError("read", syscall.ECONNRESET)

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.r, t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.w, t)
	return nil
}

// HungUp implements host.Hanger.
func (c *conn) HungUp() bool {
	p := c.in
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.r.closed || p.failed {
		return true
	}
	// The end of the stream is the last chunk.
	n := len(p.q)
	return n > p.head && p.q[n-1].err != nil && p.q[n-1].at <= p.link.net.now() && !p.stalled()
}

// chunk is bytes in flight, or the end of the stream.
type chunk struct {
	at   time.Duration
	data []byte
	err  error // io.EOF or a reset
}

// end is the timer and the signal of a pipe's waiting reader or writer.
type end struct {
	closed   bool
	deadline time.Duration // zero: none
	waiting  int
	wake     chan struct{} // one token
	timer    *time.Timer
}

func newEnd() end {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return end{wake: make(chan struct{}, 1), timer: t}
}

func (e *end) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// arm sets the timer for the earlier of at and the deadline; zero means never.
func (e *end) arm(now, at time.Duration) {
	if e.deadline != 0 && (at == 0 || e.deadline < at) {
		at = e.deadline
	}
	if at == 0 {
		e.timer.Stop()
		return
	}
	e.timer.Reset(at - now)
}

// pipe is one direction of a connection. Chunks are in order of arrival; only the head's time matters.
type pipe struct {
	link, back *link

	mu       sync.Mutex // guards the fields below; link.mu may be taken after it
	q        []chunk
	head     int
	buffered int
	last     time.Duration // arrival of the newest chunk: none overtakes it (sim.N1)
	finished bool          // the writer closed or was reset
	reset    bool          // it was reset
	failed   bool          // the reader's end has learned of a reset
	muted    bool          // the writer's machine lost power: nothing arrives any more
	goneAt   time.Duration // when the writer may learn that the reader closed; zero: it did not
	r, w     end
}

func newPipe(l, back *link) *pipe {
	return &pipe{link: l, back: back, r: newEnd(), w: newEnd()}
}

func (p *pipe) stalled() bool { return p.muted || p.link.blocked.Load() }

func (p *pipe) read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	p.mu.Lock()
	for {
		if p.r.closed {
			p.r.signal()
			p.mu.Unlock()
			return 0, net.ErrClosed
		}
		if p.failed {
			p.r.signal()
			p.mu.Unlock()
			return 0, errReset
		}
		now := p.link.net.now()
		if p.r.deadline != 0 && p.r.deadline <= now {
			p.r.signal()
			p.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		}
		var next time.Duration
		if p.head < len(p.q) && !p.stalled() {
			if p.q[p.head].at <= now {
				n, err := p.take(b, now)
				if p.head < len(p.q) && p.r.waiting > 0 {
					p.r.signal()
				}
				p.mu.Unlock()
				return n, err
			}
			next = p.q[p.head].at
		}
		p.r.waiting++
		p.r.arm(now, next)
		p.mu.Unlock()
		select {
		case <-p.r.wake:
		case <-p.r.timer.C:
		}
		p.mu.Lock()
		p.r.waiting--
	}
}

// take copies the bytes that have arrived. An error stays at the head for ever.
func (p *pipe) take(b []byte, now time.Duration) (int, error) {
	n := 0
	for p.head < len(p.q) && n < len(b) {
		c := &p.q[p.head]
		if c.at > now {
			break
		}
		if c.err != nil {
			if n == 0 {
				return 0, c.err
			}
			break
		}
		m := copy(b[n:], c.data)
		n += m
		if m < len(c.data) {
			c.data = c.data[m:]
			break
		}
		*c = chunk{}
		p.head++
	}
	if p.head == len(p.q) {
		p.q, p.head = p.q[:0], 0
	} else if p.head > 64 && p.head*2 > len(p.q) {
		k := copy(p.q, p.q[p.head:])
		clear(p.q[k:])
		p.q, p.head = p.q[:k], 0
	}
	p.buffered -= n
	if p.w.waiting > 0 {
		p.w.signal()
	}
	return n, nil
}

// pieceBytes is the largest chunk; a large write is cut so that the reader can begin before the writer is done.
const pieceBytes = 256 << 10

func (p *pipe) write(b []byte) (int, error) {
	sent := 0
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		now := p.link.net.now()
		switch {
		case p.reset && !p.w.closed:
			p.w.signal()
			return sent, os.NewSyscallError("write", syscall.EPIPE)
		case p.w.closed || p.finished:
			p.w.signal()
			return sent, net.ErrClosed
		case p.w.deadline != 0 && p.w.deadline <= now:
			p.w.signal()
			return sent, os.ErrDeadlineExceeded
		case p.goneAt != 0:
			if now >= p.goneAt && !p.back.blocked.Load() {
				return sent, os.NewSyscallError("write", syscall.EPIPE)
			}
			return len(b), nil // the reader is gone, which the writer can't know yet (sim.N2)
		}
		if sent == len(b) {
			return sent, nil
		}
		if room := p.link.net.opts.WindowBytes - p.buffered; room <= 0 {
			p.w.waiting++
			p.w.arm(now, 0)
			p.mu.Unlock()
			select {
			case <-p.w.wake:
			case <-p.w.timer.C:
			}
			p.mu.Lock()
			p.w.waiting--
			continue
		}
		piece := b[sent:min(sent+pieceBytes, len(b))]
		at := p.link.arrival(now, len(piece))
		p.push(now, chunk{at: at, data: append([]byte(nil), piece...)})
		p.buffered += len(piece)
		sent += len(piece)
	}
}

func (p *pipe) push(now time.Duration, c chunk) {
	c.at = max(c.at, p.last)
	p.last = c.at
	p.q = append(p.q, c)
	if p.r.waiting > 0 && p.head == len(p.q)-1 && !p.stalled() {
		if c.at <= now {
			p.r.signal()
		} else {
			p.r.arm(now, c.at)
		}
	}
}

// finish ends the stream from the writer's side: with io.EOF after the bytes sent, or with a reset that overtakes them.
func (p *pipe) finish(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.finished {
		return
	}
	p.finished = true
	now := p.link.net.now()
	if err != io.EOF {
		p.reset = true
		p.q, p.head, p.buffered, p.last = nil, 0, 0, 0
	}
	p.push(now, chunk{at: now + p.link.delay(), err: err})
	p.w.signal()
}

// fail ends the stream at the reader's end at once.
func (p *pipe) fail() {
	p.mu.Lock()
	p.failed = true
	p.r.signal()
	p.mu.Unlock()
}

// mute is finish without the reader learning of it.
func (p *pipe) mute() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.muted = true
	p.w.closed = true
	p.w.signal()
}

// unmute delivers the reset to the reader.
func (p *pipe) unmute() {
	p.mu.Lock()
	p.muted = false
	p.mu.Unlock()
	p.finish(errReset)
}

// abandon ends the stream from the reader's side; the writer learns of it one delay later, or, if silent, not before
// hearOfReader.
func (p *pipe) abandon(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.r.closed {
		return
	}
	p.r.closed = true
	p.goneAt = math.MaxInt64
	if !silent {
		p.goneAt = p.link.net.now() + p.back.delay()
	}
	p.q, p.head, p.buffered = nil, 0, 0
	p.r.signal()
	p.w.signal()
}

// hearOfReader tells the writer, one delay later, that the reader is gone.
func (p *pipe) hearOfReader() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.goneAt == math.MaxInt64 {
		p.goneAt = p.link.net.now() + p.back.delay()
	}
}

// resume delivers the bytes that a partition held back, one delay after it healed, and wakes the reader (sim.N3).
func (p *pipe) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.link.net.now() + p.link.delay()
	for i := p.head; i < len(p.q) && p.q[i].at < at; i++ {
		p.q[i].at = at
	}
	if p.head < len(p.q) {
		p.last = max(p.last, at)
	}
	p.r.signal()
}

func (p *pipe) setDeadline(e *end, t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.deadline = 0
	if !t.IsZero() {
		// A deadline at or before the network's beginning has passed, too; zero would mean none.
		e.deadline = max(t.Sub(p.link.net.start), 1)
	}
	e.signal()
}
