package simcluster_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/server"
	"meridian/sim"
	"meridian/sim/simcluster"
)

// externalWorld is a database over five regions that is externally consistent, and survives the loss of a region, with two tables whose leaseholders are in the first one.
func externalWorld(t *testing.T, epsilon time.Duration) (*simcluster.Cluster, *pgx.Conn) {
	t.Helper()
	c := simcluster.Start(t, simcluster.Options{Regions: sim.FiveRegions(), Nodes: []int{2, 1, 1, 1, 1}, MaxOffset: epsilon, Log: logTo(),
		Configure: func(_ int, o *server.Options) { o.NonVoters = 0 }})
	root := connect(t, c, 0)
	exec(t, root, `CREATE DATABASE d PRIMARY REGION "us-east1" REGIONS "us-west1", "europe-west1", "asia-northeast1", "australia-southeast1" SURVIVE REGION FAILURE`)
	exec(t, root, "ALTER DATABASE d SET external_consistency = on")
	near := connectTo(t, c, 0, "d")
	for _, table := range []string{"a", "b"} {
		exec(t, near, "CREATE TABLE "+table+" (id int PRIMARY KEY, v int)")
		exec(t, near, "INSERT INTO "+table+" SELECT i, 0 FROM generate_series(1, 10) AS g(i)")
	}
	time.Sleep(30 * time.Second)
	return c, near
}

// took is the median of the virtual time that an operation takes.
func took(t *testing.T, f func()) time.Duration {
	t.Helper()
	var all []time.Duration
	for range 9 {
		begin := time.Now()
		f()
		all = append(all, time.Since(begin))
		time.Sleep(time.Second)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// TestExternalTakesTheLongerOf: a commit takes a round of consensus or the commit wait, whichever is longer, and never both one after the other (txn.TX12).
func TestExternalTakesTheLongerOf(t *testing.T) {
	t.Parallel()
	for _, epsilon := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond} {
		t.Run(epsilon.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, near := externalWorld(t, epsilon)
				ctx := context.Background()
				begin := func(stmts ...string) func() {
					return func() {
						for _, s := range stmts {
							if _, err := near.Exec(ctx, s); err != nil {
								t.Fatal(s, err)
							}
						}
					}
				}
				for _, x := range []struct {
					name string
					do   func()
				}{
					{"one range", begin("UPDATE a SET v = v + 1 WHERE id = 1")},
					{"read and write", begin("BEGIN", "SELECT v FROM a WHERE id = 2", "UPDATE a SET v = v + 1 WHERE id = 1", "COMMIT")},
					{"two ranges", begin("BEGIN", "SELECT v FROM b WHERE id = 2", "UPDATE a SET v = v + 1 WHERE id = 3", "UPDATE b SET v = v + 1 WHERE id = 3", "COMMIT")},
					{"read one range", begin("SELECT v FROM a WHERE id = 5")},
					{"read two ranges", begin("SELECT a.v FROM a, b WHERE a.id = 5 AND b.id = 6")},
				} {
					fmt.Println(epsilon, x.name, took(t, x.do))
				}
			})
		})
	}
}
