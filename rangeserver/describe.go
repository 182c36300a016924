package rangeserver

import (
	"fmt"
	"io"

	"meridian/clock"
	"meridian/replica/lease"
)

// Describe writes the state of every replica: for the diagnosis of a store that misbehaves.
func (s *Store) Describe(w io.Writer) {
	s.ranges.Range(func(_, v any) bool {
		e := v.(*entry)
		st := e.r.Status()
		d, l := st.Desc, st.Lease
		st.Desc, st.Lease = nil, lease.Lease{}
		_, good := e.r.Lease()
		_, serves := e.r.CheckLease(clock.Timestamp{})
		fmt.Fprintf(w, "  r%d/%d %v, %v (good %t, serves %t), intents %d, suspect %t, busy %t, leads by %s\n    %+v\n",
			e.r.RangeID(), e.r.ReplicaID(), d, l, good, serves, e.r.Stats().IntentCount, e.load.suspect.Load(), len(e.admin) > 0, e.r.Closer().Leads(), st)
		if e.ready.Load() {
			if p, ok := e.leader.(interface{ Describe(io.Writer) }); ok {
				p.Describe(w)
			}
		}
		return true
	})
}
