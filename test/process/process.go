package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/console"
)

// Build compiles the binary into a directory; root is the repository's. With the tag "watched" it has flags for tests
// (cmd/meridian/watch_tests.go). With build tags it is a file of its own.
func Build(ctx context.Context, root, dir string, tags ...string) (string, error) {
	binary := filepath.Join(dir, strings.Join(append([]string{"meridian"}, tags...), "-"))
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", strings.Join(tags, ","), "-o", binary, "./cmd/meridian")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return binary, nil
}

// Options of a cluster.
type Options struct {
	// Binary is the nodes' program at first, Dir holds stores and logs.
	Binary, Dir string
	// Nodes is how many; node i is in zone i of one region unless Locality says otherwise.
	Nodes    int
	Locality func(i int) string
	// Args are more arguments of `start`.
	Args []string
	// Env is added to the environment.
	Env []string
}

// Cluster is nodes that run as processes on this machine.
type Cluster struct {
	o     Options
	Nodes []*Node
}

// Node is one of them.
type Node struct {
	// Addr is for nodes, SQL and HTTP are for clients.
	Addr, SQL, HTTP string
	// Binary is the program of the node's next start.
	Binary string
	index  int
	c      *Cluster

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}
	status error
}

// freePorts asks the operating system for free ports.
func freePorts(n int) ([]string, error) {
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // at the end, so all differ
		out = append(out, l.Addr().String())
	}
	return out, nil
}

// Start starts all nodes, begins the cluster and waits until each answers SQL.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if o.Locality == nil {
		o.Locality = func(i int) string { return fmt.Sprintf("region=r1,zone=z%d", i+1) }
	}
	ports, err := freePorts(3 * o.Nodes)
	if err != nil {
		return nil, err
	}
	c := &Cluster{o: o}
	for i := range o.Nodes {
		c.Nodes = append(c.Nodes, &Node{Addr: ports[3*i], SQL: ports[3*i+1], HTTP: ports[3*i+2], Binary: o.Binary, index: i, c: c})
	}
	for _, n := range c.Nodes {
		if err := n.Start(); err != nil {
			c.Close()
			return nil, err
		}
	}
	if err := c.init(ctx); err != nil {
		err = fmt.Errorf("%w\n%s", err, c.Logs())
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) init(ctx context.Context) error {
	var last error
	for range 50 { // the node may not listen yet
		out, err := exec.CommandContext(ctx, c.o.Binary, "init", "--insecure", "--host", c.Nodes[0].Addr).CombinedOutput()
		if err == nil {
			last = nil
			break
		}
		last = fmt.Errorf("init: %w: %s", err, out)
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return errors.Join(last, err)
		}
	}
	if last != nil {
		return last
	}
	for _, n := range c.Nodes {
		if err := n.WaitSQL(ctx); err != nil {
			return err
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// URLs returns the nodes' PostgreSQL URLs.
func (c *Cluster) URLs(database string) []string {
	var out []string
	for _, n := range c.Nodes {
		out = append(out, n.URL(database))
	}
	return out
}

// URL returns the node's PostgreSQL URL.
func (n *Node) URL(database string) string {
	return "postgres://root@" + n.SQL + "/" + database + "?sslmode=disable"
}

// Store is the directory of its data.
func (n *Node) Store() string { return filepath.Join(n.c.o.Dir, fmt.Sprintf("node%d", n.index+1)) }

// Start starts the node's process, for the first time or again.
func (n *Node) Start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running() {
		return fmt.Errorf("node %d is running", n.index+1)
	}
	var join []string
	if len(n.c.Nodes) > 1 {
		for _, m := range n.c.Nodes {
			join = append(join, m.Addr)
		}
	}
	args := []string{"start", "--insecure", "--store", n.Store(),
		"--listen", n.Addr, "--sql", n.SQL, "--http", n.HTTP, "--locality", n.c.o.Locality(n.index)}
	if join != nil {
		args = append(args, "--join", strings.Join(join, ","))
	}
	args = append(args, n.c.o.Args...)
	log, err := os.OpenFile(n.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own
	fmt.Fprintf(log, "---- %s: meridian %s\n", time.Now().Format(time.RFC3339Nano), strings.Join(args, " "))
	cmd := exec.Command(n.Binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), n.c.o.Env...)
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	n.cmd, n.exited = cmd, exited
	go func() {
		err := cmd.Wait()
		n.mu.Lock()
		n.status = err
		n.mu.Unlock()
		close(exited)
	}()
	return nil
}

// running is called with mu held.
func (n *Node) running() bool {
	if n.exited == nil {
		return false
	}
	select {
	case <-n.exited:
		return false
	default:
		return true
	}
}

// PID returns the process's number; zero if there is none.
func (n *Node) PID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.running() {
		return 0
	}
	return n.cmd.Process.Pid
}

// Status is the error with which the process ended, if any.
func (n *Node) Status() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.status
}

// signal sends a signal and returns the channel that closes when the process has ended.
func (n *Node) signal(s os.Signal) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running() {
		n.cmd.Process.Signal(s)
	}
	return n.exited
}

