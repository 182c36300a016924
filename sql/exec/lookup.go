package exec

import (
	"encoding/binary"
	"slices"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/types"
	"meridian/txn"
)

// indexJoinOp fetches the primary rows for the primary keys that its input yields, in batches and in their order.
type indexJoinOp struct {
	base
	node   *opt.IndexJoin
	input  op
	index  *indexCodec
	dec    *rowDecoder
	key    []int
	filter []scalar.Evaluator
	// implies says that a row which passes has its entry, so that the entry need not be confirmed if the row is written: the rows are to be changed, their entries were read by their keys in ranges without
	// leaseholders, and the filter is that of the entries.
	implies bool
}

func (b *builder) indexJoin(n *opt.IndexJoin) (op, error) {
	in, l, err := b.input(n.Input)
	if err != nil {
		return nil, err
	}
	o := &indexJoinOp{base: base{n}, node: n, input: in}
	b.expects(n.Table)
	if o.key, err = l.slots(n.KeyCols); err != nil {
		return nil, err
	}
	if o.index, err = newIndexCodec(n.Table, n.Table.Primary()); err != nil {
		return nil, err
	}
	b.reads(o.index, nil, nil)
	b.followed(n, in, o.index)
	if o.dec, err = newRowDecoder(n.Table, n.Table.Primary(), n.Ordinals); err != nil {
		return nil, err
	}
	if o.filter, err = b.exprs(n.Filter, layoutOf(n)); err != nil {
		return nil, err
	}
	scan, byKey := in.(*indexScanOp)
	o.implies = byKey && scan.points && n.Table.Traits().Optimistic && n.Locking.Strength != kv.NoLock && len(n.Filter) > 0
	return o, nil
}

func (o *indexJoinOp) iter(r *run) iter {
	it := &indexJoinIter{reader: reader{r: r}, o: o, in: r.make(o.input), row: make(types.Row, len(o.node.Ordinals)),
		vals: make(types.Row, len(o.key))}
	it.arrivals = r.arrivalsOf(it.in)
	return it
}

type indexJoinIter struct {
	reader
	o         *indexJoinOp
	in        iter
	row, vals types.Row
	ks        []keys.Key
	entries   []keys.Key // of ks, if it.o.implies
	values    [][]byte   // of the first of ks
	changed   []bool     // of the first of ks, if they are chosen: those that were passed over
	passed    []keys.Key // those of earlier batches, as long as no row was handed out
	at        int
	size      int
	hinted    int64
	sent      int64
	ended     bool
	arrivals  *arrivals // rows that came with their entries; nil: none does
}

func (it *indexJoinIter) open() error {
	it.changed, it.passed = it.changed[:0], nil
	it.ks, it.values, it.at, it.size, it.sent, it.ended = it.ks[:0], nil, 0, batchFor(it.hinted), 0, false
	if it.arrivals != nil {
		it.arrivals.drop()
	}
	return it.in.open()
}

// hint tells how many rows will be taken; the first batch asks the input for as many.
func (it *indexJoinIter) hint(rows int64) {
	it.hinted = rows
	if it.chooses(it.o.node.Locking, rows) {
		rows += candidates
	}
	hint(it.in, rows)
}

// batchFor is the size of the first batch of lookups.
func batchFor(hinted int64) int {
	if hinted > 0 && hinted < lookupBatch {
		return int(hinted)
	}
	return firstPage
}

func (it *indexJoinIter) close() {
	clear(it.ks[:cap(it.ks)])
	it.ks, it.values, it.passed = it.ks[:0], nil, nil
	clear(it.row)
	clear(it.vals)
	it.in.close()
	if it.arrivals != nil {
		it.arrivals.drop()
	}
}

func (it *indexJoinIter) next() (types.Row, error) {
	for {
		for it.at < len(it.values) {
			i := it.at
			it.at++
			if it.values[i] == nil {
				continue // locked by another transaction, with SKIP LOCKED, or passed over
			}
			if err := it.o.dec.decode(it.ks[i], it.values[i], it.row); err != nil {
				return nil, err
			}
			ok, err := it.r.pass(it.o.filter, it.row)
			if err != nil {
				return nil, err
			}
			if ok {
				it.sent++
				if it.o.implies {
					it.r.implies(it.entries[i], it.ks[i])
				}
				return it.row, nil
			}
			if err := it.r.tick(); err != nil {
				return nil, err
			}
		}
		var err error
		switch {
		case len(it.values) < len(it.ks):
			err = it.lockFirst()
		case it.ended:
			return nil, nil
		default:
			err = it.fill()
		}
		if err != nil {
			return nil, err
		}
	}
}

