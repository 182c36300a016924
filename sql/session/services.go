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
	"meridian/sql/scalar"
	"meridian/sql/schemachange"
	"meridian/sql/virtual"
	"meridian/txn"
)

// Info is what the catalogue needs to know of a session.
type Info = lease.Info

// Ranges answers SHOW RANGES and names nodes for EXPLAIN ANALYZE.
type Ranges interface {
	// Ranges lists the ranges that overlap the span [start, end).
	Ranges(ctx context.Context, start, end []byte) ([]RangeRow, error)
	// Region of a node; empty if unknown.
	Region(n kv.NodeID) string
	// Split makes a range begin at each key, and keeps it so. Unsplit lets such ranges merge with what is before them
	// again; where none begins, it does nothing.
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
	// NonVoters are those of Replicas that serve reads of the past only.
	NonVoters []kv.NodeID
	Bytes     int64
	// WantedVoters there should be, LiveVoters are on nodes that are live. State is "ok", "under-replicated" or "unavailable".
	WantedVoters, LiveVoters int
	State                    string
}

// Services are what sessions are built on.
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
	// Memory is what all sessions of the node may hold; nil bounds nothing. MemoryPerStatement bounds one statement
	// further; zero does not.
	Memory             *memory.Node
	MemoryPerStatement int64
	// PlanCache is how many plans the node keeps (default 4096).
	PlanCache int
	// Notify carries notifications between sessions; nil: between those of this server.
	Notify *notify.Hub
	// Peers are the sessions of other nodes; nil: there are none.
	Peers Peers
	// Gate admits statements; nil: all of them, at once.
	Gate *admission.Gate
	// SlowStatement is logged; zero: none.
	SlowStatement time.Duration
}
