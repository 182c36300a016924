package exec

import (
	"testing"

	"meridian/sql/catalog"
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
