package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"meridian/cluster"
	"meridian/keys"
	"meridian/kv"
	"meridian/txn"
	"meridian/version"
	"meridian/wire"
)

// Cluster is the cluster's row.
type Cluster struct {
	// Active is what the cluster acts by.
	Active version.Version
	// Raising is what it is being upgraded to, From what it acted by before; zero: nothing.
	Raising version.Version `json:",omitzero"`
	From    version.Version `json:",omitzero"`
	// Job is the job of the upgrade under way, or of the last one.
	Job int64 `json:",omitempty"`
	// unknown are fields of a later version, which the row keeps (wire.W3): nodes of both versions write it while an upgrade is under way.
	unknown wire.Unknown
}

// Append adds the row's bytes, as a new cluster is made with.
func (x Cluster) Append(b []byte) []byte { return wire.Append(b, &x, (*Cluster).fields) }

func (x *Cluster) fields(c *wire.Coder) {
	c.Message("upgrade.Cluster", wire.Skips)
	wire.As(c, 1, &x.Active, version.Version.Uint64, version.From)
	wire.As(c, 3, &x.Raising, version.Version.Uint64, version.From)
	wire.As(c, 5, &x.From, version.Version.Uint64, version.From)
	wire.Int64(c, 7, &x.Job)
	c.Unknown(&x.unknown)
}

// Member is what the cluster knows of one node that counts.
type Member struct {
	Node             kv.NodeID // of the row's key
	Own, Oldest      version.Version
	Acting, Promised version.Version
}

// A member's row is written whole by its node.
func (m *Member) fields(c *wire.Coder) {
	c.Message("upgrade.Member", wire.Skips)
	wire.As(c, 1, &m.Own, version.Version.Uint64, version.From)
	wire.As(c, 3, &m.Oldest, version.Version.Uint64, version.From)
	wire.As(c, 5, &m.Acting, version.Version.Uint64, version.From)
	wire.As(c, 7, &m.Promised, version.Version.Uint64, version.From)
}

// done is a migration's row.
type done struct {
	Job  int64
	Done bool
}

func (d *done) fields(c *wire.Coder) {
	c.Message("upgrade.Migration", wire.Refuses)
	wire.Int64(c, 1, &d.Job)
	c.Bool(3, &d.Done)
}

var errNoVersion = errors.New("it has none")

// DecodeCluster reads what Append wrote.
func DecodeCluster(b []byte) (c Cluster, err error) {
	if c, err = wire.Decoded(b, (*Cluster).fields); err == nil && c.Active.IsZero() {
		err = errNoVersion
	}
	if err != nil {
		return c, fmt.Errorf("upgrade: the cluster's version: %w", err)
	}
	return c, nil
}

// ReadCluster reads the cluster's row now.
func ReadCluster(ctx context.Context, db *txn.DB) (Cluster, error) {
	v, err := db.Get(ctx, keys.ClusterVersionKey())
	if err != nil {
		return Cluster{}, err
	}
	return DecodeCluster(v)
}

func readCluster(ctx context.Context, tx *txn.Txn) (Cluster, error) {
	v, err := tx.Get(ctx, keys.ClusterVersionKey(), kv.NoLock, kv.Block)
	if err != nil {
		return Cluster{}, err
	}
	return DecodeCluster(v)
}

func writeCluster(ctx context.Context, tx *txn.Txn, c Cluster) error {
	var b txn.WriteBatch
	b.Put(keys.ClusterVersionKey(), c.Append(nil))
	return tx.Write(ctx, &b)
}

// View is all rows as of one moment.
type View struct {
	Cluster
	// Members are the nodes that are not decommissioned, in order.
	Members []Member
}

// scan reads all rows of a span, which has one for each node.
func scan(ctx context.Context, tx *txn.Txn, s keys.Span, f func(kv.NodeID, []byte) error) error {
	rows, _, err := tx.Scan(ctx, txn.ScanOptions{Span: s})
	if err != nil {
		return err
	}
	for _, r := range rows {
		id, err := keys.DecodeNodeKey(r.Key)
		if err == nil {
			err = f(kv.NodeID(id), r.Value)
		}
		if err != nil {
			return fmt.Errorf("upgrade: %s: %w", keys.PrettyPrint(r.Key), err)
		}
	}
	return nil
}

// readView reads everything in one transaction, so that a node which is not in it yet sees what the transaction writes (upgrade.UP2).
func readView(ctx context.Context, tx *txn.Txn) (v View, err error) {
	if v.Cluster, err = readCluster(ctx, tx); err != nil {
		return v, err
	}
	members, gone := map[kv.NodeID]Member{}, map[kv.NodeID]bool{}
	err = scan(ctx, tx, keys.LivenessSpan(), func(id kv.NodeID, b []byte) error {
		l, err := cluster.DecodeLiveness(b)
		members[id], gone[id] = Member{Node: id}, l.Decommissioned
		return err
	})
	if err != nil {
		return v, err
	}
	err = scan(ctx, tx, keys.NodeVersionSpan(), func(id kv.NodeID, b []byte) error {
		m := Member{Node: id}
		err := wire.Decode(b, &m, (*Member).fields)
		members[id] = m
		return err
	})
	for id, m := range members {
		if !gone[id] {
			v.Members = append(v.Members, m)
		}
	}
	slices.SortFunc(v.Members, func(a, b Member) int { return int(a.Node) - int(b.Node) })
	return v, err
}

// lacking lists the members of which f does not hold.
func (v *View) lacking(f func(*Member) bool) (out []kv.NodeID) {
	for i := range v.Members {
		if !f(&v.Members[i]) {
			out = append(out, v.Members[i].Node)
		}
	}
	return out
}

// promised lists the members that have not promised a version yet, acting those that do not act by it yet.
func (v *View) promised(to version.Version) []kv.NodeID {
	return v.lacking(func(m *Member) bool { return !m.Promised.Less(to) })
}

func (v *View) acting(by version.Version) []kv.NodeID {
	return v.lacking(func(m *Member) bool { return !m.Acting.Less(by) })
}

// Target is the latest version that every member's binary has.
func (v *View) Target() (to version.Version) {
	for i, m := range v.Members {
		if i == 0 || m.Own.Less(to) {
			to = m.Own
		}
	}
	return to
}
