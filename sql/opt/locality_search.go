package opt

import (
	"slices"

	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/scalar"
)

// Locality optimized search (CRDB'22 §4.2): rows that are unique over all regions, or of which a few are enough, are first looked for in the
// gateway's region. Only if there are too few of them, all other regions are asked, at the same time.

// LocalitySearch reads Local, and then Remote unless Local has had enough rows. Both read the same index and the same columns.
type LocalitySearch struct {
	Base
	Local, Remote *IndexScan
	// Unique says that each of Local's keys is that of one row at most, of whichever region: Remote is not read if all of them were found.
	Unique bool
	// Limit, if not zero, bounds the rows that leave, and so does Limit of Local.
	Limit int64
}

// costWideArea is a round to another region to whose leaseholders none was measured: 10 ms, less than there is between most regions.
const costWideArea = 50_000.0

// maxLocalKeys bounds the keys of a locality optimized search; more of them are seldom all local.
const maxLocalKeys = 100_000

// isLocal reports whether a span is of the gateway's region; known is false if that turns out when it runs.
func (o *optimizer) isLocal(t *catalog.Table, s *IndexSpan) (local, known bool) {
	if len(s.Equal) == 0 || len(s.Modes) > 0 && s.Modes[0] != SpanValue {
		return false, false
	}
	k, ok := s.Equal[0].(*scalar.Const)
	if !ok || k.Value.IsNull() {
		return false, false
	}
	for _, v := range t.Regions() {
		if v.Label == o.env.GatewayRegion {
			return k.Value.Int() == v.Place, true
		}
	}
	return false, true
}

// away is the cost of a round to another region's rows of an index. Where the leaseholders are not far yet, although the region is, the rows are
// about to follow their configuration, and a plan outlives that. If the gateway has not used the index's rows of that region yet, but those of another index of
// the table, theirs count: an index is not near because nobody has measured how far it is.
func (o *optimizer) away(t *catalog.Table, ix *catalog.Index, region scalar.Expr) float64 {
	spans := []IndexSpan{{Equal: []scalar.Expr{region}}}
	d := o.env.Region.distanceOf(t, ix, spans)
	for i := range t.Indexes {
		if wide(d.Leaseholder) {
			return onceFar(d.Leaseholder).cost()
		}
		if other := &t.Indexes[i]; len(other.Columns) > 0 && other.Columns[0].Column == t.RegionColumn {
			d = o.env.Region.distanceOf(t, other, spans)
		}
	}
	if wide(d.Leaseholder) {
		return onceFar(d.Leaseholder).cost()
	}
	return costWideArea
}

// awayAll are the costs of a round to each of the other regions.
func (o *optimizer) awayAll(t *catalog.Table, ix *catalog.Index) (sum, most float64) {
	for _, v := range t.Regions() {
		if v.Label != o.env.GatewayRegion {
			cost := o.away(t, ix, regionConst(t.Column(t.RegionColumn).Type, v))
			sum, most = sum+cost, max(most, cost)
		}
	}
	return max(sum, costWideArea), max(most, costWideArea)
}

// wideArea is the cost of reading spans that may be in other regions, all of which are asked at the same time. No spans are the whole index, which is
// read one region after the other. If the region turns out when the plan runs, it may as well be the gateway's.
func (o *optimizer) wideArea(t *catalog.Table, ix *catalog.Index, spans []IndexSpan) float64 {
	if o.env.GatewayRegion == "" || !t.ByRow() || len(ix.Columns) == 0 || ix.Columns[0].Column != t.RegionColumn {
		return 0
	}
	if spans == nil {
		sum, _ := o.awayAll(t, ix)
		return sum
	}
	cost := 0.0
	var last *scalar.Const
	for i := range spans {
		local, known := o.isLocal(t, &spans[i])
		switch {
		case !known:
			_, most := o.awayAll(t, ix)
			cost = max(cost, most*o.unknown())
		case !local:
			if k := spans[i].Equal[0].(*scalar.Const); last == nil || last.Value.Int() != k.Value.Int() {
				last = k
				cost = max(cost, o.away(t, ix, k))
			}
		}
	}
	return cost
}

// splitRegions divides spans into those of the gateway's region and the others; ok is false if that is not possible, or one part is empty.
func (o *optimizer) splitRegions(t *catalog.Table, spans []IndexSpan) (local, remote []IndexSpan, ok bool) {
	if o.env.GatewayRegion == "" {
		return nil, nil, false
	}
	for i := range spans {
		switch here, known := o.isLocal(t, &spans[i]); {
		case !known:
			return nil, nil, false
		case here:
			local = append(local, spans[i])
		default:
			remote = append(remote, spans[i])
		}
	}
	return local, remote, len(local) > 0 && len(remote) > 0
}

// searched reports whether a table's rows may be looked for in one region first: the setting, and what the rule can do.
func (o *optimizer) searches(t *catalog.Table) bool {
	return t.ByRow() && o.env.GatewayRegion != "" && !o.env.Naive
}

// localFirst is a locality optimized search in place of a scan by unique keys, with its cost and that of its first row; nil if the scan is none. Of the
// scan's costs, far is the way to other regions.
func (a *access) localFirst(n *IndexScan, c *constraint, startup, cost, far float64) (los *LocalitySearch, first, total float64) {
	o, t := a.s.o, a.scan.Table
	if !o.searches(t) || !c.single || c.regions < 2 || !t.Worldwide(n.Index) || c.count() > maxLocalKeys {
		return nil, 0, 0
	}
	local, remote, ok := o.splitRegions(t, n.Spans)
	if !ok {
		return nil, 0, 0
	}
	l, r := *n, *n
	l.Spans, r.Spans = local, remote
	l.Alternatives, r.Alternatives = 0, c.regions-1
	l.Follow = false
	los = &LocalitySearch{Base: Base{Cols: n.Cols}, Local: &l, Remote: &r, Unique: true}
	total = o.sequential(los, n.Est.Rows, cost, far)
	return los, max(startup-far, 0), total
}

