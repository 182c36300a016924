package replica

import (
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"meridian/keys"
	"meridian/kv"
)

// A witness is a voter without users' data (kv.ReplicaDescriptor.Witness). With two regions of two voters each, it is the fifth voter in a third place, so
// that either region can be lost:
//
//	          region A        region B        witness region
//	          a1    a2        b1    b2        w
//	log       x     x         .     .         x      committed: three of five have it
//	data      x     x         .     .         -
//
// It keeps the log and the hard state as every voter does, since its vote would be worth nothing otherwise: if A is lost in the moment of the picture, the
// entry is in w's log alone, and b1 and b2 get it from there. Of what a command does it applies only the range-ID local keys: applied state, lease,
// threshold of garbage collection, copy of the descriptor. They are the same as on the other replicas (replica.R4). It holds no lease, closes no timestamp,
// serves no read, and is no source of raft snapshots for the others; a raft snapshot for it has range-ID local keys only.
//
//	replica.R12 (I1): In a range with a witness, an entry is truncated only when full voters that are a quorum by themselves have it durably. So every
//	    quorum has a full voter that has the entry in its data or in its log, as it would if the witness were a full voter, and no vote of a witness stands for
//	    an entry that is nowhere. There is one exception: a log longer than logBytesMax is truncated up to what the applied state of the leader, a full voter,
//	    has. A log gets so long only while so many full voters are away that the others are no quorum without the witness: after a first failure, that is. An
//	    acknowledged write can then be lost if those that have it are lost for good, too, before the ones that were away have got it: by two failures
//	    that overlap. A configuration with a new witness holds alone when full voters that are a quorum of it have all that the witness' first raft
//	    snapshot covers (rangeserver's awaitBacked): the witness votes after that, or in a joint configuration, whose earlier voters have it. Later snapshots cover
//	    only what was committed without it.
//
// Users' bytes are in a witness' log until replica.R12 lets them go, and in files of its store until the engine has compacted these. So logs of such ranges are
// truncated within witnessTicks, also when the range is about to fall asleep, and not when they are long.
//
// # Elections
//
// After the loss of region A, w may be the only one that can be elected: b1 and b2 lack its entry. It campaigns as soon as one of them asks it for a pre-vote that
// it can't grant, instead of after its own time-out. The leader's first duty is to bring the others up to date; then it gives the leadership to one
// that may have the lease (stepAside, followLease).

// witnessTicks is how long a leader waits at most before it has the log of a range with a witness truncated.
const witnessTicks = 10

// isWitness reports whether this replica is a witness. One that is not initialised learns it from its first raft snapshot.
func (r *Replica) isWitness() bool {
	d := r.desc.Load()
	if d == nil {
		return false
	}
	for i := range d.Replicas {
		if p := &d.Replicas[i]; p.Replica == r.replicaID {
			return p.Witness
		}
	}
	return false
}

// IsWitness reports whether this replica has none of the range's data.
func (r *Replica) IsWitness() bool { return r.isWitness() }

// ofWitness reports whether a witness applies a change of a key: those of range-ID local keys.
func ofWitness(k keys.Key) bool {
	_, err := keys.DecodeRangeIDKey(k)
	return err == nil
}

// durable is the highest index that full voters have durably who are a quorum by themselves (replica.R12).
func (r *Replica) durable() (least uint64) {
	d := r.desc.Load()
	match := make(map[kv.ReplicaID]uint64, len(d.Replicas))
	r.raft.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) { match[kv.ReplicaID(id)] = pr.Match })
	for _, at := range match {
		if at > least && d.Quorum(func(p *kv.ReplicaDescriptor) bool { return p.Full() && match[p.Replica] >= at }) {
			least = at
		}
	}
	return least
}

// exposed reports whether the log has users' bytes that can be truncated, though a witness has the log. Only the leader knows.
func (r *Replica) exposed() bool {
	return r.desc.Load().HasWitness() && r.wroteAt > r.raftLog.truncated.index && r.truncatable() > r.raftLog.truncated.index
}

// volunteers has a witness campaign whose log is ahead of that of a voter that asks for a vote, if it knows of no leader: nobody else may be able
// to win.
func (r *Replica) volunteers(m *raftpb.Message) {
	if m.GetType() != raftpb.MsgPreVote && m.GetType() != raftpb.MsgVote || !r.isWitness() {
		return
	}
	last, st := r.raftLog.last, r.raft.BasicStatus()
	if r.yields() || st.Lead != 0 || st.RaftState != raft.StateFollower || last.term < m.GetLogTerm() || last.term == m.GetLogTerm() && last.index <= m.GetIndex() {
		return
	}
	_ = r.raft.Campaign()
}

// unsendable notes that a full replica needs a raft snapshot, and that this leader, a witness, has no data to send.
func (r *Replica) unsendable(to kv.ReplicaID) {
	r.sending[to] = true // so that there is one
	r.waiting = append(r.waiting, to)
}

// stepsBack tells raft that the raft snapshots of unsendable were not sent. Raft asks again; the replica that can send them leads as soon as it
// answers.
func (r *Replica) stepsBack() {
	for _, to := range r.waiting {
		delete(r.sending, to)
		r.raft.ReportSnapshot(uint64(to), raft.SnapshotFailure)
	}
	r.waiting = r.waiting[:0]
}