// wanted is how many more rows will be taken, at least one.
func (it *indexJoinIter) wanted() int { return int(max(it.hinted-it.sent, 1)) }

// lockFirst locks the next rows that are free, as many as will be taken.
func (it *indexJoinIter) lockFirst() error {
	n := it.wanted()
	vs, changed, err := it.choose(slices.Clone(it.ks[len(it.values):]), n, it.o.node.Locking)
	it.values, it.changed = append(it.values, vs...), append(it.changed, changed...)
	if n -= valued(vs); err != nil || n <= 0 || !it.ended || len(it.values) < len(it.ks) {
		return err
	}
	return it.lockPassed(n)
}

// lockPassed locks the first n of the rows that were passed over, where there are no others.
func (it *indexJoinIter) lockPassed(n int) error {
	if len(it.passed) > 0 {
		it.ks, it.values = slices.Insert(it.ks, 0, it.passed...), slices.Insert(it.values, 0, make([][]byte, len(it.passed))...)
		for range it.passed {
			it.changed = slices.Insert(it.changed, 0, true)
		}
		it.passed = nil
	}
	for i := it.at; i < len(it.changed) && n > 0; i++ {
		if !it.changed[i] {
			continue
		}
		v, err := it.revisit(it.ks[i], it.o.node.Locking)
		if err != nil {
			return err
		}
		if it.values[i] = v; v != nil {
			n--
		}
	}
	return nil
}

// notePassed keeps in mind the rows of the batch that were passed over, for the case that there are no others. Once a later row was handed out it is too late for them, in
// the order of the query; they have been locked since the statement began.
func (it *indexJoinIter) notePassed() {
	if it.sent > 0 {
		it.passed, it.changed = nil, it.changed[:0]
		return
	}
	for i, changed := range it.changed {
		if changed {
			it.passed = append(it.passed, it.ks[i])
		}
	}
	it.changed = it.changed[:0]
}

func (it *indexJoinIter) fill() error {
	choose := it.chooses(it.o.node.Locking, it.hinted)
	if choose {
		it.notePassed()
	}
	it.ks, it.entries, it.values, it.at = it.ks[:0], it.entries[:0], nil, 0
	if it.arrivals != nil {
		it.arrivals.letGo()
	}
	size := it.size
	if want := int64(it.wanted()); choose {
		size = max(size, int(min(want+candidates, lookupBatch)))
	} else if it.hinted > 0 && it.o.node.Locking.Held {
		size = int(min(int64(size), want)) // others than those that are taken are not locked
	}
	for len(it.ks) < size {
		row, err := it.in.next()
		if err != nil {
			return err
		}
		if row == nil {
			it.ended = true
			break
		}
		for i, s := range it.o.key {
			it.vals[i] = row[s]
		}
		k, err := it.o.index.appendPrefix(nil, it.vals)
		if err != nil {
			return err
		}
		it.ks = append(it.ks, k)
		if it.o.implies {
			it.entries = append(it.entries, scanOf(it.in).last)
		}
	}
	it.size = grow(size, lookupBatch)
	if len(it.ks) == 0 {
		if choose {
			return it.lockPassed(it.wanted())
		}
		return nil
	}
	if it.arrivals != nil && len(it.arrivals.rows) > 0 {
		return it.complete()
	}
	if choose {
		it.letGo()
		return nil
	}
	var err error
	lock := it.o.node.Locking
	if lock.Held {
		defer it.holds(lock.Held)()
	}
	if len(it.ks) == 1 {
		v, err := it.get(it.ks[0], lock.Strength, lock.Wait)
		it.values = append(it.values, v)
		return err
	}
	// The transaction may remember the list itself.
	it.values, err = it.getMany(slices.Clone(it.ks), lock.Strength, lock.Wait)
	return err
}

// complete takes the rows that came with their entries, and fetches the others.
func (it *indexJoinIter) complete() error {
	it.letGo()
	it.values = make([][]byte, len(it.ks))
	var missing []keys.Key
	var at []int
	for i, k := range it.ks {
		if it.values[i] = it.arrivals.take(k); it.values[i] == nil {
			missing, at = append(missing, k), append(at, i)
		}
	}
	if missing == nil {
		return nil
	}
	lock := it.o.node.Locking
	defer it.holds(lock.Held)()
	vs, err := it.getParts(missing, lock.Strength, lock.Wait)
	if err != nil {
		return err
	}
	for j, i := range at {
		it.values[i] = vs[j]
	}
	return nil
}

// lookupJoinOp looks up the rows of an index for batches of input rows.
type lookupJoinOp struct {
	base
	node  *opt.LookupJoin
	input op
	wl    int
	index *indexCodec
	dec   *rowDecoder
	spans []spanSpec
	// remote are further spans, for rows without a match in spans.
	remote []spanSpec
	// points: every span is a point. ordinary: there is a single span, without arrays.
	points, ordinary bool
	batch            int
	on               []scalar.Evaluator
}

