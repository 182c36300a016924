package leader

import (
	"meridian/clock"
	"meridian/kv"
	"meridian/replica/lease"
	"meridian/storage/mvcc"
)

// clockIn reads the node's clock, and gives a batch without a transaction its timestamp.
func (c *call) clockIn() {
	if c.first.Now.IsZero() {
		c.first = c.p.o.Clock.Read()
		c.now = c.first.Now
	} else {
		c.now = c.p.o.Clock.Now()
	}
	if c.txn == nil && c.at.IsZero() {
		if c.at = c.b.Timestamp; c.at.IsZero() {
			c.at = c.now
		}
	}
}

func (c *call) readAt() clock.Timestamp {
	if c.txn != nil {
		return c.txn.ReadTimestamp
	}
	return c.at
}

// servesAt is the timestamp that the lease has to cover: no later leaseholder permits a write at or below it. Writes need no lease that covers
// them, since they are in the log. If they asked for one, each restart after one of a leaseholder that had served ahead of its clock would cost
// as much as that: they are pushed above the start of the lease, which lies ahead too (lease.RL5). A request that fails because of a value has read it.
func (c *call) servesAt() clock.Timestamp {
	at := c.readAt()
	if c.blind() && !c.told && at.LessEq(c.now.Add(lease.Farthest)) {
		return c.prevents
	}
	return at.Forward(c.prevents)
}

func (c *call) writeAt() clock.Timestamp {
	if c.txn != nil {
		return c.txn.WriteTimestamp
	}
	return c.at
}

// minAt is the transaction's first timestamp.
func (c *call) minAt() clock.Timestamp {
	if c.txn == nil {
		return clock.Timestamp{}
	}
	return c.txn.MinTimestamp
}

func (c *call) txnMeta() *kv.TxnMeta {
	if c.txn == nil {
		return nil
	}
	return &c.txn.TxnMeta
}

func (c *call) txnID() kv.TxnID {
	if c.txn == nil {
		return kv.TxnID{}
	}
	return c.txn.ID
}

// mayForward reports whether the range may move the read timestamp (leader.P13).
//
// Writes that left their gateway before the lease began may be a late copy of writes that another leaseholder has served, when the gateway
// sent them again. Then the newer version that they meet may be their own, and above it they would be done a second time. Under this lease
// the mark of a commit shows it (leader.P5).
//
// A batch that left later (Header.Now) is no such copy: the other leaseholder would have served one that left later still, with a clock that had moved past
// the reading in it, and its lease ended before any clock of its own came to the beginning of this one (leader.P3). So transactions that waited in a
// long queue while the lease moved are not held up for it.
func (c *call) mayForward() bool {
	if c.txn == nil {
		return c.b.Timestamp.IsZero()
	}
	return c.b.CanForwardRead && (c.writes == 0 || c.p.low.Load().Less(c.txn.MinTimestamp.Forward(c.b.Now)))
}

// forward moves read and write timestamp, instead of answering with a retry error.
func (c *call) forward(to clock.Timestamp) {
	c.p.o.Metrics.Forwarded.Add(1)
	if c.txn == nil {
		c.at = c.at.Forward(to)
		return
	}
	t := c.copyTxn()
	t.ReadTimestamp = t.ReadTimestamp.Forward(to)
	t.WriteTimestamp = t.WriteTimestamp.Forward(to)
}

// push moves the write timestamp forward.
func (c *call) pushWrite(to clock.Timestamp) {
	if c.txn == nil {
		c.at = c.at.Forward(to)
	} else if c.txn.WriteTimestamp.Less(to) {
		c.copyTxn().WriteTimestamp = to
	}
}

// copyTxn makes q.txn writable.
func (c *call) copyTxn() *kv.Txn {
	if !c.moved {
		own := *c.txn
		c.txn, c.moved = &own, true
	}
	return c.txn
}

// uncertainty is the interval in which the batch's plain reads can't decide whether a version precedes them.
func (p *Participant) uncertainty(b *kv.Batch, t *kv.Txn, now clock.Reading) mvcc.Uncertainty {
	if t == nil {
		if !b.Timestamp.IsZero() {
			return mvcc.Uncertainty{}
		}
		return mvcc.Uncertainty{Global: now.Limit(), Local: now.Now.Forward(*p.low.Load())}
	}
	if t.UncertaintyLimit.LessEq(t.ReadTimestamp) {
		return mvcc.Uncertainty{}
	}
	at, ok := t.ObservedAt(p.r.NodeID())
	if !ok {
		at = now.Now
	}
	// Versions of an earlier leaseholder carry readings of its own clock, all below the lease's start.
	return mvcc.Uncertainty{Global: t.UncertaintyLimit, Local: at.Forward(*p.low.Load())}
}
