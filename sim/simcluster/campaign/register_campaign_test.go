package campaign_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/commit"
	"meridian/commit/register"
	"meridian/history"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
	"meridian/server"
	"meridian/sim"
	"meridian/sim/fault"
	"meridian/sim/simcluster"
	"meridian/sim/simcluster/simtest"
	"meridian/txn"
)

// TestRegisterCampaign has ranges of package register's protocol, which has no leaseholder and no log, in whole clusters under the
// faults of the campaign, while the ranges change. Single keys are linearizable (I4), and writes acknowledged in one generation of
// a range exist in the next (I1). Requests to single replicas are lost in most seeds, generations last for seconds in some, and in
// others nodes are paused as they commit.
//
//	MERIDIAN_SEEDS, MERIDIAN_FIRST, MERIDIAN_SEED   as for TestCampaign
func TestRegisterCampaign(t *testing.T) {
	t.Parallel()
	seeds := simtest.Seeds(t, 1, 1)
	var virtual time.Duration
	var failed []int
	begun := time.Now()
	for _, seed := range seeds {
		ok := t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			k := &registerCampaign{seed: uint64(seed)}
			real := time.Now()
			synctest.Test(t, func(t *testing.T) { k.run(t) })
			if err := k.hist.CheckDistinct(); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			virtual += k.took
			t.Logf("%s in %s: %s", k.took.Round(time.Millisecond), time.Since(real).Round(time.Millisecond), k.summary())
		})
		if !ok {
			failed = append(failed, seed)
		}
	}
	t.Logf("%d seeds, %d failed %v, %.1f cluster-minutes in %s", len(seeds), len(failed), failed, virtual.Minutes(), time.Since(begun).Round(time.Second))
}

type registerCampaign struct {
	seed     uint64
	c        *simcluster.Cluster
	hist     history.Registers
	value    atomic.Int64
	plan     fault.Plan
	took     time.Duration
	binaries *binaries

	mu    sync.Mutex // guards the fields below
	done  map[string]int
	mixed []*mixed
}

// mixed is a transaction that writes some registers and a row of a range of the leader protocol, all with one value.
type mixed struct {
	value int64
	ops   []*history.Op
	how   history.Outcome
	seen  int64 // when a client had read its row; zero: none has
}

func rowKey(value int64) keys.Key { return simtest.UserKey(2000 + int(value)) }

const registersOfCampaign = 60

// anyRegister draws a register. Two are so busy that reads meet writes in progress. Ten are busy. The others are left alone for seconds, so
// that a version which too few replicas have stays so until some of these have failed: the next operation would mend it, since it stores
// what it finds.
func anyRegister(dice *rand.Rand) int {
	switch dice.IntN(12) {
	case 0, 1:
		return dice.IntN(registersOfCampaign)
	case 2, 3, 4, 5:
		return 5 * dice.IntN(registersOfCampaign/5)
	}
	return 25 * dice.IntN(2)
}

func registerKey(i int) keys.Key { return simtest.UserKey(1000 + i) }

func (k *registerCampaign) count(what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.done[what]++
}

func (k *registerCampaign) summary() string {
	ok, failed, unknown := k.hist.Count()
	s := fmt.Sprintf("%d faults; %s; %d operations ok, %d failed, %d unknown", len(k.plan), k.binaries.summary(), ok, failed, unknown)
	for _, what := range slices.Sorted(maps.Keys(k.done)) {
		s += fmt.Sprintf(", %s %d", what, k.done[what])
	}
	return s
}

