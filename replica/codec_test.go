package replica

import (
	"reflect"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica/lease"
	"meridian/wire"
	"meridian/wire/wiretest"
)

func genReplica(t *rapid.T) kv.ReplicaDescriptor {
	return kv.ReplicaDescriptor{Node: kv.NodeID(rapid.Uint32().Draw(t, "node")), Store: kv.StoreID(rapid.Uint32().Draw(t, "store")),
		Replica: kv.ReplicaID(rapid.Uint64().Draw(t, "replica"))}
}

// TestMessageRoundTrip: what was appended is decoded.
func TestMessageRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := rapid.Uint64()
		m := Message{Range: kv.RangeID(u.Draw(t, "range")), From: genReplica(t), To: genReplica(t), Quiesce: rapid.Bool().Draw(t, "q")}
		typ := rapid.SampledFrom([]raftpb.MessageType{raftpb.MsgApp, raftpb.MsgAppResp, raftpb.MsgHeartbeat, raftpb.MsgVote,
			raftpb.MsgPreVoteResp, raftpb.MsgProp, raftpb.MsgTimeoutNow, raftpb.MsgSnap}).Draw(t, "type")
		m.Raft = &raftpb.Message{Type: typ.Enum(), To: new(uint64(m.To.Replica)), From: new(uint64(m.From.Replica)),
			Term: new(u.Draw(t, "term")), LogTerm: new(u.Draw(t, "logterm")), Index: new(u.Draw(t, "index")),
			Commit: new(u.Draw(t, "commit")), RejectHint: new(u.Draw(t, "hint"))}
		if rapid.Bool().Draw(t, "reject") {
			m.Raft.Reject = new(true)
		}
		for range rapid.IntRange(0, 3).Draw(t, "entries") {
			var data []byte
			if rapid.Bool().Draw(t, "some") {
				data = rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "data")
			}
			m.Raft.Entries = append(m.Raft.Entries, newEntry(raftpb.EntryNormal, u.Draw(t, "t"), u.Draw(t, "i"), data))
		}
		if typ == raftpb.MsgSnap {
			m.Raft.Snapshot = &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: new(u.Draw(t, "si") | 1), Term: new(u.Draw(t, "st")),
				ConfState: &raftpb.ConfState{Voters: []uint64{1, 2, 3}, Learners: []uint64{4}, AutoLeave: new(false)}}}
		}
		got, err := DecodeMessage(m.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(got.Raft, m.Raft) {
			t.Fatalf("got  %v\nwant %v", got.Raft, m.Raft)
		}
		got.Raft, m.Raft = nil, nil
		if !reflect.DeepEqual(got, m) {
			t.Fatalf("got %+v, want %+v", got, m)
		}
	})
}

// TestProtocolMessageRoundTrip: messages of a range's protocol travel among those of raft.
func TestProtocolMessageRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Message{Range: kv.RangeID(rapid.Uint64().Draw(t, "range")), From: genReplica(t), To: genReplica(t),
			Generation: rapid.Uint64().Draw(t, "generation"), Body: rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "body")}
		got, err := DecodeMessage(m.Append(nil))
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Fatalf("%+v became %+v, %v", m, got, err)
		}
	})
}

func FuzzDecodeMessage(f *testing.F) {
	m := Message{Range: 3, From: kv.ReplicaDescriptor{Node: 1, Replica: 1}, To: kv.ReplicaDescriptor{Node: 2, Replica: 2}, Raft: &raftpb.Message{
		Type: raftpb.MsgApp.Enum(), To: new(uint64(2)), From: new(uint64(1)), Entries: []*raftpb.Entry{newEntry(raftpb.EntryNormal, 1, 2, []byte("x"))}}}
	f.Add(m.Append(nil))
	f.Add((&Message{TooOld: true}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeMessage(b)
		if err != nil {
			return
		}
		again, err := DecodeMessage(m.Append(nil))
		if err != nil || m.Raft != nil && !proto.Equal(again.Raft, m.Raft) {
			t.Fatalf("%v: %v, %v", err, again, m)
		}
	})
}

