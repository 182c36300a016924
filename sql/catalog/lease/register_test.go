package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/clock"
	"meridian/kv"
	"meridian/sim"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/sqlstate"
	"meridian/txn"
	"meridian/version"
)

// external makes changes of a table be valid from a registered time on.
func (n *node) external(t testing.TB, id catalog.ID) {
	t.Helper()
	if err := n.m.Change(context.Background(), func(_ context.Context, _ *txn.Txn, c *lease.Txn) error {
		c.Table(id).External = true
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// bump is a change of a table; it returns the time from which it is valid.
func (n *node) bump(ctx context.Context, id catalog.ID) (version uint64, at clock.Timestamp, err error) {
	var last *txn.Txn
	err = n.m.Change(ctx, func(_ context.Context, tx *txn.Txn, c *lease.Txn) error {
		last = tx
		x := c.Table(id)
		x.Generation++
		version = x.Version
		return nil
	})
	if last != nil {
		at = last.CommitTimestamp()
	}
	return version, at, err
}

// user is a transaction that uses a table.
type user struct {
	n   *node
	tx  *txn.Txn
	cat *lease.Txn
}

func (n *node) user() *user {
	u := &user{n: n, tx: n.db.Begin(txn.TxnOptions{})}
	u.cat = n.m.Begin(u.tx)
	return u
}

// use is the version of the table that a statement of the transaction uses. plan is what an earlier statement has used, nil if there was none.
func (u *user) use(ctx context.Context, id catalog.ID, plan *[]catalog.Dependency) (uint64, error) {
	if plan != nil && len(*plan) > 0 {
		if ok, err := u.cat.Use(*plan); ok || err != nil {
			return (*plan)[0].Version, err
		}
	}
	x, err := u.cat.View(info).TableByID(ctx, id)
	if err != nil {
		return 0, err
	}
	if plan != nil {
		*plan = []catalog.Dependency{{ID: id, Version: x.Version}}
	}
	return x.Version, nil
}

func (u *user) write(ctx context.Context, k string) error {
	var b txn.WriteBatch
	b.Put([]byte("\x10"+k), []byte("1"))
	return u.tx.Write(ctx, &b)
}

func (u *user) commit(ctx context.Context) error {
	err := u.tx.Commit(ctx)
	if err != nil {
		u.tx.Rollback(ctx)
	}
	return errors.Join(err, u.cat.Finish(ctx, err == nil))
}

// TestRegisteredWaitsForNobody: a registered change goes on although a transaction uses the earlier version. That one goes on reading with it, and may commit if it has not written; if it has, it
// starts over (lease.L15).
func TestRegisteredWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, true)
		defer c.stop()
		ctx := context.Background()
		id := c.nodes[0].create(t, "t")
		c.nodes[0].external(t, id)
		reader, writer := c.nodes[1].user(), c.nodes[2].user()
		for _, u := range []*user{reader, writer} {
			if v, err := u.use(ctx, id, nil); v != 2 || err != nil {
				t.Fatal(v, err)
			}
		}
		begin := time.Now()
		if _, _, err := c.nodes[0].bump(ctx, id); err != nil {
			t.Fatal(err)
		}
		// Twice: the next change does not wait for those who use the version before the last, either.
		if _, _, err := c.nodes[1].bump(ctx, id); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 5*time.Second { // a clock may be wrong by half a second, which counts three times
			t.Errorf("two changes took %v", took)
		}
		if v, err := reader.use(ctx, id, nil); v != 2 || err != nil {
			t.Errorf("the transaction that had begun before uses version %d: %v", v, err)
		}
		if err := reader.commit(ctx); err != nil {
			t.Error(err)
		}
		if _, err := c.nodes[0].db.Get(ctx, []byte("\x10x")); err != nil { // so that it has to commit later
			t.Fatal(err)
		}
		if err := writer.write(ctx, "x"); err != nil {
			t.Fatal(err)
		}
		if err := writer.tx.Commit(ctx); !txn.Retriable(err) {
			t.Fatalf("it committed at %v with a version that has ended: %v", writer.tx.CommitTimestamp(), err)
		}
		if err := writer.tx.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		writer.cat.Reset(ctx)
		if v, err := writer.use(ctx, id, nil); v != 4 || err != nil {
			t.Errorf("the new attempt uses version %d: %v", v, err)
		}
		if err := errors.Join(writer.write(ctx, "x"), writer.commit(ctx)); err != nil {
			t.Error(err)
		}
	})
}

