package sessions_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"meridian/sim/simcluster"
	"meridian/sql/sqlstate"
	dice "meridian/test/statements"
)

// wireClient sends messages of PostgreSQL's protocol, in orders that drivers never use.
type wireClient struct {
	*pgproto3.Frontend
	r      *rand.Rand
	failed []*pgproto3.ErrorResponse
	done   int // commands that succeeded
}

// realTexts are the statements that test/comparison has asked PostgreSQL.
func realTexts(t *testing.T) (out []string) {
	b, err := os.ReadFile("../../../test/comparison/testdata/recorded.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(b), "\n") {
		if line != "" && line[0] != '\t' && !strings.HasPrefix(line, "--") {
			out = append(out, line)
		}
	}
	return out
}

// TestStatementsByWire: no statement, of the grammar or of real texts as they are and with a few words changed, by the simple protocol or by messages of the extended one in any order,
// ends with an internal error, ends the session, or leaves it without an answer. MERIDIAN_STATEMENT_SEEDS asks for more of them.
func TestStatementsByWire(t *testing.T) {
	n := uint64(40_000)
	if s := os.Getenv("MERIDIAN_STATEMENT_SEEDS"); s != "" {
		var err error
		if n, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	first := uint64(0)
	if s := os.Getenv("MERIDIAN_FIRST"); s != "" {
		var err error
		if first, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	texts := realTexts(t)
	synctest.Test(t, func(t *testing.T) {
		cl := simcluster.Start(t, simcluster.Options{NodesPerRegion: 1})
		ctx := t.Context()
		var c *wireClient
		var conn *pgconn.HijackedConn
		open := func() {
			x, err := cl.Connect(ctx, 0, "defaultdb")
			if err != nil {
				t.Fatal(err)
			}
			if conn, err = x.PgConn().Hijack(); err != nil {
				t.Fatal(err)
			}
			c = &wireClient{Frontend: conn.Frontend}
		}
		defer func() { conn.Conn.Close() }()
		done, at := 0, 0
		for seed := first; seed < first+n; seed++ {
			if seed == first || seed%50 == 0 {
				if conn != nil {
					conn.Conn.Close()
				}
				fresh(ctx, t, cl)
				open()
				at = int(seed) * 31 % len(texts) // so that a run from here on repeats
			}
			c.r = rand.New(rand.NewPCG(seed, 5))
			g := dice.New(c.r)
			var sent []string
			text := func() string {
				s := g.Statement()
				switch c.r.IntN(4) {
				case 0: // most of them follow each other, as they use what those before have made
					if at++; at >= len(texts) || c.r.IntN(20) == 0 {
						at = c.r.IntN(len(texts))
					}
					s = texts[at]
				case 1:
					s = g.Change(texts[c.r.IntN(len(texts))])
				}
				sent = append(sent, s)
				return s
			}
			c.failed, c.done = c.failed[:0], 0
			err := c.exchange(text)
			done += c.done
			for _, e := range c.failed {
				if sqlstate.Code(e.Code) == sqlstate.InternalError {
					t.Errorf("seed %d: %s\n  %s %s %s", seed, strings.Join(sent, ";\n  "), e.Message, e.Detail, e.Hint)
				}
			}
			if err != nil {
				t.Errorf("seed %d: %s\n  the session ended: %v", seed, strings.Join(sent, ";\n  "), err)
				conn.Conn.Close()
				open()
			}
		}
		t.Logf("%d commands succeed", done)
		if done < int(n)/20 {
			t.Errorf("only %d commands succeed", done)
		}
	})
}

// fresh makes the tables that the statements name.
func fresh(ctx context.Context, t *testing.T, cl *simcluster.Cluster) {
	conn, err := cl.Connect(ctx, 0, "defaultdb")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	texts := append([]string{"DROP SCHEMA public CASCADE; CREATE SCHEMA public; ALTER ROLE root SET statement_timeout = '2s'; ALTER ROLE root SET lock_timeout = '1s'"}, dice.Schema()...)
	for _, text := range append(texts, "INSERT INTO t (a, c) VALUES (1, 1), (2, 2.5), (3, NULL); INSERT INTO u VALUES (1, 1, 'a', '{}', '{1,2}'), (2, 1, 'b', NULL, NULL), (3, NULL, NULL, '[1]', '{}')") {
		if _, err := conn.PgConn().Exec(ctx, text).ReadAll(); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// exchange sends a few messages, and takes the answers.
func (c *wireClient) exchange(text func() string) error {
	if c.r.IntN(3) == 0 {
		c.SendQuery(&pgproto3.Query{String: text()})
		return c.answers()
	}
	formats := func() []int16 { return [][]int16{nil, {0}, {1}}[c.r.IntN(3)] }
	last := text()
	c.SendParse(&pgproto3.Parse{Query: last})
	for range 1 + c.r.IntN(8) {
		portal, statement := []string{"", "po"}[c.r.IntN(2)], []string{"", "", "st"}[c.r.IntN(3)]
		switch c.r.IntN(9) {
		case 0:
			last = text()
			c.SendParse(&pgproto3.Parse{Name: statement, Query: last, ParameterOIDs: [][]uint32{nil, {23}, {25, 0}}[c.r.IntN(3)]})
		case 1, 2, 3:
			b := &pgproto3.Bind{DestinationPortal: portal, PreparedStatement: statement, ResultFormatCodes: formats()}
			if strings.Contains(last, "$1") != (c.r.IntN(20) == 0) {
				b.Parameters = [][]byte{[]byte("1")}
			}
			c.SendBind(b)
			c.SendExecute(&pgproto3.Execute{Portal: portal, MaxRows: uint32(c.r.IntN(3))})
		case 4:
			c.SendDescribe(&pgproto3.Describe{ObjectType: 'S', Name: statement})
		case 5:
			c.SendDescribe(&pgproto3.Describe{ObjectType: 'P', Name: portal})
		case 6, 7:
			c.SendExecute(&pgproto3.Execute{Portal: portal, MaxRows: uint32(c.r.IntN(3))})
		case 8:
			c.SendClose(&pgproto3.Close{ObjectType: "SP"[c.r.IntN(2)], Name: portal})
		}
	}
	c.SendSync(&pgproto3.Sync{})
	return c.answers()
}

// answers takes the messages of the server up to the one that says that it is ready.
func (c *wireClient) answers() error {
	if err := c.Flush(); err != nil {
		return err
	}
	for {
		m, err := c.Receive()
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *pgproto3.ErrorResponse:
			e := *m
			c.failed = append(c.failed, &e)
			if m.Severity == "FATAL" {
				return fmt.Errorf("%s %s", m.Code, m.Message)
			}
		case *pgproto3.CommandComplete:
			c.done++
		case *pgproto3.CopyInResponse:
			c.Send(&pgproto3.CopyData{Data: []byte("1\tx\n\\N")})
			if c.r.IntN(2) == 0 {
				c.Send(&pgproto3.CopyFail{Message: "no more"})
			} else {
				c.Send(&pgproto3.CopyDone{})
			}
			if err := c.Flush(); err != nil {
				return err
			}
		case *pgproto3.ReadyForQuery:
			if m.TxStatus == 'E' && c.r.IntN(3) > 0 {
				c.SendQuery(&pgproto3.Query{String: "ROLLBACK"})
				if err := c.Flush(); err != nil {
					return err
				}
				continue
			}
			return nil
		}
	}
}
