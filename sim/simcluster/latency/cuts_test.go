package latency_test

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/keys"
	"meridian/kv"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// A cut is a set of directions between nodes in which nothing arrives any more: bit i*n+j is the way from node i to j.
type cut struct {
	n   int
	set uint64
}

func (c cut) has(i, j int) bool { return c.set>>(i*c.n+j)&1 != 0 }

func (c *cut) add(i, j int) { c.set |= 1 << (i*c.n + j) }

func (c cut) String() string {
	var out []string
	for i := range c.n {
		for j := range c.n {
			switch {
			case !c.has(i, j):
			case !c.has(j, i):
				out = append(out, fmt.Sprintf("n%d>n%d", i+1, j+1))
			case i < j:
				out = append(out, fmt.Sprintf("n%d-n%d", i+1, j+1))
			}
		}
	}
	return strings.Join(out, " ")
}

// component is the set of nodes with which node i can exchange messages, directly or through others.
func (c cut) component(i int) (nodes uint64) {
	nodes = 1 << i
	for more := true; more; {
		more = false
		for a := range c.n {
			for b := range c.n {
				if nodes>>a&1 != 0 && nodes>>b&1 == 0 && !c.has(a, b) && !c.has(b, a) {
					nodes |= 1 << b
					more = true
				}
			}
		}
	}
	return nodes
}

// permuted is the cut with the nodes renamed.
func (c cut) permuted(p []int) cut {
	out := cut{n: c.n}
	for i := range c.n {
		for j := range c.n {
			if c.has(i, j) {
				out.add(p[i], p[j])
			}
		}
	}
	return out
}

// structures are the cuts of n nodes, one of those that differ only in the nodes' names; the first fixed nodes keep
// their names, because they have leases. Undirected cuts have both ways of a link, or none.
func structures(n, fixed int, directed bool) (out []cut) {
	var perms [][]int
	var permute func(p []int, rest []int)
	permute = func(p, rest []int) {
		if len(rest) == 0 {
			perms = append(perms, append([]int(nil), p...))
		}
		for k := range rest {
			left := append(append([]int(nil), rest[:k]...), rest[k+1:]...)
			permute(append(p, rest[k]), left)
		}
	}
	var first, rest []int
	for i := range n {
		if i < fixed {
			first = append(first, i)
		} else {
			rest = append(rest, i)
		}
	}
	permute(first, rest)
	var links [][2]int
	for i := range n {
		for j := range n {
			if i < j || directed && i != j {
				links = append(links, [2]int{i, j})
			}
		}
	}
	seen := map[uint64]bool{}
	for s := 1; s < 1<<len(links); s++ {
		c := cut{n: n}
		for b, l := range links {
			if s>>b&1 != 0 {
				c.add(l[0], l[1])
				if !directed {
					c.add(l[1], l[0])
				}
			}
		}
		if seen[c.set] {
			continue
		}
		for _, p := range perms {
			seen[c.permuted(p).set] = true
		}
		out = append(out, c)
	}
	return out
}

// Bounds on statements while links are cut. The errors of a statement that could not be served are in cutErrors.
const (
	cutFor       = 18 * time.Second // more than cutRefused
	cutServed    = 5 * time.Second  // from the cut, or from the statement's start
	cutRefused   = 14 * time.Second // the same, where its ranges can't be reached
	cutRecovered = 8 * time.Second  // after the links are back, statements take no longer than before
)

var cutErrors = map[string]bool{"40003": true, "57P03": true, "40001": true, "08006": true}

// cutStatement is a client's statement and its outcome.
type cutStatement struct {
	gateway    int
	kind       string
	start, end time.Time
	err        error
}

// cutCluster is a cluster with clients at every gateway, whose links are cut again and again.
type cutCluster struct {
	t    *testing.T
	c    *simcluster.Cluster
	stop atomic.Bool
	wg   sync.WaitGroup

	mu    sync.Mutex
	seen  []cutStatement
	acked map[int]int // by row: additions that were acknowledged
	maybe map[int]int // by row: additions whose outcome the client does not know
}

