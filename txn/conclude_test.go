package txn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"meridian/commit"
	"meridian/commit/leader/gateway"
	"meridian/keys"
	"meridian/kv"
	"meridian/probe"
	"meridian/txn"
)

// loseCommit is a Sender for which the answer to the first commit of a transaction is lost, after f.
type loseCommit struct {
	txn.Sender
	f    func(ctx context.Context, b *kv.Batch)
	done bool
}

func (s *loseCommit) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	ends := slices.ContainsFunc(b.Requests, func(r kv.Request) bool {
		e, ok := r.(*kv.EndTxnRequest)
		return ok && e.Commit
	})
	if !ends || s.done {
		return s.Sender.Send(ctx, b)
	}
	s.done = true
	s.f(ctx, b)
	return nil, &kv.AmbiguousError{Reason: "the answer was lost"}
}

// TestConclude: a gateway that has lost the answer to a commit asks the record (txn.TX17).
func TestConclude(t *testing.T) {
	unknown := func(err error) bool {
		var a *kv.AmbiguousError
		return errors.As(err, &a) && !txn.Retriable(err) // whose cause it may be
	}
	for _, x := range []struct {
		name  string
		f     func(s txn.Sender) func(ctx context.Context, b *kv.Batch)
		check func(error) bool
		probe string
		there bool
	}{
		{"staged, and all writes are there", func(s txn.Sender) func(context.Context, *kv.Batch) {
			return func(ctx context.Context, b *kv.Batch) { _, _ = s.Send(ctx, b) }
		}, func(err error) bool { return err == nil }, txn.ProbeConcluded, true},
		{"staged, and a write is missing", func(s txn.Sender) func(context.Context, *kv.Batch) {
			return func(ctx context.Context, b *kv.Batch) {
				c := *b
				c.Requests = slices.DeleteFunc(slices.Clone(b.Requests), func(r kv.Request) bool { p, ok := r.(*kv.PutRequest); return ok && p.Key.Equal(lostKey("b", 1)) })
				_, _ = s.Send(ctx, &c)
			}
		}, txn.Retriable, txn.ProbeConcludedAborted, false},
		{"an aborted record, which may be of those who waited for a lock", func(s txn.Sender) func(context.Context, *kv.Batch) {
			return func(ctx context.Context, b *kv.Batch) {
				_, _ = commit.Conclude(ctx, s, commit.Finishers{kv.Leader: commit.Intents(s)}, b.Txn.TxnMeta)
			}
		}, unknown, "", false},
		{"it never arrived, and there is no record", func(s txn.Sender) func(context.Context, *kv.Batch) {
			return func(context.Context, *kv.Batch) {}
		}, unknown, "", false},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLostWorld(t, 1, &probe.Set{})
				defer func() {
					for _, r := range w.ranges {
						r.p.Close(nil)
					}
					w.h.Group.Stop()
					if err := w.engine.Close(); err != nil {
						t.Error(err)
					}
				}()
				ctx := context.Background()
				probes := &probe.Set{}
				real := w.gateway(&lostGateway{w: w, safe: true})
				db := txn.NewDB(txn.Options{Records: gateway.Protocol{}, Sender: &loseCommit{Sender: real, f: x.f(real)}, Clock: w.clock, Host: w.h, NodeID: func() kv.NodeID { return 9 }, Probes: probes})
				tx := db.Begin(txn.TxnOptions{})
				var b txn.WriteBatch
				b.Put(lostKey("a", 1), []byte("v"))
				b.Put(lostKey("b", 1), []byte("v"))
				if err := tx.Write(ctx, &b); err != nil {
					t.Fatal(err)
				}
				err := tx.Commit(ctx)
				if !x.check(err) {
					t.Errorf("the commit said: %v", err)
				}
				if x.probe != "" && probes.Count(x.probe) != 1 {
					t.Errorf("%q was not reached", x.probe)
				}
				tx.Rollback(ctx)
				reader := txn.NewDB(txn.Options{Records: gateway.Protocol{}, Sender: real, Clock: w.clock, Host: w.h, NodeID: func() kv.NodeID { return 9 }})
				for _, k := range []string{"a", "b"} {
					if err := reader.Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
						v, err := tx.Get(ctx, lostKey(k, 1), kv.NoLock, kv.Block)
						if err == nil && (v != nil) != x.there {
							t.Errorf("%s: %q", k, v)
						}
						return err
					}); err != nil {
						t.Error(err)
					}
				}
				time.Sleep(10 * time.Second) // the rest is done in the background
			})
		})
	}
}

