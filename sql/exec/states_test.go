package exec

import (
	"testing"

	"meridian/sql/catalog"
)

// A row that goes takes its entry out of a delete-only index too (exec.X2): who has the index public would still find it there.
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