func newCutCluster(t *testing.T, o simcluster.Options, replicas int) *cutCluster {
	x := &cutCluster{t: t, c: simcluster.Start(t, o), acked: map[int]int{}, maybe: map[int]int{}}
	simtest.Replicated(t, x.c, replicas)
	s := simtest.Connect(t, x.c, 0)
	simtest.Exec(t, s, "CREATE TABLE a (id int PRIMARY KEY, v int)")
	simtest.Exec(t, s, "CREATE TABLE b (id int PRIMARY KEY, v int)")
	simtest.Exec(t, s, "ALTER TABLE b SPLIT AT VALUES (100)")
	for g := range x.c.Len() {
		simtest.Exec(t, s, "INSERT INTO a VALUES ($1, 0)", g)
		simtest.Exec(t, s, "INSERT INTO b VALUES ($1, 1000), ($1 + 100, 1000)", g)
	}
	simtest.Replicated(t, x.c, replicas)
	for i := range x.c.Len() {
		x.c.Node(i).Store().PauseQueues(true)
	}
	for g := range x.c.Len() {
		x.client(g, "add", func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "UPDATE a SET v = v + 1 WHERE id = $1", g)
			x.mu.Lock()
			defer x.mu.Unlock()
			switch {
			case err == nil:
				x.acked[g]++
			case simtest.Code(err) == "40003" || len(simtest.Code(err)) != 5: // or no answer came
				x.maybe[g]++
			}
			return err
		})
		x.client(g, "read", func(ctx context.Context, conn *pgx.Conn) error {
			var v int
			return conn.QueryRow(ctx, "SELECT sum(v) FROM b WHERE id = $1", (g+1)%x.c.Len()).Scan(&v)
		})
		x.client(g, "move", func(ctx context.Context, conn *pgx.Conn) error {
			return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, "UPDATE b SET v = v - 1 WHERE id = $1", g); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, "UPDATE b SET v = v + 1 WHERE id = $1", g+100)
				return err
			})
		})
	}
	return x
}

// client runs statements at a gateway, five a second, each on a connection that outlives its errors.
func (x *cutCluster) client(g int, kind string, f func(ctx context.Context, conn *pgx.Conn) error) {
	x.wg.Go(func() {
		var conn *pgx.Conn
		defer func() {
			if conn != nil {
				conn.Close(context.Background())
			}
		}()
		for !x.stop.Load() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			st := cutStatement{gateway: g, kind: kind, start: time.Now()}
			if conn == nil || conn.IsClosed() {
				conn, st.err = x.c.Connect(ctx, g, "defaultdb")
			}
			if st.err == nil {
				st.err = f(ctx, conn)
			}
			cancel()
			st.end = time.Now()
			x.mu.Lock()
			x.seen = append(x.seen, st)
			x.mu.Unlock()
			time.Sleep(200 * time.Millisecond)
		}
	})
}

// try cuts links for a while, heals them, and judges the clients' statements. The quorum of every range is counted in
// each gateway's component.
func (x *cutCluster) try(name string, k cut) {
	t := x.t
	quorate := x.quorate(k)
	x.mu.Lock()
	x.seen = x.seen[:0]
	x.mu.Unlock()
	begin := time.Now()
	for i := range k.n {
		for j := range k.n {
			if k.has(i, j) {
				x.c.Network.PartitionOneWay(x.c.Machines[i].Name, x.c.Machines[j].Name)
			}
		}
	}
	time.Sleep(cutFor)
	healed := time.Now()
	x.c.Network.HealAll()
	time.Sleep(cutRecovered + 4*time.Second)
	x.mu.Lock()
	seen := append([]cutStatement(nil), x.seen...)
	x.mu.Unlock()
	sort.Slice(seen, func(i, j int) bool { return seen[i].start.Before(seen[j].start) })
	worst := map[string]time.Duration{}
	bad := 0
	complain := func(s cutStatement, why string) {
		if bad++; bad <= 6 {
			t.Errorf("%s, %s: gateway n%d: %s begun %s after the cut took %s, %s: %v", name, k, s.gateway+1, s.kind,
				s.start.Sub(begin), s.end.Sub(s.start), why, s.err)
		}
	}
	for _, s := range seen {
		from := s.start
		if from.Before(begin) {
			from = begin
		}
		took := s.end.Sub(from)
		ok := quorate[s.gateway]
		switch {
		case s.start.After(healed.Add(cutRecovered)):
			if s.err != nil || took > time.Second {
				complain(s, "long after the links were back")
			}
		case s.start.After(healed):
			// It may be delayed by effects of the cut, but no longer than a statement during the cut.
			if took > cutRefused {
				complain(s, "after the links were back")
			}
		case ok:
			worst[s.kind] = max(worst[s.kind], took)
			if took > cutServed {
				complain(s, "and its ranges could be reached")
			} else if s.err != nil && (!cutErrors[simtest.Code(s.err)] || simtest.Code(s.err) == "57P03" || s.start.After(begin.Add(cutServed))) {
				complain(s, "and its ranges could be reached")
			}
		default:
			if took > cutRefused || s.err != nil && !cutErrors[simtest.Code(s.err)] {
				complain(s, "and its ranges could not be reached")
			}
		}
	}
	if last := len(seen); last == 0 || seen[last-1].start.Before(healed.Add(cutRecovered)) {
		t.Errorf("%s, %s: no statement long after the links were back", name, k)
	}
	t.Logf("%s, %s: %d statements; served %v; worst %v", name, k, len(seen), quorate, worst)
}

