package replica

import (
	"fmt"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"meridian/invariant"
	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
	"meridian/wire"
)

// Append is a write of the log that is committed to the engine and not yet synced.
type Append struct {
	Replica   *Replica
	batch     *engine.Batch
	responses []*raftpb.Message
	done      bool
	// lazy: the batch is in the engine's log, but no sync was requested; covered: one was requested since.
	lazy, covered bool
	durable       bool // when it was made
	// covers is a lazy append whose batch is before this one's in the engine's log, so it is durable when this one is; it
	// may cover another one in turn.
	covers *Append
	index  uint64        // of its last entry, zero if it has none
	since  time.Duration // when it was made, by the monotonic clock: ticks of a replica that was busy are made up for at once
}

// SyncWait returns when the append is durable, or the store has failed. It is called once, without the replica held.
func (a *Append) SyncWait() error {
	if a.durable {
		return nil
	}
	if a.lazy {
		if a.covered {
			return nil
		}
		return a.Replica.o.Engine.Sync()
	}
	err := a.batch.SyncWait()
	_ = a.batch.Close()
	return err
}

// Synced says that an append is durable, after SyncWait, and with it those that it covers.
func (a *Append) Synced() {
	for x := a; x != nil; x = x.covers {
		x.Replica.Synced(x)
	}
}

// Frame is messages of one peer, for replicas of one store, that have arrived together. Their appends wait for one sync, the last one's,
// since the engine's log is in the order of its batches (replica.R2). More says that a message with entries follows the one to be received
// next.
type Frame struct {
	More bool
	held *Append // appends without a requested sync, the last one first
}

// await gives an append to the store, or keeps it until one comes that covers it.
func (f *Frame) await(s Store, a *Append) {
	if a.covers, f.held = f.held, nil; a.lazy {
		f.held = a
		return
	}
	s.AwaitSync(a)
}

// End is called when all messages are received.
func (f *Frame) End(s Store) {
	if a := f.held; a != nil { // the last message was refused
		f.held = nil
		s.AwaitSync(a)
	}
}

// Synced says that an append is durable: the promises that waited for it are sent, and entries that they commit are applied.
func (r *Replica) Synced(a *Append) {
	r.hold()
	r.synced(a)
	r.process(false)
	r.release()
}

// synced sends the promises of a and of all appends before it, which are durable too (replica.R2).
func (r *Replica) synced(a *Append) {
	if a.done {
		return
	}
	for len(r.appends) > 0 {
		head := r.appends[0]
		r.appends[0] = nil
		r.appends = r.appends[1:]
		head.done = true
		r.respond(head.responses)
		if head == a {
			return
		}
	}
}

// respond sends promises that are durable.
func (r *Replica) respond(ms []*raftpb.Message) {
	for _, m := range ms {
		if r.gone.Load() {
			return
		}
		if m.GetTo() == uint64(r.replicaID) {
			r.step(m)
		} else {
			r.send(m)
		}
	}
}

func (r *Replica) step(m *raftpb.Message) {
	// An error here means that raft dropped the message: an unknown sender, or a proposal without a leader.
	_ = r.raft.Step(m)
}

// process carries out raft's effects until there are none. If inline, the first append that has to be
// durable is returned for the caller to wait for, after releasing the replica; all others go to the store.
func (r *Replica) process(inline bool) (mine *Append) {
	for !r.gone.Load() && r.raft.HasReady() {
		rd := r.raft.Ready()
		var second *raftpb.Entry // of a leader that has just been elected
		if rd.SoftState != nil {
			second = r.leaderChanged(rd.SoftState, rd.Entries)
		}
		var apply *raftpb.Message
		for _, m := range rd.Messages {
			switch m.GetTo() {
			case raft.LocalAppendThread:
				r.granted(m.Responses)
				a, err := r.appendLog(m)
				if err != nil {
					r.o.Store.Fatal(err)
					return mine
				}
				if a == nil {
					continue
				}
				switch {
				case inline && mine == nil:
					mine = a
				case r.frame != nil:
					r.frame.await(r.o.Store, a)
				default:
					r.o.Store.AwaitSync(a)
				}
			case raft.LocalApplyThread:
				apply = m
			default:
				if second != nil {
					adjoin(m, second)
				}
				r.send(m)
			}
		}
		if apply != nil {
			if err := r.apply(apply.Entries); err != nil {
				r.o.Store.Fatal(err)
				return mine
			}
			if r.gone.Load() {
				return mine
			}
			for _, m := range apply.Responses {
				r.step(m)
			}
		}
	}
	return mine
}

