package transport

import (
	"encoding/hex"
	"fmt"
	"time"

	"meridian/kv"
)

// UnreachableError says that a peer can't be talked to: no address, no connection, or the connection broke. Unwrap
// has the reason.
type UnreachableError struct {
	Node kv.NodeID // zero: addressed by address
	Addr string    // empty: the node has none
	// Sent is false only if nothing of the request left this node (transport.T2).
	Sent bool
	Err  error
}

func (e *UnreachableError) Error() string {
	who := e.Addr
	if e.Node != 0 {
		who = fmt.Sprintf("n%d (%s)", e.Node, e.Addr)
	}
	if e.Sent {
		return fmt.Sprintf("transport: lost %s while it worked: %v", who, e.Err)
	}
	return fmt.Sprintf("transport: %s is unreachable: %v", who, e.Err)
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// ClusterMismatchError says that the peer belongs to another cluster.
type ClusterMismatchError struct {
	Addr         string
	Ours, Theirs [16]byte
}

func (e *ClusterMismatchError) Error() string {
	return fmt.Sprintf("%s belongs to cluster %s, this node to %s", e.Addr,
		hex.EncodeToString(e.Theirs[:]), hex.EncodeToString(e.Ours[:]))
}

// VersionError says that one of the two nodes has a binary that does not fit to the version by which the other one acts. Unwrap has which one: *version.TooOldError or
// *version.TooNewError.
type VersionError struct {
	Node kv.NodeID
	Addr string
	Err  error
}

func (e *VersionError) Error() string { return e.Err.Error() }

func (e *VersionError) Unwrap() error { return e.Err }

// WrongNodeError says that another node than the one asked for answers at its address.
type WrongNodeError struct {
	Addr       string
	Want, Have kv.NodeID
}

func (e *WrongNodeError) Error() string {
	return fmt.Sprintf("%s is n%d now, not n%d", e.Addr, e.Have, e.Want)
}

// OffsetError says that the clocks of this node and another one, Node, are too far apart to talk (transport.T8).
type OffsetError struct {
	Node    kv.NodeID
	Message string
	// A reading on the wire follows those of other nodes, so one that is too far ahead does not tell whose clock is wrong. Wall is what Node's own clock
	// showed, at a moment of the call, or of Greeting if that is not nil; zero: it did not say. Reply is what it has answered, if the reading that came
	// with the answer was refused here.
	Wall  time.Time
	Reply []byte
	// Greeting is the attempt to connect that failed, which may have been before the call.
	Greeting *Greeting
}

// Greeting is an exchange of hellos: what this node's own clock showed when it said its own, and the round trip from Begun to Ended, by its monotonic clock.
type Greeting struct {
	Wall         time.Time
	Begun, Ended time.Duration
}

func (e *OffsetError) Error() string { return fmt.Sprintf("transport: n%d: %s", e.Node, e.Message) }

// OverloadedError says that the peer runs too many handlers already and did not start this one.
type OverloadedError struct{ Node kv.NodeID }

func (e *OverloadedError) Error() string { return fmt.Sprintf("transport: n%d is overloaded", e.Node) }

// Code classifies an error that crossed the wire. Codes from CodeApplication up are free for the rooms above.
type Code uint16

const (
	CodeUnknown Code = iota
	// CodeNoMethod: the peer has no such handler, or this caller may not call it.
	CodeNoMethod
	// CodePanic: the handler panicked.
	CodePanic
	// CodeCanceled: the handler's context ended before the caller's did, as when the node stops.
	CodeCanceled
	// CodeTooLarge: the reply or request exceeds MaxFrameBytes.
	CodeTooLarge

	codeOffset
	codeOverloaded
	codeCluster
	codeRefused
	codePathBroken
	codeVersion

	// CodeApplication is the first code that has no meaning here.
	CodeApplication Code = 1000
)

// StatusError is a handler's error as its caller sees it, or as a handler makes it.
type StatusError struct {
	Code    Code
	Message string
	Detail  []byte
}

func (e *StatusError) Error() string { return e.Message }

// PanicError is a handler's panic on the node itself.
type PanicError struct {
	Method string
	Value  any
}

func (e *PanicError) Error() string { return fmt.Sprintf("%s: panic: %v", e.Method, e.Value) }
