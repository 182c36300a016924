package latch

import (
	"fmt"
	"io"
)

// Describe writes the latches that are held or waited for, by the number of their acquisition.
func (m *Manager) Describe(w io.Writer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	tell := func(e *entry) {
		fmt.Fprintf(w, "    latch %d: [%x, %x) mode %d at %s, awaited %t\n", e.guard.seq, []byte(e.Span.Start), []byte(e.Span.End), e.Mode, e.At, e.guard.done != nil)
	}
	for _, e := range m.buckets {
		for ; e != nil; e = e.next {
			tell(e)
		}
	}
	for e := m.spans; e != nil; e = e.next {
		tell(e)
	}
}
