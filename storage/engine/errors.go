package engine

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
)

// Closed reports whether a recovered panic is that of a use after Close.
func Closed(recovered any) bool {
	err, ok := recovered.(error)
	return ok && errors.Is(err, pebble.ErrClosed)
}

// LockedError says that another process, or another engine of this one, has the store open.
type LockedError struct {
	Dir string
	Err error
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("store %q is already in use by another process", e.Dir)
}

func (e *LockedError) Unwrap() error { return e.Err }

// FatalError says that the store can no longer promise anything (engine.EN1).
type FatalError struct {
	Dir      string
	DiskFull bool
	Err      error
}

func (e *FatalError) Error() string {
	if e.DiskFull {
		return fmt.Sprintf("store %q: the disk is full: %v; %s", e.Dir, e.Err, wayOutOfFull)
	}
	return fmt.Sprintf("store %q: input/output error: %v", e.Dir, e.Err)
}

// wayOutOfFull ends a message about a store that ends, or does not open, because its disk is full.
const wayOutOfFull = "free some space on the disk that this directory is on, or add some, and start the node again: nothing that it has acknowledged is lost"

func (e *FatalError) Unwrap() error { return e.Err }

// OpenError says that a store could not be opened.
type OpenError struct {
	Dir string
	Err error
}

func (e *OpenError) Error() string {
	if isDiskFull(e.Err) {
		return fmt.Sprintf("store %q: the disk is full: %v; %s", e.Dir, e.Err, wayOutOfFull)
	}
	return fmt.Sprintf("store %q: %v", e.Dir, e.Err)
}

func (e *OpenError) Unwrap() error { return e.Err }

// IdentError says that a store belongs to somebody else.
type IdentError struct {
	Dir         string
	Found, Want Ident
}

func (e *IdentError) Error() string {
	if e.Found.Cluster != e.Want.Cluster {
		return fmt.Sprintf("store %q belongs to cluster %x, not to %x", e.Dir, e.Found.Cluster, e.Want.Cluster)
	}
	return fmt.Sprintf("store %q belongs to node %d store %d, not to node %d store %d",
		e.Dir, e.Found.Node, e.Found.Store, e.Want.Node, e.Want.Store)
}

// ErrNoIdent is what Ident returns for a store that was never given one.
var ErrNoIdent = errors.New("engine: the store has no identity yet")

// ErrBadKey is what decoders return for bytes that are no engine key of the kind asked for.
var ErrBadKey = errors.New("engine: malformed engine key")

func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
