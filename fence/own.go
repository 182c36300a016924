package fence

import (
	"fmt"

	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
	"meridian/wire"
)

// own is what a store remembers of its node's starts.
type own struct {
	Start Start
	// Position is where the store was found by the first start since the last that was cleared (fence.FE4).
	Position uint64
	// Cleared: a quorum has recorded the start, so that what is written from here on counts.
	Cleared bool
}

func readOwn(e *engine.Engine) (o own, err error) {
	v, err := e.Get(keys.StoreStartKey())
	if err != nil || v == nil {
		return o, err
	}
	if err := wire.Decode(v, &o, (*own).fields); err != nil {
		return o, fmt.Errorf("fence: the store's own start: %w", err)
	}
	return o, nil
}

func (o *own) write(e *engine.Engine) error {
	b := e.NewBatch()
	defer b.Close()
	b.Put(keys.StoreStartKey(), wire.Append(nil, o, (*own).fields))
	return b.Commit(true)
}

// next is the start after o on a store that was found at a position.
func (o own) next(token, opening uint64) own {
	n := own{Start: Start{o.Start.Number + 1, token}, Position: opening}
	if !o.Cleared && o.Start.Number > 0 {
		n.Position = min(opening, o.Position)
	}
	return n
}

func readRegister(e *engine.Engine, r *Register) error {
	span := keys.StorePeerSpan()
	it, err := e.NewIter(engine.IterOptions{Lower: span.Start, Upper: span.End})
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		k, _ := it.Key()
		node, err := keys.DecodeStorePeerKey(k)
		if err != nil {
			return err
		}
		v, err := it.Value()
		if err != nil {
			return err
		}
		var known Known
		if err := wire.Decode(v, &known, (*Known).fields); err != nil {
			return fmt.Errorf("fence: what is known of node %d: %w", node, err)
		}
		r.Load(kv.NodeID(node), known)
	}
	return it.Error()
}

// AppendChanges puts into a batch what was learnt of others since the last time.
func (f *Fence) AppendChanges(b *engine.Batch) {
	f.register.Unsaved(func(node kv.NodeID, k Known) { putKnown(b, node, k) })
}

func putKnown(b *engine.Batch, node kv.NodeID, k Known) {
	b.Put(keys.StorePeerKey(node), wire.Append(nil, &k, (*Known).fields))
}