// TestMessages: the messages of the package are as package wire wants them.
func TestMessages(t *testing.T) {
	desc := func(d *kv.RangeDescriptor) {
		d.Start, d.End = append(keys.Key{}, d.Start...), append(keys.Key{}, d.End...)
	}
	message := func(m *Message) {
		m.From.Type, m.To.Type, m.From.Witness, m.To.Witness = 0, 0, false, false // do not travel
		m.Raft = nil
		switch {
		case m.TooOld:
			m.Body, m.Generation, m.Quiesce = nil, 0, false
		case m.Body != nil:
			m.Quiesce = false
		default:
			m.Generation = 0
			m.Raft = &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: new(uint64(m.From.Replica)), To: new(uint64(m.To.Replica)),
				Term: new(uint64(3)), LogTerm: new(uint64(2)), Index: new(uint64(9)), Commit: new(uint64(8)), RejectHint: new(uint64(0))}
		}
	}
	type entry struct {
		index, term uint64
		typ         uint8
		data        []byte
	}
	type metadata struct {
		index, term      uint64
		voters, learners []uint64
		outgoing, next   []uint64
		auto             bool
	}
	wiretest.Run(t, []wiretest.Message{
		wiretest.Declared("replica.Message", wiretest.Skips, (*Message).Fields, message),
		wiretest.Declared("replica.Entry", wiretest.Refuses, func(e *entry, c *wire.Coder) {
			x := newEntry(raftpb.EntryType(e.typ), e.term, e.index, e.data)
			sent(&x, c)
			*e = entry{x.GetIndex(), x.GetTerm(), uint8(x.GetType()), x.GetData()}
		}, func(e *entry) {
			if len(e.data) == 0 {
				e.data = nil
			}
		}),
		wiretest.Declared("replica.SnapshotMetadata", wiretest.Refuses, func(s *metadata, c *wire.Coder) {
			x := raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &s.index, Term: &s.term, ConfState: &raftpb.ConfState{
				Voters: s.voters, Learners: s.learners, VotersOutgoing: s.outgoing, LearnersNext: s.next, AutoLeave: &s.auto}}}
			snapshot(&x, c)
			l := x.Metadata.ConfState
			s.voters, s.learners, s.outgoing, s.next = l.Voters, l.Learners, l.VotersOutgoing, l.LearnersNext
		}, nil),
		wiretest.Declared("replica.SnapshotHead", wiretest.Skips, (*snapshotHead).fields, func(h *snapshotHead) {
			desc(&h.desc)
			h.message.TooOld, h.message.Body = false, nil
			message(&h.message)
		}),
		wiretest.Of("replica.SnapshotChunk", wiretest.Refuses, func(b []byte, c *[]kv.KeyValue) []byte {
			for _, x := range *c {
				b = wire.Element(wire.Element(b, chunkKey, x.Key), chunkValue, x.Value)
			}
			return b
		}, func(r *wire.Reader, c *[]kv.KeyValue) {
			wire.In(r, &snapshotChunk{each: func(k, v []byte) error {
				*c = append(*c, kv.KeyValue{Key: k, Value: v})
				return nil
			}}, (*snapshotChunk).fields)
		}, func(c *[]kv.KeyValue) {
			for i := range *c {
				(*c)[i] = kv.KeyValue{Key: append(keys.Key("k"), (*c)[i].Key...), Value: append([]byte{}, (*c)[i].Value...)}
			}
		}),
		wiretest.Declared("replica.Command", wiretest.Skips, (*Command).fields, func(c *Command) {
			c.Use, c.Settled = 0, nil // do not travel
			if c.Trigger != nil {
				c.Trigger = &kv.CommitTrigger{Seal: &kv.SealTrigger{Generation: 4}}
			}
			if c.lease == nil {
				c.prevLease, c.given = 0, false
			}
			if c.truncate.index == 0 {
				c.truncate = position{}
			}
			if len(c.Batch) == 0 {
				c.Batch = nil
			}
		}),
		wiretest.Declared("replica.Commit", wiretest.Skips, (*Commit).fields, nil),
		wiretest.Declared("replica.HardState", wiretest.Refuses, (*hardState).fields, nil),
		wiretest.Declared("replica.Position", wiretest.Refuses, (*position).fields, nil),
		wiretest.Declared("replica.AppliedState", wiretest.Refuses, (*appliedState).fields, nil),
		wiretest.Declared("replica.Seal", wiretest.Refuses, (*seal).fields, nil),
		wiretest.Declared("replica.Threshold", wiretest.Refuses, gcThreshold, nil),
	})
}