// localMiss is the estimated share of searches whose rows are in another region. Partitioning by region is for rows that are used where they are homed.
const localMiss = 0.25

// With Env.Home a plan that leaves the gateway's region for certain is worth less than any that stays, and than any that leaves only if rows turn out to be
// elsewhere: costs of the ways to other regions are costLeave times as high, and those of ways that a plan may not take are lowered to mayLeave of
// that. A product of both is still above all other costs of a statement, as a rule, so that a plan without any way is the first choice.
const (
	costLeave = 1e9
	mayLeave  = 1e-5
)

// leaves is the cost of a way to another region.
func (o *optimizer) leaves(cost float64) float64 {
	if o.env.Home {
		return cost * costLeave
	}
	return cost
}

// miss is the share of searches whose rows are in another region.
func (o *optimizer) miss() float64 {
	if o.env.Home {
		return mayLeave
	}
	return localMiss
}

// unknown is the share of reads from another region, of those whose region turns out when they run.
func (o *optimizer) unknown() float64 {
	if o.env.Home {
		return mayLeave
	}
	return 0.5
}

// sequential is the cost of a search in place of a scan of so much, far of which is the way to other regions, and sets its estimates.
func (o *optimizer) sequential(n *LocalitySearch, rows, cost, far float64) float64 {
	near := max(cost-far, 0)
	n.Local.Est = Estimate{Rows: rows, Cost: near}
	n.Remote.Est = Estimate{Rows: max(rows*localMiss, min(rows, 1)), Cost: cost}
	return near + o.miss()*(cost+costRequest)
}

// limitedSearch puts a locality optimized search into a plan of which no more than hard rows are taken, in any order, where the plan reads a table
// that is REGIONAL BY ROW and each row that it reads is one that leaves. It returns the part of the cost that is saved; zero: there is none.
func (o *optimizer) limitedSearch(n Node, hard int64) (Node, float64) {
	switch n := n.(type) {
	case *ProjectNode:
		in, saved := o.limitedSearch(n.Input, hard)
		if saved == 0 {
			return n, 0
		}
		c := *n
		c.Input = in
		return &c, saved
	case *IndexJoin:
		if len(n.Filter) > 0 || n.Locking.Strength != kv.NoLock {
			return n, 0
		}
		in, saved := o.limitedSearch(n.Input, hard)
		if saved == 0 {
			return n, 0
		}
		c := *n
		c.Input = in
		return &c, saved
	case *IndexScan:
		t := n.Table
		if !o.searches(t) || hard > maxLocalKeys || n.Locking.Strength != kv.NoLock || n.Index.Columns[0].Column != t.RegionColumn {
			return n, 0
		}
		spans := n.Spans
		if spans == nil {
			rt := t.Column(t.RegionColumn).Type
			for _, v := range t.Regions() {
				spans = append(spans, IndexSpan{Equal: []scalar.Expr{regionConst(rt, v)}})
			}
		}
		local, remote, ok := o.splitRegions(t, spans)
		if !ok || n.Single && int64(len(local)) < hard {
			return n, 0 // the local part can't have enough
		}
		if slices.ContainsFunc(local, func(s IndexSpan) bool { return len(s.Modes) > 0 }) && n.Single {
			return n, 0
		}
		l, r := *n, *n
		l.Spans, l.Limit, l.Follow = local, hard, false
		r.Spans, r.Limit, r.Together = remote, hard, true
		los := &LocalitySearch{Base: Base{Cols: n.Cols}, Local: &l, Remote: &r, Limit: hard}
		l.Est, r.Est = Estimate{Rows: min(n.Est.Rows, float64(hard)), Cost: n.Est.Cost}, n.Est
		los.Est = n.Est
		return los, o.leaves(o.wideArea(t, n.Index, remote)) * (1 - o.miss())
	}
	return n, 0
}

// nearLookup is the division of a lookup join's spans: those that are looked up first, and the rest. saved is the part of the cost that the join
// saves by it.
type nearLookup struct {
	local, remote []IndexSpan
	saved         float64
}

// oneMatch reports whether the spans that a row of the input gives have one row at most.
func oneMatch(t *catalog.Table, ix *catalog.Index, c *constraint) bool {
	for i := range c.spans {
		if c.spans[i].Modes != nil {
			return false
		}
	}
	return len(c.spans) == 1 || c.regions > 1 && len(c.spans) == c.regions && t.Worldwide(ix)
}

// localLookup divides a lookup join's spans if the rest need not be looked up for a row that has a match among the first: a semi or an anti join
// wants no second match, and of a unique key there is none. far is the cost of the way to other regions.
func (o *optimizer) localLookup(kind JoinKind, t *catalog.Table, c *constraint, unique bool, far float64) (n nearLookup) {
	if !o.searches(t) || c.regions < 2 || !unique && kind != SemiJoin && kind != AntiJoin {
		return n
	}
	local, remote, ok := o.splitRegions(t, c.spans)
	if !ok {
		return n
	}
	return nearLookup{local, remote, far * (1 - o.miss())}
}

// lookupCols are the columns of a lookup join.
func lookupCols(kind JoinKind, left Node, right []ColumnID) []ColumnID {
	cols := left.Columns()
	if kind == InnerJoin || kind == LeftJoin {
		cols = append(append(make([]ColumnID, 0, len(cols)+len(right)), cols...), right...)
	}
	return cols
}
