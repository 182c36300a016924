package txn_test

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// A model of externally consistent transactions, small enough to be searched completely: what txn.TX11 to txn.TX14, leader.P27 and leader.P28 say, and parallel commit
// with recovery, without the rest of the code. Two or three transactions, the first of which is the oldest, are over two keys in two ranges.
//
//	clocks     True time is a number. A gateway's TT.now().latest is up to 2*woundEpsilon after it, by any bounded error of its clock,
//	           and TT.after(s) may be true at any moment after s.
//	reads      of a read-write transaction take a shared lock, or one for an update, and the newest version; a range forgets its shared locks when its lease moves.
//	commit     A timestamp s of latest; a refresh of what was read, to s; then the record (STAGING) and the writes, which are messages of their own: each may arrive
//	           at any time, also after its coordinator has died. A write waits for others' locks, and is moved past reads and versions that are later.
//	           If all are there, none later than s, the transaction is committed. If one is later, it refreshes to that timestamp and commits explicitly.
//	conflicts  A request that meets a lock aborts a holder that is dead or younger, and not staging; it recovers one that is staging; else it waits.
//	recovery   asks for each write, prevents one that is missing, and ends the record accordingly. Anybody may recover at any moment, because
//	           nobody knows whether a coordinator is alive.
//	answers    Commit is answered when its timestamp is certainly in the past, the reads of a READ ONLY transaction when the newest version that they have seen is.
//
// The search goes through every state, depth first, and looks at those in which nothing can happen any more:
//
//	txn.WM1: Every transaction has ended, or its coordinator has died: no deadlock, no endless wait.
//	txn.WM2 (I2): All writes of a transaction are there, at its timestamp, or none; all of one that was answered.
//	txn.WM3 (I3): The values read are those that there were at the transaction's timestamp (serializability).
//	txn.WM4: Dependencies and the order of real time together have no cycle (strict serializability).
//	txn.WM5: Of two transactions that write, of which one began after the other was answered, it has the later timestamp (external consistency).
//
// Each of the rules (woundWorld) can be taken out, and then the search finds a run that breaks a property.

const (
	woundEpsilon = 1 // of true time
	woundTicks   = 1 // so often time passes although something else could happen
	woundTries   = 2 // attempts of a transaction
	maxTxns      = 3
)

type woundPhase uint8

const (
	idle woundPhase = iota
	reading
	refreshing
	sent
	explicit // refreshes to commit at a later timestamp
	decided
	answered
	refused // its attempts are exhausted
	dead
)

type woundStatus uint8

const (
	pending woundStatus = iota // no record
	staging
	committed
	aborted
)

const nobody = 7

// woundKey is one key, in a range of its own.
type woundKey struct {
	writers [maxTxns]uint8 // of its versions, oldest first
	times   [maxTxns]int8
	n       uint8
	intent  uint8 // whose, or nobody
	at      int8
	shared  uint8 // who has locked it
	update  uint8 // who has locked it exclusively, or nobody
	read    int8  // the timestamp cache
	reader  uint8 // who read at that time; nobody: several
}

type woundTxn struct {
	phase    woundPhase
	next     uint8 // operation
	try      uint8
	s        int8
	seen     [2]uint8 // the writer of the version that it has read, of each key; nobody: the first version
	seenAt   [2]int8
	has      uint8 // keys it has read
	fresh    uint8 // keys refreshed to s
	messages uint8 // on their way: 1, 2 the writes; 4 the record
	told     uint8 // answered so far
	wrote    [2]int8
	before   uint8 // who had been answered when it began
	answered bool
	// The record, and what its recovery has found.
	status  woundStatus
	stage   int8 // its timestamp
	found   uint8
	missing bool
}

type woundState struct {
	txns  [maxTxns]woundTxn
	keys  [2]woundKey
	now   int8
	free  uint8 // ticks that are left
	dying uint8 // deaths that are left
	moves uint8 // of leases
}

type woundOp struct {
	key   uint8
	write bool
	// update says of a read that it locks for an update: exclusively.
	update bool
}

