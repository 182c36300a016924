package fastpaxos

import (
	"fmt"
	"iter"
	"slices"

	"meridian/clock"
	"meridian/encoding"
	"meridian/keys"
	"meridian/wire"
)

// A record is several keys of the delta, so that a vote writes itself and not what the record has besides (fastpaxos.FP40):
//
//	row key, 'h'                  the head: ballots, and the version if the base does not have it
//	row key, 'a', name            an executed update that commutes
//	row key, 'v', name            a vote, or the outcome that takes its place
//	0                             the floor of records that were dropped (fastpaxos.FP41)
//
// Names are a timestamp and a transaction, and are not repeated in the values. If the base has a protocol key next to the row, the first change in the generation
// writes all parts, and the head is there in any case. So what the delta has of a record takes the place of that.

// partKind is a kind of parts of a record, of which there is one key for each name.
type partKind byte

const (
	partHead  partKind = 'h'
	partAdded partKind = 'a'
	partEnded partKind = 'e'
	partVote  partKind = 'v'
	// partVoteKey is that of the key of both of the latter; the first byte of the value says which it is.
	partVoteKey = partVote
)

// change is a part of a record that was changed, or removed.
type change struct {
	part  partKind
	name  Name
	grows int // by so many bytes
}

// kept is what an acceptor knows of a record besides its state.
type kept struct {
	// checked is when the record was last compared with the base.
	checked clock.Timestamp
	// base is the version that the range's base has, at least; side says that there is a protocol key next to the row.
	base clock.Timestamp
	side bool
	// floor is that of the record if the delta has no head of it.
	floor clock.Timestamp
	// whole says that the delta has all parts, head about how many bytes it has of the head.
	whole bool
	head  int

	// shown are transactions whose outcome was shown, and whose end has not come, which may have to be durable (fastpaxos.FP72).
	shown []Name

	changes []change
	headNew bool
	sums    *totals // nil: to be computed
	// next is when outcomes are to be forgotten again.
	next clock.Timestamp
	// eras are earlier states, oldest first.
	eras []era
}

func (r *Record) note(p partKind, n Name, grows int) {
	if r.kept == nil {
		return
	}
	if r.kept.changes == nil {
		r.kept.changes = make([]change, 0, 4)
	}
	r.kept.changes = append(r.kept.changes, change{p, n, grows})
}

func (r *Record) noteHead() {
	if r.kept != nil {
		r.kept.headNew = true
	}
}

// noteAll notes all that differs from another state of the record.
func (r *Record) noteAll(was *Record) {
	r.noteHead()
	r.changedTotals()
	for i := range was.Votes {
		v := &was.Votes[i]
		if now := r.vote(v.Name); now == nil {
			r.note(partVote, v.Name, -v.size())
		} else if v.Verdict != now.Verdict || v.Fixed != now.Fixed || v.size() != now.size() {
			r.note(partVote, v.Name, now.size()-v.size())
		}
	}
	for i := range r.Votes {
		if v := &r.Votes[i]; was.vote(v.Name) == nil {
			r.note(partVote, v.Name, v.size())
		}
	}
	differ(was.Added, r.Added, func(x *Addition) Name { return x.Name }, func(x, y *Addition) {
		switch {
		case y == nil:
			r.note(partAdded, x.Name, -x.size())
		case x == nil:
			r.note(partAdded, y.Name, y.size())
		case x.Started != y.Started || x.Fixed != y.Fixed:
			r.note(partAdded, x.Name, 0)
		}
	})
	differ(was.Recent, r.Recent, func(x *Ended) Name { return x.Name }, func(x, y *Ended) {
		switch {
		case y == nil:
			r.note(partEnded, x.Name, -x.size())
		case x == nil:
			r.note(partEnded, y.Name, y.size())
		case len(x.Keys) != len(y.Keys):
			r.note(partEnded, x.Name, y.size()-x.size())
		}
	})
}

