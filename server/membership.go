package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"meridian/cluster"
	"meridian/keys"
	"meridian/kv"
	"meridian/placement"
	"meridian/rangeserver"
	"meridian/transport"
	"meridian/txn"
	"meridian/upgrade"
	"meridian/version"
)

// Methods by which a cluster begins and grows.
const (
	methodInit = "server.init"
	methodJoin = "server.join"
)

// ErrInitialised is returned by Init on a node that belongs to a cluster.
var ErrInitialised = errors.New("the node belongs to a cluster already")

// Init begins a cluster on this node and returns its name.
func (n *Node) Init(ctx context.Context) (string, error) {
	if !n.joining.TryLock() {
		return "", errors.New("the node is joining a cluster at this moment")
	}
	defer n.joining.Unlock()
	if n.identity.Load() != nil {
		return "", ErrInitialised
	}
	if err := n.engine.CheckSpace(); err != nil {
		return "", err
	}
	id := identity{node: 1, store: 1}
	n.host.Dice.Read(id.cluster[:])
	pairs := []kv.KeyValue{
		{Key: keys.NodeIDAllocatorKey(), Value: binary.BigEndian.AppendUint64(nil, 1)},
		{Key: keys.ClusterVersionKey(), Value: upgrade.Cluster{Active: n.o.Binary.Own}.Append(nil)},
	}
	// The ranges come first: a store with ranges and no identity counts as new, and refuses a second bootstrap.
	if err := rangeserver.Bootstrap(n.engine, id.node, id.store, n.clock.Now(), pairs); err != nil {
		return "", err
	}
	if err := n.adopt(id, upgrade.Cluster{Active: n.o.Binary.Own}); err != nil {
		return "", err
	}
	return n.ClusterName(), nil
}

// adopt makes the cluster's version and the identity durable and serves under them (server.SV1, version.CV1).
func (n *Node) adopt(id identity, c upgrade.Cluster) error {
	if err := n.engine.RaiseVersion(c.Active, c.Active.Max(c.Raising)); err != nil {
		return err
	}
	n.version.Raise(c.Active)
	if err := writeIdentity(n.engine, id); err != nil {
		return err
	}
	if err := n.fence.Begin(id.node, true); err != nil {
		return err
	}
	n.identity.Store(&id)
	n.cluster.Update(func(e *cluster.Entry) { e.Node, e.Store = id.node, id.store })
	n.host.Log.Info("joined the cluster", "node", id.node, "cluster", n.ClusterName())
	for _, e := range n.cluster.Nodes() {
		n.fence.Meet(e.Node)
	}
	n.host.Group.Go(func(ctx context.Context) { n.failIf(ctx, n.serve(ctx, id)) })
	return nil
}

// joinLoop asks the join addresses for a node id until one answers with it.
func (n *Node) joinLoop(ctx context.Context) {
	const warnEvery = 10 * time.Second
	warned := map[string]time.Duration{}
	for n.identity.Load() == nil {
		for _, addr := range n.o.Join {
			if addr == n.o.AdvertiseAddr || n.identity.Load() != nil {
				continue
			}
			err := n.joinAt(ctx, addr)
			if err == nil || ctx.Err() != nil {
				return
			}
			if version.Refused(err) {
				var in *transport.VersionError
				if errors.As(err, &in) {
					err = in.Err
				}
				n.fail(fmt.Errorf("cannot join the cluster through %s: %w", addr, err))
				return
			}
			// Package cluster logs addresses that can't be reached.
			var waiting *notInitialisedError
			var unreachable *transport.UnreachableError
			now := n.host.Clock.Monotonic()
			if last, ok := warned[addr]; !errors.As(err, &waiting) && !errors.As(err, &unreachable) && (!ok || now-last >= warnEvery) {
				warned[addr] = now
				n.host.Log.Warn("cannot join through this address; it is tried again", "address", addr, "error", err)
			}
		}
		if n.host.Clock.Sleep(ctx, 200*time.Millisecond) != nil {
			return
		}
	}
}

// notInitialisedError says that the other node has no cluster either.
type notInitialisedError struct{ addr string }

func (e *notInitialisedError) Error() string { return e.addr + " belongs to no cluster yet" }

func (n *Node) joinAt(ctx context.Context, addr string) error {
	ctx, cancel := n.host.Clock.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	reply, err := n.transport.CallAddr(ctx, addr, methodJoin, nil)
	if err != nil {
		return err
	}
	if len(reply) == 0 {
		return &notInitialisedError{addr}
	}
	if len(reply) < identityLen {
		return errIdentity
	}
	id, err := decodeIdentity(reply[:identityLen])
	if err != nil {
		return err
	}
	c, err := upgrade.DecodeCluster(reply[identityLen:])
	if err != nil {
		return err
	}
	if err := n.o.Binary.Fits("this node", c.Active, c.Raising); err != nil {
		return err
	}
	n.joining.Lock()
	defer n.joining.Unlock()
	if n.identity.Load() != nil {
		return nil
	}
	return n.adopt(id, c)
}

