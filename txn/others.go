package txn

import (
	"context"
	"errors"
	"slices"
	"time"

	"meridian/clock"
	"meridian/commit/protocol"
	"meridian/commit/transaction"
	"meridian/keys"
	"meridian/kv"
)

// Ranges of other protocols than the leader's. A transaction begins as if there were none. The first operation that meets one is answered
// *kv.ProtocolError before anything was done, and goes to the Coordinator of the protocol that the range has; the
// transaction remembers the range's keys, and divides its operations from then on.
//
//	txn.MP1 (I2): A key's write is listed once in the staging record, with the protocol to which it was sent last. A record whose list
//	    changes is staged at a later timestamp, so that a recovery by the earlier list comes too late. Other protocols are given their writes at the later timestamp when
//	    the record has it: before that, somebody may have recovered the transaction as it was, and they would be told that its earlier writes are not committed.
//	txn.MP2 (I2): A transaction is committed, and its client answered, only after every protocol has confirmed that its writes are durable
//	    at the timestamp of the record.
//	txn.MP3 (I2): A write of which a Coordinator can't say whether it is durable is queried (commit.Finisher), which prevents it or finds
//	    it. A transaction is rolled back, or continues at a later timestamp, only when the answer is known.
//	txn.MP4 (I2): If a write is not found, the record is asked whether the transaction has committed: a change of the range's protocol may
//	    have found the write, ended the transaction and made the write an ordinary version, which no protocol takes for a provisional one.
//	    If the record is not there either, and is old enough to have been swept, the outcome is unknown.
//	    Nobody else but the gateway acts on an answer without the record (commit.Finish).
//	txn.MP6 (no lost update): A write that a Coordinator has had, or of a row that it has read, does not go to another protocol: only that Coordinator knows what was read of the
//	    row before. If the range has another protocol by then, the transaction begins again. A Coordinator that is given a write of a row that it has not read does not know what was read in the leader's range
//	    before: if the protocol promises that no update is lost, it refuses versions later than the transaction's beginning.
//
//	txn.MP7 (I3): A key that was read for the sake of a constraint, and has to have a value when the transaction commits, is given to the Coordinator of its range with the writes
//	    (transaction.Write.Guard): staging records list it as one of these, and it is durable, or refused, as they are.
//
// Isolation: a transaction is atomic over all its ranges. Its reads and writes in the leader's ranges are as its level of isolation says. A
// read in another range has the other protocol's guarantee for a single key: it is not part of the snapshot, and is not refreshed when the
// timestamp moves, unless the protocol gives levels above READ COMMITTED (Coordinator.Hold), and the client has declared one.

// others is the state of a transaction that has met a range of another protocol.
type others struct {
	// regions are the ranges that have reported their protocols, in key order and without overlap. All other keys count as the leader's.
	regions      []region
	coordinators []coordinated
	// writes are those of the commit in ranges of other protocols, durable the timestamp at which all of them are; zero: none.
	writes  []transaction.Write
	durable clock.Timestamp
	// sent are the writes as they were last given to Coordinators.
	sent []group
	// again says that the record may have been staged before, at an earlier timestamp.
	again bool
	// moved says that a row that a Coordinator has read is in another protocol's range when it is written.
	moved bool
	// implied are the rows of entries that the running statement has read (Implies).
	implied map[string]keys.Key
	// reported: a range has reported its protocol.
	reported bool
	// until, if not zero, is up to when reads in ranges of protocols without writes were validated: the transaction commits by then (txn.MP9).
	until clock.Timestamp
}

// region is the part of the keyspace of a range that is not the leader's, or was not when it was met.
type region struct {
	keys.Span
	protocol kv.Protocol
	// hint: the client has said so (Expect), and it was not looked up again because of that.
	hint bool
}

type coordinated struct {
	protocol kv.Protocol
	Coordinator
}

// Led reports whether the transaction has met leaders' ranges only.
func (t *Txn) Led() bool { return t.others == nil || len(t.others.coordinators) == 0 }

// handOvers bounds how often one operation is divided anew: it fails if ranges change their protocol more often.
const handOvers = 16

