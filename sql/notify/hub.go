package notify

import (
	"context"
	"errors"
	"sync"
	"time"

	"meridian/host"
	"meridian/kv"
	"meridian/wire"
)

// Notification is the message of a NOTIFY. Process is the process id of the session that notified.
type Notification struct {
	Process int32
	Channel string
	Payload string
}

func (n *Notification) size() int { return notificationBytes + len(n.Channel) + len(n.Payload) }

// notificationBytes is roughly the memory of a notification besides its text.
const notificationBytes = 64

// Options of a Hub.
type Options struct {
	Host *host.Host
	// Peers are the other nodes that are live, or were within RetainFor (notify.NT3); nil: there are none.
	Peers func() []kv.NodeID
	// Send passes a message to the Hub of another node; after an error it may or may not have arrived.
	Send func(ctx context.Context, to kv.NodeID, message []byte) error
	// OutboxBytes bounds the queue for each node, ListenerBytes that for each listener. Default 8 MiB: a thousand notifications of the largest
	// size.
	OutboxBytes, ListenerBytes int
	// RetainFor is the time for which notifications are kept for a node that does not answer (default RetainFor).
	RetainFor time.Duration
}

// RetainFor is the default of Options.RetainFor. Chosen by us: longer than a failover or a restart of a network takes.
const RetainFor = 30 * time.Second

// ErrFull says that the queue for a node is full (notify.NT4).
var ErrFull = errors.New("notify: the queue is full")

// Hub has the listeners of a node, and its queues for other nodes.
type Hub struct {
	o Options
	// run is a random number of this start of the node, with which the numbers of its publications begin anew.
	run int64

	mu        sync.Mutex // guards the fields below; Listener.mu and the mutexes of a listener's ring and overflow may be taken after it
	listeners map[topic]map[*Listener]struct{}
	outboxes  map[kv.NodeID]*outbox
	heard     map[kv.NodeID]heard
}

type topic struct{ database, channel string }

// outbox is the queue for a node.
type outbox struct {
	wait    []publication
	bytes   int
	next    uint64 // number of the first publication in the queue
	sending bool
}

// publication has the notifications of one transaction.
type publication struct {
	Database      string
	Notifications []Notification
}

func (p *publication) size() int {
	n := 0
	for i := range p.Notifications {
		n += p.Notifications[i].size()
	}
	return n
}

// message carries publications to another node. First is the number of the first one.
type message struct {
	Run          int64
	First        uint64
	Publications []publication
}

// heard says which publications of another node have arrived: all of a run below next.
type heard struct {
	run  int64
	next uint64
}

// New makes a node's Hub.
func New(o Options) *Hub {
	const eight = 8 << 20
	if o.OutboxBytes == 0 {
		o.OutboxBytes = eight
	}
	if o.ListenerBytes == 0 {
		o.ListenerBytes = eight
	}
	if o.RetainFor == 0 {
		o.RetainFor = RetainFor
	}
	return &Hub{o: o, run: o.Host.Dice.Int64N(1 << 62), listeners: map[topic]map[*Listener]struct{}{},
		outboxes: map[kv.NodeID]*outbox{}, heard: map[kv.NodeID]heard{}}
}

// Room fails with ErrFull while the queue for any node is full (notify.NT4).
func (h *Hub) Room() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range h.outboxes {
		if b.bytes >= h.o.OutboxBytes {
			return ErrFull
		}
	}
	return nil
}

// Publish distributes the notifications of a transaction that has committed to the listeners of a database (notify.NT1).
func (h *Hub) Publish(database string, ns []Notification) {
	if len(ns) == 0 {
		return
	}
	p := publication{database, ns}
	var peers []kv.NodeID
	if h.o.Peers != nil {
		peers = h.o.Peers()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deliver(p)
	for _, n := range peers {
		b := h.outboxes[n]
		if b == nil {
			b = &outbox{}
			h.outboxes[n] = b
		}
		b.wait = append(b.wait, p)
		b.bytes += p.size()
		if !b.sending {
			b.sending = h.o.Host.Group.Go(func(ctx context.Context) { h.send(ctx, n, b) })
		}
	}
}

// Waits between attempts to send.
const (
	retryMin = 50 * time.Millisecond
	retryMax = time.Second
	// messageBytes bounds a message, unless a single publication is larger.
	messageBytes = 256 << 10
)

// send sends the queue for a node, until it is empty.
func (h *Hub) send(ctx context.Context, to kv.NodeID, b *outbox) {
	clk := h.o.Host.Clock
	wait, silent := retryMin, clk.Monotonic()
	for {
		h.mu.Lock()
		if len(b.wait) == 0 {
			b.sending, b.wait = false, nil
			h.mu.Unlock()
			return
		}
		m := message{Run: h.run, First: b.next}
		for size := 0; len(m.Publications) < len(b.wait) && size < messageBytes; {
			p := b.wait[len(m.Publications)]
			m.Publications, size = append(m.Publications, p), size+p.size()
		}
		h.mu.Unlock()

		limit, cancel := h.o.Host.Clock.WithTimeout(ctx, retryMax)
		err := h.o.Send(limit, to, wire.Append(nil, &m, (*message).fields))
		cancel()
		if ctx.Err() != nil {
			return // the node stops
		}
		gone := false
		if err == nil {
			wait, silent = retryMin, clk.Monotonic()
		} else if gone = clk.Monotonic()-silent > h.o.RetainFor; !gone {
			if clk.Sleep(ctx, wait) != nil {
				return
			}
			wait = min(2*wait, retryMax)
			continue
		}
		h.mu.Lock()
		done := len(m.Publications)
		if gone { // notify.NT3
			h.o.Host.Log.Warn("notifications are dropped for a node that does not answer", "node", to, "transactions", len(b.wait), "err", err)
			done, silent = len(b.wait), clk.Monotonic()
		}
		for i := range b.wait[:done] {
			b.bytes -= b.wait[i].size()
		}
		b.next += uint64(done)
		b.wait = append([]publication(nil), b.wait[done:]...)
		h.mu.Unlock()
	}
}

// Receive delivers the publications in another node's message.
func (h *Hub) Receive(from kv.NodeID, b []byte) error {
	m, err := wire.Decoded(b, (*message).fields)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.heard[from]
	if last.run != m.Run {
		last = heard{run: m.Run}
	}
	for i, p := range m.Publications {
		if n := m.First + uint64(i); n >= last.next { // notify.NT3
			last.next = n + 1
			h.deliver(p)
		}
	}
	h.heard[from] = last
	return nil
}

// deliver passes a publication to the listeners of this node. The caller holds h.mu, so that all of them get publications in one order.
func (h *Hub) deliver(p publication) {
	for _, n := range p.Notifications {
		for l := range h.listeners[topic{p.Database, n.Channel}] {
			l.put(n)
		}
	}
}
