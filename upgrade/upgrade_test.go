package upgrade_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/cluster"
	"meridian/commit/leader/gateway"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/sim"
	"meridian/sql/job"
	"meridian/sql/sqlstate"
	"meridian/txn"
	"meridian/txn/fakekv"
	"meridian/upgrade"
	"meridian/version"
)

// store is a node's store, which outlives its process.
type store struct {
	mu               sync.Mutex
	acting, promised version.Version
}

func (s *store) Version() (acting, promised version.Version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acting, s.promised
}

func (s *store) RaiseVersion(acting, promised version.Version) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acting, s.promised = s.acting.Max(acting), s.promised.Max(promised).Max(acting)
	return nil
}

// process is one run of a node's binary.
type process struct {
	h       *host.Host
	handle  *version.Handle
	node    *upgrade.Node
	final   *upgrade.Finalizer
	jobs    *job.Registry
	refused chan error
}

// fixture is some nodes over one store of keys.
type fixture struct {
	t     *testing.T
	net   *sim.Network
	fake  *fakekv.KV
	db    *txn.DB // an observer's
	obs   *host.Host
	first version.Version

	mu     sync.Mutex
	stores map[kv.NodeID]*store
	runs   map[kv.NodeID]*process
	gone   map[kv.NodeID]bool // decommissioned
	ran    []string           // migrations, as they began
	before map[string]error   // what a migration fails with, once
}

func v(text string) version.Version {
	v, err := version.Parse(text)
	if err != nil {
		panic(err)
	}
	return v
}

func binary(own, oldest string) version.Binary { return version.Binary{Own: v(own), Oldest: v(oldest)} }

func newFixture(t *testing.T, active string) *fixture {
	f := &fixture{t: t, net: sim.NewNetwork(sim.NetworkOptions{Seed: 1}), first: v(active), stores: map[kv.NodeID]*store{}, runs: map[kv.NodeID]*process{},
		gone: map[kv.NodeID]bool{}, before: map[string]error{}}
	f.obs = f.host("observer")
	ck := clock.New(f.obs.Clock, clock.DefaultMaxOffset)
	f.fake = fakekv.New(f.obs, ck)
	f.db = txn.NewDB(txn.Options{Records: gateway.Protocol{}, Sender: f.fake, Clock: ck, Host: f.obs, NodeID: func() kv.NodeID { return 100 }})
	if err := f.db.Put(t.Context(), keys.ClusterVersionKey(), upgrade.Cluster{Active: f.first}.Append(nil)); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) host(name string) *host.Host {
	return sim.NewHost(context.Background(), sim.MachineOptions{Name: name, Network: f.net, Seed: 1})
}

// boot starts a node with a binary; the error is that of a store or cluster that it does not fit to.
func (f *fixture) boot(id kv.NodeID, b version.Binary) error {
	f.mu.Lock()
	s := f.stores[id]
	if s == nil {
		s = &store{acting: f.first, promised: f.first}
		f.stores[id] = s
	}
	f.mu.Unlock()
	acting, promised := s.Version()
	if err := b.Fits("this node", acting, promised); err != nil {
		return err
	}
	p := &process{h: f.host(fmt.Sprint("n", id)), handle: version.NewHandle(b, acting), refused: make(chan error, 1)}
	ck := clock.New(p.h.Clock, clock.DefaultMaxOffset)
	me := func() kv.NodeID { return id }
	db := txn.NewDB(txn.Options{Records: gateway.Protocol{}, Sender: f.fake, Clock: ck, Host: p.h, NodeID: me})
	p.node = upgrade.NewNode(upgrade.Options{DB: db, Host: p.h, NodeID: me, Handle: p.handle, Store: s, OnRefused: func(err error) { p.refused <- err }})
	p.jobs = job.New(job.Options{DB: db, Clock: ck, Host: p.h, NodeID: me, ClaimDuration: 3 * time.Second, AdoptInterval: time.Second})
	migration := func(at, name string) upgrade.Migration {
		return upgrade.Migration{Version: v(at), Name: name, About: name, Resume: func(ctx context.Context, r *job.Run) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, n := range f.counting() { // upgrade.UP4
				if a, _ := f.stores[n].Version(); a.Less(v(at)) {
					f.t.Errorf("migration %s of %s began, and node %d acts by %s", name, at, n, a)
				}
			}
			f.ran = append(f.ran, at+"/"+name)
			err := f.before[name]
			delete(f.before, name)
			return err
		}}
	}
	p.final = upgrade.NewFinalizer(upgrade.FinalizerOptions{DB: db, Host: p.h, Jobs: p.jobs, Handle: p.handle,
		Live: f.live,
		Kick: func(n kv.NodeID) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if p := f.runs[n]; p != nil {
				p.node.Kick()
			}
		},
		Migrations: []upgrade.Migration{migration("0.1", "never"), migration("0.1-2", "first"), migration("0.2", "second"), migration("0.2", "third"), migration("0.3", "later")}})
	if err := p.node.Register(p.h.Group.Context()); err != nil {
		p.h.Group.Stop()
		return err
	}
	if err := db.Put(p.h.Group.Context(), keys.LivenessKey(id), cluster.AppendLiveness(nil, &cluster.Liveness{Node: id, Incarnation: 1})); err != nil {
		return err
	}
	p.node.Start()
	p.jobs.Start()
	time.Sleep(time.Millisecond) // fakekv knows no uncertainty
	f.mu.Lock()
	f.runs[id] = p
	f.mu.Unlock()
	return nil
}

