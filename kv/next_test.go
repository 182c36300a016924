package kv

import "testing"

// TestNextOn: a node that was away while its replica was removed and another one added learns of both at once. The tombstone of the first one must not be in the
// way of the second: nothing else would make it, and the range would count a replica that is nowhere (campaign of regions, seeds 408 and 715).
func TestNextOn(t *testing.T) {
	d := RangeDescriptor{Replicas: []ReplicaDescriptor{{Node: 1, Replica: 1}, {Node: 8, Replica: 15, Type: NonVoter}, {Node: 9, Replica: 16}}, NextReplica: 19}
	for node, want := range map[NodeID]ReplicaID{8: 15, 1: 1, 7: 19} {
		if got := d.NextOn(node); got != want {
			t.Errorf("n%d: numbers from %d on are free, want %d", node, got, want)
		}
	}
}