func testCommand() *Command {
	desc := kv.RangeDescriptor{ID: 1, Start: keys.Min, End: keys.Max, NextReplica: 3, Generation: 4,
		Replicas: []kv.ReplicaDescriptor{{Node: 1, Store: 1, Replica: 1}, {Node: 2, Store: 2, Replica: 2, Type: kv.Learner}}}
	left, right := desc, desc
	left.End, right.Start = keys.Key("m"), keys.Key("m")
	return &Command{LeaseSequence: 7, ClosedTimestamp: clock.Timestamp{Wall: 5, Logical: 1}, Batch: []byte("batch"),
		Delta: Stats{LiveBytes: -3, KeyCount: 9}, Trigger: &kv.CommitTrigger{Split: &kv.SplitTrigger{Left: left, Right: right}},
		GCThreshold: clock.Timestamp{Wall: 8}, lease: &lease.Lease{Kind: lease.Liveness, Sequence: 3, Incarnation: 2, Start: clock.Timestamp{Wall: 6}},
		prevLease: 2, given: true, truncate: position{4, 5}, maxLeaseIndex: 77, id: 123}
}

func TestCommandRoundTrip(t *testing.T) {
	c := testCommand()
	var got Command
	if err := decodeCommand(c.encode(), &got); err != nil || !reflect.DeepEqual(&got, c) {
		t.Fatalf("%v\ngot  %+v\nwant %+v", err, got, c)
	}
	got = Command{}
	if err := decodeCommand(renumber(c.encode(), 99), &got); err != nil || got.maxLeaseIndex != 99 {
		t.Fatalf("%v: %d", err, got.maxLeaseIndex)
	}
	for _, trigger := range []kv.CommitTrigger{{Seal: &kv.SealTrigger{Generation: 7}}, {Seal: &kv.SealTrigger{Generation: 1 << 40, Folded: true}}} {
		sealed := &Command{id: 1, Trigger: &trigger, Batch: []byte("batch")}
		got = Command{}
		if err := decodeCommand(sealed.encode(), &got); err != nil || !reflect.DeepEqual(&got, sealed) {
			t.Fatalf("%v\ngot  %+v\nwant %+v", err, got, sealed)
		}
	}
	small := &Command{id: 1}
	got = Command{}
	if err := decodeCommand(small.encode(), &got); err != nil || got.Trigger != nil || got.lease != nil || len(got.Batch) != 0 {
		t.Fatalf("%v: %+v", err, got)
	}
}

func FuzzDecodeCommand(f *testing.F) {
	f.Add(testCommand().encode())
	f.Add((&Command{}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		var c Command
		if decodeCommand(b, &c) == nil && len(c.Batch) > len(b) {
			t.Fatal("made up bytes")
		}
	})
}

