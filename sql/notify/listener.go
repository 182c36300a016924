package notify

import (
	"slices"
	"sync"
)

// Listener has the channels and the queue of a session that listens.
type Listener struct {
	h        *Hub
	database string
	ring     func()
	overflow func()
	channels []string // guarded by h.mu; in the order of their LISTEN

	mu    sync.Mutex // guards the fields below; may be taken while h.mu is held
	queue []Notification
	bytes int
	full  bool
}

// NewListener makes a listener without channels. ring is called for each notification that is put into its queue, overflow once when the queue
// exceeds its bound (notify.NT4); neither may wait.
func (h *Hub) NewListener(database string, ring, overflow func()) *Listener {
	return &Listener{h: h, database: database, ring: ring, overflow: overflow}
}

// Listen adds a channel.
func (l *Listener) Listen(channel string) {
	h := l.h
	h.mu.Lock()
	defer h.mu.Unlock()
	t := topic{l.database, channel}
	all := h.listeners[t]
	if all == nil {
		all = map[*Listener]struct{}{}
		h.listeners[t] = all
	}
	if _, is := all[l]; !is {
		all[l] = struct{}{}
		l.channels = append(l.channels, channel)
	}
}

// Unlisten removes a channel.
func (l *Listener) Unlisten(channel string) {
	h := l.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(l.channels, channel); i >= 0 {
		l.channels = slices.Delete(l.channels, i, i+1)
		h.forget(l, channel)
	}
}

// UnlistenAll removes all channels.
func (l *Listener) UnlistenAll() {
	h := l.h
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range l.channels {
		h.forget(l, c)
	}
	l.channels = nil
}

func (h *Hub) forget(l *Listener, channel string) {
	t := topic{l.database, channel}
	delete(h.listeners[t], l)
	if len(h.listeners[t]) == 0 {
		delete(h.listeners, t)
	}
}

// Channels returns the channels in the order of their LISTEN.
func (l *Listener) Channels() []string {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	return slices.Clone(l.channels)
}

// Take empties the queue and returns its notifications.
func (l *Listener) Take() []Notification {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queue
	l.queue, l.bytes = nil, 0
	return q
}

// Pending reports whether Take would return something.
func (l *Listener) Pending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) > 0
}

func (l *Listener) put(n Notification) {
	l.mu.Lock()
	was := l.full
	if l.bytes += n.size(); l.bytes > l.h.o.ListenerBytes {
		l.full, l.queue, l.bytes = true, nil, 0
	}
	full := l.full
	if !full {
		l.queue = append(l.queue, n)
	}
	l.mu.Unlock()
	if full && !was {
		l.overflow()
	} else if !full {
		l.ring()
	}
}
