package txn_test

import (
	"context"
	"testing"

	"meridian/commit/leader/gateway"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
)

// instant answers at once, from constants.
type instant struct{ get, commit *kv.BatchResponse }

func (s *instant) Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	if b.Requests[0].Method() == kv.MethodGet {
		return s.get, nil
	}
	return s.commit, nil
}

func (s *instant) OneRange(_, _ keys.Key) bool { return true }

func newInstant(b *testing.B) *txn.DB {
	w := newWorld(b, 1, txn.Options{})
	s := &instant{
		get:    &kv.BatchResponse{Responses: []kv.Response{&kv.GetResponse{Value: []byte("v")}}},
		commit: &kv.BatchResponse{Responses: []kv.Response{&kv.EmptyResponse{}, &kv.EndTxnResponse{OnePhase: true}}},
	}
	return txn.NewDB(txn.Options{Records: gateway.Protocol{}, Sender: s, Clock: w.db.Clock(), Host: w.h, NodeID: func() kv.NodeID { return 1 }})
}

// BenchmarkPointRead is what the gateway adds to an autocommit read by key.
func BenchmarkPointRead(b *testing.B) {
	db := newInstant(b)
	ctx := context.Background()
	k := keys.Key("some key of a row")
	b.ReportAllocs()
	for b.Loop() {
		t := db.Begin(txn.TxnOptions{})
		if _, err := t.Get(ctx, k, kv.NoLock, kv.Block); err != nil {
			b.Fatal(err)
		}
		if err := t.Commit(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkUpdate is what it adds to an update by key: a locking read and a one-phase commit.
func BenchmarkUpdate(b *testing.B) { benchmarkUpdate(b, kv.Serializable) }

// BenchmarkUpdateReadCommitted is the same with a snapshot of its own for the statement.
func BenchmarkUpdateReadCommitted(b *testing.B) { benchmarkUpdate(b, kv.ReadCommitted) }

func benchmarkUpdate(b *testing.B, level kv.Isolation) {
	db := newInstant(b)
	ctx := context.Background()
	k := keys.Key("some key of a row")
	v := []byte("a new value")
	b.ReportAllocs()
	for b.Loop() {
		t := db.Begin(txn.TxnOptions{Isolation: level})
		t.BeginStatement()
		if _, err := t.Get(ctx, k, kv.Exclusive, kv.Block); err != nil {
			b.Fatal(err)
		}
		var wb txn.WriteBatch
		wb.Put(k, v)
		if err := t.CommitBatch(ctx, &wb); err != nil {
			b.Fatal(err)
		}
	}
}