// TestMayFollow is lease.RL1, case by case.
func TestMayFollow(t *testing.T) {
	ts := func(w int64) clock.Timestamp { return clock.Timestamp{Wall: w} }
	r1 := kv.ReplicaDescriptor{Node: 1, Replica: 1}
	r2 := kv.ReplicaDescriptor{Node: 2, Replica: 2}
	learner := kv.ReplicaDescriptor{Node: 3, Replica: 3, Type: kv.Learner}
	d := &kv.RangeDescriptor{Replicas: []kv.ReplicaDescriptor{r1, r2, learner}}
	cur := lease.Lease{Holder: r1, Start: ts(10), Expiration: ts(20), Sequence: 4}
	extended := cur
	extended.Expiration = ts(30)
	taken := lease.Lease{Holder: r2, Start: ts(21), Expiration: ts(30), Sequence: 5}
	for _, c := range []struct {
		name string
		prev uint64
		give bool
		next lease.Lease
		want bool
	}{
		{"extension", 4, false, extended, true},
		{"extension of another lease", 3, false, extended, false},
		{"extension that shortens", 4, false, func() lease.Lease { l := extended; l.Expiration = ts(15); return l }(), false},
		{"taken after the end", 4, false, taken, true},
		{"taken before the end", 4, false, func() lease.Lease { l := taken; l.Start = ts(20); return l }(), false},
		{"given before the end", 4, true, func() lease.Lease { l := taken; l.Start = ts(15); return l }(), true},
		{"taken after another lease", 5, false, taken, false},
		{"taken with a gap in the sequence", 4, false, func() lease.Lease { l := taken; l.Sequence = 6; return l }(), false},
		{"taken by a learner", 4, false, func() lease.Lease { l := taken; l.Holder = learner; return l }(), false},
		{"taken by a stranger", 4, false, func() lease.Lease { l := taken; l.Holder.Replica = 9; return l }(), false},
		{"anew by the holder", 4, false, lease.Lease{Holder: r1, Start: ts(12), Expiration: ts(30), Sequence: 5}, true},
		{"anew from the past", 4, false, lease.Lease{Holder: r1, Start: ts(9), Expiration: ts(30), Sequence: 5}, false},
	} {
		if got := mayFollow(d, cur, c.next, c.prev, c.give); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestConfChange: what raft is told leads from one descriptor to the other.
func TestConfChange(t *testing.T) {
	desc := func(rs ...kv.ReplicaDescriptor) *kv.RangeDescriptor { return &kv.RangeDescriptor{Replicas: rs} }
	rep := func(id kv.ReplicaID, typ kv.ReplicaType) kv.ReplicaDescriptor {
		return kv.ReplicaDescriptor{Node: kv.NodeID(id), Replica: id, Type: typ}
	}
	for _, c := range []struct {
		from, to *kv.RangeDescriptor
		want     string
	}{
		{desc(rep(1, kv.Voter)), desc(rep(1, kv.Voter), rep(2, kv.Learner)), "l2"},
		{desc(rep(1, kv.Voter), rep(2, kv.Learner)), desc(rep(1, kv.Voter), rep(2, kv.Voter)), "v2"},
		{desc(rep(1, kv.Voter), rep(2, kv.Voter)), desc(rep(1, kv.Voter)), "r2"},
		{desc(rep(1, kv.Voter), rep(2, kv.Voter), rep(3, kv.Learner)),
			desc(rep(1, kv.Voter), rep(2, kv.VoterOutgoing), rep(3, kv.VoterIncoming)), "r2 v3"},
		{desc(rep(1, kv.Voter), rep(2, kv.VoterOutgoing), rep(3, kv.VoterIncoming)), desc(rep(1, kv.Voter), rep(3, kv.Voter)), ""},
	} {
		cc := confChange(c.from, c.to)
		if got := raftpb.ConfChangesToString(cc.Changes); got != c.want {
			t.Errorf("%v -> %v: %q, want %q", c.from.Replicas, c.to.Replicas, got, c.want)
		}
		if _, joint := cc.EnterJoint(); joint != isJoint(c.to) {
			t.Errorf("%v: joint %v", c.to.Replicas, joint)
		}
	}
}
