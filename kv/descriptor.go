package kv

import (
	"fmt"

	"meridian/clock"
	"meridian/keys"
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

// Clone copies d; keys are shared.
func (d *RangeDescriptor) Clone() *RangeDescriptor {
	c := *d
	c.Replicas = append([]ReplicaDescriptor(nil), d.Replicas...)
	return &c
}

func (d *RangeDescriptor) String() string {
	return fmt.Sprintf("r%d:[%x,%x) gen=%d", d.ID, []byte(d.Start), []byte(d.End), d.Generation)
}
