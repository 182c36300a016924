package replica

import (
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
)

// Acceptors that belong to no range of a store, as simulations of the protocol have them, can have news all the same.

// attached is an acceptor without a participant.
type attached struct {
	a  *core.Acceptor
	id kv.RangeID
}

// tell implements teller.
func (t attached) tell() ([]newsItem, uint64, error) { return tell(t.a, t.id), 0, nil }

// Attach has a store hear an acceptor, of a range of which the store asks nobody. The result is to be the acceptor's listener.
func (n *News) Attach(d *kv.RangeDescriptor, self kv.NodeID, a *core.Acceptor) core.Listener {
	n.mu.Lock()
	n.running = true
	n.mu.Unlock()
	n.join(d, self, attached{a, d.ID})
	return n.of(d.ID)
}

// Heard reports whether the store has heard of an option, and whether the row counts as one that lacks it.
func (n *News) Heard(id kv.RangeID, k keys.Key, name core.Name) (known, lacks bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, known = n.known[n.hash(k, name)]
	for _, l := range n.ranges[id].lacking[string(k)] {
		lacks = lacks || l.name == name
	}
	return known, lacks
}

// Told gives the options that the store tells others to be accepted or executed, from a number on, and the number after the last.
func (n *News) Told(from uint64, f func(k keys.Key, name core.Name)) (next uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for ; from < n.next; from++ {
		if i := &n.items[from%newsMost]; i.Kind != aborted {
			f(i.Key, i.Name)
		}
	}
	return from
}
