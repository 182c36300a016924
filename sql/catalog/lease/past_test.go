package lease_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/txn"
)

// lease.L5 against a model: tables are made, changed, renamed and dropped, and at any time of the past every name leads to
// its object of that time, on the node that made the changes, on one that was told of them, and on one that began
// afterwards.
func TestPast(t *testing.T) {
	const steps, names = 60, 6
	name := func(i int) string { return fmt.Sprint("t", i) }
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			ctx, dice := context.Background(), rand.New(rand.NewPCG(seed, 1))
			c := newCluster(t, 2, seed%2 == 0)
			defer c.stop()
			type table = catalog.Dependency
			type moment struct {
				at    clock.Timestamp
				there map[string]table
			}
			change := func(n *node, id catalog.ID, f func(*catalog.Table)) {
				if err := n.m.Change(ctx, func(_ context.Context, _ *txn.Txn, c *lease.Txn) error {
					f(c.Table(id))
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			now := map[string]table{}
			var history []moment
			for range steps {
				n, from, to := c.nodes[dice.IntN(2)], name(dice.IntN(names)), name(dice.IntN(names))
				d, ok := now[from]
				_, taken := now[to]
				switch p := dice.IntN(4); {
				case !ok:
					now[from] = table{ID: n.create(t, from), Version: 1}
				case p == 0:
					change(n, d.ID, func(x *catalog.Table) { x.Dropped = true })
					delete(now, from)
				default:
					if p > 1 || taken {
						to = from // another version of the same
					}
					change(n, d.ID, func(x *catalog.Table) { x.Name, x.Indexes[0].Name = to, to+"_pkey" })
					delete(now, from)
					now[to] = table{ID: d.ID, Version: d.Version + 1}
				}
				time.Sleep(time.Duration(dice.IntN(3000)+1000) * time.Millisecond)
				m := moment{n.db.Clock().Now(), map[string]table{}}
				for k, v := range now {
					m.there[k] = v
				}
				history = append(history, m)
				time.Sleep(time.Second)
			}
			young := &node{id: 3, h: c.nodes[0].h, db: c.nodes[0].db, way: c.nodes[0].way}
			young.m = lease.New(lease.Options{DB: young.db, Clock: young.db.Clock(), Host: young.h, NodeID: func() kv.NodeID { return 3 }})
			if err := young.m.Start(ctx); err != nil {
				t.Fatal(err)
			}
			for _, n := range append(c.nodes, young) {
				for _, m := range history {
					tx := n.db.Begin(txn.TxnOptions{AsOf: m.at})
					cat := n.m.Begin(tx)
					view := cat.View(info)
					for i := range names {
						want, ok := m.there[name(i)]
						got, err := view.Table(ctx, "", "", name(i))
						if err != nil || ok != (got != nil) || ok && (got.ID != want.ID || got.Version != want.Version) {
							t.Fatalf("seed %d, node %d, %s: %s is %+v %v, want %v %v", seed, n.id, m.at, name(i), got, err, ok, want)
						}
						if !ok {
							continue
						}
						if good, err := cat.Use([]catalog.Dependency{want}); !good || err != nil {
							t.Fatalf("seed %d: %v: %v %v", seed, want, good, err)
						}
						if good, err := cat.Use([]catalog.Dependency{{ID: want.ID, Version: want.Version + 1}}); good || err != nil {
							t.Fatalf("seed %d: the version after %v: %v %v", seed, want, good, err)
						}
					}
					cat.Finish(ctx, false)
					tx.Rollback(ctx)
				}
			}
		})
	}
}
