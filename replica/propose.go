package replica

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"meridian/kv"
)

// proposal is a command of this replica on its way through the log.
type proposal struct {
	id        uint64
	data      []byte
	change    *raftpb.ConfChangeV2 // if the command changes replicas
	sequence  uint64               // of the lease it was evaluated under; zero: independent of leases
	index     uint64               // lease index
	tick      int64                // when it was last given to raft
	done      chan error
	abandoned bool // no goroutine waits; Settled is called instead
	settled   func()
}

// errReordered refuses a command whose lease index was passed: another copy of it or a later command came first.
var errReordered = errors.New("replica: lease index passed")

// errUnled is the error for a proposer that waits while the range has no leader. It is not the proposal's outcome, which may still come.
var errUnled = errors.New("the range has had no leader for a while")

// Propose replicates a command and returns nil once it is applied on this replica and durable on a quorum (I1).
//
// *kv.NotLeaseholderError, *kv.RangeNotFoundError, *kv.UnavailableError: it was not and will never be applied.
// *kv.AmbiguousError: the context ended first, or the range has lost its leader (replica.R5), and Command.Settled is called when the outcome is known; or the
// replica was removed or its store failed, and this replica will not learn the outcome (Settled is called too).
func (r *Replica) Propose(ctx context.Context, c *Command) error {
	x, err := r.Start(c, false)
	if err != nil {
		return err
	}
	return x.Wait(ctx)
}

// await returns a proposal's outcome.
func (r *Replica) await(ctx context.Context, c *Command, p *proposal) error {
	select {
	case err := <-p.done:
		if err != errUnled {
			return settle(c, err)
		}
	default:
		select {
		case err := <-p.done:
			if err != errUnled {
				return settle(c, err)
			}
		case <-ctx.Done():
		case <-r.o.Host.Group.Context().Done():
		}
	}
	r.hold()
	defer r.release()
	select {
	case err := <-p.done: // it was faster
		if err != errUnled {
			return settle(c, err)
		}
	default:
	}
	p.abandoned, p.settled = true, c.Settled
	reason := errUnled.Error()
	switch {
	case ctx.Err() != nil:
		reason = ctx.Err().Error()
	case r.o.Host.Group.Context().Err() != nil:
		reason = "node stopped"
	}
	return &kv.AmbiguousError{Reason: reason}
}

// settle calls Settled for outcomes that stay unknown though the proposal is over.
func settle(c *Command, err error) error {
	if err == nil || c.Settled == nil {
		return err
	}
	var ambiguous *kv.AmbiguousError
	if errors.As(err, &ambiguous) {
		c.Settled()
	}
	return err
}

// propose numbers and encodes a command and gives it to raft.
func (r *Replica) propose(c *Command, p *proposal) error {
	if r.gone.Load() {
		return &kv.RangeNotFoundError{Range: r.rangeID}
	}
	if c.lease == nil && c.truncate.index == 0 {
		if c.LeaseSequence != r.leaseNow.Load().Sequence {
			return r.notLeaseholder()
		}
		p.index = r.nextIndex
		r.nextIndex++
		c.maxLeaseIndex = p.index
		c.ClosedTimestamp = r.closing()
		c.laterCommand.propose(r)
	}
	r.nextID++
	c.id, p.id = r.nextID, r.nextID
	p.data = c.encode()
	if c.Trigger != nil && c.Trigger.Replicas != nil && !slices.Equal(r.desc.Load().Replicas, c.Trigger.Replicas.Desc.Replicas) {
		p.change = confChange(r.desc.Load(), &c.Trigger.Replicas.Desc)
		p.change.Context = p.data
	}
	r.proposals[p.id] = p
	r.o.Metrics.Proposals.Add(1)
	r.busyAt = r.ticks
	r.wake()
	r.give(p)
	return nil
}

// give hands a proposal to raft. If raft drops it, for lack of a leader or of space, it is given again later.
func (r *Replica) give(p *proposal) {
	p.tick = r.ticks
	var err error
	if p.change != nil {
		err = r.raft.ProposeConfChange(p.change)
	} else {
		err = r.raft.Propose(p.data)
	}
	if err != nil {
		p.tick = r.ticks - retryTicks + 1
	}
}

