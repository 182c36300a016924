package invariant

import (
	"errors"
	"testing"
)

func TestCheck(t *testing.T) {
	run := func(cond bool) (err error) {
		defer Recover(&err)
		Check(cond, "I%d: %s", 5, "two leases")
		return nil
	}
	if err := run(true); err != nil {
		t.Fatal(err)
	}
	var broken *Error
	if err := run(false); !errors.As(err, &broken) || broken.Message != "I5: two leases" {
		t.Fatal(err)
	}
	defer func() {
		if recover() != "other" {
			t.Fatal("other panics must pass")
		}
	}()
	var err error
	defer Recover(&err)
	panic("other")
}
