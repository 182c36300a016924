package replica

import (
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
)

// Mender brings the replicas of a record up to date; a Client does. The part of the replicas finds it among the node's Finishers.
type Mender interface {
	// Mend has an option's outcome known to its record's replicas, or, of a nil option, their versions made the same. It returns at once.
	Mend(k keys.Key, o *core.Option)
	// MendOutcome has an outcome forgotten that a replica of the record remembers: of an option's name, and the keys of its transaction. It returns at once.
	MendOutcome(k keys.Key, o *core.Option)
}

// mend gives the gateway the items that a replica has found.
func (o *ProtocolOptions) mend(items []core.Overdue) {
	if len(items) == 0 || o.Finishers == nil {
		return
	}
	m, ok := o.Finishers()[kv.FastPaxos].(Mender)
	if !ok {
		return
	}
	for _, i := range items {
		if i.Ended {
			m.MendOutcome(i.Key, i.Option)
		} else {
			m.Mend(i.Key, i.Option)
		}
	}
}
