package lease

import (
	"context"
	"errors"

	"meridian/clock"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
)

// Hold is a use of the catalogue by something other than a statement: a change of a range that was decided by the configurations of spans
// (package region). As for a statement's transaction, publication of the next versions of what it uses waits until it is released, and what it does commits at or
// before Deadline, or not at all (lease.L1, lease.L3). It should be short.
type Hold struct {
	t *Txn
	s *Snapshot
}

// ErrNoTenure says that the node may not use the catalogue that it knows: it has not read one yet, or its tenure is over.
var ErrNoTenure = errors.New("lease: the node may not use its catalogue at present")

// Hold begins a use of the descriptors that of names in a snapshot. It fails if the node has no tenure, or if one of them has something that only a later version
// can read. Release must be called.
func (m *Manager) Hold(of func(*Snapshot) []catalog.ID) (*Hold, error) {
	h := &Hold{t: &Txn{m: m}}
	if h.t.tenure = m.tenure.Load(); h.t.tenure == nil || h.t.tenure.deadline().LessEq(m.o.Clock.Now()) {
		return nil, ErrNoTenure
	}
	m.mu.Lock()
	m.open[h.t] = struct{}{}
	m.mu.Unlock()
	for {
		h.s = m.snap.Load()
		ids := of(h.s)
		h.t.mu.Lock()
		h.t.uses = h.t.uses[:0]
		var err error
		for _, id := range ids {
			d := h.s.descriptor(id)
			if d == nil {
				continue
			}
			if d.later != nil {
				err = sqlstate.New(sqlstate.FeatureNotSupported, "object %d was changed by a later version of Meridian", id)
			}
			h.t.uses = append(h.t.uses, use{id, d.Version()})
		}
		h.t.mu.Unlock()
		if err != nil {
			h.Release()
			return nil, err
		}
		// The snapshot is loaded after the note, as in Txn.Use: a drain that did not see the note had swapped the snapshot before.
		if m.snap.Load() == h.s {
			return h, nil
		}
		m.released()
	}
}

// Snapshot is the catalogue as it is used.
func (h *Hold) Snapshot() *Snapshot { return h.s }

// Deadline implements txn.DeadlineSource.
func (h *Hold) Deadline() clock.Timestamp { return h.t.Deadline() }

// AwaitDeadline implements txn.DeadlineSource.
func (h *Hold) AwaitDeadline(ctx context.Context, at clock.Timestamp) { h.t.AwaitDeadline(ctx, at) }

// Release ends the use.
func (h *Hold) Release() {
	m := h.t.m
	m.mu.Lock()
	delete(m.open, h.t)
	m.mu.Unlock()
	m.released()
}
