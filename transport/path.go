package transport

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"meridian/kv"
	"meridian/wire"
)

// A path is how a node reaches another one to which it has no link: the nodes in between, in order.

const (
	// methodPath asks a node by which path it reaches another.
	methodPath = "transport.path"
	// maxAsked bounds the nodes that one search asks.
	maxAsked = 16
	// pathTimeout bounds one search.
	pathTimeout = time.Second
	// seekMin and seekMax bound the pause between two searches that found nothing; pathFresh is the age at which a
	// path is looked for again, because the nodes on it may have lost links meanwhile.
	seekMin, seekMax = 50 * time.Millisecond, 2 * time.Second
	pathFresh        = time.Second
	// doubtful is how long a ping may be unanswered before others are no longer told that its peer is reached.
	doubtful = 500 * time.Millisecond
)

var errNoPath = errors.New("no path to it is known")

// detour is the search for a path to one node. A goroutine runs while a link to the node is wanted and missing.
type detour struct {
	t    *Transport
	node kv.NodeID
	path atomic.Pointer[[]kv.NodeID] // nil: none is known
	// again ends a pause between searches: the path has failed.
	again chan struct{}

	mu       sync.Mutex // guards the fields below; nothing is taken after it
	running  bool
	searched bool          // a search has ended since the goroutine began
	changed  chan struct{} // closed and replaced when a search has ended
}

func (t *Transport) detour(node kv.NodeID) *detour {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.detours[node]
	if d == nil {
		d = &detour{t: t, node: node, changed: make(chan struct{}), again: make(chan struct{}, 1)}
		t.detours[node] = d
	}
	return d
}

// seek begins to look for a path to the node of a peer whose link is missing.
func (p *peer) seek() {
	t := p.t
	if p.key.node == 0 || t.o.MaxRelays < 0 || t.o.NodeID() == 0 {
		return
	}
	d := t.detour(p.key.node)
	d.mu.Lock()
	if !d.running {
		d.running = t.group.Go(d.run)
		d.searched = false
	}
	d.mu.Unlock()
}