// serveJoin gives a new node its id and the cluster's version. The answer is empty if this node belongs to no cluster
// itself.
func (n *Node) serveJoin(ctx context.Context, _ kv.NodeID, _ []byte) ([]byte, error) {
	id := n.identity.Load()
	if id == nil || n.store.Load() == nil {
		return nil, nil
	}
	c, err := upgrade.ReadCluster(ctx, n.db)
	if err != nil {
		return nil, err
	}
	next, err := n.db.Add(ctx, keys.NodeIDAllocatorKey(), 1)
	if err != nil {
		return nil, err
	}
	if next <= 0 || next > 1<<31 {
		return nil, fmt.Errorf("node id %d is out of range", next)
	}
	joined := identity{cluster: id.cluster, node: kv.NodeID(next), store: kv.StoreID(next)}
	return c.Append(joined.append(nil)), nil
}

// readRecords learns of every node that has a liveness record, also of those that are dead since before this node started:
// no other node might report them, and their replicas have to be replaced.
func (n *Node) readRecords(ctx context.Context) {
	for {
		rows, err := n.db.Scan(ctx, keys.LivenessSpan())
		for _, r := range rows {
			l, err := cluster.DecodeLiveness(r.Value)
			if err != nil {
				n.host.Log.Warn("a liveness record can't be read", "key", r.Key, "error", err)
				continue
			}
			n.cluster.LearnRecord(l)
		}
		if err == nil || n.host.Clock.Sleep(ctx, time.Second) != nil {
			return
		}
	}
}

// livenessStore keeps liveness records in the system range.
type livenessStore struct{ db *txn.DB }

// Get implements cluster.LivenessStore.
func (s livenessStore) Get(ctx context.Context, node kv.NodeID) ([]byte, error) {
	return s.db.Get(ctx, keys.LivenessKey(node))
}

// CPut implements cluster.LivenessStore.
func (s livenessStore) CPut(ctx context.Context, node kv.NodeID, expected, value []byte) ([]byte, bool, error) {
	err := s.db.CPut(ctx, keys.LivenessKey(node), value, expected)
	var cond *kv.ConditionFailedError
	if errors.As(err, &cond) {
		return cond.Actual, false, nil
	}
	return nil, err == nil, err
}

// ceilingStore keeps the cluster's ceiling in the system range (cluster.L6).
type ceilingStore struct{ db *txn.DB }

// Get implements cluster.CeilingStore.
func (s ceilingStore) Get(ctx context.Context) ([]byte, error) {
	return s.db.Get(ctx, keys.CeilingKey())
}

// CPut implements cluster.CeilingStore.
func (s ceilingStore) CPut(ctx context.Context, expected, value []byte) error {
	return s.db.CPut(ctx, keys.CeilingKey(), value, expected)
}

// internalDB runs the ranges' own transactions.
type internalDB struct{ db *txn.DB }

// RunInternal implements rangeserver.DB.
func (d internalDB) RunInternal(ctx context.Context, name string, f func(ctx context.Context, tx rangeserver.Tx) error) error {
	return d.db.Run(ctx, txn.TxnOptions{Name: name}, func(ctx context.Context, t *txn.Txn) error { return f(ctx, internalTx{t}) })
}

// Increment implements rangeserver.DB.
func (d internalDB) Increment(ctx context.Context, key keys.Key, delta int64) (int64, error) {
	return d.db.Add(ctx, key, delta)
}

// internalTx implements rangeserver.Tx.
type internalTx struct{ t *txn.Txn }

func (t internalTx) Get(ctx context.Context, key keys.Key) ([]byte, error) {
	return t.t.Get(ctx, key, kv.NoLock, kv.Block)
}

func (t internalTx) Put(ctx context.Context, key keys.Key, value []byte) error {
	var b txn.WriteBatch
	b.Put(key, value)
	return t.t.Write(ctx, &b)
}

func (t internalTx) Delete(ctx context.Context, key keys.Key) error {
	var b txn.WriteBatch
	b.Delete(key)
	return t.t.Write(ctx, &b)
}

// Within implements rangeserver.Tx: a use of configurations is a txn.DeadlineSource.
func (t internalTx) Within(use rangeserver.ZoneUse) { t.t.SetDeadlineSource(use) }

func (t internalTx) Lay(ctx context.Context) (kv.TxnMeta, error) { return t.t.Lay(ctx) }

func (t internalTx) CommitWithTrigger(ctx context.Context, trigger *kv.CommitTrigger) error {
	return t.t.CommitWithTrigger(ctx, trigger)
}

// regions are the regions of the nodes that were not decommissioned for good, sorted.
func (n *Node) regions() (out []string) {
	for _, e := range n.cluster.Nodes() {
		if r, ok := n.cluster.Record(e.Node); ok && r.Decommissioned || e.Locality.Region() == "" {
			continue
		}
		out = append(out, e.Locality.Region())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// satisfied reports whether a node that was not decommissioned for good satisfies a constraint.
func (n *Node) satisfied(k placement.Constraint) bool {
	for _, e := range n.cluster.Nodes() {
		if r, ok := n.cluster.Record(e.Node); ok && r.Decommissioned {
			continue
		}
		if v, ok := e.Locality.Find(k.Key); ok && v == k.Value || k.Key == "" && slices.Contains(e.Attributes, k.Value) {
			return true
		}
	}
	return false
}
