package scalar

import "testing"

// Building the table parses every signature; each overload must be callable.
func TestRegistry(t *testing.T) {
	r := NewRegistry()
	n := 0
	for _, fs := range []map[string][]*Overload{r.funcs, r.ops} {
		for name, os := range fs {
			for _, o := range os {
				n++
				if o.Eval == nil && o.Set == nil {
					t.Errorf("%s has no implementation", signature(name, o.Args))
				}
				if o.Return == nil {
					t.Errorf("%s has no result type", signature(name, o.Args))
				}
			}
		}
	}
	if n < 500 {
		t.Errorf("only %d overloads", n)
	}
}
