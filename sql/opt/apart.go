package opt

import (
	"slices"

	"meridian/kv"
	"meridian/sql/scalar"
)

// Rows of a REGIONAL BY ROW table are in the regions of their first column. A scan that goes through all of them in order would wait for each region in turn. So their first pages
// are read at the same time, and kept until it is their turn: the scan takes as long as the farthest region, unless there are more rows than that.

// Apart reports whether the first pages of the scan's regions are read at the same time. A scan that may end early reads its first rows first.
func (n *IndexScan) Apart() bool {
	t := n.Table
	return t.ByRow() && !t.SharesKeys() && len(n.Index.Columns) > 0 && n.Index.Columns[0].Column == t.RegionColumn && !n.Single &&
		n.Limit == 0 && n.SoftLimit == 0 && (n.Spans == nil || len(n.Spans) > 1 && n.Est.Rows >= eagerScanRows)
}

// firstOfEach has a scan read no more rows of each region than a sort of its rows lets pass, if it reads the rows of a region in that order.
func firstOfEach(in Node, by []OrderColumn, top scalar.Expr) Node {
	n, ok := in.(*IndexScan)
	if !ok || n.Spans != nil || n.Locking.Strength != kv.NoLock || !n.Apart() {
		return in
	}
	keys := indexColumns(n.Table, n.Index)
	if len(by) >= len(keys) {
		return in
	}
	forward, back := true, true
	for i, o := range by {
		k, at := keys[i+1], slices.Index(n.Cols, o.Col)
		if at < 0 || n.Table.Columns[n.Ordinals[at]].ID != k.Column {
			return in
		}
		forward = forward && o.Desc == k.Desc && o.NullsFirst == k.Desc
		back = back && o.Desc != k.Desc && o.NullsFirst != k.Desc
	}
	if !forward && !back {
		return in
	}
	c := *n
	c.Reverse, c.SpanLimit = !forward, top
	return &c
}
