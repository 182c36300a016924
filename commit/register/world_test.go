package register

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"meridian/clock"
	"meridian/core"
	"meridian/history"
	"meridian/keys"
	"meridian/kv"
)

// mistakes break the contract of a range, to see that the checkers notice.
type mistakes struct {
	minority      bool // the reports of a minority are enough
	actSealed     bool // a sealed replica goes on serving
	foldDrops     bool // the fold drops provisional writes
	foldForgives  bool // the fold drops preventions
	jointHalf     bool // an operation counts a majority of either half of a joint configuration
	ackEarly      bool // replies leave before what they promise is durable
	deltaLost     bool // a replica that restarts has forgotten its delta
	anyGeneration bool // requests of an earlier generation are served
	noWriteBack   bool // a read does not store what it found
}

// configuration is a set of voters, or two of them.
type configuration struct{ sets [][]kv.ReplicaID }

func (c configuration) voters() (all []kv.ReplicaID) {
	for _, s := range c.sets {
		all = append(all, s...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (c configuration) quorum(has func(kv.ReplicaID) bool) bool {
	return !slices.ContainsFunc(c.sets, func(s []kv.ReplicaID) bool { return !majority(s, has) })
}

func majority(set []kv.ReplicaID, has func(kv.ReplicaID) bool) bool {
	n := 0
	for _, id := range set {
		if has(id) {
			n++
		}
	}
	return n > len(set)/2
}

// record is an entry of the range's log.
type record struct {
	seal bool
	// Of an Open: the generation that begins, its voters, and its base.
	generation int
	config     configuration
	base       map[string]Register
}

type machine struct {
	id         kv.ReplicaID
	applied    int
	sealed     bool
	up         bool
	acceptor   *Acceptor
	disk       map[string]Register
	unsynced   []unsynced
	generation int
	base       map[string]Register
}

type unsynced struct {
	ticket core.Ticket
	writes []Write
	after  []Message
}

type packet struct {
	to         kv.ReplicaID // zero: to the gateway
	from       kv.ReplicaID
	op         *running
	round      int
	generation int
	request    *Request
	reply      *Reply // nil with request nil: refused
}

// running is an operation at a gateway.
type running struct {
	*Operation
	generation int
	config     configuration
	gone       bool
	// done is called with the result, lost (if not nil) if there is none.
	done func(Result)
	lost func()
}

// writer is a transaction that writes one value to each of some registers, through a record that stages.
type writer struct {
	meta     kv.TxnMeta
	keys     []int
	value    int64
	ops      []*history.Op
	gone     bool // its gateway is
	ended    bool
	written  int
	version  int // of its proposals
	recovers bool
	twoPhase bool // its record is written when all of its writes are there
}

type txnRecord struct {
	meta   kv.TxnMeta
	status kv.Status
}

type world struct {
	dice     *rand.Rand
	wrong    mistakes
	log      []record
	replicas map[kv.ReplicaID]*machine
	reports  map[kv.ReplicaID][]Entry
	packets  []packet
	ops      []*running
	txns     map[kv.TxnID]*writer
	order    []kv.TxnID
	records  map[kv.TxnID]*txnRecord
	stampers []*Stamper
	clock    int64
	slow     kv.ReplicaID // replicas with this rest of three are slow to apply
	value    int64
	next     uint64
	hist     history.Registers
	trace    []string
	calm     bool // no more faults
	broken   error
	calls    map[uint64]packet // what acceptors have not replied to
	seen     map[string]int
}

const registers = 3

func newWorld(seed uint64, wrong mistakes) *world {
	w := &world{dice: rand.New(rand.NewPCG(seed, 9)), wrong: wrong, replicas: map[kv.ReplicaID]*machine{},
		txns: map[kv.TxnID]*writer{}, records: map[kv.TxnID]*txnRecord{}, seen: map[string]int{}, calls: map[uint64]packet{}, clock: 1000, slow: kv.ReplicaID(seed % 6)}
	w.log = []record{{generation: 1, config: configuration{[][]kv.ReplicaID{{1, 2, 3}}}, base: map[string]Register{}}}
	for g := range 3 {
		w.stampers = append(w.stampers, NewStamper(kv.NodeID(g+1), uint16(w.dice.Uint32())))
	}
	w.join()
	return w
}

func (w *world) tracef(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

func (w *world) reach(what string) { w.seen[what]++ }

// opened is the last Open of the log.
func (w *world) opened() *record {
	for i := len(w.log) - 1; ; i-- {
		if !w.log[i].seal {
			return &w.log[i]
		}
	}
}

func (w *world) sealing() bool { return w.log[len(w.log)-1].seal }

// join makes the replicas of the present configuration that are not there yet; they begin with a raft snapshot.
func (w *world) join() {
	at := len(w.log)
	for _, id := range w.opened().config.voters() {
		if w.replicas[id] == nil {
			w.replicas[id] = &machine{id: id, up: true}
			w.replicas[id].open(w.opened(), at)
		}
	}
}

func (r *machine) open(o *record, at int) {
	r.generation, r.base, r.sealed, r.applied = o.generation, o.base, false, at
	r.disk, r.unsynced = map[string]Register{}, nil
	r.acceptor = NewAcceptor(uint64(r.generation), clock.Timestamp{}, nil, 0)
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func (r *machine) restart(lost bool) {
	var delta []Entry
	for _, k := range sortedKeys(r.disk) {
		delta = append(delta, Entry{keys.Key(k), r.disk[k]})
	}
	if lost {
		delta, r.disk = nil, map[string]Register{}
	}
	r.unsynced, r.up = nil, true
	r.acceptor = NewAcceptor(uint64(r.generation), clock.Timestamp{}, delta, 0)
}

func (r *machine) sync() []Message {
	u := r.unsynced[0]
	r.unsynced = r.unsynced[1:]
	for _, e := range u.writes {
		r.disk[string(e.Key)] = e.Register
	}
	r.acceptor.Durable(u.ticket)
	return u.after
}

// step is one random event.
func (w *world) step() {
	w.clock++
	if n := len(w.packets); n > 0 && w.dice.IntN(4) != 0 {
		w.deliver(w.dice.IntN(n))
		return
	}
	ids := sortedKeys(w.replicas)
	r := w.replicas[ids[w.dice.IntN(len(ids))]]
	switch w.dice.IntN(12) {
	case 0, 1, 2:
		if r.up && len(r.unsynced) > 0 {
			w.sync(r)
		}
	case 3:
		if r.up && r.applied < len(w.log) && (r.id%3 != w.slow || w.calm || w.dice.IntN(12) == 0) {
			w.apply(r)
		}
	case 4:
		if w.dice.IntN(20) == 0 && r.up && !w.calm {
			w.tracef("r%d crashes", r.id)
			for len(r.unsynced) > 0 && w.dice.IntN(2) == 0 {
				r.sync()
			}
			r.up = false
		}
	case 5:
		if !r.up {
			r.restart(w.wrong.deltaLost)
		}
	case 6, 7:
		w.reconfigure(r)
	case 8, 9:
		w.nudge()
	default:
		if !w.calm && len(w.ops) < 12 {
			w.begin()
		}
	}
}

func (w *world) apply(r *machine) {
	e := &w.log[r.applied]
	if e.seal {
		r.sealed = true
		r.applied++
		w.tracef("r%d is sealed in %d", r.id, r.generation)
		return
	}
	if !slices.Contains(e.config.voters(), r.id) {
		delete(w.replicas, r.id)
		w.tracef("r%d is removed", r.id)
		return
	}
	r.open(e, r.applied+1)
	w.tracef("r%d opens %d", r.id, r.generation)
}

// reconfigure takes a change of the range one step on.
func (w *world) reconfigure(r *machine) {
	o := w.opened()
	if !w.sealing() {
		if w.dice.IntN(30) == 0 && !w.calm {
			w.log = append(w.log, record{seal: true})
			w.reports = map[kv.ReplicaID][]Entry{}
		}
		return
	}
	if r.up && r.sealed && r.generation == o.generation && slices.Contains(o.config.voters(), r.id) {
		w.reports[r.id] = r.acceptor.Report()
	}
	reported := func(id kv.ReplicaID) bool { _, ok := w.reports[id]; return ok }
	if !o.config.quorum(reported) && !(w.wrong.minority && len(w.reports) > 0) {
		return
	}
	var reports [][]Entry
	for _, id := range sortedKeys(w.reports) {
		reports = append(reports, w.reports[id])
	}
	next := record{generation: o.generation + 1, config: w.draw(o.config), base: maps.Clone(o.base)}
	folded := Fold(reports)
	for i, again := range Fold(append(reports, folded)) {
		if !slices.EqualFunc(again.Decrees, folded[i].Decrees, func(a, b Decree) bool { return a.Instance == b.Instance }) || again.Newest.Compare(&folded[i].Newest) != 0 {
			w.broken = fmt.Errorf("folding again gives something else: %+v, then %+v", folded[i], again)
		}
	}
	for _, e := range folded {
		e.Decrees = slices.DeleteFunc(e.Decrees, func(d Decree) bool {
			return w.wrong.foldDrops && d.Outcome == Written || w.wrong.foldForgives && d.Outcome == Prevented
		})
		if len(e.Decrees) > 0 {
			w.reach("a fold with provisional writes")
		}
		next.base[string(e.Key)] = e.Register
	}
	w.log = append(w.log, next)
	w.tracef("generation %d of %v from reports of %v", next.generation, next.config.sets, sortedKeys(w.reports))
	if len(next.config.sets) > 1 {
		w.reach("a joint configuration")
	}
	w.join()
}

func (w *world) draw(c configuration) configuration {
	if len(c.sets) == 2 {
		return configuration{c.sets[1:]}
	}
	now := c.sets[0]
	switch w.dice.IntN(4) {
	case 0:
		return c
	case 1: // three to five and back
		if len(now) == 3 {
			free := w.free(now)
			return configuration{[][]kv.ReplicaID{now, append(slices.Clone(now), free[:2]...)}}
		}
		return configuration{[][]kv.ReplicaID{now, now[2:]}}
	}
	next := slices.Clone(now)
	free := w.free(now)
	for i := range 1 + w.dice.IntN(2) {
		next[i] = free[i]
	}
	return configuration{[][]kv.ReplicaID{now, next}}
}

// free are replicas that never were: a number is not used twice.
func (w *world) free(now []kv.ReplicaID) []kv.ReplicaID {
	top := slices.Max(now)
	for id := range w.replicas {
		top = max(top, id)
	}
	return []kv.ReplicaID{top + 1, top + 2}
}

func (w *world) run(o *Operation, done func(Result)) *running {
	at := w.opened()
	if w.dice.IntN(3) == 0 { // what the gateway knows of the range is old
		for _, e := range w.log[max(0, len(w.log)-4):] {
			if !e.seal {
				at = &e
				break
			}
		}
	}
	op := &running{Operation: o, generation: at.generation, config: at.config, done: done}
	w.ops = append(w.ops, op)
	w.ask(op)
	return op
}

func (w *world) ask(op *running) {
	if q := op.Request(); q != nil {
		for _, id := range op.config.voters() {
			c := *q
			w.packets = append(w.packets, packet{to: id, op: op, round: op.Round(), generation: op.generation, request: &c})
		}
	}
}

func (w *world) deliver(i int) {
	p := w.packets[i]
	if w.calm || w.dice.IntN(10) != 0 { // now and then it comes again
		w.packets[i] = w.packets[len(w.packets)-1]
		w.packets = w.packets[:len(w.packets)-1]
	}
	if !w.calm && w.dice.IntN(12) == 0 {
		return // lost
	}
	if p.to == 0 {
		w.hear(p)
		return
	}
	r := w.replicas[p.to]
	if r == nil || !r.up {
		return
	}
	if r.sealed && !w.wrong.actSealed || r.generation != p.generation && !(w.wrong.anyGeneration && p.generation < r.generation) {
		w.packets = append(w.packets, packet{from: r.id, op: p.op, round: p.round, generation: p.generation})
		return
	}
	q := *p.request
	if r.generation != p.generation && q.Generation != 0 {
		q.Generation = uint64(r.generation)
	}
	r.acceptor.Load(q.Key, r.base[string(q.Key)])
	w.next++
	w.calls[w.next] = p
	r.acceptor.Step(clock.Timestamp{Wall: w.clock}, Message{ID: w.next, Request: &q})
	w.drain(r)
}

// drain carries out an acceptor's effects.
func (w *world) drain(r *machine) {
	fx := r.acceptor.Effects()
	if len(fx.Persist) > 0 {
		u := unsynced{ticket: fx.Ticket, writes: fx.Persist, after: fx.After}
		if w.wrong.ackEarly {
			w.reply(r, u.after)
			u.after = nil
		}
		r.unsynced = append(r.unsynced, u)
	}
	w.reply(r, fx.Send)
}

func (w *world) sync(r *machine) {
	w.reply(r, r.sync())
	w.drain(r)
}

func (w *world) reply(r *machine, messages []Message) {
	for _, m := range messages {
		p := w.calls[m.ID]
		delete(w.calls, m.ID)
		w.packets = append(w.packets, packet{from: r.id, op: p.op, round: p.round, generation: p.generation, reply: m.Reply})
	}
}

// hear gives an answer to the operation at a gateway.
func (w *world) hear(p packet) {
	op := p.op
	if op.gone || op.Done() || p.generation != op.generation {
		return
	}
	if p.reply == nil {
		w.follow(op)
		return
	}
	if p.round != op.Round() {
		return
	}
	config, refused := op.config, op.result.Refused
	op.Answer(p.from, p.reply, func(has func(kv.ReplicaID) bool) bool {
		if w.wrong.jointHalf {
			return slices.ContainsFunc(config.sets, func(s []kv.ReplicaID) bool { return majority(s, has) })
		}
		return config.quorum(has)
	})
	if op.result.Refused > refused && w.dice.IntN(8) != 0 {
		return // rivals draw how long they wait before the next ballot; nudge sends it
	}
	w.advance(op, p.round)
}

// follow takes an operation to the range's present generation.
func (w *world) follow(op *running) {
	if at := w.opened(); at.generation != op.generation {
		op.generation, op.config = at.generation, at.config
		op.Restart()
		w.ask(op)
	}
}

func (w *world) advance(op *running, round int) {
	if op.Done() {
		if op.result.Refused > 0 {
			w.reach("a ballot overtaken")
		}
		w.drop(op)
		op.done(op.Result())
	} else if op.Round() != round {
		if w.wrong.noWriteBack && op.purpose == reading && op.phase == storing {
			op.finish()
			w.advance(op, round)
			return
		}
		w.ask(op)
	}
}

func (w *world) drop(op *running) {
	op.gone = true
	w.ops = slices.DeleteFunc(w.ops, func(o *running) bool { return o == op })
}

// nudge lets time pass for one operation, or one transaction.
func (w *world) nudge() {
	if len(w.ops) == 0 {
		return
	}
	op := w.ops[w.dice.IntN(len(w.ops))]
	switch {
	case op.Asks() != nil:
		w.look(op)
	case !w.calm && w.dice.IntN(60) == 0:
		w.drop(op) // the gateway gives up
		if op.lost != nil {
			op.lost()
		}
	case w.dice.IntN(8) == 0:
		w.follow(op)
		w.ask(op)
	}
}

// look asks the record of a transaction that a read has met.
func (w *world) look(op *running) {
	d := op.Asks()
	t, rec := w.txns[d.Txn], w.records[d.Txn]
	alive := !t.gone && !t.ended
	round := op.Round()
	switch {
	case rec == nil && alive && w.dice.IntN(20) != 0:
		w.reach("a pending write passed by")
		op.Tell(&d.Meta, kv.Pending, nil)
	case rec == nil:
		w.records[d.Txn] = &txnRecord{meta: d.Meta, status: kv.Aborted}
		op.Tell(&d.Meta, kv.Aborted, nil)
	case rec.status == kv.Staging:
		if !t.recovers && (!alive || w.dice.IntN(10) == 0) {
			w.recover(t, rec)
		}
		return
	default:
		if rec.status == kv.Committed {
			w.reach("a committed write read before it was settled")
		}
		op.Tell(&rec.meta, rec.status, nil)
		if rec.status == kv.Aborted {
			meta := rec.meta
			w.run(Settle(op.request.Key, &meta, kv.Aborted, nil), func(Result) {})
		}
	}
	w.advance(op, round)
}

// recover is commit.Recover: it asks for the writes of a record as it was when it was read, and finishes it if it still is so.
func (w *world) recover(t *writer, rec *txnRecord) {
	w.reach("a recovery")
	t.recovers = true
	meta, left := rec.meta, len(t.keys)
	w.tracef("recovery of %x at %s", meta.ID[:2], meta.WriteTimestamp)
	all := true
	for _, k := range t.keys {
		w.next++
		w.run(Witness(key(k), &meta, w.next), func(r Result) {
			all = all && r.Outcome == Written
			left--
			if left > 0 {
				return
			}
			t.recovers = false
			now := w.records[meta.ID]
			if now == nil || now.status != kv.Staging || now.meta.WriteTimestamp != meta.WriteTimestamp {
				return
			}
			now.status = kv.Aborted
			if all {
				now.status = kv.Committed
			}
			w.tracef("recovery of %x: %s", meta.ID[:2], now.status)
			if t.gone && all {
				w.reach("a recovery that commits")
				w.settle(t)
			}
		}).lost = func() { t.recovers = false }
	}
}

func key(i int) keys.Key { return keys.Key{'k', byte('0' + i)} }

func value(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

func number(b []byte) int64 {
	if b == nil {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

func (w *world) begin() {
	k, g := w.dice.IntN(registers), w.dice.IntN(3)
	switch w.dice.IntN(5) {
	case 0, 1:
		w.read(g, k)
	case 2, 3:
		w.value++
		v := w.value
		o := w.hist.Begin(history.Op{Client: g, Key: k, Kind: history.Write, Value: v})
		w.run(WriteOf(key(k), value(v), func(seen clock.Timestamp) clock.Timestamp { return w.stampers[g].Stamp(w.now(g)(), seen) }), func(Result) { w.hist.OK(o, 0, false) })
	default:
		w.transact(g)
	}
}

// now is the clock of a gateway; they differ.
func (w *world) now(g int) func() clock.Timestamp {
	return func() clock.Timestamp { return clock.Timestamp{Wall: w.clock + int64(g)*40} }
}

func (w *world) read(g, k int) *running {
	o := w.hist.Begin(history.Op{Client: g, Key: k, Kind: history.Read})
	return w.run(Read(key(k)), func(r Result) { w.hist.OK(o, number(r.Version.Value), false) })
}

func (w *world) transact(g int) {
	w.value++
	t := &writer{value: w.value, twoPhase: w.dice.IntN(3) == 0, keys: []int{w.dice.IntN(registers)}}
	if other := w.dice.IntN(registers); other != t.keys[0] {
		t.keys = append(t.keys, other)
	}
	binary.BigEndian.PutUint64(t.meta.ID[:], w.dice.Uint64())
	t.meta.Seq, t.meta.Gateway = 1, kv.NodeID(g)
	t.meta.WriteTimestamp = w.now(g)()
	t.meta.WriteTimestamp.Wall &^= 31 // so that some are alike
	for _, k := range t.keys {
		t.ops = append(t.ops, w.hist.Begin(history.Op{Client: g, Key: k, Kind: history.Write, Value: t.value}))
	}
	w.txns[t.meta.ID] = t
	w.order = append(w.order, t.meta.ID)
	w.stage(t)
}

// stage begins a commit: the record goes STAGING, unless the commit takes two phases, and the writes become provisional.
func (w *world) stage(t *writer) {
	rec := w.records[t.meta.ID]
	if rec != nil && rec.status == kv.Aborted {
		w.abort(t)
		return
	}
	if rec != nil && rec.status == kv.Committed {
		w.broken = fmt.Errorf("transaction %x was committed without its writes", t.meta.ID[:2])
		return
	}
	meta := t.meta
	if !t.twoPhase {
		w.records[t.meta.ID] = &txnRecord{meta: meta, status: kv.Staging}
	}
	t.version++
	t.written = 0
	version := t.version
	for _, k := range t.keys {
		w.next++
		w.run(Propose(key(k), value(t.value), &meta, w.next), func(r Result) {
			if t.gone || t.ended || version != t.version {
				return
			}
			switch {
			case !r.TooOld.IsZero():
				w.reach("a write too old")
				t.meta.WriteTimestamp = t.meta.WriteTimestamp.Forward(r.TooOld).Next()
				w.stage(t)
			case r.Outcome == Prevented:
				w.reach("a write prevented")
				w.abort(t)
			default:
				if t.written++; t.written == len(t.keys) {
					w.commit(t)
				}
			}
		})
	}
	if w.dice.IntN(4) == 0 {
		t.gone = true // though some of its messages are on their way
	}
}

func (w *world) commit(t *writer) {
	rec := w.records[t.meta.ID]
	if t.twoPhase {
		if rec != nil {
			w.abort(t) // somebody took it for dead
			return
		}
		rec = &txnRecord{meta: t.meta, status: kv.Committed}
		w.records[t.meta.ID] = rec
	}
	if rec == nil || rec.status == kv.Aborted || rec.meta.WriteTimestamp != t.meta.WriteTimestamp {
		w.broken = fmt.Errorf("transaction %x has all its writes and the record %+v", t.meta.ID[:2], rec)
		return
	}
	for _, o := range t.ops {
		w.hist.OK(o, 0, false)
	}
	w.reach("a commit")
	w.tracef("%x commits at %s", t.meta.ID[:2], t.meta.WriteTimestamp)
	if w.dice.IntN(4) == 0 {
		t.gone = true
		return // implicitly committed; others find out
	}
	rec.status = kv.Committed
	w.settle(t)
}

// settle gives all provisional writes of a committed transaction their outcome, and then removes the record.
func (w *world) settle(t *writer) {
	meta, left := w.records[t.meta.ID].meta, len(t.keys)
	for _, k := range t.keys {
		w.run(Settle(key(k), &meta, kv.Committed, nil), func(Result) {
			if left--; left == 0 {
				w.tracef("record of %x removed", meta.ID[:2])
				delete(w.records, meta.ID)
				t.ended = true
			}
		})
	}
}

func (w *world) abort(t *writer) {
	if rec := w.records[t.meta.ID]; rec != nil && rec.status == kv.Committed {
		w.broken = fmt.Errorf("transaction %x is committed, and a write of it prevented", t.meta.ID[:2])
		return
	}
	w.records[t.meta.ID] = &txnRecord{meta: t.meta, status: kv.Aborted}
	t.ended = true
	for _, o := range t.ops {
		w.hist.Failed(o, "aborted")
	}
	meta := t.meta
	for _, k := range t.keys {
		w.run(Settle(key(k), &meta, kv.Aborted, nil), func(Result) {})
	}
}
