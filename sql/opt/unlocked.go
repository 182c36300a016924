package opt

import (
	"meridian/kv"
	"meridian/sql/catalog"
)

// UPDATE and DELETE lock a row when they read it, at its leaseholder, and write it in a second request. A row of a GLOBAL table is read as it is now at the nearest replica. So a statement that changes one of
// them by its key, and is a transaction by itself, reads it there without a lock, and its one request, which has the commit, fails if the row has changed since (coordinator.CO12). It is run again with the lock
// then, so that writers of one row have their turns (txn.Txn.Optimistic).

// Unlocked is the scan of the rows that a mutation of a table changes, if its row may be read without its lock; nil: it may not.
func Unlocked(t *catalog.Table, in Node) *IndexScan {
	if t.Locality.Kind != catalog.Global || !t.Traits().Locks.Can() {
		return nil
	}
	for {
		switch n := in.(type) {
		case *ProjectNode:
			in = n.Input
		case *FilterNode:
			in = n.Input
		case *IndexScan:
			l := n.Locking
			if n.Table.ID == t.ID && n.Index.Primary && n.Single && len(n.Spans) == 1 && l.Strength != kv.NoLock && l.Wait == kv.Block && !l.Held && n.AsOf.IsZero() {
				return n
			}
			return nil
		default:
			return nil
		}
	}
}