// TestRegisteredSlowRange: when writing takes longer than at the last change, since the lease of the catalogue's range is in another region now, no statement waits for longer than the clocks'
// interval: the publisher does not tell the nodes of a time that the decision can't precede.
func TestRegisteredSlowRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const epsilon = 20 * time.Millisecond
		c := newClusterAt(t, true, epsilon, make([]version.Binary, 3)...)
		defer c.stop()
		ctx := context.Background()
		id := c.nodes[0].create(t, "t")
		c.nodes[0].external(t, id)
		for i, n := range c.nodes {
			n.far.Store(int64(time.Duration(i) * 35 * time.Millisecond))
			n.way.d.Store(int64(10 * time.Millisecond))
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for _, n := range c.nodes {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					u := n.user()
					if _, err := u.use(ctx, id, nil); err != nil {
						t.Error(err)
					}
					u.tx.Rollback(ctx)
					if err := u.cat.Finish(ctx, false); err != nil {
						t.Error(err)
					}
					time.Sleep(2 * time.Millisecond)
				}
			})
		}
		// Each change finds the range as slow as the name says; that before it has measured another one.
		for _, d := range []time.Duration{10, 10, 40, 10, 90, 30, 150, 10, 60, 200} {
			for _, n := range c.nodes {
				n.way.d.Store(int64(d * time.Millisecond))
			}
			if _, _, err := c.nodes[0].bump(ctx, id); err != nil {
				t.Error(err)
			}
			for i, n := range c.nodes {
				if _, _, longest := n.m.Coming(); longest > 2*epsilon+5*time.Millisecond {
					t.Errorf("with %v a batch, a statement of node %d has waited for %v", d*time.Millisecond, i+1, longest)
				}
			}
			time.Sleep(time.Second)
		}
		close(stop)
		wg.Wait()
	})
}

// TestRegisteredPublisherDies: its registration keeps the others from going on only until its time is past, and the change does not happen afterwards (lease.L17). The next one replaces it.
func TestRegisteredPublisherDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, true)
		defer c.stop()
		ctx := context.Background()
		id := c.nodes[0].create(t, "t")
		c.nodes[0].external(t, id)
		if _, _, err := c.nodes[0].bump(ctx, id); err != nil { // it knows how long a round takes
			t.Fatal(err)
		}
		done := make(chan error, 1)
		short, cancel := context.WithCancel(ctx)
		go func() {
			_, _, err := c.nodes[0].bump(short, id)
			done <- err
		}()
		for c.nodes[0].way.d.Store(int64(5 * time.Millisecond)); !c.nodes[1].m.HasRegistered(id); {
			time.Sleep(time.Millisecond)
		}
		c.nodes[0].way.cut.Store(true) // before the commit
		cancel()
		if err := <-done; err == nil {
			t.Fatal("the change was made")
		}
		u := c.nodes[1].user()
		begin := time.Now()
		for {
			v, err := u.use(ctx, id, nil)
			if v == 3 && err == nil {
				break
			}
			t.Fatal(v, err)
		}
		if err := errors.Join(u.write(ctx, "y"), u.commit(ctx)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("a transaction took %v", took)
		}
		if v, _, err := c.nodes[2].bump(ctx, id); v != 4 || err != nil {
			t.Errorf("the next change made version %d: %v", v, err)
		}
	})
}

// TestRegisteredPublisherGivesUp: the next publisher waits until its time is past, so that no node has a later one in mind (lease.L18).
func TestRegisteredPublisherGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, true)
		defer c.stop()
		ctx := context.Background()
		id := c.nodes[0].create(t, "t")
		c.nodes[0].external(t, id)
		c.nodes[0].way.d.Store(int64(150 * time.Millisecond)) // so that it chooses a time far away
		short, cancel := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() {
			_, _, err := c.nodes[0].bump(short, id)
			done <- err
		}()
		for begun := time.Now(); !c.nodes[1].m.HasRegistered(id); time.Sleep(time.Millisecond) {
			if time.Since(begun) > time.Minute {
				t.Fatalf("nobody has registered it: %v", <-done)
			}
		}
		cancel()
		if err := <-done; err == nil {
			t.Fatal("the change was made")
		}
		c.nodes[0].way.d.Store(0)
		time.Sleep(600 * time.Millisecond)
		v, at, err := c.nodes[1].bump(ctx, id)
		if v != 3 || err != nil {
			t.Fatal(v, err)
		}
		for _, n := range c.nodes {
			u := n.user()
			if got, err := u.use(ctx, id, nil); got != 3 || err != nil {
				t.Errorf("node %d uses version %d at %v, and version 3 is valid from %v: %v", n.id, got, u.tx.ReadTimestamp(), at, err)
			}
			_ = u.commit(ctx)
		}
	})
}

