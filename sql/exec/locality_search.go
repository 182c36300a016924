package exec

import (
	"slices"

	"meridian/keys"
	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// localitySearchOp reads the gateway's region first, and the other regions only if that was not enough.
type localitySearchOp struct {
	base
	node          *opt.LocalitySearch
	local, remote *indexScanOp
}

func (b *builder) localitySearch(n *opt.LocalitySearch) (op, error) {
	o := &localitySearchOp{base: base{n}, node: n}
	for scan, to := range map[*opt.IndexScan]**indexScanOp{n.Local: &o.local, n.Remote: &o.remote} {
		made, err := b.indexScan(scan)
		if err != nil {
			return nil, err
		}
		*to = made.(*indexScanOp)
	}
	return o, nil
}

func (o *localitySearchOp) iter(r *run) iter {
	it := &localitySearchIter{o: o, local: r.make(o.local), remote: r.make(o.remote)}
	it.scan, it.scanned = scanOf(it.local), scanOf(it.remote)
	it.scan.local = o.node.Unique
	return it
}

// scanOf is the scan of an iterator that may be traced.
func scanOf(it iter) *indexScanIter {
	if t, ok := it.(*traced); ok {
		it = t.iter
	}
	return it.(*indexScanIter)
}

type localitySearchIter struct {
	o             *localitySearchOp
	local, remote iter
	scan, scanned *indexScanIter // local's and remote's
	away          bool           // remote is open
	sent          int64
}

func (it *localitySearchIter) open() error {
	it.away, it.sent = false, 0
	return it.local.open()
}

// hint tells how many rows will be taken.
func (it *localitySearchIter) hint(rows int64) { hint(it.local, rows) }

func (it *localitySearchIter) close() {
	it.local.close()
	if it.away {
		it.remote.close()
	}
}

func (it *localitySearchIter) next() (types.Row, error) {
	n := it.o.node
	if n.Limit > 0 && it.sent >= n.Limit {
		return nil, nil
	}
	if !it.away {
		row, err := it.local.next()
		if row != nil || err != nil {
			it.sent++
			return row, err
		}
		if n.Unique && it.o.local.points && it.scan.entries >= it.scan.keyed {
			return nil, nil // each key has been found, whether or not its row passed the filter
		}
		if home := it.scan.r.env.Home; home != nil {
			if err := home.Searches(it.scan.r.ctx, n.Local.Table.ID, regionsOf(n.Remote.Table, n.Remote.Spans)); err != nil {
				return nil, err
			}
		}
		it.away = true
		if err := it.remote.open(); err != nil {
			return nil, err
		}
		if n.Unique && it.o.local.points && it.scanned.enough > 0 {
			it.scanned.enough = it.scan.keyed - it.scan.entries // the keys that have not been found
		}
	}
	row, err := it.remote.next()
	if row != nil {
		it.sent++
	}
	return row, err
}

// regionsOf are the regions of spans of a table that is REGIONAL BY ROW.
func regionsOf(t *catalog.Table, spans []opt.IndexSpan) (out []string) {
	for i := range spans {
		k, ok := spans[i].Equal[0].(*scalar.Const)
		if !ok {
			continue
		}
		for _, v := range t.Regions() {
			if v.Place == k.Value.Int() && !slices.Contains(out, v.Label) {
				out = append(out, v.Label)
			}
		}
	}
	return out
}

// fillRemote looks up the batch's rows that have no match in the gateway's region in the other ones, all at the same time.
func (it *lookupJoinIter) fillRemote() error {
	o := it.o
	found, refs := it.found, it.refs
	old := len(it.spans)
	it.found, it.refs = nil, nil
	for at := range it.store.rows {
		end := len(refs)
		if at+1 < len(found) {
			end = int(found[at+1])
		}
		mine := refs[found[at]:end]
		hit, err := it.matched(it.store.rows[at], mine)
		if err != nil {
			return err
		}
		if hit {
			it.found = append(it.found, int32(len(it.refs)))
			it.refs = append(it.refs, mine...)
			continue
		}
		if err := it.look(it.store.rows[at], o.remote); err != nil {
			return err
		}
	}
	it.ref = 0
	if len(it.found) > 0 {
		it.ref = int(it.found[0])
	}
	if len(it.spans) == old {
		return nil
	}
	if home := it.r.env.Home; home != nil {
		if err := home.Searches(it.r.ctx, o.node.Table.ID, regionsOf(o.node.Table, o.node.Remote)); err != nil {
			return err
		}
	}
	return it.ask(it.spans[old:], len(o.remote))
}

// matched reports whether a row of the input has a match among lookups that were made. Of a unique key the entry is enough.
func (it *lookupJoinIter) matched(row types.Row, lookups []int32) (bool, error) {
	o := it.o
	comb := it.row
	copy(comb, row)
	test := func(k keys.Key, v []byte) (bool, error) {
		if o.node.Single || len(o.on) == 0 {
			return true, nil
		}
		if err := o.dec.decode(k, v, comb[o.wl:]); err != nil {
			return false, err
		}
		return it.r.pass(o.on, comb)
	}
	for _, f := range lookups {
		if o.points {
			if v := it.values[f]; v != nil {
				if hit, err := test(it.spans[f].Start, v); hit || err != nil {
					return hit, err
				}
			}
			continue
		}
		for _, p := range it.lists[f] {
			if hit, err := test(p.Key, p.Value); hit || err != nil {
				return hit, err
			}
		}
	}
	return false, nil
}
