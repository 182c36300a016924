package placement

import "meridian/kv"

// Find looks for a node among targets.
func Find(targets []kv.ReplicaTarget, n kv.NodeID) (kv.ReplicaTarget, bool) {
	for _, t := range targets {
		if t.Node == n {
			return t, true
		}
	}
	return kv.ReplicaTarget{}, false
}
