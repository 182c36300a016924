package nodetest

import (
	"bytes"
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
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

// TestMixedLevels: transactions of all levels at once append their numbers to lists, while ranges split and leases move,
// which forgets locks. Every version of a list must extend the one before it by one number, whoever wrote them (no lost
// update, coordinator.CO6); what a transaction read must be the state at one timestamp:
//
//	SERIALIZABLE     that of its commit, so that these are serializable among themselves whatever the others do (coordinator.CO8)
//	REPEATABLE READ  one at or before its commit
//	READ COMMITTED   one for each statement
//
// and must have all that was acknowledged before it, or its statement, began.
func TestMixedLevels(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ns := nodes(t, 3, seed+1)
				defer func() {
					for _, s := range ns {
						s.Stop()
					}
				}()
				(&levels{t: t, ns: ns, acked: map[int]bool{}, unknown: map[int]bool{}}).run(seed)
			})
		})
	}
}

// observed is a list that a statement read.
type observed struct {
	key  string
	list []byte // one byte for each number
}

// finished is a transaction that is committed, or may be.
type finished struct {
	n         int
	level     kv.Isolation
	at        clock.Timestamp // of the commit
	snapshots []snapshot
	wrote     map[string][]byte
}

type snapshot struct {
	at     clock.Timestamp
	reads  []observed
	before []int // acknowledged before
}

type levels struct {
	t  *testing.T
	ns []*node

	mu      sync.Mutex
	next    int
	done    []finished
	acked   map[int]bool
	unknown map[int]bool
	order   []int
	stats   map[string]int
}

const listKeys = 6

func listKey(k string) keys.Key { return userKey("list/" + k) }

func (l *levels) count(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stats == nil {
		l.stats = map[string]int{}
	}
	l.stats[what]++
}

func (l *levels) run(seed uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	l.spread(ctx)
	stop := make(chan struct{})
	var wg, movers sync.WaitGroup
	for c := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(c)))
			for range 25 {
				l.transaction(ctx, l.ns[rng.IntN(len(l.ns))], rng)
			}
		})
	}
	movers.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 100))
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(20+rng.IntN(60)) * time.Millisecond):
			}
			k := listKey(string(rune('a' + rng.IntN(listKeys))))
			var r kv.Request = &kv.AdminTransferLeaseRequest{Key: k, Target: l.ns[rng.IntN(len(l.ns))].NodeID()}
			if i < 3 {
				r = &kv.AdminSplitRequest{Key: k}
			}
			if _, err := l.ns[0].DB().Send(ctx, &kv.Batch{Requests: []kv.Request{r}}); err == nil {
				l.count(fmt.Sprintf("%T", r)[4:])
			}
		}
	})
	wg.Wait()
	close(stop)
	movers.Wait()
	l.check()
	l.t.Logf("%v", l.stats)
}

// spread waits until all nodes have the data, so that leases can move.
func (l *levels) spread(ctx context.Context) {
	for _, n := range l.ns {
		for {
			_, err := l.ns[0].DB().Send(ctx, &kv.Batch{Requests: []kv.Request{
				&kv.AdminTransferLeaseRequest{Key: listKey("a"), Target: n.NodeID()}}})
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				l.t.Fatal(err)
			}
			time.Sleep(200 * time.Millisecond)
		}
	}
}

