package txn_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"meridian/commit"
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
		return errors.As(err, &a)
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
				db := txn.NewDB(txn.Options{Sender: &loseCommit{Sender: real, f: x.f(real)}, Clock: w.clock, Host: w.h, NodeID: func() kv.NodeID { return 9 }, Probes: probes})
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
				reader := txn.NewDB(txn.Options{Sender: real, Clock: w.clock, Host: w.h, NodeID: func() kv.NodeID { return 9 }})
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