func (f *fixture) mustBoot(id kv.NodeID, b version.Binary) {
	f.t.Helper()
	if err := f.boot(id, b); err != nil {
		f.t.Fatal(err)
	}
}

// kill ends a node's process.
func (f *fixture) kill(id kv.NodeID) {
	f.mu.Lock()
	p := f.runs[id]
	delete(f.runs, id)
	f.mu.Unlock()
	if p != nil {
		p.h.Group.Stop()
	}
}

func (f *fixture) stop() {
	f.mu.Lock()
	runs := f.runs
	f.runs = map[kv.NodeID]*process{}
	f.mu.Unlock()
	for _, p := range runs {
		p.h.Group.Stop()
	}
	f.obs.Group.Stop()
}

func (f *fixture) live(id kv.NodeID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.runs[id] != nil
}

// decommission takes a node out for good.
func (f *fixture) decommission(id kv.NodeID) {
	f.t.Helper()
	if err := f.db.Put(f.t.Context(), keys.LivenessKey(id), cluster.AppendLiveness(nil, &cluster.Liveness{Node: id, Incarnation: 1, Decommissioned: true})); err != nil {
		f.t.Fatal(err)
	}
	f.mu.Lock()
	f.gone[id] = true
	f.mu.Unlock()
	f.kill(id)
}

// counting are the nodes that are not decommissioned; the caller holds f.mu.
func (f *fixture) counting() (out []kv.NodeID) {
	for id := range f.stores {
		if !f.gone[id] {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// check holds the nodes against version.CV2: what one acts by, all stores have promised.
func (f *fixture) check() {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, p := range f.runs {
		acting := p.handle.Acting()
		if durable, _ := f.stores[id].Version(); durable.Less(acting) {
			f.t.Errorf("node %d acts by %s, and its store has %s", id, acting, durable)
		}
		for _, other := range f.counting() {
			if _, promised := f.stores[other].Version(); promised.Less(acting) {
				f.t.Errorf("node %d acts by %s, and node %d has promised %s only", id, acting, other, promised)
			}
		}
	}
}

func (f *fixture) want(id kv.NodeID, acting string) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if got := f.runs[id].handle.Acting(); got != v(acting) {
		f.t.Errorf("node %d acts by %s, want %s", id, got, acting)
	}
}

func (f *fixture) begin(id kv.NodeID) (job.ID, error) {
	j, _, err := f.runs[id].final.Begin(f.t.Context())
	return j, err
}

func bubble(t *testing.T, active string, do func(t *testing.T, f *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, active)
		defer f.stop()
		do(t, f)
		f.check()
	})
}

var old, next = binary("0.1", "0.1"), binary("0.2", "0.1")