// protocol is the one that has a key, as far as the transaction knows.
func (t *Txn) protocol(k keys.Key) kv.Protocol {
	if t.others == nil {
		return protocol.Default
	}
	return t.others.protocol(k)
}

// knows reports whether a key is in one of the regions.
func (o *others) knows(k keys.Key) bool {
	for i := range o.regions {
		if o.regions[i].Contains(k) {
			return true
		}
	}
	return false
}

func (o *others) protocol(k keys.Key) kv.Protocol {
	if keys.IsLocal(k) {
		return protocol.Default
	}
	for i := range o.regions {
		if o.regions[i].Contains(k) {
			return o.regions[i].protocol
		}
	}
	return protocol.Default
}

// learn remembers the protocol that a range has reported.
func (o *others) learn(s keys.Span, p kv.Protocol) {
	out := make([]region, 0, len(o.regions)+2)
	for _, r := range o.regions {
		if !r.Overlaps(s) {
			out = append(out, r)
			continue
		}
		if r.Start.Less(s.Start) {
			out = append(out, region{keys.Span{Start: r.Start, End: s.Start}, r.protocol, r.hint})
		}
		if s.End.Less(r.End) {
			out = append(out, region{keys.Span{Start: s.End, End: r.End}, r.protocol, r.hint})
		}
	}
	if !protocol.Leased(p) {
		out = append(out, region{Span: s, protocol: p})
	}
	slices.SortFunc(out, func(a, b region) int { return a.Start.Compare(b.Start) })
	o.regions = out
}

// handOver takes the answer to an operation. It reports whether the operation can be divided anew, because a range has reported another
// protocol than the one whose Coordinator was called, and this gateway has that protocol.
func (t *Txn) handOver(err error) bool {
	if err == nil {
		return false
	}
	var other *kv.ProtocolError // it escapes, so it is declared only after the common path
	if !errors.As(err, &other) || other.Desc == nil {
		return false
	}
	if !protocol.Leased(other.Protocol) && t.db.o.Protocols[other.Protocol] == nil {
		return false
	}
	if t.others == nil {
		t.others = &others{}
	}
	t.db.o.Probes.Reached("txn: a range has another protocol")
	t.others.learn(keys.Span{Start: other.Desc.Start, End: other.Desc.End}, other.Protocol)
	t.others.reported = true
	return true
}

// divideAnew reports whether a read that has failed for the tries-th time is to be divided anew. While a range changes, its replicas do not
// hear of it at the same time, and send the reader to and fro.
func (t *Txn) divideAnew(ctx context.Context, tries int, err error) bool {
	if tries > handOvers || !t.handOver(err) {
		return false
	}
	return tries == 1 || t.db.o.Host.Clock.Sleep(ctx, min(time.Millisecond<<tries, 200*time.Millisecond)) == nil
}

// meetsOthers reports whether there may be ranges of other protocols for this gateway.
func (db *DB) meetsOthers() bool {
	return db.known != nil && db.known.Others()
}

// locate looks up the ranges of keys that are not cached, so that expect knows their protocols. The batches that are about to be sent to them would look them up otherwise, and be refused: a
// commit would have been begun with a record then, which one of a single protocol does not need (txn.MP5).
//
// end is where the range ends that has the key; nil: it does not matter.
func (t *Txn) locate(ctx context.Context, k keys.Key) (end keys.Key, err error) {
	if t.db.known == nil || t.others == nil || keys.IsLocal(k) {
		return nil, nil // a transaction of which nothing is known but the leader's ranges does not pay for the others
	}
	var hint *region
	for i := range t.others.regions {
		if r := &t.others.regions[i]; r.Contains(k) {
			if hint = r; !r.hint {
				return r.End, nil
			}
		}
	}
	end, p, err := t.db.known.Locate(ctx, k, false)
	if err == nil && hint != nil && p != hint.protocol {
		// The cache is of the time before the range had its protocol, or was split off. If the index does not know better, the range itself says so.
		hint.hint = false
		t.db.o.Probes.Reached("txn: a range was looked up again, since it is expected to have another protocol")
		end, _, err = t.db.known.Locate(ctx, k, true)
	}
	return end, err
}