// woundWorld is what is searched, and which rule is taken out.
type woundWorld struct {
	name     string
	programs [][]woundOp
	readOnly uint8 // a mask
	deaths   uint8
	moves    uint8

	noCommitWait, noReaderWait, early, woundStaging, noWound, noRecovery, noRefresh, noPrevention bool

	seed    maphash.Seed
	visited map[uint64]struct{}
	path    []string
	limit   int // of states; zero: none
	walks   int // at random, before the search if that is limited
	bug     string
	trace   []string
	ends    map[string]int
}

func (w *woundWorld) writes(i int) (m uint8) {
	for _, o := range w.programs[i] {
		if o.write {
			m |= 1 << o.key
		}
	}
	return m
}

// successors calls f with each state that may follow. A fault need not happen, nor time pass yet; all other steps are made in the end.
func (w *woundWorld) successors(s *woundState, f func(label string, next *woundState, fault bool)) {
	step := func(fault bool) func(string, func(*woundState)) {
		return func(label string, edit func(n *woundState)) {
			n := *s
			edit(&n)
			if n != *s {
				f(label, &n, fault)
			}
		}
	}
	do, may := step(false), step(true)
	for i := range w.programs {
		t := &s.txns[i]
		ops := w.programs[i]
		name := fmt.Sprintf("T%d ", i)
		only := w.readOnly>>i&1 == 1
		switch t.phase {
		case idle:
			do(name+"begins", func(n *woundState) { n.txns[i].begin(n) })
			continue
		case reading:
			if only {
				w.readOnlySteps(s, i, name, do)
				continue
			}
			if int(t.next) < len(ops) && !ops[t.next].write { // writes are buffered
				k := int(ops[t.next].key)
				if free := w.conflicts(s, i, k, ops[t.next].update, 0, name, do); free {
					do(fmt.Sprintf("%sreads k%d", name, k), func(n *woundState) {
						x := &n.txns[i]
						if v := &n.keys[k]; v.n > 0 {
							x.seen[k], x.seenAt[k] = v.writers[v.n-1], v.times[v.n-1]
						} else {
							x.seen[k], x.seenAt[k] = nobody, 0
						}
						x.has |= 1 << k
						if ops[t.next].update {
							n.keys[k].update = uint8(i)
						} else {
							n.keys[k].shared |= 1 << i
						}
						x.next++
					})
				}
			} else {
				for d := int8(0); d <= 2*woundEpsilon; d += 2 * woundEpsilon { // the extremes
					at := s.now + d
					if w.early {
						at -= 2 * woundEpsilon
					}
					at = max(at, t.seenAt[0]+1, t.seenAt[1]+1, 1)
					do(fmt.Sprintf("%schooses %d", name, at), func(n *woundState) { n.txns[i].phase, n.txns[i].s = refreshing, at })
				}
			}
		case refreshing, explicit:
			if t.fresh == t.has || w.noRefresh {
				if t.phase == refreshing {
					do(name+"sends its record and its writes", func(n *woundState) {
						n.txns[i].phase, n.txns[i].messages = sent, w.writes(i)|4
					})
				} else {
					do(name+"commits explicitly", func(n *woundState) {
						if x := &n.txns[i]; x.status == aborted {
							n.restart(i)
						} else {
							x.status, x.stage = committed, x.s
							x.decide()
						}
					})
				}
			}
			for k := range 2 {
				if (t.has&^t.fresh)>>k&1 == 0 || w.noRefresh {
					continue
				}
				do(fmt.Sprintf("%srefreshes k%d to %d", name, k, t.s), func(n *woundState) {
					v := &n.keys[k]
					last := uint8(nobody)
					for j := range v.n {
						if v.times[j] <= t.s && v.writers[j] != uint8(i) {
							last = v.writers[j]
						}
					}
					if last != t.seen[k] || v.intent != nobody && v.intent != uint8(i) && v.at <= t.s {
						n.abort(i) // and a late message finds the record
						n.restart(i)
						return
					}
					v.noteRead(t.s, uint8(i))
					n.txns[i].fresh |= 1 << k
				})
			}
		case sent:
			if t.told == w.writes(i)|4 {
				late := t.s
				for k := range 2 {
					late = max(late, t.wrote[k])
				}
				if late == t.s {
					do(name+"is committed", func(n *woundState) { n.txns[i].decide() })
				} else {
					do(fmt.Sprintf("%swas moved to %d", name, late), func(n *woundState) {
						x := &n.txns[i]
						x.phase, x.s, x.fresh = explicit, late, 0
					})
				}
			}
		case decided:
			if (t.s < s.now || w.noCommitWait) && !t.answered {
				do(name+"is answered", func(n *woundState) { n.txns[i].answered = true })
			}
			if t.status != committed {
				do(name+"reports its commit", func(n *woundState) { n.txns[i].status, n.txns[i].stage = committed, t.s })
			} else if t.answered {
				do(name+"resolves its intents", func(n *woundState) {
					for k := range n.keys {
						n.resolve(i, k)
					}
					n.txns[i].phase = answered
				})
			}
		}
		if t.status == aborted && (t.phase == reading || t.phase == refreshing || t.phase == sent || t.phase == explicit) {
			do(name+"learns that it was aborted", func(n *woundState) { n.restart(i) })
		}
		if t.phase > idle && t.phase < answered && !only && s.dying > 0 {
			may(name+"dies", func(n *woundState) { n.txns[i].phase = dead; n.dying-- })
		}
		if t.messages&4 != 0 {
			do(name+"has its record staged", func(n *woundState) {
				x := &n.txns[i]
				x.messages &^= 4
				if x.status == pending {
					x.status, x.stage, x.told, x.found, x.missing = staging, x.s, x.told|4, 0, false
				}
			})
		}
		for k := range 2 {
			if t.messages>>k&1 == 0 {
				continue
			}
			if free := w.conflicts(s, i, k, true, 0, name, do); free {
				do(fmt.Sprintf("%swrites k%d", name, k), func(n *woundState) {
					x, v := &n.txns[i], &n.keys[k]
					x.messages &^= 1 << k
					at := t.s
					if v.reader == uint8(i) {
						at = max(at, v.read)
					} else {
						at = max(at, v.read+1)
					}
					if v.n > 0 {
						at = max(at, v.times[v.n-1]+1)
					}
					v.intent, v.at = uint8(i), at
					x.told |= 1 << k
					x.wrote[k] = at
				})
			}
		}
	}
	if s.moves > 0 {
		for k := range 2 {
			if s.keys[k].shared != 0 || s.keys[k].update != nobody {
				may(fmt.Sprintf("the lease of k%d moves", k), func(n *woundState) { n.keys[k].shared, n.keys[k].update = 0, nobody; n.moves-- })
			}
		}
	}
	if s.free > 0 {
		may("time passes", func(n *woundState) { n.now++; n.free-- })
	}
}

