package kv

import (
	"fmt"

	"meridian/clock"
	"meridian/keys"
	"meridian/wire"
)

// ReplicaType is a replica's part in consensus.
type ReplicaType uint8

const (
	Voter ReplicaType = iota
	// NonVoter follows and serves stale reads; it never votes (CRDB'22 §5.2).
	NonVoter
	// Learner is a voter to be, while it catches up.
	Learner
	// VoterIncoming votes in the new configuration of a joint state only.
	VoterIncoming
	// VoterOutgoing votes in the old configuration of a joint state only.
	VoterOutgoing
	// VoterDemoting votes in the old configuration of a joint state only, and stays as a non-voter.
	VoterDemoting
)

// Joint reports whether the type belongs to a joint state.
func (t ReplicaType) Joint() bool {
	return t == VoterIncoming || t == VoterOutgoing || t == VoterDemoting
}

// ReplicaDescriptor names one replica of a range.
type ReplicaDescriptor struct {
	Node    NodeID
	Store   StoreID
	Replica ReplicaID
	Type    ReplicaType
	// Witness says that the replica votes and keeps the log, but applies nothing of users' data: it has no rows, no locks and no transaction
	// records (docs/replication.md). A replica is one for all of its life, with any type but NonVoter and VoterDemoting.
	Witness bool
}

// RangeDescriptor is a range's span and replicas. Generation grows with every change of either.
type RangeDescriptor struct {
	ID          RangeID
	Start, End  keys.Key
	Replicas    []ReplicaDescriptor
	NextReplica ReplicaID
	Generation  uint64
	// Protocol is the commit protocol of the range's table.
	Protocol Protocol
	// Keep is until when the range is not merged into its left neighbour unless asked: somebody split it off by hand.
	Keep clock.Timestamp
	// Unknown are fields that a later version wrote; a change of the descriptor keeps them.
	Unknown wire.Unknown
}

// Contains reports whether the range holds k.
func (d *RangeDescriptor) Contains(k keys.Key) bool {
	return d.Start.Compare(k) <= 0 && k.Compare(d.End) < 0
}

// Span is the keys of the range.
func (d *RangeDescriptor) Span() keys.Span { return keys.Span{Start: d.Start, End: d.End} }

// Replica returns the replica on a node.
func (d *RangeDescriptor) Replica(n NodeID) (ReplicaDescriptor, bool) {
	for _, r := range d.Replicas {
		if r.Node == n {
			return r, true
		}
	}
	return ReplicaDescriptor{}, false
}

// NextOn is the least number that a replica of the range may have on a node when the node's earlier ones are gone: that of the replica which the
// range has there, since it may have come back in the meantime, or else the next one.
func (d *RangeDescriptor) NextOn(node NodeID) ReplicaID {
	if r, ok := d.Replica(node); ok {
		return r.Replica
	}
	return d.NextReplica
}

// Quorum reports whether the replicas that has names are a majority of the range's voters; while two configurations are joint,
// of the voters of each of them. Any two quorums of one descriptor have a replica in common, and so have quorums of two
// descriptors of which the second follows the first by one change of replicas.
func (d *RangeDescriptor) Quorum(has func(*ReplicaDescriptor) bool) bool {
	var all, have [2]int // of the later configuration, and of the earlier one
	for i := range d.Replicas {
		r := &d.Replicas[i]
		later := r.Type == Voter || r.Type == VoterIncoming
		earlier := r.Type == Voter || r.Type == VoterOutgoing || r.Type == VoterDemoting
		if !later && !earlier {
			continue
		}
		yes := has(r)
		for side, in := range [2]bool{later, earlier} {
			if in {
				all[side]++
				if yes {
					have[side]++
				}
			}
		}
	}
	return have[0] > all[0]/2 && have[1] > all[1]/2
}

// Votes reports whether a replica counts in Quorum.
func (t ReplicaType) Votes() bool { return t != NonVoter && t != Learner }

// Full reports whether the replica has the range's data.
func (p ReplicaDescriptor) Full() bool { return !p.Witness }

// HasWitness reports whether one of the replicas is a witness.
func (d *RangeDescriptor) HasWitness() bool {
	for i := range d.Replicas {
		if d.Replicas[i].Witness {
			return true
		}
	}
	return false
}

// Clone copies d; keys are shared.
func (d *RangeDescriptor) Clone() *RangeDescriptor {
	c := *d
	c.Replicas = append([]ReplicaDescriptor(nil), d.Replicas...)
	return &c
}

func (d *RangeDescriptor) String() string {
	return fmt.Sprintf("r%d:[%x,%x) gen=%d", d.ID, []byte(d.Start), []byte(d.End), d.Generation)
}
