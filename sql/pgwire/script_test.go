package pgwire_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/cockroachdb/datadriven"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"meridian/server"
	"meridian/sim/simcluster"
)

// The scripts speak to a node as clients do. testdata/wire is the protocol message by message, testdata/txn are
// transactions of several connections, testdata/error are mistakes and what the client is told.
//
// With MERIDIAN_POSTGRES=host:port they speak to that server instead, so that
//
//	MERIDIAN_POSTGRES=127.0.0.1:5432 go test ./sql/pgwire -run TestScripts -rewrite && git diff sql/pgwire/testdata
//
// shows where this database and PostgreSQL differ (the server needs a superuser root and a database defaultdb).
func TestScripts(t *testing.T) {
	for _, dir := range []string{"wire", "txn", "error", "replay", "roles"} {
		files, err := filepath.Glob("testdata/" + dir + "/*")
		if err != nil || len(files) == 0 {
			t.Errorf("no scripts in %s (%v)", dir, err)
		}
		for _, file := range files {
			t.Run(dir+"/"+filepath.Base(file), func(t *testing.T) {
				if addr := os.Getenv("MERIDIAN_POSTGRES"); addr != "" {
					conn, err := pgconn.Connect(context.Background(), "postgres://root@"+addr+"/defaultdb?sslmode=disable")
					if err != nil {
						t.Fatal(err)
					}
					defer conn.Close(context.Background())
					if _, err := conn.Exec(context.Background(), "drop schema public cascade; create schema public authorization pg_database_owner; grant usage on schema public to public").ReadAll(); err != nil {
						t.Fatal(err)
					}
					runScript(t, file, func(context.Context) (net.Conn, error) { return net.Dial("tcp", addr) })
					return
				}
				synctest.Test(t, func(t *testing.T) {
					c := oneNode(t, func(o *server.Options) {
						if filepath.Base(file) == "external" {
							o.MaxOffset = quiet / 10 // commit waits of twice as long are no waits to the script
						}
					})
					runScript(t, file, func(ctx context.Context) (net.Conn, error) { return c.Dial(ctx, 0) })
				})
			})
		}
	}
}

func oneNode(t testing.TB, configure ...func(*server.Options)) *simcluster.Cluster {
	return simcluster.Start(t, simcluster.Options{NodesPerRegion: 1, Configure: func(_ int, o *server.Options) {
		for _, f := range configure {
			f(o)
		}
	}})
}

// quiet is how long a script waits for more answers: nothing in virtual time, little in real time.
const quiet = 150 * time.Millisecond

// script is one file's run.
type script struct {
	t    *testing.T
	dial func(context.Context) (net.Conn, error)
	sql  map[string]*sqlClient
	wire map[string]*wireClient
}

// runScript understands
//
//	sql [conn]            run the input with the simple protocol; "waits" if there is no answer yet
//	connect conn [user=name] [database=name]
//	                      log in, as the role of the connection's name if nothing else is said
//	result conn           wait for the answer of a statement that waited
//	cancel conn           send a CancelRequest for it
//	close conn            hang up
//	sleep duration
//	send [conn]           send the messages in the input, print what comes back
//	raw [conn]            connect, without a startup message, and send these bytes (hexadecimal, or "quoted")
//	bytes [conn]          send these bytes on a connection that has begun
func runScript(t *testing.T, file string, dial func(context.Context) (net.Conn, error)) {
	s := &script{t: t, dial: dial, sql: map[string]*sqlClient{}, wire: map[string]*wireClient{}}
	defer s.close()
	datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
		name := "1"
		if len(d.CmdArgs) > 0 {
			name = d.CmdArgs[0].Key
		}
		out := ""
		switch d.Cmd {
		case "sql":
			out = s.client(name).run(d.Input)
		case "result":
			out = s.client(name).wait(10 * time.Second)
		case "connect":
			user, database := name, "defaultdb"
			for _, a := range d.CmdArgs[1:] {
				switch a.Key {
				case "user":
					user = a.Vals[0]
				case "database":
					database = a.Vals[0]
				}
			}
			if err := s.connect(name, user, database); err != nil {
				var pe *pgconn.PgError
				if !errors.As(err, &pe) {
					return err.Error() + "\n"
				}
				return describeError(pe)
			}
			return "connected\n"
		case "cancel":
			ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
			defer stop()
			if err := s.client(name).conn.CancelRequest(ctx); err != nil {
				t.Fatal(err)
			}
			return ""
		case "close":
			if c := s.sql[name]; c != nil {
				c.hangUp()
				delete(s.sql, name)
			}
			if c := s.wire[name]; c != nil {
				c.nc.Close()
				delete(s.wire, name)
			}
			time.Sleep(quiet)
			return ""
		case "sleep":
			pause, err := time.ParseDuration(name)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(pause)
			return ""
		case "send":
			out = s.wireClient(name, true).send(s.parseMessages(d.Input))
		case "raw":
			out = s.wireClient(name, false).send(parseBytes(t, d.Input))
		case "bytes":
			out = s.wireClient(name, true).send(parseBytes(t, d.Input))
		default:
			t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
		}
		return out
	})
}

