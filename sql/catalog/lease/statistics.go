package lease

import (
	"context"
	"maps"
	"time"

	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/txn"
)

// PutStatistics stores a table's statistics and tells the other nodes, which may learn of it late.
func (m *Manager) PutStatistics(ctx context.Context, id catalog.ID, s *catalog.Statistics) error {
	if err := m.o.DB.Put(ctx, statisticsKey(id), appendStatistics(nil, s)); err != nil {
		return err
	}
	m.setStatistics(map[catalog.ID]*catalog.Statistics{id: s})
	if m.o.Notifier != nil {
		payload, err := encodeMessage(nil, []catalog.ID{id})
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

// Forget removes a dropped descriptor, its statistics and its grants, once its data is gone.
func (m *Manager) Forget(ctx context.Context, id catalog.ID) error {
	err := m.o.DB.Run(ctx, txn.TxnOptions{Name: "forget"}, func(ctx context.Context, tx *txn.Txn) error {
		var b txn.WriteBatch
		b.Delete(descriptorKey(id))
		b.Delete(descriptorKey(catalog.ACLID(id)))
		b.Delete(statisticsKey(id))
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
		row, err := decodeTenure(r.Value)
		if err != nil {
			return nil, err
		}
		out = append(out, Tenure{kv.NodeID(row.Node), row.Expiration, row.Applied})
	}
	return out, nil
}
