package campaign_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/clock"
	"meridian/history"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
	"meridian/sim"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
)

// TestChangeWithDeaths: at some moment of a change of a table's commit protocol, while clients add to its rows, the leaseholder of the table's range loses its power, or the node that runs the statement. The
// change ends without anybody who asks for it again, unless its statement has failed and changed nothing. No addition is lost or done twice (I1, I2), and all clients go on.
//
// MERIDIAN_SEEDS, MERIDIAN_FIRST and MERIDIAN_SEED are TestCampaign's.
func TestChangeWithDeaths(t *testing.T) {
	t.Parallel()
	for _, seed := range simtest.Seeds(t, 1, 1) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &deathsInChange{campaign: &campaign{seed: uint64(seed), start: time.Now()}, dice: rand.New(rand.NewPCG(uint64(seed), 0xdead))}
				k.run(t)
				t.Logf("%s: %s", k.topology, k.summary())
				for _, p := range k.problems {
					t.Error(p)
				}
			})
		})
	}
}

// deathsInChange is one seed's run.
type deathsInChange struct {
	*campaign
	dice  *rand.Rand
	lasts time.Duration              // a change, about
	table keys.Key                   // the first key of its range
	sure  [deathRows]atomic.Int64    // additions that were acknowledged
	maybe [deathRows]atomic.Int64    // and those that may have been made
	acks  [deathClients]atomic.Int64 // of each client
}

const deathRows, deathClients = 20, 6

func (k *deathsInChange) run(t *testing.T) {
	o := simcluster.Options{Seed: k.seed, Log: simtest.LogTo()}
	if k.topology, k.lasts = "one region", 130*time.Millisecond; k.dice.IntN(2) == 0 {
		k.topology, k.lasts, o.Regions, o.NodesPerRegion = "three regions", 5*time.Second/2, sim.ThreeRegions(), 1
	}
	k.c = simcluster.Start(t, o)
	simtest.Replicated(t, k.c, 3)
	setup := simtest.Connect(t, k.c, 0)
	simtest.Exec(t, setup, "CREATE TABLE counts (id int PRIMARY KEY, n int NOT NULL) WITH (commit_protocol = 'fast_paxos')")
	simtest.Exec(t, setup, fmt.Sprintf("INSERT INTO counts SELECT i, 0 FROM generate_series(0, %d) i", deathRows-1))
	k.table = keys.IndexPrefix(simtest.TableIDOf(t, setup, "counts"), uint32(1))
	setup.Close(t.Context())
	time.Sleep(5 * time.Second)
	var stop atomic.Bool
	var clients sync.WaitGroup
	for i := range deathClients {
		cl := k.client(uint64(i))
		clients.Go(func() {
			defer cl.close()
			for !stop.Load() {
				k.add(cl, i)
			}
		})
	}
	time.Sleep(2 * time.Second)
	for _, leaderDies := range []bool{true, false} {
		for _, p := range []kv.Protocol{kv.Leader, kv.FastPaxos} {
			k.change(p, leaderDies)
		}
	}
	before := [deathClients]int64{}
	for i := range before {
		before[i] = k.acks[i].Load()
	}
	time.Sleep(12 * time.Second) // who has had no answer from a node without power has waited for it
	for i := range before {
		if k.acks[i].Load() == before[i] {
			k.problem("client %d does not go on", i)
		}
	}
	stop.Store(true)
	clients.Wait()
	time.Sleep(10 * time.Second)
	k.everywhere(k.judge)
	k.took = time.Since(k.start)
}

// client is one that goes to another node when its own is gone.
func (k *deathsInChange) client(id uint64) *client {
	return &client{k: k.campaign, id: int(id), dice: rand.New(rand.NewPCG(k.seed, id)), limit: 10 * time.Second}
}

func (k *deathsInChange) add(cl *client, i int) {
	id := cl.dice.IntN(deathRows)
	how, _ := cl.do("add", func(ctx context.Context, conn *pgx.Conn) error {
		tag, err := conn.Exec(ctx, "UPDATE counts SET n = n + 1 WHERE id = $1", id)
		if err == nil && tag.RowsAffected() != 1 {
			return fmt.Errorf("row %d: %s", id, tag)
		}
		return err
	})
	switch how {
	case history.OK:
		k.sure[id].Add(1)
		k.acks[i].Add(1)
	case history.Unknown:
		k.maybe[id].Add(1)
	}
	time.Sleep(time.Duration(cl.dice.IntN(200)) * time.Millisecond)
}

