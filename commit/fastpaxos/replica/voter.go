package replica

import (
	"slices"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	shape "meridian/core"
	"meridian/keys"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// Voter is the acceptor of one replica, over the base of its range.
type Voter struct {
	*core.Acceptor
	// looked are rows of the base that were read here a moment ago, of records that are not loaded.
	looked map[string]core.Value
	// gap is a part of the range in which the base had no row a moment ago.
	gap gap
	// bare says that the base has nothing next to any row; left is where Tend has yet to look for records that it has, and sides are those that it has found, by names, nil if there are too many.
	bare  bool
	sides map[uint64]struct{}
	left  keys.Span
	// news is where others are told of what is heard here, nil if they are not.
	news *rangeNews
}

const (
	// lookedAt is how many keys of the base a Tend looks at for records with something outstanding.
	lookedAt = 1 << 14
	// sidesMost bounds how many rows with something next to them are remembered: the transactions of two minutes.
	sidesMost = 1 << 19
)

// NewVoter makes the acceptor of a replica that has not begun a generation.
func NewVoter(q core.Quorums, cols core.Columns, last shape.Ticket) *Voter {
	return &Voter{Acceptor: core.NewAcceptor(q, cols, nil, last), looked: map[string]core.Value{}}
}

// Begin tells the acceptor of its generation, and has it tell the range's news, which may be nil, what it hears.
func (a *Voter) Begin(b core.Beginning, news *rangeNews) {
	if a.news = news; news != nil {
		b.Listener = news
	}
	a.Acceptor.Begin(b)
}

// Absorbed says that the base has a version.
func (a *Voter) Absorbed(k keys.Key, at clock.Timestamp) {
	delete(a.looked, string(k))
	a.gap.forget()
	a.Acceptor.Absorbed(k, at)
}

// Tend drops what need not be kept, as of now. It looks at a part of the records each time.
func (a *Voter) Tend(src engine.Reader, now clock.Timestamp) error {
	if err := a.inherited(src); err != nil {
		return err
	}
	rd := mvcc.NewReader(src)
	defer rd.Close()
	clear(a.looked)
	a.gap.forget()
	defer a.gap.forget() // records that are dropped are in the base, and may have been so for some time
	return a.Acceptor.Tend(&tended{a, src, rd}, now)
}

// tended is the base of a range to an acceptor that tends its records.
type tended struct {
	a   *Voter
	src engine.Reader
	r   *mvcc.Reader
}

// Load implements View.
func (t *tended) Load(k keys.Key) (*core.Record, error) {
	return t.a.base(t.src, func() *mvcc.Reader { return t.r }, k)
}

// Latest implements View.
func (t *tended) Latest(k keys.Key) (core.Value, error) {
	at, data, err := t.r.Latest(k)
	return core.Value{At: at, Data: data}, err
}

// begin tells an acceptor of a new generation, or one that was stopped, the span of its range.
func (a *Voter) begin(src engine.Reader, span keys.Span) {
	a.gap.within = span
	if a.bare = bare(src, span); !a.bare {
		a.left, a.sides = keys.RangeLocalSpan(span.Start, span.End), map[uint64]struct{}{}
	}
}

// inherited finds records that the generation has begun with, and that have votes, outcomes that are remembered for others, or updates that are not a version yet, before anybody asks for them: the
// gateway of such a vote may be gone, and nobody may ever write the row again (fastpaxos.FP26).
func (a *Voter) inherited(src engine.Reader) error {
	if a.left.Start == nil {
		return nil
	}
	it, err := src.NewIter(engine.IterOptions{Lower: a.left.Start, Upper: a.left.End})
	if err != nil {
		return err
	}
	defer it.Close()
	ok := it.First()
	for n := 0; ok && n < lookedAt; ok, n = it.Next(), n+1 {
		s, err := sideOf(it)
		if err != nil {
			return err
		}
		if s != nil && a.sides != nil {
			if a.sides[core.NameOf(s.key)] = struct{}{}; len(a.sides) > sidesMost {
				a.sides = nil
			}
		}
		if s != nil && (len(s.Votes)+len(s.Added) > 0 || slices.ContainsFunc(s.Recent, func(e core.Ended) bool { return e.Keys != nil })) {
			a.Expect(s.key)
		}
	}
	if a.left.Start = nil; ok {
		k, _ := it.Key()
		a.left.Start = slices.Clone(k)
	}
	return it.Error()
}

// bareLook bounds the search for protocol keys when a generation begins.
const bareLook = 64

// bare reports whether there is nothing next to any row of a span, as far as is easily found. Within a generation nothing comes there.
func bare(src engine.Reader, span keys.Span) bool {
	local := keys.RangeLocalSpan(span.Start, span.End)
	it, err := src.NewIter(engine.IterOptions{Lower: local.Start, Upper: local.End})
	if err != nil {
		return false
	}
	defer it.Close()
	for n, ok := 0, it.First(); ok; n, ok = n+1, it.Next() {
		k, _ := it.Key()
		if _, name, err := keys.DecodeProtocolKey(k); err == nil && string(name) == sideName || n == bareLook {
			return false
		}
	}
	return it.Error() == nil
}

// maybeSide reports whether something may be next to a row: whatever Tend has found there since the generation began, and all where it has not been yet.
func (a *Voter) maybeSide(k keys.Key) bool {
	if a.bare || a.sides == nil {
		return !a.bare
	}
	if _, ok := a.sides[core.NameOf(k)]; ok || a.left.Start == nil {
		return ok
	}
	return a.left.Start.Compare(sideKey(k)) <= 0
}

// base is Base for an acceptor.
func (a *Voter) base(src engine.Reader, rows func() *mvcc.Reader, k keys.Key) (*core.Record, error) {
	if v, ok := a.looked[string(k)]; ok {
		delete(a.looked, string(k))
		return &core.Record{Base: v}, nil
	}
	return a.fromBase(src, rows, k)
}

// fromBase reads a record that is not loaded from the base, unless it is known that nothing is there.
func (a *Voter) fromBase(src engine.Reader, rows func() *mvcc.Reader, k keys.Key) (*core.Record, error) {
	if a.gap.has(k) {
		return &core.Record{}, nil
	}
	var s *side
	if a.maybeSide(k) {
		var err error
		if s, err = readSide(src, k); err != nil {
			return nil, err
		}
	}
	r, err := onBase(rows(), k, s)
	if err == nil && s == nil && r.Base.At.IsZero() {
		err = a.gap.find(src, k)
	}
	return r, err
}

// lookedMost bounds the rows that an acceptor remembers because they were read.
const lookedMost = 256

// saw remembers a row of the base that was just read here, which is probably about to be written. A version that comes into the base meanwhile is one that the acceptor has not
// voted for: to it, it is one that it has missed.
func (a *Voter) saw(k keys.Key, r *core.Record) {
	if len(a.looked) >= lookedMost {
		clear(a.looked)
	}
	if !a.Stores(k) && !a.maybeSide(k) {
		a.looked[string(k)] = r.Base
	}
}