// finish waits for an append that process returned, and continues from there, on the caller's goroutine. It reports whether
// the engine was synced.
func (r *Replica) finish(a *Append) (synced bool) {
	for a != nil {
		if err := a.SyncWait(); err != nil {
			r.o.Store.Fatal(err)
			return false
		}
		synced = true
		r.hold()
		r.synced(a)
		a = r.process(true)
		r.release()
	}
	return synced
}

// appendLog writes what a MsgStorageAppend asks for. The result is nil if its durability is not awaited.
func (r *Replica) appendLog(m *raftpb.Message) (*Append, error) {
	var b *engine.Batch
	var files *engine.Ingestion
	snapshot := !raft.IsEmptySnap(m.GetSnapshot())
	hard := r.raftLog.hard
	if m.Term != nil || m.Vote != nil || m.Commit != nil {
		hard = hardState{m.GetTerm(), m.GetVote(), m.GetCommit()}
	}
	if len(m.Entries) == 0 && !snapshot && hard.term == r.raftLog.hard.term && hard.vote == r.raftLog.hard.vote {
		// This state need not survive: a commit index is learned again after a restart, and is written with the next entries. The responses
		// only wait for appends that are being synced already (replica.R2).
		r.raftLog.hard = hard
		if n := len(r.appends); n > 0 {
			r.appends[n-1].responses = append(r.appends[n-1].responses, m.Responses...)
		} else {
			r.respond(m.Responses)
		}
		return nil, nil
	}
	removed := func() {}
	if snapshot {
		removed = r.removing() // it may have a smaller span
		var err error
		if b, files, err = r.stageSnapshot(m.Snapshot); err != nil {
			return nil, err
		}
	} else {
		b = r.o.Engine.NewBatch()
	}
	if len(m.Entries) > 0 {
		r.raftLog.append(b, m.Entries)
	}
	if hard != r.raftLog.hard || hard.commit != r.raftLog.written {
		r.raftLog.hard, r.raftLog.written = hard, hard.commit
		b.Put(keys.HardStateKey(r.rangeID), r.raftLog.hard.append(nil))
	}
	r.o.Metrics.LogAppends.Add(1)
	if files != nil {
		err := files.Commit(b)
		_ = b.Close()
		if err == nil {
			err = r.snapshotApplied()
		}
		if err != nil {
			return nil, err
		}
		removed()
		a := &Append{Replica: r, durable: true, responses: m.Responses, index: lastIndex(m.Entries), since: r.o.Host.Clock.Monotonic()}
		r.appends = append(r.appends, a)
		return a, nil
	}
	if len(m.Responses) == 0 {
		err := b.Commit(false)
		_ = b.Close()
		return nil, err
	}
	if r.lazily && !snapshot {
		r.lazily = false
		err := b.Commit(false)
		_ = b.Close()
		if err != nil {
			return nil, err
		}
		a := &Append{Replica: r, responses: m.Responses, lazy: true, index: lastIndex(m.Entries), since: r.o.Host.Clock.Monotonic()}
		r.appends = append(r.appends, a)
		return a, nil
	}
	r.o.Metrics.LogSyncs.Add(1)
	if err := b.CommitNoSyncWait(); err != nil {
		return nil, err
	}
	if snapshot {
		if err := r.snapshotApplied(); err != nil {
			return nil, err
		}
		removed()
	}
	a := &Append{Replica: r, batch: b, responses: m.Responses, index: lastIndex(m.Entries), since: r.o.Host.Clock.Monotonic()}
	r.appends = append(r.appends, a)
	return a, nil
}

