package version

import (
	"errors"
	"fmt"
)

// Binary is what a build can do.
type Binary struct {
	// Own is the latest version that it can act by, Oldest the oldest version of a cluster in which it works.
	Own, Oldest Version
}

// Or is b, or this build if b is zero.
func (b Binary) Or(built Binary) Binary {
	if b == (Binary{}) {
		return built
	}
	return b
}

// Said is what a process says of itself when it meets another one. Zero versions are not known, or do not matter, as for an
// administrator's program; Acting is also zero for a node that belongs to no cluster yet.
type Said struct {
	Binary
	Acting Version
}

// TooOldError says that a binary can't act by the cluster's version.
type TooOldError struct {
	// Subject is who has the binary: "this node", or the other one.
	Subject      string
	Own, Cluster Version
}

func (e *TooOldError) Error() string {
	return fmt.Sprintf("the binary of %s is too old: it has version %s, and the cluster is upgraded to %s; start it with a binary of version %s or later",
		e.Subject, e.Own, e.Cluster, e.Cluster)
}

// TooNewError says that a binary does not work in a cluster of so old a version.
type TooNewError struct {
	Subject              string
	Own, Oldest, Cluster Version
}

func (e *TooNewError) Error() string {
	return fmt.Sprintf("the binary of %s is too new: it has version %s and works in clusters of version %s or later, and the cluster acts by %s; "+
		"start it with a binary of version %s, upgrade the cluster to that, and finalize it (meridian upgrade finalize) before the next one",
		e.Subject, e.Own, e.Oldest, e.Cluster, e.Oldest)
}

// Refused reports whether an error says that a binary does not fit to a cluster.
func Refused(err error) bool {
	return errors.As(err, new(*TooOldError)) || errors.As(err, new(*TooNewError))
}

// Fits says whether a binary may run in a cluster that acts, or is about to act, by a version; the error names subject.
func (b Binary) Fits(subject string, acting, promised Version) error {
	if need := acting.Max(promised); !b.Own.IsZero() && b.Own.Less(need) {
		return &TooOldError{subject, b.Own, need}
	}
	if !acting.IsZero() && acting.Less(b.Oldest) {
		return &TooNewError{subject, b.Own, b.Oldest, acting}
	}
	return nil
}

// Check compares two processes that meet; the error names the one that has to be changed, as seen by us.
func Check(us, them Said, they string) error {
	if err := them.Fits(they, us.Acting, Version{}); err != nil {
		return err
	}
	return us.Fits("this node", them.Acting, Version{})
}