// renew gives a proposal another lease index. Every copy with the old one is void, because that index was passed.
func (r *Replica) renew(p *proposal) {
	p.index = r.nextIndex
	r.nextIndex++
	p.data = renumber(p.data, p.index)
	if p.change != nil {
		p.change = proto.Clone(p.change).(*raftpb.ConfChangeV2)
		p.change.Context = p.data
	}
	r.give(p)
}

// refused handles a command of this replica that replica.R1 prevented from being applied.
func (r *Replica) refused(p *proposal, c *Command, why error) {
	if why == errReordered {
		if c.maxLeaseIndex == p.index {
			r.o.Metrics.Reproposals.Add(1)
			r.renew(p)
		}
		return // else this was an older copy, and the newer one is in flight
	}
	delete(r.proposals, p.id)
	r.answer(p, why)
}

// answer ends a proposal.
func (r *Replica) answer(p *proposal, err error) {
	if p.abandoned {
		if p.settled != nil {
			p.settled()
		}
		return
	}
	for {
		select {
		case p.done <- err:
			return
		case <-p.done: // errUnled, which was not received
		}
	}
}

// reproposeAll repeats proposals that raft got at least age ticks ago, oldest first, but for one; nil: all.
func (r *Replica) reproposeAll(age int64, but *proposal) {
	if len(r.proposals) == 0 {
		return
	}
	var again []*proposal
	for _, p := range r.proposals {
		if p != but && r.ticks-p.tick >= age {
			again = append(again, p)
		}
	}
	slices.SortFunc(again, func(a, b *proposal) int { return cmp.Compare(a.id, b.id) })
	for _, p := range again {
		r.o.Metrics.Reproposals.Add(1)
		r.give(p)
	}
}

// dropProposals answers the proposals that a new lease made void (replica.R1): no copy of them can be applied any more.
func (r *Replica) dropProposals(sequence uint64) {
	for id, p := range r.proposals {
		if p.sequence != 0 && p.sequence < sequence {
			delete(r.proposals, id)
			r.answer(p, r.notLeaseholder())
		}
	}
}

// confChange is raft's configuration change from one descriptor to another. A descriptor in a
// joint state enters the joint configuration; the one after it leaves it.
func confChange(from, to *kv.RangeDescriptor) *raftpb.ConfChangeV2 {
	cc := &raftpb.ConfChangeV2{}
	joint := isJoint(to)
	if isJoint(from) && !joint {
		return cc
	}
	if joint {
		cc.Transition = raftpb.ConfChangeTransitionJointExplicit.Enum()
	}
	add := func(t raftpb.ConfChangeType, id kv.ReplicaID) {
		cc.Changes = append(cc.Changes, &raftpb.ConfChangeSingle{Type: t.Enum(), NodeId: new(uint64(id))})
	}
	old := make(map[kv.ReplicaID]kv.ReplicaType, len(from.Replicas))
	for _, r := range from.Replicas {
		old[r.Replica] = r.Type
	}
	for _, r := range to.Replicas {
		was, had := old[r.Replica]
		delete(old, r.Replica)
		switch r.Type {
		case kv.Voter, kv.VoterIncoming:
			if !had || was == kv.Learner || was == kv.NonVoter {
				add(raftpb.ConfChangeAddNode, r.Replica)
			}
		case kv.VoterOutgoing:
			add(raftpb.ConfChangeRemoveNode, r.Replica)
		case kv.VoterDemoting:
			add(raftpb.ConfChangeAddLearnerNode, r.Replica)
		case kv.Learner, kv.NonVoter:
			if !had || was != r.Type { // a demoted voter; or a learner that stays, which is no change to raft
				add(raftpb.ConfChangeAddLearnerNode, r.Replica)
			}
		}
	}
	for _, r := range from.Replicas {
		if _, left := old[r.Replica]; left {
			add(raftpb.ConfChangeRemoveNode, r.Replica)
		}
	}
	return cc
}
