package memory_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"meridian/sql/memory"
	"meridian/sql/sqlstate"
)

func refused(err error) bool {
	var e *sqlstate.Error
	return errors.As(err, &e) && e.Code == sqlstate.OutOfMemory && e.Detail != "" && e.Hint != ""
}

// TestGreedyShare: n greedy sessions get an equal share each, and as much stays free for a small one (memory.ME2).
func TestGreedyShare(t *testing.T) {
	const limit = 256 << 20
	for _, n := range []int{1, 2, 5, 50} {
		node := memory.NewNode(limit)
		var greedy []*memory.Account
		for range n {
			greedy = append(greedy, memory.NewSession(node).NewStatement(0))
		}
		for left := n; left > 0; {
			left = 0
			for _, a := range greedy {
				if err := a.Grow(100 << 10); err == nil {
					left++
				} else if !refused(err) {
					t.Fatal(err)
				}
			}
		}
		share := int64(limit / (n + 1))
		for i, a := range greedy {
			if a.Used() < share*8/10 || a.Used() > share*12/10 {
				t.Errorf("%d sessions: session %d has %d bytes, the share is %d", n, i, a.Used(), share)
			}
		}
		if node.Used() > limit {
			t.Errorf("%d bytes are used, the limit is %d (memory.ME1)", node.Used(), limit)
		}
		small := memory.NewSession(node).NewStatement(0)
		if err := small.Grow(share / 4); err != nil {
			t.Errorf("%d greedy sessions: a small one is refused: %v", n, err)
		}
		small.Close()
		for _, a := range greedy {
			a.Close()
		}
		if node.Used() != 0 && node.Used() > int64(n+1)*4*64<<10 {
			t.Errorf("%d bytes are left when all have ended (memory.ME3)", node.Used())
		}
	}
}

// TestAccounts: random growth of two levels by many goroutines against the sum of what they hold.
func TestAccounts(t *testing.T) {
	const limit = 64 << 20
	node := memory.NewNode(limit)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(g)))
			session := memory.NewSession(node)
			for range 200 {
				a := session.NewStatement(16 << 20)
				held := int64(0)
				for range 200 {
					if n := rnd.Int64N(1 << 20); rnd.IntN(3) > 0 {
						if err := a.Grow(n); err == nil {
							held += n
						} else if !refused(err) {
							t.Error(err)
						}
					} else {
						n = min(n, held)
						a.Shrink(n)
						held -= n
					}
					if a.Used() != held {
						t.Errorf("account says %d, %d are held", a.Used(), held)
						return
					}
					if u := node.Used(); u > limit || u < held-2*memory.Free {
						t.Errorf("node says %d of %d, one statement holds %d", u, limit, held)
						return
					}
				}
				a.Close()
			}
			session.Close()
		})
	}
	wg.Wait()
	if node.Used() != 0 {
		t.Errorf("%d bytes are left when all have ended (memory.ME3)", node.Used())
	}
	if node.Refused() == 0 {
		t.Error("nobody was refused: the test is too small")
	}
}

// TestFree: a short statement takes nothing of the node.
func TestFree(t *testing.T) {
	node := memory.NewNode(1 << 20)
	a := memory.NewSession(node).NewStatement(0)
	if err := a.Grow(memory.Free); err != nil || node.Used() != 0 {
		t.Errorf("%v, %d bytes of the node", err, node.Used())
	}
	var none *memory.Account
	if none.Grow(1<<40) != nil || none.Used() != 0 {
		t.Error("a nil account bounds something")
	}
}