func (k *registerCampaign) run(t *testing.T) {
	begun := time.Now()
	k.done = map[string]int{}
	nodes := 3 + 2*int(k.seed%2)
	draw := rand.New(rand.NewPCG(k.seed, 0x10ad))
	lost := []float64{0, 0.1, 0.3, 0.3}[draw.IntN(4)]
	// Generations that last: a node may crash and come back in one.
	pause := []time.Duration{400 * time.Millisecond, 2 * time.Second, 8 * time.Second}[draw.IntN(3)]
	sleepy := draw.IntN(4) == 0 // nodes are paused as they commit, instead of the plan's faults of nodes
	if sleepy {
		lost, pause = 0.3, 400*time.Millisecond // a generation ends while a node sleeps
	}
	o := simcluster.Options{Seed: k.seed, Log: simtest.LogTo(), NodesPerRegion: nodes, Registers: true, LostRequests: lost, MaxOffset: 500 * time.Millisecond}
	k.binaries = newBinaries(k.seed, &o)
	k.c = simcluster.Start(t, o)
	k.binaries.attach(k.c, func(format string, args ...any) {
		t.Helper()
		t.Errorf("seed %d: "+format, append([]any{k.seed}, args...)...)
	}, tell)
	simtest.Replicated(t, k.c, 3)
	ctx := context.Background()
	for _, at := range []keys.Key{registerKey(0), registerKey(registersOfCampaign)} {
		if _, err := k.c.Node(0).Router().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSplitRequest{Key: at}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := become(ctx, k.c.Node(0), registerKey(0), register.Protocol); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	work := func(id uint64, f func(dice *rand.Rand)) {
		wg.Go(func() {
			for dice := rand.New(rand.NewPCG(k.seed, id)); ; {
				select {
				case <-stop:
					return
				default:
					f(dice)
				}
			}
		})
	}
	for client := range 6 {
		work(uint64(client), func(dice *rand.Rand) {
			k.operate(client, dice.IntN(k.c.Len()), anyRegister(dice), dice.IntN(2) == 0, 2*time.Second)
			time.Sleep(time.Duration(dice.IntN(30)) * time.Millisecond)
		})
	}
	for client := range 3 {
		work(uint64(20+client), func(dice *rand.Rand) {
			if dice.IntN(3) == 0 {
				k.look(dice)
			} else {
				limit := 3 * time.Second
				if dice.IntN(4) == 0 {
					limit = sleeps
				}
				k.transact(20+client, dice.IntN(k.c.Len()), dice, limit)
			}
			time.Sleep(time.Duration(dice.IntN(60)) * time.Millisecond)
		})
	}
	for id := range uint64(2) {
		work(50+id, func(dice *rand.Rand) {
			time.Sleep(time.Duration(dice.Int64N(int64(pause))))
			k.change(dice)
		})
	}
	upgraded := k.binaries.begin()
	target := k.c.Target(k.seed)
	kinds := []fault.Kind{fault.Cut, fault.CutOneWay, fault.Flap, fault.Slow, fault.Reset, fault.Skew, fault.SlowDisk}
	if !sleepy {
		kinds = append(kinds, fault.Crash, fault.CrashSync, fault.PowerOff, fault.Isolate, fault.Pause, fault.Brownout, fault.Brownout, fault.Brownout)
	}
	k.plan = fault.Generate(k.seed, fault.Options{Nodes: k.c.Names(), Duration: faultsLast, Every: 1500 * time.Millisecond, Lasting: 3 * time.Second,
		Kinds: kinds, MaxSkew: 190 * time.Millisecond})
	from := time.Now()
	if sleepy {
		work(60, func(dice *rand.Rand) {
			time.Sleep(time.Duration(dice.IntN(1000)) * time.Millisecond)
			if time.Since(from) < faultsLast-sleeps/2 {
				k.sleep(target, dice)
			}
		})
	}
	if err := fault.Run(ctx, sim.NewClock(), k.plan, target, func(a fault.Action) {
		tell("fault: %s", a)
	}); err != nil {
		t.Errorf("the plan stopped: %v", err)
	}
	time.Sleep(time.Until(from.Add(faultsLast)))
	k.binaries.rest(true)
	if err := target.HealEverything(); err != nil {
		t.Error(err)
	}
	time.Sleep(3 * time.Second)
	close(stop)
	wg.Wait()
	healed := k.moment()
	k.binaries.ready()
	for i := range k.c.Len() {
		for r := range registersOfCampaign {
			if err := k.operate(1000+i, i, r, false, 20*time.Second); err != nil {
				t.Errorf("seed %d: register %d can't be read at n%d after all was healed: %v\n%s", k.seed, r, i+1, err, k.replicas(registerKey(r)))
			}
		}
	}
	k.binaries.rest(false)
	k.binaries.complete()
	upgraded()
	k.judge(t, healed)
	k.stats(t)
	k.took = time.Since(begun)
	k.c.Stop()
	time.Sleep(20 * time.Second)
}

// change splits, merges or moves a range of registers, or gives it another protocol for a while.
func (k *registerCampaign) change(dice *rand.Rand) {
	k.c.On(dice.IntN(k.c.Len()), func(ctx context.Context, n *server.Node) {
		ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
		defer cancel()
		at := registerKey(dice.IntN(registersOfCampaign))
		var q kv.Request
		what := "split"
		switch dice.IntN(5) {
		case 4:
			// To the leader's protocol, and back.
			for _, p := range []kv.Protocol{kv.Leader, register.Protocol} {
				if err := become(ctx, n, at, p); err != nil {
					tell("protocol %s: %v", p, err)
					k.count("protocol refused")
					return
				}
				k.count("protocol " + p.String())
				time.Sleep(time.Duration(dice.IntN(300)) * time.Millisecond)
			}
			return
		case 0:
			q = &kv.AdminSplitRequest{Key: at, Keep: clock.Timestamp{Wall: 1}}
		case 1:
			what, q = "merge", &kv.AdminMergeRequest{Key: at}
			if info, err := n.Router().Range(ctx, at, true); err != nil || !info.Desc.End.Less(registerKey(registersOfCampaign)) {
				return // the right neighbour is no range of registers
			}
		case 2:
			what, q = "lease", &kv.AdminTransferLeaseRequest{Key: at, Target: kv.NodeID(1 + dice.IntN(k.c.Len()))}
		case 3:
			what = "move"
			var targets []kv.ReplicaTarget
			for _, i := range dice.Perm(k.c.Len())[:3] {
				targets = append(targets, kv.ReplicaTarget{Node: kv.NodeID(i + 1), Store: kv.StoreID(i + 1)})
			}
			q = &kv.AdminChangeReplicasRequest{Key: at, Targets: targets}
		}
		if _, err := n.Router().Send(ctx, &kv.Batch{Requests: []kv.Request{q}}); err != nil {
			what += " refused"
			tell("%s: %v", what, err)
		}
		k.count(what)
	})
}

// tell prints events if there is only one seed.
func tell(format string, args ...any) {
	if os.Getenv("MERIDIAN_SEED") != "" {
		fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format("05.000"), fmt.Sprintf(format, args...))
	}
}

