package transport

import (
	"cmp"
	"slices"
	"sync/atomic"

	"meridian/kv"
)

type counters struct {
	framesSent, framesReceived atomic.Int64
	bytesSent, bytesReceived   atomic.Int64
	calls, localCalls, served  atomic.Int64
	streams                    atomic.Int64
	linkFailures, refusals     atomic.Int64
	overloaded, offsetErrors   atomic.Int64
	relayed, forwarded         atomic.Int64
	searches                   atomic.Int64
}

// Stats counts what a transport did since it was made. Bytes are payloads.
type Stats struct {
	FramesSent, FramesReceived   int64
	BytesSent, BytesReceived     int64
	Calls, LocalCalls            int64 // made
	Served                       int64 // answered for others
	Streams                      int64
	LinkFailures                 int64 // established links that broke
	Refusals                     int64 // peers turned away at the hello
	Overloaded, ClockOffsetFails int64
	Inflight                     int64 // handlers running now
	// Relayed are calls and streams of this node that took a path because a link was missing, Forwarded those of others that
	// came by here, Searches how often a path was looked for.
	Relayed, Forwarded, Searches int64
}

// Stats returns the counters.
func (t *Transport) Stats() Stats {
	c := &t.stats
	return Stats{
		FramesSent: c.framesSent.Load(), FramesReceived: c.framesReceived.Load(),
		BytesSent: c.bytesSent.Load(), BytesReceived: c.bytesReceived.Load(),
		Calls: c.calls.Load(), LocalCalls: c.localCalls.Load(), Served: c.served.Load(),
		Streams: c.streams.Load(), LinkFailures: c.linkFailures.Load(), Refusals: c.refusals.Load(),
		Overloaded: c.overloaded.Load(), ClockOffsetFails: c.offsetErrors.Load(),
		Inflight: t.inflight.Load(),
		Relayed:  c.relayed.Load(), Forwarded: c.forwarded.Load(), Searches: c.searches.Load(),
	}
}

// PeerStatus is the state of the connection of one class to one peer.
type PeerStatus struct {
	Node  kv.NodeID
	Addr  string
	Class Class
	Up    bool
	Err   error // why it is not up
}

// Peers lists every connection that was ever wanted, in order of node and class.
func (t *Transport) Peers() []PeerStatus {
	t.mu.Lock()
	peers := make([]*peer, 0, len(t.peers))
	for _, p := range t.peers {
		peers = append(peers, p)
	}
	t.mu.Unlock()
	out := make([]PeerStatus, 0, len(peers))
	for _, p := range peers {
		p.mu.Lock()
		out = append(out, PeerStatus{Node: p.key.node, Addr: p.addr, Class: p.key.class, Up: p.up.Load() != nil, Err: p.err})
		p.mu.Unlock()
	}
	slices.SortFunc(out, func(a, b PeerStatus) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Addr, b.Addr), cmp.Compare(a.Class, b.Class))
	})
	return out
}