// change has a node give the table a protocol, and a node lose its power meanwhile.
func (k *deathsInChange) change(p kv.Protocol, leaderDies bool) {
	at := k.dice.IntN(k.c.Len())
	dies, what := at, "the statement's node"
	if leaderDies {
		if dies = k.leaseholder(); dies < 0 {
			k.problem("nobody has the lease")
			return
		}
		if what = "the leaseholder"; dies == at {
			at = (at + 1) % k.c.Len()
		}
	}
	conn, err := k.c.Connect(context.Background(), at, "defaultdb")
	if err != nil {
		k.problem("the statement's node: %v", err)
		return
	}
	begun, after := time.Now(), time.Duration(k.dice.Int64N(int64(k.lasts)))
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
		defer cancel()
		_, err := conn.Exec(ctx, "ALTER TABLE counts SET (commit_protocol = '"+p.String()+"')")
		k.say("to %s: the statement ended after %v: %v", p, time.Since(begun), err)
		ended <- err
	}()
	time.Sleep(after)
	k.say("to %s: %s (node %d) loses its power after %v", p, what, dies+1, after)
	k.c.Crash(dies, k.dice.IntN(101), k.dice.IntN(2) == 0)
	time.Sleep(time.Duration(k.dice.Int64N(int64(12 * time.Second))))
	k.c.Boot(dies)
	err = <-ended
	_ = conn.Close(context.Background())
	var pg *pgconn.PgError
	if leaderDies && err != nil {
		errors.As(err, &pg)
		k.problem("to %s: %s died after %v, and the statement failed: %v (%+v)", p, what, after, err, pg)
	}
	for i := range 90 {
		if k.protocol() == p {
			k.count(&k.done, fmt.Sprintf("to %s, and %s died", p, what))
			k.say("to %s: it is, after %v", p, time.Since(begun))
			time.Sleep(3 * time.Second)
			return
		}
		if i == 20 && err != nil && k.declared() != p {
			k.count(&k.done, "the statement had changed nothing")
			return
		}
		time.Sleep(time.Second)
	}
	k.problem("to %s: %s died after %v, and the range has the protocol %s still", p, what, after, k.protocol())
}

// declared is the protocol that the table has by its descriptor.
func (k *deathsInChange) declared() kv.Protocol {
	var name, text string
	for i := range k.c.Len() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if conn, err := k.c.Connect(ctx, i, "defaultdb"); err == nil {
			err = conn.QueryRow(ctx, "SHOW CREATE TABLE counts").Scan(&name, &text)
			_ = conn.Close(ctx)
			if err == nil && strings.Contains(text, "commit_protocol = fast_paxos") {
				return kv.FastPaxos
			} else if err == nil {
				return kv.Leader
			}
		}
	}
	k.problem("nobody says which protocol the table has")
	return 0
}

// leaseholder is the machine that has the lease of the table's range, -1 if none has.
func (k *deathsInChange) leaseholder() (at int) {
	at = -1
	for i := range k.c.Len() {
		n := k.c.Node(i)
		if n == nil || n.Store() == nil {
			continue
		}
		n.Store().Replicas(func(r *replica.Replica) bool {
			if d := r.Desc(); d != nil && d.Contains(k.table) {
				if _, held := r.CheckLease(clock.Timestamp{}); held {
					at = i
				}
			}
			return true
		})
	}
	return at
}

// protocol is that of the table's range.
func (k *deathsInChange) protocol() kv.Protocol {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for i := range k.c.Len() {
		if n := k.c.Node(i); n != nil && n.Router() != nil {
			if info, err := n.Router().Range(ctx, k.table, true); err == nil {
				return info.Desc.Protocol
			}
		}
	}
	return 0xff
}

// judge compares the rows, as one node sees them, with what clients were told.
func (k *deathsInChange) judge(ctx context.Context, i int) error {
	conn, err := k.c.Connect(ctx, i, "defaultdb")
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, "SELECT n FROM counts ORDER BY id")
	if err != nil {
		return err
	}
	ns, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return err
	}
	var wrong []error
	for id, n := range ns {
		if sure, maybe := k.sure[id].Load(), k.maybe[id].Load(); n < sure || n > sure+maybe {
			wrong = append(wrong, fmt.Errorf("row %d has %d additions; %d were acknowledged, and %d may have been made", id, n, sure, maybe))
		}
	}
	if len(ns) != deathRows {
		wrong = append(wrong, fmt.Errorf("there are %d rows", len(ns)))
	}
	return errors.Join(wrong...)
}