// state is the path, if there is one, and otherwise whether a search has still to end, or has ended in vain.
func (d *detour) state() (path []kv.NodeID, seeking, vain bool, changed <-chan struct{}) {
	if p := d.path.Load(); p != nil {
		return *p, false, false, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.path.Load(); p != nil { // it was found before the lock was taken
		return *p, false, false, nil
	}
	return nil, d.running && !d.searched, d.running && d.searched, d.changed
}

// found publishes the outcome of a search.
func (d *detour) found(path []kv.NodeID, running bool) {
	d.mu.Lock()
	if path == nil {
		d.path.Store(nil)
	} else {
		d.path.Store(&path)
	}
	d.running, d.searched = running, running
	close(d.changed)
	d.changed = make(chan struct{})
	d.mu.Unlock()
}

// failed forgets a path on which something was lost, and looks for another one.
func (d *detour) failed(path []kv.NodeID) {
	if p := d.path.Load(); p != nil && slices.Equal(*p, path) {
		d.path.CompareAndSwap(p, nil)
	}
	select {
	case d.again <- struct{}{}:
	default:
	}
}

func (d *detour) run(ctx context.Context) {
	timer := d.t.o.Host.Clock.NewTimer(0)
	defer timer.Stop()
	for wait := seekMin; ; {
		if ctx.Err() != nil || !d.t.misses(d.node) {
			d.found(nil, false)
			return
		}
		path := d.search(ctx)
		d.found(path, true)
		pause := pathFresh
		if path == nil {
			pause, wait = wait, min(2*wait, seekMax)
		} else {
			wait = seekMin
		}
		timer.Reset(pause)
		select {
		case <-timer.C():
		case <-d.again:
			timer.Stop()
			if path != nil {
				continue // one search at once
			}
			if d.t.o.Host.Clock.Sleep(ctx, seekMin) != nil {
				return
			}
		case <-ctx.Done():
		}
	}
}

// misses reports whether a link to a node is wanted and is not there.
func (t *Transport) misses(node kv.NodeID) bool {
	for c := range classes {
		t.mu.Lock()
		p := t.peers[peerKey{node: node, class: c}]
		t.mu.Unlock()
		if p == nil || p.up.Load() != nil {
			continue
		}
		p.mu.Lock()
		running := p.running
		p.mu.Unlock()
		if running {
			return true
		}
	}
	return false
}

// reaches reports whether a link to a node is there and has not been silent for long.
func (t *Transport) reaches(node kv.NodeID) bool {
	now := t.o.Host.Clock.Monotonic()
	for c := range classes {
		t.mu.Lock()
		p := t.peers[peerKey{node: node, class: c}]
		t.mu.Unlock()
		if p == nil {
			continue
		}
		if l := p.up.Load(); l != nil && !l.doubtful(now) {
			return true
		}
	}
	return false
}

// search asks the nodes to which there are links, and returns the shortest path; nil: nobody knows one.
func (d *detour) search(ctx context.Context) []kv.NodeID {
	t := d.t
	now := t.o.Host.Clock.Monotonic()
	var near []kv.NodeID
	t.mu.Lock()
	for k, p := range t.peers {
		if k.node == 0 || k.node == d.node || k.class != ClassSystem {
			continue
		}
		if l := p.up.Load(); l != nil && !l.doubtful(now) {
			near = append(near, k.node)
		}
	}
	t.mu.Unlock()
	slices.Sort(near)
	for len(near) > maxAsked {
		i := int(t.o.Host.Dice.Int64N(int64(len(near))))
		near = slices.Delete(near, i, i+1)
	}
	if len(near) == 0 {
		return nil
	}
	t.stats.searches.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan []kv.NodeID, len(near))
	req := wire.Append(nil, &pathRequest{d.node}, (*pathRequest).fields)
	asked := 0
	for _, n := range near {
		if t.group.Go(func(context.Context) {
			reply, err := t.direct(ctx, t.peer(peerKey{node: n, class: ClassSystem}), methodPath, req)
			if err != nil {
				answers <- nil
				return
			}
			answers <- t.follow(n, d.node, reply)
		}) {
			asked++
		}
	}
	timer := t.o.Host.Clock.NewTimer(pathTimeout)
	defer timer.Stop()
	var best []kv.NodeID
	for ; asked > 0; asked-- {
		select {
		case path := <-answers:
			if path != nil && (best == nil || len(path) < len(best)) {
				best = path
			}
			if len(best) == 1 { // there is none shorter, and its node was the first to answer
				return best
			}
		case <-timer.C():
			return best
		case <-ctx.Done():
			return nil
		}
	}
	return best
}

// follow makes a path of what a node has answered; nil if it knows none, or none that is good here: a path names no node
// twice and has at most MaxRelays nodes, so that nothing goes round in circles (transport.T6).
func (t *Transport) follow(via, to kv.NodeID, reply []byte) []kv.NodeID {
	p, err := wire.Decoded(reply, (*knownPath).fields)
	if err != nil || !p.known || len(p.via) >= t.o.MaxRelays {
		return nil
	}
	path := []kv.NodeID{via}
	for _, n := range p.via {
		if n == to || n == t.o.NodeID() || slices.Contains(path, n) {
			return nil
		}
		path = append(path, n)
	}
	return path
}

// servePath answers methodPath.
func (t *Transport) servePath(_ context.Context, from kv.NodeID, req []byte) ([]byte, error) {
	q, err := wire.Decoded(req, (*pathRequest).fields)
	if err != nil {
		return nil, err
	}
	var known knownPath
	if q.to == t.o.NodeID() || t.reaches(q.to) {
		known.known = true
		return wire.Append(nil, &known, (*knownPath).fields), nil
	}
	t.mu.Lock()
	d := t.detours[q.to]
	t.mu.Unlock()
	if d != nil {
		if p := d.path.Load(); p != nil && !slices.Contains(*p, from) {
			known = knownPath{true, *p}
		}
	}
	return wire.Append(nil, &known, (*knownPath).fields), nil
}
