package fastpaxos

import (
	"slices"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// How the delta shrinks while a generation lasts. The leaseholder adds executed versions to the base, through the range's log (Final); each replica drops
// from its delta what its base has, and outcomes that need not be remembered (Tend).

const (
	// tended is the least number of records that a Tend looks at; it looks at a sixteenth of them if these are more.
	tendedLeast, tendedPart = 256, 16
	// settled is how old the newest outcome of a record is, at least, when the record is dropped: options up to then are past from then on, whichever record of the
	// range they are for. A transaction with a record commits at a timestamp that may be as old as itself.
	settledFor = 2 * time.Minute
	// looked is how many keys of the base a Tend looks at for records with something outstanding.
	looked = 1 << 14
	// sidesMost bounds how many rows with something next to them are remembered: the transactions of two minutes.
	sidesMost = 1 << 19
)

// Final gives versions that the base lacks, about as many as have max bytes. A version that was executed is final (fastpaxos.FP42).
func (a *Acceptor) Final(max int) (out []Final) {
	for _, k := range sortedKeys(a.fresh) {
		r := a.records[k]
		if r == nil || !r.kept.base.Less(r.Base.At) {
			delete(a.fresh, k)
			continue
		}
		if max -= len(k) + len(r.Base.Data); max < 0 && len(out) > 0 {
			break
		}
		out = append(out, Final{Key: keys.Key(k), Value: r.Base})
	}
	return out
}

// Final is a version of a row for the base.
type Final struct {
	Key keys.Key
	Value
}

// Absorbed says that the base has a version.
func (a *Acceptor) Absorbed(k keys.Key, at clock.Timestamp) {
	delete(a.looked, string(k))
	a.gap.forget()
	r := a.records[string(k)]
	if r == nil || at.LessEq(r.kept.base) {
		return
	}
	r.kept.base = at
	r.noteHead()
	a.persist(k, r, false)
	if r.Base.At.LessEq(at) {
		delete(a.fresh, string(k))
	}
}

// Tend drops what need not be kept, as of now. It looks at a part of the records each time.
func (a *Acceptor) Tend(src engine.Reader, now clock.Timestamp) error {
	if err := a.inherited(src); err != nil {
		return err
	}
	a.keepFrom(now)
	rd := mvcc.NewReader(src)
	defer rd.Close()
	least := a.floor
	clear(a.looked)
	a.gap.forget()
	defer a.gap.forget() // records that are dropped are in the base, and may have been so for some time
	for _, k := range a.next() {
		r := a.records[k]
		if r == nil {
			base, err := a.base(src, func() *mvcc.Reader { return rd }, keys.Key(k))
			if err != nil {
				return err
			}
			a.load(keys.Key(k), base)
			r = a.records[k]
		}
		r.dropEras(a.from)
		if err := tendRecord(r, rd, keys.Key(k), now); err != nil {
			return err
		}
		if idle(r, now) {
			// The base has the record again. All that was remembered of it is past for all records (fastpaxos.FP41).
			a.floor, a.from = a.floor.Forward(r.Floor), a.from.Forward(r.kept.lost)
			r.kept.floor = a.floor
			r.noteHead()
		}
		if a.late(k, r, now); lags(r, now) {
			a.lagging[k] = true
		} else {
			delete(a.lagging, k)
		}
		a.persist(keys.Key(k), r, false)
		if r.Base.At.LessEq(r.kept.base) {
			delete(a.fresh, k)
		}
		if idle(r, now) {
			delete(a.records, k)
			delete(a.fresh, k)
			a.order.Delete(k)
		}
	}
	if least.Less(a.floor) {
		a.fx.Persist = append(a.fx.Persist, Write{Record: &Record{Floor: a.floor}})
	}
	return nil
}

// begin tells an acceptor of a new generation, or one that was stopped, the span of its range.
func (a *Acceptor) begin(src engine.Reader, span keys.Span) {
	a.gap.within = span
	if a.bare = bare(src, span); !a.bare {
		a.left, a.sides = keys.RangeLocalSpan(span.Start, span.End), map[uint64]struct{}{}
	}
}

// inherited finds records that the generation has begun with, and that have votes, outcomes that are remembered for others, or updates that are not a version yet, before anybody asks for them: the
// gateway of such a vote may be gone, and nobody may ever write the row again (fastpaxos.FP26).
func (a *Acceptor) inherited(src engine.Reader) error {
	if a.left.Start == nil {
		return nil
	}
	it, err := src.NewIter(engine.IterOptions{Lower: a.left.Start, Upper: a.left.End})
	if err != nil {
		return err
	}
	defer it.Close()
	ok := it.First()
	for n := 0; ok && n < looked; ok, n = it.Next(), n+1 {
		s, err := sideOf(it)
		if err != nil {
			return err
		}
		if s != nil && a.sides != nil {
			if a.sides[nameOf(s.key)] = struct{}{}; len(a.sides) > sidesMost {
				a.sides = nil
			}
		}
		if s != nil && (len(s.Votes)+len(s.Added) > 0 || slices.ContainsFunc(s.Recent, func(e Ended) bool { return e.Keys != nil })) {
			a.order.ReplaceOrInsert(string(s.key))
		}
	}
	if a.left.Start = nil; ok {
		k, _ := it.Key()
		a.left.Start = slices.Clone(k)
	}
	return it.Error()
}

// next are the keys that are looked at now.
func (a *Acceptor) next() (out []string) {
	n := max(tendedLeast, a.order.Len()/tendedPart)
	a.order.AscendGreaterOrEqual(a.tended, func(k string) bool {
		out = append(out, k)
		return len(out) < n
	})
	if a.tended = ""; len(out) == n {
		a.tended = out[n-1] + "\x00"
	}
	return out
}

// tendRecord forgets outcomes, and takes over the base's version if the record lacks it: a replica that missed an outcome learns it so.
func tendRecord(r *Record, src *mvcc.Reader, k keys.Key, now clock.Timestamp) error {
	by := r.kept
	if by.base.Less(r.Base.At) || by.checked.Less(now.Add(-basesChecked)) || slices.ContainsFunc(r.Votes, func(v Vote) bool { return v.At.Less(now.Add(-overdue)) }) {
		by.checked = now
		at, v, err := src.Latest(k)
		if err != nil {
			return err
		}
		if by.base.Less(at) {
			by.base = at
			r.noteHead()
			r.learn(&Record{Base: Value{At: at, Data: v}})
		}
	}
	if upTo := now.Add(-remembered); len(r.Recent) > 0 && r.Recent[min(len(r.Recent)/tendedPart, len(r.Recent)-1)].At.Less(upTo) && r.mayForget(now) {
		r.Forget(upTo)
	}
	return nil
}

// idle reports whether the record need not be kept: the base has it, and a copy of an option that has ended does not come any more.
func idle(r *Record, now clock.Timestamp) bool {
	return len(r.Votes)+len(r.Added)+len(r.Recent)+len(r.kept.eras) == 0 && r.Promised.Default() && r.Accepted.Default() && !r.kept.side &&
		r.Base.At.LessEq(r.kept.base) && (r.Floor.LessEq(r.kept.floor) || r.Floor.Less(now.Add(-settledFor)))
}

func sortedKeys(m map[string]bool) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