// locateWrites is locate for the buffered writes.
func (t *Txn) locateWrites(ctx context.Context) error {
	if t.db.known == nil || t.others == nil {
		return nil
	}
	for i := 0; ; i++ {
		s, ok := t.core.DeletedSpan(i)
		if !ok {
			break
		}
		if _, err := t.locate(ctx, s.Start); err != nil {
			return err
		}
	}
	for k := t.core.NextBuffered(nil); k != nil; {
		end, err := t.locate(ctx, k)
		if err != nil {
			return err
		}
		if !k.Less(end) {
			end = k.Next()
		}
		k = t.core.NextBuffered(end)
	}
	return nil
}

// expect learns the protocol of a key's range from the cache, so that no request goes to the leaseholder of a range that has none for its rows. If the cache is wrong, the
// protocol that is asked says so.
func (t *Txn) expect(k keys.Key) {
	if !t.db.meetsOthers() || keys.IsLocal(k) || t.others != nil && t.others.knows(k) {
		return
	}
	d := t.db.known.Other(k)
	if d == nil || t.db.o.Protocols[d.Protocol] == nil {
		return
	}
	if t.others == nil {
		t.others = &others{}
	}
	t.others.learn(keys.Span{Start: d.Start, End: d.End}, d.Protocol)
}

// Expect tells the transaction that the ranges of a span have another protocol than the leader's, as far as its client knows. The reports of ranges count for more.
func (t *Txn) Expect(s keys.Span, p kv.Protocol) {
	switch {
	case protocol.Leased(p) || t.db.o.Protocols[p] == nil:
		return
	case t.others == nil:
		t.others = &others{}
	case t.others.reported:
		return
	}
	if _, found := t.others.overlapping(s); !found {
		t.others.learn(s, p)
		for i := range t.others.regions {
			if r := &t.others.regions[i]; r.Start.Equal(s.Start) {
				r.hint = true
			}
		}
	}
}

// coordinator is the Coordinator of a protocol; it begins with the first use.
func (t *Txn) coordinator(p kv.Protocol) Coordinator {
	if protocol.Leased(p) {
		return t.keeper
	}
	for i := range t.others.coordinators {
		if c := &t.others.coordinators[i]; c.protocol == p {
			return c.Coordinator
		}
	}
	c := t.db.o.Protocols[p].Begin()
	t.others.coordinators = append(t.others.coordinators, coordinated{p, c})
	return c
}

// asks is the transaction as Coordinators of other protocols see it: with the level that the client has asked for by name, or else with the one that all protocols give.
func (t *Txn) asks() *kv.Txn { return t.asksAs(t.core.Snapshot()) }

// asksAs is asks for the transaction as a batch has it.
func (t *Txn) asksAs(x *kv.Txn) *kv.Txn {
	if t.o.Declared || x.Isolation == kv.ReadCommitted {
		return x
	}
	y := *x
	y.Isolation = kv.ReadCommitted
	return &y
}

// restarted begins another attempt with all Coordinators. The known ranges of other protocols are kept.
func (t *Txn) restarted(fresh bool) {
	t.keeper.Restarted(fresh)
	if t.others != nil {
		t.others.writes, t.others.durable, t.others.sent, t.others.moved, t.others.again = nil, clock.Timestamp{}, nil, false, false
		for i := range t.others.coordinators {
			t.others.coordinators[i].Restarted(fresh)
		}
	}
}