func (s *script) close() {
	for _, c := range s.sql {
		c.hangUp()
	}
	for _, c := range s.wire {
		c.nc.Close()
		<-c.ended
	}
	if os.Getenv("MERIDIAN_POSTGRES") == "" {
		time.Sleep(20 * time.Second) // connections that the driver gave up end in the background
	}
}

// sqlClient is a named connection that runs SQL text.
type sqlClient struct {
	conn *pgconn.PgConn
	out  bytes.Buffer
	done chan struct{} // closed when the statement has ended; nil if none runs

}

func (s *script) client(name string) *sqlClient {
	if c := s.sql[name]; c != nil {
		return c
	}
	if err := s.connect(name, "root", "defaultdb"); err != nil {
		s.t.Fatal(err)
	}
	return s.sql[name]
}

// connect logs in under a name.
func (s *script) connect(name, user, database string) error {
	c := &sqlClient{}
	cfg, err := pgconn.ParseConfig("postgres://" + user + "@server:5432/" + database + "?sslmode=disable")
	if err != nil {
		s.t.Fatal(err)
	}
	cfg.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	cfg.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return s.dial(ctx) }
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { c.out.WriteString(describeError((*pgconn.PgError)(n))) }
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	if c.conn, err = pgconn.ConnectConfig(ctx, cfg); err != nil {
		return err
	}
	s.sql[name] = c
	return nil
}

func (c *sqlClient) hangUp() {
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	if c.done != nil {
		c.conn.Conn().Close()
		<-c.done
	}
	c.conn.Close(ctx)
}

func (c *sqlClient) run(text string) string {
	if c.done != nil {
		return "the statement before has not ended"
	}
	done := make(chan struct{})
	c.done = done
	go func() {
		defer close(done)
		r := c.conn.Exec(context.Background(), text)
		for r.NextResult() {
			rows := r.ResultReader()
			if f := rows.FieldDescriptions(); len(f) > 0 {
				for i := range f {
					if i > 0 {
						c.out.WriteString(" | ")
					}
					c.out.WriteString(f[i].Name)
				}
				c.out.WriteByte('\n')
			}
			for rows.NextRow() {
				for i, v := range rows.Values() {
					if i > 0 {
						c.out.WriteString(" | ")
					}
					if v == nil {
						v = []byte("NULL")
					}
					c.out.Write(v)
				}
				c.out.WriteByte('\n')
			}
			if tag, err := rows.Close(); err == nil {
				c.out.WriteString(tag.String() + "\n")
			}
		}
		if err := r.Close(); err != nil {
			c.out.WriteString(describeAny(err))
		}
	}()
	return c.wait(quiet)
}

func describeAny(err error) string {
	if pg, ok := err.(*pgconn.PgError); ok {
		return describeError(pg)
	}
	return "the connection is lost\n"
}

func (c *sqlClient) wait(limit time.Duration) string {
	if c.done == nil {
		return "no statement runs"
	}
	select {
	case <-c.done:
		c.done = nil
		out := c.out.String()
		c.out.Reset()
		return out
	case <-time.After(limit):
		return "waits"
	}
}

// ids and times are what differs from run to run: a statement may have had to wait.
var (
	ids   = regexp.MustCompile(`([Pp]rocess )\d+|(transaction )[0-9a-f]{8}`)
	times = regexp.MustCompile(`2000-01-01 [0-9:.]+\+00`)
)

func describeError(e *pgconn.PgError) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s\n", e.Severity, e.Code, times.ReplaceAllString(e.Message, "TIME"))
	for _, f := range [][2]string{{"DETAIL", times.ReplaceAllString(ids.ReplaceAllString(e.Detail, "$1${2}N"), "TIME")}, {"HINT", e.Hint}, {"CONTEXT", e.Where}, {"SCHEMA", e.SchemaName}, {"TABLE", e.TableName},
		{"COLUMN", e.ColumnName}, {"TYPE", e.DataTypeName}, {"CONSTRAINT", e.ConstraintName}} {
		if f[1] != "" {
			fmt.Fprintf(&b, "%s: %s\n", f[0], f[1])
		}
	}
	if e.Position > 0 {
		fmt.Fprintf(&b, "AT: %d\n", e.Position)
	}
	return b.String()
}