func (w *woundWorld) readOnlySteps(s *woundState, i int, name string, do func(string, func(*woundState))) {
	t := &s.txns[i]
	ops := w.programs[i]
	if t.s == 0 {
		for d := int8(0); d <= 2*woundEpsilon; d += 2 * woundEpsilon { // the extremes
			do(fmt.Sprintf("%sreads at %d", name, s.now+d), func(n *woundState) { n.txns[i].s = s.now + d })
		}
		return
	}
	if int(t.next) == len(ops) {
		if max(t.seenAt[0], t.seenAt[1]) < s.now || w.noReaderWait {
			do(name+"is answered", func(n *woundState) { n.txns[i].phase, n.txns[i].answered = answered, true })
		}
		return
	}
	k := int(ops[t.next].key)
	if w.conflicts(s, i, k, false, t.s, name, do) {
		do(fmt.Sprintf("%sreads k%d", name, k), func(n *woundState) {
			x, v := &n.txns[i], &n.keys[k]
			x.seen[k], x.seenAt[k] = nobody, 0
			for j := range v.n {
				if v.times[j] <= t.s {
					x.seen[k], x.seenAt[k] = v.writers[j], v.times[j]
				}
			}
			x.has |= 1 << k
			v.noteRead(t.s, uint8(i))
			x.next++
		})
	}
}

