package pgwire

import (
	"container/list"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"meridian/sql/session/result"

	"meridian/route"
	"meridian/sql/session"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// conn is one client's connection, used by one goroutine, except for interrupt and drain.
type conn struct {
	s     *Server
	nc    net.Conn
	raw   net.Conn // below nc, if that is TLS; never changes
	in    *input
	out   output
	sess  *session.Session
	ended bool // sess is closed
	// patience bounds the time for which a message's batches look for a replica that serves them.
	patience *route.Patience

	// place is the connection's element in the list of those that have not authenticated, and since the time of its arrival; guarded by Server.mu.
	place *list.Element
	since time.Duration

	// skip is set after an error in the extended protocol, until Sync (pgwire.W2).
	skip bool
	// lost is set when the client's further messages can't be interpreted any more.
	lost bool
	// idle is set while the connection waits for a message outside a transaction, draining when the server drains:
	// whichever goroutine sets the second of the two ends the connection.
	idle, draining atomic.Bool
	// reading is set while the goroutine waits for a message, and so notices by itself if the client closes the connection; messages counts
	// the messages; served is set once there is a session. All are for the server's watch.
	reading  atomic.Bool
	served   atomic.Bool
	messages atomic.Uint64
	// interrupted is set while writes are bounded, because the statement was cancelled; the next message lifts the bound.
	interrupted atomic.Bool
	bell        bell
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{s: s, nc: nc, raw: nc, patience: route.NewPatience(unservedMax)}
	c.in = newInput(&counted{nc, &s.metrics.BytesIn}, s.opts.MaxMessage)
	c.out = output{conn: nc, sending: c.sending, bytesOut: &s.metrics.BytesOut}
	return c
}

// secure continues the conversation within TLS.
func (c *conn) secure(t net.Conn) {
	c.nc, c.out.conn = t, t
	c.in = newInput(&counted{t, &c.s.metrics.BytesIn}, c.s.opts.MaxMessage)
}

// counted counts the bytes that are read.
type counted struct {
	r io.Reader
	n *atomic.Int64
}

func (r *counted) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.n.Add(int64(n))
	return n, err
}

// interrupt is called when the running statement is cancelled: a write to a client that does not read must end too, or the
// statement would hold its locks for ever.
func (c *conn) interrupt() {
	c.nc.SetWriteDeadline(c.s.opts.Host.Clock.Now().Add(interruptedWrite))
	c.interrupted.Store(true) // after the deadline, so that a message that comes now lifts both or neither
}

// interruptedWrite is the time in which a cancelled statement's client has to receive one write.
const interruptedWrite = 5 * time.Second

// sending begins a write. The bound is on the write, not on the time since the cancellation: a statement that ends late still sends
// its error.
func (c *conn) sending() {
	if c.interrupted.Load() {
		c.nc.SetWriteDeadline(c.s.opts.Host.Clock.Now().Add(interruptedWrite))
	}
}

// run serves messages until the client or the server ends the connection.
func (c *conn) run(ctx context.Context) {
	defer c.closeSession()
	c.served.Store(true)
	stop := context.AfterFunc(ctx, func() { c.nc.Close() })
	defer stop()
	ctx = c.sess.Context(ctx)
	for {
		if c.in.r.Buffered() == 0 {
			c.sess.Rest()
		}
		if c.sess.Idle() {
			c.idle.Store(true)
			if c.draining.Load() && c.in.r.Buffered() == 0 { // otherwise its next transaction has arrived
				c.farewell()
				return
			}
		}
		c.reading.Store(true)
		if c.sess.Listens() && !c.hear() {
			return
		}
		kind, body, err := c.in.next()
		c.reading.Store(false)
		c.messages.Add(1)
		c.idle.Store(false)
		if err != nil {
			var none *refused
			if errors.As(err, &none) {
				if !c.refuse(ctx, kind, none.error) {
					return
				}
				continue
			}
			if kind == 0 && c.draining.Load() && errors.Is(err, os.ErrDeadlineExceeded) && !c.sess.Idle() && !c.sess.Terminated() {
				// The deadline was for an idle connection, and the client has begun a transaction meanwhile (pgwire.W9). No byte of a message is lost.
				c.nc.SetReadDeadline(time.Time{})
				continue
			}
			c.readFailed(err)
			return
		}
		if c.interrupted.Load() && c.interrupted.Swap(false) {
			c.nc.SetWriteDeadline(time.Time{})
		}
		c.patience.Renew()
		more := false
		err = c.sess.Confine(func() error {
			more = c.handle(ctx, kind, body)
			return nil
		})
		if err != nil {
			c.out.fail("FATAL", session.Outcome(err)) // the session's state can't be restored
			c.out.flush()
			return
		}
		if !more {
			return
		}
		if c.out.err != nil {
			return
		}
		if c.lost {
			c.out.fail("FATAL", sqlstate.New(sqlstate.ProtocolViolation, "terminating connection because protocol synchronization was lost"))
			c.out.flush()
			return
		}
		if c.sess.Terminated() {
			c.farewell()
			return
		}
	}
}