func lastIndex(ents []*raftpb.Entry) uint64 {
	if n := len(ents); n > 0 {
		return ents[n-1].GetIndex()
	}
	return 0
}

// outcome is a proposal to be answered once the batch that applied it is in the engine.
type outcome struct {
	p   *proposal
	err error
}

// apply carries out committed entries, in as few engine batches as there are changes of the replica itself.
func (r *Replica) apply(ents []*raftpb.Entry) (err error) {
	var b *engine.Batch
	var answers []outcome
	engineHas := r.applied
	defer func() {
		if err != nil {
			r.applied = engineHas
		}
	}()
	commit := func() error {
		b.Put(keys.AppliedStateKey(r.rangeID), r.applied.append(make([]byte, 0, 128)))
		err := b.Commit(false)
		_ = b.Close()
		b = nil
		if err == nil {
			engineHas = r.applied
		}
		return err
	}
	give := func() {
		for i := range answers {
			r.answer(answers[i].p, answers[i].err)
		}
		answers = answers[:0]
	}
	var c Command
	witness := r.isWitness() // a replica is one for all of its life
	for _, e := range ents {
		if b == nil {
			b = r.o.Engine.NewBatch()
		}
		r.applied.position = position{e.GetIndex(), e.GetTerm()}
		data := e.Data
		var change *raftpb.ConfChangeV2
		if e.GetType() == raftpb.EntryConfChangeV2 {
			change = &raftpb.ConfChangeV2{}
			if err := proto.Unmarshal(e.Data, change); err != nil {
				return fmt.Errorf("r%d entry %d: %w", r.rangeID, e.GetIndex(), err)
			}
			data = change.Context
		}
		if len(data) == 0 {
			continue // of a new leader
		}
		c = Command{Commits: r.decoded[:0]}
		if err := decodeCommand(data, &c); err != nil {
			return fmt.Errorf("r%d entry %d: %w", r.rangeID, e.GetIndex(), err)
		}
		p := r.proposals[c.id]
		refused := r.refuse(&c)
		r.o.Metrics.Applied.Add(1)
		if refused != nil {
			r.o.Metrics.Rejected.Add(1)
			if p != nil {
				r.refused(p, &c, refused)
			}
			continue
		}
		if c.lease == nil && c.truncate.index == 0 {
			r.applied.leaseIndex = c.maxLeaseIndex
		}
		if len(c.Batch) > 0 {
			r.wroteAt = e.GetIndex()
		}
		if len(c.Batch) > 0 && c.lease == nil {
			apply := b.ApplyRepr
			if witness {
				apply = func(repr []byte) error { return b.ApplyReprOf(repr, ofWitness) }
			}
			if err := apply(c.Batch); err != nil {
				return fmt.Errorf("r%d entry %d: %w", r.rangeID, e.GetIndex(), err)
			}
		}
		if err := c.laterCommand.carry(r); err != nil {
			return fmt.Errorf("r%d entry %d: %w", r.rangeID, e.GetIndex(), err)
		}
		if len(c.Commits) > 0 {
			r.remember(c.Commits)
		}
		r.applied.stats.Add(c.Delta)
		if !c.WriteAt.IsZero() && c.WriteAt.LessEq(r.applied.closed) {
			invariant.Fail("r%d entry %d writes at %s, but %s is closed (I6)", r.rangeID, e.GetIndex(), c.WriteAt, r.applied.closed)
		}
		r.applied.closed = r.applied.closed.Forward(c.ClosedTimestamp)
		if p != nil {
			delete(r.proposals, c.id)
			answers = append(answers, outcome{p, nil})
		}
		after, err := r.special(b, &c, change)
		if err != nil {
			return err
		}
		if after != nil {
			if err := commit(); err != nil {
				return err
			}
			// Changes of the range itself are visible before they are answered: the proposer releases its latches then, and requests that
			// waited for these must find the new descriptor, not write into keys that belong to another range now. And a range that has
			// lost a part must not show its new statistics with the old span, or a reader would wrongly conclude that there are no intents.
			if c.Trigger == nil || c.Trigger.Split == nil {
				r.publish()
			}
			err := after()
			give()
			if err != nil {
				return err
			}
			if r.gone.Load() {
				return nil
			}
			r.sendLazy()
		}
	}
	if b != nil {
		if err := commit(); err != nil {
			return err
		}
		r.publish()
	}
	give()
	r.raftLog.trim(r.applied.index)
	return nil
}