// conflicts reports whether a request of transaction i meets no lock on a key, and offers what it may do about one. A read of a snapshot, at a time that is
// not zero, meets the intents up to it.
func (w *woundWorld) conflicts(s *woundState, i, k int, write bool, at int8, name string, do func(string, func(*woundState))) bool {
	v := &s.keys[k]
	var holders uint8
	if v.intent != nobody && v.intent != uint8(i) && (at == 0 || v.at <= at) {
		holders |= 1 << v.intent
	}
	if at == 0 && v.update != nobody && v.update != uint8(i) {
		holders |= 1 << v.update
	}
	if write {
		holders |= v.shared &^ (1 << i)
	}
	for h := range w.programs {
		if holders>>h&1 == 0 {
			continue
		}
		u := &s.txns[h]
		what := fmt.Sprintf("%sfinds T%d at k%d", name, h, k)
		switch {
		case u.status == committed || u.status == aborted:
			do(what+", which has ended", func(n *woundState) { n.resolve(h, k) })
		case u.status == staging && w.woundStaging && at == 0 && i < h:
			do(what+", and wounds it", func(n *woundState) { n.abort(h) })
		case u.status == staging:
			if w.noRecovery && u.phase != dead {
				continue
			}
			w.recover(s, h, name, do)
		case u.phase == dead:
			do(what+", which has died", func(n *woundState) { n.abort(h) })
		case at == 0 && i < h && !w.noWound:
			do(what+", and wounds it", func(n *woundState) { n.abort(h) })
		}
	}
	return holders == 0
}

// recover offers the steps of a recovery.
func (w *woundWorld) recover(s *woundState, h int, name string, do func(string, func(*woundState))) {
	u := &s.txns[h]
	all := w.writes(h)
	switch {
	case u.missing:
		do(fmt.Sprintf("%srecovers T%d as aborted", name, h), func(n *woundState) { n.abort(h) })
	case u.found == all:
		do(fmt.Sprintf("%srecovers T%d as committed", name, h), func(n *woundState) { n.txns[h].status, n.txns[h].found = committed, 0 })
	default:
		for q := range 2 {
			if (all&^u.found)>>q&1 == 0 {
				continue
			}
			do(fmt.Sprintf("%sasks for T%d's write of k%d", name, h, q), func(n *woundState) {
				if v := &n.keys[q]; v.intent == uint8(h) && v.at <= u.stage {
					n.txns[h].found |= 1 << q
				} else {
					n.txns[h].missing = true
					if !w.noPrevention {
						v.noteRead(u.stage, nobody)
					}
				}
			})
		}
	}
}

func (t *woundTxn) begin(n *woundState) {
	t.phase = reading
	for j := range n.txns {
		if n.txns[j].answered {
			t.before |= 1 << j
		}
	}
}

// decide forgets what nobody will ask for.
func (t *woundTxn) decide() {
	t.phase, t.told, t.wrote, t.fresh = decided, 0, [2]int8{}, 0
}

func (v *woundKey) noteRead(at int8, by uint8) {
	switch {
	case at > v.read:
		v.read, v.reader = at, by
	case at == v.read && v.reader != by:
		v.reader = nobody
	}
}

func (n *woundState) abort(i int) {
	n.txns[i].status, n.txns[i].found, n.txns[i].missing = aborted, 0, false
}

// resolve makes a transaction that has ended leave a key.
func (n *woundState) resolve(i, k int) {
	v, t := &n.keys[k], &n.txns[i]
	v.shared &^= 1 << i
	if v.update == uint8(i) {
		v.update = nobody
	}
	if v.intent != uint8(i) {
		return
	}
	if t.status == committed {
		// Versions are in order of time, though resolved in any.
		j := v.n
		for ; j > 0 && v.times[j-1] > t.stage; j-- {
			v.writers[j], v.times[j] = v.writers[j-1], v.times[j-1]
		}
		v.writers[j], v.times[j] = uint8(i), t.stage
		v.n++
	}
	v.intent, v.at = nobody, 0
}

// restart begins another attempt, of a record of its own. The locks of the last one are released, and its messages are lost.
func (n *woundState) restart(i int) {
	for k := range n.keys {
		n.resolve(i, k)
	}
	t := &n.txns[i]
	next := woundTxn{phase: reading, try: t.try + 1, before: t.before}
	if next.try == woundTries {
		next.phase, next.status = refused, aborted
	}
	*t = next
}

