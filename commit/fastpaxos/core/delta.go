package core

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
//	row key, 'h'                  the head: ballots, and the version if no outcome has it, and the base does not
//	0, 'v', name, row key         a vote, or the outcome that takes its place, with what was executed
//	0, 'a', name, row key         an executed update that commutes, and whose outcome is not remembered any more, or was not told
//	0                             the floor of records that were dropped (fastpaxos.FP41)
//	1                             the ballot that was promised for all records (fastpaxos.FP90)
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
	// partDone is an outcome with what was executed.
	partDone partKind = 'd'
	// partVoteKey is that of the key of votes and outcomes; the first byte of the value says which of the latter three it is.
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
	// caught is Acceptor.caught as of then, or as of when the record was loaded.
	caught uint64
	// base is the version that the range's base has, at least; side says that there is a protocol key next to the row.
	base clock.Timestamp
	side bool
	// floor is that of the record if the delta has no head of it.
	floor clock.Timestamp
	// whole says that the delta has all parts, head about how many bytes it has of the head.
	whole bool
	head  int
	// within is the version that the delta has with its transaction's outcome: the head need not have it.
	within clock.Timestamp

	// shown are transactions whose outcome was shown, and whose end has not come, which may have to be durable (fastpaxos.FP72).
	shown []Name

	changes []change
	spare   *[][]change // of the acceptor
	headNew bool
	sums    *totals // nil: to be computed
	// next is when outcomes are to be forgotten again.
	next clock.Timestamp
	// eras are earlier states, oldest first. States that ended up to lost may be missing. total counts those of the acceptor.
	eras  []era
	lost  clock.Timestamp
	total *int64
}

// Unwritten reports whether the record has changes that are written with the next one.
func (r *Record) Unwritten() bool { return len(r.kept.changes) > 0 }