// TestRegisteredAwaitsCommits: a commit that is on its way with an earlier version, and may still get a later timestamp, is waited for before the time is agreed upon (lease.L16).
func TestRegisteredAwaitsCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, true)
		defer c.stop()
		ctx := context.Background()
		id := c.nodes[0].create(t, "t")
		c.nodes[0].external(t, id)
		u := c.nodes[2].user()
		if v, err := u.use(ctx, id, nil); v != 2 || err != nil {
			t.Fatal(v, err)
		}
		if err := u.write(ctx, "x"); err != nil {
			t.Fatal(err)
		}
		c.nodes[2].way.d.Store(int64(4 * time.Second))
		done := make(chan error, 1)
		go func() { done <- u.tx.Commit(ctx) }()
		time.Sleep(time.Millisecond)
		changed := make(chan clock.Timestamp, 1)
		go func() {
			_, at, err := c.nodes[0].bump(ctx, id)
			if err != nil {
				t.Error(err)
			}
			changed <- at
		}()
		time.Sleep(3 * time.Second)
		if _, err := c.nodes[1].db.Get(ctx, []byte("\x10x")); err != nil { // the commit has to be later than this
			t.Fatal(err)
		}
		err := <-done
		committed := u.tx.CommitTimestamp()
		c.nodes[2].way.d.Store(0)
		_ = u.cat.Finish(ctx, err == nil)
		if at := <-changed; err == nil && at.LessEq(committed) {
			t.Errorf("committed at %v with a version that ended at %v", committed, at)
		}
	})
}

// TestRegisteredWhileTakingUp: a node that takes up a tenure when a change has been registered, without having been asked, knows of it, however late its reads arrive: what it commits after the
// registered time uses the new version (lease.L15, lease.L16).
func TestRegisteredWhileTakingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, true)
		defer c.stop()
		ctx := context.Background()
		id := c.nodes[0].create(t, "t")
		c.nodes[0].external(t, id)
		n := c.nodes[1]
		n.deaf.Store(true)
		n.way.cut.Store(true)
		time.Sleep(2 * lease.DefaultDuration) // its tenure is over
		changed := make(chan struct{})
		var begun, looked atomic.Bool
		before := func(b *kv.Batch) {
			switch {
			case !begun.Load() && b.Requests[0].Method().IsWrite():
				begun.Store(true)
				go func() {
					defer close(changed)
					if _, _, err := c.nodes[0].bump(ctx, id); err != nil {
						t.Error(err)
					}
				}()
				time.Sleep(100 * time.Millisecond) // all that have tenures were asked by now
			case begun.Load() && lease.PendingSpan().Overlaps(b.Requests[0].Span()):
				<-changed
				looked.Store(true)
			case looked.Load() && !b.Requests[0].Method().IsWrite():
				time.Sleep(time.Second) // it does not read the new version before the transaction below
			}
		}
		n.way.before.Store(&before)
		n.way.cut.Store(false)
		<-changed
		for try := 0; !n.db.Clock().Now().Less(n.m.Deadline()); try++ {
			if try > 1000 {
				t.Fatal("it has no tenure")
			}
			time.Sleep(10 * time.Millisecond)
		}
		if !looked.Load() {
			t.Fatal("the registrations were not read")
		}
		u := n.user()
		v, err := u.use(ctx, id, nil)
		if err == nil {
			err = u.write(ctx, "x")
		}
		if err = errors.Join(err, u.commit(ctx)); err == nil && v < 3 {
			t.Errorf("version %d was used after the time of version 3", v)
		}
	})
}