// search visits a state, and all that follow; it reports whether there was no bug.
func (w *woundWorld) search(s *woundState) bool {
	h := maphash.Comparable(w.seed, *s)
	if _, seen := w.visited[h]; seen {
		return true
	}
	if w.limit > 0 && len(w.visited) >= w.limit {
		return true
	}
	w.visited[h] = struct{}{}
	more, good := false, true
	visit := func(label string, next *woundState) {
		if good {
			w.path = append(w.path, label)
			good = w.search(next)
			w.path = w.path[:len(w.path)-1]
		}
	}
	w.successors(s, func(label string, next *woundState, fault bool) {
		more = more || !fault
		visit(label, next)
	})
	if more || !good {
		return good
	}
	if later, ok := w.later(s); ok {
		visit(fmt.Sprintf("time passes, until %d", later.now), later)
		return good
	}
	if what := w.judge(s); what != "" {
		w.bug, w.trace = what, append([]string(nil), w.path...)
		return false
	}
	return true
}

// later is a state in which nothing but faults can happen, at the next moment at which something else can, if there is one.
func (w *woundWorld) later(s *woundState) (*woundState, bool) {
	later := *s
	for more := false; later.now < s.now+30; {
		later.now++
		if w.successors(&later, func(_ string, _ *woundState, fault bool) { more = more || !fault }); more {
			return &later, true
		}
	}
	return nil, false
}

// walk makes one run at random, and reports whether there was no bug.
func (w *woundWorld) walk(s *woundState, dice *rand.Rand) bool {
	w.path = nil
	for {
		var labels []string
		var next []woundState
		more := false
		w.successors(s, func(label string, n *woundState, fault bool) {
			more = more || !fault
			labels, next = append(labels, label), append(next, *n)
		})
		if !more && dice.IntN(2) == 0 || len(next) == 0 {
			later, ok := w.later(s)
			if ok {
				s = later
				w.path = append(w.path, fmt.Sprintf("time passes, until %d", s.now))
				continue
			}
			if what := w.judge(s); what != "" {
				w.bug, w.trace = what, w.path
				return false
			}
			if len(next) == 0 {
				return true
			}
		}
		i := dice.IntN(len(next))
		s = &next[i]
		w.path = append(w.path, labels[i])
	}
}

