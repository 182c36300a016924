package exec

import (
	"context"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/opt"
)

// Rows that come with the entries of an index (opt.IndexScan.Follow): the scan below an index join asks for both, and keeps the rows until the join wants them. The join
// fetches those that did not come.

// rowFinder is implemented by a KV that can return rows together with the entries that lead to them.
type rowFinder interface {
	GetRows(ctx context.Context, ks []keys.Key, enough int, recipe []byte, lock kv.LockStrength) ([][]byte, []kv.KeyValue, error)
}

// arrivals are rows that came with their entries, by their keys.
type arrivals struct {
	r     *run
	rows  map[string][]byte
	taken int64 // their memory, and that of those which the join has now
	spent int64 // the latter's
	of    uint32
}

func arrivalBytes(k keys.Key, v []byte) int64 { return int64(len(k)+len(v)) + spanBytes }

// add keeps rows.
func (a *arrivals) add(rows []kv.KeyValue) error {
	a.current()
	n := int64(0)
	for i := range rows {
		if _, have := a.rows[string(rows[i].Key)]; !have {
			n += arrivalBytes(rows[i].Key, rows[i].Value)
		}
	}
	if err := a.r.budget.Grow(n); err != nil {
		return err
	}
	a.taken += n
	a.r.pages += n
	if a.rows == nil {
		a.rows = make(map[string][]byte, len(rows))
	}
	for i := range rows {
		a.rows[string(rows[i].Key)] = rows[i].Value
	}
	return nil
}

// take returns a row, nil if it did not come.
func (a *arrivals) take(k keys.Key) []byte {
	v, ok := a.rows[string(k)]
	if ok {
		delete(a.rows, string(k))
		a.spent += arrivalBytes(k, v)
	}
	return v
}

// current forgets what belongs to an earlier execution, whose memory was given back.
func (a *arrivals) current() {
	if a.of != a.r.number {
		a.of, a.taken, a.spent, a.rows = a.r.number, 0, 0, nil
	}
}

// letGo gives back the memory of rows that were taken.
func (a *arrivals) letGo() {
	a.current()
	a.r.budget.Shrink(a.spent)
	a.r.pages -= a.spent
	a.taken -= a.spent
	a.spent = 0
}

// drop gives back everything.
func (a *arrivals) drop() {
	a.current()
	a.spent, a.rows = a.taken, nil
	a.letGo()
}

// entriesOf are the scans from which an index join has its keys, as far as rows come with their entries.
func entriesOf(in op) *indexScanOp {
	switch o := in.(type) {
	case *indexScanOp:
		if o.node.Follow {
			return o
		}
	case *localitySearchOp:
		return entriesOf(o.remote)
	}
	return nil
}

// followed lets the scan below a join ask for rows, if the plan says so.
func (b *builder) followed(n *opt.IndexJoin, in op, primary *indexCodec) {
	scan := entriesOf(in)
	if scan != nil && scan.points && !scan.locks() && scan.node.Table.ID == n.Table.ID && n.Locking.Wait == kv.Block {
		scan.recipe, scan.followLock = scan.index.x.Recipe(primary.x), n.Locking
	}
}

// arrivalsOf is what the scan below a join keeps for it; nil: its rows do not come with their entries.
func (r *run) arrivalsOf(in iter) *arrivals {
	if t, ok := in.(*traced); ok {
		in = t.iter
	}
	var scan *indexScanIter
	switch it := in.(type) {
	case *indexScanIter:
		scan = it
	case *localitySearchIter:
		scan = it.scanned
	default:
		return nil
	}
	if scan.o.recipe == nil {
		return nil
	}
	scan.arrivals = &arrivals{r: r}
	return scan.arrivals
}

// asksRows reports whether the scan asks for rows with its entries in this execution. A session that must not leave its region has each request examined first.
func (it *indexScanIter) asksRows() bool {
	if it.arrivals == nil || it.r.env.Home != nil {
		return false
	}
	_, ok := it.r.kv.(rowFinder)
	return ok
}

// getRows is getFound for entries with which their rows come.
func (it *indexScanIter) getRows(ks []keys.Key, enough int) (vs [][]byte, err error) {
	var rows []kv.KeyValue
	f := it.r.kv.(rowFinder)
	defer it.holds(it.o.followLock.Held)()
	vs, err = it.askBy(ks, kv.NoLock, func() (vs [][]byte, err error) {
		vs, rows, err = f.GetRows(it.r.ctx, ks, enough, it.o.recipe, it.o.followLock.Strength)
		return vs, err
	})
	if tooLarge(err) && len(ks) > 1 {
		return it.getParts(ks, kv.NoLock, kv.Block)
	}
	if err == nil {
		err = it.hold(valueBytes(vs))
	}
	if err == nil && len(rows) > 0 {
		err = it.arrivals.add(rows)
	}
	if err != nil {
		return nil, err
	}
	return vs, nil
}