// refuse checks replica.R1. The answer depends only on the log, so all replicas give the same.
func (r *Replica) refuse(c *Command) error {
	cur := r.leaseNow.Load().Lease
	switch {
	case c.truncate.index != 0:
		return nil
	case c.lease != nil:
		if !mayFollow(r.desc.Load(), cur, *c.lease, c.prevLease, c.given) {
			return r.notLeaseholder()
		}
		return nil
	case c.LeaseSequence != cur.Sequence:
		return r.notLeaseholder()
	case c.maxLeaseIndex <= r.applied.leaseIndex:
		return errReordered
	}
	return nil
}

// special adds the parts of a command that change the replica itself to the batch, and returns a function to be called when the batch is in
// the engine; nil if the command has no such parts.
func (r *Replica) special(b *engine.Batch, c *Command, change *raftpb.ConfChangeV2) (after func() error, err error) {
	switch {
	case c.lease != nil:
		l := *c.lease
		if !c.given {
			l = l.After(r.leaseNow.Load().Lease)
		}
		b.Put(keys.LeaseKey(r.rangeID), l.Append(nil))
		handed := c.Batch
		return func() error { r.setLease(l, handed); return nil }, nil
	case c.truncate.index != 0:
		to := c.truncate
		if to.index <= r.raftLog.truncated.index || to.index > r.applied.index {
			return nil, nil
		}
		r.raftLog.truncate(b, to)
		r.o.Metrics.Truncations.Add(1)
		return nil, nil
	case !c.GCThreshold.IsZero():
		t := c.GCThreshold.Forward(*r.threshold.Load())
		b.Put(keys.GCThresholdKey(r.rangeID), wire.Append(nil, &t, gcThreshold))
		r.threshold.Store(&t) // before the versions are removed, so that a reader that misses some gets an error
		return nil, nil
	case c.Trigger != nil:
		return r.trigger(b, c.Trigger, change)
	case c.Hash != 0:
		id := c.Hash
		return func() error { r.o.Store.HashDue(r, r.hashJob(id)); return nil }, nil
	}
	return nil, nil
}

// send gives a raft message to the store.
func (r *Replica) send(m *raftpb.Message) {
	to, ok := r.peer(kv.ReplicaID(m.GetTo()))
	if !ok {
		return
	}
	if r.muted && m.GetType() == raftpb.MsgHeartbeatResp {
		return
	}
	if m.GetType() == raftpb.MsgSnap {
		r.startSnapshot(m, to)
		return
	}
	if m.GetType() == raftpb.MsgApp {
		if len(m.Entries) == 0 && r.closer.Leads() == 0 && r.follows(m.GetTo()) && r.leaseNow.Load().Holder.Replica != to.Replica {
			r.lazy = append(r.dropLazy(to.Replica), Message{Range: r.rangeID, From: r.Self(), To: to, Raft: m})
			return
		}
		r.lazy = r.dropLazy(to.Replica)
	}
	r.o.Store.SendRaft(Message{Range: r.rangeID, From: r.Self(), To: to, Raft: m})
}

