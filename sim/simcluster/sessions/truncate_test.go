package sessions_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/sim/simcluster/simtest"
)

// TestTruncateAmongWriters has writers at every gateway of three regions while the table is truncated, and in the end
// dropped. Table e has the number of truncations, and u the number that each writer saw in the transaction that inserted
// its row: a row exists if and only if its writer has seen the last truncation, and no writer has seen the drop (I3,
// lease.L6).
func TestTruncateAmongWriters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := simtest.WideArea(t)
		ctx := context.Background()
		a := simtest.Connect(t, c, 0)
		simtest.Exec(t, a, "CREATE TABLE t (id int PRIMARY KEY, v int)")
		simtest.Exec(t, a, "CREATE INDEX ON t (v)")
		simtest.Exec(t, a, "CREATE TABLE e (n int)")
		simtest.Exec(t, a, "CREATE TABLE u (id int PRIMARY KEY, n int)")
		simtest.Exec(t, a, "INSERT INTO e VALUES (0)")
		stop := make(chan struct{})
		var wg sync.WaitGroup
		acked := make([][]int, 6)
		for w := range acked {
			conn := simtest.Connect(t, c, w%3)
			wg.Go(func() {
				dice := rand.New(rand.NewPCG(1, uint64(w)))
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					id := w*100000 + i
					texts := []string{fmt.Sprintf("INSERT INTO t VALUES (%d, 1)", id), fmt.Sprintf("INSERT INTO u SELECT %d, n FROM e", id)}
					if dice.IntN(2) == 0 {
						slices.Reverse(texts)
					}
					_, err := conn.Exec(ctx, "BEGIN; "+texts[0])
					if err == nil {
						time.Sleep(time.Duration(dice.IntN(50)) * time.Millisecond)
						_, err = conn.Exec(ctx, texts[1]+"; COMMIT")
					}
					if err == nil {
						acked[w] = append(acked[w], id)
						continue
					}
					if _, err := conn.Exec(ctx, "ROLLBACK"); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		done := 0
		for i := range 4 {
			time.Sleep(500 * time.Millisecond)
			gateway := simtest.Connect(t, c, i%3)
			if _, err := gateway.Exec(ctx, "BEGIN; UPDATE e SET n = n + 1; TRUNCATE t; COMMIT"); err != nil {
				t.Log(err)
				gateway.Exec(ctx, "ROLLBACK")
				continue
			}
			done++
		}
		if done < 3 {
			t.Errorf("%d truncations", done)
		}
		time.Sleep(500 * time.Millisecond)
		b := simtest.Connect(t, c, 1)
		// While they go on.
		var wrong int
		if err := b.QueryRow(ctx, "SELECT count(*) FROM u FULL JOIN t USING (id) WHERE (u.n = (SELECT n FROM e)) <> (t.id IS NOT NULL)").Scan(&wrong); err != nil || wrong > 0 {
			t.Errorf("%d rows are lost or too many, %v", wrong, err)
		}
		simtest.Exec(t, b, "BEGIN; UPDATE e SET n = -1; DROP TABLE t; COMMIT")
		close(stop)
		wg.Wait()
		total, n := 0, 0
		for _, ids := range acked {
			total += len(ids)
		}
		if err := a.QueryRow(ctx, "SELECT count(*), count(*) FILTER (WHERE n = -1) FROM u").Scan(&n, &wrong); err != nil || n < total || wrong > 0 {
			t.Errorf("%d rows were acknowledged, %d written; %d after the table was dropped; %v", total, n, wrong, err)
		}
		t.Logf("%d rows", total)
	})
}
