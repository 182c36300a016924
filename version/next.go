//go:build nextversion

package version

import "sync/atomic"

// Features of a release that exists for tests of upgrades only. Each is an example of a kind of format (docs/versions.md).
const (
	// NextField is two fields of a batch's header (kv/later_next.go): the node that is to serve it, which a reader must understand, and the version by which
	// its sender acts, which a reader may ignore.
	NextField = released + iota
	// NextCommand is a field of raft commands (replica/later_next.go): a range remembers the latest version by which it was written.
	NextCommand
	// NextDescriptor is a field of table descriptors (sql/catalog/later_next.go): the version by which the node acted that made the table.
	NextDescriptor
	// NextRelease ends the upgrade.
	NextRelease
	all
)

var later = []feature{
	{"next field", step(1)},
	{"next command", step(2)},
	{"next descriptor", step(3)},
	{"next release", next.Own},
}

// step is a version after the present release.
func step(n uint16) Version {
	v := present.Own
	v.Step += n
	return v
}

var next = Binary{Own: Version{present.Own.Major, present.Own.Minor + 1, 0}, Oldest: present.Oldest}

// Built is what this build can do.
func Built() Binary { return next }

// uses count what a node has done with the features of the next release, for the proof that none is used before it is active.
type uses struct{ written, read [all]atomic.Int64 }

// Knows reports whether the node's binary has a feature. A node of this build that is to behave as an earlier one (Handle.Binary) refuses what it reads of
// others, as the decoders of that would.
func (h *Handle) Knows(f Feature) bool { return !h.Binary().Own.Less(f.Since()) }

// Wrote notes that the node has written something that a feature introduces.
func (h *Handle) Wrote(f Feature) {
	if h != nil {
		h.uses.written[f].Add(1)
	}
}

// Read notes that the node has read such a thing, and done what it asks for.
func (h *Handle) Read(f Feature) {
	if h != nil {
		h.uses.read[f].Add(1)
	}
}

// Uses is how often the node has written and read what a feature introduces.
func (h *Handle) Uses(f Feature) (written, read int64) {
	return h.uses.written[f].Load(), h.uses.read[f].Load()
}
