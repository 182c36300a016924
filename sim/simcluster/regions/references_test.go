package regions_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/keys"
	"meridian/kv"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestReferencesAtAllLevels: clients at all levels of isolation add and remove parents and children in transactions of
// several statements, while leases move. No child is left without its parent, and no acknowledged one is missing
// (coordinator.CO7).
func TestReferencesAtAllLevels(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := simcluster.Start(t, simcluster.Options{Log: simtest.LogTo()})
				referencesAtAllLevels(t, c, seed)
			})
		})
	}
}

func referencesAtAllLevels(t *testing.T, c *simcluster.Cluster, seed uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	admin, err := c.Connect(ctx, 0, "defaultdb")
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(ctx)
	for _, q := range []string{
		"create table parent (a int primary key, b int not null default 0)",
		"create table child (a int primary key, p int references parent)",
		"create index on child (p)",
		"insert into parent select g from generate_series(1, 6) g",
	} {
		if _, err := admin.Exec(ctx, q); err != nil {
			t.Fatal(q, err)
		}
	}
	var table uint32
	if err := admin.QueryRow(ctx, "select 'child'::regclass::oid").Scan(&table); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	outcomes := map[string]int{}
	stop := make(chan struct{})
	var clients, movers sync.WaitGroup
	for i := range 9 {
		level := []string{"serializable", "repeatable read", "read committed"}[i%3]
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			conn, err := c.Connect(ctx, i%3, "defaultdb")
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close(ctx)
			for n := range 15 {
				err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.TxIsoLevel(level)}, func(tx pgx.Tx) error {
					for range 1 + rng.IntN(2) {
						p := 1 + rng.IntN(6)
						q := []string{
							fmt.Sprintf("insert into child values (%d, %d)", 1000*i+10*n+rng.IntN(10), p),
							fmt.Sprintf("update parent set b = b + 1 where a = %d", p),
							fmt.Sprintf("delete from parent where a = %d", p),
							fmt.Sprintf("insert into parent values (%d) on conflict do nothing", p),
							fmt.Sprintf("delete from child where p = %d", p),
							fmt.Sprintf("update child set p = %d where a = (select min(a) from child)", p),
						}[rng.IntN(6)]
						if _, err := tx.Exec(ctx, q); err != nil {
							return err
						}
					}
					return nil
				})
				what := "ok"
				var pg *pgconn.PgError
				if errors.As(err, &pg) {
					what = pg.Code
					if pg.Code != "40001" && pg.Code != "40P01" && pg.Code != "23503" && pg.Code != "23505" {
						t.Errorf("at %s: %v", level, err)
					}
				} else if err != nil {
					t.Errorf("at %s: %v", level, err)
				}
				mu.Lock()
				outcomes[level+" "+what]++
				mu.Unlock()
			}
		})
	}
	movers.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 100))
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(50+rng.IntN(200)) * time.Millisecond):
			}
			n := c.Node(rng.IntN(3))
			_, _ = n.Router().Send(ctx, &kv.Batch{Requests: []kv.Request{
				&kv.AdminTransferLeaseRequest{Key: keys.IndexPrefix(table, uint32(1)), Target: n.NodeID()}}})
		}
	})
	clients.Wait()
	close(stop)
	movers.Wait()
	orphans := 0
	if err := admin.QueryRow(ctx, "select count(*) from child left join parent on parent.a = child.p where child.p is not null and parent.a is null").Scan(&orphans); err != nil {
		t.Fatal(err)
	}
	if orphans > 0 {
		t.Errorf("%d children without a parent", orphans)
	}
	t.Log(outcomes)
}
