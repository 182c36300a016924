package upgrade

import (
	"context"
	"errors"
	"time"

	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
	"meridian/version"
	"meridian/wire"
)

// Store remembers a node's version on disk.
type Store interface {
	Version() (acting, promised version.Version)
	// RaiseVersion returns when both are durable; neither goes back.
	RaiseVersion(acting, promised version.Version) error
}

// Options of a Node.
type Options struct {
	DB     *txn.DB
	Host   *host.Host
	NodeID func() kv.NodeID
	Handle *version.Handle
	Store  Store
	// OnRefused is told that the node's binary does not fit to the cluster: *version.TooOldError or *version.TooNewError. The node has to end.
	OnRefused func(error)
}

// Node is a node's own part: it promises what an upgrade asks for, acts by what is active, and tells both in its row.
type Node struct {
	o    Options
	kick chan struct{}
}

// NewNode makes it; nothing runs before Register and Start.
func NewNode(o Options) *Node { return &Node{o: o, kick: make(chan struct{}, 1)} }

// Register makes the node known to upgrades, and the cluster's version to the node (upgrade.UP2). It returns when that is done, or fails if the
// node's binary does not fit.
func (n *Node) Register(ctx context.Context) error {
	for warned := false; ; {
		err := n.look(ctx)
		if err == nil || version.Refused(err) {
			return err
		}
		if !warned && ctx.Err() == nil {
			warned = true
			n.o.Host.Log.Warn("the cluster's version can't be read yet", "error", err)
		}
		if err := n.o.Host.Clock.Sleep(ctx, retryEvery); err != nil {
			return err
		}
	}
}

// retryEvery is the pause before what has failed is tried again.
const retryEvery = 100 * time.Millisecond

// Start has the node follow the cluster's version from now on, whenever Kick is called.
func (n *Node) Start() {
	n.o.Host.Group.Go(func(ctx context.Context) {
		for {
			select {
			case <-n.kick:
			case <-ctx.Done():
				return
			}
			if err := n.Register(ctx); version.Refused(err) {
				n.o.OnRefused(err)
				return
			}
		}
	})
}

// Kick says that the cluster's version may have changed. It does not wait.
func (n *Node) Kick() {
	select {
	case n.kick <- struct{}{}:
	default:
	}
}

// errBehind says that the cluster's row asks for more than the store has.
var errBehind = errors.New("upgrade: behind the cluster's version")

// look follows the cluster's row, and writes this node's if it says something else.
func (n *Node) look(ctx context.Context) error {
	for {
		var c Cluster
		err := n.o.DB.Run(ctx, txn.TxnOptions{Name: "version"}, func(ctx context.Context, tx *txn.Txn) (err error) {
			if c, err = readCluster(ctx, tx); err != nil {
				return err
			}
			b := n.o.Handle.Binary()
			if err := b.Fits("this node", c.Active, c.Raising); err != nil {
				return err
			}
			acting, promised := n.o.Store.Version()
			if acting.Less(c.Active) || promised.Less(c.Active.Max(c.Raising)) {
				return errBehind
			}
			key := keys.NodeVersionKey(n.o.NodeID())
			row := wire.Append(nil, &Member{Own: b.Own, Oldest: b.Oldest, Acting: acting, Promised: promised}, (*Member).fields)
			old, err := tx.Get(ctx, key, kv.NoLock, kv.Block)
			if err != nil || string(old) == string(row) {
				return err
			}
			var w txn.WriteBatch
			w.Put(key, row)
			return tx.Write(ctx, &w)
		})
		if !errors.Is(err, errBehind) {
			return err
		}
		if err := n.o.Store.RaiseVersion(c.Active, c.Active.Max(c.Raising)); err != nil {
			return err
		}
		n.o.Handle.Raise(c.Active) // the store has it (version.CV1)
		n.o.Host.Log.Info("the cluster's version", "active", c.Active, "raising", c.Raising)
	}
}