// differ goes through two lists in order of names. each is given what one has, and what both have.
func differ[T any](xs, ys []T, name func(*T) Name, each func(x, y *T)) {
	for len(xs) > 0 || len(ys) > 0 {
		c := 0
		switch {
		case len(xs) == 0:
			c = 1
		case len(ys) == 0:
			c = -1
		default:
			c = name(&xs[0]).Compare(name(&ys[0]))
		}
		switch {
		case c < 0:
			each(&xs[0], nil)
			xs = xs[1:]
		case c > 0:
			each(nil, &ys[0])
			ys = ys[1:]
		default:
			each(&xs[0], &ys[0])
			xs, ys = xs[1:], ys[1:]
		}
	}
}

// take gives the changes that were not written yet.
func (k *kept) take(r *Record) []change {
	if len(k.changes) == 0 && !k.headNew {
		return nil
	}
	if k.side && !k.whole {
		// The protocol key next to the row is not changed, so the delta takes its place. Parts that are not there any more are removed in vain.
		for i := range k.changes {
			k.changes[i].grows = 0
		}
		k.headNew = true
		for i := range r.Votes {
			r.note(partVote, r.Votes[i].Name, r.Votes[i].size())
		}
		for i := range r.Added {
			r.note(partAdded, r.Added[i].Name, r.Added[i].size())
		}
		for i := range r.Recent {
			r.note(partEnded, r.Recent[i].Name, r.Recent[i].size())
		}
	}
	k.whole = true
	if k.headNew {
		if n := r.headSize(k); n > 0 || k.head > 0 {
			r.note(partHead, Name{}, n-k.head)
			k.head = n
		}
		k.headNew = false
	}
	out := k.changes
	k.changes = nil
	return out
}

// The sizes of parts are about those of their keys and values.

const partSize = 48

func (o *Option) size() int {
	n := partSize + len(o.Value) + 16*len(o.Deltas) + len(o.Anchor)
	for _, k := range o.Keys {
		n += len(k) + 2
	}
	return n
}

func (a *Addition) size() int { return a.Option.size() }
func (v *Vote) size() int     { return v.Option.size() }

func (e *Ended) size() int {
	n := partSize
	for _, k := range e.Keys {
		n += len(k) + 2
	}
	return n
}

// headSize is zero if nothing need be stored.
func (r *Record) headSize(k *kept) int {
	switch {
	case k.base.Less(r.Base.At):
		return partSize + len(r.Base.Data)
	case k.side || r.Promised != Ballot{} || r.Accepted != Ballot{} || r.Sequence != 0 || !r.Closed.IsZero() || k.floor.Less(r.Floor):
		return partSize
	}
	return 0
}

// size is that of all parts that are in the delta.
func (r *Record) size() (n int64) {
	for i := range r.Added {
		n += int64(r.Added[i].size())
	}
	for i := range r.Votes {
		n += int64(r.Votes[i].size())
	}
	for i := range r.Recent {
		n += int64(r.Recent[i].size())
	}
	return n
}

// totals are what executed updates that commute come to.
type totals struct {
	hash    uint64
	columns []columnTotal
	// row is the value with all of them but pending, if there is one.
	row     []byte
	pending []Delta
}

// columnTotal is of one column: what had been executed when the ballot began, and what has been since, by either direction.
type columnTotal struct {
	column   uint32
	started  sum
	up, down wayTotal
}

// wayTotal is what the ballot's master has proposed, and what others have.
type wayTotal struct{ fixed, others uint64 }

func (t *totals) column(id uint32) *columnTotal {
	for i := range t.columns {
		if t.columns[i].column == id {
			return &t.columns[i]
		}
	}
	return nil
}

