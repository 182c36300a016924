package rangeserver

import (
	"context"
	"fmt"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// firstUserRange is the range that begins where tables do; the one before it is range 1.
const firstUserRange = 2

// Bootstrap writes the first two ranges of a cluster to an engine, with one replica each, on the node: everything up
// to the tables, and the tables. Further key-value pairs (the node's own records, settings) may be part of the first
// state.
func Bootstrap(e *engine.Engine, node kv.NodeID, store kv.StoreID, now clock.Timestamp, pairs []kv.KeyValue) error {
	if v, err := e.Get(keys.DescriptorCopyKey(kv.RangeID(1))); err != nil {
		return err
	} else if v != nil {
		return fmt.Errorf("rangeserver: the store has been bootstrapped before")
	}
	self := []kv.ReplicaDescriptor{{Node: node, Store: store, Replica: 1, Type: kv.Voter}}
	ranges := []kv.RangeDescriptor{
		{ID: 1, Start: keys.Min, End: keys.TablePrefix, Replicas: self, NextReplica: 2, Generation: 1},
		{ID: firstUserRange, Start: keys.TablePrefix, End: keys.Max, Replicas: self, NextReplica: 2, Generation: 1},
	}
	var all []kv.KeyValue
	for i := range ranges {
		d := &ranges[i]
		v := d.Append(nil)
		all = append(all, kv.KeyValue{Key: keys.RangeDescriptorKey(d.Start), Value: v})
		for _, k := range keys.MetaKeys(d.Start, d.End) {
			all = append(all, kv.KeyValue{Key: k, Value: v})
		}
	}
	all = append(all, kv.KeyValue{Key: keys.RangeIDAllocatorKey(), Value: counter(firstUserRange)})
	all = append(all, pairs...)

	b := e.NewIndexedBatch()
	defer b.Close()
	w := mvcc.NewWriter(b, b)
	stats := make([]mvcc.Stats, len(ranges))
	for _, p := range all {
		before := w.Stats
		if err := w.Put(p.Key, p.Value, &mvcc.WriteOptions{Timestamp: now}); err != nil {
			_ = w.Close()
			return fmt.Errorf("rangeserver: bootstrap %s: %w", p.Key, err)
		}
		delta := w.Stats
		delta.Subtract(before)
		for i := range ranges {
			if ranges[i].Contains(keys.Addr(p.Key)) {
				stats[i].Add(delta)
			}
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	for i := range ranges {
		replica.Bootstrap(b.Put, &ranges[i], stats[i])
	}
	return b.Commit(true)
}

// counter is the stored form of an allocator, as AddRequest has it.
func counter(n int64) []byte {
	v := make([]byte, 8)
	for i := range v {
		v[i] = byte(n >> (56 - 8*i))
	}
	return v
}

// DB runs the transactions with which ranges change their own descriptors.
type DB interface {
	// RunInternal runs f in a transaction, again if it has to be retried. f ends it with CommitWithTrigger.
	RunInternal(ctx context.Context, name string, f func(ctx context.Context, tx Tx) error) error
	// Increment adds to an integer and returns the sum.
	Increment(ctx context.Context, key keys.Key, delta int64) (int64, error)
}

// Tx is one transaction of DB. The first key written is its anchor.
type Tx interface {
	// Within bounds the timestamp of the commit by the deadline of a use.
	Within(use ZoneUse)
	Get(ctx context.Context, key keys.Key) ([]byte, error)
	Put(ctx context.Context, key keys.Key, value []byte) error
	Delete(ctx context.Context, key keys.Key) error
	// Lay sends the writes as intents, and returns when they are durable.
	Lay(ctx context.Context) (kv.TxnMeta, error)
	// CommitWithTrigger commits; the trigger is carried out with the commit. It is nil for a plain commit.
	CommitWithTrigger(ctx context.Context, t *kv.CommitTrigger) error
}