// wireClient is a named connection whose messages the script writes itself.
type wireClient struct {
	nc    net.Conn
	ended chan struct{}
	mu    sync.Mutex // guards out
	out   bytes.Buffer
}

func (s *script) wireClient(name string, begin bool) *wireClient {
	if c := s.wire[name]; c != nil {
		return c
	}
	nc, err := s.dial(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	c := &wireClient{nc: nc, ended: make(chan struct{})}
	s.wire[name] = c
	go c.listen()
	if begin {
		if out := c.send(startup()); !strings.HasSuffix(out, "ReadyForQuery I\n") {
			s.t.Fatalf("the connection does not begin: %s", out)
		}
	}
	return c
}

// listen prints what arrives until the connection ends.
func (c *wireClient) listen() {
	defer close(c.ended)
	front := pgproto3.NewFrontend(c.nc, nil)
	for {
		m, err := front.Receive()
		line := "closed"
		if err == nil {
			line = describeMessage(m)
		}
		c.mu.Lock()
		line = printable(line)
		if line != "" {
			c.out.WriteString(strings.TrimSuffix(line, "\n") + "\n")
		}
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// printable shows bytes that are not UTF-8.
func printable(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, s[0])
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

func (c *wireClient) send(b []byte) string {
	c.nc.SetWriteDeadline(time.Now().Add(5 * time.Second))
	c.nc.Write(b)
	time.Sleep(quiet)
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.out.String()
	c.out.Reset()
	return out
}

func describeMessage(m pgproto3.BackendMessage) string {
	switch m := m.(type) {
	case *pgproto3.RowDescription:
		var b strings.Builder
		b.WriteString("RowDescription")
		for _, f := range m.Fields {
			fmt.Fprintf(&b, " %s:%d", f.Name, f.DataTypeOID)
			if f.Format == 1 {
				b.WriteString("/binary")
			}
		}
		return b.String()
	case *pgproto3.ParameterDescription:
		return fmt.Sprintf("ParameterDescription %v", m.ParameterOIDs)
	case *pgproto3.DataRow:
		var b strings.Builder
		b.WriteString("DataRow")
		for _, v := range m.Values {
			switch {
			case v == nil:
				b.WriteString(" NULL")
			case bytes.IndexFunc(v, func(r rune) bool { return r < ' ' }) >= 0, !utf8.Valid(v):
				fmt.Fprintf(&b, " 0x%x", v)
			default:
				fmt.Fprintf(&b, " %s", v)
			}
		}
		return b.String()
	case *pgproto3.CommandComplete:
		return "CommandComplete " + string(m.CommandTag)
	case *pgproto3.ReadyForQuery:
		return "ReadyForQuery " + string(m.TxStatus)
	case *pgproto3.ErrorResponse:
		return describeError(pgconn.ErrorResponseToPgError(m))
	case *pgproto3.NoticeResponse:
		return describeError(pgconn.ErrorResponseToPgError((*pgproto3.ErrorResponse)(m)))
	case *pgproto3.ParameterStatus:
		if m.Name == "server_version" || m.Name == "in_hot_standby" {
			return ""
		}
		return "ParameterStatus " + m.Name + "=" + m.Value
	case *pgproto3.BackendKeyData:
		return "BackendKeyData"
	case *pgproto3.CopyInResponse:
		return fmt.Sprintf("CopyInResponse %d %v", m.OverallFormat, m.ColumnFormatCodes)
	case *pgproto3.CopyOutResponse:
		return fmt.Sprintf("CopyOutResponse %d %v", m.OverallFormat, m.ColumnFormatCodes)
	case *pgproto3.CopyData:
		return fmt.Sprintf("CopyData %q", m.Data)
	case *pgproto3.NegotiateProtocolVersion:
		return fmt.Sprintf("NegotiateProtocolVersion %d %v", m.NewestMinorProtocol, m.UnrecognizedOptions)
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", m), "*pgproto3.")
}

// parseBytes reads hexadecimal digits and quoted strings; "int32:n" is a big-endian number; "len" is the
// number of bytes from there to "end", or to the end of the input.
func parseBytes(t *testing.T, input string) (out []byte) {
	open := -1
	end := func() {
		if open >= 0 {
			binary.BigEndian.PutUint32(out[open:], uint32(len(out)-open))
		}
		open = -1
	}
	defer end()
	for _, w := range words(t, input) {
		if n, ok := strings.CutPrefix(w.text, "int32:"); ok && !w.quoted {
			v, err := strconv.ParseInt(n, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
		} else if w.text == "len" && !w.quoted {
			end()
			open = len(out)
			out = append(out, 0, 0, 0, 0)
		} else if w.text == "end" && !w.quoted {
			end()
		} else if w.quoted {
			out = append(out, w.text...)
		} else {
			b, err := hex.DecodeString(w.text)
			if err != nil {
				t.Fatalf("%q: %v", w.text, err)
			}
			out = append(out, b...)
		}
	}
	return out
}

type word struct {
	text   string
	quoted bool
}

// words splits at blanks; what is in double quotes follows Go's rules.
func words(t *testing.T, s string) (out []word) {
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		if s[0] == '"' {
			q, err := strconv.QuotedPrefix(s)
			if err != nil {
				t.Fatalf("%s: %v", s, err)
			}
			v, _ := strconv.Unquote(q)
			out, s = append(out, word{v, true}), s[len(q):]
			continue
		}
		i := strings.IndexAny(s, " \n\t")
		if i < 0 {
			i = len(s)
		}
		out, s = append(out, word{s[:i], false}), s[i:]
	}
	return out
}

// parseMessages reads one message a line. The name - is the empty one.
func (s *script) parseMessages(input string) []byte {
	var out []byte
	add := func(m pgproto3.FrontendMessage) {
		var err error
		if out, err = m.Encode(out); err != nil {
			s.t.Fatal(err)
		}
	}
	for line := range strings.Lines(input) {
		w := words(s.t, line)
		arg := func(i int) string {
			if i >= len(w) || w[i].text == "-" && !w[i].quoted {
				return ""
			}
			return w[i].text
		}
		number := func(v string) int64 {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			return n
		}
		switch w[0].text {
		case "Query":
			add(&pgproto3.Query{String: arg(1)})
		case "Parse":
			m := &pgproto3.Parse{Name: arg(1), Query: arg(2)}
			for i := 3; i < len(w); i++ {
				m.ParameterOIDs = append(m.ParameterOIDs, uint32(number(arg(i))))
			}
			add(m)
		case "Bind": // Bind portal statement [in=f,..] [out=f,..] values
			m := &pgproto3.Bind{DestinationPortal: arg(1), PreparedStatement: arg(2)}
			for i := 3; i < len(w); i++ {
				v := w[i].text
				if fs, ok := strings.CutPrefix(v, "in="); ok && !w[i].quoted {
					for _, f := range strings.Split(fs, ",") {
						m.ParameterFormatCodes = append(m.ParameterFormatCodes, int16(number(f)))
					}
				} else if fs, ok := strings.CutPrefix(v, "out="); ok && !w[i].quoted {
					for _, f := range strings.Split(fs, ",") {
						m.ResultFormatCodes = append(m.ResultFormatCodes, int16(number(f)))
					}
				} else if v == "NULL" && !w[i].quoted {
					m.Parameters = append(m.Parameters, nil)
				} else if h, ok := strings.CutPrefix(v, "0x"); ok && !w[i].quoted {
					b, err := hex.DecodeString(h)
					if err != nil {
						s.t.Fatal(err)
					}
					m.Parameters = append(m.Parameters, b)
				} else {
					m.Parameters = append(m.Parameters, []byte(v))
				}
			}
			add(m)
		case "Describe":
			add(&pgproto3.Describe{ObjectType: arg(1)[0], Name: arg(2)})
		case "Execute":
			m := &pgproto3.Execute{Portal: arg(1)}
			if len(w) > 2 {
				m.MaxRows = uint32(number(arg(2)))
			}
			add(m)
		case "Close":
			add(&pgproto3.Close{ObjectType: arg(1)[0], Name: arg(2)})
		case "Sync":
			add(&pgproto3.Sync{})
		case "Flush":
			add(&pgproto3.Flush{})
		case "Terminate":
			add(&pgproto3.Terminate{})
		case "CopyData":
			add(&pgproto3.CopyData{Data: []byte(arg(1))})
		case "CopyDone":
			add(&pgproto3.CopyDone{})
		case "CopyFail":
			add(&pgproto3.CopyFail{Message: arg(1)})
		case "FunctionCall":
			add(&pgproto3.FunctionCall{Function: uint32(number(arg(1)))})
		default:
			s.t.Fatalf("unknown message %s", w[0].text)
		}
	}
	return out
}
