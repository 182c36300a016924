package leader

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/kv"
)

// The history test: clients run transactions that read keys and append their own number to others. A key's value is
// then the list of its writers, so the order of all versions is known from the last values, and a cycle of write,
// read and anti-dependencies is a violation of I3.

type observation struct {
	key  string
	list []byte // pairs of bytes: numbers of writers
}

type history struct {
	mu       sync.Mutex
	reads    map[int][]observation
	appends  map[int][]string
	acked    map[int]bool
	unknown  map[int]bool
	restarts int
	fails    map[string]int
}

func number(n int) []byte { return []byte{byte(n >> 8), byte(n)} }

// run is one client's transaction number n.
func (h *history) run(ctx context.Context, c *cluster, n int, rng *rand.Rand, mode int) {
	keyOf := func() string { return string(rune('a' + rng.Intn(8))) }
	x := c.begin()
	x.parallel = mode&1 != 0
	var seen []observation
	var appended []string
	fail := func(err error) {
		if !errors.As(err, new(*kv.AmbiguousError)) {
			x.rollback(ctx)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.fails[fmt.Sprintf("%T", err)]++
		if errors.Is(err, errRestart) {
			h.restarts++
		}
		var a *kv.AmbiguousError
		if errors.As(err, &a) {
			h.unknown[n] = true
			h.reads[n], h.appends[n] = seen, appended
		}
	}
	for range 1 + rng.Intn(4) {
		k := keyOf()
		switch op := rng.Intn(10); {
		case op < 4: // read
			v, err := x.get(ctx, k, kv.NoLock)
			if err != nil {
				fail(err)
				return
			}
			if _, own := x.value[k]; !own {
				seen = append(seen, observation{k, v})
			}
		case op < 5: // scan, with or without a limit
			end := string(k[0] + byte(1+rng.Intn(3)))
			if c.rangeOf([]byte(k)) != c.rangeOf([]byte{end[0] - 1}) {
				continue
			}
			r, err := x.scan(ctx, k, end, kv.LockStrength(rng.Intn(3)), int64(rng.Intn(3)))
			if err != nil {
				fail(err)
				return
			}
			for _, row := range r.Rows {
				if _, own := x.value[string(row.Key)]; !own {
					seen = append(seen, observation{string(row.Key), row.Value})
				}
			}
		default: // append
			lock := kv.NoLock
			if rng.Intn(2) == 0 {
				lock = kv.Exclusive
			}
			v, err := x.get(ctx, k, lock)
			if err != nil {
				fail(err)
				return
			}
			if _, own := x.value[k]; own {
				continue
			}
			seen = append(seen, observation{k, v})
			x.put(k, append(append([]byte(nil), v...), number(n)...))
			appended = append(appended, k)
			if mode&2 != 0 && rng.Intn(6) == 0 {
				if err := x.lay(ctx); err != nil {
					fail(err)
					return
				}
			}
		}
		if rng.Intn(4) == 0 {
			time.Sleep(time.Duration(rng.Intn(20)) * time.Millisecond)
		}
	}
	if rng.Intn(12) == 0 {
		x.rollback(ctx)
		return
	}
	if rng.Intn(40) == 0 {
		return // the coordinator dies, whatever it has written
	}
	if err := x.commit(ctx); err != nil {
		fail(err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked[n] = true
	h.reads[n], h.appends[n] = seen, appended
}

func (h *history) check(t *testing.T, final map[string][]byte) {
	t.Helper()
	next := map[string]map[int]int{} // key, writer (0: none) -> next writer
	edges := map[int]map[int]string{}
	edge := func(a, b int, why string) {
		if a == b || a == 0 || b == 0 {
			return
		}
		if edges[a] == nil {
			edges[a] = map[int]string{}
		}
		edges[a][b] = why
	}
	present := map[int]map[string]bool{}
	for k, v := range final {
		next[k] = map[int]int{}
		last := 0
		for i := 0; i+1 < len(v); i += 2 {
			n := int(v[i])<<8 | int(v[i+1])
			if present[n] == nil {
				present[n] = map[string]bool{}
			}
			if present[n][k] {
				t.Errorf("%d is twice in %s", n, k)
			}
			present[n][k] = true
			next[k][last] = n
			edge(last, n, "ww "+k)
			last = n
		}
	}
	for n, ks := range h.appends {
		some, all := false, true
		for _, k := range ks {
			some, all = some || present[n][k], all && present[n][k]
		}
		if h.acked[n] && !all || some && !all {
			t.Errorf("I2: transaction %d appended to %v, found %v", n, ks, present[n])
		}
	}
	for n := range present {
		if !h.acked[n] && !h.unknown[n] {
			t.Errorf("%d was not committed, but is there", n)
		}
	}
	for n, seen := range h.reads {
		if !h.acked[n] && len(present[n]) == 0 {
			continue
		}
		for _, o := range seen {
			last := 0
			if l := len(o.list); l > 0 {
				last = int(o.list[l-2])<<8 | int(o.list[l-1])
				if got := final[o.key]; len(got) < l || string(got[:l]) != string(o.list) {
					t.Errorf("%d read %v of %s, which became %v", n, o.list, o.key, got)
				}
			}
			edge(last, n, "wr "+o.key)
			if nx := next[o.key][last]; nx != 0 {
				edge(n, nx, "rw "+o.key)
			}
		}
	}
	state := map[int]int{}
	var stack []int
	var visit func(n int) bool
	visit = func(n int) bool {
		state[n] = 1
		stack = append(stack, n)
		for m, why := range edges[n] {
			if state[m] == 1 {
				t.Errorf("I3: cycle through %d -%s-> %d: %v", n, why, m, stack)
				return true
			}
			if state[m] == 0 && visit(m) {
				return true
			}
		}
		stack = stack[:len(stack)-1]
		state[n] = 2
		return false
	}
	for n := range edges {
		if state[n] == 0 && visit(n) {
			return
		}
	}
}

func runHistory(t *testing.T, seed int64, mode int, clients, txns int) {
	synctest.Test(t, func(t *testing.T) {
		c, stop := newCluster(t, seed, 3*time.Millisecond, "e")
		defer stop()
		h := &history{reads: map[int][]observation{}, appends: map[int][]string{}, acked: map[int]bool{},
			unknown: map[int]bool{}, fails: map[string]int{}}
		if mode&8 != 0 {
			c.o.Host.Group.Go(func(ctx context.Context) { c.changeLeases(ctx) })
		}
		audit, audited := context.WithCancel(context.Background())
		c.o.Host.Group.Go(func(context.Context) { c.auditHeld(audit) })
		var wg sync.WaitGroup
		for cl := range clients {
			wg.Add(1)
			go func() {
				defer wg.Done()
				rng := rand.New(rand.NewSource(seed*1000 + int64(cl)))
				for i := range txns {
					ctx, cancel := context.WithCancel(context.Background())
					if mode&4 != 0 && rng.Intn(8) == 0 {
						ctx, cancel = context.WithTimeout(ctx, time.Duration(1+rng.Intn(8000))*time.Microsecond)
					}
					h.run(ctx, c, 1+cl*txns+i, rng, mode)
					cancel()
				}
			}()
		}
		wg.Wait()
		audited()
		if c.audits.Load() < 10 {
			t.Errorf("what leaseholders know was looked at %d times", c.audits.Load())
		}
		for range c.intn(4) {
			time.Sleep(time.Duration(c.intn(300)) * time.Millisecond)
			c.forget()
		}
		time.Sleep(20 * time.Second) // abandoned transactions expire
		c.forget()                   // and are met by the reads below
		final := map[string][]byte{}
		for k := 'a'; k < 'i'; k++ {
			x := c.begin()
			v, err := x.get(context.Background(), string(k), kv.Exclusive)
			if err != nil {
				t.Fatalf("%c: %v", k, err)
			}
			final[string(k)] = v
			x.rollback(context.Background())
		}
		time.Sleep(time.Second)
		h.check(t, final)
		c.checkIdle()
		if testing.Verbose() {
			m := c.o.Metrics
			t.Logf("seed %d: %d acked, fails %v, 1pc %d, commits %d, stages %d, recoveries %d, pushes %d, deadlocks %d, "+
				"expired %d, lock waits %d, forwarded %d, uncertain %d", seed, len(h.acked), h.fails,
				m.OnePhaseCommits.Load(), m.Commits.Load(), m.Stages.Load(), m.Recoveries.Load(), m.Pushes.Load(),
				m.Deadlocks.Load(), m.Expired.Load(), m.LockWaits.Load(), m.Forwarded.Load(), m.RetriesUncertain.Load())
		}
		if len(h.acked) < clients*txns/4 {
			t.Errorf("only %d of %d transactions committed: %v", len(h.acked), clients*txns, h.fails)
		}
	})
}

func TestHistory(t *testing.T) {
	for seed := range int64(16) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { runHistory(t, seed, int(seed), 8, 25) })
	}
}
