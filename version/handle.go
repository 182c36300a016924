package version

import (
	"sync"
	"sync/atomic"

	"meridian/invariant"
)

// Handle is the version that one node acts by. Parts of the node ask it wherever they are about to write something that
// came after the first release. All methods may be called concurrently. A nil *Handle acts by this build's own version, as a
// new cluster does.
type Handle struct {
	uses   //lint:ignore U1000 the build with the tag nextversion uses it
	binary Binary
	acting atomic.Uint64

	mu        sync.Mutex // guards listeners, and is held while they are called
	listeners []func(Version)
}

// NewHandle makes the handle of a node with a binary, which acts by a version; zero: by none yet.
func NewHandle(b Binary, acting Version) *Handle {
	h := &Handle{binary: b}
	h.Raise(acting)
	return h
}

// Binary is what the node's build can do.
func (h *Handle) Binary() Binary {
	if h == nil {
		return Built()
	}
	return h.binary
}

// Acting is the version that the node acts by; zero while it belongs to no cluster.
func (h *Handle) Acting() Version {
	if h == nil {
		return Built().Own
	}
	return From(h.acting.Load())
}

// Said is what the node says of itself to others.
func (h *Handle) Said() Said { return Said{h.Binary(), h.Acting()} }

// Active reports whether a feature may be used. It is one atomic load.
func (h *Handle) Active(f Feature) bool {
	if h == nil {
		return true
	}
	return h.acting.Load() >= features[f].since.Uint64()
}

// Raise makes the node act by a version, which its store has durably (version.CV1). An earlier version changes nothing.
func (h *Handle) Raise(v Version) {
	invariant.Check(!h.binary.Own.Less(v), "version.CV2: version %s was raised on a binary of %s", v, h.binary.Own)
	h.mu.Lock()
	defer h.mu.Unlock()
	if From(h.acting.Load()).Less(v) {
		h.acting.Store(v.Uint64())
		for _, f := range h.listeners {
			f(v)
		}
	}
}

// OnRaise calls f after each raise from now on. f must not wait.
func (h *Handle) OnRaise(f func(Version)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners = append(h.listeners, f)
}