// judge looks at a state in which nothing can happen any more.
func (w *woundWorld) judge(s *woundState) string {
	var took uint8               // transactions that are in the history
	at := [maxTxns]int8{}        // their timestamps
	versions := [2][]uint8{}     // in order of time
	times := [2]map[uint8]int8{} // of versions
	for i := range w.programs {
		t := &s.txns[i]
		if t.phase != answered && t.phase != refused && t.phase != dead {
			return fmt.Sprintf("txn.WM1: T%d waits for ever", i)
		}
		if w.readOnly>>i&1 == 1 {
			took |= 1 << i
			at[i] = t.s
			continue
		}
		there := uint8(0)
		early := true
		for k := range s.keys {
			v := &s.keys[k]
			if v.intent == uint8(i) {
				there |= 1 << k
				early = early && v.at <= t.stage
			}
			for j := range v.n {
				if v.writers[j] == uint8(i) {
					there |= 1 << k
				}
			}
		}
		yes := t.status == committed || t.status == staging && there == w.writes(i) && early
		if t.answered && !yes {
			return fmt.Sprintf("txn.WM2: T%d was answered, and has not committed", i)
		}
		if yes {
			if there != w.writes(i) {
				return fmt.Sprintf("txn.WM2: of T%d's writes, %b, there are %b", i, w.writes(i), there)
			}
			took |= 1 << i
			at[i] = t.stage
		}
		for k := range s.keys {
			for j := range s.keys[k].n {
				if s.keys[k].writers[j] == uint8(i) && (!yes || s.keys[k].times[j] != t.stage) {
					return fmt.Sprintf("txn.WM2: k%d has T%d's write at %d", k, i, s.keys[k].times[j])
				}
			}
		}
	}
	for k := range s.keys {
		times[k] = map[uint8]int8{}
		v := s.keys[k]
		if u := v.intent; u != nobody && took>>u&1 == 1 {
			// A committed transaction's intent counts as a version.
			j := v.n
			for ; j > 0 && v.times[j-1] > at[u]; j-- {
				if int(j) < maxTxns {
					v.writers[j], v.times[j] = v.writers[j-1], v.times[j-1]
				}
			}
			v.writers[j], v.times[j] = u, at[u]
			v.n++
		}
		for j := range v.n {
			if j > 0 && v.times[j] == v.times[j-1] {
				return fmt.Sprintf("txn.WM3: two versions of k%d at %d", k, v.times[j])
			}
			versions[k] = append(versions[k], v.writers[j])
			times[k][v.writers[j]] = v.times[j]
		}
	}
	var after [maxTxns]uint8 // i before j
	edge := func(i, j uint8) {
		if i != j && i != nobody && j != nobody {
			after[i] |= 1 << j
		}
	}
	for i := range w.programs {
		t := &s.txns[i]
		if took>>i&1 == 0 {
			continue
		}
		for k := range s.keys {
			for j := 1; j < len(versions[k]); j++ {
				edge(versions[k][j-1], versions[k][j])
			}
			if t.has>>k&1 == 0 {
				continue
			}
			last, next := uint8(nobody), uint8(nobody)
			past := t.seen[k] == nobody
			for _, u := range versions[k] {
				if u == uint8(i) {
					continue
				}
				if times[k][u] <= at[i] {
					last = u
				}
				if past && next == nobody {
					next = u
				}
				past = past || u == t.seen[k]
			}
			if last != t.seen[k] {
				return fmt.Sprintf("txn.WM3: at %d, T%d has read T%d's k%d, and T%d's was there", at[i], i, t.seen[k], k, last)
			}
			edge(t.seen[k], uint8(i))
			edge(uint8(i), next)
		}
		for j := range w.programs {
			if t.before>>j&1 == 1 {
				edge(uint8(j), uint8(i))
			}
		}
	}
	for range w.programs {
		for i := range w.programs {
			for j := range w.programs {
				if after[i]>>j&1 == 1 {
					after[i] |= after[j]
				}
			}
		}
	}
	for i := range w.programs {
		if took>>i&1 == 1 && after[i]>>i&1 == 1 {
			return fmt.Sprintf("txn.WM4: T%d is before itself", i)
		}
	}
	for i := range w.programs {
		for j := range w.programs {
			if s.txns[i].before>>j&1 == 1 && (took&^w.readOnly)>>i&1 == 1 && w.readOnly>>j&1 == 0 && at[i] <= at[j] {
				return fmt.Sprintf("txn.WM5: T%d began after T%d was answered, and their timestamps are %d and %d", i, j, at[i], at[j])
			}
		}
	}
	var end strings.Builder
	for i := range w.programs {
		t := &s.txns[i]
		fmt.Fprintf(&end, "%s ", map[bool]string{true: "+", false: "-"}[took>>i&1 == 1]+map[woundPhase]string{answered: "answered", refused: "refused", dead: "dead"}[t.phase])
	}
	w.ends[end.String()]++
	return ""
}

func (w *woundWorld) run() {
	w.seed, w.visited, w.ends = maphash.MakeSeed(), map[uint64]struct{}{}, map[string]int{}
	s := &woundState{now: 1, free: woundTicks, dying: w.deaths, moves: w.moves}
	for k := range s.keys {
		s.keys[k].intent, s.keys[k].update, s.keys[k].reader = nobody, nobody, nobody
	}
	for i := len(w.programs); i < maxTxns; i++ {
		s.txns[i].phase = refused
	}
	if w.limit == 0 {
		w.search(s)
		return
	}
	dice := rand.New(rand.NewPCG(1, 0x3041d))
	for range w.walks {
		if !w.walk(s, dice) {
			return
		}
	}
	w.search(s)
}

func woundRead(k uint8) woundOp   { return woundOp{key: k} }
func woundUpdate(k uint8) woundOp { return woundOp{key: k, update: true} }
func woundWrite(k uint8) woundOp  { return woundOp{key: k, write: true} }

