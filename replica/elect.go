package replica

import (
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// Two voters that campaign within a message's time of each other may each vote for themselves, and then none is elected until the next
// time-out, 1 to 2 s later. Between continents that happened in one failover of ten. Pre-votes come first and are not binding, so the two
// can agree in time:
//
//	replica.R7: of two pre-candidates one yields: the one whose log is behind, or if the logs are equal the one with the greater number. A
//	    voter that has granted another one a pre-vote, to which it yields, begins no campaign and takes no pre-votes for its own
//	    for yieldTicks; a real election of its own that has begun continues.
//
//	   1 ---- pre-vote? -----.  .---- granted ------- vote? ------- leader
//	                          \/
//	   2 -- pre-vote? --------/\---- granted: ignored
//
// The request of the first reaches the second before the first's answer does, unless the first had heard of the second before it
// campaigned itself; then it had yielded, or the second does. Ignoring messages and ticks is always safe. A voter that yields to one that can't win
// loses yieldTicks of an election time-out: the other campaigns again after electionTicks at the earliest, so that there is
// always a gap in which it may campaign.

// yieldTicks is as long as a pre-vote, its answer and the request for the vote take over the longest links.
const yieldTicks = 4

// meets notes that another voter asks for pre-votes. It is a rival if this one should yield to it (replica.R7).
func (r *Replica) meets(m *raftpb.Message) {
	if m.GetType() != raftpb.MsgPreVote {
		return
	}
	if last := r.raftLog.last; m.GetLogTerm() == last.term && m.GetIndex() == last.index && m.GetFrom() > uint64(r.replicaID) {
		r.rival = 0
	} else {
		r.rival = m.GetFrom()
	}
}

// granted looks for a pre-vote for the rival among raft's answers: from now on this voter yields to it. Raft alone knows whether it
// grants one, and answers nothing to a rival whose log is behind, or as long as it has heard of a leader lately.
func (r *Replica) granted(answers []*raftpb.Message) {
	if r.rival == 0 {
		return
	}
	for _, m := range answers {
		if m.GetType() == raftpb.MsgPreVoteResp && !m.GetReject() && m.GetTo() == r.rival {
			r.yieldUntil, r.rival = r.ticks+yieldTicks, 0
		}
	}
}

// yields reports whether this voter lets another one be elected. One that has asked for real votes can't withdraw.
func (r *Replica) yields() bool {
	if r.ticks >= r.yieldUntil {
		return false
	}
	s := r.raft.BasicStatus().RaftState
	return s == raft.StateFollower || s == raft.StatePreCandidate
}
