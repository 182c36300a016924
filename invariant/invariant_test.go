package invariant

import "testing"

func TestCheck(t *testing.T) {
	Check(true, "I%d", 5)
	defer func() {
		broken, ok := recover().(*Error)
		if !ok || broken.Message != "I5: two leases" {
			t.Fatal(broken)
		}
	}()
	Check(false, "I%d: %s", 5, "two leases")
	t.Fatal("a broken invariant passed")
}
