package lease

import (
	"context"
	"maps"
	"time"

	"meridian/clock"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/txn"
	"meridian/wire"
)

// PutStatistics stores a table's statistics and tells the other nodes, which may learn of it late.
func (m *Manager) PutStatistics(ctx context.Context, id catalog.ID, s *catalog.Statistics) error {
	if err := m.o.DB.Put(ctx, statisticsKey(id), wire.Append(nil, s, statistics)); err != nil {
		return err
	}
	m.setStatistics(map[catalog.ID]*catalog.Statistics{id: s})
	if m.o.Notifier != nil {
		payload, err := encodeMessage(nil, []catalog.ID{id}, clock.Timestamp{})
		if err != nil {
			return err
		}
		m.o.Host.Group.Go(func(ctx context.Context) {
			limit, cancel := m.o.Host.Clock.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			m.o.Notifier.Broadcast(limit, payload, func(kv.NodeID, []byte) {})
		})
	}
	return nil
}

// Statistics are a table's; nil if there are none.
func (m *Manager) Statistics(id catalog.ID) *catalog.Statistics { return m.snap.Load().stats[id] }

func (m *Manager) setStatistics(news map[catalog.ID]*catalog.Statistics) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := *m.snap.Load()
	s.stats = maps.Clone(s.stats)
	maps.Copy(s.stats, news)
	s.generation++
	m.snap.Store(&s)
}

func (m *Manager) learnStatistics(ctx context.Context, ids []catalog.ID) error {
	news := map[catalog.ID]*catalog.Statistics{}
	for _, id := range ids {
		v, err := m.o.DB.Get(ctx, statisticsKey(id))
		if err != nil {
			return err
		}
		if v == nil {
			continue
		}
		if st, err := decodeStatistics(v); err == nil {
			news[id] = st
		}
	}
	m.setStatistics(news)
	return nil
}

// AddChanges adds to the number of a table's rows that were changed since its statistics were collected, and returns it; less than zero
// counts as zero.
func (m *Manager) AddChanges(ctx context.Context, id catalog.ID, rows int64) (total int64, err error) {
	err = m.o.DB.Run(ctx, txn.TxnOptions{Name: "count changes"}, func(ctx context.Context, tx *txn.Txn) error {
		v, err := tx.Get(ctx, changesKey(id), kv.NoLock, kv.Block)
		if err != nil {
			return err
		}
		c, err := wire.Decoded(v, (*changedRows).fields)
		if err != nil {
			return err
		}
		total = max(c.Rows+rows, 0)
		var b txn.WriteBatch
		switch {
		case total == c.Rows:
			return nil
		case total == 0:
			b.Delete(changesKey(id))
		default:
			b.Put(changesKey(id), wire.Append(nil, &changedRows{total}, (*changedRows).fields))
		}
		return tx.Write(ctx, &b)
	})
	return total, err
}

// Collector claims the right to collect statistics without having been asked, which one node of the cluster has at a time, until
// it gives it back, with a time of zero, or the time has come. It reports whether this node has the right now.
func (m *Manager) Collector(ctx context.Context, until time.Duration) (ours bool, err error) {
	node, now := m.o.NodeID(), m.o.Clock.Wall().UnixNano()
	err = m.o.DB.Run(ctx, txn.TxnOptions{Name: "collector"}, func(ctx context.Context, tx *txn.Txn) error {
		v, err := tx.Get(ctx, collectorKey(), kv.NoLock, kv.Block)
		if err != nil {
			return err
		}
		c, err := wire.Decoded(v, (*collector).fields)
		if err != nil {
			return err
		}
		if ours = kv.NodeID(c.Node) == node || c.Expiration < now; !ours {
			return nil
		}
		var b txn.WriteBatch
		if until == 0 {
			b.Delete(collectorKey())
		} else {
			b.Put(collectorKey(), wire.Append(nil, &collector{uint32(node), now + int64(until)}, (*collector).fields))
		}
		return tx.Write(ctx, &b)
	})
	return ours && err == nil, err
}

// Forget removes a dropped descriptor, its statistics and its grants, once its data is gone.
func (m *Manager) Forget(ctx context.Context, id catalog.ID) error {
	err := m.o.DB.Run(ctx, txn.TxnOptions{Name: "forget"}, func(ctx context.Context, tx *txn.Txn) error {
		var b txn.WriteBatch
		b.Delete(descriptorKey(id))
		b.Delete(descriptorKey(catalog.ACLID(id)))
		b.Delete(statisticsKey(id))
		b.Delete(changesKey(id))
		return tx.Write(ctx, &b)
	})
	if err == nil {
		m.apply([]change{{id: id}, {id: catalog.ACLID(id)}})
	}
	return err
}

// Tenure tells how long a node may use its snapshot of the catalogue; Applied are the versions that are being published
// and that it uses.
type Tenure struct {
	Node       kv.NodeID
	Expiration int64 // wall nanoseconds
	Applied    map[catalog.ID]uint64
}

// Tenures lists the nodes' tenures.
func (m *Manager) Tenures(ctx context.Context) ([]Tenure, error) {
	rows, err := m.o.DB.Scan(ctx, tenureSpan())
	if err != nil {
		return nil, err
	}
	var out []Tenure
	for _, r := range rows {
		row, err := wire.Decoded(r.Value, (*tenureRow).fields)
		if err != nil {
			return nil, err
		}
		out = append(out, Tenure{kv.NodeID(row.Node), row.Expiration, row.Applied})
	}
	return out, nil
}