// TestRegisteredFarAhead: where nodes take long to answer, the time is far in the future, and the publisher waits until ranges take a commit at that time.
func TestRegisteredFarAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClusterAt(t, true, 20*time.Millisecond, make([]version.Binary, 2)...)
		defer c.stop()
		id := c.nodes[0].create(t, "t")
		c.nodes[0].external(t, id)
		c.nodes[1].far.Store(int64(time.Second))
		var farthest atomic.Int64
		before := func(b *kv.Batch) {
			if b.Txn != nil {
				farthest.Store(max(farthest.Load(), b.Txn.WriteTimestamp.Wall-c.nodes[0].db.Clock().Now().Wall))
			}
		}
		c.nodes[0].way.before.Store(&before)
		begun := time.Now()
		if _, _, err := c.nodes[0].bump(context.Background(), id); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < 5*time.Second {
			t.Errorf("it took %v: the time was not far in the future", took)
		}
		if d := time.Duration(farthest.Load()); d > 4*time.Second+100*time.Millisecond {
			t.Errorf("the commit was sent %v before its time", d)
		}
	})
}

// TestRegisteredOfOthers: while a version of some table is registered, and its time has not come, a transaction relies on what it finds by name as at other times: a change of that waits for it. And it
// finds what it has made itself.
func TestRegisteredOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, true)
		defer c.stop()
		ctx := context.Background()
		id, other := c.nodes[0].create(t, "t"), c.nodes[0].create(t, "other")
		c.nodes[0].external(t, other)
		c.nodes[2].far.Store(int64(time.Second)) // so that the time is far away
		changed := make(chan struct{})
		go func() {
			defer close(changed)
			if _, _, err := c.nodes[0].bump(ctx, other); err != nil {
				t.Error(err)
			}
		}()
		for !c.nodes[1].m.HasRegistered(other) {
			time.Sleep(time.Millisecond)
		}
		u := c.nodes[1].user()
		if x, err := u.cat.View(info).Table(ctx, "", "", "t"); x == nil || x.Version != 1 || err != nil {
			t.Fatal(x, err)
		}
		made := c.nodes[1].user()
		s, err := made.cat.View(info).Schema(ctx, "defaultdb", "public")
		if err != nil {
			t.Fatal(err)
		}
		mine, err := made.cat.NewID(ctx)
		if err != nil {
			t.Fatal(err)
		}
		made.cat.New(lease.Descriptor{Table: &catalog.Table{ID: mine, Name: "mine", Owner: "root", Database: s.Database, Schema: s.ID}})
		if x, err := made.cat.View(info).Table(ctx, "", "", "mine"); x == nil || err != nil {
			t.Errorf("its own table: %v, %v", x, err)
		}
		made.tx.Rollback(ctx)
		_ = made.cat.Finish(ctx, false)
		<-changed
		renamed := make(chan struct{})
		go func() {
			defer close(renamed)
			if err := c.nodes[0].rename(id, "u"); err != nil {
				t.Error(err)
			}
		}()
		select {
		case <-renamed:
			t.Error("the change has not waited for a transaction that had found the table")
		case <-time.After(3 * time.Second):
		}
		if err := errors.Join(u.write(ctx, "x"), u.commit(ctx)); err != nil {
			t.Error(err)
		}
		<-renamed
	})
}

// TestRegisteredAheadOfAll: a node that has begun to read beyond the time, because its clock is ahead of all bounds, is given a later one.
func TestRegisteredAheadOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 3, true)
		defer c.stop()
		ctx := context.Background()
		id := c.nodes[0].create(t, "t")
		c.nodes[0].external(t, id)
		c.nodes[2].h.Clock.(*sim.Clock).SetOffset(2 * time.Second)
		u := c.nodes[2].user()
		if v, err := u.use(ctx, id, nil); v != 2 || err != nil {
			t.Fatal(v, err)
		}
		_, at, err := c.nodes[0].bump(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if r := u.tx.ReadTimestamp(); !r.Less(at) {
			t.Errorf("a transaction reads at %v with a version that ended at %v", r, at)
		}
		_ = u.commit(ctx)
	})
}

// TestRegisteredHold: a change of a range that was decided with a version may commit when that has ended: it would only be decided anew, and what it holds is not given back before it has ended.
func TestRegisteredHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, true)
		defer c.stop()
		ctx := context.Background()
		id := c.nodes[0].create(t, "t")
		c.nodes[0].external(t, id)
		h, err := c.nodes[1].m.Hold(func(*lease.Snapshot) []catalog.ID { return []catalog.ID{id} })
		if err != nil {
			t.Fatal(err)
		}
		defer h.Release()
		h.Deadline()
		_, at, err := c.nodes[0].bump(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if d := h.Deadline(); d.LessEq(at) {
			t.Errorf("it has to end before %v, and the version has ended at %v", d, at)
		}
	})
}

