package server

import (
	"context"

	"meridian/kv"
	"meridian/sql/session"
	"meridian/transport"
	"meridian/wire"
)

// methodSignal asks a node for the user of a session, or to cancel or end it.
const methodSignal = "sql.signal"

type signalRequest struct {
	PID  int32
	User string
	What session.Signal
}

type signalAnswer struct{ Owner string }

// peers implements session.Peers.
type peers struct{ n *Node }

func (p peers) Signal(ctx context.Context, pid int32, user string, what session.Signal) (string, error) {
	req := wire.Append(nil, &signalRequest{pid, user, what}, (*signalRequest).fields)
	for _, e := range p.n.cluster.Nodes() {
		if e.Node == p.n.NodeID() || e.Node&0x7ff != session.PIDNode(pid) {
			continue
		}
		limit, cancel := p.n.host.Clock.WithTimeout(ctx, reportWait)
		reply, err := p.n.transport.CallClass(limit, transport.ClassDefault, e.Node, methodSignal, req)
		cancel()
		var a signalAnswer
		if err == nil {
			a, err = wire.Decoded(reply, (*signalAnswer).fields)
		}
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case err != nil:
			return "", &session.SilentNodeError{Node: e.Node, Err: err}
		case a.Owner != "":
			return a.Owner, nil
		}
	}
	return "", nil
}

// handleSignal answers another node.
func (n *Node) handleSignal(_ context.Context, _ kv.NodeID, req []byte) ([]byte, error) {
	q, err := wire.Decoded(req, (*signalRequest).fields)
	if err != nil {
		return nil, err
	}
	var a signalAnswer
	if p := n.sql.parts.Load(); p != nil {
		a.Owner = p.sessions.Signal(q.PID, q.User, q.What)
	}
	return wire.Append(nil, &a, (*signalAnswer).fields), nil
}
