package scalar_test

import (
	"fmt"
	"slices"
	"testing"

	"meridian/sql/scalar"
	"meridian/sql/scalar/system"
)

// Building the table parses every signature; each overload must be callable.
func TestRegistry(t *testing.T) {
	r := system.NewBuiltins()
	n := 0
	for _, o := range r.All() {
		n++
		if o.Eval == nil && o.Set == nil {
			t.Errorf("%s%v has no implementation", o.Name, o.Args)
		}
		if o.Return == nil {
			t.Errorf("%s%v has no result type", o.Name, o.Args)
		}
	}
	if n < 500 {
		t.Errorf("only %d overloads", n)
	}
}

// TestOIDsStay: every node gives a function the same OID, also after a restart. Clients keep OIDs, and compare those of two nodes.
func TestOIDsStay(t *testing.T) {
	names := func(r *scalar.Registry) (out []string) {
		for _, o := range r.All() {
			out = append(out, fmt.Sprint(o.OID, " ", o.Name, o.Args))
		}
		return out
	}
	first := names(system.NewBuiltins())
	for range 4 {
		if again := names(system.NewBuiltins()); !slices.Equal(first, again) {
			for i := range first {
				if first[i] != again[i] {
					t.Fatalf("%s in one table, %s in another", first[i], again[i])
				}
			}
		}
	}
}
