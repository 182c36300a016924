package pgwire

import (
	"errors"
	"io"
	"time"

	"meridian/sql/session/result"

	"meridian/sql/charset"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// copyIn begins COPY FROM STDIN: the connection changes to copy mode, and the statement that runs on this
// goroutine reads the client's data through the source.
func (c *conn) copyIn(format result.Format, columns int) (result.CopySource, error) {
	at := c.out.begin('G')
	c.copyFormats(format, columns)
	c.out.end(at)
	if err := c.out.flush(); err != nil {
		return nil, err
	}
	return &copySource{c: c}, nil
}

func (c *conn) copyFormats(format result.Format, columns int) {
	c.out.buf = append(c.out.buf, byte(format))
	c.out.int16(columns)
	for range columns {
		c.out.int16(int(format))
	}
}

// copySource reads CopyData until CopyDone or CopyFail.
type copySource struct {
	c    *conn
	done bool
}

// Next implements session.CopySource.
func (s *copySource) Next() ([]byte, error) {
	if s.done {
		return nil, io.EOF
	}
	for {
		kind, body, err := s.c.in.next()
		var none *refused
		if errors.As(err, &none) {
			s.done = true
			return nil, none.error
		}
		if err != nil {
			// The end of the connection is not the end of the data: none of it may be committed.
			s.done = true
			s.c.out.err = errors.Join(s.c.out.err, err)
			return nil, &sqlstate.Error{Code: sqlstate.ConnectionFailure, Message: "unexpected EOF on client connection during COPY", Cause: err}
		}
		switch kind {
		case 'd':
			return body, nil
		case 'c':
			s.done = true
			return nil, io.EOF
		case 'f':
			s.done = true
			f := fields{b: body}
			return nil, sqlstate.New(sqlstate.QueryCanceled, "COPY from stdin failed: %s", f.cstring())
		case 'H', 'S':
			// Allowed and ignored during COPY.
		default:
			// The following messages can't be interpreted any more.
			s.done, s.c.lost = true, true
			return nil, sqlstate.New(sqlstate.ProtocolViolation, "unexpected message type 0x%02X during COPY from stdin", kind)
		}
	}
}

// CopyOut implements session.Results.
func (c *conn) copyOut(format result.Format, columns int) {
	at := c.out.begin('H')
	c.copyFormats(format, columns)
	c.out.end(at)
}

// CopyData implements session.Results.
func (o *output) CopyData(p []byte) error {
	at := o.begin('d')
	o.buf = append(o.buf, p...)
	o.end(at)
	return o.maybeFlush()
}

// CopyDone implements session.Results.
func (o *output) CopyDone() { o.message('c') }

// results is the session's interface to the connection.
type results struct {
	*output
	c *conn
}

// CopyIn implements session.Results.
func (r results) CopyIn(format result.Format, columns int) (result.CopySource, error) {
	return r.c.copyIn(format, columns)
}

// CopyOut implements session.Results.
func (r results) CopyOut(format result.Format, columns int) { r.c.copyOut(format, columns) }

// SetStyle implements result.Styled.
func (r results) SetStyle(s *types.Style, c *charset.Charset) { r.style, r.charset = s, c }

// SetNotices implements result.Styled.
func (r results) SetNotices(shows func(string) bool) { r.shows = shows }

// HangUp wakes the connection's goroutine from its wait for a message; another goroutine calls it.
func (r results) HangUp() { r.c.nc.SetReadDeadline(time.Unix(1, 0)) }