// TestRegisteredBeforeUpgrade: nothing is registered as long as a node may not understand it; a change waits for transactions as ever.
func TestRegisteredBeforeUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := version.Built()
		old.Own = version.Placements.Since()
		c := newClusterOf(t, true, old, old)
		defer c.stop()
		ctx := context.Background()
		id := c.nodes[0].create(t, "t")
		c.nodes[0].external(t, id)
		u := c.nodes[1].user()
		if v, err := u.use(ctx, id, nil); v != 2 || err != nil {
			t.Fatal(v, err)
		}
		done := make(chan error, 1)
		go func() {
			_, _, err := c.nodes[0].bump(ctx, id)
			done <- err
		}()
		time.Sleep(time.Minute)
		select {
		case err := <-done:
			t.Fatal("it did not wait", err)
		default:
		}
		if err := errors.Join(u.commit(ctx), <-done); err != nil {
			t.Fatal(err)
		}
	})
}

// used is what a transaction has done with a version.
type used struct {
	node    kv.NodeID
	version uint64
	read    clock.Timestamp // its snapshot at the end
	commit  clock.Timestamp // zero: it has not written
}

func (u used) String() string {
	return fmt.Sprintf("node %d: version %d, read %v, committed %v", u.node, u.version, u.read, u.commit)
}

// registeredWorld runs transactions and changes at random, and compares each with the times of the versions (lease.L15).
type registeredWorld struct {
	t     *testing.T
	c     *cluster
	id    catalog.ID
	exact bool
	stop  chan struct{}

	mu    sync.Mutex // guards all below
	times map[uint64]clock.Timestamp
	all   []used
	// unknown are versions whose publishers were interrupted: they may be there.
	restarts, changes, interrupted int
}

// transactions runs one after the other.
func (w *registeredWorld) transactions(n *node, dice *rand.Rand) {
	ctx := context.Background()
	var plan []catalog.Dependency
	for {
		select {
		case <-w.stop:
			return
		default:
		}
		u, writes := n.user(), dice.IntN(2) == 0
		versions := map[uint64]bool{}
		err := func() error {
			for range 1 + dice.IntN(3) {
				v, err := uint64(0), error(nil)
				if dice.IntN(2) == 0 {
					v, err = u.use(ctx, w.id, &plan)
				} else if x, xerr := u.cat.View(info).Table(ctx, "", "", "t"); x != nil {
					v = x.Version
				} else if err = xerr; err == nil {
					err = errors.New("the table is not found")
				}
				if err != nil {
					return err
				}
				versions[v] = true
				if _, err := u.tx.Get(ctx, []byte("\x10k"+fmt.Sprint(dice.IntN(20))), kv.NoLock, kv.Block); err != nil {
					return err
				}
				time.Sleep(time.Duration(dice.IntN(80)) * time.Millisecond)
			}
			if writes {
				return u.write(ctx, "k"+fmt.Sprint(dice.IntN(20)))
			}
			return nil
		}()
		if err == nil {
			err = u.tx.Commit(ctx)
		}
		if err != nil {
			u.tx.Rollback(ctx)
			if !txn.Retriable(err) && !sqlstate.Is(err, sqlstate.SerializationFailure) && !errors.As(err, new(*kv.UnavailableError)) && !errors.As(err, new(*kv.AmbiguousError)) {
				w.t.Errorf("node %d: %v", n.id, err)
			}
		}
		done := used{node: n.id, read: u.tx.ReadTimestamp(), commit: u.tx.CommitTimestamp()}
		if !writes {
			done.commit = clock.Timestamp{}
		}
		_ = u.cat.Finish(ctx, err == nil)
		w.mu.Lock()
		if err == nil {
			for done.version = range versions {
				w.all = append(w.all, done)
			}
		} else {
			w.restarts++
		}
		w.mu.Unlock()
		time.Sleep(time.Duration(dice.IntN(10)) * time.Millisecond)
	}
}