// TestUpgrade: nodes of the next binary act by the cluster's version until the upgrade is finalised, which it can't be while a node has the earlier binary
// or is away. Then all act by it, step by step, and the migrations of the new versions run once each, in order.
func TestUpgrade(t *testing.T) {
	bubble(t, "0.1", func(t *testing.T, f *fixture) {
		for id := range kv.NodeID(3) {
			f.mustBoot(id+1, old)
		}
		if id, err := f.begin(1); id != 0 || err != nil {
			t.Fatalf("nothing to finalise: job %d, %v", id, err)
		}
		notReady := func(want string) {
			t.Helper()
			id, err := f.begin(1)
			if not := (*upgrade.NotReadyError)(nil); id != 0 || !errors.As(err, &not) || !strings.Contains(err.Error(), want) {
				t.Fatalf("job %d, %v; want %q", id, err, want)
			}
		}
		for id := range kv.NodeID(2) {
			f.kill(id + 1)
			f.mustBoot(id+1, next)
		}
		notReady("node 3 does not run the binary of version 0.2: restart it with that")
		f.kill(2)
		f.mustBoot(2, old) // and back
		f.kill(3)
		notReady("nodes 2, 3 do not run the binary of version 0.2: restart them with that; node 3 is not live")
		for id := kv.NodeID(2); id <= 3; id++ {
			f.kill(id)
			f.mustBoot(id, next)
			f.want(id, "0.1")
		}
		id, err := f.begin(2)
		if err != nil || id == 0 {
			t.Fatal(id, err)
		}
		if again, err := f.begin(3); again != id || err != nil {
			t.Errorf("begun twice: jobs %d and %d, %v", id, again, err)
		}
		if err := f.runs[1].final.Run(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		for id := range kv.NodeID(3) {
			f.want(id+1, "0.2")
		}
		if got := strings.Join(f.ran, " "); got != "0.1-2/first 0.2/second 0.2/third" && got != "0.2/second 0.2/third" {
			t.Errorf("migrations: %s", got)
		}
		if view, err := f.runs[1].final.Look(t.Context()); err != nil || view.Active != v("0.2") || !view.Raising.IsZero() || len(view.Members) != 3 {
			t.Errorf("%+v, %v", view, err)
		}
		f.kill(3)
		if err := f.boot(3, old); !errors.As(err, new(*version.TooOldError)) {
			t.Errorf("the earlier binary on an upgraded store: %v", err)
		}
		if err := f.boot(4, old); !errors.As(err, new(*version.TooOldError)) {
			t.Errorf("the earlier binary on a store that has heard nothing: %v", err)
		}
		if err := f.boot(5, binary("0.4", "0.3")); !errors.As(err, new(*version.TooNewError)) {
			t.Errorf("a binary that skips a version: %v", err)
		}
		f.mu.Lock()
		delete(f.stores, 4) // they have no part in the cluster
		delete(f.stores, 5)
		f.mu.Unlock()
	})
}

// TestAbsentNodeCounts: while a node that was there at the beginning is away, nobody acts by the new version, however long that takes; what it comes
// back with decides. One that is decommissioned is waited for no longer (upgrade.UP1).
func TestAbsentNodeCounts(t *testing.T) {
	bubble(t, "0.1", func(t *testing.T, f *fixture) {
		for id := range kv.NodeID(4) {
			f.mustBoot(id+1, next)
		}
		id, err := f.begin(1)
		if err != nil {
			t.Fatal(err)
		}
		f.kill(3)
		f.kill(4)
		done := make(chan error, 1)
		go func() { done <- f.runs[1].final.Run(t.Context(), id) }()
		time.Sleep(5 * time.Minute)
		f.want(1, "0.1")
		f.want(2, "0.1")
		f.check()
		if err := f.boot(3, old); !errors.As(err, new(*version.TooOldError)) || !strings.Contains(err.Error(), "upgraded to 0.2") {
			t.Errorf("the earlier binary while 0.2 is being promised: %v", err)
		}
		f.mustBoot(3, next)
		time.Sleep(time.Minute)
		f.want(1, "0.1")
		f.decommission(4)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		f.want(3, "0.2")
	})
}

// TestUpgradeGoesOnElsewhere: a node that dies while it finalises is followed by another one, from each step; a migration that fails ends the
// job, and the next attempt goes on with that migration.
func TestUpgradeGoesOnElsewhere(t *testing.T) {
	for _, after := range []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, 500 * time.Millisecond, time.Second} {
		bubble(t, "0.1", func(t *testing.T, f *fixture) {
			for id := range kv.NodeID(3) {
				f.mustBoot(id+1, next)
			}
			f.before["second"] = fmt.Errorf("tried again")
			id, err := f.begin(1)
			if err != nil {
				t.Fatal(err)
			}
			p := f.runs[1]
			p.h.Group.Go(func(ctx context.Context) { _ = p.final.Run(ctx, id) })
			time.Sleep(after)
			f.kill(1)
			f.mustBoot(1, next)
			time.Sleep(2 * time.Minute)
			for id := range kv.NodeID(3) {
				f.want(id+1, "0.2")
			}
			var kinds []string
			for _, m := range f.ran {
				if len(kinds) == 0 || kinds[len(kinds)-1] != m {
					kinds = append(kinds, m)
				}
			}
			if got := strings.Join(kinds, " "); !strings.HasSuffix(got, "0.2/second 0.2/third") {
				t.Errorf("killed after %s, migrations: %v", after, f.ran)
			}
		})
	}
}

