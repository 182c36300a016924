package campaign_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"meridian/history"
	"meridian/replica"
	"meridian/replica/lease"
	"meridian/sim/simcluster/simtest"
)

// recovered waits until every node serves a write to every table.
func (k *campaign) recovered() {
	healed, within := time.Now(), recoverIn
	if k.c.Len() == 5 && k.c.Machines[0].Region != k.c.Machines[4].Region {
		within = recoverFar
	}
	var wg sync.WaitGroup
	for i := range k.c.Len() {
		wg.Add(1)
		go func() {
			defer wg.Done()
			ctx, cancel := context.WithDeadline(context.Background(), healed.Add(within))
			defer cancel()
			var err error
			var took []time.Duration // of statements that were served already; the load goes on, so they are not repeated
			for {
				if took, err = k.touchAll(ctx, i, took); err == nil || ctx.Err() != nil {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			k.say("%s serves after %s: %v, %v", k.c.Machines[i].Name, time.Since(healed), took, err)
			if err != nil {
				k.dump()
				k.problem("%s does not serve %s after everything healed: %v, after %v", k.c.Machines[i].Name, time.Since(healed), err, took)
			}
		}()
	}
	wg.Wait()
	k.recovery = time.Since(healed)
}

// touchAll goes on after the statements that have been served, and returns how long each took.
func (k *campaign) touchAll(ctx context.Context, i int, took []time.Duration) ([]time.Duration, error) {
	conn, err := k.c.Connect(ctx, i, "defaultdb")
	if err != nil {
		return took, err
	}
	defer conn.Close(ctx)
	all := []string{"UPDATE bank SET balance = balance WHERE id = 1", "UPDATE bank SET balance = balance WHERE id = 20",
		"UPDATE ctr SET n = n WHERE id = 0", "UPDATE ctr SET n = n WHERE id = 2", "SELECT count(*) FROM pa", "SELECT count(*) FROM pb",
		"SELECT count(*) FROM uq"}
	for _, q := range all[len(took):] {
		begun := time.Now()
		if _, err := conn.Exec(ctx, q); err != nil {
			return took, fmt.Errorf("%s: %w", q, err)
		}
		took = append(took, time.Since(begun))
	}
	return took, nil
}

// verify compares the rows with the acknowledged ones, from every node.
func (k *campaign) verify() { k.everywhere(k.verifyFrom) }

// everywhere runs a check at each node and reports its errors. A check that loses a conflict is repeated.
func (k *campaign) everywhere(check func(ctx context.Context, i int) error) {
	for i, m := range k.c.Machines {
		var err error
		for range 20 {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			err = check(ctx, i)
			cancel()
			var pg *pgconn.PgError
			if !errors.As(err, &pg) || pg.Code != "40001" {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if err != nil {
			k.dump()
			k.problem("%s: %v", m.Name, err)
		}
	}
}

// dump writes the stacks of all goroutines to the file that MERIDIAN_DUMP names, once.
func (k *campaign) dump() {
	name := os.Getenv("MERIDIAN_DUMP")
	k.mu.Lock()
	done := k.dumped
	k.dumped = true
	k.mu.Unlock()
	if name == "" || done {
		return
	}
	f, err := os.Create(name)
	if err != nil {
		return
	}
	defer f.Close()
	for range 3 { // the difference shows what stands still
		fmt.Fprintf(f, "at %s\n", k.now())
		for i := range k.c.Len() {
			if n := k.c.Node(i); n != nil && n.Store() != nil {
				fmt.Fprintf(f, "%s is node %d\n", k.c.Machines[i].Name, n.NodeID())
				n.Store().Replicas(func(r *replica.Replica) bool {
					s := r.Status()
					d, l := s.Desc, s.Lease
					s.Desc, s.Lease = nil, lease.Lease{}
					fmt.Fprintf(f, "  %v  %v  %+v\n", d, l, s)
					return true
				})
			}
		}
		time.Sleep(time.Second)
	}
	pprof.Lookup("goroutine").WriteTo(f, 2)
}

// compareAll compares the replicas of every range at one applied index. A node that was restarted a moment ago may get a raft
// snapshot instead of the command that asks for its hash.
func (k *campaign) compareAll() {
	var problems []string
	for range 5 {
		if problems = simtest.Compared(k.c); len(problems) == 0 {
			return
		}
		time.Sleep(3 * time.Second)
	}
	k.dump()
	for _, p := range problems {
		k.problem("%s", p)
	}
}

// countStats compares every replica's statistics with its data.
func (k *campaign) countStats() {
	for i, m := range k.c.Machines {
		n := k.c.Node(i)
		if n == nil || n.Store() == nil {
			continue
		}
		n.Store().Replicas(func(r *replica.Replica) bool {
			kept, counted, err := r.CountStats()
			if err != nil || kept != counted {
				k.problem("%s, %v: statistics say %+v, a count %+v (%v)", m.Name, r.Desc(), kept, counted, err)
			}
			return true
		})
	}
}

func (k *campaign) verifyFrom(ctx context.Context, i int) error {
	conn, err := k.c.Connect(ctx, i, "defaultdb")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	from := k.c.Machines[i].Name
	var n, sum int
	if err := conn.QueryRow(ctx, "SELECT count(*), sum(balance) FROM bank").Scan(&n, &sum); err != nil {
		return err
	}
	if n != accounts || sum != accounts*balance {
		k.problem("bank: in the end %d accounts hold %d, seen from %s", n, sum, from)
	}
	for key := 1; key <= registers; key++ {
		o := k.regs.Begin(history.Op{Client: 1000 + i, Key: key, When: k.now()})
		var v int64
		if err := conn.QueryRow(ctx, "SELECT v FROM reg WHERE id = $1", key).Scan(&v); err != nil {
			k.regs.Failed(o, err.Error())
			return err
		}
		k.regs.OK(o, v, false)
	}
	column := func(q string) (map[int64]string, error) {
		rows, err := conn.Query(ctx, q)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		out := map[int64]string{}
		for rows.Next() {
			var id int64
			var s string
			if err := rows.Scan(&id, &s); err != nil {
				return nil, err
			}
			if _, twice := out[id]; twice {
				k.problem("%s returned %d twice, seen from %s", q, id, from)
			}
			out[id] = s
		}
		return out, rows.Err()
	}
	pa, err := column("SELECT id, v::text FROM pa")
	if err != nil {
		return err
	}
	pb, err := column("SELECT id, v::text FROM pb")
	if err != nil {
		return err
	}
	byKey, err := column("SELECT id, name FROM uq ORDER BY id")
	if err != nil {
		return err
	}
	byName, err := column("SELECT id, name FROM uq ORDER BY name")
	if err != nil {
		return err
	}
	ctr, err := column("SELECT id, n::text FROM ctr")
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	bad := func(format string, args ...any) {
		if len(k.problems) < 20 {
			k.problems = append(k.problems, fmt.Sprintf(format, args...)+", seen from "+from)
		}
	}
	for id, e := range k.pairs {
		how := e.how
		_, a := pa[id]
		_, b := pb[id]
		if a != b || how == history.OK && !a || how == history.Failed && a {
			bad("pair %d (outcome %d, %s) is there: %v and %v", id, how, e.note, a, b)
		}
	}
	for id, u := range k.unique {
		_, there := byKey[id]
		if u.how == history.OK && !there || u.how == history.Failed && there {
			bad("%s of row %d (outcome %d, %s) is there: %v", u.name, id, u.how, u.note, there)
		}
	}
	names := map[string]int64{}
	for id, name := range byKey {
		if other, taken := names[name]; taken {
			bad("%s is in rows %d and %d", name, id, other)
		}
		names[name] = id
		if byName[id] != name {
			bad("row %d is %q in the index and %q in the table", id, byName[id], name)
		}
	}
	if len(byName) != len(byKey) {
		bad("the table has %d names, the index %d", len(byKey), len(byName))
	}
	for j, a := range k.added {
		v, _ := strconv.ParseInt(ctr[int64(j)], 10, 64)
		if v < a.sure || v > a.sure+a.maybe {
			bad("counter %d is %d; %d additions were acknowledged, %d are unknown", j, v, a.sure, a.maybe)
		}
	}
	return nil
}