// transaction runs one random transaction.
func (l *levels) transaction(ctx context.Context, n *node, rng *rand.Rand) {
	l.mu.Lock()
	l.next++
	me := finished{n: l.next, level: kv.Isolation(rng.IntN(3)), wrote: map[string][]byte{}}
	begun := slices.Clone(l.order)
	l.mu.Unlock()
	if me.n > 255 {
		return
	}
	tx := n.DB().Begin(txn.TxnOptions{Isolation: me.level})
	fail := func(err error) {
		l.count(fmt.Sprintf("%d failed", me.level))
		var a *kv.AmbiguousError
		if errors.As(err, &a) {
			l.mu.Lock()
			l.unknown[me.n] = true
			l.mu.Unlock()
			return
		}
		var lock *kv.LockNotAvailableError
		if !txn.Retriable(err) && !errors.As(err, &lock) {
			l.t.Errorf("transaction %d: %v", me.n, err)
		}
		tx.Rollback(ctx)
	}
	locked := map[string][]byte{} // by an earlier statement
	for range 1 + rng.IntN(4) {
		k := string(rune('a' + rng.IntN(listKeys)))
		kind := rng.IntN(4)
		for {
			if me.level == kv.ReadCommitted {
				l.mu.Lock()
				begun = slices.Clone(l.order)
				l.mu.Unlock()
			}
			tx.BeginStatement()
			s, err := l.statement(ctx, tx, &me, k, kind, locked, rng)
			if err != nil && tx.MayRestartStatement(err) {
				l.count("statements run again")
				tx.RestartStatement()
				continue
			}
			if err != nil {
				fail(err)
				return
			}
			s.at, s.before = tx.ReadTimestamp(), begun
			me.snapshots = append(me.snapshots, s)
			break
		}
		if rng.IntN(3) == 0 {
			time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond)
		}
	}
	if rng.IntN(10) == 0 {
		tx.Rollback(ctx)
		return
	}
	if err := tx.Commit(ctx); err != nil {
		fail(err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	me.at = tx.CommitTimestamp()
	if me.level != kv.ReadCommitted {
		for i := range me.snapshots {
			me.snapshots[i].at = tx.ReadTimestamp()
		}
	}
	l.done = append(l.done, me)
	l.acked[me.n] = true
	if len(me.wrote) > 0 {
		l.order = append(l.order, me.n)
	}
}

// statement reads a list, or all of them, or changes one.
func (l *levels) statement(ctx context.Context, tx *txn.Txn, me *finished, k string, kind int, locked map[string][]byte, rng *rand.Rand) (s snapshot, err error) {
	see := func(k string, v []byte) {
		if _, own := me.wrote[k]; !own {
			s.reads = append(s.reads, observed{k, v})
		}
	}
	switch kind {
	case 0:
		v, err := tx.Get(ctx, listKey(k), kv.NoLock, kv.Block)
		if err != nil {
			return s, err
		}
		see(k, v)
	case 1:
		rows, _, err := tx.Scan(ctx, txn.ScanOptions{Span: keys.Span{Start: userKey("list/"), End: userKey("list0")}})
		if err != nil {
			return s, err
		}
		found := map[string][]byte{}
		for _, r := range rows {
			found[string(r.Key[len(r.Key)-1:])] = r.Value
		}
		for i := range listKeys {
			k := string(rune('a' + i))
			see(k, found[k])
		}
	case 2: // lock it for a later statement
		strength := kv.Exclusive
		if rng.IntN(2) == 0 {
			strength = kv.NoKeyExclusive
		}
		v, err := tx.Get(ctx, listKey(k), strength, kv.Block)
		if err != nil {
			return s, err
		}
		see(k, v)
		if _, ok := locked[k]; !ok {
			locked[k] = v
		}
	case 3:
		if _, own := me.wrote[k]; own {
			return s, nil
		}
		v, ok := locked[k]
		if !ok {
			// The statement's other reads keep its snapshot from moving.
			other := string(rune('a' + rng.IntN(listKeys)))
			if other != k {
				if v, err = tx.Get(ctx, listKey(other), kv.NoLock, kv.Block); err != nil {
					return s, err
				}
				see(other, v)
			}
			lock := kv.NoKeyExclusive
			if me.level != kv.ReadCommitted && rng.IntN(2) == 0 {
				lock = kv.NoLock
			}
			if v, err = tx.Get(ctx, listKey(k), lock, kv.Block); err != nil {
				return s, err
			}
			see(k, v)
		}
		list := append(append([]byte(nil), v...), byte(me.n))
		var b txn.WriteBatch
		b.Put(listKey(k), list)
		if err := tx.Write(ctx, &b); err != nil {
			return s, err
		}
		me.wrote[k] = list
	}
	return s, nil
}

type listVersion struct {
	at   clock.Timestamp
	list []byte
}

func (l *levels) check() {
	t := l.t
	// Whether those of which nothing is known are committed shows in the lists.
	versions := map[string][]listVersion{}
	for _, f := range l.done {
		for k, list := range f.wrote {
			versions[k] = append(versions[k], listVersion{f.at, list})
		}
	}
	for k, vs := range versions {
		slices.SortFunc(vs, func(a, b listVersion) int { return a.at.Compare(b.at) })
		for i := range vs {
			before := []byte(nil)
			if i > 0 {
				before = vs[i-1].list
			}
			extra := vs[i].list[:len(vs[i].list)-1]
			for !bytes.Equal(extra, before) && len(extra) > len(before) && l.unknown[int(extra[len(extra)-1])] {
				extra = extra[:len(extra)-1]
			}
			if !bytes.Equal(extra, before) {
				t.Errorf("list %s: transaction %d made %v of %v", k, vs[i].list[len(vs[i].list)-1], vs[i].list, before)
			}
		}
	}
	state := func(k string, at clock.Timestamp, own int) []byte {
		var out []byte
		for _, v := range versions[k] {
			if v.at.LessEq(at) && v.list[len(v.list)-1] != byte(own) {
				out = v.list
			}
		}
		return out
	}
	for _, f := range l.done {
		for i, s := range f.snapshots {
			at := s.at
			if f.level == kv.Serializable && len(f.wrote) > 0 {
				at = f.at
			}
			for _, r := range s.reads {
				if want := state(r.key, at, f.n); !bytes.Equal(r.list, want) && !l.touched(r.list) && !l.touched(want) {
					t.Errorf("transaction %d at level %d, statement %d at %s: list %s is %v, not %v", f.n, f.level, i, at, r.key, r.list, want)
				}
				for _, n := range s.before {
					if l.wrote(n, r.key) && !bytes.Contains(r.list, []byte{byte(n)}) {
						t.Errorf("transaction %d at level %d, statement %d: list %s is %v without %d, which was acknowledged before", f.n, f.level, i, r.key, r.list, n)
					}
				}
			}
		}
		if f.level != kv.ReadCommitted {
			l.count(strings.Repeat("serializable", 1-int(f.level)) + strings.Repeat("repeatable read", int(f.level)))
		} else {
			l.count("read committed")
		}
	}
}

// touched reports whether a list has a number of which nothing is known.
func (l *levels) touched(list []byte) bool {
	for _, n := range list {
		if l.unknown[int(n)] {
			return true
		}
	}
	return false
}

func (l *levels) wrote(n int, k string) bool {
	for i := range l.done {
		if l.done[i].n == n {
			_, ok := l.done[i].wrote[k]
			return ok
		}
	}
	return false
}
