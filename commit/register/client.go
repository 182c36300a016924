package register

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"meridian/clock"
	"meridian/commit"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/route"
	"meridian/wire"
)

// Sender takes batches to ranges, and to all replicas of a range; route.Sender does.
type Sender interface {
	Send(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error)
	Each(ctx context.Context, b *kv.Batch, f func(route.Answer) (more bool)) error
}

// ClientOptions are what a Client is made of.
type ClientOptions struct {
	Sender Sender
	Clock  *clock.Clock
	Host   *host.Host
	// NodeID is asked for when the first write is made.
	NodeID func() kv.NodeID
}

// Client is a gateway's half of the protocol: the driver of operations.
type Client struct {
	o ClientOptions

	mu      sync.Mutex // guards stamper, which is made with the first write; nothing is taken after it
	stamper *Stamper
}

// NewClient makes a gateway.
func NewClient(o ClientOptions) *Client {
	return &Client{o: o}
}

// Get reads a register; nil: it is empty.
func (c *Client) Get(ctx context.Context, k keys.Key) ([]byte, error) {
	o := Read(k)
	err := c.run(ctx, k, o)
	return o.Result().Version.Value, err
}

// Put writes a register, outside of transactions; nil empties it.
func (c *Client) Put(ctx context.Context, k keys.Key, v []byte) error {
	return c.run(ctx, k, WriteOf(k, v, c.stamp))
}

// stamp draws a tag after all that were seen.
func (c *Client) stamp(seen clock.Timestamp) clock.Timestamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stamper == nil {
		var start [2]byte
		c.o.Host.Dice.Read(start[:])
		c.stamper = NewStamper(c.o.NodeID(), binary.BigEndian.Uint16(start[:]))
	}
	return c.stamper.Stamp(c.o.Clock.Now(), seen)
}

// Propose makes a transaction's write provisional (Propose).
func (c *Client) Propose(ctx context.Context, k keys.Key, v []byte, meta *kv.TxnMeta) (Result, error) {
	o := Propose(k, v, meta, c.proposer())
	err := c.run(ctx, k, o)
	return o.Result(), err
}

// Settle gives a transaction's writes to a register their outcome.
func (c *Client) Settle(ctx context.Context, k keys.Key, meta *kv.TxnMeta, status kv.Status, ignored []kv.SeqRange) error {
	return c.run(ctx, k, Settle(k, meta, status, ignored))
}

// Resolve gives the writes of a transaction that has ended their outcome (commit.Finisher). A record lists each of them by its key;
// a span is where the transaction may have had locks of the leader protocol, of which there are none here.
func (c *Client) Resolve(ctx context.Context, spans []keys.Span, meta kv.TxnMeta, status kv.Status, ignored []kv.SeqRange) error {
	for _, span := range spans {
		if !span.Point() {
			continue
		}
		if err := c.Settle(ctx, span.Start, &meta, status, ignored); err != nil {
			return err
		}
	}
	return nil
}

// Witness answers whether a transaction's provisional writes are there, and prevents those that are not (commit.Finisher).
func (c *Client) Witness(ctx context.Context, r *commit.Record, writes []kv.InFlightWrite) (all bool, err error) {
	for _, w := range writes {
		meta := r.TxnMeta
		meta.Seq = w.Seq
		o := Witness(w.Key, &meta, c.proposer())
		if err := c.run(ctx, w.Key, o); err != nil {
			return false, err
		}
		if o.Result().Outcome != Written {
			return false, nil
		}
	}
	return true, nil
}

func (c *Client) proposer() uint64 {
	var b [8]byte
	c.o.Host.Dice.Read(b[:])
	return binary.BigEndian.Uint64(b[:])
}

// Chosen by us: a seal lasts for a round trip or two.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 200 * time.Millisecond
)

