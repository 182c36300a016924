package kill

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/test/process"
	"meridian/workload"
	"meridian/workload/bank"
)

// TestUpgrade: three nodes get the binary of the next version one after the other, under pgbench, the bank and writers that count, all of which
// connect again when they are cut off. Nodes go back to the present binary and forward again. The upgrade can't be finalized before all have the next
// one; then it is, its migration runs, and the present binary is refused by a store and by the cluster. No transaction that was begun fails,
// acknowledged writes exist, and nothing that the next version adds to messages, raft commands and descriptors is written before the upgrade is
// finalized; all of it is afterwards.
//
// MERIDIAN_UPGRADE=10s lets so much time pass with each mixture of binaries, and has all three nodes go back instead of one.
func TestUpgrade(t *testing.T) {
	c := start(t)
	var stay time.Duration
	back := []int{0}
	if long := os.Getenv("MERIDIAN_UPGRADE"); long != "" {
		var err error
		if stay, err = time.ParseDuration(long); err != nil {
			t.Fatal(err)
		}
		back = []int{2, 0, 1}
	}
	present := c.Nodes[0].Binary
	next, err := process.Build(t.Context(), "../..", t.TempDir(), "nextversion")
	if err != nil {
		t.Fatal(err)
	}
	upgrade := func(want string, args ...string) {
		t.Helper()
		limit, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		args = append([]string{"upgrade"}, append(args, "--insecure", "--host", c.Nodes[1].Addr)...)
		for {
			out, _ := exec.CommandContext(limit, present, args...).CombinedOutput()
			switch {
			case strings.Contains(string(out), want):
				return
			case strings.Contains(string(out), "is not live") && limit.Err() == nil:
				pause(limit) // it has just started, and the others have not heard its heartbeat yet
			default:
				t.Errorf("%v: %s; want %q", args, out, want)
				return
			}
		}
	}
	p := startPgbench(t, c)
	b := startBank(t, c)
	w := startTurns(t, c, 3)
	// replace also reads the counters of the node that it stops, since they end with it.
	replace := func(i int, binary string) {
		t.Helper()
		unused(t, c, next)
		w.replace(i, binary)
		w.more(30)
		time.Sleep(stay)
	}
	upgrade("there is nothing to finalize", "finalize")
	replace(0, next)
	upgrade("do not run the binary of version 0.2", "finalize")
	prepare(t, c, nil, "create table made_before (a int primary key)", "insert into made_before values (1)") // by the next binary
	replace(1, next)
	replace(2, next)
	for _, i := range back {
		replace(i, present)
	}
	upgrade("does not run the binary of version 0.2", "finalize")
	for _, i := range back {
		replace(i, next)
	}
	upgrade("all nodes have version 0.2", "status")
	unused(t, c, next)
	upgrade("the cluster acts by version 0.2", "finalize")
	upgrade("an example, which changes nothing: succeeded", "status")
	w.more(100)
	time.Sleep(stay)
	prepare(t, c, nil, "create table made_by_the_next (a int primary key)", "insert into made_by_the_next values (1)")
	used(t, c)
	w.check()
	b.check()
	p.check()
	if died := c.Died(); len(died) > 0 {
		t.Errorf("nodes %v ended by themselves", died)
	}

	limit, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	refused := func(why *regexp.Regexp, args ...string) {
		t.Helper()
		args = append([]string{"start", "--insecure", "--listen", "127.0.0.1:0", "--sql", "127.0.0.1:0", "--http", ""}, args...)
		out, err := exec.CommandContext(limit, present, args...).CombinedOutput()
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 || !why.Match(out) {
			t.Errorf("%v: %v: %s; want %q", args, err, out, why)
		}
	}
	if err := c.Nodes[2].Stop(limit); err != nil {
		t.Error(err)
	}
	why := regexp.MustCompile(`the binary of this node is too old: it has version 0\.1(-\d+)?, and the cluster is upgraded to 0\.2; start it with a binary of version 0\.2 or later`)
	refused(why, "--store", c.Nodes[2].Store())
	refused(why, "--store", t.TempDir(), "--join", c.Nodes[0].Addr)
}

