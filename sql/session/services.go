package session

import (
	"context"
	"time"

	"meridian/admission"
	"meridian/clock"
	"meridian/host"
	"meridian/kv"
	"meridian/sql/catalog/lease"
	"meridian/sql/job"
	"meridian/sql/memory"
	"meridian/sql/notify"
	"meridian/sql/opt"
	"meridian/sql/scalar"
	"meridian/sql/schemachange"
	"meridian/sql/virtual"
	"meridian/txn"
)

// Info is the part of a session's state by which the catalogue looks up names.
type Info = lease.Info

// Ranges answers SHOW RANGES and names nodes for EXPLAIN ANALYZE.
type Ranges interface {
	// Ranges lists the ranges that overlap the span [start, end).
	Ranges(ctx context.Context, start, end []byte) ([]RangeRow, error)
	// Region returns the region of a node; empty if it is unknown.
	Region(n kv.NodeID) string
	// Distances are those of rows from this node, as far as it knows them without asking; the zero value if no node is far.
	Distances() opt.Region
	// Locate finds the ranges of rows, as their first reader would, so that Distances knows them. masters: and those of their leaseholders that nobody here has asked for
	// anything, as far as they answer.
	Locate(ctx context.Context, p opt.Place, masters bool) error
	// Refresh asks the leaseholders of the places' ranges, all at the same time, whether these are still as Distances has them, as far as they answer soon.
	Refresh(ctx context.Context, places []opt.Place) error
	// Quorums are those of the rows' ranges that have no leaseholders, as far as this node knows them without asking, each size once.
	Quorums(p opt.Place) []opt.Quorums
	// Split makes a range begin at each key, and protects it from being merged. Unsplit ends that protection; where no range
	// begins, it does nothing.
	Split(ctx context.Context, keys [][]byte) error
	Unsplit(ctx context.Context, keys [][]byte) error
}

// RangeRow is one range of SHOW RANGES.
type RangeRow struct {
	ID          kv.RangeID
	Start, End  []byte
	Leaseholder kv.NodeID
	Replicas    []kv.NodeID
	Localities  []string
	// NonVoters are the non-voting nodes among Replicas.
	NonVoters []kv.NodeID
	// Witnesses are those that vote without having the rows.
	Witnesses []kv.NodeID
	Bytes     int64
	// WantedVoters is the number of voters that the range should have, LiveVoters the number of those on live nodes. State is "ok",
	// "under-replicated" or "unavailable".
	WantedVoters, LiveVoters int
	State                    string
	// Violation says which constraints of its configuration the range violates; empty: none.
	Violation string
}

// Services are the parts of the node that sessions use.
type Services struct {
	Host     *host.Host
	Clock    *clock.Clock
	DB       *txn.DB
	NodeID   func() kv.NodeID
	Catalog  *lease.Manager
	Schema   *schemachange.Executor
	Virtual  *virtual.Provider
	Seqs     *lease.Sequences
	Jobs     *job.Registry
	Ranges   Ranges
	Registry *scalar.Registry
	// Memory bounds the memory of all sessions of the node, and MemoryPerStatement that of one statement; nil and zero: there is no
	// bound.
	Memory             *memory.Node
	MemoryPerStatement int64
	// TLS: the node offers TLS to clients, so its setting ssl is on.
	TLS bool
	// PlanCache is the number of plans that the node keeps (default 4096).
	PlanCache int
	// Notify distributes notifications; nil: among the sessions of this server only.
	Notify *notify.Hub
	// Peers reaches the sessions of other nodes; nil: there are none.
	Peers Peers
	// Gate admits statements; nil: none has to wait.
	Gate *admission.Gate
	// Region is the region of the node; empty: it has none.
	Region string
	// SlowStatement is the duration from which a statement is logged; zero: none is.
	SlowStatement time.Duration
}