// TestRemembered: a gateway that has lost the answer to a commit that leaves no record asks the range, which remembers the last ones (txn.TX17, replica.R13).
func TestRemembered(t *testing.T) {
	unknown := func(err error) bool {
		var a *kv.AmbiguousError
		return errors.As(err, &a) && !txn.Retriable(err) // whose cause it may be
	}
	committed := func(err error) bool { return err == nil }
	arrives := func(s txn.Sender, b *kv.Batch) { _, _ = s.Send(context.Background(), b) }
	aborts := func(s txn.Sender, b *kv.Batch) {
		meta := b.Txn.TxnMeta
		meta.Anchor = b.Requests[len(b.Requests)-1].(*kv.EndTxnRequest).Anchor
		if _, err := commit.Conclude(context.Background(), s, commit.Finishers{kv.Leader: commit.Intents(s)}, meta); err != nil {
			panic(err)
		}
	}
	for _, x := range []struct {
		name string
		// young: the replica has begun to remember after the transaction's beginning, as far as the clocks can tell.
		young  bool
		apart  bool // in two ranges
		locked bool // it has locked a row of another range first, and is anchored there
		before func(s txn.Sender, b *kv.Batch)
		check  func(error) bool
		probe  string
		late   bool // the commit arrives after its outcome was found
		there  bool
	}{
		{name: "committed", before: arrives, check: committed, probe: txn.ProbeRemembered, there: true},
		{name: "committed, and the replica has just begun", young: true, before: arrives, check: committed, probe: txn.ProbeRemembered, there: true},
		{name: "committed, and others have written a record since", before: func(s txn.Sender, b *kv.Batch) { arrives(s, b); aborts(s, b) }, check: committed, probe: txn.ProbeRemembered, there: true},
		{name: "never arrived", check: txn.Retriable, probe: txn.ProbeConcludedAborted},
		{name: "arrives after that", late: true, check: txn.Retriable, probe: txn.ProbeConcludedAborted},
		{name: "arrives after others have written a record", before: aborts, late: true, check: txn.Retriable, probe: txn.ProbeConcludedAborted},
		{name: "committed, and anchored elsewhere", locked: true, before: arrives, check: committed, probe: txn.ProbeRemembered, there: true},
		{name: "arrives late, and anchored elsewhere", locked: true, late: true, check: txn.Retriable, probe: txn.ProbeConcludedAborted},
		{name: "never arrived, and the replica has just begun", young: true, check: unknown},
		{name: "an aborted record, and the replica has just begun", young: true, before: aborts, check: unknown},
		{name: "two ranges, and others have aborted it", apart: true, before: aborts, check: txn.Retriable, probe: txn.ProbeConcludedAborted},
		{name: "two ranges, never arrived", apart: true, late: true, check: txn.Retriable, probe: txn.ProbeConcludedAborted},
		{name: "two ranges, and others have committed it and removed the record", apart: true, before: func(s txn.Sender, b *kv.Batch) {
			arrives(s, b)
			meta := b.Txn.TxnMeta
			fs := commit.Finishers{kv.Leader: commit.Intents(s)}
			end := b.Requests[len(b.Requests)-1].(*kv.EndTxnRequest)
			meta.Anchor = end.Anchor
			if t, err := commit.Conclude(context.Background(), s, fs, meta); err != nil || t.Status != kv.Committed {
				panic(fmt.Sprint(t, err))
			}
			if err := fs.Resolve(context.Background(), kv.Leader, end.LockSpans, meta, kv.Committed, nil); err != nil {
				panic(err)
			}
			arrives(s, &kv.Batch{Requests: []kv.Request{&kv.GCRequest{Records: []keys.Key{keys.TxnKey(meta.Anchor, meta.ID)}}}})
		}, check: committed, probe: txn.ProbeRemembered, there: true},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLostWorld(t, 1, &probe.Set{})
				defer func() {
					for _, r := range w.ranges {
						r.p.Close(nil)
					}
					w.h.Group.Stop()
					if err := w.engine.Close(); err != nil {
						t.Error(err)
					}
				}()
				if !x.young {
					time.Sleep(time.Second) // more than clocks may differ by
				}
				ctx := context.Background()
				probes := &probe.Set{}
				real := w.gateway(&lostGateway{w: w, safe: true})
				reader := txn.NewDB(txn.Options{Records: gateway.Protocol{}, Sender: real, Clock: w.clock, Host: w.h, NodeID: func() kv.NodeID { return 9 }})
				all := []keys.Key{lostKey("a", 1), lostKey("a", 2)}
				if x.apart {
					all[1] = lostKey("b", 1)
				}
				find := func() (there []bool) {
					for _, k := range all {
						if err := reader.Run(ctx, txn.TxnOptions{}, func(ctx context.Context, tx *txn.Txn) error {
							v, err := tx.Get(ctx, k, kv.NoLock, kv.Block)
							there = append(there, v != nil)
							return err
						}); err != nil {
							t.Error(err)
						}
					}
					return there
				}
				find() // the router knows the ranges
				var sent *kv.Batch
				lose := &loseCommit{Sender: real, f: func(_ context.Context, b *kv.Batch) {
					sent = b
					if end := b.Requests[len(b.Requests)-1].(*kv.EndTxnRequest); end.OnePhase == x.apart {
						t.Errorf("in one phase: %v", end.OnePhase)
					}
					if x.before != nil {
						x.before(real, b)
					}
				}}
				db := txn.NewDB(txn.Options{Records: gateway.Protocol{}, Sender: lose, Ranges: real, Clock: w.clock, Host: w.h, NodeID: func() kv.NodeID { return 9 }, Probes: probes})
				tx := db.Begin(txn.TxnOptions{})
				if x.locked {
					if _, err := tx.Get(ctx, lostKey("b", 3), kv.Exclusive, kv.Block); err != nil {
						t.Fatal(err)
					}
				}
				var b txn.WriteBatch
				for _, k := range all {
					b.Put(k, []byte("v"))
				}
				if err := tx.Write(ctx, &b); err != nil {
					t.Fatal(err)
				}
				if err := tx.Commit(ctx); !x.check(err) {
					t.Errorf("the commit said: %v", err)
				}
				if x.probe != "" && probes.Count(x.probe) != 1 {
					t.Errorf("%q was not reached", x.probe)
				}
				if x.late {
					if _, err := real.Send(ctx, sent); err == nil {
						t.Error("a commit was accepted that the client was told would never be")
					}
				}
				tx.Rollback(ctx)
				time.Sleep(10 * time.Second) // the rest is done in the background
				for i, v := range find() {
					if v != x.there {
						t.Errorf("key %d is there: %v", i, v)
					}
				}
			})
		})
	}
}