// nextUses matches a metric that only the next binary has (server/later_next.go).
var nextUses = regexp.MustCompile(`^meridian_next_uses_total\{did="(\w+)",feature="([^"]+)".*\} (\S+)$`)

// uses is how often nodes that run the next binary have written and read what it adds, by feature.
func uses(t *testing.T, n *process.Node) map[string]string {
	t.Helper()
	limit, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(limit, http.MethodGet, "http://"+n.HTTP+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	found := map[string]string{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if m := nextUses.FindStringSubmatch(lines.Text()); m != nil {
			found[m[2]+", "+m[1]] = m[3]
		}
	}
	if len(found) != 6 {
		t.Fatalf("%s has counters of the next version %v", n.HTTP, found)
	}
	return found
}

// unused checks that nodes with the next binary have neither written nor read anything that it adds.
func unused(t *testing.T, c *process.Cluster, next string) {
	t.Helper()
	for i, n := range c.Nodes {
		if n.Binary != next {
			continue
		}
		for what, times := range uses(t, n) {
			if times != "0" {
				t.Errorf("before the upgrade is finalised: node %d, %s: %s times", i+1, what, times)
			}
		}
	}
}

// used checks that the nodes have together written and read all that the next binary adds.
func used(t *testing.T, c *process.Cluster) {
	t.Helper()
	missing := map[string]bool{}
	for _, n := range c.Nodes {
		for what := range uses(t, n) {
			missing[what] = true
		}
	}
	for i, n := range c.Nodes {
		found := uses(t, n)
		t.Logf("node %d: %v", i+1, found)
		for what, times := range found {
			if times != "0" {
				delete(missing, what)
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("after the upgrade was finalised never: %v", missing)
	}
}

// transfers is the bank workload: its clients may lose their connections, and nothing else may fail.
type transfers struct {
	*bank.Bank
	t      *testing.T
	stop   context.CancelFunc
	done   sync.WaitGroup
	result *workload.Result
	err    error
}

func startBank(t *testing.T, c *process.Cluster) *transfers {
	t.Helper()
	b := &transfers{Bank: bank.New(), t: t}
	prepare(t, c, func(ctx context.Context, conn *pgx.Conn) error { return b.Init(ctx, conn) }, "alter table bank_accounts split at values (50)")
	ctx, stop := context.WithCancel(t.Context())
	b.stop = stop
	b.done.Go(func() {
		b.result, b.err = workload.Run(ctx, b, workload.Options{URLs: c.URLs("postgres"), Concurrency: 3, CheckEvery: time.Second, Seed: 1, Out: io.Discard})
	})
	return b
}

// Worker implements workload.Workload.
func (b *transfers) Worker(ctx context.Context, dice *rand.Rand) (workload.Step, error) {
	step, err := b.Bank.Worker(ctx, dice)
	return func(ctx context.Context, conn *pgx.Conn) (string, error) {
		kind, err := step(ctx, conn)
		if err != nil && ctx.Err() == nil && !workload.Retryable(err) && !conn.IsClosed() {
			b.t.Errorf("bank: %v", err)
		}
		return kind, err
	}, err
}

// check ends the clients.
func (b *transfers) check() {
	b.t.Helper()
	b.stop()
	b.done.Wait()
	if b.err != nil {
		b.t.Errorf("bank: %v", b.err)
	}
	if r := b.result; r != nil {
		b.t.Logf("bank: %d transfers, %d retries, %d broken connections, %d failed attempts to connect, %d checks, longest gap %.1f s", r.Ops, r.Retries, r.Unknown, r.Errors, r.Checks, r.LongestGap.Seconds())
	}
}
