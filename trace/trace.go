package trace

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Event is one thing that happened. At is a reading of the caller's clock since an origin of its choice. Args
// are printed only when somebody reads the ring.
type Event struct {
	At   time.Duration
	Seq  uint64 // from 1; the ring's own count
	Kind string
	Args []any
}

func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", e.At, e.Kind)
	for i := 0; i+1 < len(e.Args); i += 2 {
		fmt.Fprintf(&b, " %v=%v", e.Args[i], e.Args[i+1])
	}
	if len(e.Args)%2 == 1 {
		fmt.Fprintf(&b, " %v", e.Args[len(e.Args)-1])
	}
	return b.String()
}

// Ring holds the last events. All methods may be called concurrently and on nil.
type Ring struct {
	mu     sync.Mutex // guards the fields below; nothing is taken after it
	events []Event
	next   uint64
}

// New makes a ring of the given size, at least 1.
func New(size int) *Ring { return &Ring{events: make([]Event, max(size, 1))} }

// Enabled reports whether events are kept, for callers whose arguments are costly.
func (r *Ring) Enabled() bool { return r != nil }

// Add keeps an event. args are pairs of name and value, as in log/slog; values must not change afterwards.
func (r *Ring) Add(at time.Duration, kind string, args ...any) {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.next++
	r.events[(r.next-1)%uint64(len(r.events))] = Event{At: at, Seq: r.next, Kind: kind, Args: args}
	r.mu.Unlock()
}

// Events returns the kept events, oldest first.
func (r *Ring) Events() []Event {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	size := uint64(len(r.events))
	first := uint64(0)
	if r.next > size {
		first = r.next - size
	}
	out := make([]Event, 0, r.next-first)
	for i := first; i < r.next; i++ {
		out = append(out, r.events[i%size])
	}
	return out
}

// String prints the kept events, one per line.
func (r *Ring) String() string {
	var b strings.Builder
	for _, e := range r.Events() {
		b.WriteString(e.String())
		b.WriteByte('\n')
	}
	return b.String()
}