func (t *totals) add(a *Addition) {
	t.hash ^= a.hash()
	t.pending = append(t.pending, a.Deltas...)
	for _, d := range a.Deltas {
		c := t.column(d.Column)
		if c == nil {
			t.columns = append(t.columns, columnTotal{column: d.Column})
			c = &t.columns[len(t.columns)-1]
		}
		way := &c.up
		if d.Amount < 0 {
			way = &c.down
		}
		switch {
		case a.Started:
			c.started = c.started.plus(d.Amount)
		case a.Fixed:
			way.fixed = saturated(way.fixed, size(d.Amount))
		default:
			way.others = saturated(way.others, size(d.Amount))
		}
	}
}

// fewAdded is of how many updates the totals are computed each time that they are needed: most of an acceptor's records have one or two.
const fewAdded = 8

// totals are computed anew but for an acceptor's record that has many updates.
func (r *Record) totals() *totals {
	if r.kept != nil && r.kept.sums != nil {
		return r.kept.sums
	}
	t := &totals{row: r.Base.Data}
	for i := range r.Added {
		t.add(&r.Added[i])
	}
	if r.kept != nil && len(r.Added) > fewAdded {
		r.kept.sums = t
	}
	return t
}

func (r *Record) addTotals(a *Addition) {
	if r.kept != nil && r.kept.sums != nil {
		r.kept.sums.add(a)
	}
}

func (r *Record) changedTotals() {
	if r.kept != nil {
		r.kept.sums = nil
	}
}

// mayForget reports whether it is time to look for outcomes to forget: a record with many is not gone through with each further one.
func (r *Record) mayForget(now clock.Timestamp) bool {
	switch {
	case len(r.Recent) <= fewEnded || r.kept == nil:
	case now.Less(r.kept.next):
		return false
	default:
		r.kept.next = now.Add(remembered / 16)
	}
	return true
}

// floorName is the delta's key of the floor of records that were dropped. No row key's encoding is like it.
const floorName = "\x00"

// partPrefix begins the names of a record's parts.
func partPrefix(k keys.Key) []byte {
	return encoding.AppendBytes(make([]byte, 0, len(k)+40), k, encoding.Ascending)
}

func appendPart(b []byte, p partKind, n Name) []byte {
	if p == partEnded {
		p = partVoteKey
	}
	if b = append(b, byte(p)); p == partHead {
		return b
	}
	return append(n.At.Append(b), n.Txn[:]...)
}

// putter is what *rangeserver.Delta does.
type putter interface {
	Put(name, value []byte)
	Delete(name []byte)
}

// store puts what was changed into the delta.
func (w *Write) store(d putter) {
	if w.Key == nil {
		d.Put([]byte(floorName), w.Record.Floor.Append(nil))
		return
	}
	prefix := partPrefix(w.Key)
	var value []byte
	for i, c := range w.changes {
		if i+1 < len(w.changes) && c.part == partVote && w.changes[i+1].part == partEnded && w.changes[i+1].name == c.name {
			continue // the outcome takes the place of the vote
		}
		name := appendPart(prefix, c.part, c.name)
		var there bool
		if value, there = w.Record.appendPart(value[:0], w.Key, c); there {
			d.Put(name, value)
		} else {
			d.Delete(name)
		}
	}
}

// appendPart adds the value of a part, if the record has it.
func (r *Record) appendPart(b []byte, k keys.Key, c change) ([]byte, bool) {
	stored := func(o *Option) {
		o.Name = Name{}
		if len(o.Keys) == 1 && o.Keys[0].Equal(k) {
			o.Keys = nil
		}
	}
	switch c.part {
	case partHead:
		h := Record{Promised: r.Promised, Accepted: r.Accepted, Sequence: r.Sequence, Closed: r.Closed, Mark: r.Mark, Floor: r.Floor}
		if r.kept.base.Less(r.Base.At) {
			h.Base = r.Base
		}
		return h.Append(b), r.headSize(r.kept) > 0
	case partAdded:
		if i, found := r.addition(c.name); found {
			a := r.Added[i]
			stored(&a.Option)
			return a.append(b), true
		}
	case partVote, partEnded:
		if i, found := r.recent(c.name); found {
			e := r.Recent[i]
			e.Name = Name{}
			return e.append(append(b, byte(partEnded))), true
		}
		if v := r.vote(c.name); v != nil {
			one := *v
			stored(&one.Option)
			return one.append(append(b, byte(partVote))), true
		}
	}
	return b, false
}

