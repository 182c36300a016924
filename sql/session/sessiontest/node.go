package sessiontest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"meridian/commit/leader/gateway"
	"meridian/sql/session/result"

	"meridian/clock"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/placement"
	"meridian/setting"
	"meridian/sim"
	"meridian/sql/catalog/lease"
	"meridian/sql/job"
	"meridian/sql/opt"
	"meridian/sql/scalar/system"
	"meridian/sql/schemachange"
	"meridian/sql/session"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
	"meridian/sql/virtual"
	"meridian/txn"
	"meridian/txn/fakekv"
)

// Cluster is a number of nodes over one store.
type Cluster struct {
	T     testing.TB
	KV    *fakekv.KV
	Nodes []*Node
	// NewsDelay is the time that messages about schema changes take from node to node, in nanoseconds.
	NewsDelay atomic.Int64
	meet      atomic.Pointer[func(*kv.Batch)]
	away      atomic.Pointer[func(*kv.Batch) bool]
}

// Lose makes the batches fail for which f is true, as those of a range that has lost its majority; nil: none.
func (c *Cluster) Lose(f func(*kv.Batch) bool) {
	if f == nil {
		f = func(*kv.Batch) bool { return false }
	}
	c.away.Store(&f)
}

// Meet makes f be called with each batch before it is sent. So statements that f runs in other sessions precede the batch.
func (c *Cluster) Meet(f func(*kv.Batch)) { c.meet.Store(&f) }

// Send implements txn.Sender.
func (c *Cluster) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	if f := c.meet.Load(); f != nil {
		(*f)(b)
	}
	if f := c.away.Load(); f != nil && (*f)(b) {
		return nil, &kv.UnavailableError{Reason: "the test has taken it away"}
	}
	return c.KV.Send(ctx, b)
}

// Node is a node of a Cluster.
type Node struct {
	ID      kv.NodeID
	Host    *host.Host
	Clock   *clock.Clock
	DB      *txn.DB
	Leases  *lease.Manager
	Jobs    *job.Registry
	Schema  *schemachange.Executor
	Virtual *virtual.Provider
	Server  *session.Server
	dead    atomic.Bool
}

// notifier delivers messages to the other nodes by direct calls.
type notifier struct {
	c    *Cluster
	self kv.NodeID
}

func (n notifier) Broadcast(ctx context.Context, payload []byte, done func(kv.NodeID, []byte)) {
	var wg sync.WaitGroup
	for _, o := range n.c.Nodes {
		if o.ID != n.self && !o.dead.Load() {
			wg.Go(func() {
				time.Sleep(time.Duration(n.c.NewsDelay.Load()))
				if answer, err := o.Leases.HandleChange(ctx, payload); err == nil {
					done(o.ID, answer)
				}
			})
		}
	}
	wg.Wait()
}

// noRanges implements session.Ranges: there are none.
type noRanges struct{}

func (noRanges) Ranges(context.Context, []byte, []byte) ([]session.RangeRow, error) { return nil, nil }
func (noRanges) Distances() opt.Region                                              { return opt.Region{} }
func (noRanges) Refresh(context.Context, []opt.Place) error                         { return nil }
func (noRanges) Locate(context.Context, opt.Place, bool) error                      { return nil }
func (noRanges) Quorums(opt.Place) []opt.Quorums                                    { return nil }
func (noRanges) Region(kv.NodeID) string                                            { return "" }
func (noRanges) Split(context.Context, [][]byte) error                              { return nil }
func (noRanges) Unsplit(context.Context, [][]byte) error                            { return nil }

// New makes a cluster of n nodes. Call it within synctest.Test, and Stop before its end.
func New(t testing.TB, n int) *Cluster {
	t.Helper()
	return NewIn(t, n, nil)
}

