package transport

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"meridian/kv"
)

// TestFoundMeanwhile: a request that looks for a link, or for a path, just when it is found gets it. It neither waits for the next one, which may never
// come, nor hears that there is none.
func TestFoundMeanwhile(t *testing.T) {
	const rounds = 30_000
	tr := &Transport{}
	p := &peer{t: tr, key: peerKey{node: 2}, changed: make(chan struct{})}
	d := &detour{t: tr, node: 2, changed: make(chan struct{})}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// Two goroutines that are in step hit each other in many places.
	var begun, ended atomic.Int64
	await := func(x *atomic.Int64, n int64) {
		for spins := 1; x.Load() < n; spins++ {
			if spins%1000 == 0 {
				runtime.Gosched()
			}
		}
	}
	byLink := func(n int64) bool { return n%2 == 0 }
	go func() {
		for n := int64(1); n <= rounds; n++ {
			await(&begun, n)
			if l, path, err := p.find(ctx, d); err != nil || (l != nil) != byLink(n) || (path != nil) == byLink(n) {
				t.Errorf("round %d: link %t, path %v, %v", n, l != nil, path, err)
				cancel()
			}
			ended.Store(n)
		}
	}()
	dice := rand.New(rand.NewPCG(1, 1))
	for n := int64(1); n <= rounds && !t.Failed(); n++ {
		p.set(nil, nil, true)
		d.mu.Lock()
		d.path.Store(nil)
		d.running, d.searched = true, false
		d.mu.Unlock()
		begun.Store(n)
		for range dice.IntN(60) {
			begun.Load()
		}
		if byLink(n) {
			p.set(&link{peer: p}, nil, true)
		} else {
			d.found([]kv.NodeID{3}, true)
		}
		await(&ended, n)
	}
}
