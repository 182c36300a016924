package session

import (
	"context"
	"fmt"

	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
)

// pg_cancel_backend and pg_terminate_backend reach the sessions of all nodes: a process id contains the node's number (register). The caller's
// node checks its rights, so it first requests the user of the session. The signal names that user: if the process id has passed to a session of
// another user meanwhile, that session gets no signal.

// Signal is a request to a session.
type Signal uint8

const (
	SignalNone      Signal = iota // only returns the user
	SignalCancel                  // ends the statement
	SignalTerminate               // ends the session
)

// Peers reaches the sessions of other nodes; package server implements it.
type Peers interface {
	// Signal makes the node of a session call Server.Signal. The error is a *SilentNodeError if that node does not answer.
	Signal(ctx context.Context, pid int32, user string, what Signal) (owner string, err error)
}

// SilentNodeError says that a node did not answer.
type SilentNodeError struct {
	Node kv.NodeID
	Err  error
}

func (e *SilentNodeError) Error() string { return fmt.Sprintf("node %d: %v", e.Node, e.Err) }
func (e *SilentNodeError) Unwrap() error { return e.Err }

// PIDNode is the part of the node's number that is in a process id.
func PIDNode(pid int32) kv.NodeID { return kv.NodeID(pid>>20) & 0x7ff }

// Signal returns the user of a session of this node, empty if there is no such session, and sends it a signal if that is the given user.
func (s *Server) Signal(pid int32, user string, what Signal) (owner string) {
	x := s.session(pid)
	if x == nil {
		return ""
	}
	if owner = x.client.User; owner != user {
		return owner
	}
	switch what {
	case SignalCancel:
		x.cancelStatement()
	case SignalTerminate:
		x.terminate()
	}
	return owner
}

// send calls Server.Signal on the node of a session.
func (s *Session) send(ctx context.Context, pid int32, user string, what Signal) (owner string, err error) {
	if s.srv.Peers == nil || pid <= 0 || PIDNode(pid) == s.srv.NodeID()&0x7ff {
		return s.srv.Signal(pid, user, what), nil
	}
	return s.srv.Peers.Signal(ctx, pid, user, what)
}

// signal is pg_cancel_backend and pg_terminate_backend.
func (s *Session) signal(ctx context.Context, pid int32, terminate bool) (found bool, err error) {
	target, err := s.send(ctx, pid, "", SignalNone)
	if err != nil || target == "" {
		return false, err
	}
	a, role, what := s.access(), s.role(), SignalCancel
	if terminate {
		what = SignalTerminate
	}
	switch {
	case a.Superuser(target) && !a.Superuser(role):
		if terminate {
			return true, sqlstate.New(sqlstate.InsufficientPrivilege, "must be a superuser to terminate superuser process")
		}
		return true, sqlstate.New(sqlstate.InsufficientPrivilege, "must be a superuser to cancel superuser query")
	case !a.Has(role, target, "") && !a.Has(role, catalog.SignalBackend, ""):
		if terminate {
			return true, sqlstate.New(sqlstate.InsufficientPrivilege, "must be a member of the role whose process is being terminated or member of pg_signal_backend")
		}
		return true, sqlstate.New(sqlstate.InsufficientPrivilege, "must be a member of the role whose query is being canceled or member of pg_signal_backend")
	}
	owner, err := s.send(ctx, pid, target, what)
	return owner == target, err
}
