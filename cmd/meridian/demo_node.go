package main

import (
	"context"
	"sync"

	"meridian/server"
	"meridian/sim"
)

// demoNode is one machine of a demonstration, with the node that runs on it.
type demoNode struct {
	name    string
	machine *sim.Machine
	url     string
	// options are those of the next start.
	options server.Options

	mu   sync.Mutex // guards node; nothing is taken after it
	node *server.Node
	// ended is closed when the last node that was killed has ended; nil: none was.
	ended chan struct{}
}

// running is the node; nil while the machine is down, or after the node has stopped by itself.
func (n *demoNode) running() *server.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.node != nil {
		select {
		case <-n.node.Failed(): // a clock that is too far off, for example
			n.endLocked()
		default:
		}
	}
	return n.node
}

// endLocked takes the node and ends it; the caller holds n.mu.
func (n *demoNode) endLocked() {
	node := n.node
	n.node, n.ended = nil, make(chan struct{})
	go func(ended chan struct{}) {
		defer close(ended)
		node.Stop()
	}(n.ended)
}

// kill ends the node as a loss of power would, and reports whether it was up.
func (n *demoNode) kill() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.node == nil {
		return false
	}
	n.machine.Crash(0, true)
	n.endLocked()
	return true
}

// restart starts the node, if it is not up. It does not wait until the node serves SQL: in a cluster without a majority that takes until there is one.
func (n *demoNode) restart(ctx context.Context) (started bool, err error) {
	if n.running() != nil {
		return false, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended != nil {
		<-n.ended
	}
	o := n.options
	o.Host = n.machine.Boot(context.WithoutCancel(ctx))
	if n.node, err = server.Start(ctx, o); err != nil {
		n.node = nil
		return false, err
	}
	return true, nil
}

// stop ends the node in an orderly way.
func (n *demoNode) stop() {
	n.mu.Lock()
	node, ended := n.node, n.ended
	n.node = nil
	n.mu.Unlock()
	if node != nil {
		node.Stop()
	}
	if ended != nil {
		<-ended
	}
}
