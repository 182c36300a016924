package cluster

import (
	"testing"

	"meridian/clock"
	"meridian/kv"
)

// TestOlderRecords: news about a node that come late do not take the place of later ones (cluster.L1).
func TestOlderRecords(t *testing.T) {
	c := &Cluster{records: map[kv.NodeID]Liveness{}, o: Options{MaxNodes: 2}}
	record := func(incarnation uint64, expires int64) Liveness {
		return Liveness{Node: 1, Incarnation: incarnation, Expiration: clock.Timestamp{Wall: expires}}
	}
	for i, x := range []struct{ heard, want Liveness }{
		{record(2, 20), record(2, 20)},
		{record(2, 10), record(2, 20)},
		{record(1, 30), record(2, 20)},
		{record(2, 21), record(2, 21)},
		{record(3, 21), record(3, 21)},
		{record(2, 40), record(3, 21)},
	} {
		c.learnRecord(x.heard)
		if got, _ := c.Record(1); got != x.want {
			t.Errorf("%d: %v was heard, %v is known", i, x.heard, got)
		}
	}
}
