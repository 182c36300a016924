package engine

import (
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"meridian/keys"
)

// The position of a store is how many changes it has taken in its life: Pebble's sequence number. It never goes back, not
// even over a crash, as far as it was durable. So it tells a store from an older copy of itself (engine.EN4).

// positions are the store's, as the next change would have it.
type positions struct {
	opening   uint64        // when the store was opened, before anything was written
	committed atomic.Uint64 // at or below the end of some commit that is in the log, which may not be synced
	durable   atomic.Uint64 // the same, and synced
}

// raise moves a position forward.
func raise(p *atomic.Uint64, to uint64) {
	for {
		have := p.Load()
		if have >= to || p.CompareAndSwap(have, to) {
			return
		}
	}
}

// Opening is the store's position when it was opened.
func (e *Engine) Opening() uint64 { return e.at.opening }

// Durable is a position that the store has reached and can't lose by a crash any more: all commits whose sync was waited for
// are below it. (A raft snapshot that came as files is, once something is committed after it.)
func (e *Engine) Durable() uint64 { return e.at.durable.Load() }

// ended is the position after a batch that Pebble has taken in. A large batch has lost its number by then; it has got one
// that is not below what was committed before.
func (e *Engine) ended(b *pebble.Batch, before uint64) uint64 {
	end := before + uint64(b.Count())
	if !b.Empty() {
		end = uint64(b.SeqNum()) + uint64(b.Count())
	}
	raise(&e.at.committed, end)
	return end
}

// findOpening learns the position by writing something that changes nothing.
func (e *Engine) findOpening() error {
	b := e.db.NewBatch()
	defer b.Close()
	if err := b.Delete(appendKey(nil, keys.StoreProbeKey()), nil); err != nil {
		return err
	}
	if err := e.db.Apply(b, pebble.NoSync); err != nil {
		return err
	}
	e.at.opening = uint64(b.SeqNum())
	e.at.committed.Store(e.at.opening + 1)
	return nil
}
