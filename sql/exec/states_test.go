package exec

import (
	"testing"

	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// Deleting a row also deletes its entry in a delete-only index (exec.X2): a node that has the index as public would still find
// the entry.
func TestDeleteOnlyIndexLoses(t *testing.T) {
	f := newFixture(t)
	tab := f.table(100, "t", "ka", 1)
	ix := index(tab, "t_a", false, 2)
	f.insert(tab, row(1, 1), row(2, 2))
	ix.State = catalog.DeleteOnly
	if n, err := f.exec(f.delete(tab, is(0, 1, f))); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if left := f.entries(tab, ix); len(left) != 1 || left[0] != "2" {
		t.Errorf("entries %v", left)
	}
}

// A row that moves in the primary index gets its entry in an index that is being filled also if the entry stays the same: the backfill may have been where the row
// moves to, and finds it no more where it was (exec.X2). So are indexes that are built anew without the region.
func TestMovedRowsAreNotMissedByBackfills(t *testing.T) {
	f := newFixture(t)
	tab := f.table(100, "t", "rka", 2)
	ix := index(tab, "t_a", true, 3)
	ix.Suffix = []catalog.ColumnID{2} // rows are identified without the region
	ix.State = catalog.Absent
	f.insert(tab, row(1, 10, 100), row(1, 20, 200))
	ix.State = catalog.WriteOnly
	if n, err := f.exec(f.update(tab, map[int]func([]opt.ColumnID) scalar.Expr{0: to(types.NewInt(2))}, is(1, 10, f))); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if left := f.entries(tab, ix); len(left) != 1 || left[0] != "100" {
		t.Errorf("entries %v", left)
	}
}