// change makes one change, which may be interrupted.
func (w *registeredWorld) change(n *node, dice *rand.Rand) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if dice.IntN(4) == 0 {
		after := time.Duration(dice.IntN(900)) * time.Millisecond
		time.AfterFunc(after, cancel)
	}
	version, at, err := n.bump(ctx, w.id)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changes++; at.IsZero() {
		if w.interrupted++; ctx.Err() == nil && !errors.As(err, new(*kv.UnavailableError)) && !errors.As(err, new(*kv.AmbiguousError)) {
			w.t.Errorf("a change on node %d: %v", n.id, err)
		}
		return
	}
	w.times[version] = at
}

// check compares.
func (w *registeredWorld) check() (bad []string) {
	last := uint64(0)
	for v := range w.times {
		last = max(last, v)
	}
	for _, u := range w.all {
		if at, ok := w.times[u.version]; ok && u.read.Less(at) {
			bad = append(bad, fmt.Sprintf("%v, but the version is valid from %v", u, at))
		}
		for v := u.version + 1; v <= last; v++ {
			at, ok := w.times[v]
			if !ok {
				continue
			}
			if at.LessEq(u.commit) || at.LessEq(u.read) {
				bad = append(bad, fmt.Sprintf("%v, but version %d is valid from %v", u, v, at))
			}
			break
		}
	}
	return bad
}

// TestRegisteredAtRandom: transactions and changes at random, with clocks that differ, ways that are slow, nodes that hear nothing for a while, publishers that are interrupted, and nodes that begin
// anew: no transaction reads or commits with a version at a time when another one was valid.
func TestRegisteredAtRandom(t *testing.T) {
	changes, restarts, all := 0, 0, 0
	for seed := range uint64(12) {
		for _, exact := range []bool{true, false} {
			w := &registeredWorld{t: t, exact: exact, stop: make(chan struct{}), times: map[uint64]clock.Timestamp{}}
			synctest.Test(t, func(t *testing.T) { w.run(t, seed) })
			for _, b := range w.check() {
				t.Logf("times %v", w.times)
				t.Errorf("seed %d, exact %v: %s", seed, exact, b)
			}
			changes, restarts, all = changes+len(w.times), restarts+w.restarts, all+len(w.all)
		}
	}
	t.Logf("%d transactions, %d began anew, %d changes", all, restarts, changes)
	if changes < 200 || all < 2000 {
		t.Errorf("only %d transactions and %d changes", all, changes)
	}
}

func (w *registeredWorld) run(t *testing.T, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 15))
	c := newCluster(t, 4, true)
	defer c.stop()
	w.c, w.t = c, t
	w.id = c.nodes[0].create(t, "t")
	if w.exact {
		c.nodes[0].external(t, w.id)
	} else if err := c.nodes[0].m.Change(context.Background(), func(_ context.Context, _ *txn.Txn, c *lease.Txn) error {
		c.Settings()["sql.schema_change.registered"] = "always"
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	for _, n := range c.nodes {
		n.h.Clock.(*sim.Clock).SetOffset(time.Duration(dice.IntN(200)-100) * time.Millisecond)
		n.way.d.Store(int64(dice.IntN(8)) * int64(time.Millisecond))
	}
	var wg sync.WaitGroup
	for i, n := range c.nodes {
		for j := range 3 {
			wg.Go(func() { w.transactions(n, rand.New(rand.NewPCG(seed, uint64(100*i+j)))) })
		}
	}
	var changing sync.WaitGroup
	for i := range 2 {
		changing.Go(func() {
			dice := rand.New(rand.NewPCG(seed, uint64(1000+i)))
			for range 6 {
				w.change(c.nodes[dice.IntN(len(c.nodes))], dice)
				time.Sleep(time.Duration(dice.IntN(500)) * time.Millisecond)
			}
		})
	}
	changing.Go(func() {
		for range 4 {
			n := c.nodes[dice.IntN(len(c.nodes))]
			time.Sleep(time.Duration(dice.IntN(1500)) * time.Millisecond)
			switch dice.IntN(3) {
			case 0:
				n.deaf.Store(true)
				time.Sleep(time.Duration(dice.IntN(3000)) * time.Millisecond)
				n.deaf.Store(false)
			case 1:
				n.way.cut.Store(true)
				time.Sleep(time.Duration(dice.IntN(3000)) * time.Millisecond)
				n.way.cut.Store(false)
			default:
				n.way.d.Store(int64(dice.IntN(60)) * int64(time.Millisecond))
			}
		}
	})
	changing.Wait()
	close(w.stop)
	wg.Wait()
}
