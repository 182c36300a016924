package rangeserver

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"meridian/fence"
	"meridian/kv"
	"meridian/replica"
	"meridian/transport"
	"meridian/wire"
)

// Bounds of the queue to one peer; messages beyond them are dropped, which raft tolerates.
const (
	peerQueueMessages = 16384
	peerQueueBytes    = 64 << 20
	frameBytes        = 1 << 20
)

// peer is the queue of raft messages to one node. One goroutine drains it into a stream: all queued messages go into one frame, so the
// heartbeats of all ranges to a node travel together.
type peer struct {
	node kv.NodeID
	wake chan struct{}

	mu    sync.Mutex // guards the fields below
	queue []replica.Message
	bytes int
}

// SendRaft queues a message; it may be lost.
func (s *Store) SendRaft(m replica.Message) {
	if s.o.Network == nil || m.To.Node == s.o.NodeID {
		return
	}
	s.peersMu.Lock()
	p := s.peers[m.To.Node]
	if p == nil {
		p = &peer{node: m.To.Node, wake: make(chan struct{}, 1)}
		s.peers[m.To.Node] = p
		s.group.Go(func(ctx context.Context) { s.sendLoop(ctx, p) })
	}
	s.peersMu.Unlock()
	size := 64 + len(m.Body)
	if m.Raft != nil {
		for _, e := range m.Raft.Entries {
			size += len(e.Data) + 16
		}
	}
	p.mu.Lock()
	if len(p.queue) >= peerQueueMessages || p.bytes+size > peerQueueBytes && len(p.queue) > 0 {
		p.mu.Unlock()
		s.Metrics.RaftMessagesDropped.Add(1)
		return
	}
	p.queue = append(p.queue, m)
	p.bytes += size
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// sendLoop keeps a stream to one peer while there are messages.
func (s *Store) sendLoop(ctx context.Context, p *peer) {
	var stream transport.Stream
	var cancel context.CancelFunc
	var lot []replica.Message
	closeStream := func() {
		if stream != nil {
			cancel()
			stream = nil
		}
	}
	defer closeStream()
	for {
		p.mu.Lock()
		clear(lot)
		lot, p.queue = p.queue, lot[:0]
		p.bytes = 0
		p.mu.Unlock()
		if len(lot) == 0 {
			select {
			case <-p.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		if s.o.Starts != nil && !s.o.Starts.Recorded(p.node) {
			s.o.Starts.Meet(p.node)
			s.Metrics.RaftMessagesDropped.Add(int64(len(lot)))
			continue
		}
		if stream == nil {
			sctx, stop := context.WithCancel(ctx)
			st, err := s.o.Network.OpenStreamClass(sctx, transport.ClassSystem, p.node, MethodRaft)
			if err == nil {
				err = st.Send(s.greeting())
			}
			if err != nil {
				stop()
				s.Metrics.RaftMessagesDropped.Add(int64(len(lot)))
				if s.o.Clock.Physical().Sleep(ctx, 20*time.Millisecond) != nil {
					return
				}
				continue
			}
			stream, cancel = st, stop
		}
		for i := 0; i < len(lot); {
			var f frame
			if s.o.Starts != nil {
				f.position = s.o.Starts.Position()
			}
			buf := wire.Append(make([]byte, 0, 512), &f, (*frame).fields)
			for ; i < len(lot) && len(buf) < frameBytes; i++ {
				buf = wire.Append(buf, &frame{messages: lot[i : i+1]}, (*frame).fields)
				s.Metrics.RaftMessagesSent.Add(1)
			}
			if err := stream.Send(buf); err != nil {
				s.Metrics.RaftMessagesDropped.Add(int64(len(lot) - i))
				closeStream()
				var refused *transport.StatusError
				if s.o.Starts != nil && errors.As(err, &refused) && refused.Code == codeUnrecorded {
					s.o.Starts.Recheck(p.node)
				}
				break
			}
			s.Metrics.RaftFrames.Add(1)
		}
	}
}

// serveRaft receives raft messages of one peer and steps them on this goroutine.
func (s *Store) serveRaft(ctx context.Context, from kv.NodeID, stream transport.Stream) error {
	var ms []replica.Message
	heard, err := s.greeted(from, stream)
	if err != nil {
		return err
	}
	for {
		buf, err := stream.Recv()
		if err == nil {
			f := frame{messages: ms[:0]}
			if err := wire.Decode(buf, &f, (*frame).fields); err != nil {
				return err
			}
			ms = f.messages
			err = heard(f.position)
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		last := -1 // of those with entries
		for i := range ms {
			if m := &ms[i]; m.Raft != nil && len(m.Raft.Entries) > 0 {
				last = i
			}
		}
		s.Metrics.RaftMessagesReceived.Add(int64(len(ms)))
		var f replica.Frame
		for i := range ms {
			f.More = i < last
			s.receive(&ms[i], &f)
		}
		f.End(s)
		clear(ms)
		if cap(ms) > framesKept {
			ms = nil
		}
	}
}

// codeUnrecorded refuses a stream of raft messages: its sender's start is not the one that is recorded here (fence.FE3).
const codeUnrecorded = transport.CodeApplication + 1

// greeting is the first message of a stream: the start of this node that sends it.
func (s *Store) greeting() []byte {
	if s.o.Starts == nil {
		return []byte{}
	}
	own := s.o.Starts.Own()
	return wire.Append(nil, &own, greeting)
}

func greeting(s *fence.Start, c *wire.Coder) {
	c.Message("rangeserver.Greeting", wire.Skips)
	c.Fixed64(1, &s.Number)
	c.Fixed64(3, &s.Token)
}

// frame is a message of the stream of raft messages. A sender writes its messages one after the other.
type frame struct {
	// position is not below that of any promise in the frame, since a promise is queued after it is durable.
	position uint64
	messages []replica.Message
}

func (f *frame) fields(c *wire.Coder) {
	c.Message("rangeserver.Frame", wire.Skips)
	wire.Uint64(c, 1, &f.position)
	wire.Large(c, 3, &f.messages, (*replica.Message).Fields, func(m *replica.Message) int {
		if m.Raft != nil && len(m.Raft.Entries) > 0 {
			return 0x80
		}
		return 0
	})
}

// greeted reads the greeting, and returns a function that takes the position of each frame.
func (s *Store) greeted(from kv.NodeID, stream transport.Stream) (heard func(position uint64) error, err error) {
	hello, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	start, err := wire.Decoded(hello, greeting)
	if err != nil {
		return nil, err
	}
	unrecorded := &transport.StatusError{Code: codeUnrecorded, Message: "this start of the node is not recorded here"}
	var peer *fence.Peer
	if s.o.Starts != nil {
		if peer = s.o.Starts.Open(from, start); peer == nil {
			return nil, unrecorded
		}
	}
	return func(position uint64) error {
		if peer != nil && !peer.Heard(start, position) {
			return unrecorded
		}
		return nil
	}, nil
}

// framesKept bounds the messages for which space is kept between frames.
const framesKept = 256

// receive gives a message to its replica, which is created if the sender may expect it.
func (s *Store) receive(m *replica.Message, f *replica.Frame) {
	if m.To.Node != s.o.NodeID {
		return
	}
	e := s.entry(m.Range)
	if m.TooOld {
		if e != nil && e.r.ReplicaID() == m.To.Replica {
			s.destroy(e, m.To.Replica+1)
		}
		return
	}
	if e == nil && m.Body != nil {
		return // raft's messages make replicas
	}
	if e == nil {
		if s.o.Starts != nil && !s.o.Starts.Recorded(m.From.Node) {
			return // a new replica has promised nothing yet, as far as that node knows (fence.FE1)
		}
		if e = s.create(m.Range, m.To.Replica); e == nil {
			return
		}
	}
	switch have := e.r.ReplicaID(); {
	case m.To.Replica < have:
		return
	case m.To.Replica > have:
		s.destroy(e, m.To.Replica) // it was removed and added again; the next message creates it anew
		return
	}
	d := e.r.Desc()
	if d == nil {
		e.spoken.Store(true)
	}
	if d != nil && m.From.Replica < d.NextReplica && !member(d, m.From.Replica) {
		// The sender was removed and may not know. Numbers are never used again, so this can't be wrong.
		s.SendRaft(replica.Message{Range: m.Range, From: e.r.Self(), To: m.From, TooOld: true})
		return
	}
	if m.Body != nil {
		s.receiveProtocol(e, m)
		return
	}
	e.r.Receive(m, f)
}

func member(d *kv.RangeDescriptor, id kv.ReplicaID) bool {
	for _, r := range d.Replicas {
		if r.Replica == id {
			return true
		}
	}
	return false
}

// create makes an uninitialised replica, unless one with this number was here before.
func (s *Store) create(id kv.RangeID, rid kv.ReplicaID) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entry(id); e != nil {
		return e
	}
	if tomb, err := replica.Tombstone(s.o.Engine, id); err != nil || rid < tomb {
		return nil
	}
	r, err := replica.New(&s.replica, id, rid)
	if err != nil {
		s.log.Error("making a replica", "range", id, "err", err)
		return nil
	}
	return s.add(r)
}

// destroy removes a replica on a goroutine of its own, because that waits for the disk.
func (s *Store) destroy(e *entry, next kv.ReplicaID) {
	select {
	case e.admin <- struct{}{}:
	default:
		return
	}
	if !s.group.Go(func(context.Context) {
		if err := e.r.Destroy(next); err != nil {
			s.Fatal(err)
		}
		s.Metrics.ReplicasGCed.Add(1)
		<-e.admin
	}) {
		<-e.admin
	}
}

// SendSnapshot ships a raft snapshot in the background.
func (s *Store) SendSnapshot(r *replica.Replica, snap *replica.OutgoingSnapshot) {
	to := snap.Message.To
	ok := s.group.Go(func(ctx context.Context) {
		defer snap.Close()
		err := s.ship(ctx, snap)
		if err != nil && ctx.Err() == nil {
			s.log.Debug("raft snapshot not sent", "range", r.RangeID(), "to", to.Node, "err", err)
			_ = s.o.Clock.Physical().Sleep(ctx, 200*time.Millisecond)
		}
		r.SnapshotSent(to.Replica, err)
	})
	if !ok {
		snap.Close()
	}
}

// shippingTime is how long a raft snapshot of a range may take: a minute, plus the time of its data at 2 MiB a second.
func shippingTime(bytes int64) time.Duration {
	return time.Minute + time.Duration(bytes>>21)*time.Second
}

func (s *Store) ship(ctx context.Context, snap *replica.OutgoingSnapshot) error {
	if s.o.Network == nil {
		return errors.New("rangeserver: no network")
	}
	select {
	case s.sendSlots <- struct{}{}:
		defer func() { <-s.sendSlots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.yield(ctx); err != nil {
		return err
	}
	ctx, cancel := s.o.Host.Clock.WithTimeout(ctx, shippingTime(snap.Bytes()))
	defer cancel()
	stream, err := s.o.Network.OpenStreamClass(ctx, transport.ClassBulk, snap.Message.To.Node, MethodSnapshot)
	if err != nil {
		return err
	}
	if err := snap.Write(stream.Send); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if _, err := stream.Recv(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// serveSnapshot receives a raft snapshot and applies it. One at a time, which bounds memory and keeps rangeserver.RS1.
func (s *Store) serveSnapshot(ctx context.Context, from kv.NodeID, stream transport.Stream) error {
	select {
	case s.receiveSlots <- struct{}{}:
		defer func() { <-s.receiveSlots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	head, err := stream.Recv()
	if err != nil {
		return err
	}
	in, err := replica.NewIncomingSnapshot(s.o.Engine, head)
	if err != nil {
		return err
	}
	defer in.Close()
	m := &in.Message
	if m.To.Node != s.o.NodeID {
		return errors.New("rangeserver: the raft snapshot is for another node")
	}
	if s.o.Starts != nil && s.entry(m.Range) == nil && !s.o.Starts.Recorded(m.From.Node) {
		return &kv.RangeNotFoundError{Range: m.Range}
	}
	e := s.create(m.Range, m.To.Replica)
	if e == nil || e.r.Barred() || e.r.ReplicaID() != m.To.Replica {
		return &kv.RangeNotFoundError{Range: m.Range}
	}
	if _, ok := s.Absorbed(in.Desc); !ok { // receiving it would be useless
		return replica.ErrOverlap
	}
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := in.Add(chunk); err != nil {
			return err
		}
	}
	return e.r.ApplySnapshot(in)
}