// NewIn is New for a cluster that tells its sessions of nodes in regions.
func NewIn(t testing.TB, n int, nodes []virtual.NodeRow) *Cluster {
	t.Helper()
	var facts virtual.Cluster
	var regions func() []string
	var satisfied func(placement.Constraint) bool
	var placed func() []placement.Node
	if nodes != nil {
		f := places{nodes}
		facts, regions, satisfied, placed = f, f.regions, f.satisfied, f.placed
	}
	c := &Cluster{T: t}
	net := sim.NewNetwork(sim.NetworkOptions{Seed: 1})
	computed := virtual.NewCatalog()
	// The nodes share a clock, because their store has no uncertainty intervals: if no time passes between two statements, a node with a
	// clock of its own would read below the timestamp of another node's write, and not see it.
	var ck *clock.Clock
	for i := range n {
		h := sim.NewHost(context.Background(), sim.MachineOptions{Name: fmt.Sprint("n", i+1), Network: net, Seed: 1})
		if c.KV == nil {
			ck = clock.New(h.Clock, clock.DefaultMaxOffset)
			c.KV = fakekv.New(h, ck)
		}
		id := kv.NodeID(i + 1)
		nodeID := func() kv.NodeID { return id }
		nd := &Node{ID: id, Host: h, Clock: ck}
		nd.DB = txn.NewDB(txn.Options{Records: gateway.Protocol{}, Sender: c, Clock: ck, Host: h, NodeID: nodeID})
		if i == 0 {
			if err := lease.Bootstrap(context.Background(), nd.DB, lease.BootstrapOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		nd.Leases = lease.New(lease.Options{DB: nd.DB, Clock: ck, Host: h, NodeID: nodeID, Relations: computed, Notifier: notifier{c, id}})
		nd.Jobs = job.New(job.Options{DB: nd.DB, Clock: ck, Host: h, NodeID: nodeID})
		settings, leases := setting.New(nil), nd.Leases
		leases.OnChange(func() { settings.Set(leases.Settings()) })
		seqs := lease.NewSequences(nd.DB)
		registry := system.Builtins()
		nd.Schema = schemachange.New(schemachange.Options{DB: nd.DB, Clock: ck, Host: h, Leases: nd.Leases, Jobs: nd.Jobs, Sequences: seqs,
			Settings: settings, Registry: registry, Satisfied: satisfied, Verifier: func(p string) (string, error) { return "SCRAM-SHA-256$" + p, nil },
			Regions: regions, Nodes: placed})
		provider := virtual.New(virtual.Options{Catalog: computed, Registry: registry, Leases: nd.Leases, Sequences: seqs, Jobs: nd.Jobs, NodeID: nodeID, Cluster: facts})
		nd.Virtual = provider
		home := ""
		if i < len(nodes) {
			home = nodes[i].Region
		}
		nd.Server = session.NewServer(session.Services{Host: h, Clock: ck, DB: nd.DB, NodeID: nodeID, Catalog: nd.Leases, Schema: nd.Schema,
			Virtual: provider, Seqs: seqs, Jobs: nd.Jobs, Registry: registry, Ranges: noRanges{}, Region: home})
		c.Nodes = append(c.Nodes, nd)
	}
	for _, nd := range c.Nodes {
		if err := nd.Leases.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		nd.Jobs.Start()
	}
	return c
}

// Stop ends all nodes.
func (c *Cluster) Stop() {
	for _, n := range c.Nodes {
		n.Host.Group.Stop()
	}
}

// Kill ends a node's goroutines. It does not come back.
func (n *Node) Kill() {
	n.dead.Store(true)
	n.Host.Group.Stop()
}

// Conn is a session as a test uses it.
type Conn struct {
	*session.Session
	t   testing.TB
	out *output
}

// Open makes a session of a user.
func (n *Node) Open(t testing.TB, user string) *Conn {
	t.Helper()
	return n.OpenIn(t, user, "defaultdb")
}

// OpenIn makes a session of a user in a database.
func (n *Node) OpenIn(t testing.TB, user, database string) *Conn {
	t.Helper()
	return n.OpenFor(t, session.Client{User: user, Database: database})
}

// OpenFor makes a session of a client.
func (n *Node) OpenFor(t testing.TB, c session.Client) *Conn {
	t.Helper()
	o := &output{}
	s, err := n.Server.Open(context.Background(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	return &Conn{Session: s, t: t, out: o}
}

// Exec runs a string of statements and returns their results, with a line for each list of columns, row, tag and notice.
func (c *Conn) Exec(text string) (string, error) {
	return c.ExecContext(context.Background(), text)
}

// ExecContext is Exec within a context, such as that of the node's group.
func (c *Conn) ExecContext(ctx context.Context, text string) (string, error) {
	c.out.leave()
	err := c.Query(ctx, text)
	return strings.Join(c.out.lines, "\n"), err
}

// Must is Exec for statements that must not fail.
func (c *Conn) Must(text string) string {
	c.t.Helper()
	out, err := c.Exec(text)
	if err != nil {
		c.t.Fatalf("%s: %s", text, Describe(err))
	}
	return out
}

// Describe formats an error as psql does.
func Describe(err error) string {
	e := session.Outcome(err)
	s := fmt.Sprintf("ERROR %s: %s", e.Code, e.Message)
	if e.Detail != "" {
		s += "\nDETAIL: " + e.Detail
	}
	if e.Hint != "" {
		s += "\nHINT: " + e.Hint
	}
	return s
}

// Copy runs COPY FROM STDIN with the client's data.
func (c *Conn) Copy(text, data string) (string, error) {
	c.out.copied = []byte(data)
	return c.Exec(text)
}

// copyData implements result.CopySource.
type copyData struct{ rest []byte }

// Next implements result.CopySource.
func (d *copyData) Next() ([]byte, error) {
	if len(d.rest) == 0 {
		return nil, io.EOF
	}
	p := d.rest
	d.rest = nil
	return p, nil
}

// output implements session.Results.
type output struct {
	// copied is what the client sends for the next COPY FROM STDIN.
	copied []byte
	lines  []string
	// sent counts the lines that were sent: they can't be taken back.
	sent  int64
	watch struct {
		from int64 // number of lines before those of the running statement
		seen result.Fingerprint
	}
}

// leave sends all lines to the client.
func (o *output) leave() {
	o.sent += int64(len(o.lines))
	o.lines = o.lines[:0]
}

func (o *output) add(format string, args ...any) {
	o.lines = append(o.lines, fmt.Sprintf(format, args...))
}

func (o *output) Describe(cols []result.Column, _ []result.Format) {
	names := make([]string, len(cols))
	for i, c := range cols {
		names[i] = c.Name
	}
	o.add("%s", strings.Join(names, " | "))
}

func (o *output) Row(row types.Row, cols []result.Column, _ []result.Format) error {
	values := make([]string, len(row))
	for i, d := range row {
		if values[i] = "NULL"; !d.IsNull() {
			values[i] = types.FormatText(d, cols[i].Type, nil)
		}
	}
	o.add("%s", strings.Join(values, " | "))
	return nil
}

func (o *output) Complete(tag string) { o.add("%s", tag) }
func (o *output) Empty()              {}
func (o *output) Suspend()            {}

func (o *output) Notice(n *sqlstate.Error) {
	o.add("NOTICE %s: %s", n.Code, n.Message)
	if n.Detail != "" {
		o.add("DETAIL: %s", n.Detail)
	}
}

func (o *output) Parameter(string, string) {}
func (o *output) Mark() result.Mark {
	return result.Mark{Flushed: o.sent, Buffered: int64(len(o.lines))}
}

func (o *output) Rewind(m result.Mark) bool {
	if m.Flushed != o.sent {
		return false
	}
	o.lines = o.lines[:min(int(m.Buffered), len(o.lines))]
	return true
}

func (o *output) Watch(seen result.Fingerprint) {
	o.watch.from, o.watch.seen = o.sent+int64(len(o.lines)), seen
}

// Watched implements session.Results. The lines of a statement are sent as a whole, or not at all.
func (o *output) Watched(bool) (all, left result.Fingerprint, same bool) {
	text := o.Take(o.watch.from)
	sum := sha256.Sum256(text)
	all = result.Fingerprint{Bytes: int64(bytes.Count(text, []byte{0})), Sum: binary.BigEndian.Uint64(sum[:])}
	if o.watch.seen.Bytes == 0 {
		o.Give(text)
		return all, left, true
	}
	return all, left, all == o.watch.seen
}

func (o *output) Take(from int64) []byte {
	at := int(from - o.sent)
	var p []byte
	for _, l := range o.lines[at:] {
		p = append(append(p, l...), 0)
	}
	o.lines = o.lines[:at]
	return p
}

func (o *output) Give(p []byte) {
	for line := range bytes.SplitSeq(bytes.TrimSuffix(p, []byte{0}), []byte{0}) {
		if len(p) > 0 {
			o.lines = append(o.lines, string(line))
		}
	}
}

func (o *output) CopyIn(result.Format, int) (result.CopySource, error) {
	if o.copied == nil {
		return nil, io.EOF
	}
	return &copyData{o.copied}, nil
}
func (o *output) CopyOut(result.Format, int) {}
func (o *output) CopyData([]byte) error      { return nil }
func (o *output) CopyDone()                  {}

// Entries counts the keys of a span.
func (n *Node) Entries(span keys.Span) (int, error) {
	rows, err := n.DB.Scan(context.Background(), span)
	return len(rows), err
}

// ErrIs reports whether an error has a code.
func ErrIs(err error, code sqlstate.Code) bool {
	return err != nil && session.Outcome(err).Code == code
}
