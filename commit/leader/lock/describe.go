package lock

import (
	"fmt"
	"io"
)

// Describe writes the table's entries.
func (t *Table) Describe(w io.Writer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.entries.Ascend(func(e *entry) bool {
		fmt.Fprintf(w, "    lock %x:", []byte(e.key))
		for i := range e.holders {
			h := &e.holders[i]
			fmt.Fprintf(w, " %s attempt %d holds %v, intent %t at %s, anchor %x;", h.txn.ID, h.txn.Attempt, h.strength, h.intent, h.at, []byte(h.txn.Anchor))
			if s, ok := t.finalized[h.txn.ID]; ok {
				fmt.Fprintf(w, " ended: %v;", s)
			}
		}
		for _, q := range e.queue {
			fmt.Fprintf(w, " %s waits for %v, granted %t, pushes %s;", q.g.id(), q.strength, q.granted, q.g.pushing)
		}
		for _, q := range e.readers {
			fmt.Fprintf(w, " %s reads at %s, pushes %s;", q.g.id(), q.g.ReadAt, q.g.pushing)
		}
		fmt.Fprintln(w)
		return true
	})
}
