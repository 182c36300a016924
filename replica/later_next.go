//go:build nextversion

package replica

import (
	"meridian/version"
	"meridian/wire"
)

// laterCommand is what the next version adds to Command (version.NextCommand).
type laterCommand struct {
	// Version is the version by which the leaseholder acts, as a number, if the range does not know it yet. All replicas note it in the applied state,
	// which they compare: one that passed it over would come apart from the others. So the number is odd.
	Version uint64
}

// laterState is what the next version adds to appliedState.
type laterState struct {
	// version is the latest of the commands'. A binary that does not know the field refuses the replica when it opens the store, as it refuses a raft
	// snapshot.
	version uint64
}

// The numbers of features of releases begin elsewhere.
const (
	commandVersion = 1001
	stateVersion   = 1001
)

func (c *laterCommand) fields(w *wire.Coder) { wire.Uint64(w, commandVersion, &c.Version) }
func (s *laterState) fields(w *wire.Coder)   { wire.Uint64(w, stateVersion, &s.version) }

// read reads the present field if it is one of these.
// propose has the range note the version, with the first command that this replica proposes while the range does not know it. Here the feature is
// asked for, and nowhere else.
func (c *laterCommand) propose(r *Replica) {
	v := r.o.Version
	if acting := v.Acting().Uint64(); v.Active(version.NextCommand) && r.applied.version < acting {
		c.Version = acting
		v.Wrote(version.NextCommand)
	}
}

// carry does what a command says that is applied. It does not ask whether the feature is active: the command says all that replicas may go by.
func (c *laterCommand) carry(r *Replica) error {
	if c.Version != 0 && !r.o.Version.Knows(version.NextCommand) {
		return &wire.VersionError{Message: "replica.Command", Field: commandVersion}
	}
	if c.Version > r.applied.version {
		r.applied.version = c.Version
		r.o.Version.Read(version.NextCommand)
	}
	return nil
}
