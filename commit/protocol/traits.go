package protocol

import "meridian/version"

// CockroachDB and Spanner: a leaseholder orders the writes of its range.
var leader = Traits{Leased: true, Optional: true, Levels: true}

// MDCC: gateways ask all replicas of each row, and nobody leads.
var fastPaxos = Traits{
	Optional:   true,
	Since:      version.FastPaxos,
	Optimistic: true,
	Decides:    true,
	Nearest:    true,
	Reads: Reads{
		Plain:       "the nearest replica",
		Snapshot:    "a quorum, at one timestamp",
		Present:     "a majority, as of now",
		Deciding:    "a majority, as of now",
		DecidingKey: "the nearest replica, and confirmed if it is not written",
	},
	Commutes: true,
	Ballots:  true,
	Voters:   []int{3, 5, 7},
	Quorums:  "Any two fast quorums and a classic one have to share a replica. Of 3 voters a fast quorum has 3, of 5 it has 4, of 7 it has 6.",

	Locks:            "An UPDATE or DELETE commits only if its rows are still as they were read; no lock is needed for that.",
	Past:             "Replicas remember the states of a minute.",
	Staleness:        "Use AS OF SYSTEM TIME with a timestamp. Or leave it out: the nearest replica serves reads of the present, at READ COMMITTED.",
	Ahead:            "Only a leaseholder can close timestamps ahead of the clock.",
	Witnesses:        "A witness votes by the log of a leaseholder, and has no rows.",
	Interleaving:     "Rows of one directory have one protocol, and their cascades need its leaseholder.",
	StableView:       "The rows that are there can't be indexed while others change them.",
	Deferrable:       "A key is checked when a row is written.",
	UniqueEverywhere: "Rows of other regions can't be looked for at the commit timestamp.",
	References:       "A row that is referred to could be removed while another transaction refers to it.",
	Loads:            "A load has no option.",
}

// GeoGauss: to be.
var epoch = Traits{Planned: true, Optional: true, Optimistic: true, Locks: absent, Past: absent, Staleness: absent, Ahead: absent, Witnesses: absent,
	Interleaving: absent, StableView: absent, Deferrable: absent, UniqueEverywhere: absent, References: absent, Loads: absent}

// A protocol of which nothing is known here, such as that of a test: what would need more than reads and writes of rows, it can't.
var unknown = Traits{
	Optimistic: true,
	Nearest:    true,

	Locks:            absent,
	Past:             absent,
	Staleness:        absent,
	Ahead:            absent,
	Witnesses:        absent,
	Interleaving:     absent,
	StableView:       absent,
	Deferrable:       absent,
	UniqueEverywhere: absent,
	References:       absent,
	Loads:            absent,
}

const absent = "This version does not know the protocol."