// quorate tells for each gateway whether a quorum of every range is in its component.
func (x *cutCluster) quorate(k cut) []bool {
	ranges, err := x.c.Ranges(context.Background(), 0)
	if err != nil {
		x.t.Fatal(err)
	}
	machine := map[kv.NodeID]int{} // ids are given in the order in which nodes join
	for i := range k.n {
		machine[x.c.Node(i).NodeID()] = i
	}
	out := make([]bool, k.n)
	for i := range out {
		in := k.component(i)
		out[i] = true
		for _, d := range ranges {
			var voters uint64
			for _, r := range d.Replicas {
				voters |= 1 << machine[r.Node]
			}
			if 2*bits.OnesCount64(voters&in) <= bits.OnesCount64(voters) {
				out[i] = false
			}
		}
	}
	return out
}

// leases moves the leases of the system ranges to one node and those of the tables to another, or to the voter after it.
func (x *cutCluster) leases(system, user int) {
	x.t.Helper()
	ranges, err := x.c.Ranges(context.Background(), 0)
	if err != nil {
		x.t.Fatal(err)
	}
	for _, d := range ranges {
		to := user
		if d.Start.Less(keys.TablePrefix) {
			to = system
		}
		for range x.c.Len() {
			if _, ok := d.Replica(x.c.Node(to).NodeID()); ok {
				break
			}
			to = (to + 1) % x.c.Len()
		}
		if err := x.c.TransferLease(context.Background(), d.Start, to); err != nil {
			x.t.Fatalf("range %d: %v", d.ID, err)
		}
	}
	time.Sleep(time.Second)
}

// end stops the clients and compares the rows with the outcomes that they got.
func (x *cutCluster) end() {
	x.stop.Store(true)
	x.wg.Wait()
	s := simtest.Connect(x.t, x.c, 0)
	for g := range x.c.Len() {
		var v, l, r int
		err := s.QueryRow(context.Background(), `SELECT a.v, l.v, r.v FROM a, b l, b r WHERE a.id = $1 AND l.id = $1 AND r.id = $1 + 100`, g).Scan(&v, &l, &r)
		if err != nil {
			x.t.Error(err)
		}
		if v < x.acked[g] || v > x.acked[g]+x.maybe[g] {
			x.t.Errorf("row %d is %d; %d additions were acknowledged, and %d perhaps done", g, v, x.acked[g], x.maybe[g])
		}
		if l+r != 2000 {
			x.t.Errorf("pair %d holds %d and %d", g, l, r)
		}
	}
	time.Sleep(time.Minute)
}

// sampled is a sample of cuts drawn by the seed, or all of them with MERIDIAN_CUTS.
func sampled(t *testing.T, lot []cut, n int) []cut {
	if os.Getenv("MERIDIAN_CUTS") != "" || simtest.All() || len(lot) <= n {
		return lot
	}
	dice := rand.New(rand.NewPCG(uint64(simtest.Seeds(t, 1, 1)[0]), 7))
	lot = append([]cut(nil), lot...)
	dice.Shuffle(len(lot), func(i, j int) { lot[i], lot[j] = lot[j], lot[i] })
	return lot[:n]
}

// TestCuts cuts links of three nodes, one and several, both ways and one way, with the leases here and there. A gateway that
// can reach a quorum of each range, if only by way of another node, serves its clients within five seconds and from then on (transport.T6);
// any other refuses them with an error (route.RO5).
func TestCuts(t *testing.T) {
	t.Parallel()
	for _, at := range [][2]int{{0, 0}, {0, 1}, {1, 2}} {
		lot := append(sampled(t, structures(3, 3, false), 2), sampled(t, structures(3, 3, true), 1)...)
		if testing.Short() {
			lot = lot[:1]
		}
		synctest.Test(t, func(t *testing.T) {
			x := newCutCluster(t, simcluster.Options{Log: simtest.LogTo(), Seed: 1}, 3)
			for _, k := range lot {
				x.leases(at[0], at[1])
				x.try(fmt.Sprintf("system n%d, tables n%d", at[0]+1, at[1]+1), k)
			}
			x.end()
		})
	}
}

// TestCutsOfFive does the same with five nodes and three replicas of each range: gateways without a replica, relays of several
// nodes, and parts of the network that have a quorum of some ranges only.
func TestCutsOfFive(t *testing.T) {
	t.Parallel()
	row := cut{n: 5} // each node reaches its neighbours only
	for i := range 5 {
		for j := range 5 {
			if i+1 < j {
				row.add(i, j)
				row.add(j, i)
			}
		}
	}
	lot := append([]cut{row}, sampled(t, structures(5, 0, false), 1)...)
	if testing.Short() {
		lot = lot[:1]
	}
	synctest.Test(t, func(t *testing.T) {
		x := newCutCluster(t, simcluster.Options{Log: simtest.LogTo(), Seed: 1, NodesPerRegion: 5}, 3)
		for i, k := range lot {
			x.leases(i%5, (i+2)%5)
			x.try(fmt.Sprintf("five nodes, system n%d, tables n%d", i%5+1, (i+2)%5+1), k)
		}
		x.end()
	})
}
