package version

import "slices"

// Feature is something that came with a version; Handle.Active says whether it may be used.
type Feature int

const (
	// Base is all that the first release with versions has.
	Base Feature = iota
	// Witnesses are replicas that vote without users' data, and databases with a witness region.
	Witnesses
	// FastPaxos is the commit protocol fast_paxos: tables that name it, and ranges that have it.
	FastPaxos
	// ExternalConsistency is that of databases: transactions that carry when they were born.
	ExternalConsistency
	// Interleaved is tables whose rows are stored among those of others.
	Interleaved
	// Placements is the placement menu, and databases, tables and directories that have one of its options.
	Placements
	// RegisteredSchemas is versions of descriptors that are valid from a registered time on.
	RegisteredSchemas
	// ShortChars is tables that store values of char(n) without their trailing blanks.
	ShortChars
	// Ceilings is the agreement of the nodes about how far commits' timestamps may be ahead of true time.
	Ceilings
	// SupportedLeases is leases that last as long as a majority of a range's voters support their holder.
	SupportedLeases
	// RememberedCommits is commands that say which transactions they commit, so that replicas can tell when a record can't.
	RememberedCommits
	// OperatorClasses is index columns whose descriptor names an operator class.
	OperatorClasses
	// released is how many features this release has.
	released
)

// present is what this release can do. Its Own is the version of the last feature of the release.
var present = Binary{Own: Version{0, 1, 11}, Oldest: Version{0, 1, 0}}

// feature is what is known of a Feature.
type feature struct {
	name  string
	since Version
}

// known is the features of this release, in the order of the constants; versions never go down.
var known = [released]feature{
	Base:                {"base", Version{0, 1, 0}},
	Witnesses:           {"witnesses", Version{0, 1, 1}},
	FastPaxos:           {"fast_paxos", Version{0, 1, 2}},
	ExternalConsistency: {"external_consistency", Version{0, 1, 3}},
	Interleaved:         {"interleaved", Version{0, 1, 4}},
	Placements:          {"placements", Version{0, 1, 5}},
	RegisteredSchemas:   {"registered_schema_changes", Version{0, 1, 6}},
	ShortChars:          {"short_chars", Version{0, 1, 7}},
	Ceilings:            {"clock_ceilings", Version{0, 1, 8}},
	SupportedLeases:     {"supported_leases", Version{0, 1, 9}},
	RememberedCommits:   {"remembered_commits", Version{0, 1, 10}},
	OperatorClasses:     {"operator_classes", Version{0, 1, 11}},
}

// features is every Feature.
var features = slices.Concat(known[:], later)

// String is the feature's name.
func (f Feature) String() string { return features[f].name }

// Since is the version that introduces the feature.
func (f Feature) Since() Version { return features[f].since }

// Steps lists the versions through which a cluster goes from one version to another, the last included.
func Steps(from, to Version) (out []Version) {
	for _, f := range features {
		if from.Less(f.since) && f.since.Less(to) && (len(out) == 0 || out[len(out)-1].Less(f.since)) {
			out = append(out, f.since)
		}
	}
	if from.Less(to) {
		out = append(out, to)
	}
	return out
}