func (b *builder) lookupJoin(n *opt.LookupJoin) (op, error) {
	in, l, err := b.input(n.Input)
	if err != nil {
		return nil, err
	}
	switch n.Kind {
	case opt.InnerJoin, opt.LeftJoin, opt.SemiJoin, opt.AntiJoin:
	default:
		return nil, internal("lookup can't be a %s join", n.Kind)
	}
	o := &lookupJoinOp{base: base{n}, node: n, input: in, wl: len(n.Input.Columns())}
	b.expects(n.Table)
	if o.index, err = newIndexCodec(n.Table, n.Index); err != nil {
		return nil, err
	}
	b.reads(o.index, nil, nil)
	if o.dec, err = newRowDecoder(n.Table, n.Index, n.Ordinals); err != nil {
		return nil, err
	}
	o.points, o.ordinary = true, len(n.Spans)+len(n.Remote) == 1
	for i, s := range slices.Concat(n.Spans, n.Remote) {
		sp, err := b.span(&s, o.index, n.Single, l)
		if err != nil {
			return nil, err
		}
		if i < len(n.Spans) {
			o.spans = append(o.spans, sp)
		} else {
			o.remote = append(o.remote, sp)
		}
		o.points, o.ordinary = o.points && sp.point, o.ordinary && !sp.arrays
	}
	// The rows found for a batch are held at once.
	o.batch = lookupBatch
	if in, found := n.Input.Estimate().Rows, n.Est.Rows; !o.points && in > 0 && found/in > 64 {
		o.batch = max(1, int(lookupBatch*64*in/found))
	}
	both := layoutOf(n.Input).add(o.wl, n.Right)
	if o.on, err = b.exprs(n.On, both); err != nil {
		return nil, err
	}
	natural := append([]scalar.ColumnID(nil), n.Input.Columns()...)
	if n.Kind == opt.InnerJoin || n.Kind == opt.LeftJoin {
		natural = append(natural, n.Right...)
	}
	if equalCols(natural, n.Cols) {
		return o, nil
	}
	slots, err := layout{}.add(0, natural).slots(n.Cols)
	if err != nil {
		return nil, err
	}
	return &projectOp{base: base{n}, input: o, slots: slots}, nil
}

func (o *lookupJoinOp) iter(r *run) iter {
	return &lookupJoinIter{reader: reader{r: r}, o: o, in: r.make(o.input), row: make(types.Row, o.wl+len(o.node.Right))}
}

type lookupJoinIter struct {
	reader
	o     *lookupJoinOp
	in    iter
	row   types.Row
	vals  types.Row
	store rowStore // the batch of input rows

	found  []int32 // for each input row where its part of refs begins
	refs   []int32 // lookups, which equal rows share
	seen   map[string]int32
	spans  []keys.Span
	mine   []keys.Span // scratch: those of a row
	name   []byte
	values [][]byte
	lists  [][]kv.KeyValue
	at     int // input row
	ref    int // its lookup
	match  int // next candidate of that lookup
	first  bool
	hit    bool
	size   int
	hinted int64
	ended  bool
}

func (it *lookupJoinIter) open() error {
	it.reset()
	it.size, it.ended = min(batchFor(it.hinted), it.o.batch), false
	return it.in.open()
}

// hint tells how many rows will be taken.
func (it *lookupJoinIter) hint(rows int64) { it.hinted = rows }

func (it *lookupJoinIter) reset() {
	it.store.reset(it.r.budget)
	it.found, it.refs, it.at, it.hit = it.found[:0], it.refs[:0], 0, false
	it.ref, it.match, it.first = 0, 0, true
	it.spans, it.values, it.lists = nil, nil, nil
	clear(it.seen)
}

func (it *lookupJoinIter) close() {
	it.reset()
	clear(it.row)
	it.in.close()
}

func (it *lookupJoinIter) next() (types.Row, error) {
	o := it.o
	for {
		for it.at < len(it.store.rows) {
			if it.first {
				copy(it.row, it.store.rows[it.at])
				it.first = false
			}
			k, v := it.candidate()
			if k == nil {
				hit := it.hit
				it.leave()
				if !hit && o.node.Kind == opt.AntiJoin {
					return it.row[:o.wl], nil
				}
				if !hit && o.node.Kind == opt.LeftJoin {
					clear(it.row[o.wl:])
					return it.row, nil
				}
				continue
			}
			it.match++
			if err := o.dec.decode(k, v, it.row[o.wl:]); err != nil {
				return nil, err
			}
			ok, err := it.r.pass(o.on, it.row)
			if err != nil {
				return nil, err
			}
			if err := it.r.tick(); err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			it.hit = true
			switch o.node.Kind {
			case opt.SemiJoin:
				it.leave()
				return it.row[:o.wl], nil
			case opt.AntiJoin:
				it.leave()
				continue
			}
			return it.row, nil
		}
		if it.ended {
			return nil, nil
		}
		if err := it.fill(); err != nil {
			return nil, err
		}
	}
}

