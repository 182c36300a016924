package core

import (
	"slices"
	"time"

	"meridian/clock"
	"meridian/keys"
)

// How the delta shrinks while a generation lasts. The leaseholder adds executed versions to the base, through the range's log (Final); each replica drops
// from its delta what its base has, and outcomes that need not be remembered (Tend).

const (
	// tended is the least number of records that a Tend looks at; it looks at a sixteenth of them if these are more.
	tendedLeast, tendedPart = 256, 16
	// settled is how old the newest outcome of a record is, at least, when the record is dropped: options up to then are past from then on, whichever record of the
	// range they are for. A transaction with a record commits at a timestamp that may be as old as itself.
	settledFor = 2 * time.Minute
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

// View is what an acceptor reads of its range's base while it tends its records.
type View interface {
	// Load is the record that the base has.
	Load(k keys.Key) (*Record, error)
	// Latest is the newest version of a row.
	Latest(k keys.Key) (Value, error)
}

// Tend drops what need not be kept, as of now. It looks at a part of the records each time.
func (a *Acceptor) Tend(src View, now clock.Timestamp) error {
	a.keepFrom(now)
	least := a.floor
	for _, k := range a.next() {
		r := a.records[k]
		if r == nil {
			base, err := src.Load(keys.Key(k))
			if err != nil {
				return err
			}
			a.Take(keys.Key(k), base)
			r = a.records[k]
		}
		r.dropEras(a.from)
		if err := r.tend(src, keys.Key(k), now); err != nil {
			return err
		}
		if r.idle(now) {
			// The base has the record again. All that was remembered of it is past for all records (fastpaxos.FP41).
			a.floor, a.from = a.floor.Forward(r.Floor), a.from.Forward(r.kept.lost)
			r.kept.floor = a.floor
			r.noteHead()
		}
		if a.Late(k, r, now); r.lags(now) {
			a.lagging[k] = true
		} else {
			delete(a.lagging, k)
		}
		a.persist(keys.Key(k), r, false)
		if r.Base.At.LessEq(r.kept.base) {
			delete(a.fresh, k)
		}
		if r.idle(now) {
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

// tend forgets outcomes, and takes over the base's version if the record lacks it: a replica that missed an outcome learns it so.
func (r *Record) tend(src View, k keys.Key, now clock.Timestamp) error {
	by := r.kept
	if by.base.Less(r.Base.At) || by.checked.Less(now.Add(-basesChecked)) || slices.ContainsFunc(r.Votes, func(v Vote) bool { return v.At.Less(now.Add(-overdue)) }) {
		by.checked = now
		v, err := src.Latest(k)
		if err != nil {
			return err
		}
		if by.base.Less(v.At) {
			by.base = v.At
			r.noteHead()
			r.Learn(&Record{Base: v})
		}
	}
	if upTo := now.Add(-Remembered); len(r.Recent) > 0 && r.Recent[min(len(r.Recent)/tendedPart, len(r.Recent)-1)].At.Less(upTo) && r.mayForget(now) {
		r.Forget(upTo)
	}
	return nil
}

// idle reports whether the record need not be kept: the base has it, and a copy of an option that has ended does not come any more.
func (r *Record) idle(now clock.Timestamp) bool {
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