// An append message without entries to a follower that is sent all of them as they come tells it a new commit index,
// which no client waits for, or checks whether an earlier one was lost. It waits for the next tick, or for entries to be sent with, which
// saves half of the messages of a range with writes. The leaseholder hears immediately: its clients wait for its proposals. So does every
// replica when the lease is transferred, and each one of a range that closes the future: what is written is read there soon (CRDB'22 §6.2.1).
func (r *Replica) follows(id uint64) (ok bool) {
	if r.leader.Load() != uint64(r.replicaID) {
		return false
	}
	r.raft.WithProgress(func(p uint64, _ raft.ProgressType, pr tracker.Progress) {
		if p == id && pr.State == tracker.StateReplicate {
			ok = true
		}
	})
	return ok
}

func (r *Replica) dropLazy(to kv.ReplicaID) []Message {
	for i := range r.lazy {
		if r.lazy[i].To.Replica == to {
			last := len(r.lazy) - 1
			r.lazy[i], r.lazy[last] = r.lazy[last], Message{}
			return r.lazy[:last]
		}
	}
	return r.lazy
}

// sendLazy sends the postponed messages.
func (r *Replica) sendLazy() {
	for i := range r.lazy {
		r.o.Store.SendRaft(r.lazy[i])
		r.lazy[i] = Message{}
	}
	r.lazy = r.lazy[:0]
}

func (r *Replica) peer(id kv.ReplicaID) (kv.ReplicaDescriptor, bool) {
	if d := r.desc.Load(); d != nil {
		for i := range d.Replicas {
			if d.Replicas[i].Replica == id {
				return d.Replicas[i], true
			}
		}
	}
	p, ok := r.peers[id]
	return p, ok
}

// Receive steps a message from another replica, which came in a frame.
func (r *Replica) Receive(m *Message, f *Frame) {
	r.hold()
	r.frame, r.lazily = f, f.More
	r.receive(m)
	r.process(false)
	r.frame, r.lazily, r.muted = nil, false, false
	r.release()
}

func (r *Replica) receive(m *Message) {
	if r.gone.Load() || r.barred.Load() {
		return
	}
	if _, ok := r.peer(m.From.Replica); !ok {
		if len(r.peers) > 16 {
			clear(r.peers)
		}
		r.peers[m.From.Replica] = m.From
	}
	typ := m.Raft.GetType()
	if m.Quiesce && typ == raftpb.MsgHeartbeat {
		st := r.raft.BasicStatus()
		if st.GetTerm() == m.Raft.GetTerm() && r.raftLog.last.index == m.Raft.GetCommit() &&
			st.Lead == uint64(m.From.Replica) && len(r.proposals) == 0 && len(r.appends) == 0 {
			r.muted = true
			r.step(m.Raft)
			r.sleep()
			return
		}
	}
	if (typ == raftpb.MsgPreVote || typ == raftpb.MsgVote) && r.desc.Load() != nil && r.leaderDown() {
		_ = r.raft.ForgetLeader() // or the vote would have to wait for an election timeout
	}
	if typ == raftpb.MsgApp && m.Raft.GetIndex() < r.raftLog.last.index {
		if err := r.contradicted(m); err != nil {
			r.o.Store.Fatal(err)
			return
		}
	}
	if typ == raftpb.MsgPreVoteResp && !m.Raft.GetReject() && r.yields() {
		return
	}
	if typ != raftpb.MsgHeartbeatResp || !r.quiesced.Load() { // which answers a heartbeat from before falling asleep
		r.wake()
	}
	if typ != raftpb.MsgHeartbeat && typ != raftpb.MsgHeartbeatResp {
		r.busyAt = r.ticks
	}
	r.meets(m.Raft)
	r.step(m.Raft)
	r.volunteers(m.Raft)
}