func (r *Record) note(p partKind, n Name, grows int) {
	if r.kept == nil {
		return
	}
	if r.kept.changes == nil {
		if spare := r.kept.spare; spare != nil && len(*spare) > 0 {
			last := len(*spare) - 1
			r.kept.changes, *spare = (*spare)[last], (*spare)[:last]
		} else {
			r.kept.changes = make([]change, 0, 4)
		}
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
		if now := r.Vote(v.Name); now == nil {
			r.note(partVote, v.Name, -v.size())
		} else if v.Verdict != now.Verdict || v.Fixed != now.Fixed || v.size() != now.size() {
			r.note(partVote, v.Name, now.size()-v.size())
		}
	}
	for i := range r.Votes {
		if v := &r.Votes[i]; was.Vote(v.Name) == nil {
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
	r.place()
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

// Of a record with few outcomes, a version that is not large is written with its outcome. The version of another record would be there once for each of them, in the head it is there once.
const (
	outcomesFew = 4
	valueSmall  = 512
)

// place finds where the version is, with an outcome or in the head, after those changes of outcomes that are about to be written.
func (r *Record) place() {
	k := r.kept
	for i := range k.changes {
		c := &k.changes[i]
		if c.part != partEnded || c.name.At != r.Base.At && c.name.At != k.within {
			continue
		}
		at, found := r.recent(c.name)
		switch {
		case found && r.Recent[at].Committed && c.name.At == r.Base.At && k.base.Less(r.Base.At) && len(r.Recent) <= outcomesFew && len(r.Base.Data) <= valueSmall:
			k.within = r.Base.At
		case c.name.At == k.within:
			k.within, k.headNew = clock.Timestamp{}, true
		}
	}
}

// placed reports whether the version is written with an outcome.
func (r *Record) placed(n Name) bool {
	return n.At == r.kept.within && n.At == r.Base.At && !n.At.IsZero()
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

func (v *Vote) size() int { return v.Option.size() }

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
	case k.base.Less(r.Base.At) && k.within != r.Base.At:
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
		r.kept.next = now.Add(Remembered / 16)
	}
	return true
}

// floorName is the delta's key of the floor of records that were dropped, and termName that of the ballot that was promised for all records. No row key's encoding is like one of them.
const (
	floorName = "\x00"
	termName  = "\x01"
)

// appendPart adds the name of a part. Those of transactions come in the order of these: new ones are next to each other, whichever rows they are of, and old ones are removed together.
func appendPart(b []byte, p partKind, n Name, k keys.Key) []byte {
	if p == partHead {
		return append(encoding.AppendBytes(b, k, encoding.Ascending), byte(p))
	}
	b = append(n.At.Append(append(b, floorName[0], byte(p))), n.Txn[:]...)
	return append(b, k...)
}

// putter is what *rangeserver.Delta does.
type putter interface {
	Put(name, value []byte)
	Delete(name []byte)
}

// Store puts what was changed into the delta.
func (w *Write) Store(d putter) {
	switch {
	case w.Key == nil && !w.Record.Promised.Default():
		d.Put([]byte(termName), w.Record.Append(nil)) // with the one before, as accepted
		return
	case w.Key == nil:
		d.Put([]byte(floorName), w.Record.Floor.Append(nil))
		return
	}
	var name, value []byte
	for i := 0; i < len(w.changes); {
		c := &w.changes[i]
		if i++; c.part == partHead {
			name = appendPart(name[:0], partHead, c.name, w.Key)
			if w.Record.headSize(w.Record.kept) > 0 {
				value = w.Record.appendHead(value[:0])
				d.Put(name, value)
			} else {
				d.Delete(name)
			}
			continue
		}
		added := c.part == partAdded
		of := added
		for ; i < len(w.changes) && w.changes[i].part != partHead && w.changes[i].name == c.name; i++ {
			if w.changes[i].part == partAdded {
				added = true
			} else {
				of = false
			}
		}
		name, value = w.Record.storeNamed(d, w.Key, name, value, c.name, added, of)
	}
}

// storeNamed puts what the record has of a transaction. added says that an executed update has come or gone, only that nothing else has.
func (r *Record) storeNamed(d putter, k keys.Key, name, value []byte, n Name, added, only bool) (_, _ []byte) {
	name = appendPart(name[:0], partVoteKey, n, k)
	stored := func(o *Option) {
		o.Name = Name{}
		if len(o.Keys) == 1 && o.Keys[0].Equal(k) {
			o.Keys = nil
		}
	}
	at, found := r.Addition(n)
	e, ended := r.recent(n)
	switch {
	case ended && (found || r.placed(n)):
		done := executed{Keys: r.Recent[e].Keys}
		if found {
			a := r.Added[at]
			if stored(&a.Option); len(done.Keys) > 0 && slices.EqualFunc(a.Keys, done.Keys, keys.Key.Equal) {
				a.Keys, done.Same = nil, true
			}
			done.Added = &a
		} else {
			done.Value = r.Base.Data
		}
		value = done.append(append(value[:0], byte(partDone)))
		d.Put(name, value)
	case ended:
		one := r.Recent[e]
		one.Name = Name{}
		value = one.append(append(value[:0], byte(partEnded)))
		d.Put(name, value)
	case only: // there is a vote, or nothing, as before
	default:
		if v := r.Vote(n); v != nil {
			one := *v
			stored(&one.Option)
			value = one.append(append(value[:0], byte(partVote)))
			d.Put(name, value)
		} else {
			d.Delete(name)
		}
	}
	switch {
	case found && !ended:
		a := r.Added[at]
		stored(&a.Option)
		value = a.append(value[:0])
		name = appendPart(name[:0], partAdded, n, k)
		d.Put(name, value)
	case !found && added:
		name = appendPart(name[:0], partAdded, n, k)
		d.Delete(name)
	}
	return name, value
}

// appendHead adds the value of the head.
func (r *Record) appendHead(b []byte) []byte {
	h := Record{Promised: r.Promised, Accepted: r.Accepted, Sequence: r.Sequence, Closed: r.Closed, Mark: r.Mark, Floor: r.Floor}
	if r.kept.base.Less(r.Base.At) && r.kept.within != r.Base.At {
		h.Base = r.Base
	}
	return h.Append(b)
}

// executed is the outcome of an option that was executed, as the delta has it: of a transaction that has committed.
type executed struct {
	// Keys are those of Ended.
	Keys []keys.Key
	// Added is what has been added; Same says that its keys are those. Nil: the update was a version with this Value.
	Added *Addition
	Same  bool
	Value []byte
}

func (o *executed) append(b []byte) []byte {
	for _, k := range o.Keys {
		b = wire.Element(b, 1, k)
	}
	if o.Added != nil {
		var at int
		b, at = wire.Begin(b, 3)
		b = wire.End(o.Added.append(b), at)
	}
	return wire.Bytes(wire.Bool(b, 5, o.Same), 7, o.Value)
}

func (o *executed) read(r *wire.Reader) {
	for m := r.Open("fastpaxos.Executed"); r.Next(&m); {
		switch r.Field() {
		case 1:
			*wire.Grow(r, &o.Keys) = keys.Key(r.Bytes())
		case 3:
			o.Added = &Addition{}
			readAddition(r, o.Added)
		case 5:
			o.Same = r.Bool()
		case 7:
			o.Value = r.Bytes()
		default:
			r.Refuse()
		}
	}
}

// RestoreDelta gives the records of a delta, as far as that has them (Record.over). One without a key has the floor, or the term.
func RestoreDelta(entries iter.Seq2[[]byte, []byte]) (out []Write, err error) {
	at := map[string]Write{}
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
		if string(name) == termName {
			t, in := &Record{}, wire.Read(value)
			if ReadRecord(&in, t); in.Err() != nil {
				return nil, fmt.Errorf("fastpaxos: the delta's term: %w", in.Err())
			}
			out = append(out, Write{Record: t})
			continue
		}
		p, n, k, err := readName(name)
		if err != nil {
			return nil, err
		}
		w, found := at[string(k)]
		if !found {
			w = Write{Key: slices.Clone(k), Record: &Record{}} // options may keep the key, and the name is the iterator's
			at[string(k)] = w
			out = append(out, w)
		}
		if err := w.Record.readPart(w.Key, p, n, value); err != nil {
			return nil, fmt.Errorf("fastpaxos: the delta of %s: %w", keys.Masked(k), err)
		}
	}
	return out, nil
}

// readName reads what appendPart made.
func readName(name []byte) (p partKind, n Name, k keys.Key, err error) {
	if len(name) > 1 && name[0] == floorName[0] && (partKind(name[1]) == partAdded || partKind(name[1]) == partVoteKey) {
		rest := name[2:]
		if n.At, rest, err = clock.Decode(rest); err == nil && len(rest) > len(n.Txn) {
			copy(n.Txn[:], rest)
			return partKind(name[1]), n, keys.Key(rest[len(n.Txn):]), nil
		}
	} else if row, rest, err := encoding.DecodeBytes(name, nil, encoding.Ascending); err == nil && len(rest) == 1 {
		return partKind(rest[0]), n, keys.Key(row), nil
	}
	return 0, n, nil, fmt.Errorf("fastpaxos: a name of the delta is none: %x", name)
}

func (r *Record) readPart(k keys.Key, p partKind, n Name, value []byte) error {
	in := wire.Read(value)
	if p == partHead {
		h := &Record{}
		ReadRecord(&in, h)
		h.Added, h.Votes, h.Recent, h.kept = r.Added, r.Votes, r.Recent, r.kept
		if h.Base.At.Less(r.Base.At) {
			h.Base = r.Base
		}
		*r = *h
		return in.Err()
	}
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
	case partDone:
		done := executed{}
		done.read(&in)
		r.Recent = append(r.Recent, Ended{Name: n, Committed: true, Keys: done.Keys})
		if done.Added == nil {
			if r.Base.At.LessEq(n.At) {
				r.Base, r.kept = Value{At: n.At, Data: done.Value}, &kept{within: n.At}
			}
			break
		}
		if done.Same {
			done.Added.Keys = done.Keys
		}
		stored(&done.Added.Option)
		// It may have been there before its outcome came.
		if i, found := r.Addition(n); found {
			r.Added[i] = *done.Added
		} else {
			r.Added = slices.Insert(r.Added, i, *done.Added)
		}
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

// Pieces gives the report of a record.
func (w *Write) Pieces(send func([]byte) error) error {
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