// operate reads or writes a register at a gateway, and returns why that did not succeed.
func (k *registerCampaign) operate(client, i, r int, write bool, limit time.Duration) (err error) {
	gateway := k.c.Register(i)
	if !k.c.On(i, func(ctx context.Context, n *server.Node) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		kind, v := history.Read, int64(0)
		if write {
			kind, v = history.Write, k.value.Add(1)
		}
		o := k.hist.Begin(history.Op{Client: client, Key: r, Kind: kind, Value: v})
		var got int64
		got, err = askRegister(ctx, n, gateway, registerKey(r), v)
		var unknown *kv.AmbiguousError
		switch {
		case err == nil:
			k.hist.OK(o, got, false)
		case !write || errors.As(err, &unknown) || ctx.Err() != nil:
			k.hist.Unknown(o, err.Error())
		default:
			k.hist.Failed(o, err.Error())
		}
	}) {
		time.Sleep(5 * time.Millisecond)
		return errors.New("the machine is down")
	}
	return err
}

// askRegister reads, or writes a value that is not zero, by the protocol that the key's range has.
func askRegister(ctx context.Context, n *server.Node, gateway *register.Client, at keys.Key, v int64) (got int64, err error) {
	for {
		var b []byte
		if v != 0 {
			err = gateway.Put(ctx, at, numberBytes(v))
		} else {
			b, err = gateway.Get(ctx, at)
		}
		var other *kv.ProtocolError
		if errors.As(err, &other) {
			if v != 0 {
				err = n.DB().Put(ctx, at, numberBytes(v))
			} else {
				b, err = n.DB().Get(ctx, at)
			}
		}
		if !errors.As(err, &other) || ctx.Err() != nil {
			return numberOf(b), err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// moment is a place in the history.
func (k *registerCampaign) moment() int64 {
	o := k.hist.Begin(history.Op{Key: -1, Kind: history.Read})
	k.hist.OK(o, 0, false)
	return o.Return
}

// sleeps is longer than the time after which a transaction without heartbeats counts as dead, and than its recovery by
// others.
const sleeps = 9 * time.Second

// sleep pauses a node while it commits some transactions, until others have taken it for dead: they prevent those of its writes that have
// not arrived, and decide. Then it goes on, and sends these writes.
func (k *registerCampaign) sleep(target *simcluster.Target, dice *rand.Rand) {
	i := dice.IntN(k.c.Len())
	var wg sync.WaitGroup
	for client := range 8 {
		mine := rand.New(rand.NewPCG(dice.Uint64(), 0))
		wg.Go(func() {
			time.Sleep(time.Duration(mine.IntN(4000)) * time.Microsecond)
			k.transact(60+client, i, mine, sleeps)
		})
	}
	time.Sleep(4 * time.Millisecond)
	target.Pause(k.c.Names()[i])
	k.count("sleeps")
	time.Sleep(commit.Expiry + time.Duration(500+dice.IntN(1500))*time.Millisecond)
	target.Resume(k.c.Names()[i])
	wg.Wait()
}

// transact commits a mixed transaction, or leaves it as its gateway dies.
func (k *registerCampaign) transact(client, gateway int, dice *rand.Rand, limit time.Duration) {
	k.c.On(gateway, func(ctx context.Context, n *server.Node) {
		if n.Store() == nil {
			return
		}
		m := &mixed{value: k.value.Add(1)}
		rs := []int{anyRegister(dice)}
		if r := anyRegister(dice); dice.IntN(2) == 0 && r != rs[0] {
			rs = append(rs, r)
		}
		first := dice.IntN(2) == 0 // whose range has the record
		for _, r := range rs {
			m.ops = append(m.ops, k.hist.Begin(history.Op{Client: client, Key: r, Kind: history.Write, Value: m.value}))
		}
		k.mu.Lock()
		k.mixed = append(k.mixed, m)
		k.mu.Unlock()
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		err := n.DB().Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
			var b txn.WriteBatch
			row := func() { b.Put(rowKey(m.value), numberBytes(m.value)) }
			if first {
				row()
			}
			for _, r := range rs {
				b.Put(registerKey(r), numberBytes(m.value))
			}
			if !first {
				row()
			}
			return tx.CommitBatch(ctx, &b)
		})
		var unknown *kv.AmbiguousError
		for _, o := range m.ops {
			switch {
			case err == nil:
				k.hist.OK(o, 0, false)
				m.how = history.OK
			case errors.As(err, &unknown) || ctx.Err() != nil:
				k.hist.Unknown(o, err.Error())
			default:
				k.hist.Failed(o, err.Error())
				m.how = history.Failed
			}
		}
		k.count([]string{"mixed unknown", "mixed", "mixed failed"}[m.how])
		if err != nil {
			tell("mixed %d: %v", m.value, err)
		}
	})
}

// look reads the row of a mixed transaction. From then on every read sees its writes to registers (I2).
func (k *registerCampaign) look(dice *rand.Rand) {
	k.mu.Lock()
	var m *mixed
	if len(k.mixed) > 0 {
		m = k.mixed[max(0, len(k.mixed)-1-dice.IntN(8))]
	}
	k.mu.Unlock()
	k.c.On(dice.IntN(k.c.Len()), func(ctx context.Context, n *server.Node) {
		if n.Store() == nil || m == nil {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		if v, err := n.DB().Get(ctx, rowKey(m.value)); err == nil && v != nil {
			at := k.moment()
			k.mu.Lock()
			if m.seen == 0 {
				m.seen = at
			}
			k.mu.Unlock()
			k.count("rows seen")
		}
	})
}

// judge compares the outcomes of mixed transactions, as clients know them, with the rows, and completes the history: a transaction
// whose row is there has written its registers, before its row was seen, and before all was healed at the latest.
func (k *registerCampaign) judge(t *testing.T, healed int64) {
	read := map[int64]bool{}
	for _, o := range k.hist.Ops() {
		if o.Kind == history.Read && o.Outcome == history.OK {
			read[o.Result] = true
		}
	}
	for _, m := range k.mixed {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		v, err := k.c.Node(0).DB().Get(ctx, rowKey(m.value))
		cancel()
		switch {
		case err != nil:
			t.Errorf("seed %d: the row of transaction %d: %v", k.seed, m.value, err)
		case v == nil && m.how == history.OK:
			t.Errorf("seed %d: transaction %d was committed, and its row is not there", k.seed, m.value)
		case v != nil && m.how == history.Failed:
			t.Errorf("seed %d: transaction %d has failed, and its row is there", k.seed, m.value)
		case v == nil && read[m.value]:
			t.Errorf("seed %d: a register had the value of transaction %d, and its row is not there", k.seed, m.value)
		case v != nil:
			for _, o := range m.ops {
				if o.Outcome != history.OK {
					o.Outcome, o.Return = history.OK, healed
				}
				if m.seen != 0 && m.seen < o.Return {
					o.Return = m.seen
				}
			}
		}
	}
}

func numberBytes(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

func numberOf(b []byte) int64 {
	if b == nil {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

// replicas describes the state of each node's replica of a key's range.
func (k *registerCampaign) replicas(at keys.Key) (s string) {
	for i := range k.c.Len() {
		k.c.Node(i).Store().Replicas(func(r *replica.Replica) bool {
			if d := r.Desc(); d != nil && d.Contains(at) {
				l, good := r.Lease()
				s += fmt.Sprintf("n%d: %v %v protocol %s, generation %+v, applied %d, lease %+v (good: %v)\n", i+1, d, d.Replicas, d.Protocol, r.Generation(), r.AppliedIndex(), l, good)
			}
			return true
		})
	}
	return s
}

// stats compares each replica's statistics with a count, and replicas with each other.
func (k *registerCampaign) stats(t *testing.T) {
	for i := range k.c.Len() {
		k.c.Node(i).Store().Replicas(func(r *replica.Replica) bool {
			if kept, counted, err := r.CountStats(); err == nil && kept != counted {
				t.Errorf("seed %d: n%d, %v: statistics say %+v, a count %+v", k.seed, i+1, r.Desc(), kept, counted)
			}
			return true
		})
	}
}

// become gives the range of a register another protocol. Ranges of the leader protocol may have been merged with the one of the mixed
// transactions' rows, which is not to change.
func become(ctx context.Context, n *server.Node, at keys.Key, p kv.Protocol) error {
	registers := keys.Span{Start: registerKey(0), End: registerKey(registersOfCampaign)}
	_, err := n.Router().Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.AdminSetProtocolRequest{Key: at, Protocol: p, Within: registers}}})
	return err
}