// TestMigrationsRunOnce: a migration that fails for good ends the job; when the upgrade is finalised once more, those that are done do not run again (upgrade.UP4).
func TestMigrationsRunOnce(t *testing.T) {
	bubble(t, "0.1", func(t *testing.T, f *fixture) {
		f.mustBoot(1, next)
		f.before["third"] = sqlstate.New(sqlstate.FeatureNotSupported, "not this time")
		for _, want := range []string{"not this time", ""} {
			id, err := f.begin(1)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.runs[1].final.Run(t.Context(), id); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%v; want %q", err, want)
			}
		}
		if got := strings.Join(f.ran, " "); got != "0.1-2/first 0.2/second 0.2/third 0.2/third" && got != "0.2/second 0.2/third 0.2/third" {
			t.Errorf("migrations: %s", got)
		}
	})
}

// TestAutomatic: with the setting the upgrade is finalised by itself, and not before all nodes have the binary.
func TestAutomatic(t *testing.T) {
	bubble(t, "0.1", func(t *testing.T, f *fixture) {
		boot := func(id kv.NodeID, b version.Binary) {
			f.mustBoot(id, b)
			f.runs[id].final.Automatic(func() kv.NodeID { return id }, func() bool { return true })
		}
		boot(1, next)
		boot(2, old)
		time.Sleep(time.Minute)
		f.want(1, "0.1")
		f.kill(2)
		boot(2, next)
		time.Sleep(6 * upgrade.AutomaticEvery) // a step each for the versions between
		f.want(1, "0.2")
		f.want(2, "0.2")
	})
}

// TestRandomUpgrades: nodes come, go, die and return with any binary, upgrades are begun and interrupted: nobody ever acts by a version that a node which
// may come back has not promised (version.CV2), and what a node acts by never goes back (version.CV1).
func TestRandomUpgrades(t *testing.T) {
	finished := 0
	for seed := range uint64(60) {
		bubble(t, "0.1", func(t *testing.T, f *fixture) {
			dice := rand.New(rand.NewPCG(seed, 9))
			binaries := []version.Binary{old, next, next, binary("0.3", "0.1"), binary("0.3", "0.2")}
			highest := map[kv.NodeID]version.Version{}
			started := kv.NodeID(0)
			for range 120 {
				id := kv.NodeID(1 + dice.IntN(5))
				b := binaries[dice.IntN(1+dice.IntN(len(binaries)))]
				switch running := f.live(id); {
				case f.gone[id]:
				case dice.IntN(60) == 0 && started > 1 && len(f.counting()) > 2 && f.stores[id] != nil:
					f.decommission(id)
				case running && dice.IntN(3) == 0:
					f.kill(id)
				case !running:
					known := f.stores[id] != nil
					if err := f.boot(id, b); err == nil {
						started++
					} else if !version.Refused(err) {
						t.Fatal(err)
					} else if !known {
						f.mu.Lock()
						delete(f.stores, id)
						f.mu.Unlock()
					}
				default:
					p := f.runs[id]
					if j, _, err := p.final.Begin(t.Context()); err == nil && j != 0 && dice.IntN(2) == 0 {
						p.h.Group.Go(func(ctx context.Context) { _ = p.final.Run(ctx, j) })
					}
				}
				time.Sleep(time.Duration(dice.IntN(1500)) * time.Millisecond)
				f.check()
				for id, p := range f.runs {
					if a := p.handle.Acting(); a.Less(highest[id]) {
						t.Fatalf("seed %d: node %d went back from %s to %s", seed, id, highest[id], a)
					} else {
						highest[id] = a
					}
				}
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
			for _, p := range f.runs {
				if p.handle.Acting() != f.first {
					finished++
					break
				}
			}
		})
	}
	if finished < 10 {
		t.Errorf("an upgrade went through in %d of 60 seeds only", finished)
	}
}
