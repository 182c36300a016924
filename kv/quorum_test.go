package kv

import (
	"math/bits"
	"testing"
)

// TestQuorum says which replicas are a quorum: the letters name replica types, and upper case the replicas that have answered.
func TestQuorum(t *testing.T) {
	types := map[byte]ReplicaType{'v': Voter, 'n': NonVoter, 'l': Learner, 'i': VoterIncoming, 'o': VoterOutgoing, 'd': VoterDemoting}
	for _, c := range []struct {
		replicas string
		want     bool
	}{
		{"V", true}, {"v", false},
		{"Vv", false}, {"VV", true},
		{"VVv", true}, {"Vvv", false},
		{"VVvv", false}, {"VVVv", true},
		{"VvvN", false}, {"VvvLLNN", false}, // only voters count
		// One voter is exchanged: the later configuration is vvi, the earlier one vvo.
		{"VVio", true}, {"VvIo", false}, {"VvIO", true}, {"VviO", false}, {"vvIO", false},
		// Two of three: vii and voo.
		{"VIIoo", false}, {"ViIOo", true}, {"vIIOO", true}, {"ViiOO", false}, {"vIIOo", false},
		// All of three, one of which stays as a non-voter.
		{"IIiOOd", true}, {"IIiOod", false}, {"IIiOoD", true}, {"iiIOOD", false},
		// A voter is added, and one becomes a non-voter, without a counterpart.
		{"VVvi", false}, {"VVvI", true}, {"VVd", true}, {"VvD", false}, {"Vvd", false},
	} {
		var d RangeDescriptor
		has := map[ReplicaID]bool{}
		for i := range len(c.replicas) {
			id := ReplicaID(i + 1)
			has[id] = c.replicas[i] < 'a'
			d.Replicas = append(d.Replicas, ReplicaDescriptor{Node: NodeID(id), Replica: id, Type: types[c.replicas[i]|0x20]})
		}
		if got := d.Quorum(func(r *ReplicaDescriptor) bool { return has[r.Replica] }); got != c.want {
			t.Errorf("%s: %t", c.replicas, got)
		}
	}
}

// TestQuorumsMeet tries all descriptors of up to six replicas, and all pairs of quorums of each: they have a replica in common. So
// have a quorum of a joint configuration and one of what it came from, or of what it leads to.
func TestQuorumsMeet(t *testing.T) {
	var try func(d *RangeDescriptor, more int)
	quorums := func(d *RangeDescriptor) (out []uint) {
		for set := range uint(1) << 6 {
			if d.Quorum(func(r *ReplicaDescriptor) bool { return set>>r.Replica&1 != 0 }) {
				minimal := true
				for _, q := range out {
					minimal = minimal && set&q != q
				}
				if minimal {
					out = append(out, set)
				}
			}
		}
		return out
	}
	as := func(d *RangeDescriptor, becomes map[ReplicaType]ReplicaType) *RangeDescriptor {
		c := d.Clone()
		for i := range c.Replicas {
			if to, ok := becomes[c.Replicas[i].Type]; ok {
				c.Replicas[i].Type = to
			}
		}
		return c
	}
	try = func(d *RangeDescriptor, more int) {
		if more > 0 {
			for typ := range VoterDemoting + 1 {
				c := d.Clone()
				c.Replicas = append(c.Replicas, ReplicaDescriptor{Replica: ReplicaID(len(d.Replicas)), Type: typ})
				try(c, more-1)
			}
			return
		}
		before := as(d, map[ReplicaType]ReplicaType{VoterIncoming: Learner, VoterOutgoing: Voter, VoterDemoting: Voter})
		after := as(d, map[ReplicaType]ReplicaType{VoterIncoming: Voter, VoterOutgoing: Learner, VoterDemoting: NonVoter})
		mine := quorums(d)
		for _, other := range []*RangeDescriptor{d, before, after} {
			theirs := quorums(other)
			for _, a := range mine {
				for _, b := range theirs {
					if bits.OnesCount(a&b) == 0 {
						t.Fatalf("%06b of %v and %06b of %v have no replica in common", a, d.Replicas, b, other.Replicas)
					}
				}
			}
		}
	}
	for n := range 5 {
		try(&RangeDescriptor{}, n+1)
	}
}

// TestUnknownProtocol: a descriptor of a protocol that no binary of the product has is read, and its protocol can be named.
func TestUnknownProtocol(t *testing.T) {
	d := RangeDescriptor{ID: 1, Start: []byte{}, End: []byte("z"), Protocol: MaxProtocol}
	got, err := DecodeRangeDescriptor(d.Append(nil))
	if err != nil || got.Protocol != MaxProtocol || got.Protocol.String() != "protocol 127" {
		t.Fatalf("%v, %v", &got, err)
	}
	for p := range MaxProtocol {
		if p.String() == "" {
			t.Errorf("protocol %d has no name", uint8(p))
		}
	}
}