// Kill kills the process as kill -9 does and waits for its end.
func (n *Node) Kill() {
	if exited := n.signal(syscall.SIGKILL); exited != nil {
		<-exited
	}
}

// Pause stops the process, as SIGSTOP does, without its noticing; Resume lets it go on.
func (n *Node) Pause() { n.signal(syscall.SIGSTOP) }

// Resume undoes Pause.
func (n *Node) Resume() { n.signal(syscall.SIGCONT) }

// WaitExit waits until the process has ended by itself.
func (n *Node) WaitExit(ctx context.Context) error {
	n.mu.Lock()
	exited := n.exited
	n.mu.Unlock()
	select {
	case <-exited:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("node %d runs on: %w", n.index+1, ctx.Err())
	}
}

// KillAll kills all nodes at the same moment.
func (c *Cluster) KillAll() {
	for _, n := range c.Nodes {
		n.signal(syscall.SIGKILL)
	}
	for _, n := range c.Nodes {
		n.Kill()
	}
}

// Stop asks the process to end, as an operator does, and returns how it ended.
func (n *Node) Stop(ctx context.Context) error {
	exited := n.signal(syscall.SIGTERM)
	if exited == nil {
		return nil
	}
	select {
	case <-exited:
	case <-ctx.Done():
		return fmt.Errorf("node %d does not stop: %w", n.index+1, ctx.Err())
	}
	return n.Status()
}

// Died reports nodes whose process has ended.
func (c *Cluster) Died() (out []int) {
	for _, n := range c.Nodes {
		if n.PID() == 0 {
			out = append(out, n.index+1)
		}
	}
	return out
}

// Close kills what runs.
func (c *Cluster) Close() { c.KillAll() }

// WaitSQL waits until the node answers a query.
func (n *Node) WaitSQL(ctx context.Context) error {
	var err error
	for {
		if n.PID() == 0 {
			return fmt.Errorf("node %d has ended: %v", n.index+1, n.Status())
		}
		if err = n.trySQL(ctx); err == nil {
			return nil
		}
		if e := sleep(ctx, 100*time.Millisecond); e != nil {
			return fmt.Errorf("node %d does not answer: %w", n.index+1, err)
		}
	}
}

func (n *Node) trySQL(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, n.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, "SELECT 1")
	return err
}

// Cluster is the cluster as the node knows it.
func (n *Node) Cluster(ctx context.Context) (*console.Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.HTTP+"/api/v1/cluster", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", resp.Status, body)
	}
	var s console.Cluster
	if err := json.Unmarshal(body, &s); err != nil {
		return nil, err
	}
	if s.Error != "" {
		return &s, errors.New(s.Error)
	}
	return &s, nil
}

// WaitReplicated waits until every range has the given number of replicas and every node is alive, as a node that runs
// sees it.
func (c *Cluster) WaitReplicated(ctx context.Context, replicas int) error {
	why := "nobody answered"
	for {
		for _, n := range c.Nodes {
			if n.PID() == 0 {
				continue
			}
			s, err := n.Cluster(ctx)
			if err != nil {
				why = err.Error()
				continue
			}
			if why = lacking(s, len(c.Nodes), replicas); why == "" {
				return nil
			}
			break
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("not replicated: %s", why)
		}
	}
}

// lacking says what is missing until a cluster is whole; empty if it is.
func lacking(s *console.Cluster, nodes, replicas int) string {
	live := 0
	for _, n := range s.Nodes {
		if n.Live {
			live++
		}
	}
	if live < nodes {
		return fmt.Sprintf("%d of %d nodes are alive", live, nodes)
	}
	if len(s.Ranges) == 0 || len(s.Ranges) < s.RangeCount {
		return fmt.Sprintf("%d of %d ranges are known", len(s.Ranges), s.RangeCount)
	}
	few := 0
	for _, r := range s.Ranges {
		if r.Voters < replicas { // a replica that still catches up does not count
			few++
		}
	}
	if few > 0 {
		return fmt.Sprintf("%d of %d ranges have fewer than %d voters", few, len(s.Ranges), replicas)
	}
	return ""
}

func (n *Node) logFile() string {
	return filepath.Join(n.c.o.Dir, fmt.Sprintf("node%d.log", n.index+1))
}

// logTail is how much of a node's log is shown.
const logTail = 8 << 10

// Log returns the end of the node's log.
func (n *Node) Log() string {
	raw, err := os.ReadFile(n.logFile())
	if err != nil {
		return err.Error()
	}
	if len(raw) > logTail {
		raw = raw[len(raw)-logTail:]
		raw = raw[bytes.IndexByte(raw, '\n')+1:]
	}
	return string(raw)
}

// Logs returns the ends of the nodes' logs, for the report of a failure.
func (c *Cluster) Logs() string {
	var b strings.Builder
	for _, n := range c.Nodes {
		fmt.Fprintf(&b, "==== node %d\n%s\n", n.index+1, n.Log())
	}
	return b.String()
}