// ContradictionError says that a range's leader has other entries than the ones that this replica has committed.
type ContradictionError struct {
	Range  kv.RangeID
	Leader kv.NodeID
	// Index is of the first entry that differs, Theirs and Ours are its terms.
	Index, Theirs, Ours uint64
}

func (e *ContradictionError) Error() string {
	return fmt.Sprintf("range %d: node %d, which leads it, has entry %d of its log with term %d, but this node has committed that entry with term %d. "+
		"Stores of the range have lost what they acknowledged: probably old copies of them were put back. Entries committed on this node may be missing on all others, so keep this store; "+
		"use the latest stores of the other nodes if they are still there", e.Range, e.Leader, e.Index, e.Theirs, e.Ours)
}

// contradicted compares a leader's entries with those that this replica has committed (replica.R6). Raft only answers how far it has
// committed, and the leader would count entries that it has never sent as acknowledged.
func (r *Replica) contradicted(m *Message) error {
	st := r.raft.BasicStatus()
	if m.Raft.GetTerm() < st.GetTerm() {
		return nil // from a former leader, whose entries may have been replaced
	}
	differs := func(index, term uint64) error {
		if index > st.GetCommit() {
			return nil
		}
		ours, err := r.raftLog.Term(index)
		if err != nil || ours == term {
			return nil // the log begins later; earlier entries were compared when they arrived
		}
		return &ContradictionError{Range: r.rangeID, Leader: m.From.Node, Index: index, Theirs: term, Ours: ours}
	}
	if err := differs(m.Raft.GetIndex(), m.Raft.GetLogTerm()); err != nil {
		return err
	}
	for _, e := range m.Raft.GetEntries() {
		if err := differs(e.GetIndex(), e.GetTerm()); err != nil {
			return err
		}
	}
	return nil
}

// leaderChanged notes the leader, and repeats proposals that may have been lost with the old one. If this replica was elected, and takes the lease at once, the result is the lease's entry, which
// follows the new ones.
func (r *Replica) leaderChanged(s *raft.SoftState, fresh []*raftpb.Entry) (second *raftpb.Entry) {
	r.lazy = r.lazy[:0]
	old := r.leader.Load()
	r.leader.Store(s.Lead)
	node := kv.NodeID(0)
	if p, ok := r.peer(kv.ReplicaID(s.Lead)); ok {
		node = p.Node
	}
	r.leaderAt.Store(uint32(node))
	if s.Lead == 0 || s.Lead == old {
		return nil
	}
	if s.Lead == uint64(r.replicaID) {
		r.o.Metrics.Elections.Add(1)
		r.nextTry = r.ticks + retryTicks
	}
	r.busyAt = r.ticks
	var taken *proposal
	if l := r.leaseNow.Load(); s.Lead == uint64(r.replicaID) && r.supports() && !l.held && !r.good(l, r.o.Clock.Now()) { // requests wait
		if taken, second = r.takeAtOnce(l, fresh); taken == nil {
			_, _ = r.startAcquiring()
		}
	}
	r.reproposeAll(0, taken)
	return second
}

// adjoin adds the second entry of a new leader to the message by which it sends its first one. Raft knows nothing of a follower's log yet, so it would send the second when the follower has answered,
// a round trip later.
//
//	replica.R14 (I1): a leader sends an entry of its own before raft does only in raft's message of the entry before it, of the same term, when raft has the entry at that index. So a follower that
//	    takes the one takes both, and its answer is for both, as for any entries of the leader's log; one whose log is behind refuses both, and raft sends them again.
func adjoin(m *raftpb.Message, e *raftpb.Entry) {
	n := len(m.Entries)
	if m.GetType() != raftpb.MsgApp || n == 0 || m.GetTerm() != e.GetTerm() {
		return
	}
	if last := m.Entries[n-1]; last.GetTerm() == e.GetTerm() && last.GetIndex()+1 == e.GetIndex() {
		m.Entries = append(slices.Clip(m.Entries), e)
	}
}