func woundWorlds() []*woundWorld {
	skew := [][]woundOp{{woundRead(0), woundWrite(1)}, {woundRead(1), woundWrite(0)}}
	update := [][]woundOp{{woundRead(0), woundWrite(0), woundWrite(1)}, {woundRead(1), woundWrite(1), woundWrite(0)}}
	blind := [][]woundOp{{woundWrite(0), woundWrite(1)}, {woundWrite(1)}, {woundRead(0), woundRead(1)}}
	locks := [][]woundOp{{woundUpdate(0), woundRead(1), woundWrite(0)}, {woundUpdate(1), woundUpdate(0), woundWrite(1), woundWrite(0)}}
	return []*woundWorld{
		{name: "each reads what the other one writes", programs: skew, deaths: 1, moves: 1},
		{name: "each reads one of two that both write", programs: update, deaths: 1},
		{name: "each locks first what the other one locks last", programs: locks, deaths: 1, moves: 1},
		{name: "a reader of two writers of one key each", programs: [][]woundOp{{woundWrite(0)}, {woundWrite(1)}, {woundRead(0), woundRead(1)}}, readOnly: 4, deaths: 1},
		{name: "a reader of a writer of both", programs: blind, readOnly: 4, deaths: 1},
		{name: "two readers of a writer", programs: [][]woundOp{{woundWrite(0), woundWrite(1)}, {woundRead(0)}, {woundRead(1), woundRead(0)}}, readOnly: 6, deaths: 1},
	}
}

// TestWoundModel searches every state of the worlds.
func TestWoundModel(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: nothing for the race detector")
	}
	for _, w := range woundWorlds() {
		t.Run(w.name, func(t *testing.T) {
			if os.Getenv("MERIDIAN_EXPLORE") != "0" {
				w.limit, w.walks = 100_000, 10_000
			}
			w.run()
			t.Logf("%d states; ends: %v", len(w.visited), w.ends)
			if w.bug != "" {
				t.Errorf("%s\n  %s", w.bug, strings.Join(w.trace, "\n  "))
			}
		})
	}
}

// TestWoundModelBroken takes out one rule after the other: in some world, the search finds a run that breaks a property.
func TestWoundModelBroken(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: nothing for the race detector")
	}
	for _, x := range []struct {
		name   string
		world  int
		breaks func(*woundWorld)
		want   []string // the properties of which one is broken
	}{
		{"an answer does not wait for its timestamp (txn.TX12)", 3, func(w *woundWorld) { w.noCommitWait = true }, []string{"txn.WM4", "txn.WM5"}},
		{"a timestamp is not after true time (txn.TX11)", 3, func(w *woundWorld) { w.early = true }, []string{"txn.WM4", "txn.WM5"}},
		{"a reader does not wait for what it has seen (leader.P28)", 5, func(w *woundWorld) { w.noReaderWait = true }, []string{"txn.WM4"}},
		{"a transaction that is staging is wounded (leader.P27)", 0, func(w *woundWorld) { w.woundStaging = true }, []string{"txn.WM2"}},
		{"nobody is wounded (leader.P27)", 2, func(w *woundWorld) { w.noWound = true }, []string{"txn.WM1"}},
		{"what is staging is recovered only if its coordinator is dead (commit.CR1)", 0, func(w *woundWorld) { w.noRecovery = true }, []string{"txn.WM1"}},
		{"a missing write is not prevented (commit.CR4)", 1, func(w *woundWorld) { w.noPrevention = true }, []string{"txn.WM2"}},
		{"locks alone protect what was read (txn.TX14)", 0, func(w *woundWorld) { w.noRefresh = true }, []string{"txn.WM3", "txn.WM4"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := woundWorlds()[x.world]
			w.limit, w.walks = 200_000, 20_000
			x.breaks(w)
			w.run()
			t.Logf("%s: %s, in %d steps\n  %s", w.name, w.bug, len(w.trace), strings.Join(w.trace, "\n  "))
			if property, _, _ := strings.Cut(w.bug, ":"); !slices.Contains(x.want, property) {
				t.Errorf("none of %v is broken", x.want)
			}
		})
	}
}
