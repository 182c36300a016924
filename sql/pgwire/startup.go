package pgwire

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"time"

	"meridian/sql/session"
	"meridian/sql/sqlstate"
)

// maxStartup bounds a message before authentication (pgwire.W4); PostgreSQL's own bound is 10,000.
const maxStartup = 10_000

const (
	protocol3     = 196608
	requestSSL    = 80877103
	requestGSS    = 80877104
	requestCancel = 80877102
)

var (
	errShuttingDown = &sqlstate.Error{Code: sqlstate.AdminShutdown, Message: "the node is shutting down",
		Hint: "Connect to another node of the cluster."}
	errTooMany = &sqlstate.Error{Code: sqlstate.TooManyConnections, Message: "sorry, too many clients already"}
)

// startupFatal answers the client's first message, whatever it is, with an error.
func (c *conn) startupFatal(e *sqlstate.Error) {
	c.nc.SetDeadline(c.s.opts.Host.Clock.Now().Add(time.Second))
	if _, err := c.readStartup(); err != nil {
		return
	}
	c.out.fail("FATAL", e)
	c.out.flush()
}

// readStartup reads a message without a type byte.
func (c *conn) readStartup() ([]byte, error) {
	head, err := c.in.r.Peek(4)
	if err != nil {
		return nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(head)))
	if n < 8 || n > maxStartup {
		return nil, sqlstate.New(sqlstate.ProtocolViolation, "invalid length of startup packet")
	}
	if _, err := c.in.r.Discard(4); err != nil {
		return nil, err
	}
	return c.in.read(n - 4)
}

// startup negotiates, authenticates and opens the session; it reports whether the connection goes on.
func (c *conn) startup(ctx context.Context) bool {
	c.nc.SetDeadline(c.s.opts.Host.Clock.Now().Add(c.s.opts.StartupTimeout))
	params, err := c.negotiate()
	if params == nil && err == nil {
		return false
	}
	if err == nil {
		err = c.authenticate(ctx, params)
	}
	if err == nil {
		err = c.open(ctx, params)
	}
	if err != nil {
		var e *sqlstate.Error
		if !errors.As(err, &e) {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return false
			}
			e = session.Outcome(err)
		}
		c.out.fail("FATAL", e)
		c.out.flush()
		return false
	}
	c.nc.SetDeadline(time.Time{})
	return true
}

// negotiate handles SSLRequest, GSSENCRequest and CancelRequest, and returns the startup parameters; nil without
// an error means that the connection was for a CancelRequest and is done.
func (c *conn) negotiate() (map[string]string, error) {
	secured := false
	for range 4 {
		body, err := c.readStartup()
		if err != nil {
			return nil, err
		}
		f := fields{b: body}
		switch version := f.int32(); version {
		case requestGSS:
			if _, err := c.nc.Write([]byte{'N'}); err != nil {
				return nil, err
			}
		case requestSSL:
			if c.s.opts.TLS == nil || secured {
				if _, err := c.nc.Write([]byte{'N'}); err != nil {
					return nil, err
				}
				continue
			}
			// Bytes before the handshake are refused, because they would be taken for encrypted ones (CVE-2021-23214).
			if c.in.r.Buffered() > 0 {
				return nil, sqlstate.New(sqlstate.ProtocolViolation, "received unencrypted data after SSL request")
			}
			if _, err := c.nc.Write([]byte{'S'}); err != nil {
				return nil, err
			}
			t := tls.Server(c.nc, c.s.opts.TLS)
			if err := t.Handshake(); err != nil {
				return nil, io.EOF
			}
			c.secure(t)
			secured = true
		case requestCancel:
			pid, secret := f.int32(), f.int32()
			if !f.bad {
				c.s.opts.Sessions.Cancel(pid, secret)
			}
			return nil, nil
		default:
			if version>>16 != 3 {
				return nil, sqlstate.New(sqlstate.FeatureNotSupported,
					"unsupported frontend protocol %d.%d: server supports 3.0", version>>16, version&0xffff)
			}
			if c.s.opts.TLS != nil && !secured && !c.s.opts.Insecure {
				return nil, sqlstate.New(sqlstate.InvalidAuthorization, "this node accepts TLS connections only").
					WithHint("Use sslmode=require or stronger.")
			}
			return c.startupParams(&f, version)
		}
	}
	return nil, sqlstate.New(sqlstate.ProtocolViolation, "too many negotiation requests")
}

func (c *conn) startupParams(f *fields, version int32) (map[string]string, error) {
	params := map[string]string{}
	var unknown []string
	for len(f.b) > 1 && !f.bad {
		k := f.cstring()
		v := f.cstring()
		if len(k) > 4 && k[:5] == "_pq_." {
			unknown = append(unknown, k)
			continue
		}
		params[k] = v
	}
	if unterminated := f.bad || len(f.b) != 1 || f.b[0] != 0; unterminated || params["user"] == "" {
		if unterminated {
			return nil, sqlstate.New(sqlstate.ProtocolViolation, "invalid startup packet layout: expected terminator as last byte")
		}
		return nil, sqlstate.New(sqlstate.InvalidAuthorization, "no PostgreSQL user name specified in startup packet")
	}
	if version > protocol3 || len(unknown) > 0 {
		at := c.out.begin('v')
		c.out.int32(protocol3)
		c.out.int32(int32(len(unknown)))
		for _, k := range unknown {
			c.out.cstring(k)
		}
		c.out.end(at)
	}
	return params, nil
}

// plainSession refuses a client that requests a session for replication.
func plainSession(replication string) error {
	switch strings.ToLower(replication) {
	case "", "0", "false", "off", "no", "f", "n":
		return nil
	case "1", "true", "on", "yes", "t", "y", "database":
		return sqlstate.New(sqlstate.FeatureNotSupported, "connections for replication are not supported").
			WithHint("There is no streaming replication to a server outside of the cluster.")
	}
	return sqlstate.New(sqlstate.InvalidParameterValue, "invalid value for parameter \"replication\": \"%s\"", replication).
		WithHint("Valid values are: \"false\", 0, \"true\", 1, \"database\".")
}

// open opens the session and sends the messages with which it begins.
func (c *conn) open(ctx context.Context, params map[string]string) error {
	user, database := params["user"], params["database"]
	if database == "" {
		database = user
	}
	if err := plainSession(params["replication"]); err != nil {
		return err
	}
	delete(params, "user")
	delete(params, "database")
	delete(params, "replication")
	sess, err := c.s.opts.Sessions.Open(ctx, session.Client{
		User: user, Database: database, Settings: params, Remote: c.nc.RemoteAddr().String(),
		Interrupt: c.interrupt,
	}, results{&c.out, c})
	if err != nil {
		return err
	}
	c.sess = sess
	c.in.memory, c.out.memory = sess.Memory(), sess.Memory()
	c.out.buf = append(c.out.buf, 'R', 0, 0, 0, 8, 0, 0, 0, 0)
	for _, p := range sess.Reported() {
		c.out.Parameter(p.Name, p.Value)
	}
	pid, secret := sess.CancelKey()
	at := c.out.begin('K')
	c.out.int32(pid)
	c.out.int32(secret)
	c.out.end(at)
	return c.out.ready('I')
}
