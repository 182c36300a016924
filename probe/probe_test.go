package probe

import (
	"reflect"
	"sync"
	"testing"
)

func TestSet(t *testing.T) {
	var s Set
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				s.Reached("b")
			}
		})
	}
	wg.Wait()
	s.Reached("a")
	if s.Count("b") != 800 || s.Count("a") != 1 || s.Count("c") != 0 {
		t.Fatal(s.Count("b"), s.Count("a"), s.Count("c"))
	}
	if got := s.Names(); !reflect.DeepEqual(got, []string{"a", "b"}) {
		t.Fatal(got)
	}
	if got := s.Missing("c", "a"); !reflect.DeepEqual(got, []string{"c"}) {
		t.Fatal(got)
	}
	var none *Set
	none.Reached("a")
	if none.Count("a") != 0 || none.Names() != nil {
		t.Fatal("a nil set counts nothing")
	}
}

// TestWatch: a passage is told of before it goes on, each time.
func TestWatch(t *testing.T) {
	var seen []string
	s := &Set{Watch: func(name string) { seen = append(seen, name) }}
	for _, name := range []string{"a", "b", "a"} {
		s.Reached(name)
		if seen[len(seen)-1] != name {
			t.Fatal(seen)
		}
	}
	if len(seen) != 3 || s.Count("a") != 2 {
		t.Error(seen, s.Count("a"))
	}
}
