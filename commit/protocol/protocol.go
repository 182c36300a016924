package protocol

import (
	"fmt"
	"time"

	"meridian/kv"
	"meridian/version"
)

// Default is the protocol of ranges and tables that do not say another one. The system's own ranges have it.
const Default = kv.Leader

// NearestAge is how old the rows may be that the nearest replica reads (Traits.Nearest), unless a session wants less: the time since their client had its answer, without the
// way of the read.
const NearestAge = time.Second

// Ability is whether a protocol can do something. The zero value is that it can; otherwise the text is the reason, or what takes its place, as a client
// is told it.
type Ability string

// Can reports whether the protocol can.
func (a Ability) Can() bool { return a == "" }

// Traits is all that code outside of a protocol's folder knows of it.
type Traits struct {
	// Leased says that the replica with the lease orders a range's requests, and that rows are in the range's log. Ranges of the other protocols have
	// generations (replica): each replica answers by what it has promised.
	Leased bool
	// Optional says that stores take a range's protocol away again if no configuration asks for it. A test's protocol was given by hand, and stays.
	Optional bool
	// Planned says that the protocol has a name and nothing else yet.
	Planned bool
	// Since is the feature of the cluster's version with which the protocol came.
	Since version.Feature

	// Optimistic says that a transaction commits only if the rows that it writes are as it has read them, so that it takes no locks before.
	Optimistic bool
	// Decides says that a transaction all of whose writes are the protocol's has no record: the protocol decides it (txn.Coordinator.Decide).
	Decides bool
	// Nearest says that the reads of a table are answered by the nearest replica, which may lack the newest rows; Reads says which are not.
	Nearest bool
	Reads   Reads
	// Commutes says that updates which add to columns commit in any order.
	Commutes bool
	// Ballots says that a table has a policy of ballots.
	Ballots bool
	// Levels says that ranges give the levels of isolation above READ COMMITTED to a transaction which did not ask for them by name.
	Levels bool
	// Voters are the numbers of voters that a range may have; nil: any.
	Voters []int
	// Quorums says why, for people.
	Quorums string

	// Locks is whether rows can be locked by SELECT FOR UPDATE and its like.
	Locks Ability
	// Past is whether rows can be read at any time since the last garbage collection. Otherwise it is minutes.
	Past Ability
	// Staleness is whether reads of bounded staleness are answered.
	Staleness Ability
	// Ahead is whether timestamps can be closed ahead of the clock (LOCALITY GLOBAL).
	Ahead Ability
	// Witnesses is whether voters without rows can be among a range's replicas.
	Witnesses Ability
	// Interleaving is whether rows can be stored among those of other tables.
	Interleaving Ability
	// StableView is whether a change of the schema can read all rows of a table, and order itself with the writers that do not know of it.
	StableView Ability
	// Deferrable is whether the keys of a table can be checked at the end of a transaction.
	Deferrable Ability
	// UniqueEverywhere is whether a key without the region is unique in all regions of a REGIONAL BY ROW table.
	UniqueEverywhere Ability
	// References is whether a table may refer to one of another protocol.
	References Ability
	// Loads is whether CREATE TABLE AS and other loads may fill a table before others see it.
	Loads Ability
}

// Reads are the words of EXPLAIN about where rows are read; empty: it says nothing.
type Reads struct {
	// Plain is a read at the default level; Snapshot one at a timestamp that the transaction has; Present one that has to see all that had committed.
	Plain, Snapshot, Present string
	// Deciding is a read of a span by which a statement decides what it writes, DecidingKey one of a key.
	Deciding, DecidingKey string
}

// Of is the traits of a protocol. A number that this binary does not know has those of a protocol that can do next to nothing.
func Of(p kv.Protocol) Traits {
	switch p {
	case kv.Leader:
		return leader
	case kv.FastPaxos:
		return fastPaxos
	case kv.Epoch:
		return epoch
	}
	return unknown
}

// Changing is the traits of a table whose protocol is being changed to p: what the protocols of all its ranges have.
func Changing(p kv.Protocol) Traits {
	if p == Default {
		return fastPaxos // the only other one
	}
	return Of(p)
}

// Named are the protocols that a table can name, in the order in which messages list them.
func Named() []kv.Protocol { return []kv.Protocol{kv.Leader, kv.FastPaxos, kv.Epoch} }

// WithBallots is the protocol that has a policy of ballots.
const WithBallots = kv.FastPaxos

// Options of a table that belong to a protocol: the policy of ballots, and after how many options a master opens the ballot to all.
const (
	BallotsOption = "fast_paxos_ballots"
	GammaOption   = "fast_paxos_gamma"
)

// Settings of a session that belong to a protocol.
const (
	// MaxStaleness is how old the rows may be that the nearest replica reads.
	MaxStaleness = "fast_paxos_max_staleness"
	// ReadAfter is a moment that reads have to see.
	ReadAfter = "fast_paxos_read_after"
)

// About tells of the settings.
func About(setting string) string {
	switch setting {
	case MaxStaleness:
		return fmt.Sprintf("How old rows of tables with the commit protocol %s may be that the default level reads at the nearest replica; 0: they are read at a majority.", kv.FastPaxos)
	case ReadAfter:
		return fmt.Sprintf("A value of cluster_logical_timestamp() of another session: reads see all that had committed by then, also of tables with the commit protocol %s.", kv.FastPaxos)
	}
	return ""
}

// Leased is the trait of a protocol.
func Leased(p kv.Protocol) bool { // of each request: without a copy of the traits
	switch p {
	case kv.Leader:
		return leader.Leased
	case kv.FastPaxos:
		return fastPaxos.Leased
	case kv.Epoch:
		return epoch.Leased
	}
	return unknown.Leased
}
