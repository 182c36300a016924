package probe

import (
	"sort"
	"sync"
	"sync/atomic"
)

// Set is a group of counters by name. The zero value is ready; all methods may be called concurrently and on nil.
type Set struct {
	// Watch, if not nil, is told of each passage, on its goroutine and before it goes on: a simulation can have the branch take long
	// there, and a test can end the node there.
	Watch    func(name string)
	counters sync.Map // string to *atomic.Int64
}

// Reached counts one passage.
func (s *Set) Reached(name string) {
	if s == nil {
		return
	}
	c, ok := s.counters.Load(name)
	if !ok {
		c, _ = s.counters.LoadOrStore(name, new(atomic.Int64))
	}
	c.(*atomic.Int64).Add(1)
	if s.Watch != nil {
		s.Watch(name)
	}
}

// Count is the number of passages so far.
func (s *Set) Count(name string) int64 {
	if s == nil {
		return 0
	}
	if c, ok := s.counters.Load(name); ok {
		return c.(*atomic.Int64).Load()
	}
	return 0
}

// Names lists what was reached, in order.
func (s *Set) Names() []string {
	if s == nil {
		return nil
	}
	var names []string
	s.counters.Range(func(k, _ any) bool {
		names = append(names, k.(string))
		return true
	})
	sort.Strings(names)
	return names
}

// Missing lists those of want that were not reached, in want's order.
func (s *Set) Missing(want ...string) []string {
	var missing []string
	for _, name := range want {
		if s.Count(name) == 0 {
			missing = append(missing, name)
		}
	}
	return missing
}
