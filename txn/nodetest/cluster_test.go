package nodetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/commit/leader/gateway"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/server"
	"meridian/sim"
	"meridian/txn"
)

type node struct {
	*server.Node
	h *host.Host
}

// twoPhases is a gateway of its own that does not commit in parallel.
func (n *node) twoPhases() *txn.DB {
	return txn.NewDB(txn.Options{Records: gateway.Protocol{}, Sender: n.Router(), Clock: n.DB().Clock(), Host: n.h, NodeID: n.NodeID, TwoPhases: true})
}

// nodes starts real nodes on simulated machines, in virtual time.
func nodes(t *testing.T, n int, seed uint64) []*node {
	return nodesOn(t, sim.NewNetwork(sim.NetworkOptions{Seed: seed}), n, seed)
}

// nodesOn starts them on a network, as n1, n2 and so on.
func nodesOn(t *testing.T, net *sim.Network, n int, seed uint64) []*node {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out []*node
	for i := range n {
		name := fmt.Sprintf("n%d", i+1)
		h := sim.NewHost(context.Background(), sim.MachineOptions{Name: name, Network: net, Seed: seed, Log: testLog()})
		o := server.Options{
			Host: h, Dir: "store", ListenAddr: name + ":1", SQLAddr: name + ":2", Insecure: true, Small: true,
		}
		if i > 0 {
			o.Join = []string{"n1:1"}
		}
		s, err := server.Start(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if _, err := s.Init(ctx); err != nil {
				t.Fatal(err)
			}
		}
		out = append(out, &node{s, h})
	}
	for _, s := range out {
		if err := s.WaitReady(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func testLog() *slog.Logger {
	if os.Getenv("MERIDIAN_TEST_LOG") == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func userKey(s string) keys.Key { return append(keys.TableKey(uint32(500)), s...) }

// TestBankOnNodes is TestBank on one and on three real nodes, with ranges that split meanwhile.
func TestBankOnNodes(t *testing.T) {
	for _, n := range []int{1, 3} {
		for _, parallel := range []bool{false, true} {
			t.Run(fmt.Sprintf("nodes=%d,parallel=%v", n, parallel), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ns := nodes(t, n, 1)
					defer func() {
						for _, s := range ns {
							s.Stop()
						}
					}()
					nodeBank(t, ns, parallel)
				})
			})
		}
	}
}

func nodeBank(t *testing.T, ns []*node, parallel bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	key := func(i int) keys.Key { return userKey(fmt.Sprintf("acc%02d", i)) }
	all := keys.Span{Start: userKey("acc"), End: userKey("acd")}
	var wb txn.WriteBatch
	for i := range 10 {
		wb.PutNew(key(i), []byte{100})
	}
	if err := ns[0].DB().Begin(txn.TxnOptions{}).CommitBatch(ctx, &wb); err != nil {
		t.Fatal(err)
	}
	audit := func(ctx context.Context, tx *txn.Txn) error {
		rows, _, err := tx.Scan(ctx, txn.ScanOptions{Span: all})
		if err != nil {
			return err
		}
		sum := 0
		for _, r := range rows {
			sum += int(r.Value[0])
		}
		if err := tx.Commit(ctx); err != nil {
			return err
		}
		if sum != 1000 || len(rows) != 10 {
			return fmt.Errorf("%d accounts with %d", len(rows), sum)
		}
		return nil
	}
	var wg sync.WaitGroup
	for worker := range 6 {
		db := ns[worker%len(ns)].DB()
		if !parallel {
			db = ns[worker%len(ns)].twoPhases()
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			d := rand.New(rand.NewPCG(7, uint64(worker)))
			for i := range 60 {
				err := db.Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
					if d.IntN(5) == 0 {
						return audit(ctx, tx)
					}
					from, to := d.IntN(10), d.IntN(10)
					if from == to {
						return nil
					}
					lock := kv.LockStrength(d.IntN(2) * 2)
					vs, err := tx.GetMany(ctx, []keys.Key{key(from), key(to)}, lock, kv.Block)
					if err != nil {
						return err
					}
					if vs[0][0] < 5 || vs[1][0] > 240 {
						return nil
					}
					var wb txn.WriteBatch
					wb.Put(key(from), []byte{vs[0][0] - 5})
					wb.Put(key(to), []byte{vs[1][0] + 5})
					return tx.CommitBatch(ctx, &wb)
				})
				var lost *kv.AmbiguousError
				if err != nil && !errors.As(err, &lost) {
					t.Errorf("worker %d, %d: %v", worker, i, err)
					return
				}
				if lost != nil {
					t.Logf("worker %d: %v", worker, err)
				}
			}
		}()
	}
	for _, at := range []int{3, 7} {
		if _, err := ns[0].DB().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: key(at)}}}); err != nil {
			t.Errorf("split: %v", err)
		}
	}
	wg.Wait()
	for _, s := range ns {
		if err := s.DB().Run(ctx, txn.TxnOptions{ReadOnly: true}, audit); err != nil {
			t.Error(err)
		}
		m := s.DB().Metrics()
		t.Logf("n%d: one phase %d, two %d, restarts %d, refreshes %d (%d failed), ambiguous %d; cached %d", s.NodeID(),
			m.OnePhaseCommits.Load(), m.TwoPhaseCommits.Load(), m.Restarts.Load(), m.Refreshes.Load(),
			m.RefreshesFailed.Load(), m.Ambiguous.Load(), len(s.Router().Cached()))
	}
}