func (c *conn) readFailed(err error) {
	var e *sqlstate.Error
	switch {
	case errors.As(err, &e):
		c.out.fail("FATAL", e)
	case c.draining.Load():
		c.farewell()
		return
	case c.sess.TimedOut() != nil:
		c.out.fail("FATAL", c.sess.TimedOut())
	case c.sess.Terminated():
		c.farewell()
		return
	default:
		return
	}
	c.out.flush()
}

// refuse answers a message for which there was no memory.
func (c *conn) refuse(ctx context.Context, kind byte, err error) bool {
	if c.skip || kind == 'd' {
		return true
	}
	c.sess.Fail()
	c.fail(err)
	if kind == 'Q' {
		return c.ready()
	}
	c.skip = true
	return c.out.flush() == nil
}

// handle serves one message and reports whether the connection goes on.
func (c *conn) handle(ctx context.Context, kind byte, body []byte) bool {
	if c.skip && kind != 'S' && kind != 'X' {
		return true
	}
	f := fields{b: body}
	var err error
	switch kind {
	case 'Q', 'P', 'B', 'D', 'E':
		err = c.sess.Admit(ctx, kind == 'E' || kind == 'B' || kind == 'Q')
	}
	switch {
	case err != nil && kind == 'Q':
		c.sess.Fail()
		c.fail(err)
		return c.ready()
	case err != nil:
		return c.failed(err)
	}
	switch kind {
	case 'P', 'B', 'D', 'E', 'C', 'H', 'S':
		if err := c.sess.Overdue(); err != nil && kind != 'S' {
			return c.failed(err)
		} else if err != nil {
			c.sess.Fail()
			c.fail(err)
		}
	}
	switch kind {
	case 'Q':
		sql := f.text(c.out.charset)
		if err = f.end(kind); err == nil {
			if err = types.CheckString(sql); err == nil {
				err = c.sess.Query(ctx, sql)
			} else {
				c.sess.Fail()
			}
		} else {
			c.sess.Fail()
		}
		if err != nil {
			c.fail(err)
		}
		if c.lost {
			return true
		}
		return c.ready()
	case 'P':
		err = c.parse(ctx, &f)
	case 'B':
		err = c.bind(ctx, &f)
	case 'D':
		err = c.describe(ctx, &f)
	case 'E':
		err = c.execute(ctx, &f)
	case 'C':
		err = c.close(&f)
	case 'H':
		return c.out.flush() == nil
	case 'S':
		c.skip = false
		if err := c.sess.Sync(ctx); err != nil {
			c.fail(err)
		}
		return c.ready()
	case 'X':
		return false
	case 'd', 'c', 'f':
		// Data for a COPY that has failed already.
		return true
	case 'F':
		c.fail(sqlstate.New(sqlstate.FeatureNotSupported, "function calls by the fast path are not supported").
			WithHint("Call the function with SELECT."))
		return c.ready()
	default:
		c.out.fail("FATAL", sqlstate.New(sqlstate.ProtocolViolation, "invalid frontend message type %d", kind))
		c.out.flush()
		return false
	}
	if err != nil {
		return c.failed(err)
	}
	return c.out.maybeFlush() == nil
}

// failed ends a message of the extended protocol with an error: the messages up to Sync are skipped (pgwire.W2). It reports whether
// the connection goes on.
func (c *conn) failed(err error) bool {
	c.skip = true
	c.sess.Fail()
	c.fail(err)
	// The client may wait for the error before it sends Sync, and a Flush that it has already sent is skipped.
	return c.in.followedBy('S') || c.out.flush() == nil
}

// ready sends the settings that have changed, the notifications, and ReadyForQuery. It ends the session's turn at the gate: if the client has
// already sent more, its session queues again.
func (c *conn) ready() bool {
	if c.dismissed() {
		return true // farewell follows
	}
	c.sess.Report()
	if c.sess.Listens() {
		c.tell()
	}
	ok := c.out.ready(c.sess.Status()) == nil
	c.sess.Rest()
	return ok
}

