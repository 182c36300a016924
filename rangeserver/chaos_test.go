package rangeserver_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/kv"
)

// TestChaos: writers and readers go on while nodes lose power at random moments (the disk keeps what was synced, and
// some of the rest), links are cut, leases move, the range is split and its replicas are exchanged. At the end every
// acknowledged write is there (I1), reads never went back (I4), and no two leases overlapped (I5).
func TestChaos(t *testing.T) {
	seeds := 4
	if testing.Short() {
		seeds = 1
	}
	if n, err := strconv.Atoi(os.Getenv("MERIDIAN_SEEDS")); err == nil {
		seeds = n
	}
	for seed := range seeds {
		for _, supported := range []bool{false, true} {
			name := strconv.Itoa(seed)
			if supported {
				name += " supported"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { chaos(t, uint64(seed), supported) })
			})
		}
	}
}

func chaos(t *testing.T, seed uint64, supported bool) {
	rng := rand.New(rand.NewPCG(seed, 7))
	c := newCluster(t, 3)
	c.supported = supported
	c.threefold()
	defer c.stop()
	for _, n := range c.nodes {
		n.machine.Clock.SetOffset(time.Duration(rng.Int64N(400)-200) * time.Millisecond)
	}
	const writers = 4
	var mu sync.Mutex // guards acked, seen
	acked := make(map[string]int)
	done := make(chan struct{})
	var wg sync.WaitGroup
	var unknown, writes int
	for w := range writers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			k := fmt.Sprintf("k%d", w)
			for i := 1; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				err := c.put(k, strconv.Itoa(i))
				mu.Lock()
				if err == nil {
					acked[k] = i
					writes++
				} else {
					unknown++
				}
				low := acked[k]
				mu.Unlock()
				v, err := c.get(k)
				if n, _ := strconv.Atoi(v); err == nil && n < low {
					t.Errorf("%s: read %d after %d was acknowledged", k, n, low)
				}
				time.Sleep(time.Duration(30+w) * time.Millisecond)
			}
		}()
	}
	up := func() (ns []*node) {
		for _, n := range c.nodes {
			if n.isUp() {
				ns = append(ns, n)
			}
		}
		return ns
	}
	for step := range 25 {
		time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
		ns := up()
		if len(ns) == 0 {
			c.nodes[rng.IntN(3)].start(false)
			continue
		}
		n := ns[rng.IntN(len(ns))]
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		switch what := rng.IntN(10); {
		case what < 4:
			if len(ns) == 3 || rng.IntN(6) == 0 {
				n.crash(rng.IntN(100))
			}
		case what < 7:
			for _, n := range c.nodes {
				if !n.isUp() {
					n.start(false)
				}
			}
		case what < 8:
			id := kv.RangeID(1 + rng.IntN(3))
			err := n.store.TransferLease(ctx, id, kv.NodeID(1+rng.IntN(3)))
			t.Logf("step %d: n%d transfers r%d: %v", step, n.id, id, err)
		case what < 9:
			a, b := fmt.Sprintf("n%d", n.id), fmt.Sprintf("n%d", n.id%3+1)
			c.net.Partition(a, b)
			time.Sleep(time.Duration(rng.IntN(4000)) * time.Millisecond)
			c.net.Heal(a, b)
		default:
			if r := n.store.Replica(2); r != nil && r.Desc() != nil {
				err := n.store.Split(ctx, 2, tkey(fmt.Sprintf("k%d", 1+rng.IntN(writers-1))))
				t.Logf("step %d: n%d splits r2: %v", step, n.id, err)
			}
		}
		cancel()
	}
	for _, n := range c.nodes {
		if !n.isUp() {
			n.start(false)
		}
	}
	time.Sleep(5 * time.Second)
	close(done)
	wg.Wait()
	for k, low := range acked {
		v, err := c.get(k)
		if n, _ := strconv.Atoi(v); err != nil || n < low {
			t.Errorf("%s: %q (%v), but %d was acknowledged", k, v, err, low)
		}
	}
	if writes < 200 {
		t.Errorf("only %d writes went through", writes)
	}
	t.Logf("%d writes, %d of unknown outcome", writes, unknown)
	c.checkLeases()
	time.Sleep(5 * time.Second)
	for _, n := range c.nodes {
		for id := range kv.RangeID(6) {
			a, b := n.store.Replica(id+1), c.nodes[0].store.Replica(id+1)
			if a == nil || b == nil {
				if a != b {
					t.Errorf("r%d: n%d %v, n1 %v", id+1, n.id, a != nil, b != nil)
				}
				continue
			}
			if a.Stats() != b.Stats() || a.AppliedIndex() != b.AppliedIndex() {
				t.Errorf("r%d: n%d %+v at %d, n1 %+v at %d", id+1, n.id, a.Stats(), a.AppliedIndex(), b.Stats(), b.AppliedIndex())
			}
		}
	}
}

// TestCrashAnywhere: a lone node loses power at random moments of a slow disk; what it acknowledged is there (I1).
func TestCrashAnywhere(t *testing.T) {
	for seed := range 5 {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 3))
			c := newCluster(t, 1)
			n := c.nodes[0]
			n.slow = 5 * time.Millisecond
			n.start(true)
			defer c.stop()
			acked := make([]int, 3)
			for round := range 12 {
				ctx, cancel := context.WithCancel(context.Background())
				var wg sync.WaitGroup
				for w := range acked {
					wg.Add(1)
					go func() {
						defer wg.Done()
						k := tkey(fmt.Sprint(w))
						for ctx.Err() == nil {
							v := []byte(strconv.Itoa(acked[w] + 1))
							if _, err := n.store.Send(ctx, &kv.Batch{Header: kv.Header{RangeID: 2},
								Requests: []kv.Request{&kv.PutRequest{Key: k, Value: v}}}); err == nil && n.isUp() {
								acked[w]++
							} else if ctx.Err() == nil {
								time.Sleep(time.Millisecond)
							}
						}
					}()
				}
				time.Sleep(600*time.Millisecond + time.Duration(rng.Int64N(int64(50*time.Millisecond))))
				n.up.Store(false)
				n.machine.Crash(rng.IntN(100), true)
				cancel()
				wg.Wait()
				n.up.Store(true)
				n.stop()
				n.start(false)
				for w, low := range acked {
					v, err := c.get(fmt.Sprint(w))
					if got, _ := strconv.Atoi(v); err != nil || got < low {
						t.Fatalf("seed %d round %d: key %d: %q (%v), but %d was acknowledged", seed, round, w, v, err, low)
					}
					acked[w] = max(acked[w], func() int { i, _ := strconv.Atoi(v); return i }())
				}
			}
			if acked[0] < 100 {
				t.Errorf("only %d writes", acked[0])
			}
		})
	}
}

var errNobody = errors.New("nobody has the range")