// getDivided reads keys, each through the Coordinator of its range.
func (t *Txn) getDivided(ctx context.Context, ks []keys.Key, o ReadOptions) ([][]byte, error) {
	values, read := make([][]byte, len(ks)), make([]bool, len(ks))
	o.Current, o.MaxAge, o.Repeats, o.Alone = t.current, t.maxAge, t.repeats, !t.keeper.Reads()
	for n, tries := 0, 0; n < len(ks); {
		// The keys of the protocol that has the first remaining key.
		var at []int
		var some []keys.Key
		p := protocol.Default
		for i, k := range ks {
			if read[i] {
				continue
			}
			q := t.protocol(k)
			if len(at) == 0 {
				p = q
			}
			if p == q {
				at, some = append(at, i), append(some, k)
			}
		}
		vs, err := t.coordinator(p).Get(ctx, t.asks(), some, o)
		if err != nil {
			if tries++; t.divideAnew(ctx, tries, err) || t.movedElsewhere(ctx, p, &err) {
				continue
			}
			return nil, err
		}
		if len(vs) != len(some) {
			return nil, ErrMalformed
		}
		for j, i := range at {
			values[i], read[i] = vs[j], true
		}
		n += len(at)
	}
	return values, nil
}

// scanDivided reads the part of a span that one protocol has, at the end where the scan begins.
func (t *Txn) scanDivided(ctx context.Context, o ScanOptions) (rows []kv.KeyValue, resume *keys.Span, err error) {
	for tries := 0; ; {
		part, p := t.others.part(o.Span, o.Reverse)
		now := o
		now.Span, now.Fresh, now.MaxAge, now.Repeats, now.Alone = part, o.Fresh || t.current, t.maxAge, t.repeats, !t.keeper.Reads()
		rows, resume, err = t.coordinator(p).Scan(ctx, t.asks(), now)
		if err != nil {
			if tries++; t.divideAnew(ctx, tries, err) || t.movedElsewhere(ctx, p, &err) {
				continue
			}
			return nil, nil, err
		}
		switch {
		case resume != nil && o.Reverse:
			return rows, &keys.Span{Start: o.Span.Start, End: resume.End}, nil
		case resume != nil:
			return rows, &keys.Span{Start: resume.Start, End: o.Span.End}, nil
		case o.Reverse && o.Span.Start.Less(part.Start):
			return rows, &keys.Span{Start: o.Span.Start, End: part.Start}, nil
		case !o.Reverse && part.End.Less(o.Span.End):
			return rows, &keys.Span{Start: part.End, End: o.Span.End}, nil
		}
		return rows, nil, nil
	}
}

// part is the beginning of a span, or with reverse its end, that one protocol has.
func (o *others) part(s keys.Span, reverse bool) (part keys.Span, p kv.Protocol) {
	if keys.IsLocal(s.Start) {
		return s, protocol.Default
	}
	if !reverse {
		for i := range o.regions {
			switch r := &o.regions[i]; {
			case !s.Start.Less(r.End):
			case s.Start.Less(r.Start):
				return keys.Span{Start: s.Start, End: least(s.End, r.Start)}, protocol.Default
			default:
				return keys.Span{Start: s.Start, End: least(s.End, r.End)}, r.protocol
			}
		}
		return s, protocol.Default
	}
	for i := len(o.regions) - 1; i >= 0; i-- {
		switch r := &o.regions[i]; {
		case !r.Start.Less(s.End):
		case r.End.Less(s.End):
			return keys.Span{Start: greatest(s.Start, r.End), End: s.End}, protocol.Default
		default:
			return keys.Span{Start: greatest(s.Start, r.Start), End: s.End}, r.protocol
		}
	}
	return s, protocol.Default
}

func least(a, b keys.Key) keys.Key {
	if b.Less(a) {
		return b
	}
	return a
}

func greatest(a, b keys.Key) keys.Key {
	if a.Less(b) {
		return b
	}
	return a
}

// scanManyDivided is ScanMany span by span.
func (t *Txn) scanManyDivided(ctx context.Context, spans []keys.Span, o ScanOptions) ([][]kv.KeyValue, error) {
	o.MaxRows, o.TargetBytes = 0, 0
	out := make([][]kv.KeyValue, len(spans))
	for i, s := range spans {
		for left := &s; left != nil; {
			o.Span = *left
			rows, resume, err := t.Scan(ctx, o)
			if err != nil {
				return nil, err
			}
			out[i] = append(out[i], rows...)
			left = resume
		}
	}
	return out, nil
}