// leave goes on to the next input row.
func (it *lookupJoinIter) leave() {
	it.at++
	it.match, it.hit, it.first = 0, false, true
	if it.at < len(it.found) {
		it.ref = int(it.found[it.at])
	}
}

// candidate is the next pair for the current input row, or nil.
func (it *lookupJoinIter) candidate() (keys.Key, []byte) {
	end := len(it.refs)
	if it.at+1 < len(it.found) {
		end = int(it.found[it.at+1])
	}
	for it.ref < end {
		f := it.refs[it.ref]
		if it.o.points {
			if it.match == 0 && it.values[f] != nil {
				return it.spans[f].Start, it.values[f]
			}
		} else if list := it.lists[f]; it.match < len(list) {
			return list[it.match].Key, list[it.match].Value
		}
		it.ref, it.match = it.ref+1, 0
	}
	return nil, nil
}

// look finds the lookups of an input row.
func (it *lookupJoinIter) look(row types.Row, specs []spanSpec) error {
	o := it.o
	it.found = append(it.found, int32(len(it.refs)))
	it.mine = it.mine[:0]
	for i := range specs {
		var err error
		if it.mine, err = it.r.evalSpan(o.index, &specs[i], &it.vals, row, it.mine); err != nil {
			return err
		}
	}
	if !o.ordinary && len(it.mine) > 1 {
		it.mine = mergeSpans(it.mine)
	}
	for _, s := range it.mine {
		it.name = append(binary.AppendUvarint(it.name[:0], uint64(len(s.Start))), s.Start...)
		it.name = append(it.name, s.End...)
		f, ok := it.seen[string(it.name)]
		if !ok {
			if it.seen == nil {
				it.seen = make(map[string]int32)
			}
			f = int32(len(it.spans))
			it.seen[string(it.name)] = f
			it.spans = append(it.spans, s)
		}
		it.refs = append(it.refs, f)
	}
	return nil
}

func (it *lookupJoinIter) fill() error {
	it.reset()
	o := it.o
	for len(it.store.rows) < it.size && len(it.spans) < 16*lookupBatch {
		row, err := it.in.next()
		if err != nil {
			return err
		}
		if row == nil {
			it.ended = true
			break
		}
		if _, err := it.store.add(it.r.budget, row); err != nil {
			return err
		}
		if err := it.look(row, o.spans); err != nil {
			return err
		}
	}
	it.size = grow(it.size, o.batch)
	if len(it.spans) == 0 {
		return nil
	}
	lock := o.node.Locking
	if lock.Held {
		defer it.holds(lock.Held)()
	}
	it.letGo()
	if err := it.ask(it.spans, len(o.spans)); err != nil || o.remote == nil {
		return err
	}
	return it.fillRemote()
}

// ask reads spans, after those that were read before. Each row of the input has given so many of them, perhaps those of an equal row.
func (it *lookupJoinIter) ask(spans []keys.Span, each int) error {
	lock := it.o.node.Locking
	if it.o.points {
		ks := make([]keys.Key, len(spans))
		for i := range spans {
			ks[i] = spans[i].Start
		}
		enough := 0
		if it.o.node.Single && each > 1 && len(ks)%each == 0 {
			enough = len(ks) / each // all spans of a row are one key in several regions
		}
		if lock.Check {
			return it.askParents(ks, enough)
		}
		if enough > 0 {
			vs, err := it.getFound(ks, enough, lock.Strength, lock.Wait)
			it.values = append(it.values, vs...)
			return err
		}
		vs, err := it.getParts(ks, lock.Strength, lock.Wait)
		it.values = append(it.values, vs...)
		return err
	}
	lists, err := it.scanParts(spans, txn.ScanOptions{Lock: lock.Strength, Wait: lock.Wait, Filter: it.o.index.filter()})
	it.lists = append(it.lists, lists...)
	return err
}

// askParents is ask for rows that foreign keys want.
func (it *lookupJoinIter) askParents(ks []keys.Key, enough int) error {
	vs, err := it.getParents(ks, enough)
	if err != nil {
		return err
	}
	it.values = append(it.values, vs...)
	for i, k := range ks {
		if vs[i] != nil {
			if err := it.r.knows(k); err != nil {
				return err
			}
		}
	}
	return nil
}