// run drives an operation until it is done. A round that got no quorum, or was cut off by a change of the range, is begun again.
func (c *Client) run(ctx context.Context, k keys.Key, o *Operation) error {
	pause := firstPause
	for !o.Done() {
		if d := o.Asks(); d != nil {
			if err := c.ask(ctx, o, d); err != nil {
				return err
			}
			continue
		}
		refused := o.Result().Refused
		progress, err := c.round(ctx, k, o)
		if progress && o.Result().Refused == refused {
			pause = firstPause
			continue
		}
		var other *kv.ProtocolError
		if ctx.Err() == nil && !errors.As(err, &other) {
			// Rivals for a decree, and those who wait for a range to open, do not wait for equally long.
			d := pause/2 + time.Duration(c.o.Host.Dice.Int64N(int64(pause)))
			pause = min(2*pause, lastPause)
			if c.o.Host.Clock.Sleep(ctx, d) == nil {
				continue
			}
		}
		if ended := ctx.Err(); ended != nil {
			err = ended
		}
		if o.Ambiguous() {
			return &kv.AmbiguousError{Reason: err.Error()}
		}
		return err
	}
	return nil
}

// round asks all voters once, and reports whether a quorum has answered. Its answers are of one generation; what an earlier round of
// the same request heard does not count.
func (c *Client) round(ctx context.Context, k keys.Key, o *Operation) (progress bool, err error) {
	o.Restart()
	body := o.Request().Append(nil)
	round := o.Round()
	b := &kv.Batch{Header: kv.Header{Protocol: Protocol}, Requests: []kv.Request{&kv.ProtocolRequest{Key: k, Body: body}}}
	// A round that hangs, because the replicas of a quorum do not answer, may be one by an old descriptor.
	ctx, cancel := c.o.Host.Clock.WithTimeout(ctx, time.Second)
	defer cancel()
	var other *kv.ProtocolError
	var bad error
	err = c.o.Sender.Each(ctx, b, func(a route.Answer) bool {
		if a.Err != nil {
			errors.As(a.Err, &other)
			return true
		}
		r, err := reply(a.Resp)
		if err != nil {
			bad = err
			return true
		}
		o.Answer(a.From.Replica, r, func(has func(kv.ReplicaID) bool) bool {
			return a.Desc.Quorum(func(d *kv.ReplicaDescriptor) bool { return has(d.Replica) })
		})
		return o.Round() == round && !o.Done() && o.Asks() == nil
	})
	switch {
	case o.Round() != round || o.Done() || o.Asks() != nil:
		return true, nil
	case bad != nil:
		return false, bad
	case other != nil:
		return false, other
	}
	return false, err
}

func reply(b *kv.BatchResponse) (*Reply, error) {
	if len(b.Responses) == 1 {
		if p, ok := b.Responses[0].(*kv.ProtocolResponse); ok {
			r := &Reply{}
			return r, wire.Decode(p.Body, r, (*Reply).fields)
		}
	}
	return nil, &kv.InternalError{Message: "register: a replica answered another question"}
}

// ask finds out how a transaction stands whose provisional write a read has met.
func (c *Client) ask(ctx context.Context, o *Operation, d *Decree) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		t, err := c.stands(ctx, d.Meta, o.request.Key)
		if err != nil {
			return err
		}
		if t.Status != kv.Staging {
			o.Tell(&t.TxnMeta, t.Status, t.IgnoredSeqs)
			return nil
		}
		// It may have committed, and its gateway is alive, which knows soon.
		if err := c.o.Host.Clock.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// stands asks a transaction's record how the transaction stands.
func (c *Client) stands(ctx context.Context, meta kv.TxnMeta, k keys.Key) (t kv.Txn, err error) {
	resp, err := c.o.Sender.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.QueryTxnRequest{Txn: meta}}})
	if err != nil {
		return t, err
	}
	q, ok := resp.Responses[0].(*kv.QueryTxnResponse)
	if !ok {
		return t, &kv.InternalError{Message: "register: a record answered another question"}
	}
	now := c.o.Clock.Now()
	t = kv.Txn{TxnMeta: meta, Status: kv.Pending}
	if q.Exists {
		t = q.Txn
	}
	if t.Status == kv.Staging || t.Status == kv.Pending && commit.NewRecord(&t, t.Status).Expired(now) {
		// It may have committed, and somebody knows soon; or it is dead.
		resp, err := c.o.Sender.Send(ctx, &kv.Batch{Requests: []kv.Request{&kv.PushTxnRequest{Pushee: meta, Kind: kv.PushTouch, Key: k}}})
		if err != nil {
			return t, err
		}
		p, ok := resp.Responses[0].(*kv.PushTxnResponse)
		if !ok {
			return t, &kv.InternalError{Message: "register: a record answered another question"}
		}
		t = p.Pushee
	}
	return t, nil
}
