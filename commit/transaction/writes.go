package transaction

import (
	"bytes"
	"cmp"
	"slices"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// Bounds of what one transaction keeps, and sends at once, chosen here.
const (
	// flushBytes is the size of the buffer above which it is sent early, as provisional writes.
	flushBytes = 4 << 20
	// flushKeys is the same in keys.
	flushKeys = 50_000
	// ChunkBytes is the size of one batch of writes; it becomes one raft command on each range.
	ChunkBytes = 1 << 20
	// MaxTogether is the number of writes that leave in one batch with the record. More leave in batches of their own along with it.
	MaxTogether = 1024
	// MaxInFlight and MaxInFlightBytes are the number of writes that a staging record may list, and the size of their keys: what has to
	// be read and asked for if the gateway dies (commit.AskMax), and a fraction of what a command may be long.
	MaxInFlight      = 1 << 16
	MaxInFlightBytes = 4 << 20
)

// Buffered is what the buffer says of a key to a plain read. found with a nil value is a deletion.
func (c *Core) Buffered(k keys.Key) (value []byte, found bool) {
	if c.buf.empty() {
		return nil, false
	}
	return c.buf.get(k, c.readSeq)
}

// BufferedNewest does so for a check that sees the running statement's own writes.
func (c *Core) BufferedNewest(k keys.Key) (value []byte, found bool) {
	if c.buf.empty() {
		return nil, false
	}
	return c.buf.get(k, c.seq)
}

// Buffers reports whether the buffer has a write of the key itself.
func (c *Core) Buffers(k keys.Key) bool { return c.buf.find(k) != nil }

// BufferEmpty reports whether there are no writes that have not been sent.
func (c *Core) BufferEmpty() bool { return c.buf.empty() }

// BufferBytes is about how much memory the buffer takes.
func (c *Core) BufferBytes() int { return c.buf.bytes }

// Overlay applies the buffer to rows, which are all rows of the ranges within s.
func (c *Core) Overlay(rows []kv.KeyValue, s keys.Span, reverse bool) []kv.KeyValue {
	return c.buf.overlay(rows, s, reverse, c.readSeq)
}

// Put buffers a write; a nil value deletes. first reports that the buffer had no write of the key.
func (c *Core) Put(k keys.Key, v []byte) (w BufferedWrite, first bool) {
	c.wrote(k)
	e := c.buf.put(k, v, c.nextSeq())
	return BufferedWrite{e}, len(e.versions) == 1
}

// PutSum is Put of a value that is the sum of the one before and of deltas.
func (c *Core) PutSum(k keys.Key, v []byte, deltas []Delta) (w BufferedWrite, first bool) {
	w, first = c.Put(k, v)
	w.e.sums = append(w.e.sums, sum{w.e.versions[len(w.e.versions)-1].seq, deltas})
	return w, first
}

// BufferedWrite is a key in the buffer.
type BufferedWrite struct{ e *entry }

// Seen says when the transaction saw what the write replaces (coordinator.CO6).
func (b BufferedWrite) Seen(at clock.Timestamp) { b.e.seen = at }

// CPut buffers a write that the commit shall check: the value below the buffer must be expected. The key must not
// be in the buffer, and the commit must follow without another statement.
func (c *Core) CPut(k keys.Key, v, expected []byte) {
	c.wrote(k)
	e := c.buf.put(k, v, c.nextSeq())
	e.conditional, e.expected = true, expected
}

// DeleteRange buffers the deletion of a span.
func (c *Core) DeleteRange(s keys.Span) {
	c.wrote(s.Start)
	c.buf.deleteRange(s, c.nextSeq())
}

func (c *Core) wrote(k keys.Key) {
	if c.first == nil {
		c.first = k
	}
}

// AnchorFirst anchors the transaction at its first write, if it has no anchor.
func (c *Core) AnchorFirst() { c.Anchor(c.first) }

// WriteBounds are the first and the last address that the buffer writes to.
func (c *Core) WriteBounds() (first, last keys.Key) { return c.buf.bounds() }

// Write is a write that has to be made provisional: the newest one of its key.
type Write struct {
	Key   keys.Key
	Value []byte // nil deletes
	Seq   kv.Seq
	// Conditional says that what is there has to be Expected (nil: nothing), or else kv.ConditionFailedError.
	Conditional bool
	Expected    []byte
	// Seen is when the transaction saw what the write replaces (coordinator.CO6); zero: at its read timestamp.
	Seen clock.Timestamp
	// Deltas are what the write adds to integer columns of what is there; nil: it replaces the value. Value is what it comes to on what the transaction has read. Protocols whose
	// updates do not commute take the value.
	Deltas []Delta
	// Guard says that nothing is written: the key has to have a value when the transaction commits. Ranges of the leader protocol have no such writes.
	Guard bool
}

// Delta is an amount that is added to an integer column, which has to stay between Min and Max.
type Delta struct {
	Column           uint32
	Amount, Min, Max int64
}

// Request is the write as a request to the leader's ranges.
func (w *Write) Request() kv.Request {
	switch {
	case w.Conditional:
		return &kv.CPutRequest{Key: w.Key, Value: w.Value, Expected: w.Expected, Seq: w.Seq}
	case w.Value == nil:
		return &kv.DeleteRequest{Key: w.Key, Seq: w.Seq, Seen: w.Seen}
	}
	return &kv.PutRequest{Key: w.Key, Value: w.Value, Seq: w.Seq, Seen: w.Seen}
}

// WriteOf is the write that a request to the leader's ranges makes; false if it is not the write of one key.
func WriteOf(r kv.Request) (Write, bool) {
	switch r := r.(type) {
	case *kv.PutRequest:
		return Write{Key: r.Key, Value: r.Value, Seq: r.Seq, Seen: r.Seen}, true
	case *kv.CPutRequest:
		return Write{Key: r.Key, Value: r.Value, Seq: r.Seq, Conditional: true, Expected: r.Expected}, true
	case *kv.DeleteRequest:
		return Write{Key: r.Key, Seq: r.Seq, Seen: r.Seen}, true
	}
	return Write{}, false
}

func ignored(l []kv.SeqRange, seq kv.Seq) bool {
	return slices.ContainsFunc(l, func(r kv.SeqRange) bool { return r.First <= seq && seq <= r.Last })
}

// ignore adds a range that ends after all others.
func ignore(l []kv.SeqRange, r kv.SeqRange) []kv.SeqRange {
	out := make([]kv.SeqRange, 0, len(l)+1)
	for _, x := range l {
		if x.Last+1 < r.First {
			out = append(out, x)
		} else {
			r.First = min(r.First, x.First)
		}
	}
	return append(out, r)
}

// FlushNeeded reports whether the buffer is so large that it should be sent now.
func (c *Core) FlushNeeded() bool {
	limit := c.o.BufferBytes
	if limit == 0 {
		limit = flushBytes
	}
	return c.buf.bytes > limit || c.buf.len() > flushKeys
}

// TakeFlush empties the buffer into batches of provisional writes, with every version of each key. Those that write the same keys
// are sent in order. Writes of the keys that keep, if it is not nil, is true of stay in the buffer.
func (c *Core) TakeFlush(keep func(keys.Key) bool) []*kv.Batch {
	var kept []*entry
	if keep != nil {
		kept = c.buf.take(keep)
	}
	reqs := c.buf.history()
	c.NoteWrites(reqs)
	c.buf.reset()
	c.buf.putBack(kept)
	return Chunk(reqs)
}

// TakeWrites empties the buffer at a commit: the deletions of spans, of which there may be some (ranges), and the newest version of
// each key that they do not cover. spare is the number of further requests that the caller will append.
func (c *Core) TakeWrites(spare int) (reqs []kv.Request, ranges bool) {
	reqs, ranges = c.buf.requests(spare), len(c.buf.tombstones) > 0
	c.buf.reset()
	return reqs, ranges
}

// NoteWrites makes writes known to cleanup before they are sent (transaction.TC1).
func (c *Core) NoteWrites(reqs []kv.Request) {
	for _, r := range reqs {
		c.locks.Add(r.Span())
	}
	if len(reqs) > 0 {
		c.AnchorFirst()
		c.sent, c.sentSeq = true, c.seq
	}
}

// NoteElsewhere makes writes in ranges of another protocol known to cleanup before they are sent (transaction.TC1).
func (c *Core) NoteElsewhere(p kv.Protocol, writes []Write) {
	c.AnchorFirst()
	c.sent, c.sentSeq = true, c.seq
	// Cleanups of the past have the slice as it was.
	c.elsewhere = slices.Clip(c.elsewhere)
	for i := range writes {
		w := kv.InFlightWrite{Key: writes[i].Key, Seq: writes[i].Seq, Protocol: p}
		if !slices.ContainsFunc(c.elsewhere, func(x kv.InFlightWrite) bool { return x.Seq == w.Seq && x.Protocol == p }) {
			c.elsewhere = append(c.elsewhere, w)
		}
	}
}

// NextBuffered is the first key with a buffered write from a key on, nil if there is none.
func (c *Core) NextBuffered(from keys.Key) keys.Key {
	if b := &c.buf; b.tree == nil {
		if i, _ := b.search(from); i < len(b.small) {
			return b.small[i].key
		}
		return nil
	}
	return c.buf.next(from)
}

// DeletedSpan is the i-th span whose deletion is buffered; false: there are not so many.
func (c *Core) DeletedSpan(i int) (keys.Span, bool) {
	if i >= len(c.buf.tombstones) {
		return keys.Span{}, false
	}
	return c.buf.tombstones[i].span, true
}

// DeletesWithin reports whether the buffer has the deletion of a span that f is true of.
func (c *Core) DeletesWithin(f func(keys.Span) bool) bool {
	return slices.ContainsFunc(c.buf.tombstones, func(t tombstone) bool { return f(t.span) })
}

// TakeElsewhere removes from the buffer the newest writes of the keys that f is true of, and all others of these keys.
func (c *Core) TakeElsewhere(f func(keys.Key) bool) (out []Write) {
	for _, e := range c.buf.take(f) {
		out = append(out, e.newest())
	}
	return out
}

// Guard says that a key, in a range of another protocol than the leader's, has to have a value when the transaction commits. A rollback to a savepoint before forgets it.
func (c *Core) Guard(k keys.Key) {
	if _, have := c.guards[string(k)]; have {
		return
	}
	if c.guards == nil {
		c.guards = make(map[string]kv.Seq)
	}
	c.guards[string(k)] = c.nextSeq()
}

// Guards are the keys that have to have values, but for those that are among writes: what a transaction writes it need not guard.
func (c *Core) Guards(writes []Write) (out []Write) {
	if len(c.guards) == 0 {
		return nil
	}
	written := make(map[string]bool, len(writes))
	for i := range writes {
		written[string(writes[i].Key)] = true
	}
	for k, seq := range c.guards {
		if !written[k] {
			out = append(out, Write{Key: keys.Key(k), Seq: seq, Guard: true})
		}
	}
	slices.SortFunc(out, func(a, b Write) int { return cmp.Compare(a.Seq, b.Seq) })
	return out
}

// Wanted is what remains of requests that have to be sent again: a rollback to a savepoint may have undone some.
func (c *Core) Wanted(reqs []kv.Request) []kv.Request {
	if len(c.txn.IgnoredSeqs) == 0 {
		return reqs
	}
	out := make([]kv.Request, 0, len(reqs))
	for _, r := range reqs {
		if !ignored(c.txn.IgnoredSeqs, SeqOf(r)) {
			out = append(out, r)
		}
	}
	return out
}

// InFlight adds to list what a staging record says of writes that are under way: of each key, the last write that was not rolled back.
// The writes of a key are neighbours.
func (c *Core) InFlight(list []kv.InFlightWrite, p kv.Protocol, writes []kv.Request) []kv.InFlightWrite {
	from := len(list)
	for _, r := range writes {
		k, seq := r.Span().Start, SeqOf(r)
		if len(c.txn.IgnoredSeqs) > 0 && ignored(c.txn.IgnoredSeqs, seq) {
			continue
		}
		if n := len(list); n > from && bytes.Equal(list[n-1].Key, k) {
			list[n-1].Seq = max(list[n-1].Seq, seq)
			continue
		}
		list = append(list, kv.InFlightWrite{Key: k, Seq: seq, Protocol: p})
	}
	return list
}

// SeqOf is the sequence number of a write.
func SeqOf(r kv.Request) kv.Seq {
	switch r := r.(type) {
	case *kv.PutRequest:
		return r.Seq
	case *kv.CPutRequest:
		return r.Seq
	case *kv.DeleteRequest:
		return r.Seq
	case *kv.DeleteRangeRequest:
		return r.Seq
	}
	return 0
}

// Chunk divides requests into batches. Neighbours with the same key stay together. A request that is larger than a batch is one
// by itself, as the largest entry of a table just fits into a command.
func Chunk(reqs []kv.Request) []*kv.Batch {
	var out []*kv.Batch
	start, size := 0, 0
	for i, r := range reqs {
		n := 64
		switch r := r.(type) {
		case *kv.PutRequest:
			n += len(r.Key) + len(r.Value)
		case *kv.CPutRequest:
			n += len(r.Key) + len(r.Value)
		}
		if n > ChunkBytes && i > start && !bytes.Equal(reqs[i-1].Span().Start, r.Span().Start) {
			out = append(out, &kv.Batch{Requests: reqs[start:i:i]})
			start, size = i, 0
		}
		if size += n; size > ChunkBytes && (i+1 == len(reqs) || !bytes.Equal(reqs[i+1].Span().Start, r.Span().Start)) {
			out = append(out, &kv.Batch{Requests: reqs[start : i+1 : i+1]})
			start, size = i+1, 0
		}
	}
	if start < len(reqs) {
		out = append(out, &kv.Batch{Requests: reqs[start:]})
	}
	return out
}