// fail sends an error that ends a statement.
func (c *conn) fail(err error) {
	e := session.Outcome(err)
	if e.Code == sqlstate.QueryCanceled && c.dismissed() {
		return // farewell sends the error
	}
	c.out.fail("ERROR", e)
}

// dismissed reports whether the session was ended from outside, as by pg_terminate_backend, and not by an error of its own.
func (c *conn) dismissed() bool {
	return c.sess != nil && c.sess.Terminated() && c.sess.TimedOut() == nil
}

func (c *conn) parse(ctx context.Context, f *fields) error {
	name, sql := f.text(c.out.charset), f.text(c.out.charset)
	n := f.int16()
	var oids []uint32
	if n > 0 && n*4 <= len(f.b) {
		oids = make([]uint32, n)
		for i := range oids {
			oids[i] = uint32(f.int32())
		}
	} else if n > 0 {
		f.bad = true
	}
	if err := f.end('P'); err != nil {
		return err
	}
	if err := types.CheckString(sql); err != nil {
		return err
	}
	if err := c.sess.Parse(ctx, name, sql, oids); err != nil {
		return err
	}
	c.out.message('1')
	return nil
}

func (c *conn) bind(ctx context.Context, f *fields) error {
	portal, statement := f.text(c.out.charset), f.text(c.out.charset)
	var b session.Binding
	var err error
	if b.ParamFormats, err = readFormats(f); err != nil {
		return err
	}
	n := f.int16()
	if n*4 > len(f.b) {
		f.bad = true
		n = 0
	}
	b.Params = c.sess.ParamBuffer(n)
	for i := range n {
		size := f.int32()
		if size == -1 {
			b.Params[i] = nil
			continue
		}
		b.Params[i] = f.bytes(int(size))
	}
	if b.ResultFormats, err = readFormats(f); err != nil {
		return err
	}
	if err := f.end('B'); err != nil {
		return err
	}
	if err := c.sess.Bind(ctx, portal, statement, &b); err != nil {
		return err
	}
	c.out.message('2')
	return nil
}

func readFormats(f *fields) (formats []result.Format, err error) {
	n := f.int16()
	if n*2 > len(f.b) {
		f.bad = true
		return nil, nil
	}
	for range n {
		v := f.int16()
		if v > 1 {
			return nil, sqlstate.New(sqlstate.InvalidParameterValue, "unsupported format code: %d", int16(v))
		}
		formats = append(formats, result.Format(v))
	}
	return formats, nil
}

func (c *conn) describe(ctx context.Context, f *fields) error {
	what, name := f.byte(), f.text(c.out.charset)
	if err := f.end('D'); err != nil {
		return err
	}
	switch what {
	case 'S':
		params, cols, err := c.sess.DescribeStatement(ctx, name)
		if err != nil {
			return err
		}
		at := c.out.begin('t')
		c.out.int16(len(params))
		for _, t := range params {
			c.out.int32(int32(t.OID()))
		}
		c.out.end(at)
		c.columns(cols, nil)
	case 'P':
		cols, formats, err := c.sess.DescribePortal(ctx, name)
		if err != nil {
			return err
		}
		c.columns(cols, formats)
	default:
		return sqlstate.New(sqlstate.ProtocolViolation, "invalid DESCRIBE message subtype %d", what)
	}
	return nil
}

func (c *conn) columns(cols []result.Column, formats []result.Format) {
	if cols == nil {
		c.out.message('n')
		return
	}
	c.out.Describe(cols, formats)
}

func (c *conn) execute(ctx context.Context, f *fields) error {
	portal := f.text(c.out.charset)
	limit := f.int32()
	if err := f.end('E'); err != nil {
		return err
	}
	// A Sync that has already arrived ends the implicit transaction, so the statement may commit with its last write.
	return c.sess.Execute(ctx, portal, int(max(limit, 0)), c.in.followedBy('S'))
}

func (c *conn) close(f *fields) error {
	what, name := f.byte(), f.text(c.out.charset)
	if err := f.end('C'); err != nil {
		return err
	}
	switch what {
	case 'S':
		c.sess.CloseStatement(name)
	case 'P':
		c.sess.ClosePortal(name)
	default:
		return sqlstate.New(sqlstate.ProtocolViolation, "invalid CLOSE message subtype %d", what)
	}
	c.out.message('3')
	return nil
}
