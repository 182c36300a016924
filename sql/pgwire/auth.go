package pgwire

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/xdg-go/scram"

	"meridian/host"
	"meridian/sql/sqlstate"
)

const scramName = "SCRAM-SHA-256"

// authenticate checks the client's identity: by a verified client certificate whose common name is the user, or otherwise by
// SCRAM-SHA-256. An insecure node accepts every client as the user that it names.
func (c *conn) authenticate(ctx context.Context, params map[string]string) error {
	user := params["user"]
	if c.s.opts.Insecure {
		return nil
	}
	if t, ok := c.nc.(*tls.Conn); ok {
		if peers := t.ConnectionState().VerifiedChains; len(peers) > 0 && peers[0][0].Subject.CommonName == user {
			return nil
		}
	}
	source := host.Source(c.nc.RemoteAddr())
	wait, ok := c.s.throttle.admit(user, source)
	if !ok {
		c.s.metrics.AuthThrottled.Add(1)
		return sqlstate.New(sqlstate.InvalidAuthorization, "too many failed attempts to log in as %q from this address", user).
			WithHint("Wait some seconds and try again.")
	}
	if err := c.s.opts.Host.Clock.Sleep(ctx, wait); err != nil {
		return err
	}
	known, err := c.scram(user)
	if err == nil {
		c.s.throttle.succeeded(user, source)
		return nil
	}
	if gone := (*net.OpError)(nil); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &gone) {
		return io.EOF // the client left without a proof, as psql does to prompt for a password
	}
	c.s.metrics.AuthFailures.Add(1)
	c.s.opts.Host.Log.Warn("authentication failed", "user", user, "client", c.nc.RemoteAddr().String())
	if err := c.s.opts.Host.Clock.Sleep(ctx, c.s.throttle.failed(user, source)); err != nil {
		return err
	}
	if !known {
		c.s.opts.Sessions.LookForUser(user)
	}
	return sqlstate.New(sqlstate.InvalidPassword, "password authentication failed for user %q", user)
}

// scram runs the exchange and reports whether the node knows the user. A user without a verifier goes through the same
// exchange, with a verifier that no password matches: neither the answers, on this node or on others, nor their timing reveal
// which users exist (pgwire.W8).
func (c *conn) scram(user string) (known bool, err error) {
	verifier, known := c.s.opts.Sessions.Verifier(user)
	stored, err := ParseVerifier(verifier)
	usable := err == nil
	if !usable {
		stored = scram.StoredCredentials{
			KeyFactors: scram.KeyFactors{Salt: string(c.s.salt(user)), Iters: scramIterations},
			StoredKey:  make([]byte, 32), ServerKey: make([]byte, 32),
		}
	}
	server, err := scram.SHA256.NewServer(func(string) (scram.StoredCredentials, error) { return stored, nil })
	if err != nil {
		return known, err
	}
	return known, c.exchange(server.NewConversation(), usable)
}

// exchange carries the messages of a conversation; it fails in any case if the verifier is not usable.
func (c *conn) exchange(conv *scram.ServerConversation, usable bool) error {
	at := c.out.begin('R')
	c.out.int32(10)
	c.out.cstring(scramName)
	c.out.buf = append(c.out.buf, 0)
	c.out.end(at)
	if err := c.out.flush(); err != nil {
		return err
	}
	body, err := c.authMessage()
	if err != nil {
		return err
	}
	f := fields{b: body}
	if name := f.cstring(); name != scramName {
		return fmt.Errorf("mechanism %q", name)
	}
	first := f.bytes(int(f.int32()))
	if err := f.end('p'); err != nil {
		return err
	}
	reply, err := conv.Step(string(first))
	if err != nil {
		return err
	}
	at = c.out.begin('R')
	c.out.int32(11)
	c.out.buf = append(c.out.buf, reply...)
	c.out.end(at)
	if err := c.out.flush(); err != nil {
		return err
	}
	if body, err = c.authMessage(); err != nil {
		return err
	}
	final, err := conv.Step(string(body))
	if err != nil {
		return err
	}
	if !usable || !conv.Valid() {
		return fmt.Errorf("wrong proof")
	}
	at = c.out.begin('R')
	c.out.int32(12)
	c.out.buf = append(c.out.buf, final...)
	c.out.end(at)
	return nil
}

// salt is the salt for an unknown user: the same each time and on every node, like that of a known one.
func (s *Server) salt(user string) []byte {
	m := hmac.New(sha256.New, s.opts.Secret())
	m.Write([]byte(user))
	return m.Sum(nil)[:16]
}

func (c *conn) authMessage() ([]byte, error) {
	saved := c.in.max
	c.in.max = maxStartup
	defer func() { c.in.max = saved }()
	kind, body, err := c.in.next()
	if err != nil {
		return nil, err
	}
	if kind != 'p' {
		return nil, sqlstate.New(sqlstate.ProtocolViolation, "expected password response, got message type %q", kind)
	}
	return body, nil
}

const scramIterations = 4096

// ParseVerifier reads PostgreSQL's form of a stored password:
// SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>.
func ParseVerifier(s string) (scram.StoredCredentials, error) {
	bad := fmt.Errorf("not a SCRAM-SHA-256 verifier")
	parts := strings.Split(s, "$")
	if len(parts) != 3 || parts[0] != scramName {
		return scram.StoredCredentials{}, bad
	}
	iters, salt, ok1 := strings.Cut(parts[1], ":")
	stored, server, ok2 := strings.Cut(parts[2], ":")
	n, err := strconv.Atoi(iters)
	if !ok1 || !ok2 || err != nil || n < 1 {
		return scram.StoredCredentials{}, bad
	}
	var raw [3][]byte
	for i, p := range []string{salt, stored, server} {
		if raw[i], err = base64.StdEncoding.DecodeString(p); err != nil {
			return scram.StoredCredentials{}, bad
		}
	}
	return scram.StoredCredentials{
		KeyFactors: scram.KeyFactors{Salt: string(raw[0]), Iters: n}, StoredKey: raw[1], ServerKey: raw[2],
	}, nil
}

// EmptyPassword reports whether a verifier is that of the empty password, by which no login succeeds.
func EmptyPassword(verifier string) bool {
	stored, err := ParseVerifier(verifier)
	if err != nil || stored.Iters > 1<<20 {
		return false
	}
	client, err := scram.SHA256.NewClient("", "", "")
	if err != nil {
		return false
	}
	empty, err := client.GetStoredCredentialsWithError(stored.KeyFactors)
	return err == nil && hmac.Equal(empty.StoredKey, stored.StoredKey)
}

// NewVerifier makes the stored form of a password, as PostgreSQL stores it.
func NewVerifier(password string, salt []byte) (string, error) {
	client, err := scram.SHA256.NewClient("", password, "")
	if err != nil {
		return "", err
	}
	c, err := client.GetStoredCredentialsWithError(scram.KeyFactors{Salt: string(salt), Iters: scramIterations})
	if err != nil {
		return "", err
	}
	enc := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("%s$%d:%s$%s:%s", scramName, scramIterations, enc(salt), enc(c.StoredKey), enc(c.ServerKey)), nil
}