// restoreDelta gives the records of a delta, as far as that has them (Record.over). One without a key has the floor.
func restoreDelta(entries iter.Seq2[[]byte, []byte]) (out []Write, err error) {
	var r *Record
	var k keys.Key
	for name, value := range entries {
		value = slices.Clone(value)
		if string(name) == floorName {
			at, _, err := clock.Decode(value)
			if err != nil {
				return nil, fmt.Errorf("fastpaxos: the delta's floor: %w", err)
			}
			out = append(out, Write{Record: &Record{Floor: at}})
			continue
		}
		row, rest, err := encoding.DecodeBytes(name, nil, encoding.Ascending)
		if err != nil || len(rest) == 0 {
			return nil, fmt.Errorf("fastpaxos: a name of the delta is none: %x", name)
		}
		if r == nil || !k.Equal(row) {
			k, r = slices.Clone(row), &Record{}
			out = append(out, Write{Key: k, Record: r})
		}
		if err := r.readPart(k, partKind(rest[0]), rest[1:], value); err != nil {
			return nil, fmt.Errorf("fastpaxos: the delta of %s: %w", keys.Masked(k), err)
		}
	}
	return out, nil
}

func (r *Record) readPart(k keys.Key, p partKind, name, value []byte) error {
	var n Name
	in := wire.Read(value)
	if p == partHead {
		h := &Record{}
		readRecord(&in, h)
		h.Added, h.Votes, h.Recent = r.Added, r.Votes, r.Recent
		*r = *h
		return in.Err()
	}
	at, id, err := clock.Decode(name)
	if err != nil || len(id) != len(n.Txn) {
		return fmt.Errorf("part %c has the name %x", p, name)
	}
	n.At = at
	copy(n.Txn[:], id)
	if p == partVoteKey {
		if len(value) == 0 {
			return fmt.Errorf("part %c has no value", p)
		}
		p, in = partKind(value[0]), wire.Read(value[1:])
	}
	stored := func(o *Option) {
		o.Name = n
		if o.Keys == nil {
			o.Keys = []keys.Key{k}
		}
	}
	switch p {
	case partAdded:
		a := Addition{}
		readAddition(&in, &a)
		stored(&a.Option)
		r.Added = append(r.Added, a)
	case partVote:
		v := Vote{}
		readVote(&in, &v)
		stored(&v.Option)
		r.Votes = append(r.Votes, v)
	case partEnded:
		e := Ended{}
		readEnded(&in, &e)
		e.Name = n
		r.Recent = append(r.Recent, e)
	default:
		return fmt.Errorf("there is no part %x", byte(p))
	}
	return in.Err()
}

// pieceParts is about how many parts of a record are in one piece of a report.
const pieceParts = 1 << 10

// pieces gives the report of a record.
func (w *Write) pieces(send func([]byte) error) error {
	if w.Key == nil {
		return nil // the next generation's floor is above it
	}
	rest := *w.Record
	for {
		one := rest
		take := func(n int) int { return min(n, pieceParts) }
		a, v, e := take(len(rest.Added)), take(len(rest.Votes)), take(len(rest.Recent))
		one.Added, one.Votes, one.Recent = rest.Added[:a], rest.Votes[:v], rest.Recent[:e]
		if err := send((&Write{Key: w.Key, Record: &one}).Append(nil)); err != nil {
			return err
		}
		rest.Added, rest.Votes, rest.Recent = rest.Added[a:], rest.Votes[v:], rest.Recent[e:]
		if len(rest.Added)+len(rest.Votes)+len(rest.Recent) == 0 {
			return nil
		}
	}
}
